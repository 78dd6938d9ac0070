//! Plugin packages as far as doors need them: how a person is asked about a call, and an agent's servers over HTTP. Never decides what may start.

mod asker;
mod door;
mod envelope;
mod pool;

pub use asker::Queue;
pub(crate) use door::table;
pub use pool::Limits as PackageLimits;
pub(crate) use pool::Packages;
