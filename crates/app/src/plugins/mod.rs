//! Connectors (the texts call them plugins): their tokens, their liveness, their line on `/plugins`. Never reads their messages.

mod error;
mod ops;
mod sql;

pub use error::PluginError;
pub use ops::{
    Created, Known, NewPlugin, Plugin, PluginCaller, authenticate, create, list, revoke, touch, touch_now,
};
pub use sql::STATEMENTS;
