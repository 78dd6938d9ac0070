//! What is unread, from the files of this machine: the feed of every deliverer that runs where the bus is. Never marks a message as read that nobody confirmed.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::build_id;
use crate::cursor::{self, Source};
use crate::error::BusError;
use crate::home::Home;
use crate::json;
use crate::message;
use crate::names::{RoomName, SeatId};
use crate::read;
use crate::receipts::{self, Receipt};
use crate::registry::{self, Agents};
use crate::rename;
use crate::rooms::{self, Rooms};
use crate::transports::{self, Marker};
use crate::wait::{LOOK, Waiter, Watch};

use super::lease::Lease;
use super::queue::INBOX;
use super::{Feed, FeedError, Pending, PendingSource, Report, Standing, tier};

/// The sources of a seat, and whether something was written to them.
pub(crate) struct Sources {
    home: Home,
    watch: Watch,
    seat: SeatId,
    include_room: bool,
    waiters: Vec<(Source, Waiter)>,
    /// Of the file that says which channels it joined.
    rooms: Waiter,
    /// Of the seat's marker, which a rename takes along.
    marker: Waiter,
}

impl Sources {
    pub(crate) fn new(home: &Home, watch: &Watch, seat: &SeatId, include_room: bool) -> Self {
        Self {
            home: home.clone(),
            watch: watch.clone(),
            seat: seat.clone(),
            include_room,
            waiters: Vec::new(),
            rooms: watch.waiter(rooms::FILE),
            marker: watch.waiter(&transports::file(seat.as_str())),
        }
    }

    /// The sources as they are now, each with a waiter that has noted its file before it is read.
    fn follow(&mut self) -> Result<(), BusError> {
        let mut sources = vec![Source::Inbox];
        if self.include_room {
            sources.extend(joined(&self.home, &self.seat)?.into_iter().map(Source::Room));
        }
        self.waiters.retain(|(source, _)| sources.contains(source));
        for source in sources {
            if !self.waiters.iter().any(|(known, _)| *known == source) {
                // What is about to be told of it counts from here on, also what a cut takes first. None takes unread direct messages.
                if matches!(source, Source::Room(_)) {
                    cursor::begin(&self.home, &self.seat, &source)?;
                }
                let waiter = self.watch.waiter(&source.log(&self.seat));
                self.waiters.push((source, waiter));
            }
        }
        self.waiters().into_iter().for_each(Waiter::note);
        Ok(())
    }

    /// Everything unread of them.
    pub(crate) fn look(&mut self) -> Result<Pending, BusError> {
        self.follow()?;
        rename::gather(&self.home, &self.seat)?;
        let sources: Vec<&Source> = self.waiters.iter().map(|(source, _)| source).collect();
        pending(&self.home, &self.seat, sources)
    }

    pub(crate) fn waiters(&mut self) -> Vec<&mut Waiter> {
        let sources = self.waiters.iter_mut().map(|(_, waiter)| waiter);
        sources.chain([&mut self.rooms, &mut self.marker]).collect()
    }

    /// Whether a file is another than at the last look.
    pub(crate) fn grew(&self) -> bool {
        self.rooms.grew() || self.marker.grew() || self.waiters.iter().any(|(_, waiter)| waiter.grew())
    }
}

/// The feed of a seat out of the bus's own directory.
pub struct LocalFeed {
    home: Home,
    seat: SeatId,
    /// The pane: once the seat's marker names another, or is gone, this deliverer has nothing to do any more.
    target: String,
    /// The tmux server that has it, as the marker said then.
    socket: Option<String>,
    lease: Lease,
    sources: Sources,
    seen: BTreeSet<(String, String)>,
}

impl LocalFeed {
    /// The feed of a seat whose marker names the pane `target` and stands already.
    ///
    /// # Errors
    /// [`BusError::Damaged`] when the marker cannot be read; a fault, also when the system gives no randomness.
    pub fn new(
        home: &Home,
        watch: &Watch,
        seat: &SeatId,
        target: &str,
        include_room: bool,
    ) -> Result<Self, BusError> {
        Ok(Self {
            home: home.clone(),
            seat: seat.clone(),
            target: target.to_owned(),
            socket: transports::load(home, seat)?.and_then(|marker| marker.tmux_socket),
            lease: Lease::new(home, seat)?,
            sources: Sources::new(home, watch, seat, include_room),
            seen: BTreeSet::new(),
        })
    }

    /// Ends a deliverer whose seat was detached, renamed or attached elsewhere.
    fn still_ours(&self) -> Result<(), FeedError> {
        let marker = transports::load(&self.home, &self.seat).map_err(later)?;
        let ours = |marker: &Marker| {
            marker.pane() == Some(self.target.as_str())
                && !marker.is_of_another_server(self.socket.as_deref())
                && (marker.pid == 0 || marker.pid == std::process::id())
        };
        match marker {
            Some(marker) if ours(&marker) => Ok(()),
            Some(_) => Err(FeedError::Refused(format!(
                "'{}' is attached elsewhere now, so nothing more is delivered from here",
                self.seat
            ))),
            None => Err(FeedError::Refused(format!(
                "'{}' is not attached any more, so nothing more is delivered to it",
                self.seat
            ))),
        }
    }
}

impl Feed for LocalFeed {
    fn pending(&mut self, wait: Duration) -> Result<Pending, FeedError> {
        let until = Instant::now() + wait;
        loop {
            self.still_ours()?;
            if let Some(holder) = self.lease.hold().map_err(later)? {
                self.seen.clear();
                thread::park_timeout(wait.min(OTHER));
                return Ok(Pending {
                    other_deliverer: Some(holder),
                    ..Pending::default()
                });
            }
            let pending = self.sources.look().map_err(later)?;
            let seen = keys(&pending);
            let new = seen.iter().any(|key| !self.seen.contains(key));
            self.seen = seen;
            if new || Instant::now() >= until || !wait_for(self.sources.waiters(), until) {
                return Ok(pending);
            }
        }
    }

    fn ack(&mut self, source: &str, up_to: &str) -> Result<(), FeedError> {
        let source = parse(source).map_err(later)?;
        read::ack(&self.home, &self.seat, &source, up_to)
            .map(drop)
            .map_err(later)
    }

    fn receipt(&mut self, report: &Report) -> Result<(), FeedError> {
        let build = build_id::stamp().map_err(later)?;
        write_receipt(&self.home, &self.seat, report, Some(build.into())).map_err(later)
    }

    fn heartbeat(&mut self) -> Result<(), FeedError> {
        match registry::heartbeat(&self.home, &self.seat) {
            Err(error @ BusError::NotRegistered(_)) => Err(FeedError::Refused(error.to_string())),
            other => other.map_err(later),
        }
    }

    fn standing(&mut self, standing: &Standing) -> Result<(), FeedError> {
        self.lease.note(standing).map_err(later)
    }
}

/// How often a deliverer that is not the one looks whether it is.
const OTHER: Duration = Duration::from_secs(2);

#[expect(clippy::needless_pass_by_value, reason = "as map_err calls it")]
fn later(error: BusError) -> FeedError {
    FeedError::Later(error.chain())
}

/// The channels whose posts are pushed to a seat: those it joined, and `general`.
pub(crate) fn joined(home: &Home, seat: &SeatId) -> Result<Vec<RoomName>, BusError> {
    let mut joined = Rooms::load(home)?.of(seat);
    if !joined.iter().any(RoomName::is_general) {
        joined.push(RoomName::general());
    }
    joined.retain(|room| rooms::exists(home, room).unwrap_or(false));
    Ok(joined)
}

/// Everything of these sources that a seat has not read, and what decides how soon it is pushed.
pub(crate) fn pending<'s>(
    home: &Home,
    seat: &SeatId,
    sources: impl IntoIterator<Item = &'s Source>,
) -> Result<Pending, BusError> {
    let agents = Agents::seen(home)?;
    let role = agents.get(seat).and_then(|agent| agent.role);
    let trusted = agents.all().into_iter();
    let trusted = trusted.filter(|agent| agent.role.as_deref().is_some_and(tier::runs_gates));
    let mut pending = Pending {
        gate_runner: role.as_deref().is_some_and(tier::runs_gates),
        ci: tier::is_ci(seat.as_str(), role.as_deref()),
        trusted: trusted.map(|agent| agent.agent_id).collect(),
        owner_prefix: owner_prefix(home),
        now: home.now(),
        ..Pending::default()
    };
    for source in sources {
        let entries = read::waiting(home, seat, source)?;
        if !entries.is_empty() {
            let (archived, urgent) = read::archived_unread(home, seat, source)?;
            if archived > 0 {
                pending.archived.insert(name(source), archived);
            }
            if urgent > 0 {
                pending.archived_urgent.insert(name(source), urgent);
            }
            if *source == Source::Inbox {
                let commands = entries.iter().filter(|entry| tier::is_command(entry));
                let ids: Vec<&str> = commands.filter_map(|entry| message::field(entry, "id")).collect();
                pending.typed = receipts::typed_of(home, seat, &ids)?;
            }
            pending.sources.push(PendingSource {
                source: name(source),
                entries,
                older: 0,
            });
        }
    }
    Ok(pending)
}

/// The prefix by which this bus's owner is known, from `config.json`.
fn owner_prefix(home: &Home) -> Option<String> {
    let config = json::read::<Map<String, Value>>(home, "config.json").ok()??;
    let prefix = config.get("ownerPrefix")?.as_str()?;
    Some(prefix.to_owned()).filter(|prefix| !prefix.trim().is_empty() && prefix.len() <= 64)
}

/// The name of a source on the seam.
pub(crate) fn name(source: &Source) -> String {
    match source {
        Source::Inbox => INBOX.to_owned(),
        Source::Room(room) => format!("#{room}"),
        Source::Status => "status".to_owned(),
    }
}

fn parse(source: &str) -> Result<Source, BusError> {
    match source.strip_prefix('#') {
        Some(room) => RoomName::parse(room).map(Source::Room),
        None if source == INBOX => Ok(Source::Inbox),
        None => Err(BusError::Argument("only an inbox and channels are delivered")),
    }
}

/// The entries of an answer, as another answer is compared with it.
pub(crate) fn keys(pending: &Pending) -> BTreeSet<(String, String)> {
    let of_source = |source: &PendingSource| {
        let name = source.source.clone();
        let keys: Vec<_> = source.entries.iter().map(message::key).collect();
        keys.into_iter().map(move |key| (name.clone(), key))
    };
    pending.sources.iter().flat_map(of_source).collect()
}

/// Writes what became of a message that was to be typed.
pub(crate) fn write_receipt(
    home: &Home,
    seat: &SeatId,
    report: &Report,
    build: Option<Value>,
) -> Result<(), BusError> {
    let mut receipt = Receipt::new(home, seat, &report.id, &report.from);
    receipt.control = report.control;
    receipt.build = build;
    let told = report.told();
    receipt.submitted = told.submitted;
    receipt.verified = told.verified;
    receipt.door = told.door.map(str::to_owned);
    receipt.reason = told.reason.map(str::to_owned);
    receipts::write(home, seat, &receipt)
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits without a runtime until one of the files grew, the time is up or somebody unparks this thread. Answers whether a file grew.
fn wait_for(waiters: Vec<&mut Waiter>, until: Instant) -> bool {
    let mut waiters = waiters;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        else {
            return false;
        };
        let slept = left.min(LOOK);
        let begun = Instant::now();
        park_until_told(&mut waiters, &waker, slept);
        if waiters.iter().any(|waiter| waiter.grew()) {
            return true;
        }
        if begun.elapsed() < slept {
            // Told of a change that was none, or to look around: whoever waits decides.
            return false;
        }
    }
}

/// Parks this thread until the system tells of a change, now or since the last note, or `span` has passed.
fn park_until_told(waiters: &mut [&mut Waiter], waker: &Waker, span: Duration) {
    let mut context = Context::from_waker(waker);
    let mut told: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = waiters
        .iter_mut()
        .map(|waiter| Box::pin(waiter.told()) as Pin<Box<dyn Future<Output = ()> + '_>>)
        .collect();
    let is_told =
        |told: &mut Pin<Box<dyn Future<Output = ()> + '_>>| told.as_mut().poll(&mut context).is_ready();
    if !told.iter_mut().any(is_told) {
        // What is told wakes the thread only as long as these are kept.
        thread::park_timeout(span);
    }
}
