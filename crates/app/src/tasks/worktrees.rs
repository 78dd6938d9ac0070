//! Which git worktree a task has. Never runs git.

use muster_core::ids::{OwnerId, TaskId, WorktreeId};
use muster_store::Topic;
use serde_json::json;

use super::{By, TaskError, TaskStatus, list, sql};
use crate::audit::{self, Event, Subject};
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
