//! Calls that wait: what they wait for, and what they answer when it comes, when it does not, and when nobody waits any more. Never holds a thread.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::{Answer, Tools};
use crate::wait::Waiter;

/// What a call waits for.
pub(super) trait Awaited: Send {
    /// Looks, if `wanted` still says that somebody waits. `None` when it has not come.
    fn read(&mut self, tools: &Tools, wanted: &dyn Fn() -> bool) -> Option<Answer>;

    /// The files that grow when it comes.
    fn waiters(&mut self) -> Vec<&mut Waiter>;

    /// Whether it is worth looking, told or not.
    fn grew(&self) -> bool;

    /// The answer when the time is up.
    fn timed_out(&self) -> Answer;

    /// The answer when nobody waits any more, or the server stops.
    fn gone(&self) -> Answer;
}

/// A wait that was begun: the caller is who it says, and what it waits for can come.
pub struct Waiting {
    timeout: Duration,
    what: Box<dyn Awaited>,
}

impl Waiting {
    pub(super) fn new(timeout: Duration, what: impl Awaited + 'static) -> Self {
        Self {
            timeout,
            what: Box::new(what),
        }
    }

    /// How long to wait, at most a minute.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Reads what is new, if `wanted` still says that somebody waits; messages are then marked read. `None` when nothing is new.
    pub fn read(&mut self, tools: &Tools, wanted: &dyn Fn() -> bool) -> Option<Answer> {
        self.what.read(tools, wanted)
    }

    /// Ends when the system tells that something was written.
    pub async fn told(&mut self) {
        let mut told: Vec<_> = self
            .what
            .waiters()
            .into_iter()
            .map(|waiter| Box::pin(waiter.told()) as Pin<Box<dyn Future<Output = ()> + Send + '_>>)
            .collect();
        std::future::poll_fn(|context| {
            let any = told.iter_mut().any(|told| told.as_mut().poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether something was written, told or not.
    pub fn grew(&self) -> bool {
        self.what.grew()
    }

    /// The answer when the time is up: no message is no error.
    pub fn timed_out(&self) -> Answer {
        self.what.timed_out()
    }

    /// The answer when nobody waits any more, or the server stops. Nothing was read.
    pub fn gone(&self) -> Answer {
        self.what.gone()
    }
}
