//! The database connections' statements. Never decides.

use muster_store::{Sql, owned};

macro_rules! live {
    ($which:literal) => {
        concat!(
            "SELECT c.id, c.name, c.engine, c.project_id, p.name AS project_name, c.wide, (c.looked_at IS NOT NULL) AS looked, (c.write_url IS NOT NULL) AS has_write, c.created_at ",
            "FROM db_connections c JOIN projects p ON p.owner_id = $1 AND p.id = c.project_id ",
            "WHERE c.owner_id = $1 AND c.removed_at IS NULL",
            $which
        )
    };
}

/// Without its addresses, which are sealed for the id that this gives it.
pub(super) static INSERT: Sql = owned(
    "databases.insert",
    "INSERT INTO db_connections (owner_id, project_id, name, engine, url, wide, looked_at, created_at) SELECT $1, p.id, $3, $4, '', $5, $6, $7 FROM projects p WHERE p.owner_id = $1 AND p.id = $2 AND p.removed_at IS NULL RETURNING id",
);
pub(super) static SET_URLS: Sql = owned(
    "databases.set_urls",
    "UPDATE db_connections SET url = $3, write_url = $4 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// What was found out about the account of the old one says nothing of the new one.
pub(super) static SET_URL: Sql = owned(
    "databases.set_url",
    "UPDATE db_connections SET url = $3, wide = $4, looked_at = $5, checked_at = NULL, checked = NULL WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static SET_WRITE_URL: Sql = owned(
    "databases.set_write_url",
    "UPDATE db_connections SET write_url = $3, checked_at = NULL, checked = NULL WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static LIST: Sql = owned("databases.list", live!(" ORDER BY c.id"));
pub(super) static FIND: Sql = owned("databases.find", live!(" AND (c.id = $2 OR c.name = $3)"));
pub(super) static URLS: Sql = owned(
    "databases.urls",
    "SELECT url, write_url, (looked_at IS NOT NULL) AS looked FROM db_connections WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// Once: whoever is second changes nothing.
pub(super) static LOOKED: Sql = owned(
    "databases.looked",
    "UPDATE db_connections SET looked_at = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL AND looked_at IS NULL",
);
pub(super) static CHECKED: Sql = owned(
    "databases.checked",
    "UPDATE db_connections SET checked_at = $3, checked = $4 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static CHECKS: Sql = owned(
    "databases.checks",
    "SELECT id, checked_at, checked FROM db_connections WHERE owner_id = $1 AND removed_at IS NULL AND checked_at IS NOT NULL ORDER BY id",
);
pub(super) static RENAME: Sql = owned(
    "databases.rename",
    "UPDATE db_connections SET name = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// The addresses go with it.
pub(super) static REMOVE: Sql = owned(
    "databases.remove",
    "UPDATE db_connections SET removed_at = $3, url = '', write_url = NULL WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// What was sent to one connection: by an agent's call, which names it among its pairs, or by the owner. Of a row's facts as much as 2,000
/// characters of a statement take, six letters each at most. What a text holds is gone when it is replaced: both engines search for it alike.
pub(super) static STATEMENTS_OF: Sql = owned(
    "databases.statements",
    "SELECT at, tool, outcome, substr(data, 1, 20000) AS facts FROM audit WHERE owner_id = $1 AND ((event = 'db.shell' AND subject = $2) OR (event = 'call' \
     AND tool IN ('muster_db_query', 'muster_db_execute', 'muster_db_explain', 'muster_db_schemas', 'muster_db_objects', 'muster_db_describe', 'muster_db_preview') \
     AND (replace(substr(data, 1, 20000), $3, '') <> substr(data, 1, 20000) OR replace(substr(data, 1, 20000), $4, '') <> substr(data, 1, 20000)))) ORDER BY id DESC LIMIT $5",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT,
    &SET_URLS,
    &SET_URL,
    &SET_WRITE_URL,
    &LIST,
    &FIND,
    &URLS,
    &LOOKED,
    &CHECKED,
    &CHECKS,
    &RENAME,
    &REMOVE,
    &STATEMENTS_OF,
];
