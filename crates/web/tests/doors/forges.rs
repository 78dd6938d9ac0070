//! Pull requests, tickets and diffs through agents' tools, against a forge of this test's own and real git.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::extract::{Path as Parts, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use muster_app::tasks::{self, By, MadeWorktree, PolicyChoice};
use muster_core::ids::TaskId;
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::agent_kit::{code, done, refused};
use super::kit::doors;

/// What a forge was asked to make.
type Made = Arc<Mutex<Vec<(String, Value)>>>;

fn issue(repo: &str, number: u64, title: &str) -> Value {
    json!({
        "number": number, "title": title, "state": "open", "html_url": format!("https://forge.example/{repo}/issues/{number}"),
        "body": "It breaks.", "user": {"login": "ada"}, "labels": [{"name": "bug"}], "comments": 2, "pull_request": null
    })
}

async fn list(Parts((owner, name)): Parts<(String, String)>) -> Json<Value> {
    let repo = format!("{owner}/{name}");
    Json(json!([issue(&repo, 7, "first"), issue(&repo, 5, "second")]))
}

async fn fetch(
    Parts((owner, name, number)): Parts<(String, String, u64)>,
) -> Result<Json<Value>, http::StatusCode> {
    match number {
        7 => Ok(Json(issue(&format!("{owner}/{name}"), 7, "first"))),
        _ => Err(http::StatusCode::NOT_FOUND),
    }
}

async fn create(
    State(made): State<Made>,
    Parts((owner, name)): Parts<(String, String)>,
    Json(body): Json<Value>,
) -> (http::StatusCode, Json<Value>) {
    let repo = format!("{owner}/{name}");
    let row = issue(&repo, 8, body["title"].as_str().unwrap());
    made.lock().unwrap().push((format!("issue {repo}"), body));
    (http::StatusCode::CREATED, Json(row))
}

async fn pull(
    State(made): State<Made>,
    Parts((owner, name)): Parts<(String, String)>,
    Json(body): Json<Value>,
) -> (http::StatusCode, Json<Value>) {
    made.lock().unwrap().push((format!("pull {owner}/{name}"), body));
    let row = json!({"number": 4, "html_url": format!("https://forge.example/{owner}/{name}/pulls/4"), "state": "open"});
    (http::StatusCode::CREATED, Json(row))
}

/// A forge that speaks what Forgejo speaks.
async fn forge() -> (String, Made) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = Made::default();
    let router = Router::new()
        .route("/api/v1/repos/{owner}/{name}/issues", get(list).post(create))
        .route("/api/v1/repos/{owner}/{name}/issues/{number}", get(fetch))
        .route("/api/v1/repos/{owner}/{name}/pulls", post(pull))
        .with_state(made.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, made)
}

// spec: POL-022 POL-026..POL-028 DBA-047 DBA-049..DBA-051
#[test]
fn pull_requests_and_tickets_go_to_the_forge_under_their_grants_alone() {
    doors(|doors| async move {
        let (url, made) = forge().await;
        let hub = doors.integration("hub", "forgejo", &url).await;
        let other = doors.integration("other", "forgejo", &url).await;
        let shop = doors.project("shop", Some(("acme/shop", hub))).await;
        let site = doors.project("site", Some(("acme/site", hub))).await;
        let lab = doors.project("lab", Some(("acme/lab", other))).await;
        let (agent, policy) = doors.agent_with(shop, "worker", &[]).await;
        let task = doors.task_of(shop, "work", PolicyChoice::Closed).await;
        doors.worktree(task, "/srv/work").await;
        let elsewhere = doors.task_of(site, "elsewhere", PolicyChoice::Closed).await;
        doors.worktree(elsewhere, "/srv/elsewhere").await;
        let tool = async |tool: &str, arguments: Value| doors.tool(&agent, tool, arguments).await;
        let pr = |task: TaskId| json!({"task_id": task.to_string(), "title": "Faster", "draft": true});
        let tickets = |id: &dyn ToString| {
            let id = id.to_string();
            vec![
                (
                    "muster_list_issues",
                    "issues_read",
                    json!({"integration_id": id, "repo": "acme/shop"}),
                ),
                (
                    "muster_get_issue",
                    "issues_read",
                    json!({"integration_id": id, "key": "acme/shop#7"}),
                ),
                (
                    "muster_create_issue",
                    "issues_write",
                    json!({"integration_id": id, "title": "Slow", "repo": "acme/shop"}),
                ),
                (
                    "muster_import_issue",
                    "issues_write",
                    json!({"integration_id": id, "key": "acme/shop#7", "project_id": shop.to_string()}),
                ),
            ]
        };
        for (name, action, arguments) in tickets(&hub) {
            let error = refused(&tool(name, arguments.clone()).await);
            assert_eq!(
                (
                    &error["code"],
                    &error["pairs"][0]["action"],
                    &error["pairs"][0]["resource"]["name"]
                ),
                (&json!("refused_not_granted"), &json!(action), &json!("hub"))
            );
            let scope = format!("integration:{hub}");
            doors
                .grant(policy, LayerName::Global, action, &scope, "allow")
                .await;
            if name == "muster_import_issue" {
                assert_eq!(
                    code(&tool(name, arguments.clone()).await),
                    "not_found",
                    "the project may not be read"
                );
                doors
                    .grant(policy, LayerName::Global, "projects_read", "any", "allow")
                    .await;
            }
            let answer = done(&tool(name, arguments).await);
            match name {
                "muster_list_issues" => assert_eq!(
                    answer["issues"][0],
                    json!({"key": "acme/shop#7", "title": "first", "state": "open", "url": "https://forge.example/acme/shop/issues/7"})
                ),
                "muster_get_issue" => assert_eq!(
                    (
                        &answer["issue"]["body"],
                        &answer["issue"]["author"],
                        &answer["issue"]["labels"]
                    ),
                    (&json!("It breaks."), &json!("ada"), &json!(["bug"]))
                ),
                "muster_create_issue" => assert_eq!(answer["issue"]["key"], "acme/shop#8"),
                _ => {
                    assert_eq!(
                        (
                            &answer["created"],
                            &answer["task"]["title"],
                            &answer["task"]["body"]
                        ),
                        (&json!(true), &json!("first"), &json!("It breaks."))
                    );
                    let again = done(&tool(name, json!({"integration_id": hub.to_string(), "key": "acme/shop#7", "project_id": shop.to_string()})).await);
                    assert_eq!(
                        (&again["created"], &again["task"]["id"]),
                        (&json!(false), &answer["task"]["id"])
                    );
                    let id: TaskId = answer["task"]["id"].as_str().unwrap().parse().unwrap();
                    let stored = tasks::find(&doors.app, doors.ada(), id).await.unwrap();
                    assert_eq!(stored.source.unwrap().key, "acme/shop#7");
                }
            }
            doors.revoke(policy, LayerName::Global, action, &scope).await;
        }
        for (name, _, arguments) in tickets(&other) {
            assert_eq!(
                code(&tool(name, arguments).await),
                "refused_not_granted",
                "{name}"
            );
        }
        for action in ["issues_read", "issues_write"] {
            doors
                .grant(policy, LayerName::Global, action, "any", "allow")
                .await;
        }
        // Only repositories of projects that use the integration, and one that is named where there are several.
        for (name, arguments, word) in [
            (
                "muster_get_issue",
                json!({"integration_id": hub.to_string(), "key": "acme/lab#7"}),
                "not_found",
            ),
            (
                "muster_get_issue",
                json!({"integration_id": hub.to_string(), "key": "acme/shop#99"}),
                "not_found",
            ),
            (
                "muster_get_issue",
                json!({"integration_id": hub.to_string(), "key": "shop"}),
                "invalid_argument",
            ),
            (
                "muster_list_issues",
                json!({"integration_id": other.to_string(), "repo": "acme/shop"}),
                "not_found",
            ),
            (
                "muster_create_issue",
                json!({"integration_id": hub.to_string(), "title": "Slow"}),
                "invalid_argument",
            ),
            (
                "muster_import_issue",
                json!({"integration_id": hub.to_string(), "key": "acme/shop#7"}),
                "not_found",
            ),
            ("muster_list_issues", json!({}), "refused_not_granted"),
        ] {
            assert_eq!(
                code(&tool(name, arguments.clone()).await),
                word,
                "{name} {arguments}"
            );
        }
        let all = done(&tool("muster_list_issues", json!({"integration_id": hub.to_string()})).await);
        assert_eq!(all["issues"].as_array().unwrap().len(), 4, "both repositories");
        done(
            &tool(
                "muster_create_issue",
                json!({"integration_id": other.to_string(), "title": "Only one"}),
            )
            .await,
        );
        assert!(lab.get() > 0);

        assert_eq!(
            code(&tool("muster_open_pr", pr(task)).await),
            "refused_not_granted"
        );
        doors
            .grant(policy, LayerName::Global, "pr_write", "repo:acme/shop", "allow")
            .await;
        assert_eq!(
            done(&tool("muster_open_pr", pr(task)).await),
            json!({"pull_request": {"number": 4, "url": "https://forge.example/acme/shop/pulls/4"}})
        );
        let error = refused(&tool("muster_open_pr", pr(elsewhere)).await);
        assert_eq!(
            (&error["code"], &error["pairs"][0]["resource"]["id"]),
            (&json!("refused_not_granted"), &json!("acme/site"))
        );
        assert_eq!(
            code(&tool("muster_open_pr", pr(agent.task)).await),
            "not_found",
            "no branch"
        );
        let recorded = made.lock().unwrap().clone();
        let what: Vec<&str> = recorded.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(what, ["issue acme/shop", "issue acme/lab", "pull acme/shop"]);
        assert_eq!(
            recorded[2].1,
            json!({"title": "WIP: Faster", "body": "", "head": format!("muster/task-{task}"), "base": "main"})
        );
    });
}

fn git(folder: &Path, arguments: &[&str]) {
    let said = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.test"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
}

// spec: POL-019 POL-021 POL-032 DBA-045 DBA-046
#[test]
fn worktree_and_diff_are_read_each_under_its_own_grant() {
    doors(|doors| async move {
        let project = doors.project("shop", None).await;
        let root = doors.muster.dir.path().join("root-shop");
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(root.join("a.txt"), "one\n").unwrap();
        git(&root, &["add", "--all"]);
        git(&root, &["commit", "--quiet", "-m", "first"]);
        let (agent, policy) = doors.agent_with(project, "worker", &[]).await;
        let data = doors.app.settings.data_dir.clone();
        let mut ids = Vec::new();
        for title in ["mine", "sibling"] {
            let task = doors.task_of(project, title, PolicyChoice::Closed).await;
            let place = muster_worktree::Place {
                root: &root,
                data_dir: &data,
                task: task.get(),
            };
            let worktree = muster_worktree::ensure(place, None).unwrap();
            std::fs::write(worktree.path.join("b.txt"), "new\n").unwrap();
            let made = MadeWorktree {
                path: worktree.path.to_str().unwrap().to_owned(),
                branch: worktree.branch,
                base: worktree.base,
            };
            let noted = tasks::record_worktree(&doors.app, doors.ada(), By::Owner, task, made)
                .await
                .unwrap();
            ids.push((task, noted));
        }
        let (mine, worktree) = ids[0].clone();
        let ask = |task: TaskId| json!({"task_id": task.to_string()});
        let scope = format!("worktree:{}", worktree.id);
        let (get, diff) = ("muster_get_worktree", "muster_get_diff");
        for (action, open, shut) in [("worktree_read", get, diff), ("diff_read", diff, get)] {
            for tool in [get, diff] {
                assert_eq!(
                    code(&doors.tool(&agent, tool, ask(mine)).await),
                    "refused_not_granted"
                );
            }
            doors
                .grant(policy, LayerName::Global, action, &scope, "allow")
                .await;
            done(&doors.tool(&agent, open, ask(mine)).await);
            assert_eq!(
                code(&doors.tool(&agent, shut, ask(mine)).await),
                "refused_not_granted"
            );
            assert_eq!(
                code(&doors.tool(&agent, open, ask(ids[1].0)).await),
                "refused_not_granted",
                "a sibling's"
            );
            doors.revoke(policy, LayerName::Global, action, &scope).await;
        }
        for action in ["worktree_read", "diff_read"] {
            doors
                .grant(
                    policy,
                    LayerName::Global,
                    action,
                    &format!("project:{project}"),
                    "allow",
                )
                .await;
        }
        let shown = done(&doors.tool(&agent, get, ask(mine)).await)["worktree"].clone();
        assert_eq!(
            shown,
            json!({"id": worktree.id.to_string(), "path": worktree.path, "branch": format!("muster/task-{mine}"), "base": "main"})
        );
        assert!(Path::new(shown["path"].as_str().unwrap()).join("a.txt").exists());
        let read = done(&doors.tool(&agent, diff, ask(mine)).await);
        assert_eq!(
            (&read["files"], &read["truncated"]),
            (
                &json!([{"path": "b.txt", "old_path": null, "change": "added", "added": 1, "removed": 0}]),
                &json!(false)
            )
        );
        assert!(read["diff"].as_str().unwrap().contains("+new"), "{read}");
        let stat = done(
            &doors
                .tool(
                    &agent,
                    diff,
                    json!({"task_id": mine.to_string(), "stat": true, "path": "b.txt"}),
                )
                .await,
        );
        assert_eq!(
            (&stat["diff"], stat["files"].as_array().unwrap().len()),
            (&json!(""), 1)
        );
        let out = doors
            .tool(
                &agent,
                diff,
                json!({"task_id": mine.to_string(), "path": "../../etc"}),
            )
            .await;
        assert_eq!(code(&out), "invalid_argument");
        // A task without one names its project, and there is nothing to see.
        for tool in [get, diff] {
            assert_eq!(
                code(&doors.tool(&agent, tool, ask(agent.task)).await),
                "not_found"
            );
        }
    });
}

#[test]
fn a_repository_is_one_in_every_case_of_its_letters_and_is_spelled_as_its_project_does() {
    doors(|doors| async move {
        let (url, made) = forge().await;
        let hub = doors.integration("hub", "forgejo", &url).await;
        let shop = doors.project("shop", Some(("Acme/Shop", hub))).await;
        doors.project("again", Some(("acme/shop", hub))).await;
        let grants = [
            ("issues_read", "any", "allow"),
            ("issues_write", "any", "allow"),
            ("projects_read", "any", "allow"),
            ("pr_write", "repo:ACME/shop", "deny"),
        ];
        let (agent, _) = doors.agent_with(shop, "worker", &grants).await;
        let tool = async |tool: &str, arguments: Value| doors.tool(&agent, tool, arguments).await;
        let hub = hub.to_string();
        // One repository, so it need not be named; another case of it is it.
        for more in [json!({}), json!({"repo": "acme/SHOP"})] {
            let mut arguments = json!({"integration_id": hub, "title": "Slow"});
            arguments
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            done(&tool("muster_create_issue", arguments).await);
        }
        let asked: Vec<String> = made
            .lock()
            .unwrap()
            .iter()
            .map(|(what, _)| what.clone())
            .collect();
        assert_eq!(asked, ["issue Acme/Shop", "issue Acme/Shop"]);
        let listed = done(&tool("muster_list_issues", json!({"integration_id": hub})).await);
        assert_eq!(listed["issues"].as_array().unwrap().len(), 2, "listed once");
        done(
            &tool(
                "muster_get_issue",
                json!({"integration_id": hub, "key": "ACME/shop#7"}),
            )
            .await,
        );
        // One ticket becomes one task.
        let import = |key: &str| json!({"integration_id": hub, "key": key, "project_id": shop.to_string()});
        let first = done(&tool("muster_import_issue", import("acme/shop#7")).await);
        let second = done(&tool("muster_import_issue", import("ACME/SHOP#7")).await);
        assert_eq!(
            (&first["created"], &second["created"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(first["task"]["id"], second["task"]["id"]);
        // And the deny that was written in a third spelling meets the call.
        let task = doors.task_of(shop, "work", PolicyChoice::Closed).await;
        doors.worktree(task, "/srv/work").await;
        let pr = json!({"task_id": task.to_string(), "title": "Faster"});
        assert_eq!(code(&tool("muster_open_pr", pr).await), "refused_denied");
    });
}
