//! In full screen: the same commands, channels beside the messages, and a terminal that is given back.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::{Bus, Pane, eventually};

fn sit(bus: &Bus) -> Option<Pane> {
    let pane = Pane::open(bus, &["--id", "david"], 100, 24)?;
    pane.shows("david #general (");
    pane.shows("│>1 #general");
    Some(pane)
}

// spec: CHAT-004 CHAT-005 CHAT-006 CHAT-007 CHAT-011
#[test]
fn a_person_sits_in_the_room_types_and_hears() {
    let bus = Bus::new();
    bus.register("bob");
    let Some(pane) = sit(&bus) else { return };
    pane.typed_row("david #general (1 peer)>");
    assert!(bus.registered("david"));
    pane.type_text("half a th");
    bus.post("bob", "general", "DAVID: are you there?");
    bus.dm("bob", "david", "psst");
    pane.shows("! <bob> DAVID: are you there?");
    pane.shows("[dm] <bob> psst");
    pane.typed_row("david #general (1 peer)> half a th");
    pane.type_text("ought");
    pane.press(&["Enter"]);
    pane.shows("<david> half a thought");
    assert_eq!(bus.texts("room.jsonl").last().unwrap(), "half a thought");
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
    assert!(!bus.registered("david"));
}

// spec: CHAT-008 CHAT-013 CHAT-014 CHAT-015
#[test]
fn channels_are_switched_and_what_is_elsewhere_is_tagged_and_counted() {
    let bus = Bus::new();
    let Some(pane) = sit(&bus) else { return };
    pane.line("/join #ops");
    pane.typed_row("david #ops (0 peers)>");
    pane.line("/msg #general from afar");
    pane.shows("#general <david> from afar");
    pane.typed_row("david #ops (0 peers)>");
    bus.post("bob", "general", "elsewhere");
    pane.shows("#general <bob> elsewhere");
    pane.shows("│ 1 #general 1");
    pane.press(&["M-a"]);
    pane.typed_row("david #general (0 peers)>");
    let screen = pane.shows("<bob> elsewhere");
    assert!(
        !screen.iter().any(|row| row.contains("#general <bob>")),
        "{screen:#?}"
    );
    pane.until("it is read", |screen| {
        screen.iter().any(|row| row.ends_with("│>1 #general"))
    });
    eventually("the cursor says so", || {
        muster_bus::read::unread(
            &bus.home,
            &super::support::name("david"),
            &muster_bus::Source::Room(muster_bus::RoomName::general()),
        )
        .unwrap()
            == 0
    });
    pane.press(&["M-Down"]);
    pane.typed_row("david #ops (0 peers)>");
    pane.line("/part");
    pane.typed_row("david #general (0 peers)>");
    pane.until("it is gone from the list", |screen| {
        !screen
            .iter()
            .any(|row| row.contains(" #ops") && row.contains('│'))
    });
    pane.line("/quit");
    assert_eq!(pane.code(), 0);
}

#[test]
fn any_size_is_drawn_and_what_is_typed_stays() {
    let bus = Bus::new();
    for number in 0..60 {
        bus.post(
            "bob",
            "general",
            &format!("number {number} {}", "words ".repeat(number)),
        );
    }
    let Some(pane) = sit(&bus) else { return };
    pane.type_text("kept");
    for (columns, rows) in [
        ("30", "5"),
        ("200", "50"),
        ("10", "2"),
        ("1", "1"),
        ("72", "24"),
        ("71", "3"),
    ] {
        pane.tmux(&["resize-window", "-x", columns, "-y", rows]);
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    pane.tmux(&["resize-window", "-x", "90", "-y", "20"]);
    pane.typed_row("david #general (0 peers)> kept");
    pane.shows("number 59");
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
}

// spec: CHAT-029
#[test]
fn however_it_ends_the_terminal_is_as_before_and_nobody_is_registered() {
    let bus = Bus::new();
    type End = (&'static str, fn(&Pane));
    let ends: [End; 5] = [
        ("/quit", |pane| pane.line("/quit")),
        ("Ctrl-C", |pane| pane.press(&["C-c"])),
        ("Ctrl-D", |pane| pane.press(&["C-d"])),
        ("SIGTERM", |pane| {
            kill(Pid::from_raw(pane.pid()), Signal::SIGTERM).unwrap()
        }),
        ("SIGHUP", |pane| {
            kill(Pid::from_raw(pane.pid()), Signal::SIGHUP).unwrap()
        }),
    ];
    for (how, end) in ends {
        let Some(pane) = sit(&bus) else { return };
        end(&pane);
        assert_eq!(pane.code(), 0, "{how}");
        assert!(!bus.registered("david"), "{how}");
        assert_eq!(
            pane.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])
                .trim(),
            "0 1",
            "{how}"
        );
        pane.line("echo");
        pane.until("the terminal echoes", |screen| {
            screen.iter().filter(|row| row.contains("echo")).count() == 2
        });
    }
}

#[test]
fn a_pasted_text_of_many_lines_is_one_message() {
    let bus = Bus::new();
    let Some(pane) = sit(&bus) else { return };
    pane.tmux(&["set-buffer", "one\n/quit\n  three\n"]);
    pane.tmux(&["paste-buffer", "-p"]);
    pane.shows("  three");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(bus.texts("room.jsonl"), [""; 0], "nothing is sent before Enter");
    pane.press(&["Enter"]);
    eventually("it is posted", || {
        bus.texts("room.jsonl") == ["one\n/quit\n  three\n"]
    });
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
}

#[test]
fn commands_answer_in_place_and_history_and_tab_work() {
    let bus = Bus::new();
    bus.register("alice");
    let Some(pane) = sit(&bus) else { return };
    pane.line("/foo");
    pane.shows("there is no command /foo, so nothing was posted");
    pane.line("/whois alice");
    pane.shows("alice: no role");
    pane.press(&["Up"]);
    pane.typed_row("david #general (1 peer)> /whois alice");
    pane.press(&["C-u"]);
    pane.type_text("al");
    pane.press(&["Tab"]);
    pane.type_text("hi");
    pane.typed_row("david #general (1 peer)> alice: hi");
    pane.press(&["Enter"]);
    pane.shows("<david> alice: hi");
    pane.line("/nick dave");
    pane.typed_row("dave #general (1 peer)>");
    pane.line("/help");
    pane.shows("Ctrl-C, Ctrl-D");
    pane.press(&["PageUp"]);
    pane.shows("/dm <agent> <text>");
    pane.press(&["Escape"]);
    pane.shows("Ctrl-C, Ctrl-D");
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
    assert!(!bus.registered("dave"));
}

#[test]
fn whoever_suspends_it_comes_back_to_the_same_screen() {
    let bus = Bus::new();
    let Some(pane) = Pane::open_as_job(&bus, &["--id", "david"]) else {
        return;
    };
    pane.shows("│>1 #general");
    pane.type_text("kept");
    pane.typed_row("david #general (0 peers)> kept");
    pane.press(&["C-z"]);
    pane.shows("Stopped");
    assert_eq!(
        pane.tmux(&["display-message", "-p", "#{alternate_on}"]).trim(),
        "0"
    );
    bus.post("bob", "general", "meanwhile");
    pane.line("fg");
    pane.shows("<bob> meanwhile");
    pane.typed_row("david #general (0 peers)> kept");
    pane.press(&["C-l"]);
    pane.typed_row("david #general (0 peers)> kept");
    pane.press(&["C-c"]);
    pane.typed_row("ready");
    pane.line("echo code $?");
    pane.shows("code 0");
    assert!(!bus.registered("david"));
}
