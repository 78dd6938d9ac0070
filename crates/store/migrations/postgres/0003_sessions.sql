-- Asks of a session that has no agent's token, and what an ask says of a plugin package's tool.
-- The same tables, columns, indexes and guards stand in ../sqlite under the same number; a parity test compares them.

ALTER TABLE asks ALTER COLUMN token_id DROP NOT NULL;
ALTER TABLE asks ADD COLUMN session TEXT COLLATE "C";
ALTER TABLE asks ADD COLUMN about TEXT COLLATE "C";
ALTER TABLE asks ADD CONSTRAINT asks_of_an_agent_or_a_session CHECK ((token_id IS NULL) = (session IS NOT NULL));

-- Decided once, and nothing of what was asked changes afterwards.
CREATE OR REPLACE FUNCTION asks_legal_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'parked' OR NEW.state = 'parked'
    OR OLD.owner_id IS DISTINCT FROM NEW.owner_id OR OLD.kind IS DISTINCT FROM NEW.kind OR OLD.token_id IS DISTINCT FROM NEW.token_id OR OLD.task_id IS DISTINCT FROM NEW.task_id
    OR OLD.tool IS DISTINCT FROM NEW.tool OR OLD.arguments IS DISTINCT FROM NEW.arguments OR OLD.pairs IS DISTINCT FROM NEW.pairs OR OLD.parking_key IS DISTINCT FROM NEW.parking_key
    OR OLD.approval_key IS DISTINCT FROM NEW.approval_key OR OLD.created_at IS DISTINCT FROM NEW.created_at OR OLD.expires_at IS DISTINCT FROM NEW.expires_at
    OR OLD.session IS DISTINCT FROM NEW.session OR OLD.about IS DISTINCT FROM NEW.about
    THEN RAISE EXCEPTION 'asks_legal_move';
    END IF;
    RETURN NEW;
END $$;
