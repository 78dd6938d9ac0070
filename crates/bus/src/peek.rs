//! What a client's own hook tells an agent at a turn of its conversation: what is new, read from the files. Never waits for whoever holds a lock, and never marks as read what was not handed over.

use std::time::Duration;

use crate::cursor::{Cursor, Source};
use crate::error::{BusError, failed};
use crate::fresh;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock::{self, Held};
use crate::log::Entry;
use crate::log::glimpse::Glimpse;
use crate::message;
use crate::names::{RoomName, SeatId};
use crate::rename;
use crate::rooms::Rooms;

mod page;

pub use page::MAX_TEXT;
use page::{Page, Taken};

/// How long the lock of the cursors is waited for. A turn of a conversation is not held up for more.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is new for an agent, and what is to be marked as read once it was handed over.
pub struct Peek<'h> {
    home: &'h Home,
    seat: SeatId,
    /// Without it others may read and mark meanwhile; then a message may be told twice, and none is lost.
    held: Option<Held>,
    cursor: Cursor,
    page: Page,
    marks: Vec<Mark>,
    problems: Vec<BusError>,
}

/// How far one source was read.
struct Mark {
    source: Source,
    log: Glimpse,
    /// What the cursor said.
    seen: Option<u64>,
    read_to: u64,
}

impl<'h> Peek<'h> {
    /// Reads what is new in an agent's inbox and, with `rooms`, in `general` and the channels it joined. An agent that was renamed is looked
    /// for under its new id. What cannot be read is among [`Peek::problems`] and keeps nothing else from being told.
    ///
    /// # Errors
    /// A cursor file that is neither there nor readable; a fault.
    pub fn look(home: &'h Home, seat: &SeatId, rooms: bool) -> Result<Self, BusError> {
        let mut problems = Vec::new();
        let mut ask = |answer: Result<Option<SeatId>, BusError>| {
            answer.unwrap_or_else(|error| {
                problems.push(error);
                None
            })
        };
        let seat = ask(rename::forwarded(home, seat)).unwrap_or_else(|| seat.clone());
        let held = lock::briefly(home, &home::cursor(&seat), PATIENCE);
        let cursor = Cursor::load(home, &seat)?;
        let mut peek = Self {
            page: Page::new(&seat, home.now()),
            home,
            seat,
            held,
            cursor,
            marks: Vec::new(),
            problems,
        };
        peek.read(Source::Inbox);
        if rooms {
            let joined = match Rooms::load(home) {
                Ok(rooms) => rooms.of(&peek.seat),
                Err(error) => {
                    peek.problems.push(error);
                    Vec::new()
                }
            };
            // Everybody is in it, whatever the file says.
            peek.read(Source::Room(RoomName::general()));
            for room in joined.into_iter().filter(|room| !room.is_general()) {
                peek.read(Source::Room(room));
            }
        }
        if peek.page.is_lost() {
            // A mark would make the file look as if it knew what was read of the rest.
            peek.marks.clear();
        }
        Ok(peek)
    }

    /// The text: at most [`MAX_TEXT`] long. `None` when there is nothing to tell.
    pub fn text(&self) -> Option<String> {
        self.page.text()
    }

    /// Whether the text is worth a turn of its own. In a turn that is already such a one only direct messages are, so that channels full of
    /// agents do not keep each other going.
    pub fn is_worth_a_turn(&self, continued: bool) -> bool {
        self.page.is_worth_a_turn(continued)
    }

    /// What could not be read.
    pub fn problems(&self) -> &[BusError] {
        &self.problems
    }

    /// Tries, without changing anything, whether the cursors can be written.
    ///
    /// # Errors
    /// A fault: then what is told now would be told again and again.
    pub fn try_cursor(&self) -> Result<(), BusError> {
        if self.held.is_some() {
            return self.cursor.store(self.home, &self.seat);
        }
        // Who holds the lock may be moving it: only a file beside it is written.
        let beside = self.home.private("new").join(fresh::id()?);
        json::replace(self.home, &beside, b"", Keep::Quickly)?;
        std::fs::remove_file(&beside).map_err(|error| failed("remove", &beside, error))
    }

    /// Marks as read what the text tells. To be called once it was handed over.
    ///
    /// # Errors
    /// A fault: then it is told again.
    pub fn confirm(self) -> Result<(), BusError> {
        let mut cursor = self.now()?;
        let mut set: Vec<&Mark> = Vec::new();
        for mark in &self.marks {
            // Somebody else read on, or the log was cut: what the number counted is not there any more.
            if mark.log.stands() && (cursor.damaged || cursor.get(&mark.source) == mark.seen) {
                cursor.set(&mark.source, mark.read_to);
                set.push(mark);
            }
        }
        if set.is_empty() {
            return Ok(());
        }
        cursor.store(self.home, &self.seat)?;
        if self.held.is_some() {
            return Ok(());
        }
        // A cut that ran at this very moment may have moved the cursor before it was overwritten. Too low shows more and hides nothing.
        let mut low = false;
        for mark in set.iter().filter(|mark| !mark.log.stands()) {
            cursor.set(&mark.source, 0);
            low = true;
        }
        if low {
            cursor.store(self.home, &self.seat)?;
        }
        Ok(())
    }

    /// The cursors as they stand now.
    fn now(&self) -> Result<Cursor, BusError> {
        match self.held {
            Some(_) => Ok(self.cursor.clone()),
            None => Cursor::load(self.home, &self.seat),
        }
    }

    fn read(&mut self, source: Source) {
        if let Err(error) = self.try_read(source) {
            self.problems.push(error);
        }
    }

    fn try_read(&mut self, source: Source) -> Result<(), BusError> {
        let Some(log) = Glimpse::open(self.home, &source.log(&self.seat))? else {
            return Ok(());
        };
        // After the log, so that a cut in between is seen by its file.
        let cursor = self.now()?;
        let seen = cursor.get(&source);
        let first = if cursor.damaged { 0 } else { seen.unwrap_or(0) };
        let mut page = self.page.clone();
        if cursor.damaged {
            page.doubts();
        }
        let (mut read_to, end) = self.fill(&mut page, &log, &source, first)?;
        if end < first {
            // The cursor stands past the end, so nothing true is known of what was read.
            (read_to, _) = self.fill(&mut page, &log, &source, 0)?;
        }
        // While a log is cut nobody knows what the cursor counts; the next look will.
        if !log.stands() {
            return Ok(());
        }
        // What was read is not known, and it is more than a page: it may all have been told before, so it is not told again turn by turn.
        if cursor.damaged && page.is_full_after(&self.page) {
            self.page.lose();
            return Ok(());
        }
        page.trusts();
        self.page = page;
        if cursor.damaged || seen.unwrap_or(0) != read_to {
            self.marks.push(Mark {
                source,
                log,
                seen,
                read_to,
            });
        }
        Ok(())
    }

    /// Fills the page from entry `first` on. Answers up to which entry it went, and where the reading ended.
    fn fill(
        &self,
        page: &mut Page,
        log: &Glimpse,
        source: &Source,
        first: u64,
    ) -> Result<(u64, u64), BusError> {
        let mut read_to = first;
        let end = log.read(first, |number, entry| {
            let taken = match source {
                Source::Inbox => page.direct(&entry),
                Source::Room(_) if is_own(&entry, &self.seat) => Taken::Passed,
                Source::Room(room) => page.post(room, &entry),
                Source::Status => Taken::Passed,
            };
            if taken == Taken::Passed {
                read_to = number + 1;
            }
            taken == Taken::Passed
        })?;
        Ok((read_to, end))
    }
}

fn is_own(entry: &Entry, seat: &SeatId) -> bool {
    message::is_own(entry, seat)
}

#[cfg(test)]
mod tests;
