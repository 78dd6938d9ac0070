//! The bus as programs of others meet it: official SDKs and real agent programs against the real `muster`. Never calls a function of muster's, and nothing leaves the machine.
#![cfg(test)]

mod guide;
mod heavy;
mod muster_server;
mod sdk;
mod support;
