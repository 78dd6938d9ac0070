//! The connectors' statements. Never decides.

use muster_store::{Sql, owned, system};

pub(super) static INSERT: Sql = owned(
    "plugins.insert",
    "INSERT INTO plugins (owner_id, name, label, data_scope, token_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
);
pub(super) static BY_TOKEN: Sql = system(
    "plugins.by_token",
    "SELECT id, owner_id, name FROM plugins WHERE token_hash = $1",
);
/// The plus leaves Postgres no index but the one over ids, whether it has counted its rows yet or not.
pub(super) static TOUCH: Sql = owned(
    "plugins.touch",
    "UPDATE plugins SET last_seen_at = $3 WHERE +owner_id = $1 AND id = $2 AND revoked_at IS NULL AND EXISTS (SELECT 1 FROM owners WHERE owners.id = $1 AND owners.disabled_at IS NULL)",
);
/// A message that was stored is a call that was seen; it does not write the connector's row.
pub(super) static LIST: Sql = owned(
    "plugins.list",
    "SELECT id, name, label, data_scope, created_at, last_seen_at, (SELECT max(m.stored_at) FROM messages m WHERE +m.owner_id = $1 AND m.plugin_id = plugins.id) AS last_stored_at, revoked_at, (SELECT count(*) FROM messages m WHERE m.owner_id = $1 AND m.plugin_id = plugins.id AND m.state IN ('queued', 'delivering')) AS waiting FROM plugins WHERE owner_id = $1 ORDER BY id",
);
pub(super) static REVOKE: Sql = owned(
    "plugins.revoke",
    "UPDATE plugins SET revoked_at = $3 WHERE owner_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING name",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[&INSERT, &BY_TOKEN, &TOUCH, &LIST, &REVOKE];
