//! The deliverers of one process: a thread for each seat that is attached here. Never delivers to a seat whose marker names another process.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use muster_core::{Fault, text};

use crate::error::BusError;
use crate::home::Home;
use crate::names::SeatId;
use crate::transports::{self, Attach, Marker};
use crate::wait::Watch;
use crate::{build_id, rename};

use super::deliverer::{self, Stop};
use super::{FeedError, LocalFeed, Probe, Seat, Settings, Transport};

/// How long messages are gathered unless the seat says otherwise.
pub const DEBOUNCE: Duration = Duration::from_secs(1);
/// How long a deliverer that broke waits before it begins again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the end of a process waits for what is being typed.
const ENDING: Duration = Duration::from_secs(5);

/// What this process types with, and for whom.
pub(crate) struct Hands {
    home: Home,
    watch: Watch,
    transport: Arc<dyn Transport>,
    settings: Settings,
    running: Mutex<Vec<Running>>,
}

struct Running {
    /// Whom it delivers to; a rename changes that.
    seat: Arc<Mutex<SeatId>>,
    /// How its seat wanted to be reached when it began.
    wanted: Seat,
    stop: Stop,
    thread: JoinHandle<()>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn is_of(&self, seat: &SeatId) -> bool {
        *held(&self.seat) == *seat
    }
}

impl Hands {
    pub(crate) fn new(home: &Home, watch: &Watch, transport: Arc<dyn Transport>, settings: Settings) -> Self {
        Self {
            home: home.clone(),
            watch: watch.clone(),
            transport,
            settings,
            running: Mutex::default(),
        }
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Looks for the pane, says in the seat's marker that it is reached there, and begins to deliver. A deliverer that the seat has here already
    /// ends.
    ///
    /// # Errors
    /// [`BusError::Pane`] when the pane cannot be reached, [`BusError::PaneHeld`], a fault: nothing was changed then.
    pub(crate) fn attach(&self, id: &SeatId, how: Attach) -> Result<Marker, BusError> {
        self.transport.available().map_err(BusError::Pane)?;
        match self.transport.probe(&how.target) {
            Probe::Found => {}
            Probe::Gone { reason } | Probe::Unknown { reason } => return Err(BusError::Pane(reason)),
        }
        let seat = Seat {
            id: id.clone(),
            target: how.target.clone(),
            include_room: how.include_room.unwrap_or(true),
            allowlist: how.allowlist.clone(),
            debounce: how.debounce_ms.map_or(DEBOUNCE, Duration::from_millis),
        };
        // An agent that joins again is delivered to as before: what may have been typed already is not forgotten.
        if let Some(marker) = self.goes_on(&seat)? {
            return Ok(marker);
        }
        let marker = transports::attach(
            &self.home,
            id,
            Attach {
                build: Some(build_id::stamp()?.to_owned()),
                ..how
            },
        )?;
        self.stop(id);
        if let Err(error) = self.begin(seat) {
            transports::clear_own(&self.home, id)?;
            return Err(error);
        }
        Ok(marker)
    }

    /// The marker of a seat that is delivered to from here just as it wants to be.
    fn goes_on(&self, seat: &Seat) -> Result<Option<Marker>, BusError> {
        let same = |running: &Running| {
            let wanted = Seat {
                id: seat.id.clone(),
                ..running.wanted.clone()
            };
            running.is_of(&seat.id) && wanted == *seat && !running.thread.is_finished()
        };
        if !held(&self.running).iter().any(same) {
            return Ok(None);
        }
        let marker = transports::load(&self.home, &seat.id)?;
        Ok(marker.filter(|marker| marker.pid == std::process::id() && marker.pane() == Some(&seat.target)))
    }

    fn begin(&self, seat: Seat) -> Result<(), BusError> {
        let stop = Stop::new();
        let wanted = seat.clone();
        let named = Arc::new(Mutex::new(seat.id.clone()));
        let work = Work {
            home: self.home.clone(),
            watch: self.watch.clone(),
            transport: self.transport.clone(),
            settings: self.settings.clone(),
            seat,
            named: named.clone(),
            stop: stop.clone(),
        };
        let thread = thread::Builder::new()
            .name("deliverer".to_owned())
            .spawn(move || work.run())
            .map_err(|error| {
                Fault::other("no thread could be started to deliver to a pane").because(error)
            })?;
        let mut running = held(&self.running);
        running.retain(|running| !running.thread.is_finished());
        running.push(Running {
            seat: named,
            wanted,
            stop,
            thread,
        });
        Ok(())
    }

    /// Ends the deliverer of a seat, if this process has one. What it is typing is completed.
    pub(crate) fn stop(&self, seat: &SeatId) {
        let mut running = held(&self.running);
        running.retain(|running| {
            if running.is_of(seat) {
                running.stop.set();
            }
            !running.is_of(seat)
        });
    }

    /// Has every deliverer look whether its seat is still its own.
    pub(crate) fn look(&self) {
        held(&self.running).iter().for_each(|running| running.stop.look());
    }

    /// Ends all of them and clears their seats' markers, as far as those are this process's.
    pub(crate) fn end(&self) {
        let ending = std::mem::take(&mut *held(&self.running));
        ending.iter().for_each(|running| running.stop.set());
        let until = Instant::now() + ENDING;
        for running in ending {
            while !running.thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            let seat = held(&running.seat).clone();
            if let Err(error) = transports::clear_own(&self.home, &seat) {
                tracing::warn!(seat = %seat, error = %error.chain(), "the transport marker of a seat could not be cleared; it counts no more once this process has ended");
            }
        }
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a deliverer's thread has.
struct Work {
    home: Home,
    watch: Watch,
    transport: Arc<dyn Transport>,
    settings: Settings,
    seat: Seat,
    named: Arc<Mutex<SeatId>>,
    stop: Stop,
}

impl Work {
    fn run(mut self) {
        while !self.stop.is_set() {
            // Whatever breaks in a transport must not leave a seat that says it is attached and hears nothing.
            let delivered = panic::catch_unwind(AssertUnwindSafe(|| self.deliver()));
            match delivered {
                Ok(Ok(())) => return,
                Ok(Err(FeedError::Refused(reason))) => match self.renamed() {
                    Some(new) => {
                        held(&self.named).clone_from(&new);
                        self.seat.id = new;
                    }
                    None => {
                        self.ended(&reason);
                        return;
                    }
                },
                Ok(Err(FeedError::Later(reason))) => {
                    tracing::warn!(seat = %self.seat.id, reason = %text::terminal(&reason), "a deliverer could not begin; it is tried again");
                    self.stop.wait(AGAIN);
                }
                Err(_) => {
                    tracing::error!(seat = %self.seat.id, "a deliverer broke; it begins again");
                    self.stop.wait(AGAIN);
                }
            }
        }
    }

    /// A seat that nobody delivers to does not say that it is attached.
    fn ended(&self, reason: &str) {
        tracing::info!(seat = %self.seat.id, reason = %text::terminal(reason), "a deliverer ended");
        let ours = |marker: &Marker| marker.pane() == Some(&self.seat.target);
        let cleared = match transports::load(&self.home, &self.seat.id) {
            Ok(Some(marker)) if ours(&marker) => transports::clear_own(&self.home, &self.seat.id).map(drop),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = cleared {
            tracing::warn!(seat = %self.seat.id, error = %error.chain(), "the transport marker of a seat could not be cleared");
        }
    }

    fn deliver(&self) -> Result<(), FeedError> {
        let seat = &self.seat;
        let mut feed = LocalFeed::new(&self.home, &self.watch, &seat.id, &seat.target, seat.include_room)
            .map_err(|error| FeedError::Later(error.chain()))?;
        deliverer::run(&mut feed, &*self.transport, seat, &self.settings, &self.stop)
    }

    /// Who the seat is now, when it was renamed and its marker came along.
    fn renamed(&self) -> Option<SeatId> {
        let new = rename::forwarded(&self.home, &self.seat.id).ok()??;
        let marker = transports::load(&self.home, &new).ok()??;
        let ours = marker.pid == std::process::id() && marker.pane() == Some(&self.seat.target);
        ours.then_some(new)
    }
}
