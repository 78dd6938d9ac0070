//! What a statement needs: read, write or refuse, per engine. Never connects, waits or remembers, and never guesses: what it does not know is refused.
//!
//! The verdict is advice with a purpose: it keeps away what an engine's read-only mode lets through (locks, settings, files,
//! other sessions) and sends writes to the door that asks for the right. That nothing is written is the engine's guarantee.

#[cfg(feature = "connect")]
pub(crate) mod asked;
mod attribute;
mod clauses;
mod lex;
pub(crate) mod mongodb;
pub(crate) mod mysql;
pub(crate) mod postgres;
mod postgres_words;
pub(crate) mod redis;
mod script;
mod sql;
pub(crate) mod sqlite;
mod verdict;
mod work;

#[cfg(feature = "connect")]
pub(crate) use verdict::shown;
pub use verdict::{Class, Verdict};

use muster_core::engine::Engine;

/// What `statement` needs on `engine`.
///
/// A statement is SQL, a command line of Redis quoted as in redis-cli, or a command of MongoDB as JSON. At most 256 KiB;
/// the time it takes grows with the length and with nothing else.
#[must_use]
pub fn classify(engine: Engine, statement: &str) -> Verdict {
    match engine {
        Engine::Postgres => postgres::classify(statement),
        Engine::Mysql | Engine::Mariadb => mysql::classify(statement),
        Engine::Sqlite => sqlite::classify(statement),
        Engine::Redis => redis::classify(statement),
        Engine::Mongodb => mongodb::classify(statement),
    }
}

/// What `statement` needs on a connection to `engine`, which asks its server about what the text alone leaves open. At least as much is a read
/// as for [`classify()`].
#[must_use]
pub fn classify_connected(engine: Engine, statement: &str) -> Verdict {
    match engine {
        Engine::Postgres => postgres::classify_asking(statement),
        other => classify(other, statement),
    }
}
