//! Whether a pane may be typed into: a pure judgement of what was seen of it. When in doubt the answer is no, since a refusal costs a second try and a wrong keystroke cannot be taken back.

use std::time::Duration;

use muster_bus::push::{Hold, Why};
use muster_core::text;

use crate::composer::{self, Filling, Input, Look};
use crate::screen::{Ghost, Screen};

/// What the multiplexer and the system say of a pane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Pane {
    /// Its program has ended.
    pub dead: bool,
    /// It takes no input.
    pub input_off: bool,
    /// It is in copy mode or another mode of the multiplexer.
    pub in_mode: bool,
    /// What is typed in it is typed in other panes, too.
    pub synchronized: bool,
    /// The shell in front, if it is one.
    pub shell: Option<String>,
    /// What is in front takes no messages: an editor or a pager, or something that leaves it to the terminal to gather lines, which no program
    /// with an input box of its own does.
    pub deaf: bool,
    /// How long ago a person's client that shows this pane last sent a key, if there is such a client.
    pub typed: Option<Duration>,
    /// The terminal's cursor: column and row from 0.
    pub cursor: Option<(usize, usize)>,
}

/// What a Claude Code session says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It waits for a message.
    Idle,
    /// It is at work.
    Busy,
    /// It waits for an answer to something, in its words.
    Waiting(String),
    /// A word that muster does not know.
    Other(String),
}

/// Everything that is judged.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The pane; `None` when there is none (any more).
    pub pane: Option<&'a Pane>,
    /// Its screen; `None` when it cannot be read.
    pub screen: Option<&'a Screen>,
    /// What the agent's program says of itself, if it says something.
    pub claude: Option<&'a Status>,
    /// How suggestions are drawn.
    pub ghost: &'a Ghost,
    /// A person who pressed a key more recently than this is still typing.
    pub pause: Duration,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be typed into: this box is open and empty.
    Paste(Input),
    /// It may not.
    Hold(Hold),
}

/// Judges.
pub fn judge(seen: &Seen<'_>) -> Verdict {
    match pane(seen).and_then(|()| screen(seen)) {
        Ok(input) => Verdict::Paste(input),
        Err(hold) => Verdict::Hold(hold),
    }
}

/// Everything but the screen: whether a key would reach the agent's program and only it.
///
/// # Errors
/// The reason why not.
pub fn pane(seen: &Seen<'_>) -> Result<(), Hold> {
    let Some(pane) = seen.pane else {
        return Err(hold(Why::PaneGone, "the pane does not exist".to_owned()));
    };
    let refused = [
        (pane.dead, Why::DeadPane, "the program in the pane has ended"),
        (pane.input_off, Why::InputOff, "the pane's input is switched off"),
        (
            pane.in_mode,
            Why::CopyMode,
            "the pane is in copy mode or another mode of tmux; it ends with q or Escape",
        ),
        (
            pane.synchronized,
            Why::Synchronized,
            "the panes of this window are synchronized, so keys would reach every one of them",
        ),
    ];
    if let Some((_, why, words)) = refused.into_iter().find(|(is, _, _)| *is) {
        return Err(hold(why, words.to_owned()));
    }
    if let Some(shell) = &pane.shell {
        let words = format!(
            "{} is in front in the pane, not the agent's program, and text would run as commands",
            text::terminal(shell)
        );
        return Err(hold(Why::Shell, words));
    }
    if pane.deaf {
        let words = "what is in front in the pane takes no messages, so an input box on the screen is only drawn there, and the next shell would run the text";
        return Err(hold(Why::UnknownScreen, words.to_owned()));
    }
    if pane.typed.is_some_and(|ago| ago < seen.pause) {
        let words = "a person pressed a key in this pane a moment ago".to_owned();
        return Err(hold(Why::SomeoneTyping, words));
    }
    Ok(())
}

fn screen(seen: &Seen<'_>) -> Result<Input, Hold> {
    if let Some(Status::Waiting(what)) = seen.claude {
        let words = format!("Claude Code waits for an answer: {}", text::terminal(what));
        return Err(hold(Why::Dialog, words));
    }
    let cursor = seen.pane.and_then(|pane| pane.cursor);
    let look = seen
        .screen
        .map_or(Look::Unknown, |screen| composer::look(screen, cursor));
    let busy = matches!(seen.claude, Some(Status::Busy));
    let input = match look {
        Look::Dialog(row) => {
            let words = format!("a question or a menu is open: {}", quoted(&row));
            return Err(hold(Why::Dialog, words));
        }
        Look::Unknown if busy => return Err(at_work("Claude Code")),
        Look::Unknown => {
            let words = "the screen shows no input box that muster knows (Claude Code, Codex and Gemini CLI)";
            return Err(hold(Why::UnknownScreen, words.to_owned()));
        }
        Look::Input(input) => input,
    };
    if input.shell {
        let words = format!("the input is in shell mode: {}", quoted_rows(&input));
        return Err(hold(Why::Draft, words));
    }
    if input.filling(seen.ghost) == Filling::Draft {
        let words = format!("unsent text stands in the input: {}", quoted_rows(&input));
        return Err(hold(Why::Draft, words));
    }
    if let Some(mode) = input.takes_orders() {
        let words = format!("the input is in vim's {mode} mode, where keys are commands and no text");
        return Err(hold(Why::InputOff, words));
    }
    if busy || input.working {
        return Err(at_work(input.program.as_str()));
    }
    if let Some(Status::Other(word)) = seen.claude {
        let words = format!(
            "Claude Code says that it is '{}', which muster does not know",
            text::terminal(word)
        );
        return Err(hold(Why::UnknownScreen, words));
    }
    Ok(input)
}

fn at_work(who: &str) -> Hold {
    hold(Why::Busy, format!("{who} is at work"))
}

/// A reason with its sentence.
pub(crate) fn hold(why: Why, detail: String) -> Hold {
    Hold { why, detail }
}

/// Most characters of a screen that a reason quotes.
const QUOTED: usize = 240;

/// A row of a screen with its styling, spelt so that a terminal shows it instead of obeying it.
pub fn quoted(raw: &str) -> String {
    let short: String = raw.trim_end().chars().take(QUOTED).collect();
    format!("\"{}\"", text::terminal(&short))
}

fn quoted_rows(input: &Input) -> String {
    let first = input
        .raw
        .iter()
        .zip(&input.rows)
        .find(|(_, cells)| cells.iter().any(|cell| !cell.is_blank()));
    first
        .or_else(|| input.raw.iter().zip(&input.rows).next())
        .map_or_else(String::new, |(raw, _)| quoted(raw))
}
