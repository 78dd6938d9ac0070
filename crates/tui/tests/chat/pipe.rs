//! In a pipe: each line is obeyed, what it brought stands behind it, and the files say the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use muster_bus::doctor::{self, doctor};
use muster_bus::push::{
    self, Delivery, Door, Hold, LocalFeed, Outcome, Probe, Screen, Seat, Settings, Stop, Transport, Why,
    lease,
};
use muster_bus::registry::Agents;
use muster_bus::rooms::Rooms;
use muster_bus::transports::TransportKind;
use muster_bus::wait::Watch;
use muster_bus::{RoomName, post, registry, transports};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::{Bus, Piped, eventually, name, run_script};

// spec: CHAT-001 CHAT-010
#[test]
fn a_script_posts_its_lines_as_the_user_and_leaves_at_its_end() {
    let bus = Bus::new();
    let said = run_script(bus.chat(&[]).env("USER", "maria"), "one\ntwo\r\n\n/list\nthree");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(bus.texts("room.jsonl"), ["one", "two", "three"]);
    assert!(said.out[0].starts_with("maria #general (0 peers)>"), "{said:?}");
    assert!(
        said.out
            .iter()
            .any(|line| line.starts_with("maria ") && line.contains("online")),
        "{said:?}"
    );
    assert!(!bus.registered("maria"));
    assert_eq!(std::fs::read_dir(bus.path("sessions")).unwrap().count(), 0);
}

// spec: CHAT-002 CHAT-007
#[test]
fn another_id_stands_in_the_prompt_with_the_channel_and_how_many_others_are_in_it() {
    let bus = Bus::new();
    for id in ["a", "b", "c"] {
        bus.register(id);
    }
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    assert!(
        seat.said.iter().any(|line| line == "david #general (3 peers)>"),
        "{:?}",
        seat.said
    );
    bus.register("d");
    assert_eq!(seat.wait_for("(4 peers)"), "david #general (4 peers)>");
    registry::unregister(&bus.home, &name("a")).unwrap();
    seat.wait_for("david #general (3 peers)>");
    assert!(seat.end().success());
}

// spec: CHAT-004
#[test]
fn peers_see_the_person_and_can_write_to_them() {
    let bus = Bus::new();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    let agent = Agents::load(&bus.home).unwrap().get(&name("david")).unwrap();
    assert_eq!(agent.role.as_deref(), Some("human"));
    assert!(agent.online(bus.home.now()));
    bus.register("bob");
    bus.dm("bob", "david", "psst\nsecond line");
    assert!(seat.wait_for("psst").ends_with("[dm] <bob> psst"));
    assert_eq!(seat.wait_for("second"), "    | second line");
    eventually("it is read", || {
        muster_bus::read::unread(&bus.home, &name("david"), &muster_bus::Source::Inbox).unwrap() == 0
    });
    assert!(seat.end().success());
}

// spec: CHAT-008
#[test]
fn only_traffic_of_another_channel_is_tagged() {
    let bus = Bus::new();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/join #ops");
    seat.wait_for("#ops (0 peers)>");
    bus.post("bob", "general", "elsewhere");
    assert!(seat.wait_for("elsewhere").ends_with(" #general <bob> elsewhere"));
    bus.post("bob", "ops", "here, David");
    assert!(seat.wait_for("here, ").ends_with(" ! <bob> here, David"));
    bus.post("bob", "other", "not joined");
    bus.post("bob", "ops", "last");
    seat.wait_for("last");
    assert!(!seat.said.iter().any(|line| line.contains("not joined")));
    assert!(seat.end().success());
}

// spec: CHAT-011 CHAT-012 CHAT-013 CHAT-014
#[test]
fn text_and_messages_go_where_they_are_sent() {
    let bus = Bus::new();
    bus.register("bob");
    let said = bus.script(
        "david",
        &[
            "plain",
            "/dm bob for  you",
            "/join #ops",
            "in ops",
            "/msg #general from ops",
            "/msg #new first",
            "last",
            "//slash",
        ],
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let general: Vec<String> = bus.texts("room.jsonl");
    assert_eq!(general, ["plain", "from ops"]);
    assert_eq!(bus.texts("inbox/bob.jsonl"), ["for  you"]);
    assert_eq!(
        bus.texts("rooms/ops.jsonl"),
        ["david joined #ops", "in ops", "last", "/slash"]
    );
    assert_eq!(bus.texts("rooms/new.jsonl"), ["first"]);
    let prompts: Vec<&String> = said.out.iter().filter(|line| line.ends_with(")>")).collect();
    assert_eq!(prompts, ["david #general (1 peer)>", "david #ops (0 peers)>"]);
    let line = std::fs::read_to_string(bus.path("rooms/ops.jsonl")).unwrap();
    assert!(!line.contains("\"control\""), "only send_command writes one");
    assert_eq!(
        Rooms::load(&bus.home).unwrap().of(&name("david")),
        [RoomName::parse("ops").unwrap()]
    );
}

// spec: CHAT-015 CHAT-016
#[test]
fn a_channel_is_left_and_general_never() {
    let bus = Bus::new();
    let said = bus.script(
        "david",
        &[
            "/join a",
            "/join b",
            "/part #a",
            "/part",
            "/part",
            "/part nowhere",
        ],
    );
    assert_eq!(said.code, Some(3), "{said:?}");
    assert_eq!(Rooms::load(&bus.home).unwrap().of(&name("david")), []);
    assert!(said.has("you left #a") && said.has("you left #b"), "{said:?}");
    assert!(said.has("error: nobody leaves general"), "{said:?}");
    assert!(said.has("error: there is no channel '#nowhere'"), "{said:?}");
    assert_eq!(
        said.out.iter().rfind(|line| line.ends_with(")>")).unwrap(),
        "david #general (0 peers)>"
    );
    assert!(said.err.contains("not carried out: 2"), "{said:?}");
}

// spec: CHAT-017 CHAT-018 CHAT-019
#[test]
fn channels_are_listed_with_topic_and_members_and_both_lines_are_shown_and_set() {
    let bus = Bus::new();
    let mut bob = Piped::start(bus.chat(&["--id", "bob"]));
    bob.type_line("/join #ops");
    bob.wait_for("#ops (0 peers)>");
    let said = bus.script(
        "david",
        &[
            "/topic",
            "/topic ship it",
            "/topic",
            "/motd",
            "/motd be kind",
            "/motd",
            "/join ops",
            "/rooms",
        ],
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in [
        "#general has no topic",
        "topic of #general: ship it",
        "#general has no rules",
        "rules of #general: be kind",
        "-- david set the topic of #general: ship it",
    ] {
        assert!(said.has(part), "{part}: {said:#?}");
    }
    let row = |room: &str| {
        said.out
            .iter()
            .find(|line| line.starts_with(room) && line.contains("member"))
            .unwrap()
    };
    assert!(
        row("#general").contains("2 members") && row("#general").contains("ship it"),
        "{said:#?}"
    );
    assert!(
        row("#ops").contains("2 members") && row("#ops").ends_with("bob, david"),
        "{said:#?}"
    );
    let general = Rooms::load(&bus.home).unwrap().get(&RoomName::general()).unwrap();
    assert_eq!(
        (general.topic.as_deref(), general.motd.as_deref()),
        (Some("ship it"), Some("be kind"))
    );
    bob.end();
}

// spec: CHAT-020 CHAT-021
#[test]
fn everybody_is_listed_with_how_they_are_reached_and_one_is_shown_in_full() {
    let bus = Bus::new();
    let bob = name("bob");
    registry::register(&bus.home, &bob, Some("shop"), Some("backend")).unwrap();
    let attach = transports::Attach {
        target: "%7".into(),
        ..transports::Attach::default()
    };
    transports::attach(&bus.home, &bob, attach).unwrap();
    muster_bus::rooms::join(&bus.home, &bob, &RoomName::parse("ops").unwrap()).unwrap();
    post::status(&bus.home, &bob, "building", Some("half way")).unwrap();
    post::status(&bus.home, &name("other"), "not his", None).unwrap();
    let said = bus.script("david", &["/list", "/whois bob", "/whois nobody"]);
    let row = said.out.iter().find(|line| line.starts_with("bob ")).unwrap();
    assert!(
        row.contains("attached: herdr %7") && row.contains("online") && row.ends_with("backend"),
        "{row}"
    );
    assert!(
        said.out
            .iter()
            .any(|line| line.starts_with("david ") && line.contains("not attached")),
        "{said:?}"
    );
    for part in [
        "bob: backend, project shop",
        "channels: #general #ops",
        "building (half way)",
        "nobody is registered as 'nobody'",
    ] {
        assert!(said.has(part), "{part}: {said:#?}");
    }
}

// spec: CHAT-022
#[test]
fn a_new_id_takes_messages_channels_and_prompt_along() {
    let bus = Bus::new();
    bus.dm("bob", "david", "before");
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/join ops");
    seat.wait_for("#ops (0 peers)>");
    seat.type_line("/nick dave");
    seat.wait_for("dave #ops (0 peers)>");
    assert!(!bus.path("inbox/david.jsonl").exists());
    assert_eq!(bus.texts("inbox/dave.jsonl"), ["before"]);
    assert!(bus.registered("dave") && !bus.registered("david"));
    assert_eq!(
        Rooms::load(&bus.home).unwrap().of(&name("dave")),
        [RoomName::parse("ops").unwrap()]
    );
    let session = std::fs::read_dir(bus.path("sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert!(
        std::fs::read_to_string(session.path())
            .unwrap()
            .contains("\"dave\"")
    );
    // What is written to the new id, and what still goes to the old one, arrive.
    bus.dm("bob", "dave", "after");
    seat.wait_for("after");
    bus.dm("bob", "david", "late");
    seat.wait_for("late");
    seat.type_line("mine");
    seat.wait_for("<dave> mine");
    assert!(seat.end().success());
    assert!(!bus.registered("dave"));
}

#[test]
fn an_id_that_belongs_to_somebody_is_not_taken() {
    let bus = Bus::new();
    bus.register("bob");
    let said = bus.script("david", &["/nick bob", "still me"]);
    assert!(said.has("error: 'bob' is in use"), "{said:?}");
    assert!(said.has("<david> still me"), "{said:?}");
}

// spec: CHAT-023
#[test]
fn peers_see_that_a_person_is_away_and_that_they_are_back() {
    let bus = Bus::new();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/away lunch");
    seat.wait_for("you are away: lunch");
    let said = bus.script("bob", &["/whois david", "/list"]);
    assert!(
        said.has("  away: lunch") && said.has("away: lunch  not attached"),
        "{said:#?}"
    );
    seat.type_line("/back");
    seat.wait_for("you are back");
    let said = bus.script("bob", &["/whois david"]);
    assert!(!said.has("away"), "{said:#?}");
    assert!(seat.end().success());
}

// spec: CHAT-024
#[test]
fn a_muted_agent_is_heard_again_after_a_restart() {
    let bus = Bus::new();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/ignore bob");
    seat.wait_for("'bob' is muted");
    bus.post("bob", "general", "unheard");
    bus.dm("bob", "david", "unheard too");
    bus.post("carol", "general", "heard");
    seat.wait_for("<carol> heard");
    assert!(
        !seat.said.iter().any(|line| line.contains("unheard")),
        "{:?}",
        seat.said
    );
    assert!(seat.end().success());
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    bus.post("bob", "general", "again");
    seat.wait_for("<bob> again");
    assert!(seat.end().success());
}

// spec: CHAT-025 CHAT-030 CHAT-031
#[test]
fn the_doctor_says_the_same_everywhere_and_its_exit_code_is_its_verdict() {
    let bus = Bus::new();
    muster_bus::transports::choose(&bus.home, muster_bus::transports::TransportKind::TmuxPushRemote).unwrap();
    bus.dm("bob", "ghost", "waits");
    let report = |bus: &Bus| doctor(&bus.home, &doctor::Options::default()).lines();
    let alone = run_script(&mut bus.chat(&["--doctor"]), "");
    assert_eq!((alone.code, &alone.out), (Some(0), &report(&bus)), "{alone:?}");
    assert!(
        alone.has("orphan-inbox") && alone.out.last().unwrap().starts_with("healthy"),
        "{alone:?}"
    );

    std::fs::write(bus.path("rooms.json"), "{ half").unwrap();
    let wanted = report(&bus);
    let alone = run_script(&mut bus.chat(&["--doctor"]), "");
    assert_eq!((alone.code, &alone.out), (Some(1), &wanted), "{alone:?}");

    std::fs::remove_file(bus.path("rooms.json")).unwrap();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    let wanted = report(&bus);
    let before = seat.said.len();
    seat.type_line("/doctor");
    seat.wait_for("healthy:");
    assert_eq!(seat.said[before..], wanted);
    std::fs::write(bus.path("rooms.json"), "{ half").unwrap();
    seat.type_line("/doctor --fix");
    seat.wait_for("(repaired)");
    assert!(seat.end().success() || bus.path("rooms.json.bak").exists());
    let alone = run_script(&mut bus.chat(&["--doctor", "--fix"]), "");
    assert_eq!(alone.code, Some(0), "{alone:?}");
}

// spec: CHAT-026
#[test]
fn quitting_says_the_words_unregisters_and_ends_well() {
    let bus = Bus::new();
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    assert!(bus.registered("david"));
    seat.type_line("/quit so long");
    // Its input stays open: it is the command that ends it.
    eventually("it is gone", || !bus.registered("david"));
    assert_eq!(bus.texts("room.jsonl"), ["so long"]);
    assert_eq!(seat.end().code(), Some(0));
}

// spec: CHAT-027
#[test]
fn help_lists_every_command_of_the_text() {
    let bus = Bus::new();
    let said = bus.script("david", &["/help"]);
    for command in [
        "text",
        "/dm <agent> <text>",
        "/msg <#chan> <text>",
        "/join <#chan>",
        "/part [#chan]",
        "/rooms",
        "/topic [text]",
        "/motd [text]",
        "/list",
        "/whois <agent>",
        "/nick <id>",
        "/away [msg]",
        "/back",
        "/ignore",
        "/doctor [--fix]",
        "/quit [msg]",
        "/help",
    ] {
        assert!(
            said.out.iter().any(|line| line.starts_with(command)),
            "{command}: {said:#?}"
        );
    }
}

// spec: CHAT-028
#[test]
fn an_unknown_command_is_reported_and_never_posted() {
    let bus = Bus::new();
    let said = bus.script("david", &["/foo bar", "/clear everything please", "/compact"]);
    assert_eq!(bus.texts("room.jsonl"), [""; 0]);
    assert!(
        said.has("error: there is no command /foo, so nothing was posted"),
        "{said:?}"
    );
    // What is meant for an agent's program names the agent, and nothing more.
    for command in ["/clear", "/compact"] {
        let words = format!("error: it is spelled {command} <agent|#chan>; nothing was done");
        assert!(said.has(&words), "{said:?}");
    }
    assert_eq!(said.code, Some(3));
}

// spec: IDN-022
#[test]
fn an_id_that_is_live_elsewhere_is_refused_before_anything_is_said() {
    let bus = Bus::new();
    let seat = Piped::start(bus.chat(&["--id", "david"]));
    let said = bus.script("david", &["as somebody else"]);
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("'david' is live"), "{said:?}");
    assert!(said.err.contains("--id"), "{said:?}");
    assert!(bus.registered("david"), "the one who sits there is not disturbed");
    assert_eq!(bus.texts("room.jsonl"), [""; 0]);
    assert!(seat.end().success());
    // One that ended in order is nobody any more.
    assert_eq!(bus.script("david", &["back"]).code, Some(0));
}

#[test]
fn whoever_the_environment_says_one_is_one_is() {
    let bus = Bus::new();
    bus.register("david");
    let said = run_script(bus.chat(&[]).env("AGENT_COORD_BOUND_AGENT", "david"), "hello");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.has("<david> hello"));
    let said = run_script(
        bus.chat(&["--id", "other"])
            .env("AGENT_COORD_BOUND_AGENT", "david"),
        "hello",
    );
    assert!(said.err.contains("identity bound to 'david'"), "{said:?}");
}

#[test]
fn a_directory_that_another_program_writes_to_as_well_is_shared_by_its_rules() {
    let bus = Bus::new();
    bus.home.choose(muster_bus::Mode::Shared).unwrap();
    bus.register("bob");
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/join #new");
    seat.wait_for("#new (0 peers)>");
    seat.type_line("first");
    seat.wait_for("<david> first");
    // As the other program appends: a line, without a lock of ours.
    let line = serde_json::json!({"id": "1", "ts": 1, "from": "bob", "room": "new", "text": "from outside"});
    let path = bus.path("rooms/new.jsonl");
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    seat.wait_for("<bob> from outside");
    assert!(seat.end().success());
    let left: Vec<_> = muster_bus::home::foreign_locks(&bus.home);
    assert!(left.is_empty(), "{left:?}");
    assert!(!bus.registered("david"));
}

#[test]
fn a_user_name_that_is_no_id_is_told_of() {
    let bus = Bus::new();
    let said = run_script(bus.chat(&[]).env("USER", "MY\\user\u{1b}[2J"), "hello");
    assert_eq!(said.code, Some(3));
    assert!(
        said.err.contains("--id ID") && !said.err.contains('\u{1b}'),
        "{said:?}"
    );
}

// spec: CHAT-029
#[test]
fn a_signal_unregisters_as_well() {
    let bus = Bus::new();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let seat = Piped::start(bus.chat(&["--id", "david"]));
        assert!(bus.registered("david"));
        kill(Pid::from_raw(seat.pid()), signal).unwrap();
        eventually("it is gone", || !bus.registered("david"));
        assert_eq!(seat.end().code(), Some(0));
        assert_eq!(std::fs::read_dir(bus.path("sessions")).unwrap().count(), 0);
    }
}

#[test]
fn what_was_missed_is_shown_once_in_order_and_counts_as_read() {
    let bus = Bus::new();
    let before = bus.script("david", &["/join ops"]);
    assert_eq!(before.code, Some(0));
    for number in 0..30 {
        bus.post("bob", "general", &format!("g{number}"));
        bus.dm("bob", "david", &format!("d{number}"));
    }
    bus.post("bob", "ops", "o1");
    let said = bus.script("david", &[]);
    let shown = |word: &str| -> Vec<String> {
        let marks = |line: &&String| line.contains(&format!("<bob> {word}"));
        said.out
            .iter()
            .filter(marks)
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
            .collect()
    };
    let all: Vec<String> = (0..30).map(|number| format!("d{number}")).collect();
    assert_eq!(shown("d"), all, "no direct message is left out");
    let newest: Vec<String> = (10..30).map(|number| format!("g{number}")).collect();
    assert_eq!(shown("g"), newest);
    assert!(
        said.has("(#general: 30 unread; the newest follow, /history shows more)"),
        "{said:#?}"
    );
    assert!(said.has("#ops <bob> o1"));
    let again = bus.script("david", &["/history 3"]);
    assert!(
        !again.out.iter().any(|line| line.contains("<bob> d")),
        "{again:#?}"
    );
    assert_eq!(
        again.out.iter().filter(|line| line.contains("<bob> g")).count(),
        3
    );
}

#[test]
fn a_line_that_is_too_long_or_no_text_is_refused_and_the_next_one_is_not() {
    let bus = Bus::new();
    let mut script = "x".repeat(300 * 1024).into_bytes();
    script.extend(b"\nafter\n");
    let said = run_script(
        &mut bus.chat(&["--id", "david"]),
        &String::from_utf8(script).unwrap(),
    );
    assert!(
        said.has("error: a line of 307201 bytes is longer than any message may be"),
        "{:?}",
        said.err
    );
    assert_eq!(bus.texts("room.jsonl"), ["after"]);
    assert_eq!(said.code, Some(3));
}

#[test]
fn a_reader_that_goes_away_leaves_nobody_behind() {
    let bus = Bus::new();
    let mut seat = bus.chat(&["--id", "david"]);
    let mut child = seat
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("it sits down", || bus.registered("david"));
    drop(child.stdout.take());
    bus.post("bob", "general", "to nobody");
    eventually("it is gone", || !bus.registered("david"));
    assert!(!child.wait().unwrap().success());
}

/// Somebody who delivers to bob, as far as anybody else can tell.
struct Deliverer {
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
    hands: Arc<Hands>,
}

#[derive(Default)]
struct Hands {
    held: AtomicBool,
    typed: Mutex<Vec<String>>,
}

impl Transport for Hands {
    fn kind(&self) -> TransportKind {
        TransportKind::TmuxPushRemote
    }

    fn available(&self) -> Result<(), String> {
        Ok(())
    }

    fn probe(&self, _: &str) -> Probe {
        Probe::Found
    }

    fn read(&self, _: &str, _: usize, _: bool) -> Result<Screen, String> {
        Err("it has no eyes".to_owned())
    }

    fn deliver(&self, _: &str, what: &Delivery) -> Outcome {
        if self.held.load(Ordering::SeqCst) {
            return Outcome::Held(Hold {
                why: Why::Draft,
                detail: "unsent \u{1b}[31mtext stands in the input".to_owned(),
            });
        }
        let text = match what {
            Delivery::Text { text, .. } => text.as_str().to_owned(),
            Delivery::Command(command) => command.to_string(),
        };
        self.typed.lock().unwrap().push(text);
        Outcome::Delivered {
            door: Door::Keys,
            verified: true,
        }
    }
}

impl Deliverer {
    fn to_bob(bus: &Bus) -> Self {
        let bob = bus.register("bob");
        let report = transports::Report {
            transport: "tmux-push-remote",
            target: Some("%7"),
            ..transports::Report::default()
        };
        transports::report(&bus.home, &bob, report).unwrap();
        let (stop, hands) = (Stop::new(), Arc::new(Hands::default()));
        let mut feed = LocalFeed::new(&bus.home, &Watch::new(&bus.home), &bob, "%7", false).unwrap();
        let seat = Seat {
            id: bob,
            target: "%7".to_owned(),
            include_room: false,
            allowlist: None,
            debounce: std::time::Duration::ZERO,
        };
        let (asked, with) = (stop.clone(), hands.clone());
        let thread = std::thread::spawn(move || {
            push::run(&mut feed, &*with, &seat, &Settings::default(), &asked).unwrap();
        });
        Self {
            stop,
            thread: Some(thread),
            hands,
        }
    }

    fn typed(&self) -> Vec<String> {
        self.hands.typed.lock().unwrap().clone()
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        self.stop.set();
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn a_person_clears_an_agents_context_and_hears_that_it_was_typed() {
    let bus = Bus::new();
    let deliverer = Deliverer::to_bob(&bus);
    bus.register("carol");
    let mut seat = Piped::start(bus.chat(&["--id", "david"]));
    seat.type_line("/clear @bob");
    assert!(seat.wait_for("was sent to").starts_with("/clear was sent to bob"));
    assert_eq!(seat.wait_for("was typed"), "bob: /clear was typed");
    let line = std::fs::read_to_string(bus.path("inbox/bob.jsonl")).unwrap();
    assert!(
        line.contains("\"control\":true") && line.contains("\"from\":\"david\""),
        "{line}"
    );
    eventually("the word of who it is", || {
        deliverer
            .typed()
            .iter()
            .any(|typed| typed.contains("david cleared your context"))
    });
    assert_eq!(deliverer.typed()[0], "/clear");
    seat.type_line("/compact carol");
    assert_eq!(
        seat.wait_for("carol: "),
        "carol: /compact was not sent, not attached"
    );
    seat.type_line("/clear david");
    seat.wait_for("to itself");
    assert!(!seat.end().success(), "a line was refused");
    // As a script it stays until that is known.
    let said = bus.script("david", &["/reload-skills #general"]);
    assert!(said.has("bob: /reload-skills was typed"), "{said:?}");
    assert_eq!(deliverer.typed().last().unwrap(), "/reload-skills");
}

#[test]
fn why_a_push_is_held_is_shown_where_one_looks_for_it() {
    let bus = Bus::new();
    let deliverer = Deliverer::to_bob(&bus);
    deliverer.hands.held.store(true, Ordering::SeqCst);
    bus.dm("carol", "bob", "psst");
    eventually("it is held", || {
        let standing = lease::standing(&bus.home, &name("bob")).unwrap();
        standing.is_some_and(|standing| standing.held.is_some())
    });
    let said = bus.script("david", &["/list", "/whois bob", "/dm bob hello"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.has("attached: tmux-push-remote %7, held: draft"), "{said:?}");
    assert!(
        said.has("  push: held, draft: unsent \\u{1b}[31mtext stands in the input"),
        "{said:?}"
    );
    assert!(
        said.has("nothing is typed into the pane of bob now (draft: unsent"),
        "{said:?}"
    );
    deliverer.hands.held.store(false, Ordering::SeqCst);
    eventually("it is typed", || !deliverer.typed().is_empty());
    let said = bus.script("david", &["/list"]);
    assert!(!said.has("held"), "{said:?}");
}
