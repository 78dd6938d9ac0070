//! Calls whose process dies while they wait: each ends in one audit row, whatever became of its ask. Never lets the dead process go on.

use muster_app::access::{self, Ask, AskError, AskState, Call, Decider};
use muster_app::{App, accounts, tasks};
use serde_json::{Value, json};

use super::kit::{Desk, SECOND, TASK, at, ended, on_desks, tamper, until_callers};

/// As after a kill: the process that the calls' rows name holds no lock any more.
const ALL_KILLED: &str = "UPDATE ask_callers SET process = 7";
const FIRST_KILLED: &str =
    "UPDATE ask_callers SET process = 7 WHERE id = (SELECT min(c.id) FROM ask_callers c)";

/// Puts the newest call's row in another's place, so that the call itself has no hand in what becomes of it: as if its process were frozen.
const FROZEN: &[&str] = &[
    "INSERT INTO ask_callers (owner_id, ask_id, process) SELECT c.owner_id, c.ask_id, c.process FROM ask_callers c WHERE c.id = (SELECT max(d.id) FROM ask_callers d)",
    "DELETE FROM ask_callers WHERE id = (SELECT max(c.id) FROM ask_callers c WHERE c.id < (SELECT max(d.id) FROM ask_callers d))",
];

/// A call of the desk's agent that parked as the `nth` and does nothing any more.
async fn frozen(desk: &Desk, app: &App, call: Call, nth: i64) -> Ask {
    let (app, agent) = (app.clone(), desk.agent.clone());
    tokio::spawn(async move { access::decide(&app, &agent, call).await });
    until_callers(desk, nth).await;
    tamper(desk, FROZEN).await;
    desk.asks(AskState::Parked).await.pop().unwrap()
}

async fn asked(desk: &Desk) -> Ask {
    desk.grant(TASK, "db_read", "any", "ask").await;
    frozen(desk, desk.app(), desk.reads("staging").await, 1).await
}

/// Every look after the kill finds the same rows: each of the outcomes, once.
async fn ends_as(desk: &Desk, ask: &Ask, state: AskState, outcome: &str, decided_by: Value) {
    for _ in 0..2 {
        let shown = access::show(desk.app(), desk.owner(), ask.id).await.unwrap();
        assert_eq!(shown.state, state);
        assert_eq!(desk.outcomes().await, [outcome]);
        access::sweep(desk.app()).await.unwrap();
    }
    let row = desk.newest_call().await;
    assert_eq!(at(&row.data, "/ask_id"), &json!(ask.id.to_string()));
    assert_eq!(at(&row.data, "/decided_by"), &decided_by);
    assert_eq!(at(&row.data, "/pairs/0/verdict"), "ask");
    assert_eq!(at(&row.data, "/policy/name"), "careful");
    assert_eq!(at(&row.data, "/agent/label"), "worker");
    until_callers(desk, 0).await;
}

#[test]
fn a_call_that_expired_while_its_process_was_dead_ends_in_one_row() {
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        let ask = asked(&desk).await;
        approver.leave().await.unwrap();
        tamper(&desk, &[ALL_KILLED]).await;
        desk.advance(301 * SECOND);
        ends_as(&desk, &ask, AskState::Expired, "refused_expired", Value::Null).await;
    });
}

#[test]
fn a_call_whose_task_was_closed_or_token_revoked_while_its_process_was_dead_ends_in_one_row() {
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        let ask = asked(&desk).await;
        approver.leave().await.unwrap();
        tamper(&desk, &[ALL_KILLED]).await;
        tasks::close(desk.app(), desk.owner(), tasks::By::Owner, desk.task)
            .await
            .unwrap();
        ends_as(&desk, &ask, AskState::Withdrawn, "withdrawn", Value::Null).await;
    });
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        let ask = asked(&desk).await;
        approver.leave().await.unwrap();
        tamper(&desk, &[ALL_KILLED]).await;
        accounts::revoke_token(desk.app(), desk.owner(), desk.agent.token)
            .await
            .unwrap();
        ends_as(&desk, &ask, AskState::Withdrawn, "withdrawn", Value::Null).await;
    });
}

#[test]
fn a_call_that_was_answered_and_killed_before_it_heard_of_it_ends_in_one_row() {
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        let ask = asked(&desk).await;
        desk.approve(&ask).await;
        approver.leave().await.unwrap();
        tamper(&desk, &[ALL_KILLED]).await;
        ends_as(&desk, &ask, AskState::Approved, "withdrawn", Value::Null).await;
    });
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        let ask = asked(&desk).await;
        desk.refuse(&ask).await;
        approver.leave().await.unwrap();
        tamper(&desk, &[ALL_KILLED]).await;
        // The sweep finds it also where nothing waits and nobody looks.
        access::sweep(desk.app()).await.unwrap();
        ends_as(&desk, &ask, AskState::Refused, "refused_by_person", json!("ada")).await;
    });
}

#[test]
fn each_of_two_processes_on_one_ask_leaves_its_own_row() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let ask = asked(&desk).await;
        let (second, _) = desk.muster.second().await;
        let joined = frozen(&desk, &second, desk.reads("staging").await, 2).await;
        assert_eq!(joined.id, ask.id);
        tamper(&desk, &[FIRST_KILLED]).await;
        assert_eq!(
            desk.asks(AskState::Parked).await,
            [ask],
            "the other call still waits"
        );
        assert_eq!(desk.outcomes().await, ["refused_expired"]);
        tamper(&desk, &[ALL_KILLED]).await;
        assert!(desk.asks(AskState::Parked).await.is_empty());
        assert_eq!(desk.outcomes().await, ["refused_expired"; 2]);
        second.tasks.stop().await;
        second.db.close().await;
    });
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let ask = asked(&desk).await;
        let (second, _) = desk.muster.second().await;
        frozen(&desk, &second, desk.reads("staging").await, 2).await;
        desk.refuse(&ask).await;
        tamper(&desk, &[ALL_KILLED]).await;
        assert!(desk.asks(AskState::Parked).await.is_empty());
        assert_eq!(desk.outcomes().await, ["refused_by_person"; 2]);
        second.tasks.stop().await;
        second.db.close().await;
    });
}

#[test]
fn a_process_that_was_only_held_for_gone_writes_no_second_row_and_runs_nothing() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (second, _) = desk.muster.second().await;
        let (agent, call, app) = (desk.agent.clone(), desk.reads("staging").await, second.clone());
        let waiting = tokio::spawn(async move { access::decide(&app, &agent, call).await });
        let ask = desk.until_parked(1).await.remove(0);
        // What the sweep of another process did, and an answer that came besides.
        tamper(&desk, &["DELETE FROM ask_callers"]).await;
        tamper(
            &desk,
            &["UPDATE asks SET state = 'approved', decided_at = 1800000000000000, decided_by = 'ada' WHERE state = 'parked'"],
        )
        .await;
        assert_eq!(ended(waiting).await.unwrap_err().code, "withdrawn");
        assert_eq!(ask.state, AskState::Parked);
        assert!(desk.outcomes().await.is_empty());
        second.tasks.stop().await;
        second.db.close().await;
    });
}

#[test]
fn two_calls_on_one_ask_of_a_process_that_stops_leave_a_row_each() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (second, _) = desk.muster.second().await;
        let mut waiting = Vec::new();
        for nth in 1..=2 {
            let (agent, call, app) = (desk.agent.clone(), desk.reads("staging").await, second.clone());
            waiting.push(tokio::spawn(
                async move { access::decide(&app, &agent, call).await },
            ));
            until_callers(&desk, nth).await;
        }
        second.tasks.stop().await;
        for call in waiting {
            assert_eq!(ended(call).await.unwrap_err().code, "refused_expired");
        }
        for _ in 0..2 {
            assert_eq!(desk.asks(AskState::Expired).await.len(), 1);
            assert_eq!(desk.outcomes().await, ["refused_expired"; 2]);
        }
        second.db.close().await;
    });
}

/// Breaks a column of the newest ask, past the guard that keeps what was asked.
async fn broken(desk: &Desk, set: &str) {
    let drop = desk.pick(
        &["DROP TRIGGER IF EXISTS asks_legal_move"],
        &["DROP TRIGGER IF EXISTS asks_legal_move ON asks"],
    );
    tamper(desk, drop).await;
    let update = format!("UPDATE asks SET {set} WHERE id = (SELECT max(a.id) FROM asks a)");
    tamper(desk, &[&update]).await;
}

#[test]
fn an_ask_that_cannot_be_read_hides_no_other_and_ends_with_its_process() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let mut breaks = vec![
            ("arguments = '{'", "/arguments"),
            ("pairs = 'no'", "/pairs"),
            ("pairs = '{}'", "/pairs"),
            ("about = '['", ""),
        ];
        if desk.muster.engine == muster_store::Engine::Sqlite {
            // Bytes that are no text at all, which Postgres would not keep.
            breaks.push(("arguments = CAST(x'ff' AS TEXT)", "/arguments"));
        }
        desk.grant(TASK, "db_read", "any", "ask").await;
        let whole = frozen(&desk, desk.app(), desk.reads("prod").await, 1).await;
        for (nth, (set, part)) in breaks.into_iter().enumerate() {
            let damaged = frozen(&desk, desk.app(), desk.reads("staging").await, 2).await;
            broken(&desk, set).await;
            let asks = desk.asks(AskState::Parked).await;
            assert_eq!(asks.len(), 2, "{set}");
            assert_eq!(asks[0], whole);
            let shown = asks[1].json();
            assert_eq!(shown["tool"], "muster_db_query");
            for known in ["/arguments", "/pairs"] {
                assert_eq!(at(&shown, known).is_null(), known == part, "{set}: {shown}");
            }
            let kill = format!("UPDATE ask_callers SET process = 7 WHERE ask_id = {}", damaged.id);
            tamper(&desk, &[&kill]).await;
            assert_eq!(
                desk.asks(AskState::Parked).await,
                std::slice::from_ref(&whole),
                "{set}"
            );
            let ended = access::show(desk.app(), desk.owner(), damaged.id).await.unwrap();
            assert_eq!(ended.state, AskState::Expired);
            assert_eq!(desk.outcomes().await, vec!["refused_expired"; nth + 1]);
            let row = desk.newest_call().await;
            assert_eq!(at(&row.data, "/ask_id"), &json!(damaged.id.to_string()));
        }
    });
}

#[test]
fn an_ask_whose_tool_or_state_is_no_text_keeps_no_other_from_lapsing() {
    on_desks(|desk| async move {
        if desk.muster.engine != muster_store::Engine::Sqlite {
            // Postgres keeps no bytes that are no text.
            return;
        }
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        for (set, part, outcome) in [
            ("tool = CAST(x'ff' AS TEXT)", "the tool", "refused_expired"),
            ("kind = CAST(x'ff' AS TEXT)", "its kind", "refused_expired"),
            ("state = CAST(x'ff' AS TEXT)", "its state", "refused_error"),
        ] {
            let before = desk.calls().await.len();
            let whole = frozen(&desk, desk.app(), desk.reads("prod").await, 1).await;
            let damaged = frozen(&desk, desk.app(), desk.reads("staging").await, 2).await;
            broken(&desk, set).await;
            if part != "its state" {
                let listed = desk.asks(AskState::Parked).await;
                assert_eq!(listed.len(), 2, "{set}");
                assert_eq!(listed[1].unreadable, [part]);
                let answer = access::approve(desk.app(), desk.owner(), damaged.id, Decider::Page).await;
                assert!(matches!(answer, Err(AskError::Unreadable(_))), "{answer:?}");
            }
            tamper(&desk, &[ALL_KILLED]).await;
            access::settle(desk.app(), desk.owner()).await.unwrap();
            let ended = access::show(desk.app(), desk.owner(), whole.id).await.unwrap();
            assert_eq!(ended.state, AskState::Expired, "{set}");
            let rows = desk.calls().await.split_off(before);
            assert_eq!(rows.len(), 2, "{set}");
            let of = |id: muster_core::ids::AskId| {
                rows.iter()
                    .find(|row| at(&row.data, "/ask_id") == &json!(id.to_string()))
                    .unwrap()
            };
            assert_eq!(of(whole.id).outcome.as_deref(), Some("refused_expired"));
            assert!(of(whole.id).data.get("unreadable").is_none());
            assert_eq!(of(damaged.id).outcome.as_deref(), Some(outcome));
            assert_eq!(of(damaged.id).data["unreadable"], json!([part]));
            let ended = access::ended(
                desk.app(),
                desk.owner(),
                muster_core::ids::AskId::new(i64::MAX),
                50,
            )
            .await
            .unwrap();
            assert!(ended.asks.iter().any(|ask| ask.id == whole.id), "{set}");
        }
    });
}

#[test]
fn asks_that_ended_are_read_a_page_at_a_time_the_newest_first() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        desk.grant(TASK, "db_write", "any", "ask").await;
        let mut ids = Vec::new();
        for nth in 0..5 {
            let (waiting, ask) = desk
                .parked(desk.writes("staging", &format!("DELETE FROM t{nth}")).await)
                .await;
            if nth % 2 == 0 {
                desk.approve(&ask).await;
                ended(waiting).await.unwrap();
            } else {
                desk.refuse(&ask).await;
                ended(waiting).await.unwrap_err();
            }
            ids.push(ask.id);
        }
        // One that waits is in no page of these.
        let (_waiting, _ask) = desk.parked(desk.reads("prod").await).await;
        ids.reverse();
        let page = async |before| access::ended(desk.app(), desk.owner(), before, 2).await.unwrap();
        let (mut read, mut before) = (Vec::new(), muster_core::ids::AskId::new(i64::MAX));
        for left in [3, 1, 0] {
            let found = page(before).await;
            assert_eq!(found.older.is_some(), left > 0);
            read.extend(found.asks.iter().map(|ask| ask.id));
            before = found.older.unwrap_or(before);
        }
        assert_eq!(read, ids);
    });
}

#[test]
fn nobody_approves_what_cannot_be_shown_and_anybody_refuses_it() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        for (set, what) in [("arguments = '{'", "arguments"), ("pairs = '5'", "charges")] {
            let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
            broken(&desk, set).await;
            let answer = access::approve(desk.app(), desk.owner(), ask.id, Decider::CommandLine).await;
            let error = answer.unwrap_err();
            assert!(matches!(error, AskError::Unreadable(_)), "{error:?}");
            let sentence = error.to_string();
            assert!(
                sentence.contains(what) && sentence.contains("efuse it instead"),
                "{sentence}"
            );
            assert_eq!(desk.asks(AskState::Parked).await.len(), 1, "nothing was changed");
            assert!(desk.rows("ask.approve").await.is_empty());
            desk.refuse(&ask).await;
            assert_eq!(ended(waiting).await.unwrap_err().code, "refused_by_person");
        }
        // What is kept for the audit row alone is nothing that a person would be shown.
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        broken(&desk, "about = '['").await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
    });
}

#[test]
fn a_list_of_asks_shows_all_of_them() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let (waiting, ask) = desk.parked_read().await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        let copies = desk.pick(
            &["INSERT INTO asks (owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by) \
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2100) \
               SELECT a.owner_id, a.state, a.kind, a.token_id, a.task_id, a.tool, a.arguments, a.pairs, a.parking_key, a.approval_key, a.created_at, a.expires_at, a.decided_at, a.decided_by FROM asks a, n"],
            &["INSERT INTO asks (owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by) \
               SELECT a.owner_id, a.state, a.kind, a.token_id, a.task_id, a.tool, a.arguments, a.pairs, a.parking_key, a.approval_key, a.created_at, a.expires_at, a.decided_at, a.decided_by FROM asks a, generate_series(1, 2100) n"],
        );
        tamper(&desk, copies).await;
        let asks = desk.asks(AskState::Approved).await;
        assert_eq!(asks.len(), 2_101);
        assert!(asks.windows(2).all(|two| two[0].id < two[1].id));
        assert_eq!(asks[0], ask_as_approved(&desk, &ask).await);
    });
}

async fn ask_as_approved(desk: &Desk, ask: &Ask) -> Ask {
    access::show(desk.app(), desk.owner(), ask.id).await.unwrap()
}

impl Desk {
    /// A read that asks and has parked.
    async fn parked_read(&self) -> (super::kit::Waiting, Ask) {
        self.grant(TASK, "db_read", "any", "ask").await;
        self.parked(self.reads("staging").await).await
    }
}
