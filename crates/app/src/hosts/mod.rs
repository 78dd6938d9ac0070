//! Hosts: the machines that an owner's agents may run on, by name. Never reaches one.

mod error;
mod ops;
mod sql;

pub use error::HostError;
pub use ops::{Host, add, find, list, remove, rename};
pub use sql::STATEMENTS;
