//! The tasks of this repository as functions, so that tests and benches can use them too. Never part of what is shipped.

pub mod pg;
pub mod tidy;
