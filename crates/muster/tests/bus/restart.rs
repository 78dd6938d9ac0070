//! What becomes of agents when a server process goes and comes back. Never a message: those are files.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Bus, Calls as _, Daemon, SHARED, texts};

fn again(bus: &Bus, port: u16, env: &[(&str, &str)]) -> Daemon {
    let mut command = bus.serving(env);
    command.env("AGENT_COORD_HTTP_PORT", port.to_string());
    Daemon::start(command).unwrap_or_else(|said| panic!("{said:?}"))
}

fn end(daemon: Daemon, signal: Signal) -> u16 {
    let port = daemon.port();
    daemon.process.signal(signal);
    daemon.stop_after();
    port
}

// spec: NET-021 NET-023 IDN-033
#[test]
fn under_the_shared_token_a_client_begins_a_new_session_and_is_its_agent_again() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let bus = Bus::new();
        let env = [("AGENT_COORD_TOKEN", SHARED)];
        let daemon = bus.daemon_with(&env);
        let (alice, bob) = (daemon.session(SHARED), daemon.session(SHARED));
        alice.ok("join", json!({"agentId": "alice"}));
        bob.ok("join", json!({"agentId": "bob"}));
        bob.ok(
            "send_message",
            json!({"from": "bob", "to": "alice", "text": "before"}),
        );
        let port = end(daemon, signal);

        let daemon = again(&bus, port, &env);
        assert_eq!((alice.status(), bob.status()), (404, 404));
        let alice = daemon.session(SHARED);
        assert_eq!(
            texts(&alice.ok("join", json!({"agentId": "alice"}))["inbox"]),
            ["before"]
        );
        // A client that goes on without joining is its agent, too.
        daemon.session(SHARED).ok("heartbeat", json!({"agentId": "bob"}));
        assert!(
            bus.markers("alice")
                .iter()
                .all(|marker| marker.get("forced").is_none())
        );
        daemon
            .session(SHARED)
            .refused("join", json!({"agentId": "alice"}), "identity_live");
    }
}

// spec: NET-021 IDN-024
#[test]
fn under_its_own_token_a_client_begins_a_new_session_and_is_its_agent_again() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let bus = Bus::new();
        let (token, other) = (bus.mint("alice"), bus.mint("bob"));
        let daemon = bus.daemon_with(&[]);
        let alice = daemon.session(&token);
        alice.ok("join", json!({"agentId": "alice"}));
        let port = end(daemon, signal);
        let daemon = again(&bus, port, &[]);
        assert_eq!(alice.status(), 404);
        let alice = daemon.session(&token);
        alice.ok("heartbeat", json!({"agentId": "alice"}));
        daemon.now(&token).ok("heartbeat", json!({"agentId": "alice"}));
        daemon
            .session(&other)
            .refused("heartbeat", json!({"agentId": "alice"}), "identity_bound");
    }
}

// spec: IDN-012
#[test]
fn a_daemons_restart_lets_nobody_in_as_an_agent_of_a_living_session_elsewhere() {
    let bus = Bus::new();
    let env = [("AGENT_COORD_TOKEN", SHARED)];
    let daemon = bus.daemon_with(&env);
    daemon.session(SHARED).ok("join", json!({"agentId": "alice"}));
    let port = end(daemon, Signal::SIGTERM);
    let near = bus.stdio();
    near.ok("join", json!({"agentId": "alice"}));
    let daemon = again(&bus, port, &env);
    daemon
        .session(SHARED)
        .refused("join", json!({"agentId": "alice"}), "identity_live");
}

// spec: IDN-020 IDN-021
#[test]
fn an_agent_that_ended_in_order_comes_back_at_once_and_one_that_was_killed_is_told_why_not() {
    let bus = Bus::new();
    let first = bus.stdio();
    first.ok("join", json!({"agentId": "alice"}));
    let (status, ..) = first.close();
    assert!(status.success());
    let second = bus.stdio();
    second.ok("join", json!({"agentId": "alice"}));
    second.end_by(Signal::SIGKILL);
    let third = bus.stdio();
    let sentence = third.refused("join", json!({"agentId": "alice"}), "identity_live");
    assert!(sentence.contains("its last heartbeat was"), "{sentence}");
    bus.move_clock(299);
    third.refused("join", json!({"agentId": "alice"}), "identity_live");
    bus.move_clock(301);
    third.ok("join", json!({"agentId": "alice"}));
}
