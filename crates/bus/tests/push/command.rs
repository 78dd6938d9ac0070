//! Commands for other agents' own programs, their receipts, and the reminder after `/clear`.

use std::time::{Duration, Instant};

use muster_bus::push::{ControlCommand, Settings, Why};
use muster_bus::transports::{self, Report};
use serde_json::{Value, json};

use crate::support::{Agent, Typed, World, hold, seat, unknown, until};

/// A lead and an agent that is attached.
fn pair(world: &World) -> (Agent, Agent) {
    let (lead, bob) = (world.agent("lead"), world.agent("bob"));
    bob.attach("w1:p1");
    (lead, bob)
}

/// A seat that says it is attached somewhere else; nobody types for it unless the test does.
fn remote(world: &World, id: &str) -> Agent {
    let agent = world.agent(id);
    let report = Report {
        transport: "tmux-push-remote",
        host: Some("elsewhere"),
        ..Report::default()
    };
    transports::report(world.home(), &seat(id), report).unwrap();
    agent
}

fn clear(more: Value) -> Value {
    let mut arguments = json!({"to": "bob", "command": "/clear"});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    arguments
}

fn commands(world: &World) -> Vec<ControlCommand> {
    let arrived = world.fake.arrived.lock().unwrap();
    let typed = arrived.iter().filter_map(|one| match one.what {
        Typed::Command(command) => Some(command),
        Typed::Text(_) => None,
    });
    typed.collect()
}

// spec: CMD-001 CMD-003 CMD-005 CMD-006 CMD-020 CMD-021 CMD-027 CMD-030 PUSH-022
#[test]
fn each_command_is_typed_as_it_is_and_confirmed_by_a_receipt_that_no_agent_sees() {
    let world = World::new();
    let (lead, bob) = pair(&world);
    for (number, command) in ["/clear", "/compact", "/reload-skills"].into_iter().enumerate() {
        assert_eq!(world.file("receipts/bob.jsonl").lines().count(), number);
        let begun = Instant::now();
        let said = lead.ok(
            "send_command",
            json!({"to": "bob", "command": command, "reminderMs": 0}),
        );
        assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
        assert_eq!(
            (&said["delivery"], &said["command"]),
            (&json!("confirmed"), &json!(command))
        );
        assert_eq!(said.get("warning"), None, "{said:?}");
        assert_eq!(world.fake.texts()[number], command);
        let receipt: Value =
            serde_json::from_str(world.file("receipts/bob.jsonl").lines().last().unwrap()).unwrap();
        assert_eq!(
            (&receipt["id"], &receipt["ts"]),
            (&said["id"], &said["deliveredAt"])
        );
        assert_eq!(
            (
                &receipt["from"],
                &receipt["control"],
                &receipt["submitted"],
                &receipt["verified"],
                &receipt["door"]
            ),
            (
                &json!("lead"),
                &json!(true),
                &json!(true),
                &json!(true),
                &json!("paste")
            )
        );
        assert_eq!(receipt["build"], world.json("transports/bob.json")["build"]);
    }
    assert_eq!(commands(&world), ControlCommand::ALL);
    let inbox: Vec<Value> = world
        .file("inbox/bob.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(inbox.len(), 3);
    assert!(
        inbox.iter().all(|message| message["control"] == true),
        "{inbox:?}"
    );
    assert_eq!(world.file("room.jsonl") + &world.file("inbox/lead.jsonl"), "");
    until(|| bob.unread("inbox").is_empty());
    // The same as chat is chat, and is not typed.
    lead.dm("bob", "/clear");
    let last = world.file("inbox/bob.jsonl").lines().last().unwrap().to_owned();
    assert!(!last.contains("control"), "{last}");
    until(|| bob.unread("inbox").is_empty());
    assert_eq!(world.fake.texts().len(), 3);
}

// spec: CMD-003 CMD-004 CMD-010 CMD-014
#[test]
fn what_is_not_exactly_a_command_for_somebody_is_refused_and_not_written() {
    let world = World::new();
    let (lead, _bob) = pair(&world);
    for arguments in [
        json!({"to": "bob", "command": "/help"}),
        json!({"to": "bob", "command": "/clear now"}),
        json!({"to": "bob", "command": "/clear "}),
        json!({"to": "bob", "command": " /clear"}),
        json!({"to": "bob", "command": "/CLEAR"}),
        json!({"to": "bob", "command": "clear"}),
        json!({"to": "bob", "command": "/clear\n/compact"}),
        json!({"to": "bob", "command": ""}),
        json!({"command": "/clear"}),
        json!({"to": "bob", "room": "general", "command": "/clear"}),
        json!({"to": "lead", "command": "/clear"}),
        clear(json!({"reminderMs": 120_000})),
        clear(json!({"deliveryTimeoutMs": 0})),
        clear(json!({"deliveryTimeoutMs": 60_001})),
        clear(json!({"reminderText": " "})),
        clear(json!({"reminderText": "\n/compact"})),
    ] {
        lead.refused("send_command", arguments, "invalid_arguments");
    }
    assert_eq!(world.file("inbox/bob.jsonl"), "");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(world.fake.texts().len(), 0);
}

// spec: CMD-007
#[test]
fn a_command_for_a_seat_without_a_live_pane_is_refused_and_not_written() {
    let world = World::new();
    let (lead, _bob) = (world.agent("lead"), world.agent("bob"));
    let ask = || lead.call("send_command", clear(json!({}))).body;
    let said = ask();
    assert_eq!(
        (&said["ok"], &said["code"], &said["skipped"]["bob"]),
        (&json!(false), &json!("not_attached"), &json!("not attached"))
    );
    let put = |kind: &str, pid: u32| {
        let marker = json!({"agentId": "bob", "transport": kind, "pid": pid, "target": "w1:p1", "tmuxTarget": "w1:p1", "since": 1});
        let path = world.dir.path().join("transports");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("bob.json"), marker.to_string()).unwrap();
    };
    put("herdr", 4_000_000);
    assert_eq!(ask()["skipped"]["bob"], "its transport is gone");
    put("tmux-push", std::process::id());
    assert!(ask()["skipped"]["bob"].as_str().unwrap().contains("kind"));
    assert_eq!(world.file("inbox/bob.jsonl"), "");
}

// spec: CMD-002 CMD-008 CMD-009 CMD-016
#[test]
fn a_channel_form_reaches_attached_members_lists_the_others_and_never_its_sender() {
    let world = World::new();
    let (lead, bob) = pair(&world);
    lead.attach("w1:p9");
    let (carol, dave, erin) = (world.agent("carol"), world.agent("dave"), world.agent("erin"));
    carol.attach("w1:p2");
    erin.attach("w1:p3");
    for agent in [&lead, &bob, &carol, &dave] {
        agent.ok("join_room", json!({"room": "crew"}));
    }
    let said = lead.ok(
        "send_command",
        json!({"room": "#crew", "command": "/clear", "reminderMs": 200}),
    );
    assert_eq!(
        (&said["delivery"], &said["confirmed"]),
        (&json!("confirmed"), &json!(["bob", "carol"]))
    );
    assert_eq!(said["skipped"], json!({"dave": "not attached"}));
    assert_eq!(said.get("pending"), None);
    let mut targets: Vec<String> = world
        .fake
        .arrived
        .lock()
        .unwrap()
        .iter()
        .filter(|one| one.what == Typed::Command(ControlCommand::Clear))
        .map(|one| one.target.clone())
        .collect();
    targets.sort();
    assert_eq!(targets, ["w1:p1", "w1:p2"]);
    let typed = world.fake.wait(4);
    for id in ["bob", "carol"] {
        assert_eq!(
            typed
                .iter()
                .filter(|typed| typed.contains(&format!("You are '{id}'")))
                .count(),
            1,
            "{typed:?}"
        );
    }
}

// spec: CMD-011 CMD-012 CMD-018 PUSH-023
#[test]
fn after_a_clear_its_agent_is_told_who_it_is_whoever_it_listens_to() {
    let world = World::new();
    let (lead, bob) = (world.agent("lead"), world.agent("bob"));
    bob.ok(
        "attach_agent",
        json!({"tmuxTarget": "w1:p1", "debounceMs": 0, "allowlist": ["lead"]}),
    );
    let said = lead.ok("send_command", clear(json!({})));
    assert_eq!(said["delivery"], "confirmed");
    // Its own list no longer names the sender; a notice of the bus passes all the same.
    let typed = world.fake.wait(2);
    let arrived = world.fake.arrived.lock().unwrap();
    let after = arrived[1].at - arrived[0].at;
    assert!(
        (Duration::from_millis(2_900)..Duration::from_secs(8)).contains(&after),
        "{after:?}"
    );
    for part in [
        "lead cleared your context",
        "You are 'bob'",
        "status",
        "list_rooms",
    ] {
        assert!(typed[1].contains(part), "{typed:?}");
    }
    let row: Value = serde_json::from_str(world.file("inbox/bob.jsonl").lines().last().unwrap()).unwrap();
    assert_eq!((&row["urgent"], &row["to"]), (&json!(true), &json!("bob")));
}

// spec: CMD-013 CMD-015 CMD-017
#[test]
fn the_reminder_is_what_its_sender_says_or_none_and_other_commands_have_none() {
    let world = World::new();
    let (lead, bob) = pair(&world);
    lead.ok("send_command", clear(json!({"reminderMs": 0})));
    lead.ok(
        "send_command",
        json!({"to": "bob", "command": "/compact", "reminderMs": 100}),
    );
    lead.ok(
        "send_command",
        json!({"to": "bob", "command": "/reload-skills", "reminderMs": 100}),
    );
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(world.fake.texts().len(), 3, "none came");
    let begun = Instant::now();
    lead.ok(
        "send_command",
        clear(json!({"reminderMs": 600, "reminderText": "do issue 7 next"})),
    );
    let typed = world.fake.wait(5);
    assert!(begun.elapsed() >= Duration::from_millis(600));
    assert!(
        typed[4].contains("# do issue 7 next") && !typed[4].contains("You are"),
        "{typed:?}"
    );
    until(|| bob.unread("inbox").is_empty());
}

// spec: CMD-019 CMD-022 CMD-023 CMD-026
#[test]
fn without_a_receipt_the_answer_is_pending_with_a_warning_and_no_reminder_comes() {
    let world = World::new();
    let (lead, _bob) = pair(&world);
    *world.fake.hold.lock().unwrap() = Some(hold(Why::Draft));
    let begun = Instant::now();
    let said = lead.ok(
        "send_command",
        clear(json!({"deliveryTimeoutMs": 1_000, "reminderMs": 1})),
    );
    let took = begun.elapsed();
    assert!(
        (Duration::from_millis(990)..Duration::from_secs(5)).contains(&took),
        "{took:?}"
    );
    assert_eq!(
        (&said["delivery"], said.get("deliveredAt")),
        (&json!("pending"), None)
    );
    let warning = said["warning"].as_str().unwrap();
    for part in ["doctor", "attach", "draft: seen by the test"] {
        assert!(warning.contains(part), "{warning}");
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        world.file("inbox/bob.jsonl").lines().count(),
        1,
        "no reminder for what was not cleared"
    );
    // It comes when the command was typed after all.
    *world.fake.hold.lock().unwrap() = None;
    let typed = world.fake.wait(2);
    assert_eq!(typed[0], "/clear");
    assert!(typed[1].contains("You are 'bob'"), "{typed:?}");
}

mod usual {
    use super::*;

    // spec: CMD-022 CMD-025
    #[test]
    fn the_usual_wait_is_eight_seconds_and_none_at_all_if_the_caller_wants_none() {
        let world = World::new();
        let lead = world.agent("lead");
        remote(&world, "bob");
        let begun = Instant::now();
        let said = lead.ok("send_command", clear(json!({"waitForDelivery": false})));
        assert!(begun.elapsed() < Duration::from_secs(7));
        assert_eq!(
            (&said["delivery"], said.get("warning")),
            (&json!("pending"), None)
        );
        let begun = Instant::now();
        let said = lead.ok("send_command", clear(json!({})));
        let took = begun.elapsed();
        assert!(
            (Duration::from_millis(7_900)..Duration::from_secs(14)).contains(&took),
            "{took:?}"
        );
        assert_eq!(said["delivery"], "pending");
    }
}

// spec: CMD-024 CMD-028 CMD-032
#[test]
fn a_channel_form_tells_confirmed_from_pending_and_notes_strange_builds() {
    let world = World::new();
    let (lead, _bob) = pair(&world);
    let carol = remote(&world, "carol");
    remote(&world, "dave");
    let pusher = std::thread::spawn({
        let carol = carol.clone();
        move || confirm(&carol, Some("an-older-build"))
    });
    let said = lead.ok(
        "send_command",
        json!({"room": "general", "command": "/compact", "deliveryTimeoutMs": 1_500}),
    );
    pusher.join().unwrap();
    assert_eq!(
        (&said["delivery"], &said["confirmed"], &said["pending"]),
        (&json!("partial"), &json!(["bob", "carol"]), &json!(["dave"]))
    );
    assert_eq!(said["notes"].get("bob"), None);
    assert!(
        said["notes"]["carol"]
            .as_str()
            .unwrap()
            .contains("an-older-build"),
        "{said:?}"
    );
    assert!(
        said["notes"]["dave"].as_str().unwrap().contains("doctor"),
        "{said:?}"
    );
}

/// What a pusher elsewhere does with the first command it finds.
fn confirm(pusher: &Agent, build: Option<&str>) {
    let known = pusher.ok("pending_messages", json!({"holder": "p1", "includeRoom": false}));
    let ask = json!({"holder": "p1", "includeRoom": false, "waitMs": 10_000, "seen": known["seen"]});
    let mut found = known;
    if found["sources"] == json!([]) {
        found = pusher.ok("pending_messages", ask);
    }
    let message = &found["sources"][0]["entries"][0];
    assert_eq!(message["control"], true, "{found:?}");
    let mut receipt = json!({"id": message["id"], "from": message["from"], "control": true, "submitted": true, "verified": true, "door": "keys"});
    if let Some(build) = build {
        receipt["build"] = json!(build);
    }
    pusher.ok("report_receipt", receipt);
}

// spec: CMD-031 CMD-033
#[test]
fn a_confirmation_by_another_build_or_by_one_that_does_not_say_stays_one_with_a_warning() {
    for (build, part) in [
        (Some("an-older-build"), "build an-older-build"),
        (None, "does not say which it is"),
    ] {
        let world = World::new();
        let lead = world.agent("lead");
        let bob = remote(&world, "bob");
        let pusher = std::thread::spawn(move || confirm(&bob, build));
        let said = lead.ok("send_command", json!({"to": "bob", "command": "/compact"}));
        pusher.join().unwrap();
        assert_eq!(said["delivery"], "confirmed");
        assert!(said["warning"].as_str().unwrap().contains(part), "{said:?}");
    }
}

#[test]
fn a_command_that_may_have_been_typed_is_pending_says_so_and_is_not_typed_again() {
    let world = World::new();
    let (lead, bob) = pair(&world);
    world.fake.script.lock().unwrap().push_back(unknown());
    let begun = Instant::now();
    let said = lead.ok("send_command", clear(json!({"reminderMs": 0})));
    assert!(
        begun.elapsed() < Duration::from_secs(7),
        "it does not wait for what will not come"
    );
    assert_eq!(said["delivery"], "pending");
    let warning = said["warning"].as_str().unwrap();
    assert!(
        warning.contains("may have been typed") && warning.contains("the pane did not say"),
        "{warning}"
    );
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(world.fake.texts().len(), 1);
    assert_eq!(bob.unread("inbox"), ["/clear"]);
}

#[test]
fn a_command_of_somebody_the_seat_does_not_allow_is_refused_at_once() {
    let world = World::new();
    let (lead, bob) = (world.agent("lead"), world.agent("bob"));
    bob.ok(
        "attach_agent",
        json!({"tmuxTarget": "w1:p1", "debounceMs": 0, "allowlist": ["carol"]}),
    );
    let begun = Instant::now();
    let sentence = lead.refused("send_command", clear(json!({"reminderMs": 1})), "not_delivered");
    assert!(
        sentence.contains("allowlist") && begun.elapsed() < Duration::from_secs(7),
        "{sentence}"
    );
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(world.fake.texts().len(), 0, "no reminder either");
}

#[test]
fn a_command_is_typed_in_its_place_among_the_messages() {
    let world = World::new();
    let (lead, bob) = (world.agent("lead"), world.agent("bob"));
    *world.fake.hold.lock().unwrap() = Some(hold(Why::Busy));
    bob.attach("w1:p1");
    lead.dm("bob", "before");
    lead.ok(
        "send_command",
        clear(json!({"waitForDelivery": false, "reminderMs": 0})),
    );
    lead.dm("bob", "after");
    *world.fake.hold.lock().unwrap() = None;
    let typed = world.fake.wait(3);
    assert!(
        typed[0].contains("# before") && !typed[0].contains("after"),
        "{typed:?}"
    );
    assert_eq!(typed[1], "/clear");
    assert!(typed[2].contains("# after"), "{typed:?}");
}

#[test]
fn a_caller_that_goes_away_ends_its_wait_and_the_command_is_typed_all_the_same() {
    let world = World::new();
    let (lead, _bob) = pair(&world);
    *world.fake.hold.lock().unwrap() = Some(hold(Why::Busy));
    let begun = Instant::now();
    let wanted = || begun.elapsed() < Duration::from_millis(300);
    let said = lead.call_while("send_command", clear(json!({"reminderMs": 0})), &wanted);
    assert_eq!(
        (&said.body["ok"], &said.body["cancelled"]),
        (&json!(false), &json!(true))
    );
    assert!(said.body["id"].is_string());
    *world.fake.hold.lock().unwrap() = None;
    assert_eq!(world.fake.wait(1), ["/clear"]);
}

// spec: CMD-029
#[test]
fn receipts_of_this_kind_are_trimmed_like_others() {
    let world = World::with(Settings::default());
    let (lead, _bob) = pair(&world);
    lead.ok("send_command", clear(json!({"reminderMs": 0})));
    assert_eq!(world.file("receipts/bob.jsonl").lines().count(), 1);
    std::thread::sleep(Duration::from_millis(200));
    // A tenth of a second, in days.
    let aged = json!({"targets": ["receipts"], "olderThanDays": 0.1 / 86_400.0});
    lead.ok("prune", aged);
    assert_eq!(world.file("receipts/bob.jsonl"), "");
}

#[test]
fn a_command_that_its_receipt_says_was_typed_is_never_typed_again_whatever_became_of_the_cursor() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    let send = json!({"to": "bob", "command": "/clear", "reminderMs": 0});
    let confirmed = alice.ok("send_command", send.clone());
    assert_eq!(confirmed["delivery"], "confirmed");
    // Of the second nobody can tell whether it was typed.
    world.fake.script.lock().unwrap().push_back(unknown());
    assert_eq!(alice.ok("send_command", send)["delivery"], "pending");
    assert_eq!(world.fake.texts(), ["/clear", "/clear"]);
    bob.ok("detach_agent", json!({}));
    let receipts = world.file("receipts/bob.jsonl");
    std::fs::write(world.dir.path().join("cursors/bob.json"), "{").unwrap();
    bob.attach("w1:p1");
    alice.dm("bob", "after the damage");
    until(|| {
        world
            .fake
            .texts()
            .iter()
            .any(|text| text.contains("after the damage"))
    });
    assert_eq!(world.fake.texts()[..2], ["/clear", "/clear"]);
    assert_eq!(world.fake.texts().len(), 3, "{:?}", world.fake.texts());
    assert_eq!(
        world.file("receipts/bob.jsonl"),
        receipts,
        "what its sender was told stands"
    );
    // What was read for sure counts as read again; what is not known does not.
    until(|| {
        bob.unread("inbox").first().is_some_and(|text| text == "/clear") && bob.unread("inbox").len() == 2
    });
}
