//! The chief's statements. Never decides.

use muster_store::{Sql, owned, system};

pub(super) static LIVE: Sql = owned(
    "chief.live",
    "SELECT id, runtime, command, created_at FROM chiefs WHERE owner_id = $1 AND removed_at IS NULL",
);
pub(super) static REMOVE: Sql = owned(
    "chief.remove",
    "UPDATE chiefs SET removed_at = $2 WHERE owner_id = $1 AND removed_at IS NULL RETURNING id",
);
pub(super) static INSERT: Sql = owned(
    "chief.insert",
    "INSERT INTO chiefs (owner_id, runtime, command, created_at) VALUES ($1, $2, $3, $4) RETURNING id",
);
pub(super) static INSERT_TURN: Sql = owned(
    "chief.insert_turn",
    "INSERT INTO turns (owner_id, plugin_id, message_id, chief_id, attempt, text, outcome, started_at) VALUES ($1, $2, $3, $4, $5, $6, 'running', $7) RETURNING id",
);
pub(super) static END_TURN: Sql = owned(
    "chief.end_turn",
    "UPDATE turns SET outcome = $3, reply = $4, reason = $5, ended_at = $6 WHERE owner_id = $1 AND id = $2 AND outcome = 'running'",
);
pub(super) static FORGET_TURN: Sql = owned(
    "chief.forget_turn",
    "DELETE FROM turns WHERE owner_id = $1 AND id = $2 AND outcome = 'running'",
);
pub(super) static TURNS_LEFT_OVER: Sql = owned(
    "chief.turns_left_over",
    "UPDATE turns SET outcome = 'unconfirmed', reason = 'muster stopped during this turn', ended_at = $3 WHERE owner_id = $1 AND chief_id = $2 AND outcome = 'running'",
);
pub(super) static INSERT_TURN_TOKEN: Sql = owned(
    "chief.insert_turn_token",
    "INSERT INTO tokens (owner_id, kind, token_hash, label, chief_id, turn_id, created_at) VALUES ($1, 'agent', $2, 'chief', $3, $4, $5)",
);
/// A turn's token is of no use after it, so it is not kept: revoked rows would pile up with every message.
pub(super) static FORGET_TURN_TOKEN: Sql = owned(
    "chief.forget_turn_token",
    "DELETE FROM tokens WHERE owner_id = $1 AND turn_id = $2",
);
pub(super) static FORGET_CHIEF_TOKENS: Sql = owned(
    "chief.forget_chief_tokens",
    "DELETE FROM tokens WHERE owner_id = $1 AND chief_id = $2 AND turn_id IS NOT NULL",
);
/// Chiefs that have the token of a turn: of one that runs, or of one whose muster died.
pub(super) static CHIEFS_IN_TURNS: Sql = system(
    "chief.chiefs_in_turns",
    "SELECT DISTINCT owner_id, chief_id FROM tokens WHERE turn_id IS NOT NULL AND chief_id IS NOT NULL",
);
pub(super) static CONVERSATIONS: Sql = owned(
    "chief.conversations",
    "SELECT p.id, p.label, p.revoked_at, (SELECT count(*) FROM turns t WHERE t.owner_id = $1 AND t.plugin_id = p.id) AS turns, (SELECT max(t.started_at) FROM turns t WHERE t.owner_id = $1 AND t.plugin_id = p.id) AS last_at FROM plugins p WHERE p.owner_id = $1 ORDER BY p.id",
);
pub(super) static TURNS: Sql = owned(
    "chief.turns",
    "SELECT id, message_id, attempt, text, reply, outcome, reason, started_at, ended_at FROM turns WHERE owner_id = $1 AND plugin_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &LIVE,
    &REMOVE,
    &INSERT,
    &INSERT_TURN,
    &END_TURN,
    &FORGET_TURN,
    &TURNS_LEFT_OVER,
    &INSERT_TURN_TOKEN,
    &FORGET_TURN_TOKEN,
    &FORGET_CHIEF_TOKENS,
    &CHIEFS_IN_TURNS,
    &CONVERSATIONS,
    &TURNS,
];
