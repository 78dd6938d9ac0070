//! The person on the bus: bound, registered and heard as every other session, with a channel in focus. Never reads a log whole, and never marks as read what was not shown.

mod acts;
mod follow;
mod here;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use muster_bus::identity::{Ask, How, Session};
use muster_bus::read;
use muster_bus::registry::{self, Agents};
use muster_bus::rooms;
use muster_bus::sessions::Link;
use muster_bus::tools::Orders;
use muster_bus::transports::Panes;
use muster_bus::{BusError, Entry, Home, RoomName, SeatId, Source};

use crate::post::{self, Post};

pub(crate) use acts::report;
pub(crate) use follow::Fresh;
pub(crate) use here::{Here, Peer};

use follow::Follow;
use here::Stamp;

/// A person at a terminal.
pub(crate) struct Person {
    home: Home,
    session: Session,
    seat: SeatId,
    /// Where plain text goes.
    room: RoomName,
    ignored: BTreeSet<String>,
    followed: Vec<Follow>,
    here: Option<(Stamp, i64)>,
    joined: Option<Stamp>,
    gathered: i64,
    /// The control commands that the person sent; made with the first.
    orders: Option<Orders>,
    left: bool,
}

/// What the bus answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    /// Lines of an answer, safe to show.
    Lines(Vec<String>),
    /// Nothing was done, in a sentence.
    Problem(String),
    /// A direct message went out.
    Direct(Post),
    /// Another channel is in focus.
    Moved(RoomName),
    /// The person has another id.
    Named(SeatId),
    /// New messages.
    Fresh(Fresh),
    /// The person said goodbye.
    Quit,
}

/// Consecutive messages of a source.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stretch {
    /// The number of the first entry, counted from 0.
    pub(crate) first: u64,
    /// The number after the last one.
    pub(crate) end: u64,
    /// How many entries the source holds.
    pub(crate) total: u64,
    /// How many the person has read.
    pub(crate) read: u64,
    /// The messages.
    pub(crate) posts: Vec<Numbered>,
}

impl Stretch {
    /// The newest of them.
    pub(crate) fn last(&self) -> Option<&Numbered> {
        self.posts.last()
    }
}

/// A message, where it stands, and as it stands there: it is known again by that.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    pub(crate) post: Post,
}

/// Which way to go on from a stretch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Way {
    /// To the newest.
    Newest,
    /// To the oldest there is.
    Oldest,
    /// Before this entry.
    Before(u64, Entry),
    /// After this entry.
    After(u64, Entry),
    /// From this number on.
    From(u64),
}

impl Person {
    /// Takes a seat: the id must not be live elsewhere, and is registered.
    ///
    /// # Errors
    /// [`BusError::Live`], [`BusError::CannotVerify`], [`BusError::Damaged`], a fault. Nobody was registered then.
    pub(crate) fn enter(
        home: &Home,
        seat: &SeatId,
        panes: Panes,
        bound: Option<&SeatId>,
    ) -> Result<Self, BusError> {
        let session = match bound {
            Some(bound) if bound == seat => {
                Session::prebound(home, Link::Stdio, panes, seat, How::Environment)?
            }
            Some(bound) => {
                return Err(BusError::Bound {
                    bound: bound.clone(),
                    claimed: seat.clone(),
                });
            }
            None => Session::new(home, Link::Stdio, panes)?,
        };
        let claim = session.claim(Ask::of(seat))?;
        register(home, seat)?;
        claim.commit();
        Ok(Self {
            home: home.clone(),
            session,
            seat: seat.clone(),
            room: RoomName::general(),
            ignored: BTreeSet::new(),
            followed: Vec::new(),
            here: None,
            joined: None,
            gathered: 0,
            orders: None,
            left: false,
        })
    }

    pub(crate) fn seat(&self) -> &SeatId {
        &self.seat
    }

    pub(crate) fn room(&self) -> &RoomName {
        &self.room
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.home.now()
    }

    /// The clock of the bus, for whoever draws.
    pub(crate) fn clock(&self) -> impl Fn() -> i64 + 'static {
        let home = self.home.clone();
        move || home.now()
    }

    /// Puts a channel in focus that the person is in.
    pub(crate) fn focus(&mut self, room: RoomName) {
        self.room = room;
        self.joined = None;
        self.stale();
    }

    /// Says that the person is still there. Whoever was dropped meanwhile is registered again.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub(crate) fn beat(&self) -> Result<(), BusError> {
        match registry::heartbeat(&self.home, &self.seat) {
            Err(BusError::NotRegistered(_)) => register(&self.home, &self.seat),
            other => other,
        }
    }

    /// Whether what became of a command is about to be known.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.orders.as_ref().is_some_and(Orders::is_busy)
    }

    /// Unregisters and ends the session. Once.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault; the entry then counts no more once its heartbeat is five minutes old.
    pub(crate) fn leave(&mut self) -> Result<(), BusError> {
        if self.left {
            return Ok(());
        }
        self.left = true;
        let gone = registry::unregister(&self.home, &self.seat);
        let ended = self.session.end();
        gone?;
        ended
    }

    /// A stretch of a source. `None` when the entry to go on from is not there any more, because the source was cut.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub(crate) fn stretch(
        &self,
        source: &Source,
        way: &Way,
        limit: usize,
    ) -> Result<Option<Stretch>, BusError> {
        let limit = limit.clamp(2, muster_bus::limits::MAX_READ);
        let page = |before, limit| read::page(&self.home, &self.seat, source, before, limit);
        let page = match way {
            Way::Newest => page(None, limit)?,
            Way::Oldest => page(Some(limit as u64), limit)?,
            Way::Before(number, entry) => {
                let mut page = page(Some(number + 1), limit)?;
                if page.entries.pop().as_ref() != Some(entry)
                    || page.first + page.entries.len() as u64 != *number
                {
                    return Ok(None);
                }
                page
            }
            Way::From(number) => self.from(source, *number, limit)?,
            Way::After(number, entry) => {
                let mut page = self.from(source, *number, limit)?;
                if page.first == *number {
                    if page.entries.first() != Some(entry) {
                        return Ok(None);
                    }
                    page.entries.remove(0);
                    page.first += 1;
                }
                page
            }
        };
        let (first, count) = (page.first, page.entries.len() as u64);
        Ok(Some(Stretch {
            first,
            end: first + count,
            total: page.total,
            read: page.read,
            posts: self.posts(source, first, page.entries),
        }))
    }

    fn from(&self, source: &Source, number: u64, limit: usize) -> Result<read::Page, BusError> {
        let mut limit = limit;
        // A page is filled from its end, so one that is too large does not reach back to where it is to begin.
        let mut page = loop {
            let until = Some(number + limit as u64);
            let found = read::page(&self.home, &self.seat, source, until, limit)?;
            if found.first <= number || limit <= 2 {
                break found;
            }
            limit = (limit / 4).max(2);
        };
        if page.first < number {
            let before = usize::try_from(number - page.first).unwrap_or(usize::MAX);
            page.entries.drain(..before.min(page.entries.len()));
            page.first = number;
        }
        Ok(page)
    }

    /// Notes that a source was shown up to an entry.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub(crate) fn seen(&self, source: &Source, number: u64, last: &Entry) -> Result<(), BusError> {
        read::seen(&self.home, &self.seat, source, number, last).map(drop)
    }

    /// How many messages of a source the person has not read; an estimate where counting would be long.
    pub(crate) fn unread(&self, source: &Source) -> Result<u64, BusError> {
        let page = read::page(&self.home, &self.seat, source, None, 0)?;
        let left = page.total.saturating_sub(page.read);
        if left == 0 || left > 2_000 {
            return Ok(left);
        }
        read::unread(&self.home, &self.seat, source).map(|count| count as u64)
    }

    /// The entries of a source as this person is shown them.
    fn posts(&self, source: &Source, first: u64, entries: Vec<Entry>) -> Vec<Numbered> {
        (first..)
            .zip(entries)
            .map(|(number, entry)| {
                let mut post = Post::of(&entry, source, &self.seat);
                post.muted = self.ignored.contains(&post::sender(&entry).to_ascii_lowercase());
                Numbered { number, entry, post }
            })
            .collect()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // Whoever could hear of a failure has called `leave` before.
        let _ = self.leave();
    }
}

fn register(home: &Home, seat: &SeatId) -> Result<(), BusError> {
    // A role that somebody chose before stays.
    let known = Agents::load(home)?.get(seat).and_then(|agent| agent.role);
    let role = if known.is_none() { Some("human") } else { None };
    registry::register(home, seat, None, role).map(drop)
}

/// The channels a person hears: `general`, those they joined, and the one in focus.
fn heard(home: &Home, seat: &SeatId, focus: &RoomName) -> Result<Vec<RoomName>, BusError> {
    let mut rooms = rooms::Rooms::load(home)?.of(seat);
    rooms.push(RoomName::general());
    rooms.push(focus.clone());
    rooms.sort();
    rooms.dedup();
    Ok(rooms)
}
