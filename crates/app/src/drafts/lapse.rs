//! Makes what time has decided real: leases that lapsed, drafts that expired. Never decides anything else.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{DraftId, OwnerId};
use muster_store::Tx;
use serde_json::json;

use super::sql;
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::notices;

const UNCONFIRMED: &str = "plugin.draft.unconfirmed";

/// Runs first in every act on drafts, so that what follows sees states and not clocks.
///
/// # Errors
/// A fault.
pub(super) async fn lapse(tx: &mut Tx, owner: OwnerId, now: Time) -> Result<(), Fault> {
    // Seldom is anything due, and one look costs less than two updates of nothing.
    if tx.number(&sql::DUE, (now,)).await? == 0 {
        return Ok(());
    }
    let lapsed: Vec<(i64,)> = tx.all(&sql::LAPSE, (now,)).await?;
    let expired: Vec<(i64,)> = tx.all(&sql::EXPIRE, (now,)).await?;
    for (name, ids) in [(UNCONFIRMED, lapsed), ("plugin.draft.expired", expired)] {
        for (id,) in ids {
            let id = DraftId::new(id);
            audit::record(
                tx,
                now,
                Event {
                    name,
                    actor: "muster".into(),
                    subject: Subject::Draft(id),
                    data: json!({}),
                },
            )
            .await?;
            if name == UNCONFIRMED {
                notices::draft_unconfirmed(tx, owner, id, now).await?;
            } else {
                notices::clear_draft(tx, owner, id, now).await?;
            }
        }
    }
    Ok(())
}

/// Lapses and expires what is due for one owner, so that a page that is read next is truthful. Writes nothing when nothing is due.
///
/// # Errors
/// A fault.
pub async fn lapse_owner(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let now = app.clock.now();
    let due: i64 = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.number(&sql::DUE, (now,)).await })
        })
        .await?;
    if due == 0 {
        return Ok(());
    }
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { lapse(tx, owner, now).await })
        })
        .await
}

/// Lapses and expires what is due for every owner.
///
/// # Errors
/// The first fault; what was done before it stands.
pub async fn sweep(app: &App) -> Result<(), Fault> {
    let now = app.clock.now();
    let owners: Vec<(i64,)> = app
        .db
        .system_read("sweep of drafts", move |tx| {
            Box::pin(async move { tx.all(&sql::DUE_OWNERS, (now,)).await })
        })
        .await?;
    for (owner,) in owners {
        lapse_owner(app, OwnerId::new(owner)).await?;
    }
    Ok(())
}
