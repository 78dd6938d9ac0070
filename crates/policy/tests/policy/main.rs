//! What the permissions promise: every combination once, the laws over random policies, the rows of the ledger. Never asks the resolver what it should answer.
#![cfg(test)]

mod dump;
mod exhaustive;
mod laws;
mod rows;
mod support;
mod views;
