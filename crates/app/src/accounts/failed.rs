//! Sign-ins that failed, written down so that no stranger can fill the disk: one row an account and minute at most, with a count. Never keeps what
//! was tried, and never a name: of one that is nobody's only the log hears, for it may be a password typed into the wrong field.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::OwnerId;
use serde_json::json;

use crate::App;
use crate::audit::{self, Event, Subject};

/// How far apart two rows of one account lie at least.
const APART: Duration = Duration::from_secs(60);

/// Whose account was tried; `None` for all names that are nobody's together.
type Whose = Option<OwnerId>;

/// The failures of this process that are not written down yet. As many entries as accounts and one at most.
#[derive(Debug, Default)]
pub(crate) struct Failed(Mutex<HashMap<Whose, Counted>>);

#[derive(Debug, Clone, Copy)]
struct Counted {
    told_at: Time,
    /// Failures since then.
    held: u64,
}

impl Failed {
    /// Counts one failure; answers how many are to be told now, which is none within a minute of the last telling.
    fn count(&self, whose: Whose, now: Time) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = all.entry(whose).or_insert(Counted {
            told_at: Time::from_micros(0),
            held: 0,
        });
        counted.held += 1;
        if now.since(counted.told_at) < APART {
            return 0;
        }
        counted.told_at = now;
        std::mem::take(&mut counted.held)
    }

    /// Takes what is to be told by now, or everything; forgets accounts that have had their minute of peace.
    fn due(&self, now: Time, everything: bool) -> Vec<(Whose, u64)> {
        let mut due = Vec::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|whose, counted| {
            if !everything && now.since(counted.told_at) < APART {
                return true;
            }
            if counted.held == 0 {
                return false;
            }
            due.push((*whose, std::mem::take(&mut counted.held)));
            counted.told_at = now;
            true
        });
        due
    }
}

/// Notes a failed sign-in or confirmation beside the answer to it: whether there is a row to write must not show in how long that takes.
pub(super) fn note(app: &App, whose: Whose) {
    let count = app.failed.count(whose, app.clock.now());
    if count > 0 {
        let work = app.clone();
        app.tasks.spawn(async move { tell(&work, whose, count).await });
    }
}

/// Writes down the failures whose minute is over; with `everything`, all there are, since muster is being stopped.
pub(crate) async fn tell_due(app: &App, everything: bool) {
    for (whose, count) in app.failed.due(app.clock.now(), everything) {
        tell(app, whose, count).await;
    }
}

async fn tell(app: &App, whose: Whose, count: u64) {
    let Some(owner) = whose else {
        tracing::warn!(count, "sign-ins failed: there is no such account");
        return;
    };
    tracing::warn!(owner.id = owner.get(), count, "sign-ins failed");
    if let Err(fault) = record(app, owner, count).await {
        tracing::error!(owner.id = owner.get(), count, error = %fault.chain(), "failed sign-ins could not be written into the audit log");
    }
}

async fn record(app: &App, owner: OwnerId, count: u64) -> Result<(), Fault> {
    let now = app.clock.now();
    let event = Event {
        name: "owner.sign_in_failed",
        actor: "visitor".into(),
        subject: Subject::Owner(owner),
        data: json!({"by": "password", "count": count}),
    };
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { audit::record(tx, now, event).await })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_told_at_once_and_the_rest_of_its_minute_together() {
        let (failed, start) = (Failed::default(), Time::from_micros(1_800_000_000_000_000));
        let (ada, bob) = (Some(OwnerId::new(1)), Some(OwnerId::new(2)));
        assert_eq!(failed.count(ada, start), 1);
        for second in 1..60 {
            assert_eq!(failed.count(ada, start.plus(Duration::from_secs(second))), 0);
        }
        assert_eq!(failed.count(bob, start.plus(Duration::from_secs(59))), 1);
        assert!(failed.due(start.plus(Duration::from_secs(59)), false).is_empty());
        let minute = start.plus(APART);
        assert_eq!(failed.due(minute, false), [(ada, 59)]);
        assert_eq!(failed.count(ada, minute), 0, "that was a telling");
        assert_eq!(failed.count(ada, minute.plus(APART)), 2);
        assert_eq!(failed.count(None, minute.plus(APART)), 1);
        assert_eq!(failed.count(None, minute.plus(APART)), 0);
        assert_eq!(failed.due(minute.plus(APART), true), [(None, 1)]);
        assert!(failed.due(minute.plus(APART * 3), false).is_empty());
        assert!(failed.0.lock().unwrap().is_empty(), "nothing is kept for ever");
    }
}
