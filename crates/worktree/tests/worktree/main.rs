//! Worktrees of real repositories with the real git, hostile ones included. Never touches a repository outside of a test's own folder.
#![cfg(test)]

mod diff;
mod hostile;
mod make;
mod support;
