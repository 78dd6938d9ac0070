//! Channels: members who are nobody, files without an entry and entries without a file. Never drops a member whose process runs.

use serde_json::Map;

use super::Severity::Warning;
use super::{Exam, Fix};
use crate::error::BusError;
use crate::home::{self, Home};
use crate::known::Known;
use crate::message::SYSTEM;
use crate::names::RoomName;
use crate::registry::Agents;
use crate::rooms::{self, Room, Rooms};

pub(super) fn members(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let rooms = Rooms::load(exam.home)?;
    let (agents, known) = (Agents::load(exam.home)?, Known::load(exam.home)?);
    for name in rooms.names() {
        let entry = rooms.get(&name).unwrap_or_default();
        for member in entry.members.iter().filter(|member| !agents.has(member)) {
            if known.lives(member) {
                continue;
            }
            let severity = super::seats::severity(exam, member);
            let why = format!(
                "'{member}' is in this channel and is not registered; with fix, it is no longer in it and may join again"
            );
            exam.fixable("orphan-membership", severity, &format!("#{name}"), why, |home| {
                drop_member(home, &name, member)
            });
        }
    }
    Ok(())
}

fn drop_member(home: &Home, room: &RoomName, member: &str) -> Result<Fix, BusError> {
    let (agents, known) = (Agents::load(home)?, Known::load(home)?);
    if agents.has(member) || known.lives(member) {
        return Ok(Fix::Left("it is there again"));
    }
    let dropped = rooms::change(home, |rooms| {
        let Some(mut entry) = rooms.get(room) else {
            return Ok(false);
        };
        let before = entry.members.len();
        entry.members.retain(|other| other != member);
        let dropped = entry.members.len() < before;
        if dropped {
            rooms.put(room, &entry)?;
        }
        Ok(dropped)
    })?;
    Ok(if dropped { Fix::Done } else { Fix::NotNeeded })
}

pub(super) fn mismatches(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let rooms = Rooms::load(exam.home)?;
    let (entries, files) = (rooms.names(), rooms::with_files(exam.home)?);
    for name in &files {
        if !entries.contains(name) {
            let why = "this channel has a file and no entry in rooms.json, so it has no members, topic or rules; with fix, it gets an empty entry";
            exam.fixable("channel-mismatch", Warning, &format!("#{name}"), why, |home| {
                enter(home, name)
            });
        }
    }
    for name in &entries {
        if rooms.get(name).is_none() {
            exam.find("channel-mismatch", Warning, &format!("#{name}"), "this channel's entry in rooms.json has a strange shape, so its members, topic and rules are shown to nobody");
        }
        if !name.is_general() && !files.contains(name) {
            let why = "this channel has an entry in rooms.json and no file; with fix, it gets an empty one";
            exam.fixable("channel-mismatch", Warning, &format!("#{name}"), why, |home| {
                let made = home.create_early(&home::room(name), "")?;
                Ok(if made { Fix::Done } else { Fix::NotNeeded })
            });
        }
    }
    for name in rooms.strange() {
        exam.find(
            "channel-name",
            Warning,
            &name,
            "this entry of rooms.json has a name that no channel can have, so nobody can join it",
        );
    }
    Ok(())
}

fn enter(home: &Home, room: &RoomName) -> Result<Fix, BusError> {
    let entered = rooms::change(home, |rooms| {
        if rooms.names().contains(room) {
            return Ok(false);
        }
        rooms.put(
            room,
            &Room {
                created_at: home.now(),
                created_by: SYSTEM.to_owned(),
                more: Map::new(),
                ..Room::default()
            },
        )?;
        Ok(true)
    })?;
    Ok(if entered { Fix::Done } else { Fix::NotNeeded })
}
