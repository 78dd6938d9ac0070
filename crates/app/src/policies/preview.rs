//! What an edit of a policy would change, before it is saved. Never stores anything.

use muster_core::Fault;
use muster_core::ids::{OwnerId, PolicyId, ProjectId};
use muster_policy::{
    Action, Effect, Grant, Layer, LayerName, Policy, Preset, Scope, Standing, dead_rules, effective,
    may_author,
};
use muster_store::Tx;
use serde::Serialize;

use super::edit::{Edit, scope_of, scope_of_a_grant, told};
use super::load;
use super::preset::expand;
use super::view::{self, Dependents, ShownLayer};
use super::{PolicyError, sql};
use crate::App;
use crate::resources::{self, ResourceRef, Resources};

/// An edit of one layer that is only being considered. Words are read as those of the edit itself are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A preset in the place of the layer.
    Preset {
        /// Its name.
        preset: String,
        /// On whose resources.
        project: ProjectId,
    },
    /// A triple more, or another effect for one.
    Grant {
        /// The action.
        action: String,
        /// `any`, or a kind and an id or a name.
        scope: String,
        /// The effect.
        effect: String,
    },
    /// A triple less.
    Revoke {
        /// The action.
        action: String,
        /// The scope of the triple.
        scope: String,
    },
    /// No layer: it would inherit.
    Clear,
    /// A layer without grants: it would deny everything.
    Empty,
}

/// A line of what a caller gets that the edit would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The action.
    pub action: &'static str,
    /// On what.
    pub resource: ResourceRef,
    /// What a call gets now: `allow`, `ask`, `not_granted` or `deny`.
    pub before: &'static str,
    /// What it would get.
    pub after: &'static str,
}

/// What an edit would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The revision that this was worked out for.
    pub revision: i64,
    /// The layer as it would be, its dead grants marked.
    pub layer: ShownLayer,
    /// What of the result would change, over every action and every existing resource.
    pub changes: Vec<Changed>,
    /// Whom it would change for.
    pub dependents: Dependents,
}

/// Works out what an edit would change, in one snapshot.
///
/// # Errors
/// [`PolicyError`], as the edit itself.
pub async fn what_would_change(
    app: &App,
    owner: OwnerId,
    policy: PolicyId,
    layer: LayerName,
    change: Change,
) -> Result<Preview, PolicyError> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let found = load::by_id(tx, policy).await?;
                may_author(found.parent.is_some(), layer)?;
                let before = load::in_force(tx, policy).await?;
                let resources = resources::all(tx).await?;
                let new = layer_after(tx, &resources, before.layer(layer), change).await?;
                let after = before.with(layer, new);
                let shown = view::layers(&after, &resources);
                Ok(Preview {
                    revision: found.revision,
                    layer: match layer {
                        LayerName::Global => shown.global,
                        LayerName::Project => shown.project,
                        LayerName::Task => shown.task,
                    },
                    changes: changes(&before, &after, &resources),
                    dependents: view::dependents(tx, policy).await?,
                })
            })
        })
        .await
}

async fn layer_after(
    tx: &mut Tx,
    resources: &Resources,
    layer: &Layer,
    change: Change,
) -> Result<Layer, PolicyError> {
    match change {
        Change::Preset { preset, project } => {
            let preset: Preset = preset.parse()?;
            let (layer, _) = expand(tx, preset, project).await?;
            Ok(layer)
        }
        Change::Grant {
            action,
            scope,
            effect,
        } => {
            let action: Action = action.parse()?;
            let effect: Effect = effect.parse()?;
            let grant = Grant {
                action,
                scope: scope_of(resources, &scope)?,
                effect,
            };
            grant.check()?;
            Ok(layer.with(grant)?)
        }
        Change::Revoke { action, scope } => {
            let action: Action = action.parse()?;
            let scope = scope_of_a_grant(resources, layer, action, &scope)?;
            layer
                .without(action, &scope)
                .map_err(|invalid| told(resources, invalid))
        }
        Change::Clear => Ok(Layer::absent()),
        Change::Empty => Ok(Layer::empty()),
    }
}

/// The rows of the result that differ. Both tables have the same rows in the same order.
fn changes(before: &Policy, after: &Policy, resources: &Resources) -> Vec<Changed> {
    let rows = |policy| effective(Standing::Under(policy), resources.live());
    rows(before)
        .into_iter()
        .zip(rows(after))
        .filter(|(was, would)| was.call != would.call)
        .map(|(was, would)| Changed {
            action: was.action.as_str(),
            resource: resources.named(was.target.resource()),
            before: was.call.as_str(),
            after: would.call.as_str(),
        })
        .collect()
}

/// How many grants that a new one took the effect of are named one by one.
const NAMED: usize = 3;

/// What whoever just made a grant should know of it: why it can never fire, that it fires for nothing yet, and which grants of other layers
/// fire no more because of it. Nothing of a grant that only adds.
///
/// # Errors
/// [`PolicyError`].
pub async fn remarks(
    app: &App,
    owner: OwnerId,
    edit: Edit,
    action: &str,
    scope: &str,
) -> Result<Vec<String>, PolicyError> {
    let (action, scope) = (action.to_owned(), scope.to_owned());
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let action: Action = action.parse()?;
                let resources = resources::all(tx).await?;
                let policy = load::in_force(tx, edit.policy).await?;
                let scope = scope_of_a_grant(&resources, policy.layer(edit.layer), action, &scope)?;
                let told = |grant: &Grant| {
                    let on = grant.scope.told(&|resource| resources.name(resource));
                    format!("{} on {on}", grant.action)
                };
                let without = policy.layer(edit.layer).without(action, &scope)?;
                // A layer that this grant alone makes count did not count before.
                let without = if without.grants().is_empty() { Layer::absent() } else { without };
                let before = policy.with(edit.layer, without);
                let was_dead = dead_rules(&before, resources.live());
                let (own, others): (Vec<_>, Vec<_>) = dead_rules(&policy, resources.live())
                    .into_iter()
                    .filter(|rule| {
                        !was_dead.iter().any(|was| was.layer == rule.layer && was.grant == rule.grant)
                    })
                    .partition(|rule| {
                        rule.layer == edit.layer && rule.grant.action == action && rule.grant.scope == scope
                    });
                let mut all: Vec<String> = own
                    .iter()
                    .map(|dead| format!("{} can never fire: {}", told(dead.grant), dead.why))
                    .collect();
                let some = |target: &muster_policy::Target| action.takes(target.resource().kind());
                if all.is_empty() && scope == Scope::Any && !resources.live().iter().any(some) {
                    all.push(format!(
                        "nothing is registered yet that {action} is about, so it fires only for what comes later"
                    ));
                }
                all.extend(others.iter().take(NAMED).map(|dead| {
                    let layer = dead.layer;
                    format!(
                        "with it {} of the {layer} layer can fire no more: {}",
                        told(dead.grant),
                        dead.why
                    )
                }));
                if others.len() > NAMED {
                    let more = others.len() - NAMED;
                    all.push(format!("so can {more} more; muster policy show names them"));
                }
                Ok(all)
            })
        })
        .await
}

/// A preset as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PresetLine {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
}

/// Every preset.
#[must_use]
pub fn presets() -> Vec<PresetLine> {
    Preset::ALL
        .iter()
        .map(|preset| PresetLine {
            name: preset.as_str(),
            description: preset.description(),
        })
        .collect()
}

/// A resource that a grant can name, for a form that offers them.
///
/// # Errors
/// A fault.
pub async fn nameable(app: &App, owner: OwnerId) -> Result<Vec<ResourceRef>, Fault> {
    let resources = resources::list(&app.db, owner).await?;
    Ok(resources
        .live()
        .iter()
        .map(|target| resources.named(target.resource()))
        .collect())
}

/// Whether any policy of the owner's has a grant of `ask`.
///
/// # Errors
/// A fault.
pub(crate) async fn any_ask(tx: &mut Tx) -> Result<bool, Fault> {
    Ok(tx.number(&sql::ASKS, ()).await? > 0)
}
