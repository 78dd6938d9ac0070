-- Permissions and what they govern: projects, tasks, worktrees, runs, hosts, integrations, database connections, policies, asks, settings; the audit log's chain.
-- The same tables, columns, indexes and guards stand in ../postgres under the same number; a parity test compares them.

CREATE TABLE policies (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    parent_id INTEGER,
    root_id INTEGER,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CONSTRAINT policies_fork_has_root CHECK ((parent_id IS NULL) = (root_id IS NULL)),
    FOREIGN KEY (owner_id, parent_id) REFERENCES policies (owner_id, id),
    FOREIGN KEY (owner_id, root_id) REFERENCES policies (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX policies_owner_id ON policies (owner_id, id);
CREATE UNIQUE INDEX policies_name ON policies (owner_id, name);
CREATE INDEX policies_parent ON policies (owner_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX policies_root ON policies (owner_id, root_id) WHERE root_id IS NOT NULL;

-- A fork stays below the root it was made from, so that no chain of parents can end in itself.
CREATE TRIGGER policies_descent_frozen
BEFORE UPDATE OF owner_id, parent_id, root_id ON policies
FOR EACH ROW WHEN OLD.owner_id IS NOT NEW.owner_id OR OLD.parent_id IS NOT NEW.parent_id OR OLD.root_id IS NOT NEW.root_id
BEGIN
    SELECT RAISE(ABORT, 'policies_descent_frozen');
END;

-- A row here is an authored layer, with or without grants; an absent layer has none.
CREATE TABLE policy_layers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    policy_id INTEGER NOT NULL,
    layer TEXT NOT NULL CONSTRAINT policy_layers_layer CHECK (layer IN ('global', 'project', 'task')),
    authored_at INTEGER NOT NULL,
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX policy_layers_owner_id ON policy_layers (owner_id, id);
CREATE UNIQUE INDEX policy_layers_one ON policy_layers (owner_id, policy_id, layer);

CREATE TRIGGER policy_layers_fork_owns_task
BEFORE INSERT ON policy_layers
FOR EACH ROW WHEN NEW.layer <> 'task' AND EXISTS (SELECT 1 FROM policies p WHERE p.id = NEW.policy_id AND p.parent_id IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'policy_layers_fork_owns_task');
END;

CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    layer_id INTEGER NOT NULL,
    action TEXT NOT NULL CONSTRAINT grants_action CHECK (action IN ('projects_read', 'tasks_write', 'tasks_close', 'worktree_read', 'diff_read', 'pr_write', 'hosts_read', 'db_read', 'db_write', 'issues_read', 'issues_write')),
    scope_kind TEXT NOT NULL CONSTRAINT grants_scope_kind CHECK (scope_kind IN ('any', 'project', 'worktree', 'db_connection', 'host', 'integration', 'repo')),
    scope TEXT NOT NULL,
    effect TEXT NOT NULL CONSTRAINT grants_effect CHECK (effect IN ('allow', 'ask', 'deny')),
    CONSTRAINT grants_any_names_nothing CHECK ((scope_kind = 'any') = (scope = '')),
    FOREIGN KEY (owner_id, layer_id) REFERENCES policy_layers (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX grants_one ON grants (owner_id, layer_id, action, scope_kind, scope);

CREATE TABLE integrations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    kind TEXT NOT NULL CONSTRAINT integrations_kind CHECK (kind IN ('github', 'gitlab', 'forgejo')),
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX integrations_owner_id ON integrations (owner_id, id);
CREATE UNIQUE INDEX integrations_live_name ON integrations (owner_id, name) WHERE removed_at IS NULL;

CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    root TEXT NOT NULL,
    repo TEXT,
    integration_id INTEGER,
    default_policy_id INTEGER,
    created_at INTEGER NOT NULL,
    removed_at INTEGER,
    CONSTRAINT projects_repo_of_an_integration CHECK ((repo IS NULL) = (integration_id IS NULL)),
    FOREIGN KEY (owner_id, integration_id) REFERENCES integrations (owner_id, id),
    FOREIGN KEY (owner_id, default_policy_id) REFERENCES policies (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX projects_owner_id ON projects (owner_id, id);
CREATE UNIQUE INDEX projects_live_name ON projects (owner_id, name) WHERE removed_at IS NULL;
CREATE INDEX projects_default_policy ON projects (owner_id, default_policy_id) WHERE default_policy_id IS NOT NULL;

-- A task without a policy is under the built-in policy that grants nothing, unless it is marked as unscoped.
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL CONSTRAINT tasks_status CHECK (status IN ('open', 'in_progress', 'ready_for_review', 'closed')),
    policy_id INTEGER,
    unscoped INTEGER NOT NULL CONSTRAINT tasks_unscoped CHECK (unscoped IN (0, 1)),
    source_integration_id INTEGER,
    source_key TEXT,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    closed_at INTEGER,
    CONSTRAINT tasks_unscoped_has_no_policy CHECK (unscoped = FALSE OR policy_id IS NULL),
    CONSTRAINT tasks_closed_has_a_time CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CONSTRAINT tasks_source_is_whole CHECK ((source_integration_id IS NULL) = (source_key IS NULL)),
    FOREIGN KEY (owner_id, project_id) REFERENCES projects (owner_id, id),
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id),
    FOREIGN KEY (owner_id, source_integration_id) REFERENCES integrations (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX tasks_owner_id ON tasks (owner_id, id);
CREATE UNIQUE INDEX tasks_source ON tasks (owner_id, project_id, source_integration_id, source_key) WHERE source_key IS NOT NULL;
CREATE INDEX tasks_project ON tasks (owner_id, project_id, id);
CREATE INDEX tasks_policy ON tasks (owner_id, policy_id) WHERE policy_id IS NOT NULL;

-- Nothing may take a task out of its policy, whatever writes.
CREATE TRIGGER tasks_never_unscoped_later
BEFORE UPDATE OF unscoped ON tasks
FOR EACH ROW WHEN OLD.unscoped = 0 AND NEW.unscoped = 1
BEGIN
    SELECT RAISE(ABORT, 'tasks_never_unscoped_later');
END;

CREATE TABLE worktrees (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    branch TEXT NOT NULL,
    base TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER,
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX worktrees_owner_id ON worktrees (owner_id, id);
CREATE UNIQUE INDEX worktrees_one_live ON worktrees (owner_id, task_id) WHERE removed_at IS NULL;

CREATE TABLE hosts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX hosts_owner_id ON hosts (owner_id, id);
CREATE UNIQUE INDEX hosts_live_name ON hosts (owner_id, name) WHERE removed_at IS NULL;

-- A queued run holds its policy; one that ended holds none, so that it keeps no policy from being deleted.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    policy_id INTEGER,
    host_id INTEGER,
    profile TEXT,
    prompt TEXT,
    state TEXT NOT NULL CONSTRAINT runs_state CHECK (state IN ('queued', 'cancelled')),
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    CONSTRAINT runs_ended_holds_no_policy CHECK (state = 'queued' OR policy_id IS NULL),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id),
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id),
    FOREIGN KEY (owner_id, host_id) REFERENCES hosts (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX runs_owner_id ON runs (owner_id, id);
CREATE INDEX runs_task ON runs (owner_id, task_id, id);
CREATE INDEX runs_policy ON runs (owner_id, policy_id) WHERE policy_id IS NOT NULL;

CREATE TABLE db_connections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    engine TEXT NOT NULL CONSTRAINT db_connections_engine CHECK (engine IN ('postgres', 'mysql', 'mariadb', 'sqlite', 'redis', 'mongodb')),
    url TEXT NOT NULL,
    write_url TEXT,
    wide INTEGER NOT NULL CONSTRAINT db_connections_wide CHECK (wide IN (0, 1)),
    created_at INTEGER NOT NULL,
    removed_at INTEGER,
    FOREIGN KEY (owner_id, project_id) REFERENCES projects (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX db_connections_owner_id ON db_connections (owner_id, id);
CREATE UNIQUE INDEX db_connections_live_name ON db_connections (owner_id, name) WHERE removed_at IS NULL;
CREATE INDEX db_connections_project ON db_connections (owner_id, project_id, id);

CREATE TABLE settings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX settings_key ON settings (owner_id, key);

-- Tokens know the task of the agent they are for. The table is made anew, because a key over two columns cannot be added to one.
CREATE TABLE tokens_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    kind TEXT NOT NULL CONSTRAINT tokens_kind CHECK (kind IN ('personal', 'mirror-host', 'agent')),
    token_hash TEXT NOT NULL,
    label TEXT NOT NULL,
    host TEXT,
    chief_id INTEGER,
    turn_id INTEGER,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER,
    task_id INTEGER,
    CONSTRAINT tokens_task_of_an_agent CHECK (task_id IS NULL OR kind = 'agent'),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id),
    FOREIGN KEY (owner_id, turn_id) REFERENCES turns (owner_id, id),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
) STRICT;
INSERT INTO tokens_new (id, owner_id, kind, token_hash, label, host, chief_id, turn_id, created_at, last_used_at, revoked_at)
    SELECT id, owner_id, kind, token_hash, label, host, chief_id, turn_id, created_at, last_used_at, revoked_at FROM tokens;
DELETE FROM sqlite_sequence WHERE name = 'tokens_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'tokens_new', seq FROM sqlite_sequence WHERE name = 'tokens';
DROP TABLE tokens;
ALTER TABLE tokens_new RENAME TO tokens;
CREATE UNIQUE INDEX tokens_token ON tokens (token_hash);
CREATE UNIQUE INDEX tokens_owner ON tokens (owner_id, id);
CREATE INDEX tokens_turn ON tokens (owner_id, turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX tokens_task ON tokens (owner_id, task_id) WHERE task_id IS NOT NULL;

CREATE TABLE asks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    state TEXT NOT NULL CONSTRAINT asks_state CHECK (state IN ('parked', 'approved', 'refused', 'expired', 'withdrawn')),
    kind TEXT NOT NULL CONSTRAINT asks_kind CHECK (kind IN ('permission', 'plugin_tool')),
    token_id INTEGER NOT NULL,
    task_id INTEGER,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    pairs TEXT NOT NULL,
    parking_key TEXT NOT NULL,
    approval_key TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    decided_by TEXT,
    CONSTRAINT asks_decided_has_a_time CHECK ((state = 'parked') = (decided_at IS NULL)),
    CONSTRAINT asks_a_person_decides CHECK ((state IN ('approved', 'refused')) = (decided_by IS NOT NULL)),
    FOREIGN KEY (owner_id, token_id) REFERENCES tokens (owner_id, id),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX asks_owner_id ON asks (owner_id, id);
CREATE UNIQUE INDEX asks_one_parked ON asks (owner_id, parking_key) WHERE state = 'parked';
CREATE INDEX asks_parked ON asks (owner_id, id) WHERE state = 'parked';
CREATE INDEX asks_approved ON asks (owner_id, approval_key, decided_at) WHERE state = 'approved';

-- Decided once, and nothing of what was asked changes afterwards.
CREATE TRIGGER asks_legal_move
BEFORE UPDATE ON asks
FOR EACH ROW WHEN OLD.state <> 'parked' OR NEW.state = 'parked'
    OR OLD.owner_id IS NOT NEW.owner_id OR OLD.kind IS NOT NEW.kind OR OLD.token_id IS NOT NEW.token_id OR OLD.task_id IS NOT NEW.task_id
    OR OLD.tool IS NOT NEW.tool OR OLD.arguments IS NOT NEW.arguments OR OLD.pairs IS NOT NEW.pairs OR OLD.parking_key IS NOT NEW.parking_key
    OR OLD.approval_key IS NOT NEW.approval_key OR OLD.created_at IS NOT NEW.created_at OR OLD.expires_at IS NOT NEW.expires_at
BEGIN
    SELECT RAISE(ABORT, 'asks_legal_move');
END;

-- Each call that waits for an ask, with the process that holds it: when that process is gone, the call is.
CREATE TABLE ask_callers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    ask_id INTEGER NOT NULL,
    process INTEGER NOT NULL,
    FOREIGN KEY (owner_id, ask_id) REFERENCES asks (owner_id, id)
) STRICT;
CREATE INDEX ask_callers_ask ON ask_callers (owner_id, ask_id);

-- Who can be shown an ask now: an open Asks page, a watching command line.
CREATE TABLE approvers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    process INTEGER NOT NULL,
    kind TEXT NOT NULL CONSTRAINT approvers_kind CHECK (kind IN ('page', 'watch'))
) STRICT;
CREATE INDEX approvers_owner ON approvers (owner_id, id);

-- What a call's row is found by, and the chain: each row's hash takes in the hash of the row before it. Rows from before have none.
ALTER TABLE audit ADD COLUMN agent TEXT;
ALTER TABLE audit ADD COLUMN task TEXT;
ALTER TABLE audit ADD COLUMN tool TEXT;
ALTER TABLE audit ADD COLUMN outcome TEXT;
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_agent ON audit (owner_id, agent, id) WHERE agent IS NOT NULL;
CREATE INDEX audit_task ON audit (owner_id, task, id) WHERE task IS NOT NULL;
CREATE INDEX audit_outcome ON audit (owner_id, outcome, id) WHERE outcome IS NOT NULL;

-- The end of each owner's chain. Whoever adds a row holds it until the row is stored, so that two rows never follow the same one.
CREATE TABLE audit_heads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    length INTEGER NOT NULL,
    -- How many rows stood there before there was a chain; no row without a hash is added any more.
    unlinked INTEGER NOT NULL DEFAULT 0,
    hash TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX audit_heads_owner ON audit_heads (owner_id);
INSERT INTO audit_heads (owner_id, length, hash, unlinked)
    SELECT o.id, 0, '', (SELECT count(*) FROM audit a WHERE a.owner_id = o.id) FROM owners o;

CREATE TRIGGER audit_head_of_an_owner AFTER INSERT ON owners FOR EACH ROW
BEGIN
    INSERT INTO audit_heads (owner_id, length, hash) VALUES (NEW.id, 0, '');
END;
CREATE TRIGGER audit_head_moves AFTER INSERT ON audit FOR EACH ROW
BEGIN
    UPDATE audit_heads SET length = length + 1, hash = NEW.hash WHERE owner_id = NEW.owner_id;
END;
