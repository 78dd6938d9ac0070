//! The human seat as a process of its own: in a pipe, on a terminal line by line, and in full screen. Never without what its files say afterwards.
#![cfg(test)]

mod emulator;
mod full;
mod heavy;
mod hostile;
mod line;
mod pipe;
mod support;
