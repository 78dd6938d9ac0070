//! What each agent has read: an index of entries for each source, in the files and under the names other programs use. Never moves past an entry that was not returned.

use serde_json::{Map, Value};

use crate::error::BusError;
use crate::files;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::names::{RoomName, SeatId};

/// Where messages are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An agent's direct messages.
    Inbox,
    /// A channel.
    Room(RoomName),
    /// The status stream.
    Status,
}

impl Source {
    /// The log of this source, for this reader.
    pub(crate) fn log(&self, seat: &SeatId) -> String {
        match self {
            Self::Inbox => home::inbox(seat),
            Self::Room(room) => home::room(room),
            Self::Status => home::STATUS.to_owned(),
        }
    }
}

/// Where the file says what was moved away unread. Other programs know no such field and keep it or drop it.
const MISSED: &str = "archivedUnread";

/// The log of a source that all read. No cut takes unread direct messages.
fn shared_log(source: &Source) -> Option<String> {
    match source {
        Source::Inbox => None,
        Source::Room(room) => Some(home::room(room)),
        Source::Status => Some(home::STATUS.to_owned()),
    }
}

/// One agent's cursors, with whatever else its file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    fields: Map<String, Value>,
    /// The file was there and said nothing: what was read is not known.
    pub(crate) damaged: bool,
}

impl Cursor {
    /// Reads an agent's cursors. The caller holds their lock when it means to write them.
    ///
    /// # Errors
    /// A fault.
    pub(crate) fn load(home: &Home, seat: &SeatId) -> Result<Self, BusError> {
        Self::load_file(home, &home::cursor(seat))
    }

    /// The same by the name of the file, which other programs may have made.
    pub(crate) fn load_file(home: &Home, name: &str) -> Result<Self, BusError> {
        match json::read(home, name) {
            Ok(fields) => Ok(Self {
                fields: fields.unwrap_or_default(),
                damaged: false,
            }),
            Err(BusError::Damaged(_)) => Ok(Self {
                damaged: true,
                ..Self::default()
            }),
            Err(error) => Err(error),
        }
    }

    /// How many entries of `source` were read.
    pub(crate) fn get(&self, source: &Source) -> Option<u64> {
        let value = match source {
            Source::Inbox => self.fields.get("inboxOffset"),
            Source::Status => self.fields.get("statusOffset"),
            Source::Room(room) if room.is_general() => self.fields.get("roomOffset"),
            Source::Room(room) => self.fields.get("roomOffsets")?.get(room.as_str()),
        };
        let value = value?;
        value.as_u64().or_else(|| {
            // A number that no program writes: as good as none.
            value.as_i64().map(|_| 0)
        })
    }

    /// Notes how many entries of `source` were read.
    pub(crate) fn set(&mut self, source: &Source, offset: u64) {
        match source {
            Source::Inbox => self.fields.insert("inboxOffset".to_owned(), offset.into()),
            Source::Status => self.fields.insert("statusOffset".to_owned(), offset.into()),
            Source::Room(room) if room.is_general() => {
                self.fields.insert("roomOffset".to_owned(), offset.into())
            }
            Source::Room(room) => {
                let rooms = self
                    .fields
                    .entry("roomOffsets")
                    .or_insert_with(|| Value::Object(Map::new()));
                if !rooms.is_object() {
                    *rooms = Value::Object(Map::new());
                }
                rooms
                    .as_object_mut()
                    .and_then(|rooms| rooms.insert(room.as_str().to_owned(), offset.into()))
            }
        };
    }

    /// How many entries of `source` a cut moved to the archive before this agent had read them, since it was last told.
    pub(crate) fn missed(&self, source: &Source) -> u64 {
        let cut = |log: String| self.fields.get(MISSED)?.get(&log)?.get("entries")?.as_u64();
        shared_log(source).and_then(cut).unwrap_or(0)
    }

    /// How many of those wake everybody, whoever said them.
    pub(crate) fn missed_urgent(&self, source: &Source) -> u64 {
        let cut = |log: String| self.fields.get(MISSED)?.get(&log)?.get("urgent")?.as_u64();
        shared_log(source).and_then(cut).unwrap_or(0)
    }

    /// Notes that a cut, told from others by `cut`, took so many more, and how many of them were urgent. Answers whether that is news: a cut is
    /// counted once.
    pub(crate) fn miss(&mut self, source: &Source, entries: u64, urgent: u64, cut: u64) -> bool {
        let Some(log) = shared_log(source).filter(|_| entries > 0) else {
            return false;
        };
        let (before, urgent_before) = (self.missed(source), self.missed_urgent(source));
        let all = self
            .fields
            .entry(MISSED)
            .or_insert_with(|| Value::Object(Map::new()));
        if !all.is_object() {
            *all = Value::Object(Map::new());
        }
        let Some(all) = all.as_object_mut() else {
            return false;
        };
        if all.get(&log).and_then(|known| known.get("cut")?.as_u64()) == Some(cut) {
            return false;
        }
        all.insert(
            log,
            serde_json::json!({
                "entries": before.saturating_add(entries),
                "urgent": urgent_before.saturating_add(urgent),
                "cut": cut,
            }),
        );
        true
    }

    /// Notes that the agent was told.
    pub(crate) fn told_what_it_missed(&mut self, source: &Source) {
        let log = shared_log(source).unwrap_or_default();
        if let Some(known) = self.fields.get_mut(MISSED).and_then(|all| all.get_mut(log))
            && let Some(known) = known.as_object_mut()
        {
            known.insert("entries".to_owned(), 0.into());
            known.insert("urgent".to_owned(), 0.into());
        }
    }

    /// Writes an agent's cursors. The caller holds their lock.
    ///
    /// # Errors
    /// A fault.
    pub(crate) fn store(&self, home: &Home, seat: &SeatId) -> Result<(), BusError> {
        self.store_file(home, &home::cursor(seat))
    }

    /// The same by the name of the file.
    pub(crate) fn store_file(&self, home: &Home, name: &str) -> Result<(), BusError> {
        json::write(home, name, &self.fields, Keep::Quickly)
    }
}

/// Notes that a reader has read nothing of a source, if its file says nothing of it: from then on a cut counts what it takes away unread. A file
/// that is not there, or that cannot be read, stays as it is.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub(crate) fn begin(home: &Home, seat: &SeatId, source: &Source) -> Result<(), BusError> {
    let name = home::cursor(seat);
    let begins = || -> Result<Option<Cursor>, BusError> {
        if !files::exists(&home.path(&name)) {
            return Ok(None);
        }
        let cursor = Cursor::load(home, seat)?;
        Ok(Some(cursor).filter(|cursor| !cursor.damaged && cursor.get(source).is_none()))
    };
    if begins()?.is_none() {
        return Ok(());
    }
    let _held = lock::lock(home, &name)?;
    let Some(mut cursor) = begins()? else {
        return Ok(());
    };
    cursor.set(source, 0);
    cursor.store(home, seat)
}
