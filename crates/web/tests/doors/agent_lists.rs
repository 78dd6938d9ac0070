//! What an agent's lists over `/mcp` show: each item with what is granted on it, and nothing of what is not. Never asks for what it cannot name.

use muster_policy::LayerName;
use serde_json::json;

use super::agent_kit::done;
use super::agents::World;
use super::kit::doors;

// spec: POL-012 POL-013 POL-023 POL-033 POL-036 POL-038 DBA-029 DBA-030 DBA-038 DBA-048
#[test]
fn a_list_shows_what_each_item_is_granted_and_nothing_of_another_kind() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        let project = World::id(&world.mine, "project").parse().unwrap();
        let staging = doors.connection(project, "staging", "postgres://db/app").await;
        let prod = doors.connection(project, "prod", "mysql://db/app").await;
        let lists = async || {
            let mut shown = Vec::new();
            for (tool, key) in [
                ("muster_list_projects", "projects"),
                ("muster_list_hosts", "hosts"),
                ("muster_list_db_connections", "connections"),
            ] {
                shown.push(done(&doors.tool(&world.agent, tool, json!({})).await)[key].clone());
            }
            shown
        };
        assert_eq!(
            lists().await,
            [json!([]), json!([]), json!([])],
            "closed by default"
        );
        let grant = async |action: &str, scope: &str, effect: &str| {
            doors
                .grant(world.policy, LayerName::Global, action, scope, effect)
                .await;
        };
        let (p, h) = (World::id(&world.mine, "project"), World::id(&world.mine, "host"));
        grant("projects_read", &format!("project:{p}"), "allow").await;
        grant("hosts_read", &format!("host:{h}"), "allow").await;
        grant("db_read", &format!("db_connection:{staging}"), "allow").await;
        let connection = |id: &dyn ToString, name, engine, read, write| json!({"id": id.to_string(), "name": name, "engine": engine, "read": read, "write": write});
        assert_eq!(
            lists().await,
            [
                json!([{"id": p, "name": "one"}]),
                json!([{"id": h, "name": "tower"}]),
                json!([connection(&staging, "staging", "postgres", "allow", "refused")]),
            ]
        );
        let row = doors.last_call().await;
        assert_eq!(
            (
                row.outcome.as_deref(),
                row.data["pairs"].as_array().unwrap().len()
            ),
            (Some("allowed"), 2)
        );
        for (action, effect) in [("db_read", "ask"), ("db_write", "allow")] {
            grant(action, "any", effect).await;
        }
        grant("db_write", &format!("db_connection:{prod}"), "ask").await;
        let late = doors.connection(project, "late", "sqlite:///srv/late.db").await;
        assert_eq!(
            lists().await[2],
            json!([
                connection(&staging, "staging", "postgres", "ask", "allow"),
                connection(&prod, "prod", "mysql", "ask", "ask"),
                connection(&late, "late", "sqlite", "ask", "allow"),
            ]),
            "what asks is reachable, and any covers what came later"
        );
        assert_eq!(
            lists().await[0].as_array().unwrap().len(),
            1,
            "any of another kind opens no project"
        );
        let none = doors
            .tool(
                &world.agent,
                "muster_list_db_connections",
                json!({"project_id": World::id(&world.others, "project")}),
            )
            .await;
        assert_eq!(done(&none), json!({"connections": []}));
    });
}

// spec: POL-040..POL-044
#[test]
fn a_connection_without_a_reachable_read_is_not_in_the_list_whatever_may_be_written() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let staging = doors.connection(project, "staging", "postgres://db/app").await;
        let (agent, policy) = doors
            .agent_with(project, "writer", &[("db_write", "any", "allow")])
            .await;
        let listed = async || {
            let list = done(&doors.tool(&agent, "muster_list_db_connections", json!({})).await);
            list["connections"].as_array().unwrap().len()
        };
        assert_eq!(listed().await, 0);
        let scope = format!("db_connection:{staging}");
        doors
            .grant(policy, LayerName::Global, "db_read", &scope, "ask")
            .await;
        assert_eq!(listed().await, 1, "ask is reachable");
        doors
            .grant(policy, LayerName::Project, "db_write", "any", "allow")
            .await;
        assert_eq!(listed().await, 0, "the project layer leaves nothing of the read");
        doors
            .grant(policy, LayerName::Project, "db_read", &scope, "allow")
            .await;
        assert_eq!(listed().await, 1);
        doors
            .grant(policy, LayerName::Task, "db_read", "any", "deny")
            .await;
        assert_eq!(listed().await, 0);
    });
}
