//! Agents' calls under way, so that a cancellation that comes as a request of its own finds the call it means. Never ends a call that another may be meant by.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_core::ids::TokenId;
use rmcp::model::RequestId;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

type Key = (TokenId, RequestId);

/// Every call under way, by its agent's token and its number. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<HashMap<Key, Vec<(u64, CancellationToken)>>>>);

impl Calls {
    /// Notes a call until the answer is dropped.
    pub(super) fn begin(&self, agent: TokenId, id: RequestId, given_up: CancellationToken) -> Underway {
        let key = (agent, id);
        let mut all = self.lock();
        let same = all.entry(key.clone()).or_default();
        let place = same.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
        same.push((place, given_up));
        drop(all);
        Underway {
            all: self.clone(),
            key,
            place,
        }
    }

    /// Gives up the call of this agent that has this number. Where several have it, clients share the token, and which of them is meant
    /// cannot be told.
    fn cancel(&self, agent: TokenId, id: RequestId) {
        if let Some([(_, only)]) = self.lock().get(&(agent, id)).map(Vec::as_slice) {
            only.cancel();
        }
    }

    /// Gives up the call that this message cancels, if it is a cancellation.
    pub(super) fn heard(&self, agent: TokenId, message: &[u8]) {
        if let Ok(Cancelled {
            method: Method::Cancelled,
            params,
        }) = serde_json::from_slice(message)
        {
            self.cancel(agent, params.request_id);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Vec<(u64, CancellationToken)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Cancelled {
    method: Method,
    params: Params,
}

#[derive(Deserialize)]
enum Method {
    #[serde(rename = "notifications/cancelled")]
    Cancelled,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    request_id: RequestId,
}

/// One call under way.
pub(super) struct Underway {
    all: Calls,
    key: Key,
    place: u64,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(same) = all.get_mut(&self.key) {
            same.retain(|(place, _)| *place != self.place);
            if same.is_empty() {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANCEL: &[u8] =
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}"#;

    fn begin(calls: &Calls, agent: i64, id: RequestId) -> (Underway, CancellationToken) {
        let given_up = CancellationToken::new();
        let underway = calls.begin(TokenId::new(agent), id, given_up.clone());
        (underway, given_up)
    }

    #[test]
    fn a_cancellation_ends_the_call_of_that_agent_with_that_number_and_no_other() {
        let calls = Calls::default();
        let (_kept, meant) = begin(&calls, 1, RequestId::Number(7));
        let others = [
            begin(&calls, 2, RequestId::Number(7)),
            begin(&calls, 1, RequestId::Number(8)),
            begin(&calls, 1, RequestId::String("7".into())),
        ];
        for message in [
            &b"{}"[..],
            b"[]",
            b"not json",
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestId":7}}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        ] {
            calls.heard(TokenId::new(1), message);
        }
        assert!(!meant.is_cancelled());
        calls.heard(TokenId::new(1), CANCEL);
        assert!(meant.is_cancelled());
        assert!(others.iter().all(|(_, given_up)| !given_up.is_cancelled()));
    }

    #[test]
    fn where_two_clients_use_one_number_under_one_token_neither_is_ended_for_the_other() {
        let calls = Calls::default();
        let (first, one) = begin(&calls, 1, RequestId::Number(7));
        let (_second, other) = begin(&calls, 1, RequestId::Number(7));
        calls.heard(TokenId::new(1), CANCEL);
        assert!(!one.is_cancelled() && !other.is_cancelled());
        drop(first);
        calls.heard(TokenId::new(1), CANCEL);
        assert!(other.is_cancelled() && !one.is_cancelled());
    }

    #[test]
    fn a_call_that_ended_is_forgotten() {
        let calls = Calls::default();
        drop(begin(&calls, 1, RequestId::Number(7)));
        assert!(calls.lock().is_empty());
    }
}
