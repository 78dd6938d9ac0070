//! Making tasks: by hand, and from a ticket, once. Never makes one without a policy but by its owner's own word.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{IntegrationId, OwnerId, PolicyId, ProjectId, TaskId};
use muster_core::text::{TaskBody, TaskTitle};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::{By, Task, TaskError, TicketKey, list, sql};
use crate::audit::{self, Event, Subject};
use crate::{App, RESOURCES};

/// Which policy a new task gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyChoice {
    /// The one its project gives to new tasks; the built-in one, which grants nothing, where there is none.
    Default,
    /// The built-in one, which grants nothing.
    Closed,
    /// This one.
    Policy(PolicyId),
    /// None at all: nothing of it is restricted.
    Unscoped,
}

/// A new task, its fields already checked.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Where it belongs.
    pub project: ProjectId,
    /// Its title.
    pub title: TaskTitle,
    /// Its text.
    pub body: TaskBody,
    /// Its policy.
    pub policy: PolicyChoice,
}

/// A ticket that becomes a task.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// Whose forge it lies at.
    pub integration: IntegrationId,
    /// Its key there.
    pub key: TicketKey,
    /// Its title.
    pub title: TaskTitle,
    /// Its text.
    pub body: TaskBody,
}

/// Adds a task.
///
/// # Errors
/// [`TaskError::NoProject`], [`TaskError::NoPolicy`]; [`TaskError::PolicyNotYours`] for an agent that chooses; a fault.
pub async fn add(app: &App, owner: OwnerId, by: By, new: NewTask) -> Result<Task, TaskError> {
    if matches!(by, By::Agent(_)) && new.policy != PolicyChoice::Default {
        return Err(TaskError::PolicyNotYours);
    }
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let id = insert(tx, now, by, &new, None).await?;
                tx.wake(Topic::Owner(owner));
                list::of(tx, id).await
            })
        })
        .await
}

/// Makes a task of a ticket, under the project's policy for new tasks. The same ticket in the same project is made a task once: afterwards
/// the task that is there is answered as it is, closed or not, and `false`.
///
/// # Errors
/// [`TaskError::NoProject`], [`TaskError::NoIntegration`], or a fault.
pub async fn import(
    app: &App,
    owner: OwnerId,
    by: By,
    project: ProjectId,
    ticket: Ticket,
) -> Result<(Task, bool), TaskError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let Ticket {
                    integration,
                    key,
                    title,
                    body,
                } = ticket;
                let known: Option<(i64,)> = tx.optional(&sql::INTEGRATION, (integration,)).await?;
                known.ok_or(TaskError::NoIntegration)?;
                let imported: Option<(i64,)> = tx
                    .optional(&sql::IMPORTED, (project, integration, key.as_str()))
                    .await?;
                if let Some((id,)) = imported {
                    return Ok((list::of(tx, TaskId::new(id)).await?, false));
                }
                let new = NewTask {
                    project,
                    title,
                    body,
                    policy: PolicyChoice::Default,
                };
                let id = insert(tx, now, by, &new, Some((integration, &key))).await?;
                tx.wake(Topic::Owner(owner));
                Ok((list::of(tx, id).await?, true))
            })
        })
        .await
}

/// Stores a task with its audit row.
async fn insert(
    tx: &mut Tx,
    now: Time,
    by: By,
    new: &NewTask,
    source: Option<(IntegrationId, &TicketKey)>,
) -> Result<TaskId, TaskError> {
    let project: Option<(Option<i64>,)> = tx.optional(&sql::PROJECT, (new.project,)).await?;
    let (default,) = project.ok_or(TaskError::NoProject)?;
    let policy = match new.policy {
        PolicyChoice::Default => default.map(PolicyId::new),
        PolicyChoice::Policy(policy) => Some(policy),
        PolicyChoice::Closed | PolicyChoice::Unscoped => None,
    };
    let unscoped = new.policy == PolicyChoice::Unscoped;
    let (integration, key) = source.unzip();
    let inserted = tx
        .number(
            &sql::INSERT,
            (
                new.project,
                new.title.as_str(),
                new.body.as_str(),
                policy,
                unscoped,
                integration,
                key.map(TicketKey::as_str),
                by.to_string(),
                now,
            ),
        )
        .await;
    let id = TaskId::new(inserted.map_err(no_policy)?);
    let data = json!({
        "project": new.project.to_string(),
        "policy": policy.map(|policy| policy.to_string()),
        "unscoped": unscoped,
        "ticket": key.map(TicketKey::as_str),
    });
    let event = Event {
        name: "task.add",
        actor: by.to_string(),
        subject: Subject::Task(id),
        data,
    };
    audit::record(tx, now, event).await?;
    Ok(id)
}

/// All else that a key of the row could miss was looked up in the same transaction and cannot go meanwhile.
fn no_policy(fault: Fault) -> TaskError {
    match fault.constraint() {
        Some(_) => TaskError::NoPolicy,
        None => TaskError::Fault(fault),
    }
}
