//! tmux panes as a transport: looks, types once, looks again, presses Enter once, and says honestly what came of it. Never types into a pane that it does not understand, and never presses Enter on what it did not put there.

mod typing;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_bus::push::{
    ControlCommand, Delivery, Door, Hold, Outcome, Probe, Screen as Shown, Transport, Why,
};
use muster_bus::transports::TransportKind;
use muster_core::text;

use crate::claude::{self, Found, Session};
use crate::composer::{Input, Program};
use crate::guard::{self, Seen, Verdict, hold};
use crate::pane_lock;
use crate::process;
use crate::settings::Settings;
use crate::tmux::{Failure, Known, Look, PaneId, Server, ServerId, Tmux};

/// Between two looks.
const TICK: Duration = Duration::from_millis(30);

/// The panes of one tmux server.
#[derive(Debug)]
pub struct TmuxPanes {
    tmux: Tmux,
    settings: Settings,
    known: Known,
    /// Sessions that did not take what came through their socket.
    deaf: Mutex<HashSet<(u32, u64)>>,
    /// The program in front of each pane.
    seen: Mutex<HashMap<PaneId, FirstSeen>>,
    /// The session that was last found in each pane: its process and when that began.
    found: Mutex<HashMap<PaneId, (u32, u64)>>,
}

/// A program, by its process and when that began where that is known, and when its input was first seen.
type FirstSeen = (Option<(u32, u64)>, Instant);

/// A pane that may be typed into.
struct Open {
    look: Look,
    input: Input,
}

/// What is typed, and the word by which it is found where it was taken.
struct Typed<'a> {
    door: Door,
    text: &'a str,
    command: Option<ControlCommand>,
    token: String,
}

impl TmuxPanes {
    /// The panes of a server. Removes buffers that a deliverer left there when it died.
    pub fn new(server: Server, settings: Settings) -> Self {
        let tmux = Tmux::new(server);
        tmux.sweep();
        Self {
            tmux,
            settings,
            known: Known::default(),
            deaf: Mutex::new(HashSet::new()),
            seen: Mutex::new(HashMap::new()),
            found: Mutex::new(HashMap::new()),
        }
    }

    /// The number of the pane that `words` name: `%7`, `SESSION`, `SESSION:WINDOW` or `SESSION:WINDOW.PANE`, each to the letter. From then on
    /// the pane counts as gone when another server has one of this number.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub fn resolve(&self, words: &str) -> Result<String, String> {
        let pane = match PaneId::parse(words) {
            Some(pane) => pane,
            None => self.named(words)?,
        };
        let server = self.tmux.find(pane).map_err(|failure| failure.to_string())?;
        if self.known.is_same(pane, server) {
            Ok(pane.to_string())
        } else {
            Err(other_server(pane).detail)
        }
    }

    fn named(&self, words: &str) -> Result<PaneId, String> {
        let panes = self.tmux.panes().map_err(|failure| failure.to_string())?;
        let mut found = panes.iter().filter(|pane| pane.is(words));
        let shown = text::terminal(&words.chars().take(100).collect::<String>());
        match (found.next(), found.next()) {
            (Some(pane), None) => Ok(pane.id),
            (None, _) => Err(format!(
                "tmux has no pane '{shown}'; name it as %7, SESSION, SESSION:WINDOW or SESSION:WINDOW.PANE"
            )),
            (Some(_), Some(_)) => Err(format!(
                "'{shown}' names more than one pane; name it by its number, which `tmux list-panes -a` prints"
            )),
        }
    }

    fn attempt(&self, target: &str, what: &Delivery) -> Result<Outcome, Hold> {
        let pane = PaneId::parse(target).ok_or_else(|| {
            let shown = text::terminal(&target.chars().take(64).collect::<String>());
            hold(
                Why::PaneGone,
                format!("'{shown}' is not the number of a tmux pane, as %7"),
            )
        })?;
        let server = self.server(pane)?;
        let name = format!(
            "{}-{}-{}",
            server.pid,
            server.start,
            pane.to_string().trim_start_matches('%')
        );
        let _one_hand = pane_lock::take(&name).map_err(|why| hold(Why::Unavailable, why))?;
        let typed = match what {
            Delivery::Text { text, token } => {
                if let Some(outcome) = self.by_socket(pane, text.as_str(), token)? {
                    return Ok(outcome);
                }
                Typed {
                    door: Door::Paste,
                    text: text.as_str(),
                    command: None,
                    token: token.clone(),
                }
            }
            Delivery::Command(command) => Typed {
                door: Door::Keys,
                text: command.as_str(),
                command: Some(*command),
                token: format!("<command-name>{command}</command-name>"),
            },
        };
        self.by_typing(pane, &typed)
    }

    fn server(&self, pane: PaneId) -> Result<ServerId, Hold> {
        let server = self.tmux.find(pane).map_err(|failure| unreached(&failure))?;
        if self.known.is_same(pane, server) {
            Ok(server)
        } else {
            Err(other_server(pane))
        }
    }

    fn look(&self, pane: PaneId) -> Result<Look, Hold> {
        let look = self.tmux.look(pane).map_err(|failure| unreached(&failure))?;
        if self.known.is_same(pane, look.server) {
            Ok(look)
        } else {
            Err(other_server(pane))
        }
    }

    fn session(&self, pane: PaneId, look: &Look) -> Option<Session> {
        match self.find(pane, look) {
            Found::Session(session) => Some(session),
            Found::None | Found::Died(_) | Found::Odd(_) => None,
        }
    }

    /// The session in a pane, or what became of the one that was.
    fn find(&self, pane: PaneId, look: &Look) -> Found {
        let usual = self.settings.claude_folder.as_deref();
        let now = claude::find(pane, look.server, look.pane_pid, usual);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match &now {
            Found::Session(session) => {
                found.insert(pane, (session.pid, session.start));
            }
            // Its file may have been swept since, by another session.
            Found::None => {
                if let Some((pid, start)) = found.get(&pane).copied()
                    && process::stat(pid).is_none_or(|stat| stat.start != start)
                {
                    let front = process::stat(look.pane_pid).and_then(|stat| stat.front);
                    let begun = front.and_then(process::stat).map(|stat| stat.start);
                    if begun.is_some_and(|begun| begun <= start) {
                        return Found::Died(pid);
                    }
                    found.remove(&pane);
                }
            }
            Found::Died(_) | Found::Odd(_) => {}
        }
        now
    }

    /// One look and its judgement.
    fn judge(&self, pane: PaneId) -> Result<Open, Hold> {
        let look = self.look(pane)?;
        let found = self.find(pane, &look);
        let session = match &found {
            Found::Session(session) => Some(session),
            Found::None | Found::Died(_) | Found::Odd(_) => None,
        };
        let seen = Seen {
            pane: Some(&look.pane),
            screen: Some(&look.screen),
            claude: session.map(|session| &session.status),
            ghost: &self.settings.ghost,
            pause: self.settings.pause,
        };
        match (guard::judge(&seen), &found) {
            (Verdict::Paste(input), Found::Died(pid)) if input.program == Program::ClaudeCode => {
                Err(left_behind(*pid))
            }
            (Verdict::Paste(input), _) => Ok(Open { look, input }),
            (Verdict::Hold(hold), _) => Err(hold),
        }
    }

    /// Through the inbox socket of the session in the pane, if there is one that takes messages: it leaves drafts alone and runs nothing of the
    /// text. `None` when it is not to be used.
    fn by_socket(&self, pane: PaneId, text: &str, token: &str) -> Result<Option<Outcome>, Hold> {
        if !self.settings.sockets {
            return Ok(None);
        }
        let look = self.look(pane)?;
        let Some(session) = self.session(pane, &look) else {
            return Ok(None);
        };
        let number = (session.pid, session.start);
        let is_deaf = self
            .deaf
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&number);
        if look.pane.dead || is_deaf || session.socket.is_none() || session.holds_messages() {
            return Ok(None);
        }
        let Ok(mut stream) = session.open() else {
            return Ok(None);
        };
        // Asked for only now: the message goes to whoever the session is at this moment.
        let Some(session) = session.again() else {
            return Ok(None);
        };
        match &session.status {
            guard::Status::Idle => {}
            guard::Status::Busy => return Err(hold(Why::Busy, "Claude Code is at work".to_owned())),
            guard::Status::Waiting(what) => {
                let words = format!("Claude Code waits for an answer: {}", text::terminal(what));
                return Err(hold(Why::Dialog, words));
            }
            guard::Status::Other(_) => return Ok(None),
        }
        let mark = session.mark();
        let door = Door::ClaudeSocket;
        if let Err(error) = session.send(&mut stream, text) {
            let reason = format!("the session's socket broke off while the text was sent: {error}");
            return Ok(Some(Outcome::Unknown { door, reason }));
        }
        let end = Instant::now() + self.settings.patience;
        loop {
            if session.took(&mark, token) {
                return Ok(Some(Outcome::Delivered { door, verified: true }));
            }
            if Instant::now() > end {
                break;
            }
            std::thread::sleep(TICK);
        }
        self.deaf
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number);
        let reason = "the session's socket took the text, and it did not appear in the session's transcript; the next one is pasted";
        Ok(Some(Outcome::Unknown {
            door,
            reason: reason.to_owned(),
        }))
    }
}

/// Nobody reads what is typed there but whatever started it.
fn left_behind(pid: u32) -> Hold {
    let words = format!(
        "the Claude Code of this pane (process {pid}) has ended without a word, and what started it is in front: the input on the screen is only what was left there"
    );
    hold(Why::UnknownScreen, words)
}

fn unreached(failure: &Failure) -> Hold {
    let why = match failure {
        Failure::NoPane | Failure::NoServer(_) => Why::PaneGone,
        Failure::Fault(_) => Why::Unavailable,
    };
    hold(why, failure.to_string())
}

fn other_server(pane: PaneId) -> Hold {
    let words = format!(
        "the tmux server is another one than when the pane {pane} was first seen, so {pane} is another pane now; attach again"
    );
    hold(Why::PaneGone, words)
}

impl Transport for TmuxPanes {
    fn kind(&self) -> TransportKind {
        TransportKind::TmuxPushRemote
    }

    fn available(&self) -> Result<(), String> {
        let version = self.tmux.version()?;
        if is_too_old(&version) {
            return Err(format!(
                "{} is too old: muster needs tmux 3.2 or newer to look and type in one step",
                text::terminal(&version)
            ));
        }
        self.tmux.panes().map(drop).map_err(|failure| failure.to_string())
    }

    fn probe(&self, target: &str) -> Probe {
        let Some(pane) = PaneId::parse(target) else {
            let reason = "that is not the number of a tmux pane, as %7".to_owned();
            return Probe::Gone { reason };
        };
        match self.server(pane) {
            Ok(_) => Probe::Found,
            Err(hold) if hold.why.is_stale() => Probe::Gone { reason: hold.detail },
            Err(hold) => Probe::Unknown { reason: hold.detail },
        }
    }

    fn read(&self, target: &str, lines: usize, colors: bool) -> Result<Shown, String> {
        let pane = PaneId::parse(target).ok_or("that is not the number of a tmux pane, as %7")?;
        self.server(pane).map_err(|hold| hold.detail)?;
        let screen = self
            .tmux
            .rows(pane, lines)
            .map_err(|failure| failure.to_string())?;
        let end = screen
            .rows
            .iter()
            .rposition(|row| !row.is_blank())
            .map_or(0, |at| at + 1);
        let newest = screen
            .rows
            .get(end.saturating_sub(lines)..end)
            .unwrap_or_default();
        let mut text = String::new();
        for (at, row) in newest.iter().enumerate() {
            if !colors {
                text.push_str(&row.text());
            } else if at == 0 {
                text.push_str(&row.begins.sgr());
                text.push_str(&row.raw);
            } else {
                text.push_str(&row.raw);
            }
            text.push('\n');
        }
        Ok(Shown {
            text,
            truncated: false,
        })
    }

    fn deliver(&self, target: &str, what: &Delivery) -> Outcome {
        self.attempt(target, what).unwrap_or_else(Outcome::Held)
    }
}

/// `tmux 3.3a`, `tmux next-3.5`. One whose version cannot be read is taken for a new one.
fn is_too_old(version: &str) -> bool {
    let numbers: String = version
        .chars()
        .skip_while(|char| !char.is_ascii_digit())
        .take_while(|char| char.is_ascii_digit() || *char == '.')
        .collect();
    let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) < (3, 2),
        (None, _) => false,
    }
}
