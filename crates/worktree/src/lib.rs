//! A git worktree for each task: made, read as a diff, removed. Never runs a program that a repository's configuration names, and never writes to the index of a worktree once it stands.
//!
//! An agent that works in a worktree can write to the configuration that all worktrees of the repository share, to its hooks, its attributes
//! and its references. What happens here runs with muster's rights, so none of that is obeyed: git is run with an empty environment, and
//! whatever touches files or objects runs in a *view*, a throw-away git directory with a configuration of its own that borrows only the objects,
//! the references and the list of worktrees of the repository. So no hook runs, no filter (files that Git LFS keeps stay pointers), no
//! textconv, no external diff, no fsmonitor, no pager, and nothing is fetched.
//!
//! A worktree narrows where a task works. It does not confine it.
//!
//! The functions block; each ends within a bounded time, and git's process group is killed when it does not.

mod diff;
mod error;
mod git;
mod make;
mod note;
mod repository;
mod view;

use std::path::{Path, PathBuf};

pub use diff::{Change, Diff, DiffQuery, FileChange, Limits, diff};
pub use error::Refusal;
pub use make::{Keep, ensure, find, remove};

/// Which task's worktree, of which repository, kept where.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The project's folder: the top of a git repository that has at least one commit.
    pub root: &'a Path,
    /// muster's data folder; worktrees lie in `worktrees/` below it.
    pub data_dir: &'a Path,
    /// The task's number, 1 or more. It is never given to another task.
    pub task: i64,
}

/// A worktree that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its folder, absolute.
    pub path: PathBuf,
    /// The branch that was made for it, `muster/task-N`.
    pub branch: String,
    /// What it was branched from and what its diff is against: the name of a branch or tag, or the id of a commit.
    pub base: String,
    /// The commit that `base` was when the worktree was made.
    pub base_commit: String,
}
