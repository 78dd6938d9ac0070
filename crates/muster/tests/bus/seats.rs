//! Joining, registering, leaving, looking who is there. Never a message but those that a join hands over.

use serde_json::{Value, json};

use crate::support::{Bus, Calls as _, Process, by_both_doors, texts};

const DAY: i64 = 24 * 60 * 60;

fn listed(answer: &Value, agent: &str) -> Option<Value> {
    let agents = answer["agents"].as_array().unwrap();
    agents.iter().find(|entry| entry["agentId"] == agent).cloned()
}

// spec: TOOL-001 TOOL-002 TOOL-003 TOOL-006 TOOL-009
#[test]
fn one_join_registers_says_what_became_of_the_pane_and_hands_over_the_inbox() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        for text in ["first", "second"] {
            alice.ok(
                "send_message",
                json!({"from": "alice", "to": "bob", "text": text}),
            );
        }
        let bob = bus.agent();
        let joined = bob.ok(
            "join",
            json!({"agentId": "bob", "project": "shop", "role": "backend"}),
        );
        assert_eq!(
            (&joined["registered"], &joined["attached"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(
            (&joined["agent"]["project"], &joined["agent"]["role"]),
            (&json!("shop"), &json!("backend"))
        );
        // No pane here: that is no error, and it is said.
        assert_eq!(
            (&joined["attach"]["ok"], &joined["attach"]["tried"]),
            (&json!(false), &json!(false))
        );
        assert!(
            joined["attach"]["reason"]
                .as_str()
                .unwrap()
                .contains("messages wait until they are read"),
            "{joined}"
        );
        assert_eq!(texts(&joined["inbox"]), ["first", "second"]);
        assert_eq!(joined["unread"], 0);
        assert_eq!(joined["defaultRoom"]["room"], "general");
        assert_eq!(joined["defaultRoom"]["members"], json!(["alice", "bob"]));
        let again = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
        assert_eq!(again["returned"], 0, "the join marked them read");
        let quiet = bob.ok("join", json!({"agentId": "bob", "attach": false}));
        assert_eq!(
            (&quiet["attach"], &quiet["attached"]),
            (&Value::Null, &json!(false))
        );
        assert!(!bus.file("transports/bob.json").exists());
    });
}

// spec: TOOL-005 TOOL-007
#[test]
fn a_repeated_join_updates_the_one_entry_and_leaves_the_inbox_when_told_to() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.agent();
        bob.ok(
            "join",
            json!({"agentId": "bob", "project": "shop", "role": "backend"}),
        );
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "kept"}),
        );
        let again = bob.ok(
            "join",
            json!({"agentId": "bob", "role": "tester", "readInbox": false}),
        );
        assert_eq!(
            (
                &again["agent"]["role"],
                &again["agent"]["project"],
                &again["inbox"],
                &again["unread"]
            ),
            (&json!("tester"), &json!("shop"), &Value::Null, &json!(1))
        );
        let agents = bus.json("agents.json");
        assert_eq!(agents.as_object().unwrap().len(), 2, "{agents}");
        assert_eq!(agents["bob"]["role"], "tester");
        assert_eq!(
            texts(&bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}))),
            ["kept"]
        );
    });
}

// spec: TOOL-010 STO-007
#[test]
fn register_writes_the_entry_and_nothing_else() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "unread"}),
        );
        let bob = bus.agent();
        let said = bob.ok(
            "register",
            json!({"agentId": "bob", "project": "shop", "role": "backend"}),
        );
        let entry = &bus.json("agents.json")["bob"];
        assert_eq!(&said["agent"], entry);
        assert_eq!(
            (&entry["agentId"], &entry["project"], &entry["role"]),
            (&json!("bob"), &json!("shop"), &json!("backend"))
        );
        assert!(
            entry["lastHeartbeat"].as_i64().unwrap() > 1_600_000_000_000,
            "{entry}"
        );
        assert!(!bus.file("transports/bob.json").exists());
        assert_eq!(alice.ok("status", json!({"agentId": "bob"}))["inboxUnread"], 1);
    });
}

// spec: TOOL-011 TOOL-012 TOOL-013
#[test]
fn who_unregisters_is_detached_and_gone_but_the_messages_and_the_name_stay() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "later"}),
        );
        bob.ok(
            "report_transport",
            json!({"agentId": "bob", "transport": "tmux-push-remote", "tmuxTarget": "%4"}),
        );
        let said = bob.ok("unregister", json!({"agentId": "bob"}));
        assert_eq!(
            (&said["wasRegistered"], &said["detached"]),
            (&json!(true), &json!(true))
        );
        assert!(listed(&alice.ok("list_agents", json!({})), "bob").is_none());
        assert!(!bus.file("transports/bob.json").exists());
        assert_eq!(bus.lines("inbox/bob.jsonl").len(), 1);
        let sentence = bob.refused("register", json!({"agentId": "carol"}), "identity_bound");
        assert_eq!(
            sentence,
            "identity bound to 'bob'; rejected attempt to act as 'carol'"
        );
        let back = bob.ok("join", json!({"agentId": "bob"}));
        assert_eq!(texts(&back["inbox"]), ["later"]);
    });
}

// spec: TOOL-014 TOOL-015 TOOL-016 TOOL-018
#[test]
fn status_tells_registration_transport_depth_and_unread_and_binds_nobody() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let looker = bus.agent();
        let before = looker.ok("status", json!({"agentId": "bob"}));
        assert_eq!(
            (
                &before["registered"],
                &before["entry"],
                &before["transport"],
                &before["inboxDepth"]
            ),
            (&json!(false), &Value::Null, &Value::Null, &json!(0))
        );
        let bob = bus.joined("bob");
        for text in ["1", "2", "3"] {
            alice.ok(
                "send_message",
                json!({"from": "alice", "to": "bob", "text": text}),
            );
        }
        bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "inbox", "limit": 1}),
        );
        bob.ok(
            "report_transport",
            json!({"agentId": "bob", "transport": "tmux-push-remote", "host": "elsewhere", "tmuxTarget": "%4", "since": 12_345}),
        );
        let files = bus.public();
        let status = looker.ok("status", json!({"agentId": "bob"}));
        assert_eq!(
            (
                &status["registered"],
                &status["attached"],
                &status["inboxDepth"],
                &status["inboxUnread"]
            ),
            (&json!(true), &json!(true), &json!(3), &json!(2))
        );
        let transport = &status["transport"];
        assert_eq!(
            (
                &transport["transport"],
                &transport["host"],
                &transport["target"],
                &transport["since"]
            ),
            (
                &json!("tmux-push-remote"),
                &json!("elsewhere"),
                &json!("%4"),
                &json!(12_345)
            )
        );
        assert_eq!(bus.public(), files, "looking changes nothing");
        assert_eq!(bus.lines("inbox/bob.jsonl").len(), 3);
        assert_eq!(bus.json("cursors/bob.json")["inboxOffset"], 1);
        looker.ok("register", json!({"agentId": "carol"}));
    });
}

// spec: TOOL-017
#[test]
fn status_tells_whether_the_server_runs_inside_tmux() {
    let bus = Bus::new();
    let outside = bus.stdio().ok("status", json!({"agentId": "bob"}));
    assert_eq!(
        (&outside["inTmux"], &outside["tmuxPane"]),
        (&json!(false), &Value::Null)
    );
    let inside = bus.stdio_with(&[("TMUX_PANE", "%7"), ("TMUX", "/tmp/tmux-0/default,1,0")]);
    let inside = inside.ok("status", json!({"agentId": "bob"}));
    assert_eq!(
        (&inside["inTmux"], &inside["tmuxPane"]),
        (&json!(true), &json!("%7"))
    );
}

// spec: TOOL-029 TOOL-030 TOOL-078
#[test]
fn a_heartbeat_makes_an_agent_online_again_in_the_list_of_all() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let _bob = bus.joined("bob");
        let carol = bus.joined("carol");
        carol.ok(
            "report_transport",
            json!({"agentId": "carol", "transport": "tmux-push-remote", "tmuxTarget": "%1"}),
        );
        bus.move_clock(400);
        alice.ok("heartbeat", json!({"agentId": "alice"}));
        let list = alice.ok("list_agents", json!({}));
        let all: Vec<&str> = list["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| agent["agentId"].as_str().unwrap())
            .collect();
        assert_eq!(all, ["alice", "bob", "carol"]);
        let (a, b, c) = (
            listed(&list, "alice").unwrap(),
            listed(&list, "bob").unwrap(),
            listed(&list, "carol").unwrap(),
        );
        assert_eq!((&a["online"], &b["online"]), (&json!(true), &json!(false)));
        assert!(a["lastHeartbeat"].as_i64().unwrap() - b["lastHeartbeat"].as_i64().unwrap() > 390_000);
        assert!(b["secondsSinceHeartbeat"].as_i64().unwrap() >= 399, "{b}");
        // A remote marker lives by its agent's heartbeat.
        assert_eq!(
            (&c["transport"]["target"], &c["attached"]),
            (&json!("%1"), &json!(false))
        );
        assert_eq!((&a["transport"], &a["attached"]), (&Value::Null, &json!(false)));
        let general = alice.ok("list_rooms", json!({}))["rooms"][0].clone();
        assert_eq!(general["members"], json!(["alice", "bob", "carol"]));
        bus.move_clock(0);
    });
}

// spec: TOOL-031 TOOL-032 TOOL-033 TOOL-034 TOOL-035
#[test]
fn a_live_process_keeps_its_agent_and_everybody_else_leaves_the_list_after_a_day() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let held = bus.joined("held");
        let gone = bus.joined("gone");
        gone.ok("join_room", json!({"agentId": "gone", "room": "seo"}));
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "gone", "text": "for later"}),
        );
        drop((held, gone));
        let mut pusher = Process::lasting();
        let marker = json!({"agentId": "held", "transport": "herdr", "pid": pusher.pid(), "target": "w1:p1", "tmuxTarget": "w1:p1", "since": 1});
        bus.write("transports/held.json", &marker.to_string());
        bus.move_clock(DAY + 60);
        alice.ok("heartbeat", json!({"agentId": "alice"}));
        let list = alice.ok("list_agents", json!({}));
        assert_eq!(list["evicted"], json!(["gone"]));
        let entry = listed(&list, "held").unwrap();
        assert_eq!(
            (&entry["online"], &entry["attached"]),
            (&json!(true), &json!(true))
        );
        assert!(
            entry["secondsSinceHeartbeat"].as_i64().unwrap() < 5,
            "the list gave it a heartbeat: {entry}"
        );
        assert!(bus.json("agents.json").get("gone").is_none());
        // What the one that left had is for prune and doctor.
        assert_eq!(bus.lines("inbox/gone.jsonl").len(), 1);
        assert_eq!(bus.json("rooms.json")["seo"]["members"], json!(["gone"]));
        pusher.0.kill().unwrap();
        pusher.0.wait().unwrap();
        let list = alice.ok("list_agents", json!({}));
        assert_eq!(listed(&list, "held").unwrap()["attached"], false);
        bus.move_clock(2 * DAY + 120);
        alice.ok("heartbeat", json!({"agentId": "alice"}));
        assert_eq!(alice.ok("list_agents", json!({}))["evicted"], json!(["held"]));
        assert!(
            bus.file("transports/held.json").exists(),
            "a list removes no marker"
        );
        std::fs::remove_file(bus.file("transports/held.json")).unwrap();
        bus.move_clock(0);
    });
}
