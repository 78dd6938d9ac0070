//! What an attack on the bus found, each as the law that holds now: calls that go away, writers that take no lock, floods. Never waits for luck where a step can be forced.

use std::cell::Cell;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_bus::read::{Want, read, read_for};
use muster_bus::{BusError, Kind, RoomName, SeatId, Source, history, post, rooms};

use crate::support::{bus, shared_bus};

fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

#[test]
fn a_call_that_nobody_waits_for_any_more_marks_nothing_as_read() {
    let bus = bus();
    let (ada, bob) = (seat("ada"), seat("bob"));
    post::send(&bus.home, &ada, &bob, "still there").unwrap();
    post::post(&bus.home, &ada, &RoomName::general(), "here too", None).unwrap();
    for source in [Source::Inbox, Source::Room(RoomName::general())] {
        let asked = Cell::new(0);
        // It goes away while the log is read: the last question before the cursor moves is answered no.
        let gone = read_for(&bus.home, &bob, &source, Want::default(), &|| {
            asked.set(asked.get() + 1);
            false
        });
        assert!(matches!(gone, Err(BusError::Gone)), "{gone:?}");
        assert_eq!(asked.get(), 1);
        assert_eq!(
            read(&bus.home, &bob, &source, Want::default()).unwrap().returned,
            1
        );
    }
}

#[test]
fn a_writer_that_takes_no_lock_hides_none_of_our_messages() {
    let bus = shared_bus();
    let (ada, bob) = (seat("ada"), seat("bob"));
    muster_bus::registry::register(&bus.home, &bob, None, None).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (path, ends) = (bus.path("inbox/bob.jsonl"), stop.clone());
    let other = std::thread::spawn(move || {
        let mut log = std::fs::File::options().append(true).open(path).unwrap();
        let mut written = 0;
        while !ends.load(Ordering::Relaxed) {
            let line = format!(
                "{{\"id\":\"other-{written}\",\"ts\":1,\"from\":\"other\",\"to\":\"bob\",\"text\":\"x\"}}\n"
            );
            log.write_all(line.as_bytes()).unwrap();
            written += 1;
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        written
    });
    // The first three seconds of a file are looked after message by message; this is about the ones that follow.
    std::thread::sleep(std::time::Duration::from_millis(3_200));
    let ours: Vec<String> = (0..400)
        .map(|_| post::send(&bus.home, &ada, &bob, "ours").unwrap().id)
        .collect();
    stop.store(true, Ordering::Relaxed);
    let theirs = other.join().unwrap();
    let mut seen = Vec::new();
    loop {
        let batch = read(&bus.home, &bob, &Source::Inbox, Want::default()).unwrap();
        if batch.returned == 0 {
            assert_eq!(batch.remaining, 0);
            break;
        }
        seen.extend(
            batch
                .messages
                .iter()
                .map(|entry| entry["id"].as_str().unwrap().to_owned()),
        );
    }
    for id in &ours {
        assert_eq!(seen.iter().filter(|seen| *seen == id).count(), 1, "{id}");
    }
    assert_eq!(seen.len(), ours.len() + theirs, "every line was returned once");
}

#[test]
fn a_flood_of_long_posts_is_answered_within_bounds_and_none_of_it_is_lost() {
    const LONG: usize = 200 * 1024;
    let bus = bus();
    let (ada, bob, room) = (seat("ada"), seat("bob"), RoomName::parse("flood").unwrap());
    let text = "\u{1}".repeat(LONG);
    for _ in 0..30 {
        post::post(&bus.home, &ada, &room, &text, Some(Kind::Decision)).unwrap();
    }
    let batch = read(&bus.home, &bob, &Source::Room(room.clone()), Want::default()).unwrap();
    let size = serde_json::to_string(&batch.messages).unwrap().len();
    assert!((1..6 * 1024 * 1024).contains(&size), "{size} bytes of messages");
    let history = batch.history.unwrap();
    assert!(
        history.digest.len() < 1024 * 1024,
        "{} bytes of digest",
        history.digest.len()
    );
    assert!(!history.decisions.is_empty() && history.digest.contains("only behind the hash"));
    let kept = history::retrieve(&bus.home, &bob, &history.hash, None).unwrap();
    assert!(!kept.is_empty() && kept.len() + batch.returned <= 30);
    assert_eq!(
        bus.lines("rooms/flood.jsonl").len(),
        30,
        "what no digest holds stands in the channel's file"
    );
}

#[test]
fn what_was_done_to_a_channel_is_not_called_undone_because_nobody_could_be_told() {
    let bus = bus();
    let (ada, room) = (seat("ada"), RoomName::parse("crew").unwrap());
    rooms::join(&bus.home, &ada, &room).unwrap();
    // A folder in the place of the channel's file: the notice cannot be written, the registry of channels can.
    std::fs::remove_file(bus.path("rooms/crew.jsonl")).unwrap();
    std::fs::create_dir(bus.path("rooms/crew.jsonl")).unwrap();
    rooms::set(&bus.home, &ada, &room, rooms::Line::Topic, "the release").unwrap();
    assert!(rooms::leave(&bus.home, &ada, &room).unwrap());
    let entry = rooms::Rooms::load(&bus.home).unwrap().get(&room).unwrap();
    assert_eq!(entry.topic.as_deref(), Some("the release"));
    assert!(entry.members.is_empty());
}

#[test]
fn a_sender_learns_of_an_agent_that_another_process_registered_a_moment_ago() {
    let bus = bus();
    let (ada, bob) = (seat("ada"), seat("bob"));
    let warned = || {
        post::send(&bus.home, &ada, &bob, "hello")
            .unwrap()
            .warning
            .is_some()
    };
    assert!(warned() && warned(), "nobody is registered");
    // Another handle on the directory is as good as another process: it shares nothing with the first.
    let other = crate::support::open(bus.home.root());
    muster_bus::registry::register(&other, &bob, None, None).unwrap();
    assert!(!warned());
    assert!(muster_bus::registry::unregister(&other, &bob).unwrap());
    assert!(warned());
}
