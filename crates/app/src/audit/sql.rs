//! The audit log's statements. Never decides.

use muster_store::{Sql, owned, system};

pub(super) static INSERT: Sql = owned(
    "audit.insert",
    "INSERT INTO audit (owner_id, at, actor, event, subject, data) VALUES ($1, $2, $3, $4, $5, $6)",
);
/// For an owner who is made in the same transaction, which is no owner's yet.
pub(super) static INSERT_FOR: Sql = system(
    "audit.insert_for",
    "INSERT INTO audit (owner_id, at, actor, event, subject, data) VALUES ($1, $2, $3, $4, $5, $6)",
);
pub(super) static NEWEST: Sql = owned(
    "audit.newest",
    "SELECT id, at, actor, event, subject, data FROM audit WHERE owner_id = $1 AND id < $2 AND at >= $3 AND at < $4 AND ($5 = '' OR event = $5) ORDER BY id DESC LIMIT $6",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[&INSERT, &INSERT_FOR, &NEWEST];
