//! Reading policies from the store, freshly each time. Never takes a row it does not understand for a missing one: what cannot be read grants nothing.

use std::collections::HashMap;

use muster_core::Fault;
use muster_core::ids::{OwnerId, PolicyId, TaskId};
use muster_policy::{Grant, Layer, LayerName, Policy, Scope, Standing};
use muster_store::Tx;

use super::{PolicyError, sql};
use crate::App;
use crate::named::Word;

/// A policy's own row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: PolicyId,
    /// Its name.
    pub name: String,
    /// The policy it was forked from.
    pub parent: Option<PolicyId>,
    /// The policy whose upper layers it has.
    pub root: Option<PolicyId>,
    /// Raised by one by each edit.
    pub revision: i64,
}

/// What a word for a policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// A policy of the owner's.
    Own(Found),
    /// The built-in policy without layers, which grants nothing.
    Closed,
}

#[derive(sqlx::FromRow)]
pub(super) struct PolicyRow {
    id: i64,
    name: String,
    parent_id: Option<i64>,
    root_id: Option<i64>,
    revision: i64,
}

impl From<PolicyRow> for Found {
    fn from(row: PolicyRow) -> Self {
        Self {
            id: PolicyId::new(row.id),
            name: row.name,
            parent: row.parent_id.map(PolicyId::new),
            root: row.root_id.map(PolicyId::new),
            revision: row.revision,
        }
    }
}

/// An owner's policies, oldest first.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Found>, Fault> {
    let rows: Vec<PolicyRow> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    Ok(rows.into_iter().map(Found::from).collect())
}

/// What a word names: an id, then a name, then the built-in policy.
///
/// # Errors
/// [`PolicyError::NotFound`].
pub async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Chosen, PolicyError> {
    let word = word.to_owned();
    app.db
        .read(owner, move |tx| Box::pin(async move { find_in(tx, &word).await }))
        .await
}

pub(super) async fn find_in(tx: &mut Tx, word: &str) -> Result<Chosen, PolicyError> {
    let word = Word::of(word);
    if word.id > 0 {
        let row: Option<PolicyRow> = tx.optional(&sql::BY_ID, (word.id,)).await?;
        return row
            .map(|row| Chosen::Own(row.into()))
            .ok_or(PolicyError::NotFound);
    }
    if word.name == CLOSED {
        return Ok(Chosen::Closed);
    }
    let row: Option<PolicyRow> = tx.optional(&sql::BY_NAME, (word.name,)).await?;
    row.map(|row| Chosen::Own(row.into()))
        .ok_or(PolicyError::NotFound)
}

/// The name and id of the built-in policy.
pub(super) const CLOSED: &str = "closed";

pub(super) async fn by_id(tx: &mut Tx, id: PolicyId) -> Result<Found, PolicyError> {
    let row: Option<PolicyRow> = tx.optional(&sql::BY_ID, (id,)).await?;
    row.map(Found::from).ok_or(PolicyError::NotFound)
}

pub(super) async fn for_edit(tx: &mut Tx, id: PolicyId) -> Result<Found, PolicyError> {
    let row: Option<PolicyRow> = tx.optional(&sql::FOR_EDIT, (id,)).await?;
    row.map(Found::from).ok_or(PolicyError::NotFound)
}

#[derive(sqlx::FromRow)]
struct InForce {
    layer_id: i64,
    layer: String,
    root_id: Option<i64>,
    root_there: Option<i64>,
    grant_id: Option<i64>,
    action: Option<String>,
    scope_kind: Option<String>,
    scope: Option<String>,
    effect: Option<String>,
}

fn unreadable(table: &'static str, id: i64, error: &muster_policy::Invalid) -> Fault {
    Fault::contradiction(table, id, "it cannot be read as what it should be").because(error.to_string())
}

/// The layers in force for a policy now: of a fork its own task layer and its root's other two.
///
/// # Errors
/// A fault, also when a stored word is none there is: the caller must refuse then.
pub(super) async fn in_force(tx: &mut Tx, id: PolicyId) -> Result<Policy, Fault> {
    let rows: Vec<InForce> = tx.all(&sql::IN_FORCE, (id,)).await?;
    let mut layers: HashMap<LayerName, Vec<Grant>> = HashMap::new();
    for row in rows {
        if row.root_id != row.root_there {
            // Without the root's layers the fork's own would reach further than they were written for.
            return Err(Fault::contradiction(
                "policies",
                id.get(),
                "the policy whose upper layers it has does not exist",
            ));
        }
        let name: LayerName = row
            .layer
            .parse()
            .map_err(|error| unreadable("policy_layers", row.layer_id, &error))?;
        let grants = layers.entry(name).or_default();
        let Some(grant_id) = row.grant_id else {
            continue;
        };
        let (Some(action), Some(kind), Some(scope), Some(effect)) =
            (row.action, row.scope_kind, row.scope, row.effect)
        else {
            return Err(Fault::contradiction(
                "grants",
                grant_id,
                "a part of it is missing",
            ));
        };
        let broken = |error| unreadable("grants", grant_id, &error);
        if kind == "any" && !scope.is_empty() {
            return Err(Fault::contradiction(
                "grants",
                grant_id,
                "its scope is any and names something",
            ));
        }
        grants.push(Grant {
            action: action.parse().map_err(broken)?,
            scope: Scope::from_parts(&kind, (kind != "any").then_some(scope.as_str())).map_err(broken)?,
            effect: effect.parse().map_err(broken)?,
        });
    }
    let mut layer = |name| match layers.remove(&name) {
        None => Ok(Layer::absent()),
        Some(grants) => Layer::authored(grants).map_err(|error| unreadable("policies", id.get(), &error)),
    };
    Ok(Policy::new(
        layer(LayerName::Global)?,
        layer(LayerName::Project)?,
        layer(LayerName::Task)?,
    ))
}

/// A policy's own layer with its row, if it is authored.
pub(super) async fn own_layer(tx: &mut Tx, id: PolicyId, name: LayerName) -> Result<Option<i64>, Fault> {
    let rows: Vec<(i64, String)> = tx.all(&sql::LAYERS, (id,)).await?;
    Ok(rows
        .into_iter()
        .find(|(_, layer)| layer == name.as_str())
        .map(|(id, _)| id))
}

/// What governs a caller.
#[derive(Debug, Clone)]
pub(crate) enum Governing {
    /// These layers.
    Policy {
        /// Whose they are; `None` for the built-in policy.
        found: Option<Subjects>,
        /// The layers.
        policy: Policy,
    },
    /// Nothing.
    Unscoped,
}

/// A policy as audit rows and explanations name it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Subjects {
    /// Its id; `closed` for the built-in one.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its revision; 0 for the built-in one.
    pub revision: i64,
}

impl Subjects {
    pub(super) fn of(found: &Found) -> Self {
        Self {
            id: found.id.to_string(),
            name: found.name.clone(),
            revision: found.revision,
        }
    }

    /// The built-in policy.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            id: CLOSED.to_owned(),
            name: CLOSED.to_owned(),
            revision: 0,
        }
    }
}

impl Governing {
    pub(super) fn closed() -> Self {
        Self::Policy {
            found: None,
            policy: Policy::closed(),
        }
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        match self {
            Self::Policy { policy, .. } => Standing::Under(policy),
            Self::Unscoped => Standing::Unscoped,
        }
    }

    /// The policy as it is named, nothing when the caller is unscoped.
    pub(crate) fn subject(&self) -> Option<Subjects> {
        match self {
            Self::Policy { found, .. } => Some(found.clone().unwrap_or_else(Subjects::closed)),
            Self::Unscoped => None,
        }
    }
}

/// A task with what governs its agents.
#[derive(Debug, Clone)]
pub(crate) struct OfTask {
    pub(crate) title: String,
    pub(crate) governing: Governing,
}

#[derive(sqlx::FromRow)]
struct TaskRow {
    #[sqlx(rename = "id")]
    _id: i64,
    title: String,
    policy_id: Option<i64>,
    unscoped: bool,
    policy_name: Option<String>,
    policy_revision: Option<i64>,
}

/// What governs the agents of a task, read now; `None` when there is no such task.
///
/// # Errors
/// A fault; the caller must refuse then.
pub(crate) async fn standing_of_task(tx: &mut Tx, task: TaskId) -> Result<Option<OfTask>, Fault> {
    let Some(row) = tx.optional::<TaskRow>(&sql::OF_TASK, (task,)).await? else {
        return Ok(None);
    };
    let governing = match (row.policy_id, row.unscoped) {
        (Some(_), true) => {
            return Err(Fault::contradiction(
                "tasks",
                task.get(),
                "it is unscoped and has a policy",
            ));
        }
        (None, true) => Governing::Unscoped,
        (None, false) => Governing::closed(),
        (Some(id), false) => {
            let (Some(name), Some(revision)) = (row.policy_name, row.policy_revision) else {
                return Err(Fault::contradiction(
                    "tasks",
                    task.get(),
                    "its policy does not exist",
                ));
            };
            Governing::Policy {
                found: Some(Subjects {
                    id: id.to_string(),
                    name,
                    revision,
                }),
                policy: in_force(tx, PolicyId::new(id)).await?,
            }
        }
    };
    Ok(Some(OfTask {
        title: row.title,
        governing,
    }))
}

/// What a policy makes of its callers.
///
/// # Errors
/// [`PolicyError::NotFound`].
pub(super) async fn governing(tx: &mut Tx, chosen: &Chosen) -> Result<Governing, PolicyError> {
    match chosen {
        Chosen::Closed => Ok(Governing::closed()),
        Chosen::Own(found) => Ok(Governing::Policy {
            found: Some(Subjects::of(found)),
            policy: in_force(tx, found.id).await?,
        }),
    }
}
