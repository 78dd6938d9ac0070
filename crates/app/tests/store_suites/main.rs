//! The standing suites of the store: its statements, its two schemas, its walls between owners, its opening, its writes and its locks. Never a rule of a slice.
#![cfg(test)]

mod catalogue;
mod heavy;
mod lane;
mod leak;
mod locks;
mod opening;
mod parity;
mod probe;
mod recipes;
mod recipes_access;
mod schema;
mod scopes;
mod support;
mod walls;
