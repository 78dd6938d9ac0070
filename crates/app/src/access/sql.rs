//! The asks' statements. Never decides.

use muster_store::{Sql, owned, system};

macro_rules! asks {
    ($which:literal) => {
        concat!(
            "SELECT a.id, a.state, a.kind, a.token_id, k.label, a.session, a.about, a.task_id, t.title, a.tool, a.arguments, a.pairs, a.created_at, a.expires_at, a.decided_at, a.decided_by \
             FROM asks a LEFT JOIN tokens k ON k.owner_id = $1 AND k.id = a.token_id LEFT JOIN tasks t ON t.owner_id = $1 AND t.id = a.task_id WHERE a.owner_id = $1 AND ",
            $which
        )
    };
}

pub(super) static PARKED: Sql = owned("access.parked", asks!("a.state = 'parked' ORDER BY a.id"));
pub(super) static IN_STATE: Sql = owned(
    "access.in_state",
    asks!("a.state = $2 AND a.id < $3 ORDER BY a.id DESC LIMIT $4"),
);
/// By the words of the four: a state that is none of the five is in no list, and hides none.
pub(super) static ENDED: Sql = owned(
    "access.ended",
    asks!(
        "a.state IN ('approved', 'refused', 'expired', 'withdrawn') AND a.id < $2 ORDER BY a.id DESC LIMIT $3"
    ),
);
pub(super) static ASK: Sql = owned("access.ask", asks!("a.id = $2"));
pub(super) static STATE: Sql = owned(
    "access.state",
    "SELECT state, decided_by FROM asks WHERE owner_id = $1 AND id = $2",
);
pub(super) static COUNT_PARKED: Sql = owned(
    "access.count_parked",
    "SELECT count(*) FROM asks WHERE owner_id = $1 AND state = 'parked'",
);
/// Calls whose end has not been written.
pub(super) static COUNT_CALLERS: Sql = owned(
    "access.count_callers",
    "SELECT count(*) FROM ask_callers WHERE owner_id = $1",
);
pub(super) static SAME_PARKED: Sql = owned(
    "access.same_parked",
    "SELECT id, expires_at FROM asks WHERE owner_id = $1 AND parking_key = $2 AND state = 'parked'",
);
pub(super) static COVERING: Sql = owned(
    "access.covering",
    "SELECT id, decided_at, decided_by FROM asks WHERE owner_id = $1 AND approval_key = $2 AND state = 'approved' AND decided_at > $3 ORDER BY decided_at DESC, id LIMIT 1",
);
pub(super) static PARK: Sql = owned(
    "access.park",
    "INSERT INTO asks (owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, session, about) VALUES ($1, 'parked', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id",
);
/// Only one that is parked: a decision is made once, and a late answer changes nothing.
pub(super) static DECIDE: Sql = owned(
    "access.decide",
    "UPDATE asks SET state = $3, decided_at = $4, decided_by = $5 WHERE owner_id = $1 AND id = $2 AND state = 'parked'",
);
pub(super) static EXPIRE: Sql = owned(
    "access.expire",
    "UPDATE asks SET state = 'expired', decided_at = $2 WHERE owner_id = $1 AND state = 'parked' AND expires_at <= $2 RETURNING id",
);
pub(super) static WITHDRAW_OF_TASK: Sql = owned(
    "access.withdraw_of_task",
    "UPDATE asks SET state = 'withdrawn', decided_at = $3 WHERE owner_id = $1 AND task_id = $2 AND state = 'parked' RETURNING id",
);
/// Parked asks of tokens that were revoked: nobody is there who may have an answer.
pub(super) static WITHDRAW_REVOKED: Sql = owned(
    "access.withdraw_revoked",
    "UPDATE asks SET state = 'withdrawn', decided_at = $2 WHERE owner_id = $1 AND state = 'parked' AND token_id IN (SELECT k.id FROM tokens k WHERE k.owner_id = $1 AND k.revoked_at IS NOT NULL) RETURNING id",
);
pub(super) static CALL: Sql = owned(
    "access.call",
    "INSERT INTO ask_callers (owner_id, ask_id, process) VALUES ($1, $2, $3) RETURNING id",
);
pub(super) static LEAVE: Sql = owned(
    "access.leave",
    "DELETE FROM ask_callers WHERE owner_id = $1 AND id = $2",
);
/// The calls that wait for an ask besides this one.
pub(super) static CALLERS_LEFT: Sql = owned(
    "access.callers_left",
    "SELECT count(*) FROM ask_callers WHERE owner_id = $1 AND ask_id = $2 AND id <> $3",
);
/// What cannot be ended by its own process any more: whoever removes the row of such a call writes its audit row.
pub(super) static CALLERS_GONE: Sql = owned(
    "access.callers_gone",
    "DELETE FROM ask_callers WHERE owner_id = $1 AND process = $2 RETURNING id, ask_id",
);
/// Parked asks that no call waits for any more.
pub(super) static ABANDONED: Sql = owned(
    "access.abandoned",
    "SELECT a.id FROM asks a WHERE a.owner_id = $1 AND a.state = 'parked' AND NOT EXISTS (SELECT 1 FROM ask_callers c WHERE c.owner_id = $1 AND c.ask_id = a.id)",
);
/// The processes that hold calls or can show an ask.
pub(super) static PROCESSES: Sql = owned(
    "access.processes",
    "SELECT c.process, 'caller' AS what FROM ask_callers c WHERE c.owner_id = $1 UNION SELECT p.process, 'approver' AS what FROM approvers p WHERE p.owner_id = $1",
);
pub(super) static SIT: Sql = owned(
    "access.sit",
    "INSERT INTO approvers (owner_id, process, kind) VALUES ($1, $2, $3) RETURNING id",
);
pub(super) static STAND_UP: Sql = owned(
    "access.stand_up",
    "DELETE FROM approvers WHERE owner_id = $1 AND id = $2",
);
pub(super) static APPROVERS_GONE: Sql = owned(
    "access.approvers_gone",
    "DELETE FROM approvers WHERE owner_id = $1 AND process = $2",
);
pub(super) static TOKEN_LIVE: Sql = owned(
    "access.token_live",
    "SELECT count(*) FROM tokens k WHERE k.owner_id = $1 AND k.id = $2 AND k.revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM owners o WHERE o.id = $1 AND o.disabled_at IS NOT NULL)",
);
/// Whether the account counts; a session without a token has nothing else that could be taken away.
pub(super) static OWNER_LIVE: Sql = owned(
    "access.owner_live",
    "SELECT count(*) FROM owners WHERE id = $1 AND disabled_at IS NULL",
);
pub(super) static TASK_TITLE: Sql = owned(
    "access.task_title",
    "SELECT title FROM tasks WHERE owner_id = $1 AND id = $2",
);
pub(super) static OWNER_NAME: Sql = owned("access.owner_name", "SELECT name FROM owners WHERE id = $1");
/// Owners with something to look after.
pub(super) static BUSY_OWNERS: Sql = system(
    "access.busy_owners",
    "SELECT owner_id FROM asks WHERE state = 'parked' UNION SELECT owner_id FROM ask_callers UNION SELECT owner_id FROM approvers",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &PARKED,
    &IN_STATE,
    &ENDED,
    &ASK,
    &STATE,
    &COUNT_PARKED,
    &COUNT_CALLERS,
    &SAME_PARKED,
    &COVERING,
    &PARK,
    &DECIDE,
    &EXPIRE,
    &WITHDRAW_OF_TASK,
    &WITHDRAW_REVOKED,
    &CALL,
    &LEAVE,
    &CALLERS_LEFT,
    &CALLERS_GONE,
    &ABANDONED,
    &PROCESSES,
    &SIT,
    &STAND_UP,
    &APPROVERS_GONE,
    &TOKEN_LIVE,
    &OWNER_LIVE,
    &TASK_TITLE,
    &OWNER_NAME,
    &BUSY_OWNERS,
];
