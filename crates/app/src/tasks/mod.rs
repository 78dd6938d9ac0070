//! Tasks: work in a project under a policy, with its worktree and its runs. Never takes a task out of its policy.

mod add;
mod error;
mod list;
mod moves;
mod runs;
mod sql;
mod state;
mod worktrees;

pub use add::{NewTask, PolicyChoice, Ticket, add, import};
pub use error::TaskError;
pub use list::{Run, Source, Task, TaskPolicy, find, list};
pub use moves::{close, set_status};
pub use runs::{NewRun, cancel_run, spawn};
pub use sql::STATEMENTS;
pub use state::{By, RunState, StatusRefusal, TaskStatus, TicketKey};
pub use worktrees::{MadeWorktree, Worktree, record_worktree, worktree};
