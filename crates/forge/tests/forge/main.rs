//! The acts at each kind of forge against a server on this machine that takes only what that forge's interface documents. Never leaves the machine.
#![cfg(test)]

mod forgejo;
mod github;
mod gitlab;
mod laws;
mod server;
