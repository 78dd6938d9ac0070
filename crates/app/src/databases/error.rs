//! Why a database connection was not added, found, changed or opened. Never carries an address or outside text.

use muster_core::Fault;

use crate::seal::SealError;

/// A refusal about a database connection. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Not an address of a known engine.
    #[error(
        "a database's address is one line that begins with postgres, mysql, mariadb, sqlite, redis or mongodb and '://', of at most 4096 bytes; nothing was stored"
    )]
    Url,
    /// The two accounts are of two engines.
    #[error("the write account's address must be one of the same engine; nothing was stored")]
    OtherEngine,
    /// The new address is of another engine than the connection.
    #[error(
        "a connection stays with the engine that it was added with, for which its policies were made; add another connection instead. Nothing was changed"
    )]
    EngineStays,
    /// Another live connection has the name.
    #[error(
        "you already have a database connection of this name; choose another name, or remove that one first"
    )]
    NameTaken,
    /// Missing, removed or another owner's.
    #[error("there is no such database connection")]
    NotFound,
    /// The project is missing, removed or another owner's.
    #[error("there is no such project; nothing was stored")]
    NoProject,
    /// An address cannot be sealed or opened.
    #[error("{0}")]
    Seal(#[from] SealError),
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
