//! `muster bus peek`: what the hooks of an agent's client run at each turn. Never fails a turn, never waits for anybody, and prints nothing but what the client is to hand over.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use muster_bus::limits::Limits;
use muster_bus::peek::Peek;
use muster_bus::{Home, SeatId};
use muster_core::Clock;
use serde::Deserialize;
use serde_json::json;

use super::folder;
use crate::cli::{BusPeek, PeekMode};
use crate::output;

/// How long the client may take to say why it called, once there is something to tell.
const PATIENCE: Duration = Duration::from_millis(250);
/// Most that is kept of what it says: a prompt may be long.
const MAX_INPUT: u64 = 4 * 1024 * 1024;

/// Answers a call by a hook at once, without the parser of the whole command line and without a runtime: a client waits for it at every turn.
/// `None` for everything else, calls for help among it.
pub(crate) fn at_once(args: &[OsString]) -> Option<ExitCode> {
    let [_, bus, peek, rest @ ..] = args else {
        return None;
    };
    if bus != "bus" || peek != "peek" {
        return None;
    }
    let asks = ["-h", "--help", "-V", "--version"].map(OsStr::new);
    if rest.iter().any(|word| asks.contains(&word.as_os_str())) {
        return None;
    }
    let args = match parse(rest) {
        Ok(args) => args,
        Err(sentence) => {
            // Not 2, as other commands end: a client takes that from a hook for an order to stop the turn, or to go on with it.
            output::notice(&format!("muster: {sentence}; see muster bus peek --help"));
            return Some(ExitCode::FAILURE);
        }
    };
    Some(run(&args))
}

fn parse(words: &[OsString]) -> Result<BusPeek, &'static str> {
    let mut args = BusPeek {
        mode: PeekMode::UserPrompt,
        dir: None,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_str().ok_or("an argument is no UTF-8")?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, OsString::from(value)),
            None => (
                text,
                words
                    .next()
                    .ok_or("peek takes --mode=user-prompt|stop and --dir=DIR")?
                    .clone(),
            ),
        };
        match (name, value.to_str()) {
            ("--mode", Some("user-prompt")) => args.mode = PeekMode::UserPrompt,
            ("--mode", Some("stop")) => args.mode = PeekMode::Stop,
            ("--mode", _) => return Err("--mode is user-prompt or stop"),
            ("--dir", _) => args.dir = Some(PathBuf::from(value)),
            _ => return Err("peek takes --mode=user-prompt|stop and --dir=DIR"),
        }
    }
    Ok(args)
}

/// The same for whoever was parsed.
pub(super) fn run(args: &BusPeek) -> ExitCode {
    if let Err(sentence) = tell(args) {
        output::notice(&format!("muster: {sentence}"));
    }
    // Whatever it was, the turn goes on.
    ExitCode::SUCCESS
}

fn tell(args: &BusPeek) -> Result<(), String> {
    let input = Input::begin();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(id) = variable("AGENT_COORD_ID") else {
        return Err("AGENT_COORD_ID is not set, so nothing was read; the hook's command has to name the agent, as in AGENT_COORD_ID=frontend muster bus peek --mode=user-prompt".to_owned());
    };
    let seat = SeatId::parse(&id).map_err(|error| format!("AGENT_COORD_ID: {error}"))?;
    let rooms = variable("AGENT_COORD_INCLUDE_ROOM").is_some_and(|value| value != "0");
    let root = folder(args.dir.as_deref()).map_err(|failure| failure.sentence().to_owned())?;
    let Some(home) = Home::look(&root, Limits::default(), Clock::system()).map_err(|error| error.chain())?
    else {
        return Ok(());
    };
    let peek = Peek::look(&home, &seat, rooms).map_err(|error| error.chain())?;
    for problem in peek.problems() {
        output::notice(&format!("muster: {}", problem.chain()));
    }
    let Some(text) = peek.text() else {
        return confirm(peek);
    };
    let hook = input.heard();
    let text = match args.mode {
        // What a deliverer has just typed is on its way to being marked as read by it.
        PeekMode::UserPrompt if hook.prompt.trim_start().starts_with("[agent-coord]") => return Ok(()),
        PeekMode::UserPrompt => text,
        PeekMode::Stop => {
            if !peek.is_worth_a_turn(hook.stop_hook_active == Some(true)) {
                return Ok(());
            }
            // What cannot be marked as read would keep the agent going for ever.
            peek.try_cursor().map_err(|error| error.chain())?;
            format!("{}\n", json!({"decision": "block", "reason": text}))
        }
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| {
            format!("standard output cannot be written ({error}), so nothing was marked as read")
        })?;
    confirm(peek)
}

fn confirm(peek: Peek<'_>) -> Result<(), String> {
    peek.confirm().map_err(|error| {
        format!(
            "what was told could not be marked as read and comes again: {}",
            error.chain()
        )
    })
}

/// What a client says of the moment in which it calls.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hook {
    /// This turn is one already that a hook asked for.
    stop_hook_active: Option<bool>,
    /// What the user, or whoever types for them, asks the agent.
    prompt: String,
}

/// Standard input, which some clients fill and some leave open.
struct Input {
    begun: Instant,
    heard: Option<Receiver<Hook>>,
}

impl Input {
    fn begin() -> Self {
        let input = std::io::stdin();
        let (sender, heard) = channel();
        let reader = move || {
            let mut text = Vec::new();
            let mut lock = input.lock();
            let read = lock.by_ref().take(MAX_INPUT).read_to_end(&mut text);
            if read.is_ok() {
                // Nobody waits for it when there was nothing to tell.
                let _ = sender.send(serde_json::from_slice(&text).unwrap_or_default());
            }
        };
        let typed = std::io::stdin().is_terminal();
        let began = !typed && std::thread::Builder::new().spawn(reader).is_ok();
        Self {
            begun: Instant::now(),
            heard: began.then_some(heard),
        }
    }

    /// What was said by now; nothing, where nothing was said in time.
    fn heard(&self) -> Hook {
        let left = PATIENCE.saturating_sub(self.begun.elapsed());
        self.heard
            .as_ref()
            .and_then(|heard| heard.recv_timeout(left).ok())
            .unwrap_or_default()
    }
}
