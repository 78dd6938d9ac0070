//! What docs/bus.md has to state for people, and the numbers in it that the program can be asked for.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Bus, Client, Sdk, tools};

/// The guide on one line.
fn text() -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != ">").collect();
    words.join(" ")
}

// spec: TOOL-121
#[test]
fn the_guide_has_the_words_for_an_agents_lasting_instructions() {
    let text = text();
    for words in [
        "At the start of a session call `join({agentId: \"frontend\"",
        "At the end call `unregister({agentId: \"frontend\"})`",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

// spec: NET-019 IDN-043 NODE-024
#[test]
fn the_guide_says_what_the_bus_does_not_protect_from() {
    let text = text();
    for words in [
        "TLS is not implemented. Put a TLS proxy in front, or use a private overlay",
        "This protects against a mistaken, broken or taken-over cooperator. It is no defence against a hostile attacker on the network",
        "The stdio entry is always a bus on the client's own machine. It is never a connection to somebody else's",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

/// Each sentence of the guide beside what the program does, so that neither drifts away from the other.
// spec: STO-038 TOOL-042 TOOL-045 TOOL-046 TOOL-056 TOOL-069 TOOL-081
#[test]
fn the_program_does_what_the_guide_says_of_it() {
    let Some(tools) = tools() else { return };
    let text = text();
    let says = |words: &str| assert!(text.contains(words), "the guide does not say: {words}");
    let bus = Bus::new();
    let mut client = Client::new(Sdk::Python, &tools);
    client.stdio(&bus, "ada", "auto");
    client.stdio(&bus, "bea", "auto");
    let mut ada = |tool: &str, arguments: Value| client.call("ada", tool, arguments);
    let refused = |answer: Value| assert_eq!(answer["ok"], false, "{answer}");

    says("A `kind` on a direct message is refused.");
    refused(ada(
        "send_message",
        json!({"from": "ada", "to": "bea", "text": "x", "kind": "decision"}),
    ));
    says("A text that is blank, or longer than 256 KiB of UTF-8, is refused, never cut.");
    let largest = "x".repeat(256 * 1024);
    assert_eq!(
        ada(
            "send_message",
            json!({"from": "ada", "room": "new", "text": largest})
        )["ok"],
        true
    );
    refused(ada(
        "send_message",
        json!({"from": "ada", "room": "new", "text": format!("{largest}x")}),
    ));
    says("a post to a new channel makes it, without joining it");
    let rooms = ada("list_rooms", json!({}))["rooms"].clone();
    let made = rooms
        .as_array()
        .unwrap()
        .iter()
        .find(|room| room["room"] == "new")
        .unwrap();
    assert_eq!(made["members"], json!([]));
    says("on a channel that does not exist is refused");
    refused(ada(
        "set_room_topic",
        json!({"agentId": "ada", "room": "nowhere", "topic": "x"}),
    ));
    says("Your own posts are not returned to you and do not count as unread.");
    assert_eq!(
        ada(
            "read_messages",
            json!({"agentId": "ada", "source": "room", "room": "new"})
        )["totalNew"],
        0
    );

    for number in 0..60 {
        ada(
            "send_message",
            json!({"from": "ada", "room": "old", "text": format!("post {number}")}),
        );
    }
    says(
        "Whoever is new to a channel has not read any of it: the first read shows the newest 50 and a digest of the rest.",
    );
    let joined = client.call("bea", "join_room", json!({"agentId": "bea", "room": "old"}));
    let first = client.call(
        "bea",
        "read_messages",
        json!({"agentId": "bea", "source": "room", "room": "old"}),
    );
    assert_eq!(joined["unread"], first["totalNew"]);
    let shown = first["returned"].as_u64().unwrap();
    assert_eq!(
        (shown, first["history"]["older"].as_u64().unwrap() + shown),
        (50, first["totalNew"].as_u64().unwrap())
    );
    says("`wait_for_message` returns at once when something is unread.");
    client.call(
        "ada",
        "send_message",
        json!({"from": "ada", "to": "bea", "text": "there already"}),
    );
    let begun = std::time::Instant::now();
    let got = client.call(
        "bea",
        "wait_for_message",
        json!({"agentId": "bea", "source": "inbox", "timeoutMs": 60_000}),
    );
    assert_eq!(got["returned"], 1);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
