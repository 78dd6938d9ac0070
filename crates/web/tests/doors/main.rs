//! The doors from outside: requests in, answers out, on both engines. One test program, so that it is linked once.
#![cfg(test)]

mod accepting;
mod agent_kit;
mod agent_tools;
mod agents;
mod api;
mod ask;
mod asking;
mod asks;
mod cards;
mod claims;
mod databases;
mod decoys;
mod fleet;
mod forges;
mod guesses;
mod hang_ups;
mod kit;
mod matrix;
mod mcp;
mod mcp_client;
mod one_look;
mod package_kit;
mod package_pages;
mod packages;
mod owners;
mod pages;
mod plugin_v1;
mod policies;
mod ready;
mod refusal_pages;
mod refusals;
mod settings;
mod sign_in;
mod tasks;
mod wallet;
