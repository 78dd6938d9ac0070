//! The hosts' statements. Never decides.

use muster_store::{Sql, owned};

pub(super) static INSERT: Sql = owned(
    "hosts.insert",
    "INSERT INTO hosts (owner_id, name, created_at) VALUES ($1, $2, $3) RETURNING id",
);
pub(super) static LIST: Sql = owned(
    "hosts.list",
    "SELECT id, name, created_at FROM hosts WHERE owner_id = $1 AND removed_at IS NULL ORDER BY id",
);
pub(super) static FIND: Sql = owned(
    "hosts.find",
    "SELECT id, name, created_at FROM hosts WHERE owner_id = $1 AND removed_at IS NULL AND (id = $2 OR name = $3)",
);
pub(super) static RENAME: Sql = owned(
    "hosts.rename",
    "UPDATE hosts SET name = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static REMOVE: Sql = owned(
    "hosts.remove",
    "UPDATE hosts SET removed_at = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static QUEUED: Sql = owned(
    "hosts.queued",
    "SELECT r.id, t.title FROM runs r JOIN tasks t ON t.owner_id = $1 AND t.id = r.task_id WHERE r.owner_id = $1 AND r.host_id = $2 AND r.state = 'queued' ORDER BY r.id",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[&INSERT, &LIST, &FIND, &RENAME, &REMOVE, &QUEUED];
