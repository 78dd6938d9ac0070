//! The laws of permissions, on both engines: policies stored and edited, calls decided, asked and recorded. Never speaks MCP.
#![cfg(test)]

#[path = "access/kit.rs"]
mod kit;

#[path = "access/asking.rs"]
mod asking;
#[path = "access/chain.rs"]
mod chain;
#[path = "access/closed.rs"]
mod closed;
#[path = "access/deciding.rs"]
mod deciding;
#[path = "access/dying.rs"]
mod dying;
#[path = "access/editing.rs"]
mod editing;
#[path = "access/forking.rs"]
mod forking;
#[path = "access/presets.rs"]
mod presets;
#[path = "access/previewing.rs"]
mod previewing;
#[path = "access/prompting.rs"]
mod prompting;
#[path = "access/races.rs"]
mod races;
#[path = "access/spelling.rs"]
mod spelling;
#[path = "access/transfer.rs"]
mod transfer;
#[path = "access/viewing.rs"]
mod viewing;
