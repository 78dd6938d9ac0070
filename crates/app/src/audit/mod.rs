//! The audit log: one row per act, of one owner, never changed. Never holds a token, a password or a message's text.

mod chain;
mod ops;
mod sql;

pub use chain::{Verified, verify};
pub use ops::{
    Call, Caller, Entry, Event, Filter, Subject, UNREADABLE, list, put_name, put_statement, record,
    record_call, record_for,
};
pub use sql::STATEMENTS;

/// What can become of a tool call, as its row words it.
pub const OUTCOMES: &[&str] = &[
    "allowed",
    "allowed_by_person",
    "allowed_by_recent_approval",
    "auto_allowed_app_closed",
    "refused_not_granted",
    "refused_denied",
    "refused_by_person",
    "refused_expired",
    "refused_queue_saturated",
    "refused_app_closed_strict",
    "refused_gate",
    "refused_error",
    "withdrawn",
];
