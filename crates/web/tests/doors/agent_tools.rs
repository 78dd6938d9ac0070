//! What agents are told of their tools and of themselves: every tool is there, says what it charges, and holds its own schema.

use muster_app::tasks::PolicyChoice;
use muster_core::secret::TokenKind;
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::agent_kit::{Agent, code, done, message};
use super::agents::{World, listed};
use super::kit::doors;

#[test]
fn every_listed_tool_can_be_called_says_what_it_does_and_holds_its_own_schema() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        let task = doors
            .task_of(
                World::id(&world.mine, "project").parse().unwrap(),
                "free",
                PolicyChoice::Unscoped,
            )
            .await;
        let free = doors.agent_on(task, "free").await;
        let tools = listed(&doors, &free.token).await;
        let closed = listed(&doors, &doors.token(doors.ada(), TokenKind::Agent).await).await;
        assert_eq!(tools, closed, "the list says nothing of grants");
        for tool in tools {
            let name = tool["name"].as_str().unwrap();
            assert!(
                tool["description"].as_str().unwrap().contains("harges "),
                "{name}"
            );
            for schema in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[schema]["type"], "object", "{name}");
            }
            let hints = &tool["annotations"];
            let reads = hints["readOnlyHint"].as_bool().unwrap();
            assert_eq!(
                reads,
                [
                    "list", "get", "whoami", "schemas", "objects", "describe", "preview", "explain", "query"
                ]
                .iter()
                .any(|word| name.split('_').any(|part| part == *word)),
                "{name}"
            );
            assert_eq!(
                hints["destructiveHint"].as_bool().unwrap(),
                ["muster_close_task", "muster_db_execute"].contains(&name),
                "{name}"
            );
            // Without arguments every one answers with a result: no tool is listed that is not there.
            let result = doors.tool(&free, name, json!({})).await;
            let body = &result["structuredContent"];
            if result["isError"] == true {
                let code = code(&result);
                assert!(
                    ["not_found", "invalid_argument"].contains(&code.as_str()),
                    "{name}: {code}"
                );
            } else {
                let wanted = tool["outputSchema"]["anyOf"][0]["required"].as_array().unwrap();
                assert!(
                    wanted
                        .iter()
                        .all(|key| !body[key.as_str().unwrap()].is_null() || name == "muster_whoami"),
                    "{name}"
                );
            }
        }
        let unknown = message(
            &free.token,
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "muster_reboot", "arguments": {}}}),
        );
        assert_eq!(doors.send(unknown).await.json()["error"]["code"], -32602);
    });
}

#[test]
fn whoami_tells_task_policy_and_what_is_left() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let scope = format!("project:{project}");
        let (agent, policy) = doors
            .agent_with(
                project,
                "worker",
                &[("projects_read", &scope, "allow"), ("tasks_close", "any", "ask")],
            )
            .await;
        doors
            .grant(policy, LayerName::Task, "projects_read", "any", "allow")
            .await;
        doors
            .grant(policy, LayerName::Task, "tasks_close", "any", "allow")
            .await;
        let whoami = done(&doors.tool(&agent, "muster_whoami", json!({})).await);
        let resource = json!({"kind": "project", "id": project.to_string(), "name": "one"});
        assert_eq!(
            whoami,
            json!({
                "task": {"id": agent.task.to_string(), "title": "task of worker"},
                "policy": {"id": policy.to_string(), "name": "worker", "revision": 5},
                "unscoped": false,
                "grants": [
                    {"action": "projects_read", "resource": resource, "effect": "allow"},
                    {"action": "tasks_close", "resource": resource, "effect": "ask"}
                ]
            })
        );
        let nobody = Agent {
            token: doors.token(doors.ada(), TokenKind::Agent).await,
            ..agent
        };
        let whoami = done(&doors.tool(&nobody, "muster_whoami", json!({})).await);
        assert_eq!(
            (&whoami["task"], &whoami["grants"], &whoami["unscoped"]),
            (&Value::Null, &json!([]), &json!(false))
        );
        assert!(doors.calls().await.is_empty(), "it charges nothing");
    });
}
