//! What is written: one row format for people, local agents and remote ones. Never carries a flag that its sender chose for itself.

use serde::{Deserialize, Serialize};

use crate::error::BusError;
use crate::fresh;
use crate::limits::{MAX_LINE, MAX_TEXT};
use crate::log::Entry;
use crate::names::{RoomName, SeatId};

/// What a channel post is. Without one it is chatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A verdict or an agreement: kept longer and quoted in digests.
    Decision,
    /// A note on progress.
    Status,
    /// Everything else.
    Chatter,
}

/// A message as it stands on its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Unique; readers that may see a message twice tell by it.
    pub id: String,
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Who sent it; `system` for notices.
    pub from: String,
    /// The agent it was sent to; absent on channel posts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<SeatId>,
    /// The channel, absent on direct messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<RoomName>,
    /// What it says.
    pub text: String,
    /// Of channel posts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// A control command, which only `send_command` writes.
    #[serde(skip_serializing_if = "is_false")]
    pub control: bool,
    /// A notice of the bus itself.
    #[serde(skip_serializing_if = "is_false")]
    pub system: bool,
    /// A notice that must wake its reader, which only the bus sets.
    #[serde(skip_serializing_if = "is_false")]
    pub urgent: bool,
    /// Of a notice: the agent whose act it tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<SeatId>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Message {
    /// A message of `from`, with a new id.
    pub(crate) fn new(ts: i64, from: &str, text: String) -> Result<Self, BusError> {
        Ok(Self {
            id: fresh::id()?,
            ts,
            from: from.to_owned(),
            to: None,
            room: None,
            text,
            kind: None,
            control: false,
            system: false,
            urgent: false,
            by: None,
        })
    }

    /// A notice of the bus in a channel, about an act of `by`.
    pub(crate) fn notice(ts: i64, room: RoomName, by: &SeatId, text: String) -> Result<Self, BusError> {
        let mut notice = Self::new(ts, SYSTEM, text)?;
        notice.room = Some(room);
        notice.system = true;
        notice.by = Some(by.clone());
        Ok(notice)
    }

    /// Its line, without the line break.
    pub(crate) fn line(&self) -> Result<String, BusError> {
        line(self)
    }
}

/// Who notices come from. No agent may be named so.
pub const SYSTEM: &str = "system";

/// A row of the status stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Unique.
    pub id: String,
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Whose status it is; under both names that readers look for.
    pub agent_id: SeatId,
    /// The same.
    pub from: SeatId,
    /// What it says.
    pub status: String,
    /// More of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Result<String, BusError> {
    serde_json::to_string(value).map_err(|error| {
        BusError::Fault(muster_core::Fault::other("an entry could not be written as JSON").because(error))
    })
}

/// A text that is not empty and not too long.
pub(crate) fn text(field: &'static str, text: &str) -> Result<(), BusError> {
    within(field, text, MAX_TEXT)
}

/// A short text that is not empty and not too long.
pub(crate) fn short(field: &'static str, text: &str) -> Result<(), BusError> {
    within(field, text, MAX_LINE)
}

fn within(field: &'static str, text: &str, limit: usize) -> Result<(), BusError> {
    if text.trim().is_empty() {
        return Err(BusError::Empty(field));
    }
    if text.len() > limit {
        return Err(BusError::TooLong {
            field,
            bytes: text.len(),
            limit,
        });
    }
    Ok(())
}

/// When an entry was written, in milliseconds; 0 when it does not say.
pub(crate) fn ts(entry: &Entry) -> i64 {
    entry
        .get("ts")
        .and_then(|ts| ts.as_i64().or_else(|| ts.as_f64().map(whole)))
        .unwrap_or(0)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float cast saturates, and a nonsense time stays nonsense"
)]
fn whole(ts: f64) -> i64 {
    ts as i64
}

/// A text field of an entry.
pub(crate) fn field<'e>(entry: &'e Entry, name: &str) -> Option<&'e str> {
    entry.get(name)?.as_str()
}

/// What an entry is told from others by: its id. One that another program wrote without an id is told by all that stands in it.
pub(crate) fn key(entry: &Entry) -> String {
    use sha2::{Digest as _, Sha256};
    if let Some(id) = field(entry, "id").filter(|id| !id.is_empty()) {
        return id.to_owned();
    }
    let print = Sha256::digest(serde_json::to_vec(entry).unwrap_or_default());
    let hex: String = print.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("~{hex}")
}

/// Whether an entry is an agent's own: it wrote it, or it is the notice of what it did.
pub(crate) fn is_own(entry: &Entry, seat: &SeatId) -> bool {
    let author = if entry.get("system").is_some_and(|system| system == true) {
        field(entry, "by")
    } else {
        field(entry, "from").or_else(|| field(entry, "agentId"))
    };
    author == Some(seat.as_str())
}

/// Whether an entry is a decision.
pub(crate) fn is_decision(entry: &Entry) -> bool {
    field(entry, "kind") == Some("decision")
}
