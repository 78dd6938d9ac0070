//! Cursors that count more than there is. Never moves one past an entry that its reader may not have seen.

use serde_json::{Map, Value};

use super::Severity::{Error, Warning};
use super::{Exam, Fix};
use crate::cursor::{Cursor, Source};
use crate::error::BusError;
use crate::home::{self, Home};
use crate::known::files;
use crate::log::Log;
use crate::names::RoomName;
use crate::{json, lock};

pub(super) fn offsets(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for stem in files(exam.home, "cursors", ".json")? {
        let file = format!("cursors/{stem}.json");
        let fields: Map<String, Value> = match json::read(exam.home, &file) {
            Ok(fields) => fields.unwrap_or_default(),
            // Told of by the check of damaged files.
            Err(_) => continue,
        };
        for (source, log, offset) in sources(&stem, &fields) {
            if let Err(error) = one(exam, &file, &source, &log, &offset) {
                exam.cannot("cursor-past-end", &file, &error);
            }
        }
    }
    Ok(())
}

/// Each offset that a cursor file holds, with its source and log.
fn sources(stem: &str, fields: &Map<String, Value>) -> Vec<(Source, String, Value)> {
    let general = RoomName::general();
    let mut found = Vec::new();
    let own = [
        ("inboxOffset", Source::Inbox, format!("inbox/{stem}.jsonl")),
        ("statusOffset", Source::Status, home::STATUS.to_owned()),
        ("roomOffset", Source::Room(general.clone()), home::room(&general)),
    ];
    for (field, source, log) in own {
        found.extend(fields.get(field).map(|offset| (source, log, offset.clone())));
    }
    let rooms = fields.get("roomOffsets").and_then(Value::as_object);
    for (name, offset) in rooms.into_iter().flatten() {
        // A name that no channel has counts nothing.
        if let Ok(room) = RoomName::parse(name)
            && room.as_str() == name
            && !room.is_general()
        {
            let log = home::room(&room);
            found.push((Source::Room(room), log, offset.clone()));
        }
    }
    found
}

fn one(exam: &mut Exam<'_>, file: &str, source: &Source, log: &str, offset: &Value) -> Result<(), BusError> {
    let Some(offset) = offset.as_u64() else {
        let why = format!(
            "what was read of {log} is no number, so all of it is new to this agent; with fix, it says so"
        );
        exam.fixable("cursor-offset", Warning, file, why, |home| {
            rewind(home, file, source, log)
        });
        return Ok(());
    };
    // Counted anew before anything is said: a reader and a writer may have been at it between the two looks.
    if offset > exam.entries(log)? {
        exam.counts.remove(log);
    }
    let entries = exam.entries(log)?;
    let still = Cursor::load_file(exam.home, file)?
        .get(source)
        .is_some_and(|now| now > entries);
    if offset > entries && still {
        let why = format!(
            "{offset} entries of {log} are said to be read and it holds {entries}; with fix, it is read again from its beginning, since a second delivery is seen and a lost one is not"
        );
        exam.fixable("cursor-past-end", Error, file, why, |home| {
            rewind(home, file, source, log)
        });
    }
    Ok(())
}

/// Sets a cursor to the beginning unless it says something true by now.
fn rewind(home: &Home, file: &str, source: &Source, name: &str) -> Result<Fix, BusError> {
    // The log first: whoever reads holds it, too.
    let log = Log::open_existing(home, name)?;
    let _held = lock::lock(home, file)?;
    let fields: Map<String, Value> = json::read(home, file)?.unwrap_or_default();
    let mut cursor = Cursor::load_file(home, file)?;
    let entries = log.map_or(0, |log| log.entries());
    let said = sources("", &fields)
        .into_iter()
        .find(|(of, _, _)| of == source)
        .map(|(_, _, offset)| offset);
    match said {
        None => return Ok(Fix::NotNeeded),
        Some(offset) if offset.as_u64().is_some_and(|offset| offset <= entries) => return Ok(Fix::NotNeeded),
        Some(_) => {}
    }
    cursor.set(source, 0);
    cursor.store_file(home, file)?;
    Ok(Fix::Done)
}
