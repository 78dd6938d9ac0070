//! Looking through a source by the number of the entry, for a reader who scrolls: what a page costs does not depend on how long the source is. Never moves a cursor by looking.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;

use super::{MAX_BYTES, start};
use crate::cursor::{Cursor, Source};
use crate::error::BusError;
use crate::home::{self, Home};
use crate::limits::MAX_READ;
use crate::lock;
use crate::log::{self, Entry, Log};
use crate::names::SeatId;

/// Consecutive entries of a source, and where they stand in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The number of the first of them, counted from 0.
    pub first: u64,
    /// Oldest first, as they stand in the file.
    pub entries: Vec<Entry>,
    /// How many entries the source holds.
    pub total: u64,
    /// How many of them `seat` has read.
    pub read: u64,
}

/// The last entries of a source before number `before`, or its newest without it: at most `limit` of them, 500 and 4 MiB at most, and one
/// however long. A source that nobody has written to is empty, and stays absent.
///
/// Numbers hold until the source is cut. Whoever goes on from an entry asks for it again, and sees whether it is still the same.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn page(
    home: &Home,
    seat: &SeatId,
    source: &Source,
    before: Option<u64>,
    limit: usize,
) -> Result<Page, BusError> {
    let Some(log) = Log::open_existing(home, &source.log(seat))? else {
        return Ok(Page::default());
    };
    let total = log.entries();
    let (read, _) = start(&Cursor::load(home, seat)?, source, total);
    let end = before.map_or(total, |before| before.min(total));
    let mut first = end.saturating_sub(limit.min(MAX_READ) as u64);
    let (mut entries, mut bytes) = (VecDeque::new(), 0);
    if first < end {
        log.read_lines(first, |number, line| {
            bytes += line.len();
            entries.push_back((line.len(), log::entry(line)));
            while bytes > MAX_BYTES && entries.len() > 1 {
                let Some((length, _)) = entries.pop_front() else {
                    break;
                };
                bytes -= length;
            }
            number + 1 < end
        })?;
    }
    first = end.saturating_sub(entries.len() as u64);
    Ok(Page {
        first,
        entries: entries.into_iter().map(|(_, entry)| entry).collect(),
        total,
        read,
    })
}

/// Notes that `seat` has seen a source up to and with entry `last`, which it was given as number `number`. Nothing is noted when another entry
/// stands there by now, because the source was cut, or when more was read already. Answers whether it was noted.
///
/// # Errors
/// [`BusError::Held`], a fault. The cursor stands as it did then.
pub fn seen(
    home: &Home,
    seat: &SeatId,
    source: &Source,
    number: u64,
    last: &Entry,
) -> Result<bool, BusError> {
    let Some(log) = Log::open_existing(home, &source.log(seat))? else {
        return Ok(false);
    };
    let mut same = false;
    log.read(number, |_, entry| {
        same = entry == *last;
        false
    })?;
    if !same {
        return Ok(false);
    }
    let _held = lock::lock(home, &home::cursor(seat))?;
    let mut cursor = Cursor::load(home, seat)?;
    let (read, note) = start(&cursor, source, log.entries());
    if read > number && note.is_none() {
        return Ok(false);
    }
    cursor.set(source, number + 1);
    cursor.store(home, seat)?;
    Ok(true)
}

/// What changes about a source's file when something is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// What a source's file looks like, without opening it; `None` when there is none. One look at it costs less than a page.
pub fn shape(home: &Home, seat: &SeatId, source: &Source) -> Option<Shape> {
    let meta = std::fs::metadata(home.path(&source.log(seat))).ok()?;
    Some(Shape {
        inode: meta.ino(),
        size: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}
