//! The gateway against real servers, each started here, private, gone at the end. Never reaches a server that it did not start.
#![cfg(test)]

mod calls;
mod mongodb;
mod mysql;
mod namesakes;
mod postgres;
mod redis;
mod servers;
mod sqlite;
mod world;
