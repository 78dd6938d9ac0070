-- The inbox: owners and their credentials, connectors, messages, the chief's turns, reply drafts, notices, audit.
-- The same tables, columns, indexes and guards stand in ../postgres under the same number; a parity test compares them.

CREATE TABLE owners (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    password_hash TEXT,
    created_at INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT;
CREATE UNIQUE INDEX owners_name ON owners (name);

CREATE TABLE browser_sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    token_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    signed_in_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE UNIQUE INDEX browser_sessions_token ON browser_sessions (token_hash);
CREATE INDEX browser_sessions_owner ON browser_sessions (owner_id, id);

CREATE TABLE passkeys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    credential_id TEXT NOT NULL,
    label TEXT NOT NULL,
    credential TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE UNIQUE INDEX passkeys_credential ON passkeys (credential_id);
CREATE INDEX passkeys_owner ON passkeys (owner_id, id);

CREATE TABLE ceremonies (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    token_hash TEXT NOT NULL,
    kind TEXT NOT NULL CONSTRAINT ceremonies_kind CHECK (kind IN ('register', 'sign_in', 'confirm')),
    state TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX ceremonies_token ON ceremonies (token_hash);
CREATE INDEX ceremonies_expiry ON ceremonies (expires_at);

CREATE TABLE chiefs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    runtime TEXT NOT NULL CONSTRAINT chiefs_runtime CHECK (runtime IN ('command', 'claude-code', 'acp')),
    command TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX chiefs_owner_id ON chiefs (owner_id, id);
CREATE UNIQUE INDEX chiefs_one_live ON chiefs (owner_id) WHERE removed_at IS NULL;

CREATE TABLE plugins (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    data_scope TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_seen_at INTEGER,
    revoked_at INTEGER
) STRICT;
CREATE UNIQUE INDEX plugins_token ON plugins (token_hash);
CREATE UNIQUE INDEX plugins_owner_id ON plugins (owner_id, id);
CREATE UNIQUE INDEX plugins_live_name ON plugins (owner_id, name) WHERE revoked_at IS NULL;

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    plugin_id INTEGER NOT NULL,
    external_id TEXT NOT NULL,
    sender TEXT,
    subject TEXT,
    body TEXT NOT NULL,
    received_at INTEGER,
    no_reply INTEGER NOT NULL CONSTRAINT messages_no_reply CHECK (no_reply IN (0, 1)),
    sender_verified INTEGER NOT NULL CONSTRAINT messages_sender_verified CHECK (sender_verified IN (0, 1)),
    thread TEXT,
    human_conversation INTEGER NOT NULL CONSTRAINT messages_human_conversation CHECK (human_conversation IN (0, 1)),
    state TEXT NOT NULL CONSTRAINT messages_state CHECK (state IN ('queued', 'delivering', 'delivered', 'unconfirmed')),
    chief_id INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL DEFAULT 0,
    stored_at INTEGER NOT NULL,
    last_attempt_at INTEGER,
    delivered_at INTEGER,
    CONSTRAINT messages_queued_names_no_chief CHECK ((state = 'queued') = (chief_id IS NULL)),
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX messages_external_id ON messages (plugin_id, external_id);
CREATE UNIQUE INDEX messages_owner_id ON messages (owner_id, id);
CREATE INDEX messages_hour ON messages (plugin_id, stored_at);
CREATE INDEX messages_open ON messages (owner_id, plugin_id, id) WHERE state IN ('queued', 'delivering');
CREATE INDEX messages_queued ON messages (owner_id, id) WHERE state = 'queued';
CREATE INDEX messages_delivering ON messages (owner_id, chief_id) WHERE state = 'delivering';
CREATE INDEX messages_unconfirmed ON messages (owner_id, id) WHERE state = 'unconfirmed';

CREATE TRIGGER messages_content_frozen
BEFORE UPDATE OF owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, stored_at ON messages
FOR EACH ROW WHEN
    OLD.owner_id IS NOT NEW.owner_id OR OLD.plugin_id IS NOT NEW.plugin_id OR OLD.external_id IS NOT NEW.external_id
    OR OLD.sender IS NOT NEW.sender OR OLD.subject IS NOT NEW.subject OR OLD.body IS NOT NEW.body
    OR OLD.received_at IS NOT NEW.received_at OR OLD.no_reply IS NOT NEW.no_reply
    OR OLD.sender_verified IS NOT NEW.sender_verified OR OLD.thread IS NOT NEW.thread
    OR OLD.human_conversation IS NOT NEW.human_conversation OR OLD.stored_at IS NOT NEW.stored_at
BEGIN
    SELECT RAISE(ABORT, 'messages_content_frozen');
END;

CREATE TABLE turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    plugin_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    chief_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL,
    reply TEXT,
    outcome TEXT NOT NULL CONSTRAINT turns_outcome CHECK (outcome IN ('running', 'delivered', 'unconfirmed')),
    reason TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, message_id) REFERENCES messages (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX turns_owner_id ON turns (owner_id, id);
CREATE INDEX turns_conversation ON turns (owner_id, plugin_id, id);
CREATE INDEX turns_message ON turns (owner_id, message_id, id);
CREATE INDEX turns_running ON turns (owner_id, chief_id) WHERE outcome = 'running';

CREATE TABLE tokens (
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
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id),
    FOREIGN KEY (owner_id, turn_id) REFERENCES turns (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX tokens_token ON tokens (token_hash);
CREATE INDEX tokens_owner ON tokens (owner_id, id);
CREATE INDEX tokens_turn ON tokens (owner_id, turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE drafts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL,
    plugin_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    chief_id INTEGER NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT drafts_state
        CHECK (state IN ('pending', 'approved', 'sent', 'failed', 'unconfirmed', 'rejected', 'superseded', 'expired')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    approved_at INTEGER,
    claimed_at INTEGER,
    lease_until INTEGER,
    ended_at INTEGER,
    external_ref TEXT,
    detail TEXT,
    decided_via TEXT,
    superseded_by INTEGER,
    CONSTRAINT drafts_claimed_was_approved CHECK (claimed_at IS NULL OR approved_at IS NOT NULL),
    CONSTRAINT drafts_lease_of_a_claim CHECK ((claimed_at IS NULL) = (lease_until IS NULL)),
    CONSTRAINT drafts_sent_was_claimed CHECK (state NOT IN ('sent', 'failed', 'unconfirmed') OR claimed_at IS NOT NULL),
    FOREIGN KEY (owner_id, message_id) REFERENCES messages (owner_id, id),
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id),
    FOREIGN KEY (owner_id, superseded_by) REFERENCES drafts (owner_id, id)
) STRICT;
CREATE UNIQUE INDEX drafts_owner_id ON drafts (owner_id, id);
CREATE UNIQUE INDEX drafts_one_pending ON drafts (message_id) WHERE state = 'pending';
CREATE UNIQUE INDEX drafts_one_in_flight ON drafts (message_id) WHERE state = 'approved';
CREATE INDEX drafts_claimable ON drafts (owner_id, plugin_id, approved_at, id) WHERE state = 'approved' AND claimed_at IS NULL;
CREATE INDEX drafts_open ON drafts (owner_id, state, id) WHERE state IN ('pending', 'approved');
CREATE INDEX drafts_expiry ON drafts (expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX drafts_lease ON drafts (lease_until) WHERE state = 'approved' AND lease_until IS NOT NULL;
CREATE INDEX drafts_archived ON drafts (owner_id, id) WHERE state NOT IN ('pending', 'approved');
CREATE INDEX drafts_message ON drafts (owner_id, message_id, id);

CREATE TRIGGER drafts_no_reply_message
BEFORE INSERT ON drafts
FOR EACH ROW WHEN NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = NEW.message_id AND m.owner_id = NEW.owner_id AND m.no_reply = 0)
BEGIN
    SELECT RAISE(ABORT, 'drafts_no_reply_message');
END;

CREATE TRIGGER drafts_text_frozen
BEFORE UPDATE OF owner_id, plugin_id, message_id, chief_id, body, created_at, expires_at ON drafts
FOR EACH ROW WHEN
    OLD.owner_id IS NOT NEW.owner_id OR OLD.plugin_id IS NOT NEW.plugin_id OR OLD.message_id IS NOT NEW.message_id
    OR OLD.chief_id IS NOT NEW.chief_id OR OLD.body IS NOT NEW.body OR OLD.created_at IS NOT NEW.created_at
    OR OLD.expires_at IS NOT NEW.expires_at
BEGIN
    SELECT RAISE(ABORT, 'drafts_text_frozen');
END;

-- The legal moves, so that no statement can hand a reply out twice or bring a decided one back.
CREATE TRIGGER drafts_legal_move
BEFORE UPDATE OF state, claimed_at ON drafts
FOR EACH ROW WHEN NOT (
    (OLD.state = NEW.state AND (OLD.claimed_at IS NEW.claimed_at OR (OLD.state = 'approved' AND OLD.claimed_at IS NULL)))
    OR (OLD.state = 'pending' AND NEW.state IN ('approved', 'rejected', 'superseded', 'expired') AND NEW.claimed_at IS NULL)
    OR (OLD.state = 'approved' AND OLD.claimed_at IS NULL AND NEW.state IN ('rejected', 'superseded', 'expired') AND NEW.claimed_at IS NULL)
    OR (OLD.state = 'approved' AND OLD.claimed_at IS NOT NULL AND NEW.state IN ('sent', 'failed', 'unconfirmed') AND OLD.claimed_at IS NEW.claimed_at)
    OR (OLD.state = 'unconfirmed' AND NEW.state IN ('sent', 'failed') AND OLD.claimed_at IS NEW.claimed_at)
)
BEGIN
    SELECT RAISE(ABORT, 'drafts_legal_move');
END;

CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    link TEXT NOT NULL,
    draft_id INTEGER,
    created_at INTEGER NOT NULL,
    cleared_at INTEGER,
    FOREIGN KEY (owner_id, draft_id) REFERENCES drafts (owner_id, id)
) STRICT;
CREATE INDEX notices_open ON notices (owner_id, id) WHERE cleared_at IS NULL;
CREATE INDEX notices_draft ON notices (owner_id, draft_id);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_id INTEGER NOT NULL REFERENCES owners (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX audit_owner ON audit (owner_id, id);

CREATE TRIGGER audit_append_only_update BEFORE UPDATE ON audit FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'audit_append_only');
END;
CREATE TRIGGER audit_append_only_delete BEFORE DELETE ON audit FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'audit_append_only');
END;
