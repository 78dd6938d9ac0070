//! One tool call's way to its permit. Never lets an effect begin before the call's audit row is stored, and never runs a call that could not be decided.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId, TaskId};
use muster_policy::{Action, Decision, Judged, Needs, Pair, Permit};
use muster_store::Tx;
use serde_json::{Value, json};

use super::queue::{Queued, queue};
use super::waiting::wait;
use crate::accounts::AgentCaller;
use crate::policies::{self, Governing, Subjects};
use crate::resources::{self, Resources};
use crate::{App, audit};

/// A tool call as far as a decision needs it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The arguments as the agent gave them; outside text.
    pub arguments: Value,
    /// What the call charges: each resource exists, or the pair names none.
    pub needs: Needs,
}

/// What a call wants of a database, as far as its audit row says it: the statement, or the names of what is looked at.
#[derive(Debug, Default, Clone)]
pub(super) struct Wanted {
    statement: Option<String>,
    names: Vec<(&'static str, String)>,
}

impl Wanted {
    /// Nothing of a tool that reaches no database.
    pub(super) fn of(tool: &str, arguments: &Value) -> Self {
        if !tool.starts_with("muster_db_") {
            return Self::default();
        }
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            statement: text("statement"),
            names: ["schema", "object"]
                .into_iter()
                .filter_map(|name| Some((name, text(name)?)))
                .collect(),
        }
    }

    pub(super) fn put(&self, data: &mut Value) {
        if let Some(statement) = &self.statement {
            audit::put_statement(data, statement);
        }
        for (field, name) in &self.names {
            audit::put_name(data, field, name);
        }
    }
}

/// A call that may run now. Its audit row is stored.
#[derive(Debug)]
pub struct Permitted {
    /// What the effect demands.
    pub permit: Permit,
}

/// A call that may not run. Its audit row is stored, unless storing is what failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The outcome as the audit log words it. Where a hidden connection was named, the word for an id that does not exist.
    pub code: &'static str,
    /// What happened and what the owner can do, for the model that reads it.
    pub message: String,
    /// Each pair of the call with what was found: `{"action","resource","verdict","layer"}`.
    pub pairs: Value,
    /// The ask that was put, if one was.
    pub ask: Option<AskId>,
}

impl Refused {
    /// The refusal as a tool's result carries it.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message, "pairs": self.pairs});
        if let (Some(ask), Some(error)) = (self.ask, error.as_object_mut()) {
            error.insert("ask_id".to_owned(), json!(ask.to_string()));
        }
        json!({ "error": error })
    }
}

/// Who calls, and what the audit row says of it.
#[derive(Debug, Clone)]
pub(super) struct Who {
    pub(super) owner: OwnerId,
    pub(super) agent: audit::Caller,
    pub(super) label: String,
    pub(super) task: Option<TaskId>,
}

impl Who {
    pub(super) fn of(caller: &AgentCaller) -> Self {
        Self {
            owner: caller.owner,
            agent: audit::Caller::Agent(caller.token),
            label: caller.label.clone(),
            task: caller.task,
        }
    }

    /// The caller as JSON shows it.
    pub(super) fn json(&self) -> Value {
        json!({"id": self.agent.token().map(|id| id.to_string()), "label": self.label})
    }
}

/// What governs the caller, read in the transaction of the decision.
pub(super) struct Stand {
    pub(super) title: Option<String>,
    pub(super) governing: Governing,
    pub(super) resources: Resources,
}

/// What governs this agent now, with what these pairs name.
pub(super) async fn stand(tx: &mut Tx, task: Option<TaskId>, pairs: &[Pair]) -> Result<Stand, Fault> {
    let resources = resources::of_pairs(tx, pairs).await?;
    stand_among(tx, task, resources).await
}

/// What governs this agent now, with everything there is or was: for lists.
pub(super) async fn stand_in_full(tx: &mut Tx, task: Option<TaskId>) -> Result<Stand, Fault> {
    let resources = resources::all(tx).await?;
    stand_among(tx, task, resources).await
}

/// An agent without a task is under the built-in policy, which grants nothing.
async fn stand_among(tx: &mut Tx, task: Option<TaskId>, resources: Resources) -> Result<Stand, Fault> {
    let found = match task {
        None => None,
        Some(id) => Some(
            policies::standing_of_task(tx, id)
                .await?
                .ok_or_else(|| Fault::contradiction("tasks", id.get(), "an agent's task does not exist"))?,
        ),
    };
    Ok(match found {
        None => Stand {
            title: None,
            governing: Governing::Policy {
                found: None,
                policy: muster_policy::Policy::closed(),
            },
            resources,
        },
        Some(of) => Stand {
            title: Some(of.title),
            governing: of.governing,
            resources,
        },
    })
}

/// The pairs with what was found, as results and audit rows show them.
pub(super) fn pairs_json(resources: &Resources, judged: &[Judged]) -> Value {
    judged
        .iter()
        .map(|one| {
            json!({
                "action": one.pair.action().as_str(),
                "resource": resources.of_pair(&one.pair),
                "verdict": one.verdict.answer.as_str(),
                "layer": one.verdict.layer.map(muster_policy::LayerName::as_str),
            })
        })
        .collect()
}

/// What a call charges by now: a resource that was removed since is one that does not exist, which no grant covers.
pub(super) fn as_it_is(stand: &Stand, needs: &Needs) -> Needs {
    let mut pairs = needs.pairs().iter().map(|pair| {
        let there = pair.target().filter(|target| {
            let resource = target.resource();
            stand.resources.target(resource.kind(), resource.id()).is_some()
        });
        match there {
            Some(target) => Pair::new(pair.action(), target.clone()),
            None => Pair::naming_nothing(pair.action()),
        }
    });
    match pairs.next() {
        Some(first) => Needs::new(first, pairs),
        None => needs.clone(),
    }
}

pub(super) fn judged(stand: &Stand, needs: &Needs) -> Vec<Judged> {
    needs
        .pairs()
        .iter()
        .map(|pair| Judged {
            pair: pair.clone(),
            verdict: stand.governing.standing().verdict(pair),
        })
        .collect()
}

/// Facts of one decided call, for its audit row.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) who: Who,
    pub(super) tool: String,
    pub(super) title: Option<String>,
    pub(super) pairs: Value,
    pub(super) policy: Option<Subjects>,
    /// What a database was to run or to show.
    pub(super) wanted: Wanted,
}

impl Facts {
    pub(super) fn of(who: &Who, call: &Call, stand: &Stand) -> Self {
        Self {
            who: who.clone(),
            tool: call.tool.clone(),
            title: stand.title.clone(),
            pairs: pairs_json(&stand.resources, &judged(stand, &call.needs)),
            policy: stand.governing.subject(),
            wanted: Wanted::of(&call.tool, &call.arguments),
        }
    }

    pub(super) fn record(
        &self,
        tx: &mut Tx,
        now: Time,
        outcome: &'static str,
        ask: Option<AskId>,
        decided_by: Option<&str>,
    ) {
        let mut data = json!({
            "agent": self.who.json(),
            "task": self.who.task.map(|id| json!({"id": id.to_string(), "title": self.title})),
            "pairs": self.pairs,
            "policy": self.policy,
            "ask_id": ask.map(|ask| ask.to_string()),
            "decided_by": decided_by,
        });
        self.wanted.put(&mut data);
        let call = audit::Call {
            agent: self.who.agent.clone(),
            task: self.who.task,
            tool: self.tool.clone(),
            outcome,
            data,
        };
        audit::record_call(tx, now, call);
    }
}

/// Whether the refusal must not show that the connection exists: its `db_read` is refused, or it names none.
pub(super) fn hides(judged: &[Judged]) -> bool {
    judged
        .iter()
        .any(|one| one.pair.action() == Action::DbRead && one.verdict.answer.refuses())
}

/// What an agent is told of a database that it may not read: exactly what it is told of one that does not exist.
pub(super) fn hidden(judged: &[Judged]) -> Refused {
    let pairs: Vec<Value> = judged
        .iter()
        .map(|one| json!({"action": one.pair.action().as_str(), "resource": null, "verdict": "not_granted", "layer": null}))
        .collect();
    Refused {
        code: "refused_not_granted",
        message: "Refused, and nothing was done: the call names no database connection that can be read. \
                  Call muster_list_db_connections for those that can, each by its id; your owner opens one with a grant of db_read on it."
            .to_owned(),
        pairs: Value::Array(pairs),
        ask: None,
    }
}

pub(super) fn refused(
    code: &'static str,
    message: impl Into<String>,
    facts: &Facts,
    ask: Option<AskId>,
) -> Refused {
    Refused {
        code,
        message: message.into(),
        pairs: facts.pairs.clone(),
        ask,
    }
}

/// A call that could not be decided or recorded.
pub(super) fn broken(fault: &Fault) -> Refused {
    tracing::error!(error = %fault.chain(), "a tool call could not be decided, so it was refused");
    Refused {
        code: "refused_error",
        message: "Refused, and nothing was done: muster could not read what you may do, or could not write the audit row of the call. \
                  Your owner finds the reason in muster's log."
            .to_owned(),
        pairs: json!([]),
        ask: None,
    }
}

/// What the first look at a call came to.
enum Step {
    Permitted(Permitted),
    Refused(Refused),
    /// Somebody has to be asked.
    Ask,
}

/// Decides a call, waiting for a person when it asks. Dropping the future withdraws the call; its ask with it, when no other call waits for that.
///
/// # Errors
/// [`Refused`]; the effect must not begin.
pub async fn decide(app: &App, caller: &AgentCaller, call: Call) -> Result<Permitted, Refused> {
    let who = Who::of(caller);
    match first(app, &who, &call).await {
        Err(fault) => Err(unrecorded(app, &who, &call, &fault).await),
        Ok(Step::Permitted(permitted)) => Ok(permitted),
        Ok(Step::Refused(refused)) => Err(refused),
        Ok(Step::Ask) => match queue(app, caller.token, &who, &call).await {
            Err(fault) => Err(unrecorded(app, &who, &call, &fault).await),
            Ok(Queued::Permitted(permitted)) => Ok(permitted),
            Ok(Queued::Refused(refused)) => Err(refused),
            Ok(Queued::Waits(waiting)) => wait(app, &who, &call, waiting).await,
        },
    }
}

/// Refuses a call that could not be decided, with an audit row if that can be written.
async fn unrecorded(app: &App, who: &Who, call: &Call, fault: &Fault) -> Refused {
    let facts = Facts {
        who: who.clone(),
        tool: call.tool.clone(),
        title: None,
        pairs: json!([]),
        policy: None,
        wanted: Wanted::of(&call.tool, &call.arguments),
    };
    let now = app.clock.now();
    let recorded: Result<(), Fault> = app
        .db
        .write(who.owner, move |tx| {
            Box::pin(async move {
                facts.record(tx, now, "refused_error", None, None);
                Ok(())
            })
        })
        .await;
    if let Err(fault) = recorded {
        tracing::error!(error = %fault.chain(), "the audit row of a refused call could not be written");
    }
    broken(fault)
}

/// Decides on the policy alone: most calls end here, in one transaction.
async fn first(app: &App, who: &Who, call: &Call) -> Result<Step, Fault> {
    let (who, call, now) = (who.clone(), call.clone(), app.clock.now());
    app.db
        .write(who.owner, move |tx| {
            Box::pin(async move {
                let stand = stand(tx, who.task, call.needs.pairs()).await?;
                let facts = Facts::of(&who, &call, &stand);
                match muster_policy::decide(stand.governing.standing(), &call.needs) {
                    Decision::Allow(permit) => {
                        facts.record(tx, now, permit.basis().outcome(), None, None);
                        Ok(Step::Permitted(Permitted { permit }))
                    }
                    Decision::Deny(refusal) => Ok(Step::Refused(deny(tx, now, &facts, &refusal, &stand))),
                    Decision::Ask(_) => Ok(Step::Ask),
                }
            })
        })
        .await
}

/// Refuses a call that the policy may well allow, because a later gate stops what it is about to do, before anybody is asked about it. Where the
/// policy refuses the call itself, that is what it is answered.
pub async fn refuse_at_gate(app: &App, caller: &AgentCaller, call: Call, message: String) -> Refused {
    let who = Who::of(caller);
    let (asking, stopped, now) = (who.clone(), call.clone(), app.clock.now());
    let refused: Result<Refused, Fault> = app
        .db
        .write(who.owner, move |tx| {
            Box::pin(async move {
                let stand = stand(tx, asking.task, stopped.needs.pairs()).await?;
                let facts = Facts::of(&asking, &stopped, &stand);
                Ok(
                    match muster_policy::decide(stand.governing.standing(), &stopped.needs) {
                        Decision::Deny(refusal) => deny(tx, now, &facts, &refusal, &stand),
                        Decision::Allow(_) | Decision::Ask(_) => {
                            facts.record(tx, now, "refused_gate", None, None);
                            refused("refused_gate", message, &facts, None)
                        }
                    },
                )
            })
        })
        .await;
    match refused {
        Ok(refused) => refused,
        Err(fault) => unrecorded(app, &who, &call, &fault).await,
    }
}

pub(super) fn deny(
    tx: &mut Tx,
    now: Time,
    facts: &Facts,
    refusal: &muster_policy::Refusal,
    stand: &Stand,
) -> Refused {
    facts.record(tx, now, refusal.outcome(), None, None);
    if hides(refusal.verdicts()) {
        hidden(refusal.verdicts())
    } else {
        let told = refusal.told(&|resource| stand.resources.name(resource));
        refused(refusal.outcome(), told, facts, None)
    }
}
