//! The doors: who is calling, what do they ask, call the app, answer. Never decides and never touches the database itself.
//!
//! One folder a door, each with the one extractor of its credential (`caller`) and the one table from refusals to its wire (`refuse`).

mod api;
mod credential;
pub mod databases;
mod guard;
mod health;
mod key;
pub mod mcp_agent;
pub mod mcp_bus;
pub mod packages;
mod pages;
mod plugin_v1;
mod router;
mod serve;
mod state;
mod tries;
mod whole;

pub use packages::PackageLimits;
pub use router::{Door, Route, router, routes};
pub use serve::{Limits, serve};
pub use state::{Origin, Setup, Web};
