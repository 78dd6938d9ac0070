//! Wake-ups: hints that something of a topic changed, within this process and, on Postgres, between processes. Never carries data; whoever wakes looks for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use muster_core::ids::{OwnerId, PluginId};
use tokio::sync::Notify;

/// What may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A reply of this connector's may be ready to claim.
    Plugin(PluginId),
    /// Something an owner's pages show.
    Owner(OwnerId),
    /// An ask of an owner's was decided, or one ended otherwise.
    Asks(OwnerId),
}

impl Topic {
    pub(crate) fn encode(self) -> String {
        match self {
            Topic::Plugin(id) => format!("p{id}"),
            Topic::Owner(id) => format!("o{id}"),
            Topic::Asks(id) => format!("a{id}"),
        }
    }

    pub(crate) fn decode(text: &str) -> Option<Topic> {
        let (kind, id) = text.split_at_checked(1)?;
        match kind {
            "p" => id.parse().ok().map(Topic::Plugin),
            "o" => id.parse().ok().map(Topic::Owner),
            "a" => id.parse().ok().map(Topic::Asks),
            _ => None,
        }
    }
}

/// Who waits for what. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Wakeups {
    waiting: Arc<Mutex<HashMap<Topic, Weak<Place>>>>,
}

/// Where everybody stands who waits for one topic. The last one to leave takes it down.
#[derive(Debug)]
struct Place {
    topic: Topic,
    notify: Arc<Notify>,
    wakeups: Wakeups,
}

/// One waiter; the topic is forgotten when no waiter and no wait for it is left.
pub struct Waiter {
    place: Arc<Place>,
}

impl Wakeups {
    /// Takes a place before looking, so that a change between the look and the wait is not missed:
    /// `let w = wakeups.waiter(topic); loop { let woken = w.woken(); look().await; woken.await; }`.
    pub fn waiter(&self, topic: Topic) -> Waiter {
        let mut waiting = self.places();
        if let Some(place) = waiting.get(&topic).and_then(Weak::upgrade) {
            return Waiter { place };
        }
        let place = Arc::new(Place {
            topic,
            notify: Arc::default(),
            wakeups: self.clone(),
        });
        waiting.insert(topic, Arc::downgrade(&place));
        Waiter { place }
    }

    /// Wakes everybody who waits for `topic`.
    pub fn wake(&self, topic: Topic) {
        // The map is free again before the place is let go of: its drop asks for the map.
        let place = self.places().get(&topic).and_then(Weak::upgrade);
        if let Some(place) = place {
            place.notify.notify_waiters();
        }
    }

    /// Wakes everybody: after a lost connection to the database, or a change by a process that sends no hints.
    pub fn wake_all(&self) {
        let all: Vec<_> = self.places().values().filter_map(Weak::upgrade).collect();
        for place in all {
            place.notify.notify_waiters();
        }
    }

    /// How many topics are waited for.
    pub fn topics(&self) -> usize {
        self.places().len()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Topic, Weak<Place>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// A future that ends at the next wake-up after this call (not after its first poll). It may outlive the waiter.
    pub fn woken(&self) -> impl Future<Output = ()> + Send + 'static {
        let place = self.place.clone();
        let mut woken = Box::pin(place.notify.clone().notified_owned());
        woken.as_mut().enable();
        async move {
            woken.await;
            drop(place);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.wakeups.places();
        // Somebody may have come since the last one left; then the entry is theirs.
        if waiting
            .get(&self.topic)
            .is_some_and(|place| place.strong_count() == 0)
        {
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
        tokio::time::timeout(std::time::Duration::from_secs(5), woken)
            .await
            .unwrap();
        drop(waiter);
        assert_eq!(wakeups.topics(), 0, "a topic nobody waits for is forgotten");
    }

    #[tokio::test]
    async fn a_wait_outlives_its_waiter_and_the_last_to_leave_takes_the_topic_along() {
        let wakeups = Wakeups::default();
        let (topic, other) = (Topic::Plugin(PluginId::new(1)), Topic::Owner(OwnerId::new(1)));
        let (first, second) = (wakeups.waiter(topic), wakeups.waiter(topic));
        let woken = first.woken();
        let never = wakeups.waiter(other).woken();
        drop((first, second));
        assert_eq!(wakeups.topics(), 2, "both waits still stand");
        wakeups.wake(topic);
        tokio::time::timeout(std::time::Duration::from_secs(5), woken)
            .await
            .unwrap();
        assert_eq!(wakeups.topics(), 1);
        drop(never);
        assert_eq!(wakeups.topics(), 0);
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
