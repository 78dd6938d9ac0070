//! The human seat: a person in the same room as the agents. Never shows a byte of a peer that a terminal would act on.

mod app;
mod bounded;
mod commands;
mod completion;
mod editor;
mod keys;
mod person;
mod plain;
mod post;
mod screen;
mod terminal;
mod text;
mod timeline;
mod typing;
mod view;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use muster_bus::doctor::{self, doctor_at};
use muster_bus::limits::Limits;
use muster_bus::transports::Panes;
use muster_bus::{BusError, Home, SeatId};
use muster_core::Clock;

use person::Person;
use text::Watch;

/// How to sit down.
#[derive(Debug, Clone)]
pub struct Options {
    /// The bus's directory.
    pub dir: PathBuf,
    /// The limits in force there.
    pub limits: Limits,
    /// Who the person is; the name of the user unless given.
    pub id: Option<String>,
    /// Line by line, for pipes and screen readers, where a full screen could be.
    pub plain: bool,
    /// Only check the directory, and with `true` repair what is safe to.
    pub doctor: Option<bool>,
}

/// Why the seat could not be taken, or was left early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// No id to sit down with.
    #[error("{0}")]
    Usage(String),
    /// The id is in use, by all that can be told.
    #[error(
        "{0}. For a person: take another id with --id, or, if nobody else is you, start with AGENT_COORD_BOUND_AGENT={1} in the environment"
    )]
    InUse(BusError, SeatId),
    /// The bus refused or failed.
    #[error("{}", .0.chain())]
    Bus(#[from] BusError),
    /// The terminal or a pipe failed. The person was unregistered.
    #[error("the terminal could not be used: {0}; nobody is registered by this any more")]
    Terminal(#[from] std::io::Error),
    /// Lines of a script were not carried out; each was told of in its place.
    #[error("lines that were not carried out: {0}; each has its reason in the output")]
    Refused(usize),
    /// The doctor found errors, and printed them.
    #[error("")]
    Unhealthy,
}

impl ChatError {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::InUse(error, _) | Self::Bus(error) => error.code(),
            Self::Terminal(_) => "io",
            Self::Refused(_) => "refused",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Takes the seat and returns when the person has left it: on `/quit`, at the end of the input, on Ctrl-C, Ctrl-D and the signals that end a
/// program. They are unregistered then, and the terminal is as it was.
///
/// # Errors
/// [`ChatError`]. With `doctor`, [`ChatError::Unhealthy`] after the report was printed.
pub fn run(options: Options) -> Result<(), ChatError> {
    if let Some(fix) = options.doctor {
        return check(&options, fix);
    }
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let bound = environment("AGENT_COORD_BOUND_AGENT")
        .map(|id| SeatId::parse(&id))
        .transpose()?;
    let seat = match (&options.id, &bound) {
        (Some(id), _) => SeatId::parse(id)?,
        (None, Some(bound)) => bound.clone(),
        (None, None) => user(environment)?,
    };
    let home = Home::open(&options.dir, options.limits, Clock::system())?;
    let person =
        Person::enter(&home, &seat, Panes::of(environment), bound.as_ref()).map_err(|error| match error {
            BusError::Live { .. } | BusError::CannotVerify { .. } => ChatError::InUse(error, seat.clone()),
            other => other.into(),
        })?;
    let watch = Watch::system();
    let dumb = environment("TERM").is_none_or(|term| term == "dumb");
    let (typed, shown) = (std::io::stdin().is_terminal(), std::io::stdout().is_terminal());
    if typed && shown && !dumb && !options.plain {
        let colours = view::Colours(environment("NO_COLOR").is_none());
        screen::run(person, watch, colours)
    } else if typed && shown {
        plain::at_terminal(person, watch, dumb)
    } else {
        plain::in_pipe(person, watch)
    }
}

/// How many columns the terminal of this program has; 80 where it does not say.
pub fn columns() -> usize {
    const COLUMNS: usize = 80;
    crossterm::terminal::size().map_or(COLUMNS, |(columns, _)| match columns {
        0 => COLUMNS,
        columns => columns.into(),
    })
}

/// One line of outside text as the rows of a terminal with so many columns. Nothing in it is acted on, and all rows but the first are set off.
pub fn folded(text: &str, columns: usize) -> Vec<String> {
    text::folded(&text::line(text), columns)
}

/// The user's name, if it can be an id.
fn user(environment: impl Fn(&str) -> Option<String>) -> Result<SeatId, ChatError> {
    let account = || {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid());
        user.ok().flatten().map(|user| user.name)
    };
    let name = environment("USER")
        .or_else(|| environment("LOGNAME"))
        .or_else(account)
        .ok_or_else(|| ChatError::Usage("who you are cannot be told; say it with --id ID".to_owned()))?;
    SeatId::parse(&name).map_err(|error| {
        ChatError::Usage(format!(
            "your user name {} cannot be an id here ({error}); choose one with --id ID",
            text::line(&name)
        ))
    })
}

fn check(options: &Options, fix: bool) -> Result<(), ChatError> {
    let how = doctor::Options {
        fix,
        ..doctor::Options::default()
    };
    let report = doctor_at(&options.dir, options.limits, &Clock::system(), &how)?;
    let mut out = std::io::stdout().lock();
    for line in person::report(&report) {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    if report.healthy {
        Ok(())
    } else {
        Err(ChatError::Unhealthy)
    }
}
