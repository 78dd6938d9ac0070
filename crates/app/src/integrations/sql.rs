//! The integrations' statements. Never decides.

use muster_store::{Sql, owned};

/// Without its token, which is sealed for the id that this gives it.
pub(super) static INSERT: Sql = owned(
    "integrations.insert",
    "INSERT INTO integrations (owner_id, name, kind, url, secret, created_at) VALUES ($1, $2, $3, $4, '', $5) RETURNING id",
);
pub(super) static SET_SECRET: Sql = owned(
    "integrations.set_secret",
    "UPDATE integrations SET secret = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static LIST: Sql = owned(
    "integrations.list",
    "SELECT id, name, kind, url, created_at FROM integrations WHERE owner_id = $1 AND removed_at IS NULL ORDER BY id",
);
pub(super) static FIND: Sql = owned(
    "integrations.find",
    "SELECT id, name, kind, url, created_at FROM integrations WHERE owner_id = $1 AND removed_at IS NULL AND (id = $2 OR name = $3)",
);
pub(super) static SECRET: Sql = owned(
    "integrations.secret",
    "SELECT secret FROM integrations WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static RENAME: Sql = owned(
    "integrations.rename",
    "UPDATE integrations SET name = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// The token goes with it.
pub(super) static REMOVE: Sql = owned(
    "integrations.remove",
    "UPDATE integrations SET removed_at = $3, secret = '' WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static USED_BY: Sql = owned(
    "integrations.used_by",
    "SELECT id, name FROM projects WHERE owner_id = $1 AND integration_id = $2 AND removed_at IS NULL ORDER BY id",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT,
    &SET_SECRET,
    &LIST,
    &FIND,
    &SECRET,
    &RENAME,
    &REMOVE,
    &USED_BY,
];
