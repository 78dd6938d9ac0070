//! Why a task was not added, moved, closed or run. Never carries outside text.

use muster_core::Fault;

use super::StatusRefusal;

/// A refusal about a task. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Missing or another owner's.
    #[error("there is no such task")]
    NotFound,
    /// The project is missing, removed or another owner's.
    #[error("there is no such project; nothing was stored")]
    NoProject,
    /// The policy is missing or another owner's.
    #[error("there is no such policy; nothing was stored")]
    NoPolicy,
    /// The integration is missing, removed or another owner's.
    #[error("there is no such integration; nothing was stored")]
    NoIntegration,
    /// The host is missing, removed or another owner's.
    #[error("there is no such host; nothing was queued")]
    NoHost,
    /// An agent asked for another policy than it gets.
    #[error(
        "a task that an agent makes gets the policy its project gives to new tasks; only the owner chooses another; nothing was stored"
    )]
    PolicyNotYours,
    /// Not a ticket's key.
    #[error("a ticket's key is OWNER/NAME#NUMBER; nothing was stored")]
    Key,
    /// The status may not be set.
    #[error("{0}")]
    Status(#[from] StatusRefusal),
    /// The task is closed.
    #[error("the task is closed; open it again first (muster task set-status); nothing was changed")]
    Closed,
    /// The task would be open in a project that was removed.
    #[error("the task's project was removed, so the task stays closed")]
    ProjectRemoved,
    /// Git made none.
    #[error("{0}")]
    Worktree(#[from] muster_worktree::Refusal),
    /// Missing or another owner's.
    #[error("there is no such run")]
    NoRun,
    /// Cancelled before.
    #[error("the run is no longer queued; nothing was changed")]
    NotQueued,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
