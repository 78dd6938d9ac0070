//! The owner's chief: who it is, handing it messages one turn at a time, and the record of those turns. Never decides what becomes of a reply.
//!
//! A delivery: take the chief's lock (busy means "not started") -> commit `delivering` with the turn and its agent token -> run the turn with no
//! transaction open -> commit what is known of it. A crash in between leaves `delivering`; the next delivery to the same chief settles it; what
//! it left outside the database's states, a token and a program, ends when a server starts.

mod deliver;
mod error;
mod left_over;
mod ops;
mod sql;
mod turn;

pub use deliver::{Delivery, deliver, start_delivery, start_retry_queue};
pub use error::ChiefError;
pub use left_over::end_left_over;
pub use ops::{
    Chief, Chiefs, Conversation, MakeRuntime, StartError, TurnRecord, conversations, remove, set, show,
    start_error, turns,
};
pub use sql::STATEMENTS;
