//! `muster task`. Never starts an agent.

use muster_app::App;
use muster_app::tasks::{
    self, By, NewRun, NewTask, PolicyChoice, Run, Task, TaskError, TaskPolicy, TaskStatus, Worktree,
};
use muster_core::ids::{OwnerId, TaskId};
use muster_core::text::{TaskBody, TaskTitle, terminal};
use serde_json::{Value, json};

use super::{field, offline, owner, project, shown};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

/// What a task without a policy is called, so that nobody takes it for a closed one.
const UNSCOPED: &str = "LEGACY-UNSCOPED";

pub(super) async fn run(config: &Config, command: cli::Task, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Task, json: bool) -> Result<(), Failure> {
    match command {
        cli::Task::Add {
            owner: whose,
            project,
            title,
            body,
            policy,
            unscoped,
        } => {
            let title = TaskTitle::parse("title", title).map_err(|e| field(&e))?;
            let body = TaskBody::parse("body", body).map_err(|e| field(&e))?;
            let owner = owner(app, &whose).await?;
            let project = project::find(app, owner, &project).await?.id;
            let policy = match policy {
                Some(word) => match project::policy(app, owner, &word).await? {
                    Some(policy) => PolicyChoice::Policy(policy),
                    None => PolicyChoice::Closed,
                },
                None if unscoped => PolicyChoice::Unscoped,
                None => PolicyChoice::Default,
            };
            let new = NewTask {
                project,
                title,
                body,
                policy,
            };
            let added = tasks::add(app, owner, By::Owner, new).await.map_err(refused)?;
            shown::made(json, &added.id.to_string(), || document(&added))
        }
        cli::Task::List {
            owner: whose,
            project,
        } => {
            let owner = owner(app, &whose).await?;
            let project = match project {
                Some(word) => Some(project::find(app, owner, &word).await?.id),
                None => None,
            };
            let all = tasks::list(app, owner, project).await?;
            shown::list(
                json,
                || all.iter().map(document).collect(),
                &["ID", "STATUS", "PROJECT", "POLICY", "TITLE"],
                || all.iter().map(row).collect(),
            )
        }
        cli::Task::Show { owner: whose, task } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &task).await?;
            if json {
                return output::document(&document(&found));
            }
            in_full(&found)
        }
        cli::Task::SetStatus {
            owner: whose,
            task,
            status,
        } => {
            let owner = owner(app, &whose).await?;
            let task = find(app, owner, &task).await?.id;
            let status = match status {
                cli::TaskStatus::Open => TaskStatus::Open,
                cli::TaskStatus::InProgress => TaskStatus::InProgress,
                cli::TaskStatus::ReadyForReview => TaskStatus::ReadyForReview,
                cli::TaskStatus::Closed => TaskStatus::Closed,
            };
            let moved = tasks::set_status(app, owner, By::Owner, task, status)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&moved))
        }
        cli::Task::Close { owner: whose, task } => {
            let owner = owner(app, &whose).await?;
            let task = find(app, owner, &task).await?.id;
            let closed = tasks::close(app, owner, By::Owner, task).await.map_err(refused)?;
            shown::changed(json, || document(&closed))
        }
        cli::Task::Worktree { owner: whose, task } => {
            let owner = owner(app, &whose).await?;
            let task = find(app, owner, &task).await?.id;
            let tree = tasks::worktree(app, owner, By::Owner, task)
                .await
                .map_err(refused)?;
            // A script enters the folder, so the path is printed as it is where that draws nothing on a terminal.
            shown::made(json, &terminal(&tree.path), || tree_document(&tree))
        }
        cli::Task::Spawn { owner: whose, task } => {
            let owner = owner(app, &whose).await?;
            let task = find(app, owner, &task).await?.id;
            let run = tasks::spawn(app, owner, By::Owner, task, NewRun::default())
                .await
                .map_err(refused)?;
            shown::made(json, &run.id.to_string(), || run_document(&run))
        }
        cli::Task::CancelRun { owner: whose, run } => {
            let owner = owner(app, &whose).await?;
            let run = run.parse().map_err(|_| refused(TaskError::NoRun))?;
            let run = tasks::cancel_run(app, owner, By::Owner, run)
                .await
                .map_err(refused)?;
            shown::changed(json, || run_document(&run))
        }
    }
}

/// The task that a word names. Titles are no names.
async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Task, Failure> {
    let task: TaskId = word.parse().map_err(|_| refused(TaskError::NotFound))?;
    tasks::find(app, owner, task).await.map_err(refused)
}

fn run_document(run: &Run) -> Value {
    json!({"id": run.id.to_string(), "state": run.state.as_str()})
}

fn tree_document(tree: &Worktree) -> Value {
    json!({"id": tree.id.to_string(), "path": tree.path, "branch": tree.branch, "base": tree.base})
}

/// What `show` prints; a list leaves the text out.
fn document(task: &Task) -> Value {
    let policy = match &task.policy {
        TaskPolicy::Closed => json!({"id": project::CLOSED, "name": project::CLOSED, "revision": 0}),
        TaskPolicy::Unscoped => Value::Null,
        TaskPolicy::Policy { id, name, revision } => {
            json!({"id": id.to_string(), "name": name, "revision": revision})
        }
    };
    let worktree = task.worktree.as_ref().map(tree_document);
    let mut shown = json!({"id": task.id.to_string(), "title": task.title});
    let rest = json!({
        "status": task.status.as_str(),
        "project": shown::resource("project", &task.project.id.to_string(), &task.project.name),
        "policy": policy,
        "unscoped": task.policy == TaskPolicy::Unscoped,
        "worktree": worktree,
        "runs": task.runs.iter().map(run_document).collect::<Vec<_>>(),
    });
    if let (Some(fields), Value::Object(rest)) = (shown.as_object_mut(), rest) {
        fields.extend(task.body.as_ref().map(|body| ("body".to_owned(), json!(body))));
        fields.extend(rest);
    }
    shown
}

fn policy(task: &Task) -> String {
    match &task.policy {
        TaskPolicy::Closed => project::CLOSED.to_owned(),
        TaskPolicy::Unscoped => UNSCOPED.to_owned(),
        TaskPolicy::Policy { name, .. } => name.clone(),
    }
}

fn row(task: &Task) -> Vec<String> {
    vec![
        task.id.to_string(),
        task.status.as_str().to_owned(),
        task.project.name.clone(),
        policy(task),
        task.title.clone(),
    ]
}

fn in_full(task: &Task) -> Result<(), Failure> {
    let policy = match &task.policy {
        TaskPolicy::Policy { revision, .. } => format!("{}, revision {revision}", policy(task)),
        TaskPolicy::Closed => format!("{} (grants nothing)", policy(task)),
        TaskPolicy::Unscoped => format!("{} (nothing is restricted)", policy(task)),
    };
    let mut rows = vec![
        ("id", task.id.to_string()),
        ("title", task.title.clone()),
        ("body", task.body.clone().unwrap_or_default()),
        ("status", task.status.as_str().to_owned()),
        ("project", task.project.name.clone()),
        ("policy", policy),
    ];
    if let Some(tree) = &task.worktree {
        rows.push(("worktree", tree.path.clone()));
        rows.push(("branch", format!("{} from {}", tree.branch, tree.base)));
    }
    for run in &task.runs {
        rows.push(("run", format!("{} {}", run.id, run.state.as_str())));
    }
    shown::fields(&rows)
}

fn refused(error: TaskError) -> Failure {
    let sentence = error.to_string();
    match error {
        TaskError::NotFound
        | TaskError::NoProject
        | TaskError::NoPolicy
        | TaskError::NoIntegration
        | TaskError::NoHost
        | TaskError::NoRun => Failure::refused("not_found", sentence),
        TaskError::Key => Failure::usage(sentence),
        TaskError::Status(_) | TaskError::PolicyNotYours => Failure::refused("refused", sentence),
        TaskError::Closed => Failure::refused("closed", sentence),
        TaskError::ProjectRemoved => Failure::refused("project_removed", sentence),
        TaskError::Worktree(_) => Failure::refused("worktree", sentence),
        TaskError::NotQueued => Failure::refused("not_queued", sentence),
        TaskError::Fault(fault) => fault.into(),
    }
}
