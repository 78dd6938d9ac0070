//! Moving a task's status, closing it, opening it again. Never closes one without ending what waits for it.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{OwnerId, ProjectId, TaskId};
use muster_core::text::Detail;
use muster_store::{Topic, Tx};
use serde_json::{Value, json};

use super::state::{self, Mover, Step};
use super::{By, Task, TaskError, TaskStatus, list, sql};
use crate::access;
use crate::audit::{self, Event, Subject};
use crate::{App, RESOURCES};

/// Sets a task's status. An owner may set every one; an agent moves between those of an open task, and neither closes nor opens one this way.
/// A status that it has already changes nothing.
///
/// # Errors
/// [`TaskError::NotFound`], [`TaskError::Status`]; [`TaskError::ProjectRemoved`] where opening it again would put an open task into a removed
/// project; a fault.
pub async fn set_status(
    app: &App,
    owner: OwnerId,
    by: By,
    task: TaskId,
    to: TaskStatus,
) -> Result<Task, TaskError> {
    let mover = match by {
        By::Owner => Mover::Owner,
        By::Agent(_) => Mover::AgentMoving,
    };
    set(app, owner, by, mover, task, to, None).await
}

/// Closes a task: its queued runs are cancelled and its parked asks withdrawn. A closed one stays as it is.
///
/// # Errors
/// [`TaskError::NotFound`], or a fault.
pub async fn close(app: &App, owner: OwnerId, by: By, task: TaskId) -> Result<Task, TaskError> {
    close_because(app, owner, by, task, None).await
}

/// The same with a reason, which the audit log keeps. Outside text.
///
/// # Errors
/// As [`close`].
pub async fn close_because(
    app: &App,
    owner: OwnerId,
    by: By,
    task: TaskId,
    reason: Option<Detail>,
) -> Result<Task, TaskError> {
    let mover = match by {
        By::Owner => Mover::Owner,
        By::Agent(_) => Mover::AgentClosing,
    };
    set(app, owner, by, mover, task, TaskStatus::Closed, reason).await
}

async fn set(
    app: &App,
    owner: OwnerId,
    by: By,
    mover: Mover,
    task: TaskId,
    to: TaskStatus,
    reason: Option<Detail>,
) -> Result<Task, TaskError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let row: Option<(String, i64)> = tx.optional(&sql::STANDS, (task,)).await?;
                let (from, project) = row.ok_or(TaskError::NotFound)?;
                let from = list::status(task.get(), &from)?;
                let step = state::step(from, to, mover)?;
                if step == Step::Reopens {
                    let project = ProjectId::new(project);
                    let live: Option<(Option<i64>,)> = tx.optional(&sql::PROJECT, (project,)).await?;
                    live.ok_or(TaskError::ProjectRemoved)?;
                }
                if step != Step::Stays {
                    let closed_at = (to == TaskStatus::Closed).then_some(now);
                    tx.run(&sql::SET_STATUS, (task, to.as_str(), closed_at)).await?;
                    let (name, data) = if step == Step::Closes {
                        ("task.close", ended(tx, task, now, reason.as_ref()).await?)
                    } else {
                        (
                            "task.set_status",
                            json!({"from": from.as_str(), "to": to.as_str()}),
                        )
                    };
                    let event = Event {
                        name,
                        actor: by.to_string(),
                        subject: Subject::Task(task),
                        data,
                    };
                    audit::record(tx, now, event).await?;
                    tx.wake(Topic::Owner(owner));
                }
                list::of(tx, task).await
            })
        })
        .await
}

/// Ends what waits for a task that is closed; what that was, for the audit row.
async fn ended(tx: &mut Tx, task: TaskId, now: Time, reason: Option<&Detail>) -> Result<Value, Fault> {
    let runs: Vec<(i64,)> = tx.all(&sql::CANCEL_RUNS, (task, now)).await?;
    let asks = access::task_closed(tx, task, now).await?;
    let runs: Vec<String> = runs.iter().map(|(id,)| id.to_string()).collect();
    let mut data = json!({"cancelled_runs": runs, "withdrawn_asks": asks});
    if let (Some(reason), Some(data)) = (reason, data.as_object_mut()) {
        data.insert("reason".to_owned(), json!(reason.as_str()));
    }
    Ok(data)
}
