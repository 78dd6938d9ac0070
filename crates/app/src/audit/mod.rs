//! The audit log: one row per act, of one owner, never changed. Never holds a token, a password or a message's text.

mod chain;
mod ops;
mod sql;

pub use chain::{Verified, verify};
pub use ops::{Call, Entry, Event, Filter, Subject, list, record, record_call, record_for};
pub use sql::STATEMENTS;
