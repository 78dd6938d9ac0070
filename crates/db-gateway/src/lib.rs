//! Reads a database so that a read cannot become a write. Never stores a connection, and never runs what was not classified.
//!
//! A statement goes through gates that do not trust one another: a permit of the policy for this very connection
//! ([`Connection::read`], [`Connection::write`]), what the call says about writing, and the class of the statement
//! ([`classify()`]). What is let through as a read then runs in the engine's own read-only mode, one statement by the
//! protocol that takes only one, and is rolled back; on a session that is reset or dropped; within [`Limits`].
//! The account ought not to be able to write at all: [`Connection::wide`] says whether it is, [`Connection::check`] tries
//! the rest on the live connection.

mod address;
mod answer;
mod catalogue;
mod classify;
mod connection;
mod engine;
mod error;
mod limits;
mod mongodb;
mod mysql;
mod net;
mod postgres;
mod redis;
mod sqlite;

pub use address::{InvalidUrl, Url};
pub use answer::{Answer, Cell, Column, Rows};
pub use catalogue::{ColumnInfo, Description, Guarantee, Object, Rule, Schema, Wide};
pub use classify::{Class, Verdict, classify};
pub use connection::Connection;
pub use engine::{Engine, UnknownEngine};
pub use error::Error;
pub use limits::Limits;
