//! Agents' tools over `/mcp`: what each charges, what it answers, what it leaves alone when it is refused.

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
    policy: muster_core::ids::PolicyId,
    /// By the word of its kind.
    pub(crate) mine: Vec<(&'static str, String)>,
    others: Vec<(&'static str, String)>,
    task: TaskId,
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
