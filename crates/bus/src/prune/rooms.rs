//! Channels: their old posts, the members who left, and those that nobody is in any more. Never puts `general` away.

use serde_json::json;

use super::Run;
use crate::error::BusError;
use crate::files::exists;
use crate::home;
use crate::lock;
use crate::log::cut::Line;
use crate::log::scan::{open_plain, scan};
use crate::log::{Entry, Log, append_to_archive};
use crate::names::RoomName;
use crate::rooms::{self, Room, Rooms};

/// Where the topic, rules and maker of a channel go that is put away.
const ENTRIES: &str = "archive/rooms.jsonl";

impl Run<'_> {
    /// Every channel that this run is about.
    fn wanted(&self, rooms: &Rooms) -> Result<Vec<RoomName>, BusError> {
        let mut names = rooms.names();
        names.extend(rooms::with_files(self.home)?);
        names.push(RoomName::general());
        names.sort();
        names.dedup();
        names.retain(|name| self.want.room.as_ref().is_none_or(|room| room == name));
        Ok(names)
    }

    pub(super) fn rooms(&mut self) -> Result<(), BusError> {
        let rooms = Rooms::load(self.home)?;
        for room in self.wanted(&rooms)? {
            if self
                .counts
                .archived_rooms
                .iter()
                .any(|put_away| put_away == room.as_str())
            {
                continue;
            }
            let moved = self.aged(&home::room(&room), |_| true);
            self.count_room(&room, moved);
        }
        Ok(())
    }

    fn count_room(&mut self, room: &RoomName, moved: u64) {
        self.counts.room_messages += moved;
        if moved > 0 {
            *self.counts.rooms.entry(room.as_str().to_owned()).or_default() += moved;
        }
    }

    /// Drops members who left and puts the channels away that nobody is in any more.
    pub(super) fn members(&mut self) -> Result<(), BusError> {
        let mut rooms = Rooms::load(self.home)?;
        let names = self.wanted(&rooms)?;
        if self.want.dry_run {
            self.sweep(&mut rooms, &names)?;
        } else {
            rooms::change(self.home, |now| {
                self.sweep(now, &names)?;
                rooms = now.clone();
                Ok(())
            })?;
        }
        if !self.want.archive_empty_rooms {
            return Ok(());
        }
        for room in names {
            if room.is_general() || !self.may_go(&rooms, &room) {
                continue;
            }
            let moved = if self.want.dry_run {
                self.look_at(&room, None)
            } else {
                self.put_away(&room)
            };
            if let Some(Some(moved)) = self.or_skip(&home::room(&room), moved) {
                self.count_room(&room, moved);
                self.counts.archived_rooms.push(room.as_str().to_owned());
            }
        }
        Ok(())
    }

    fn sweep(&mut self, rooms: &mut Rooms, names: &[RoomName]) -> Result<(), BusError> {
        for name in names {
            let Some(mut entry) = rooms.get(name) else {
                continue;
            };
            let (stay, left): (Vec<String>, Vec<String>) =
                entry.members.into_iter().partition(|member| self.is_here(member));
            if left.is_empty() {
                continue;
            }
            entry.members = stay;
            rooms.put(name, &entry)?;
            self.counts.members += left.len() as u64;
            self.counts.swept_members.insert(name.as_str().to_owned(), left);
        }
        Ok(())
    }

    /// Registered, and heard of since the limit. An entry whose shape is strange belongs to another program, which may know better.
    fn is_here(&self, member: &str) -> bool {
        match self.heartbeats.get(member) {
            Some(heartbeat) => *heartbeat >= self.rule.cutoff,
            None => self.agents.has(member),
        }
    }

    /// Whether a channel's entry says nothing against putting it away: nobody is in it, and it was not just made.
    fn may_go(&self, rooms: &Rooms, room: &RoomName) -> bool {
        match rooms.get(room) {
            Some(entry) => self.is_empty(&entry),
            // Only a file, or an entry that cannot be read: then another program knows what it is.
            None => !rooms.names().contains(room),
        }
    }

    fn is_empty(&self, entry: &Room) -> bool {
        entry.members.is_empty() && entry.created_at < self.rule.cutoff
    }

    /// How many posts would go with a channel, whose log may be open; `None` when one of them is not old.
    fn look_at(&self, room: &RoomName, log: Option<&Log<'_>>) -> Result<Option<u64>, BusError> {
        let mut active = false;
        let mut look = |entry: &Entry| {
            active |= !self.rule.aged(entry);
            !active
        };
        let entries = match log {
            Some(log) => {
                log.read(0, |_, entry| look(&entry))?;
                log.entries()
            }
            None => {
                let each = |_, line: &Line<'_>| {
                    line.entry.map(&mut look);
                };
                scan(&self.home.path(&home::room(room)), each)?.entries
            }
        };
        Ok((!active).then_some(entries))
    }

    /// Moves a channel's posts and its entry to the archive. `None` when it is in use after all.
    fn put_away(&self, room: &RoomName) -> Result<Option<u64>, BusError> {
        let name = home::room(room);
        // Its lock keeps posts away, so that what is seen now is true until the file is gone.
        let log = open_plain(self.home, &name)?;
        let _held = if log.is_some() {
            None
        } else {
            let held = lock::lock(self.home, &name)?;
            if exists(&self.home.path(&name)) {
                return Ok(None);
            }
            Some(held)
        };
        if self.look_at(room, log.as_ref())?.is_none() {
            return Ok(None);
        }
        let went = rooms::change(self.home, |rooms| {
            if !self.may_go(rooms, room) {
                return Ok(false);
            }
            if let Some(entry) = rooms.take(room) {
                let line = json!({"room": room, "archivedAt": self.home.now(), "entry": entry});
                append_to_archive(self.home, ENTRIES, format!("{line}\n").as_bytes())?;
            }
            Ok(true)
        })?;
        match (went, log) {
            (false, _) => Ok(None),
            (true, None) => Ok(Some(0)),
            (true, Some(log)) => log.retire(&home::archive(&name)).map(Some),
        }
    }
}
