//! Database connections as they are stored: a name, a project, an engine and sealed addresses. Never connects to one.

mod error;
mod ops;
mod sql;
mod state;

pub use error::DatabaseError;
pub use ops::{Connection, NewConnection, Urls, add, find, list, remove, rename, url};
pub use sql::STATEMENTS;
pub use state::{DbEngine, DbUrl};
