//! What an agent may see in lists: every candidate is charged by itself, and what is refused is left out. Never says that something was left out.

use muster_core::Fault;
use muster_policy::{Action, Answer, Effect, Judged, Pair, Resource, ScopeKind};
use serde::Serialize;
use serde_json::json;

use super::gate::{Call, Permitted, Refused, decide, pairs_json, stand, stand_in_full};
use crate::App;
use crate::accounts::AgentCaller;
use crate::audit;
use crate::policies::Subjects;
use crate::resources::ResourceRef;

/// What of a kind an agent may list, with the permit of the call where it charged something.
#[derive(Debug)]
pub struct Reachable {
    /// The resources, in the order they were made.
    pub resources: Vec<Resource>,
    /// The permit; nothing was charged when there is nothing to list.
    pub permitted: Option<Permitted>,
}

/// Charges `action` on every existing resource of a kind, each by itself. Those that ask are asked about together, once.
///
/// # Errors
/// [`Refused`], when a person was asked and did not say yes, or nothing could be decided.
pub async fn reachable(
    app: &App,
    caller: &AgentCaller,
    tool: &str,
    action: Action,
    kind: ScopeKind,
) -> Result<Reachable, Refused> {
    let candidates = look(app, caller, action, kind)
        .await
        .map_err(|fault| broke(&fault))?;
    let open: Vec<Pair> = candidates
        .iter()
        .filter(|one| !one.verdict.answer.refuses())
        .map(|one| one.pair.clone())
        .collect();
    let resources = open.iter().filter_map(|pair| pair.resource().cloned()).collect();
    let mut pairs = open.into_iter();
    let Some(first) = pairs.next() else {
        nothing(app, caller, tool, candidates)
            .await
            .map_err(|fault| broke(&fault))?;
        return Ok(Reachable {
            resources,
            permitted: None,
        });
    };
    let call = Call {
        tool: tool.to_owned(),
        arguments: json!({}),
        needs: muster_policy::Needs::new(first, pairs),
    };
    let permitted = decide(app, caller, call).await?;
    Ok(Reachable {
        resources,
        permitted: Some(permitted),
    })
}

fn broke(fault: &Fault) -> Refused {
    tracing::error!(error = %fault.chain(), "a list could not be decided, so it was refused");
    Refused {
        code: "refused_error",
        message: "Refused, and nothing was read: muster could not read what you may do, or could not write the audit row of the call. \
                  Your owner finds the reason in muster's log."
            .to_owned(),
        pairs: json!([]),
        ask: None,
    }
}

async fn look(
    app: &App,
    caller: &AgentCaller,
    action: Action,
    kind: ScopeKind,
) -> Result<Vec<Judged>, Fault> {
    let task = caller.task;
    app.db
        .read(caller.owner, move |tx| {
            Box::pin(async move {
                let stand = stand_in_full(tx, task).await?;
                let standing = stand.governing.standing();
                Ok(stand
                    .resources
                    .live()
                    .iter()
                    .filter(|target| target.resource().kind() == kind)
                    .map(|target| {
                        let pair = Pair::new(action, target.clone());
                        let verdict = standing.verdict(&pair);
                        Judged { pair, verdict }
                    })
                    .collect())
            })
        })
        .await
}

/// The audit row of a list that shows nothing.
async fn nothing(app: &App, caller: &AgentCaller, tool: &str, candidates: Vec<Judged>) -> Result<(), Fault> {
    let (caller, tool, now) = (caller.clone(), tool.to_owned(), app.clock.now());
    app.db
        .write(caller.owner, move |tx| {
            Box::pin(async move {
                let stand = stand_in_full(tx, caller.task).await?;
                let denied = candidates.iter().any(|one| one.verdict.answer == Answer::Deny);
                let outcome = match (candidates.is_empty(), denied) {
                    (true, _) => "allowed",
                    (false, true) => "refused_denied",
                    (false, false) => "refused_not_granted",
                };
                record(tx, now, &caller, tool, &stand, &candidates, outcome);
                Ok(())
            })
        })
        .await
}

fn record(
    tx: &mut muster_store::Tx,
    now: muster_core::clock::Time,
    caller: &AgentCaller,
    tool: String,
    stand: &super::gate::Stand,
    judged: &[Judged],
    outcome: &'static str,
) {
    let call = audit::Call {
        agent: audit::Caller::Agent(caller.token),
        task: caller.task,
        tool,
        outcome,
        data: json!({
            "agent": {"id": caller.token.to_string(), "label": caller.label},
            "task": caller.task.map(|id| json!({"id": id.to_string(), "title": stand.title})),
            "pairs": pairs_json(&stand.resources, judged),
            "policy": stand.governing.subject(),
            "ask_id": null,
            "decided_by": null,
        }),
    };
    audit::record_call(tx, now, call);
}

/// A database connection as an agent sees it in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Which.
    pub resource: Resource,
    /// `allow` or `ask`.
    pub read: &'static str,
    /// `allow`, `ask` or `refused`.
    pub write: &'static str,
}

/// The database connections that can be read, asked about or not; nobody is asked for the list itself.
///
/// # Errors
/// [`Refused`], when nothing could be decided or recorded.
pub async fn connections(app: &App, caller: &AgentCaller, tool: &str) -> Result<Vec<Connection>, Refused> {
    let (whose, tool, now) = (caller.clone(), tool.to_owned(), app.clock.now());
    let listed: Result<Vec<Connection>, Fault> = app
        .db
        .write(caller.owner, move |tx| {
            Box::pin(async move {
                let stand = stand_in_full(tx, whose.task).await?;
                let standing = stand.governing.standing();
                let mut judged = Vec::new();
                let mut open = Vec::new();
                for target in stand.resources.live() {
                    if target.resource().kind() != ScopeKind::DbConnection {
                        continue;
                    }
                    let pair = Pair::new(Action::DbRead, target.clone());
                    let verdict = standing.verdict(&pair);
                    let write = standing.verdict(&Pair::new(Action::DbWrite, target.clone()));
                    if let Some(read) = verdict.answer.leaves() {
                        open.push(Connection {
                            resource: target.resource().clone(),
                            read: read.as_str(),
                            write: write.answer.leaves().map_or("refused", |effect| effect.as_str()),
                        });
                    }
                    judged.push(Judged { pair, verdict });
                }
                record(tx, now, &whose, tool, &stand, &judged, "allowed");
                Ok(open)
            })
        })
        .await;
    listed.map_err(|fault| broke(&fault))
}

/// What is left of a pair for the caller as things stand: allow, ask, or nothing. It charges nothing, asks nobody and is no permit: it is for
/// what an answer may show besides what its call charged.
///
/// # Errors
/// A fault; then nothing may be shown.
pub async fn leaves(app: &App, caller: &AgentCaller, pair: Pair) -> Result<Option<Effect>, Fault> {
    let task = caller.task;
    app.db
        .read(caller.owner, move |tx| {
            Box::pin(async move {
                let stand = stand(tx, task, std::slice::from_ref(&pair)).await?;
                Ok(stand.governing.standing().verdict(&pair).answer.leaves())
            })
        })
        .await
}

/// What an agent is and may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Whoami {
    /// Its task.
    pub task: Option<WhoamiTask>,
    /// What governs it; null when it is unscoped.
    pub policy: Option<Subjects>,
    /// Whether no policy governs it.
    pub unscoped: bool,
    /// What every layer together leaves it.
    pub grants: Vec<WhoamiGrant>,
}

/// An agent's task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WhoamiTask {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// One thing an agent may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WhoamiGrant {
    /// The action.
    pub action: &'static str,
    /// On what.
    pub resource: ResourceRef,
    /// `allow` or `ask`.
    pub effect: &'static str,
}

/// What an agent is and may do now. It charges nothing.
///
/// # Errors
/// A fault.
pub async fn whoami(app: &App, caller: &AgentCaller) -> Result<Whoami, Fault> {
    let task = caller.task;
    app.db
        .read(caller.owner, move |tx| {
            Box::pin(async move {
                let stand = stand_in_full(tx, task).await?;
                let policy = stand.governing.subject();
                Ok(Whoami {
                    task: task.zip(stand.title.clone()).map(|(id, title)| WhoamiTask {
                        id: id.to_string(),
                        title,
                    }),
                    unscoped: policy.is_none(),
                    policy,
                    grants: crate::policies::resolved(stand.governing.standing(), &stand.resources)
                        .into_iter()
                        .map(|row| WhoamiGrant {
                            action: row.action,
                            resource: row.resource,
                            effect: row.effect,
                        })
                        .collect(),
                })
            })
        })
        .await
}
