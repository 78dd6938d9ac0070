//! Integrations: an owner's accounts at forges and trackers, each with a token that is kept sealed. Never contacts a forge.

mod error;
mod ops;
mod sql;
mod state;

pub use error::IntegrationError;
pub(crate) use ops::of;
pub use ops::{Integration, NewIntegration, add, credential, find, list, remove, rename};
pub use sql::STATEMENTS;
pub use state::{ForgeKind, ForgeUrl};
