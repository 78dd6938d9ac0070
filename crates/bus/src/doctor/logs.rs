//! The logs: lines that nobody can read, half a line at the end, ids that occur twice. Never removes a byte without a copy beside.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use super::Severity::{Error, Info, Warning};
use super::{Exam, Fix, keep_copy};
use crate::error::BusError;
use crate::home::{self, Home};
use crate::known::files;
use crate::log::cut::{Fate, Line};
use crate::log::scan::{open_plain, scan};
use crate::message;

/// How many line numbers a finding names.
const NAMED: usize = 5;

/// Every log of the directory, the archive left out.
pub(super) fn all(home: &Home) -> Result<Vec<String>, BusError> {
    let mut logs = vec!["room.jsonl".to_owned(), home::STATUS.to_owned()];
    for folder in ["rooms", "inbox", "receipts"] {
        let names = files(home, folder, ".jsonl")?;
        logs.extend(names.into_iter().map(|name| format!("{folder}/{name}.jsonl")));
    }
    Ok(logs)
}

#[derive(Default)]
struct Seen {
    malformed: Vec<u64>,
    malformed_count: u64,
    twice: u64,
    entries: u64,
    tail: u64,
}

pub(super) fn logs(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for log in all(exam.home)? {
        match look(exam.home, &log) {
            Ok(seen) => report(exam, &log, &seen),
            Err(error) => exam.cannot("unreadable-log", &log, &error),
        }
    }
    Ok(())
}

fn look(home: &Home, log: &str) -> Result<Seen, BusError> {
    let path = home.path(log);
    let mut seen = Seen::default();
    // Eight bytes for each id, since a log may be long. Two ids share them once in many millions of millions.
    let (print, mut ids) = (RandomState::new(), HashSet::new());
    let receipts = log.starts_with("receipts/");
    let scanned = scan(&path, |number, line| {
        if line.is_malformed() {
            seen.malformed_count += 1;
            if seen.malformed.len() < NAMED {
                seen.malformed.push(number);
            }
        }
        let id = line.entry.and_then(|entry| message::field(entry, "id"));
        // A receipt bears the id of what it is for, and each attempt writes one.
        if let (Some(id), false) = (id, receipts)
            && !ids.insert(print.hash_one(id))
        {
            seen.twice += 1;
        }
    })?;
    seen.entries = scanned.entries;
    seen.tail = scanned.tail;
    if seen.tail > 0 {
        // A writer may be at it this very moment.
        std::thread::sleep(Duration::from_millis(40));
        seen.tail = scan(&path, |_, _| {})?.tail;
    }
    Ok(seen)
}

fn report(exam: &mut Exam<'_>, log: &str, seen: &Seen) {
    exam.counts.insert(log.to_owned(), seen.entries);
    if seen.malformed_count > 0 {
        let one = seen.malformed_count == 1;
        let why = format!(
            "{} cannot be read by any program and {} passed over; with fix {} taken out, and the file as it is stays beside it",
            lines(seen),
            if one { "is" } else { "are" },
            if one { "it is" } else { "they are" },
        );
        exam.fixable("malformed-line", Error, log, why, |home| weed(home, log));
        exam.counts.remove(log);
    }
    if seen.tail > 0 {
        let why = format!(
            "it ends with {} bytes of a line that was never finished; the next writer begins a new one",
            seen.tail
        );
        exam.fixable("unfinished-line", Warning, log, why, |home| close(home, log));
        exam.counts.remove(log);
    }
    if seen.twice > 0 {
        let why = format!(
            "{} entries bear an id that occurred before; a message was written twice, and readers may tell by its id",
            seen.twice
        );
        exam.find("duplicate-id", Info, log, why);
    }
}

fn lines(seen: &Seen) -> String {
    let named: Vec<String> = seen.malformed.iter().map(u64::to_string).collect();
    let more = seen.malformed_count.saturating_sub(named.len() as u64);
    let word = if seen.malformed_count == 1 {
        "line"
    } else {
        "lines"
    };
    match more {
        0 => format!("{word} {}", named.join(", ")),
        more => format!("{word} {} and {more} more", named.join(", ")),
    }
}

/// Takes the lines out that nobody can read.
fn weed(home: &Home, name: &str) -> Result<Fix, BusError> {
    let Some(mut log) = open_plain(home, name)? else {
        return Ok(Fix::NotNeeded);
    };
    let path = home.path(name);
    let mut malformed = false;
    scan(&path, |_, line| malformed |= line.is_malformed())?;
    if !malformed {
        return Ok(Fix::NotNeeded);
    }
    keep_copy(&path)?;
    let fate = |line: &Line<'_>| {
        if line.is_malformed() {
            Fate::Dropped
        } else {
            Fate::Stays
        }
    };
    log.cut(fate, Fate::Stays, None)?;
    Ok(Fix::Done)
}

/// Ends the unfinished line: as an entry if it is one, else it goes.
fn close(home: &Home, name: &str) -> Result<Fix, BusError> {
    let Some(mut log) = open_plain(home, name)? else {
        return Ok(Fix::NotNeeded);
    };
    let path = home.path(name);
    if scan(&path, |_, _| {})?.tail == 0 {
        return Ok(Fix::NotNeeded);
    }
    if log.tail_is_entry()? {
        log.append(&[])?;
        return Ok(Fix::Done);
    }
    keep_copy(&path)?;
    log.cut(|_| Fate::Stays, Fate::Dropped, None)?;
    Ok(Fix::Done)
}
