//! Who a session is: bound by its first act, kept to it, and never somebody who is live elsewhere. Never a bearer token: those are beside it.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bus, Calls, Process, by_both_doors, until};

/// Every tool that acts as somebody, as `id`.
fn acts(id: &str) -> Vec<(&'static str, Value)> {
    let own = || json!({"agentId": id});
    let with = |more: Value| {
        let mut arguments = own();
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    vec![
        ("join", own()),
        ("register", own()),
        ("unregister", own()),
        ("heartbeat", own()),
        ("read_pane", with(json!({"targetAgentId": "alice"}))),
        ("send_message", json!({"from": id, "to": "alice", "text": "x"})),
        ("send_message", json!({"from": id, "text": "x"})),
        (
            "send_command",
            json!({"from": id, "to": "carol", "command": "/clear"}),
        ),
        ("read_messages", with(json!({"source": "inbox"}))),
        ("retrieve_room_history", with(json!({"hash": "0123456789ab"}))),
        ("post_status", with(json!({"status": "x"}))),
        (
            "wait_for_message",
            with(json!({"source": "inbox", "timeoutMs": 1})),
        ),
        ("join_room", with(json!({"room": "seo"}))),
        ("leave_room", with(json!({"room": "ops"}))),
        ("set_room_topic", with(json!({"room": "general", "topic": "x"}))),
        ("set_room_motd", with(json!({"room": "general", "motd": "x"}))),
        ("rename_agent", with(json!({"newAgentId": "carol"}))),
        ("attach_agent", with(json!({"tmuxTarget": "w1:p1"}))),
        ("detach_agent", own()),
        ("report_transport", with(json!({"transport": "herdr"}))),
        ("clear_transport", own()),
        ("export_work", with(json!({"project": "shop", "write": true}))),
    ]
}

/// That a session bound to alice acts as bob by no tool, and changes nothing trying.
pub(crate) fn keeps_to_alice(bus: &Bus, session: &dyn Calls) {
    // The marker of a call without a session may outlive its answer by a moment.
    let files = || {
        let mut files = bus.public();
        files.retain(|name, _| !name.starts_with("sessions"));
        files
    };
    let (before, markers) = (files(), bus.markers("bob").len());
    for (tool, mut arguments) in acts("bob") {
        let sentence = session.refused(tool, arguments.clone(), "identity_bound");
        assert_eq!(
            sentence, "identity bound to 'alice'; rejected attempt to act as 'bob'",
            "{tool}"
        );
        if tool == "join" || tool == "register" {
            arguments["force"] = json!(true);
            session.refused(tool, arguments, "identity_bound");
        }
    }
    assert!(files() == before, "a refusal comes before any effect");
    assert_eq!(bus.markers("bob").len(), markers);
}

// spec: IDN-001 IDN-002 IDN-003 IDN-004 IDN-005 IDN-007 IDN-039
#[test]
fn the_first_act_binds_a_session_and_no_tool_lets_it_be_another() {
    by_both_doors(|bus| {
        bus.joined("bob");
        let session = bus.agent();
        for id in ["alice", "bob", "carol"] {
            session.ok("status", json!({"agentId": id}));
            session.ok("ping", json!({"to": id}));
        }
        session.ok("list_agents", json!({}));
        session.ok("list_rooms", json!({}));
        session.ok("capabilities", json!({}));
        assert_eq!(bus.markers("alice").len(), 0, "looking binds nobody");
        session.ok("register", json!({"agentId": "alice"}));
        assert_eq!(bus.markers("alice").len(), 1);
        session.ok("heartbeat", json!({"agentId": "alice"}));
        keeps_to_alice(bus, &*session);
        session.ok("status", json!({"agentId": "bob"}));
    });
}

// spec: IDN-006
#[test]
fn whom_a_call_is_about_is_not_who_calls() {
    by_both_doors(|bus| {
        bus.joined("bob");
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "to": "bob", "text": "x"}));
        alice.ok("read_pane", json!({"agentId": "alice", "targetAgentId": "bob"}));
        alice.refused(
            "rename_agent",
            json!({"agentId": "alice", "newAgentId": "bob"}),
            "id_in_use",
        );
        let got = alice.call(
            "send_command",
            json!({"from": "alice", "to": "bob", "command": "/compact"}),
        );
        assert_eq!(got.body["code"], "not_attached", "{got:?}");
        alice.ok("list_scopes", json!({"path": "docs/QUEUE.md", "agentId": "bob"}));
    });
}

// spec: IDN-008
#[test]
fn a_first_call_that_fails_binds_nobody() {
    by_both_doors(|bus| {
        let session = bus.agent();
        session.refused(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": ""}),
            "invalid_arguments",
        );
        session.refused(
            "leave_room",
            json!({"agentId": "alice", "room": "general"}),
            "refused",
        );
        session.refused("heartbeat", json!({"agentId": "alice"}), "not_registered");
        session
            .call("join", json!({"agentId": "alice", "role": 7}))
            .broke("invalid_arguments");
        assert_eq!(bus.markers("alice").len(), 0);
        session.ok("register", json!({"agentId": "bob"}));
        session.refused("heartbeat", json!({"agentId": "alice"}), "identity_bound");
    });
}

// spec: IDN-009
#[test]
fn two_sessions_are_bound_each_on_its_own() {
    by_both_doors(|bus| {
        let (one, two) = (bus.joined("alice"), bus.joined("bob"));
        one.ok("heartbeat", json!({"agentId": "alice"}));
        two.ok("heartbeat", json!({"agentId": "bob"}));
        one.refused("heartbeat", json!({"agentId": "bob"}), "identity_bound");
        two.refused("heartbeat", json!({"agentId": "alice"}), "identity_bound");
    });
}

// spec: IDN-010 IDN-012 IDN-015 IDN-016 IDN-019 TOOL-008
#[test]
fn a_live_id_is_claimed_only_by_force_which_is_recorded() {
    by_both_doors(|bus| {
        let _alice = bus.joined("alice");
        let other = bus.agent();
        let before = bus.public();
        for tool in ["join", "register"] {
            let sentence = other.refused(tool, json!({"agentId": "alice"}), "identity_live");
            for words in ["heartbeat", "live session", "pane", "token", "force:true"] {
                assert!(sentence.contains(words), "{words} is not in: {sentence}");
            }
        }
        for tool in ["heartbeat", "unregister"] {
            other.refused(tool, json!({"agentId": "alice"}), "identity_live");
        }
        other.refused(
            "send_message",
            json!({"from": "alice", "text": "as her"}),
            "identity_live",
        );
        assert_eq!(bus.public(), before);
        other.ok("register", json!({"agentId": "alice", "force": true}));
        let markers = bus.markers("alice");
        assert_eq!(markers.len(), 2);
        assert_eq!(
            markers.iter().filter(|marker| marker["forced"] == true).count(),
            1
        );
        let third = bus.agent();
        third.ok("join", json!({"agentId": "alice", "force": true}));
        // A name of nobody's binds without any of it.
        let fourth = bus.agent();
        fourth.ok("join", json!({"agentId": "nobody-yet"}));
        assert!(bus.markers("nobody-yet")[0].get("forced").is_none());
    });
}

// spec: IDN-010
#[test]
fn a_fresh_heartbeat_alone_keeps_a_stranger_out() {
    by_both_doors(|bus| {
        let now = muster_core::Clock::system().now().micros() / 1_000;
        let entry = json!({"alice": {"agentId": "alice", "registeredAt": 1, "lastHeartbeat": now}});
        bus.write("agents.json", &entry.to_string());
        let sentence = bus
            .agent()
            .refused("join", json!({"agentId": "alice"}), "identity_live");
        assert!(
            sentence.contains("heartbeat") && !sentence.contains("live session"),
            "{sentence}"
        );
    });
}

// spec: IDN-011 IDN-013
#[test]
fn a_live_marker_alone_keeps_a_stranger_out_and_lets_its_own_pane_in() {
    let bus = Bus::new();
    let pusher = Process::lasting();
    let marker = |id: &str, kind: &str, pane: &str| {
        bus.write(
            &format!("transports/{id}.json"),
            &json!({"agentId": id, "transport": kind, "pid": pusher.pid(), "target": pane, "tmuxTarget": pane, "since": 1})
                .to_string(),
        );
    };
    marker("alice", "tmux-push-remote", "%7");
    marker("bob", "herdr", "w3:p1");
    let sentence = bus
        .stdio()
        .refused("join", json!({"agentId": "alice"}), "identity_live");
    assert!(
        sentence.contains("transport marker") && !sentence.contains("heartbeat"),
        "{sentence}"
    );
    for (id, variable, wrong, right) in [
        ("alice", "TMUX_PANE", "%8", "%7"),
        ("bob", "HERDR_PANE_ID", "w3:p2", "w3:p1"),
    ] {
        bus.stdio_with(&[(variable, wrong)])
            .refused("join", json!({"agentId": id}), "identity_live");
        bus.stdio_with(&[(variable, right)])
            .ok("join", json!({"agentId": id}));
    }
}

// spec: IDN-012
#[test]
fn an_open_session_alone_keeps_a_stranger_out() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("unregister", json!({"agentId": "alice"}));
        let sentence = bus
            .agent()
            .refused("register", json!({"agentId": "alice"}), "identity_live");
        assert!(
            sentence.contains("live session") && !sentence.contains("heartbeat"),
            "{sentence}"
        );
    });
}

// spec: IDN-014 TOOL-008
#[test]
fn the_agents_token_takes_a_live_id_back_and_a_wrong_one_does_not() {
    let bus = Bus::new();
    let token = bus.mint("alice");
    let other = bus.mint("bob");
    let _alice = bus.joined("alice");
    for tool in ["join", "register"] {
        let session = bus.stdio();
        let before = bus.public();
        for wrong in [other.as_str(), "tk_0", ""] {
            let got = session.call(tool, json!({"agentId": "alice", "token": wrong}));
            let sentence = got.refused("wrong_token");
            assert!(!sentence.contains("tk_"), "{sentence}");
        }
        assert_eq!(bus.public(), before);
        session.ok(tool, json!({"agentId": "alice", "token": token}));
    }
}

// spec: IDN-017 IDN-041
#[test]
fn an_idle_id_is_anybodys() {
    let bus = Bus::new();
    let first = bus.stdio();
    first.ok("join", json!({"agentId": "alice"}));
    let (status, ..) = first.end_by(Signal::SIGKILL);
    assert!(!status.success());
    bus.move_clock(301);
    bus.stdio().ok("join", json!({"agentId": "alice"}));
}

// spec: IDN-018
#[test]
fn what_cannot_be_read_is_no_proof_that_nobody_is_there() {
    by_both_doors(|bus| {
        bus.joined("old");
        let agents = bus.text("agents.json");
        for (file, content, restored) in [
            ("agents.json", "{\"ali", Some(agents.as_str())),
            ("transports/alice.json", "{{", None),
            ("sessions/0b9f3e5e-0000-4000-8000-000000000000.json", "", None),
        ] {
            bus.write(file, content);
            let before = bus.public();
            let got = bus.agent().call("join", json!({"agentId": "alice"}));
            let sentence = got.refused("cannot_verify");
            assert!(sentence.contains(file.split('.').next().unwrap()), "{sentence}");
            assert_eq!(bus.public(), before);
            match restored {
                Some(text) => bus.write(file, text),
                None => std::fs::remove_file(bus.file(file)).unwrap(),
            }
        }
        bus.agent().ok("join", json!({"agentId": "alice"}));
    });
}

// spec: IDN-020 STO-015
#[test]
fn a_bound_session_has_a_marker_of_its_process_until_it_ends_in_order() {
    let bus = Bus::new();
    for end in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let alice = bus.stdio();
        assert_eq!(bus.markers("alice").len(), 0);
        // The same again, at once and without force: it ended in order.
        alice.ok("join", json!({"agentId": "alice"}));
        let markers = bus.markers("alice");
        assert_eq!(markers.len(), 1);
        assert_eq!(
            (&markers[0]["pid"], &markers[0]["transport"]),
            (&json!(alice.pid()), &json!("stdio"))
        );
        let (status, ..) = match end {
            None => alice.close(),
            Some(signal) => alice.end_by(signal),
        };
        assert!(status.success(), "{end:?} {status:?}");
        assert_eq!(bus.markers("alice").len(), 0, "{end:?}");
    }
}

// spec: IDN-021
#[test]
fn a_killed_session_counts_no_more_once_its_heartbeat_is_stale() {
    let bus = Bus::new();
    let alice = bus.stdio();
    alice.ok("join", json!({"agentId": "alice"}));
    alice.end_by(Signal::SIGKILL);
    assert_eq!(bus.markers("alice").len(), 1, "a kill leaves the marker");
    let again = bus.stdio();
    let sentence = again.refused("join", json!({"agentId": "alice"}), "identity_live");
    assert!(
        sentence.contains("heartbeat") && !sentence.contains("live session"),
        "{sentence}"
    );
    bus.move_clock(301);
    again.ok("join", json!({"agentId": "alice"}));
}

// spec: IDN-037 IDN-038 IDN-040 IDN-042
#[test]
fn a_process_that_is_bound_by_its_environment_is_that_agent_and_needs_no_force() {
    let bus = Bus::new();
    bus.joined("bob");
    let env = [("AGENT_COORD_BOUND_AGENT", "alice")];
    let first = bus.stdio_with(&env);
    keeps_to_alice(&bus, &first);
    first.ok("join", json!({"agentId": "alice"}));
    assert!(
        !first.err.text().contains("AGENT_COORD_BOUND_AGENT"),
        "{}",
        first.err.text()
    );
    assert_eq!(bus.markers("alice")[0]["how"], "environment");
    // A kill and a start at once: its own live id is its own.
    first.end_by(Signal::SIGKILL);
    let second = bus.stdio_with(&env);
    second.ok("join", json!({"agentId": "alice"}));
    keeps_to_alice(&bus, &second);
    // Without it a fresh session does not become the live one.
    bus.stdio()
        .refused("join", json!({"agentId": "alice"}), "identity_live");
    let bad = bus.stdio_refused(&[("AGENT_COORD_BOUND_AGENT", "../x")]);
    assert!(!bad.status.success() && bad.err.contains("agent id"), "{bad:?}");
}

// spec: IDN-041
#[test]
fn of_many_who_claim_one_id_at_once_one_gets_it() {
    by_both_doors(|bus| {
        let claimants: Vec<_> = (0..8).map(|_| bus.agent()).collect();
        let pending: Vec<_> = claimants
            .iter()
            .map(|agent| agent.wait("join", json!({"agentId": "alice"})))
            .collect();
        let got: Vec<_> = pending.into_iter().map(crate::support::Pending::end).collect();
        let winners = got.iter().filter(|got| got.body["ok"] == true).count();
        assert_eq!(winners, 1, "{got:?}");
        assert!(
            got.iter()
                .all(|got| got.body["ok"] == true || got.body["code"] == "identity_live")
        );
    });
}

// spec: IDN-020
#[test]
fn a_client_that_leaves_during_a_wait_ends_its_process_and_takes_no_message_along() {
    let bus = Bus::new();
    let alice = bus.joined("alice");
    let bob = bus.stdio();
    bob.ok("join", json!({"agentId": "bob"}));
    let waiting = bob.wait(
        "wait_for_message",
        json!({"agentId": "bob", "source": "inbox", "timeoutMs": 60_000}),
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let begun = std::time::Instant::now();
    let (status, ..) = bob.close();
    assert!(
        status.success() && begun.elapsed() < std::time::Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    drop(waiting);
    assert!(bus.markers("bob").is_empty());
    alice.ok(
        "send_message",
        json!({"from": "alice", "to": "bob", "text": "kept"}),
    );
    let again = bus.stdio().ok("join", json!({"agentId": "bob"}));
    assert_eq!(crate::support::texts(&again["inbox"]), ["kept"]);
}

// spec: IDN-010
#[test]
fn an_agent_of_a_client_without_sessions_is_live_between_two_calls() {
    let bus = Bus::new();
    let token = bus.mint("alice");
    let daemon = bus.daemon();
    let now = daemon.now(&token);
    now.ok("join", json!({"agentId": "alice"}));
    until("the call has ended", || bus.markers("alice").is_empty());
    let near = bus.stdio();
    let sentence = near.refused("join", json!({"agentId": "alice"}), "identity_live");
    assert!(sentence.contains("heartbeat"), "{sentence}");
    now.ok("heartbeat", json!({"agentId": "alice"}));
    near.refused("heartbeat", json!({"agentId": "alice"}), "identity_live");
    until("the call has ended", || bus.markers("alice").is_empty());
    bus.move_clock(301);
    near.ok("join", json!({"agentId": "alice"}));
}

// spec: IDN-010
#[test]
fn a_call_that_stands_for_itself_frees_nobody_though_it_names_a_session() {
    let bus = Bus::new();
    let token = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let session = daemon.session(&token);
    for revision in ["2026-07-28", "2025-11-25"] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "join", "arguments": {"agentId": "alice"}, "_meta": meta}});
        let headers = [
            ("mcp-session-id", session.session.as_str()),
            ("mcp-protocol-version", revision),
            ("mcp-method", "tools/call"),
            ("mcp-name", "join"),
        ];
        let answer = crate::support::post(&daemon.url(), Some(&token), &headers, &body.to_string());
        assert_eq!(answer.status, 200, "{revision}: {answer:?}");
        assert!(
            answer.text.contains("\"registered\":true"),
            "{revision}: {answer:?}"
        );
        until("the call has ended", || bus.markers("alice").is_empty());
        bus.stdio()
            .refused("join", json!({"agentId": "alice"}), "identity_live");
    }
}

// spec: IDN-013
#[test]
fn a_pane_that_came_over_the_network_is_no_pane_of_this_machine() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let far = daemon.session(crate::support::SHARED);
    far.ok("join", json!({"agentId": "alice"}));
    let report = json!({"agentId": "alice", "transport": "tmux-push-remote", "tmuxTarget": "%0"});
    let said = far.ok("report_transport", report);
    assert_eq!(said["transport"]["host"], "unknown");
    far.leave();
    until("the session has ended", || bus.markers("alice").is_empty());
    bus.stdio_with(&[("TMUX_PANE", "%0")])
        .refused("join", json!({"agentId": "alice"}), "identity_live");
}

// spec: IDN-013
#[test]
fn an_agent_that_reports_the_pane_it_runs_in_comes_back_to_it() {
    let bus = Bus::new();
    let report =
        |id: &str, pane: &str| json!({"agentId": id, "transport": "tmux-push-remote", "tmuxTarget": pane});
    let first = bus.stdio_with(&[("TMUX_PANE", "%3")]);
    first.ok("join", json!({"agentId": "alice"}));
    let said = first.ok("report_transport", report("alice", "%3"));
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(said["transport"]["host"], here.trim());
    first.end_by(Signal::SIGKILL);
    bus.stdio_with(&[("TMUX_PANE", "%4")])
        .refused("join", json!({"agentId": "alice"}), "identity_live");
    bus.stdio_with(&[("TMUX_PANE", "%3")])
        .ok("join", json!({"agentId": "alice"}));
    // A pane that it does not run in may be of any machine.
    let other = bus.stdio_with(&[("TMUX_PANE", "%5")]);
    other.ok("join", json!({"agentId": "bob"}));
    let said = other.ok("report_transport", report("bob", "%6"));
    assert_eq!(said["transport"].get("host"), None);
    other.end_by(Signal::SIGKILL);
    bus.stdio_with(&[("TMUX_PANE", "%6")])
        .refused("join", json!({"agentId": "bob"}), "identity_live");
}

// spec: IDN-018
#[test]
fn a_marker_that_was_left_empty_long_ago_stops_nobody() {
    by_both_doors(|bus| {
        let name = "sessions/0b9f3e5e-0000-4000-8000-000000000000.json";
        bus.write(name, "");
        bus.agent()
            .refused("join", json!({"agentId": "alice"}), "cannot_verify");
        let marker = std::fs::File::options().write(true).open(bus.file(name)).unwrap();
        let written = marker.metadata().unwrap().modified().unwrap();
        marker
            .set_modified(written - std::time::Duration::from_secs(120))
            .unwrap();
        let alice = bus.joined("alice");
        bus.joined("bob");
        assert_eq!(alice.ok("ping", json!({"to": "bob"}))["alive"], true);
        alice.ok(
            "rename_agent",
            json!({"agentId": "alice", "newAgentId": "alicia"}),
        );
        alice.ok("prune", json!({}));
    });
}

#[test]
fn a_session_over_http_that_leaves_frees_its_id_at_once() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let first = daemon.session(crate::support::SHARED);
    first.ok("join", json!({"agentId": "alice"}));
    assert!((200..300).contains(&first.leave()));
    until("the marker is gone", || bus.markers("alice").is_empty());
    assert_eq!(first.status(), 404);
    daemon
        .session(crate::support::SHARED)
        .ok("join", json!({"agentId": "alice"}));
}

// spec: IDN-037
#[test]
fn a_session_that_its_environment_bound_is_told_of_another_one_of_its_id() {
    let bus = Bus::new();
    let bound = [("AGENT_COORD_BOUND_AGENT", "alice")];
    let first = bus.stdio_with(&bound);
    assert_eq!(first.ok("join", json!({"agentId": "alice"})).get("warning"), None);
    let second = bus.stdio_with(&bound);
    let joined = second.ok("join", json!({"agentId": "alice"}));
    let warning = joined["warning"].as_str().unwrap();
    assert!(
        warning.contains("acts as 'alice', too") && warning.contains("one project's own entry"),
        "{warning}"
    );
    first.close();
    assert_eq!(
        second.ok("join", json!({"agentId": "alice"})).get("warning"),
        None
    );
}
