//! A task's git worktree: made, and noted. Never removes one, and never makes one for a closed task.

use muster_core::Fault;
use muster_core::ids::{OwnerId, TaskId, WorktreeId};
use muster_store::Topic;
use serde_json::json;

use super::{By, TaskError, TaskStatus, list, sql};
use crate::audit::{self, Event, Subject};
use crate::projects::{self, ProjectError};
use crate::{App, RESOURCES};

/// A task's git worktree, as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeWorktree {
    /// Its folder, an absolute path. Outside text.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// What the branch was made from.
    pub base: String,
}

/// A task's git worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its id.
    pub id: WorktreeId,
    /// Its folder, an absolute path. Outside text.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// What the branch was made from.
    pub base: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    path: String,
    branch: String,
    base: String,
}

/// Makes the git worktree of an open task in its project's repository, from the branch that the root stands on, and notes it. A task that has
/// one keeps it; where its folder is gone, it gets its branch back as it was left. A closed task's is shown and not made.
///
/// # Errors
/// [`TaskError::NotFound`], [`TaskError::Closed`], [`TaskError::Worktree`], or a fault.
pub async fn worktree(app: &App, owner: OwnerId, by: By, task: TaskId) -> Result<Worktree, TaskError> {
    let found = list::find(app, owner, task).await?;
    if found.status == TaskStatus::Closed {
        return found.worktree.ok_or(TaskError::Closed);
    }
    let root = projects::root(app, owner, found.project.id)
        .await
        .map_err(|error| match error {
            ProjectError::Fault(fault) => TaskError::Fault(fault),
            _ => TaskError::NoProject,
        })?;
    let settings = app.settings.clone();
    // It waits for git; no transaction is open meanwhile.
    let made = tokio::task::spawn_blocking(move || {
        let place = muster_worktree::Place {
            root: &root,
            data_dir: &settings.data_dir,
            task: task.get(),
        };
        muster_worktree::ensure(place, None)
    })
    .await
    .map_err(|error| Fault::other("making a worktree broke off").because(error))??;
    let path = made.path.into_os_string().into_string().map_err(|_| {
        Fault::other("the data folder's path is not UTF-8, so no worktree in it can be noted")
    })?;
    let made = MadeWorktree {
        path,
        branch: made.branch,
        base: made.base,
    };
    record_worktree(app, owner, by, task, made).await
}

/// Notes the worktree that was made for an open task. A task has one: when one is noted already, that one is answered and stays.
///
/// # Errors
/// [`TaskError::NotFound`], [`TaskError::Closed`], or a fault.
pub async fn record_worktree(
    app: &App,
    owner: OwnerId,
    by: By,
    task: TaskId,
    made: MadeWorktree,
) -> Result<Worktree, TaskError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let noted: Option<Row> = tx.optional(&sql::WORKTREE, (task,)).await?;
                if let Some(row) = noted {
                    return Ok(Worktree {
                        id: WorktreeId::new(row.id),
                        path: row.path,
                        branch: row.branch,
                        base: row.base,
                    });
                }
                let stands: Option<(String, i64)> = tx.optional(&sql::STANDS, (task,)).await?;
                let (status, _) = stands.ok_or(TaskError::NotFound)?;
                if list::status(task.get(), &status)? == TaskStatus::Closed {
                    return Err(TaskError::Closed);
                }
                let MadeWorktree { path, branch, base } = made;
                let args = (task, path.as_str(), branch.as_str(), base.as_str(), now);
                let id = WorktreeId::new(tx.number(&sql::INSERT_WORKTREE, args).await?);
                let event = Event {
                    name: "task.worktree",
                    actor: by.to_string(),
                    subject: Subject::Task(task),
                    data: json!({"worktree": id.to_string(), "branch": branch}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Owner(owner));
                Ok(Worktree {
                    id,
                    path,
                    branch,
                    base,
                })
            })
        })
        .await
}
