//! The statements that read resources. Never decides.

use muster_store::{Sql, owned};

/// Everything with an id of its own; the project around it where it has one.
pub(super) static ALL: Sql = owned(
    "resources.all",
    "SELECT 'worktree' AS kind, w.id, w.branch AS name, t.project_id AS project, w.removed_at FROM worktrees w JOIN tasks t ON t.owner_id = $1 AND t.id = w.task_id WHERE w.owner_id = $1 \
     UNION ALL SELECT 'db_connection' AS kind, c.id, c.name, c.project_id AS project, c.removed_at FROM db_connections c WHERE c.owner_id = $1 \
     UNION ALL SELECT 'project' AS kind, p.id, p.name, NULL AS project, p.removed_at FROM projects p WHERE p.owner_id = $1 \
     UNION ALL SELECT 'host' AS kind, h.id, h.name, NULL AS project, h.removed_at FROM hosts h WHERE h.owner_id = $1 \
     UNION ALL SELECT 'integration' AS kind, i.id, i.name, NULL AS project, i.removed_at FROM integrations i WHERE i.owner_id = $1",
);
/// The oldest project's spelling of a repo is the one it is shown by.
pub(super) static REPOS: Sql = owned(
    "resources.repos",
    "SELECT p.repo FROM projects p WHERE p.owner_id = $1 AND p.repo IS NOT NULL AND p.removed_at IS NULL ORDER BY p.id",
);
/// Only while its project is there: a call charges nothing on what is gone.
pub(super) static OF_TASK: Sql = owned(
    "resources.of_task",
    "SELECT t.project_id, (SELECT w.id FROM worktrees w WHERE w.owner_id = $1 AND w.task_id = t.id AND w.removed_at IS NULL) AS worktree_id, p.repo FROM tasks t JOIN projects p ON p.owner_id = $1 AND p.id = t.project_id AND p.removed_at IS NULL WHERE t.owner_id = $1 AND t.id = $2",
);

/// One of each kind, as [`ALL`] reads it: also one that was removed.
pub(super) static PROJECT: Sql = owned(
    "resources.project",
    "SELECT p.name, p.removed_at FROM projects p WHERE p.owner_id = $1 AND p.id = $2",
);
pub(super) static HOST: Sql = owned(
    "resources.host",
    "SELECT h.name, h.removed_at FROM hosts h WHERE h.owner_id = $1 AND h.id = $2",
);
pub(super) static INTEGRATION: Sql = owned(
    "resources.integration",
    "SELECT i.name, i.removed_at FROM integrations i WHERE i.owner_id = $1 AND i.id = $2",
);
pub(super) static WORKTREE: Sql = owned(
    "resources.worktree",
    "SELECT w.branch AS name, w.removed_at, t.project_id AS project FROM worktrees w JOIN tasks t ON t.owner_id = $1 AND t.id = w.task_id WHERE w.owner_id = $1 AND w.id = $2",
);
pub(super) static DB_CONNECTION: Sql = owned(
    "resources.db_connection",
    "SELECT c.name, c.removed_at, c.project_id AS project FROM db_connections c WHERE c.owner_id = $1 AND c.id = $2",
);
pub(super) static REPO: Sql = owned(
    "resources.repo",
    "SELECT DISTINCT p.repo FROM projects p WHERE p.owner_id = $1 AND p.repo = $2 AND p.removed_at IS NULL",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &ALL,
    &REPOS,
    &OF_TASK,
    &PROJECT,
    &WORKTREE,
    &DB_CONNECTION,
    &HOST,
    &INTEGRATION,
    &REPO,
];
