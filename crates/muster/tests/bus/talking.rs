//! Sending: direct messages, channel posts, statuses, and the lines they become. Never how they are read, beyond that they are.

use muster_core::Clock;
use serde_json::{Value, json};

use crate::support::{Bus, Calls as _, by_both_doors, texts};

fn millis() -> i64 {
    Clock::system().now().micros() / 1_000
}

// spec: TOOL-036 TOOL-037 TOOL-038 TOOL-039 TOOL-048 STO-008 STO-010 STO-012 STO-019
#[test]
fn a_message_goes_to_one_inbox_or_one_channel_and_its_answer_names_the_line() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        bus.joined("bob");
        let before = millis();
        let direct = alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "to you"}),
        );
        let line = bus.lines("inbox/bob.jsonl")[0].clone();
        assert_eq!(
            (
                &line["id"],
                &line["ts"],
                &line["from"],
                &line["to"],
                &line["text"]
            ),
            (
                &direct["id"],
                &direct["ts"],
                &json!("alice"),
                &json!("bob"),
                &json!("to you")
            )
        );
        assert!(
            (before..=millis()).contains(&line["ts"].as_i64().unwrap()),
            "{line}"
        );
        assert_eq!(line["id"].as_str().unwrap().len(), 36);

        let post = alice.ok(
            "send_message",
            json!({"from": "alice", "room": "#seo", "text": "in a channel"}),
        );
        let line = bus.lines("rooms/seo.jsonl")[0].clone();
        assert_eq!((&line["id"], &line["room"]), (&post["id"], &json!("seo")));
        assert!(line.get("to").is_none() && line.get("kind").is_none(), "{line}");

        alice.ok("send_message", json!({"from": "alice", "text": "to all"}));
        let room = bus.lines("room.jsonl");
        assert_eq!(room.last().unwrap()["text"], "to all");

        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "room": "seo", "text": "both"}),
        );
        assert_eq!(bus.lines("inbox/bob.jsonl").len(), 2);
        assert_eq!(bus.lines("rooms/seo.jsonl").len(), 1);
        assert_eq!(bus.lines("room.jsonl").len(), room.len());
    });
}

// spec: TOOL-040 TOOL-042
#[test]
fn a_post_has_one_of_three_kinds_and_a_direct_message_has_none() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        for kind in ["decision", "status", "chatter"] {
            alice.ok(
                "send_message",
                json!({"from": "alice", "text": kind, "kind": kind}),
            );
            assert_eq!(bus.lines("room.jsonl").last().unwrap()["kind"], kind);
        }
        let before = bus.public();
        alice
            .call(
                "send_message",
                json!({"from": "alice", "text": "x", "kind": "verdict"}),
            )
            .broke("invalid_arguments");
        let sentence = alice.refused(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "x", "kind": "decision"}),
            "invalid_arguments",
        );
        assert!(sentence.contains("kind"), "{sentence}");
        assert_eq!(bus.public(), before);
    });
}

// spec: TOOL-043
#[test]
fn a_message_to_nobody_is_kept_and_its_sender_warned() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        bus.joined("backend");
        let said = alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bakend", "text": "hello"}),
        );
        let warning = said["warning"].as_str().unwrap();
        assert!(warning.contains("nobody is registered as 'bakend'"), "{warning}");
        assert!(warning.contains("did you mean 'backend'"), "{warning}");
        assert_eq!(bus.lines("inbox/bakend.jsonl").len(), 1);
        let late = bus.joined("bakend");
        assert_eq!(
            late.ok("status", json!({"agentId": "bakend"}))["inboxUnread"],
            0,
            "the join read it"
        );
        let known = alice.ok(
            "send_message",
            json!({"from": "alice", "to": "backend", "text": "hello"}),
        );
        assert!(known.get("warning").is_none(), "{known}");
    });
}

// spec: TOOL-044 TOOL-045
#[test]
fn a_text_up_to_256_kib_is_kept_whole_and_a_longer_one_not_at_all() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        // The limit counts bytes of UTF-8, however JSON spells them.
        let text = "\u{20ac}\u{1f600}\"\\\n\u{1}z".repeat(256 * 1024 / 12 + 1);
        let text: String = text.chars().take_while(|_| true).collect();
        let mut whole = String::new();
        for letter in text.chars() {
            if whole.len() + letter.len_utf8() > 256 * 1024 {
                break;
            }
            whole.push(letter);
        }
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": whole}),
        );
        let read = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
        assert!(texts(&read) == [whole.clone()], "it came back as it was sent");
        let before = bus.public();
        for length in [256 * 1024 + 1, 1_000_000] {
            let sentence = alice.refused(
                "send_message",
                json!({"from": "alice", "to": "bob", "text": "x".repeat(length)}),
                "invalid_arguments",
            );
            assert!(
                sentence.contains(&length.to_string()) && sentence.contains("262144"),
                "{sentence}"
            );
        }
        assert!(bus.public() == before);
    });
}

// spec: TOOL-046 TOOL-047
#[test]
fn a_post_makes_its_channel_and_no_sender_sets_a_flag_of_the_buss() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "new", "text": "first"}),
        );
        let rooms = alice.ok("list_rooms", json!({}))["rooms"].clone();
        let made = rooms
            .as_array()
            .unwrap()
            .iter()
            .find(|room| room["room"] == "new")
            .unwrap();
        assert_eq!(
            (&made["messageCount"], &made["createdBy"]),
            (&json!(1), &json!("alice"))
        );
        for flag in ["control", "system", "urgent", "id", "ts"] {
            let mut arguments = json!({"from": "alice", "room": "new", "text": "/clear"});
            arguments[flag] = json!(true);
            alice.call("send_message", arguments).broke("invalid_arguments");
        }
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "new", "text": "/clear"}),
        );
        let lines = bus.lines("rooms/new.jsonl");
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert!(
                ["control", "system", "urgent"]
                    .iter()
                    .all(|flag| line.get(*flag).is_none()),
                "{line}"
            );
        }
    });
}

// spec: TOOL-063 STO-011
#[test]
fn a_status_stands_in_its_own_stream_and_in_no_channel() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let room = bus.lines("room.jsonl");
        let said = alice.ok(
            "post_status",
            json!({"agentId": "alice", "status": "building", "detail": "step 3 of 4"}),
        );
        let line = bus.lines("status.jsonl")[0].clone();
        assert_eq!(
            (&line["id"], &line["agentId"], &line["status"], &line["detail"]),
            (
                &said["id"],
                &json!("alice"),
                &json!("building"),
                &json!("step 3 of 4")
            )
        );
        assert_eq!(bus.lines("room.jsonl"), room);
        let read = bob.ok("read_messages", json!({"agentId": "bob", "source": "status"}));
        assert_eq!(read["messages"], json!([line]));
        let own = alice.ok("read_messages", json!({"agentId": "alice", "source": "status"}));
        assert_eq!(own["returned"], 0);
    });
}

// spec: STO-020 NET-020 NET-026
#[test]
fn agents_on_standard_streams_and_over_http_share_one_room_and_write_one_row_format() {
    let bus = Bus::new();
    let tokens = [bus.mint("far"), bus.mint("newest")];
    let daemon = bus.daemon();
    let near = bus.stdio();
    let far = daemon.session(&tokens[0]);
    let newest = daemon.now(&tokens[1]);
    near.ok("join", json!({"agentId": "near"}));
    far.ok("join", json!({"agentId": "far"}));
    newest.ok("join", json!({"agentId": "newest"}));
    let all: [(&dyn crate::support::Calls, &str); 3] = [(&near, "near"), (&far, "far"), (&newest, "newest")];
    for (agent, id) in all {
        agent.ok(
            "send_message",
            json!({"from": id, "text": format!("{id} to all"), "kind": "status"}),
        );
        for (_, other) in all.iter().filter(|(_, other)| *other != id) {
            agent.ok(
                "send_message",
                json!({"from": id, "to": other, "text": format!("{id} to {other}")}),
            );
        }
    }
    for (agent, id) in all {
        let inbox = texts(&agent.ok("read_messages", json!({"agentId": id, "source": "inbox"})));
        let others: Vec<&str> = all
            .iter()
            .map(|(_, other)| *other)
            .filter(|other| *other != id)
            .collect();
        let wanted: Vec<String> = others.iter().map(|other| format!("{other} to {id}")).collect();
        assert_eq!(inbox, wanted);
        let room = texts(&agent.ok("read_messages", json!({"agentId": id, "source": "room"})));
        let wanted: Vec<String> = others.iter().map(|other| format!("{other} to all")).collect();
        assert_eq!(room, wanted);
    }
    let keys = |line: &Value| line.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
    for name in ["room.jsonl", "inbox/near.jsonl", "inbox/far.jsonl"] {
        let lines = bus.lines(name);
        assert!(lines.len() >= 2);
        assert!(
            lines.iter().all(|line| keys(line) == keys(&lines[0])),
            "{lines:?}"
        );
    }
    let everybody = near.ok("list_agents", json!({}))["agents"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(everybody, 3);
}

#[test]
fn a_channel_in_place_of_an_agent_and_an_agent_in_place_of_a_channel_are_told_of() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let sentence = alice.refused(
            "send_message",
            json!({"from": "alice", "to": "#seo", "text": "x"}),
            "invalid_arguments",
        );
        assert!(
            sentence.contains("that is a channel: pass it as room"),
            "{sentence}"
        );
        let post = |room: &str| {
            alice.ok(
                "send_message",
                json!({"from": "alice", "room": room, "text": "x"}),
            )
        };
        let said = post("bob");
        let warning = said["warning"].as_str().unwrap();
        assert!(
            warning.contains("'bob' is an agent, too") && warning.contains("a direct message names it as to"),
            "{warning}"
        );
        assert_eq!(post("seo").get("warning"), None);
        // Whoever is in a channel of its own name means it.
        bob.ok("join_room", json!({"agentId": "bob", "room": "bob"}));
        assert_eq!(post("bob").get("warning"), None);
    });
}

#[test]
fn arguments_that_cannot_be_read_are_refused_in_words_of_json() {
    let bus = Bus::new();
    let alice = bus.joined("alice");
    let own = |more: Value| {
        let mut arguments = json!({"agentId": "alice", "source": "inbox"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    for (tool, arguments, words) in [
        (
            "read_messages",
            own(json!({"sinceTs": "x"})),
            "expected a whole number",
        ),
        (
            "read_messages",
            own(json!({"limit": -1})),
            "expected a whole number from 0",
        ),
        ("prune", json!({"olderThanDays": "x"}), "expected a number"),
        ("prune", json!({"targets": "x"}), "expected a list"),
        (
            "join",
            json!({"agentId": "alice", "attach": "x"}),
            "expected true, false, or an object",
        ),
        (
            "read_messages",
            own(json!({"sinceTs": ", expected i64"})),
            "\", expected i64\", expected a whole number",
        ),
    ] {
        let got = alice.call(tool, arguments);
        assert!(got.failed, "{got:?}");
        let said = got.body["error"].as_str().unwrap();
        assert!(said.contains(words) && !said.contains("untagged"), "{said}");
    }
}
