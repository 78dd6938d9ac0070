//! `/tasks` and `/tasks/{id}`: what there is to do, under which policy, and what its owner does about it. Never takes a task out of its policy.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::accounts::BrowserCaller;
use muster_app::policies::{self, PolicyError};
use muster_app::projects::{self, Project};
use muster_app::tasks::{
    self, By, NewTask, PolicyChoice, Run, RunState, Task, TaskError, TaskPolicy, TaskStatus,
};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{ProjectId, TaskId};
use muster_core::text::{TaskBody, TaskTitle};
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Asked, Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::refuse::{self, sentence};
use super::view::{self, Here, Shell, When, lines, one_line, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "tasks.html")]
pub(super) struct TasksPage {
    shell: Shell,
    shown: Option<Shown>,
    tasks: Vec<TaskView>,
    projects: Vec<(i64, String)>,
    /// The project that the list is about; 0 for all.
    project: i64,
    form: Form,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "task.html")]
pub(super) struct TaskPage {
    shell: Shell,
    shown: Option<Shown>,
    task: TaskView,
    body: String,
    worktree: Option<WorktreeView>,
    statuses: Vec<&'static str>,
    policies: Vec<(i64, String)>,
}

/// A task. What came from outside is already readable; the template escapes it.
#[derive(Debug, Clone)]
pub(super) struct TaskView {
    pub(super) id: i64,
    pub(super) title: String,
    pub(super) status: &'static str,
    pub(super) project: String,
    pub(super) project_id: i64,
    pub(super) policy: TaskPolicyView,
    runs: Vec<RunView>,
    source: Option<String>,
    created_by: String,
    created: When,
    closed: Option<When>,
}

/// What governs a task's agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaskPolicyView {
    Closed,
    Unscoped,
    Policy { id: i64, name: String, revision: i64 },
}

#[derive(Debug, Clone)]
struct RunView {
    id: i64,
    state: &'static str,
    queued: bool,
}

#[derive(Debug, Clone)]
struct WorktreeView {
    path: String,
    branch: String,
    base: String,
}

impl TaskView {
    pub(super) fn new(task: &Task, now: Time) -> Self {
        Self {
            id: task.id.get(),
            title: one_line(&task.title),
            status: task.status.as_str(),
            project: one_line(&task.project.name),
            project_id: task.project.id.get(),
            policy: match &task.policy {
                TaskPolicy::Closed => TaskPolicyView::Closed,
                TaskPolicy::Unscoped => TaskPolicyView::Unscoped,
                TaskPolicy::Policy { id, name, revision } => TaskPolicyView::Policy {
                    id: id.get(),
                    name: one_line(name),
                    revision: *revision,
                },
            },
            runs: task.runs.iter().map(run).collect(),
            source: task.source.as_ref().map(|source| one_line(&source.key)),
            created_by: one_line(&task.created_by),
            created: When::new(task.created_at, now),
            closed: When::maybe(task.closed_at, now),
        }
    }

    fn is_at(&self, status: &str) -> bool {
        self.status == status
    }

    fn is_closed(&self) -> bool {
        self.status == TaskStatus::Closed.as_str()
    }
}

fn run(run: &Run) -> RunView {
    RunView {
        id: run.id.get(),
        state: run.state.as_str(),
        queued: run.state == RunState::Queued,
    }
}

/// A new task, as it was typed.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    project: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: String,
}

/// An act on a task.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Act {
    #[serde(default)]
    act: String,
    #[serde(default)]
    status: String,
    /// A policy's id; empty for the built-in one.
    #[serde(default)]
    policy: String,
    #[serde(default)]
    run: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    project: String,
}

impl Which {
    /// The project, or nothing for an address that can name none.
    fn project(&self) -> Option<Option<ProjectId>> {
        match self.project.as_str() {
            "" | "0" => Some(None),
            text => text.parse().ok().map(Some),
        }
    }
}

pub(super) async fn list(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    let Some(project) = which.project() else {
        return Err(refuse::not_found(&headers));
    };
    let form = Form {
        project: which.project,
        ..Form::default()
    };
    let mut page = compose(&web, &caller, project, form).await?;
    page.shown = flash.take(caller.session, Place::Tasks, &opened);
    Ok(view::page(StatusCode::OK, &page))
}

async fn compose(
    web: &Web,
    caller: &BrowserCaller,
    project: Option<ProjectId>,
    form: Form,
) -> Result<TasksPage, Response> {
    let facts = async || -> Result<_, Fault> {
        Ok((
            tasks::list(&web.app, caller.owner, project).await?,
            projects::list(&web.app, caller.owner).await?,
        ))
    };
    let (tasks, projects) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let now = web.app.clock.now();
    // Those at work first, the newest of them at the top.
    let mut tasks: Vec<TaskView> = tasks.iter().rev().map(|task| TaskView::new(task, now)).collect();
    tasks.sort_by_key(TaskView::is_closed);
    Ok(TasksPage {
        shell: Shell::of(web, caller, Here::Tasks, "Tasks").await?,
        shown: None,
        tasks,
        projects: projects.iter().map(named).collect(),
        project: project.map_or(0, ProjectId::get),
        form,
        error: None,
    })
}

fn named(project: &Project) -> (i64, String) {
    (project.id.get(), one_line(&project.name))
}

pub(super) async fn add(
    State(web): State<Web>,
    Person(caller): Person,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    let refused = |error: TaskError| refuse::task(&error, refuse::TO_TASKS);
    let project: ProjectId = form.project.parse().map_err(|_| refused(TaskError::NoProject))?;
    let title = TaskTitle::parse("the title", form.title.trim());
    let body = TaskBody::parse("the text", form.body.replace("\r\n", "\n"));
    let (title, body) = match (title, body) {
        (Ok(title), Ok(body)) => (title, body),
        (Err(error), _) | (_, Err(error)) => {
            let mut page = compose(&web, &caller, None, form).await?;
            page.error = Some(sentence(&error.to_string()));
            return Ok(view::page(StatusCode::BAD_REQUEST, &page));
        }
    };
    let new = NewTask {
        project,
        title,
        body,
        policy: PolicyChoice::Default,
    };
    let task = tasks::add(&web.app, caller.owner, By::Owner, new)
        .await
        .map_err(refused)?;
    Ok(see_other(&format!("/tasks/{}", task.id)))
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
    Id(task): Id<TaskId>,
) -> Result<Response, Response> {
    let task = tasks::find(&web.app, caller.owner, task)
        .await
        .map_err(|error| refuse::task(&error, refuse::TO_TASKS))?;
    let policies = policies::list(&web.app, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let title = format!("Task {}: {}", task.id, one_line(&task.title));
    let page = TaskPage {
        shell: Shell::of(&web, &caller, Here::Tasks, title).await?,
        shown: flash.take(caller.session, Place::Tasks, &opened),
        body: task.body.as_deref().map(lines).unwrap_or_default(),
        worktree: task.worktree.as_ref().map(|worktree| WorktreeView {
            path: one_line(&worktree.path),
            branch: one_line(&worktree.branch),
            base: one_line(&worktree.base),
        }),
        statuses: TaskStatus::ALL.map(TaskStatus::as_str).to_vec(),
        policies: policies
            .iter()
            .map(|found| (found.id.get(), one_line(&found.name)))
            .collect(),
        task: TaskView::new(&task, web.app.clock.now()),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// Why an act on a task was refused.
enum Refused {
    Task(TaskError),
    Policy(PolicyError),
    /// There is no such act.
    Unreadable,
}

pub(super) async fn act(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(task): Id<TaskId>,
    Fields(form): Fields<Act>,
) -> Result<Response, Response> {
    let words = done(&web, &caller, task, &form)
        .await
        .map_err(|refused| match refused {
            Refused::Task(error) => refuse::task(&error, refuse::to_task(task)),
            Refused::Policy(error) => refuse::policy(&error, refuse::to_task(task)),
            Refused::Unreadable => refuse::unreadable(StatusCode::BAD_REQUEST),
        })?;
    flash.put(caller.session, Place::Tasks, Shown::Note(words));
    Ok(see_other(&format!("/tasks/{task}")))
}

async fn done(web: &Web, caller: &BrowserCaller, task: TaskId, form: &Act) -> Result<&'static str, Refused> {
    let (app, owner) = (&web.app, caller.owner);
    match form.act.as_str() {
        "status" => {
            let status = TaskStatus::parse(&form.status).ok_or(Refused::Unreadable)?;
            tasks::set_status(app, owner, By::Owner, task, status)
                .await
                .map_err(Refused::Task)?;
            Ok("The status is set.")
        }
        "close" => {
            tasks::close(app, owner, By::Owner, task)
                .await
                .map_err(Refused::Task)?;
            Ok("The task is closed: its queued runs are cancelled and its asks withdrawn.")
        }
        "attach" => {
            let word = if form.policy.is_empty() {
                "closed"
            } else {
                form.policy.as_str()
            };
            let chosen = policies::find(app, owner, word).await.map_err(Refused::Policy)?;
            policies::attach(app, owner, chosen, None, task)
                .await
                .map_err(Refused::Policy)?;
            Ok("The task is under this policy from the next call on.")
        }
        "cancel_run" => {
            let run = form.run.parse().map_err(|_| Refused::Unreadable)?;
            tasks::cancel_run(app, owner, By::Owner, run)
                .await
                .map_err(Refused::Task)?;
            Ok("The run is taken back.")
        }
        _ => Err(Refused::Unreadable),
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::super::tests::{HOSTILE, shell, when};
    use super::*;

    pub(in crate::pages) fn task(policy: TaskPolicyView, status: &'static str) -> TaskView {
        let run = |id, queued| RunView {
            id,
            state: "queued",
            queued,
        };
        TaskView {
            id: 7,
            title: HOSTILE.to_owned(),
            status,
            project: HOSTILE.to_owned(),
            project_id: 3,
            policy,
            runs: vec![run(1, true), run(2, false)],
            source: Some(HOSTILE.to_owned()),
            created_by: HOSTILE.to_owned(),
            created: when(),
            closed: (status == "closed").then(when),
        }
    }

    pub(in crate::pages) fn under_a_policy() -> TaskPolicyView {
        TaskPolicyView::Policy {
            id: 5,
            name: HOSTILE.to_owned(),
            revision: 2,
        }
    }

    impl TasksPage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let hostile = || HOSTILE.to_owned();
            let page = |tasks, error| Self {
                shell: shell(Here::Tasks),
                shown: Some(Shown::Note("done")),
                tasks,
                projects: vec![(3, hostile())],
                project: 3,
                form: Form {
                    project: hostile(),
                    title: hostile(),
                    body: hostile(),
                },
                error,
            };
            let closed = TaskView {
                id: 8,
                ..task(TaskPolicyView::Closed, "closed")
            };
            vec![
                page(vec![task(under_a_policy(), "open"), closed], Some(hostile())),
                Self {
                    projects: vec![],
                    ..page(vec![], None)
                },
            ]
        }
    }

    impl TaskPage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let hostile = || HOSTILE.to_owned();
            let page = |task, worktree| Self {
                shell: shell(Here::Tasks),
                shown: None,
                task,
                body: hostile(),
                worktree,
                statuses: TaskStatus::ALL.map(TaskStatus::as_str).to_vec(),
                policies: vec![(5, hostile())],
            };
            let worktree = WorktreeView {
                path: hostile(),
                branch: hostile(),
                base: hostile(),
            };
            vec![
                page(task(under_a_policy(), "open"), Some(worktree)),
                page(task(TaskPolicyView::Unscoped, "in_progress"), None),
                page(task(TaskPolicyView::Closed, "closed"), None),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::*;

    #[test]
    fn a_task_without_a_policy_is_called_legacy_unscoped_and_no_other_is() {
        let pages: Vec<String> = TaskPage::samples()
            .iter()
            .map(|page| page.render().unwrap())
            .collect();
        let loud: Vec<bool> = pages
            .iter()
            .map(|html| html.contains("LEGACY-UNSCOPED"))
            .collect();
        assert_eq!(loud, [false, true, false]);
        assert!(pages[2].contains("closed, the built-in policy that grants nothing"));
    }

    #[test]
    fn a_closed_task_is_not_closed_again() {
        let offers = |n: usize| {
            let html = TaskPage::samples().swap_remove(n).render().unwrap();
            html.contains("value=\"close\"")
        };
        assert!(offers(0) && !offers(2));
    }
}
