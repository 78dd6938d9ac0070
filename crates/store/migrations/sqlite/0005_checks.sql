-- The last self-test of a database connection: when, and what it found, as the audit log has it.
-- The same columns stand in ../postgres under the same number; a parity test compares them.

ALTER TABLE db_connections ADD COLUMN checked_at INTEGER;
ALTER TABLE db_connections ADD COLUMN checked TEXT;

-- Those from before are taken out of the log.
UPDATE db_connections SET
    checked_at = (SELECT a.at FROM audit a WHERE a.owner_id = db_connections.owner_id AND a.event = 'db.check' AND a.subject = 'db_connection:' || db_connections.id ORDER BY a.id DESC LIMIT 1),
    checked = (SELECT a.data FROM audit a WHERE a.owner_id = db_connections.owner_id AND a.event = 'db.check' AND a.subject = 'db_connection:' || db_connections.id ORDER BY a.id DESC LIMIT 1);
