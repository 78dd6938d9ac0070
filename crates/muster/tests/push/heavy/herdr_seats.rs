//! Seats in herdr's panes: the process that serves an agent types into its pane itself.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bus::{Bus, Calls as _, SHARED, Stdio, until};
use crate::herdr::{Herdr, Pane};
use crate::support::{a_while, has_marker, marker};

const PANE: &str = "w1:p1";

/// A bus whose machine uses herdr.
fn bus(herdr: &Herdr) -> Bus {
    Bus::new()
        .with("AGENT_COORD_TRANSPORT", "herdr")
        .with("HERDR_SOCKET_PATH", herdr.socket().to_str().unwrap())
}

/// An agent's session in a pane.
fn in_pane(bus: &Bus, agent: &str, pane: &str) -> Stdio {
    let session = bus.stdio_with(&[("HERDR_PANE_ID", pane), ("HERDR_ENV", "1")]);
    let joined = session.ok("join", json!({"agentId": agent}));
    assert_eq!(joined["attached"], true, "{joined}");
    session
}

fn children(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default())
        .collect()
}

fn taken(herdr: &Herdr, words: &str) -> usize {
    let pane = herdr.pane(PANE);
    pane.taken.iter().map(|taken| taken.matches(words).count()).sum()
}

// spec: PUSH-054 PUSH-055 PUSH-058 PUSH-059 TOOL-092
#[test]
fn a_direct_message_reaches_the_pane_from_the_process_that_serves_the_agent() {
    let herdr = Herdr::new();
    herdr.put(PANE, Pane::idle());
    let bus = bus(&herdr);
    let me = in_pane(&bus, "me", PANE);
    let found = marker(&bus, "me");
    assert_eq!(
        (&found["target"], &found["tmuxTarget"]),
        (&json!(PANE), &json!(PANE))
    );
    assert_eq!(
        (&found["transport"], &found["pid"]),
        (&json!("herdr"), &json!(me.pid()))
    );
    let build = me.ok("capabilities", json!({}))["answeredBy"]["build"].clone();
    assert_eq!(found["build"], build);
    assert!(found["since"].as_i64().unwrap() > 1_700_000_000_000, "{found}");
    let peer = bus.joined("peer");
    let begun = Instant::now();
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "into the pane"}),
    );
    until("the message in the pane", || taken(&herdr, "into the pane") == 1);
    // A second to gather what else comes, and what a busy machine adds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(children(me.pid()), "", "a process was started");
    until("the message is read", || {
        peer.ok("status", json!({"agentId": "me"}))["inboxUnread"] == 0
    });
}

// spec: PUSH-056
#[test]
fn a_pane_that_is_gone_leaves_the_message_unread_and_the_seat_stale() {
    let herdr = Herdr::new();
    herdr.put(PANE, Pane::idle());
    let bus = bus(&herdr);
    let _me = in_pane(&bus, "me", PANE);
    let peer = bus.joined("peer");
    herdr.close(PANE);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "to nobody"}),
    );
    let status = || peer.ok("status", json!({"agentId": "me"}));
    until("it is said to be stale", || status()["push"]["stale"] == true);
    assert_eq!(status()["inboxUnread"], 1);
    // It comes back under its name, as after a restart of herdr.
    herdr.put(PANE, Pane::idle());
    until("the message in the pane", || taken(&herdr, "to nobody") == 1);
}

// spec: PUSH-057
#[test]
fn a_herdr_that_is_not_there_shows_in_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("herdr.sock");
    let bus = Bus::new()
        .with("AGENT_COORD_TRANSPORT", "herdr")
        .with("HERDR_SOCKET_PATH", socket.to_str().unwrap());
    let session = bus.stdio_with(&[("HERDR_PANE_ID", PANE)]);
    let transport = session.ok("capabilities", json!({}))["transport"].clone();
    assert_eq!(
        (&transport["configured"], &transport["agrees"]),
        (&json!("herdr"), &json!(false))
    );
    assert!(transport.get("running").is_none_or(Value::is_null), "{transport}");
    assert!(
        transport["evidence"].to_string().contains("herdr.sock"),
        "{transport}"
    );
    let joined = session.ok("join", json!({"agentId": "me"}));
    assert_eq!(joined["attached"], false, "{joined}");
    assert!(!has_marker(&bus, "me"));
}

// spec: PUSH-042 TOOL-101
#[test]
fn a_daemon_and_a_session_of_one_seat_type_a_message_once() {
    let herdr = Herdr::new();
    herdr.put(PANE, Pane::idle());
    let bus = bus(&herdr);
    let daemon = bus.daemon();
    let remote = daemon.session(SHARED);
    remote.ok("join", json!({"agentId": "me"}));
    remote.ok("attach_agent", json!({"agentId": "me", "tmuxTarget": PANE}));
    let status = remote.ok("status", json!({"agentId": "me"}));
    assert_eq!(
        status["transport"]["target"], PANE,
        "what was bound can be read back"
    );
    // The same seat comes by standard streams, from its own pane.
    let local = bus.stdio_with(&[("HERDR_PANE_ID", PANE)]);
    local.ok("join", json!({"agentId": "me", "force": true}));
    let peer = bus.joined("peer");
    for round in 0..3 {
        peer.ok(
            "send_message",
            json!({"from": "peer", "to": "me", "text": format!("message {round}")}),
        );
        until("the message in the pane", || {
            taken(&herdr, &format!("message {round}")) > 0
        });
        // The agent is done with it.
        herdr.put(
            PANE,
            Pane {
                status: "idle",
                ..herdr.pane(PANE)
            },
        );
    }
    a_while();
    for round in 0..3 {
        assert_eq!(
            taken(&herdr, &format!("message {round}")),
            1,
            "{:?}",
            herdr.pane(PANE).taken
        );
    }
    drop(local);
    assert!(daemon.process.pid() > 0);
}

// spec: TOOL-004
#[test]
fn what_a_join_says_of_the_push_stands_in_place_of_what_is_usual() {
    let herdr = Herdr::new();
    herdr.put(PANE, Pane::idle());
    herdr.put("w9:p9", Pane::idle());
    let bus = bus(&herdr);
    let session = bus.stdio_with(&[("HERDR_PANE_ID", PANE), ("HERDR_ENV", "1")]);
    let how = json!({"tmuxTarget": "w9:p9", "includeRoom": false, "allowlist": ["lead"], "debounceMs": 250});
    let joined = session.ok("join", json!({"agentId": "me", "attach": how}));
    assert_eq!(joined["attached"], true, "{joined}");
    let found = marker(&bus, "me");
    assert_eq!(
        (
            &found["target"],
            &found["includeRoom"],
            &found["allowlist"],
            &found["debounceMs"]
        ),
        (&json!("w9:p9"), &json!(false), &json!(["lead"]), &json!(250))
    );
}

#[test]
fn a_session_that_ends_takes_its_marker_with_it() {
    let herdr = Herdr::new();
    herdr.put(PANE, Pane::idle());
    let bus = bus(&herdr);
    let me = in_pane(&bus, "me", PANE);
    assert!(has_marker(&bus, "me"));
    let (status, _, said) = me.close();
    assert!(status.success(), "{said}");
    assert!(!has_marker(&bus, "me"));
    let me = in_pane(&bus, "me", PANE);
    let (status, _, said) = me.end_by(nix::sys::signal::Signal::SIGTERM);
    assert!(status.success(), "{said}");
    assert!(!has_marker(&bus, "me"));
}
