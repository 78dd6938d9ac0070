//! What comes late for an id that was renamed: where it goes on to, and how it is fetched. Never takes a message from an id that somebody is again.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ALIASES;
use crate::error::{BusError, failed};
use crate::files::read_plain;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::log::{self, Entry, Log};
use crate::message;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::sessions;

fn alias_file(old: &str) -> String {
    format!("{ALIASES}/{old}.json")
}

#[derive(Serialize, Deserialize)]
struct Alias {
    to: String,
    #[serde(default)]
    since: i64,
}

/// Notes that messages to `old` go on to `new`, those that came to `old` from elsewhere too, and that `new` is somebody again.
pub(super) fn alias(home: &Home, old: &SeatId, new: &SeatId) -> Result<(), BusError> {
    reclaim(home, new)?;
    for (earlier, to) in aliases(home)? {
        if to == *old {
            point(home, &earlier, new)?;
        }
    }
    point(home, old, new)
}

fn point(home: &Home, from: &SeatId, to: &SeatId) -> Result<(), BusError> {
    let alias = Alias {
        to: to.as_str().to_owned(),
        since: home.now(),
    };
    json::write(home, &alias_file(from.as_str()), &alias, Keep::Durably)
}

/// Every note, as from and to. One that is damaged is none.
fn aliases(home: &Home) -> Result<Vec<(SeatId, SeatId)>, BusError> {
    let mut aliases = Vec::new();
    for stem in sessions::stems(home, ALIASES)? {
        if let Ok(from) = SeatId::parse(&stem)
            && let Some(to) = noted(home, &from)?
        {
            aliases.push((from, to));
        }
    }
    Ok(aliases)
}

fn noted(home: &Home, old: &SeatId) -> Result<Option<SeatId>, BusError> {
    match json::read::<Alias>(home, &alias_file(old.as_str())) {
        Ok(alias) => Ok(alias.and_then(|alias| SeatId::parse(&alias.to).ok())),
        Err(BusError::Damaged(name)) => {
            tracing::warn!(file = %name, "a note about an old id is damaged; messages to it stay in its own inbox");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Ends the forwarding from an id that somebody acts as again. The caller holds the identity lock.
pub(crate) fn reclaim(home: &Home, seat: &SeatId) -> Result<(), BusError> {
    let path = home.path(&alias_file(seat.as_str()));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, error)),
        _ => Ok(()),
    }
}

/// Who an id is now, if it was renamed and nobody else is registered under it: a message to it belongs to that agent, and its sender should be
/// told. Costs one look for a file when it was not.
///
/// # Errors
/// [`BusError::Damaged`] when the registry cannot be read, a fault.
pub fn forwarded(home: &Home, seat: &SeatId) -> Result<Option<SeatId>, BusError> {
    match noted(home, seat)? {
        Some(now) if !Agents::load(home)?.has(seat.as_str()) => Ok(Some(now)),
        _ => Ok(None),
    }
}

/// Fetches the messages that were written to earlier ids of `seat` after it was renamed, and answers how many. To be called before its inbox
/// is read, and by a sender that learns of a rename after it wrote; costs one look into a folder when there are none. A message is there
/// once, however often this is interrupted and done again.
///
/// # Errors
/// [`BusError::Damaged`] when the registry cannot be read, [`BusError::Held`], a fault.
pub fn gather(home: &Home, seat: &SeatId) -> Result<usize, BusError> {
    all(home, seat).map_err(BusError::reading)
}

fn all(home: &Home, seat: &SeatId) -> Result<usize, BusError> {
    let mut gathered = 0;
    for (old, to) in aliases(home)? {
        if to == *seat && holds(&home.path(&home::inbox(&old))) && forwarded(home, &old)?.is_some() {
            gathered += fetch(home, &old, seat)?;
        }
    }
    Ok(gathered)
}

/// Whether an inbox that nobody reads any more holds something to fetch. What is no file keeps nobody from reading their own.
fn holds(inbox: &Path) -> bool {
    fs::symlink_metadata(inbox).is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

fn fetch(home: &Home, old: &SeatId, new: &SeatId) -> Result<usize, BusError> {
    let (from, to) = (home::inbox(old), home::inbox(new));
    // In the order of their names, as a rename takes them.
    let (_first, mut target, _second);
    if old < new {
        _first = Some(lock::lock(home, &from)?);
        target = Log::open(home, &to)?;
        _second = None;
    } else {
        _first = None;
        target = Log::open(home, &to)?;
        _second = Some(lock::lock(home, &from)?);
    }
    // Under the lock of the old inbox: nobody has become that id in between.
    if forwarded(home, old)?.as_ref() != Some(new) {
        return Ok(0);
    }
    let path = home.path(&from);
    let late = match read_plain(&path) {
        Ok(late) => late,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let (entries, rest) = sorted(&late);
    let known = known(&target, &entries)?;
    let lines: Vec<String> = entries
        .into_iter()
        .filter(|(id, _)| id.as_ref().is_none_or(|id| !known.contains(id)))
        .map(|(_, line)| line)
        .collect();
    if !lines.is_empty() {
        target.append(&lines)?;
    }
    if !rest.is_empty() {
        // What is no entry is nobody's message, and is kept where nothing reads it.
        log::append_to_archive(home, &home::archive(&to), &rest)?;
    }
    fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
    let _ = fs::remove_file(log::index_file(home, &from));
    Ok(lines.len())
}

/// The entries of a log with their ids, and the bytes that are none.
fn sorted(bytes: &[u8]) -> (Vec<(Option<String>, String)>, Vec<u8>) {
    let (mut entries, mut rest) = (Vec::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match (serde_json::from_slice::<Entry>(line), std::str::from_utf8(line)) {
            (Ok(entry), Ok(text)) => {
                entries.push((message::field(&entry, "id").map(str::to_owned), text.to_owned()));
            }
            _ => {
                rest.extend_from_slice(line);
                rest.push(b'\n');
            }
        }
    }
    (entries, rest)
}

/// Which of the ids stand in a log already.
fn known(log: &Log<'_>, entries: &[(Option<String>, String)]) -> Result<BTreeSet<String>, BusError> {
    let wanted: BTreeSet<&str> = entries.iter().filter_map(|(id, _)| id.as_deref()).collect();
    let mut known = BTreeSet::new();
    log.read(0, |_, entry| {
        if let Some(id) = message::field(&entry, "id").filter(|id| wanted.contains(id)) {
            known.insert(id.to_owned());
        }
        true
    })?;
    Ok(known)
}
