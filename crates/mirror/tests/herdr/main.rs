//! The hands on herdr's panes against a herdr that takes its protocol to the letter.
#![cfg(test)]

mod server;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_bus::SeatId;
use muster_bus::push::queue::{Queue, Step};
use muster_bus::push::{
    ControlCommand, Delivery, Door, Outcome, Pending, PendingSource, Probe, Seat, Settings, Transport as _,
    Why,
};
use muster_bus::transports::TransportKind;
use muster_mirror::herdr::HerdrPanes;
use muster_mirror::screen::Ghost;
use serde_json::json;

use server::{Age, Fault, Herdr, Pane};

const PANE: &str = "w1:p1";

/// What the rules make of a message.
fn text(words: &str) -> Delivery {
    let seat = Seat {
        id: SeatId::parse("me").unwrap(),
        target: PANE.to_owned(),
        include_room: true,
        allowlist: None,
        debounce: Duration::ZERO,
    };
    let message = json!({"id": "m1", "ts": 1_700_000_000_000_i64, "from": "peer", "to": "me", "text": words});
    let pending = Pending {
        sources: vec![PendingSource {
            source: "inbox".to_owned(),
            entries: vec![message.as_object().unwrap().clone()],
            older: 0,
        }],
        ..Pending::default()
    };
    let mut queue = Queue::new(seat, Settings::default(), "salt".to_owned());
    queue.see(&pending, Duration::from_secs(1));
    match queue.next(Duration::from_secs(9)) {
        Step::Deliver(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

fn body(what: &Delivery) -> String {
    match what {
        Delivery::Text { text, .. } => text.as_str().to_owned(),
        Delivery::Command(command) => command.as_str().to_owned(),
    }
}

fn one(pane: Pane) -> (Herdr, HerdrPanes) {
    let herdr = Herdr::new();
    herdr.put(PANE, pane);
    let panes = HerdrPanes::at(&herdr.socket());
    (herdr, panes)
}

fn held(outcome: Outcome) -> (Why, String) {
    match outcome {
        Outcome::Held(hold) => {
            assert!(!hold.detail.chars().any(char::is_control), "{:?}", hold.detail);
            (hold.why, hold.detail)
        }
        other => panic!("{other:?}"),
    }
}

fn unknown(outcome: Outcome) -> Door {
    match outcome {
        Outcome::Unknown { door, reason } => {
            assert!(
                reason.len() > 12 && !reason.chars().any(char::is_control),
                "{reason:?}"
            );
            door
        }
        other => panic!("{other:?}"),
    }
}

fn delivered(door: Door, verified: bool) -> Outcome {
    Outcome::Delivered { door, verified }
}

// spec: PUSH-054 PUSH-055 PUSH-046 PUSH-047
#[test]
fn an_idle_agent_gets_a_text_as_one_prompt_within_a_second_and_no_process_is_started() {
    let (herdr, panes) = one(Pane::idle());
    let what = text("two lines\nof one message");
    let begun = Instant::now();
    assert_eq!(panes.deliver(PANE, &what), delivered(Door::Prompt, true));
    // About a second on a quiet machine; nothing here waits for a tick that is longer.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let pane = herdr.pane(PANE);
    assert_eq!(
        pane.taken,
        [body(&what)],
        "one prompt, with its line breaks in it"
    );
    assert_eq!(pane.bytes, format!("\u{1b}[200~{}\u{1b}[201~\r", body(&what)));
    let children = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    assert_eq!(children.collect::<String>(), "");
}

#[test]
fn an_older_herdr_gets_a_paste_and_then_one_enter() {
    for (age, call) in [
        (Age::BeforePrompt, "pane.send_input"),
        (Age::BeforeInput, "pane.send_text"),
    ] {
        let herdr = Herdr::of_age(age);
        herdr.put(PANE, Pane::idle());
        let what = text("hello\nthere");
        let outcome = HerdrPanes::at(&herdr.socket()).deliver(PANE, &what);
        assert_eq!(outcome, delivered(Door::Paste, true), "{call}");
        let pane = herdr.pane(PANE);
        assert_eq!(
            pane.bytes,
            format!("\u{1b}[200~{}\u{1b}[201~\r", body(&what)),
            "{call}"
        );
        assert_eq!(pane.taken, [body(&what)], "{call}");
        let asked = herdr.asked();
        let done: Vec<&str> = asked
            .iter()
            .map(String::as_str)
            .filter(|method| method.contains("send_"))
            .collect();
        assert_eq!(done.last(), Some(&"pane.send_keys"), "{asked:?}");
        assert!(done.contains(&call), "{asked:?}");
    }
}

// spec: PUSH-050 CMD-005
#[test]
fn a_command_is_typed_raw_and_enter_follows_once_it_stands_alone() {
    for command in ControlCommand::ALL {
        let (herdr, panes) = one(Pane::idle());
        let outcome = panes.deliver(PANE, &Delivery::Command(command));
        assert_eq!(outcome, delivered(Door::Keys, true), "{command}");
        let pane = herdr.pane(PANE);
        assert_eq!(pane.bytes, format!("{command}\r"));
        assert_eq!(pane.taken, [command.as_str()]);
    }
}

#[test]
fn enter_is_not_pressed_when_a_person_types_into_the_command() {
    let pane = Pane {
        meddler: Some(" not now"),
        ..Pane::idle()
    };
    let (herdr, panes) = one(pane);
    assert_eq!(
        unknown(panes.deliver(PANE, &Delivery::Command(ControlCommand::Clear))),
        Door::Keys
    );
    let pane = herdr.pane(PANE);
    assert_eq!((pane.bytes.as_str(), pane.taken.len()), ("/clear", 0));
    assert!(!herdr.asked().contains(&"pane.send_keys".to_owned()));
}

// spec: PUSH-049 PUSH-056 CMD-035 CMD-036 CMD-038 CMD-040 CMD-041
#[test]
fn nothing_is_typed_into_a_pane_that_does_not_wait_for_input() {
    let idle = Pane::idle;
    let cases: Vec<(&str, Pane, Why)> = vec![
        (
            "at work",
            Pane {
                status: "working",
                ..idle()
            },
            Why::Busy,
        ),
        (
            "asks",
            Pane {
                status: "blocked",
                ..idle()
            },
            Why::Dialog,
        ),
        (
            "asks, and herdr has not seen it",
            Pane { asks: true, ..idle() },
            Why::Dialog,
        ),
        (
            "unknown",
            Pane {
                status: "unknown",
                ..idle()
            },
            Why::UnknownScreen,
        ),
        (
            "a status of a later build",
            Pane {
                status: "dreaming",
                ..idle()
            },
            Why::UnknownScreen,
        ),
        (
            "no agent",
            Pane {
                agent: None,
                status: "unknown",
                front: vec!["-zsh"],
                ..idle()
            },
            Why::Shell,
        ),
        (
            "no agent and nothing known",
            Pane {
                agent: None,
                front: vec![],
                ..idle()
            },
            Why::Shell,
        ),
        (
            "an editor",
            Pane {
                agent: None,
                front: vec!["vim"],
                ..idle()
            },
            Why::UnknownScreen,
        ),
        (
            "herdr still thinks of the agent",
            Pane {
                front: vec!["bash"],
                ..idle()
            },
            Why::Shell,
        ),
        (
            "a shell in a shell",
            Pane {
                front: vec!["sh", "bash"],
                ..idle()
            },
            Why::Shell,
        ),
        (
            "scrolled back",
            Pane {
                scrolled: 3,
                ..idle()
            },
            Why::CopyMode,
        ),
        (
            "a draft",
            Pane {
                input: "half a thought".to_owned(),
                ..idle()
            },
            Why::Draft,
        ),
        (
            "a draft before a suggestion",
            Pane {
                input: "half".to_owned(),
                ghost: " a thought".to_owned(),
                ..idle()
            },
            Why::Draft,
        ),
    ];
    for (what, pane, why) in cases {
        let (herdr, panes) = one(pane.clone());
        for delivery in [text("hello"), Delivery::Command(ControlCommand::Compact)] {
            let (found, detail) = held(panes.deliver(PANE, &delivery));
            assert_eq!(found, why, "{what}: {detail}");
            if why == Why::Draft {
                assert!(detail.contains(&pane.input), "{detail}");
            }
        }
        assert_eq!(
            (herdr.pane(PANE).bytes, herdr.pane(PANE).taken.len()),
            (String::new(), 0),
            "{what}"
        );
    }
    let (herdr, panes) = one(Pane::idle());
    herdr.close(PANE);
    assert_eq!(held(panes.deliver(PANE, &text("hello"))).0, Why::PaneGone);
}

// spec: CMD-037 CMD-039
#[test]
fn a_suggestion_that_nobody_typed_holds_nothing_back() {
    let suggested = Pane {
        ghost: "try the tests again".to_owned(),
        ..Pane::idle()
    };
    let (_herdr, panes) = one(suggested.clone());
    assert_eq!(panes.deliver(PANE, &text("hello")), delivered(Door::Prompt, true));
    // Where suggestions are drawn in another way, what is dim is a draft.
    let (_herdr, panes) = one(suggested);
    let panes = panes.with_ghost(Ghost::parse("38;5;244").unwrap());
    assert_eq!(held(panes.deliver(PANE, &text("hello"))).0, Why::Draft);
}

#[test]
fn an_agent_that_a_script_started_is_in_front_and_not_the_scripts_shell() {
    let pane = Pane {
        front: vec!["bash", "claude"],
        status: "done",
        ..Pane::idle()
    };
    let (_herdr, panes) = one(pane);
    assert_eq!(panes.deliver(PANE, &text("hello")), delivered(Door::Prompt, true));
}

#[test]
fn a_refusal_before_anything_was_typed_is_a_hold() {
    for (code, why) in [
        ("pane_not_found", Why::PaneGone),
        ("agent_not_found", Why::Shell),
        ("agent_blocked", Why::Dialog),
        ("agent_not_ready", Why::Busy),
        ("ui_busy", Why::Busy),
        ("invalid_params", Why::Unavailable),
        ("feature_disabled", Why::Unavailable),
    ] {
        let (herdr, panes) = one(Pane::idle());
        herdr.fault("agent.prompt", Fault::Refuse(code));
        assert_eq!(held(panes.deliver(PANE, &text("hello"))).0, why, "{code}");
        assert_eq!(herdr.pane(PANE).bytes, "", "{code}");
    }
}

#[test]
fn what_may_have_been_typed_is_unknown_and_is_not_typed_again() {
    let faults = [
        Fault::DoThenRefuse("agent_prompt_stalled"),
        Fault::DoThenRefuse("timeout"),
        Fault::DoThenRefuse("agent_prompt_failed"),
        Fault::DoThenRefuse("a_code_of_a_later_build"),
        Fault::DoThenClose,
        Fault::Half,
        Fault::Other,
        Fault::Garbled,
    ];
    for fault in faults {
        let (herdr, panes) = one(Pane::idle());
        herdr.fault("agent.prompt", fault);
        assert_eq!(unknown(panes.deliver(PANE, &text("hello"))), Door::Prompt);
        assert_eq!(herdr.pane(PANE).taken.len(), 1);
        let prompts = herdr
            .asked()
            .iter()
            .filter(|method| *method == "agent.prompt")
            .count();
        assert_eq!(prompts, 1);
    }
    // The same where Enter is what nobody knows of.
    let herdr = Herdr::of_age(Age::BeforePrompt);
    herdr.put(PANE, Pane::idle());
    herdr.fault("pane.send_keys", Fault::Refuse("pane_not_found"));
    assert_eq!(
        unknown(HerdrPanes::at(&herdr.socket()).deliver(PANE, &text("hello"))),
        Door::Paste
    );
    assert_eq!(herdr.pane(PANE).taken.len(), 0);
    let (herdr, panes) = one(Pane::idle());
    herdr.fault("pane.send_text", Fault::DoThenClose);
    assert_eq!(
        unknown(panes.deliver(PANE, &Delivery::Command(ControlCommand::Clear))),
        Door::Keys
    );
    assert_eq!(herdr.pane(PANE).bytes, "/clear");
}

#[test]
fn a_look_that_fails_types_nothing() {
    for method in ["pane.get", "pane.process_info", "pane.read"] {
        for fault in [
            Fault::Half,
            Fault::DoThenClose,
            Fault::Garbled,
            Fault::Refuse("ui_busy"),
        ] {
            let (herdr, panes) = one(Pane::idle());
            herdr.fault(method, fault);
            assert_eq!(
                held(panes.deliver(PANE, &text("hello"))).0,
                Why::Unavailable,
                "{method}"
            );
            assert_eq!(herdr.pane(PANE).bytes, "", "{method}");
        }
    }
}

#[test]
fn an_agent_that_does_nothing_with_a_text_did_not_get_it_for_sure() {
    let deaf = Pane {
        deaf: true,
        ..Pane::idle()
    };
    let (_herdr, panes) = one(deaf.clone());
    assert_eq!(unknown(panes.deliver(PANE, &text("hello"))), Door::Prompt);
    let (_herdr, panes) = one(deaf);
    assert_eq!(
        unknown(panes.deliver(PANE, &Delivery::Command(ControlCommand::Clear))),
        Door::Keys
    );
}

// spec: PUSH-057
#[test]
fn a_herdr_that_is_not_there_is_said_to_be_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("herdr.sock");
    let nobody = HerdrPanes::at(&socket);
    let says_why = |panes: &HerdrPanes| {
        let why = panes.available().unwrap_err();
        assert!(why.len() > 20 && !why.chars().any(char::is_control), "{why}");
        assert!(matches!(panes.probe(PANE), Probe::Unknown { .. }));
        assert!(panes.read(PANE, 10, false).is_err());
        assert_eq!(held(panes.deliver(PANE, &text("hello"))).0, Why::Unavailable);
    };
    says_why(&nobody);
    // Somebody holds the place and takes no connection: its queue is full.
    let listener = UnixListener::bind(&socket).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let _queued: Vec<_> = (0..8).map_while(|_| full(&socket)).collect();
    let begun = Instant::now();
    assert!(nobody.available().is_err());
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let long = folder.path().join("x".repeat(200));
    says_why(&HerdrPanes::at(&long));
}

/// One connection more, unless the queue is full.
fn full(socket: &Path) -> Option<std::os::fd::OwnedFd> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket as make};
    use std::os::fd::AsRawFd as _;
    let made = make(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    connect(made.as_raw_fd(), &UnixAddr::new(socket).unwrap()).ok()?;
    Some(made)
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_without_end() {
    let (herdr, panes) = one(Pane::idle());
    herdr.fault("ping", Fault::Late(Duration::from_secs(30)));
    let begun = Instant::now();
    assert!(panes.available().is_err());
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    herdr.fault("ping", Fault::Late(Duration::from_secs(2)));
    assert_eq!(panes.available(), Ok(()), "a slow answer is one");
}

#[test]
fn what_is_no_herdr_is_not_taken_for_one() {
    let (herdr, panes) = one(Pane::idle());
    assert_eq!((panes.kind(), panes.available()), (TransportKind::Herdr, Ok(())));
    for fault in [
        Fault::Other,
        Fault::Garbled,
        Fault::Half,
        Fault::Refuse("invalid_request"),
    ] {
        herdr.fault("ping", fault);
        assert!(panes.available().is_err());
    }
}

#[test]
fn a_probe_tells_a_pane_that_is_gone_from_one_that_nobody_can_tell_of() {
    let (herdr, panes) = one(Pane::idle());
    assert_eq!(panes.probe(PANE), Probe::Found);
    assert!(matches!(panes.probe("muster-bogus"), Probe::Gone { .. }));
    // Names of panes come to stand for others; herdr's own name is the one to attach to.
    let Probe::Unknown { reason } = panes.probe("old-name") else {
        panic!()
    };
    assert!(reason.contains(PANE), "{reason}");
    assert_eq!(held(panes.deliver("old-name", &text("hello"))).0, Why::PaneGone);
    herdr.fault("pane.get", Fault::Half);
    assert!(matches!(panes.probe(PANE), Probe::Unknown { .. }));
    herdr.close(PANE);
    assert!(matches!(panes.probe(PANE), Probe::Gone { .. }));
}

#[test]
fn a_read_shows_the_newest_rows_and_says_when_some_are_missing() {
    let rows: Vec<String> = (0..1_500)
        .map(|row| format!("\u{1b}[1mrow {row}\u{1b}[0m"))
        .collect();
    let (herdr, panes) = one(Pane { rows, ..Pane::idle() });
    let two = panes.read(PANE, 2, false).unwrap();
    assert_eq!(
        (two.text.as_str(), two.truncated),
        ("row 1498\nrow 1499\n", false)
    );
    let styled = panes.read(PANE, 1, true).unwrap();
    assert_eq!(styled.text, "\u{1b}[1mrow 1499\u{1b}[0m\n");
    let many = panes.read(PANE, 2_000, false).unwrap();
    assert_eq!((many.text.lines().count(), many.truncated), (1_000, true));
    herdr.put(
        "w1:p2",
        Pane {
            rows: vec!["the only row".to_owned()],
            ..Pane::idle()
        },
    );
    let all = panes.read("w1:p2", 2_000, false).unwrap();
    assert_eq!((all.text.as_str(), all.truncated), ("the only row\n", false));
    // Never an empty screen instead of a reason.
    for fault in [
        Fault::Half,
        Fault::Garbled,
        Fault::DoThenClose,
        Fault::Refuse("ui_busy"),
    ] {
        herdr.fault("pane.read", fault);
        let why = panes.read(PANE, 10, false).unwrap_err();
        assert!(why.len() > 12 && !why.chars().any(char::is_control), "{why:?}");
    }
    assert!(panes.read("w1:p9", 10, false).is_err());
}

#[test]
fn the_environment_says_where_herdr_listens() {
    let herdr = Herdr::new();
    let folder = herdr.folder();
    let of = |variables: &[(&str, &str)]| {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        HerdrPanes::of(move |name| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        })
    };
    let (root, socket) = (folder.to_str().unwrap(), herdr.socket());
    let link = |path: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&socket, path).unwrap();
    };
    assert_eq!(
        of(&[("HERDR_SOCKET_PATH", socket.to_str().unwrap())]).available(),
        Ok(())
    );
    let home = format!("{root}/home");
    assert!(of(&[("HOME", &home)]).available().is_err());
    link("home/.config/herdr/herdr.sock");
    assert_eq!(of(&[("HOME", &home)]).available(), Ok(()));
    let named = [("HOME", home.as_str()), ("HERDR_SESSION", "work")];
    assert!(
        of(&named).available().is_err(),
        "a session that is named is not another one"
    );
    link("home/.config/herdr/sessions/work/herdr.sock");
    assert_eq!(of(&named).available(), Ok(()));
    link("config/herdr/sessions/work/herdr.sock");
    let config = format!("{root}/config");
    let elsewhere = [
        ("HOME", "/nonexistent"),
        ("XDG_CONFIG_HOME", &config),
        ("HERDR_SESSION", "work"),
    ];
    assert_eq!(of(&elsewhere).available(), Ok(()));
    // The path comes first.
    let both = [
        ("HERDR_SOCKET_PATH", "/nonexistent/herdr.sock"),
        ("HOME", home.as_str()),
    ];
    assert!(of(&both).available().is_err());
    for name in ["../work", "..", "a/b", ".hidden"] {
        assert!(
            of(&[("HOME", &home), ("HERDR_SESSION", name)])
                .available()
                .is_err(),
            "{name}"
        );
    }
    assert!(of(&[]).available().is_err());
}
