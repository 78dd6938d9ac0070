//! Agents' tools over `/mcp`: what each charges, and what it leaves alone when it is refused.

use muster_app::tasks::{self, PolicyChoice, TaskStatus};
use muster_app::{policies, projects};
use muster_core::ids::TaskId;
use muster_core::text::Slug;
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::agent_kit::{Agent, code, done, message, refused};
use super::kit::{Doors, add_owner, doors};

pub(crate) async fn listed(doors: &Doors, token: &str) -> Vec<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = doors.send(message(token, &body)).await;
    answer.json()["result"]["tools"].as_array().unwrap().clone()
}

/// A world with two of everything, of which an agent is granted the first.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) policy: muster_core::ids::PolicyId,
    /// By the word of its kind.
    pub(crate) mine: Vec<(&'static str, String)>,
    pub(crate) others: Vec<(&'static str, String)>,
    pub(crate) task: TaskId,
    other_task: TaskId,
}

impl World {
    pub(crate) async fn new(doors: &Doors) -> Self {
        let (one, two) = (doors.project("one", None).await, doors.project("two", None).await);
        let (h1, h2) = (doors.host("tower").await, doors.host("laptop").await);
        let policy = doors.policy("the-policy", &[]).await;
        let own = doors.task_of(one, "own", PolicyChoice::Policy(policy)).await;
        let agent = doors.agent_on(own, "worker").await;
        let task = doors.task_of(one, "first", PolicyChoice::Closed).await;
        let other_task = doors.task_of(two, "second", PolicyChoice::Closed).await;
        let w1 = doors.worktree(task, "/srv/one/worktree").await;
        let w2 = doors.worktree(other_task, "/srv/two/worktree").await;
        let both = |kind, a: String, b: String| ((kind, a), (kind, b));
        let pairs = [
            both("project", one.to_string(), two.to_string()),
            both("host", h1.to_string(), h2.to_string()),
            both("worktree", w1.to_string(), w2.to_string()),
        ];
        let (mine, others) = pairs.into_iter().unzip();
        Self {
            agent,
            policy,
            mine,
            others,
            task,
            other_task,
        }
    }

    pub(crate) fn id<'a>(list: &'a [(&'static str, String)], kind: &str) -> &'a str {
        &list.iter().find(|(known, _)| *known == kind).unwrap().1
    }
}

/// Each tool that names one resource: its arguments on a project and a task, the action, and the kind of resource it charges for a task with
/// a worktree.
fn charging(project: &str, task: TaskId) -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let task = task.to_string();
    vec![
        (
            "muster_list_tasks",
            json!({"project_id": project}),
            "projects_read",
            "project",
        ),
        (
            "muster_get_task",
            json!({"task_id": task}),
            "projects_read",
            "project",
        ),
        (
            "muster_create_task",
            json!({"project_id": project, "title": "made"}),
            "tasks_write",
            "project",
        ),
        (
            "muster_spawn_task",
            json!({"task_id": task}),
            "tasks_write",
            "worktree",
        ),
        (
            "muster_set_task_status",
            json!({"task_id": task, "status": "in_progress"}),
            "tasks_write",
            "worktree",
        ),
        (
            "muster_get_worktree",
            json!({"task_id": task}),
            "worktree_read",
            "worktree",
        ),
        // Last: afterwards nothing more can be done with the task.
        (
            "muster_close_task",
            json!({"task_id": task, "reason": "done"}),
            "tasks_close",
            "worktree",
        ),
    ]
}

// spec: POL-002 POL-003 POL-007..POL-009 POL-014..POL-017 POL-019 POL-032 DBA-039..DBA-045 DBA-052 DBA-053 AUDIT-001 AUDIT-005
#[test]
fn each_tool_runs_under_the_grant_that_its_description_names_and_under_no_other() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        // The first use of a token is itself noted.
        let descriptions = listed(&doors, &world.agent.token).await;
        let project = World::id(&world.mine, "project").to_owned();
        for (tool, arguments, action, kind) in charging(&project, world.task) {
            let description = descriptions
                .iter()
                .find(|listed| listed["name"] == tool)
                .and_then(|listed| listed["description"].as_str())
                .unwrap();
            assert!(
                description.contains(&format!("Charges {action} ")) && description.contains(kind),
                "{tool}: {description}"
            );

            // Everything but what it charges; then that, on another resource; then that.
            let edit = policies::Edit {
                policy: world.policy,
                layer: LayerName::Global,
                revision: None,
            };
            policies::save_empty(&doors.app, doors.ada(), edit).await.unwrap();
            for other in [
                "projects_read",
                "tasks_write",
                "tasks_close",
                "worktree_read",
                "diff_read",
                "hosts_read",
                "db_read",
            ] {
                if other != action {
                    doors
                        .grant(world.policy, LayerName::Global, other, "any", "allow")
                        .await;
                }
            }
            let elsewhere = format!("{kind}:{}", World::id(&world.others, kind));
            doors
                .grant(world.policy, LayerName::Global, action, &elsewhere, "allow")
                .await;
            let before = (
                doors.titles(doors.ada()).await,
                doors.state_but(doors.ada(), "call").await,
            );
            let refusal = refused(&doors.tool(&world.agent, tool, arguments.clone()).await);
            assert_eq!(
                (
                    doors.titles(doors.ada()).await,
                    doors.state_but(doors.ada(), "call").await
                ),
                before,
                "{tool} did something"
            );
            assert_eq!(refusal["code"], "refused_not_granted", "{tool}");
            let pair = &refusal["pairs"][0];
            assert_eq!(
                (
                    &pair["action"],
                    &pair["resource"]["kind"],
                    &pair["resource"]["id"],
                    &pair["verdict"],
                    &pair["layer"]
                ),
                (
                    &json!(action),
                    &json!(kind),
                    &json!(World::id(&world.mine, kind)),
                    &json!("not_granted"),
                    &json!("global")
                ),
                "{tool}"
            );
            let sentence = refusal["message"].as_str().unwrap();
            assert!(
                sentence.contains(action) && sentence.contains("global layer"),
                "{sentence}"
            );
            let row = doors.last_call().await;
            assert_eq!(
                (row.tool.as_deref(), row.outcome.as_deref()),
                (Some(tool), Some("refused_not_granted"))
            );
            assert_eq!(row.data["pairs"], refusal["pairs"]);

            doors
                .revoke(world.policy, LayerName::Global, action, &elsewhere)
                .await;
            let here = format!("{kind}:{}", World::id(&world.mine, kind));
            doors
                .grant(world.policy, LayerName::Global, action, &here, "allow")
                .await;
            done(&doors.tool(&world.agent, tool, arguments).await);
            let row = doors.last_call().await;
            let agent = json!({"id": world.agent.id.to_string(), "label": "worker"});
            assert_eq!(
                (
                    row.outcome.as_deref(),
                    &row.data["agent"],
                    row.agent.as_deref(),
                    row.task.as_deref()
                ),
                (
                    Some("allowed"),
                    &agent,
                    Some(world.agent.id.to_string().as_str()),
                    Some(world.agent.task.to_string().as_str())
                )
            );
            assert_eq!(row.data["pairs"][0]["verdict"], "allow");
            let revision = policies::find(&doors.app, doors.ada(), "the-policy")
                .await
                .unwrap();
            let policies::Chosen::Own(found) = revision else {
                panic!()
            };
            assert_eq!(
                (&row.data["policy"]["id"], &row.data["policy"]["revision"]),
                (&json!(found.id.to_string()), &json!(found.revision))
            );
        }
        assert!(doors.titles(doors.ada()).await.contains(&"made".to_owned()));
        let closed = tasks::find(&doors.app, doors.ada(), world.task).await.unwrap();
        assert_eq!(closed.status, TaskStatus::Closed);
        let other = tasks::find(&doors.app, doors.ada(), world.other_task)
            .await
            .unwrap();
        assert_eq!(other.status, TaskStatus::Open);
    });
}

// spec: POL-034 POL-035 POL-050
#[test]
fn a_call_that_names_nothing_that_exists_is_refused_even_under_any_and_told_so_where_nothing_restricts() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        let grants = ["projects_read", "tasks_write", "tasks_close", "worktree_read"];
        for action in grants {
            doors
                .grant(world.policy, LayerName::Global, action, "any", "allow")
                .await;
        }
        let project = World::id(&world.mine, "project").parse().unwrap();
        let free = doors.task_of(project, "free", PolicyChoice::Unscoped).await;
        let free = doors.agent_on(free, "free").await;
        let bea = add_owner(&doors.app, "bea").await;
        let foreign = foreign_task(&doors, bea).await;
        for (tool, arguments, action, _) in charging(World::id(&world.mine, "project"), world.task) {
            let key = if arguments["task_id"].is_string() {
                "task_id"
            } else {
                "project_id"
            };
            let right = arguments[key].as_str().unwrap().to_owned();
            let name = if key == "task_id" {
                "first".to_owned()
            } else {
                "one".to_owned()
            };
            let wrong = [
                Value::Null,
                json!(""),
                json!("999999"),
                json!(format!("0{right}")),
                json!(format!("+{right}")),
                json!(format!(" {right}")),
                json!(name),
                json!("any"),
                json!("9223372036854775808"),
                json!("1\u{0}"),
                json!(foreign.to_string()),
            ];
            let mut answers = Vec::new();
            for id in wrong {
                // Only the other owner's task is a number that could be meant.
                if key == "project_id" && id == json!(foreign.to_string()) {
                    continue;
                }
                let mut arguments = arguments.clone();
                if id.is_null() {
                    arguments.as_object_mut().unwrap().remove(key);
                } else {
                    arguments[key] = id.clone();
                }
                let result = doors.tool(&world.agent, tool, arguments.clone()).await;
                let refusal = refused(&result);
                assert_eq!(
                    (&refusal["code"], &refusal["pairs"]),
                    (
                        &json!("refused_not_granted"),
                        &json!([{"action": action, "resource": null, "verdict": "not_granted", "layer": "global"}])
                    ),
                    "{tool} {id}"
                );
                answers.push(result);
                assert_eq!(
                    code(&doors.tool(&free, tool, arguments).await),
                    "not_found",
                    "{tool} {id}"
                );
            }
            assert!(
                answers.windows(2).all(|pair| pair[0] == pair[1]),
                "{tool}: all the same answer"
            );
        }
        let read = doors
            .tool(
                &free,
                "muster_get_task",
                json!({"task_id": world.other_task.to_string()}),
            )
            .await;
        assert_eq!(
            done(&read)["task"]["worktree"]["path"],
            "/srv/two/worktree",
            "nothing restricts it"
        );
        let whoami = done(&doors.tool(&free, "muster_whoami", json!({})).await);
        assert_eq!(
            (&whoami["unscoped"], &whoami["policy"]),
            (&json!(true), &Value::Null)
        );
    });
}

async fn foreign_task(doors: &Doors, owner: muster_core::ids::OwnerId) -> TaskId {
    let root = doors.muster.dir.path().join("foreign");
    std::fs::create_dir_all(&root).unwrap();
    let new = projects::NewProject {
        name: Slug::parse("name", "foreign").unwrap(),
        root,
        repo: None,
    };
    let project = projects::add(&doors.app, owner, new).await.unwrap().id;
    let new = tasks::NewTask {
        project,
        title: muster_core::text::TaskTitle::parse("title", "theirs").unwrap(),
        body: muster_core::text::TaskBody::parse("body", "").unwrap(),
        policy: PolicyChoice::Unscoped,
    };
    tasks::add(&doors.app, owner, tasks::By::Owner, new)
        .await
        .unwrap()
        .id
}

#[test]
fn arguments_of_another_kind_are_refused_before_anything_is_charged() {
    doors(|doors| async move {
        let world = World::new(&doors).await;
        let (project, task) = (
            World::id(&world.mine, "project").to_owned(),
            world.task.to_string(),
        );
        for action in ["projects_read", "tasks_write", "tasks_close", "worktree_read"] {
            doors
                .grant(world.policy, LayerName::Global, action, "any", "allow")
                .await;
        }
        let cases = [
            ("muster_list_tasks", json!({"project_id": 1})),
            (
                "muster_list_tasks",
                json!({"project_id": project, "status": "done"}),
            ),
            ("muster_list_tasks", json!({"project_id": project, "limit": 3})),
            ("muster_get_task", json!({"task_id": [task]})),
            ("muster_get_task", json!({"task_id": {"id": task}})),
            ("muster_create_task", json!({"project_id": project})),
            ("muster_create_task", json!({"project_id": project, "title": ""})),
            (
                "muster_create_task",
                json!({"project_id": project, "title": " \n"}),
            ),
            (
                "muster_create_task",
                json!({"project_id": project, "title": "a\0b"}),
            ),
            (
                "muster_create_task",
                json!({"project_id": project, "title": "x".repeat(301)}),
            ),
            (
                "muster_create_task",
                json!({"project_id": project, "title": "x", "body": "y".repeat(256 * 1024 + 1)}),
            ),
            (
                "muster_create_task",
                json!({"project_id": project, "title": "x", "policy": "admin"}),
            ),
            ("muster_create_task", json!({"project_id": project, "title": 7})),
            ("muster_set_task_status", json!({"task_id": task})),
            (
                "muster_set_task_status",
                json!({"task_id": task, "status": "OPEN"}),
            ),
            ("muster_spawn_task", json!({"task_id": task, "profile": ""})),
            ("muster_spawn_task", json!({"task_id": task, "host_id": 3})),
            (
                "muster_close_task",
                json!({"task_id": task, "reason": "x".repeat(4097)}),
            ),
            ("muster_whoami", json!({"verbose": true})),
            ("muster_list_projects", json!({"a\u{202e}b": 1})),
        ];
        // The first use of a token is itself noted.
        done(&doors.tool(&world.agent, "muster_whoami", json!({})).await);
        let before = (doors.titles(doors.ada()).await, doors.state(doors.ada()).await);
        for (tool, arguments) in cases {
            let error = refused(&doors.tool(&world.agent, tool, arguments.clone()).await);
            let shown: String = arguments.to_string().chars().take(80).collect();
            assert_eq!(
                (&error["code"], &error["pairs"]),
                (&json!("invalid_argument"), &json!([])),
                "{tool} {shown}"
            );
            let sentence = error["message"].as_str().unwrap();
            assert!(
                sentence.contains("nothing was") && !sentence.contains('\u{202e}'),
                "{sentence}"
            );
        }
        assert_eq!(
            (doors.titles(doors.ada()).await, doors.state(doors.ada()).await),
            before
        );
        // Null is the same as not given, and a host that does not exist is no host.
        let made = doors
            .tool(
                &world.agent,
                "muster_create_task",
                json!({"project_id": project, "title": "x", "body": null}),
            )
            .await;
        assert_eq!(done(&made)["task"]["body"], "");
        for host in ["999999", "tower", ""] {
            let none = doors
                .tool(
                    &world.agent,
                    "muster_spawn_task",
                    json!({"task_id": task, "host_id": host}),
                )
                .await;
            assert_eq!(code(&none), "not_found", "{host}");
        }
        assert!(
            tasks::find(&doors.app, doors.ada(), world.task)
                .await
                .unwrap()
                .runs
                .is_empty()
        );
    });
}
