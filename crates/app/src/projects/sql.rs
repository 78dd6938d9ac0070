//! The projects' statements. Never decides.

use muster_store::{Sql, owned};

/// A project with the names of what it points to.
macro_rules! live {
    ($which:literal) => {
        concat!(
            "SELECT p.id, p.name, p.root, p.repo, p.integration_id, i.name AS integration_name, p.default_policy_id, d.name AS default_policy_name, p.created_at ",
            "FROM projects p LEFT JOIN integrations i ON i.owner_id = $1 AND i.id = p.integration_id ",
            "LEFT JOIN policies d ON d.owner_id = $1 AND d.id = p.default_policy_id ",
            "WHERE p.owner_id = $1 AND p.removed_at IS NULL",
            $which
        )
    };
}

pub(super) static INSERT: Sql = owned(
    "projects.insert",
    "INSERT INTO projects (owner_id, name, root, repo, integration_id, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
);
pub(super) static LIST: Sql = owned("projects.list", live!(" ORDER BY p.id"));
pub(super) static FIND: Sql = owned("projects.find", live!(" AND (p.id = $2 OR p.name = $3)"));
/// Of a removed project too: its tasks stay.
pub(super) static ROOT: Sql = owned(
    "projects.root",
    "SELECT root FROM projects WHERE owner_id = $1 AND id = $2",
);
pub(super) static RENAME: Sql = owned(
    "projects.rename",
    "UPDATE projects SET name = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static SET_DEFAULT: Sql = owned(
    "projects.set_default",
    "UPDATE projects SET default_policy_id = $3 WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// Its pointer to a policy goes with it, so that it keeps none from being deleted.
pub(super) static REMOVE: Sql = owned(
    "projects.remove",
    "UPDATE projects SET removed_at = $3, default_policy_id = NULL WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static OPEN_TASKS: Sql = owned(
    "projects.open_tasks",
    "SELECT id, title FROM tasks WHERE owner_id = $1 AND project_id = $2 AND status <> 'closed' ORDER BY id",
);
pub(super) static CONNECTIONS: Sql = owned(
    "projects.connections",
    "SELECT id, name FROM db_connections WHERE owner_id = $1 AND project_id = $2 AND removed_at IS NULL ORDER BY id",
);
pub(super) static POLICY: Sql = owned(
    "projects.policy",
    "SELECT id, name FROM policies WHERE owner_id = $1 AND (id = $2 OR name = $3)",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT,
    &LIST,
    &FIND,
    &ROOT,
    &RENAME,
    &SET_DEFAULT,
    &REMOVE,
    &OPEN_TASKS,
    &CONNECTIONS,
    &POLICY,
];
