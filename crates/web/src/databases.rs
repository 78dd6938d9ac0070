//! A stored database connection as the gateway opens it, for agents' tools, pages and the command line alike. Never shows an address.

use muster_app::App;
use muster_app::accounts::AgentCaller;
use muster_app::databases::{self, DatabaseError, DbUrl};
use muster_app::settings;
use muster_app::tasks::By;
use muster_core::Fault;
use muster_core::engine::Engine;
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
    /// It is muster's own database: whoever reads and writes there stands above every grant.
    #[error(
        "muster keeps its grants, tokens and audit log in this very database, so it is no connection; nothing was read or stored"
    )]
    Own,
}

/// Whether an address names muster's own database.
pub fn is_own(app: &App, url: &DbUrl) -> bool {
    let text = url.secret().expose();
    match Url::parse(text) {
        Ok(url) if url.file().is_some_and(|file| app.db.is_file(file)) => true,
        Ok(url) => url.engine() == Engine::Postgres && app.db.is_server(text),
        Err(_) => false,
    }
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
    if is_own(app, &urls.read) || urls.write.as_ref().is_some_and(|url| is_own(app, url)) {
        return Err(NotOpened::Own);
    }
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
