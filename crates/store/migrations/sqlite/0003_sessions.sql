-- Asks of a session that has no agent's token, and what an ask says of a plugin package's tool.
-- The same tables, columns, indexes and guards stand in ../postgres under the same number; a parity test compares them.

-- Nobody waits while a database is brought to a version: the processes that held these calls are gone.
DELETE FROM ask_callers;

CREATE TABLE asks_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    state TEXT NOT NULL CONSTRAINT asks_state CHECK (state IN ('parked', 'approved', 'refused', 'expired', 'withdrawn')),
    kind TEXT NOT NULL CONSTRAINT asks_kind CHECK (kind IN ('permission', 'plugin_tool')),
    token_id INTEGER,
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
    session TEXT,
    about TEXT,
    CONSTRAINT asks_decided_has_a_time CHECK ((state = 'parked') = (decided_at IS NULL)),
    CONSTRAINT asks_a_person_decides CHECK ((state IN ('approved', 'refused')) = (decided_by IS NOT NULL)),
    CONSTRAINT asks_of_an_agent_or_a_session CHECK ((token_id IS NULL) = (session IS NOT NULL)),
    FOREIGN KEY (owner_id, token_id) REFERENCES tokens (owner_id, id),
    FOREIGN KEY (owner_id, task_id) REFERENCES tasks (owner_id, id)
) STRICT;
INSERT INTO asks_new (id, owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by)
    SELECT id, owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by FROM asks;
DELETE FROM sqlite_sequence WHERE name = 'asks_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'asks_new', seq FROM sqlite_sequence WHERE name = 'asks';
DROP TABLE asks;
ALTER TABLE asks_new RENAME TO asks;
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
    OR OLD.session IS NOT NEW.session OR OLD.about IS NOT NEW.about
BEGIN
    SELECT RAISE(ABORT, 'asks_legal_move');
END;
