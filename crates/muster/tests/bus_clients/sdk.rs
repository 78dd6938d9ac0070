//! The official Python and TypeScript clients on standard streams and over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Bus, CLIENTS, Client, texts, tools};

/// The name the tools go by, and what else a list says of each.
fn listed(client: &mut Client, session: &str) -> Vec<(String, Value)> {
    let answer = client.ask("tools", json!({"session": session}));
    assert_eq!(answer["ok"], true, "{answer}");
    let of = |tool: &Value| {
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        (
            tool["name"].as_str().unwrap().to_owned(),
            tool["inputSchema"].clone(),
        )
    };
    answer["tools"].as_array().unwrap().iter().map(of).collect()
}

// The driver compiles each schema in strict mode (TypeScript) or against its meta-schema (Python) and fails on one it cannot use.
// spec: TOOL-114 TOOL-115 NET-002 NET-003
#[test]
fn every_official_client_sees_the_same_tools_on_both_ways_and_accepts_their_schemas() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let token = bus.token("ada");
    let daemon = bus.daemon(0, None);
    for (sdk, mode) in CLIENTS {
        let mut client = Client::new(sdk, &tools);
        let opened = client.stdio(&bus, "near", mode);
        eprintln!("{sdk:?} {} {mode}: {}", opened["sdk"], opened["protocol"]);
        assert_eq!(opened["name"], "agent-coord");
        assert!(
            opened["instructions"].as_str().unwrap().contains("join"),
            "{opened}"
        );
        client.http(&daemon.url(), &token, "far", mode);
        let near = listed(&mut client, "near");
        assert_eq!(near, listed(&mut client, "far"), "{sdk:?} {mode}");
        let names: Vec<&str> = near.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            client.call("near", "capabilities", json!({}))["tools"],
            json!(names)
        );
    }
}

// spec: IDN-002 IDN-003 TOOL-120 NET-020
#[test]
fn clients_of_every_make_on_both_ways_share_one_room_and_are_held_to_their_ids() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let tokens = ["near", "far"].map(|agent| bus.token(agent));
    let daemon = bus.daemon(0, None);
    for (sdk, mode) in CLIENTS {
        let mut client = Client::new(sdk, &tools);
        client.stdio(&bus, "near", mode);
        client.http(&daemon.url(), &tokens[1], "far", mode);
        for (me, peer) in [("near", "far"), ("far", "near")] {
            let joined = client.call(me, "join", json!({"agentId": me}));
            assert_eq!(
                (&joined["ok"], &joined["registered"]),
                (&json!(true), &json!(true)),
                "{joined}"
            );
            let before = bus.posts().len();
            let refused = client.call(me, "send_message", json!({"from": peer, "text": "not me"}));
            let sentence = format!("identity bound to '{me}'; rejected attempt to act as '{peer}'");
            assert_eq!(
                refused,
                json!({"ok": false, "code": "identity_bound", "error": sentence}),
                "{sdk:?} {mode}"
            );
            assert_eq!(bus.posts().len(), before);
        }
        let text = format!("hello from {sdk:?} {mode}, ünïcode 🦀\nsecond line");
        for (me, peer) in [("near", "far"), ("far", "near")] {
            let sent = client.call(me, "send_message", json!({"from": me, "to": peer, "text": text}));
            let whole = client.whole(
                peer,
                "wait_for_message",
                json!({"agentId": peer, "source": "inbox"}),
            );
            let batch = &whole["body"];
            assert_eq!(texts(batch), [text.as_str()], "{sdk:?} {mode}");
            assert_eq!(
                (&batch["messages"][0]["id"], &batch["messages"][0]["from"]),
                (&sent["id"], &json!(me))
            );
            assert_eq!(whole["text"].as_array().unwrap().len(), 1);
            assert_eq!(
                serde_json::from_str::<Value>(whole["text"][0].as_str().unwrap()).unwrap(),
                *batch
            );
            assert_eq!(whole["failed"], false);
        }
        for me in ["near", "far"] {
            client.call(me, "unregister", json!({"agentId": me}));
            assert_eq!(client.ask("close", json!({"session": me}))["ok"], true);
        }
    }
}

// spec: IDN-003 IDN-033
#[test]
fn every_client_begins_a_session_by_itself_where_one_token_is_for_all_and_is_held_to_its_id() {
    let Some(tools) = tools() else { return };
    let (bus, token) = (Bus::new(), "one-token-for-all-of-us");
    let daemon = bus.daemon(0, Some(token));
    for (number, (sdk, mode)) in CLIENTS.into_iter().enumerate() {
        let mut client = Client::new(sdk, &tools);
        let opened = client.http(&daemon.url(), token, "far", mode);
        assert_eq!(opened["protocol"], "2025-11-25", "{sdk:?} {mode}: {opened}");
        let me = format!("agent-{number}");
        assert_eq!(client.call("far", "join", json!({"agentId": me}))["ok"], true);
        let refused = client.call("far", "join", json!({"agentId": format!("{me}-too")}));
        assert_eq!(refused["code"], "identity_bound", "{sdk:?} {mode}: {refused}");
    }
}

#[test]
fn a_wait_that_a_client_cancels_takes_no_message_with_it() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let bea = bus.token("bea");
    let daemon = bus.daemon(0, None);
    for (number, (sdk, mode)) in CLIENTS.into_iter().enumerate() {
        for way in ["stdio", "http"] {
            // An id of its own for each case: none waits for the one before to have left.
            let ada = format!("ada-{number}-{way}");
            let mut client = Client::new(sdk, &tools);
            if way == "stdio" {
                client.stdio(&bus, "ada", mode);
            } else {
                client.http(&daemon.url(), &bus.token(&ada), "ada", mode);
            }
            client.http(&daemon.url(), &bea, "bea", mode);
            let waiting = client.begin_wait("ada", &ada, "bea");
            assert_eq!(client.ask("cancel", json!({"call": waiting}))["ok"], true);
            assert_eq!(client.answer(waiting)["error"], "cancelled");
            std::thread::sleep(Duration::from_millis(100));
            let text = format!("after {sdk:?} {mode} {way}");
            client.call(
                "bea",
                "send_message",
                json!({"from": "bea", "to": ada, "text": text}),
            );
            // A wait that went on would see the message at once, or half a second later at most.
            std::thread::sleep(Duration::from_millis(700));
            let batch = client.call("ada", "read_messages", json!({"agentId": ada, "source": "inbox"}));
            assert_eq!(texts(&batch), [text.as_str()], "{sdk:?} {mode} {way}");
        }
    }
}
