//! tmux panes: what reaches the program in them and what is said of it. Each test has a tmux server of its own.
#![cfg(test)]

mod claims;
mod complaints;
mod heavy;
mod program;
mod reading;
mod screens;
mod support;
mod typing;
