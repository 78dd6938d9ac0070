//! Why an integration was not added, found, renamed, removed or opened. Never carries its token or outside text.

use muster_core::Fault;
use muster_core::ids::ProjectId;

use crate::named::{Named, counted};
use crate::seal::SealError;

/// A refusal about an integration. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrationError {
    /// Not an address that a token may be sent to.
    #[error(
        "the address of a forge is https://…, or http://… on this machine, without a name, a password, a query or a fragment in it, and has at most 2000 bytes; nothing was stored"
    )]
    Url,
    /// Not a token.
    #[error(
        "a forge's token is one line of 1 to 4096 visible ASCII characters without blanks; nothing was stored"
    )]
    Token,
    /// Another live integration has the name.
    #[error("you already have an integration of this name; choose another name, or remove that one first")]
    NameTaken,
    /// Missing, removed or another owner's.
    #[error("there is no such integration")]
    NotFound,
    /// Live projects keep their repositories there.
    #[error(
        "{} this integration, so it was not removed; what uses it has to go first",
        counted(.0.len(), "project uses", "projects use")
    )]
    InUse(Vec<Named<ProjectId>>),
    /// Its token cannot be sealed or opened.
    #[error("{0}")]
    Seal(#[from] SealError),
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
