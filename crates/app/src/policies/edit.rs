//! The acts on one layer of a policy. Never edits a policy without raising its revision and leaving an audit row in the same transaction.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{OwnerId, PolicyId};
use muster_policy::{Action, Effect, Grant, Invalid, Layer, LayerName, Resource, Scope, may_author};
use muster_store::{Topic, Tx};
use serde_json::{Value, json};

use super::load::{self, Found};
use super::{PolicyError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::resources::{self, Resources};

/// Which layer of which policy is edited.
#[derive(Debug, Clone, Copy)]
pub struct Edit {
    /// The policy.
    pub policy: PolicyId,
    /// Its layer.
    pub layer: LayerName,
    /// The revision that the edit was meant for; `None` edits whatever is there.
    pub revision: Option<i64>,
}

pub(super) fn owner_event(name: &'static str, policy: PolicyId, data: Value) -> Event {
    Event::by_owner(name, Subject::Policy(policy), data)
}

/// Names as the row of an act shows them: this policy after the act.
pub(super) fn about(found: &Found, revision: i64, more: Value) -> Value {
    let mut data = json!({"policy": {"id": found.id.to_string(), "name": found.name, "revision": revision}});
    if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
        data.extend(more);
    }
    data
}

/// Holds a policy for an act that was meant for one revision of it; `None` takes whatever is there.
pub(super) async fn held(tx: &mut Tx, policy: PolicyId, revision: Option<i64>) -> Result<Found, PolicyError> {
    at(load::for_edit(tx, policy).await?, revision)
}

/// The policy, unless an act was meant for another revision of it.
pub(super) fn at(found: Found, revision: Option<i64>) -> Result<Found, PolicyError> {
    match revision {
        Some(given) if given != found.revision => Err(PolicyError::StaleRevision {
            given,
            current: found.revision,
        }),
        _ => Ok(found),
    }
}

/// Opens a policy for an edit of one of its layers.
pub(super) async fn open(tx: &mut Tx, edit: Edit) -> Result<Found, PolicyError> {
    let found = held(tx, edit.policy, edit.revision).await?;
    may_author(found.parent.is_some(), edit.layer)?;
    Ok(found)
}

pub(super) async fn finish(
    tx: &mut Tx,
    now: Time,
    found: &Found,
    event: &'static str,
    more: Value,
) -> Result<(), PolicyError> {
    let revision = tx.number(&sql::EDITED, (found.id, now)).await?;
    audit::record(
        tx,
        now,
        owner_event(event, found.id, about(found, revision, more)),
    )
    .await?;
    wake(tx);
    Ok(())
}

pub(super) fn wake(tx: &mut Tx) {
    if let Some(owner) = tx.owner() {
        tx.wake(Topic::Owner(owner));
    }
}

async fn author(tx: &mut Tx, policy: PolicyId, layer: LayerName, now: Time) -> Result<i64, Fault> {
    match load::own_layer(tx, policy, layer).await? {
        Some(id) => Ok(id),
        None => tx.number(&sql::AUTHOR, (policy, layer.as_str(), now)).await,
    }
}

async fn put(tx: &mut Tx, layer: i64, grant: &Grant) -> Result<(), Fault> {
    let (kind, scope) = columns(&grant.scope);
    tx.run(
        &sql::GRANT,
        (layer, grant.action.as_str(), kind, scope, grant.effect.as_str()),
    )
    .await
    .map(|_| ())
}

fn columns(scope: &Scope) -> (&'static str, String) {
    let id = scope.resource().map(|resource| resource.id().to_owned());
    (scope.kind_word(), id.unwrap_or_default())
}

/// Puts `layer` in the place of the policy's own layer, whatever it held.
pub(super) async fn replace(
    tx: &mut Tx,
    policy: PolicyId,
    name: LayerName,
    layer: &Layer,
    now: Time,
) -> Result<(), Fault> {
    let id = author(tx, policy, name, now).await?;
    tx.run(&sql::EMPTY, (id,)).await?;
    for grant in layer.grants() {
        put(tx, id, grant).await?;
    }
    Ok(())
}

pub(super) async fn clear(tx: &mut Tx, policy: PolicyId, name: LayerName) -> Result<(), Fault> {
    if let Some(id) = load::own_layer(tx, policy, name).await? {
        tx.run(&sql::EMPTY, (id,)).await?;
        tx.run(&sql::CLEAR, (id,)).await?;
    }
    Ok(())
}

/// A triple as it was typed.
#[derive(Debug, Clone)]
struct Words {
    action: String,
    scope: String,
    effect: Option<String>,
}

/// Reads a scope: `any`, or a kind and an id or a name. A resource that does not exist is refused by name.
pub(super) fn scope_of(resources: &Resources, text: &str) -> Result<Scope, PolicyError> {
    let scope: Scope = text.parse()?;
    let Scope::One(resource) = &scope else {
        return Ok(scope);
    };
    resources
        .find(resource.kind(), resource.id())
        .map(|target| Scope::One(target.resource().clone()))
        .ok_or_else(|| PolicyError::NoSuchResource(resource.to_string()))
}

/// Stores a triple; the same action and scope again replaces the effect. The layer becomes authored by it.
///
/// # Errors
/// [`PolicyError`].
pub async fn grant(
    app: &App,
    owner: OwnerId,
    edit: Edit,
    action: &str,
    scope: &str,
    effect: &str,
) -> Result<(), PolicyError> {
    let words = Words {
        action: action.to_owned(),
        scope: scope.to_owned(),
        effect: Some(effect.to_owned()),
    };
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let action: Action = words.action.parse()?;
                let effect: Effect = words.effect.as_deref().unwrap_or_default().parse()?;
                check_kind(action, &words.scope)?;
                let found = open(tx, edit).await?;
                let resources = resources::all(tx).await?;
                let scope = scope_of(&resources, &words.scope)?;
                let grant = Grant {
                    action,
                    scope,
                    effect,
                };
                grant.check()?;
                let before = load::in_force(tx, edit.policy).await?;
                // For its bound on the number of grants.
                before.layer(edit.layer).with(grant.clone())?;
                let layer = author(tx, edit.policy, edit.layer, now).await?;
                take(tx, layer, before.layer(edit.layer), action, &grant.scope).await?;
                put(tx, layer, &grant).await?;
                let more = json!({"layer": edit.layer.as_str(), "action": action.as_str(), "scope": resources.scope(&grant.scope), "effect": effect.as_str()});
                finish(tx, now, &found, "policy.grant", more).await
            })
        })
        .await
}

/// Refuses a scope whose kind the action never looks at before anything is looked up.
fn check_kind(action: Action, scope: &str) -> Result<(), PolicyError> {
    let scope: Scope = scope.parse()?;
    let grant = Grant {
        action,
        scope,
        effect: Effect::Deny,
    };
    Ok(grant.check()?)
}

/// Removes a triple. Without its last one the layer is empty and denies everything; it does not become absent.
///
/// # Errors
/// [`PolicyError`].
pub async fn revoke(
    app: &App,
    owner: OwnerId,
    edit: Edit,
    action: &str,
    scope: &str,
) -> Result<(), PolicyError> {
    let words = Words {
        action: action.to_owned(),
        scope: scope.to_owned(),
        effect: None,
    };
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let action: Action = words.action.parse()?;
                check_kind(action, &words.scope)?;
                let found = open(tx, edit).await?;
                let resources = resources::all(tx).await?;
                let before = load::in_force(tx, edit.policy).await?;
                let layer = before.layer(edit.layer);
                let scope = scope_of_a_grant(&resources, layer, action, &words.scope)?;
                layer
                    .without(action, &scope)
                    .map_err(|invalid| told(&resources, invalid))?;
                let id = author(tx, edit.policy, edit.layer, now).await?;
                take(tx, id, layer, action, &scope).await?;
                let more = json!({"layer": edit.layer.as_str(), "action": action.as_str(), "scope": resources.scope(&scope)});
                finish(tx, now, &found, "policy.revoke", more).await
            })
        })
        .await
}

/// Removes the rows of an action on a scope, however the layer spells it.
async fn take(tx: &mut Tx, id: i64, layer: &Layer, action: Action, scope: &Scope) -> Result<(), Fault> {
    let same = |grant: &&Grant| grant.action == action && grant.scope == *scope;
    for grant in layer.grants().iter().filter(same) {
        let (kind, column) = columns(&grant.scope);
        tx.run(&sql::REVOKE, (id, action.as_str(), kind, column)).await?;
    }
    Ok(())
}

/// The same refusal with the name beside the id of the scope that it is about.
pub(super) fn told(resources: &Resources, invalid: Invalid) -> PolicyError {
    let named = |printed: String| match printed.parse::<Scope>() {
        Ok(scope) => scope.told(&|resource| resources.name(resource)),
        Err(_) => printed,
    };
    PolicyError::from(match invalid {
        Invalid::NoSuchGrant { action, scope } => Invalid::NoSuchGrant {
            action,
            scope: named(scope),
        },
        Invalid::Twice { action, scope } => Invalid::Twice {
            action,
            scope: named(scope),
        },
        other => other,
    })
}

/// The scope that a word names among the grants there are: also of a resource that is gone, by its id or its last name.
///
/// # Errors
/// [`PolicyError::SeveralRemoved`] for a name that several had which are gone, and that no grant on an existing one has.
pub(super) fn scope_of_a_grant(
    resources: &Resources,
    layer: &Layer,
    action: Action,
    text: &str,
) -> Result<Scope, PolicyError> {
    let typed: Scope = text.parse()?;
    let held = |scope: &Scope| {
        let mut grants = layer.grants().iter();
        grants.any(|grant| grant.action == action && grant.scope == *scope)
    };
    let existing = scope_of(resources, text).ok();
    let Scope::One(word) = &typed else {
        return Ok(typed);
    };
    if let Some(exact) = [existing.as_ref(), Some(&typed)]
        .into_iter()
        .flatten()
        .find(|scope| held(scope))
    {
        return Ok(exact.clone());
    }
    let last_named = |resource: &&Resource| {
        resource.kind() == word.kind()
            && resources.removed(resource).is_some()
            && resources.named(resource).name.as_deref() == Some(word.id())
    };
    let grants = layer.grants().iter().filter(|grant| grant.action == action);
    let removed: Vec<&Resource> = grants
        .filter_map(|grant| grant.scope.resource())
        .filter(last_named)
        .collect();
    match removed.as_slice() {
        [] => Ok(existing.unwrap_or(typed)),
        [one] => Ok(Scope::One((*one).clone())),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(PolicyError::SeveralRemoved(ids.join(", ")))
        }
    }
}

/// Makes a layer absent: it inherits from now on. Another act than [`save_empty`], which means the opposite.
///
/// # Errors
/// [`PolicyError`].
pub async fn clear_layer(app: &App, owner: OwnerId, edit: Edit) -> Result<(), PolicyError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = open(tx, edit).await?;
                clear(tx, edit.policy, edit.layer).await?;
                let more = json!({"layer": edit.layer.as_str()});
                finish(tx, now, &found, "policy.clear_layer", more).await
            })
        })
        .await
}

/// Authors a layer without a grant: it denies everything from now on.
///
/// # Errors
/// [`PolicyError`].
pub async fn save_empty(app: &App, owner: OwnerId, edit: Edit) -> Result<(), PolicyError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = open(tx, edit).await?;
                replace(tx, edit.policy, edit.layer, &Layer::empty(), now).await?;
                let more = json!({"layer": edit.layer.as_str()});
                finish(tx, now, &found, "policy.save_empty", more).await
            })
        })
        .await
}
