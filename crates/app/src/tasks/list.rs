//! Tasks as they are shown. Never changes one.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{IntegrationId, OwnerId, PolicyId, ProjectId, RunId, TaskId, WorktreeId};
use muster_store::Tx;

use super::{RunState, TaskError, TaskStatus, Worktree, sql};
use crate::App;
use crate::named::Named;

/// What decides about the calls of a task's agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskPolicy {
    /// The built-in policy, which has no layers and grants nothing.
    Closed,
    /// No policy at all: nothing of it is restricted. It comes of an owner's own choice alone.
    Unscoped,
    /// This policy.
    Policy {
        /// Its id.
        id: PolicyId,
        /// Its name.
        name: String,
        /// Its revision now.
        revision: i64,
    },
}

/// The ticket that a task was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Whose forge it lies at.
    pub integration: IntegrationId,
    /// `OWNER/NAME#NUMBER`.
    pub key: String,
}

/// A run of an agent on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The task.
    pub task: TaskId,
    /// Where it stands.
    pub state: RunState,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its title. Outside text.
    pub title: String,
    /// Its text, outside text too. `None` in a list.
    pub body: Option<String>,
    /// Where it stands.
    pub status: TaskStatus,
    /// Its project, by the name that it has or had last.
    pub project: Named<ProjectId>,
    /// What decides about its agents' calls.
    pub policy: TaskPolicy,
    /// Its git worktree.
    pub worktree: Option<Worktree>,
    /// Its runs, oldest first.
    pub runs: Vec<Run>,
    /// The ticket it was made from.
    pub source: Option<Source>,
    /// Who made it: `owner`, or `agent:` and the token's id.
    pub created_by: String,
    /// When.
    pub created_at: Time,
    /// When it was closed.
    pub closed_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    title: String,
    body: Option<String>,
    status: String,
    project_id: i64,
    project_name: String,
    policy_id: Option<i64>,
    policy_name: Option<String>,
    policy_revision: Option<i64>,
    unscoped: bool,
    worktree_id: Option<i64>,
    worktree_path: Option<String>,
    worktree_branch: Option<String>,
    worktree_base: Option<String>,
    source_integration_id: Option<i64>,
    source_key: Option<String>,
    created_by: String,
    created_at: i64,
    closed_at: Option<i64>,
}

impl Row {
    fn policy(&self) -> Result<TaskPolicy, Fault> {
        match (
            self.policy_id,
            &self.policy_name,
            self.policy_revision,
            self.unscoped,
        ) {
            (Some(id), Some(name), Some(revision), false) => Ok(TaskPolicy::Policy {
                id: PolicyId::new(id),
                name: name.clone(),
                revision,
            }),
            (None, None, None, true) => Ok(TaskPolicy::Unscoped),
            (None, None, None, false) => Ok(TaskPolicy::Closed),
            _ => Err(Fault::contradiction(
                "tasks",
                self.id,
                "its policy does not fit together",
            )),
        }
    }

    fn worktree(&self) -> Option<Worktree> {
        Some(Worktree {
            id: WorktreeId::new(self.worktree_id?),
            path: self.worktree_path.clone()?,
            branch: self.worktree_branch.clone()?,
            base: self.worktree_base.clone()?,
        })
    }

    fn task(self, runs: &[Run]) -> Result<Task, Fault> {
        let id = TaskId::new(self.id);
        Ok(Task {
            id,
            policy: self.policy()?,
            worktree: self.worktree(),
            status: status(self.id, &self.status)?,
            title: self.title,
            body: self.body,
            project: Named {
                id: ProjectId::new(self.project_id),
                name: self.project_name,
            },
            runs: runs.iter().filter(|run| run.task == id).cloned().collect(),
            source: self
                .source_integration_id
                .zip(self.source_key)
                .map(|(integration, key)| Source {
                    integration: IntegrationId::new(integration),
                    key,
                }),
            created_by: self.created_by,
            created_at: Time::from_micros(self.created_at),
            closed_at: self.closed_at.map(Time::from_micros),
        })
    }
}

/// Reads a stored status.
pub(super) fn status(task: i64, text: &str) -> Result<TaskStatus, Fault> {
    TaskStatus::parse(text).ok_or_else(|| Fault::contradiction("tasks", task, "its status is no status"))
}

#[derive(sqlx::FromRow)]
pub(super) struct RunRow {
    pub(super) id: i64,
    task_id: i64,
    state: String,
}

impl TryFrom<RunRow> for Run {
    type Error = Fault;

    fn try_from(row: RunRow) -> Result<Self, Fault> {
        let state = RunState::parse(&row.state)
            .ok_or_else(|| Fault::contradiction("runs", row.id, "its state is no state"))?;
        Ok(Self {
            id: RunId::new(row.id),
            task: TaskId::new(row.task_id),
            state,
        })
    }
}

async fn runs(tx: &mut Tx, task: i64, project: i64) -> Result<Vec<Run>, Fault> {
    let rows: Vec<RunRow> = tx.all(&sql::RUNS, (task, project)).await?;
    rows.into_iter().map(Run::try_from).collect()
}

/// The owner's tasks, or a project's, oldest first, closed ones too, without their bodies.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId, project: Option<ProjectId>) -> Result<Vec<Task>, Fault> {
    let project = project.map_or(0, ProjectId::get);
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let rows: Vec<Row> = tx.all(&sql::LIST, (project,)).await?;
                let mut runs = runs(tx, 0, project).await?;
                // Stable, so that each task's stay in order; a task then finds its own without looking at all.
                runs.sort_by_key(|run| run.task);
                rows.into_iter()
                    .map(|row| {
                        let first = runs.partition_point(|run| run.task.get() < row.id);
                        let end = runs.partition_point(|run| run.task.get() <= row.id);
                        row.task(runs.get(first..end).unwrap_or_default())
                    })
                    .collect()
            })
        })
        .await
}

/// A task.
///
/// # Errors
/// [`TaskError::NotFound`], or a fault.
pub async fn find(app: &App, owner: OwnerId, task: TaskId) -> Result<Task, TaskError> {
    app.db
        .read(owner, move |tx| Box::pin(async move { of(tx, task).await }))
        .await
}

pub(super) async fn of(tx: &mut Tx, task: TaskId) -> Result<Task, TaskError> {
    let row: Option<Row> = tx.optional(&sql::FIND, (task,)).await?;
    let row = row.ok_or(TaskError::NotFound)?;
    let runs = runs(tx, task.get(), 0).await?;
    Ok(row.task(&runs)?)
}
