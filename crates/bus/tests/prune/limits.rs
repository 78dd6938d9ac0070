//! How old is old, what a dry run says, and what a report looks like. Never about who is a member.

use super::*;
use muster_bus::prune::Target;

// spec: PRU-002 PRU-015 STO-039 STO-040 STO-041 STO-042
#[test]
fn what_is_older_than_seven_days_moves_to_the_archive_of_its_stream_and_is_counted() {
    let bus = Bus::new();
    bus.join("bob");
    for (days, text) in [(2, "eight days"), (6, "six days"), (0, "now")] {
        bus.post("general", text, None);
        bus.post("#seo", text, None);
        bus.send("bob", text);
        post::status(&bus.home, &id("bob"), text, None).unwrap();
        bus.days(days);
    }
    assert_eq!(bus.read("bob", &Source::Inbox).returned, 3);
    let counts = bus.removed(&Want::default());
    assert_eq!(
        (counts.room_messages, counts.status_entries, counts.inbox_messages),
        (2, 1, 1)
    );
    assert_eq!(
        counts.rooms,
        BTreeMap::from([("general".to_owned(), 1), ("seo".to_owned(), 1)])
    );
    assert_eq!(counts.inboxes, BTreeMap::from([("bob".to_owned(), 1)]));
    for (live, archive) in [
        ("room.jsonl", "archive/rooms/general.jsonl"),
        ("rooms/seo.jsonl", "archive/rooms/seo.jsonl"),
        ("status.jsonl", "archive/status.jsonl"),
        ("inbox/bob.jsonl", "archive/inbox/bob.jsonl"),
    ] {
        assert_eq!(bus.texts(archive), ["eight days"], "{archive}");
        assert_eq!(bus.texts(live), ["six days", "now"], "{live}");
    }
}

// spec: PRU-002
#[test]
fn the_number_of_days_can_be_chosen_and_nonsense_is_refused() {
    let bus = Bus::new();
    bus.post("general", "old", None);
    bus.days(2);
    bus.post("general", "new", None);
    let want = |days| Want {
        older_than_days: Some(days),
        ..Want::default()
    };
    for nonsense in [0.0, -1.0, f64::NAN, f64::INFINITY, 365.5] {
        let before = bus.state();
        prune(&bus.home, &want(nonsense)).unwrap_err();
        assert_eq!(bus.state(), before);
    }
    assert_eq!(bus.removed(&want(2.5)).room_messages, 0);
    assert_eq!(bus.removed(&want(1.5)).room_messages, 1);
    assert_eq!(bus.texts("room.jsonl"), ["new"]);
}

// spec: PRU-003
#[test]
fn a_decision_stays_thirty_days_unless_told_otherwise() {
    let bus = Bus::new();
    bus.post("general", "31 days", Some(Kind::Decision));
    bus.days(11);
    bus.post("general", "20 days", Some(Kind::Decision));
    bus.post("general", "chatter", Some(Kind::Chatter));
    bus.days(20);
    let counts = bus.removed(&Want::default());
    assert_eq!(counts.room_messages, 2);
    assert_eq!(bus.texts("room.jsonl"), ["20 days"]);
    assert_eq!(bus.texts("archive/rooms/general.jsonl"), ["31 days", "chatter"]);
    let want = Want {
        decision_days: Some(19.0),
        ..Want::default()
    };
    assert_eq!(bus.removed(&want).room_messages, 1);
    // Whoever keeps chatter for longer than thirty days keeps decisions at least as long.
    bus.post("general", "sixty", Some(Kind::Decision));
    bus.days(50);
    let want = Want {
        older_than_days: Some(60.0),
        ..Want::default()
    };
    assert_eq!(bus.removed(&want).room_messages, 0);
}

// spec: PRU-013
#[test]
fn a_dry_run_changes_no_byte_and_counts_what_the_real_one_moves() {
    let wants = [
        Want::default(),
        Want {
            remove_orphan_inboxes: Some(true),
            ..Want::default()
        },
        Want {
            older_than_days: Some(0.5),
            archive_empty_rooms: false,
            remove_orphan_inboxes: Some(false),
            ..Want::default()
        },
        Want {
            room: Some(room("left")),
            ..Want::default()
        },
        Want {
            targets: Some(vec![Target::Members]),
            ..Want::default()
        },
    ];
    for want in wants {
        let bus = Bus::new();
        let ann = bus.join("ann");
        for name in ["left", "used"] {
            muster_bus::rooms::join(&bus.home, &ann, &room(name)).unwrap();
        }
        for name in ["general", "left", "used", "nobody"] {
            bus.post(name, "old", None);
            bus.post(name, "decided", Some(Kind::Decision));
        }
        bus.send("ann", "old and read");
        bus.send("gone", "for nobody");
        bus.read("ann", &Source::Inbox);
        bus.send("ann", "old and unread");
        post::status(&bus.home, &ann, "old", None).unwrap();
        bus.write("receipts/ann.jsonl", "{\"id\":\"r\",\"ts\":1}\nnonsense\n");
        bus.days(40);
        bus.join("bob");
        bus.post("used", "new", None);
        bus.send("gone2", "new for nobody");
        let before = bus.state();
        let dry = bus.prune(&dry(&want));
        assert_eq!(bus.state(), before, "{want:?}");
        assert!(dry.dry_run && dry.removed.is_none());
        let would = dry.would_remove.unwrap();
        assert_ne!(would, Counts::default());
        assert_eq!(bus.removed(&want), would, "{want:?}");
    }
}

// spec: PRU-015
#[test]
fn a_report_has_the_names_that_readers_of_the_older_program_know() {
    let bus = Bus::new();
    bus.post("general", "old", None);
    bus.days(8);
    let json = serde_json::to_value(bus.prune(&dry(&Want::default()))).unwrap();
    assert_eq!(json["dryRun"], true);
    assert_eq!(json["olderThanDays"], 7.0);
    assert_eq!(json["cutoff"], bus.home.now() - 7 * 86_400_000);
    assert_eq!(json["wouldRemove"]["roomMessages"], 1);
    assert_eq!(json["wouldRemove"]["statusEntries"], 0);
    assert_eq!(json["wouldRemove"]["inboxMessages"], 0);
    assert_eq!(json["wouldRemove"]["orphanInboxes"], serde_json::json!([]));
    assert!(json.get("removed").is_none());
    let json = serde_json::to_value(bus.prune(&Want::default())).unwrap();
    assert_eq!(json["removed"]["roomMessages"], 1);
    assert!(json.get("wouldRemove").is_none() && json["note"].as_str().unwrap().contains("archive/"));
}

#[test]
fn an_entry_that_does_not_say_when_it_was_written_stays() {
    let bus = Bus::new();
    bus.write("room.jsonl", "{\"id\":\"a\",\"text\":\"no time\"}\n{\"id\":\"b\",\"ts\":\"yesterday\",\"text\":\"words\"}\n{\"id\":\"c\",\"ts\":1.5,\"text\":\"old\"}\n");
    assert_eq!(bus.removed(&Want::default()).room_messages, 1);
    assert_eq!(bus.texts("room.jsonl"), ["no time", "words"]);
}

// spec: STO-043 STO-044
#[test]
fn the_archive_only_grows_and_nothing_reads_it() {
    let bus = Bus::new();
    bus.post("general", "first", None);
    bus.days(8);
    bus.removed(&Want::default());
    let path = bus.dir.path().join("archive/rooms/general.jsonl");
    let first = fs::read(&path).unwrap();
    bus.post("general", "second", None);
    bus.days(8);
    bus.removed(&Want::default());
    let second = fs::read(&path).unwrap();
    assert!(second.starts_with(&first) && second.len() > first.len());
    // Garbage there, in every shape, changes nothing for anybody.
    for name in [
        "archive/rooms/general.jsonl",
        "archive/status.jsonl",
        "archive/inbox/bob.jsonl",
        "archive/rooms/new.jsonl",
    ] {
        bus.write(name, "\u{0}garbage without an end");
    }
    fs::create_dir_all(bus.dir.path().join("archive/inbox/folder.jsonl")).unwrap();
    let bob = bus.join("bob");
    bus.post("general", "third", None);
    bus.send("bob", "dm");
    post::status(&bus.home, &bob, "fine", None).unwrap();
    assert_eq!(bus.read("bob", &Source::Room(room("general"))).returned, 1);
    assert_eq!(bus.read("bob", &Source::Inbox).returned, 1);
    assert_eq!(bus.read("ann", &Source::Status).returned, 1);
    assert_eq!(muster_bus::rooms::list(&bus.home).unwrap().len(), 1);
    bus.days(8);
    let counts = bus.removed(&Want::default());
    assert_eq!(
        (counts.room_messages, counts.inbox_messages, counts.status_entries),
        (1, 1, 1)
    );
}
