//! Files in the directory that are not the bus's: what another program left there, or a person. Never opens one and never takes one away.

use std::fs;
use std::io::ErrorKind;

use super::Severity::Info;
use super::{Exam, WHOLE};
use crate::error::{BusError, failed};
use crate::known::is_stem;

/// What stands at the top of a directory, that of other programs with it.
const TOP: [&str; 20] = [
    "agents.json",
    "chat-colors.json",
    "config.json",
    "room.jsonl",
    "rooms.json",
    "scopes.json",
    "status.jsonl",
    "tokens.json",
    ".muster",
    "archive",
    "cursors",
    "history",
    "inbox",
    "logs",
    "pids",
    "receipts",
    "rooms",
    "sessions",
    "transports",
    "work",
];

/// The folders with one file for each agent, channel or project, and how those files end.
const FOLDERS: [(&str, &str); 7] = [
    ("cursors", ".json"),
    ("inbox", ".jsonl"),
    ("receipts", ".jsonl"),
    ("rooms", ".jsonl"),
    ("sessions", ".json"),
    ("transports", ".json"),
    ("work", ".json"),
];

/// How many of them are named.
const NAMED: usize = 5;
/// What is younger than this, in milliseconds, may be on its way to its place.
const PASSING: i64 = 60_000;

pub(super) fn strays(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let mut strays = find(exam, "", |name| TOP.contains(&name))?;
    for (folder, ending) in FOLDERS {
        strays.extend(find(exam, folder, |name| {
            name.strip_suffix(ending).is_some_and(is_stem)
        })?);
    }
    if strays.is_empty() {
        return Ok(());
    }
    strays.sort();
    let named = strays.get(..NAMED).unwrap_or(&strays).join(", ");
    let more = match strays.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = format!("nothing of the bus reads these and prune leaves them: {named}{more}");
    exam.find("stray-file", Info, WHOLE, why);
    Ok(())
}

/// What stands in a folder and is none of the `known`, nor a copy or a lock of one.
fn find(exam: &Exam<'_>, folder: &str, known: impl Fn(&str) -> bool) -> Result<Vec<String>, BusError> {
    let path = exam.home.path(folder);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        // What stands in the place of a folder is told of by the check of the directory.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed("read", &path, error)),
    };
    let mut strays = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name.split_once(".bak").map_or(name.as_str(), |(of, _)| of);
        if known(of.strip_suffix(".lock").unwrap_or(of))
            || exam.age(&entry.path()).is_none_or(|age| age < PASSING)
        {
            continue;
        }
        strays.push(if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        });
    }
    Ok(strays)
}
