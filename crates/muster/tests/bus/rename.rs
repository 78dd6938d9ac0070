//! Taking another id: everything moves along, at once, and nothing moves onto what somebody has. Never a crash in the middle: the library's own tests do that.

use serde_json::json;

use crate::support::{Bus, Calls as _, by_both_doors, texts};

// spec: TOOL-082 TOOL-083 TOOL-084 TOOL-085 TOOL-086 TOOL-087
#[test]
fn registry_inbox_cursors_marker_channels_and_the_session_itself_take_the_new_id() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.agent();
        bob.ok(
            "join",
            json!({"agentId": "bob", "project": "shop", "role": "backend"}),
        );
        for room in ["seo", "ops"] {
            bob.ok("join_room", json!({"agentId": "bob", "room": room}));
            alice.ok(
                "send_message",
                json!({"from": "alice", "room": room, "text": "hello"}),
            );
        }
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
            json!({"agentId": "bob", "transport": "tmux-push-remote", "tmuxTarget": "%4", "host": "elsewhere"}),
        );
        let before = alice.ok("status", json!({"agentId": "bob"}));
        let said = bob.ok("rename_agent", json!({"agentId": "bob", "newAgentId": "robert"}));
        assert_eq!(
            (&said["from"], &said["agentId"]),
            (&json!("bob"), &json!("robert"))
        );

        let after = alice.ok("status", json!({"agentId": "robert"}));
        assert_eq!(after["inboxUnread"], 2);
        assert_eq!(
            (&after["inboxDepth"], &after["inboxUnread"]),
            (&before["inboxDepth"], &before["inboxUnread"])
        );
        assert_eq!(
            (&after["transport"]["target"], &after["attached"]),
            (&json!("%4"), &json!(true))
        );
        let agents = bus.json("agents.json");
        assert!(agents.get("bob").is_none());
        assert_eq!(
            (&agents["robert"]["agentId"], &agents["robert"]["role"]),
            (&json!("robert"), &json!("backend"))
        );
        for name in ["inbox/bob.jsonl", "cursors/bob.json", "transports/bob.json"] {
            assert!(!bus.file(name).exists(), "{name}");
        }
        let rooms = bus.json("rooms.json");
        for room in ["seo", "ops"] {
            assert_eq!(rooms[room]["members"], json!(["robert"]));
        }
        let notice = bus.lines("room.jsonl").last().unwrap().clone();
        assert_eq!(notice["system"], true);
        let text = notice["text"].as_str().unwrap();
        assert!(text.contains("bob") && text.contains("robert"), "{text}");

        assert_eq!(
            bob.refused("heartbeat", json!({"agentId": "bob"}), "identity_bound"),
            "identity bound to 'robert'; rejected attempt to act as 'bob': this session is 'robert' (renamed from 'bob'), so call with 'robert'"
        );
        assert_eq!(
            texts(&bob.ok("read_messages", json!({"agentId": "robert", "source": "inbox"}))),
            ["2", "3"]
        );
        assert_eq!(bus.markers("robert").len(), 1);
        assert_eq!(bus.markers("bob").len(), 0);
    });
}

#[test]
fn a_message_to_the_old_id_reaches_the_new_one_and_its_sender_is_told() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        bob.ok("rename_agent", json!({"agentId": "bob", "newAgentId": "robert"}));
        let said = alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "late"}),
        );
        assert_eq!(said["to"], "robert");
        assert!(said["warning"].as_str().unwrap().contains("robert"), "{said}");
        assert_eq!(
            texts(&bob.ok("read_messages", json!({"agentId": "robert", "source": "inbox"}))),
            ["late"]
        );
        assert_eq!(alice.ok("ping", json!({"to": "bob"}))["renamedTo"], "robert");
    });
}

// spec: TOOL-088
#[test]
fn nobody_takes_an_id_that_something_belongs_to() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let carol = bus.joined("carol");
        // Bound, and not registered.
        carol.ok("unregister", json!({"agentId": "carol"}));
        // An inbox, and nobody.
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "dave", "text": "for dave"}),
        );
        // A marker, and nobody.
        bus.write(
            "transports/erin.json",
            &json!({"agentId": "erin", "transport": "tmux-push-remote", "pid": 0, "since": 1}).to_string(),
        );
        let before = bus.public();
        for (id, why) in [
            ("alice", "registered"),
            ("bob", "already"),
            ("carol", "session"),
            ("dave", "inbox"),
            ("erin", "marker"),
        ] {
            let sentence = bob.refused(
                "rename_agent",
                json!({"agentId": "bob", "newAgentId": id}),
                "id_in_use",
            );
            assert!(sentence.contains(why), "{id}: {sentence}");
        }
        assert_eq!(bus.public(), before);
        bob.ok("heartbeat", json!({"agentId": "bob"}));
    });
}

// spec: TOOL-088
#[test]
fn nobody_takes_an_id_that_has_a_token() {
    let bus = Bus::new();
    bus.mint("tokened");
    let bob = bus.joined("bob");
    let sentence = bob.refused(
        "rename_agent",
        json!({"agentId": "bob", "newAgentId": "tokened"}),
        "id_in_use",
    );
    assert!(sentence.contains("token"), "{sentence}");
    assert!(bus.json("agents.json").get("bob").is_some());
}

// spec: TOOL-087 IDN-032
#[test]
fn every_session_of_a_token_takes_the_new_id_and_none_is_left_without_one() {
    let bus = Bus::new();
    let token = bus.mint("bob");
    let peers = bus.mint("alice");
    let daemon = bus.daemon_with(&[]);
    let (one, two) = (daemon.session(&token), daemon.session(&token));
    let alice = daemon.session(&peers);
    for session in [&one, &two] {
        session.ok("join", json!({"agentId": "bob"}));
    }
    alice.ok("join", json!({"agentId": "alice"}));
    one.ok("rename_agent", json!({"agentId": "bob", "newAgentId": "robert"}));
    assert_eq!((bus.markers("bob").len(), bus.markers("robert").len()), (0, 2));
    alice.ok(
        "send_message",
        json!({"from": "alice", "to": "robert", "text": "hello"}),
    );
    // The old id is refused under both, with the new one named; the new one is theirs.
    for session in [&two, &one] {
        let said = session.refused("heartbeat", json!({"agentId": "bob"}), "identity_bound");
        assert!(said.contains("'robert'"), "{said}");
        session.ok("heartbeat", json!({"agentId": "robert"}));
    }
    let read = two.ok("read_messages", json!({"agentId": "robert", "source": "inbox"}));
    assert_eq!(texts(&read), ["hello"]);
    // It follows as often as it is renamed, from whichever session.
    two.ok("rename_agent", json!({"agentId": "robert", "newAgentId": "rob"}));
    one.ok("send_message", json!({"from": "rob", "text": "it is me"}));
    let later = daemon.session(&token);
    later.ok("join", json!({"agentId": "rob"}));
    one.refused("heartbeat", json!({"agentId": "alice"}), "identity_bound");
}

#[test]
fn a_renamed_session_hears_its_new_id_and_what_still_names_the_old_one() {
    let bus = Bus::new();
    let rename = json!({"agentId": "backend", "newAgentId": "api"});
    let bound = bus.stdio_with(&[("AGENT_COORD_BOUND_AGENT", "backend")]);
    bound.ok("join", json!({"agentId": "backend"}));
    let said = bound.ok("rename_agent", rename.clone());
    let note = said["note"].as_str().unwrap();
    assert!(
        note.contains("call with 'api' from now on")
            && note.contains("AGENT_COORD_BOUND_AGENT still says 'backend'"),
        "{note}"
    );
    let sentence = bound.refused("heartbeat", json!({"agentId": "backend"}), "identity_bound");
    assert_eq!(
        sentence,
        "identity bound to 'api'; rejected attempt to act as 'backend': this session is 'api' (renamed from 'backend'), so call with 'api'"
    );
    let sentence = bound.refused("heartbeat", json!({"agentId": "other"}), "identity_bound");
    assert_eq!(
        sentence,
        "identity bound to 'api'; rejected attempt to act as 'other'"
    );
    by_both_doors(|bus| {
        let backend = bus.joined("backend");
        let said = backend.ok("rename_agent", rename.clone());
        assert!(
            !said["note"].as_str().unwrap().contains("AGENT_COORD_BOUND_AGENT"),
            "{said}"
        );
        let sentence = backend.refused("heartbeat", json!({"agentId": "backend"}), "identity_bound");
        assert!(sentence.ends_with("so call with 'api'"), "{sentence}");
    });
    let token = bus.mint("web");
    let daemon = bus.daemon_with(&[]);
    let web = daemon.session(&token);
    web.ok("join", json!({"agentId": "web"}));
    web.ok("rename_agent", json!({"agentId": "web", "newAgentId": "site"}));
    let sentence = web.refused("heartbeat", json!({"agentId": "web"}), "identity_bound");
    assert!(sentence.ends_with("so call with 'site'"), "{sentence}");
}
