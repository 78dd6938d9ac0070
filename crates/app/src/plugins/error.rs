//! Why a connector was not made, found or let in. Never carries outside text.

use muster_core::Fault;

/// A refusal about a connector.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The name is taken by a live connector of the same owner.
    #[error("you already have a live connector of this name; choose another name, or revoke that one first")]
    NameTaken,
    /// A field of the form breaks a rule; the sentence names it.
    #[error("{0}")]
    Field(muster_core::text::TextError),
    /// No such connector of this owner.
    #[error("there is no such connector")]
    NotFound,
    /// The token is not one of a live connector of an enabled owner.
    #[error("this is not the token of a live connector")]
    NotLive,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
