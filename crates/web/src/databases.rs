//! A stored database connection as the gateway opens it, for agents' tools, pages and the command line alike. Never shows an address.

use muster_app::App;
use muster_app::databases::{self, DatabaseError};
use muster_app::settings;
use muster_core::Fault;
use muster_core::ids::{ConnectionId, OwnerId};
use muster_db_gateway::{Connection, Error, InvalidUrl, Limits, Url};
use muster_policy::{Resource, ScopeKind};

/// Why a stored connection is not opened. Nothing was reached.
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
}

/// Puts together an owner's connection. No server is reached yet.
///
/// # Errors
/// [`NotOpened`].
pub async fn open(app: &App, owner: OwnerId, id: ConnectionId) -> Result<Connection, NotOpened> {
    let urls = databases::url(app, owner, id).await?;
    let read = Url::parse(urls.read.secret().expose())?;
    let write = urls
        .write
        .as_ref()
        .map(|url| Url::parse(url.secret().expose()))
        .transpose()?;
    let resource = Resource::new(ScopeKind::DbConnection, &id.to_string())
        .map_err(|error| DatabaseError::Fault(Fault::other(error.to_string())))?;
    Ok(Connection::new(resource, read, write)?)
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
