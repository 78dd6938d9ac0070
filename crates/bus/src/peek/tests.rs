//! What others do between the look and the mark, in an order that no race can be made to keep.

use muster_core::Clock;
use muster_core::clock::Time;

use super::*;
use crate::limits::Limits;
use crate::log::{Log, cut};
use crate::post;
use crate::read::{Want, read};

fn bus(messages: usize) -> (tempfile::TempDir, Home, SeatId) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path(), Limits::default(), Clock::manual(Time::from_micros(0))).unwrap();
    let (ada, bea) = (SeatId::parse("ada").unwrap(), SeatId::parse("bea").unwrap());
    for number in 0..messages {
        post::send(&home, &bea, &ada, &format!("<{number}>")).unwrap();
    }
    (dir, home, ada)
}

fn unread(home: &Home, seat: &SeatId) -> Vec<String> {
    let batch = read(home, seat, &Source::Inbox, Want::default()).unwrap();
    batch
        .messages
        .iter()
        .map(|entry| message::field(entry, "text").unwrap().to_owned())
        .collect()
}

fn take(home: &Home, seat: &SeatId, count: usize) {
    let want = Want {
        limit: Some(count),
        ..Want::default()
    };
    assert_eq!(read(home, seat, &Source::Inbox, want).unwrap().returned, count);
}

/// A look while somebody holds the cursor's lock, who lets it go after that.
fn unlocked<'h>(home: &'h Home, seat: &SeatId) -> Peek<'h> {
    let held = lock::lock(home, &home::cursor(seat)).unwrap();
    let peek = Peek::look(home, seat, false).unwrap();
    assert!(peek.held.is_none() && peek.problems().is_empty());
    drop(held);
    peek
}

// spec: HOOK-013
#[test]
fn what_was_cut_away_meanwhile_is_not_counted_as_read_a_second_time() {
    let (_dir, home, ada) = bus(10);
    take(&home, &ada, 6);
    let peek = unlocked(&home, &ada);
    assert!(peek.text().unwrap().contains("<9>"));
    let mut log = Log::open(&home, &home::inbox(&ada)).unwrap();
    log.archive(|number, _| number < 6, Some("archive/inbox/ada.jsonl"))
        .unwrap();
    drop(log);
    post::send(&home, &SeatId::parse("bea").unwrap(), &ada, "<10>").unwrap();
    peek.confirm().unwrap();
    // Told twice, and nothing lost.
    assert_eq!(unread(&home, &ada), ["<6>", "<7>", "<8>", "<9>", "<10>"]);
}

#[test]
fn a_number_that_counted_what_was_cut_away_is_not_written_where_the_cursor_did_not_move() {
    let (_dir, home, ada) = bus(0);
    let bea = SeatId::parse("bea").unwrap();
    for number in 0..40 {
        let text = format!("<{number}> {}", "x".repeat(1_000));
        post::send(&home, &bea, &ada, &text).unwrap();
    }
    let peek = unlocked(&home, &ada);
    let told = peek.text().unwrap();
    assert!(told.contains("<7>") && !told.contains("<9>"), "{told}");
    let mut log = Log::open(&home, &home::inbox(&ada)).unwrap();
    log.archive(|number, _| number < 6, Some("archive/inbox/ada.jsonl"))
        .unwrap();
    drop(log);
    peek.confirm().unwrap();
    assert_eq!(unread(&home, &ada).len(), 34);
}

#[test]
fn a_reader_that_went_on_meanwhile_is_not_set_back() {
    let (_dir, home, ada) = bus(4);
    let peek = unlocked(&home, &ada);
    take(&home, &ada, 4);
    post::send(&home, &SeatId::parse("bea").unwrap(), &ada, "<4>").unwrap();
    peek.confirm().unwrap();
    assert_eq!(unread(&home, &ada), ["<4>"]);
}

#[test]
fn while_a_log_is_being_cut_nothing_is_told_of_it() {
    let (_dir, home, ada) = bus(2);
    let intent = cut::intent_file(&home, &home::inbox(&ada));
    std::fs::create_dir_all(intent.parent().unwrap()).unwrap();
    std::fs::write(&intent, "{}").unwrap();
    let peek = Peek::look(&home, &ada, false).unwrap();
    assert_eq!(peek.text(), None);
    peek.confirm().unwrap();
    std::fs::remove_file(&intent).unwrap();
    assert!(
        Peek::look(&home, &ada, false)
            .unwrap()
            .text()
            .unwrap()
            .contains("<0>")
    );
}

#[test]
fn a_cursor_past_the_end_and_a_stale_index_hide_nothing() {
    let (_dir, home, ada) = bus(300);
    take(&home, &ada, 290);
    let told = Peek::look(&home, &ada, false).unwrap().text().unwrap();
    assert!(told.contains("<290>") && !told.contains("<289>"), "{told}");
    // Another program put a shorter log in its place.
    let log = home.path(&home::inbox(&ada));
    let text = std::fs::read_to_string(&log).unwrap();
    let few: String = text.lines().skip(295).map(|line| format!("{line}\n")).collect();
    std::fs::remove_file(&log).unwrap();
    std::fs::write(&log, few).unwrap();
    let peek = Peek::look(&home, &ada, false).unwrap();
    let told = peek.text().unwrap();
    assert!(
        told.contains("5 new messages") && told.contains("<295>"),
        "{told}"
    );
    peek.confirm().unwrap();
    assert_eq!(Peek::look(&home, &ada, false).unwrap().text(), None);
}
