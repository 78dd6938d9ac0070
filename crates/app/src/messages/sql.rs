//! The messages' statements. Never decides.

use muster_store::{Sql, owned, owned_pair};

/// Stores a message unless it is a repeat, a cap is reached or the connector is not live, in one statement; answers no row in all of those
/// cases. The row proves that the connector was seen, so nothing else is written. It also says whether there is a chief, so that a message that must wait costs no second transaction to find that out.
///
/// The plus keeps a Postgres that has not yet counted its rows from reading all of an owner's messages for the hour's.
/// The hour's count ends an hour ahead of now (two hours, in microseconds, after its beginning): what a clock that was wrong stored for
/// years ahead must not fill the hour until then.
pub(super) static INSERT: Sql = owned(
    "messages.insert",
    "INSERT INTO messages (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, stored_at) \
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'queued', $12 \
     WHERE (SELECT count(*) FROM messages WHERE +owner_id = $1 AND plugin_id = $2 AND stored_at > $13 AND stored_at <= $13 + 7200000000) < $14 \
       AND (SELECT count(*) FROM messages WHERE owner_id = $1 AND plugin_id = $2 AND state IN ('queued', 'delivering')) < $15 \
       AND EXISTS (SELECT 1 FROM plugins p JOIN owners o ON o.id = $1 WHERE p.id = $2 AND +p.owner_id = $1 AND p.revoked_at IS NULL AND o.disabled_at IS NULL) \
     ON CONFLICT (plugin_id, external_id) DO NOTHING RETURNING id, (SELECT count(*) FROM chiefs c WHERE c.owner_id = $1 AND c.removed_at IS NULL) AS chiefs",
);
pub(super) static BY_EXTERNAL_ID: Sql = owned(
    "messages.by_external_id",
    "SELECT id, state FROM messages WHERE owner_id = $1 AND plugin_id = $2 AND external_id = $3",
);
/// The message whose leaving brings the hour's count below the cap again.
pub(super) static OLDEST_COUNTED: Sql = owned(
    "messages.oldest_counted",
    "SELECT stored_at FROM messages WHERE owner_id = $1 AND plugin_id = $2 AND stored_at > $3 AND stored_at <= $3 + 7200000000 ORDER BY stored_at DESC, id DESC LIMIT 1 OFFSET $4",
);
pub(super) static NEXT_QUEUED: Sql = owned(
    "messages.next_queued",
    "SELECT m.id FROM messages m JOIN plugins p ON p.id = m.plugin_id AND p.owner_id = $1 AND p.revoked_at IS NULL WHERE m.owner_id = $1 AND m.state = 'queued' AND m.id > $2 AND EXISTS (SELECT 1 FROM owners o WHERE o.id = $1 AND o.disabled_at IS NULL) ORDER BY m.id LIMIT 1",
);
/// `queued` -> `delivering`. The state in the WHERE is what keeps a message from being handed over twice.
pub(super) static BEGIN: Sql = owned(
    "messages.begin",
    "UPDATE messages SET state = 'delivering', chief_id = $3, attempts = attempts + 1, last_attempt_at = $4 WHERE owner_id = $1 AND id = $2 AND state = 'queued' \
     AND EXISTS (SELECT 1 FROM plugins p WHERE p.owner_id = $1 AND p.id = messages.plugin_id AND p.revoked_at IS NULL) \
     AND EXISTS (SELECT 1 FROM owners o WHERE o.id = $1 AND o.disabled_at IS NULL) \
     RETURNING id, plugin_id, sender, subject, body, received_at, no_reply, sender_verified, attempts, retries, stored_at",
);
pub(super) static PLUGIN_WORDS: Sql = owned(
    "messages.plugin_words",
    "SELECT label, data_scope FROM plugins WHERE owner_id = $1 AND id = $2",
);
pub(super) static LEFT_OVER: Sql = owned(
    "messages.left_over",
    "UPDATE messages SET state = 'unconfirmed' WHERE owner_id = $1 AND chief_id = $2 AND state = 'delivering' RETURNING id, attempts",
);
pub(super) static SETTLE_DELIVERED: Sql = owned(
    "messages.settle_delivered",
    "UPDATE messages SET state = 'delivered', delivered_at = $4 WHERE owner_id = $1 AND id = $2 AND state = 'delivering' AND attempts = $3",
);
pub(super) static SETTLE_UNCONFIRMED: Sql = owned(
    "messages.settle_unconfirmed",
    "UPDATE messages SET state = 'unconfirmed' WHERE owner_id = $1 AND id = $2 AND state = 'delivering' AND attempts = $3",
);
/// Nothing reached the chief, so the attempt does not count either.
pub(super) static SETTLE_QUEUED: Sql = owned(
    "messages.settle_queued",
    "UPDATE messages SET state = 'queued', chief_id = NULL, attempts = attempts - 1 WHERE owner_id = $1 AND id = $2 AND state = 'delivering' AND attempts = $3",
);
pub(super) static FOR_RETRY: Sql = owned_pair(
    "messages.for_retry",
    "SELECT m.state, p.revoked_at, (SELECT count(*) FROM chiefs c WHERE c.owner_id = $1 AND c.removed_at IS NULL) AS chiefs FROM messages m JOIN plugins p ON p.owner_id = $1 AND p.id = m.plugin_id WHERE m.owner_id = $1 AND m.id = $2",
    "SELECT m.state, p.revoked_at, (SELECT count(*) FROM chiefs c WHERE c.owner_id = $1 AND c.removed_at IS NULL) AS chiefs FROM messages m JOIN plugins p ON p.owner_id = $1 AND p.id = m.plugin_id WHERE m.owner_id = $1 AND m.id = $2 FOR UPDATE OF m",
);
pub(super) static ACTED: Sql = owned(
    "messages.acted",
    "SELECT state FROM drafts WHERE owner_id = $1 AND message_id = $2 AND state IN ('pending', 'approved', 'sent', 'unconfirmed') ORDER BY id DESC LIMIT 1",
);
pub(super) static RETRY: Sql = owned(
    "messages.retry",
    "UPDATE messages SET state = 'queued', chief_id = NULL, retries = retries + 1 WHERE owner_id = $1 AND id = $2 AND state = 'unconfirmed' RETURNING retries",
);
pub(super) static UNCONFIRMED: Sql = owned(
    "messages.unconfirmed",
    "SELECT m.id, p.label, p.revoked_at, m.sender, m.sender_verified, m.subject, m.stored_at, m.attempts FROM messages m JOIN plugins p ON p.owner_id = $1 AND p.id = m.plugin_id WHERE m.owner_id = $1 AND m.state = 'unconfirmed' ORDER BY m.id LIMIT 500",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT,
    &BY_EXTERNAL_ID,
    &OLDEST_COUNTED,
    &NEXT_QUEUED,
    &BEGIN,
    &PLUGIN_WORDS,
    &LEFT_OVER,
    &SETTLE_DELIVERED,
    &SETTLE_UNCONFIRMED,
    &SETTLE_QUEUED,
    &FOR_RETRY,
    &ACTED,
    &RETRY,
    &UNCONFIRMED,
];
