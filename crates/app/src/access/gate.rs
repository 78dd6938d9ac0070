//! One tool call's way to its permit. Never lets an effect begin before the call's audit row is stored, and never runs a call that could not be decided.

use std::time::Duration;

use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId, TaskId, TokenId};
use muster_core::secret::sha256_hex;
use muster_core::{Fault, clock};
use muster_policy::{Action, Answer, Approval, Decision, Judged, Needs, Permit, Request, is_covered};
use muster_store::{Topic, Tx};
use serde_json::{Value, json};

use super::asks::{self, wake};
use super::presence::{self, Seen};
use super::sql;
use super::state::{AskState, Turn, Unasked, canonical, turn};
use crate::accounts::AgentCaller;
use crate::policies::{self, Governing, Subjects};
use crate::resources::{self, Resources};
use crate::{App, audit, settings};

/// How often a parked call looks for its answer itself: an answer given by another process wakes nobody on SQLite.
const LOOK: Duration = Duration::from_millis(200);

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
struct Who {
    owner: OwnerId,
    token: TokenId,
    label: String,
    task: Option<TaskId>,
}

/// What governs the caller, read in the transaction of the decision.
pub(super) struct Stand {
    pub(super) title: Option<String>,
    pub(super) governing: Governing,
    pub(super) resources: Resources,
}

/// What governs this agent now. One without a task is under the built-in policy, which grants nothing.
pub(super) async fn stand(tx: &mut Tx, task: Option<TaskId>) -> Result<Stand, Fault> {
    let resources = resources::all(tx).await?;
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

fn judged(stand: &Stand, needs: &Needs) -> Vec<Judged> {
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
struct Facts {
    who: Who,
    tool: String,
    title: Option<String>,
    pairs: Value,
    policy: Option<Subjects>,
}

impl Facts {
    fn of(who: &Who, call: &Call, stand: &Stand) -> Self {
        Self {
            who: who.clone(),
            tool: call.tool.clone(),
            title: stand.title.clone(),
            pairs: pairs_json(&stand.resources, &judged(stand, &call.needs)),
            policy: stand.governing.subject(),
        }
    }

    fn record(
        &self,
        tx: &mut Tx,
        now: Time,
        outcome: &'static str,
        ask: Option<AskId>,
        decided_by: Option<&str>,
    ) {
        let call = audit::Call {
            agent: self.who.token,
            task: self.who.task,
            tool: self.tool.clone(),
            outcome,
            data: json!({
                "agent": {"id": self.who.token.to_string(), "label": self.who.label},
                "task": self.who.task.map(|id| json!({"id": id.to_string(), "title": self.title})),
                "pairs": self.pairs,
                "policy": self.policy,
                "ask_id": ask.map(|ask| ask.to_string()),
                "decided_by": decided_by,
            }),
        };
        audit::record_call(tx, now, call);
    }
}

/// Whether the refusal must not show that the connection exists: its `db_read` is refused, or it names none.
fn hides(judged: &[Judged]) -> bool {
    judged
        .iter()
        .any(|one| one.pair.action() == Action::DbRead && one.verdict.answer.refuses())
}

/// What an agent is told of a database that it may not read: exactly what it is told of one that does not exist.
fn hidden(judged: &[Judged]) -> Refused {
    let pairs: Vec<Value> = judged
        .iter()
        .map(|one| json!({"action": one.pair.action().as_str(), "resource": null, "verdict": "not_granted", "layer": null}))
        .collect();
    Refused {
        code: "refused_not_granted",
        message: "Refused, and nothing was done: the call names no database connection that can be read. \
                  Call muster_list_db_connections for those that can; your owner opens one with a grant of db_read on it."
            .to_owned(),
        pairs: Value::Array(pairs),
        ask: None,
    }
}

fn refused(code: &'static str, message: impl Into<String>, facts: &Facts, ask: Option<AskId>) -> Refused {
    Refused {
        code,
        message: message.into(),
        pairs: facts.pairs.clone(),
        ask,
    }
}

/// A call that could not be decided or recorded.
fn broken(fault: &Fault) -> Refused {
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

/// What the second look came to, for a call that asks.
enum Queued {
    Permitted(Permitted),
    Refused(Refused),
    Waits(Place),
}

/// A place in the queue.
#[derive(Debug, Clone, Copy)]
struct Place {
    ask: AskId,
    caller: i64,
    expires_at: Time,
}

/// Decides a call, waiting for a person when it asks. Dropping the future withdraws the call; its ask with it, when no other call waits for that.
///
/// # Errors
/// [`Refused`]; the effect must not begin.
pub async fn decide(app: &App, caller: &AgentCaller, call: Call) -> Result<Permitted, Refused> {
    let who = Who {
        owner: caller.owner,
        token: caller.token,
        label: caller.label.clone(),
        task: caller.task,
    };
    match first(app, &who, &call).await {
        Err(fault) => Err(unrecorded(app, &who, &call, &fault).await),
        Ok(Step::Permitted(permitted)) => Ok(permitted),
        Ok(Step::Refused(refused)) => Err(refused),
        Ok(Step::Ask) => match queue(app, &who, &call).await {
            Err(fault) => Err(unrecorded(app, &who, &call, &fault).await),
            Ok(Queued::Permitted(permitted)) => Ok(permitted),
            Ok(Queued::Refused(refused)) => Err(refused),
            Ok(Queued::Waits(place)) => wait(app, &who, &call, place).await,
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
                let stand = stand(tx, who.task).await?;
                let facts = Facts::of(&who, &call, &stand);
                match muster_policy::decide(stand.governing.standing(), &call.needs) {
                    Decision::Allow(permit) => {
                        facts.record(tx, now, permit.basis().outcome(), None, None);
                        Ok(Step::Permitted(Permitted { permit }))
                    }
                    Decision::Deny(refusal) => Ok(Step::Refused(deny(tx, now, &facts, &refusal).await?)),
                    Decision::Ask(_) => Ok(Step::Ask),
                }
            })
        })
        .await
}

async fn deny(
    tx: &mut Tx,
    now: Time,
    facts: &Facts,
    refusal: &muster_policy::Refusal,
) -> Result<Refused, Fault> {
    facts.record(tx, now, refusal.outcome(), None, None);
    Ok(if hides(refusal.verdicts()) {
        hidden(refusal.verdicts())
    } else {
        refused(refusal.outcome(), refusal.to_string(), facts, None)
    })
}

/// The keys of a call, as short as a row wants them.
fn keys(who: &Who, call: &Call) -> (String, String, String) {
    let arguments = canonical(&call.arguments).to_string();
    let request = Request {
        agent: who.token,
        tool: &call.tool,
        needs: &call.needs,
        arguments: &arguments,
    };
    let (parking, approval) = (request.parking_key(), request.approval_key());
    (
        sha256_hex(parking.as_bytes()),
        sha256_hex(approval.as_bytes()),
        arguments,
    )
}

/// Everything about an ask that is stored.
struct New {
    kind: &'static str,
    parking: String,
    approval: String,
    arguments: String,
    pairs: Value,
    unasked: Option<Unasked>,
}

/// Finds the call a place: covered, joined, parked, or refused because the queue is full or nobody can be asked.
async fn queue(app: &App, who: &Who, call: &Call) -> Result<Queued, Fault> {
    let process = app.process.number(app).await?;
    let seen = presence::look(app, who.owner).await?;
    let (who, call, now) = (who.clone(), call.clone(), app.clock.now());
    app.db
        .write_in_turn(who.owner, "asks", who.owner.get(), move |tx| {
            Box::pin(async move {
                asks::lapse(tx, now, &seen.gone).await?;
                let stand = stand(tx, who.task).await?;
                let facts = Facts::of(&who, &call, &stand);
                let decision = muster_policy::decide(stand.governing.standing(), &call.needs);
                let asked = match decision {
                    // Somebody changed the policy between the two looks; this is the one that counts.
                    Decision::Allow(permit) => {
                        facts.record(tx, now, permit.basis().outcome(), None, None);
                        return Ok(Queued::Permitted(Permitted { permit }));
                    }
                    Decision::Deny(refusal) => {
                        return Ok(Queued::Refused(deny(tx, now, &facts, &refusal).await?));
                    }
                    Decision::Ask(asked) => asked,
                };
                let (parking, approval, arguments) = keys(&who, &call);
                let new = New {
                    kind: "permission",
                    parking,
                    approval,
                    arguments,
                    pairs: asked_pairs(&stand.resources, asked.verdicts()),
                    unasked: None,
                };
                Ok(match place(tx, now, process, &seen, &facts, &new).await? {
                    Placed::Covered { ask, by } => {
                        let permit = asked.approved(Approval::Recent);
                        let outcome = permit.basis().outcome();
                        facts.record(tx, now, outcome, Some(ask), by.as_deref());
                        Queued::Permitted(Permitted { permit })
                    }
                    Placed::AutoAllowed => {
                        let permit = asked.approved(Approval::NobodyToAsk);
                        facts.record(tx, now, permit.basis().outcome(), None, None);
                        Queued::Permitted(Permitted { permit })
                    }
                    Placed::Refused(refused) => Queued::Refused(refused),
                    Placed::Waits(place) => Queued::Waits(place),
                })
            })
        })
        .await
}

/// The pairs as an ask shows them: what is charged, without what was found.
fn asked_pairs(resources: &Resources, judged: &[Judged]) -> Value {
    judged
        .iter()
        .map(|one| json!({"action": one.pair.action().as_str(), "resource": resources.of_pair(&one.pair)}))
        .collect()
}

enum Placed {
    Covered { ask: AskId, by: Option<String> },
    AutoAllowed,
    Refused(Refused),
    Waits(Place),
}

async fn place(
    tx: &mut Tx,
    now: Time,
    process: i64,
    seen: &Seen,
    facts: &Facts,
    new: &New,
) -> Result<Placed, Fault> {
    let since = now.minus(muster_policy::APPROVAL_COVERS);
    let covering: Option<(i64, i64, Option<String>)> = tx
        .optional(&sql::COVERING, (new.approval.as_str(), since))
        .await?;
    if let Some((ask, at, by)) = covering
        && is_covered(Time::from_micros(at), now)
    {
        return Ok(Placed::Covered {
            ask: AskId::new(ask),
            by,
        });
    }
    let same: Option<(i64, i64)> = tx.optional(&sql::SAME_PARKED, (new.parking.as_str(),)).await?;
    if let Some((ask, expires_at)) = same {
        let caller = tx.number(&sql::CALL, (ask, process)).await?;
        return Ok(Placed::Waits(Place {
            ask: AskId::new(ask),
            caller,
            expires_at: Time::from_micros(expires_at),
        }));
    }
    let parked = usize::try_from(tx.number(&sql::COUNT_PARKED, ()).await?).unwrap_or(usize::MAX);
    let unasked = match new.unasked {
        Some(unasked) => unasked,
        None => Unasked::BySetting(settings::require_when_closed(tx).await?),
    };
    match turn(parked, seen.approver, unasked) {
        Turn::Park => {
            let expires_at = now.plus(settings::expiry(tx).await?);
            let ask = tx
                .number(
                    &sql::PARK,
                    (
                        new.kind,
                        facts.who.token,
                        facts.who.task,
                        facts.tool.as_str(),
                        new.arguments.as_str(),
                        new.pairs.to_string(),
                        new.parking.as_str(),
                        new.approval.as_str(),
                        now,
                        expires_at,
                    ),
                )
                .await?;
            let caller = tx.number(&sql::CALL, (ask, process)).await?;
            wake(tx);
            Ok(Placed::Waits(Place {
                ask: AskId::new(ask),
                caller,
                expires_at,
            }))
        }
        Turn::AutoAllow => Ok(Placed::AutoAllowed),
        Turn::Saturated => {
            facts.record(tx, now, "refused_queue_saturated", None, None);
            Ok(Placed::Refused(refused(
                "refused_queue_saturated",
                "Refused, and nothing was done: the call needs your owner's approval, and 16 calls wait for one already. Try again once your owner has answered some.",
                facts,
                None,
            )))
        }
        Turn::Strict => {
            facts.record(tx, now, "refused_app_closed_strict", None, None);
            Ok(Placed::Refused(refused(
                "refused_app_closed_strict",
                "Refused, and nothing was done: the call needs your owner's approval, and nobody can be asked now. \
                 Your owner can open the Asks page or run `muster asks watch`, and you can then try again.",
                facts,
                None,
            )))
        }
    }
}

/// A call that waits. Dropped before its end, it leaves the queue.
struct Waiting {
    app: App,
    facts: Facts,
    place: Place,
    ended: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (app, facts, place) = (self.app.clone(), self.facts.clone(), self.place);
        self.app.tasks.spawn(async move {
            if let Err(fault) = leave(&app, &facts, place).await {
                tracing::warn!(error = %fault.chain(), "a call that went away keeps its place until it expires");
            }
        });
    }
}

/// The caller went away: its ask is withdrawn, unless another call waits for it too.
async fn leave(app: &App, facts: &Facts, place: Place) -> Result<(), Fault> {
    let (facts, now) = (facts.clone(), app.clock.now());
    app.db
        .write(facts.who.owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::LEAVE, (place.caller,)).await?;
                if tx.number(&sql::CALLERS_LEFT, (place.ask,)).await? == 0 {
                    let none = None::<String>;
                    let state = AskState::Withdrawn.as_str();
                    tx.run(&sql::DECIDE, (place.ask, state, now, none)).await?;
                }
                facts.record(tx, now, "withdrawn", Some(place.ask), None);
                wake(tx);
                Ok(())
            })
        })
        .await
}

/// What became of an ask.
enum End {
    Decided(AskState, Option<String>),
    StillParked,
}

async fn look(app: &App, owner: OwnerId, ask: AskId) -> Result<End, Fault> {
    let found: Option<(String, Option<String>)> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::STATE, (ask,)).await })
        })
        .await?;
    let gone = || Fault::contradiction("asks", ask.get(), "a call waits for an ask that is not there");
    let (word, by) = found.ok_or_else(gone)?;
    match AskState::parse(&word).ok_or_else(gone)? {
        AskState::Parked => Ok(End::StillParked),
        state => Ok(End::Decided(state, by)),
    }
}

async fn wait(app: &App, who: &Who, call: &Call, place: Place) -> Result<Permitted, Refused> {
    let facts = Facts {
        who: who.clone(),
        tool: call.tool.clone(),
        title: None,
        pairs: charged(call),
        policy: None,
    };
    let mut waiting = Waiting {
        app: app.clone(),
        facts,
        place,
        ended: false,
    };
    let ended = until_decided(app, who.owner, place).await;
    let (state, by) = match ended {
        Ok(ended) => ended,
        // The guard leaves the queue.
        Err(fault) => return Err(broken(&fault)),
    };
    let done = end(app, who, call, place, state, by).await;
    waiting.ended = done.is_ok();
    drop(waiting);
    done.unwrap_or_else(|fault| Err(broken(&fault)))
}

/// The pairs of a call whose standing is not looked at any more.
fn charged(call: &Call) -> Value {
    call.needs
        .pairs()
        .iter()
        .map(|pair| {
            json!({
                "action": pair.action().as_str(),
                "resource": pair.resource().map(|resource| json!({"kind": resource.kind().as_str(), "id": resource.id()})),
                "verdict": Answer::Ask.as_str(),
                "layer": null,
            })
        })
        .collect()
}

async fn until_decided(app: &App, owner: OwnerId, place: Place) -> Result<(AskState, Option<String>), Fault> {
    let waiter = app.db.wakeups().waiter(Topic::Asks(owner));
    loop {
        let woken = waiter.woken();
        if let End::Decided(state, by) = look(app, owner, place.ask).await? {
            return Ok((state, by));
        }
        if app.clock.now() >= place.expires_at {
            asks::lapse_now(app, owner).await?;
            if let End::Decided(state, by) = look(app, owner, place.ask).await? {
                return Ok((state, by));
            }
        }
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Ends a call whose ask has ended, in one transaction: the policy is asked once more, and what was added meanwhile counts.
async fn end(
    app: &App,
    who: &Who,
    call: &Call,
    place: Place,
    state: AskState,
    by: Option<String>,
) -> Result<Result<Permitted, Refused>, Fault> {
    let (who, call, now) = (who.clone(), call.clone(), app.clock.now());
    app.db
        .write(who.owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::LEAVE, (place.caller,)).await?;
                let stand = stand(tx, who.task).await?;
                let facts = Facts::of(&who, &call, &stand);
                let ask = Some(place.ask);
                let (outcome, message) = match state {
                    AskState::Approved => {
                        return approved(tx, now, &stand, &facts, &call, place.ask, by).await;
                    }
                    AskState::Refused => {
                        facts.record(tx, now, "refused_by_person", ask, by.as_deref());
                        let message = "Refused, and nothing was done: your owner said no to this call. Do not try it again without another reason.";
                        return Ok(Err(refused("refused_by_person", message, &facts, ask)));
                    }
                    AskState::Withdrawn => (
                        "withdrawn",
                        "Withdrawn, and nothing was done: the task was closed, or the call was given up, while it waited for your owner.",
                    ),
                    AskState::Expired | AskState::Parked => (
                        "refused_expired",
                        "Refused, and nothing was done: nobody answered in time. That is no decision of your owner's; you may ask again later.",
                    ),
                };
                facts.record(tx, now, outcome, ask, None);
                Ok(Err(refused(outcome, message, &facts, ask)))
            })
        })
        .await
}

#[expect(clippy::too_many_arguments, reason = "the facts of one call, each used once")]
async fn approved(
    tx: &mut Tx,
    now: clock::Time,
    stand: &Stand,
    facts: &Facts,
    call: &Call,
    ask: AskId,
    by: Option<String>,
) -> Result<Result<Permitted, Refused>, Fault> {
    if tx.number(&sql::TOKEN_LIVE, (facts.who.token,)).await? == 0 {
        facts.record(tx, now, "withdrawn", Some(ask), None);
        let message =
            "Withdrawn, and nothing was done: the token of this agent was revoked while the call waited.";
        return Ok(Err(refused("withdrawn", message, facts, Some(ask))));
    }
    let decision = muster_policy::decide(stand.governing.standing(), &call.needs);
    match decision.approved(Approval::Person) {
        Ok(permit) => {
            let outcome = permit.basis().outcome();
            facts.record(tx, now, outcome, Some(ask), by.as_deref());
            Ok(Ok(Permitted { permit }))
        }
        Err(refusal) => {
            facts.record(tx, now, refusal.outcome(), Some(ask), None);
            let refused = if hides(refusal.verdicts()) {
                hidden(refusal.verdicts())
            } else {
                refused(refusal.outcome(), refusal.to_string(), facts, Some(ask))
            };
            Ok(Err(refused))
        }
    }
}

/// A call of a plugin package's tool that its approval rules want asked.
#[derive(Debug, Clone)]
pub struct ToolPrompt {
    /// The tool's registered name.
    pub tool: String,
    /// The arguments as the agent gave them; outside text.
    pub arguments: Value,
}

/// How a prompt ended that did not end in a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// A person said no.
    ByPerson,
    /// Nobody answered in time.
    Expired,
    /// Nobody can be asked.
    NobodyToAsk,
    /// Sixteen wait already.
    Saturated,
    /// The call was given up, or something broke.
    Withdrawn,
}

/// Asks a person about a plugin tool's call: the same queue, expiry and page as permissions. With nobody to ask it is refused, whatever the
/// setting says: only a grant of `ask` that somebody authored runs unasked.
///
/// # Errors
/// [`Unanswered`]; the call must not be forwarded.
pub async fn prompt(app: &App, caller: &AgentCaller, tool: ToolPrompt) -> Result<AskId, Unanswered> {
    let who = Who {
        owner: caller.owner,
        token: caller.token,
        label: caller.label.clone(),
        task: caller.task,
    };
    let broke = |fault: Fault| {
        tracing::error!(error = %fault.chain(), "a plugin tool's call could not be asked about, so it was refused");
        Unanswered::Withdrawn
    };
    let process = app.process.number(app).await.map_err(broke)?;
    let seen = presence::look(app, who.owner).await.map_err(broke)?;
    let arguments = canonical(&tool.arguments).to_string();
    let key = json!([who.token, tool.tool, arguments]).to_string();
    let facts = Facts {
        who: who.clone(),
        tool: tool.tool,
        title: None,
        pairs: json!([]),
        policy: None,
    };
    let new = New {
        kind: "plugin_tool",
        parking: sha256_hex(key.as_bytes()),
        approval: sha256_hex(key.as_bytes()),
        arguments,
        pairs: json!([]),
        unasked: Some(Unasked::Never),
    };
    let now = app.clock.now();
    let placing = facts.clone();
    let placed = app
        .db
        .write_in_turn(who.owner, "asks", who.owner.get(), move |tx| {
            Box::pin(async move {
                asks::lapse(tx, now, &seen.gone).await?;
                let placed = place(tx, now, process, &seen, &placing, &new).await?;
                if let Placed::Covered { ask, by } = &placed {
                    placing.record(tx, now, "allowed_by_recent_approval", Some(*ask), by.as_deref());
                }
                Ok::<_, Fault>(placed)
            })
        })
        .await
        .map_err(broke)?;
    let place = match placed {
        Placed::Covered { ask, .. } => return Ok(ask),
        Placed::Refused(refused) if refused.code == "refused_queue_saturated" => {
            return Err(Unanswered::Saturated);
        }
        Placed::Refused(_) | Placed::AutoAllowed => return Err(Unanswered::NobodyToAsk),
        Placed::Waits(place) => place,
    };
    let mut waiting = Waiting {
        app: app.clone(),
        facts: facts.clone(),
        place,
        ended: false,
    };
    let (state, by) = until_decided(app, who.owner, place).await.map_err(broke)?;
    let (outcome, answer) = match state {
        AskState::Approved => ("allowed_by_person", Ok(place.ask)),
        AskState::Refused => ("refused_by_person", Err(Unanswered::ByPerson)),
        AskState::Withdrawn => ("withdrawn", Err(Unanswered::Withdrawn)),
        AskState::Expired | AskState::Parked => ("refused_expired", Err(Unanswered::Expired)),
    };
    let now = app.clock.now();
    app.db
        .write(who.owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::LEAVE, (place.caller,)).await?;
                facts.record(tx, now, outcome, Some(place.ask), by.as_deref());
                Ok(())
            })
        })
        .await
        .map_err(broke)?;
    waiting.ended = true;
    answer
}
