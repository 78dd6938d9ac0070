//! A call that waits for a person: until it is answered, expires, or its caller goes away. Never runs what was not asked about anew.

use std::time::Duration;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId};
use muster_policy::Approval;
use muster_store::{Topic, Tx};

use super::gate::{
    Call, Facts, Permitted, Refused, Stand, Who, as_it_is, broken, hidden, hides, judged, refused, stand,
};
use super::lapsing::{ends_alone, lapse_now, leaves, wake};
use super::queue::Place;
use super::sql;
use super::state::AskState;
use crate::App;

/// How often a parked call looks for its answer itself: an answer given by another process wakes nobody on SQLite.
const LOOK: Duration = Duration::from_millis(200);

/// A call that waits. Dropped before its end, it leaves the queue.
pub(super) struct Waiting {
    app: App,
    facts: Facts,
    pub(super) place: Place,
    pub(super) ended: bool,
}

impl Waiting {
    pub(super) fn new(app: &App, facts: Facts, place: Place) -> Self {
        Self {
            app: app.clone(),
            facts,
            place,
            ended: false,
        }
    }
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
        .write_in_turn(facts.who.owner, "asks", facts.who.owner.get(), move |tx| {
            Box::pin(async move {
                let there = leaves(tx, place).await?;
                ends_alone(tx, now, place, AskState::Withdrawn).await?;
                if there {
                    facts.record(tx, now, "withdrawn", Some(place.ask), None);
                }
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

/// Does `placing` to its end, also when whoever asked for it goes away meanwhile: what comes of it is dropped then, a place with its guard.
pub(super) async fn to_its_end<T: Send + 'static>(
    app: &App,
    placing: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let (tell, told) = tokio::sync::oneshot::channel();
    app.tasks.spawn(async move {
        // What nobody hears is dropped here.
        let _ = tell.send(placing.await);
    });
    let lost = || Fault::other("a call's place in the queue was not looked for to the end");
    told.await.unwrap_or_else(|_| Err(lost()))
}

pub(super) async fn wait(
    app: &App,
    who: &Who,
    call: &Call,
    mut waiting: Waiting,
) -> Result<Permitted, Refused> {
    let place = waiting.place;
    let ended = until_decided(app, who.owner, place).await;
    let (state, by) = match ended {
        Ok(ended) => ended,
        // The guard leaves the queue.
        Err(fault) => return Err(broken(&fault)),
    };
    let done = end(app, who, call, place, state, by).await;
    waiting.ended = done.is_ok();
    drop(waiting);
    match done {
        Ok(done) => done,
        Err(fault) => Err(broken(&fault)),
    }
}

/// The process is being stopped: its call waits no longer. The ask expires with it, unless another call waits for it too, or somebody answered
/// at this very moment. The call leaves where its end is recorded.
async fn stopped(app: &App, owner: OwnerId, place: Place) -> Result<(AskState, Option<String>), Fault> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, "asks", owner.get(), move |tx| {
            Box::pin(async move {
                ends_alone(tx, now, place, AskState::Expired).await?;
                let (word, by): (String, Option<String>) = tx.one(&sql::STATE, (place.ask,)).await?;
                let state = AskState::parse(&word).ok_or_else(|| {
                    Fault::contradiction("asks", place.ask.get(), "its state is none of the five")
                })?;
                Ok((state, by))
            })
        })
        .await
}

pub(super) async fn until_decided(
    app: &App,
    owner: OwnerId,
    place: Place,
) -> Result<(AskState, Option<String>), Fault> {
    let waiter = app.db.wakeups().waiter(Topic::Asks(owner));
    let stop = app.tasks.stopping();
    loop {
        let woken = waiter.woken();
        if let End::Decided(state, by) = look(app, owner, place.ask).await? {
            return Ok((state, by));
        }
        if app.clock.now() >= place.expires_at {
            lapse_now(app, owner).await?;
            if let End::Decided(state, by) = look(app, owner, place.ask).await? {
                return Ok((state, by));
            }
        }
        tokio::select! {
            () = woken => {}
            () = stop.cancelled() => return stopped(app, owner, place).await,
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
        .write_in_turn(who.owner, "asks", who.owner.get(), move |tx| {
            Box::pin(async move {
                let there = leaves(tx, place).await?;
                if state == AskState::Parked {
                    ends_alone(tx, now, place, AskState::Expired).await?;
                }
                let stand = stand(tx, who.task, call.needs.pairs()).await?;
                let facts = Facts::of(&who, &call, &stand);
                let ask = Some(place.ask);
                let (outcome, message) = match state {
                    AskState::Approved if there => {
                        return approved(tx, now, &stand, &facts, &call, place.ask, by).await;
                    }
                    AskState::Approved => (
                        "withdrawn",
                        "Withdrawn, and nothing was done: this process was held for gone before the call could go on. You may try again.",
                    ),
                    AskState::Refused => (
                        "refused_by_person",
                        "Refused, and nothing was done: your owner said no to this call. Do not try it again without another reason.",
                    ),
                    AskState::Withdrawn => (
                        "withdrawn",
                        "Withdrawn, and nothing was done: the task was closed, or the call was given up, while it waited for your owner.",
                    ),
                    AskState::Expired | AskState::Parked => (
                        "refused_expired",
                        "Refused, and nothing was done: nobody answered in time, or before muster was stopped. That is no decision of your owner's; you may ask again later.",
                    ),
                };
                if there {
                    let by = by.filter(|_| state == AskState::Refused);
                    facts.record(tx, now, outcome, ask, by.as_deref());
                }
                Ok(Err(told(&stand, &call, refused(outcome, message, &facts, ask))))
            })
        })
        .await
}

/// What the agent is told: of a connection that it may not read any more nothing but that.
fn told(stand: &Stand, call: &Call, refused: Refused) -> Refused {
    let judged = judged(stand, &call.needs);
    if hides(&judged) { hidden(&judged) } else { refused }
}

/// Whether the caller's token still counts, or the account of a session without one.
pub(super) async fn lives(tx: &mut Tx, who: &Who) -> Result<bool, Fault> {
    let live = match who.agent.token() {
        None => tx.number(&sql::OWNER_LIVE, ()).await?,
        Some(token) => tx.number(&sql::TOKEN_LIVE, (token,)).await?,
    };
    Ok(live != 0)
}

async fn approved(
    tx: &mut Tx,
    now: Time,
    stand: &Stand,
    facts: &Facts,
    call: &Call,
    ask: AskId,
    by: Option<String>,
) -> Result<Result<Permitted, Refused>, Fault> {
    if !lives(tx, &facts.who).await? {
        facts.record(tx, now, "withdrawn", Some(ask), None);
        let message =
            "Withdrawn, and nothing was done: the token of this agent was revoked while the call waited.";
        return Ok(Err(refused("withdrawn", message, facts, Some(ask))));
    }
    // What was removed while the call waited is not there any more.
    let decision = muster_policy::decide(stand.governing.standing(), &as_it_is(stand, &call.needs));
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
