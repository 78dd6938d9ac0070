//! Looking through a source by number: what is shown, what it costs, and what counts as seen.

use std::collections::BTreeSet;

use muster_bus::limits::{Bound, Limits};
use muster_bus::read::{page, seen, unread};
use muster_bus::{Home, Mode, post};
use muster_core::Clock;
use proptest::prelude::*;
use serde_json::json;

use super::support::{bus, room, seat, word};

fn line(number: usize) -> String {
    json!({"id": format!("m{number}"), "ts": number, "from": "bob", "text": format!("n{number}")}).to_string()
        + "\n"
}

fn texts(found: &muster_bus::read::Page) -> Vec<String> {
    found.entries.iter().map(|entry| word(entry, "text")).collect()
}

#[test]
fn pages_put_end_to_end_are_the_source() {
    let bus = bus();
    let lines: String = (0..1_000).map(line).collect();
    bus.put("room.jsonl", lines);
    let (mut before, mut all) = (None, Vec::new());
    loop {
        let found = page(&bus.home, &seat("david"), &room("general"), before, 37).unwrap();
        assert_eq!(found.total, 1_000);
        assert_eq!(found.read, 0);
        let mut texts = texts(&found);
        texts.append(&mut all);
        all = texts;
        if found.first == 0 {
            break;
        }
        before = Some(found.first);
    }
    let wanted: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
    assert_eq!(all, wanted);
}

#[test]
fn a_look_makes_nothing_and_moves_nothing() {
    let bus = bus();
    let found = page(&bus.home, &seat("david"), &room("ops"), None, 50).unwrap();
    assert_eq!((found.total, found.entries.len()), (0, 0));
    assert!(!bus.path("rooms/ops.jsonl").exists());
    bus.put("room.jsonl", line(0));
    page(&bus.home, &seat("david"), &room("general"), None, 50).unwrap();
    assert!(!bus.path("cursors/david.json").exists());
    assert_eq!(unread(&bus.home, &seat("david"), &room("general")).unwrap(), 1);
}

#[test]
fn a_page_is_bounded_in_bytes_and_keeps_what_stands_nearest() {
    let bus = bus();
    let long = "x".repeat(300 * 1024);
    let lines: String = (0..40)
        .map(|number| {
            json!({"id": number, "from": "bob", "text": format!("{number} {long}")}).to_string() + "\n"
        })
        .collect();
    bus.put("room.jsonl", lines);
    let found = page(&bus.home, &seat("david"), &room("general"), Some(30), 30).unwrap();
    assert!(found.entries.len() < 20, "{}", found.entries.len());
    assert_eq!(found.first + found.entries.len() as u64, 30);
    assert!(texts(&found).last().unwrap().starts_with("29 "));
}

#[test]
fn what_was_seen_is_read_and_what_came_after_it_is_not() {
    let bus = bus();
    let (david, general) = (seat("david"), room("general"));
    bus.put("room.jsonl", (0..10).map(line).collect::<String>());
    let found = page(&bus.home, &david, &general, None, 10).unwrap();
    assert!(seen(&bus.home, &david, &general, 6, &found.entries[6]).unwrap());
    assert_eq!(unread(&bus.home, &david, &general).unwrap(), 3);
    // Scrolling back unreads nothing.
    assert!(!seen(&bus.home, &david, &general, 2, &found.entries[2]).unwrap());
    assert_eq!(page(&bus.home, &david, &general, None, 1).unwrap().read, 7);
    // The same reader's tool goes on from there.
    let batch = bus.read("david", &general, Default::default());
    assert_eq!(batch.returned, 3);
}

#[test]
fn an_entry_that_a_cut_has_moved_is_not_taken_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        room: Bound { max: 20, keep: 5 },
        ..Limits::default()
    };
    let home = Home::open(dir.path(), limits, Clock::system()).unwrap();
    home.choose(Mode::Native).unwrap();
    let (david, general) = (seat("david"), room("general"));
    let say = |number: usize| {
        post::post(
            &home,
            &seat("bob"),
            &muster_bus::RoomName::general(),
            &format!("n{number}"),
            None,
        )
        .unwrap()
    };
    (0..20).for_each(|number| drop(say(number)));
    let before = page(&home, &david, &general, None, 20).unwrap();
    say(20);
    let after = page(&home, &david, &general, None, 20).unwrap();
    assert_eq!(after.total, 5);
    // What was number 4 before is another entry now: nothing is noted, so nothing unseen is skipped.
    assert!(!seen(&home, &david, &general, 4, &before.entries[4]).unwrap());
    assert_eq!(unread(&home, &david, &general).unwrap(), 5);
}

#[test]
fn a_damaged_cursor_file_is_replaced_by_what_was_seen() {
    let bus = bus();
    let (david, general) = (seat("david"), room("general"));
    bus.put("room.jsonl", (0..10).map(line).collect::<String>());
    bus.put("cursors/david.json", "{ nothing");
    let found = page(&bus.home, &david, &general, None, 10).unwrap();
    assert_eq!(found.read, 0);
    assert!(seen(&bus.home, &david, &general, 9, &found.entries[9]).unwrap());
    assert_eq!(unread(&bus.home, &david, &general).unwrap(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_page_is_the_numbers_that_were_asked_for(total in 0_usize..400, before in 0_u64..500, limit in 0_usize..600, torn in any::<bool>()) {
        let bus = bus();
        let mut lines: String = (0..total).map(line).collect();
        lines.insert_str(0, "not an entry\n\n");
        if torn {
            lines.push_str("{\"text\": \"half");
        }
        bus.put("room.jsonl", lines);
        let found = page(&bus.home, &seat("david"), &room("general"), Some(before), limit).unwrap();
        let end = before.min(total as u64);
        let first = end.saturating_sub(limit.min(500) as u64);
        let wanted: Vec<String> = (first..end).map(|number| format!("n{number}")).collect();
        prop_assert_eq!(texts(&found), wanted);
        prop_assert_eq!(found.first, first);
        prop_assert_eq!(found.total, total as u64);
        let distinct: BTreeSet<String> = texts(&found).into_iter().collect();
        prop_assert_eq!(distinct.len(), found.entries.len());
    }
}
