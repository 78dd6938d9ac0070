//! Reply drafts: filed by the chief, decided by the owner, handed to the connector at most once. Nothing leaves muster here; a connector collects.
//!
//! States: `pending` -> `approved` | `rejected` | `superseded` | `expired`; `approved` unclaimed -> `rejected` (withdrawn) | `superseded` | `expired`;
//! `approved` claimed -> `sent` | `failed` | `unconfirmed` (the lease lapsed); `unconfirmed` -> `sent` | `failed` (a late result). All else is final.
//! Lapse and expiry are made real at the start of every act, so no rule and no index depends on the clock.

mod claim;
mod decide;
mod error;
mod file;
mod lapse;
mod list;
mod sql;
mod state;

pub use claim::{Claimed, Reported, claim, report};
pub use decide::{Decider, approve, reject, withdraw};
pub use error::{ClaimError, DecideRefusal, FileRefusal, ReportRefusal};
pub(crate) use file::Refusals;
pub use file::{Filed, file};
pub use lapse::{lapse_owner, sweep};
pub use list::{Card, CardMessage, Page, archived, card, open};
pub use muster_core::exchange::Report;
pub use sql::STATEMENTS;
pub use state::{DraftState, LEASE, LIFETIME, PENDING_CAP};
