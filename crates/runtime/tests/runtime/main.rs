//! The three runtimes with real programs, from the outside. One test program, so that it is linked once.
#![cfg(test)]

mod acp;
mod claude_code;
mod command;
mod support;
