//! The drafts' statements. Never decides.

use muster_store::{Sql, owned, owned_pair, system};

/// The message a draft answers. Locked on Postgres, so that acts on one message's drafts follow one another; SQLite has one writer.
pub(super) static MESSAGE: Sql = owned_pair(
    "drafts.message",
    "SELECT id, plugin_id, state, chief_id, no_reply, sender_verified FROM messages WHERE owner_id = $1 AND id = $2",
    "SELECT id, plugin_id, state, chief_id, no_reply, sender_verified FROM messages WHERE owner_id = $1 AND id = $2 FOR UPDATE",
);
/// The caller's chief, if it still is the owner's. Locked on Postgres: the cap is counted per chief.
pub(super) static CHIEF: Sql = owned_pair(
    "drafts.chief",
    "SELECT id FROM chiefs WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
    "SELECT id FROM chiefs WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL FOR UPDATE",
);
pub(super) static IN_FLIGHT: Sql = owned(
    "drafts.in_flight",
    "SELECT count(*) FROM drafts WHERE owner_id = $1 AND message_id = $2 AND state = 'approved'",
);
/// Both conditions on the state: SQLite uses the index of open drafts only for a statement that repeats its condition, and would walk all
/// drafts there ever were.
pub(super) static PENDING_ELSEWHERE: Sql = owned(
    "drafts.pending_elsewhere",
    "SELECT count(*) FROM drafts WHERE owner_id = $1 AND chief_id = $2 AND message_id <> $3 AND state = 'pending' AND state IN ('pending', 'approved')",
);
pub(super) static SUPERSEDE_PENDING: Sql = owned(
    "drafts.supersede_pending",
    "UPDATE drafts SET state = 'superseded', ended_at = $3 WHERE owner_id = $1 AND message_id = $2 AND state = 'pending' RETURNING id",
);
pub(super) static INSERT: Sql = owned(
    "drafts.insert",
    "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7) RETURNING id",
);
pub(super) static SUPERSEDED_BY: Sql = owned(
    "drafts.superseded_by",
    "UPDATE drafts SET superseded_by = $3 WHERE owner_id = $1 AND id = $2 AND state = 'superseded'",
);
pub(super) static FACTS: Sql = owned(
    "drafts.facts",
    "SELECT d.plugin_id, d.message_id, d.state, d.claimed_at, p.revoked_at FROM drafts d JOIN plugins p ON p.owner_id = $1 AND p.id = d.plugin_id WHERE d.owner_id = $1 AND d.id = $2",
);
pub(super) static APPROVE: Sql = owned(
    "drafts.approve",
    "UPDATE drafts SET state = 'approved', approved_at = $3, decided_via = $4 WHERE owner_id = $1 AND id = $2 AND state = 'pending'",
);
pub(super) static REJECT: Sql = owned(
    "drafts.reject",
    "UPDATE drafts SET state = 'rejected', ended_at = $3, decided_via = $4 WHERE owner_id = $1 AND id = $2 AND state = 'pending'",
);
pub(super) static WITHDRAW: Sql = owned(
    "drafts.withdraw",
    "UPDATE drafts SET state = 'rejected', ended_at = $3, decided_via = $4 WHERE owner_id = $1 AND id = $2 AND state = 'approved' AND claimed_at IS NULL",
);
/// Hands the oldest approval out. `claimed_at IS NULL` stands outside the sub-select too, so that a lost race claims nothing.
pub(super) static CLAIM: Sql = owned_pair(
    "drafts.claim",
    "UPDATE drafts SET claimed_at = $3, lease_until = $4 WHERE owner_id = $1 AND state = 'approved' AND claimed_at IS NULL AND id = (SELECT d.id FROM drafts d WHERE d.owner_id = $1 AND d.plugin_id = $2 AND d.state = 'approved' AND d.claimed_at IS NULL ORDER BY d.approved_at, d.id LIMIT 1) RETURNING id, message_id, body, approved_at",
    "UPDATE drafts SET claimed_at = $3, lease_until = $4 WHERE owner_id = $1 AND state = 'approved' AND claimed_at IS NULL AND id = (SELECT d.id FROM drafts d WHERE d.owner_id = $1 AND d.plugin_id = $2 AND d.state = 'approved' AND d.claimed_at IS NULL ORDER BY d.approved_at, d.id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, message_id, body, approved_at",
);
pub(super) static EXTERNAL_ID: Sql = owned(
    "drafts.external_id",
    "SELECT external_id FROM messages WHERE owner_id = $1 AND id = $2",
);
pub(super) static FOR_REPORT: Sql = owned_pair(
    "drafts.for_report",
    "SELECT message_id, state, claimed_at FROM drafts WHERE owner_id = $1 AND plugin_id = $2 AND id = $3",
    "SELECT message_id, state, claimed_at FROM drafts WHERE owner_id = $1 AND plugin_id = $2 AND id = $3 FOR UPDATE",
);
pub(super) static REPORT: Sql = owned(
    "drafts.report",
    "UPDATE drafts SET state = $3, external_ref = $4, detail = $5, ended_at = $6 WHERE owner_id = $1 AND id = $2 AND claimed_at IS NOT NULL AND state IN ('approved', 'unconfirmed')",
);
/// A reply some claim already holds is left to that claim's own result.
pub(super) static SUPERSEDE_OTHERS: Sql = owned(
    "drafts.supersede_others",
    "UPDATE drafts SET state = 'superseded', ended_at = $4, superseded_by = $3 WHERE owner_id = $1 AND message_id = $2 AND id <> $3 AND (state = 'pending' OR (state = 'approved' AND claimed_at IS NULL)) RETURNING id",
);
/// The plus keeps SQLite, which knows nothing of how rows are spread, from walking all drafts of an owner: few are due at any time, and an
/// index finds those. It stands for the same reason wherever time decides.
pub(super) static LAPSE: Sql = owned(
    "drafts.lapse",
    "UPDATE drafts SET state = 'unconfirmed' WHERE +owner_id = $1 AND state = 'approved' AND lease_until IS NOT NULL AND lease_until <= $2 RETURNING id",
);
pub(super) static EXPIRE: Sql = owned(
    "drafts.expire",
    "UPDATE drafts SET state = 'expired', ended_at = $2 WHERE +owner_id = $1 AND state IN ('pending', 'approved') AND claimed_at IS NULL AND expires_at <= $2 RETURNING id",
);
pub(super) static DUE: Sql = owned(
    "drafts.due",
    "SELECT (SELECT count(*) FROM drafts WHERE +owner_id = $1 AND state = 'approved' AND lease_until IS NOT NULL AND lease_until <= $2) + (SELECT count(*) FROM drafts WHERE +owner_id = $1 AND state IN ('pending', 'approved') AND claimed_at IS NULL AND expires_at <= $2)",
);
pub(super) static DUE_OWNERS: Sql = system(
    "drafts.due_owners",
    "SELECT owner_id FROM drafts WHERE state = 'approved' AND lease_until IS NOT NULL AND lease_until <= $1 UNION SELECT owner_id FROM drafts WHERE state IN ('pending', 'approved') AND claimed_at IS NULL AND expires_at <= $1",
);
/// What a card shows; only the rows differ.
macro_rules! cards {
    ($which:literal) => {
        concat!(
            "SELECT d.id, d.message_id, d.body, d.state, d.created_at, d.expires_at, d.approved_at, d.claimed_at, d.lease_until, d.ended_at, \
             d.external_ref, d.detail, d.decided_via, d.superseded_by, p.label AS plugin_label, p.revoked_at AS plugin_revoked_at, \
             m.sender, m.sender_verified, m.subject, m.body AS message_body, m.received_at, m.stored_at, \
             (SELECT count(*) FROM drafts u WHERE u.owner_id = $1 AND u.message_id = d.message_id AND u.state = 'unconfirmed' AND u.id <> d.id) AS unconfirmed \
             FROM drafts d JOIN plugins p ON p.owner_id = $1 AND p.id = d.plugin_id JOIN messages m ON m.owner_id = $1 AND m.id = d.message_id \
             WHERE d.owner_id = $1 AND ",
            $which
        )
    };
}
/// The plus lets SQLite find the open drafts and sort them, where it would walk all of an owner's in the order of their ids.
pub(super) static OPEN: Sql = owned(
    "drafts.open",
    cards!("d.state IN ('pending', 'approved') ORDER BY +d.id DESC LIMIT 500"),
);
pub(super) static ARCHIVED: Sql = owned(
    "drafts.archived",
    cards!("d.state NOT IN ('pending', 'approved') AND d.id < $2 ORDER BY d.id DESC LIMIT $3"),
);
pub(super) static CARD: Sql = owned("drafts.card", cards!("d.id = $2"));

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &MESSAGE,
    &CHIEF,
    &IN_FLIGHT,
    &PENDING_ELSEWHERE,
    &SUPERSEDE_PENDING,
    &INSERT,
    &SUPERSEDED_BY,
    &FACTS,
    &APPROVE,
    &REJECT,
    &WITHDRAW,
    &CLAIM,
    &EXTERNAL_ID,
    &FOR_REPORT,
    &REPORT,
    &SUPERSEDE_OTHERS,
    &LAPSE,
    &EXPIRE,
    &DUE,
    &DUE_OWNERS,
    &OPEN,
    &ARCHIVED,
    &CARD,
];
