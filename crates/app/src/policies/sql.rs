//! The policies' statements. Never decides.

use muster_store::{Sql, owned, owned_pair};

pub(super) static LIST: Sql = owned(
    "policies.list",
    "SELECT id, name, parent_id, root_id, revision FROM policies WHERE owner_id = $1 ORDER BY id",
);
pub(super) static BY_ID: Sql = owned(
    "policies.by_id",
    "SELECT id, name, parent_id, root_id, revision FROM policies WHERE owner_id = $1 AND id = $2",
);
/// For an edit: locked on Postgres, so that edits, attachments and a deletion of one policy follow one another.
pub(super) static FOR_EDIT: Sql = owned_pair(
    "policies.for_edit",
    "SELECT id, name, parent_id, root_id, revision FROM policies WHERE owner_id = $1 AND id = $2",
    "SELECT id, name, parent_id, root_id, revision FROM policies WHERE owner_id = $1 AND id = $2 FOR UPDATE",
);
pub(super) static BY_NAME: Sql = owned(
    "policies.by_name",
    "SELECT id, name, parent_id, root_id, revision FROM policies WHERE owner_id = $1 AND name = $2",
);
pub(super) static INSERT: Sql = owned(
    "policies.insert",
    "INSERT INTO policies (owner_id, name, parent_id, root_id, revision, created_at, updated_at) VALUES ($1, $2, $3, $4, 1, $5, $5) RETURNING id",
);
pub(super) static EDITED: Sql = owned(
    "policies.edited",
    "UPDATE policies SET revision = revision + 1, updated_at = $3 WHERE owner_id = $1 AND id = $2 RETURNING revision",
);
pub(super) static DELETE: Sql = owned(
    "policies.delete",
    "DELETE FROM policies WHERE owner_id = $1 AND id = $2",
);
pub(super) static DELETE_LAYERS: Sql = owned(
    "policies.delete_layers",
    "DELETE FROM policy_layers WHERE owner_id = $1 AND policy_id = $2",
);
pub(super) static DELETE_GRANTS: Sql = owned(
    "policies.delete_grants",
    "DELETE FROM grants WHERE owner_id = $1 AND layer_id IN (SELECT l.id FROM policy_layers l WHERE l.owner_id = $1 AND l.policy_id = $2)",
);
/// Which layers of a policy are authored.
pub(super) static LAYERS: Sql = owned(
    "policies.layers",
    "SELECT id, layer FROM policy_layers WHERE owner_id = $1 AND policy_id = $2",
);
/// What is in force for a policy: of a fork its own task layer and its root's other two. One look, so that nothing changes between.
pub(super) static IN_FORCE: Sql = owned(
    "policies.in_force",
    "SELECT l.id AS layer_id, l.layer, r.id AS root_there, r.root_id AS root_of_root, p.parent_id, p.root_id, g.id AS grant_id, g.action, g.scope_kind, g.scope, g.effect FROM policies p \
     LEFT JOIN policies r ON r.owner_id = $1 AND r.id = p.root_id JOIN policy_layers l ON l.owner_id = $1 AND ((l.policy_id = p.id AND (p.root_id IS NULL OR l.layer = 'task')) OR (l.policy_id = p.root_id AND l.layer <> 'task')) \
     LEFT JOIN grants g ON g.owner_id = $1 AND g.layer_id = l.id WHERE p.owner_id = $1 AND p.id = $2",
);
/// Every layer with its policy, where that is there: no edit of muster's leaves one without.
pub(super) static ORPHANS: Sql = owned(
    "policies.orphans",
    "SELECT l.policy_id, l.layer, p.id AS there FROM policy_layers l LEFT JOIN policies p ON p.owner_id = $1 AND p.id = l.policy_id WHERE l.owner_id = $1 ORDER BY l.policy_id, l.id",
);
pub(super) static AUTHOR: Sql = owned(
    "policies.author",
    "INSERT INTO policy_layers (owner_id, policy_id, layer, authored_at) VALUES ($1, $2, $3, $4) RETURNING id",
);
pub(super) static CLEAR: Sql = owned(
    "policies.clear",
    "DELETE FROM policy_layers WHERE owner_id = $1 AND id = $2",
);
pub(super) static EMPTY: Sql = owned(
    "policies.empty",
    "DELETE FROM grants WHERE owner_id = $1 AND layer_id = $2",
);
pub(super) static GRANT: Sql = owned(
    "policies.grant",
    "INSERT INTO grants (owner_id, layer_id, action, scope_kind, scope, effect) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner_id, layer_id, action, scope_kind, scope) DO UPDATE SET effect = $6",
);
pub(super) static REVOKE: Sql = owned(
    "policies.revoke",
    "DELETE FROM grants WHERE owner_id = $1 AND layer_id = $2 AND action = $3 AND scope_kind = $4 AND scope = $5",
);
/// What governs the calls of a task's agents.
pub(super) static OF_TASK: Sql = owned(
    "policies.of_task",
    "SELECT t.id, t.title, t.policy_id, t.unscoped = TRUE AS unscoped, t.unscoped = FALSE AS scoped, p.name AS policy_name, p.revision AS policy_revision FROM tasks t \
     LEFT JOIN policies p ON p.owner_id = $1 AND p.id = t.policy_id WHERE t.owner_id = $1 AND t.id = $2",
);
pub(super) static ATTACH: Sql = owned(
    "policies.attach",
    "UPDATE tasks SET policy_id = $3, unscoped = FALSE WHERE owner_id = $1 AND id = $2",
);
pub(super) static TASK_DEPENDENTS: Sql = owned(
    "policies.task_dependents",
    "SELECT t.id, t.title AS name FROM tasks t WHERE t.owner_id = $1 AND t.policy_id = $2 ORDER BY t.id",
);
/// A default that nobody can see any more is given up with its project, so only live ones are here.
pub(super) static PROJECT_DEPENDENTS: Sql = owned(
    "policies.project_dependents",
    "SELECT p.id, p.name FROM projects p WHERE p.owner_id = $1 AND p.default_policy_id = $2 ORDER BY p.id",
);
pub(super) static RUN_DEPENDENTS: Sql = owned(
    "policies.run_dependents",
    "SELECT r.id, t.title AS name FROM runs r JOIN tasks t ON t.owner_id = $1 AND t.id = r.task_id WHERE r.owner_id = $1 AND r.policy_id = $2 ORDER BY r.id",
);
pub(super) static FORK_DEPENDENTS: Sql = owned(
    "policies.fork_dependents",
    "SELECT p.id, p.name FROM policies p WHERE p.owner_id = $1 AND (p.parent_id = $2 OR p.root_id = $2) ORDER BY p.id",
);
pub(super) static PROJECT: Sql = owned(
    "policies.project",
    "SELECT id, repo, integration_id FROM projects WHERE owner_id = $1 AND id = $2 AND removed_at IS NULL",
);
/// Whether a grant of `ask` stands anywhere.
pub(super) static ASKS: Sql = owned(
    "policies.asks",
    "SELECT count(*) FROM owners o WHERE o.id = $1 AND EXISTS (SELECT 1 FROM grants g WHERE g.owner_id = $1 AND g.effect = 'ask')",
);
/// The calls that were decided under a policy, oldest first, a page at a time.
pub(super) static CALLS: Sql = owned(
    "policies.calls",
    "SELECT id, tool, data FROM audit WHERE owner_id = $1 AND event = 'call' AND id > $2 ORDER BY id LIMIT $3",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &LIST,
    &BY_ID,
    &FOR_EDIT,
    &BY_NAME,
    &INSERT,
    &EDITED,
    &DELETE,
    &DELETE_LAYERS,
    &DELETE_GRANTS,
    &LAYERS,
    &IN_FORCE,
    &ORPHANS,
    &AUTHOR,
    &CLEAR,
    &EMPTY,
    &GRANT,
    &REVOKE,
    &OF_TASK,
    &ATTACH,
    &TASK_DEPENDENTS,
    &PROJECT_DEPENDENTS,
    &RUN_DEPENDENTS,
    &FORK_DEPENDENTS,
    &PROJECT,
    &ASKS,
    &CALLS,
];
