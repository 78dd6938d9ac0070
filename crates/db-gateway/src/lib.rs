//! Reads a database so that a read cannot become a write. Never stores a connection, and never runs what was not classified.
//!
//! A statement goes through gates that do not trust one another: a permit of the policy for this very connection
//! ([`Connection::read`], [`Connection::write`]), what the call says about writing, and the class of the statement
//! ([`classify()`]). What is let through as a read then runs in the engine's own read-only mode, one statement by the
//! protocol that takes only one, and is rolled back; on a session that is reset or dropped; within [`Limits`].
//! The account ought not to be able to write at all: [`Connection::wide`] says whether it is, [`Connection::check`] tries
//! the rest on the live connection.

#[cfg(feature = "connect")]
mod address;
#[cfg(test)]
#[cfg(feature = "connect")]
mod alone;
#[cfg(feature = "connect")]
mod answer;
#[cfg(feature = "connect")]
mod catalogue;
mod classify;
#[cfg(feature = "connect")]
mod connection;
#[cfg(feature = "connect")]
mod error;
#[cfg(feature = "connect")]
mod limits;
#[cfg(feature = "connect")]
mod mongodb;
#[cfg(feature = "connect")]
mod mysql;
#[cfg(feature = "connect")]
mod net;
#[cfg(feature = "connect")]
mod own;
#[cfg(feature = "connect")]
mod postgres;
#[cfg(feature = "connect")]
mod redis;
#[cfg(feature = "connect")]
mod sqlite;
#[cfg(feature = "connect")]
mod stopping;

#[cfg(feature = "connect")]
pub use address::{InvalidUrl, Url};
#[cfg(feature = "connect")]
pub use answer::{Answer, Cell, Column, Rows};
#[cfg(feature = "connect")]
pub use catalogue::{ColumnInfo, Description, Guarantee, Listed, Object, Rule, Schema, Wide};
pub use classify::{Class, Verdict, classify, classify_connected};
#[cfg(feature = "connect")]
pub use connection::{Connection, classify_explained};
#[cfg(feature = "connect")]
pub use error::Error;
#[cfg(feature = "connect")]
pub use limits::Limits;
pub use muster_core::engine::{Engine, UnknownEngine};
#[cfg(feature = "connect")]
pub use stopping::stopped;
