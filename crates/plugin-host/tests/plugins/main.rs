//! Packages and sessions from outside the crate, with real processes and real sockets on loopback. Never needs a network.
#![cfg(test)]

mod acts;
mod asking;
mod bridge;
mod common;
mod doors;
mod heavy;
mod http;
mod manifests;
mod packages;
mod rules;
mod session;
