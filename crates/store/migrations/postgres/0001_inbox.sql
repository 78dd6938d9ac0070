-- The inbox: owners and their credentials, connectors, messages, the chief's turns, reply drafts, notices, audit.
-- The same tables, columns, indexes and guards stand in ../sqlite under the same number; a parity test compares them.

CREATE TABLE owners (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    password_hash TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    disabled_at BIGINT
);
CREATE UNIQUE INDEX owners_name ON owners (name);

CREATE TABLE browser_sessions (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    token_hash TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    signed_in_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE UNIQUE INDEX browser_sessions_token ON browser_sessions (token_hash);
CREATE INDEX browser_sessions_owner ON browser_sessions (owner_id, id);

CREATE TABLE passkeys (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    credential_id TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    credential TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX passkeys_credential ON passkeys (credential_id);
CREATE INDEX passkeys_owner ON passkeys (owner_id, id);

CREATE TABLE ceremonies (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    token_hash TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT ceremonies_kind CHECK (kind IN ('register', 'sign_in', 'confirm')),
    state TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX ceremonies_token ON ceremonies (token_hash);
CREATE INDEX ceremonies_expiry ON ceremonies (expires_at);

CREATE TABLE chiefs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    runtime TEXT COLLATE "C" NOT NULL CONSTRAINT chiefs_runtime CHECK (runtime IN ('command', 'claude-code', 'acp')),
    command TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX chiefs_owner_id ON chiefs (owner_id, id);
CREATE UNIQUE INDEX chiefs_one_live ON chiefs (owner_id) WHERE removed_at IS NULL;

CREATE TABLE plugins (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    name TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    data_scope TEXT COLLATE "C" NOT NULL,
    token_hash TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT,
    revoked_at BIGINT
);
CREATE UNIQUE INDEX plugins_token ON plugins (token_hash);
CREATE UNIQUE INDEX plugins_owner_id ON plugins (owner_id, id);
CREATE UNIQUE INDEX plugins_live_name ON plugins (owner_id, name) WHERE revoked_at IS NULL;

CREATE TABLE messages (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    plugin_id BIGINT NOT NULL,
    external_id TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C",
    subject TEXT COLLATE "C",
    body TEXT COLLATE "C" NOT NULL,
    received_at BIGINT,
    no_reply BOOLEAN NOT NULL,
    sender_verified BOOLEAN NOT NULL,
    thread TEXT COLLATE "C",
    human_conversation BOOLEAN NOT NULL,
    state TEXT COLLATE "C" NOT NULL CONSTRAINT messages_state CHECK (state IN ('queued', 'delivering', 'delivered', 'unconfirmed')),
    chief_id BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    retries BIGINT NOT NULL DEFAULT 0,
    stored_at BIGINT NOT NULL,
    last_attempt_at BIGINT,
    delivered_at BIGINT,
    CONSTRAINT messages_queued_names_no_chief CHECK ((state = 'queued') = (chief_id IS NULL)),
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id)
);
CREATE UNIQUE INDEX messages_external_id ON messages (plugin_id, external_id);
CREATE UNIQUE INDEX messages_owner_id ON messages (owner_id, id);
CREATE INDEX messages_hour ON messages (plugin_id, stored_at);
CREATE INDEX messages_open ON messages (owner_id, plugin_id, id) WHERE state IN ('queued', 'delivering');
CREATE INDEX messages_queued ON messages (owner_id, id) WHERE state = 'queued';
CREATE INDEX messages_delivering ON messages (owner_id, chief_id) WHERE state = 'delivering';
CREATE INDEX messages_unconfirmed ON messages (owner_id, id) WHERE state = 'unconfirmed';

CREATE TABLE turns (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    plugin_id BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    chief_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    reply TEXT COLLATE "C",
    outcome TEXT COLLATE "C" NOT NULL CONSTRAINT turns_outcome CHECK (outcome IN ('running', 'delivered', 'unconfirmed')),
    reason TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, message_id) REFERENCES messages (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id)
);
CREATE UNIQUE INDEX turns_owner_id ON turns (owner_id, id);
CREATE INDEX turns_conversation ON turns (owner_id, plugin_id, id);
CREATE INDEX turns_message ON turns (owner_id, message_id, id);
CREATE INDEX turns_running ON turns (owner_id, chief_id) WHERE outcome = 'running';

CREATE TABLE tokens (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    kind TEXT COLLATE "C" NOT NULL CONSTRAINT tokens_kind CHECK (kind IN ('personal', 'mirror-host', 'agent')),
    token_hash TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C",
    chief_id BIGINT,
    turn_id BIGINT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at BIGINT,
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id),
    FOREIGN KEY (owner_id, turn_id) REFERENCES turns (owner_id, id)
);
CREATE UNIQUE INDEX tokens_token ON tokens (token_hash);
CREATE INDEX tokens_owner ON tokens (owner_id, id);
CREATE INDEX tokens_turn ON tokens (owner_id, turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE drafts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL,
    plugin_id BIGINT NOT NULL,
    message_id BIGINT NOT NULL,
    chief_id BIGINT NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CONSTRAINT drafts_state
        CHECK (state IN ('pending', 'approved', 'sent', 'failed', 'unconfirmed', 'rejected', 'superseded', 'expired')),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    approved_at BIGINT,
    claimed_at BIGINT,
    lease_until BIGINT,
    ended_at BIGINT,
    external_ref TEXT COLLATE "C",
    detail TEXT COLLATE "C",
    decided_via TEXT COLLATE "C",
    superseded_by BIGINT,
    CONSTRAINT drafts_claimed_was_approved CHECK (claimed_at IS NULL OR approved_at IS NOT NULL),
    CONSTRAINT drafts_lease_of_a_claim CHECK ((claimed_at IS NULL) = (lease_until IS NULL)),
    CONSTRAINT drafts_sent_was_claimed CHECK (state NOT IN ('sent', 'failed', 'unconfirmed') OR claimed_at IS NOT NULL),
    FOREIGN KEY (owner_id, message_id) REFERENCES messages (owner_id, id),
    FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id),
    FOREIGN KEY (owner_id, chief_id) REFERENCES chiefs (owner_id, id)
);
CREATE UNIQUE INDEX drafts_owner_id ON drafts (owner_id, id);
-- After the index that it needs.
ALTER TABLE drafts ADD FOREIGN KEY (owner_id, superseded_by) REFERENCES drafts (owner_id, id);
CREATE UNIQUE INDEX drafts_one_pending ON drafts (message_id) WHERE state = 'pending';
CREATE UNIQUE INDEX drafts_one_in_flight ON drafts (message_id) WHERE state = 'approved';
CREATE INDEX drafts_claimable ON drafts (owner_id, plugin_id, approved_at, id) WHERE state = 'approved' AND claimed_at IS NULL;
CREATE INDEX drafts_open ON drafts (owner_id, state, id) WHERE state IN ('pending', 'approved');
CREATE INDEX drafts_expiry ON drafts (expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX drafts_lease ON drafts (lease_until) WHERE state = 'approved' AND lease_until IS NOT NULL;
CREATE INDEX drafts_archived ON drafts (owner_id, id) WHERE state NOT IN ('pending', 'approved');
CREATE INDEX drafts_message ON drafts (owner_id, message_id, id);

CREATE TABLE notices (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    title TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    link TEXT COLLATE "C" NOT NULL,
    draft_id BIGINT,
    created_at BIGINT NOT NULL,
    cleared_at BIGINT,
    FOREIGN KEY (owner_id, draft_id) REFERENCES drafts (owner_id, id)
);
CREATE INDEX notices_open ON notices (owner_id, id) WHERE cleared_at IS NULL;
CREATE INDEX notices_draft ON notices (owner_id, draft_id);

CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id BIGINT NOT NULL REFERENCES owners (id),
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    data TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_owner ON audit (owner_id, id);


-- Guards. Each raises its own name, which is what SQLite's triggers of the same names say. IS DISTINCT FROM, because a column may be NULL.
CREATE FUNCTION messages_content_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.owner_id, OLD.plugin_id, OLD.external_id, OLD.sender, OLD.subject, OLD.body, OLD.received_at, OLD.no_reply, OLD.sender_verified, OLD.thread, OLD.human_conversation, OLD.stored_at)
        IS DISTINCT FROM
       (NEW.owner_id, NEW.plugin_id, NEW.external_id, NEW.sender, NEW.subject, NEW.body, NEW.received_at, NEW.no_reply, NEW.sender_verified, NEW.thread, NEW.human_conversation, NEW.stored_at)
    THEN RAISE EXCEPTION 'messages_content_frozen';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER messages_content_frozen BEFORE UPDATE ON messages FOR EACH ROW EXECUTE FUNCTION messages_content_frozen();

-- Written as "no visible message that may be answered": row-level security also filters what a trigger reads.
CREATE FUNCTION drafts_no_reply_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = NEW.message_id AND m.owner_id = NEW.owner_id AND NOT m.no_reply)
    THEN RAISE EXCEPTION 'drafts_no_reply_message';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER drafts_no_reply_message BEFORE INSERT ON drafts FOR EACH ROW EXECUTE FUNCTION drafts_no_reply_message();

CREATE FUNCTION drafts_text_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.owner_id, OLD.plugin_id, OLD.message_id, OLD.chief_id, OLD.body, OLD.created_at, OLD.expires_at)
        IS DISTINCT FROM (NEW.owner_id, NEW.plugin_id, NEW.message_id, NEW.chief_id, NEW.body, NEW.created_at, NEW.expires_at)
    THEN RAISE EXCEPTION 'drafts_text_frozen';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER drafts_text_frozen BEFORE UPDATE ON drafts FOR EACH ROW EXECUTE FUNCTION drafts_text_frozen();

-- The legal moves, so that no statement can hand a reply out twice or bring a decided one back.
CREATE FUNCTION drafts_legal_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (
        (OLD.state = NEW.state AND (OLD.claimed_at IS NOT DISTINCT FROM NEW.claimed_at OR (OLD.state = 'approved' AND OLD.claimed_at IS NULL)))
        OR (OLD.state = 'pending' AND NEW.state IN ('approved', 'rejected', 'superseded', 'expired') AND NEW.claimed_at IS NULL)
        OR (OLD.state = 'approved' AND OLD.claimed_at IS NULL AND NEW.state IN ('rejected', 'superseded', 'expired') AND NEW.claimed_at IS NULL)
        OR (OLD.state = 'approved' AND OLD.claimed_at IS NOT NULL AND NEW.state IN ('sent', 'failed', 'unconfirmed') AND OLD.claimed_at IS NOT DISTINCT FROM NEW.claimed_at)
        OR (OLD.state = 'unconfirmed' AND NEW.state IN ('sent', 'failed') AND OLD.claimed_at IS NOT DISTINCT FROM NEW.claimed_at)
    ) THEN RAISE EXCEPTION 'drafts_legal_move';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER drafts_legal_move BEFORE UPDATE ON drafts FOR EACH ROW EXECUTE FUNCTION drafts_legal_move();

CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_append_only';
END $$;
CREATE TRIGGER audit_append_only_update BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_append_only_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_append_only();
-- The table's owner may truncate without touching a row; nobody may here.
CREATE TRIGGER audit_append_only_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();

-- Row-level security, forced because the application's role owns the tables. Two settings, both local to a transaction:
-- muster.owner names whose rows it may touch; muster.system holds the reason of a transaction across owners. With neither, nothing is seen.
ALTER TABLE owners ENABLE ROW LEVEL SECURITY;
ALTER TABLE owners FORCE ROW LEVEL SECURITY;
CREATE POLICY owners_owner ON owners
    USING (id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE browser_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE browser_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY browser_sessions_owner ON browser_sessions
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE passkeys ENABLE ROW LEVEL SECURITY;
ALTER TABLE passkeys FORCE ROW LEVEL SECURITY;
CREATE POLICY passkeys_owner ON passkeys
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE ceremonies ENABLE ROW LEVEL SECURITY;
ALTER TABLE ceremonies FORCE ROW LEVEL SECURITY;
CREATE POLICY ceremonies_owner ON ceremonies
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE chiefs ENABLE ROW LEVEL SECURITY;
ALTER TABLE chiefs FORCE ROW LEVEL SECURITY;
CREATE POLICY chiefs_owner ON chiefs
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY tokens_owner ON tokens
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE plugins ENABLE ROW LEVEL SECURITY;
ALTER TABLE plugins FORCE ROW LEVEL SECURITY;
CREATE POLICY plugins_owner ON plugins
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE messages FORCE ROW LEVEL SECURITY;
CREATE POLICY messages_owner ON messages
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns FORCE ROW LEVEL SECURITY;
CREATE POLICY turns_owner ON turns
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE drafts ENABLE ROW LEVEL SECURITY;
ALTER TABLE drafts FORCE ROW LEVEL SECURITY;
CREATE POLICY drafts_owner ON drafts
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE notices ENABLE ROW LEVEL SECURITY;
ALTER TABLE notices FORCE ROW LEVEL SECURITY;
CREATE POLICY notices_owner ON notices
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_owner ON audit
    USING (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '')
    WITH CHECK (owner_id = nullif(current_setting('muster.owner', true), '')::bigint OR coalesce(current_setting('muster.system', true), '') <> '');
