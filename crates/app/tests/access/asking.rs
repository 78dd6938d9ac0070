//! Asking: parking, answering, joining, the window of a minute, saturation, expiry, callers that go. Never answers for a person.

use std::time::Duration;

use muster_app::access::{self, AskError, AskState, Decider};
use muster_app::tasks::{self, By, PolicyChoice};
use muster_app::{policies, settings};
use muster_policy::{Action, Basis, ScopeKind};
use serde_json::json;

use super::kit::{GLOBAL, PROJECT, SECOND, TASK, add_connection, at, ended, on_desks, tamper, until_callers};

// spec: ASK-001 ASK-002 ASK-013
#[test]
fn an_approved_call_goes_on() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk
            .parked(desk.query("staging", "SELECT 'a\u{202e}b'").await)
            .await;
        assert!(!waiting.is_finished());
        assert_eq!(ask.tool, "muster_db_query");
        assert_eq!(
            (ask.agent, ask.label.as_str()),
            (Some(desk.agent.token), "worker")
        );
        assert_eq!(ask.task.as_ref().map(|(id, _)| *id), Some(desk.task));
        assert_eq!(
            at(&ask.arguments, "/statement"),
            "SELECT 'a\u{202e}b'",
            "the exact text"
        );
        assert_eq!(at(&ask.pairs, "/0/resource/name"), "staging");
        desk.approve(&ask).await;
        let permitted = ended(waiting).await.unwrap();
        assert_eq!(permitted.permit.basis(), Basis::Person);
        let row = desk.newest_call().await;
        assert_eq!(row.outcome.as_deref(), Some("allowed_by_person"));
        assert_eq!(at(&row.data, "/decided_by"), "ada");
        assert_eq!(at(&row.data, "/ask_id"), &json!(ask.id.to_string()));
    });
}

// spec: ASK-003 ASK-047
#[test]
fn a_refused_call_ends_and_the_next_one_asks_again() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        desk.refuse(&ask).await;
        let refused = ended(waiting).await.unwrap_err();
        assert_eq!((refused.code, refused.ask), ("refused_by_person", Some(ask.id)));
        let (waiting, again) = desk.parked(desk.reads("staging").await).await;
        assert_ne!(again.id, ask.id);
        desk.approve(&again).await;
        ended(waiting).await.unwrap();
    });
}

// spec: ASK-004 ASK-005 ASK-007 POL-061 POL-068
#[test]
fn one_ask_covers_every_pair_of_a_call() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        desk.grant(GLOBAL, "db_write", "any", "allow").await;
        desk.grant(PROJECT, "db_read", "any", "ask").await;
        desk.grant(PROJECT, "db_write", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.writes("staging", "DELETE FROM t").await).await;
        assert_eq!(ask.pairs.as_array().unwrap().len(), 2);
        desk.approve(&ask).await;
        let permitted = ended(waiting).await.unwrap();
        assert_eq!(permitted.permit.needs().pairs().len(), 2);
        assert!(desk.asks(AskState::Parked).await.is_empty());
        // With one of them allowed, still one ask.
        desk.grant(PROJECT, "db_read", "any", "allow").await;
        let (waiting, ask) = desk.parked(desk.writes("staging", "DELETE FROM u").await).await;
        assert_eq!(ask.pairs.as_array().unwrap().len(), 2, "all pairs are shown");
        desk.refuse(&ask).await;
        ended(waiting).await.unwrap_err();
    });
}

// spec: ASK-006 ASK-037
#[test]
fn a_call_with_a_refused_pair_asks_nobody() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "ask").await;
        assert_eq!(
            desk.outcome(desk.writes("staging", "DELETE FROM t").await).await,
            "refused_not_granted"
        );
        desk.grant(TASK, "db_write", "any", "deny").await;
        assert_eq!(
            desk.outcome(desk.writes("staging", "DELETE FROM t").await).await,
            "refused_denied"
        );
        let _approver = desk.sits().await;
        assert_eq!(
            desk.outcome(desk.writes("staging", "DELETE FROM t").await).await,
            "refused_denied"
        );
        assert!(desk.asks(AskState::Parked).await.is_empty());
    });
}

// spec: ASK-009
#[test]
fn an_ask_is_answered_once_and_by_its_id() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (first, one) = desk.parked(desk.reads("staging").await).await;
        let (second, other) = desk.parked(desk.reads("prod").await).await;
        desk.approve(&one).await;
        ended(first).await.unwrap();
        let late = access::refuse(desk.app(), desk.owner(), one.id, Decider::Page).await;
        assert!(
            matches!(late, Err(AskError::AlreadyDecided(AskState::Approved))),
            "{late:?}"
        );
        assert!(!second.is_finished(), "a late answer hits no other call");
        let none = access::approve(
            desk.app(),
            desk.owner(),
            muster_core::ids::AskId::new(9_999),
            Decider::Page,
        )
        .await;
        assert!(matches!(none, Err(AskError::NotFound)), "{none:?}");
        desk.refuse(&other).await;
        ended(second).await.unwrap_err();
        let (mine, theirs) = (desk.rows("ask.approve").await, desk.rows("ask.refuse").await);
        assert_eq!((mine.len(), theirs.len()), (1, 1));
    });
}

// spec: ASK-010
#[test]
fn a_caller_that_goes_away_withdraws_its_ask() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        waiting.abort();
        desk.until_parked(0).await;
        let shown = access::show(desk.app(), desk.owner(), ask.id).await.unwrap();
        assert_eq!((shown.state, shown.decided_by), (AskState::Withdrawn, None));
        assert_eq!(desk.outcomes().await, ["withdrawn"]);
        // Closing the task does the same to those that wait.
        let (waiting, _) = desk.parked(desk.reads("prod").await).await;
        tasks::close(desk.app(), desk.owner(), By::Owner, desk.task)
            .await
            .unwrap();
        assert_eq!(ended(waiting).await.unwrap_err().code, "withdrawn");
        assert_eq!(desk.outcomes().await, ["withdrawn", "withdrawn"]);
    });
}

// spec: ASK-011
#[test]
fn an_approval_that_comes_after_a_deny_opens_nothing() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        desk.grant(GLOBAL, "db_read", "any", "deny").await;
        desk.approve(&ask).await;
        assert_eq!(ended(waiting).await.unwrap_err().code, "refused_not_granted");
        assert_eq!(
            desk.newest_call().await.outcome.as_deref(),
            Some("refused_denied")
        );
    });
}

// spec: ASK-014 ASK-015 ASK-016 ASK-017 ASK-018 ASK-022 AUDIT-004
#[test]
fn what_nobody_answers_expires_as_a_refusal_and_as_no_decision() {
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        desk.set(settings::EXPIRY_SECONDS, "10").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        assert_eq!(ask.expires_at.since(ask.created_at), 10 * SECOND);
        // That everybody left after it was shown changes nothing, and neither does the setting.
        approver.leave().await.unwrap();
        desk.advance(9 * SECOND);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(!waiting.is_finished());
        desk.advance(2 * SECOND);
        assert_eq!(ended(waiting).await.unwrap_err().code, "refused_expired");
        let shown = access::show(desk.app(), desk.owner(), ask.id).await.unwrap();
        assert_eq!((shown.state, shown.decided_by), (AskState::Expired, None));
        let row = desk.newest_call().await;
        assert_eq!(row.outcome.as_deref(), Some("refused_expired"));
        assert_eq!(at(&row.data, "/decided_by"), &json!(null));
        let late = access::approve(desk.app(), desk.owner(), ask.id, Decider::Page).await;
        assert!(
            matches!(late, Err(AskError::AlreadyDecided(AskState::Expired))),
            "{late:?}"
        );
        assert!(
            desk.asks(AskState::Parked).await.is_empty(),
            "it leaves the list of those that wait"
        );
    });
}

// spec: ASK-019 ASK-020 ASK-021 ASK-022 ASK-023
#[test]
fn the_seventeenth_is_refused_whoever_asks() {
    on_desks(|desk| async move {
        let approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let other = desk.colleague("other").await;
        let mut waiting = Vec::new();
        for n in 0..8 {
            waiting.push(desk.start(&desk.agent, desk.query("staging", &format!("SELECT {n}")).await));
            waiting.push(desk.start(&other, desk.query("staging", &format!("SELECT {n}")).await));
        }
        let asks = desk.until_parked(16).await;
        let third = desk.colleague("third").await;
        let call = desk.reads("prod").await;
        let refused = access::decide(desk.app(), &third, call.clone())
            .await
            .unwrap_err();
        assert_eq!(refused.code, "refused_queue_saturated");
        assert_eq!(
            desk.newest_call().await.outcome.as_deref(),
            Some("refused_queue_saturated")
        );
        // Not even with everybody gone does pressure become permission.
        approver.leave().await.unwrap();
        let refused = access::decide(desk.app(), &third, call.clone())
            .await
            .unwrap_err();
        assert_eq!(refused.code, "refused_queue_saturated");
        let _approver = desk.sits().await;
        desk.refuse(&asks[0]).await;
        let next = desk.start(&third, call);
        desk.until_parked(16).await;
        for call in waiting.iter().chain([&next]) {
            call.abort();
        }
        desk.until_parked(0).await;
    });
}

// spec: ASK-024
#[test]
fn of_forty_at_once_sixteen_park_and_none_is_allowed() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let mut waiting = Vec::new();
        for n in 0..40 {
            waiting.push(desk.start(&desk.agent, desk.query("staging", &format!("SELECT {n}")).await));
        }
        let asks = desk.until_parked(16).await;
        for _ in 0..6_000 {
            if waiting.iter().filter(|call| call.is_finished()).count() == 24 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for ask in &asks {
            desk.refuse(ask).await;
        }
        let mut codes = Vec::new();
        for call in waiting {
            codes.push(ended(call).await.unwrap_err().code);
        }
        assert_eq!(
            codes
                .iter()
                .filter(|code| **code == "refused_queue_saturated")
                .count(),
            24
        );
        assert_eq!(
            codes.iter().filter(|code| **code == "refused_by_person").count(),
            16
        );
    });
}

// spec: ASK-025
#[test]
fn identical_calls_share_one_ask_and_all_go_on() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (first, ask) = desk.parked(desk.reads("staging").await).await;
        let others: Vec<_> = {
            let call = desk.reads("staging").await;
            (0..19).map(|_| desk.start(&desk.agent, call.clone())).collect()
        };
        until_callers(&desk, 20).await;
        assert_eq!(desk.asks(AskState::Parked).await.len(), 1);
        // One of them that goes away takes nothing from the others.
        let mut others = others.into_iter();
        others.next().unwrap().abort();
        until_callers(&desk, 19).await;
        assert_eq!(desk.asks(AskState::Parked).await.len(), 1);
        desk.approve(&ask).await;
        ended(first).await.unwrap();
        for other in others {
            ended(other).await.unwrap();
        }
        let outcomes = desk.outcomes().await;
        assert_eq!(outcomes.iter().filter(|o| *o == "allowed_by_person").count(), 19);
        assert_eq!(outcomes.iter().filter(|o| *o == "withdrawn").count(), 1);
    });
}

// spec: ASK-040 ASK-041 ASK-042 ASK-045
#[test]
fn an_approval_covers_matching_calls_for_a_minute_and_is_not_prolonged_by_use() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.query("staging", "SELECT 1").await).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        for n in 2..5 {
            desk.advance(19 * SECOND);
            // Another statement of the same kind: reads match by agent, tool and pairs.
            let call = desk.query("staging", &format!("SELECT {n}")).await;
            assert_eq!(desk.outcome(call).await, "allowed_by_recent_approval");
            let row = desk.newest_call().await;
            assert_eq!(at(&row.data, "/ask_id"), &json!(ask.id.to_string()));
            assert_eq!(at(&row.data, "/decided_by"), "ada");
        }
        desk.advance(4 * SECOND);
        let (waiting, again) = desk.parked(desk.reads("staging").await).await;
        assert_ne!(again.id, ask.id);
        waiting.abort();
        desk.until_parked(0).await;
    });
}

// spec: ASK-043 ASK-044
#[test]
fn an_approval_covers_no_other_agent_resource_or_writing_argument() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        desk.grant(TASK, "db_write", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        let other = desk.colleague("other").await;
        let of_other = desk.start(&other, desk.reads("staging").await);
        desk.until_parked(1).await;
        let elsewhere = desk.start(&desk.agent, desk.reads("prod").await);
        desk.until_parked(2).await;
        let write = desk.start(
            &desk.agent,
            desk.writes("staging", "DELETE FROM t WHERE id = 1").await,
        );
        let asks = desk.until_parked(3).await;
        desk.approve(asks.last().unwrap()).await;
        ended(write).await.unwrap();
        assert_eq!(
            desk.outcome(desk.writes("staging", "DELETE FROM t WHERE id = 1").await)
                .await,
            "allowed_by_recent_approval"
        );
        let wider = desk.start(&desk.agent, desk.writes("staging", "DELETE FROM t").await);
        desk.until_parked(3).await;
        for call in [of_other, elsewhere, wider] {
            call.abort();
        }
        desk.until_parked(0).await;
        desk.grant(GLOBAL, "hosts_read", "any", "allow").await;
        assert_eq!(
            desk.read("staging").await,
            "refused_not_granted",
            "what was taken away counts inside the window too"
        );
    });
}

// spec: ASK-012
#[test]
fn a_process_that_ends_leaves_its_asks_expired_and_never_runs_them() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (second, _) = desk.muster.second().await;
        let (agent, call) = (desk.agent.clone(), desk.reads("staging").await);
        let app = second.clone();
        let waiting = tokio::spawn(async move { access::decide(&app, &agent, call).await });
        let asks = desk.until_parked(1).await;
        // As after a kill: the process that the call's row names holds no lock any more.
        tamper(&desk, &["UPDATE ask_callers SET process = 7"]).await;
        desk.advance(SECOND);
        let shown = access::show(desk.app(), desk.owner(), asks[0].id).await.unwrap();
        assert_eq!((shown.state, shown.decided_by), (AskState::Expired, None));
        // Whoever found it out writes the row that its own process would have written.
        let row = desk.newest_call().await;
        assert_eq!(row.outcome.as_deref(), Some("refused_expired"));
        assert_eq!(at(&row.data, "/pairs/0/verdict"), "ask");
        assert_eq!(at(&row.data, "/pairs/0/layer"), "task");
        assert_eq!(at(&row.data, "/policy/name"), "careful");
        let late = access::approve(desk.app(), desk.owner(), asks[0].id, Decider::Page).await;
        assert!(matches!(late, Err(AskError::AlreadyDecided(AskState::Expired))));
        assert_eq!(ended(waiting).await.unwrap_err().code, "refused_expired");
        second.tasks.stop().await;
        second.db.close().await;
    });
}

#[test]
fn a_revoked_token_gets_nothing_from_an_approval() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        muster_app::accounts::revoke_token(desk.app(), desk.owner(), desk.agent.token)
            .await
            .unwrap();
        // The next look at the asks ends it, whoever looks; a page that still shows it comes too late.
        let late = access::approve(desk.app(), desk.owner(), ask.id, Decider::Page).await;
        assert!(matches!(late, Err(AskError::AlreadyDecided(AskState::Withdrawn))));
        assert_eq!(ended(waiting).await.unwrap_err().code, "withdrawn");
    });
}

#[test]
fn a_call_of_a_disabled_owner_gets_nothing_from_an_approval() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        muster_app::accounts::disable(desk.app(), "ada").await.unwrap();
        desk.approve(&ask).await;
        assert_eq!(ended(waiting).await.unwrap_err().code, "withdrawn");
    });
}

#[test]
fn a_call_on_what_was_removed_while_it_waited_gets_nothing_from_an_approval() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        let id = muster_app::databases::find(desk.app(), desk.owner(), "staging")
            .await
            .unwrap()
            .id;
        muster_app::databases::remove(desk.app(), desk.owner(), id)
            .await
            .unwrap();
        // Another one of its name is not what was asked about, though the policy asks about that one too.
        add_connection(desk.app(), desk.owner(), desk.project, "staging").await;
        desk.approve(&ask).await;
        assert_eq!(ended(waiting).await.unwrap_err().code, "refused_not_granted");
        let (waiting, other) = desk.parked(desk.reads("staging").await).await;
        assert_ne!(other.id, ask.id);
        desk.approve(&other).await;
        ended(waiting).await.unwrap();
    });
}

#[test]
fn a_task_that_was_put_under_another_policy_while_its_call_waited_is_under_that_one() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        let (app, owner) = (desk.app(), desk.owner());
        policies::create(app, owner, "other").await.unwrap();
        let other = policies::find(app, owner, "other").await.unwrap();
        policies::attach(app, owner, other, None, desk.task)
            .await
            .unwrap();
        desk.approve(&ask).await;
        assert_eq!(ended(waiting).await.unwrap_err().code, "refused_not_granted");
        let row = desk.newest_call().await;
        assert_eq!(at(&row.data, "/policy/name"), "other");
        assert_eq!(at(&row.data, "/decided_by"), &json!(null));
    });
}

#[test]
fn a_connection_that_was_hidden_while_its_call_waited_is_not_named_in_the_refusal() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        desk.grant(GLOBAL, "db_read", "any", "deny").await;
        desk.refuse(&ask).await;
        let refused = ended(waiting).await.unwrap_err();
        assert_eq!(refused.code, "refused_not_granted");
        assert!(!refused.json().to_string().contains("staging"));
        assert_eq!(
            desk.newest_call().await.outcome.as_deref(),
            Some("refused_by_person")
        );
    });
}

#[test]
fn another_owner_sees_and_answers_nothing() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (waiting, ask) = desk.parked(desk.reads("staging").await).await;
        let bob = muster_testkit::add_owner(desk.app(), "bob").await;
        assert!(
            access::list(desk.app(), bob, AskState::Parked)
                .await
                .unwrap()
                .is_empty()
        );
        let answer = access::approve(desk.app(), bob, ask.id, Decider::Page).await;
        assert!(matches!(answer, Err(AskError::NotFound)), "{answer:?}");
        assert!(!access::somebody_present(desk.app(), bob).await.unwrap());
        waiting.abort();
        desk.until_parked(0).await;
    });
}

#[test]
fn lists_ask_once_for_everything_they_show() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "hosts_read", "any", "ask").await;
        let (app, agent) = (desk.app().clone(), desk.agent.clone());
        let listing = tokio::spawn(async move {
            access::reachable(
                &app,
                &agent,
                "muster_list_hosts",
                Action::HostsRead,
                ScopeKind::Host,
            )
            .await
        });
        let asks = desk.until_parked(1).await;
        desk.approve(&asks[0]).await;
        let listed = listing.await.unwrap().unwrap();
        assert_eq!(listed.resources.len(), 1);
        let (_, nobody) = desk.another(PolicyChoice::Default, "nobody").await;
        let none = access::reachable(
            desk.app(),
            &nobody,
            "muster_list_hosts",
            Action::HostsRead,
            ScopeKind::Host,
        )
        .await
        .unwrap();
        assert!(none.resources.is_empty() && none.permitted.is_none());
        assert_eq!(
            desk.newest_call().await.outcome.as_deref(),
            Some("refused_not_granted")
        );
    });
}
