//! Tasks in an agent's hands over `/mcp`: how far it moves one, how free one is that it makes, and edits of the policy that governs it while it runs.

use muster_app::tasks;
use muster_app::{policies, projects};
use muster_core::ids::TaskId;
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::agent_kit::{code, done, refused};
use super::agents::World;
use super::kit::doors;

// spec: POL-018 POL-020 DBA-043
#[test]
fn a_status_move_never_closes_and_a_task_shows_its_worktree_only_to_who_may_read_it() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        for action in ["projects_read", "tasks_write"] {
            doors
                .grant(world.policy, LayerName::Global, action, "any", "allow")
                .await;
        }
        let task = world.task.to_string();
        let before = doors.calls().await.len();
        let closing = doors
            .tool(
                &world.agent,
                "muster_set_task_status",
                json!({"task_id": task, "status": "closed"}),
            )
            .await;
        let error = refused(&closing);
        assert_eq!(error["code"], "invalid_argument");
        assert!(
            error["message"].as_str().unwrap().contains("muster_close_task"),
            "{error}"
        );
        assert_eq!(doors.calls().await.len(), before, "nothing was charged");
        let moved = doors
            .tool(
                &world.agent,
                "muster_set_task_status",
                json!({"task_id": task, "status": "ready_for_review"}),
            )
            .await;
        assert_eq!(done(&moved)["task"]["status"], "ready_for_review");

        let read = async || {
            done(
                &doors
                    .tool(&world.agent, "muster_get_task", json!({"task_id": task}))
                    .await,
            )["task"]
                .clone()
        };
        let plain = read().await;
        assert_eq!(
            plain,
            json!({"id": task, "title": "first", "body": "", "status": "ready_for_review", "project": {"kind": "project", "id": World::id(&world.mine, "project"), "name": "one"}})
        );
        let scope = format!("worktree:{}", World::id(&world.mine, "worktree"));
        doors
            .grant(world.policy, LayerName::Global, "worktree_read", &scope, "ask")
            .await;
        assert_eq!(read().await, plain, "nobody was asked");
        doors
            .grant(world.policy, LayerName::Global, "worktree_read", &scope, "allow")
            .await;
        assert_eq!(
            read().await["worktree"],
            json!({"path": "/srv/one/worktree", "branch": format!("muster/task-{task}")})
        );
        assert_eq!(doors.last_call().await.data["pairs"].as_array().unwrap().len(), 1);
        let listed = doors
            .tool(
                &world.agent,
                "muster_list_tasks",
                json!({"project_id": World::id(&world.mine, "project"), "status": "ready_for_review"}),
            )
            .await;
        assert_eq!(
            done(&listed),
            json!({"tasks": [{"id": task, "title": "first", "status": "ready_for_review"}]})
        );
    });
}

// spec: POL-065 DBA-041 DBA-042
#[test]
fn a_task_that_an_agent_makes_is_never_freer_than_its_project_says() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let (agent, _) = doors
            .agent_with(
                project,
                "maker",
                &[("tasks_write", "any", "allow"), ("projects_read", "any", "allow")],
            )
            .await;
        let make = async |title: &str| {
            let made = doors
                .tool(
                    &agent,
                    "muster_create_task",
                    json!({"project_id": project.to_string(), "title": title}),
                )
                .await;
            let id: TaskId = done(&made)["task"]["id"].as_str().unwrap().parse().unwrap();
            tasks::find(&doors.app, doors.ada(), id).await.unwrap()
        };
        let closed = make("closed").await;
        assert_eq!(
            (closed.policy, closed.created_by.as_str()),
            (tasks::TaskPolicy::Closed, format!("agent:{}", agent.id).as_str())
        );
        let default = doors
            .policy("default", &[("projects_read", "any", "allow")])
            .await;
        projects::set_default(&doors.app, doors.ada(), project, Some(default))
            .await
            .unwrap();
        let made = make("under the default").await;
        assert!(matches!(made.policy, tasks::TaskPolicy::Policy { id, .. } if id == default));
        let worker = doors.agent_on(made.id, "worker").await;
        let list = doors
            .tool(
                &worker,
                "muster_list_tasks",
                json!({"project_id": project.to_string()}),
            )
            .await;
        assert!(
            done(&list)["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .any(|task| task["title"] == "closed")
        );
        let write = doors
            .tool(
                &worker,
                "muster_create_task",
                json!({"project_id": project.to_string(), "title": "no"}),
            )
            .await;
        assert_eq!(code(&write), "refused_not_granted");

        let run = doors
            .tool(
                &agent,
                "muster_spawn_task",
                json!({"task_id": made.id.to_string(), "prompt": "go"}),
            )
            .await;
        let run = done(&run)["run"].clone();
        let task = tasks::find(&doors.app, doors.ada(), made.id).await.unwrap();
        assert_eq!(
            (&run["state"], run["id"].as_str().unwrap()),
            (&json!("queued"), task.runs[0].id.to_string().as_str())
        );
    });
}

// spec: POL-067..POL-069 POL-071 POL-072 POL-076 POL-079
#[test]
fn a_running_agent_meets_every_edit_of_what_governs_it_at_its_next_call() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let (agent, policy) = doors.agent_with(project, "worker", &[]).await;
        let scope = format!("project:{project}");
        let list = async || {
            doors
                .tool(
                    &agent,
                    "muster_list_tasks",
                    json!({"project_id": project.to_string()}),
                )
                .await
        };
        assert_eq!(
            refused(&list().await)["pairs"][0]["layer"],
            Value::Null,
            "a blank policy grants nothing"
        );
        doors
            .grant(policy, LayerName::Global, "projects_read", &scope, "allow")
            .await;
        done(&list().await);
        let edit = |layer| policies::Edit {
            policy,
            layer,
            revision: None,
        };
        policies::save_empty(&doors.app, doors.ada(), edit(LayerName::Task))
            .await
            .unwrap();
        assert_eq!(
            refused(&list().await)["pairs"][0]["layer"],
            "task",
            "an empty layer denies everything"
        );
        policies::clear_layer(&doors.app, doors.ada(), edit(LayerName::Task))
            .await
            .unwrap();
        done(&list().await);
        doors
            .grant(policy, LayerName::Project, "projects_read", &scope, "deny")
            .await;
        let denied = refused(&list().await);
        assert_eq!(
            (&denied["code"], &denied["pairs"][0]["layer"]),
            (&json!("refused_denied"), &json!("project"))
        );
        doors
            .grant(policy, LayerName::Project, "projects_read", &scope, "allow")
            .await;
        done(&list().await);

        // A fork of a fork; its upper layers are the root's, read at each call.
        policies::fork(&doors.app, doors.ada(), policy, None, "child", None)
            .await
            .unwrap();
        let policies::Chosen::Own(child) = policies::find(&doors.app, doors.ada(), "child").await.unwrap()
        else {
            panic!()
        };
        policies::fork(
            &doors.app,
            doors.ada(),
            child.id,
            None,
            "grandchild",
            Some(agent.task),
        )
        .await
        .unwrap();
        done(&list().await);
        doors
            .revoke(policy, LayerName::Global, "projects_read", &scope)
            .await;
        assert_eq!(code(&list().await), "refused_not_granted");

        let somebody = doors.somebody().await;
        doors
            .grant(policy, LayerName::Global, "projects_read", &scope, "ask")
            .await;
        let waiting = doors.waiting(
            &agent,
            1,
            "muster_list_tasks",
            json!({"project_id": project.to_string()}),
        );
        doors.parked(1).await;
        waiting.hang_up();
        doors.parked(0).await;
        somebody.leave().await.unwrap();
    });
}
