-- Permissions and what they govern: projects, tasks, worktrees, runs, hosts, integrations, database connections, policies, asks, settings; the audit log's chain.
-- The same tables, columns, indexes and guards stand in ../sqlite under the same number; a parity test compares them.

CREATE TABLE policies (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    name TEXT COLLATE "C" NOT NULL,
    parent_id BIGINT,
    root_id BIGINT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT policies_fork_has_root CHECK ((parent_id IS NULL) = (root_id IS NULL))
);
CREATE UNIQUE INDEX policies_owner_id ON policies (owner_id, id);
ALTER TABLE policies ADD FOREIGN KEY (owner_id, parent_id) REFERENCES policies (owner_id, id);
ALTER TABLE policies ADD FOREIGN KEY (owner_id, root_id) REFERENCES policies (owner_id, id);
CREATE UNIQUE INDEX policies_name ON policies (owner_id, name);
CREATE INDEX policies_parent ON policies (owner_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX policies_root ON policies (owner_id, root_id) WHERE root_id IS NOT NULL;

-- A fork stays below the root it was made from, so that no chain of parents can end in itself.
CREATE FUNCTION policies_descent_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.owner_id IS DISTINCT FROM NEW.owner_id OR OLD.parent_id IS DISTINCT FROM NEW.parent_id OR OLD.root_id IS DISTINCT FROM NEW.root_id
    THEN RAISE EXCEPTION 'policies_descent_frozen';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER policies_descent_frozen BEFORE UPDATE ON policies FOR EACH ROW EXECUTE FUNCTION policies_descent_frozen();

-- A row here is an authored layer, with or without grants; an absent layer has none.
CREATE TABLE policy_layers (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    layer TEXT COLLATE "C" NOT NULL CONSTRAINT policy_layers_layer CHECK (layer IN ('global', 'project', 'task')),
    authored_at BIGINT NOT NULL,
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id)
);
CREATE UNIQUE INDEX policy_layers_owner_id ON policy_layers (owner_id, id);
CREATE UNIQUE INDEX policy_layers_one ON policy_layers (owner_id, policy_id, layer);

CREATE FUNCTION policy_layers_fork_owns_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.layer <> 'task' AND EXISTS (SELECT 1 FROM policies p WHERE p.id = NEW.policy_id AND p.parent_id IS NOT NULL)
    THEN RAISE EXCEPTION 'policy_layers_fork_owns_task';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER policy_layers_fork_owns_task BEFORE INSERT ON policy_layers FOR EACH ROW EXECUTE FUNCTION policy_layers_fork_owns_task();

CREATE TABLE grants (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    layer_id BIGINT NOT NULL,
    action TEXT COLLATE "C" NOT NULL CONSTRAINT grants_action CHECK (action IN ('projects_read', 'tasks_write', 'tasks_close', 'worktree_read', 'diff_read', 'pr_write', 'hosts_read', 'db_read', 'db_write', 'issues_read', 'issues_write')),
    scope_kind TEXT COLLATE "C" NOT NULL CONSTRAINT grants_scope_kind CHECK (scope_kind IN ('any', 'project', 'worktree', 'db_connection', 'host', 'integration', 'repo')),
    scope TEXT COLLATE "C" NOT NULL,
    effect TEXT COLLATE "C" NOT NULL CONSTRAINT grants_effect CHECK (effect IN ('allow', 'ask', 'deny')),
    CONSTRAINT grants_any_names_nothing CHECK ((scope_kind = 'any') = (scope = '')),
    FOREIGN KEY (owner_id, layer_id) REFERENCES policy_layers (owner_id, id)
);
CREATE UNIQUE INDEX grants_one ON grants (owner_id, layer_id, action, scope_kind, scope);

CREATE TABLE integrations (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT integrations_kind CHECK (kind IN ('github', 'gitlab', 'forgejo')),
    url TEXT COLLATE "C" NOT NULL,
    secret TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX integrations_owner_id ON integrations (owner_id, id);
CREATE UNIQUE INDEX integrations_live_name ON integrations (owner_id, name) WHERE removed_at IS NULL;

CREATE TABLE projects (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    name TEXT COLLATE "C" NOT NULL,
    root TEXT COLLATE "C" NOT NULL,
    repo TEXT COLLATE "C",
    integration_id BIGINT,
    default_policy_id BIGINT,
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    CONSTRAINT projects_repo_of_an_integration CHECK ((repo IS NULL) = (integration_id IS NULL)),
    FOREIGN KEY (owner_id, integration_id) REFERENCES integrations (owner_id, id),
    FOREIGN KEY (owner_id, default_policy_id) REFERENCES policies (owner_id, id)
);
CREATE UNIQUE INDEX projects_owner_id ON projects (owner_id, id);
CREATE UNIQUE INDEX projects_live_name ON projects (owner_id, name) WHERE removed_at IS NULL;
CREATE INDEX projects_default_policy ON projects (owner_id, default_policy_id) WHERE default_policy_id IS NOT NULL;

-- A task without a policy is under the built-in policy that grants nothing, unless it is marked as unscoped.
CREATE TABLE tasks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    title TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL CONSTRAINT tasks_status CHECK (status IN ('open', 'in_progress', 'ready_for_review', 'closed')),
    policy_id BIGINT,
    unscoped BOOLEAN NOT NULL,
    source_integration_id BIGINT,
    source_key TEXT COLLATE "C",
    created_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    CONSTRAINT tasks_unscoped_has_no_policy CHECK (unscoped = FALSE OR policy_id IS NULL),
    CONSTRAINT tasks_closed_has_a_time CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CONSTRAINT tasks_source_is_whole CHECK ((source_integration_id IS NULL) = (source_key IS NULL)),
    FOREIGN KEY (owner_id, project_id) REFERENCES projects (owner_id, id),
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id),
    FOREIGN KEY (owner_id, source_integration_id) REFERENCES integrations (owner_id, id)
);
CREATE UNIQUE INDEX tasks_owner_id ON tasks (owner_id, id);
CREATE UNIQUE INDEX tasks_source ON tasks (owner_id, project_id, source_integration_id, source_key) WHERE source_key IS NOT NULL;
CREATE INDEX tasks_project ON tasks (owner_id, project_id, id);
CREATE INDEX tasks_policy ON tasks (owner_id, policy_id) WHERE policy_id IS NOT NULL;

-- Nothing may take a task out of its policy, whatever writes.
CREATE FUNCTION tasks_never_unscoped_later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT OLD.unscoped AND NEW.unscoped
    THEN RAISE EXCEPTION 'tasks_never_unscoped_later';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tasks_never_unscoped_later BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION tasks_never_unscoped_later();

CREATE TABLE worktrees (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    task_id BIGINT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    branch TEXT COLLATE "C" NOT NULL,
    base TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
);
CREATE UNIQUE INDEX worktrees_owner_id ON worktrees (owner_id, id);
CREATE UNIQUE INDEX worktrees_one_live ON worktrees (owner_id, task_id) WHERE removed_at IS NULL;

CREATE TABLE hosts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    name TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX hosts_owner_id ON hosts (owner_id, id);
CREATE UNIQUE INDEX hosts_live_name ON hosts (owner_id, name) WHERE removed_at IS NULL;

-- A queued run holds its policy; one that ended holds none, so that it keeps no policy from being deleted.
CREATE TABLE runs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    task_id BIGINT NOT NULL,
    policy_id BIGINT,
    host_id BIGINT,
    profile TEXT COLLATE "C",
    prompt TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL CONSTRAINT runs_state CHECK (state IN ('queued', 'cancelled')),
    created_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT,
    CONSTRAINT runs_ended_holds_no_policy CHECK (state = 'queued' OR policy_id IS NULL),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id),
    FOREIGN KEY (owner_id, policy_id) REFERENCES policies (owner_id, id),
    FOREIGN KEY (owner_id, host_id) REFERENCES hosts (owner_id, id)
);
CREATE UNIQUE INDEX runs_owner_id ON runs (owner_id, id);
CREATE INDEX runs_task ON runs (owner_id, task_id, id);
CREATE INDEX runs_policy ON runs (owner_id, policy_id) WHERE policy_id IS NOT NULL;

CREATE TABLE db_connections (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL CONSTRAINT db_connections_engine CHECK (engine IN ('postgres', 'mysql', 'mariadb', 'sqlite', 'redis', 'mongodb')),
    url TEXT COLLATE "C" NOT NULL,
    write_url TEXT COLLATE "C",
    wide BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT,
    FOREIGN KEY (owner_id, project_id) REFERENCES projects (owner_id, id)
);
CREATE UNIQUE INDEX db_connections_owner_id ON db_connections (owner_id, id);
CREATE UNIQUE INDEX db_connections_live_name ON db_connections (owner_id, name) WHERE removed_at IS NULL;
CREATE INDEX db_connections_project ON db_connections (owner_id, project_id, id);

CREATE TABLE settings (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX settings_key ON settings (owner_id, key);

-- Tokens know the task of the agent they are for.
ALTER TABLE tokens ADD COLUMN task_id BIGINT;
ALTER TABLE tokens ADD CONSTRAINT tokens_task_of_an_agent CHECK (task_id IS NULL OR kind = 'agent');
ALTER TABLE tokens ADD FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id);
DROP INDEX tokens_owner;
CREATE UNIQUE INDEX tokens_owner ON tokens (owner_id, id);
CREATE INDEX tokens_task ON tokens (owner_id, task_id) WHERE task_id IS NOT NULL;

CREATE TABLE asks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL CONSTRAINT asks_state CHECK (state IN ('parked', 'approved', 'refused', 'expired', 'withdrawn')),
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT asks_kind CHECK (kind IN ('permission', 'plugin_tool')),
    token_id BIGINT NOT NULL,
    task_id BIGINT,
    tool TEXT COLLATE "C" NOT NULL,
    arguments TEXT COLLATE "C" NOT NULL,
    pairs TEXT COLLATE "C" NOT NULL,
    parking_key TEXT COLLATE "C" NOT NULL,
    approval_key TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    decided_by TEXT COLLATE "C",
    CONSTRAINT asks_decided_has_a_time CHECK ((state = 'parked') = (decided_at IS NULL)),
    CONSTRAINT asks_a_person_decides CHECK ((state IN ('approved', 'refused')) = (decided_by IS NOT NULL)),
    FOREIGN KEY (owner_id, token_id) REFERENCES tokens (owner_id, id),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
);
CREATE UNIQUE INDEX asks_owner_id ON asks (owner_id, id);
CREATE UNIQUE INDEX asks_one_parked ON asks (owner_id, parking_key) WHERE state = 'parked';
CREATE INDEX asks_parked ON asks (owner_id, id) WHERE state = 'parked';
CREATE INDEX asks_approved ON asks (owner_id, approval_key, decided_at) WHERE state = 'approved';

-- Decided once, and nothing of what was asked changes afterwards.
CREATE FUNCTION asks_legal_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'parked' OR NEW.state = 'parked'
    OR OLD.owner_id IS DISTINCT FROM NEW.owner_id OR OLD.kind IS DISTINCT FROM NEW.kind OR OLD.token_id IS DISTINCT FROM NEW.token_id OR OLD.task_id IS DISTINCT FROM NEW.task_id
    OR OLD.tool IS DISTINCT FROM NEW.tool OR OLD.arguments IS DISTINCT FROM NEW.arguments OR OLD.pairs IS DISTINCT FROM NEW.pairs OR OLD.parking_key IS DISTINCT FROM NEW.parking_key
    OR OLD.approval_key IS DISTINCT FROM NEW.approval_key OR OLD.created_at IS DISTINCT FROM NEW.created_at OR OLD.expires_at IS DISTINCT FROM NEW.expires_at
    THEN RAISE EXCEPTION 'asks_legal_move';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER asks_legal_move BEFORE UPDATE ON asks FOR EACH ROW EXECUTE FUNCTION asks_legal_move();

-- Each call that waits for an ask, with the process that holds it: when that process is gone, the call is.
CREATE TABLE ask_callers (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    ask_id BIGINT NOT NULL,
    process BIGINT NOT NULL,
    FOREIGN KEY (owner_id, ask_id) REFERENCES asks (owner_id, id)
);
CREATE INDEX ask_callers_ask ON ask_callers (owner_id, ask_id);

-- Who can be shown an ask now: an open Asks page, a watching command line.
CREATE TABLE approvers (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    process BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT approvers_kind CHECK (kind IN ('page', 'watch'))
);
CREATE INDEX approvers_owner ON approvers (owner_id, id);

-- What a call's row is found by, and the chain: each row's hash takes in the hash of the row before it. Rows from before have none.
ALTER TABLE audit ADD COLUMN agent TEXT COLLATE "C";
ALTER TABLE audit ADD COLUMN task TEXT COLLATE "C";
ALTER TABLE audit ADD COLUMN tool TEXT COLLATE "C";
ALTER TABLE audit ADD COLUMN outcome TEXT COLLATE "C";
ALTER TABLE audit ADD COLUMN hash TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX audit_agent ON audit (owner_id, agent, id) WHERE agent IS NOT NULL;
CREATE INDEX audit_task ON audit (owner_id, task, id) WHERE task IS NOT NULL;
CREATE INDEX audit_outcome ON audit (owner_id, outcome, id) WHERE outcome IS NOT NULL;

-- The end of each owner's chain. Whoever adds a row holds it until the row is stored, so that two rows never follow the same one.
CREATE TABLE audit_heads (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    length BIGINT NOT NULL,
    -- How many rows stood there before there was a chain; no row without a hash is added any more.
    unlinked BIGINT NOT NULL DEFAULT 0,
    hash TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX audit_heads_owner ON audit_heads (owner_id);
-- Owners are behind row-level security, which this step must see past.
SELECT set_config('muster.system', 'migration', true);
INSERT INTO audit_heads (owner_id, length, hash, unlinked)
    SELECT o.id, 0, '', (SELECT count(*) FROM audit a WHERE a.owner_id = o.id) FROM owners o;

CREATE FUNCTION audit_head_of_an_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_heads (owner_id, length, hash) VALUES (NEW.id, 0, '');
    RETURN NEW;
END $$;
CREATE TRIGGER audit_head_of_an_owner AFTER INSERT ON owners FOR EACH ROW EXECUTE FUNCTION audit_head_of_an_owner();
CREATE FUNCTION audit_head_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE audit_heads SET length = length + 1, hash = NEW.hash WHERE owner_id = NEW.owner_id;
    RETURN NEW;
END $$;
CREATE TRIGGER audit_head_moves AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION audit_head_moves();

-- Row-level security, as for the tables of the first migration.
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE policies FORCE ROW LEVEL SECURITY;
CREATE POLICY policies_owner ON policies
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE policy_layers ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy_layers FORCE ROW LEVEL SECURITY;
CREATE POLICY policy_layers_owner ON policy_layers
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY grants_owner ON grants
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE integrations ENABLE ROW LEVEL SECURITY;
ALTER TABLE integrations FORCE ROW LEVEL SECURITY;
CREATE POLICY integrations_owner ON integrations
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE projects FORCE ROW LEVEL SECURITY;
CREATE POLICY projects_owner ON projects
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE tasks FORCE ROW LEVEL SECURITY;
CREATE POLICY tasks_owner ON tasks
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE worktrees ENABLE ROW LEVEL SECURITY;
ALTER TABLE worktrees FORCE ROW LEVEL SECURITY;
CREATE POLICY worktrees_owner ON worktrees
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE hosts ENABLE ROW LEVEL SECURITY;
ALTER TABLE hosts FORCE ROW LEVEL SECURITY;
CREATE POLICY hosts_owner ON hosts
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
CREATE POLICY runs_owner ON runs
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE db_connections ENABLE ROW LEVEL SECURITY;
ALTER TABLE db_connections FORCE ROW LEVEL SECURITY;
CREATE POLICY db_connections_owner ON db_connections
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE settings FORCE ROW LEVEL SECURITY;
CREATE POLICY settings_owner ON settings
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE asks ENABLE ROW LEVEL SECURITY;
ALTER TABLE asks FORCE ROW LEVEL SECURITY;
CREATE POLICY asks_owner ON asks
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE ask_callers ENABLE ROW LEVEL SECURITY;
ALTER TABLE ask_callers FORCE ROW LEVEL SECURITY;
CREATE POLICY ask_callers_owner ON ask_callers
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE approvers ENABLE ROW LEVEL SECURITY;
ALTER TABLE approvers FORCE ROW LEVEL SECURITY;
CREATE POLICY approvers_owner ON approvers
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE audit_heads ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_heads FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_heads_owner ON audit_heads
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
