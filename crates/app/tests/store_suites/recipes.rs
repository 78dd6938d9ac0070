//! One row of everything for an owner, and for each owner's statement the arguments that name those rows. Never decides what may be seen.

use std::ops::Range;

use muster_core::ids::OwnerId;
use muster_store::Value;
use muster_testkit::TestMuster;

use crate::recipes_access::{self, Access};
use crate::support::Raw;

/// A moment that everything seeded lies at.
pub(crate) const THEN: i64 = 1_800_000_000_000_000;
/// A moment after every lease and expiry.
pub(crate) const LATE: i64 = THEN + 400 * 86_400_000_000;

/// An owner with one row of everything. Every text of its rows holds its name, every id lies in its range.
pub(crate) struct Seeded {
    pub(crate) owner: OwnerId,
    pub(crate) name: String,
    pub(crate) ids: Range<i64>,
    session: i64,
    passkey: i64,
    chief: i64,
    token: i64,
    plugin: i64,
    queued: i64,
    delivering: i64,
    unconfirmed: i64,
    delivered: i64,
    turn: i64,
    spare_turn: i64,
    pending: i64,
    approved: i64,
    claimed: i64,
    ended: i64,
    pub(crate) access: Access,
}

/// Stores an owner and its rows past the API, with ids from `base` on.
pub(crate) async fn seed(muster: &TestMuster, name: &str, base: i64) -> Seeded {
    let mut raw = Raw::of(muster).await;
    let id = |n: i64| base + n;
    let seeded = Seeded {
        owner: OwnerId::new(id(0)),
        name: name.to_owned(),
        ids: base..base + 100,
        session: id(1),
        passkey: id(2),
        chief: id(3),
        token: id(4),
        plugin: id(6),
        queued: id(10),
        delivering: id(11),
        unconfirmed: id(12),
        delivered: id(13),
        turn: id(20),
        spare_turn: id(21),
        pending: id(30),
        approved: id(31),
        claimed: id(32),
        ended: id(33),
        access: Access::from(base),
    };
    for text in seeds(&seeded, base)
        .into_iter()
        .chain(recipes_access::seeds(&seeded))
    {
        // Postgres gives ids out itself unless it is told otherwise.
        let text = if matches!(raw, Raw::Postgres(_)) {
            text.replacen(" VALUES ", " OVERRIDING SYSTEM VALUE VALUES ", 1)
        } else {
            text
        };
        let changed = raw
            .run(&text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(changed, 1, "{text}");
    }
    if matches!(raw, Raw::Sqlite(_)) {
        // SQLite gives out ids above the highest: those that follow must not look like this owner's.
        raw.run(&format!(
            "UPDATE sqlite_sequence SET seq = {} WHERE seq < {}",
            base + 500,
            base + 500
        ))
        .await
        .unwrap();
    }
    for (table, rows) in raw.rows_of(seeded.owner).await {
        assert!(
            !rows.is_empty(),
            "the seed has no row of {table}: add one, so that the suites can watch it"
        );
    }
    seeded
}

fn seeds(s: &Seeded, base: i64) -> Vec<String> {
    let (o, n, t) = (s.owner, s.name.as_str(), THEN);
    let message = |id: i64, state: &str, chief: &str| {
        format!(
            "INSERT INTO messages (id, owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, chief_id, attempts, stored_at, last_attempt_at) \
             VALUES ({id}, {o}, {}, '{n}-ext-{id}', '{n}-sender', '{n}-subject', '{n}-body', {t}, FALSE, TRUE, '{n}-thread', FALSE, '{state}', {chief}, 1, {t}, {t})",
            s.plugin
        )
    };
    let chief = s.chief.to_string();
    let turn = |id: i64| {
        format!(
            "INSERT INTO turns (id, owner_id, plugin_id, message_id, chief_id, attempt, text, reply, outcome, reason, started_at) \
             VALUES ({id}, {o}, {}, {}, {chief}, 1, '{n}-turn', '{n}-said', 'running', '{n}-reason', {t})",
            s.plugin, s.delivering
        )
    };
    let draft = |id: i64, message: i64, state: &str, rest: &str| {
        format!(
            "INSERT INTO drafts (id, owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at, external_ref, detail, decided_via, approved_at, claimed_at, lease_until, superseded_by) \
             VALUES ({id}, {o}, {}, {message}, {chief}, '{n}-reply', '{state}', {t}, {t}, '{n}-ref', '{n}-detail', '{n}-via', {rest})",
            s.plugin
        )
    };
    vec![
        format!(
            "INSERT INTO owners (id, name, password_hash, created_at) VALUES ({o}, '{n}', '{n}-password', {t})"
        ),
        format!(
            "INSERT INTO browser_sessions (id, owner_id, token_hash, created_at, signed_in_at, last_seen_at) VALUES ({}, {o}, '{n}-session', {t}, {t}, {t})",
            s.session
        ),
        format!(
            "INSERT INTO passkeys (id, owner_id, credential_id, label, credential, created_at) VALUES ({}, {o}, '{n}-credential', '{n}-key', '{n}-public', {t})",
            s.passkey
        ),
        format!(
            "INSERT INTO ceremonies (id, owner_id, token_hash, kind, state, expires_at) VALUES ({}, {o}, '{n}-ceremony', 'register', '{n}-state', {t})",
            base + 5
        ),
        format!(
            "INSERT INTO chiefs (id, owner_id, runtime, command, created_at) VALUES ({chief}, {o}, 'command', '{n}-command', {t})"
        ),
        format!(
            "INSERT INTO plugins (id, owner_id, name, label, data_scope, token_hash, created_at) VALUES ({}, {o}, '{n}-plugin', '{n}-label', '{n}-scope', '{n}-plugin-token', {t})",
            s.plugin
        ),
        message(s.queued, "queued", "NULL"),
        message(s.delivering, "delivering", &chief),
        message(s.unconfirmed, "unconfirmed", &chief),
        message(s.delivered, "delivered", &chief),
        turn(s.turn),
        turn(s.spare_turn),
        format!(
            "INSERT INTO tokens (id, owner_id, kind, token_hash, label, host, created_at) VALUES ({}, {o}, 'personal', '{n}-token', '{n}-token-label', '{n}-host', {t})",
            s.token
        ),
        format!(
            "INSERT INTO tokens (id, owner_id, kind, token_hash, label, chief_id, turn_id, created_at) VALUES ({}, {o}, 'agent', '{n}-turn-token', '{n}-agent', {chief}, {}, {t})",
            base + 7,
            s.turn
        ),
        draft(
            s.ended,
            s.delivered,
            "unconfirmed",
            &format!("{t}, {t}, {t}, NULL"),
        ),
        draft(
            base + 34,
            s.delivered,
            "superseded",
            &format!("NULL, NULL, NULL, {}", s.ended),
        ),
        draft(s.pending, s.delivered, "pending", "NULL, NULL, NULL, NULL"),
        draft(
            s.approved,
            s.unconfirmed,
            "approved",
            &format!("{t}, NULL, NULL, NULL"),
        ),
        draft(
            s.claimed,
            s.delivering,
            "approved",
            &format!("{t}, {t}, {t}, NULL"),
        ),
        format!(
            "INSERT INTO notices (id, owner_id, title, body, link, draft_id, created_at) VALUES ({}, {o}, '{n}-title', '{n}-notice', '{n}-link', {}, {t})",
            base + 40,
            s.pending
        ),
        format!(
            "INSERT INTO audit (id, owner_id, at, actor, event, subject, data) VALUES ({}, {o}, {t}, '{n}-actor', '{n}-event', '{n}-subject', '{n}-data')",
            base + 50
        ),
    ]
}

/// What an owner's statement must do when it is run as somebody else with these arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Expect {
    /// Answers no row and changes none.
    Nothing,
    /// Answers one row of zeros: a count of what the caller has, which is nothing.
    Zero,
    /// A key or a guard refuses the row.
    Refused,
    /// Answers or stores a row that is the caller's own.
    Own,
}

macro_rules! args {
    ($($value:expr),* $(,)?) => {
        vec![$(muster_store::Bind::value($value)),*]
    };
}
pub(crate) use args;

pub(crate) const NO_TEXT: Option<&str> = None;

/// Arguments of the statement `name` that name `s`'s rows wherever it takes an id. `None` for a statement without a recipe.
pub(crate) fn recipe(name: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let (slice, act) = name.split_once('.')?;
    match slice {
        "accounts" => accounts(act, s),
        "audit" => audit(act, s),
        "notices" => notices(act, s),
        "plugins" => plugins(act, s),
        "messages" => messages(act, s),
        "chief" => chief(act, s),
        "drafts" => drafts(act, s),
        _ => recipes_access::recipe(slice, act, s),
    }
}

fn accounts(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Own};
    Some(match act {
        "password" => (Own, args![]),
        "switch" => (Own, args![LATE, true]),
        "set_password" => (Own, args!["a-hash"]),
        "insert_session" => (Own, args!["a-session", THEN, ""]),
        "seen" | "confirmed" | "end_session" => (Nothing, args![s.session, LATE]),
        "end_sessions" => (Nothing, args![LATE]),
        "insert_passkey" => (Own, args!["a-credential", "a label", "a key", THEN]),
        "passkeys" => (Nothing, args![]),
        "passkey_used" => (Nothing, args![s.passkey, "taken over", LATE]),
        "delete_passkey" => (Nothing, args![s.passkey]),
        "insert_ceremony" => (Own, args!["a-ceremony", "register", "a state", LATE]),
        "drop_ceremonies" => (Nothing, args![LATE]),
        "insert_token" => (Own, args!["personal", "a-token", "a label", NO_TEXT, THEN]),
        // Her task is not one of theirs.
        "insert_task_token" => (Nothing, args!["a-task-token", "an agent", THEN, s.access.task]),
        "token_used" | "revoke_token" => (Nothing, args![s.token, LATE]),
        "tokens" => (Nothing, args![]),
        _ => return None,
    })
}

fn audit(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Own};
    Some(match act {
        "head" | "length" => (Own, args![]),
        "insert" => (
            Own,
            args![
                THEN,
                "owner",
                "test.event",
                "owner:1",
                "{}",
                NO_TEXT,
                NO_TEXT,
                NO_TEXT,
                NO_TEXT,
                "a hash"
            ],
        ),
        "newest" => (Nothing, args![i64::MAX, 0_i64, i64::MAX, "", 500_i64]),
        "newest_calls" => (
            Nothing,
            args![
                i64::MAX,
                0_i64,
                i64::MAX,
                "",
                "",
                "",
                format!("{}-tool", s.name),
                "",
                500_i64
            ],
        ),
        "labelled" => (Nothing, args![format!("{}-worker", s.name)]),
        "onwards" | "ids_onwards" => (Nothing, args![0_i64, 500_i64]),
        "row" => (Nothing, args![s.ids.start + 50]),
        _ => return None,
    })
}

fn notices(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Refused};
    Some(match act {
        "insert" => (Refused, args!["a title", "a body", "/", s.pending, THEN]),
        "clear_draft" => (Nothing, args![s.pending, LATE]),
        "clear_message" => (Nothing, args![s.delivered, LATE]),
        "clear_old" => (Nothing, args![LATE, LATE]),
        "open" => (Nothing, args![]),
        "after" => (Nothing, args![0_i64]),
        _ => return None,
    })
}

fn plugins(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Own};
    Some(match act {
        // The name is free for everybody, whoever else has it.
        "insert" => (
            Own,
            args![
                format!("{}-plugin", s.name),
                "a label",
                "a scope",
                "a-plugin-token",
                THEN
            ],
        ),
        "touch" | "revoke" => (Nothing, args![s.plugin, LATE]),
        "list" => (Nothing, args![]),
        _ => return None,
    })
}

fn messages(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::Nothing;
    Some(match act {
        "insert" => {
            let caps = (0_i64, 60_i64, 200_i64);
            let args = args![
                s.plugin,
                "new-ext",
                NO_TEXT,
                NO_TEXT,
                "a body",
                None::<i64>,
                false,
                true,
                NO_TEXT,
                false,
                THEN,
                caps.0,
                caps.1,
                caps.2,
            ];
            // Her plugin is not one of theirs, so the statement finds no live connector.
            (Nothing, args)
        }
        "by_external_id" => (Nothing, args![s.plugin, format!("{}-ext-{}", s.name, s.queued)]),
        "oldest_counted" => (Nothing, args![s.plugin, THEN - 1, 0_i64]),
        "next_queued" => (Nothing, args![0_i64]),
        "begin" => (Nothing, args![s.queued, s.chief, LATE]),
        "plugin_words" => (Nothing, args![s.plugin]),
        "left_over" => (Nothing, args![s.chief]),
        "settle_delivered" => (Nothing, args![s.delivering, 1_i64, LATE]),
        "settle_unconfirmed" | "settle_queued" => (Nothing, args![s.delivering, 1_i64]),
        "for_retry" | "retry" => (Nothing, args![s.unconfirmed]),
        "acted" => (Nothing, args![s.delivered]),
        "unconfirmed" => (Nothing, args![]),
        _ => return None,
    })
}

fn chief(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Own, Refused};
    Some(match act {
        "live" | "conversations" => (Nothing, args![]),
        "remove" => (Nothing, args![LATE]),
        "insert" => (Own, args!["command", "a command", THEN]),
        "insert_turn" => (
            Refused,
            args![s.plugin, s.delivering, s.chief, 1_i64, "a turn", THEN],
        ),
        "end_turn" => (Nothing, args![s.turn, "delivered", "taken over", NO_TEXT, LATE]),
        "forget_turn" => (Nothing, args![s.spare_turn]),
        "forget_turn_token" => (Nothing, args![s.turn]),
        "turns_left_over" => (Nothing, args![s.chief, LATE]),
        "insert_turn_token" => (Refused, args!["a-turn-token", s.chief, s.turn, THEN]),
        "forget_chief_tokens" => (Nothing, args![s.chief]),
        "turns" => (Nothing, args![s.plugin, i64::MAX, 500_i64]),
        _ => return None,
    })
}

fn drafts(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    use Expect::{Nothing, Refused, Zero};
    Some(match act {
        "message" | "external_id" => (Nothing, args![s.delivered]),
        "chief" => (Nothing, args![s.chief]),
        "in_flight" => (Zero, args![s.unconfirmed]),
        "pending_elsewhere" => (Zero, args![s.chief, 0_i64]),
        "supersede_pending" => (Nothing, args![s.delivered, LATE]),
        "insert" => (
            Refused,
            args![s.plugin, s.delivering, s.chief, "a reply", THEN, LATE],
        ),
        "superseded_by" => (Nothing, args![s.ended + 1, s.pending]),
        "facts" | "card" => (Nothing, args![s.pending]),
        "approve" | "reject" => (Nothing, args![s.pending, LATE, "page"]),
        "withdraw" => (Nothing, args![s.approved, LATE, "page"]),
        "claim" => (Nothing, args![s.plugin, LATE, LATE]),
        "for_report" => (Nothing, args![s.plugin, s.claimed]),
        "report" => (Nothing, args![s.claimed, "sent", "taken over", NO_TEXT, LATE]),
        "supersede_others" => (Nothing, args![s.delivered, s.ended, LATE]),
        "lapse" | "expire" => (Nothing, args![LATE]),
        "due" => (Zero, args![LATE]),
        "open" => (Nothing, args![]),
        "archived" => (Nothing, args![i64::MAX, 500_i64]),
        _ => return None,
    })
}
