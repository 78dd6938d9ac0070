//! The numbers of the bus: how large a text, how long a channel, how old a digest. Never reads the environment itself.

use std::time::Duration;

/// Largest text of a message, in bytes of UTF-8. A reader's context is the scarce thing; what is longer belongs in a file.
pub const MAX_TEXT: usize = 256 * 1024;
/// Largest short text: a topic, a status, a project, a role.
pub const MAX_LINE: usize = 4 * 1024;
/// Entries a channel read returns unless told otherwise.
pub const ROOM_READ: usize = 50;
/// Most entries any read returns.
pub const MAX_READ: usize = 500;
/// How long a digest can be expanded.
pub const DIGEST_AGE: Duration = Duration::from_secs(30 * 60);
/// An agent without a heartbeat for this long is not online.
pub const ONLINE: Duration = Duration::from_secs(5 * 60);
/// An agent without a heartbeat for this long leaves the registry.
pub const EVICTED: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest wait for a message.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long a decision outlives routine clean-up.
pub const DECISION_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// When a log that grew is cut, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Over this many entries it is cut.
    pub max: usize,
    /// To this many.
    pub keep: usize,
}

/// The limits a deployment may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of each channel.
    pub room: Bound,
    /// Of the status stream.
    pub status: Bound,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            room: Bound {
                max: 1_000,
                keep: 500,
            },
            status: Bound {
                max: 2_000,
                keep: 1_000,
            },
        }
    }
}

impl Limits {
    /// The limits that `AGENT_COORD_ROOM_MAX`, `AGENT_COORD_ROOM_KEEP`, `AGENT_COORD_STATUS_MAX` and `AGENT_COORD_STATUS_KEEP` give, and a
    /// sentence for each pair that makes no sense, whose defaults then hold.
    pub fn of(value: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut said = Vec::new();
        let defaults = Self::default();
        let limits = Self {
            room: bound(&value, "ROOM", defaults.room, &mut said),
            status: bound(&value, "STATUS", defaults.status, &mut said),
        };
        (limits, said)
    }
}

fn bound(
    value: impl Fn(&str) -> Option<String>,
    what: &str,
    default: Bound,
    said: &mut Vec<String>,
) -> Bound {
    let read = |end: &str, default: usize| match value(&format!("AGENT_COORD_{what}_{end}")) {
        None => Some(default),
        Some(text) => text.trim().parse().ok(),
    };
    match (read("MAX", default.max), read("KEEP", default.keep)) {
        (Some(max), Some(keep)) if 0 < keep && keep < max => Bound { max, keep },
        _ => {
            said.push(format!(
                "AGENT_COORD_{what}_MAX and AGENT_COORD_{what}_KEEP must be numbers with 0 < KEEP < MAX; the defaults {} and {} hold",
                default.max, default.keep
            ));
            default
        }
    }
}
