//! Runs of agents on tasks: queued, and taken back. Never starts one.

use muster_core::ids::{HostId, OwnerId, RunId, TaskId};
use muster_core::text::{Label, TaskBody};
use muster_store::Topic;
use serde_json::json;

use super::list::{Run, RunRow};
use super::{By, RunState, TaskError, sql};
use crate::audit::{self, Event, Subject};
use crate::{App, RESOURCES};

/// What a run is to be.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// Where; `None` for wherever there is room.
    pub host: Option<HostId>,
    /// As which profile.
    pub profile: Option<Label>,
    /// What the agent is told besides the task.
    pub prompt: Option<TaskBody>,
}

/// Queues a run of an open task, under the task's policy.
///
/// # Errors
/// [`TaskError::NotFound`], [`TaskError::Closed`], [`TaskError::NoHost`], or a fault.
pub async fn spawn(app: &App, owner: OwnerId, by: By, task: TaskId, new: NewRun) -> Result<Run, TaskError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let stands: Option<(String, i64)> = tx.optional(&sql::STANDS, (task,)).await?;
                stands.ok_or(TaskError::NotFound)?;
                if let Some(host) = new.host {
                    let known: Option<(i64,)> = tx.optional(&sql::HOST, (host,)).await?;
                    known.ok_or(TaskError::NoHost)?;
                }
                let args = (
                    task,
                    new.host,
                    new.profile.map(Label::into_string),
                    new.prompt.map(TaskBody::into_string),
                    by.to_string(),
                    now,
                );
                let queued: Option<(i64,)> = tx.optional(&sql::INSERT_RUN, args).await?;
                let run = RunId::new(queued.ok_or(TaskError::Closed)?.0);
                let event = Event {
                    name: "task.spawn",
                    actor: by.to_string(),
                    subject: Subject::Task(task),
                    data: json!({"run": run.to_string(), "host": new.host.map(|host| host.to_string())}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Owner(owner));
                Ok(Run {
                    id: run,
                    task,
                    state: RunState::Queued,
                })
            })
        })
        .await
}

/// Takes a queued run back.
///
/// # Errors
/// [`TaskError::NoRun`], [`TaskError::NotQueued`], or a fault.
pub async fn cancel_run(app: &App, owner: OwnerId, by: By, run: RunId) -> Result<Run, TaskError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let cancelled: Option<(i64,)> = tx.optional(&sql::CANCEL_RUN, (run, now)).await?;
                let Some((task,)) = cancelled else {
                    let there: Option<RunRow> = tx.optional(&sql::RUN, (run,)).await?;
                    return Err(there.map_or(TaskError::NoRun, |_| TaskError::NotQueued));
                };
                let task = TaskId::new(task);
                let event = Event {
                    name: "task.cancel_run",
                    actor: by.to_string(),
                    subject: Subject::Task(task),
                    data: json!({"run": run.to_string()}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Owner(owner));
                Ok(Run {
                    id: run,
                    task,
                    state: RunState::Cancelled,
                })
            })
        })
        .await
}
