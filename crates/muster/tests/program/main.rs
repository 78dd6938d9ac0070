//! The program `muster` from outside: real processes, real sockets, real files. Never calls a function of muster's.
#![cfg(test)]

mod access;
mod beside;
mod claims;
mod claude;
mod cli;
mod config;
mod crash;
mod databases;
mod databases_away;
mod databases_own;
mod databases_set_url;
mod demo;
mod doctor;
mod exec;
mod help;
mod hostile;
mod kill;
mod mcp;
mod package_acts;
mod package_door;
mod packages;
mod resources;
mod schema;
mod settings;
mod start;
mod stop;
mod support;
mod the_loop;
mod watch;
mod words;
