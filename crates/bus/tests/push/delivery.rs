//! From a message to the pane.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use muster_bus::Mode;
use muster_bus::push::{Settings, Why};

use crate::support::{World, hold, open, unknown, until};

// spec: PUSH-012 PUSH-038 PUSH-058 PUSH-059 TOOL-090 TOOL-093 TOOL-094
#[test]
fn a_direct_message_is_in_the_pane_within_a_moment_and_then_it_is_read() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let said = bob.attach("w1:p1");
    assert!(said["hint"].as_str().unwrap().contains("allowlist"));
    let marker = world.json("transports/bob.json");
    assert_eq!(said["transport"], marker);
    assert_eq!(
        (&marker["target"], &marker["tmuxTarget"]),
        (&json!("w1:p1"), &json!("w1:p1"))
    );
    assert_eq!(
        (&marker["transport"], &marker["pid"]),
        (&json!("herdr"), &json!(std::process::id()))
    );
    assert_eq!(marker["includeRoom"], true, "unless it is told otherwise");
    assert!(
        marker["since"].is_i64() && marker["build"].is_string(),
        "{marker}"
    );

    let begun = Instant::now();
    alice.dm("bob", "how far are you?");
    let typed = world.fake.wait(1);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let arrival = world.fake.arrived.lock().unwrap()[0].clone();
    assert_eq!(arrival.target, "w1:p1");
    let lines: Vec<&str> = typed[0].lines().collect();
    assert!(lines[0].starts_with("[agent-coord] "), "{typed:?}");
    assert!(
        lines[1].starts_with("[DM ") && lines[1].ends_with(" alice]"),
        "{typed:?}"
    );
    assert_eq!(lines[2], "# how far are you?");
    until(|| bob.unread("inbox").is_empty());
}

fn settings(max_queue: Option<u64>) -> Settings {
    Settings {
        max_queue: max_queue.map(Duration::from_millis),
        ..Settings::default()
    }
}

// spec: PUSH-036
#[test]
fn a_burst_is_one_paste() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.ok("attach_agent", json!({"tmuxTarget": "w1:p1"}));
    assert_eq!(world.json("transports/bob.json")["debounceMs"], json!(null));
    let begun = Instant::now();
    for number in 0..5 {
        alice.dm("bob", &format!("m{number}"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let typed = world.fake.wait(1);
    // A second is what messages are gathered for unless the seat says otherwise.
    let took = begun.elapsed();
    assert!(
        (Duration::from_millis(950)..Duration::from_secs(3)).contains(&took),
        "{took:?}"
    );
    for number in 0..5 {
        assert!(typed[0].contains(&format!("# m{number}")), "{typed:?}");
    }
    until(|| bob.unread("inbox").is_empty());
    assert_eq!(world.fake.texts().len(), 1);
}

// spec: PUSH-025 PUSH-028 PUSH-029 PUSH-033
#[test]
fn routine_posts_wait_unread_and_ride_with_the_next_urgent_one() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    for number in 0..3 {
        alice.post("general", &format!("FYI: m{number}"));
    }
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(world.fake.texts().len(), 0);
    assert_eq!(bob.unread("#general").len(), 3);
    alice.post("general", "BLOCKER: stop");
    let typed = world.fake.wait(1);
    let lines: Vec<&str> = typed[0].lines().collect();
    assert_eq!(
        lines[1],
        "[agent-coord] +3 routine (pre-consumed, FYI, no reply):"
    );
    for text in ["# FYI: m0", "# FYI: m1", "# FYI: m2", "# BLOCKER: stop"] {
        assert!(lines.contains(&text), "{typed:?}");
    }
    until(|| bob.unread("#general").is_empty());
    assert_eq!(world.fake.texts().len(), 1);
}

// spec: PUSH-030
#[test]
fn a_backlog_that_waited_long_enough_goes_by_itself() {
    let world = World::with(settings(Some(1_500)));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    let begun = Instant::now();
    alice.post("general", "FYI: m0");
    std::thread::sleep(Duration::from_millis(700));
    alice.post("general", "FYI: m1");
    let typed = world.fake.wait(1);
    let took = begun.elapsed();
    assert!(
        (Duration::from_millis(1_400)..Duration::from_secs(3)).contains(&took),
        "{took:?}"
    );
    assert_eq!(
        typed[0].lines().nth(1),
        Some("[agent-coord] +2 routine (pre-consumed, FYI, no reply):")
    );
    until(|| bob.unread("#general").is_empty());
}

// spec: PUSH-031 PUSH-032
#[test]
fn without_the_age_bound_routine_posts_alone_wake_nobody() {
    let world = World::with(settings(None));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "FYI: m0");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(world.fake.tried.lock().unwrap().len(), 0);
    assert_eq!(bob.unread("#general"), ["FYI: m0"]);
}

// spec: PUSH-026
#[test]
fn without_tiers_chatter_is_pushed_at_once() {
    let world = World::with(Settings {
        tiers: false,
        ..settings(None)
    });
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "hello");
    assert!(world.fake.wait(1)[0].contains("# hello"));
}

// spec: PUSH-035 STO-036
#[test]
fn what_was_read_while_it_waited_is_not_pushed() {
    let world = World::with(settings(Some(1_000)));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "FYI: read me");
    assert_eq!(bob.read("#general"), ["FYI: read me"]);
    *world.fake.hold.lock().unwrap() = Some(hold(Why::Draft));
    alice.dm("bob", "held");
    until(|| !world.fake.tried.lock().unwrap().is_empty());
    assert_eq!(bob.read("inbox"), ["held"]);
    *world.fake.hold.lock().unwrap() = None;
    alice.dm("bob", "new");
    let typed = world.fake.wait(1);
    assert!(
        typed[0].contains("# new") && !typed[0].contains("held") && !typed[0].contains("read me"),
        "{typed:?}"
    );
}

// spec: PUSH-037 PUSH-039 PUSH-040
#[test]
fn joined_channels_are_pushed_own_posts_and_others_are_not() {
    let world = World::new();
    let (alice, bob, carol) = (world.agent("alice"), world.agent("bob"), world.agent("carol"));
    bob.attach("w1:p1");
    carol.ok(
        "attach_agent",
        json!({"tmuxTarget": "w1:p2", "debounceMs": 0, "includeRoom": false}),
    );
    alice.post("seo", "BLOCKER: before");
    bob.post("general", "BLOCKER: my own");
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(world.fake.texts().len(), 0);
    bob.ok("join_room", json!({"room": "seo"}));
    let typed = world.fake.wait(1);
    assert!(
        typed[0].contains("[#seo ") && typed[0].contains("# BLOCKER: before"),
        "{typed:?}"
    );
    alice.post("seo", "BLOCKER: during");
    assert!(world.fake.wait(2)[1].contains("# BLOCKER: during"));
    bob.ok("leave_room", json!({"room": "seo"}));
    alice.post("seo", "BLOCKER: after");
    alice.dm("carol", "only this");
    let typed = world.fake.wait(3);
    assert!(typed[2].contains("# only this"), "{typed:?}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(world.fake.texts().len(), 3);
    let arrived = world.fake.arrived.lock().unwrap();
    assert!(arrived.iter().filter(|one| one.target == "w1:p2").count() == 1);
}

// spec: PUSH-016 PUSH-017 PUSH-018
#[test]
fn roles_in_the_registry_decide_who_is_woken() {
    let world = World::with(settings(None));
    let alice = world.agent("alice");
    let role = |id: &str, role: &str| {
        let agent = world.agent(id);
        agent.ok("register", json!({"role": role}));
        agent
    };
    let lead = role("lead", "coordinator");
    for (number, (id, what)) in [("gate", "QA"), ("ci", "builds"), ("dev", "dev")]
        .into_iter()
        .enumerate()
    {
        role(id, what).attach(&format!("w1:p{number}"));
    }
    let pushed = |post: &dyn Fn(), text: &str, to: &[&str]| {
        let before = world.fake.texts().len();
        post();
        let arrived = world.fake.wait(before + to.len());
        std::thread::sleep(Duration::from_millis(500));
        let arrived_now = world.fake.arrived.lock().unwrap();
        let mut targets: Vec<String> = arrived_now[before..]
            .iter()
            .map(|one| one.target.clone())
            .collect();
        targets.sort();
        assert_eq!(targets, to, "{text}");
        assert!(
            arrived[before..]
                .iter()
                .all(|typed| typed.contains(&format!("# {text}"))),
            "{arrived:?}"
        );
    };
    pushed(
        &|| alice.post("general", "DONE: 1"),
        "DONE: 1",
        &["w1:p0", "w1:p1"],
    );
    pushed(
        &|| lead.post("general", "SCOPE: less"),
        "SCOPE: less",
        &["w1:p0", "w1:p1", "w1:p2"],
    );
    pushed(&|| alice.post("general", "SCOPE: more"), "SCOPE: more", &[]);
}

// spec: PUSH-020
#[test]
fn a_new_role_counts_for_what_comes_after_it() {
    let world = World::with(settings(None));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "DONE: 1");
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(world.fake.texts().len(), 0);
    bob.ok("register", json!({"role": "coordinator"}));
    alice.post("general", "DONE: 2");
    let typed = world.fake.wait(1);
    assert!(
        typed[0].contains("# DONE: 1") && typed[0].contains("# DONE: 2"),
        "{typed:?}"
    );
}

// spec: PUSH-021
#[test]
fn the_environment_outranks_the_role() {
    let world = World::with(Settings {
        gate_runner: Some(true),
        ..settings(None)
    });
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "DONE: 1");
    world.fake.wait(1);
}

// spec: PUSH-019
#[test]
fn nobody_posts_a_verdict() {
    let world = World::new();
    let ci = world.agent("ci");
    for kind in ["verdict", "Verdict", "VERDICT"] {
        let arguments = json!({"text": "passed", "kind": kind});
        let sentence = ci.refused("send_message", arguments, "invalid_arguments");
        assert!(sentence.contains("kind"), "{sentence}");
    }
    assert_eq!(world.file("room.jsonl"), "");
}

#[test]
fn an_owners_prefix_stands_in_the_buss_configuration() {
    let world = World::with(settings(None));
    std::fs::write(
        world.dir.path().join("config.json"),
        "{\"transport\": \"herdr\", \"ownerPrefix\": \"ANNE_DECISION:\"}",
    )
    .unwrap();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.post("general", "ANNE_DECISION: ship");
    assert!(world.fake.wait(1)[0].contains("# ANNE_DECISION: ship"));
}

#[test]
fn what_is_held_is_tried_again_less_and_less_often_and_nothing_is_lost() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    *world.fake.hold.lock().unwrap() = Some(hold(Why::Dialog));
    alice.dm("bob", "one");
    until(|| world.fake.tried.lock().unwrap().len() >= 3);
    let tried = world.fake.tried.lock().unwrap().clone();
    let pauses: Vec<Duration> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses[0] >= Duration::from_millis(990) && pauses[1] >= Duration::from_millis(1_990),
        "{pauses:?}"
    );
    assert_eq!(bob.unread("inbox"), ["one"]);
    alice.dm("bob", "two");
    *world.fake.hold.lock().unwrap() = None;
    let typed = world.fake.wait(1);
    assert!(
        typed[0].contains("# one\n") && typed[0].contains("# two"),
        "{typed:?}"
    );
    until(|| bob.unread("inbox").is_empty());
}

#[test]
fn what_may_have_been_typed_is_not_typed_again_and_stays_unread_while_later_messages_go_on() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    world.fake.script.lock().unwrap().push_back(unknown());
    alice.dm("bob", "maybe");
    world.fake.wait(1);
    until(|| alice.ok("status", json!({"agentId": "bob"}))["push"]["unconfirmed"] == 1);
    alice.dm("bob", "later");
    let typed = world.fake.wait(2);
    assert!(
        typed[1].contains("# later") && !typed[1].contains("maybe"),
        "{typed:?}"
    );
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(bob.unread("inbox"), ["maybe", "later"]);
    assert_eq!(bob.read("inbox"), ["maybe", "later"]);
    alice.dm("bob", "last");
    world.fake.wait(3);
    until(|| bob.unread("inbox").is_empty());
    until(|| alice.ok("status", json!({"agentId": "bob"}))["push"]["unconfirmed"] == 0);
}

// spec: PUSH-043
#[test]
fn only_who_is_on_the_allowlist_is_typed() {
    let world = World::new();
    let (alice, mallory, bob) = (world.agent("alice"), world.agent("mallory"), world.agent("bob"));
    bob.ok(
        "attach_agent",
        json!({"tmuxTarget": "w1:p1", "debounceMs": 0, "allowlist": ["alice"]}),
    );
    mallory.dm("bob", "let me in");
    mallory.post("general", "BLOCKER: let me in");
    alice.dm("bob", "hello");
    let typed = world.fake.wait(1);
    assert!(typed[0].contains("# hello"), "{typed:?}");
    std::thread::sleep(Duration::from_millis(600));
    assert!(
        world
            .fake
            .texts()
            .iter()
            .all(|typed| !typed.contains("let me in"))
    );
}

#[test]
fn an_idle_seat_is_looked_at_without_work() {
    let world = World::new();
    world.agent("bob").attach("w1:p1");
    std::thread::sleep(Duration::from_secs(1));
    let before = cpu();
    std::thread::sleep(Duration::from_secs(5));
    let spent = cpu() - before;
    // Of five seconds, by the kernel's ticks of ten milliseconds; other tests of this program run beside it under plain `cargo test`.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(spent <= 5, "{spent} ticks");
    }
    assert_eq!(world.fake.tried.lock().unwrap().len(), 0);
}

/// The processor time of this process, in the kernel's ticks.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn hands_that_break_once_deliver_all_the_same() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    world.fake.breaks.store(true, Ordering::SeqCst);
    alice.dm("bob", "hello");
    assert!(world.fake.wait(1)[0].contains("# hello"));
    assert_eq!(world.fake.tried.lock().unwrap().len(), 2);
}

#[test]
fn a_seat_that_left_the_registry_is_not_called_attached() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    until(|| world.exists(".muster/deliverers/bob.json"));
    std::fs::write(world.dir.path().join("agents.json"), "{}").unwrap();
    bob.attach("w1:p2");
    until(|| !world.exists("transports/bob.json"));
    alice.ok("register", json!({}));
    assert_eq!(alice.ok("status", json!({"agentId": "bob"}))["attached"], false);
}

#[test]
fn a_message_is_seen_when_it_is_written_and_not_at_the_next_look() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.ok("attach_agent", json!({"tmuxTarget": "w1:p1", "debounceMs": 0}));
    let begun = Instant::now();
    for number in 0..60 {
        alice.dm("bob", &format!("m{number}"));
        world.fake.wait(number + 1);
    }
    // Sixty looks by the clock alone, half a second apart, would take thirty.
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[test]
fn what_is_being_typed_when_the_process_ends_is_typed_and_noted() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    *world.fake.slow.lock().unwrap() = Duration::from_millis(700);
    alice.dm("bob", "hello");
    world.fake.wait(1);
    let asked = Instant::now();
    world.tools.end();
    assert!(asked.elapsed() >= Duration::from_millis(300));
    assert!(
        bob.unread("inbox").is_empty(),
        "it is not typed again by the next one"
    );
    assert!(!world.exists("transports/bob.json") && !world.exists(".muster/deliverers/bob.json"));
}

#[test]
fn a_directory_that_other_programs_share_is_pushed_from_as_well() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).choose(Mode::Shared).unwrap();
    let world = World::at(dir, Settings::default());
    assert_eq!(world.home().mode(), Mode::Shared);
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    alice.dm("bob", "hello");
    assert!(world.fake.wait(1)[0].contains("# hello"));
    let said = alice.ok("send_command", json!({"to": "bob", "command": "/compact"}));
    assert_eq!(said["delivery"], "confirmed");
    // As another program writes them: without an id, with a time of its own kind, and with fields of its own.
    let rows = "{\"ts\":1.5,\"from\":\"node\",\"text\":\"from elsewhere\",\"x\":1}\nnot json\n";
    let path = world.dir.path().join("inbox/bob.jsonl");
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, rows.as_bytes()).unwrap();
    assert!(world.fake.wait(3)[2].contains("[DM 00:00 node]\n# from elsewhere"));
    until(|| bob.unread("inbox").is_empty());
}

#[test]
fn notices_of_the_bus_wake_nobody_and_ride_with_what_does() {
    let world = World::with(settings(Some(300)));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.attach("w1:p1");
    bob.ok("join_room", json!({"room": "crew"}));
    alice.ok("join_room", json!({"room": "crew"}));
    alice.ok("set_room_topic", json!({"room": "crew", "topic": "ship it"}));
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(world.fake.texts(), [""; 0], "three notices, and nobody was woken");
    assert_eq!(
        bob.unread("#crew").len(),
        2,
        "they are not his own, and stay unread"
    );
    alice.post("crew", "FYI: it is talk that waits so long, and no longer");
    let typed = world.fake.wait(1);
    for words in ["+3 routine", "alice joined #crew", "topic of #crew", "FYI: it is"] {
        assert!(typed[0].contains(words), "{words}: {typed:?}");
    }
    until(|| bob.unread("#crew").is_empty());
}

#[test]
fn urgent_posts_that_a_cut_took_unread_are_told_of() {
    let world = World::with(settings(None));
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.ok("join_room", json!({"room": "crew"}));
    alice.post("crew", "BLOCKER: nobody pushes this");
    for number in 0..1_000 {
        alice.post("crew", &format!("talk {number}"));
    }
    bob.attach("w1:p1");
    alice.post("crew", "GO: now");
    let typed = world.fake.wait(1);
    let line = typed[0].lines().find(|line| line.contains("went to the archive"));
    assert!(
        line.is_some_and(|line| line.contains(" of #crew, 1 of them urgent, went")),
        "{line:?}"
    );
}
