//! The accounts' statements. Never decides. Look-ups by a secret cross owners, since the secret says who the owner is.

use muster_store::{Sql, owned, owned_pair, system, system_pair};

pub(super) static INSERT_OWNER: Sql = system(
    "accounts.insert_owner",
    "INSERT INTO owners (name, password_hash, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING RETURNING id",
);
/// Lets first accounts be made one after another on Postgres, where two transactions could both count none; SQLite has one writer.
pub(super) static FIRST_ALONE: Sql = system_pair(
    "accounts.first_alone",
    "SELECT 1",
    "SELECT count(*) FROM pg_advisory_xact_lock(4711000000001)",
);
pub(super) static COUNT: Sql = system("accounts.count", "SELECT count(*) FROM owners");
pub(super) static LIST: Sql = system(
    "accounts.list",
    "SELECT id, name, created_at, disabled_at FROM owners ORDER BY id",
);
pub(super) static BY_NAME: Sql = system(
    "accounts.by_name",
    "SELECT id, name, password_hash, created_at, disabled_at FROM owners WHERE name = $1",
);
/// Disables an enabled account, or enables a disabled one; `$3` says which it has to be before.
pub(super) static SWITCH: Sql = owned(
    "accounts.switch",
    "UPDATE owners SET disabled_at = $2 WHERE id = $1 AND (disabled_at IS NULL) = $3",
);
pub(super) static PASSWORD: Sql = owned(
    "accounts.password",
    "SELECT password_hash FROM owners WHERE id = $1",
);
pub(super) static SET_PASSWORD: Sql = owned(
    "accounts.set_password",
    "UPDATE owners SET password_hash = $2 WHERE id = $1",
);

/// None for an account that was disabled, or got another password than `$4`, while that or a passkey was being checked; a passkey leaves it
/// empty. The account is locked on Postgres: who disables it or sets its password at the same time ends this session too, or prevents it.
pub(super) static INSERT_SESSION: Sql = owned_pair(
    "accounts.insert_session",
    "INSERT INTO browser_sessions (owner_id, token_hash, created_at, signed_in_at, last_seen_at) SELECT id, $2, $3, $3, $3 FROM owners WHERE id = $1 AND disabled_at IS NULL AND ($4 = '' OR password_hash = $4) RETURNING id",
    "INSERT INTO browser_sessions (owner_id, token_hash, created_at, signed_in_at, last_seen_at) SELECT id, $2, $3, $3, $3 FROM owners WHERE id = $1 AND disabled_at IS NULL AND ($4 = '' OR password_hash = $4) FOR SHARE RETURNING id",
);
pub(super) static SESSION: Sql = system(
    "accounts.session",
    "SELECT s.id, s.owner_id, o.name, s.created_at, s.signed_in_at, s.last_seen_at FROM browser_sessions s JOIN owners o ON o.id = s.owner_id WHERE s.token_hash = $1 AND s.ended_at IS NULL AND o.disabled_at IS NULL",
);
pub(super) static SEEN: Sql = owned(
    "accounts.seen",
    "UPDATE browser_sessions SET last_seen_at = $3 WHERE owner_id = $1 AND id = $2 AND ended_at IS NULL",
);
pub(super) static CONFIRMED: Sql = owned(
    "accounts.confirmed",
    "UPDATE browser_sessions SET signed_in_at = $3 WHERE owner_id = $1 AND id = $2 AND ended_at IS NULL",
);
pub(super) static END_SESSION: Sql = owned(
    "accounts.end_session",
    "UPDATE browser_sessions SET ended_at = $3 WHERE owner_id = $1 AND id = $2 AND ended_at IS NULL",
);
pub(super) static END_SESSIONS: Sql = owned(
    "accounts.end_sessions",
    "UPDATE browser_sessions SET ended_at = $2 WHERE owner_id = $1 AND ended_at IS NULL",
);

pub(super) static INSERT_PASSKEY: Sql = owned(
    "accounts.insert_passkey",
    "INSERT INTO passkeys (owner_id, credential_id, label, credential, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id",
);
pub(super) static PASSKEYS: Sql = owned(
    "accounts.passkeys",
    "SELECT id, credential_id, label, credential, created_at, last_used_at FROM passkeys WHERE owner_id = $1 ORDER BY id",
);
pub(super) static PASSKEY_USED: Sql = owned(
    "accounts.passkey_used",
    "UPDATE passkeys SET credential = $3, last_used_at = $4 WHERE owner_id = $1 AND id = $2",
);
pub(super) static DELETE_PASSKEY: Sql = owned(
    "accounts.delete_passkey",
    "DELETE FROM passkeys WHERE owner_id = $1 AND id = $2 RETURNING label",
);
pub(super) static INSERT_CEREMONY: Sql = owned(
    "accounts.insert_ceremony",
    "INSERT INTO ceremonies (owner_id, token_hash, kind, state, expires_at) VALUES ($1, $2, $3, $4, $5)",
);
/// Taken out as it is used, so that none serves twice.
pub(super) static TAKE_CEREMONY: Sql = system(
    "accounts.take_ceremony",
    "DELETE FROM ceremonies WHERE token_hash = $1 AND kind = $2 RETURNING owner_id, state, expires_at",
);
pub(super) static DROP_CEREMONIES: Sql = owned(
    "accounts.drop_ceremonies",
    "DELETE FROM ceremonies WHERE owner_id = $1 AND expires_at <= $2",
);

pub(super) static INSERT_TOKEN: Sql = owned(
    "accounts.insert_token",
    "INSERT INTO tokens (owner_id, kind, token_hash, label, host, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id",
);
/// None for a task that is closed.
pub(super) static INSERT_TASK_TOKEN: Sql = owned(
    "accounts.insert_task_token",
    "INSERT INTO tokens (owner_id, kind, token_hash, label, created_at, task_id) SELECT $1, 'agent', $2, $3, $4, k.id FROM tasks k WHERE k.owner_id = $1 AND k.id = $5 AND k.status <> 'closed' RETURNING id",
);
pub(super) static TOKEN: Sql = system(
    "accounts.token",
    "SELECT t.id, t.owner_id, t.label, t.host, t.last_used_at, t.task_id, (SELECT c.id FROM chiefs c WHERE c.owner_id = t.owner_id AND c.id = t.chief_id AND c.removed_at IS NULL) AS chief_id FROM tokens t JOIN owners o ON o.id = t.owner_id WHERE t.token_hash = $1 AND t.kind = $2 AND t.revoked_at IS NULL AND o.disabled_at IS NULL",
);
pub(super) static TOKEN_USED: Sql = owned(
    "accounts.token_used",
    "UPDATE tokens SET last_used_at = $3 WHERE owner_id = $1 AND id = $2",
);
pub(super) static TOKENS: Sql = owned(
    "accounts.tokens",
    "SELECT t.id, t.kind, t.label, t.host, t.task_id, k.title AS task_title, t.created_at, t.last_used_at, t.revoked_at FROM tokens t LEFT JOIN tasks k ON k.owner_id = $1 AND k.id = t.task_id WHERE t.owner_id = $1 AND t.turn_id IS NULL ORDER BY t.id",
);
pub(super) static REVOKE_TOKEN: Sql = owned(
    "accounts.revoke_token",
    "UPDATE tokens SET revoked_at = $3 WHERE owner_id = $1 AND id = $2 AND revoked_at IS NULL AND turn_id IS NULL RETURNING kind",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT_OWNER,
    &FIRST_ALONE,
    &COUNT,
    &LIST,
    &BY_NAME,
    &SWITCH,
    &PASSWORD,
    &SET_PASSWORD,
    &INSERT_SESSION,
    &SESSION,
    &SEEN,
    &CONFIRMED,
    &END_SESSION,
    &END_SESSIONS,
    &INSERT_PASSKEY,
    &PASSKEYS,
    &PASSKEY_USED,
    &DELETE_PASSKEY,
    &INSERT_CEREMONY,
    &TAKE_CEREMONY,
    &DROP_CEREMONIES,
    &INSERT_TOKEN,
    &INSERT_TASK_TOKEN,
    &TOKEN,
    &TOKEN_USED,
    &TOKENS,
    &REVOKE_TOKEN,
];
