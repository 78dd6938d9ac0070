//! The loop that brings what is unread into a pane: asks the feed, asks the machine, types through the transport. Blocks its thread, and never holds anything that a killed process would leave wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::fresh;
use crate::names::SeatId;

use super::queue::{Queue, Step};
use super::{Feed, FeedError, Seat, Settings, Standing, Transport};

/// How often a deliverer says that its seat is there.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Between tries while the feed is at fault, at first and at last.
const TRIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Asks a deliverer to end. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    set: AtomicBool,
    waiting: Mutex<Vec<Thread>>,
}

impl Stop {
    /// One that nobody has set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end. A delivery that is under way is completed first; a local wait ends at once.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        self.look();
    }

    /// Has a deliverer that waits look around: whether its seat is still its own.
    pub fn look(&self) {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().for_each(Thread::unpark);
    }

    /// Whether the end was asked for.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }

    /// Waits for `span`, or until the end is asked for.
    pub fn wait(&self, span: Duration) {
        let until = Instant::now() + span;
        let _here = self.here();
        while !self.is_set() {
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                _ => return,
            }
        }
    }

    /// Has this thread woken when the end is asked for, as long as the answer lives.
    fn here(&self) -> Here<'_> {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(thread::current());
        Here(self)
    }
}

struct Here<'s>(&'s Stop);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let own = thread::current().id();
        if let Some(at) = waiting.iter().position(|thread| thread.id() == own) {
            waiting.swap_remove(at);
        }
    }
}

/// Delivers what `feed` has for `seat` through `transport`, until `stop` is set; what was typed by then is still noted.
///
/// # Errors
/// [`FeedError::Refused`]: the seat is not this deliverer's, or not any more. What only may pass is tried again, less and less often.
pub fn run(
    feed: &mut dyn Feed,
    transport: &dyn Transport,
    seat: &Seat,
    settings: &Settings,
    stop: &Stop,
) -> Result<(), FeedError> {
    let salt = fresh::id().map_err(|error| FeedError::Later(error.chain()))?;
    let mut deliverer = Deliverer {
        feed,
        transport,
        seat: &seat.id,
        target: &seat.target,
        queue: Queue::new(seat.clone(), settings.clone(), salt),
        begun: Instant::now(),
        beat: Duration::ZERO,
        other: None,
        fresh: false,
        told: Standing::default(),
    };
    let _here = stop.here();
    let mut tries = 0;
    while !stop.is_set() {
        match deliverer.step(stop) {
            Ok(()) => tries = 0,
            Err(FeedError::Later(reason)) => {
                let (first, last) = TRIES;
                let pause = first.saturating_mul(2_u32.saturating_pow(tries)).min(last);
                // Who asks for the end breaks off what is being asked, too.
                if tries == 0 && !stop.is_set() {
                    tracing::warn!(seat = %seat.id, reason = %muster_core::text::terminal(&reason), "the bus could not be asked for messages; it is asked again");
                }
                tries = tries.saturating_add(1).min(8);
                stop.wait(pause);
            }
            Err(refused @ FeedError::Refused(_)) => return Err(refused),
        }
    }
    deliverer.settle();
    Ok(())
}

struct Deliverer<'r> {
    feed: &'r mut dyn Feed,
    transport: &'r dyn Transport,
    seat: &'r SeatId,
    target: &'r str,
    queue: Queue,
    begun: Instant,
    /// When the next heartbeat is due.
    beat: Duration,
    /// Who else delivers to this seat, as far as that was told.
    other: Option<String>,
    /// The feed was asked since the last thing that took time.
    fresh: bool,
    told: Standing,
}

impl Deliverer<'_> {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn step(&mut self, stop: &Stop) -> Result<(), FeedError> {
        if self.now() >= self.beat {
            self.feed.heartbeat()?;
            self.beat = self.now() + HEARTBEAT;
        }
        let standing = self.queue.standing();
        if standing != self.told {
            self.feed.standing(&standing)?;
            self.told = standing;
        }
        match self.queue.next(self.now()) {
            Step::Receipt(report) => {
                self.feed.receipt(&report)?;
                self.queue.receipted();
            }
            Step::Ack { source, up_to } => {
                self.feed.ack(&source, &up_to)?;
                self.queue.acked(&source, &up_to);
            }
            // What was read meanwhile is not typed: the last look must be a moment old.
            Step::Deliver(_) if !self.fresh => self.look(Duration::ZERO)?,
            Step::Deliver(delivery) => {
                self.fresh = false;
                let outcome = self.transport.deliver(self.target, &delivery);
                self.queue.done(&outcome, self.now());
            }
            Step::Wait(_) if stop.is_set() => {}
            Step::Wait(wait) => {
                let beat = self.beat.saturating_sub(self.now());
                self.look(wait.min(beat))?;
                self.fresh = false;
            }
        }
        Ok(())
    }

    /// Notes what was typed before the end was asked for. What cannot be noted now is typed again by the next deliverer.
    fn settle(&mut self) {
        loop {
            let noted = match self.queue.next(self.now()) {
                Step::Receipt(report) => self.feed.receipt(&report).map(|()| self.queue.receipted()),
                Step::Ack { source, up_to } => self
                    .feed
                    .ack(&source, &up_to)
                    .map(|()| self.queue.acked(&source, &up_to)),
                Step::Deliver(_) | Step::Wait(_) => return,
            };
            if let Err(error) = noted {
                tracing::warn!(reason = %muster_core::text::terminal(&error.to_string()), "what was typed last could not be noted; it may be typed again");
                return;
            }
        }
    }

    fn look(&mut self, wait: Duration) -> Result<(), FeedError> {
        let pending = self.feed.pending(wait)?;
        self.queue.see(&pending, self.now());
        self.fresh = true;
        if pending.other_deliverer != self.other {
            match &pending.other_deliverer {
                Some(other) => {
                    tracing::warn!(seat = %self.seat, other = %muster_core::text::terminal(other), "another process delivers to this seat, so nothing is typed from here until it ends");
                }
                None => tracing::info!(seat = %self.seat, "this process delivers to the seat now"),
            }
            self.other = pending.other_deliverer;
        }
        Ok(())
    }
}
