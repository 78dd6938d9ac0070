//! A stored database connection as the gateway opens it, for agents' tools, pages and the command line alike. Never shows an address.

use muster_app::App;
use muster_app::accounts::AgentCaller;
use muster_app::databases::{self, DatabaseError};
use muster_app::settings;
use muster_app::tasks::By;
use muster_core::Fault;
use muster_core::ids::{ConnectionId, OwnerId};
use muster_db_gateway::{Connection, Error, Guarantee, InvalidUrl, Limits, Url, Wide};
use muster_policy::{Resource, ScopeKind};

/// Why a stored connection is not opened. Nothing of the data was read.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// It is not there, or its address cannot be unsealed.
    #[error(transparent)]
    Stored(#[from] DatabaseError),
    /// Its address is one that the gateway cannot use.
    #[error("{0} Add the connection again with an address that says it otherwise")]
    Address(#[from] InvalidUrl),
    /// Its two addresses do not go together.
    #[error(transparent)]
    Together(#[from] Error),
    /// Its account was never looked at, and cannot be now.
    #[error("{0} What its account may do was not looked at yet, so nothing was read")]
    Unseen(Error),
    /// Its account was looked at for the first time, and its owner took it unseen for one that only reads.
    #[error(
        "the account of --url may do more than read, so nothing was read. {} Remove the connection and add it with one that only reads, or take this one with --accept-wide-account",
        .0.reasons.join(" ")
    )]
    Wide(Wide),
}

/// An owner's connection, ready to be used by the owner. Its account is looked at before its first use, where that could not be done when it was added;
/// otherwise no server is reached yet.
///
/// # Errors
/// [`NotOpened`].
pub async fn open(app: &App, owner: OwnerId, id: ConnectionId) -> Result<Connection, NotOpened> {
    open_by(app, owner, By::Owner, id).await
}

/// The same for an agent of the owner's. That a policy lets it is decided before.
///
/// # Errors
/// As [`open`].
pub(crate) async fn open_for(
    app: &App,
    caller: &AgentCaller,
    id: ConnectionId,
) -> Result<Connection, NotOpened> {
    open_by(app, caller.owner, By::Agent(caller.token), id).await
}

async fn open_by(app: &App, owner: OwnerId, by: By, id: ConnectionId) -> Result<Connection, NotOpened> {
    let (connection, looked) = put_together(app, owner, id).await?;
    if !looked {
        look(app, owner, by, id, &connection).await?;
    }
    Ok(connection)
}

/// Tries on the live connection what is promised. One that was never looked at is looked at first; where it is not reached, or its account may
/// do more than read, that is what comes of it, and nothing else is tried.
///
/// # Errors
/// [`NotOpened`], but never for a server that is not reached nor for a wide account.
pub async fn check(app: &App, owner: OwnerId, id: ConnectionId) -> Result<Vec<Guarantee>, NotOpened> {
    let (connection, looked) = put_together(app, owner, id).await?;
    if !looked {
        match look(app, owner, By::Owner, id, &connection).await {
            Err(NotOpened::Unseen(error)) => return Ok(connection.unreached(&error)),
            Err(NotOpened::Wide(found)) => return Ok(connection.unread(&found)),
            other => other?,
        }
    }
    Ok(connection.check().await)
}

/// Two that look at once both find the same.
async fn look(
    app: &App,
    owner: OwnerId,
    by: By,
    id: ConnectionId,
    connection: &Connection,
) -> Result<(), NotOpened> {
    let found = connection.wide().await.map_err(NotOpened::Unseen)?;
    if found.wide {
        return Err(NotOpened::Wide(found));
    }
    Ok(databases::looked(app, owner, by, id).await?)
}

/// The connection, and whether its account was looked at. No server is reached.
async fn put_together(app: &App, owner: OwnerId, id: ConnectionId) -> Result<(Connection, bool), NotOpened> {
    let urls = databases::url(app, owner, id).await?;
    let read = Url::parse(urls.read.secret().expose())?;
    let write = urls
        .write
        .as_ref()
        .map(|url| Url::parse(url.secret().expose()))
        .transpose()?;
    let resource = Resource::new(ScopeKind::DbConnection, &id.to_string())
        .map_err(|error| DatabaseError::Fault(Fault::other(error.to_string())))?;
    Ok((Connection::new(resource, read, write)?, urls.looked))
}

/// What one database call of this owner's may take, by the settings as they are now.
///
/// # Errors
/// A fault.
pub async fn limits(app: &App, owner: OwnerId) -> Result<Limits, Fault> {
    let limits = settings::db_limits(app, owner).await?;
    Ok(Limits {
        rows: usize::try_from(limits.rows).unwrap_or(usize::MAX),
        bytes: usize::try_from(limits.bytes).unwrap_or(usize::MAX),
        time: limits.timeout,
    })
}
