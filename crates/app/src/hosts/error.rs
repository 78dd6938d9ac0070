//! Why a host was not added, found, renamed or removed. Never carries outside text.

use muster_core::Fault;
use muster_core::ids::RunId;

use crate::named::{Named, counted};

/// A refusal about a host. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Another live host has the name.
    #[error("you already have a host of this name; choose another name, or remove that one first")]
    NameTaken,
    /// Missing, removed or another owner's.
    #[error("there is no such host")]
    NotFound,
    /// Queued runs wait for it.
    #[error(
        "{} for this host, so it was not removed; cancel them first",
        counted(.0.len(), "queued run waits", "queued runs wait")
    )]
    InUse(Vec<Named<RunId>>),
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
