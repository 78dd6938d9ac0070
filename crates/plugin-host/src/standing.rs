//! Which servers may start, asked at every call of many: the ledger is read again when it may have changed, and at no other time. Never answers from what
//! was true before the last change of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::PluginError;
use crate::host::Host;
use crate::ledger::Stamp;
use crate::names::ServerKey;

/// How long after a change the file is read at each look: a second change within one tick of the clock can leave the same stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// The definitions that may start. Asking costs a look at one file's stamp.
#[derive(Debug)]
pub struct Standing {
    host: Host,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    since: Instant,
    definitions: Arc<BTreeMap<ServerKey, String>>,
}

impl Standing {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            seen: Mutex::new(None),
        }
    }

    /// The definition hash of `key` when it may start now; `None` when it may not.
    ///
    /// # Errors
    /// A fault: the ledger could not be read, and nothing may start.
    pub fn definition(&self, key: &ServerKey) -> Result<Option<String>, PluginError> {
        Ok(self.definitions()?.get(key).cloned())
    }

    /// The definition hash of every server that may start now.
    ///
    /// # Errors
    /// As [`Standing::definition`].
    pub fn definitions(&self) -> Result<Arc<BTreeMap<ServerKey, String>>, PluginError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the reading: a change that comes between the two is seen at the next look.
        let stamp = self.host.book.stamp();
        if let Some(seen) = seen.as_ref()
            && seen.stamp == stamp
            && seen.since.elapsed() >= SETTLED
        {
            return Ok(seen.definitions.clone());
        }
        let definitions = Arc::new(self.host.definitions()?);
        let since = seen
            .as_ref()
            .filter(|seen| seen.stamp == stamp)
            .map_or_else(Instant::now, |seen| seen.since);
        *seen = Some(Seen {
            stamp,
            since,
            definitions: definitions.clone(),
        });
        Ok(definitions)
    }
}
