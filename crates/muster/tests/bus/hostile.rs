//! Arguments that no tool should take: each is refused with a sentence, changes no file and ends no session. Never a call that should succeed.

use serde_json::{Value, json};

use crate::support::{Bus, Calls as _, SHARED, by_both_doors, post};

/// Names that leave the directory, that a file system cannot hold, that two spellings would share, or that a terminal would obey.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        " ",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "\0",
        "a\0b",
        ".hidden",
        "-rf",
        "__proto__",
        "constructor",
        "prototype",
        "system",
        "\u{1b}[2Jx",
        "a\nb",
        "a\r",
        "b\u{f6}b",
        "\u{202e}bob",
        "bob ",
        " bob",
        "bob\u{200b}",
        "\u{ff42}ob",
        "inbox/bob",
        "bob.jsonl/../x",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(65));
    names.push("x".repeat(300));
    names
}

// spec: STO-024
#[test]
fn an_id_or_a_channel_that_could_leave_its_folder_is_refused_and_makes_no_file() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let before = bus.public();
        for name in names() {
            let stranger = bus.agent();
            for tool in ["join", "register", "heartbeat", "unregister", "status"] {
                let got = stranger.call(tool, json!({"agentId": name}));
                got.refused("invalid_name");
            }
            // An empty recipient was a public post once.
            alice.refused(
                "send_message",
                json!({"from": "alice", "to": name, "text": "x"}),
                "invalid_name",
            );
            alice.refused(
                "rename_agent",
                json!({"agentId": "alice", "newAgentId": name}),
                "invalid_name",
            );
            alice.refused("ping", json!({"to": name}), "invalid_name");
            alice.refused(
                "read_pane",
                json!({"agentId": "alice", "targetAgentId": name}),
                "invalid_name",
            );
            // Channels are trimmed and may be spelled in capitals; the rest holds.
            let room = name.trim().trim_start_matches('#').to_ascii_lowercase();
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if (1..=64).contains(&room.len()) && room.bytes().all(plain) && !room.starts_with(['.', '-']) {
                continue;
            }
            for (tool, more) in [
                ("join_room", json!({})),
                ("leave_room", json!({})),
                ("set_room_topic", json!({"topic": "t"})),
                ("set_room_motd", json!({"motd": "m"})),
            ] {
                let mut arguments = more;
                arguments["agentId"] = json!("alice");
                arguments["room"] = json!(name);
                alice.refused(tool, arguments, "invalid_name");
            }
            alice.refused(
                "send_message",
                json!({"from": "alice", "room": name, "text": "x"}),
                "invalid_name",
            );
            alice.refused(
                "read_messages",
                json!({"agentId": "alice", "source": "room", "room": name}),
                "invalid_name",
            );
        }
        assert_eq!(bus.public(), before);
    });
}

/// Calls of alice's that must change nothing, whatever is said about them.
fn nonsense() -> Vec<(&'static str, Value)> {
    let long = "x".repeat(1024 * 1024);
    let mut deep = json!("bottom");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        ("send_message", json!({"from": "alice", "to": "bob", "text": ""})),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": " \n\t"}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": null}),
        ),
        ("send_message", json!({"from": "alice", "to": "bob", "text": 7})),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": ["x"]}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": ["bob"], "text": "x"}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "x", "control": true}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "x", "system": true}),
        ),
        (
            "send_message",
            json!({"from": "alice", "text": "x", "kind": "DECISION"}),
        ),
        (
            "send_message",
            json!({"from": "alice", "text": "x", "kind": "order"}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "x", "\u{1b}[31m": 1}),
        ),
        (
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "x", long.as_str(): 1}),
        ),
        (
            "send_message",
            json!({"from": "alice", "text": "x", "kind": long}),
        ),
        ("send_message", json!({"from": long, "text": "x"})),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "limit": "10"}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "limit": 0}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "limit": -1}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "limit": 501}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "limit": 1e300}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "sinceTs": "now"}),
        ),
        (
            "read_messages",
            json!({"agentId": "alice", "source": "inbox", "peek": "yes"}),
        ),
        ("read_messages", json!({"agentId": "alice", "source": "archive"})),
        (
            "wait_for_message",
            json!({"agentId": "alice", "source": "inbox", "timeoutMs": "1"}),
        ),
        (
            "wait_for_message",
            json!({"agentId": "alice", "source": "inbox", "timeoutMs": -1}),
        ),
        (
            "wait_for_message",
            json!({"agentId": "alice", "source": "room", "room": "nowhere", "timeoutMs": 1}),
        ),
        ("post_status", json!({"agentId": "alice", "status": ""})),
        (
            "post_status",
            json!({"agentId": "alice", "status": "x".repeat(5_000)}),
        ),
        (
            "post_status",
            json!({"agentId": "alice", "status": "x", "detail": long}),
        ),
        (
            "set_room_topic",
            json!({"agentId": "alice", "room": "general", "topic": long}),
        ),
        (
            "set_room_motd",
            json!({"agentId": "alice", "room": "general", "motd": " "}),
        ),
        ("join", json!({"agentId": "alice", "role": "x".repeat(5_000)})),
        ("join", json!({"agentId": "alice", "attach": deep})),
        (
            "join",
            json!({"agentId": "alice", "attach": {"tmuxtarget": "w1:p1"}}),
        ),
        ("join", json!({"agentId": "alice", "force": "true"})),
        ("attach_agent", json!({"agentId": "alice", "debounceMs": 1e12})),
        (
            "report_transport",
            json!({"agentId": "alice", "transport": "\u{1b}[2J"}),
        ),
        (
            "report_transport",
            json!({"agentId": "alice", "transport": "herdr", "tmuxTarget": ""}),
        ),
        (
            "send_command",
            json!({"from": "alice", "to": "bob", "command": "/rm -rf"}),
        ),
        (
            "send_command",
            json!({"from": "alice", "to": "bob", "command": "/clear\n/quit"}),
        ),
        (
            "read_pane",
            json!({"agentId": "alice", "targetAgentId": "bob", "lines": 0}),
        ),
        (
            "retrieve_room_history",
            json!({"agentId": "alice", "hash": "../../tokens"}),
        ),
        ("prune", json!({"targets": ["everything"]})),
        ("prune", json!({"olderThanDays": -1})),
        ("prune", json!({"olderThanDays": "7"})),
        ("list_scopes", json!({"agentId": "alice"})),
        ("import_work", json!({"project": "../x"})),
        ("export_work", json!({"project": "none", "write": true})),
        ("doctor", json!({"fix": "please"})),
    ]
}

// spec: TOOL-044 TOOL-045 TOOL-116 PRU-006
#[test]
fn nonsense_is_refused_with_a_sentence_and_changes_no_file() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        bus.joined("bob");
        let before = bus.public();
        for (tool, arguments) in nonsense() {
            let got = alice.call(tool, arguments.clone());
            let shown: String = arguments.to_string().chars().take(120).collect();
            assert_eq!(got.body["ok"], false, "{tool} {shown}: {got:?}");
            let sentence = got.body["error"].as_str().unwrap();
            assert!(
                sentence.len() > 12 && sentence.len() < 600,
                "{tool} {shown}: {sentence}"
            );
            assert!(
                !sentence.chars().any(char::is_control),
                "{tool} {shown}: {sentence:?}"
            );
            assert!(bus.public() == before, "{tool} {shown} changed something");
        }
        alice.ok("heartbeat", json!({"agentId": "alice"}));
    });
}

// spec: TOOL-045
#[test]
fn five_megabytes_of_text_are_refused_by_either_door_and_end_no_session() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let (near, far) = (bus.stdio(), daemon.session(SHARED));
    near.ok("join", json!({"agentId": "near"}));
    far.ok("join", json!({"agentId": "far"}));
    let before = bus.public();
    let text = "x".repeat(5 * 1024 * 1024);
    let sentence = near.refused(
        "send_message",
        json!({"from": "near", "text": text}),
        "invalid_arguments",
    );
    assert!(sentence.contains("5242880"), "{sentence}");
    let params = json!({"name": "send_message", "arguments": {"from": "far", "text": text}});
    let answer = far.post(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}));
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.text.contains("nothing was done"), "{answer:?}");
    assert!(bus.public() == before);
    near.ok("heartbeat", json!({"agentId": "near"}));
    far.ok("heartbeat", json!({"agentId": "far"}));
}

// spec: TOOL-117
#[test]
fn lines_that_are_no_messages_end_no_session_on_standard_streams() {
    let bus = Bus::new();
    let alice = bus.stdio();
    alice.ok("join", json!({"agentId": "alice"}));
    let before = bus.public();
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    for line in [
        "",
        "not json",
        "{",
        "[]",
        "null",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":5000,\"method\":\"tools/list\"}",
        &deep,
        &format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":5001,\"method\":\"tools/call\",\"params\":{{\"name\":\"join\",\"arguments\":{{\"agentId\":\"zoe\",\"attach\":{deep}}}}}}}"
        ),
        "{\"jsonrpc\":\"2.0\",\"id\":5002,\"method\":\"no/such/method\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":123456}}",
    ] {
        alice.send(line);
    }
    alice.ok("ping", json!({}));
    assert!(bus.public() == before);
    let (status, lines, _) = alice.close();
    assert!(status.success());
    for line in lines {
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["jsonrpc"], "2.0");
    }
}

#[test]
fn bodies_that_are_no_messages_are_refused_over_http_and_end_no_session() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let alice = daemon.session(SHARED);
    alice.ok("join", json!({"agentId": "alice"}));
    let before = bus.public();
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{\"x\":\"{}\"}}}}",
        "x".repeat(6 * 1024 * 1024)
    );
    for body in [
        "",
        "not json",
        "{",
        "[]",
        "null",
        "{\"jsonrpc\":\"2.0\"}",
        &deep,
        &long,
    ] {
        for headers in [&[("mcp-session-id", alice.session.as_str())][..], &[]] {
            let answer = post(&daemon.url(), Some(SHARED), headers, body);
            let shown: String = body.chars().take(60).collect();
            assert!(
                (400..500).contains(&answer.status),
                "{shown}: {} {}",
                answer.status,
                answer.text
            );
        }
    }
    alice.ok("ping", json!({}));
    assert!(bus.public() == before);
    assert!(!daemon.err.text().contains("panicked"), "{}", daemon.err.text());
}
