//! Deciding each tool call at the moment it is made: allowed, refused, or parked until a person answers. Never keeps a decision for a later call.
//!
//! [`decide`] reads what governs the caller afresh, and stores the call's audit row before it hands out the permit that the effect demands.
//! A call that asks is covered by an approval of the last minute, joins an identical one that is parked, or parks itself while somebody can
//! be asked; sixteen can be parked, whoever asks. What a parked call waits for is a row: it is answered by its id, once.

mod asks;
mod gate;
mod lapsing;
mod listing;
mod outlook;
mod presence;
mod prompt;
mod queue;
mod row;
mod sql;
mod state;
mod waiting;

pub(crate) use asks::task_closed;
pub use asks::{Ask, AskError, Decider, Ended, approve, ended, list, refuse, settle, show, sweep};
pub use gate::{Call, Permitted, Refused, decide, refuse_at_gate};
pub use listing::{
    Connection, Reachable, Whoami, WhoamiGrant, WhoamiTask, connections, leaves, reachable, whoami,
};
pub use outlook::{Outlook, outlook};
pub use presence::{Present, Process, Seat, is_live, present, somebody_present};
pub use prompt::{Asker, Overruled, ToolPrompt, Unanswered, prompt};
pub use queue::LARGEST_ASKED;
pub use sql::STATEMENTS;
pub use state::{AskState, PARKED_AT_MOST, canonical};
