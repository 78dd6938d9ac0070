//! What turns of a server that died left behind: a token that still opens the chief's door, a program that still acts. Never touches a turn that
//! another server runs, and never settles its message: the next delivery does.

use std::path::Path;

use muster_core::Fault;
use muster_core::ids::{ChiefId, OwnerId};
use muster_store::Db;

use super::sql;

/// Ends the programs and forgets the tokens of turns that nobody runs any more. For a server that starts, before it listens. What cannot be
/// ended now is logged, and tried again by the chief's next delivery.
///
/// # Errors
/// A fault of the database; the programs are ended all the same.
pub async fn end_left_over(db: &Db, data_dir: &Path) -> Result<(), Fault> {
    end_programs(&data_dir.join("chiefs")).await;
    let chiefs: Vec<(i64, i64)> = db
        .system_read("looking for turns that a stop cut off", |tx| {
            Box::pin(async move { tx.all(&sql::CHIEFS_IN_TURNS, ()).await })
        })
        .await?;
    for (owner, chief) in chiefs {
        forget_tokens(db, OwnerId::new(owner), ChiefId::new(chief)).await?;
    }
    Ok(())
}

/// Every work folder there is, those of chiefs that were replaced too: no delivery will ever come to them.
async fn end_programs(folders: &Path) {
    // Without the folder no chief has had a turn on this machine.
    let Ok(entries) = std::fs::read_dir(folders) else {
        return;
    };
    for folder in entries.flatten() {
        if let Err(reason) = muster_runtime::end_left_over(&folder.path()).await {
            tracing::warn!(reason = %muster_core::text::terminal(&reason), "a chief's program of an earlier server may still run");
        }
    }
}

/// Forgets the tokens of a chief whose lock is free. Each turn's token is made and forgotten by who holds that lock, so these are nobody's.
async fn forget_tokens(db: &Db, owner: OwnerId, chief: ChiefId) -> Result<(), Fault> {
    let Some(lock) = db.locks().try_take("chief", chief.get()).await? else {
        return Ok(());
    };
    let forgotten = db
        .write(owner, move |tx| {
            Box::pin(async move { tx.run(&sql::FORGET_CHIEF_TOKENS, (chief,)).await })
        })
        .await;
    lock.release().await;
    let forgotten = forgotten?;
    if forgotten > 0 {
        tracing::info!(
            chief.id = chief.get(),
            tokens = forgotten,
            "an earlier server stopped during a turn; its token is refused from now on"
        );
    }
    Ok(())
}
