//! Why a worktree was not made, read or removed, as sentences. Never holds more of git's words than one cut and escaped line.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::text::terminal;

/// Most characters that are repeated of what git said.
const SAID: usize = 400;

/// A refusal. Where it says nothing else, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No git.
    #[error("the program git was not found, or may not be run; install git 2.36 or newer")]
    NoGit,
    /// The root is no folder.
    #[error("{} is no folder that muster can enter; correct the project's root", shown(.0))]
    NoFolder(PathBuf),
    /// The root is not a repository.
    #[error("{} is not a git repository, and a worktree needs one; run git init there, or correct the project's root", shown(.0))]
    NotARepository(PathBuf),
    /// The root lies below the top of a repository.
    #[error("{} lies inside of a git repository and is not its top; make the repository's top the project's root", shown(.0))]
    BelowTop(PathBuf),
    /// The root is a repository without files.
    #[error("{} is a bare git repository; make a checkout of it the project's root", shown(.0))]
    Bare(PathBuf),
    /// The repository belongs to another account.
    #[error("the git repository {} belongs to another account of this machine, and git does not trust it; give the folder to the account that muster runs as", shown(.0))]
    NotOwned(PathBuf),
    /// No commit to branch from.
    #[error(
        "the git repository has no commit yet, so there is nothing to branch from; commit something first"
    )]
    Empty,
    /// The root stands on no branch.
    #[error(
        "the project's checkout is on no branch (a detached HEAD), so it is not known what to branch from; name a base"
    )]
    Detached,
    /// No such base.
    #[error("{} is no branch, no tag and no full commit id of the repository; name another base", terminal(.0))]
    NoBase(String),
    /// The branch exists and is not the task's.
    #[error("the repository already has a branch {0} that this task did not make; rename or delete it")]
    BranchTaken(String),
    /// The branch is checked out elsewhere.
    #[error("the branch {0} is checked out elsewhere; switch that checkout to another branch")]
    BranchInUse(String),
    /// The folder exists and is not the task's.
    #[error("{} exists and was not made for this task; move it away", shown(.0))]
    FolderTaken(PathBuf),
    /// The task's worktree was made from another repository.
    #[error(
        "the task's worktree belongs to another repository than the project's root; remove it first, or give the project its old root"
    )]
    OtherRepository,
    /// It has none.
    #[error("the task has no worktree")]
    NoWorktree,
    /// What stands in its place is not what was made.
    #[error("{} is no longer the worktree that was made (moved, replaced or unregistered); remove the task's worktree and make it again", shown(.0))]
    NotAsMade(PathBuf),
    /// Work that is in no commit would be lost.
    #[error(
        "the worktree has {0} changed or new files that are in no commit, so it was kept; commit them, or say that they may be lost"
    )]
    Uncommitted(usize),
    /// Commits would be lost.
    #[error("the worktree {} stands on a commit that no branch has, so it was kept; give it a branch, or say that it may be lost", shown(.0))]
    NoBranchHas(PathBuf),
    /// A path that is not one below the worktree.
    #[error("the path must be relative to the worktree, without .. and without .git; {} is not", terminal(.0))]
    BadPath(String),
    /// A task's number that is none.
    #[error("tasks are numbered from 1")]
    BadTask,
    /// Somebody else holds the task's lock.
    #[error("another program is making or removing this worktree and did not finish within {} seconds; try again", .0.as_secs())]
    Busy(Duration),
    /// Out of time.
    #[error("git did not finish within {} seconds and was ended; what was begun is completed the next time", .0.as_secs())]
    TooSlow(Duration),
    /// git failed for another reason.
    #[error("git could not {doing}: {said}")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// What git said, cut and escaped.
        said: String,
    },
    /// A file or folder could not be read or written.
    #[error("{} could not be used: {error}", shown(.path))]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Refusal {
    /// One word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoGit => "git_missing",
            Self::NoFolder(_)
            | Self::NotARepository(_)
            | Self::BelowTop(_)
            | Self::Bare(_)
            | Self::NotOwned(_) => "not_a_repository",
            Self::Empty => "empty_repository",
            Self::Detached | Self::NoBase(_) => "no_base",
            Self::BranchTaken(_) | Self::BranchInUse(_) => "branch_taken",
            Self::FolderTaken(_) => "folder_taken",
            Self::OtherRepository | Self::NotAsMade(_) => "worktree_changed",
            Self::NoWorktree => "not_found",
            Self::Uncommitted(_) | Self::NoBranchHas(_) => "uncommitted_changes",
            Self::BadPath(_) | Self::BadTask => "invalid_argument",
            Self::Busy(_) => "busy",
            Self::TooSlow(_) => "too_slow",
            Self::Git { .. } | Self::Io { .. } => "git_failed",
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

pub(crate) fn shown(path: &Path) -> String {
    terminal(&path.to_string_lossy())
}

/// What git said: its last word, on one line.
pub(crate) fn said(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let skip = lines.len().saturating_sub(3);
    let text = lines.into_iter().skip(skip).collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        return "it ended without saying why".to_owned();
    }
    let beginning: String = text.chars().take(SAID).collect();
    terminal(&beginning)
}
