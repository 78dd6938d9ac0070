//! The tasks' statements. Never decides.

use muster_store::{Sql, owned};

/// A task with the names of what it points to, of removed ones too.
macro_rules! tasks {
    ($body:literal, $which:literal) => {
        concat!(
            "SELECT t.id, t.title, ",
            $body,
            " AS body, t.status, t.project_id, p.name AS project_name, t.policy_id, d.name AS policy_name, d.revision AS policy_revision, t.unscoped, ",
            "w.id AS worktree_id, w.path AS worktree_path, w.branch AS worktree_branch, w.base AS worktree_base, ",
            "t.source_integration_id, t.source_key, t.created_by, t.created_at, t.closed_at ",
            "FROM tasks t JOIN projects p ON p.owner_id = $1 AND p.id = t.project_id ",
            "LEFT JOIN policies d ON d.owner_id = $1 AND d.id = t.policy_id ",
            "LEFT JOIN worktrees w ON w.owner_id = $1 AND w.task_id = t.id AND w.removed_at IS NULL ",
            "WHERE t.owner_id = $1 AND ",
            $which
        )
    };
}

/// Of one project, or of all where `$2` is 0. Without the bodies, which may be long.
pub(super) static LIST: Sql = owned(
    "tasks.list",
    tasks!("NULL", "(t.project_id = $2 OR $2 = 0) ORDER BY t.id"),
);
pub(super) static FIND: Sql = owned("tasks.find", tasks!("t.body", "t.id = $2"));
/// The runs of a task, of a project's tasks, or of all where both are 0.
pub(super) static RUNS: Sql = owned(
    "tasks.runs",
    "SELECT r.id, r.task_id, r.state FROM runs r JOIN tasks t ON t.owner_id = $1 AND t.id = r.task_id WHERE r.owner_id = $1 AND (t.id = $2 OR $2 = 0) AND (t.project_id = $3 OR $3 = 0) ORDER BY r.id",
);
pub(super) static PROJECT: Sql = owned(
    "tasks.project",
    "SELECT default_policy_id FROM projects WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static INTEGRATION: Sql = owned(
    "tasks.integration",
    "SELECT id FROM integrations WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static HOST: Sql = owned(
    "tasks.host",
    "SELECT id FROM hosts WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
pub(super) static INSERT: Sql = owned(
    "tasks.insert",
    "INSERT INTO tasks (owner_id, project_id, title, body, status, policy_id, unscoped, source_integration_id, source_key, created_by, created_at) VALUES ($1, $2, $3, $4, 'open', $5, $6, $7, $8, $9, $10) RETURNING id",
);
pub(super) static IMPORTED: Sql = owned(
    "tasks.imported",
    "SELECT id FROM tasks WHERE owner_id = $1 AND project_id = $2 AND source_integration_id = $3 AND source_key = $4",
);
pub(super) static STANDS: Sql = owned(
    "tasks.stands",
    "SELECT status, project_id FROM tasks WHERE owner_id = $1 AND id = $2",
);
pub(super) static SET_STATUS: Sql = owned(
    "tasks.set_status",
    "UPDATE tasks SET status = $3, closed_at = $4 WHERE owner_id = $1 AND id = $2",
);
/// A run that ended holds no policy.
pub(super) static CANCEL_RUNS: Sql = owned(
    "tasks.cancel_runs",
    "UPDATE runs SET state = 'cancelled', policy_id = NULL, ended_at = $3 WHERE owner_id = $1 AND task_id = $2 AND state = 'queued' RETURNING id",
);
pub(super) static INSERT_RUN: Sql = owned(
    "tasks.insert_run",
    "INSERT INTO runs (owner_id, task_id, policy_id, host_id, profile, prompt, state, created_by, created_at) SELECT $1, t.id, t.policy_id, $3, $4, $5, 'queued', $6, $7 FROM tasks t WHERE t.owner_id = $1 AND t.id = $2 AND t.status <> 'closed' RETURNING id",
);
pub(super) static CANCEL_RUN: Sql = owned(
    "tasks.cancel_run",
    "UPDATE runs SET state = 'cancelled', policy_id = NULL, ended_at = $3 WHERE owner_id = $1 AND id = $2 AND state = 'queued' RETURNING task_id",
);
pub(super) static RUN: Sql = owned(
    "tasks.run",
    "SELECT id, task_id, state FROM runs WHERE owner_id = $1 AND id = $2",
);
pub(super) static WORKTREE: Sql = owned(
    "tasks.worktree",
    "SELECT id, path, branch, base FROM worktrees WHERE owner_id = $1 AND task_id = $2 AND removed_at IS NULL",
);
pub(super) static INSERT_WORKTREE: Sql = owned(
    "tasks.insert_worktree",
    "INSERT INTO worktrees (owner_id, task_id, path, branch, base, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &LIST,
    &FIND,
    &RUNS,
    &PROJECT,
    &INTEGRATION,
    &HOST,
    &INSERT,
    &IMPORTED,
    &STANDS,
    &SET_STATUS,
    &CANCEL_RUNS,
    &INSERT_RUN,
    &CANCEL_RUN,
    &RUN,
    &WORKTREE,
    &INSERT_WORKTREE,
];
