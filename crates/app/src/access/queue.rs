//! Finding a call that asks its place: covered by an approval, joined to an identical ask, parked, or refused. Never more than sixteen parked.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, TokenId};
use muster_core::secret::sha256_hex;
use muster_policy::{Approval, Decision, Judged, Request, is_covered};
use muster_store::Tx;
use serde_json::{Value, json};

use super::gate::{Call, Facts, Permitted, Refused, Who, deny, refused, stand};
use super::lapsing::{lapse, wake};
use super::presence::{self, Seen};
use super::sql;
use super::state::{Turn, Unasked, canonical, turn};
use super::waiting::{Waiting, to_its_end};
use crate::resources::Resources;
use crate::{App, settings};

/// What the second look came to, for a call that asks.
pub(super) enum Queued<W> {
    Permitted(Permitted),
    Refused(Refused),
    Waits(W),
}

/// The most that a person is asked about, in bytes of the arguments' canonical JSON and of what is sent beside them: nobody reads more, and each ask is
/// stored and shown whole.
pub const LARGEST_ASKED: usize = 64 * 1024;

/// The outcome of a call that is larger.
pub(super) const TOO_LARGE: &str = "refused_error";

/// A place in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) ask: AskId,
    pub(super) caller: i64,
    pub(super) expires_at: Time,
}

/// The keys of a call, as short as a row wants them.
fn keys(agent: TokenId, call: &Call) -> (String, String, String) {
    let arguments = canonical(&call.arguments).to_string();
    let request = Request {
        agent,
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
pub(super) struct New {
    pub(super) kind: &'static str,
    pub(super) parking: String,
    pub(super) approval: String,
    pub(super) arguments: String,
    /// Bytes of what a person is shown beside the arguments.
    pub(super) beside: usize,
    pub(super) pairs: Value,
    pub(super) unasked: Option<Unasked>,
    /// What is kept besides: [`super::asks::Ask::about`].
    pub(super) about: Option<String>,
}

impl New {
    /// Bytes of what a person would be asked to read.
    pub(super) const fn size(&self) -> usize {
        self.arguments.len().saturating_add(self.beside)
    }
}

/// Finds the call a place: covered, joined, parked, or refused because the queue is full or nobody can be asked.
///
/// It goes on to its end also when whoever asked goes away meanwhile: a place that was stored is then given back by its guard.
pub(super) async fn queue(
    app: &App,
    agent: TokenId,
    who: &Who,
    call: &Call,
) -> Result<Queued<Waiting>, Fault> {
    let (own, who, call) = (app.clone(), who.clone(), call.clone());
    to_its_end(app, async move {
        Ok(match find(&own, agent, &who, &call).await? {
            Queued::Permitted(permitted) => Queued::Permitted(permitted),
            Queued::Refused(refused) => Queued::Refused(refused),
            Queued::Waits((place, facts)) => Queued::Waits(Waiting::new(&own, facts, place)),
        })
    })
    .await
}

async fn find(app: &App, agent: TokenId, who: &Who, call: &Call) -> Result<Queued<(Place, Facts)>, Fault> {
    let process = app.process.number(app).await?;
    let seen = presence::look(app, who.owner).await?;
    let (who, call, now) = (who.clone(), call.clone(), app.clock.now());
    app.db
        .write_in_turn(who.owner, "asks", who.owner.get(), move |tx| {
            Box::pin(async move {
                lapse(tx, now, &seen.gone).await?;
                let stand = stand(tx, who.task, call.needs.pairs()).await?;
                let facts = Facts::of(&who, &call, &stand);
                let decision = muster_policy::decide(stand.governing.standing(), &call.needs);
                let asked = match decision {
                    // Somebody changed the policy between the two looks; this is the one that counts.
                    Decision::Allow(permit) => {
                        facts.record(tx, now, permit.basis().outcome(), None, None);
                        return Ok(Queued::Permitted(Permitted { permit }));
                    }
                    Decision::Deny(refusal) => {
                        return Ok(Queued::Refused(deny(tx, now, &facts, &refusal, &stand)));
                    }
                    Decision::Ask(asked) => asked,
                };
                let (parking, approval, arguments) = keys(agent, &call);
                let new = New {
                    kind: "permission",
                    parking,
                    approval,
                    arguments,
                    beside: 0,
                    pairs: asked_pairs(&stand.resources, asked.verdicts()),
                    unasked: None,
                    about: Some(json!({"pairs": facts.pairs, "policy": facts.policy}).to_string()),
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
                    Placed::Waits(place) => Queued::Waits((place, facts)),
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

pub(super) enum Placed {
    Covered { ask: AskId, by: Option<String> },
    AutoAllowed,
    Refused(Refused),
    Waits(Place),
}

pub(super) async fn place(
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
        Turn::Park if new.size() > LARGEST_ASKED => {
            facts.record(tx, now, TOO_LARGE, None, None);
            Ok(Placed::Refused(refused(
                TOO_LARGE,
                format!(
                    "Refused, and nothing was done: the call needs your owner's approval, and it has {} bytes of arguments, more than the \
                     {LARGEST_ASKED} that a person is asked about. Send less, or ask your owner for a grant that allows it.",
                    new.size()
                ),
                facts,
                None,
            )))
        }
        Turn::Park => {
            let expires_at = now.plus(settings::expiry(tx).await?);
            let ask = tx
                .number(
                    &sql::PARK,
                    (
                        new.kind,
                        facts.who.agent.token(),
                        facts.who.task,
                        facts.tool.as_str(),
                        new.arguments.as_str(),
                        new.pairs.to_string(),
                        new.parking.as_str(),
                        new.approval.as_str(),
                        now,
                        expires_at,
                        facts.who.agent.session(),
                        new.about.as_deref(),
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
