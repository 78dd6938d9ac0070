//! Plugin packages as far as doors need them: how a person is asked about a call. Never starts a server itself.

mod asker;

pub use asker::Queue;
