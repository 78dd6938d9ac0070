//! Channels: their topic, rules and members in `rooms.json`. Never holds a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cursor::{self, Source};
use crate::error::BusError;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::log::Log;
use crate::message;
use crate::names::{RoomName, SeatId};
use crate::post;
use crate::registry::Agents;

/// The file.
pub(crate) const FILE: &str = "rooms.json";

/// One channel's entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Its rules, shown to whoever joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub motd: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub created_at: i64,
    /// Who made it.
    #[serde(default)]
    pub created_by: String,
    /// Who joined. Everybody registered is in `general` besides.
    #[serde(default)]
    pub members: Vec<String>,
    /// What other programs keep here.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// All channels by name. An entry whose shape is strange is kept as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rooms {
    entries: BTreeMap<String, Value>,
}

impl Rooms {
    /// Reads the channels.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub fn load(home: &Home) -> Result<Self, BusError> {
        Ok(json::read(home, FILE)?.unwrap_or_default())
    }

    /// The channels, read again only when their file is another than the last time: for what every post asks.
    ///
    /// # Errors
    /// As [`Rooms::load`].
    pub(crate) fn seen(home: &Home) -> Result<Arc<Self>, BusError> {
        home.rooms().get(&home.path(FILE), || Self::load(home))
    }

    /// One channel.
    pub fn get(&self, room: &RoomName) -> Option<Room> {
        serde_json::from_value(self.entries.get(room.as_str())?.clone()).ok()
    }

    /// The names that are channel names.
    pub fn names(&self) -> Vec<RoomName> {
        self.entries
            .keys()
            .filter_map(|name| RoomName::parse(name).ok().filter(|room| room.as_str() == name))
            .collect()
    }

    /// The names that no channel can have.
    pub(crate) fn strange(&self) -> Vec<String> {
        let names = self.names();
        let is_name = |name: &String| names.iter().any(|room| room.as_str() == name);
        self.entries
            .keys()
            .filter(|name| !is_name(name))
            .cloned()
            .collect()
    }

    /// The channels an agent has joined, `general` not among them unless its file says so.
    pub fn of(&self, seat: &SeatId) -> Vec<RoomName> {
        let joined = |room: &RoomName| {
            self.get(room)
                .is_some_and(|room| room.members.iter().any(|member| member == seat.as_str()))
        };
        self.names().into_iter().filter(joined).collect()
    }

    pub(crate) fn put(&mut self, room: &RoomName, entry: &Room) -> Result<(), BusError> {
        let value = serde_json::to_value(entry).map_err(|error| {
            muster_core::Fault::other("an entry could not be written as JSON").because(error)
        })?;
        self.entries.insert(room.as_str().to_owned(), value);
        Ok(())
    }

    pub(crate) fn take(&mut self, room: &RoomName) -> Option<Value> {
        self.entries.remove(room.as_str())
    }
}

/// Changes the channels under their lock. Nothing is written when `change` answers an error or changes nothing.
///
/// # Errors
/// What `change` answers; [`BusError::Damaged`], a fault.
pub(crate) fn change<T>(
    home: &Home,
    change: impl FnOnce(&mut Rooms) -> Result<T, BusError>,
) -> Result<T, BusError> {
    let _held = lock::lock(home, FILE)?;
    let before = Rooms::load(home)?;
    let mut rooms = before.clone();
    let answer = change(&mut rooms)?;
    if rooms != before {
        json::write(home, FILE, &rooms, Keep::Durably)?;
    }
    Ok(answer)
}

/// Whether a channel exists: it has an entry or a file.
pub fn exists(home: &Home, room: &RoomName) -> Result<bool, BusError> {
    Ok(room.is_general() || home.path(&home::room(room)).exists() || Rooms::seen(home)?.get(room).is_some())
}

fn new(home: &Home, by: &str) -> Room {
    Room {
        created_at: home.now(),
        created_by: by.to_owned(),
        ..Room::default()
    }
}

/// Makes sure that a channel has an entry. Whoever writes to it asks again under the lock of its log, which keeps it from being put away.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub(crate) fn ensure(home: &Home, room: &RoomName, by: &str) -> Result<(), BusError> {
    if room.is_general() || Rooms::seen(home)?.get(room).is_some() {
        return Ok(());
    }
    change(home, |rooms| match rooms.get(room) {
        Some(_) => Ok(()),
        None => rooms.put(room, &new(home, by)),
    })
}

/// Joins a channel, which is made if nobody made it. A notice tells the others, once.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub fn join(home: &Home, seat: &SeatId, room: &RoomName) -> Result<Room, BusError> {
    let (entry, joined) = change(home, |rooms| {
        let mut entry = rooms.get(room).unwrap_or_else(|| new(home, seat.as_str()));
        let joined = !entry.members.iter().any(|member| member == seat.as_str());
        if joined && !room.is_general() {
            entry.members.push(seat.as_str().to_owned());
            rooms.put(room, &entry)?;
        }
        Ok((entry, joined && !room.is_general()))
    })?;
    home.create_early(&home::room(room), "")?;
    // Whoever is in it hears what a cut took, also when they never read it. They are in it whether or not that can be noted.
    if let Err(error) = cursor::begin(home, seat, &Source::Room(room.clone())) {
        tracing::warn!(room = %room, error = %error.chain(), "it could not be noted that a new member has read nothing yet");
    }
    if joined {
        tell(home, room, seat, format!("{seat} joined #{room}"));
    }
    Ok(entry)
}

/// Leaves a channel. Its messages stay. Answers whether the agent was a member.
///
/// # Errors
/// [`BusError::LeavesGeneral`], [`BusError::NoRoom`], [`BusError::Damaged`], a fault.
pub fn leave(home: &Home, seat: &SeatId, room: &RoomName) -> Result<bool, BusError> {
    if room.is_general() {
        return Err(BusError::LeavesGeneral);
    }
    if !exists(home, room)? {
        return Err(BusError::NoRoom(room.clone()));
    }
    let left = change(home, |rooms| {
        let Some(mut entry) = rooms.get(room) else {
            return Ok(false);
        };
        let before = entry.members.len();
        entry.members.retain(|member| member != seat.as_str());
        let left = entry.members.len() < before;
        if left {
            rooms.put(room, &entry)?;
        }
        Ok(left)
    })?;
    if left {
        tell(home, room, seat, format!("{seat} left #{room}"));
    }
    Ok(left)
}

/// What of a channel is set by a line of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// What it is about.
    Topic,
    /// Its rules.
    Motd,
}

/// Sets a channel's topic or rules and tells it so.
///
/// # Errors
/// [`BusError::NoRoom`], a text that is empty or too long, [`BusError::Damaged`], a fault.
pub fn set(home: &Home, seat: &SeatId, room: &RoomName, what: Line, text: &str) -> Result<(), BusError> {
    let (field, word) = match what {
        Line::Topic => ("topic", "topic"),
        Line::Motd => ("motd", "rules"),
    };
    message::short(field, text)?;
    if !exists(home, room)? {
        return Err(BusError::NoRoom(room.clone()));
    }
    change(home, |rooms| {
        let mut entry = rooms.get(room).unwrap_or_else(|| new(home, seat.as_str()));
        match what {
            Line::Topic => entry.topic = Some(text.to_owned()),
            Line::Motd => entry.motd = Some(text.to_owned()),
        }
        rooms.put(room, &entry)
    })?;
    tell(
        home,
        room,
        seat,
        format!("{seat} set the {word} of #{room}: {text}"),
    );
    Ok(())
}

/// Posts a notice of what was done. It is done, whether or not the notice can be written.
fn tell(home: &Home, room: &RoomName, by: &SeatId, text: String) {
    if let Err(error) = post::notice(home, room, by, text) {
        tracing::warn!(room = %room, error = %error.chain(), "a channel was not told of a change to it");
    }
}

/// A channel as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its name, without `#`.
    pub room: RoomName,
    /// What it is about.
    pub topic: Option<String>,
    /// Its rules.
    pub motd: Option<String>,
    /// Who is in it.
    pub members: Vec<String>,
    /// How many.
    pub member_count: usize,
    /// Entries in its file; older ones are in the archive.
    pub message_count: u64,
    /// When the last entry was written, in milliseconds.
    pub last_ts: Option<i64>,
    /// Milliseconds since 1970.
    pub created_at: Option<i64>,
    /// Who made it.
    pub created_by: Option<String>,
}

/// All channels: those with an entry, those with only a file, and `general`.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub fn list(home: &Home) -> Result<Vec<Listed>, BusError> {
    let rooms = Rooms::load(home)?;
    let agents = Agents::load(home)?;
    let mut names = rooms.names();
    names.extend(with_files(home)?);
    names.push(RoomName::general());
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|room| {
            let entry = rooms.get(&room);
            let members = members(&room, entry.as_ref(), &agents);
            let (message_count, last_ts) = match Log::open_existing(home, &home::room(&room))? {
                Some(log) => (log.entries(), last_ts(&log)?),
                None => (0, None),
            };
            Ok(Listed {
                topic: entry.as_ref().and_then(|entry| entry.topic.clone()),
                motd: entry.as_ref().and_then(|entry| entry.motd.clone()),
                member_count: members.len(),
                members,
                message_count,
                last_ts,
                created_at: entry.as_ref().map(|entry| entry.created_at),
                created_by: entry.map(|entry| entry.created_by),
                room,
            })
        })
        .collect()
}

/// Who is in a channel: everybody registered is in `general`.
pub fn members(room: &RoomName, entry: Option<&Room>, agents: &Agents) -> Vec<String> {
    let mut members: Vec<String> = entry.map(|entry| entry.members.clone()).unwrap_or_default();
    if room.is_general() {
        members.extend(agents.all().into_iter().map(|agent| agent.agent_id));
    }
    members.sort();
    members.dedup();
    members
}

/// When the last entry of a log was written.
pub(crate) fn last_ts(log: &Log<'_>) -> Result<Option<i64>, BusError> {
    let mut last = None;
    log.read(log.entries().saturating_sub(1), |_, entry| {
        last = Some(message::ts(&entry));
        true
    })?;
    Ok(last)
}

/// The channels that have a file, `general` not among them.
pub(crate) fn with_files(home: &Home) -> Result<Vec<RoomName>, BusError> {
    let path = home.path("rooms");
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(crate::error::failed("read", &path, error)),
    };
    let mut rooms = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| crate::error::failed("read", &path, error))?;
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        if let Some(room) =
            stem.and_then(|stem| RoomName::parse(stem).ok().filter(|room| room.as_str() == stem))
        {
            rooms.push(room);
        }
    }
    Ok(rooms)
}
