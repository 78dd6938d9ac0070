//! Push from outside: the real program, real tmux panes, a herdr to the letter of its protocol. Never calls a function of the bus's.
#![cfg(test)]

mod agent;
#[expect(
    dead_code,
    unused_imports,
    reason = "these tests use a part of what the tests of the bus share"
)]
#[path = "../bus/support/mod.rs"]
mod bus;
mod heartbeat;
#[expect(
    dead_code,
    reason = "these tests use a part of what the tests of the hands share"
)]
#[path = "../../../mirror/tests/herdr/server.rs"]
mod herdr;
mod support;
mod usage;

/// Real daemons, tmux servers and waits.
mod heavy {
    mod fleet;
    mod herdr_seats;
    mod node;
    mod pusher;
    mod restarts;
    mod rules;
}
