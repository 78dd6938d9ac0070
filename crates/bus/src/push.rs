//! Push: bringing what is unread into an agent's own pane. The words here are the seam between the rules (what is pushed, when, as which text) and the hands (which pane, is it safe, was it taken). Never types anything itself.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::SeatId;
use crate::transports::TransportKind;

/// The hands: one kind of pane on this machine. All calls block; a caller gives them a thread.
///
/// A transport looks before it types, types a text once, presses Enter at most once for it, and says honestly what came of it.
pub trait Transport: Send + Sync {
    /// Which kind.
    fn kind(&self) -> TransportKind;

    /// Whether panes can be reached at all.
    ///
    /// # Errors
    /// Why not, as a sentence.
    fn available(&self) -> Result<(), String>;

    /// Whether a pane is there. Also asked for one that cannot be, to see that the answer is a real one.
    fn probe(&self, target: &str) -> Probe;

    /// What a pane shows: at most `lines` rows, the newest, with their styling when `colors`.
    ///
    /// # Errors
    /// Why it cannot be read, as a sentence. Never an empty or an old screen instead.
    fn read(&self, target: &str, lines: usize, colors: bool) -> Result<Screen, String>;

    /// Types one thing into a pane, if the pane is one that may be typed into now, and waits until it is known what came of it.
    fn deliver(&self, target: &str, what: &Delivery) -> Outcome;
}

/// What a look for a pane found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Probe {
    /// It is there.
    Found,
    /// It is not.
    Gone {
        /// In the transport's words.
        reason: String,
    },
    /// Nobody can tell.
    Unknown {
        /// In the transport's words.
        reason: String,
    },
}

/// What a pane shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// Its rows, each ended by a line break.
    pub text: String,
    /// Fewer rows came than the pane has of those that were asked for.
    pub truncated: bool,
}

/// What is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A block of text for the agent to read.
    Text {
        /// The text.
        text: text::Inert,
        /// A word that stands in the text and in no other: by it the text is found again where the agent's program keeps what it was told.
        token: String,
    },
    /// A command of the agent's own program, typed as it is.
    Command(ControlCommand),
}

/// The only commands that are ever typed into an agent's own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ControlCommand {
    /// Empties its context.
    #[serde(rename = "/clear")]
    Clear,
    /// Shortens its context.
    #[serde(rename = "/compact")]
    Compact,
    /// Reads its skills again.
    #[serde(rename = "/reload-skills")]
    ReloadSkills,
}

impl ControlCommand {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Clear, Self::Compact, Self::ReloadSkills];

    /// Reads one, to the letter: no argument, no blank.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.as_str() == text)
    }

    /// As it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clear => "/clear",
            Self::Compact => "/compact",
            Self::ReloadSkills => "/reload-skills",
        }
    }
}

impl fmt::Display for ControlCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was typed and sent off.
    Delivered {
        /// Which way it went.
        door: Door,
        /// It was seen to be taken, not only sent.
        verified: bool,
    },
    /// Nothing was typed, so it may be tried again.
    Held(Hold),
    /// Something may have been typed or sent. It is never tried again by itself.
    Unknown {
        /// Which way it went.
        door: Door,
        /// What is not known, as a sentence.
        reason: String,
    },
}

/// The way a text took into a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Bracketed paste and one Enter.
    Paste,
    /// Keys, one after the other, and one Enter.
    Keys,
    /// herdr's own prompt call.
    Prompt,
    /// The inbox socket that a Claude Code session publishes.
    ClaudeSocket,
}

impl Door {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paste => "paste",
            Self::Keys => "keys",
            Self::Prompt => "prompt",
            Self::ClaudeSocket => "claude-socket",
        }
    }
}

/// Why nothing was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The reason.
    pub why: Why,
    /// The same for a person: what was seen, with the styled line where there is one, harmless for a terminal.
    pub detail: String,
}

/// The reasons for which nothing is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The pane does not exist (any more).
    PaneGone,
    /// Its program has ended.
    DeadPane,
    /// A shell is in front: text would run as commands.
    Shell,
    /// Somebody's unsent text stands in the input.
    Draft,
    /// A permission dialog, a menu or another question is open.
    Dialog,
    /// The pane is in copy mode or another mode of the multiplexer.
    CopyMode,
    /// The pane takes no input.
    InputOff,
    /// What is typed here would also reach other panes.
    Synchronized,
    /// A person is typing in this pane.
    SomeoneTyping,
    /// The agent is at work.
    Busy,
    /// The screen is none that muster knows, so nothing is known of what typing would do.
    UnknownScreen,
    /// The transport itself cannot be reached.
    Unavailable,
}

impl Why {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PaneGone => "pane-gone",
            Self::DeadPane => "dead-pane",
            Self::Shell => "shell",
            Self::Draft => "draft",
            Self::Dialog => "dialog",
            Self::CopyMode => "copy-mode",
            Self::InputOff => "input-off",
            Self::Synchronized => "synchronized",
            Self::SomeoneTyping => "someone-typing",
            Self::Busy => "busy",
            Self::UnknownScreen => "unknown-screen",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether the seat itself is gone, so that waiting does not help.
    pub fn is_stale(self) -> bool {
        matches!(self, Self::PaneGone | Self::DeadPane)
    }
}

/// Where unread messages come from and where it is noted that they were delivered: the files, or the same over the wire. All calls block.
pub trait Feed {
    /// Everything unread of the seat's inbox and, if wanted, of the channels it joined, oldest first in each; nothing is marked read. Waits up to
    /// `wait` for something that was not in the last answer; may return earlier with nothing new.
    ///
    /// # Errors
    /// [`FeedError`].
    fn pending(&mut self, wait: Duration) -> Result<Pending, FeedError>;

    /// Marks as read everything of one source up to and with the entry `up_to`, if that entry is still unread; otherwise changes nothing.
    ///
    /// # Errors
    /// [`FeedError`].
    fn ack(&mut self, source: &str, up_to: &str) -> Result<(), FeedError>;

    /// Writes a receipt for a message.
    ///
    /// # Errors
    /// [`FeedError`].
    fn receipt(&mut self, receipt: &Report) -> Result<(), FeedError>;

    /// Says that the seat is there.
    ///
    /// # Errors
    /// [`FeedError`].
    fn heartbeat(&mut self) -> Result<(), FeedError>;

    /// Tells whoever asks for the seat's status how its push stands. Called when that changes; a feed that has nowhere to tell it does nothing.
    ///
    /// # Errors
    /// [`FeedError`].
    fn standing(&mut self, _: &Standing) -> Result<(), FeedError> {
        Ok(())
    }
}

/// How the push to a seat stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Standing {
    /// How many messages were not typed because of what they are or who sent them. They stay in their files.
    pub suppressed: u64,
    /// How many may have been typed and are not typed again. They stay unread until their reader reads them.
    pub unconfirmed: u64,
    /// Why nothing is typed now, in words; `None` when nothing holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The pane itself is gone, so that waiting does not help.
    pub stale: bool,
}

/// What a feed has. It goes over the wire as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pending {
    /// Each source that has something unread.
    pub sources: Vec<PendingSource>,
    /// The receiver runs gates (its role, or what the environment says).
    pub gate_runner: bool,
    /// The receiver is `ci`, by its id or its role.
    pub ci: bool,
    /// Ids whose `SCOPE:` is an order: coordinators and gates of the registry.
    pub trusted: Vec<String>,
    /// A prefix that wakes beside the literal ones, from the bus's `config.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_prefix: Option<String>,
    /// The bus's own clock, in milliseconds since 1970; 0 when it does not say.
    pub now: i64,
    /// How many entries of a source a cut moved to the archive before the seat had read them, since it was last told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub archived: BTreeMap<String, u64>,
    /// How many of those wake everybody, whoever said them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub archived_urgent: BTreeMap<String, u64>,
    /// Commands among the entries, by their id, that were typed by what their receipts say: `true` for sure, `false` perhaps. They are unread
    /// again, or still, because what was read is not known; they are never typed again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub typed: BTreeMap<String, bool>,
    /// Another process delivers to this seat now; nothing may be typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_deliverer: Option<String>,
}

/// The unread entries of one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingSource {
    /// `inbox`, or a channel's name with `#`.
    pub source: String,
    /// As they stand in the file, oldest first, the seat's own posts left out.
    pub entries: Vec<Map<String, Value>>,
    /// How many older unread entries are not among them.
    #[serde(default)]
    pub older: usize,
}

/// What is written into a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The message's id.
    pub id: String,
    /// Who sent it.
    pub from: String,
    /// Whether it was a control command.
    pub control: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// A report as a receipt says it, and as `report_receipt` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Told<'r> {
    /// It was typed and sent off, or it was not; absent when nobody can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted: Option<bool>,
    /// It was seen to be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Which way it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<&'static str>,
    /// Why not, or what is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'r str>,
}

impl Report {
    /// The same as a receipt says it.
    pub fn told(&self) -> Told<'_> {
        let nothing = Told {
            submitted: None,
            verified: None,
            door: None,
            reason: None,
        };
        match &self.outcome {
            Outcome::Delivered { door, verified } => Told {
                submitted: Some(true),
                verified: Some(*verified),
                door: Some(door.as_str()),
                ..nothing
            },
            Outcome::Held(hold) => Told {
                submitted: Some(false),
                reason: Some(&hold.detail),
                ..nothing
            },
            Outcome::Unknown { door, reason } => Told {
                verified: Some(false),
                door: Some(door.as_str()),
                reason: Some(reason),
                ..nothing
            },
        }
    }
}

/// Why a feed has nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The credentials are wrong, or the seat is somebody else's. Trying again does not help.
    #[error("{0}")]
    Refused(String),
    /// It cannot be reached or is at fault now. Trying again may help.
    #[error("{0}")]
    Later(String),
}

/// Whose pane it is and how it wants to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Whose.
    pub id: SeatId,
    /// The pane.
    pub target: String,
    /// Whether channel posts are delivered.
    pub include_room: bool,
    /// The only senders whose messages are typed; everybody when `None`.
    pub allowlist: Option<Vec<String>>,
    /// How long messages are gathered before they are typed.
    pub debounce: Duration,
}

pub mod deliverer;
pub mod feed;
pub(crate) mod hands;
pub mod lease;
pub mod queue;
pub(crate) mod reminder;
pub mod settings;
pub mod text;
pub mod tier;

pub use deliverer::{Stop, run};
pub use feed::LocalFeed;
pub use hands::DEBOUNCE;
pub use settings::Settings;
