//! The three tools of a pusher on another machine.

use std::time::{Duration, Instant};

use muster_bus::Home;
use muster_bus::limits::{Bound, Limits};
use muster_bus::push::Pending;
use muster_bus::tools::{self, Called, Waiting};
use muster_core::Clock;
use serde_json::{Value, json};

use crate::support::{Agent, World, plain_tools, told, until};

fn parse(body: &serde_json::Map<String, Value>) -> Pending {
    serde_json::from_value(Value::Object(body.clone())).unwrap()
}

#[test]
fn a_pushers_tools_are_served_and_stand_in_no_agents_context() {
    let listed: Vec<&str> = tools::all().iter().map(|spec| spec.name).collect();
    for name in ["pending_messages", "ack_messages", "report_receipt"] {
        assert!(tools::exists(name) && !listed.contains(&name), "{name}");
    }
    assert!(!tools::exists("pending"));
}

#[test]
fn what_is_unread_comes_without_being_marked_and_is_marked_by_what_was_delivered() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.ok("register", json!({"role": "QA"}));
    for text in ["one", "two", "three"] {
        alice.dm("bob", text);
    }
    alice.post("general", "FYI: x");
    let ask = |more: Value| {
        let mut arguments = json!({"holder": "p1"});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        bob.ok("pending_messages", arguments)
    };
    let body = ask(json!({}));
    let pending = parse(&body);
    let texts = |at: usize| -> Vec<&str> {
        let entries = pending.sources[at].entries.iter();
        entries.map(|entry| entry["text"].as_str().unwrap()).collect()
    };
    assert_eq!(
        (pending.sources[0].source.as_str(), texts(0)),
        ("inbox", vec!["one", "two", "three"])
    );
    assert_eq!(
        (pending.sources[1].source.as_str(), texts(1)),
        ("#general", vec!["FYI: x"])
    );
    assert!(pending.gate_runner && !pending.ci && pending.now > 0);
    assert_eq!(
        (pending.trusted, pending.other_deliverer),
        (vec!["bob".to_owned()], None)
    );
    assert_eq!(bob.unread("inbox").len(), 3);
    assert_eq!(parse(&ask(json!({"includeRoom": false}))).sources.len(), 1);

    let second = pending.sources[0].entries[1]["id"].clone();
    let acked = |arguments: Value| bob.ok("ack_messages", arguments)["acked"].clone();
    assert_eq!(acked(json!({"source": "inbox", "upTo": second})), true);
    assert_eq!(bob.unread("inbox"), ["three"]);
    // Once more, and for what never was: nothing moves.
    assert_eq!(acked(json!({"source": "inbox", "upTo": second})), false);
    assert_eq!(acked(json!({"source": "inbox", "upTo": "nonsense"})), false);
    assert_eq!(bob.unread("inbox"), ["three"]);
    let post = pending.sources[1].entries[0]["id"].clone();
    assert_eq!(
        acked(json!({"source": "room", "room": "general", "upTo": post})),
        true
    );
    assert!(bob.unread("#general").is_empty());
    bob.refused(
        "ack_messages",
        json!({"source": "status", "upTo": "x"}),
        "invalid_arguments",
    );
}

#[test]
fn a_pusher_waits_for_what_it_does_not_know_and_no_longer_than_it_said() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    alice.dm("bob", "one");
    let first = bob.ok("pending_messages", json!({"holder": "p1", "waitMs": 30_000}));
    let ask = json!({"holder": "p1", "waitMs": 700, "seen": first["seen"]});
    let begun = Instant::now();
    let same = bob.ok("pending_messages", ask.clone());
    let took = begun.elapsed();
    assert!(
        (Duration::from_millis(690)..Duration::from_secs(3)).contains(&took),
        "{took:?}"
    );
    assert_eq!(same["seen"], first["seen"]);
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        alice.dm("bob", "two");
    });
    let begun = Instant::now();
    let mut ask = ask;
    ask["waitMs"] = json!(30_000);
    let more = parse(&bob.ok("pending_messages", ask));
    later.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert_eq!(more.sources[0].entries.len(), 2);
}

// spec: PUSH-042
#[test]
fn a_seat_has_one_deliverer_wherever_it_is() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let ask = |holder: &str| parse(&bob.ok("pending_messages", json!({"holder": holder})));
    assert_eq!(ask("p1").other_deliverer, None);
    assert_eq!(ask("p2").other_deliverer, Some("p1".to_owned()));
    // In this process too: while somebody elsewhere delivers, nothing is typed here.
    bob.attach("w1:p1");
    alice.dm("bob", "hello");
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(world.fake.tried.lock().unwrap().len(), 0);
    assert_eq!(ask("p2").sources.len(), 0);
    // The pusher that ends says so; this process has its turn.
    bob.ok("clear_transport", json!({}));
    bob.attach("w1:p1");
    world.fake.wait(1);
    assert!(ask("p1").other_deliverer.is_some());
}

#[test]
fn a_pusher_says_how_it_stands_and_only_the_one_that_delivers_is_heard() {
    let world = World::new();
    let bob = world.agent("bob");
    let say = |holder: &str, held: &str| {
        let standing = json!({"suppressed": 2, "held": held, "stale": true});
        bob.ok(
            "pending_messages",
            json!({"holder": holder, "standing": standing}),
        )
    };
    bob.ok("pending_messages", json!({"holder": "p1"}));
    say("p1", "pane-gone: x");
    say("p2", "nonsense");
    let push = bob.ok("status", json!({}))["push"].clone();
    assert_eq!(
        (&push["held"], &push["suppressed"], &push["stale"]),
        (&json!("pane-gone: x"), &json!(2), &json!(true))
    );
    until(|| bob.ok("status", json!({}))["push"]["held"] == "pane-gone: x");
    // It stays with the lease when that is renewed.
    bob.ok("pending_messages", json!({"holder": "p1"}));
    assert_eq!(bob.ok("status", json!({}))["push"]["suppressed"], 2);
}

#[test]
fn nobody_reads_acknowledges_or_reports_for_another() {
    let world = World::new();
    let (alice, mallory) = (world.agent("alice"), world.agent("mallory"));
    mallory.dm("alice", "x");
    for (tool, arguments) in [
        ("pending_messages", json!({"agentId": "alice", "holder": "p1"})),
        (
            "ack_messages",
            json!({"agentId": "alice", "source": "inbox", "upTo": "x"}),
        ),
        (
            "report_receipt",
            json!({"agentId": "alice", "id": "m1", "from": "bob", "submitted": true}),
        ),
    ] {
        mallory.refused(tool, arguments, "identity_bound");
    }
    assert_eq!(alice.unread("inbox"), ["x"]);
    assert!(!world.exists("receipts/alice.jsonl"));
    assert!(!world.exists(".muster/deliverers/alice.json"));
}

#[test]
fn what_was_delivered_is_noted_though_the_channel_was_cut_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let small = Bound { max: 10, keep: 5 };
    let limits = Limits {
        room: small,
        status: small,
    };
    let tools = plain_tools(Home::open(dir.path(), limits, Clock::system()).unwrap());
    let (alice, bob) = (Agent::join(&tools, "alice"), Agent::join(&tools, "bob"));
    let post = |from: usize, to: usize| (from..to).for_each(|n| alice.post("seo", &format!("m{n}")));
    bob.ok("join_room", json!({"room": "seo"}));
    post(0, 8);
    let pending = parse(&bob.ok("pending_messages", json!({"holder": "p1"})));
    let seo = pending
        .sources
        .iter()
        .find(|source| source.source == "#seo")
        .unwrap();
    let last = seo.entries.last().unwrap().clone();
    assert_eq!(last["text"], "m7");
    post(8, 12);
    let ack = |entry: &Value| {
        bob.ok(
            "ack_messages",
            json!({"source": "room", "room": "seo", "upTo": entry}),
        )
    };
    assert_eq!(ack(&last["id"])["acked"], true);
    assert_eq!(bob.unread("#seo"), ["m8", "m9", "m10", "m11"]);
    // What is in the archive by now cannot be marked, and nothing else is.
    let first = seo.entries.iter().find(|entry| entry["text"] == "m0").unwrap();
    assert_eq!(ack(&first["id"])["acked"], false);
    assert_eq!(bob.unread("#seo").len(), 4);
}

/// A wait that has looked once and found nothing.
fn waiting(world: &World, agent: &Agent, tool: &str, arguments: Value) -> Waiting {
    let Called::Wait(mut waiting) = agent.begin(tool, arguments) else {
        panic!("{tool} waits");
    };
    assert!(waiting.read(&world.tools, &|| true).is_none(), "{tool}");
    assert!(!waiting.grew());
    *waiting
}

#[test]
fn who_waits_is_told_of_what_it_waits_for_and_need_not_look() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.ok(
        "report_transport",
        json!({"transport": "tmux-push-remote", "host": "elsewhere", "tmuxTarget": "%1"}),
    );
    let mut receipts = waiting(
        &world,
        &alice,
        "send_command",
        json!({"to": "bob", "command": "/compact"}),
    );
    let known = bob.ok("pending_messages", json!({"holder": "p1"}));
    let id = known["sources"][0]["entries"][0]["id"].clone();
    let ask = json!({"holder": "p1", "waitMs": 60_000, "seen": known["seen"]});
    let mut unread = waiting(&world, &bob, "pending_messages", ask.clone());
    let other = std::thread::spawn({
        let bob = bob.clone();
        move || {
            std::thread::sleep(Duration::from_millis(200));
            bob.ok(
                "report_receipt",
                json!({"id": id, "from": "alice", "control": true, "submitted": true, "build": "b1"}),
            );
            bob.ok("join_room", json!({"room": "seo"}));
        }
    });
    assert!(told(&mut receipts));
    assert!(receipts.grew());
    let answer = receipts.read(&world.tools, &|| true).unwrap();
    assert_eq!(answer.body["delivery"], "confirmed", "{answer:?}");
    // A channel that was joined is a new source.
    assert!(told(&mut unread));
    other.join().unwrap();
    unread.read(&world.tools, &|| true);
    alice.post("seo", "BLOCKER: x");
    assert!(told(&mut unread));
    let answer = unread.read(&world.tools, &|| true).unwrap();
    assert!(
        answer.body["sources"].to_string().contains("BLOCKER: x"),
        "{answer:?}"
    );
}

#[test]
fn a_pusher_that_ends_leaves_what_its_successor_said() {
    let world = World::new();
    let bob = world.agent("bob");
    let report = |pane: &str| json!({"transport": "tmux-push-remote", "host": "elsewhere", "tmuxTarget": pane, "build": "b1"});
    bob.ok("report_transport", report("%1"));
    assert_eq!(world.json("transports/bob.json")["build"], "b1");
    bob.ok("pending_messages", json!({"holder": "p1"}));
    bob.ok("report_transport", report("%2"));
    let clear =
        |pane: &str, holder: &str| bob.ok("clear_transport", json!({"tmuxTarget": pane, "holder": holder}));
    assert_eq!(clear("%1", "p2")["cleared"], false);
    let other = || parse(&bob.ok("pending_messages", json!({"holder": "p3"}))).other_deliverer;
    assert_eq!(other(), Some("p1".to_owned()));
    assert_eq!(clear("%1", "p1")["cleared"], false);
    assert_eq!(world.json("transports/bob.json")["target"], "%2");
    assert_eq!(other(), None);
    assert_eq!(clear("%2", "p3")["cleared"], true);
}
