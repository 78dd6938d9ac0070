//! How long to wait, and when to stop waiting. Never decides what is tried again.

use std::time::Duration;

use tokio::sync::watch;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);

/// Waits that double up to a minute, each shortened by chance so that many connectors do not return in step.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The next wait, between half of and the whole of the present step.
    pub(crate) fn wait(&mut self) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(LONGEST);
        let half = step / 2;
        half.saturating_add(half.mul_f64(crate::ambient::fraction()))
    }
}

/// Whether the connector is to stop. Clones see the same answer.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

/// The other end of [`Stop`].
#[derive(Debug, Clone)]
pub(crate) struct Stopper(std::sync::Arc<watch::Sender<bool>>);

pub(crate) fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(std::sync::Arc::new(sender)), Stop(receiver))
}

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is time to stop.
    pub(crate) async fn wait(&mut self) {
        // A sender that is gone has nothing left to keep running for.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Sleeps; `true` means that the sleep was broken off to stop.
    pub(crate) async fn sleep(&mut self, duration: Duration) -> bool {
        tokio::select! {
            () = self.wait() => true,
            () = tokio::time::sleep(duration) => self.is_set(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_differ() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..20).map(|_| backoff.wait()).collect();
        assert!(waits.first() <= Some(&FIRST));
        for wait in waits.iter().skip(10) {
            assert!((LONGEST / 2..=LONGEST).contains(wait), "{wait:?}");
        }
        let last: std::collections::BTreeSet<_> = waits.iter().skip(10).collect();
        assert!(last.len() > 1, "all waits are alike: {last:?}");
    }

    #[tokio::test]
    async fn a_sleep_ends_at_once_when_it_is_time_to_stop() {
        let (stopper, mut stop) = stop();
        assert!(!stop.clone().sleep(Duration::from_millis(1)).await);
        stopper.stop();
        let started = std::time::Instant::now();
        assert!(stop.sleep(Duration::from_secs(60)).await);
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
