//! The push into panes: what is typed, when, and what is never lost. The hands are scripted here; everything else is the real thing. One test program, so that it is linked once.
#![cfg(test)]

mod command;
mod delivery;
mod heavy;
mod looping;
mod machine;
mod panes;
mod settings;
mod support;
mod text;
mod tiers;
mod wire;
