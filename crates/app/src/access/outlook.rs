//! What every page tells of asks: how many wait, and whether calls that ask would run unasked just now. Never decides a call.

use muster_core::Fault;
use muster_core::ids::OwnerId;

use super::{presence, sql};
use crate::{App, policies, settings};

/// How an owner's asks stand at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outlook {
    /// How many asks wait.
    pub waiting: usize,
    /// Whether a grant of `ask` behaves as `allow` now: some policy has one, nobody can be asked, and the setting lets such calls run.
    pub unasked: bool,
}

/// How an owner's asks stand now. Looks who is there only where it matters.
///
/// # Errors
/// A fault.
pub async fn outlook(app: &App, owner: OwnerId) -> Result<Outlook, Fault> {
    let (waiting, may_run) = app
        .db
        .read(owner, |tx| {
            Box::pin(async move {
                let waiting = tx.number(&sql::COUNT_PARKED, ()).await?;
                let may_run = !settings::require_when_closed(tx).await? && policies::any_ask(tx).await?;
                Ok::<_, Fault>((waiting, may_run))
            })
        })
        .await?;
    let unasked = may_run && !presence::look(app, owner).await?.approver;
    Ok(Outlook {
        waiting: usize::try_from(waiting).unwrap_or(usize::MAX),
        unasked,
    })
}
