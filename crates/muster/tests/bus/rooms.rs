//! Channels: making, joining, leaving, topics and rules. Never what is read in them.

use serde_json::{Value, json};

use crate::support::{Bus, by_both_doors, texts};

fn room(list: &Value, name: &str) -> Option<Value> {
    let rooms = list["rooms"].as_array().unwrap();
    rooms.iter().find(|room| room["room"] == name).cloned()
}

// spec: TOOL-072 TOOL-073 TOOL-074 TOOL-075 STO-009 STO-023
#[test]
fn joining_makes_a_channel_lists_it_and_tells_its_topic_rules_members_and_unread() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let made = alice.ok("join_room", json!({"agentId": "alice", "room": "#SEO"}));
        assert_eq!(
            (&made["room"], &made["topic"], &made["motd"], &made["members"]),
            (&json!("seo"), &Value::Null, &Value::Null, &json!(["alice"]))
        );
        alice.ok(
            "set_room_topic",
            json!({"agentId": "alice", "room": "seo", "topic": "search"}),
        );
        alice.ok(
            "set_room_motd",
            json!({"agentId": "alice", "room": "#seo", "motd": "be kind"}),
        );
        for text in ["1", "2"] {
            alice.ok(
                "send_message",
                json!({"from": "alice", "room": "#seo", "text": text}),
            );
        }
        let joined = bob.ok("join_room", json!({"agentId": "bob", "room": "seo"}));
        assert_eq!(
            (&joined["topic"], &joined["motd"], &joined["members"]),
            (&json!("search"), &json!("be kind"), &json!(["alice", "bob"]))
        );
        // STO-038: a member sees what the channel holds, and the number says so.
        let read = bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "room": "seo"}),
        );
        assert_eq!(joined["unread"], read["totalNew"]);
        let file = bus.json("rooms.json");
        assert_eq!(
            (
                &file["seo"]["topic"],
                &file["seo"]["motd"],
                &file["seo"]["members"]
            ),
            (&json!("search"), &json!("be kind"), &json!(["alice", "bob"]))
        );
        let list = bob.ok("list_rooms", json!({}));
        let listed = room(&list, "seo").unwrap();
        let lines = bus.lines("rooms/seo.jsonl");
        assert_eq!(
            (
                &listed["topic"],
                &listed["motd"],
                &listed["members"],
                &listed["memberCount"]
            ),
            (
                &json!("search"),
                &json!("be kind"),
                &json!(["alice", "bob"]),
                &json!(2)
            )
        );
        assert_eq!(
            (&listed["messageCount"], &listed["lastTs"]),
            (&json!(lines.len()), &lines.last().unwrap()["ts"])
        );
        assert!(room(&list, "general").is_some());
        assert!(!bus.file("rooms/#seo.jsonl").exists() && !bus.file("rooms/SEO.jsonl").exists());
    });
}

// spec: STO-038
#[test]
fn a_new_member_finds_the_newest_fifty_messages_and_a_digest_and_the_unread_number_is_true() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        for number in 0..60 {
            alice.ok(
                "send_message",
                json!({"from": "alice", "room": "old", "text": format!("{number}")}),
            );
        }
        let bob = bus.joined("bob");
        let joined = bob.ok("join_room", json!({"agentId": "bob", "room": "old"}));
        let read = bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "room": "old"}),
        );
        assert_eq!(joined["unread"], read["totalNew"]);
        // Bob's own joining is told in a notice, the newest of the fifty.
        assert_eq!(
            (&read["returned"], &read["history"]["older"]),
            (&json!(50), &json!(10))
        );
    });
}

// spec: TOOL-076 TOOL-077
#[test]
fn who_leaves_is_no_member_the_messages_stay_and_nobody_leaves_general() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        alice.ok("join_room", json!({"agentId": "alice", "room": "seo"}));
        bob.ok("join_room", json!({"agentId": "bob", "room": "seo"}));
        bob.ok(
            "send_message",
            json!({"from": "bob", "room": "seo", "text": "bye"}),
        );
        assert_eq!(
            bob.ok("leave_room", json!({"agentId": "bob", "room": "#seo"}))["left"],
            true
        );
        assert_eq!(bus.json("rooms.json")["seo"]["members"], json!(["alice"]));
        assert!(
            bus.lines("rooms/seo.jsonl")
                .iter()
                .any(|line| line["text"] == "bye")
        );
        assert_eq!(
            bob.ok("leave_room", json!({"agentId": "bob", "room": "seo"}))["left"],
            false
        );
        let before = bus.public();
        for name in ["general", "#general", "GENERAL"] {
            let sentence = bob.refused("leave_room", json!({"agentId": "bob", "room": name}), "refused");
            assert!(sentence.contains("general"), "{sentence}");
        }
        assert_eq!(bus.public(), before);
    });
}

// spec: TOOL-079 TOOL-080 TOOL-081
#[test]
fn a_topic_and_rules_are_told_in_the_channel_and_a_missing_channel_has_neither() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        alice.ok("join_room", json!({"agentId": "alice", "room": "seo"}));
        bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "room": "seo"}),
        );
        for (tool, field) in [("set_room_topic", "topic"), ("set_room_motd", "motd")] {
            let mut arguments = json!({"agentId": "alice", "room": "seo"});
            arguments[field] = json!("short and\nclear");
            let said = alice.ok(tool, arguments.clone());
            assert_eq!(said[field], "short and\nclear");
            let notice = bus.lines("rooms/seo.jsonl").last().unwrap().clone();
            assert_eq!(
                (&notice["system"], &notice["from"]),
                (&json!(true), &json!("system"))
            );
            assert!(
                notice["text"].as_str().unwrap().contains("short and\nclear"),
                "{notice}"
            );
            let read = bob.ok(
                "read_messages",
                json!({"agentId": "bob", "source": "room", "room": "seo"}),
            );
            assert_eq!(texts(&read).len(), 1);
            let before = bus.public();
            arguments["room"] = json!("nowhere");
            let sentence = alice.refused(tool, arguments, "no_room");
            assert!(sentence.contains("join_room"), "{sentence}");
            assert_eq!(bus.public(), before);
        }
        alice.ok(
            "set_room_topic",
            json!({"agentId": "alice", "room": "general", "topic": "everything"}),
        );
        let list = alice.ok("list_rooms", json!({}));
        assert_eq!(room(&list, "general").unwrap()["topic"], "everything");
        let late = bus.agent();
        assert_eq!(
            late.ok("join", json!({"agentId": "late"}))["defaultRoom"]["topic"],
            "everything"
        );
    });
}

// spec: TOOL-078
#[test]
fn everybody_registered_is_in_general() {
    let bus = Bus::new();
    let alice = bus.joined("alice");
    let bob = bus.agent();
    bob.ok("register", json!({"agentId": "bob"}));
    let general = room(&alice.ok("list_rooms", json!({})), "general").unwrap();
    assert_eq!(general["members"], json!(["alice", "bob"]));
}
