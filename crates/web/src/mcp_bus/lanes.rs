//! Calls under way: so many at once on one log, for one agent, of one kind. A holder of a lock who never lets go then keeps those few waiting and not the rest. Never decides what a call may do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_bus::tools::Answer;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls on one log at once, and calls for one agent that are about no log. They come one after the other anyway.
const ONE: usize = 16;

/// Calls of one kind at once. Both kinds together take half of the threads that may block, 512.
const KIND: usize = 128;

/// How long a call waits for those before it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What calls have in common that wait for the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// A log, or the files of one agent, in words.
    One(String),
    /// All but messages: they look at files that everybody shares.
    Others,
    /// Those of sessions that are nobody yet: each looks at who is who.
    Claims,
}

impl Lane {
    fn width(&self) -> usize {
        match self {
            Self::One(_) => ONE,
            Self::Others | Self::Claims => KIND,
        }
    }

    /// The lanes of a call. The narrow one is first: whoever waits there keeps nobody from the wide ones.
    pub(super) fn of(tool: &str, arguments: &Map<String, Value>, is_somebody: bool) -> Vec<Self> {
        let one = |kind: &str, name: &str| {
            let name = name.trim().trim_start_matches('#');
            // A longer one is no name, and is refused without a look at any file.
            let name = if name.len() > muster_bus::MAX_NAME {
                ""
            } else {
                name
            };
            Self::One(format!("{kind} '{}'", name.to_ascii_lowercase()))
        };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let room = || one("channel", text("room").unwrap_or("general"));
        let mut lanes = match (tool, text("to"), text("source")) {
            ("send_message", Some(to), _) => vec![one("inbox", to)],
            ("send_message", None, _) => vec![room()],
            ("read_messages" | "wait_for_message", _, Some("room")) => vec![room()],
            ("read_messages" | "wait_for_message", _, Some("inbox")) => {
                vec![one("inbox", text("agentId").unwrap_or_default())]
            }
            ("read_messages" | "wait_for_message", _, Some("status")) | ("post_status", _, _) => {
                vec![Self::One("the status stream".to_owned())]
            }
            _ => {
                let agent = text("agentId").or_else(|| text("from")).unwrap_or_default();
                vec![one("agent", agent), Self::Others]
            }
        };
        if !is_somebody {
            lanes.push(Self::Claims);
        }
        lanes
    }
}

/// All lanes that somebody is in. Cloning shares them.
#[derive(Clone)]
pub(super) struct Lanes {
    taken: Arc<Mutex<HashMap<Lane, Arc<Semaphore>>>>,
    patience: Duration,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            taken: Arc::default(),
            patience: PATIENCE,
        }
    }
}

/// A place in a lane; dropping it leaves it.
pub(super) struct Place {
    lanes: Lanes,
    lane: Lane,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        self.permit = None;
        // Nobody else is in it or waits for it: who does has a hand on it.
        if lanes
            .get(&self.lane)
            .is_some_and(|places| Arc::strong_count(places) == 1)
        {
            lanes.remove(&self.lane);
        }
    }
}

impl Lanes {
    /// Waits for a place in each lane.
    ///
    /// # Errors
    /// The refusal, when it waited for too long.
    pub(super) async fn enter(&self, lanes: &[Lane]) -> Result<Vec<Place>, Answer> {
        let until = tokio::time::Instant::now() + self.patience;
        let mut places = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let places_in_it = self
                .lock()
                .entry(lane.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(lane.width())))
                .clone();
            // From here on it is forgotten by whoever leaves it last, this one too.
            let mut place = Place {
                lanes: self.clone(),
                lane: lane.clone(),
                permit: None,
            };
            let permit = tokio::time::timeout_at(until, places_in_it.acquire_owned()).await;
            place.permit = permit.ok().and_then(Result::ok);
            if place.permit.is_none() {
                return Err(refused(lane, self.patience));
            }
            places.push(place);
        }
        Ok(places)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, Arc<Semaphore>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(lane: &Lane, patience: Duration) -> Answer {
    let what = match lane {
        Lane::One(what) => what,
        Lane::Others => "the files that all agents share",
        Lane::Claims => "the files that say who is who",
    };
    tracing::error!(waited_for = %muster_core::text::terminal(what), "calls wait for each other; a process may hold a lock and not let go");
    let error = format!(
        "the calls before this one have waited for {} for {} seconds, so nothing was done and nothing was marked as read; try again, or end the process that holds it",
        muster_core::text::terminal(what),
        patience.as_secs()
    );
    let body = [
        ("ok", false.into()),
        ("error", error.into()),
        ("code", "busy".into()),
    ];
    Answer {
        body: body
            .map(|(name, value): (&str, Value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        failed: true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tool: &str, arguments: Value) -> Vec<Lane> {
        Lane::of(tool, arguments.as_object().unwrap(), true)
    }

    fn one(what: &str) -> Lane {
        Lane::One(what.to_owned())
    }

    #[test]
    fn calls_on_one_log_share_a_lane_however_its_name_is_spelled() {
        let bob = [one("inbox 'bob'")];
        assert_eq!(
            of("send_message", json!({"from": "a", "to": "bob", "room": "x"})),
            bob
        );
        assert_eq!(
            of("read_messages", json!({"agentId": "bob", "source": "inbox"})),
            bob
        );
        assert_eq!(
            of("wait_for_message", json!({"agentId": "Bob", "source": "inbox"})),
            bob
        );
        let general = [one("channel 'general'")];
        assert_eq!(of("send_message", json!({"from": "a"})), general);
        assert_eq!(
            of("read_messages", json!({"agentId": "b", "source": "room"})),
            general
        );
        assert_eq!(
            of("send_message", json!({"from": "a", "room": " #General"})),
            general
        );
        assert_eq!(
            of("read_messages", json!({"agentId": "b", "source": "status"})),
            of("post_status", json!({"agentId": "a"}))
        );
        for tool in ["join", "list_rooms", "no_such_tool", "read_messages"] {
            assert_eq!(
                of(tool, json!({"agentId": "a"})),
                [one("agent 'a'"), Lane::Others]
            );
        }
        let claiming = Lane::of("send_message", &Map::new(), false);
        assert_eq!(claiming, [one("channel 'general'"), Lane::Claims]);
    }

    fn hasty() -> Lanes {
        Lanes {
            patience: Duration::from_millis(300),
            ..Lanes::default()
        }
    }

    #[tokio::test]
    async fn a_full_lane_refuses_in_time_keeps_nobody_from_another_and_is_forgotten_when_empty() {
        let lanes = hasty();
        let bob = [one("bob"), Lane::Others];
        let mut held = Vec::new();
        for _ in 0..ONE {
            held.push(lanes.enter(&bob).await.ok().unwrap());
        }
        let begun = tokio::time::Instant::now();
        let refused = lanes.enter(&bob).await.err().unwrap();
        assert!(begun.elapsed() >= lanes.patience);
        assert_eq!((&refused.body["code"], refused.failed), (&json!("busy"), true));
        let begun = tokio::time::Instant::now();
        drop(lanes.enter(&[one("ann"), Lane::Others]).await.ok().unwrap());
        assert!(begun.elapsed() < lanes.patience);
        // One that waits gets the place of one that leaves.
        let (waiting, ()) = tokio::join!(lanes.enter(&bob), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            held.pop();
        });
        assert!(waiting.is_ok());
        drop((waiting, held));
        assert!(lanes.lock().is_empty());
    }

    #[tokio::test]
    async fn many_agents_that_all_wait_leave_threads_to_messages() {
        let lanes = hasty();
        let mut held = Vec::new();
        for agent in 0..KIND {
            let arguments = json!({"agentId": agent.to_string()});
            held.push(lanes.enter(&of("join", arguments)).await.ok().unwrap());
        }
        assert!(lanes.enter(&of("join", json!({"agentId": "x"}))).await.is_err());
        assert!(
            lanes
                .enter(&of("send_message", json!({"from": "x", "to": "y"})))
                .await
                .is_ok()
        );
    }
}
