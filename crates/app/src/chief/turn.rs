//! Composes the text of a delivery turn from a stored message. Pure; never decides whether it is sent.

use muster_core::clock::Time;
use muster_core::fence::{MessageTurn, Nonce, Retry, message_turn};

use crate::messages::Stored;

/// The whole text the chief is given for `stored`, fenced with `nonce`.
pub(super) fn compose(stored: &Stored, nonce: &Nonce, now: Time) -> String {
    let stored_at = Time::from_micros(stored.stored_at);
    // A connector that names no time still gets one on the from line: when muster stored the message.
    let received = stored.received_at.map_or(stored_at, Time::from_micros).rfc3339();
    let retry = (stored.retries > 0).then(|| Retry {
        retry: stored.retries,
        attempt: stored.attempts,
        age_seconds: i64::try_from(now.since(stored_at).as_secs()).unwrap_or(i64::MAX),
    });
    message_turn(&MessageTurn {
        nonce,
        message_id: stored.id,
        plugin_label: &stored.plugin_label,
        data_scope: &stored.data_scope,
        sender: stored.sender.as_deref(),
        verified: stored.sender_verified,
        received: Some(&received),
        subject: stored.subject.as_deref(),
        body: &stored.body,
        no_reply: stored.no_reply,
        retry,
    })
}
