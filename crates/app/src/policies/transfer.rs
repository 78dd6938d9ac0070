//! Policies as a document that goes out and comes back, and what a changed one would have made of the calls there were. Never imports half of a document.

use std::collections::{BTreeSet, HashMap};

use muster_core::ids::{OwnerId, PolicyId};
use muster_policy::{
    Action, Answer, Grant, Layer, LayerName, Needs, Pair, Policy, Resource, Scope, Standing, may_author,
    weigh,
};
use muster_store::{Topic, Tx};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::edit::{at, clear, replace, scope_of, told};
use super::load::{self, Chosen, Found};
use super::whole::{name_of, name_taken};
use super::{PolicyError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::resources::{self, Resources};

/// Tools that charge each thing they may list by itself: what is refused is left out, and the call is refused only when all of it is.
const LISTS: [&str; 3] = [
    "muster_list_projects",
    "muster_list_hosts",
    "muster_list_db_connections",
];

/// How many audit rows are read at a time.
const PAGE: i64 = 2_000;

/// Action, scope and effect, as words.
pub type Triple = (String, String, String);

/// A policy as a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// The name of the policy it is a fork of.
    #[serde(default)]
    pub parent: Option<String>,
    /// Its own layers.
    pub layers: ExportedLayers,
}

/// A policy's own layers: null is absent, `[]` is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sent")]
pub struct ExportedLayers {
    /// Over everything.
    pub global: Option<Vec<Triple>>,
    /// Over the tasks of a project.
    pub project: Option<Vec<Triple>>,
    /// Over one task.
    pub task: Option<Vec<Triple>>,
    /// Layers that the document did not name. They are absent, and where that would take a layer away it has to be said.
    #[serde(skip)]
    pub unsaid: Vec<LayerName>,
}

/// The layers as they are written; what is not named is told from null.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(default, deserialize_with = "named")]
    global: Option<Option<Vec<Triple>>>,
    #[serde(default, deserialize_with = "named")]
    project: Option<Option<Vec<Triple>>>,
    #[serde(default, deserialize_with = "named")]
    task: Option<Option<Vec<Triple>>>,
}

fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl From<Sent> for ExportedLayers {
    fn from(sent: Sent) -> Self {
        let unsaid = [
            (LayerName::Global, sent.global.is_none()),
            (LayerName::Project, sent.project.is_none()),
            (LayerName::Task, sent.task.is_none()),
        ];
        Self {
            global: sent.global.flatten(),
            project: sent.project.flatten(),
            task: sent.task.flatten(),
            unsaid: unsaid
                .into_iter()
                .filter_map(|(layer, unsaid)| unsaid.then_some(layer))
                .collect(),
        }
    }
}

impl ExportedLayers {
    fn each(&self) -> [(LayerName, Option<&Vec<Triple>>); 3] {
        [
            (LayerName::Global, self.global.as_ref()),
            (LayerName::Project, self.project.as_ref()),
            (LayerName::Task, self.task.as_ref()),
        ]
    }
}

/// A scope as a document names it: by name where that is the only one of its kind, else by id.
fn written(resources: &Resources, grant: &Grant) -> Triple {
    let scope = match grant.scope.resource() {
        None => "any".to_owned(),
        Some(resource) => {
            let named = resources.named(resource).name.unwrap_or_default();
            let found = resources.find(resource.kind(), &named);
            if found.is_some_and(|target| target.resource() == resource) {
                format!("{}:{named}", resource.kind())
            } else {
                resource.to_string()
            }
        }
    };
    (grant.action.to_string(), scope, grant.effect.to_string())
}

async fn document(tx: &mut Tx, resources: &Resources, found: &Found) -> Result<Exported, PolicyError> {
    let policy = load::in_force(tx, found.id).await?;
    let parent = match found.parent {
        None => None,
        Some(id) => Some(load::by_id(tx, id).await?.name),
    };
    let own = |name: LayerName| {
        let layer = policy.layer(name);
        let owned = may_author(found.parent.is_some(), name).is_ok() && *layer != Layer::absent();
        owned.then(|| {
            layer
                .grants()
                .iter()
                .map(|grant| written(resources, grant))
                .collect()
        })
    };
    Ok(Exported {
        name: found.name.clone(),
        parent,
        layers: ExportedLayers {
            global: own(LayerName::Global),
            project: own(LayerName::Project),
            task: own(LayerName::Task),
            unsaid: Vec::new(),
        },
    })
}

/// These policies as a document, or all of them; a parent stands before its forks.
///
/// # Errors
/// [`PolicyError`].
pub async fn export(app: &App, owner: OwnerId, words: Vec<String>) -> Result<Vec<Exported>, PolicyError> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let resources = resources::all(tx).await?;
                let mut found = Vec::new();
                if words.is_empty() {
                    let rows: Vec<load::PolicyRow> = tx.all(&sql::LIST, ()).await?;
                    found.extend(rows.into_iter().map(Found::from));
                }
                for word in words {
                    match load::find_in(tx, &word).await? {
                        Chosen::Own(policy) => found.push(policy),
                        Chosen::Closed => return Err(PolicyError::BuiltIn),
                    }
                }
                // A parent was made before its forks.
                found.sort_by_key(|policy| policy.id);
                found.dedup_by_key(|policy| policy.id);
                let mut all = Vec::with_capacity(found.len());
                for policy in &found {
                    all.push(document(tx, &resources, policy).await?);
                }
                Ok(all)
            })
        })
        .await
}

fn read_layer(resources: &Resources, triples: &[Triple]) -> Result<Layer, PolicyError> {
    let mut grants: Vec<Grant> = Vec::with_capacity(triples.len());
    let mut repos: HashMap<(Action, Scope), (usize, String)> = HashMap::new();
    for (action, scope, effect) in triples {
        let scope: Scope = scope.parse()?;
        let grant = Grant {
            action: action.parse()?,
            scope,
            effect: effect.parse()?,
        };
        grant.check()?;
        let scope = match scope_of(resources, &grant.scope.to_string()) {
            // A grant on what is gone was exported by its id, which nothing else gets; it comes back as dead as it was.
            Err(PolicyError::NoSuchResource(_))
                if grant
                    .scope
                    .resource()
                    .is_some_and(|gone| resources.was_there(gone)) =>
            {
                grant.scope.clone()
            }
            found => found?,
        };
        if scope.kind_word() == "repo" {
            let spelling = grant.scope.spelling().to_owned();
            let (place, first) = repos
                .entry((grant.action, scope.clone()))
                .or_insert((grants.len(), spelling.clone()));
            if let Some(other) = grants.get_mut(*place).filter(|_| *first != spelling) {
                // Written when two spellings of a repo were two scopes: the strictest counts, as it does where they are stored.
                other.effect = other.effect.max(grant.effect);
                continue;
            }
        }
        grants.push(Grant { scope, ..grant });
    }
    Layer::authored(grants).map_err(|invalid| told(resources, invalid))
}

/// What an import does with a policy that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenThere {
    /// Refuse the whole document.
    Refuse,
    /// Put the document's layers in the place of its own.
    Replace,
}

/// Reads policies in, all of them or none.
///
/// # Errors
/// [`PolicyError`]; nothing was changed then.
pub async fn import(
    app: &App,
    owner: OwnerId,
    policies: Vec<Exported>,
    there: WhenThere,
) -> Result<Vec<Found>, PolicyError> {
    import_at(app, owner, policies, there, None).await
}

/// The same for a document that was written for one revision, at which each of its policies must still be.
///
/// # Errors
/// [`PolicyError`]; nothing was changed then.
pub async fn import_at(
    app: &App,
    owner: OwnerId,
    policies: Vec<Exported>,
    there: WhenThere,
    revision: Option<i64>,
) -> Result<Vec<Found>, PolicyError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let resources = resources::all(tx).await?;
                let mut names = BTreeSet::new();
                for policy in &policies {
                    let name = name_of(&policy.name)?;
                    if let Some(name) = names.replace(name) {
                        return Err(PolicyError::Import(format!(
                            "the document has two policies called {name}, and which of them is meant is not known"
                        )));
                    }
                }
                let mut done = Vec::with_capacity(policies.len());
                for policy in &policies {
                    done.push(import_one(tx, &resources, policy, there, revision, now).await?);
                }
                tx.wake(Topic::Owner(owner));
                Ok(done)
            })
        })
        .await
}

async fn import_one(
    tx: &mut Tx,
    resources: &Resources,
    policy: &Exported,
    there: WhenThere,
    revision: Option<i64>,
    now: muster_core::clock::Time,
) -> Result<Found, PolicyError> {
    let name = name_of(&policy.name)?;
    let parent = match &policy.parent {
        None => None,
        Some(word) => match load::find_in(tx, word).await? {
            Chosen::Own(found) => Some(found),
            Chosen::Closed => return Err(PolicyError::BuiltIn),
        },
    };
    for (layer, triples) in policy.layers.each() {
        if triples.is_some() {
            may_author(parent.is_some(), layer)?;
        }
    }
    let existing = match load::find_in(tx, &name).await {
        Ok(Chosen::Own(found)) => Some(load::for_edit(tx, found.id).await?),
        Ok(Chosen::Closed) | Err(PolicyError::NotFound) => None,
        Err(error) => return Err(error),
    };
    let id = match existing {
        Some(_) if there == WhenThere::Refuse => return Err(PolicyError::NameTaken),
        Some(found) => {
            let found = at(found, revision)?;
            if found.parent != parent.as_ref().map(|parent| parent.id) {
                return Err(PolicyError::Import(format!(
                    "the policy {name} is there with another parent, and a fork keeps the one it was made from"
                )));
            }
            nothing_unsaid_is_lost(tx, &found, &policy.layers.unsaid).await?;
            tx.number(&sql::EDITED, (found.id, now)).await?;
            found.id
        }
        None => {
            if let Some(given) = revision.filter(|given| *given != 0) {
                // One that is not there has no revision that could be meant.
                return Err(PolicyError::StaleRevision { given, current: 0 });
            }
            let root = parent.as_ref().map(|parent| parent.root.unwrap_or(parent.id));
            let parent = parent.as_ref().map(|parent| parent.id);
            let id = tx
                .number(&sql::INSERT, (name.as_str(), parent, root, now))
                .await
                .map_err(name_taken)?;
            PolicyId::new(id)
        }
    };
    for (layer, triples) in policy.layers.each() {
        match triples {
            Some(triples) => replace(tx, id, layer, &read_layer(resources, triples)?, now).await?,
            None => clear(tx, id, layer).await?,
        }
    }
    let found = load::by_id(tx, id).await?;
    let event = Event {
        name: "policy.import",
        actor: "owner".to_owned(),
        subject: Subject::Policy(id),
        data: json!({"policy": {"id": id.to_string(), "name": found.name, "revision": found.revision}, "layers": policy.layers}),
    };
    audit::record(tx, now, event).await?;
    Ok(found)
}

/// Refuses a document that would take away a layer which it does not name.
async fn nothing_unsaid_is_lost(tx: &mut Tx, found: &Found, unsaid: &[LayerName]) -> Result<(), PolicyError> {
    let policy = load::in_force(tx, found.id).await?;
    let lost = unsaid.iter().find(|layer| {
        may_author(found.parent.is_some(), **layer).is_ok() && *policy.layer(**layer) != Layer::absent()
    });
    match lost {
        None => Ok(()),
        Some(layer) => Err(PolicyError::Import(format!(
            "it says nothing of the {layer} layer of {}, which is there; null takes a layer away, [] makes it deny everything",
            found.name
        ))),
    }
}

/// A call that a changed policy would have answered otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Simulated {
    /// The call's audit row.
    pub audit_id: String,
    /// The tool.
    pub tool: String,
    /// What the policy said about the call then: `allow`, `ask`, `not_granted` or `deny`.
    pub was: &'static str,
    /// What it would have said as changed.
    pub would_be: &'static str,
}

#[derive(sqlx::FromRow)]
struct CallRow {
    id: i64,
    tool: Option<String>,
    data: String,
}

/// Replays the calls that were decided under a policy, as the document would have had it; those that would have been answered otherwise.
///
/// Only the policy's own answer is replayed: whether a person would have said yes is not known.
///
/// # Errors
/// [`PolicyError`].
pub async fn simulate(
    app: &App,
    owner: OwnerId,
    policy: PolicyId,
    changed: Exported,
) -> Result<Vec<Simulated>, PolicyError> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let resources = resources::all(tx).await?;
                let found = load::by_id(tx, policy).await?;
                let mut would = load::in_force(tx, policy).await?;
                for (layer, triples) in changed.layers.each() {
                    match triples {
                        Some(triples) => {
                            may_author(found.parent.is_some(), layer)?;
                            would = would.with(layer, read_layer(&resources, triples)?);
                        }
                        None if may_author(found.parent.is_some(), layer).is_ok() => {
                            would = would.with(layer, Layer::absent());
                        }
                        None => {}
                    }
                }
                replay(tx, &resources, policy, &would).await
            })
        })
        .await
}

async fn replay(
    tx: &mut Tx,
    resources: &Resources,
    policy: PolicyId,
    would: &Policy,
) -> Result<Vec<Simulated>, PolicyError> {
    let (mut changed, mut last) = (Vec::new(), 0_i64);
    let id = policy.to_string();
    loop {
        let page: Vec<CallRow> = tx.all(&sql::CALLS, (last, PAGE)).await?;
        let Some(end) = page.last() else {
            return Ok(changed);
        };
        last = end.id;
        for row in page {
            let Ok(data) = serde_json::from_str::<Value>(&row.data) else {
                continue;
            };
            if data.pointer("/policy/id").and_then(Value::as_str) != Some(&id) {
                continue;
            }
            let tool = row.tool.unwrap_or_default();
            let Some((was, needs)) = recorded(resources, &data, &tool) else {
                continue;
            };
            let standing = Standing::Under(would);
            let would_be = if LISTS.contains(&tool.as_str()) {
                let each = needs.pairs().iter().map(|pair| standing.verdict(pair).answer);
                each.min().unwrap_or(was)
            } else {
                weigh(standing, &needs)
            };
            if was != would_be {
                changed.push(Simulated {
                    audit_id: row.id.to_string(),
                    tool,
                    was: was.as_str(),
                    would_be: would_be.as_str(),
                });
            }
        }
    }
}

/// What a call's row says was charged, and the strictest of what was answered; of a list the mildest.
fn recorded(resources: &Resources, data: &Value, tool: &str) -> Option<(Answer, Needs)> {
    let words: HashMap<&str, Answer> = [
        Answer::Unscoped,
        Answer::Allow,
        Answer::Ask,
        Answer::NotGranted,
        Answer::Deny,
    ]
    .into_iter()
    .map(|answer| (answer.as_str(), answer))
    .collect();
    let mut was = None;
    let mut pairs = Vec::new();
    for pair in data.get("pairs")?.as_array()? {
        let verdict = words.get(pair.get("verdict")?.as_str()?).copied()?;
        was = match was {
            Some(before) if LISTS.contains(&tool) => Some(verdict.min(before)),
            before => before.max(Some(verdict)),
        };
        let action = pair.get("action")?.as_str()?.parse().ok()?;
        let named = pair.get("resource").filter(|resource| !resource.is_null());
        pairs.push(match named {
            None => Pair::naming_nothing(action),
            Some(resource) => {
                let kind = resource.get("kind")?.as_str()?.parse().ok()?;
                let resource = Resource::new(kind, resource.get("id")?.as_str()?).ok()?;
                Pair::new(action, resources.target_as_it_was(&resource)?)
            }
        });
    }
    let mut pairs = pairs.into_iter();
    let first = pairs.next()?;
    Some((was?, Needs::new(first, pairs)))
}
