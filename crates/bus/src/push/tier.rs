//! Which messages wake their reader at once, which wait, and which are never typed. Pure: never looks at a file, an environment or a clock.

use crate::log::Entry;
use crate::message;

use super::{ControlCommand, Settings};

/// How soon a message is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// At once.
    Now,
    /// With the next one that goes at once, or when it has waited long enough.
    Routine,
}

/// What is known of the receiver when its messages are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hearer<'h> {
    /// It runs gates.
    pub gate_runner: bool,
    /// It is `ci`.
    pub ci: bool,
    /// Whose `SCOPE:` is an order.
    pub trusted: &'h [String],
    /// A prefix that wakes beside the literal ones.
    pub owner_prefix: Option<&'h str>,
}

/// What wakes everybody, whoever says it.
const ALWAYS: [&str; 3] = ["BLOCKER:", "DAVID_DECISION:", "GO:"];
/// What wakes when somebody trusted says it.
const SCOPE: [&str; 2] = ["SCOPE:", "SCOPE CHANGE:"];
/// What wakes those who run gates, and `ci`.
const DONE: &str = "DONE:";

/// How soon a message is pushed. `direct` says that it was sent to the receiver alone. Prefixes count to the letter and from the first one on.
pub fn tier(direct: bool, entry: &Entry, hearer: Hearer<'_>, settings: &Settings) -> Tier {
    let text = message::field(entry, "text").unwrap_or("");
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
    let from = message::field(entry, "from");
    let trusted = || from.is_some_and(|from| hearer.trusted.iter().any(|id| id == from));
    let now = direct
        || !settings.tiers
        || wakes_all(entry)
        || hearer
            .owner_prefix
            .is_some_and(|prefix| !prefix.is_empty() && text.starts_with(prefix))
        || (starts(&SCOPE) && trusted())
        || (starts(&[DONE]) && (settings.gate_runner.unwrap_or(hearer.gate_runner) || hearer.ci));
    if now { Tier::Now } else { Tier::Routine }
}

/// Whether a message wakes everybody who hears it, whoever said it.
pub(crate) fn wakes_all(entry: &Entry) -> bool {
    let text = message::field(entry, "text").unwrap_or("");
    flagged(entry) || ALWAYS.iter().any(|prefix| text.starts_with(prefix))
}

/// Whether a message is a notice of the bus, about what somebody did. It wakes nobody: it is told with whatever comes next.
pub(crate) fn is_notice(entry: &Entry) -> bool {
    is_true(entry, "system")
}

/// Whether the bus itself marked a message as one that must be read now. No tool lets a sender set it.
pub fn flagged(entry: &Entry) -> bool {
    is_true(entry, "urgent")
}

/// Whether a message is marked as a command, which only the bus does.
pub(crate) fn is_command(entry: &Entry) -> bool {
    is_true(entry, "control")
}

fn is_true(entry: &Entry, name: &str) -> bool {
    entry.get(name).and_then(serde_json::Value::as_bool) == Some(true)
}

/// What a message is to a pusher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Text, to be typed as such.
    Text,
    /// A command, to be typed as it is.
    Command(ControlCommand),
    /// Nothing that is ever typed.
    Never(Never),
}

/// Why a message is never typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Never {
    /// Its sender is none of those that the seat allows.
    NotAllowed,
    /// It begins with `/`, after blanks or not, and is no command of the bus.
    Slash,
    /// It is marked as a command and is none of the three.
    NoCommand,
    /// It says nothing.
    Empty,
}

impl Never {
    /// The same for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "the seat's allowlist does not name its sender",
            Self::Slash => "it begins with '/'",
            Self::NoCommand => "it is not one of the three commands",
            Self::Empty => "it has no text",
        }
    }
}

/// What a message is to a pusher whose seat allows only `allowlist`, if it has one. `direct` says that it was sent to the receiver alone.
pub fn sort(direct: bool, entry: &Entry, allowlist: Option<&[String]>) -> Sort {
    let text = message::field(entry, "text").unwrap_or("");
    let from = message::field(entry, "from");
    let allowed = flagged(entry)
        || allowlist.is_none_or(|list| from.is_some_and(|from| list.iter().any(|id| id == from)));
    let command = || match ControlCommand::parse(text) {
        Some(command) => Sort::Command(command),
        None => Sort::Never(Never::NoCommand),
    };
    match first(text) {
        _ if !allowed => Sort::Never(Never::NotAllowed),
        _ if direct && is_command(entry) => command(),
        None => Sort::Never(Never::Empty),
        Some('/') => Sort::Never(Never::Slash),
        Some(_) => Sort::Text,
    }
}

/// The first character of a text that anybody sees.
fn first(text: &str) -> Option<char> {
    text.chars()
        .find(|c| !c.is_whitespace() && (muster_core::text::unseen(*c).is_none()))
}

/// Whether a role is that of somebody who runs gates and whose word on scope counts: `qa`, `gate` or `coordinator` is one of its words.
pub fn runs_gates(role: &str) -> bool {
    words(role).any(|word| ["qa", "gate", "coordinator"].contains(&word.as_str()))
}

/// Whether an id or a role is that of `ci`.
pub fn is_ci(id: &str, role: Option<&str>) -> bool {
    id == "ci" || role.is_some_and(|role| words(role).any(|word| word == "ci"))
}

fn words(role: &str) -> impl Iterator<Item = String> {
    role.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase)
}
