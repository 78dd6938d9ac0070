//! Reads a database so that a read cannot become a write. Never stores a connection, and never runs what was not classified.

mod classify;
mod engine;

pub use classify::{Class, Verdict, classify};
pub use engine::{Engine, UnknownEngine};
