//! The laws of what permissions govern, on both engines: projects, tasks, runs, hosts, integrations, database connections. Never decides a permission.
#![cfg(test)]

#[path = "resources/kit.rs"]
mod kit;

#[path = "resources/names.rs"]
mod names;
#[path = "resources/races.rs"]
mod races;
#[path = "resources/secrets.rs"]
mod secrets;
#[path = "resources/tasks.rs"]
mod tasks;
