//! Calls that wait for a person, over `/mcp`: they go on, end, or are given up, and nothing runs but what a person let run.

use std::time::Duration;

use muster_app::access::{self, AskState, Decider};
use muster_app::tasks::{self, By};
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::agent_kit::{Agent, call, code, done, message, refused};
use super::ask::Ask;
use super::kit::{Doors, doors, soon};

const CREATE: &str = "muster_create_task";

/// A project, an agent that must ask before it writes there, and somebody to ask.
async fn asking(doors: &Doors) -> (Agent, String, muster_core::ids::PolicyId) {
    let project = doors.project("one", None).await;
    let (agent, policy) = doors
        .agent_with(
            project,
            "worker",
            &[("tasks_write", "any", "ask"), ("projects_read", "any", "allow")],
        )
        .await;
    (agent, project.to_string(), policy)
}

async fn decide(doors: &Doors, ask: muster_core::ids::AskId, yes: bool) {
    let decided = if yes {
        access::approve(&doors.app, doors.ada(), ask, Decider::CommandLine).await
    } else {
        access::refuse(&doors.app, doors.ada(), ask, Decider::CommandLine).await
    };
    decided.unwrap();
}

// spec: ASK-001..ASK-003 ASK-009 ASK-047 AUDIT-002
#[test]
fn a_call_waits_goes_on_with_its_real_result_or_ends_refused() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let _somebody = doors.somebody().await;
        let create = |title: &str| json!({"project_id": project, "title": title});
        let waiting = doors.waiting(&agent, 1, CREATE, create("yes"));
        let ask = doors.parked(1).await.remove(0);
        assert_eq!((ask.tool.as_str(), &ask.arguments), (CREATE, &create("yes")));
        assert!(!doors.titles(doors.ada()).await.contains(&"yes".to_owned()));
        decide(&doors, ask.id, true).await;
        let made = done(&waiting.result().await);
        assert_eq!(made["task"]["title"], "yes");
        assert!(doors.titles(doors.ada()).await.contains(&"yes".to_owned()));
        let row = doors.last_call().await;
        assert_eq!(
            (row.outcome.as_deref(), &row.data["decided_by"]),
            (Some("allowed_by_person"), &json!("ada"))
        );

        for _ in 0..2 {
            let waiting = doors.waiting(&agent, 2, CREATE, create("no"));
            let ask = doors.parked(1).await.remove(0);
            decide(&doors, ask.id, false).await;
            let again = access::approve(&doors.app, doors.ada(), ask.id, Decider::Page).await;
            assert!(matches!(
                again,
                Err(access::AskError::AlreadyDecided(AskState::Refused))
            ));
            let error = refused(&waiting.result().await);
            assert_eq!(
                (&error["code"], &error["ask_id"]),
                (&json!("refused_by_person"), &json!(ask.id.to_string()))
            );
        }
        assert!(!doors.titles(doors.ada()).await.contains(&"no".to_owned()));
    });
}

// spec: ASK-010 ASK-022
#[test]
fn a_call_whose_client_hangs_up_cancels_or_loses_its_task_gives_its_place_back() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let _somebody = doors.somebody().await;
        let create = json!({"project_id": project, "title": "never"});
        let withdrawn = async |count: usize| {
            soon("the call to be withdrawn", || async {
                doors.asks(AskState::Withdrawn).await.len() == count
                    && doors.asks(AskState::Parked).await.is_empty()
            })
            .await;
        };
        doors
            .waiting(&agent, 1, CREATE, create.clone())
            .hang_up_once_parked(&doors)
            .await;
        withdrawn(1).await;

        // A cancellation is a request of its own; one of another agent, or of another call, is none of this one's.
        let waiting = doors.waiting(&agent, 7, CREATE, create.clone());
        doors.parked(1).await;
        let other = doors.agent_on(agent.task, "other").await;
        let cancel = |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}});
        for (token, id) in [
            (&other.token, json!(7)),
            (&agent.token, json!(8)),
            (&agent.token, json!("7")),
        ] {
            assert_eq!(doors.send(message(token, &cancel(id))).await.status, 202);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(doors.asks(AskState::Parked).await.len(), 1);
        assert_eq!(
            doors.send(message(&agent.token, &cancel(json!(7)))).await.status,
            202
        );
        assert_eq!(code(&waiting.result().await), "withdrawn");
        withdrawn(2).await;

        // The same without a handshake.
        let mut present = json!({"jsonrpc": "2.0", "id": "a-1", "method": "tools/call", "params": {"name": CREATE, "arguments": create}});
        present["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let present = Ask::json("/mcp", &present)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", CREATE)
            .bearer(&agent.token);
        let waiting = doors.sending(present);
        doors.parked(1).await;
        waiting.abort();
        withdrawn(3).await;

        let waiting = doors.waiting(&agent, 9, CREATE, create);
        doors.parked(1).await;
        tasks::close(&doors.app, doors.ada(), By::Owner, agent.task)
            .await
            .unwrap();
        assert_eq!(code(&waiting.result().await), "withdrawn");
        withdrawn(4).await;
        assert!(!doors.titles(doors.ada()).await.contains(&"never".to_owned()));
        assert!(
            doors
                .calls()
                .await
                .iter()
                .all(|row| row.outcome.as_deref() == Some("withdrawn"))
        );
    });
}

#[test]
fn a_call_that_waits_tells_only_a_client_that_asked_for_it() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let _somebody = doors.somebody().await;
        let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": CREATE, "arguments": {"project_id": project, "title": "told"}, "_meta": {"progressToken": "p-1"}
        }});
        let stream = doors.stream(message(&agent.token, &body));
        let ask = doors.parked(1).await.remove(0);
        // The first word comes after a second.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        decide(&doors, ask.id, true).await;
        let (kind, text) = stream.await.unwrap();
        assert_eq!(kind, "text/event-stream");
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| serde_json::from_str(data.trim()).unwrap())
            .collect();
        assert_eq!(events.len(), 2, "{text}");
        assert_eq!(
            (
                &events[0]["method"],
                &events[0]["params"]["progressToken"],
                events[0]["params"]["progress"].as_f64()
            ),
            (&json!("notifications/progress"), &json!("p-1"), Some(1.0))
        );
        assert_eq!(
            (&events[1]["id"], &done(&events[1]["result"])["task"]["title"]),
            (&json!(3), &json!("told"))
        );

        let silent = doors.waiting(
            &agent,
            4,
            CREATE,
            json!({"project_id": project, "title": "untold"}),
        );
        let ask = doors.parked(1).await.remove(0);
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        decide(&doors, ask.id, true).await;
        done(&silent.result().await);
    });
}

// spec: ASK-019..ASK-021 ASK-023..ASK-025
#[test]
fn of_many_calls_at_once_sixteen_wait_the_rest_is_refused_and_equal_ones_share_a_place() {
    doors(|doors| async move {
        let (agent, project, policy) = asking(&doors).await;
        let other = doors.agent_on(agent.task, "other").await;
        let _ = policy;
        let _somebody = doors.somebody().await;
        let create = |n: usize| json!({"project_id": project, "title": format!("task {n}")});
        let all: Vec<_> = (0..40)
            .map(|n| doors.waiting(if n % 2 == 0 { &agent } else { &other }, 1, CREATE, create(n)))
            .collect();
        soon("24 refusals", || async {
            let rows = doors.calls().await;
            rows.iter()
                .filter(|row| row.outcome.as_deref() == Some("refused_queue_saturated"))
                .count()
                == 24
        })
        .await;
        let parked = doors.parked(16).await;
        // Equal to one that waits: it takes no place, and is answered with it.
        let first = parked[0].clone();
        let whose = if first.agent == Some(agent.id) {
            &agent
        } else {
            &other
        };
        let joined: Vec<_> = (0..20)
            .map(|_| doors.waiting(whose, 2, CREATE, first.arguments.clone()))
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(doors.asks(AskState::Parked).await.len(), 16);
        for ask in &parked {
            decide(&doors, ask.id, ask.id == first.id).await;
        }
        let mut codes = Vec::new();
        for waiting in all {
            let result = waiting.result().await;
            codes.push(if result["isError"] == true {
                code(&result)
            } else {
                "done".to_owned()
            });
        }
        let count = |word: &str| codes.iter().filter(|code| *code == word).count();
        assert_eq!(
            (
                count("done"),
                count("refused_by_person"),
                count("refused_queue_saturated")
            ),
            (1, 15, 24),
            "{codes:?}"
        );
        for waiting in joined {
            done(&waiting.result().await);
        }
        let waiting = doors.waiting(&agent, 1, CREATE, create(99));
        doors.parked(1).await;
        waiting.hang_up();
    });
}

// spec: ASK-011 ASK-014 ASK-016 ASK-040..ASK-045 AUDIT-004
#[test]
fn an_answer_holds_for_sixty_seconds_and_never_against_the_policy() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let (agent, policy) = doors
            .agent_with(project, "reader", &[("projects_read", "any", "ask")])
            .await;
        let _somebody = doors.somebody().await;
        let read = json!({"project_id": project.to_string()});
        let waiting = doors.waiting(&agent, 1, "muster_list_tasks", read.clone());
        let ask = doors.parked(1).await.remove(0);
        decide(&doors, ask.id, true).await;
        done(&waiting.result().await);
        for _ in 0..5 {
            doors.muster.clock.advance(Duration::from_secs(10));
            // Reads are covered by what they read, whatever else they say.
            let covered = doors
                .tool(
                    &agent,
                    "muster_list_tasks",
                    json!({"project_id": project.to_string(), "status": "open"}),
                )
                .await;
            done(&covered);
            let row = doors.last_call().await;
            assert_eq!(
                (row.outcome.as_deref(), &row.data["ask_id"]),
                (Some("allowed_by_recent_approval"), &json!(ask.id.to_string()))
            );
        }
        doors
            .grant(policy, LayerName::Task, "projects_read", "any", "deny")
            .await;
        assert_eq!(
            code(&doors.tool(&agent, "muster_list_tasks", read.clone()).await),
            "refused_denied"
        );
        doors
            .grant(policy, LayerName::Task, "projects_read", "any", "ask")
            .await;
        doors.muster.clock.advance(Duration::from_secs(10));
        let waiting = doors.waiting(&agent, 1, "muster_list_tasks", read.clone());
        let ask = doors.parked(1).await.remove(0);
        doors
            .grant(policy, LayerName::Project, "projects_read", "any", "deny")
            .await;
        decide(&doors, ask.id, true).await;
        assert_eq!(
            code(&waiting.result().await),
            "refused_denied",
            "what was added meanwhile counts"
        );

        doors
            .grant(policy, LayerName::Project, "projects_read", "any", "allow")
            .await;
        let waiting = doors.waiting(
            &agent,
            1,
            "muster_get_task",
            json!({"task_id": agent.task.to_string()}),
        );
        doors.parked(1).await;
        doors.muster.clock.advance(Duration::from_secs(301));
        assert_eq!(code(&waiting.result().await), "refused_expired");
        let row = doors.last_call().await;
        assert_eq!(
            (row.outcome.as_deref(), &row.data["decided_by"]),
            (Some("refused_expired"), &Value::Null)
        );
    });
}

// spec: ASK-012 ASK-026..ASK-028 ASK-030 ASK-032 ASK-033 ASK-036 ASK-037
#[test]
fn with_nobody_to_ask_the_setting_decides_each_call_anew() {
    doors(|doors| async move {
        let (agent, project, policy) = asking(&doors).await;
        doors
            .grant(policy, LayerName::Global, "tasks_close", "any", "deny")
            .await;
        let create = |title: &str| json!({"project_id": project, "title": title});
        for title in ["one", "two"] {
            done(&doors.tool(&agent, CREATE, create(title)).await);
            assert_eq!(
                doors.last_call().await.outcome.as_deref(),
                Some("auto_allowed_app_closed")
            );
        }
        assert_eq!(
            code(
                &doors
                    .tool(
                        &agent,
                        "muster_close_task",
                        json!({"task_id": agent.task.to_string()})
                    )
                    .await
            ),
            "refused_denied"
        );
        let somebody = doors.somebody().await;
        let waiting = doors.waiting(&agent, 1, CREATE, create("two"));
        doors.parked(1).await;
        waiting.hang_up();
        doors.parked(0).await;
        somebody.leave().await.unwrap();
        let key = muster_app::settings::REQUIRE_WHEN_CLOSED;
        muster_app::settings::set(&doors.app, doors.ada(), key, "true")
            .await
            .unwrap();
        assert_eq!(
            code(&doors.tool(&agent, CREATE, create("three")).await),
            "refused_app_closed_strict"
        );
        let somebody = doors.somebody().await;
        let waiting = doors.waiting(&agent, 1, CREATE, create("three"));
        doors.parked(1).await;
        // A stop ends what waits, with an answer.
        doors.app.tasks.stopping().cancel();
        assert_eq!(code(&waiting.result().await), "refused_expired");
        assert_eq!(doors.asks(AskState::Expired).await.len(), 1);
        assert!(!doors.titles(doors.ada()).await.contains(&"three".to_owned()));
        drop(somebody);
    });
}

#[test]
fn a_call_that_is_over_cannot_be_cancelled_and_the_next_with_its_number_is_another() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        let list = call(
            &agent.token,
            1,
            "muster_list_tasks",
            &json!({"project_id": project}),
        );
        for _ in 0..3 {
            done(&doors.send(list.clone()).await.json()["result"]);
            assert_eq!(doors.send(message(&agent.token, &cancel)).await.status, 202);
        }
    });
}

// spec: ASK-010
#[test]
fn a_call_that_is_given_up_at_any_moment_leaves_no_ask_behind() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let _somebody = doors.somebody().await;
        for n in 0..80_u64 {
            let create = json!({"project_id": project, "title": format!("never {n}")});
            let waiting = doors.waiting(&agent, 1, CREATE, create);
            tokio::time::sleep(Duration::from_micros(150 * n)).await;
            waiting.hang_up();
            if n % 10 == 9 {
                doors.parked(0).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        doors.parked(0).await;
        assert_eq!(doors.titles(doors.ada()).await.len(), 1);
    });
}

#[test]
fn asks_that_wait_no_more_are_read_back_by_their_owner_alone_a_page_at_a_time() {
    doors(|doors| async move {
        let (agent, project, _) = asking(&doors).await;
        let _somebody = doors.somebody().await;
        let waiting = doors.waiting(
            &agent,
            1,
            CREATE,
            json!({"project_id": project, "title": "first <b>"}),
        );
        let first = doors.parked(1).await.remove(0).id;
        decide(&doors, first, false).await;
        waiting.result().await;
        let cookie = doors.sign_in("ada").await;
        let page = doors.page(&cookie, "/attention?ended=1").await;
        for words in [
            "<h1>Ended asks</h1>",
            &format!("id=\"ask-{first}\""),
            "first &#60;b&#62;",
            "You said no",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let older = doors
            .page(&cookie, &format!("/attention?ended=1&before={first}"))
            .await;
        assert!(older.contains("No ask has come to its end yet") && !older.contains(&format!("ask-{first}")));
        let open = doors.page(&cookie, "/attention").await;
        assert!(open.contains("/attention?ended=1") && !open.contains("You said no"));
    });
}
