//! Inbound messages: stored once whatever is sent again, counted against their caps, retried only on the owner's word. Never handed over twice by muster itself.
//!
//! States: `queued` -> `delivering` (committed before the turn starts) -> `delivered` or `unconfirmed`, or back to `queued` when nothing reached the chief.
//! `unconfirmed` -> `queued` is the owner's retry. See `state` for the pure rules.

mod error;
mod ops;
mod sql;
mod state;

pub use error::{MessageError, RetryRefusal};
pub use muster_core::exchange::NewMessage;
pub use ops::{Accepted, Unconfirmed, accept, retry, unconfirmed};
pub use sql::STATEMENTS;
pub use state::{HOURLY_CAP, MessageState, Status, UNDELIVERED_CAP};

pub(crate) use ops::{Settled, Stored, begin_delivery, next_queued, settle, settle_left_over};
