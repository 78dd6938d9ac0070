-- When the account of a database connection was looked at, or taken unseen by its owner. Nothing is read through one that was not.
-- The same column stands in ../sqlite under the same number; a parity test compares them.

ALTER TABLE db_connections ADD COLUMN looked_at BIGINT;

-- Those from before are looked at when they are next used, except where that was accepted or there is no account.
UPDATE db_connections SET looked_at = created_at WHERE wide OR engine = 'sqlite';
