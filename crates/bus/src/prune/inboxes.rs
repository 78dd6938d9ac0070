//! Direct messages: old ones that were read, and inboxes of nobody. Never moves away what its reader may still want.

use super::Run;
use crate::cursor::{Cursor, Source};
use crate::error::BusError;
use crate::home;
use crate::known::{Known, files};
use crate::log::cut::Line;
use crate::log::scan::{open_plain, scan};
use crate::log::{Entry, Log};

/// An inbox that was made a moment ago may belong to somebody who is about to be registered.
const JUST_MADE: i64 = 60_000;

impl Run<'_> {
    pub(super) fn inboxes(&mut self) -> Result<(), BusError> {
        let known = Known::load(self.home)?;
        for stem in files(self.home, "inbox", ".jsonl")? {
            let log = format!("inbox/{stem}.jsonl");
            if !known.has(&stem) && self.want.remove_orphan_inboxes != Some(false) {
                let moved = if self.want.dry_run {
                    self.orphan(&log, None)
                } else {
                    self.put_orphan_away(&stem, &log)
                };
                match self.or_skip(&log, moved) {
                    Some(Some(messages)) => {
                        self.counts.orphan_messages += messages;
                        self.counts.orphan_inboxes.push(stem);
                        continue;
                    }
                    Some(None) => {}
                    None => continue,
                }
            }
            let moved = self.read_ones(&stem, &log);
            if let Some((moved, unread)) = self.or_skip(&log, moved) {
                self.counts.inbox_messages += moved;
                self.counts.unread_kept += unread;
                if moved > 0 {
                    self.counts.inboxes.insert(stem, moved);
                }
            }
        }
        Ok(())
    }

    /// Moves the old messages that were read. Answers how many, and how many old ones stay because they were not.
    fn read_ones(&self, stem: &str, name: &str) -> Result<(u64, u64), BusError> {
        let (mut moved, mut unread) = (0, 0);
        if self.want.dry_run {
            // Counted first, since a cursor past the end says nothing about what was read.
            let path = self.home.path(name);
            let read_to = self.read_to(stem, scan(&path, |_, _| {})?.entries)?;
            scan(&path, |_, line| {
                if let (Some(number), Some(entry)) = (line.number, line.entry)
                    && self.rule.aged(entry)
                {
                    *(if number < read_to { &mut moved } else { &mut unread }) += 1;
                }
            })?;
            return Ok((moved, unread));
        }
        // The lock of an inbox keeps its cursor still, since whoever reads it holds both.
        let Some(mut log) = open_plain(self.home, name)? else {
            return Ok((0, 0));
        };
        let read_to = self.read_to(stem, log.entries())?;
        let goes = |number, entry: &Entry| {
            let aged = self.rule.aged(entry);
            unread += u64::from(aged && number >= read_to);
            aged && number < read_to
        };
        moved = log.archive(goes, Some(&home::archive(name)))?.count();
        Ok((moved, unread))
    }

    /// How many messages were read. Where nothing true is known of it, none.
    fn read_to(&self, stem: &str, entries: u64) -> Result<u64, BusError> {
        let cursor = Cursor::load_file(self.home, &format!("cursors/{stem}.json"))?;
        let offset = cursor.get(&Source::Inbox).filter(|offset| *offset <= entries);
        Ok(offset.unwrap_or(0))
    }

    /// How many messages are in an inbox of nobody that may go, whose log may be open; `None` when it may not: to send to somebody who comes
    /// later is allowed, so while one of its messages is younger than the limit it waits for them.
    fn orphan(&self, name: &str, log: Option<&Log<'_>>) -> Result<Option<u64>, BusError> {
        let path = self.home.path(name);
        let mut fresh = false;
        let mut look = |entry: &Entry| fresh |= !self.rule.aged(entry);
        let (entries, tail) = match log {
            Some(log) => {
                log.read(0, |_, entry| {
                    look(&entry);
                    true
                })?;
                (log.entries(), log.has_tail())
            }
            None => {
                let each = |_, line: &Line<'_>| {
                    line.entry.map(&mut look);
                };
                let scanned = scan(&path, each)?;
                (scanned.entries, scanned.tail > 0)
            }
        };
        let age = self.age(&path);
        // Half a line does not say when it was written; the file does.
        let fresh = fresh || (tail && self.home.now().saturating_sub(age) >= self.rule.cutoff);
        let just_made = entries == 0 && !tail && age < JUST_MADE;
        Ok((!fresh && !just_made).then_some(entries))
    }

    fn put_orphan_away(&self, stem: &str, name: &str) -> Result<Option<u64>, BusError> {
        let Some(log) = open_plain(self.home, name)? else {
            return Ok(None);
        };
        // Under its lock: somebody may have been registered under this id since.
        if Known::load(self.home)?.has(stem) || self.orphan(name, Some(&log))?.is_none() {
            return Ok(None);
        }
        log.retire(&home::archive(name)).map(Some)
    }

    /// Milliseconds since a file was written to.
    fn age(&self, path: &std::path::Path) -> i64 {
        let written = std::fs::symlink_metadata(path)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .and_then(|since| i64::try_from(since.as_millis()).ok());
        written.map_or(i64::MAX, |written| self.home.now().saturating_sub(written))
    }
}
