//! `muster chat` as the program it is: its arguments, its directory, its other name, and agents who hear it by every door.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::support::{Bus, Calls as _, MUSTER, SHARED, Said, by_both_doors};

fn chat(bus: &Bus, arguments: &[&str], script: &str) -> Said {
    Said::fed(bus.command(&[&["chat"], arguments].concat()), script)
}

fn texts(lines: &[serde_json::Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["text"].as_str()).collect()
}

// spec: CHAT-003
#[test]
fn the_directory_is_the_named_one_else_the_environments_else_the_usual_one() {
    let bus = Bus::new();
    let other = bus.path("other");
    let said = chat(
        &bus,
        &["--id", "david", "--dir", other.to_str().unwrap()],
        "named\n",
    );
    assert!(said.status.success(), "{said:?}");
    assert!(
        std::fs::read_to_string(other.join("room.jsonl"))
            .unwrap()
            .contains("\"named\"")
    );
    assert!(bus.lines("room.jsonl").is_empty());
    assert!(chat(&bus, &["--id", "david"], "environment\n").status.success());
    assert_eq!(texts(&bus.lines("room.jsonl")), ["environment"]);
    let bus = bus.with("AGENT_COORD_DIR", "");
    assert!(chat(&bus, &["--id", "david"], "usual\n").status.success());
    let usual = std::fs::read_to_string(bus.path("home").join("agent-coord/room.jsonl")).unwrap();
    assert!(usual.contains("\"usual\""), "{usual}");
}

// spec: CHAT-001 NODE-022
#[test]
fn its_other_name_takes_the_same_words() {
    let bus = Bus::new();
    let link = bus.path("coord-chat");
    std::os::unix::fs::symlink(MUSTER, &link).unwrap();
    let called = |arguments: &[&str], script: &str| {
        let mut command = Command::new(&link);
        command
            .args(arguments)
            .env_clear()
            .env("AGENT_COORD_DIR", bus.path("bus"))
            .env("USER", "maria");
        Said::fed(command, script)
    };
    let said = called(&[], "hello\n");
    assert!(
        said.status.success() && said.out.starts_with("maria #general (0 peers)>"),
        "{said:?}"
    );
    assert_eq!(bus.lines("room.jsonl")[0]["from"], "maria");
    let said = called(&["--help"], "");
    assert!(
        said.status.success() && said.out.contains("--plain") && said.out.contains("--doctor"),
        "{said:?}"
    );
    assert_eq!(called(&["--fix"], "").status.code(), Some(2));
}

// spec: TOOL-122 CHAT-004 CHAT-012
#[test]
fn people_and_agents_hear_each_other_in_one_room() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "text": "hello, david"}));
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "david", "text": "a word"}),
        );
        let said = chat(bus, &["--id", "david"], "hello, alice\n/dm alice yours\n/list\n");
        assert!(said.status.success(), "{said:?}");
        assert!(said.out.contains("! <alice> hello, david"), "{said:?}");
        assert!(said.out.contains("[dm] <alice> a word"), "{said:?}");
        let room = alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}));
        assert!(room["messages"].to_string().contains("hello, alice"), "{room}");
        let inbox = alice.ok("read_messages", json!({"agentId": "alice", "source": "inbox"}));
        assert_eq!(inbox["messages"][0]["text"], "yours", "{inbox}");
        let agents = alice.ok("list_agents", json!({}));
        assert_eq!(
            agents["agents"].as_array().unwrap().len(),
            1,
            "the person has left: {agents}"
        );
    });
}

#[test]
fn a_person_is_heard_over_http_while_they_sit_there() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let far = daemon.session(SHARED);
    far.ok("join", json!({"agentId": "far"}));
    let mut child = bus
        .command(&["chat", "--id", "david"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "is anybody there?").unwrap();
    let heard = far.ok(
        "wait_for_message",
        json!({"agentId": "far", "source": "room", "timeoutMs": 20_000}),
    );
    assert_eq!(heard["messages"][0]["from"], "david", "{heard}");
    let agents = far.ok("list_agents", json!({}));
    assert!(agents.to_string().contains("\"human\""), "{agents}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

// spec: CHAT-025 CHAT-030 CHAT-031
#[test]
fn the_doctor_reports_the_same_by_every_way() {
    let bus = Bus::new();
    let alice = bus.joined("alice");
    alice.ok(
        "send_message",
        json!({"from": "alice", "to": "ghost", "text": "waits"}),
    );
    for (content, code) in [("", 0), ("not json\n", 1)] {
        bus.write("room.jsonl", content);
        let by_chat = bus.run(&["chat", "--doctor"]);
        let by_bus = bus.run(&["bus", "doctor"]);
        assert_eq!(
            (&by_chat.out, by_chat.status.code()),
            (&by_bus.out, Some(code)),
            "{by_chat:?}"
        );
        assert_eq!(by_bus.status.code(), Some(code));
        let as_json: serde_json::Value =
            serde_json::from_str(&bus.run(&["chat", "--doctor", "--json"]).out).unwrap();
        let by_tool = alice.ok("doctor", json!({}));
        assert_eq!(as_json["findings"], by_tool["findings"]);
        for finding in by_tool["findings"].as_array().unwrap() {
            assert!(
                by_chat.out.contains(finding["message"].as_str().unwrap()),
                "{finding}"
            );
        }
    }
    assert_eq!(bus.run(&["chat", "--doctor", "--fix"]).status.code(), Some(0));
    assert_eq!(bus.run(&["chat", "--doctor"]).status.code(), Some(0));
}

// spec: IDN-022
#[test]
fn an_id_that_an_agent_acts_as_is_refused() {
    by_both_doors(|bus| {
        let _david = bus.joined("david");
        let said = chat(bus, &["--id", "david"], "not me\n");
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(said.err.contains("'david' is live"), "{said:?}");
        assert!(bus.lines("room.jsonl").is_empty());
    });
}
