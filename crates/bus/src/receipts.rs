//! What became of a control command that was typed into a pane: one row for each, in `receipts/`. Never read by an agent, only by the sender that waits for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::BusError;
use crate::home::Home;
use crate::log::Log;
use crate::message;
use crate::names::SeatId;
use crate::sessions;

/// One receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The message it is for.
    pub id: String,
    /// Whose pane it was typed into.
    pub agent_id: String,
    /// When, in milliseconds.
    #[serde(default, deserialize_with = "sessions::millis")]
    pub ts: i64,
    /// Who sent the message.
    pub from: String,
    /// Whether it was a control command.
    #[serde(default)]
    pub control: bool,
    /// Whether it was sent off, not only typed; absent when the deliverer did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<bool>,
    /// Whether the pane was seen to take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// The way it went into the pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<String>,
    /// Why not, in the deliverer's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The build that typed it; absent when it did not say, which is never taken for a current one. Other programs write a time here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Value>,
    /// What other programs keep here.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Receipt {
    /// A receipt for the message `id` from `from`.
    pub fn new(home: &Home, seat: &SeatId, id: &str, from: &str) -> Self {
        Self {
            id: id.to_owned(),
            agent_id: seat.as_str().to_owned(),
            ts: home.now(),
            from: from.to_owned(),
            control: false,
            submitted: None,
            verified: None,
            door: None,
            reason: None,
            build: None,
            more: Map::new(),
        }
    }
}

/// Whether a command was typed, by its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typed {
    /// It was.
    Yes,
    /// It was not, and is not any more.
    Not,
    /// Nobody can tell.
    Maybe,
}

impl Receipt {
    /// Whether the command was typed. Other programs write a receipt only after they typed, and say nothing of it.
    pub(crate) fn typed(&self) -> Typed {
        match (self.submitted, self.verified) {
            (Some(true), _) | (None, None | Some(true)) => Typed::Yes,
            (Some(false), _) => Typed::Not,
            (None, Some(false)) => Typed::Maybe,
        }
    }
}

/// The folder.
pub(crate) const FOLDER: &str = "receipts";

/// The file of the receipts for what was typed into an agent's pane.
pub(crate) fn file(seat: &SeatId) -> String {
    format!("{FOLDER}/{seat}.jsonl")
}

/// Writes a receipt into the file of `seat`.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn write(home: &Home, seat: &SeatId, receipt: &Receipt) -> Result<(), BusError> {
    let line = message::line(receipt)?;
    Log::open(home, &file(seat))?.append(&[line])
}

/// Which of these commands were typed, by their receipts: `true` for sure, `false` perhaps. What only was refused is not among them.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub(crate) fn typed_of(home: &Home, seat: &SeatId, ids: &[&str]) -> Result<BTreeMap<String, bool>, BusError> {
    let mut typed = BTreeMap::new();
    if ids.is_empty() {
        return Ok(typed);
    }
    let Some(log) = Log::open_existing(home, &file(seat))? else {
        return Ok(typed);
    };
    log.read(0, |_, entry| {
        if let Some(id) = message::field(&entry, "id")
            .filter(|id| ids.contains(id))
            .map(str::to_owned)
            && let Ok(receipt) = serde_json::from_value::<Receipt>(Value::Object(entry))
        {
            match receipt.typed() {
                Typed::Yes => {
                    typed.insert(id, true);
                }
                Typed::Maybe => {
                    typed.entry(id).or_insert(false);
                }
                Typed::Not => {}
            }
        }
        true
    })?;
    Ok(typed)
}

/// The last receipt for a message among those of `seat`: a command that was refused first and typed later is typed. `None` when there is none
/// yet.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn find(home: &Home, seat: &SeatId, id: &str) -> Result<Option<Receipt>, BusError> {
    let Some(log) = Log::open_existing(home, &file(seat))? else {
        return Ok(None);
    };
    let mut found = None;
    log.read(0, |_, entry| {
        if message::field(&entry, "id") == Some(id)
            && let Ok(receipt) = serde_json::from_value(Value::Object(entry))
        {
            found = Some(receipt);
        }
        true
    })?;
    Ok(found)
}

/// The agents that have receipts.
///
/// # Errors
/// A fault, when the folder cannot be read.
pub fn seats(home: &Home) -> Result<Vec<SeatId>, BusError> {
    let path = home.path(FOLDER);
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(crate::error::failed("read", &path, error)),
    };
    let mut seats = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| crate::error::failed("read", &path, error))?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        if let Some(Ok(seat)) = id.map(SeatId::parse) {
            seats.push(seat);
        }
    }
    seats.sort();
    Ok(seats)
}

/// How many receipts are older than `before` milliseconds: what [`prune`] would delete.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn aged(home: &Home, before: i64) -> Result<u64, BusError> {
    let mut aged = 0;
    for seat in seats(home)? {
        if let Some(log) = Log::open_existing(home, &file(&seat))? {
            log.read(0, |_, entry| {
                aged += u64::from(message::ts(&entry) < before);
                true
            })?;
        }
    }
    Ok(aged)
}

/// Deletes the receipts older than `before` milliseconds; they are the one stream that is not archived. Answers how many went.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn prune(home: &Home, before: i64) -> Result<u64, BusError> {
    let mut gone = 0;
    for seat in seats(home)? {
        if let Some(mut log) = Log::open_existing(home, &file(&seat))? {
            gone += log.archive(|_, entry| message::ts(entry) < before, None)?.count();
        }
    }
    Ok(gone)
}
