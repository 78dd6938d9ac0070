//! The coordination bus from outside: the real program on standard streams and over HTTP, its real files. Never calls a function of the bus's.
#![cfg(test)]

mod chat;
mod daemon;
mod files;
mod floods;
mod hostile;
mod identity;
mod init_client;
mod keeping;
mod panes;
mod peek;
mod protocol;
mod reading;
mod rename;
mod restart;
mod rooms;
mod seats;
mod suite;
mod support;
mod talking;
mod tokens;
mod waiting;
