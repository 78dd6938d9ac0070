//! Digests: what a channel read left out, kept for half an hour for the agent that was shown the digest. Never read from the channel again, so that a cut in between changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use muster_core::Fault;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{BusError, failed};
use crate::files::read_plain;
use crate::home::Home;
use crate::json::{self, Keep};
use crate::limits::DIGEST_AGE;
use crate::log::Entry;
use crate::message;
use crate::names::SeatId;

/// What a read shows in place of the messages it left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct History {
    /// In words: how many, from whom, and every decision as it was written.
    pub digest: String,
    /// Expands it.
    pub hash: String,
    /// How many messages it stands for.
    pub older: usize,
    /// The decisions among them, whole.
    pub decisions: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    hash: String,
    source: String,
    for_agent: String,
    created_ts: i64,
    messages: Vec<Entry>,
}

/// Keeps the messages that a read leaves out and says what they are. `None` when there are none.
///
/// # Errors
/// A fault.
pub(crate) fn keep(
    home: &Home,
    seat: &SeatId,
    source: &str,
    older: Vec<Entry>,
) -> Result<Option<History>, BusError> {
    let (Some(first), Some(last)) = (older.first(), older.last()) else {
        return Ok(None);
    };
    let mut print = Sha256::new();
    for part in [source, seat.as_str(), id(first), id(last)] {
        print.update(part.as_bytes());
        print.update([0]);
    }
    print.update(older.len().to_le_bytes());
    let hash = print
        .finalize()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let (decisions, unquoted) = quoted(&older);
    let history = History {
        digest: digest(&older, &decisions, unquoted),
        hash: hash.clone(),
        older: older.len(),
        decisions,
    };
    let kept = Kept {
        hash: hash.clone(),
        source: source.to_owned(),
        for_agent: seat.as_str().to_owned(),
        created_ts: home.now(),
        messages: older,
    };
    let text = serde_json::to_vec(&kept).map_err(|error| {
        BusError::Fault(Fault::other("a digest could not be written as JSON").because(error))
    })?;
    json::replace(home, &file(home, &hash), &text, Keep::Quickly)?;
    sweep(home);
    Ok(Some(history))
}

fn file(home: &Home, hash: &str) -> std::path::PathBuf {
    home.private("history").join(format!("{hash}.json"))
}

fn id(entry: &Entry) -> &str {
    message::field(entry, "id").unwrap_or("")
}

/// Most bytes of decisions that a digest quotes: a reader's context is the scarce thing.
const MAX_QUOTED: usize = 256 * 1024;

/// The newest decisions that a digest quotes, in their order, and how many more there are.
fn quoted(older: &[Entry]) -> (Vec<Entry>, usize) {
    let (mut bytes, mut unquoted, mut decisions) = (0, 0, Vec::new());
    for entry in older.iter().rev().filter(|entry| message::is_decision(entry)) {
        bytes += message::field(entry, "text").map_or(0, str::len);
        if bytes <= MAX_QUOTED || decisions.is_empty() {
            decisions.push(entry.clone());
        } else {
            unquoted += 1;
        }
    }
    decisions.reverse();
    (decisions, unquoted)
}

fn digest(older: &[Entry], decisions: &[Entry], unquoted: usize) -> String {
    let mut senders: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in older {
        *senders
            .entry(message::field(entry, "from").unwrap_or("?"))
            .or_default() += 1;
    }
    let from = senders
        .iter()
        .map(|(sender, count)| format!("{sender} ({count})"))
        .collect::<Vec<_>>()
        .join(", ");
    let count = older.len();
    let mut text = format!(
        "{count} older message{} from {from}.",
        if count == 1 { "" } else { "s" }
    );
    for decision in decisions {
        let sender = message::field(decision, "from").unwrap_or("?");
        let said = message::field(decision, "text").unwrap_or("");
        text.push_str(&format!("\nDecision by {sender}: {said}"));
    }
    if unquoted > 0 {
        text.push_str(&format!("\n{unquoted} older decisions are only behind the hash."));
    }
    text
}

/// Expands a digest. `query` keeps the messages whose text or sender holds it, whatever its case.
///
/// # Errors
/// [`BusError::NoDigest`], [`BusError::NotYourDigest`], [`BusError::DigestExpired`], a fault.
pub fn retrieve(home: &Home, seat: &SeatId, hash: &str, query: Option<&str>) -> Result<Vec<Entry>, BusError> {
    if hash.len() != 12 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(BusError::NoDigest);
    }
    let path = file(home, &hash.to_ascii_lowercase());
    let text = match read_plain(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(BusError::NoDigest),
        Err(error) => return Err(failed("read", &path, error).reading()),
    };
    let kept: Kept =
        serde_json::from_slice(&text).map_err(|_| BusError::Damaged(format!("the digest {hash}")))?;
    if kept.for_agent != seat.as_str() {
        return Err(BusError::NotYourDigest);
    }
    if age(home, kept.created_ts) > DIGEST_AGE {
        return Err(BusError::DigestExpired);
    }
    let Some(query) = query.filter(|query| !query.is_empty()) else {
        return Ok(kept.messages);
    };
    let query = query.to_lowercase();
    let holds = |entry: &Entry, name| {
        message::field(entry, name).is_some_and(|text| text.to_lowercase().contains(&query))
    };
    let mut messages = kept.messages;
    messages.retain(|entry| holds(entry, "text") || holds(entry, "status"));
    Ok(messages)
}

fn age(home: &Home, created: i64) -> Duration {
    Duration::from_millis(u64::try_from(home.now().saturating_sub(created)).unwrap_or(0))
}

/// Removes digests that expired a day ago or more: until then their reader is told that they expired, not that there were none.
fn sweep(home: &Home) {
    let Ok(entries) = fs::read_dir(home.private("history")) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|written| {
                written
                    .elapsed()
                    .is_ok_and(|age| age > Duration::from_secs(24 * 60 * 60))
            });
        if old {
            let _ = fs::remove_file(entry.path());
        }
    }
}
