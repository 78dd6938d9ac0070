//! Calls that came together: ruled on by one look at the settings and the ledger, written into the event log with one write, then sent. Never sends a call whose
//! line is not in the log, and never rules on a call by a look that was taken before it came.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::beside::Noted;
use super::calls::{not_recorded, unrecorded};
use super::tools::Tool;
use super::{Inner, lock};
use crate::jsonrpc::Fields;
use crate::link::Outgoing;
use crate::settings::Settings;

/// How long a look serves calls that came before it.
const GLANCE: Duration = Duration::from_millis(1);
/// Bytes of calls that are held before they are sent.
const MOST_HELD: usize = 64 * 1024;
/// Calls that are held before they are sent.
const MOST_CALLS: usize = 64;

/// What calls that came together share.
#[derive(Default)]
pub(super) struct Together {
    pub(super) settings: Glance<Settings>,
    pub(super) noted: Glance<Noted>,
    held: Mutex<Vec<Held>>,
    /// One sending at a time, so that calls keep their order.
    sending: tokio::sync::Mutex<()>,
}

impl Together {
    /// More came from the agent: what was seen before is not what it is ruled by.
    pub(super) fn came(&self) {
        self.settings.clear();
        self.noted.clear();
    }
}

/// A call that was decided and is not sent yet.
struct Held {
    /// The agent's own id, as JSON.
    agent: String,
    /// Its line in the event log.
    line: Vec<u8>,
    call: Outgoing,
}

/// What was seen a moment ago.
pub(super) struct Glance<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Glance<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Glance<T> {
    /// What was seen less than a millisecond ago and after the last that came, else what is seen now. An error is seen anew each time.
    pub(super) fn or<E>(&self, look: impl FnOnce() -> Result<Arc<T>, E>) -> Result<Arc<T>, E> {
        let mut seen = lock(&self.0);
        if let Some((at, found)) = &*seen
            && at.elapsed() < GLANCE
        {
            return Ok(found.clone());
        }
        // Before the look, so that its age counts from its beginning.
        let at = Instant::now();
        let found = look()?;
        *seen = Some((at, found.clone()));
        Ok(found)
    }

    fn clear(&self) {
        *lock(&self.0) = None;
    }
}

impl Inner {
    /// Keeps a call that runs by this decision until the others that came with it are decided.
    pub(super) async fn hold(&self, id: &str, fields: &Fields<'_>, tool: &Tool, decision: &str) {
        let held = Held {
            agent: id.to_owned(),
            line: self.events.call_line(&tool.registered, decision),
            call: self.numbered_call(id, fields, tool),
        };
        let (count, bytes): (usize, usize) = {
            let mut all = lock(&self.together.held);
            all.push(held);
            (all.len(), all.iter().map(|held| held.call.body.len()).sum())
        };
        if bytes >= MOST_HELD || count >= MOST_CALLS {
            self.release().await;
        }
    }

    /// Writes down the calls that are held, and sends those that are written.
    pub(super) async fn release(&self) {
        let _one = self.together.sending.lock().await;
        let mut held = std::mem::take(&mut *lock(&self.together.held));
        if held.is_empty() {
            return;
        }
        let (written, fault) = self.events.lines(held.iter().map(|held| held.line.as_slice()));
        let refused = held.split_off(written.min(held.len()));
        let calls: Vec<Outgoing> = held.into_iter().map(|held| held.call).collect();
        let numbers: Vec<u64> = calls.iter().filter_map(|call| call.id).collect();
        let sent = match &self.link {
            Some(link) if !calls.is_empty() => link.send_all(calls).await.is_ok(),
            Some(_) => true,
            None => false,
        };
        if !sent {
            for number in numbers {
                self.unanswered(number).await;
            }
        }
        if let Some(fault) = fault {
            not_recorded(&fault);
        }
        for held in refused {
            let waits = held
                .call
                .id
                .and_then(|number| self.state().pending.remove(&number));
            // The end of its server may have answered it meanwhile.
            if waits.is_some() {
                self.tell(&unrecorded(&held.agent)).await;
            }
        }
    }
}
