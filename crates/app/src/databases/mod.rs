//! Database connections as they are stored: a name, a project, an engine and sealed addresses. Never connects to one.

mod error;
mod log;
mod ops;
mod sql;
mod state;

pub use error::DatabaseError;
pub use log::{
    Checked, LastCheck, Look, Ran, by_owner, checked, last_checks, last_statements, stopped_by_gate,
};
pub use ops::{
    Connection, NewConnection, NewUrls, NewWrite, Sealed, Urls, add, find, list, looked, remove, rename,
    sealed, set_url, url,
};
pub use sql::STATEMENTS;
pub use state::DbUrl;
