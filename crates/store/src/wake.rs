//! Wake-ups: hints that something of a topic changed, within this process and, on Postgres, between processes. Never carries data; whoever wakes looks for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_core::ids::{OwnerId, PluginId};
use tokio::sync::Notify;

/// What may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A reply of this connector's may be ready to claim.
    Plugin(PluginId),
    /// Something an owner's pages show.
    Owner(OwnerId),
}

impl Topic {
    pub(crate) fn encode(self) -> String {
        match self {
            Topic::Plugin(id) => format!("p{id}"),
            Topic::Owner(id) => format!("o{id}"),
        }
    }

    pub(crate) fn decode(text: &str) -> Option<Topic> {
        let (kind, id) = text.split_at_checked(1)?;
        match kind {
            "p" => id.parse().ok().map(Topic::Plugin),
            "o" => id.parse().ok().map(Topic::Owner),
            _ => None,
        }
    }
}

/// Who waits for what. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Wakeups {
    waiting: Arc<Mutex<HashMap<Topic, Arc<Notify>>>>,
}

/// One waiter's place; leaving it forgets the topic when nobody else waits.
pub struct Waiter {
    topic: Topic,
    notify: Arc<Notify>,
    wakeups: Wakeups,
}

impl Wakeups {
    /// Takes a place before looking, so that a change between the look and the wait is not missed:
    /// `let w = wakeups.waiter(topic); loop { let woken = w.woken(); look().await; woken.await; }`.
    pub fn waiter(&self, topic: Topic) -> Waiter {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = waiting.entry(topic).or_default().clone();
        drop(waiting);
        Waiter { topic, notify, wakeups: self.clone() }
    }

    /// Wakes everybody who waits for `topic`.
    pub fn wake(&self, topic: Topic) {
        let notify = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(&topic).cloned();
        if let Some(notify) = notify {
            notify.notify_waiters();
        }
    }

    /// Wakes everybody: after a lost connection to the database, or a change by a process that sends no hints.
    pub fn wake_all(&self) {
        let all: Vec<_> = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for notify in all {
            notify.notify_waiters();
        }
    }

    /// How many topics are waited for.
    pub fn topics(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Waiter {
    /// A future that ends at the next wake-up after this call (not after its first poll).
    pub fn woken(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut woken = Box::pin(self.notify.clone().notified_owned());
        woken.as_mut().enable();
        woken
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.wakeups.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Two are left when this waiter is the last: its own handle and the map's.
        if Arc::strong_count(&self.notify) <= 2 {
            waiting.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wake_up_between_the_look_and_the_wait_is_not_missed() {
        let wakeups = Wakeups::default();
        let topic = Topic::Plugin(PluginId::new(1));
        let waiter = wakeups.waiter(topic);
        let woken = waiter.woken();
        wakeups.wake(topic);
        tokio::time::timeout(std::time::Duration::from_secs(5), woken).await.unwrap();
        drop(waiter);
        assert_eq!(wakeups.topics(), 0, "a topic nobody waits for is forgotten");
    }

    #[test]
    fn topics_survive_the_wire() {
        for topic in [Topic::Plugin(PluginId::new(7)), Topic::Owner(OwnerId::new(9))] {
            assert_eq!(Topic::decode(&topic.encode()), Some(topic));
        }
        for bad in ["", "x1", "p", "p-1", "é1"] {
            assert_eq!(Topic::decode(bad), None);
        }
    }
}
