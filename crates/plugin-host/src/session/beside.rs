//! What the ledger says of a server's tools while it is served: what other servers' tools are called, and which of its own are not what was approved. Never answers
//! from what was true before the last change of the ledger.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_core::Fault;

use crate::host::{Host, taken};
use crate::ledger::{Ledger, Stamp};
use crate::names::ServerKey;

/// How long after a change the file is read at each look: a second change within one tick of the clock can leave the same stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// What other sessions noted.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// Registered names of other approved servers' tools.
    pub(super) taken: BTreeSet<String>,
    /// This server's own names of tools that are not what was approved.
    pub(super) changed: BTreeSet<String>,
}

impl Noted {
    pub(super) fn of(ledger: &Ledger, key: &ServerKey) -> Self {
        let pins = ledger.pins.get(&key.stable_id());
        Self {
            taken: taken(ledger, key),
            changed: pins.map(|pins| pins.changed.clone()).unwrap_or_default(),
        }
    }
}

/// Looks at the ledger again and again. A look at one that did not change costs a look at its stamp.
#[derive(Debug, Default)]
pub(super) struct Beside(Mutex<Option<Seen>>);

#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    since: Instant,
    noted: Arc<Noted>,
}

impl Beside {
    /// What is noted now.
    ///
    /// # Errors
    /// A fault, when the ledger cannot be read.
    pub(super) fn now(&self, host: &Host, key: &ServerKey) -> Result<Arc<Noted>, Fault> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the reading: a change that comes between the two is seen at the next look.
        let stamp = host.book.stamp();
        let known = seen.as_ref().filter(|seen| seen.stamp == stamp);
        if let Some(seen) = known.filter(|seen| seen.since.elapsed() >= SETTLED) {
            return Ok(seen.noted.clone());
        }
        let since = known.map_or_else(Instant::now, |seen| seen.since);
        let noted = Arc::new(Noted::of(&host.book.read()?, key));
        *seen = Some(Seen {
            stamp,
            since,
            noted: noted.clone(),
        });
        Ok(noted)
    }
}
