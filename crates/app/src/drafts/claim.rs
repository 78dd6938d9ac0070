//! A connector collects an approved reply and reports what became of it. Never hands one out twice.

use std::time::Duration;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::exchange::Report;
use muster_core::ids::{DraftId, MessageId};
use muster_core::text::{Detail, ExternalRef};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::state::{self, DraftState, LEASE, ResultMove};
use super::{ClaimError, ReportRefusal, lapse, sql};
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::chief;
use crate::notices;
use crate::plugins::{self, PluginCaller};

/// A reply that is now the claimer's for two minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its id; never offered again.
    pub id: DraftId,
    /// The connector's own id of the message it answers.
    pub message_external_id: String,
    /// Exactly the text the owner approved.
    pub body: String,
    /// When the owner approved it.
    pub approved_at: Time,
}

/// Waits up to `wait` for an approved reply of the caller's and leases it. The future may be dropped at any await: a reply is then either
/// leased by a commit or still offered.
///
/// # Errors
/// [`ClaimError`].
pub async fn claim(app: &App, caller: &PluginCaller, wait: Duration) -> Result<Option<Claimed>, ClaimError> {
    let waiter = app.db.wakeups().waiter(Topic::Plugin(caller.plugin));
    let stop = app.tasks.stopping();
    let deadline = tokio::time::sleep(wait);
    tokio::pin!(deadline);
    let mut first = true;
    loop {
        // Before the look, so that an approval between look and wait is not missed.
        let woken = waiter.woken();
        let claimed = take(app, caller).await?;
        if std::mem::take(&mut first) {
            // The token has proven live. The only automatic retry of queued messages there is; it does not hold up the answer.
            chief::start_retry_queue(app, caller.owner);
        }
        if claimed.is_some() {
            return Ok(claimed);
        }
        tokio::select! {
            () = woken => {}
            () = &mut deadline => return Ok(None),
            () = stop.cancelled() => return Ok(None),
        }
        if stop.is_cancelled() {
            return Ok(None);
        }
    }
}

#[derive(sqlx::FromRow)]
struct ClaimRow {
    id: i64,
    message_id: i64,
    body: String,
    approved_at: i64,
}

async fn take(app: &App, caller: &PluginCaller) -> Result<Option<Claimed>, ClaimError> {
    let (caller, now) = (caller.clone(), app.clock.now());
    app.db
        .write(caller.owner, move |tx| {
            Box::pin(async move {
                plugins::touch(tx, &caller, now).await?;
                lapse::lapse(tx, caller.owner, now).await?;
                let row: Option<ClaimRow> = tx
                    .optional(&sql::CLAIM, (caller.plugin, now, now.plus(LEASE)))
                    .await?;
                let Some(row) = row else { return Ok(None) };
                let id = DraftId::new(row.id);
                let (external_id,): (String,) = tx
                    .one(&sql::EXTERNAL_ID, (MessageId::new(row.message_id),))
                    .await?;
                let event = Event {
                    name: "plugin.draft.claimed",
                    actor: format!("plugin:{}", caller.name),
                    subject: Subject::Draft(id),
                    data: json!({}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Owner(caller.owner));
                Ok(Some(Claimed {
                    id,
                    message_external_id: external_id,
                    body: row.body,
                    approved_at: Time::from_micros(row.approved_at),
                }))
            })
        })
        .await
}

/// The recorded result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// The draft.
    pub id: DraftId,
    /// `Sent` or `Failed`.
    pub state: DraftState,
}

#[derive(sqlx::FromRow)]
struct ReportRow {
    message_id: i64,
    state: String,
    claimed_at: Option<i64>,
}

/// Records a result, late or not. The same result again changes nothing. A reply that was sent supersedes every other reply to
/// the same message that no claim holds.
///
/// # Errors
/// [`ReportRefusal`]; the draft stays as it was.
pub async fn report(
    app: &App,
    caller: &PluginCaller,
    draft: DraftId,
    report: Report,
) -> Result<Reported, ReportRefusal> {
    let (caller, now) = (caller.clone(), app.clock.now());
    app.db
        .write(caller.owner, move |tx| {
            Box::pin(async move {
                plugins::touch(tx, &caller, now).await?;
                lapse::lapse(tx, caller.owner, now).await?;
                match judge(tx, &caller, draft, &report, now).await {
                    Err(ReportRefusal::Fault(fault)) => Err(ReportRefusal::Fault(fault)),
                    // A refused call is a call all the same: that the connector was seen is kept, and what time had decided.
                    answer => Ok(answer),
                }
            })
        })
        .await?
}

async fn judge(
    tx: &mut Tx,
    caller: &PluginCaller,
    draft: DraftId,
    report: &Report,
    now: Time,
) -> Result<Reported, ReportRefusal> {
    let row: ReportRow = tx
        .optional(&sql::FOR_REPORT, (caller.plugin, draft))
        .await?
        .ok_or(ReportRefusal::NotFound)?;
    let found = DraftState::parse(&row.state)
        .ok_or_else(|| Fault::contradiction("drafts", draft.get(), "its state is none of the eight"))?;
    match state::result_move(found, row.claimed_at.is_some(), report.ok) {
        ResultMove::Same(state) => Ok(Reported { id: draft, state }),
        ResultMove::Conflict(state) => Err(ReportRefusal::Conflict(state)),
        ResultMove::Record(state) => {
            record(
                tx,
                caller,
                draft,
                MessageId::new(row.message_id),
                state,
                report,
                now,
            )
            .await?;
            Ok(Reported { id: draft, state })
        }
    }
}

async fn record(
    tx: &mut Tx,
    caller: &PluginCaller,
    draft: DraftId,
    message: MessageId,
    state: DraftState,
    report: &Report,
    now: Time,
) -> Result<(), Fault> {
    let external_ref = report.external_ref.as_ref().map(ExternalRef::as_str);
    let detail = report.detail.as_ref().map(Detail::as_str);
    if tx
        .run(&sql::REPORT, (draft, state.as_str(), external_ref, detail, now))
        .await?
        != 1
    {
        return Err(Fault::contradiction(
            "drafts",
            draft.get(),
            "it was claimed and could not take a result",
        ));
    }
    let name = if report.ok {
        "plugin.draft.sent"
    } else {
        "plugin.draft.failed"
    };
    audit::record(
        tx,
        now,
        Event {
            name,
            actor: format!("plugin:{}", caller.name),
            subject: Subject::Draft(draft),
            data: json!({}),
        },
    )
    .await?;
    if report.ok {
        // A lease that lapsed had said that nobody knows.
        notices::clear_draft(tx, caller.owner, draft, now).await?;
        let others: Vec<(i64,)> = tx.all(&sql::SUPERSEDE_OTHERS, (message, draft, now)).await?;
        for (other,) in others {
            let other = DraftId::new(other);
            let data = json!({"sent_draft": draft.get()});
            audit::record(
                tx,
                now,
                Event {
                    name: "plugin.draft.superseded",
                    actor: "muster".into(),
                    subject: Subject::Draft(other),
                    data,
                },
            )
            .await?;
            notices::clear_draft(tx, caller.owner, other, now).await?;
        }
    } else {
        notices::draft_failed(tx, caller.owner, draft, now).await?;
    }
    tx.wake(Topic::Owner(caller.owner));
    Ok(())
}
