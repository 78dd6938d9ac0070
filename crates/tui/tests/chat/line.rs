//! On a terminal, line by line: what is typed stays, whatever comes above it.

use super::support::{Bus, Pane, eventually};

// spec: CHAT-005 CHAT-006 CHAT-007
#[test]
fn messages_come_above_the_prompt_and_leave_what_is_typed() {
    let bus = Bus::new();
    bus.register("bob");
    let Some(pane) = Pane::open(&bus, &["--id", "david", "--plain"], 80, 20) else {
        return;
    };
    pane.typed_row("david #general (1 peer)>");
    pane.type_text("half a tho");
    pane.typed_row("david #general (1 peer)> half a tho");
    for number in 0..5 {
        bus.post("bob", "general", &format!("message {number}\nwith a second line"));
    }
    pane.shows("message 4");
    let screen = pane.typed_row("david #general (1 peer)> half a tho");
    assert_eq!(
        screen.iter().filter(|row| row.contains("half a tho")).count(),
        1,
        "{screen:#?}"
    );
    pane.press(&["Left", "Left", "BSpace"]);
    pane.type_text("xx");
    pane.typed_row("david #general (1 peer)> half a xxho");
    pane.press(&["End", "C-u"]);
    pane.line("whole");
    pane.shows("<david> whole");
    eventually("it is posted", || {
        bus.texts("room.jsonl").contains(&"whole".to_owned())
    });
    // The line that was typed before is a key away.
    pane.press(&["Up"]);
    pane.typed_row("david #general (1 peer)> whole");
    pane.press(&["C-u"]);
    pane.type_text("/di");
    pane.press(&["BSpace", "BSpace"]);
    pane.type_text("dm bo");
    pane.press(&["Tab"]);
    pane.typed_row("david #general (1 peer)> /dm bob");
    pane.line("hi");
    pane.shows("[dm to bob] <david> hi");
    pane.press(&["C-d"]);
    assert_eq!(pane.code(), 0);
    assert!(!bus.registered("david"));
}

// spec: CHAT-029
#[test]
fn ctrl_c_unregisters_and_leaves_the_terminal_as_it_was() {
    let bus = Bus::new();
    let Some(pane) = Pane::open(&bus, &["--id", "david", "--plain"], 80, 20) else {
        return;
    };
    pane.typed_row("david #general (0 peers)>");
    pane.type_text("unfinished");
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
    assert!(!bus.registered("david"));
    assert_eq!(bus.texts("room.jsonl"), [""; 0]);
    // The terminal echoes again.
    pane.line("echo");
    pane.until("the terminal echoes", |screen| {
        screen.iter().filter(|row| row.contains("echo")).count() == 2
    });
}

#[test]
fn a_dumb_terminal_gets_no_escape_at_all() {
    let bus = Bus::new();
    let mut command = bus.chat(&["--id", "david"]);
    command.env("TERM", "dumb");
    let mut raw = super::support::Raw::open(command, 60, 10);
    raw.shows("david #general (0 peers)>");
    raw.press(b"hello\r");
    raw.shows("<david> hello");
    bus.post("bob", "general", "\u{1b}[31mred");
    raw.shows("\\u{1b}[31mred");
    raw.press(b"/quit\r");
    assert_eq!(raw.wait().code(), Some(0));
    assert!(!raw.bytes().contains(&0x1b), "{:?}", raw.text());
}

#[test]
fn another_size_keeps_what_is_typed() {
    let bus = Bus::new();
    let Some(pane) = Pane::open(&bus, &["--id", "david", "--plain"], 80, 20) else {
        return;
    };
    pane.typed_row("david #general (0 peers)>");
    pane.type_text("a text that is kept");
    pane.tmux(&["resize-window", "-x", "50", "-y", "10"]);
    pane.typed_row("david #general (0 peers)> a text that is kept");
    pane.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    pane.press(&["Enter"]);
    eventually("it is posted", || {
        bus.texts("room.jsonl") == ["a text that is kept"]
    });
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
}
