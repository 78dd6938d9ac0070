//! The audit log: one row per act, of one owner, never changed. Never holds a token, a password or a message's text.

mod ops;
mod sql;

pub use ops::{Entry, Event, Filter, Subject, list, record, record_for};
pub use sql::STATEMENTS;
