//! Tasks as agents read, make, move, close and spawn them. Never shows where a worktree lies without `worktree_read`.

use muster_app::resources::OfTask;
use muster_app::tasks::{
    self, By, NewRun, NewTask, PolicyChoice, StatusRefusal, Task, TaskError, TaskStatus, Worktree,
};
use muster_app::{access, resources};
use muster_core::ids::{HostId, ProjectId, TaskId};
use muster_core::text::{Detail, Label, TaskBody, TaskTitle};
use muster_policy::{Action, Effect, Pair, Permit, Resource, ScopeKind, Target};
use serde_json::{Value, json};

use super::answer::Failed;
use super::call::Calling;

type Answer = Result<Value, Failed>;

/// The task that a call names, if it exists.
pub(super) async fn named(call: &Calling<'_>) -> Result<Option<(TaskId, OfTask)>, Failed> {
    let Some(id) = call.arguments.id::<TaskId>("task_id") else {
        return Ok(None);
    };
    let found = resources::task(&call.app.db, call.caller.owner, id).await?;
    Ok(found.map(|of| (id, of)))
}

/// Charges an action on a task: on its worktree where the action takes one and the task has one, else on its project.
pub(super) async fn charged(call: &Calling<'_>, action: Action) -> Result<(Permit, TaskId), Failed> {
    let found = named(call).await?;
    let target = found.as_ref().map(|(_, of)| of.target(action).clone());
    let (permit, _) = call.charge(action, target, "task").await?;
    found
        .map(|(id, _)| (permit, id))
        .ok_or_else(|| Failed::missing("task"))
}

fn by(call: &Calling<'_>) -> By {
    By::Agent(call.caller.token)
}

/// A task as results show it.
pub(super) async fn shown(call: &Calling<'_>, task: &Task) -> Answer {
    let mut shown = json!({
        "id": task.id.to_string(),
        "title": task.title,
        "body": task.body,
        "status": task.status.as_str(),
        "project": Calling::shown(ScopeKind::Project, task.project.id, &task.project.name),
    });
    if let (Some(worktree), Some(shown)) = (&task.worktree, shown.as_object_mut()) {
        let target = Target::worktree(&worktree.id.to_string(), &task.project.id.to_string());
        let readable = match target {
            Ok(target) => {
                access::leaves(call.app, call.caller, Pair::new(Action::WorktreeRead, target)).await?
            }
            Err(_) => None,
        };
        // What asks is not shown beside something else: nobody was asked about it.
        if readable == Some(Effect::Allow) {
            let place = json!({"path": worktree.path, "branch": worktree.branch});
            shown.insert("worktree".to_owned(), place);
        }
    }
    Ok(shown)
}

fn status(call: &Calling<'_>) -> Option<TaskStatus> {
    call.arguments.text("status").and_then(TaskStatus::parse)
}

pub(super) async fn list(call: &Calling<'_>) -> Answer {
    let target = call.named(ScopeKind::Project, "project_id").await?;
    let (_, target) = call.charge(Action::ProjectsRead, target, "project").await?;
    let project = project_of(target.resource())?;
    let wanted = status(call);
    let all = tasks::list(call.app, call.caller.owner, Some(project)).await?;
    let shown: Vec<Value> = all
        .into_iter()
        .filter(|task| wanted.is_none_or(|wanted| task.status == wanted))
        .map(|task| json!({"id": task.id.to_string(), "title": task.title, "status": task.status.as_str()}))
        .collect();
    Ok(json!({ "tasks": shown }))
}

pub(super) fn project_of(resource: &Resource) -> Result<ProjectId, Failed> {
    resource.id().parse().map_err(|_| Failed::missing("project"))
}

pub(super) async fn get(call: &Calling<'_>) -> Answer {
    let (_, task) = charged(call, Action::ProjectsRead).await?;
    let task = tasks::find(call.app, call.caller.owner, task).await?;
    Ok(json!({"task": shown(call, &task).await?}))
}

pub(super) async fn create(call: &Calling<'_>) -> Answer {
    let title = TaskTitle::parse("title", call.arguments.text("title").unwrap_or_default())?;
    let body = TaskBody::parse("body", call.arguments.text("body").unwrap_or_default())?;
    let target = call.named(ScopeKind::Project, "project_id").await?;
    let (_, target) = call.charge(Action::TasksWrite, target, "project").await?;
    let new = NewTask {
        project: project_of(target.resource())?,
        title,
        body,
        policy: PolicyChoice::Default,
    };
    let task = tasks::add(call.app, call.caller.owner, by(call), new).await?;
    Ok(json!({"task": shown(call, &task).await?}))
}

pub(super) async fn spawn(call: &Calling<'_>) -> Answer {
    let profile = call.arguments.text("profile");
    let prompt = call.arguments.text("prompt");
    let new = NewRun {
        host: call.arguments.id::<HostId>("host_id"),
        profile: profile
            .map(|profile| Label::parse("profile", profile))
            .transpose()?,
        prompt: prompt
            .map(|prompt| TaskBody::parse("prompt", prompt))
            .transpose()?,
    };
    let names_nothing = call.arguments.text("host_id").is_some() && new.host.is_none();
    let (_, task) = charged(call, Action::TasksWrite).await?;
    if names_nothing {
        return Err(Failed::missing("host"));
    }
    let run = tasks::spawn(call.app, call.caller.owner, by(call), task, new).await?;
    Ok(json!({"run": {"id": run.id.to_string(), "state": run.state.as_str()}}))
}

pub(super) async fn set_status(call: &Calling<'_>) -> Answer {
    let to = match status(call) {
        None => {
            return Err(Failed::argument(
                "the argument status must be one of open, in_progress, ready_for_review",
            ));
        }
        // Before anything is charged: no grant of tasks_write makes it right.
        Some(TaskStatus::Closed) => return Err(TaskError::Status(StatusRefusal::ClosesByMove).into()),
        Some(to) => to,
    };
    let (_, task) = charged(call, Action::TasksWrite).await?;
    let task = tasks::set_status(call.app, call.caller.owner, by(call), task, to).await?;
    Ok(json!({"task": shown(call, &task).await?}))
}

pub(super) async fn close(call: &Calling<'_>) -> Answer {
    let reason = call.arguments.text("reason");
    let reason = reason.map(|reason| Detail::parse("reason", reason)).transpose()?;
    let (_, task) = charged(call, Action::TasksClose).await?;
    let task = tasks::close_because(call.app, call.caller.owner, by(call), task, reason).await?;
    Ok(json!({"task": shown(call, &task).await?}))
}

pub(super) async fn worktree(call: &Calling<'_>) -> Answer {
    let (permit, task) = charged(call, Action::WorktreeRead).await?;
    let worktree = worktree_of(call, &permit, Action::WorktreeRead, task).await?;
    Ok(json!({"worktree": {
        "id": worktree.id.to_string(),
        "path": worktree.path,
        "branch": worktree.branch,
        "base": worktree.base,
    }}))
}

/// A task's worktree, when it is what the call charged: one that was made after the decision was not.
pub(super) async fn worktree_of(
    call: &Calling<'_>,
    permit: &Permit,
    action: Action,
    task: TaskId,
) -> Result<Worktree, Failed> {
    let task = tasks::find(call.app, call.caller.owner, task).await?;
    task.worktree
        .filter(|worktree| {
            Resource::new(ScopeKind::Worktree, &worktree.id.to_string())
                .is_ok_and(|resource| permit.covers(action, &resource))
        })
        .ok_or_else(|| {
            Failed::new(
                "not_found",
                "the task has no worktree yet; your owner makes one with `muster task worktree`; nothing was done",
            )
        })
}
