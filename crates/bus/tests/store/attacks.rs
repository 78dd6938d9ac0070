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

/// What a reader has not read of each source, by text, in order.
fn texts(bus: &crate::support::Bus, reader: &SeatId, source: &Source) -> Vec<String> {
    let batch = read(&bus.home, reader, source, Want::default()).unwrap();
    let said = |entry: &muster_bus::Entry| {
        let said = entry.get("text").or_else(|| entry.get("status")).unwrap();
        said.as_str().unwrap().to_owned()
    };
    batch.messages.iter().map(said).collect()
}

fn write(bus: &crate::support::Bus, source: &Source, text: &str) {
    let (ada, bob) = (seat("ada"), seat("bob"));
    match source {
        Source::Inbox => post::send(&bus.home, &ada, &bob, text),
        Source::Room(room) => post::post(&bus.home, &ada, room, text, None),
        Source::Status => post::status(&bus.home, &ada, text, None),
    }
    .unwrap();
}

// spec: STO-021 STO-035
#[test]
fn a_log_that_somebody_empties_or_removes_hides_nothing_that_is_written_afterwards() {
    for how in ["emptied", "removed", "replaced by a shorter one"] {
        let bus = bus();
        let bob = seat("bob");
        for (source, name) in [
            (Source::Inbox, "inbox/bob.jsonl"),
            (Source::Room(RoomName::general()), "room.jsonl"),
            (Source::Room(RoomName::parse("seo").unwrap()), "rooms/seo.jsonl"),
            (Source::Status, "status.jsonl"),
        ] {
            let old: Vec<String> = (0..5).map(|number| format!("old {number}")).collect();
            old.iter().for_each(|text| write(&bus, &source, text));
            assert_eq!(texts(&bus, &bob, &source), old);
            let kept = match how {
                "emptied" => {
                    bus.put(name, "");
                    0
                }
                "removed" => {
                    std::fs::remove_file(bus.path(name)).unwrap();
                    0
                }
                _ => {
                    let text = bus.bytes(name);
                    let two: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').take(2).collect();
                    bus.put(name, two.concat());
                    2
                }
            };
            // As many as were read before, so that a place among the old ones would be one behind all of the new.
            let new: Vec<String> = (0..5).map(|number| format!("new {number}")).collect();
            new.iter().for_each(|text| write(&bus, &source, text));
            let seen = texts(&bus, &bob, &source);
            assert_eq!(seen, [&old[..kept], &new[..]].concat(), "{name} {how}");
            assert!(texts(&bus, &bob, &source).is_empty(), "{name} {how}");
        }
    }
}

#[test]
fn in_a_shared_directory_a_log_that_was_emptied_hides_nothing_and_the_cursors_of_one_that_was_cut_are_the_cutters()
 {
    let bus = shared_bus();
    let (bob, general) = (seat("bob"), Source::Room(RoomName::general()));
    let place = || bus.json("cursors/bob.json")["roomOffset"].clone();
    // The first messages of a new file are looked after, and written again; this is about the ones that follow.
    std::thread::sleep(std::time::Duration::from_millis(3_200));
    for round in 0..2 {
        let old: Vec<String> = (0..5).map(|number| format!("{round} old {number}")).collect();
        old.iter().for_each(|text| write(&bus, &general, text));
        assert_eq!(texts(&bus, &bob, &general), old);
        assert_eq!(place(), 5);
        bus.put("room.jsonl", "");
        write(&bus, &general, "new");
        assert_eq!(place(), 0);
        bus.put("room.jsonl", "");
        write(&bus, &general, "newer");
        assert_eq!(texts(&bus, &bob, &general), ["newer"]);
        bus.put("room.jsonl", "");
    }
    for number in 0..5 {
        write(&bus, &general, &number.to_string());
    }
    texts(&bus, &bob, &general);
    let text = bus.bytes("room.jsonl");
    let two: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').skip(3).collect();
    bus.put("room.jsonl", two.concat());
    write(&bus, &general, "6");
    assert_eq!(place(), 5, "whoever cut it moves it by three");
}

#[test]
fn a_reader_whose_place_a_shorter_log_still_has_keeps_it() {
    let bus = bus();
    let (bob, general) = (seat("bob"), Source::Room(RoomName::general()));
    for number in 0..3 {
        write(&bus, &general, &number.to_string());
    }
    assert_eq!(texts(&bus, &bob, &general), ["0", "1", "2"]);
    for number in 3..6 {
        write(&bus, &general, &number.to_string());
    }
    let text = bus.bytes("room.jsonl");
    let four: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').take(4).collect();
    bus.put("room.jsonl", four.concat());
    write(&bus, &general, "new");
    assert_eq!(texts(&bus, &bob, &general), ["3", "new"]);
}

#[test]
fn a_read_that_fails_says_that_nothing_was_marked_as_read_and_a_write_that_nothing_was_written() {
    let bus = bus();
    let (ada, bob) = (seat("ada"), seat("bob"));
    let fails = |error: BusError, holds: &str| {
        let said = error.to_string();
        assert!(said.ends_with(holds), "{said}");
        assert_eq!((error.code(), error.is_fault()), ("fault", true));
    };
    post::send(&bus.home, &ada, &bob, "waits").unwrap();
    let folder = |name: &str| {
        let _ = std::fs::remove_file(bus.path(name));
        std::fs::create_dir(bus.path(name)).unwrap();
    };
    folder("cursors/bob.json");
    let unread = "; nothing was marked as read";
    fails(
        read(&bus.home, &bob, &Source::Inbox, Want::default()).unwrap_err(),
        unread,
    );
    fails(
        muster_bus::read::unread(&bus.home, &bob, &Source::Inbox).unwrap_err(),
        unread,
    );
    folder("inbox/bob.jsonl");
    fails(
        read(&bus.home, &bob, &Source::Inbox, Want::default()).unwrap_err(),
        unread,
    );
    fails(
        muster_bus::read::depth(&bus.home, &bob, &Source::Inbox).unwrap_err(),
        unread,
    );
    folder(".muster/history/0123456789ab.json");
    fails(
        history::retrieve(&bus.home, &bob, "0123456789ab", None).unwrap_err(),
        unread,
    );
    fails(
        post::send(&bus.home, &ada, &bob, "x").unwrap_err(),
        "; nothing was written",
    );
}

#[test]
fn a_directory_whose_folders_lead_elsewhere_is_not_opened_and_nothing_is_written_behind_them() {
    use std::os::unix::fs::symlink;

    use muster_bus::Home;
    use muster_bus::doctor::{Options, doctor_at};
    use muster_bus::limits::Limits;
    use muster_core::Clock;

    let dir = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (dir.path().join("bus"), dir.path().join("elsewhere"));
    let open = |root: &std::path::Path| Home::open(root, Limits::default(), Clock::system());
    open(&root).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    for folder in [
        "inbox",
        "cursors",
        "rooms",
        "archive",
        "sessions",
        ".muster",
        ".muster/locks",
    ] {
        let (place, aside) = (root.join(folder), dir.path().join("aside"));
        let was = std::fs::rename(&place, &aside).is_ok();
        symlink(&elsewhere, &place).unwrap();
        let refused = open(&root).err().unwrap();
        assert!(
            matches!(&refused, BusError::LinkedFolder(name) if name == folder),
            "{refused}"
        );
        let looked = Home::look(&root, Limits::default(), Clock::system());
        assert!(matches!(looked, Err(BusError::LinkedFolder(_))));
        let report = doctor_at(&root, Limits::default(), &Clock::system(), &Options::default()).unwrap();
        let [found] = report.findings.as_slice() else {
            panic!("{report:?}");
        };
        assert_eq!(
            (found.check, found.subject.as_str(), report.healthy),
            ("symbolic-link", folder, false)
        );
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{folder}");
        std::fs::remove_file(&place).unwrap();
        if was {
            std::fs::rename(&aside, &place).unwrap();
        }
    }
    // As a whole it may stand anywhere.
    let link = dir.path().join("link");
    symlink(&root, &link).unwrap();
    let home = open(&link).unwrap();
    post::send(&home, &seat("ada"), &seat("bob"), "x").unwrap();
    assert!(root.join("inbox/bob.jsonl").is_file());
}
