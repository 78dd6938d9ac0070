//! Secrets at rest: the database holds them sealed, and the key lies beside it in the data folder. Never prints a secret, and never makes a second key while the first is missed.

mod error;
mod key;
mod ops;
mod sql;

pub use error::SealError;
pub use ops::{Key, held, looked, ready};
pub use sql::STATEMENTS;
