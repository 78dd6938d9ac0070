//! Why a chief was not set. Never carries outside text.

use muster_core::Fault;

/// A refusal about the chief.
#[derive(Debug, thiserror::Error)]
pub enum ChiefError {
    /// The command line is empty or its quotes do not close.
    #[error("the chief's command cannot be split into words: {0}")]
    Program(muster_runtime::ProgramError),
    /// There is none.
    #[error("you have no chief; set one with muster chief set --runtime command --command 'PROGRAM ARGS'")]
    None,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
