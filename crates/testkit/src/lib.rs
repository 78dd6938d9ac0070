//! What tests share: an app on each engine, a clock they move, a chief they script; real programs with a scripted model behind them. Never part of what ships.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test's own support: a failure here is the test's failure"
)]

#[cfg(feature = "app")]
mod chief;
#[cfg(feature = "app")]
mod engines;
#[cfg(feature = "app")]
mod installation;
mod programs;

#[cfg(feature = "app")]
pub use chief::{ScriptedChief, Step};
#[cfg(feature = "app")]
pub use engines::{PgDatabase, engines, on_both, postgres_admin_url};
#[cfg(feature = "app")]
pub use installation::*;
pub use programs::{Model, claude, claude_env, fed, installed, whole_lines};
