//! Why a project was not added, found or changed. Never carries outside text beyond the path that was asked for.

use muster_core::Fault;
use muster_core::ids::{ConnectionId, TaskId};

use crate::named::{Named, counted};

/// A refusal about a project. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Not a folder.
    #[error("{path} is not a folder that muster can open ({reason}); nothing was stored")]
    Root {
        /// What was asked for, escaped for a terminal.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Not a repository's path.
    #[error(
        "a repository is OWNER/NAME, in letters, digits, '.', '_' and '-', each part of at most 64 characters; nothing was stored"
    )]
    Repo,
    /// Another live project has the name.
    #[error("you already have a project of this name; choose another name, or remove that one first")]
    NameTaken,
    /// Missing, removed or another owner's.
    #[error("there is no such project")]
    NotFound,
    /// The integration is missing, removed or another owner's.
    #[error("there is no such integration; nothing was stored")]
    NoIntegration,
    /// The policy is missing or another owner's.
    #[error("there is no such policy; nothing was changed")]
    NoPolicy,
    /// The policy has changed since.
    #[error(
        "the policy is at revision {current} by now and not at {given}; look at it again. The project's default was not changed"
    )]
    StaleRevision {
        /// The revision that was meant.
        given: i64,
        /// The revision there is.
        current: i64,
    },
    /// Work goes on in it.
    #[error(
        "the project has {} and {}, so it was not removed; close and remove them first",
        counted(.tasks.len(), "open task", "open tasks"),
        counted(.connections.len(), "database connection", "database connections")
    )]
    InUse {
        /// Its tasks that are not closed.
        tasks: Vec<Named<TaskId>>,
        /// Its live database connections.
        connections: Vec<Named<ConnectionId>>,
    },
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
