//! The acts on whole policies: made, forked, put over a task, deleted. Never changes a layer that is there.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{OwnerId, PolicyId, TaskId};
use muster_policy::{Layer, LayerName};
use muster_store::Tx;
use serde_json::json;

use super::edit::{about, held, owner_event, replace, wake};
use super::load::{self, Chosen, Found, Subjects};
use super::view::{self, Dependents};
use super::{PolicyError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

/// A fork just made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked {
    /// The child.
    pub id: PolicyId,
}

/// Whether a text has the shape of a name of a policy.
///
/// # Errors
/// [`PolicyError::Name`].
pub(super) fn name_of(text: &str) -> Result<String, PolicyError> {
    let first = text.bytes().next();
    let valid = (1..=64).contains(&text.len())
        && first.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
        && !text.bytes().all(|b| b.is_ascii_digit());
    match (valid, text) {
        (true, load::CLOSED) => Err(PolicyError::NameTaken),
        (true, text) => Ok(text.to_owned()),
        (false, _) => Err(PolicyError::Name),
    }
}

/// The unique name, as each engine names what refused a second one.
pub(super) fn name_taken(fault: Fault) -> PolicyError {
    match fault.constraint() {
        Some("policies_name" | "policies.owner_id, policies.name") => PolicyError::NameTaken,
        _ => PolicyError::Fault(fault),
    }
}

/// Makes a policy with no layers, which grants nothing yet.
///
/// # Errors
/// [`PolicyError::Name`] or [`PolicyError::NameTaken`].
pub async fn create(app: &App, owner: OwnerId, name: &str) -> Result<PolicyId, PolicyError> {
    let (name, now) = (name_of(name)?, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let none = None::<PolicyId>;
                let id = tx
                    .number(&sql::INSERT, (name.as_str(), none, none, now))
                    .await
                    .map_err(name_taken)?;
                let id = PolicyId::new(id);
                let found = load::by_id(tx, id).await?;
                audit::record(
                    tx,
                    now,
                    owner_event("policy.create", id, about(&found, 1, json!({}))),
                )
                .await?;
                wake(tx);
                Ok(id)
            })
        })
        .await
}

/// Makes a child of a policy with a copy of its task layer as it is now; the upper two are read from the root whenever the child is
/// resolved. The parent stays as it is, revision included. With a task, that is repointed in the same step.
///
/// # Errors
/// [`PolicyError`].
pub async fn fork(
    app: &App,
    owner: OwnerId,
    policy: PolicyId,
    revision: Option<i64>,
    name: &str,
    task: Option<TaskId>,
) -> Result<Forked, PolicyError> {
    let (name, now) = (name_of(name)?, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let parent = held(tx, policy, revision).await?;
                let layer = load::in_force(tx, policy).await?.layer(LayerName::Task).clone();
                let id = child(tx, &parent, &name, &layer, now).await?;
                if let Some(task) = task {
                    repoint(tx, task, Some(id), now).await?;
                }
                Ok(Forked { id })
            })
        })
        .await
}

/// Stores a child with this task layer, absent or authored.
pub(super) async fn child(
    tx: &mut Tx,
    parent: &Found,
    name: &str,
    layer: &Layer,
    now: Time,
) -> Result<PolicyId, PolicyError> {
    let root = parent.root.unwrap_or(parent.id);
    let id = tx
        .number(&sql::INSERT, (name, Some(parent.id), Some(root), now))
        .await
        .map_err(name_taken)?;
    let id = PolicyId::new(id);
    if *layer != Layer::absent() {
        replace(tx, id, LayerName::Task, layer, now).await?;
    }
    let found = load::by_id(tx, id).await?;
    let more = json!({"parent": Subjects::of(parent)});
    audit::record(tx, now, owner_event("policy.fork", id, about(&found, 1, more))).await?;
    wake(tx);
    Ok(id)
}

pub(super) async fn repoint(
    tx: &mut Tx,
    task: TaskId,
    policy: Option<PolicyId>,
    now: Time,
) -> Result<(), PolicyError> {
    if tx.run(&sql::ATTACH, (task, policy)).await? != 1 {
        return Err(PolicyError::NoSuchTask);
    }
    let policy = match policy {
        None => Subjects::closed(),
        Some(id) => Subjects::of(&load::by_id(tx, id).await?),
    };
    let event = Event::by_owner("policy.attach", Subject::Task(task), json!({"policy": policy}));
    audit::record(tx, now, event).await?;
    wake(tx);
    Ok(())
}

/// Puts a task under a policy; it holds for the next call of the task's agents.
///
/// # Errors
/// [`PolicyError`].
pub async fn attach(
    app: &App,
    owner: OwnerId,
    chosen: Chosen,
    revision: Option<i64>,
    task: TaskId,
) -> Result<(), PolicyError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                match chosen {
                    Chosen::Closed => match revision {
                        // The built-in policy has one revision, which never changes.
                        Some(given) if given != 0 => Err(PolicyError::StaleRevision { given, current: 0 }),
                        _ => repoint(tx, task, None, now).await,
                    },
                    Chosen::Own(found) => {
                        // Held until this is stored: a deletion that began first has taken it, one that comes later finds the task.
                        let found = held(tx, found.id, revision).await?;
                        repoint(tx, task, Some(found.id), now).await
                    }
                }
            })
        })
        .await
}

/// The revision of a policy, held until the transaction ends; 0 for the built-in one, nothing where there is none.
///
/// # Errors
/// A fault.
pub(crate) async fn revision(tx: &mut Tx, policy: Option<PolicyId>) -> Result<Option<i64>, Fault> {
    let Some(id) = policy else {
        // The built-in policy has one revision, which never changes.
        return Ok(Some(0));
    };
    match load::for_edit(tx, id).await {
        Ok(found) => Ok(Some(found.revision)),
        Err(PolicyError::Fault(fault)) => Err(fault),
        Err(_) => Ok(None),
    }
}

/// Deletes a policy that nothing resolves through any more. A refusal is audited too.
///
/// # Errors
/// [`PolicyError::InUse`] with what depends on it; every pointer stays whole then.
pub async fn delete(
    app: &App,
    owner: OwnerId,
    policy: PolicyId,
    revision: Option<i64>,
) -> Result<(), PolicyError> {
    let now = app.clock.now();
    let refused: Option<Dependents> = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = held(tx, policy, revision).await?;
                let dependents = view::dependents(tx, policy).await?;
                if !dependents.is_empty() {
                    let more = json!({"dependents": dependents});
                    let data = about(&found, found.revision, more);
                    audit::record(tx, now, owner_event("policy.delete_refused", policy, data)).await?;
                    return Ok(Some(dependents));
                }
                tx.run(&sql::DELETE_GRANTS, (policy,)).await?;
                tx.run(&sql::DELETE_LAYERS, (policy,)).await?;
                // What was attached in between is kept by the foreign keys, and then this fails as a whole.
                tx.run(&sql::DELETE, (policy,)).await?;
                let data = about(&found, found.revision, json!({}));
                audit::record(tx, now, owner_event("policy.delete", policy, data)).await?;
                wake(tx);
                Ok::<_, PolicyError>(None)
            })
        })
        .await?;
    match refused {
        None => Ok(()),
        Some(dependents) => Err(PolicyError::InUse(Box::new(dependents))),
    }
}
