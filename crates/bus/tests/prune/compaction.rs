//! Logs that are cut because they grew too long. Never by age alone.

use super::*;
use muster_bus::limits::Limits;
use muster_bus::rooms;

fn small() -> Bus {
    Bus::with(Limits {
        room: Bound { max: 20, keep: 10 },
        status: Bound { max: 20, keep: 10 },
    })
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

// spec: STO-047 STO-049 STO-053
#[test]
fn a_channel_over_a_thousand_is_cut_to_five_hundred_and_the_status_stream_at_twice_that() {
    let bus = Bus::with(Limits::default());
    for number in 0..1_000 {
        bus.post("general", &number.to_string(), None);
        bus.post("seo", &number.to_string(), None);
    }
    assert!(!bus.has("archive"));
    for (name, live, archive) in [
        ("general", "room.jsonl", "archive/rooms/general.jsonl"),
        ("seo", "rooms/seo.jsonl", "archive/rooms/seo.jsonl"),
    ] {
        bus.post(name, "1000", None);
        assert_eq!(bus.texts(live), numbers(501..1_001));
        assert_eq!(bus.texts(archive), numbers(0..501));
    }
    let seat = bus.join("ann");
    for number in 0..2_001 {
        assert!(!bus.has("archive/status.jsonl"));
        post::status(&bus.home, &seat, &number.to_string(), None).unwrap();
    }
    assert_eq!(bus.texts("status.jsonl"), numbers(1_001..2_001));
    assert_eq!(bus.texts("archive/status.jsonl"), numbers(0..1_001));
}

// spec: STO-048 STO-050 STO-054
#[test]
fn the_limits_can_be_set_and_those_that_make_no_sense_are_told_of() {
    let of = |pairs: &[(&str, &str)]| {
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Limits::of(value)
    };
    let (limits, said) = of(&[
        ("AGENT_COORD_ROOM_MAX", "20"),
        ("AGENT_COORD_ROOM_KEEP", "10"),
        ("AGENT_COORD_STATUS_MAX", "8"),
        ("AGENT_COORD_STATUS_KEEP", "4"),
    ]);
    assert_eq!(said, [""; 0]);
    let bus = Bus::with(limits);
    let seat = bus.join("ann");
    for number in 0..21 {
        bus.post("general", &number.to_string(), None);
        post::status(&bus.home, &seat, &number.to_string(), None).unwrap();
    }
    assert_eq!(bus.texts("room.jsonl"), numbers(11..21));
    assert_eq!(bus.texts("status.jsonl").last().unwrap(), "20");
    assert!(bus.texts("status.jsonl").len() <= 8);
    for nonsense in [
        ("10", "10"),
        ("10", "20"),
        ("many", "10"),
        ("20", "-1"),
        ("20", "0"),
        ("", "5"),
    ] {
        let (limits, said) = of(&[
            ("AGENT_COORD_ROOM_MAX", nonsense.0),
            ("AGENT_COORD_ROOM_KEEP", nonsense.1),
        ]);
        assert_eq!(limits, Limits::default(), "{nonsense:?}");
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("AGENT_COORD_ROOM_MAX") && said[0].contains("1000"));
    }
}

// spec: STO-051 STO-052 STO-053
#[test]
fn a_fresh_decision_outlives_the_cut_and_an_old_one_does_not() {
    let bus = small();
    bus.post("general", "old decision", Some(Kind::Decision));
    bus.days(31);
    bus.post("general", "fresh decision", Some(Kind::Decision));
    for number in 0..19 {
        bus.post("general", &number.to_string(), None);
    }
    let live = bus.texts("room.jsonl");
    assert_eq!(live[0], "fresh decision");
    assert!(!live.contains(&"old decision".to_owned()));
    let archived = bus.texts("archive/rooms/general.jsonl");
    assert_eq!(archived[0], "old decision");
    // But for the decision in between, archive and channel are what was written, in that order.
    let mut all = archived;
    all.extend(live.into_iter().filter(|text| text != "fresh decision"));
    assert_eq!(
        all,
        ["old decision".to_owned()]
            .into_iter()
            .chain(numbers(0..19))
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_channel_full_of_fresh_decisions_is_looked_through_again_only_after_as_many_posts_as_a_cut_takes_out() {
    let bus = small();
    for number in 0..21 {
        bus.post("general", &number.to_string(), Some(Kind::Decision));
    }
    // Now all of them may go, so a post that looked would take them.
    bus.days(31);
    for number in 21..30 {
        bus.post("general", &number.to_string(), None);
        assert!(!bus.has("archive"), "the channel was looked through for {number}");
    }
    assert_eq!(bus.texts("room.jsonl"), numbers(0..30));
    bus.post("general", "30", None);
    assert_eq!(bus.texts("room.jsonl"), numbers(21..31));
    assert_eq!(bus.texts("archive/rooms/general.jsonl"), numbers(0..21));
    // What was noted of the file before says nothing of the one that took its place.
    for number in 31..42 {
        bus.post("general", &number.to_string(), None);
    }
    assert_eq!(bus.texts("room.jsonl"), numbers(32..42));
}

// spec: STO-034
#[test]
fn a_reader_in_the_middle_gets_only_what_is_new_to_it_when_the_channel_is_cut() {
    for read in 0..20_u32 {
        let bus = small();
        for number in 0..read {
            bus.post("general", &number.to_string(), None);
        }
        let source = Source::Room(room("general"));
        bus.read("bob", &source);
        for number in read..21 {
            bus.post("general", &number.to_string(), None);
        }
        assert_eq!(bus.texts("room.jsonl").len(), 10);
        let texts: Vec<String> = bus
            .read("bob", &source)
            .messages
            .iter()
            .map(|entry| entry["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(texts, numbers(read.max(11)..21), "read {read}");
        assert_eq!(bus.read("bob", &source).returned, 0);
        bus.post("general", "later", None);
        assert_eq!(bus.read("bob", &source).returned, 1);
    }
}

// spec: STO-035
#[test]
fn a_cursor_past_the_end_hides_no_later_message() {
    let bus = Bus::new();
    bus.join("bob");
    bus.send("bob", "before");
    bus.write("cursors/bob.json", "{\"inboxOffset\":1000000000}");
    bus.send("bob", "after");
    let batch = bus.read("bob", &Source::Inbox);
    assert!(batch.messages.iter().any(|entry| entry["text"] == "after"));
    assert!(batch.note.is_some());
    bus.send("bob", "later");
    let batch = bus.read("bob", &Source::Inbox);
    assert_eq!((batch.returned, batch.note), (1, None));
}

#[test]
fn a_reader_who_was_behind_a_cut_is_told_once_how_much_of_it_is_in_the_archive_only() {
    let bus = small();
    let seo = Source::Room(room("seo"));
    let (ann, bob) = (bus.join("ann"), bus.join("bob"));
    for number in 0..8 {
        bus.post("seo", &number.to_string(), None);
    }
    bus.read("ann", &seo);
    let peek = || {
        let want = read::Want {
            peek: true,
            ..read::Want::default()
        };
        read::read(&bus.home, &ann, &seo, want).unwrap()
    };
    for number in 8..21 {
        bus.post("seo", &number.to_string(), None);
    }
    // Eleven of 21 went; ann had read eight of them.
    assert_eq!(bus.texts("archive/rooms/seo.jsonl").len(), 11);
    assert_eq!((peek().archived_unread, peek().archived_unread), (3, 3));
    let batch = bus.read("ann", &seo);
    assert_eq!((batch.archived_unread, batch.returned), (3, 10));
    assert_eq!(peek().archived_unread, 0);
    // Two cuts are told of together.
    for number in 0..30 {
        bus.post("seo", &number.to_string(), None);
    }
    let gone = bus.texts("archive/rooms/seo.jsonl").len() as u64;
    let batch = bus.read("ann", &seo);
    assert_eq!(batch.archived_unread, gone - 21);
    assert_eq!(batch.archived_unread + batch.total_new as u64, 30);
    // Whoever is new to a channel has missed nothing, and what was read is not missed.
    assert_eq!(bus.read("bob", &seo).archived_unread, 0);
    post::status(&bus.home, &bob, "x", None).unwrap();
    assert_eq!(bus.read("ann", &Source::Status).archived_unread, 0);
    // The same when a cleaning takes what is old.
    bus.post("seo", "old", None);
    bus.days(8);
    bus.removed(&Want::default());
    bus.post("seo", "new", None);
    let batch = bus.read("ann", &seo);
    assert_eq!((batch.archived_unread, batch.returned), (1, 1));
}

#[test]
fn who_joined_a_channel_and_never_read_it_hears_what_a_cut_took_and_how_much_of_it_was_urgent() {
    let bus = small();
    let seo = Source::Room(room("seo"));
    let (ann, bob) = (bus.join("ann"), bus.join("bob"));
    rooms::join(&bus.home, &ann, &room("seo")).unwrap();
    rooms::join(&bus.home, &bob, &room("seo")).unwrap();
    bus.read("bob", &seo);
    for number in 0..3 {
        bus.post("seo", &format!("BLOCKER: {number}"), None);
    }
    bus.read("bob", &seo);
    for number in 0..40 {
        let text = if number == 1 { "GO: 1" } else { "talk" };
        bus.post("seo", text, None);
    }
    let gone = bus.texts("archive/rooms/seo.jsonl");
    let urgent = gone
        .iter()
        .filter(|text| text.starts_with("BLOCKER:") || text.starts_with("GO:"))
        .count();
    assert_eq!(urgent, 4, "{gone:?}");
    let peek = read::Want {
        peek: true,
        ..read::Want::default()
    };
    let batch = read::read(&bus.home, &ann, &seo, peek).unwrap();
    // That the others joined stands there, too, and her own coming is no news to her.
    assert_eq!(
        (batch.archived_unread, batch.archived_urgent),
        (gone.len() as u64, 4)
    );
    let batch = bus.read("bob", &seo);
    assert_eq!(batch.archived_urgent, 1, "the others he had read");
    assert_eq!(bus.read("bob", &seo).archived_urgent, 0, "told once");
    // Whoever reads before anything is cut, or comes later, has missed nothing.
    let cat = bus.join("cat");
    rooms::join(&bus.home, &cat, &room("seo")).unwrap();
    assert_eq!(bus.read("cat", &seo).archived_unread, 0);
}

#[test]
fn joining_moves_no_cursor_and_makes_none_of_a_file_that_says_nothing() {
    let bus = small();
    let seo = Source::Room(room("seo"));
    let ann = bus.join("ann");
    rooms::join(&bus.home, &ann, &room("seo")).unwrap();
    bus.post("seo", "one", None);
    bus.read("ann", &seo);
    rooms::join(&bus.home, &ann, &room("seo")).unwrap();
    assert_eq!(bus.read("ann", &seo).returned, 0);
    bus.write("cursors/ann.json", "{");
    rooms::join(&bus.home, &ann, &room("seo")).unwrap();
    assert_eq!(
        std::fs::read_to_string(bus.home.root().join("cursors/ann.json")).unwrap(),
        "{"
    );
}
