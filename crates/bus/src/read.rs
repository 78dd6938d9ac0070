//! Reading: what is new for an agent, at the cost of what is new. Never moves a cursor past an entry that was neither returned nor its reader's own.

mod page;

use std::collections::VecDeque;

use serde::Serialize;

use crate::cursor::{Cursor, Source};
use crate::error::BusError;
use crate::history::{self, History};
use crate::home::{self, Home};
use crate::limits::{MAX_READ, ROOM_READ};
use crate::lock;
use crate::log::{self, Entry, Log};
use crate::message;
use crate::names::SeatId;
use crate::rooms;

pub use page::{Page, Shape, page, seen, shape};

/// Most bytes of messages that one read returns. Of an inbox the rest stays unread and is told of; of a channel it goes into the digest.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Most messages that one digest stands for; what is older stays in the channel's file.
const MAX_DIGEST: usize = 10_000;
/// Most bytes of them.
const MAX_DIGEST_BYTES: usize = 16 * 1024 * 1024;

/// How to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    /// Most entries to return, 1 to 500. Channels and the status stream return the newest 50 without it, an inbox all.
    pub limit: Option<usize>,
    /// Leaves the cursor.
    pub peek: bool,
    /// Only entries written after this moment, in milliseconds. The cursor then passes only what was returned before the first entry that
    /// was not. A read that peeks looks back, too: it returns what was read already, as far as it still stands in the file.
    pub since: Option<i64>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Oldest first, as they stand in the file.
    pub messages: Vec<Entry>,
    /// Unread when the read began, this agent's own posts not counted.
    pub total_new: usize,
    /// Messages in this batch.
    pub returned: usize,
    /// Messages that stay unread.
    pub remaining: usize,
    /// Entries that a cut moved to the archive before this agent had read them; nothing returns them. Told until something is returned.
    #[serde(skip_serializing_if = "is_zero")]
    pub archived_unread: u64,
    /// Those of them that wake everybody, whoever said them (`BLOCKER:`, `DAVID_DECISION:`, `GO:`).
    #[serde(skip_serializing_if = "is_zero")]
    pub archived_urgent: u64,
    /// What a channel read left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// What the reader should know about its cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

const PAST_END: &str =
    "the cursor stood past the end of the file, so what is still in the file is returned again";
const UNREADABLE: &str = "the cursor file could not be read, so what is still in the file is returned again";

/// Reads what is new for `seat` and, unless it only peeks, notes that it was read.
///
/// # Errors
/// [`BusError::NoRoom`], a limit out of range; [`BusError::Held`] or a fault as [`BusError::Unread`]. The cursor stands as it did then.
pub fn read(home: &Home, seat: &SeatId, source: &Source, want: Want) -> Result<Batch, BusError> {
    read_for(home, seat, source, want, &|| true)
}

/// The same for a caller that may go away meanwhile: `wanted` is asked last, under the locks, before anything is noted as read.
///
/// # Errors
/// [`BusError::Gone`] when nobody waits for the answer any more; as [`read`].
pub fn read_for(
    home: &Home,
    seat: &SeatId,
    source: &Source,
    want: Want,
    wanted: &dyn Fn() -> bool,
) -> Result<Batch, BusError> {
    take(home, seat, source, want, wanted).map_err(BusError::reading)
}

fn take(
    home: &Home,
    seat: &SeatId,
    source: &Source,
    want: Want,
    wanted: &dyn Fn() -> bool,
) -> Result<Batch, BusError> {
    if want.limit.is_some_and(|limit| limit == 0 || limit > MAX_READ) {
        return Err(BusError::Argument("limit must be a number from 1 to 500"));
    }
    if let Source::Room(room) = source
        && !rooms::exists(home, room)?
    {
        return Err(BusError::NoRoom(room.clone()));
    }
    let log = Log::open(home, &source.log(seat))?;
    let _held = lock::lock(home, &home::cursor(seat))?;
    let mut cursor = Cursor::load(home, seat)?;
    let (first, note) = start(&cursor, source, log.entries());
    let looks_back = want.peek && want.since.is_some();
    let from = Begin {
        unread: first,
        at: if looks_back { 0 } else { first },
    };
    let (batch, read_to) = match source {
        Source::Inbox => inbox(&log, from, want)?,
        Source::Room(room) => stream(&log, seat, &format!("room {room}"), from, want)?,
        Source::Status => stream(&log, seat, "status", from, want)?,
    };
    if !wanted() {
        return Err(BusError::Gone);
    }
    let (archived_unread, archived_urgent) = (cursor.missed(source), cursor.missed_urgent(source));
    let told = archived_unread > 0 && batch.returned > 0;
    if !want.peek && (read_to != first || note.is_some() || told || cursor.get(source).is_none()) {
        cursor.set(source, read_to);
        if told {
            cursor.told_what_it_missed(source);
        }
        cursor.store(home, seat)?;
    }
    Ok(Batch {
        note,
        archived_unread,
        archived_urgent,
        ..batch
    })
}

/// How many entries an agent has not read, its own posts not counted. Never moves a cursor.
///
/// # Errors
/// [`BusError::Held`] or a fault, as [`BusError::Unread`].
pub fn unread(home: &Home, seat: &SeatId, source: &Source) -> Result<usize, BusError> {
    count(home, seat, source).map_err(BusError::reading)
}

fn count(home: &Home, seat: &SeatId, source: &Source) -> Result<usize, BusError> {
    let Some(log) = Log::open_existing(home, &source.log(seat))? else {
        return Ok(0);
    };
    let cursor = Cursor::load(home, seat)?;
    let (first, _) = start(&cursor, source, log.entries());
    if *source == Source::Inbox {
        return Ok(usize::try_from(log.entries() - first).unwrap_or(usize::MAX));
    }
    let mut count = 0;
    log.read(first, |_, entry| {
        count += usize::from(!own(&entry, seat));
        true
    })?;
    Ok(count)
}

/// How many entries of a source went to the archive before the agent had read them, since it was last told, and how many of them were urgent.
///
/// # Errors
/// A fault.
pub(crate) fn archived_unread(home: &Home, seat: &SeatId, source: &Source) -> Result<(u64, u64), BusError> {
    let cursor = Cursor::load(home, seat)?;
    Ok((cursor.missed(source), cursor.missed_urgent(source)))
}

/// Most entries that [`waiting`] returns.
const MAX_WAITING: usize = 1_000;

/// What an agent has not read of a source, from the oldest on, its own posts left out and nothing noted as read. What is too much comes when
/// some of it was read.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub(crate) fn waiting(home: &Home, seat: &SeatId, source: &Source) -> Result<Vec<Entry>, BusError> {
    let Some(log) = Log::open_existing(home, &source.log(seat))? else {
        return Ok(Vec::new());
    };
    let cursor = Cursor::load(home, seat)?;
    let (first, _) = start(&cursor, source, log.entries());
    let (mut bytes, mut waiting) = (0, Vec::new());
    log.read_lines(first, |_, line| {
        let entry = log::entry(line);
        if !own(&entry, seat) {
            bytes += line.len();
            waiting.push(entry);
        }
        waiting.len() < MAX_WAITING && bytes < MAX_BYTES
    })?;
    Ok(waiting)
}

/// Notes as read everything of a source up to and with the entry `up_to`. When that entry is not unread (any more), nothing changes. Answers
/// whether something did.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub(crate) fn ack(home: &Home, seat: &SeatId, source: &Source, up_to: &str) -> Result<bool, BusError> {
    let Some(log) = Log::open_existing(home, &source.log(seat))? else {
        return Ok(false);
    };
    let _held = lock::lock(home, &home::cursor(seat))?;
    let mut cursor = Cursor::load(home, seat)?;
    let (first, _) = start(&cursor, source, log.entries());
    let mut found = None;
    log.read(first, |number, entry| {
        if message::key(&entry) == up_to {
            found = Some(number + 1);
        }
        found.is_none()
    })?;
    let Some(read_to) = found else { return Ok(false) };
    cursor.set(source, read_to);
    // What was delivered said so.
    cursor.told_what_it_missed(source);
    cursor.store(home, seat)?;
    Ok(true)
}

/// How many entries a source holds.
///
/// # Errors
/// [`BusError::Held`] or a fault, as [`BusError::Unread`].
pub fn depth(home: &Home, seat: &SeatId, source: &Source) -> Result<u64, BusError> {
    let log = Log::open_existing(home, &source.log(seat)).map_err(BusError::reading)?;
    Ok(log.map_or(0, |log| log.entries()))
}

/// The first unread entry. Where nothing true is known of what was read, everything is: a second delivery is told of, a lost one is not.
fn start(cursor: &Cursor, source: &Source, entries: u64) -> (u64, Option<&'static str>) {
    if cursor.damaged {
        return (0, Some(UNREADABLE));
    }
    match cursor.get(source) {
        Some(offset) if offset <= entries => (offset, None),
        Some(_) => (0, Some(PAST_END)),
        None => (0, None),
    }
}

fn own(entry: &Entry, seat: &SeatId) -> bool {
    message::is_own(entry, seat)
}

fn wanted(entry: &Entry, want: Want) -> bool {
    want.since.is_none_or(|since| message::ts(entry) > since)
}

/// The newest messages of a channel and those that give way to a digest, within bounds.
#[derive(Default)]
struct Newest {
    messages: VecDeque<(usize, Entry)>,
    bytes: usize,
    older: VecDeque<(usize, Entry)>,
    older_bytes: usize,
}

impl Newest {
    fn push(&mut self, bytes: usize, entry: Entry, limit: usize) {
        self.bytes += bytes;
        self.messages.push_back((bytes, entry));
        // One message is always shown, however long.
        while self.messages.len() > limit || (self.bytes > MAX_BYTES && self.messages.len() > 1) {
            let Some((bytes, entry)) = self.messages.pop_front() else {
                break;
            };
            self.bytes -= bytes;
            self.older_bytes += bytes;
            self.older.push_back((bytes, entry));
        }
        while self.older.len() > MAX_DIGEST || self.older_bytes > MAX_DIGEST_BYTES {
            let Some((bytes, _)) = self.older.pop_front() else {
                break;
            };
            self.older_bytes -= bytes;
        }
    }
}

/// Where a read begins.
#[derive(Clone, Copy)]
struct Begin {
    /// The first entry that is unread.
    unread: u64,
    /// The first one that is looked at.
    at: u64,
}

/// All of it, oldest first, as far as the limits go.
fn inbox(log: &Log<'_>, from: Begin, want: Want) -> Result<(Batch, u64), BusError> {
    let limit = want.limit.unwrap_or(usize::MAX);
    let mut messages = Vec::new();
    let (mut bytes, mut read_to, mut gap) = (0, from.unread, false);
    log.read_lines(from.at, |number, line| {
        if messages.len() >= limit || bytes >= MAX_BYTES {
            return false;
        }
        let entry = log::entry(line);
        if wanted(&entry, want) {
            bytes += line.len();
            messages.push(entry);
        } else if number >= from.unread {
            gap = true;
        }
        if !gap && number >= from.unread {
            read_to = number + 1;
        }
        true
    })?;
    let new = usize::try_from(log.entries() - from.unread).unwrap_or(usize::MAX);
    let left = usize::try_from(log.entries() - read_to).unwrap_or(usize::MAX);
    Ok((batch(messages, new, left, None), read_to))
}

/// The newest of it, and a digest of what is older.
fn stream(
    log: &Log<'_>,
    seat: &SeatId,
    name: &str,
    from: Begin,
    want: Want,
) -> Result<(Batch, u64), BusError> {
    let limit = want.limit.unwrap_or(ROOM_READ);
    let mut newest = Newest::default();
    let (mut new, mut passed, mut read_to, mut gap) = (0, 0, from.unread, false);
    log.read_lines(from.at, |number, line| {
        let entry = log::entry(line);
        let mine = own(&entry, seat);
        let unread = number >= from.unread;
        new += usize::from(!mine && unread);
        if !mine && wanted(&entry, want) {
            newest.push(line.len(), entry, limit);
        } else if !mine && unread {
            gap = true;
        }
        if !gap && unread {
            read_to = number + 1;
            passed = new;
        }
        true
    })?;
    let left = new - passed;
    let entries = |queue: VecDeque<(usize, Entry)>| queue.into_iter().map(|(_, entry)| entry).collect();
    let history = history::keep(log.home(), seat, name, entries(newest.older))?;
    Ok((batch(entries(newest.messages), new, left, history), read_to))
}

fn batch(messages: Vec<Entry>, total_new: usize, remaining: usize, history: Option<History>) -> Batch {
    Batch {
        returned: messages.len(),
        messages,
        total_new,
        remaining,
        archived_unread: 0,
        archived_urgent: 0,
        history,
        note: None,
    }
}
