//! The owner decides: approve, reject, withdraw. Every door comes through here; none has a way of its own.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{DraftId, MessageId, OwnerId, PluginId};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::state::{self, DraftState};
use super::{DecideRefusal, lapse, sql};
use crate::App;
use crate::accounts::BrowserCaller;
use crate::audit::{self, Event, Subject};
use crate::notices;

/// Who decides, and by what right.
#[derive(Debug, Clone)]
pub enum Decider {
    /// The owner in a browser; the sign-in's age is checked for an approval.
    Browser(BrowserCaller),
}

impl Decider {
    fn owner(&self) -> OwnerId {
        match self {
            Self::Browser(caller) => caller.owner,
        }
    }

    /// What the audit row calls the place of the decision.
    fn via(&self) -> String {
        match self {
            Self::Browser(_) => "browser".to_owned(),
        }
    }
}

#[derive(sqlx::FromRow)]
struct Facts {
    plugin_id: i64,
    message_id: i64,
    state: String,
    claimed_at: Option<i64>,
    revoked_at: Option<i64>,
}

struct Found {
    plugin: PluginId,
    revoked: bool,
    message: MessageId,
    state: DraftState,
    claimed: bool,
}

async fn find(tx: &mut Tx, owner: OwnerId, draft: DraftId, now: Time) -> Result<Found, DecideRefusal> {
    lapse::lapse(tx, owner, now).await?;
    let row: Facts = tx
        .optional(&sql::FACTS, (draft,))
        .await?
        .ok_or(DecideRefusal::NotFound)?;
    // Locks the message on Postgres, then looks again: what stood there before the lock may have changed while waiting for it.
    tx.optional::<MessageLock>(&sql::MESSAGE, (MessageId::new(row.message_id),))
        .await?;
    look(tx, draft).await
}

async fn look(tx: &mut Tx, draft: DraftId) -> Result<Found, DecideRefusal> {
    let row: Facts = tx
        .optional(&sql::FACTS, (draft,))
        .await?
        .ok_or(DecideRefusal::NotFound)?;
    let state = DraftState::parse(&row.state)
        .ok_or_else(|| Fault::contradiction("drafts", draft.get(), "its state is none of the eight"))?;
    Ok(Found {
        plugin: PluginId::new(row.plugin_id),
        revoked: row.revoked_at.is_some(),
        message: MessageId::new(row.message_id),
        state,
        claimed: row.claimed_at.is_some(),
    })
}

/// Why a move that `rule` allowed found no row to change: a claim, a result or a lapse came first. They do not take the message's
/// lock, and Postgres shows what they stored only to a statement that begins after it; so the draft is looked at once more.
async fn overtaken(
    tx: &mut Tx,
    draft: DraftId,
    rule: impl Fn(&Found) -> Result<(), DecideRefusal>,
) -> DecideRefusal {
    match look(tx, draft).await {
        Ok(found) => match rule(&found) {
            Ok(()) => Fault::contradiction("drafts", draft.get(), "it could be decided and was not").into(),
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    }
}

#[derive(sqlx::FromRow)]
struct MessageLock {
    #[sqlx(rename = "id")]
    _id: i64,
}

/// Approves a pending draft: the connector's next claim gets it. A revoked connector makes none, so its drafts are refused. A sign-in older than the step-up window is refused whatever the page did.
///
/// # Errors
/// [`DecideRefusal`]; nothing was changed then.
pub async fn approve(app: &App, decider: &Decider, draft: DraftId) -> Result<(), DecideRefusal> {
    let now = app.clock.now();
    match decider {
        Decider::Browser(caller) => {
            if !state::fresh_enough(caller.signed_in_at, now, app.settings.stepup_window) {
                return Err(DecideRefusal::ConfirmFirst);
            }
        }
    }
    let (owner, via) = (decider.owner(), decider.via());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = find(tx, owner, draft, now).await?;
                state::may_decide(found.state)?;
                // A revocation that comes a moment later leaves an approved draft, which expires as any other.
                if found.revoked {
                    return Err(DecideRefusal::Revoked);
                }
                if tx.number(&sql::IN_FLIGHT, (found.message,)).await? > 0 {
                    return Err(DecideRefusal::InFlight);
                }
                if tx
                    .run(&sql::APPROVE, (draft, now, via.as_str()))
                    .await
                    .map_err(in_flight)?
                    != 1
                {
                    return Err(overtaken(tx, draft, |found| state::may_decide(found.state)).await);
                }
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "plugin.draft.approved",
                        actor: "owner".into(),
                        subject: Subject::Draft(draft),
                        data: json!({"decided_via": via}),
                    },
                )
                .await?;
                notices::clear_draft(tx, owner, draft, now).await?;
                tx.wake(Topic::Plugin(found.plugin));
                Ok(())
            })
        })
        .await
}

/// The index that allows one approved reply a message, as each engine names it.
fn in_flight(fault: Fault) -> DecideRefusal {
    match fault.constraint() {
        Some("drafts_one_in_flight" | "drafts.message_id") => DecideRefusal::InFlight,
        _ => DecideRefusal::Fault(fault),
    }
}

/// Rejects a pending draft. Refusing to send is never the risky direction, so no fresh sign-in is asked.
///
/// # Errors
/// [`DecideRefusal`]; nothing was changed then.
pub async fn reject(app: &App, decider: &Decider, draft: DraftId) -> Result<(), DecideRefusal> {
    let (now, owner, via) = (app.clock.now(), decider.owner(), decider.via());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = find(tx, owner, draft, now).await?;
                state::may_decide(found.state)?;
                if tx.run(&sql::REJECT, (draft, now, via.as_str())).await? != 1 {
                    return Err(overtaken(tx, draft, |found| state::may_decide(found.state)).await);
                }
                finish_rejection(tx, owner, draft, json!({"decided_via": via}), now).await
            })
        })
        .await
}

/// Takes an approval back while no claim has taken the reply: it becomes rejected.
///
/// # Errors
/// [`DecideRefusal`]; nothing was changed then.
pub async fn withdraw(app: &App, decider: &Decider, draft: DraftId) -> Result<(), DecideRefusal> {
    let (now, owner, via) = (app.clock.now(), decider.owner(), decider.via());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = find(tx, owner, draft, now).await?;
                state::may_withdraw(found.state, found.claimed)?;
                if tx.run(&sql::WITHDRAW, (draft, now, via.as_str())).await? != 1 {
                    return Err(overtaken(tx, draft, |found| {
                        state::may_withdraw(found.state, found.claimed)
                    })
                    .await);
                }
                finish_rejection(
                    tx,
                    owner,
                    draft,
                    json!({"decided_via": via, "withdrawn": true}),
                    now,
                )
                .await
            })
        })
        .await
}

async fn finish_rejection(
    tx: &mut Tx,
    owner: OwnerId,
    draft: DraftId,
    data: serde_json::Value,
    now: Time,
) -> Result<(), DecideRefusal> {
    audit::record(
        tx,
        now,
        Event {
            name: "plugin.draft.rejected",
            actor: "owner".into(),
            subject: Subject::Draft(draft),
            data,
        },
    )
    .await?;
    notices::clear_draft(tx, owner, draft, now).await?;
    Ok(())
}
