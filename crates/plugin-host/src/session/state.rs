//! What a session remembers while it runs. Never waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Refused;
use super::tools::Tools;

/// Requests of the server's that may wait for the agent at once.
const MOST_ASKED: usize = 1_024;

/// Withheld names of which the log is told in one session.
const MOST_DROPPED: usize = 4_000;

/// Whether the server is there.
#[derive(Debug)]
pub(super) enum Up {
    /// It was started and has not answered.
    Waiting,
    /// It has introduced itself.
    Ready,
    /// It is over, for this reason.
    Down(String),
}

/// What a request that waits for the server is.
#[derive(Debug)]
pub(super) enum Kind {
    Plain,
    Call,
    /// With the revision that the agent named, as JSON.
    Initialize(Option<String>),
    /// With what the agent said of itself.
    Discover(Option<String>),
    /// One of muster's own.
    Inside(oneshot::Sender<Result<String, Refused>>),
}

impl Kind {
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "initialize",
            Self::Discover(_) => "discover",
            Self::Plain | Self::Call | Self::Inside(_) => "other",
        }
    }
}

/// A request that waits for the server.
#[derive(Debug)]
pub(super) struct Pending {
    /// The agent's own id, as JSON.
    pub(super) agent: Option<String>,
    pub(super) method: String,
    pub(super) kind: Kind,
    pub(super) deadline: Option<Instant>,
    /// The agent's own progress token, as JSON.
    pub(super) token: Option<String>,
}

/// What a cancellation reaches.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    pub(super) pending: Option<u64>,
    pub(super) asking: Option<AbortHandle>,
}

pub(super) struct State {
    next: u64,
    pub(super) up: Up,
    pub(super) offers_tools: bool,
    pub(super) start_noted: bool,
    pub(super) pending: HashMap<u64, Pending>,
    /// Requests of the server's by the number the agent sees; the server's own id, as JSON.
    pub(super) asked: HashMap<u64, String>,
    next_asked: u64,
    /// Calls and lists that muster itself is still at, by the agent's id.
    pub(super) asking: HashMap<String, AbortHandle>,
    pub(super) tools: Option<Arc<Tools>>,
    /// How often the server said that its list is another one.
    pub(super) changes: u64,
    /// The list was looked at and not asked for since.
    pub(super) fresh: bool,
    /// Withheld names that the log has.
    pub(super) dropped: BTreeSet<String>,
}

impl State {
    pub(super) fn new(up: Up) -> Self {
        Self {
            next: 1,
            up,
            offers_tools: true,
            start_noted: false,
            pending: HashMap::new(),
            asked: HashMap::new(),
            next_asked: 1,
            asking: HashMap::new(),
            tools: None,
            changes: 0,
            fresh: false,
            dropped: BTreeSet::new(),
        }
    }

    /// Whether the log is still to be told that this is withheld. What comes after very many is not: a server could go on for ever.
    pub(super) fn drop_tool(&mut self, what: &str) -> bool {
        self.dropped.len() < MOST_DROPPED && self.dropped.insert(what.to_owned())
    }

    /// Gives a request its number.
    pub(super) fn begin(&mut self, pending: Pending) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number, pending);
        number
    }

    /// Gives a request of the server's its number; `None` when too many wait.
    pub(super) fn ask(&mut self, id: &str) -> Option<u64> {
        if self.asked.len() >= MOST_ASKED {
            return None;
        }
        let number = self.next_asked;
        self.next_asked += 1;
        self.asked.insert(number, id.to_owned());
        Some(number)
    }

    /// The server does not want the answer to its request of this id any more.
    pub(super) fn withdraw(&mut self, id: &str) -> Option<u64> {
        let number = self
            .asked
            .iter()
            .find_map(|(number, asked)| (asked == id).then_some(*number))?;
        self.asked.remove(&number);
        Some(number)
    }

    /// Takes the agent's request of this id out; the newest, should it have used the id more than once.
    pub(super) fn cancel(&mut self, id: &str) -> Cancelled {
        let newest = self
            .pending
            .iter()
            .filter(|(_, pending)| {
                pending.agent.as_deref() == Some(id) && !matches!(pending.kind, Kind::Initialize(_))
            })
            .map(|(number, _)| *number)
            .max();
        if let Some(number) = newest {
            self.pending.remove(&number);
        }
        Cancelled {
            pending: newest,
            asking: self.asking.remove(id),
        }
    }

    /// Whether something waits that has a deadline.
    pub(super) fn waits(&self) -> bool {
        self.pending.values().any(|pending| pending.deadline.is_some())
    }

    pub(super) fn overdue(&self, now: Instant) -> Vec<u64> {
        self.pending
            .iter()
            .filter(|(_, pending)| pending.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Whether something of the agent's is still to be answered.
    pub(super) fn is_busy(&self) -> bool {
        !self.asking.is_empty()
            || self
                .pending
                .values()
                .any(|pending| pending.deadline.is_some() && pending.agent.is_some())
    }
}
