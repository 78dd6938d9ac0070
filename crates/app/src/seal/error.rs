//! Why a secret was not sealed or opened. Never carries the secret, its sealed form or the key.

use muster_core::Fault;

/// A refusal about a sealed secret.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key is gone, and there are secrets that only it opens.
    #[error(
        "the key {path} is missing, and the tokens and database addresses that are stored can be opened with it alone; nothing was changed. Put the file back from a backup, or copy it from the machine that shares this database; if it is lost, remove the integrations and database connections and add them again"
    )]
    Missing {
        /// Where it belongs, escaped for a terminal.
        path: String,
    },
    /// Not a key.
    #[error(
        "the key {path} is damaged: it is not a file of exactly 32 bytes; nothing was changed. Put it back from a backup"
    )]
    Damaged {
        /// Where it lies, escaped for a terminal.
        path: String,
    },
    /// The file cannot be read, written or closed to others.
    #[error("the key {path} cannot be used: {reason}; nothing was changed")]
    Unusable {
        /// Where it lies, escaped for a terminal.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// Sealed with another key, or for another row, or changed since.
    #[error(
        "a stored secret does not open with the key of this data folder: the key is another one, or the row was changed outside muster; nothing was changed. Put the right key back, or remove the row and add it again"
    )]
    Foreign,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
