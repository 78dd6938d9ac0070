//! The audit log's statements. Never decides.

use muster_store::{Sql, owned, owned_pair, system, system_pair};

/// The end of the owner's chain. Locked on Postgres until the row is stored, so that no two rows follow the same one; SQLite has one writer.
pub(super) static HEAD: Sql = owned_pair(
    "audit.head",
    "SELECT hash FROM audit_heads WHERE owner_id = $1",
    "SELECT hash FROM audit_heads WHERE owner_id = $1 FOR UPDATE",
);
/// The same for an owner who is made in the same transaction, which is no owner's yet.
pub(super) static HEAD_FOR: Sql = system_pair(
    "audit.head_for",
    "SELECT hash FROM audit_heads WHERE owner_id = $1",
    "SELECT hash FROM audit_heads WHERE owner_id = $1 FOR UPDATE",
);
pub(super) static INSERT: Sql = owned(
    "audit.insert",
    "INSERT INTO audit (owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id",
);
pub(super) static INSERT_FOR: Sql = system(
    "audit.insert_for",
    "INSERT INTO audit (owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id",
);
pub(super) static NEWEST: Sql = owned(
    "audit.newest",
    "SELECT id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM audit WHERE owner_id = $1 AND id < $2 AND at >= $3 AND at < $4 AND ($5 = '' OR event = $5) ORDER BY id DESC LIMIT $6",
);
/// By what a call's row is found by; an empty text stands for any.
pub(super) static NEWEST_CALLS: Sql = owned(
    "audit.newest_calls",
    "SELECT id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM audit WHERE owner_id = $1 AND id < $2 AND at >= $3 AND at < $4 AND ($5 = '' OR event = $5) \
     AND ($6 = '' OR agent = $6) AND ($7 = '' OR task = $7) AND ($8 = '' OR tool = $8) AND ($9 = '' OR outcome = $9) ORDER BY id DESC LIMIT $10",
);
pub(super) static LABELLED: Sql = owned(
    "audit.labelled",
    "SELECT id FROM tokens WHERE owner_id = $1 AND kind = 'agent' AND label = $2",
);
/// Some rows in their order, for going along the chain.
pub(super) static ONWARDS: Sql = owned(
    "audit.onwards",
    "SELECT id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM audit WHERE owner_id = $1 AND id > $2 ORDER BY id LIMIT $3",
);
/// For rows that cannot be read as what they should be.
pub(super) static IDS_ONWARDS: Sql = owned(
    "audit.ids_onwards",
    "SELECT id FROM audit WHERE owner_id = $1 AND id > $2 ORDER BY id LIMIT $3",
);
pub(super) static ROW: Sql = owned(
    "audit.row",
    "SELECT id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM audit WHERE owner_id = $1 AND id = $2",
);
pub(super) static LENGTH: Sql = owned(
    "audit.length",
    "SELECT length, hash FROM audit_heads WHERE owner_id = $1",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &HEAD,
    &HEAD_FOR,
    &INSERT,
    &INSERT_FOR,
    &NEWEST,
    &NEWEST_CALLS,
    &LABELLED,
    &ONWARDS,
    &IDS_ONWARDS,
    &ROW,
    &LENGTH,
];
