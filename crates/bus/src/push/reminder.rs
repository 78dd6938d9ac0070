//! Telling an agent who it is after its context was cleared: a direct message a few seconds after the command was typed. Known to this process alone: when it ends before that, no reminder comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BusError;
use crate::home::Home;
use crate::names::SeatId;
use crate::post;
use crate::receipts::{self, Receipt, Typed};
use crate::wait::{Waiter, Watch};

use super::deliverer::Stop;
use super::queue::LAPSE;

/// How often receipts are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long after the command has lapsed its receipt may still come.
const LATE: Duration = Duration::from_secs(10);
/// Most reminders that wait at once.
const MOST: usize = 10_000;

/// The reminders of one process.
pub(crate) struct Reminders(Arc<Shared>);

struct Shared {
    home: Home,
    watch: Watch,
    stop: Stop,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Reminder>,
    running: bool,
}

/// What is sent, once the command was typed.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Who sent the command.
    pub(crate) from: SeatId,
    /// Whose context it clears.
    pub(crate) to: SeatId,
    /// The command's message.
    pub(crate) id: String,
    /// How long after it was typed.
    pub(crate) delay: Duration,
    /// What is said; the usual words without it.
    pub(crate) text: Option<String>,
}

struct Reminder {
    wanted: Wanted,
    waiter: Waiter,
    looked: bool,
    given_up: Instant,
    due: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reminders {
    pub(crate) fn new(home: &Home, watch: &Watch) -> Self {
        Self(Arc::new(Shared {
            home: home.clone(),
            watch: watch.clone(),
            stop: Stop::new(),
            state: Mutex::default(),
        }))
    }

    /// Sends a reminder once its command was typed, and none if it was not.
    pub(crate) fn after(&self, wanted: Wanted) {
        let waiter = self.0.watch.waiter(&receipts::file(&wanted.to));
        let mut state = self.0.state();
        if state.waiting.len() >= MOST {
            tracing::warn!("too many commands wait for their receipts; this one is followed by no reminder");
            return;
        }
        state.waiting.push(Reminder {
            wanted,
            waiter,
            looked: false,
            given_up: Instant::now() + LAPSE + LATE,
            due: None,
        });
        if state.running {
            return;
        }
        let shared = self.0.clone();
        let begun = thread::Builder::new()
            .name("reminders".to_owned())
            .spawn(move || work(&shared));
        match begun {
            Ok(_) => state.running = true,
            Err(error) => {
                state.waiting.clear();
                tracing::warn!(error = %error, "no thread could be started to send a reminder after /clear");
            }
        }
    }

    /// Forgets all that were not sent.
    pub(crate) fn end(&self) {
        self.0.stop.set();
    }
}

impl Drop for Reminders {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(shared: &Shared) {
    while !shared.stop.is_set() {
        // Nobody who sends a command waits for what is looked up here.
        let mut waiting = std::mem::take(&mut shared.state().waiting);
        waiting.retain_mut(|reminder| reminder.step(&shared.home));
        {
            let mut state = shared.state();
            state.waiting.append(&mut waiting);
            if state.waiting.is_empty() {
                state.running = false;
                return;
            }
        }
        shared.stop.wait(LOOK);
    }
}

impl Reminder {
    /// Does what can be done now. Answers whether something is left to do.
    fn step(&mut self, home: &Home) -> bool {
        if let Some(due) = self.due {
            if Instant::now() < due {
                return true;
            }
            if let Err(error) = self.send(home) {
                tracing::warn!(seat = %self.wanted.to, error = %error.chain(), "the reminder after /clear could not be sent");
            }
            return false;
        }
        if self.looked && !self.waiter.grew() {
            return Instant::now() < self.given_up;
        }
        self.waiter.note();
        self.looked = true;
        let found = receipts::find(home, &self.wanted.to, &self.wanted.id);
        match found.ok().flatten().as_ref().map(Receipt::typed) {
            None => Instant::now() < self.given_up,
            Some(Typed::Not) => false,
            // It may have been: who was cleared and is not told is worse off than who is told in vain.
            Some(Typed::Yes | Typed::Maybe) => {
                self.due = Some(Instant::now() + self.wanted.delay);
                true
            }
        }
    }

    fn send(&self, home: &Home) -> Result<(), BusError> {
        let Wanted { from, to, text, .. } = &self.wanted;
        let usual = || {
            format!(
                "{from} cleared your context. You are '{to}' on the agent-coord bus. Call status with agentId '{to}' to see how you are registered and attached, and list_rooms for the channels; then go on with what you are asked."
            )
        };
        post::remind(home, from, to, text.clone().unwrap_or_else(usual)).map(drop)
    }
}
