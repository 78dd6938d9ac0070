//! The protocol: plain MCP on standard streams, the same tools by every door, three kinds of no. Never looks at what a tool is for.

use serde_json::{Value, json};

use crate::support::{Bus, Calls as _, Stdio, by_both_doors};

/// Every tool, what it must be given and what it may be given besides.
const TOOLS: [(&str, &str, &str); 31] = [
    ("join", "agentId", "project role attach readInbox token force"),
    ("register", "agentId", "project role token force"),
    ("unregister", "agentId", ""),
    ("status", "agentId", ""),
    ("read_pane", "agentId targetAgentId", "lines colors"),
    ("heartbeat", "agentId", ""),
    ("list_agents", "", ""),
    ("send_message", "from text", "to room kind"),
    (
        "send_command",
        "from command",
        "to room reminderMs reminderText waitForDelivery deliveryTimeoutMs",
    ),
    ("read_messages", "agentId source", "room limit peek sinceTs"),
    ("retrieve_room_history", "agentId hash", "query"),
    ("post_status", "agentId status", "detail"),
    ("wait_for_message", "agentId source", "room timeoutMs"),
    ("list_rooms", "", ""),
    ("join_room", "agentId room", ""),
    ("leave_room", "agentId room", ""),
    ("set_room_topic", "agentId room topic", ""),
    ("set_room_motd", "agentId room motd", ""),
    ("rename_agent", "agentId newAgentId", ""),
    (
        "attach_agent",
        "agentId",
        "tmuxTarget includeRoom allowlist debounceMs",
    ),
    ("detach_agent", "agentId", ""),
    ("report_transport", "agentId transport", "host tmuxTarget since"),
    ("clear_transport", "agentId", ""),
    (
        "prune",
        "",
        "olderThanDays decisionDays room targets archiveEmptyRooms removeOrphanInboxes dryRun",
    ),
    ("list_scopes", "", "path agentId"),
    ("import_work", "project", "repo"),
    ("list_work", "project", "kind priority includeDone repo"),
    ("export_work", "project", "write repo agentId"),
    ("doctor", "", "fix maxFileBytes"),
    ("capabilities", "", ""),
    ("ping", "", "to"),
];

fn sorted(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    names
}

fn words(text: &str) -> Vec<String> {
    sorted(text.split_whitespace().map(str::to_owned))
}

// spec: TOOL-115 PRU-001
#[test]
fn every_tool_of_the_text_is_listed_with_its_arguments_and_words_about_it() {
    by_both_doors(|bus| {
        let listed = bus.agent().begin("tools/list", json!({})).message();
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        assert_eq!(
            sorted(tools.iter().map(names)),
            sorted(TOOLS.iter().map(|(name, ..)| (*name).to_owned()))
        );
        for (name, must, may) in TOOLS {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            assert!(tool["description"].as_str().unwrap().len() > 20, "{tool}");
            let schema = &tool["inputSchema"];
            assert_eq!(schema["type"], "object", "{name}");
            let given = |value: &Value| match value {
                Value::Object(map) => sorted(map.keys().cloned()),
                Value::Array(list) => sorted(list.iter().map(|name| name.as_str().unwrap().to_owned())),
                _ => Vec::new(),
            };
            assert_eq!(given(&schema["required"]), words(must), "{name}");
            assert_eq!(
                given(&schema["properties"]),
                words(&format!("{must} {may}")),
                "{name}"
            );
        }
    });
}

// spec: NET-001 NET-003
#[test]
fn both_doors_list_the_very_same_tools() {
    let bus = Bus::new();
    let token = bus.mint("far");
    let daemon = bus.daemon();
    let list = |it: &dyn crate::support::Calls| {
        it.begin("tools/list", json!({})).message()["result"]["tools"].clone()
    };
    let near = list(&bus.stdio());
    assert_eq!(near, list(&daemon.session(&token)));
    assert_eq!(near, list(&daemon.now(&token)));
}

// spec: TOOL-114 TOOL-117 IDN-038
#[test]
fn standard_output_carries_the_protocol_and_nothing_else_in_every_revision_with_a_handshake() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let bus = Bus::new().with("MUSTER_LOG", "trace");
        // Something to complain of at the start, too.
        bus.write("tokens.json", "{}");
        let mut command = bus.command(&["bus", "serve"]);
        command.env("AGENT_COORD_ROOM_MAX", "nonsense");
        let session = Stdio::silent(command);
        let hello = session.hello(version);
        assert_eq!(hello["protocolVersion"], version);
        assert_eq!(hello["serverInfo"]["name"], "agent-coord");
        assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
        session.ok("join", json!({"agentId": "alice"}));
        session.ok(
            "send_message",
            json!({"from": "alice", "text": "two\nlines \u{1b}[31m"}),
        );
        session.refused("heartbeat", json!({"agentId": "bob"}), "identity_bound");
        let (status, lines, err) = session.close();
        assert!(status.success(), "{err}");
        for line in &lines {
            let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(message["jsonrpc"], "2.0");
        }
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(err.contains("AGENT_COORD_BOUND_AGENT is not set"), "{err}");
        assert!(err.contains("AGENT_COORD_ROOM_MAX"), "{err}");
    }
}

// spec: TOOL-114
#[test]
fn the_programs_older_name_serves_a_session_too() {
    let bus = Bus::new();
    let name = bus.path("agent-coord-mcp");
    std::os::unix::fs::symlink(crate::support::MUSTER, &name).unwrap();
    let mut command = std::process::Command::new(&name);
    command
        .env_clear()
        .env("AGENT_COORD_DIR", bus.file(""))
        .env("AGENT_COORD_TRANSPORT", "tmux-push-remote");
    let session = Stdio::start(command);
    session.ok("join", json!({"agentId": "alice"}));
    assert!(bus.json("agents.json").get("alice").is_some());
}

// spec: TOOL-116 TOOL-118 TOOL-119 TOOL-120
#[test]
fn a_refusal_is_an_answer_a_failure_is_marked_and_an_unknown_tool_is_the_protocols_error() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        // Refusals: each says what to do.
        for (tool, arguments, code, words) in [
            (
                "leave_room",
                json!({"agentId": "alice", "room": "general"}),
                "refused",
                "general",
            ),
            (
                "leave_room",
                json!({"agentId": "alice", "room": "nowhere"}),
                "no_room",
                "join_room makes it",
            ),
            (
                "heartbeat",
                json!({"agentId": "bob"}),
                "identity_bound",
                "identity bound to 'alice'",
            ),
            (
                "retrieve_room_history",
                json!({"agentId": "alice", "hash": "0123456789ab"}),
                "no_digest",
                "no digest",
            ),
            (
                "report_transport",
                json!({"agentId": "alice", "transport": "heardr"}),
                "refused",
                "herdr and tmux-push-remote",
            ),
        ] {
            let got = alice.call(tool, arguments);
            assert!(!got.failed, "{got:?}");
            assert_eq!(
                (&got.body["ok"], &got.error),
                (&json!(false), &Value::Null),
                "{got:?}"
            );
            assert!(
                !got.body["code"].as_str().unwrap().is_empty(),
                "{got:?} should be {code}"
            );
            assert!(got.body["error"].as_str().unwrap().contains(words), "{got:?}");
        }
        // Arguments that are not the tool's say which one it is.
        for (tool, arguments, words) in [
            ("join", json!({}), "agentId"),
            ("join", json!({"agentId": "alice", "agentid": "alice"}), "agentid"),
            ("heartbeat", json!({"agentId": null}), "agentId"),
            ("heartbeat", json!({"agentId": 5}), "agentId"),
            (
                "read_messages",
                json!({"agentId": "alice", "source": "inbox", "limit": "5"}),
                "limit",
            ),
            (
                "read_messages",
                json!({"agentId": "alice", "source": "mail"}),
                "inbox",
            ),
        ] {
            let sentence = alice.call(tool, arguments.clone()).broke("invalid_arguments");
            assert!(sentence.contains(words), "{arguments}: {sentence}");
            assert!(sentence.contains("nothing was done"), "{sentence}");
        }
        // Something broke: marked, with its own code.
        let agents = bus.text("agents.json");
        bus.write("agents.json", "{\"alice\": ");
        alice
            .call("heartbeat", json!({"agentId": "alice"}))
            .broke("damaged");
        assert_eq!(
            bus.text("agents.json"),
            "{\"alice\": ",
            "nothing is written over what cannot be read"
        );
        bus.write("agents.json", &agents);
        alice.ok("heartbeat", json!({"agentId": "alice"}));
        // No such tool.
        let got = alice.call("no_such_tool", json!({}));
        assert_eq!(got.error["code"], -32602, "{got:?}");
    });
}

// spec: TOOL-123 TOOL-124 TOOL-125
#[test]
fn a_session_needs_no_network_starts_no_process_and_nothing_wakes_an_idle_agent() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    let said = bus.run(&["init"]);
    assert!(said.status.success(), "{said:?}");
    // The command and its arguments, and nothing else in the environment.
    let mut command = bus.command(&["bus", "serve", "--dir", bus.file("").to_str().unwrap()]);
    command.env_clear();
    let bob = Stdio::start(command);
    bob.ok("join", json!({"agentId": "bob"}));
    let alice = bus.joined("alice");
    let before = bob.lines.lock().unwrap().len();
    alice.ok(
        "send_message",
        json!({"from": "alice", "to": "bob", "text": "wake up"}),
    );
    alice.ok("send_message", json!({"from": "alice", "text": "everybody"}));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(bob.lines.lock().unwrap().len(), before, "nothing was pushed");
    let status = alice.ok("status", json!({"agentId": "bob"}));
    assert_eq!(
        (&status["inboxUnread"], &status["attached"]),
        (&json!(1), &json!(false))
    );
    for entry in std::fs::read_dir(format!("/proc/{}/fd", bob.pid())).unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        // The two ends of standard input and output may be sockets; a connection elsewhere is listed by the kernel.
        if let Some(inode) = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'))
        {
            for table in ["tcp", "tcp6", "udp", "udp6"] {
                let listed =
                    std::fs::read_to_string(format!("/proc/{}/net/{table}", bob.pid())).unwrap_or_default();
                assert!(
                    !listed.split_whitespace().any(|word| word == inode),
                    "{table} {inode}"
                );
            }
        }
    }
    for task in std::fs::read_dir(format!("/proc/{}/task", bob.pid())).unwrap() {
        let children = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        assert_eq!(children.trim(), "", "the bus started a process");
    }
}

#[test]
fn init_shares_a_directory_that_another_program_has_written_and_keeps_any_other_to_itself() {
    for (traces, mode) in [(false, "native"), (true, "shared")] {
        let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
        if traces {
            bus.write("agents.json", "{}");
            bus.write("room.jsonl", "");
        }
        let said = bus.run(&["init", "--transport", "herdr"]);
        assert!(said.status.success() && said.out.contains(mode), "{said:?}");
        let config = bus.json("config.json");
        assert_eq!(
            (&config["mode"], &config["transport"]),
            (&json!(mode), &json!("herdr"))
        );
        // A later choice keeps what stands there, and an explicit one wins.
        let said = bus.run(&["init", "--mode", "native"]);
        assert!(said.status.success(), "{said:?}");
        let config = bus.json("config.json");
        assert_eq!(
            (&config["mode"], &config["transport"]),
            (&json!("native"), &json!("herdr"))
        );
    }
}
