//! The files: where they stand, who may read them, what any other program finds in them. Never the private folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Bus, Calls as _, SHARED, Stdio, by_both_doors, texts};

fn serve_with(bus: &Bus, env: &[(&str, &Path)]) -> Stdio {
    let mut command = bus.command(&["bus", "serve"]);
    command
        .env_remove("AGENT_COORD_DIR")
        .env_remove("CLAUDE_COORD_DIR")
        .envs(env.iter().copied());
    Stdio::start(command)
}

// spec: STO-001 STO-002 STO-003 STO-004 STO-005
#[test]
fn the_directory_is_the_named_one_else_the_older_name_else_in_the_home_folder() {
    let bus = Bus::new();
    let (one, two, home) = (
        bus.path("deep/er/one"),
        bus.path("two"),
        bus.path("home/agent-coord"),
    );
    let all = [&one, &two, &home];
    let check = |env: &[(&str, &Path)], wanted: &Path| {
        for dir in all {
            let _ = std::fs::remove_dir_all(dir);
        }
        let session = serve_with(&bus, env);
        session.ok("join", json!({"agentId": "alice"}));
        session.ok("send_message", json!({"from": "alice", "text": "x"}));
        for dir in all {
            assert_eq!(
                dir.join("agents.json").exists(),
                dir == wanted,
                "{dir:?} for {env:?}"
            );
            assert!(dir == wanted || !dir.exists(), "{dir:?} for {env:?}");
        }
        for name in ["room.jsonl", "inbox", "cursors", "rooms"] {
            assert!(wanted.join(name).exists(), "{name}");
        }
    };
    check(&[], &home);
    check(&[("AGENT_COORD_DIR", &one)], &one);
    check(&[("CLAUDE_COORD_DIR", &two)], &two);
    check(&[("AGENT_COORD_DIR", &one), ("CLAUDE_COORD_DIR", &two)], &one);
    check(
        &[("AGENT_COORD_DIR", Path::new("")), ("CLAUDE_COORD_DIR", &two)],
        &two,
    );
}

// spec: STO-006
#[test]
fn two_directories_are_two_groups() {
    let (one, two) = (Bus::new(), Bus::new());
    let (alice, bob) = (one.joined("alice"), two.joined("bob"));
    alice.ok("send_message", json!({"from": "alice", "text": "hello"}));
    alice.ok(
        "send_message",
        json!({"from": "alice", "to": "bob", "text": "hello"}),
    );
    let listed = bob.ok("list_agents", json!({}))["agents"].clone();
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["agentId"]),
        (1, &json!("bob"))
    );
    assert_eq!(
        bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}))["returned"],
        0
    );
    assert_eq!(
        bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}))["returned"],
        0
    );
}

// spec: STO-014
#[test]
fn a_receipt_that_another_program_left_stands_where_it_was() {
    let bus = Bus::new();
    let row = "{\"id\":\"m-1\",\"agentId\":\"bob\",\"ts\":1,\"from\":\"alice\",\"control\":\"/clear\",\"more\":true}\n";
    bus.write("receipts/bob.jsonl", row);
    let bob = bus.joined("bob");
    bob.ok("list_agents", json!({}));
    assert_eq!(bus.text("receipts/bob.jsonl"), row);
}

// spec: STO-016
#[test]
fn tokens_config_and_scopes_are_read_at_the_top_of_the_directory() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    bus.write("config.json", "{\"transport\": \"herdr\", \"mode\": \"native\"}");
    bus.write("scopes.json", "{\"docs/QUEUE.md\": \"lead\"}");
    let token = bus.mint("bob");
    let alice = bus.stdio();
    let said = alice.ok("capabilities", json!({}));
    assert_eq!(
        (&said["transport"]["configured"], &said["mode"]),
        (&json!("herdr"), &json!("native"))
    );
    alice.ok(
        "join",
        json!({"agentId": "bob", "token": token, "role": "tester"}),
    );
    let scope = alice.ok("list_scopes", json!({"path": "docs/QUEUE.md", "agentId": "bob"}));
    assert!(scope.to_string().contains("lead"), "{scope}");
    assert!(
        alice.ok("list_scopes", json!({}))["documents"]
            .to_string()
            .contains("docs/QUEUE.md")
    );
}

// spec: STO-018 STO-025
#[test]
fn any_text_comes_back_as_it_was_sent_and_is_one_line_for_every_other_program() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let hostile = [
            "two\nlines\r\nand a \t tab",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2028}\u{2029} \u{202e}gnirts",
            "\u{0}\u{1}\u{1b}[31mred\u{1b}[0m \u{7f}",
            "quotes \" and \\ and \\n and \\u0000",
            "{\"id\":\"x\"}\n{\"id\":\"y\"}",
            " leading and trailing ",
            "\u{feff}\u{10ffff}\u{e000}e\u{301}",
        ];
        for text in hostile {
            alice.ok(
                "send_message",
                json!({"from": "alice", "to": "bob", "text": text}),
            );
            alice.ok("send_message", json!({"from": "alice", "text": text}));
        }
        let inbox = texts(&bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"})));
        assert_eq!(inbox, hostile);
        assert_eq!(
            texts(&bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}))),
            hostile
        );
        for name in ["inbox/bob.jsonl", "room.jsonl"] {
            let bytes = std::fs::read(bus.file(name)).unwrap();
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines, hostile.len(), "{name}");
            // What the text tells people to do with jq, by another reader of JSON.
            let script = "import json,sys\nfor line in open(sys.argv[1], encoding='utf-8', newline='\\n'):\n    row = json.loads(line)\n    print(json.dumps([row['ts'] / 1000 > 1.6e9, row['from'], row['text']]))";
            let done = Command::new("python3")
                .args(["-I", "-S", "-c", script, bus.file(name).to_str().unwrap()])
                .output()
                .unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let rows: Vec<serde_json::Value> = String::from_utf8(done.stdout)
                .unwrap()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let wanted: Vec<serde_json::Value> =
                hostile.iter().map(|text| json!([true, "alice", text])).collect();
            assert_eq!(rows, wanted);
        }
    });
}

// spec: STO-021
#[test]
fn a_directory_that_was_removed_and_made_again_works() {
    let bus = Bus::new();
    bus.joined("alice")
        .ok("send_message", json!({"from": "alice", "text": "old"}));
    std::fs::remove_dir_all(bus.path("bus")).unwrap();
    for folder in ["inbox", "cursors"] {
        std::fs::create_dir_all(bus.file(folder)).unwrap();
    }
    let alice = bus.stdio();
    let joined = alice.ok("join", json!({"agentId": "alice"}));
    assert_eq!(joined["defaultRoom"]["members"], json!(["alice"]));
    assert_eq!(
        alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}))["totalNew"],
        0
    );
    alice.ok("send_message", json!({"from": "alice", "text": "new"}));
    assert_eq!(bus.lines("room.jsonl").len(), 1);
}

// spec: STO-021
#[test]
fn a_reset_under_a_running_session_is_survived() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "text": "old"}));
        std::fs::remove_dir_all(bus.path("bus")).unwrap();
        for folder in ["inbox", "cursors"] {
            std::fs::create_dir_all(bus.file(folder)).unwrap();
        }
        alice.ok("join", json!({"agentId": "alice"}));
        alice.ok("send_message", json!({"from": "alice", "text": "new"}));
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "seo", "text": "new"}),
        );
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "new"}),
        );
        assert_eq!(bus.lines("room.jsonl").len(), 1);
    });
}

// spec: STO-022
#[test]
fn a_directory_of_the_earlier_program_opens_as_it_is() {
    let bus = Bus::new();
    let rows: String = (0..3)
        .map(|n| {
            format!(
                "{{\"id\":\"old-{n}\",\"ts\":{n},\"from\":\"zoe\",\"room\":\"#seo\",\"text\":\"old {n}\"}}\n"
            )
        })
        .collect();
    bus.write("room.jsonl", &rows);
    let alice = bus.stdio();
    alice.ok("join", json!({"agentId": "alice"}));
    let read = alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}));
    assert_eq!(texts(&read), ["old 0", "old 1", "old 2"]);
    assert!(bus.text("room.jsonl").starts_with(&rows));
    assert_eq!(
        alice.ok("capabilities", json!({}))["mode"],
        "shared",
        "the earlier program may still run"
    );
}

// spec: STO-030
#[test]
fn what_the_bus_makes_is_its_users_alone() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "to": "bob", "text": "x"}));
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "seo", "text": "x"}),
        );
        alice.ok("post_status", json!({"agentId": "alice", "status": "x"}));
        alice.ok(
            "report_transport",
            json!({"agentId": "alice", "transport": "tmux-push-remote"}),
        );
        alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}));
        let mut folders = vec![bus.path("bus")];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = std::fs::symlink_metadata(&path).unwrap();
                assert_eq!(meta.permissions().mode() & 0o077, 0, "{path:?}");
                seen += 1;
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
        assert!(seen > 15);
        let own = std::fs::metadata(bus.path("bus")).unwrap().permissions().mode() & 0o777;
        assert_eq!(own, 0o700);
    });
}

// spec: NET-020
#[test]
fn a_daemon_and_processes_of_their_own_write_one_directory_at_once_and_lose_nothing() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let reader = bus.joined("reader");
    let far: Vec<_> = (0..3).map(|_| daemon.session(SHARED)).collect();
    let near: Vec<_> = (0..3).map(|_| bus.stdio()).collect();
    let agents: Vec<&dyn crate::support::Calls> = far
        .iter()
        .map(|it| it as &dyn crate::support::Calls)
        .chain(near.iter().map(|it| it as &dyn crate::support::Calls))
        .collect();
    std::thread::scope(|scope| {
        for (number, agent) in agents.iter().enumerate() {
            scope.spawn(move || {
                let id = format!("agent-{number}");
                agent.ok("join", json!({"agentId": id}));
                for n in 0..50 {
                    agent.ok(
                        "send_message",
                        json!({"from": id, "to": "reader", "text": format!("{number}/{n}")}),
                    );
                    agent.ok(
                        "send_message",
                        json!({"from": id, "text": format!("{number}/{n}")}),
                    );
                }
            });
        }
    });
    let mut wanted: Vec<String> = (0..6)
        .flat_map(|a| (0..50).map(move |n| format!("{a}/{n}")))
        .collect();
    wanted.sort();
    let mut inbox = texts(&reader.ok("read_messages", json!({"agentId": "reader", "source": "inbox"})));
    inbox.sort();
    assert_eq!(inbox, wanted);
    let mut room: Vec<String> = bus
        .lines("room.jsonl")
        .iter()
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect();
    room.sort();
    assert_eq!(room, wanted);
}
