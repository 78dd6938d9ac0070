//! Long channels and long pastes: what a person waits for, measured and bounded. Never more than a few pages in memory.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::support::{Bus, Pane, Raw, eventually};

/// A channel of so many messages, written as other programs write it.
fn fill(bus: &Bus, count: usize) {
    let mut lines = String::new();
    for number in 0..count {
        writeln!(
            lines,
            r#"{{"id":"m{number}","ts":{},"from":"bob","room":"general","text":"message {number} with some words in it"}}"#,
            1_700_000_000_000_i64 + i64::try_from(number).unwrap()
        )
        .unwrap();
    }
    std::fs::write(bus.path("room.jsonl"), lines).unwrap();
}

#[test]
fn a_channel_of_a_hundred_thousand_messages_scrolls_without_a_pause() {
    let bus = Bus::new();
    fill(&bus, 100_000);
    let mut raw = Raw::open(bus.chat(&["--id", "david"]), 100, 40);
    raw.shows("message 99999");
    let mut slowest = Duration::ZERO;
    let begun = Instant::now();
    for _ in 0..200 {
        let before = raw.bytes().len();
        let pressed = Instant::now();
        raw.press(b"\x1b[5~");
        while raw.bytes().len() == before {
            assert!(pressed.elapsed() < Duration::from_secs(30), "a page did not come");
            std::thread::sleep(Duration::from_millis(1));
        }
        slowest = slowest.max(pressed.elapsed());
    }
    println!(
        "200 pages up in {:?}, the slowest in {slowest:?}",
        begun.elapsed()
    );
    let pressed = Instant::now();
    raw.press(b"\x1b[1;5H");
    raw.shows("message 0 ");
    println!("to the first message in {:?}", pressed.elapsed());
    let resident = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM"))
            .unwrap()
            .to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let peak = resident(raw.pid());
    println!("{peak} KiB at most");
    assert!(peak < 64 * 1024, "{peak} KiB");
    raw.press(b"\x03");
    assert_eq!(raw.wait().code(), Some(0));
}

#[test]
fn a_paste_of_ten_thousand_lines_is_taken_and_posted_as_one() {
    let bus = Bus::new();
    let Some(pane) = Pane::open(&bus, &["--id", "david"], 100, 24) else {
        return;
    };
    pane.shows("david #general (");
    let lines: String = (0..10_000).fold(String::new(), |mut lines, number| {
        writeln!(lines, "line {number} of it").unwrap();
        lines
    });
    assert!(lines.len() < muster_bus::limits::MAX_TEXT);
    let file = bus.path("paste");
    std::fs::write(&file, &lines).unwrap();
    pane.tmux(&["load-buffer", file.to_str().unwrap()]);
    pane.tmux(&["paste-buffer", "-p"]);
    pane.shows("line 9999 of it");
    // It stays a line to type in.
    let pressed = Instant::now();
    pane.type_text("and more");
    pane.shows("and more");
    println!("typed behind it in {:?}", pressed.elapsed());
    pane.press(&["Enter"]);
    eventually("it is posted", || {
        bus.texts("room.jsonl") == [format!("{lines}and more")]
    });
    pane.typed_row("david #general (0 peers)>");

    // One that is too long is told of, and what was typed is still there.
    pane.type_text("mine");
    std::fs::write(&file, lines.repeat(3)).unwrap();
    pane.tmux(&["load-buffer", file.to_str().unwrap()]);
    pane.tmux(&["paste-buffer", "-p"]);
    pane.shows("a message holds at most 262144");
    pane.typed_row("david #general (0 peers)> mine");
    pane.press(&["C-c"]);
    assert_eq!(pane.code(), 0);
}

#[test]
fn the_same_paste_line_by_line() {
    let bus = Bus::new();
    let mut raw = Raw::open(bus.chat(&["--id", "david", "--plain"]), 100, 24);
    raw.shows("david #general (");
    let lines = "a line\r".repeat(10_000);
    raw.press(b"\x1b[200~");
    raw.press(lines.as_bytes());
    raw.press(b"\x1b[201~the end");
    raw.shows("the end");
    raw.press(b"\r");
    eventually("it is posted", || {
        bus.texts("room.jsonl") == [lines.replace('\r', "\n") + "the end"]
    });
    raw.press(b"\x03");
    assert_eq!(raw.wait().code(), Some(0));
}

#[test]
fn a_script_of_a_thousand_lines_is_posted_in_order() {
    let bus = Bus::new();
    let lines: Vec<String> = (0..900).map(|number| format!("l{number}")).collect();
    let refs: Vec<&str> = lines.iter().map(String::as_str).collect();
    let said = bus.script("david", &refs);
    assert_eq!(said.code, Some(0));
    assert_eq!(bus.texts("room.jsonl"), lines);
}
