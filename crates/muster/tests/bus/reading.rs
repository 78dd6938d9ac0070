//! Reading: cursors, limits, digests and what stands behind them. Never a wait.

use serde_json::{Value, json};

use crate::support::{Bus, Calls, by_both_doors, texts};

fn post(agent: &dyn Calls, from: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        agent.ok(
            "send_message",
            json!({"from": from, "text": format!("message {number}")}),
        );
    }
}

fn numbered(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("message {number}")).collect()
}

// spec: TOOL-049 TOOL-050 STO-013 STO-031 STO-032 STO-033
#[test]
fn each_source_and_each_channel_has_a_cursor_of_its_own_that_a_peek_leaves() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        for (target, text) in [
            (json!({"to": "bob"}), "direct"),
            (json!({}), "general"),
            (json!({"room": "a"}), "in a"),
            (json!({"room": "b"}), "in b"),
        ] {
            let mut arguments = target;
            arguments["from"] = json!("alice");
            arguments["text"] = json!(text);
            alice.ok("send_message", arguments);
        }
        alice.ok("post_status", json!({"agentId": "alice", "status": "busy"}));
        let read = |more: Value| {
            let mut arguments = more;
            arguments["agentId"] = json!("bob");
            bob.ok("read_messages", arguments)
        };
        for _ in 0..2 {
            let peeked = read(json!({"source": "room", "room": "a", "peek": true}));
            assert_eq!(
                (texts(&peeked), &peeked["totalNew"]),
                (vec!["in a".to_owned()], &json!(1))
            );
        }
        assert_eq!(texts(&read(json!({"source": "room", "room": "#A"}))), ["in a"]);
        assert_eq!(read(json!({"source": "room", "room": "a"}))["returned"], 0);
        assert_eq!(
            texts(&read(json!({"source": "room", "room": "b", "peek": true}))),
            ["in b"]
        );
        assert_eq!(texts(&read(json!({"source": "room"}))), ["general"]);
        assert_eq!(texts(&read(json!({"source": "inbox", "peek": true}))), ["direct"]);
        assert_eq!(read(json!({"source": "status"}))["returned"], 1);
        assert_eq!(texts(&read(json!({"source": "inbox"}))), ["direct"]);
        assert_eq!(texts(&read(json!({"source": "room", "room": "b"}))), ["in b"]);
        let cursor = bus.json("cursors/bob.json");
        assert_eq!(
            (
                &cursor["inboxOffset"],
                &cursor["statusOffset"],
                &cursor["roomOffset"],
                &cursor["roomOffsets"]
            ),
            (&json!(1), &json!(1), &json!(1), &json!({"a": 1, "b": 1}))
        );
        bob.refused(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "room": "nowhere"}),
            "no_room",
        );
        bob.call("read_messages", json!({"agentId": "bob", "source": "post"}))
            .broke("invalid_arguments");
    });
}

// spec: TOOL-041 TOOL-051 TOOL-052 TOOL-053 TOOL-057 TOOL-058 TOOL-059 TOOL-062
#[test]
fn a_long_absence_is_fifty_messages_and_a_digest_that_its_reader_alone_can_expand() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let carol = bus.joined("carol");
        post(&*alice, "alice", 0..10);
        let verdict = "GO: ship it\nwith the \"blue\" header";
        alice.ok(
            "send_message",
            json!({"from": "alice", "text": verdict, "kind": "decision"}),
        );
        carol.ok(
            "send_message",
            json!({"from": "carol", "text": "FOO and more foo"}),
        );
        post(&*alice, "alice", 12..80);
        let read = bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}));
        assert_eq!(
            (&read["returned"], &read["totalNew"], &read["remaining"]),
            (&json!(50), &json!(80), &json!(0))
        );
        assert_eq!(texts(&read), numbered(30..80));
        let history = &read["history"];
        assert_eq!(history["older"], 30);
        let digest = history["digest"].as_str().unwrap();
        assert!(digest.contains(verdict), "a decision is quoted whole: {digest}");
        assert!(
            digest.contains("alice (29)") && digest.contains("carol (1)"),
            "{digest}"
        );
        // What has no kind is chatter: counted and not quoted.
        assert!(!digest.contains("message 3"), "{digest}");
        assert_eq!(history["decisions"].as_array().unwrap().len(), 1);
        let hash = history["hash"].as_str().unwrap();

        let whole = bob.ok("retrieve_room_history", json!({"agentId": "bob", "hash": hash}));
        let room: Vec<Value> = bus
            .lines("room.jsonl")
            .into_iter()
            .filter(|line| line.get("system").is_none())
            .collect();
        assert_eq!(whole["messages"].as_array().unwrap()[..], room[..30]);
        let some = bob.ok(
            "retrieve_room_history",
            json!({"agentId": "bob", "hash": hash, "query": "fOo"}),
        );
        assert_eq!(texts(&some), ["FOO and more foo"]);
        let sentence = carol.refused(
            "retrieve_room_history",
            json!({"agentId": "carol", "hash": hash}),
            "refused",
        );
        assert!(sentence.contains("another agent"), "{sentence}");
        bob.refused(
            "retrieve_room_history",
            json!({"agentId": "bob", "hash": "000000000000"}),
            "no_digest",
        );
        assert_eq!(
            bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}))["totalNew"],
            0
        );
        let two = carol.ok(
            "read_messages",
            json!({"agentId": "carol", "source": "room", "limit": 2}),
        );
        assert_eq!(texts(&two), numbered(78..80));
        assert_eq!(two["history"]["older"], 77);
    });
}

// spec: TOOL-060
#[test]
fn a_digest_expires_after_half_an_hour_and_says_so() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        post(&*alice, "alice", 0..5);
        let read = bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "limit": 1}),
        );
        let ask = json!({"agentId": "bob", "hash": read["history"]["hash"]});
        bus.move_clock(29 * 60);
        assert_eq!(bob.ok("retrieve_room_history", ask.clone())["returned"], 4);
        bus.move_clock(31 * 60);
        let sentence = bob.refused("retrieve_room_history", ask, "digest_expired");
        assert!(sentence.contains("30 minutes"), "{sentence}");
        bus.move_clock(0);
    });
}

// spec: TOOL-061
#[test]
fn a_digest_still_stands_for_all_its_messages_after_the_channel_was_cut() {
    let bus = Bus::new()
        .with("AGENT_COORD_ROOM_MAX", "100")
        .with("AGENT_COORD_ROOM_KEEP", "10");
    let alice = bus.joined("alice");
    let bob = bus.joined("bob");
    post(&*alice, "alice", 0..80);
    let read = bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}));
    post(&*alice, "alice", 80..101);
    assert_eq!(bus.lines("room.jsonl").len(), 10, "it was cut");
    let ask = json!({"agentId": "bob", "hash": read["history"]["hash"]});
    assert_eq!(texts(&bob.ok("retrieve_room_history", ask)), numbered(0..30));
    let next = bob.ok("read_messages", json!({"agentId": "bob", "source": "room"}));
    // Eleven of the twenty-one went to the archive before they were read; the ten that stand are all that is new.
    assert_eq!(texts(&next), numbered(91..101));
}

// spec: TOOL-054
#[test]
fn since_ts_leaves_out_what_is_older_and_loses_nothing() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "early"}),
        );
        bus.move_clock(60);
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "late"}),
        );
        let since = bus.lines("inbox/bob.jsonl")[0]["ts"].clone();
        let ask = json!({"agentId": "bob", "source": "inbox", "sinceTs": since});
        let read = bob.ok("read_messages", ask);
        assert_eq!(
            (texts(&read), &read["remaining"]),
            (vec!["late".to_owned()], &json!(2))
        );
        let all = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
        assert_eq!(texts(&all), ["early", "late"], "what was skipped is still unread");
        assert_eq!(
            bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}))["returned"],
            0
        );
        bus.move_clock(0);
    });
}

// spec: TOOL-055
#[test]
fn an_inbox_comes_whole_or_from_its_oldest_end_in_pieces() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        for number in 0..80 {
            alice.ok(
                "send_message",
                json!({"from": "alice", "to": "bob", "text": format!("message {number}")}),
            );
        }
        let piece = bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "inbox", "limit": 10}),
        );
        assert_eq!(texts(&piece), numbered(0..10));
        assert_eq!(
            (&piece["totalNew"], &piece["remaining"]),
            (&json!(80), &json!(70))
        );
        let rest = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
        assert_eq!(texts(&rest), numbered(10..80));
        assert!(rest.get("history").is_none());
    });
}

// spec: TOOL-056
#[test]
fn nobody_reads_their_own_posts() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        alice.ok("send_message", json!({"from": "alice", "text": "mine"}));
        bob.ok("send_message", json!({"from": "bob", "text": "yours"}));
        alice.ok("send_message", json!({"from": "alice", "text": "mine again"}));
        let read = alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}));
        assert_eq!(
            (texts(&read), &read["totalNew"]),
            (vec!["yours".to_owned()], &json!(1))
        );
        assert_eq!(
            alice.ok("read_messages", json!({"agentId": "alice", "source": "room"}))["totalNew"],
            0
        );
    });
}
