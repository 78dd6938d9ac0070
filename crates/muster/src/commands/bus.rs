//! `muster bus`: the coordination bus. Never needs the database, a running server or an account.

mod doctor;
mod serve;
pub(crate) mod settings;
mod token;

use std::path::{Path, PathBuf};

use muster_bus::limits::Limits;
use muster_bus::transports::{self, TransportKind};
use muster_bus::{BusError, Home, Mode, SeatId};
use muster_core::Clock;
use serde_json::json;

use crate::cli::{Bus, Init};
use crate::output::{self, Failure};

pub(super) async fn run(command: Bus, json: bool) -> Result<(), Failure> {
    match command {
        Bus::Serve(args) => serve::run(&args).await,
        Bus::Token { dir, command } => token::run(&open(dir.as_deref())?, command, json),
        Bus::Doctor(args) => doctor::run(&args, json),
    }
}

/// `muster init`: chooses how the bus's directory is shared and which transport this machine uses, and shows both.
pub(super) fn init(args: &Init, json: bool) -> Result<(), Failure> {
    let foreign = muster_bus::home::foreign_traces(&folder(args.dir.as_deref())?);
    let home = open(args.dir.as_deref())?;
    let mode = match args.mode {
        Some(crate::cli::BusMode::Native) => Mode::Native,
        Some(crate::cli::BusMode::Shared) => Mode::Shared,
        None if foreign => Mode::Shared,
        None => home.mode(),
    };
    home.choose(mode).map_err(refused)?;
    let chosen = transports::configured(&home, |_| None)
        .ok()
        .map(|chosen| chosen.kind);
    let kind = match (args.transport, chosen) {
        (Some(crate::cli::BusTransport::Herdr), _) => TransportKind::Herdr,
        (Some(crate::cli::BusTransport::TmuxPushRemote), _) => TransportKind::TmuxPushRemote,
        (None, Some(kind)) => kind,
        // Inside herdr its own panes are what there is to type into; everywhere else a pusher beside the agent, or nothing.
        (None, None) if std::env::var_os("HERDR_ENV").is_some() => TransportKind::Herdr,
        (None, None) => TransportKind::TmuxPushRemote,
    };
    transports::choose(&home, kind).map_err(refused)?;
    let mode = match mode {
        Mode::Native => "native",
        Mode::Shared => "shared",
    };
    let file = home.root().join("config.json");
    if json {
        return output::document(&json!({
            "dir": home.root(), "config": file, "mode": mode, "transport": kind.as_str()
        }));
    }
    output::line(&format!(
        "wrote {}: mode {mode}{}, transport {kind}\nnext: claude mcp add --scope user agent-coord -- muster bus serve",
        file.display(),
        if foreign {
            " (another program has written here and may still run)"
        } else {
            ""
        },
    ))
}

/// The directory: `--dir`, else `AGENT_COORD_DIR`, else `CLAUDE_COORD_DIR`, else `agent-coord` in the home folder.
fn folder(dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = dir
        .map(Path::to_owned)
        .or_else(|| named("AGENT_COORD_DIR"))
        .or_else(|| named("CLAUDE_COORD_DIR"))
    {
        return Ok(dir);
    }
    std::env::home_dir()
        .map(|home| home.join("agent-coord"))
        .ok_or_else(|| {
            Failure::refused(
                "no_home",
                "there is no home folder to keep the bus in; name one with AGENT_COORD_DIR",
            )
        })
}

fn open(dir: Option<&Path>) -> Result<Home, Failure> {
    let (limits, said) = Limits::of(|name| std::env::var(name).ok());
    for sentence in said {
        output::notice(&format!("muster: {sentence}"));
    }
    Home::open(&folder(dir)?, limits, Clock::system()).map_err(refused)
}

fn seat(id: &str) -> Result<SeatId, Failure> {
    SeatId::parse(id).map_err(|error| Failure::usage(error.to_string()))
}

fn refused(error: BusError) -> Failure {
    Failure::refused(error.code(), error.chain())
}
