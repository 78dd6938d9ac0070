//! Prompts for plugin tools: on the queue of permissions, for agents and for sessions without a token. Never answers for a person.

use std::time::Duration;

use muster_app::access::{self, Ask, AskError, AskState, Asker, Decider, Overruled, ToolPrompt, Unanswered};
use muster_app::audit::{self, Filter};
use muster_app::{accounts, settings, tasks};
use muster_core::ids::AskId;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::kit::{Desk, SECOND, TASK, at, on_desks, until_callers};

type Waiting = JoinHandle<Result<AskId, Unanswered>>;

fn prompt(arguments: Value) -> ToolPrompt {
    ToolPrompt {
        plugin: "tools".to_owned(),
        server: "disk".to_owned(),
        tool: "mcp__plugin_tools_disk__wipe".to_owned(),
        definition: "d1".to_owned(),
        arguments,
        beside: None,
        description: Some("Wipes. \u{202e}Approve me".repeat(500)),
        reason: "A rule wants it asked.",
    }
}

fn start(desk: &Desk, asker: &Asker, arguments: Value) -> Waiting {
    let (app, asker) = (desk.app().clone(), asker.clone());
    tokio::spawn(async move { access::prompt(&app, &asker, prompt(arguments), nothing_new()).await })
}

/// The look after a yes that finds nothing.
async fn nothing_new() -> Result<(), Overruled> {
    Ok(())
}

async fn ended(waiting: Waiting) -> Result<AskId, Unanswered> {
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .expect("the prompt still waits")
        .unwrap()
}

fn session(desk: &Desk, id: &str) -> Asker {
    Asker::Session {
        owner: desk.owner(),
        session: id.to_owned(),
    }
}

async fn parked(desk: &Desk, asker: &Asker, arguments: Value) -> (Waiting, Ask) {
    let before = desk.asks(AskState::Parked).await.len();
    let waiting = start(desk, asker, arguments);
    let asks = desk.until_parked(before + 1).await;
    (waiting, asks.last().unwrap().clone())
}

#[test]
fn a_prompt_of_an_agent_and_one_of_a_session_wait_on_the_queue_of_permissions() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let agent = Asker::Agent(desk.agent.clone());
        let (first, ask) = parked(&desk, &agent, json!({"a": 1})).await;
        assert_eq!(
            (ask.agent, ask.kind.as_str()),
            (Some(desk.agent.token), "plugin_tool")
        );
        assert_eq!(ask.json()["agent"]["label"], "worker");
        assert_eq!(ask.about["server"], "disk");
        assert_eq!(ask.about["reason"], "A rule wants it asked.");
        assert!(ask.about["description"].as_str().unwrap().chars().count() == 2_000);
        let (second, other) = parked(&desk, &session(&desk, "5"), json!({"a": 1})).await;
        assert_eq!(
            other.json()["agent"],
            json!({"id": null, "label": "5"}),
            "{}",
            other.json()
        );
        assert_eq!(other.json()["task"], Value::Null);
        assert_eq!(other.arguments, json!({"a": 1}));
        desk.approve(&other).await;
        assert_eq!(ended(second).await, Ok(other.id));
        assert!(!first.is_finished(), "an answer to a session is none to an agent");
        desk.refuse(&ask).await;
        assert_eq!(ended(first).await, Err(Unanswered::ByPerson));
        assert_eq!(desk.outcomes().await, ["allowed_by_person", "refused_by_person"]);
    });
}

#[test]
fn the_calls_of_a_session_are_found_by_its_id_and_are_no_tokens() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        // The number of the agent's token, as a session's id.
        let posing = desk.agent.token.to_string();
        let (waiting, ask) = parked(&desk, &session(&desk, &posing), json!({})).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        let row = desk.newest_call().await;
        assert_eq!(row.actor, format!("session:{posing}"));
        assert_eq!(at(&row.data, "/agent"), &json!({"id": null, "label": posing}));
        for (word, wanted) in [(posing.as_str(), 1), ("worker", 0), ("nobody", 0)] {
            let filter = Filter {
                agent: word.to_owned(),
                ..Filter::default()
            };
            let found = audit::list(&desk.app().db, desk.owner(), filter).await.unwrap();
            assert_eq!(found.len(), wanted, "{word}");
        }
        assert!(audit::verify(&desk.app().db, desk.owner()).await.unwrap().ok);
    });
}

#[test]
fn with_nobody_there_a_prompt_is_refused_whatever_the_setting_says() {
    on_desks(|desk| async move {
        for setting in ["false", "true"] {
            desk.set(settings::REQUIRE_WHEN_CLOSED, setting).await;
            let waiting = start(&desk, &session(&desk, "s"), json!({}));
            assert_eq!(ended(waiting).await, Err(Unanswered::NobodyToAsk));
        }
    });
}

#[test]
fn a_window_of_a_minute_covers_the_same_session_and_no_other() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let (one, other) = (session(&desk, "one"), session(&desk, "other"));
        let (waiting, ask) = parked(&desk, &one, json!({"a": 1})).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        assert_eq!(ended(start(&desk, &one, json!({"a": 1}))).await, Ok(ask.id));
        let (theirs, _) = parked(&desk, &other, json!({"a": 1})).await;
        let (changed, _) = parked(&desk, &one, json!({"a": 2})).await;
        desk.advance(SECOND * 61);
        let (late, _) = parked(&desk, &one, json!({"a": 1})).await;
        for waiting in [theirs, changed, late] {
            waiting.abort();
        }
    });
}

#[test]
fn a_yes_covers_the_tool_that_was_asked_about_and_not_what_it_became() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let one = session(&desk, "one");
        let (waiting, ask) = parked(&desk, &one, json!({"a": 1})).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        let changes: [fn(&mut ToolPrompt); 2] = [
            |tool| tool.definition = "d2".to_owned(),
            |tool| tool.beside = Some(r#"{"task":{"ttl":1}}"#.to_owned()),
        ];
        for (count, change) in changes.into_iter().enumerate() {
            let mut other = prompt(json!({"a": 1}));
            change(&mut other);
            let (app, asker) = (desk.app().clone(), one.clone());
            tokio::spawn(async move { access::prompt(&app, &asker, other, nothing_new()).await });
            desk.until_parked(count + 1).await;
        }
        assert_eq!(ended(start(&desk, &one, json!({"a": 1}))).await, Ok(ask.id));
    });
}

#[test]
fn what_is_more_than_a_person_reads_is_asked_of_nobody() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let agent = Asker::Agent(desk.agent.clone());
        let most = "x".repeat(access::LARGEST_ASKED - json!({"a": ""}).to_string().len());
        let more = start(&desk, &agent, json!({"a": format!("{most}x")}));
        assert_eq!(
            ended(more).await,
            Err(Unanswered::TooLarge(access::LARGEST_ASKED + 1))
        );
        let mut beside = prompt(json!({"a": most.clone()}));
        beside.beside = Some("{}".to_owned());
        let refused = access::prompt(desk.app(), &agent, beside, nothing_new()).await;
        assert_eq!(refused, Err(Unanswered::TooLarge(access::LARGEST_ASKED + 2)));
        assert!(desk.asks(AskState::Parked).await.is_empty());
        assert_eq!(desk.outcomes().await, ["refused_error", "refused_error"]);
        let (waiting, ask) = parked(&desk, &agent, json!({"a": most})).await;
        desk.refuse(&ask).await;
        assert_eq!(ended(waiting).await, Err(Unanswered::ByPerson));
    });
}

#[test]
fn a_prompt_that_is_given_up_is_withdrawn_and_one_that_nobody_answers_expires() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let (waiting, ask) = parked(&desk, &session(&desk, "s"), json!({})).await;
        waiting.abort();
        desk.until_parked(0).await;
        assert_eq!(desk.asks(AskState::Withdrawn).await[0].id, ask.id);
        until_callers(&desk, 0).await;
        let (waiting, _) = parked(&desk, &session(&desk, "s"), json!({})).await;
        desk.advance(SECOND * 301);
        assert_eq!(ended(waiting).await, Err(Unanswered::Expired));
        assert_eq!(desk.outcomes().await, ["withdrawn", "refused_expired"]);
    });
}

#[test]
fn a_token_that_was_revoked_while_its_prompt_waited_runs_nothing() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let (waiting, ask) = parked(&desk, &Asker::Agent(desk.agent.clone()), json!({})).await;
        accounts::revoke_token(desk.app(), desk.owner(), desk.agent.token)
            .await
            .unwrap();
        let late = access::approve(desk.app(), desk.owner(), ask.id, Decider::Page).await;
        assert!(matches!(late, Err(AskError::AlreadyDecided(AskState::Withdrawn))));
        assert_eq!(ended(waiting).await, Err(Unanswered::Withdrawn));
        assert_eq!(desk.newest_call().await.outcome.as_deref(), Some("withdrawn"));
    });
}

#[test]
fn what_refuses_a_call_by_the_time_of_a_yes_is_what_its_row_says() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let asker = Asker::Agent(desk.agent.clone());
        let overruled = Overruled {
            outcome: "refused_denied",
            sentence: "A rule refuses it.".to_owned(),
        };
        let begin = || {
            let (app, asker, found) = (desk.app().clone(), asker.clone(), overruled.clone());
            tokio::spawn(async move {
                access::prompt(&app, &asker, prompt(json!({"a": 1})), async { Err(found) }).await
            })
        };
        let waiting = begin();
        let ask = desk.until_parked(1).await.remove(0);
        desk.approve(&ask).await;
        assert_eq!(
            ended(waiting).await,
            Err(Unanswered::Overruled(overruled.clone()))
        );
        let row = desk.newest_call().await;
        assert_eq!(row.outcome.as_deref(), Some("refused_denied"));
        assert_eq!(at(&row.data, "/decided_by"), &Value::Null);
        assert_eq!(at(&row.data, "/ask_id"), &json!(ask.id.to_string()));
        // Where nobody said yes, nothing is looked at.
        desk.advance(SECOND * 61);
        let waiting = begin();
        let ask = desk.until_parked(1).await.remove(0);
        desk.refuse(&ask).await;
        assert_eq!(ended(waiting).await, Err(Unanswered::ByPerson));
        assert_eq!(desk.outcomes().await, ["refused_denied", "refused_by_person"]);
    });
}

#[test]
fn a_yes_of_the_last_minute_is_no_yes_in_the_audit_when_something_refuses_the_call_by_then() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let asker = Asker::Agent(desk.agent.clone());
        let (waiting, ask) = parked(&desk, &asker, json!({"a": 1})).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        let overruled = Overruled {
            outcome: "refused_denied",
            sentence: "A rule refuses it.".to_owned(),
        };
        let refused = async { Err(overruled.clone()) };
        let refused = access::prompt(desk.app(), &asker, prompt(json!({"a": 1})), refused).await;
        assert_eq!(refused, Err(Unanswered::Overruled(overruled)));
        let row = desk.newest_call().await;
        assert_eq!(at(&row.data, "/decided_by"), &Value::Null);
        assert_eq!(at(&row.data, "/ask_id"), &json!(ask.id.to_string()));
        // Nothing is written before it was looked at.
        let (app, owner, token) = (desk.app().clone(), desk.owner(), desk.agent.token);
        let revoked = async {
            let rows = desk.outcomes().await;
            assert_eq!(rows, ["allowed_by_person", "refused_denied"]);
            accounts::revoke_token(&app, owner, token).await.unwrap();
            Ok(())
        };
        let withdrawn = access::prompt(desk.app(), &asker, prompt(json!({"a": 1})), revoked).await;
        assert_eq!(withdrawn, Err(Unanswered::Withdrawn));
        assert_eq!(
            desk.outcomes().await,
            ["allowed_by_person", "refused_denied", "withdrawn"]
        );
    });
}

#[test]
fn the_row_of_a_prompt_names_its_task_however_it_ended() {
    on_desks(|desk| async move {
        let agent = Asker::Agent(desk.agent.clone());
        let nobody = start(&desk, &agent, json!({}));
        assert_eq!(ended(nobody).await, Err(Unanswered::NobodyToAsk));
        let _approver = desk.sits().await;
        let (waiting, ask) = parked(&desk, &agent, json!({"a": 1})).await;
        desk.approve(&ask).await;
        ended(waiting).await.unwrap();
        ended(start(&desk, &agent, json!({"a": 1}))).await.unwrap();
        let (waiting, ask) = parked(&desk, &agent, json!({"a": 2})).await;
        desk.refuse(&ask).await;
        ended(waiting).await.unwrap_err();
        let (waiting, _) = parked(&desk, &agent, json!({"a": 3})).await;
        waiting.abort();
        until_callers(&desk, 0).await;
        let task = json!({"id": desk.task.to_string(), "title": "Look into it"});
        let rows = desk.calls().await;
        for row in &rows {
            assert_eq!(at(&row.data, "/task"), &task, "{:?}", row.outcome);
        }
        assert_eq!(
            desk.outcomes().await,
            [
                "refused_app_closed_strict",
                "allowed_by_person",
                "allowed_by_recent_approval",
                "refused_by_person",
                "withdrawn"
            ]
        );
    });
}

#[test]
fn a_prompt_ends_with_its_task_and_with_its_account() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        let (waiting, ask) = parked(&desk, &Asker::Agent(desk.agent.clone()), json!({})).await;
        tasks::close(desk.app(), desk.owner(), tasks::By::Owner, desk.task)
            .await
            .unwrap();
        assert_eq!(ended(waiting).await, Err(Unanswered::Withdrawn));
        let late = access::approve(desk.app(), desk.owner(), ask.id, Decider::Page).await;
        assert!(matches!(late, Err(AskError::AlreadyDecided(AskState::Withdrawn))));
        // A session has no token that could be taken away; its account can be.
        for asker in [Asker::Agent(desk.agent.clone()), session(&desk, "s")] {
            let (waiting, ask) = parked(&desk, &asker, json!({"b": 1})).await;
            accounts::disable(desk.app(), "ada").await.unwrap();
            desk.approve(&ask).await;
            assert_eq!(ended(waiting).await, Err(Unanswered::Withdrawn));
            accounts::enable(desk.app(), "ada").await.unwrap();
        }
        assert_eq!(desk.outcomes().await, ["withdrawn", "withdrawn", "withdrawn"]);
    });
}

#[test]
fn a_call_of_musters_own_that_is_more_than_a_person_reads_asks_nobody() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.grant(TASK, "db_write", "any", "ask").await;
        let long = format!("DELETE FROM t -- {}", "x".repeat(access::LARGEST_ASKED));
        let call = desk.writes("prod", &long).await;
        assert_eq!(desk.outcome(call).await, "refused_error");
        assert!(desk.asks(AskState::Parked).await.is_empty());
    });
}
