//! Bearer tokens: which agent each is, how they change under a running daemon, that nobody sees one. Never what a bound session may do beyond that.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::identity::keeps_to_alice;
use crate::support::{Bus, Calls as _, Daemon, SHARED, post, until};

/// What a request without a session gets.
fn knocks(daemon: &Daemon, token: &str) -> u16 {
    post(&daemon.url(), Some(token), &[], &hello()).status
}

fn hello() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
    .to_string()
}

fn mode(bus: &Bus, name: &str) -> u32 {
    std::fs::metadata(bus.file(name)).unwrap().permissions().mode() & 0o777
}

// spec: IDN-023 IDN-035 STO-016 STO-030 NODE-002
#[test]
fn a_minted_token_stands_in_a_file_of_its_users_alone() {
    let bus = Bus::new();
    let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
    assert_eq!(bus.json("tokens.json"), json!({"alice": alice, "bob": bob}));
    assert_eq!(mode(&bus, "tokens.json"), 0o600);
    for token in [&alice, &bob] {
        let hex = token.strip_prefix("tk_").unwrap();
        assert!(
            hex.len() >= 48 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{token}"
        );
    }
    assert_ne!(alice, bob);
    // Whoever opened it to others in between: each writing closes it again.
    std::fs::set_permissions(bus.file("tokens.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_ne!(bus.mint("alice"), alice, "another one each time");
    assert_eq!(mode(&bus, "tokens.json"), 0o600);
    let listed = bus.run(&["bus", "token", "list"]);
    assert_eq!(listed.out, "alice\nbob\n");
}

// spec: NODE-001 NODE-003 NODE-004 NODE-005 NODE-006 NODE-007 NODE-008
#[test]
fn the_token_command_says_what_to_do_next_and_refuses_what_makes_no_sense() {
    let bus = Bus::new();
    let added = bus.run(&["bus", "token", "add", "worker-2"]);
    let token = added.out.trim_end();
    assert_eq!(bus.json("tokens.json")["worker-2"], token);
    assert!(
        !added.err.contains(token),
        "standard output alone has it: {added:?}"
    );
    for words in [
        "a running bus reads it by itself",
        "claude mcp add --transport http",
        "joins as worker-2",
    ] {
        assert!(added.err.contains(words), "{added:?}");
    }
    for arguments in [&["list"][..], &["list", "--json"]] {
        let listed = bus.run(&[&["bus", "token"], arguments].concat());
        assert!(
            listed.out.contains("worker-2") && !listed.out.contains("tk_"),
            "{listed:?}"
        );
    }
    let again = bus.run(&["bus", "token", "add", "worker-2"]);
    assert!(
        again.err.contains("worker-2 had a token, which is replaced") && !added.err.contains("had a token"),
        "{again:?}"
    );
    let before = bus.public();
    for id in ["../x", "", "a/b", "system"] {
        let said = bus.run(&["bus", "token", "add", id]);
        assert!(
            !said.status.success() && said.err.contains("agent id"),
            "{id}: {said:?}"
        );
    }
    let said = bus.run(&["bus", "token", "revoke", "nobody"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(said.err.contains("'nobody' has no token"), "{said:?}");
    assert_eq!(bus.public(), before);
    assert!(bus.run(&["bus", "token", "revoke", "worker-2"]).status.success());
    assert_eq!(bus.json("tokens.json"), json!({}));
}

// spec: IDN-024 IDN-025 IDN-042 NET-027
#[test]
fn a_token_binds_its_session_to_its_agent_before_any_call() {
    let bus = Bus::new();
    let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
    let daemon = bus.daemon_with(&[]);
    daemon.session(&bob).ok("join", json!({"agentId": "bob"}));
    let session = daemon.session(&alice);
    keeps_to_alice(&bus, &session);
    session.ok("join", json!({"agentId": "alice"}));
    keeps_to_alice(&bus, &session);
    // A second session of the same agent needs no force.
    daemon.session(&alice).ok("join", json!({"agentId": "alice"}));
}

// spec: NET-021
#[test]
fn a_session_is_open_to_the_token_that_opened_it_and_to_no_other() {
    let bus = Bus::new();
    let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
    let daemon = bus.daemon_with(&[]);
    let session = daemon.session(&alice);
    session.ok("join", json!({"agentId": "alice"}));
    let stolen = session.under(&bob);
    assert_eq!(stolen.status(), 404);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "heartbeat", "arguments": {"agentId": "bob"}}});
    let said = stolen.post(&call);
    assert!(
        said.status == 404 && said.text.contains("nothing was done"),
        "{said:?}"
    );
    let told = stolen
        .post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    assert_eq!(told.status, 404);
    assert_eq!(stolen.leave(), 404, "nor does it end it");
    session.ok("heartbeat", json!({"agentId": "alice"}));
    // A fresh token of the same agent begins a fresh session.
    let fresh = bus.mint("alice");
    assert_eq!(session.under(&fresh).status(), 404);
    daemon
        .session(&fresh)
        .ok("heartbeat", json!({"agentId": "alice"}));
}

// spec: IDN-024 IDN-025 NET-027
#[test]
fn a_client_without_sessions_is_its_tokens_agent_in_every_call() {
    let bus = Bus::new();
    let alice = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let now = daemon.now(&alice);
    keeps_to_alice(&bus, &now);
    now.ok("join", json!({"agentId": "alice"}));
    now.ok(
        "send_message",
        json!({"from": "alice", "to": "alice", "text": "note"}),
    );
    let read = now.ok("read_messages", json!({"agentId": "alice", "source": "inbox"}));
    assert_eq!(read["returned"], 1);
    keeps_to_alice(&bus, &now);
    now.ok(
        "rename_agent",
        json!({"agentId": "alice", "newAgentId": "alicia"}),
    );
    now.ok("heartbeat", json!({"agentId": "alicia"}));
}

// spec: IDN-026
#[test]
fn a_file_that_others_may_read_is_warned_of_and_repaired_by_the_token_command() {
    let bus = Bus::new();
    let token = bus.mint("alice");
    let open = || {
        std::fs::set_permissions(bus.file("tokens.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    };
    open();
    let daemon = bus.daemon_with(&[]);
    daemon.err.says("tokens.json can be read by others");
    let stdio = bus.stdio();
    stdio.err.says("tokens.json can be read by others");
    let said = bus.run(&["bus", "token", "list"]);
    assert!(
        said.status.success() && said.err.contains("could be read by others"),
        "{said:?}"
    );
    assert_eq!(mode(&bus, "tokens.json"), 0o600);
    open();
    bus.mint("bob");
    assert_eq!(mode(&bus, "tokens.json"), 0o600);
    assert_eq!(knocks(&daemon, &token), 200);
}

// spec: IDN-027 IDN-028
#[test]
fn a_malformed_map_stops_the_start_and_shows_no_token() {
    let secret = "tk_0123456789abcdef0123456789abcdef0123456789abcdef";
    for map in [
        "{\"alice\": \"tk_".to_owned(),
        format!("{{\"alice\": \"{secret}\", \"bob\": \"{secret}\"}}"),
        format!("{{\"alice\": \"{secret}\", \"alice\": \"{secret}2\"}}"),
        format!("{{\"../alice\": \"{secret}\"}}"),
        format!("[\"{secret}\"]"),
        "{\"alice\": 7}".to_owned(),
        "{\"alice\": \"\"}".to_owned(),
        String::new(),
    ] {
        let bus = Bus::new();
        bus.write("tokens.json", &map);
        let said = bus.refused(&[("AGENT_COORD_TOKEN", SHARED)]);
        assert_eq!(said.status.code(), Some(1), "{map}: {said:?}");
        assert!(said.err.contains("tokens.json"), "{map}: {said:?}");
        assert!(
            !said.err.contains("0123456789abcdef") && said.out.is_empty(),
            "{said:?}"
        );
        assert_eq!(bus.text("tokens.json"), map);
    }
}

// spec: IDN-029 IDN-030
#[test]
fn a_hangup_reads_the_map_again_for_new_and_for_open_sessions() {
    let bus = Bus::new();
    let alice = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let session = daemon.session(&alice);
    session.ok("join", json!({"agentId": "alice"}));
    let bob = bus.mint("bob");
    daemon.process.signal(Signal::SIGHUP);
    daemon.err.says("tokens.json was read again");
    daemon.session(&bob).ok("join", json!({"agentId": "bob"}));
    assert!(bus.run(&["bus", "token", "revoke", "alice"]).status.success());
    daemon.process.signal(Signal::SIGHUP);
    until("the revoked token is refused", || session.status() == 401);
    assert_eq!(knocks(&daemon, &alice), 401);
    assert_eq!(knocks(&daemon, &bob), 200);
}

// spec: IDN-030
#[test]
fn a_wait_under_a_token_that_is_revoked_meanwhile_ends_and_takes_nothing() {
    let bus = Bus::new();
    let bob = bus.mint("bob");
    let daemon = bus.daemon_with(&[]);
    let bob = daemon.session(&bob);
    bob.ok("join", json!({"agentId": "bob"}));
    let send = || {
        bob.ok(
            "send_message",
            json!({"from": "bob", "to": "alice", "text": "a secret"}),
        )
    };
    let wait = json!({"agentId": "alice", "source": "inbox", "timeoutMs": 60_000});
    // With a hangup and without, with a message that comes at once and with none.
    for (hangup, at_once) in [(true, true), (true, false), (false, true), (false, false)] {
        let token = bus.mint("alice");
        let (session, now) = (daemon.session(&token), daemon.now(&token));
        let before = bus.markers("alice").len();
        let waits = [
            session.wait("wait_for_message", wait.clone()),
            now.wait("wait_for_message", wait.clone()),
        ];
        until("both wait", || bus.markers("alice").len() == before + 2);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(bus.run(&["bus", "token", "revoke", "alice"]).status.success());
        if hangup {
            daemon.process.signal(Signal::SIGHUP);
        }
        if at_once {
            send();
        }
        let begun = std::time::Instant::now();
        for waiting in waits {
            let got = waiting.end();
            assert_eq!(
                (&got.body["cancelled"], &got.body["returned"]),
                (&json!(true), &json!(0)),
                "{got:?}"
            );
        }
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
        // What came meanwhile waits for whoever is the agent next.
        let next = daemon.session(&bus.mint("alice"));
        let read = next.ok("read_messages", json!({"agentId": "alice", "source": "inbox"}));
        assert_eq!(read["returned"], u64::from(at_once), "{read}");
    }
}

// spec: IDN-030
#[test]
fn a_change_counts_without_a_hangup_too() {
    let bus = Bus::new();
    let alice = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let session = daemon.session(&alice);
    let fresh = bus.mint("alice");
    assert_eq!(session.status(), 401);
    assert_eq!(knocks(&daemon, &fresh), 200);
    // The last one that is revoked opens the bus to nobody.
    assert!(bus.run(&["bus", "token", "revoke", "alice"]).status.success());
    assert_eq!(knocks(&daemon, &fresh), 401);
    std::fs::remove_file(bus.file("tokens.json")).unwrap();
    assert_eq!(knocks(&daemon, &fresh), 401);
}

// spec: IDN-031
#[test]
fn a_map_that_breaks_under_a_running_daemon_leaves_the_last_good_one_in_force() {
    let bus = Bus::new();
    let alice = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    bus.write("tokens.json", "{\"alice\": ");
    daemon.process.signal(Signal::SIGHUP);
    daemon.err.says("the tokens that were read before still count");
    assert_eq!(knocks(&daemon, &alice), 200);
    daemon.session(&alice).ok("join", json!({"agentId": "alice"}));
    assert!(daemon.err.text().contains("tokens.json"));
}

// spec: IDN-032
#[test]
fn a_rename_keeps_its_bearer() {
    let bus = Bus::new();
    let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
    let daemon = bus.daemon_with(&[]);
    let session = daemon.session(&alice);
    session.ok("join", json!({"agentId": "alice"}));
    session.ok(
        "rename_agent",
        json!({"agentId": "alice", "newAgentId": "alicia"}),
    );
    assert_eq!(bus.json("tokens.json"), json!({"alicia": alice, "bob": bob}));
    assert_eq!(mode(&bus, "tokens.json"), 0o600);
    session.ok("heartbeat", json!({"agentId": "alicia"}));
    session.refused("heartbeat", json!({"agentId": "alice"}), "identity_bound");
    let again = daemon.session(&alice);
    again.ok("join", json!({"agentId": "alicia"}));
    daemon
        .session(&alice)
        .refused("join", json!({"agentId": "alice"}), "identity_bound");
}

// spec: IDN-033 IDN-041
#[test]
fn without_a_map_the_shared_token_lets_everybody_in_as_whoever_they_are_first() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let (one, two) = (daemon.session(SHARED), daemon.session(SHARED));
    one.ok("join", json!({"agentId": "alice"}));
    two.ok("join", json!({"agentId": "bob"}));
    keeps_to_alice(&bus, &one);
    daemon
        .session(SHARED)
        .refused("join", json!({"agentId": "alice"}), "identity_live");
}

// Without a session each call would be whoever it says, whatever the call before it said.
// spec: IDN-003 IDN-033
#[test]
fn under_the_shared_token_a_revision_without_sessions_is_refused_in_the_protocols_own_words() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let session = daemon.session(SHARED);
    session.ok("join", json!({"agentId": "alice"}));
    let before = bus.public();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let send = json!({"name": "send_message", "arguments": {"from": "alice", "text": "x"}, "_meta": meta});
    for (method, params, by_header) in [
        ("server/discover", json!({"_meta": meta}), true),
        ("tools/list", json!({"_meta": meta}), true),
        ("tools/call", send.clone(), true),
        ("tools/call", json!({"name": "ping", "arguments": {}}), true),
        // Neither header nor session says so, or the session is one that began.
        ("tools/call", send.clone(), false),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": "seven", "method": method, "params": params}).to_string();
        let name = params["name"].as_str().unwrap_or("none");
        for in_session in [false, true] {
            let mut headers = vec![("mcp-method", method), ("mcp-name", name)];
            headers.extend(by_header.then_some(("mcp-protocol-version", "2026-07-28")));
            headers.extend(in_session.then_some(("mcp-session-id", session.session.as_str())));
            let answer = post(&daemon.url(), Some(SHARED), &headers, &body);
            assert_eq!(answer.status, 400, "{method}: {answer:?}");
            let said = answer.message();
            assert_eq!(
                (&said["id"], &said["error"]["code"]),
                (&json!("seven"), &json!(-32022)),
                "{said}"
            );
            let data = &said["error"]["data"];
            assert_eq!(
                (&data["requested"], &data["supported"][0]),
                (&json!("2026-07-28"), &json!("2025-11-25"))
            );
            let sentence = said["error"]["message"].as_str().unwrap();
            assert!(
                sentence.contains("muster bus token add") && sentence.ends_with("Nothing was done"),
                "{said}"
            );
        }
    }
    assert_eq!(bus.public(), before);
    session.ok("heartbeat", json!({"agentId": "alice"}));
}

#[test]
fn the_start_says_what_one_token_for_all_is_worth_and_whether_it_can_be_guessed() {
    let bus = Bus::new();
    for (token, short) in [("fifteen-letters", true), ("sixteen--letters", false)] {
        let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", token)]);
        daemon.err.says("answers on http://");
        let said = daemon.err.text();
        assert!(said.contains("every holder of it can be every agent"), "{said}");
        assert_eq!(said.contains("fewer than 16 characters"), short, "{said}");
        assert!(!said.contains(token), "{said}");
    }
    bus.mint("alice");
    let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", "short")]);
    daemon.err.says("answers on http://");
    assert!(
        !daemon.err.text().contains("every holder"),
        "it counts for nothing then"
    );
}

// spec: IDN-034
#[test]
fn with_a_map_the_shared_token_lets_nobody_in() {
    let bus = Bus::new();
    let alice = bus.mint("alice");
    let daemon = bus.daemon();
    daemon.err.says("AGENT_COORD_TOKEN counts for nothing");
    assert_eq!(knocks(&daemon, SHARED), 401);
    assert_eq!(knocks(&daemon, &alice), 200);
    // A map that appears under a running daemon ends the shared token, for open sessions too.
    let bus = Bus::new();
    let daemon = bus.daemon();
    let session = daemon.session(SHARED);
    session.ok("join", json!({"agentId": "alice"}));
    let token = bus.mint("alice");
    assert_eq!(
        (session.status(), knocks(&daemon, SHARED), knocks(&daemon, &token)),
        (401, 401, 200)
    );
}

// spec: IDN-036
#[test]
fn no_line_that_a_process_writes_and_no_file_but_the_map_holds_a_token() {
    let bus = Bus::new().with("MUSTER_LOG", "trace");
    let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
    let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED)]);
    let session = daemon.session(&alice);
    session.ok("join", json!({"agentId": "alice"}));
    daemon.now(&alice).ok("heartbeat", json!({"agentId": "alice"}));
    assert_eq!(knocks(&daemon, "tk_a-wrong-one"), 401);
    assert_eq!(knocks(&daemon, SHARED), 401);
    let stdio = bus.stdio();
    stdio.ok("register", json!({"agentId": "bob", "token": bob}));
    bus.stdio().refused(
        "register",
        json!({"agentId": "bob", "token": "tk_a-wrong-one"}),
        "wrong_token",
    );
    bus.write(
        "tokens.json",
        &format!("{{\"alice\": \"{alice}\", \"bob\": \"{alice}\"}}"),
    );
    daemon.process.signal(Signal::SIGHUP);
    daemon.err.says("still count");
    let (_, _, near) = stdio.close();
    let (far, _) = daemon.stop();
    for said in [near, far.err, far.out] {
        for token in [&alice, &bob, SHARED, "tk_a-wrong-one"] {
            assert!(!said.contains(token), "a token is in: {said}");
        }
    }
    for (name, content) in bus.public() {
        let text = String::from_utf8_lossy(&content).into_owned();
        assert!(name.ends_with("tokens.json") || !text.contains("tk_"), "{name:?}");
    }
}

// spec: IDN-036 NET-009
#[test]
fn a_wrong_token_learns_nothing() {
    let bus = Bus::new();
    bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let mut bodies: Vec<Value> = Vec::new();
    for token in [
        "",
        "tk_",
        "alice",
        "tk_000000000000000000000000000000000000000000000000",
        "a b",
    ] {
        let answer = post(&daemon.url(), Some(token), &[], &hello());
        assert_eq!(answer.status, 401, "{token}");
        bodies.push(answer.text.into());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    let body = bodies[0].as_str().unwrap();
    assert!(
        body.contains("no such token, or it was revoked") && body.contains("muster bus token add"),
        "{body}"
    );
    assert!(!body.contains("alice") && !body.contains("tokens.json"), "{body}");
}
