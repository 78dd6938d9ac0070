//! Attaching, reading and asking what runs, with hands that can be reached.

use muster_bus::push::{Settings, Why};
use muster_bus::transports::{self, Report};
use serde_json::json;

use crate::support::{Agent, World, hold, open, plain_tools, seat, texts, unknown, until};

// spec: TOOL-091
#[test]
fn a_pane_that_is_not_there_is_not_attached_and_leaves_nothing() {
    let world = World::new();
    let bob = world.agent("bob");
    let sentence = bob.refused("attach_agent", json!({"tmuxTarget": "x9"}), "not_attached");
    assert!(sentence.contains("pane_not_found"), "{sentence}");
    *world.fake.broken.lock().unwrap() = Some("no socket".to_owned());
    let sentence = bob.refused("attach_agent", json!({"tmuxTarget": "w1:p1"}), "not_attached");
    assert!(sentence.contains("no socket"), "{sentence}");
    assert!(!world.exists("transports/bob.json"));
    assert_eq!(bob.ok("status", json!({}))["push"], json!(null));
}

#[test]
fn detaching_unregistering_and_the_end_of_the_process_each_stop_the_push() {
    for end in ["detach_agent", "unregister", ""] {
        let world = World::new();
        let (alice, bob) = (world.agent("alice"), world.agent("bob"));
        bob.attach("w1:p1");
        alice.dm("bob", "one");
        world.fake.wait(1);
        match end {
            "" => world.tools.end(),
            tool => drop(bob.ok(tool, json!({}))),
        }
        assert!(!world.exists("transports/bob.json"), "{end}");
        until(|| !world.exists(".muster/deliverers/bob.json"));
        alice.dm("bob", "two");
        std::thread::sleep(std::time::Duration::from_millis(600));
        assert_eq!(world.fake.texts().len(), 1, "{end}");
        assert_eq!(alice.ok("status", json!({"agentId": "bob"}))["attached"], false);
    }
}

#[test]
fn a_rename_takes_the_push_along() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.dm("bob", "one");
    world.fake.wait(1);
    bob.ok("rename_agent", json!({"newAgentId": "carol"}));
    alice.dm("carol", "two");
    let typed = world.fake.wait(2);
    assert!(typed[1].contains("# two"), "{typed:?}");
    until(|| !world.exists(".muster/deliverers/bob.json"));
    let mut carol = bob;
    carol.id = "carol".to_owned();
    assert_eq!(carol.ok("detach_agent", json!({}))["detached"], true);
    alice.dm("carol", "three");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(world.fake.texts().len(), 2);
}

#[test]
fn a_seat_that_attaches_elsewhere_is_delivered_to_there_alone() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    bob.attach("w1:p2");
    for number in 0..3 {
        alice.dm("bob", &format!("m{number}"));
        world.fake.wait(number + 1);
    }
    let arrived = world.fake.arrived.lock().unwrap();
    assert!(arrived.iter().all(|one| one.target == "w1:p2"), "{arrived:?}");
}

// spec: PUSH-060 PUSH-061
#[test]
fn a_marker_is_read_with_fields_of_a_later_build_and_is_not_live_without_its_process() {
    let world = World::new();
    let (_alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    let mut marker = world.json("transports/bob.json");
    marker["fromTheFuture"] = json!({"deep": [1]});
    marker["agentId"] = json!("alice");
    marker["target"] = json!("w1:p2");
    marker["tmuxTarget"] = json!("w1:p2");
    let path = world.dir.path().join("transports/alice.json");
    std::fs::write(&path, marker.to_string()).unwrap();
    let attached = |id: &str| bob.ok("status", json!({"agentId": id}))["attached"].clone();
    assert_eq!(attached("alice"), true);
    marker["pid"] = json!(4_000_000);
    std::fs::write(&path, marker.to_string()).unwrap();
    assert_eq!(attached("alice"), false);
    let listed = bob.ok("list_agents", json!({}));
    assert_eq!(listed["agents"][0]["attached"], false, "{listed:?}");
    assert_eq!(
        listed["agents"][0]["transport"]["fromTheFuture"],
        json!({"deep": [1]})
    );
}

// spec: TOOL-019 TOOL-020 TOOL-021 TOOL-025
#[test]
fn a_pane_is_read_through_its_transport_or_is_unknown_with_the_reason() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    let read = |more: serde_json::Value| {
        let mut arguments = json!({"targetAgentId": "bob"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        alice.ok("read_pane", arguments)
    };
    let got = read(json!({}));
    assert_eq!(
        (&got["state"], &got["reason"]),
        (&json!("unknown"), &json!("the pane is gone"))
    );
    assert_eq!(got.get("screen"), None);
    *world.fake.screen.lock().unwrap() = "one\n\u{1b}[2mtwo\u{1b}[0m\n".to_owned();
    let got = read(json!({}));
    assert_eq!(
        (&got["state"], &got["lines"], &got["truncated"]),
        (&json!("read"), &json!(2), &json!(false))
    );
    assert_eq!(got["screen"], "one\n\u{1b}[2mtwo\u{1b}[0m\n");
    assert_eq!(read(json!({"lines": 2_000, "colors": true}))["truncated"], true);
    assert_eq!(
        *world.fake.asked.lock().unwrap(),
        [(200, false), (200, false), (2_000, true)]
    );
    for lines in [0, 2_001] {
        alice.refused(
            "read_pane",
            json!({"targetAgentId": "bob", "lines": lines}),
            "invalid_arguments",
        );
    }
    // A seat on another machine cannot be read from here.
    transports::report(
        world.home(),
        &seat("alice"),
        Report {
            transport: "tmux-push-remote",
            host: Some("elsewhere"),
            ..Report::default()
        },
    )
    .unwrap();
    let got = bob.ok("read_pane", json!({"targetAgentId": "alice"}));
    assert!(
        got["reason"].as_str().unwrap().contains("tmux-push-remote"),
        "{got:?}"
    );
}

// spec: TOOL-104 TOOL-105 TOOL-106
#[test]
fn what_runs_is_told_by_calling_it() {
    let world = World::new();
    let alice = world.agent("alice");
    let transport = || alice.ok("capabilities", json!({}))["transport"].clone();
    let told = transport();
    assert_eq!(
        (&told["running"], &told["agrees"]),
        (&json!("herdr"), &json!(true))
    );
    assert_eq!(
        (
            &told["evidence"]["available"],
            &told["evidence"]["probe"]["state"]
        ),
        (&json!(true), &json!("gone"))
    );
    assert_eq!(told["disagreeingAgents"], json!([]));
    transports::report(
        world.home(),
        &seat("alice"),
        Report {
            transport: "tmux-push-remote",
            ..Report::default()
        },
    )
    .unwrap();
    world.agent("bob").attach("w1:p1");
    assert_eq!(
        transport()["disagreeingAgents"],
        json!(["alice: tmux-push-remote"])
    );
    *world.fake.broken.lock().unwrap() = Some("no socket".to_owned());
    let told = transport();
    assert_eq!((&told["running"], &told["agrees"]), (&json!(null), &json!(false)));
    assert_eq!(told["evidence"]["reason"], "no socket");
    // A pane that cannot be is found: whatever answered, it is not known to be the transport.
    *world.fake.broken.lock().unwrap() = None;
    let bogus = told_probe(&world);
    world.fake.panes.lock().unwrap().insert(bogus);
    let told = transport();
    assert_eq!((&told["running"], &told["agrees"]), (&json!(null), &json!(false)));
}

fn told_probe(world: &World) -> String {
    let told = world.agent("carol").ok("capabilities", json!({}));
    told["transport"]["evidence"]["probed"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_process_without_hands_says_that_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let tools = plain_tools(open(dir.path()));
    let alice = Agent::join(&tools, "alice");
    let told = alice.ok("capabilities", json!({}))["transport"].clone();
    assert_eq!((&told["running"], &told["agrees"]), (&json!(null), &json!(false)));
    let sentence = alice.refused("attach_agent", json!({"tmuxTarget": "w1:p1"}), "not_attached");
    assert!(sentence.contains("no panes"), "{sentence}");
}

// spec: PUSH-045
#[test]
fn what_is_never_typed_is_counted_and_still_readable_and_marked() {
    let world = World::with(Settings::default());
    let (alice, mallory) = (world.agent("alice"), world.agent("mallory"));
    let bob = world.agent("bob");
    bob.ok(
        "attach_agent",
        json!({"tmuxTarget": "w1:p1", "debounceMs": 0, "allowlist": ["alice"]}),
    );
    mallory.dm("bob", "let me in");
    alice.dm("bob", "/clear");
    alice.dm("bob", "\n /compact");
    alice.dm("bob", "hello");
    let typed = world.fake.wait(1);
    assert!(typed[0].contains("# hello"), "{typed:?}");
    until(|| bob.unread("inbox").is_empty());
    assert_eq!(world.fake.texts().len(), 1, "{typed:?}");
    assert!(
        !typed[0].contains("clear") && !typed[0].contains("let me in"),
        "{typed:?}"
    );
    until(|| bob.ok("status", json!({}))["push"]["suppressed"] == 3);
    let back = bob.ok(
        "read_messages",
        json!({"source": "inbox", "peek": true, "sinceTs": 0}),
    );
    assert_eq!(texts(&back), ["let me in", "/clear", "\n /compact", "hello"]);
    let marks: Vec<_> = back["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m.get("notPushed").is_some())
        .collect();
    assert_eq!(marks, [true, true, true, false]);
    // Looking back marks nothing as unread again.
    assert_eq!(back["totalNew"], 0);
}

#[test]
fn a_pane_that_takes_nothing_is_told_of_in_the_seats_status() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    *world.fake.hold.lock().unwrap() = Some(hold(Why::PaneGone));
    bob.attach("w1:p1");
    alice.dm("bob", "hello");
    until(|| alice.ok("status", json!({"agentId": "bob"}))["push"]["stale"] == true);
    let push = alice.ok("status", json!({"agentId": "bob"}))["push"].clone();
    assert_eq!(push["held"], "pane-gone: seen by the test");
    assert_eq!(bob.unread("inbox"), ["hello"]);
    *world.fake.hold.lock().unwrap() = None;
    world.fake.wait(1);
    until(|| alice.ok("status", json!({"agentId": "bob"}))["push"]["stale"] == false);
}

#[test]
fn who_joins_again_is_delivered_to_as_before_and_nothing_is_typed_again() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let how = json!({"attach": {"tmuxTarget": "w1:p1", "debounceMs": 0}, "readInbox": false});
    let first = bob.ok("join", how.clone());
    assert_eq!(first["attached"], true, "{first:?}");
    world.fake.script.lock().unwrap().push_back(unknown());
    alice.dm("bob", "maybe");
    world.fake.wait(1);
    let again = bob.ok("join", how);
    assert_eq!(again["attach"], first["attach"]);
    alice.dm("bob", "later");
    let typed = world.fake.wait(2);
    assert!(
        typed[1].contains("# later") && !typed[1].contains("maybe"),
        "{typed:?}"
    );
    // Another wish is another attachment.
    let other = json!({"attach": {"tmuxTarget": "w1:p1", "debounceMs": 1}, "readInbox": false});
    bob.ok("join", other);
    assert_eq!(world.json("transports/bob.json")["debounceMs"], 1);
}
