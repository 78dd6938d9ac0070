//! What a run may touch: one channel, some streams, or all of it. Never anything else.

use super::*;
use muster_bus::BusError;
use muster_bus::prune::Target;

/// A directory where every stream has something to clean.
fn full() -> Bus {
    let bus = Bus::new();
    let ann = bus.join("ann");
    muster_bus::rooms::join(&bus.home, &ann, &room("seo")).unwrap();
    bus.post("seo", "old", None);
    bus.post("general", "old", None);
    bus.send("ann", "old");
    bus.read("ann", &Source::Inbox);
    post::status(&bus.home, &ann, "old", None).unwrap();
    bus.write("receipts/ann.jsonl", "{\"id\":\"r\",\"ts\":1}\n");
    bus.days(8);
    bus.post("seo", "new", None);
    bus
}

/// The public files that hold a stream, with their bytes.
fn streams(bus: &Bus) -> BTreeMap<&'static str, Vec<u8>> {
    let files = [
        ("general", "room.jsonl"),
        ("seo", "rooms/seo.jsonl"),
        ("status", "status.jsonl"),
        ("inbox", "inbox/ann.jsonl"),
        ("receipts", "receipts/ann.jsonl"),
        ("members", "rooms.json"),
    ];
    files
        .map(|(name, file)| (name, fs::read(bus.dir.path().join(file)).unwrap()))
        .into()
}

fn changed(want: &Want) -> Vec<&'static str> {
    let bus = full();
    let before = streams(&bus);
    bus.removed(want);
    let after = streams(&bus);
    before
        .into_iter()
        .filter(|(name, bytes)| after[name] != *bytes)
        .map(|(name, _)| name)
        .collect()
}

// spec: PRU-005
#[test]
fn a_target_changes_its_own_stream_and_no_other() {
    for (target, streams) in [
        (Target::Rooms, vec!["general", "seo"]),
        (Target::Status, vec!["status"]),
        (Target::Inbox, vec!["inbox"]),
        (Target::Receipts, vec!["receipts"]),
        (Target::Members, vec!["members"]),
    ] {
        let want = Want {
            targets: Some(vec![target]),
            ..Want::default()
        };
        assert_eq!(changed(&want), streams, "{target:?}");
    }
    assert_eq!(changed(&Want::default()).len(), 6);
    let none = Want {
        targets: Some(Vec::new()),
        ..Want::default()
    };
    assert!(changed(&none).is_empty());
}

// spec: PRU-004
#[test]
fn with_a_room_only_that_channel_changes() {
    let want = |name| Want {
        room: Some(room(name)),
        ..Want::default()
    };
    assert_eq!(changed(&want("seo")), ["members", "seo"]);
    assert_eq!(changed(&want("general")), ["general"]);
    let bus = full();
    assert!(matches!(
        prune(&bus.home, &want("absent")),
        Err(BusError::NoRoom(_))
    ));
    let both = Want {
        targets: Some(vec![Target::Rooms, Target::Status]),
        ..want("seo")
    };
    let before = bus.state();
    assert!(matches!(prune(&bus.home, &both), Err(BusError::Argument(_))));
    assert_eq!(bus.state(), before);
}

// spec: PRU-006
#[test]
fn an_unknown_target_is_refused_and_the_known_ones_are_named() {
    for target in Target::ALL {
        let word = serde_json::to_value(target).unwrap();
        assert_eq!(Target::parse(word.as_str().unwrap()).unwrap(), target);
    }
    for unknown in ["room", "ROOMS", "", "archive"] {
        let refused = Target::parse(unknown).unwrap_err();
        for word in ["rooms", "status", "inbox", "receipts", "members"] {
            assert!(refused.to_string().contains(word));
        }
    }
}

// spec: STO-045
#[test]
fn receipts_are_deleted_and_have_no_copy_in_the_archive() {
    let bus = Bus::new();
    let old = "{\"id\":\"secret-old-receipt\",\"ts\":1}\n";
    let now = format!("{{\"id\":\"new\",\"ts\":{}}}\n", bus.home.now());
    bus.write("receipts/ann.jsonl", &format!("{old}{now}"));
    assert_eq!(bus.removed(&Want::default()).receipts, 1);
    assert_eq!(
        fs::read_to_string(bus.dir.path().join("receipts/ann.jsonl")).unwrap(),
        now
    );
    assert!(!bus.has("archive"));
    assert!(
        bus.state()
            .values()
            .all(|bytes| !bytes.contains(&format!("{:?}", old.as_bytes()).replace(['[', ']'], "")))
    );
}

#[test]
fn nothing_is_moved_while_it_cannot_be_told_who_is_here() {
    for file in ["agents.json", "rooms.json", "tokens.json"] {
        let bus = full();
        bus.write(file, "{\"ann\":");
        let before = bus.state();
        let said = prune(&bus.home, &Want::default()).unwrap_err().to_string();
        // No program mends the tokens, so nobody is sent to one.
        assert_eq!(said.contains("doctor --fix"), file != "tokens.json", "{said}");
        assert!(said.contains(file), "{said}");
        assert_eq!(bus.state(), before);
    }
}

#[test]
fn a_file_that_cannot_be_cleaned_is_told_of_and_the_others_are_cleaned() {
    let bus = full();
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim.jsonl");
    fs::write(&victim, "{\"id\":\"a\",\"ts\":1,\"text\":\"not of the bus\"}\n").unwrap();
    std::os::unix::fs::symlink(&victim, bus.dir.path().join("rooms/link.jsonl")).unwrap();
    fs::create_dir(bus.dir.path().join("inbox/folder.jsonl")).unwrap();
    let dry = bus.prune(&dry(&Want::default()));
    let report = bus.prune(&Want::default());
    assert_eq!(report.skipped.len(), dry.skipped.len());
    let mut skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| skipped.subject.as_str())
        .collect();
    skipped.sort_unstable();
    skipped.dedup();
    assert_eq!(skipped, ["inbox/folder.jsonl", "rooms/link.jsonl"]);
    assert_eq!(report.removed, dry.would_remove);
    assert_eq!(report.removed.unwrap().status_entries, 1);
    assert!(fs::read_to_string(victim).unwrap().contains("not of the bus"));
    assert!(!bus.has("archive/rooms/link.jsonl"));
}

#[test]
fn a_cleaning_takes_private_files_of_nobody_away_and_leaves_those_of_everybody_else() {
    use muster_bus::identity::{Ask, Session};
    use muster_bus::sessions::Link;
    use muster_bus::transports::Panes;

    let bus = Bus::new();
    let bind = |name: &str| {
        let session = Session::new(&bus.home, Link::Stdio, Panes::default()).unwrap();
        session.claim(Ask::of(&id(name))).unwrap().commit();
        session
    };
    let (_live, gone) = (bind("stays"), bind("gone"));
    bus.join("stays");
    let _sits = bind("sits");
    for name in ["stays", "gone"] {
        bus.send(name, "hello");
        bus.read(name, &Source::Inbox);
    }
    bus.post("over", "said", None);
    bus.post("general", "said", None);
    drop(gone);
    bus.days(9);
    registry::heartbeat(&bus.home, &id("stays")).unwrap();
    let private = |of: &str| -> Vec<String> {
        let entries = fs::read_dir(bus.dir.path().join(".muster").join(of)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(private("last"), ["gone.json", "sits.json", "stays.json"]);
    // What is gone leaves locks, and locks alone.
    fs::remove_file(bus.dir.path().join("cursors/gone.json")).unwrap();
    let before = (private("locks"), private("last"), private("index"));
    for want in [
        Want {
            dry_run: true,
            ..Want::default()
        },
        Want {
            targets: Some(vec![muster_bus::prune::Target::Status]),
            ..Want::default()
        },
    ] {
        bus.prune(&want);
        assert_eq!((private("locks"), private("last"), private("index")), before);
    }
    bus.removed(&Want::default());
    assert!(!bus.has("inbox/gone.jsonl") && !bus.has("rooms/over.jsonl"));
    let ours: Vec<String> = private("locks")
        .into_iter()
        .filter(|name| {
            ["inbox+", "cursors+", "rooms+"]
                .iter()
                .any(|folder| name.starts_with(folder))
        })
        .collect();
    assert_eq!(ours, ["cursors+stays.json", "inbox+stays.jsonl"]);
    assert!(private("locks").contains(&"room.jsonl".to_owned()));
    assert_eq!(private("index"), ["inbox+stays.jsonl", "room.jsonl"]);
    assert_eq!(
        private("last"),
        ["sits.json", "stays.json"],
        "who runs is somebody"
    );
    // Whoever comes back begins anew.
    bus.send("gone", "again");
    assert_eq!(bus.read("gone", &Source::Inbox).returned, 1);
}
