//! Policies as they are shown: layers side by side, what they come to, what depends on them, why a pair is answered as it is. Never decides a call.

use std::collections::HashMap;

use muster_core::Fault;
use muster_core::ids::{OwnerId, PolicyId, TaskId};
use muster_policy::{
    Action, Dead, Grant, LayerName, Pair, Policy, Resource, Standing, dead_rules, effective,
};
use muster_store::Tx;
use serde::{Deserialize, Serialize};

use super::load::{self, Chosen, Governing, Subjects};
use super::{PolicyError, sql};
use crate::App;
use crate::resources::{self, ResourceRef, Resources};

/// An action as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActionLine {
    /// Its word.
    pub action: &'static str,
    /// The kinds of resources a grant of it can name.
    pub kinds: Vec<&'static str>,
    /// What it opens.
    pub covers: &'static str,
}

/// The eleven actions.
#[must_use]
pub fn actions() -> Vec<ActionLine> {
    Action::ALL
        .iter()
        .map(|action| ActionLine {
            action: action.as_str(),
            kinds: action.kinds().iter().map(|kind| kind.as_str()).collect(),
            covers: action.covers(),
        })
        .collect()
}

/// Something with an id and a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Thing {
    /// Its id.
    pub id: String,
    /// Its name; of a task its title.
    pub name: String,
}

/// What resolves through a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Dependents {
    /// Tasks, closed ones too: a task that is opened again must not find a hole.
    pub tasks: Vec<Thing>,
    /// Projects whose new tasks get it.
    pub projects: Vec<Thing>,
    /// Queued runs.
    pub runs: Vec<Thing>,
    /// Policies that were forked from it, or from one of its forks.
    pub forks: Vec<Thing>,
}

impl Dependents {
    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.tasks.len() + self.projects.len() + self.runs.len() + self.forks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl std::fmt::Display for Dependents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let groups = [
            ("task", &self.tasks),
            ("project default of", &self.projects),
            ("queued run", &self.runs),
            ("fork", &self.forks),
        ];
        let mut first = true;
        for (kind, things) in groups {
            for thing in things.iter().take(20) {
                let joined = if first { "" } else { ", " };
                first = false;
                let name = muster_core::text::terminal(&thing.name.chars().take(60).collect::<String>());
                write!(f, "{joined}{kind} {} ({name})", thing.id)?;
            }
            if things.len() > 20 {
                write!(f, " and {} more", things.len() - 20)?;
            }
        }
        Ok(())
    }
}

#[derive(sqlx::FromRow)]
struct ThingRow {
    id: i64,
    name: String,
}

async fn things(tx: &mut Tx, sql: &'static muster_store::Sql, policy: PolicyId) -> Result<Vec<Thing>, Fault> {
    let rows: Vec<ThingRow> = tx.all(sql, (policy,)).await?;
    Ok(rows
        .into_iter()
        .map(|row| Thing {
            id: row.id.to_string(),
            name: row.name,
        })
        .collect())
}

pub(super) async fn dependents(tx: &mut Tx, policy: PolicyId) -> Result<Dependents, Fault> {
    Ok(Dependents {
        tasks: things(tx, &sql::TASK_DEPENDENTS, policy).await?,
        projects: things(tx, &sql::PROJECT_DEPENDENTS, policy).await?,
        runs: things(tx, &sql::RUN_DEPENDENTS, policy).await?,
        forks: things(tx, &sql::FORK_DEPENDENTS, policy).await?,
    })
}

/// A grant as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownGrant {
    /// Its action.
    pub action: &'static str,
    /// Its scope.
    pub scope: ResourceRef,
    /// Its effect.
    pub effect: &'static str,
    /// Why it can never fire, if it cannot.
    pub dead: Option<String>,
    /// Whether its resource was removed: then only its id tells it from others of the name.
    #[serde(skip)]
    pub removed: bool,
}

pub(super) fn shown_grant(resources: &Resources, grant: &Grant, dead: Option<Dead>) -> ShownGrant {
    let removed = grant
        .scope
        .resource()
        .and_then(|resource| resources.removed(resource));
    ShownGrant {
        action: grant.action.as_str(),
        scope: resources.scope(&grant.scope),
        effect: grant.effect.as_str(),
        removed: removed.is_some(),
        dead: dead.map(|why| match removed {
            Some(removed) if why == Dead::Gone => removed,
            _ => why.to_string(),
        }),
    }
}

/// A layer as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownLayer {
    /// `absent`, `empty` or `authored`.
    pub state: &'static str,
    /// Its grants.
    pub grants: Vec<ShownGrant>,
}

/// The three layers in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownLayers {
    /// Over everything.
    pub global: ShownLayer,
    /// Over the tasks of a project.
    pub project: ShownLayer,
    /// Over one task.
    pub task: ShownLayer,
}

/// One line of what an agent gets in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The action.
    pub action: &'static str,
    /// On what.
    pub resource: ResourceRef,
    /// `allow` or `ask`.
    pub effect: &'static str,
}

/// A policy as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The policy it was forked from.
    pub parent: Option<Thing>,
    /// Raised by one by each edit.
    pub revision: i64,
    /// The layers in force; a fork shows its root's upper two.
    pub layers: ShownLayers,
    /// What every layer together leaves.
    pub resolved: Vec<Resolved>,
    /// What resolves through it.
    pub dependents: Dependents,
    /// What its owner should know.
    pub notes: Vec<String>,
}

pub(super) fn layers(policy: &Policy, resources: &Resources) -> ShownLayers {
    let dead: HashMap<(LayerName, &Grant), Dead> = dead_rules(policy, resources.live())
        .into_iter()
        .map(|rule| ((rule.layer, rule.grant), rule.why))
        .collect();
    let one = |name: LayerName| {
        let layer = policy.layer(name);
        ShownLayer {
            state: layer.state().as_str(),
            grants: layer
                .grants()
                .iter()
                .map(|grant| shown_grant(resources, grant, dead.get(&(name, grant)).copied()))
                .collect(),
        }
    };
    ShownLayers {
        global: one(LayerName::Global),
        project: one(LayerName::Project),
        task: one(LayerName::Task),
    }
}

/// What a caller gets in the end, over every action and every existing resource.
pub(crate) fn resolved(standing: Standing<'_>, resources: &Resources) -> Vec<Resolved> {
    effective(standing, resources.live())
        .into_iter()
        .filter_map(|row| {
            row.call.leaves().map(|effect| Resolved {
                action: row.action.as_str(),
                resource: resources.named(row.target.resource()),
                effect: effect.as_str(),
            })
        })
        .collect()
}

/// Connections that could be written to were they readable: they give no access at all and are hidden.
fn notes(standing: Standing<'_>, resources: &Resources) -> Vec<String> {
    effective(standing, resources.live())
        .into_iter()
        .filter(|row| row.action == Action::DbWrite && !row.verdict.answer.refuses() && row.call.refuses())
        .map(|row| {
            let named = resources.named(row.target.resource());
            format!(
                "db_connection {} has db_write without db_read, so it gives no access and is hidden from the agent; grant db_read beside it",
                named.name.unwrap_or_default()
            )
        })
        .collect()
}

/// A policy as it is shown; the built-in one too.
///
/// # Errors
/// [`PolicyError`].
pub async fn show(app: &App, owner: OwnerId, chosen: Chosen) -> Result<Shown, PolicyError> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let resources = resources::all(tx).await?;
                let Chosen::Own(found) = chosen else {
                    let policy = Policy::closed();
                    let closed = Subjects::closed();
                    return Ok(Shown {
                        id: closed.id,
                        name: closed.name,
                        parent: None,
                        revision: closed.revision,
                        layers: layers(&policy, &resources),
                        resolved: Vec::new(),
                        dependents: Dependents::default(),
                        notes: vec![
                            "built in: it has no layers and grants nothing; tasks without another policy are under it"
                                .to_owned(),
                        ],
                    });
                };
                // Read again, so that all of what is shown is of one moment.
                let found = load::by_id(tx, found.id).await?;
                let policy = load::in_force(tx, found.id).await?;
                let parent = match found.parent {
                    None => None,
                    Some(id) => {
                        let parent = load::by_id(tx, id).await?;
                        Some(Thing {
                            id: id.to_string(),
                            name: parent.name,
                        })
                    }
                };
                let standing = Standing::Under(&policy);
                Ok(Shown {
                    id: found.id.to_string(),
                    name: found.name,
                    parent,
                    revision: found.revision,
                    layers: layers(&policy, &resources),
                    resolved: resolved(standing, &resources),
                    dependents: dependents(tx, found.id).await?,
                    notes: notes(standing, &resources),
                })
            })
        })
        .await
}

/// Whose answer is explained.
#[derive(Debug, Clone)]
pub enum Whose {
    /// A policy's.
    Policy(Chosen),
    /// That of a task's agents.
    Task(TaskId),
}

/// What one layer says about a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedLayer {
    /// `absent`, `empty` or `authored`.
    pub state: &'static str,
    /// `allow`, `ask`, `deny` or `none`; null for a layer that does not count.
    pub effect: Option<&'static str>,
}

/// The three layers about one pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Over everything.
    pub global: ExplainedLayer,
    /// Over the tasks of a project.
    pub project: ExplainedLayer,
    /// Over one task.
    pub task: ExplainedLayer,
}

/// Why a pair is answered as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Whose answer it is; null for a caller whom no policy governs.
    pub policy: Option<Subjects>,
    /// The action.
    pub action: &'static str,
    /// On what; null for a call that names nothing.
    pub resource: Option<ResourceRef>,
    /// `allow`, `ask`, `deny`, `not_granted` or `unscoped`.
    pub verdict: &'static str,
    /// The outermost layer with the deciding effect.
    pub layer: Option<&'static str>,
    /// What each layer says.
    pub layers: Answered,
    /// The same in a sentence.
    pub reason: String,
}

fn explained(
    governing: &Governing,
    resources: &Resources,
    pair: &Pair,
    named: Option<&Resource>,
) -> Explained {
    let explanation = muster_policy::explain(governing.standing(), pair);
    let of = |name: LayerName| {
        explanation.layers.iter().find(|layer| layer.name == name).map_or(
            ExplainedLayer {
                state: "absent",
                effect: None,
            },
            |layer| ExplainedLayer {
                state: layer.state.as_str(),
                effect: layer.effect.map(muster_policy::LayerEffect::as_str),
            },
        )
    };
    let mut reason = match named {
        Some(resource) if pair.target().is_none() => {
            let what = resources.removed(resource).map_or_else(
                || format!("{resource} does not exist"),
                |removed| format!("{resource} does not exist any more: {removed}"),
            );
            format!("{what}, and a call that names nothing that exists is covered by no grant.")
        }
        _ => explanation.told(&|resource| resources.name(resource)),
    };
    if let Some(read) = missing_read(governing, pair, &explanation.verdict) {
        reason.push_str(&format!(
            " A call that writes needs db_read as well, and that is {}, so none goes through.",
            read.as_str()
        ));
    }
    Explained {
        policy: governing.subject(),
        action: pair.action().as_str(),
        resource: pair
            .resource()
            .or(named)
            .map(|resource| resources.named(resource)),
        verdict: explanation.verdict.answer.as_str(),
        layer: explanation.verdict.layer.map(LayerName::as_str),
        layers: Answered {
            global: of(LayerName::Global),
            project: of(LayerName::Project),
            task: of(LayerName::Task),
        },
        reason,
    }
}

/// What `db_read` is answered where `db_write` alone would pass: a call that writes is charged with both.
fn missing_read(
    governing: &Governing,
    pair: &Pair,
    verdict: &muster_policy::Verdict,
) -> Option<muster_policy::Answer> {
    let passes = |answer| matches!(answer, muster_policy::Answer::Allow | muster_policy::Answer::Ask);
    let target = pair
        .target()
        .filter(|_| pair.action() == Action::DbWrite && passes(verdict.answer))?;
    let read = Pair::new(Action::DbRead, target.clone());
    let answer = governing.standing().verdict(&read).answer;
    (!passes(answer)).then_some(answer)
}

async fn governing_of(tx: &mut Tx, whose: &Whose) -> Result<Governing, PolicyError> {
    match whose {
        Whose::Policy(chosen) => load::governing(tx, chosen).await,
        Whose::Task(task) => load::standing_of_task(tx, *task)
            .await?
            .map(|of| of.governing)
            .ok_or(PolicyError::NoSuchTask),
    }
}

/// A pair as it was typed: the action, and `KIND:ID-OR-NAME` or `none`.
fn pair_of(
    resources: &Resources,
    action: &str,
    resource: &str,
) -> Result<(Pair, Option<Resource>), PolicyError> {
    let action: Action = action.parse()?;
    if resource == "none" {
        return Ok((Pair::naming_nothing(action), None));
    }
    let typed: Resource = resource.parse()?;
    Ok(match resources.find(typed.kind(), typed.id()) {
        Some(target) => (Pair::new(action, target.clone()), None),
        None => (Pair::naming_nothing(action), Some(typed)),
    })
}

/// Why one pair is answered as it is. A resource that does not exist is explained as a call that names none.
///
/// # Errors
/// [`PolicyError`].
pub async fn explain(
    app: &App,
    owner: OwnerId,
    whose: Whose,
    action: &str,
    resource: &str,
) -> Result<Explained, PolicyError> {
    let (action, resource) = (action.to_owned(), resource.to_owned());
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let governing = governing_of(tx, &whose).await?;
                let resources = resources::all(tx).await?;
                let (pair, named) = pair_of(&resources, &action, &resource)?;
                Ok(explained(&governing, &resources, &pair, named.as_ref()))
            })
        })
        .await
}

/// The same over every action and every existing resource of its kinds.
///
/// # Errors
/// [`PolicyError`].
pub async fn explain_all(app: &App, owner: OwnerId, whose: Whose) -> Result<Vec<Explained>, PolicyError> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let governing = governing_of(tx, &whose).await?;
                let resources = resources::all(tx).await?;
                let of = |action: &'static Action| {
                    resources
                        .live()
                        .iter()
                        .filter(|target| action.takes(target.resource().kind()))
                        .map(move |target| Pair::new(*action, target.clone()))
                };
                Ok(Action::ALL
                    .iter()
                    .flat_map(of)
                    .map(|pair| explained(&governing, &resources, &pair, None))
                    .collect())
            })
        })
        .await
}

/// A question of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// A policy's id or name.
    pub policy: Option<String>,
    /// A task's id.
    pub task: Option<String>,
    /// The action.
    pub action: String,
    /// `KIND:ID`; null for a call that names nothing.
    pub resource: Option<String>,
}

/// Answers questions in their order, all in one snapshot.
///
/// # Errors
/// [`PolicyError`] of the first question that cannot be answered, with its line.
pub async fn explain_questions(
    app: &App,
    owner: OwnerId,
    questions: Vec<Question>,
) -> Result<Vec<Explained>, (usize, PolicyError)> {
    let answered: Result<Result<Vec<Explained>, (usize, PolicyError)>, Fault> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move {
                let resources = resources::all(tx).await?;
                let mut known: HashMap<(Option<String>, Option<String>), Governing> = HashMap::new();
                let mut answers = Vec::with_capacity(questions.len());
                for (line, question) in questions.into_iter().enumerate() {
                    match answer(tx, &resources, &mut known, question).await {
                        Ok(explained) => answers.push(explained),
                        Err(error) => return Ok(Err((line + 1, error))),
                    }
                }
                Ok(Ok(answers))
            })
        })
        .await;
    answered.map_err(|fault| (0, PolicyError::Fault(fault)))?
}

async fn answer(
    tx: &mut Tx,
    resources: &Resources,
    known: &mut HashMap<(Option<String>, Option<String>), Governing>,
    question: Question,
) -> Result<Explained, PolicyError> {
    let key = (question.policy.clone(), question.task.clone());
    if !known.contains_key(&key) {
        let whose = match (&question.policy, &question.task) {
            (Some(word), None) => Whose::Policy(load::find_in(tx, word).await?),
            (None, Some(task)) => Whose::Task(task.parse().map_err(|_| PolicyError::NoSuchTask)?),
            _ => {
                return Err(PolicyError::Import(
                    "a question names either a policy or a task".to_owned(),
                ));
            }
        };
        let governing = governing_of(tx, &whose).await?;
        known.insert(key.clone(), governing);
    }
    let governing = known.get(&key).ok_or(PolicyError::NotFound)?;
    let resource = question.resource.as_deref().unwrap_or("none");
    let (pair, named) = pair_of(resources, &question.action, resource)?;
    Ok(explained(governing, resources, &pair, named.as_ref()))
}
