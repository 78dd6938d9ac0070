//! Panes of herdr on this machine, through its own socket. Never types into a pane that herdr or its screen does not show to be waiting for input, and never types anything twice.

mod look;
mod socket;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use muster_bus::push::{Delivery, Door, Hold, Outcome, Probe, Screen, Transport, Why};
use muster_bus::transports::TransportKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::process;
use crate::screen::Ghost;
use socket::{Broke, ask, part, place, shown};

/// How long an answer is waited for: herdr gives itself five seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long a prompt may take to be seen at work. herdr itself says after five seconds that nothing happened.
const EFFECT: Duration = Duration::from_secs(8);

/// Between a text and its Enter where herdr does not do it itself: an agent that still takes a paste in swallows an earlier one.
const BEFORE_ENTER: Duration = Duration::from_millis(300);

/// How long a typed command may take to show, and to go.
const SHOWS: Duration = Duration::from_secs(2);

/// Between two looks at a pane.
const LOOK: Duration = Duration::from_millis(100);

/// As many rows as herdr reads at most.
const ROWS: usize = 1_000;

/// The panes of one herdr.
#[derive(Debug, Clone)]
pub struct HerdrPanes {
    socket: Result<PathBuf, String>,
    ghost: Ghost,
}

impl HerdrPanes {
    /// The herdr that the environment names: `HERDR_SOCKET_PATH`, else `HERDR_SESSION`, else the one without a name. Nothing is opened.
    pub fn of(env: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            socket: place(env),
            ghost: Ghost::default(),
        }
    }

    /// The herdr that listens at a path.
    pub fn at(socket: &Path) -> Self {
        Self {
            socket: Ok(socket.to_owned()),
            ghost: Ghost::default(),
        }
    }

    /// The same where suggestions that nobody typed are drawn in another way.
    #[must_use]
    pub fn with_ghost(self, ghost: Ghost) -> Self {
        Self { ghost, ..self }
    }

    fn ask(&self, method: &str, params: &Value) -> Result<Value, Broke> {
        self.ask_for(method, params, PATIENCE)
    }

    fn ask_for(&self, method: &str, params: &Value, patience: Duration) -> Result<Value, Broke> {
        match &self.socket {
            Ok(path) => ask(path, method, params, patience),
            Err(why) => Err(Broke::Unsent(why.clone())),
        }
    }

    fn pane(&self, target: &str) -> Result<Pane, Broke> {
        part(
            self.ask("pane.get", &json!({"pane_id": target}))?,
            "pane_info",
            "pane",
        )
    }

    /// Whether a pane may be typed into now, as herdr and its screen show it; its status then.
    fn may_type(&self, target: &str) -> Result<String, Hold> {
        let pane = self.pane(target).map_err(|broke| unseen(&broke))?;
        if pane.pane_id != target {
            return Err(hold(Why::PaneGone, pane.other_name()));
        }
        self.front(target, pane.agent.as_deref())?;
        match pane.agent_status.as_deref() {
            Some("idle" | "done") => {}
            Some("working") => return Err(hold(Why::Busy, "herdr sees the agent at work")),
            Some("blocked") => {
                return Err(hold(Why::Dialog, "herdr sees the agent waiting for a decision"));
            }
            _ => {
                return Err(hold(
                    Why::UnknownScreen,
                    "herdr does not know what the agent is doing",
                ));
            }
        }
        if pane.scroll.is_some_and(|scroll| scroll.offset_from_bottom > 0) {
            return Err(hold(
                Why::CopyMode,
                "somebody has scrolled back in the pane, so that its input cannot be seen",
            ));
        }
        let screen = self.visible(target).map_err(|broke| unseen(&broke))?;
        look::judge(&screen, &self.ghost)?;
        Ok(pane.agent_status.unwrap_or_default())
    }

    /// Refuses a pane in which a shell is in front, or something that herdr knows no agent in.
    fn front(&self, target: &str, agent: Option<&str>) -> Result<(), Hold> {
        let asked = self
            .ask("pane.process_info", &json!({"pane_id": target}))
            .and_then(|answer| part::<Processes>(answer, "pane_process_info", "process_info"));
        let front = match asked {
            Ok(front) => front,
            // An older herdr: what it says of the agent is all there is.
            Err(broke) if broke.is_unknown_method() => Processes::default(),
            Err(broke) => return Err(unseen(&broke)),
        };
        if let Some(shell) = front.shell() {
            return Err(hold(
                Why::Shell,
                format!(
                    "the shell {} is in front in the pane, where text would run as commands",
                    shown(shell)
                ),
            ));
        }
        match (agent, front.first()) {
            (Some(_), _) => Ok(()),
            (None, None) => Err(hold(
                Why::Shell,
                "herdr sees no agent in the pane, which is likely a shell",
            )),
            (None, Some(name)) => Err(hold(
                Why::UnknownScreen,
                format!("herdr sees no agent in the pane but '{}'", shown(name)),
            )),
        }
    }

    /// What a pane shows now, with its styling.
    fn visible(&self, target: &str) -> Result<String, Broke> {
        let params = json!({"pane_id": target, "source": "visible", "format": "ansi", "strip_ansi": false});
        part::<Read>(self.ask("pane.read", &params)?, "pane_read", "read").map(|read| read.text)
    }

    /// Gives a text to the agent: by herdr's own call, or by hand where it has none.
    fn prompt(&self, target: &str, text: &str, status: &str) -> Outcome {
        let wait = json!({
            "until": ["idle", "working", "blocked", "done"],
            "timeout_ms": u64::try_from(EFFECT.as_millis()).unwrap_or(u64::MAX),
        });
        let params = json!({"target": target, "text": text, "wait": wait});
        match self.ask_for("agent.prompt", &params, EFFECT + PATIENCE) {
            Ok(answer) => match part::<Pane>(answer, "agent_prompted", "agent") {
                Ok(_) => delivered(Door::Prompt, true),
                Err(broke) => unknown(Door::Prompt, broke.sentence()),
            },
            Err(broke) if broke.is_unknown_method() => self.paste(target, text, status),
            Err(broke) => refused(Door::Prompt, &broke),
        }
    }

    /// The same by an older herdr: a paste, a pause, Enter, and a look at what came of it.
    fn paste(&self, target: &str, text: &str, status: &str) -> Outcome {
        let mut typed = self.ask("pane.send_input", &json!({"pane_id": target, "text": text}));
        if typed.as_ref().is_err_and(Broke::is_unknown_method) {
            // That one has no paste: the marks are muster's own, and none can stand inside an inert text.
            let framed = format!("\u{1b}[200~{text}\u{1b}[201~");
            typed = self.ask("pane.send_text", &json!({"pane_id": target, "text": framed}));
        }
        if let Err(broke) = typed {
            return refused(Door::Paste, &broke);
        }
        thread::sleep(BEFORE_ENTER);
        if let Err(broke) = self.enter(target) {
            return unknown(
                Door::Paste,
                format!("the text was typed and Enter was not: {}", broke.sentence()),
            );
        }
        let worked = || {
            self.pane(target).is_ok_and(|pane| {
                let now = pane.agent_status.unwrap_or_default();
                now != status && now != "unknown"
            })
        };
        if seen(EFFECT, worked) {
            return delivered(Door::Paste, true);
        }
        // A turn that was over between two looks leaves no trace but the empty input.
        if self
            .visible(target)
            .is_ok_and(|screen| look::is_empty(&screen, &self.ghost))
        {
            delivered(Door::Paste, false)
        } else {
            unknown(
                Door::Paste,
                "the agent was not seen to begin, and the text may stand unsent in its input".to_owned(),
            )
        }
    }

    /// Types a command of the agent's own program, and Enter once it stands alone in the input.
    fn command(&self, target: &str, command: &str) -> Outcome {
        if let Err(broke) = self.ask("pane.send_text", &json!({"pane_id": target, "text": command})) {
            return refused(Door::Keys, &broke);
        }
        let stands = || {
            self.visible(target)
                .is_ok_and(|screen| look::stands(&screen, command))
        };
        if !seen(SHOWS, stands) {
            return unknown(
                Door::Keys,
                "the command was typed and does not stand alone in the input, so Enter was not pressed"
                    .to_owned(),
            );
        }
        if let Err(broke) = self.enter(target) {
            return unknown(
                Door::Keys,
                format!("the command was typed and Enter was not: {}", broke.sentence()),
            );
        }
        // Whatever else it shows then: a program that is at work on it, or that asks something.
        let gone = || {
            self.visible(target)
                .is_ok_and(|screen| !look::stands(&screen, command))
        };
        if seen(SHOWS, gone) {
            delivered(Door::Keys, true)
        } else {
            unknown(
                Door::Keys,
                "Enter was pressed and the command still stands in the input".to_owned(),
            )
        }
    }

    fn enter(&self, target: &str) -> Result<Value, Broke> {
        self.ask("pane.send_keys", &json!({"pane_id": target, "keys": ["enter"]}))
    }
}

impl Transport for HerdrPanes {
    fn kind(&self) -> TransportKind {
        TransportKind::Herdr
    }

    fn available(&self) -> Result<(), String> {
        let answer = self.ask("ping", &json!({})).map_err(|broke| broke.sentence())?;
        if answer.get("type").and_then(Value::as_str) == Some("pong") {
            Ok(())
        } else {
            Err("what listens on herdr's socket does not answer as herdr does".to_owned())
        }
    }

    fn probe(&self, target: &str) -> Probe {
        match self.pane(target) {
            Ok(pane) if pane.pane_id == target => Probe::Found,
            Ok(pane) => Probe::Unknown {
                reason: pane.other_name(),
            },
            Err(broke) if broke.code() == Some("pane_not_found") => Probe::Gone {
                reason: broke.sentence(),
            },
            Err(broke) => Probe::Unknown {
                reason: broke.sentence(),
            },
        }
    }

    fn read(&self, target: &str, lines: usize, colors: bool) -> Result<Screen, String> {
        let params = json!({
            "pane_id": target,
            "source": "recent",
            "lines": lines.min(ROWS),
            "format": if colors { "ansi" } else { "text" },
            "strip_ansi": !colors,
        });
        let read: Read = self
            .ask("pane.read", &params)
            .and_then(|answer| part(answer, "pane_read", "read"))
            .map_err(|broke| broke.sentence())?;
        let rows: Vec<&str> = read.text.lines().collect();
        let newest = rows.len().saturating_sub(lines);
        let text = rows.iter().skip(newest).flat_map(|row| [row, "\n"]).collect();
        Ok(Screen {
            text,
            truncated: rows.len() < lines && (read.truncated || rows.len() >= ROWS),
        })
    }

    fn deliver(&self, target: &str, what: &Delivery) -> Outcome {
        let status = match self.may_type(target) {
            Ok(status) => status,
            Err(hold) => return Outcome::Held(hold),
        };
        match what {
            // herdr sees for itself whether the agent took it, so that the text need not be looked for.
            Delivery::Text { text, .. } => self.prompt(target, text.as_str(), &status),
            Delivery::Command(command) => self.command(target, command.as_str()),
        }
    }
}

/// Looks until something is so; whether it ever was.
fn seen(time: Duration, mut so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + time;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOOK);
    }
}

fn delivered(door: Door, verified: bool) -> Outcome {
    Outcome::Delivered { door, verified }
}

fn unknown(door: Door, reason: String) -> Outcome {
    Outcome::Unknown { door, reason }
}

fn hold(why: Why, detail: impl Into<String>) -> Hold {
    Hold {
        why,
        detail: detail.into(),
    }
}

/// A look that failed: nothing was typed.
fn unseen(broke: &Broke) -> Hold {
    let why = match broke.code() {
        Some("pane_not_found") => Why::PaneGone,
        _ => Why::Unavailable,
    };
    hold(why, broke.sentence())
}

/// What a refusal of something that types means. Where it is not sure that nothing was typed, it counts as typed.
fn refused(door: Door, broke: &Broke) -> Outcome {
    let why = match broke {
        Broke::Unsent(_) => Why::Unavailable,
        Broke::Unanswered(_) => return unknown(door, broke.sentence()),
        Broke::Refused { code, .. } => match code.as_str() {
            "pane_not_found" => Why::PaneGone,
            "agent_not_found" => Why::Shell,
            "agent_blocked" => Why::Dialog,
            "agent_not_ready" | "ui_busy" => Why::Busy,
            "invalid_request" | "invalid_params" | "invalid_key" | "feature_disabled" => Why::Unavailable,
            _ => return unknown(door, broke.sentence()),
        },
    };
    Outcome::Held(hold(why, broke.sentence()))
}

/// What herdr knows of a pane; of an agent it says the same and more.
#[derive(Debug, Deserialize)]
struct Pane {
    pane_id: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    agent_status: Option<String>,
    #[serde(default)]
    scroll: Option<Scroll>,
}

impl Pane {
    /// What is wrong when it was asked for under another name: names that stood for one pane may come to stand for another.
    fn other_name(&self) -> String {
        format!("herdr calls this pane '{}'", shown(&self.pane_id))
    }
}

#[derive(Debug, Deserialize)]
struct Scroll {
    #[serde(default)]
    offset_from_bottom: u64,
}

#[derive(Debug, Deserialize)]
struct Read {
    text: String,
    #[serde(default)]
    truncated: bool,
}

/// What runs in the front of a pane.
#[derive(Debug, Default, Deserialize)]
struct Processes {
    #[serde(default)]
    foreground_processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Process {
    name: String,
}

impl Processes {
    fn first(&self) -> Option<&str> {
        self.foreground_processes
            .first()
            .map(|process| process.name.as_str())
    }

    /// The shell in front, if there is nothing but shells: an agent that a script started stands beside one.
    fn shell(&self) -> Option<&str> {
        let first = self.first()?;
        self.foreground_processes
            .iter()
            .all(|process| process::shell_name(&process.name).is_some())
            .then_some(first)
    }
}
