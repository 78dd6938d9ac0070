//! Members who left and channels that nobody is in. Never puts general away.

use super::*;
use muster_bus::rooms::{self, Rooms};

fn listed(bus: &Bus) -> Vec<String> {
    rooms::list(&bus.home)
        .unwrap()
        .into_iter()
        .map(|listed| listed.room.to_string())
        .collect()
}

fn members(bus: &Bus, name: &str) -> Vec<String> {
    Rooms::load(&bus.home).unwrap().get(&room(name)).unwrap().members
}

// spec: PRU-007 PRU-008
#[test]
fn members_who_are_not_registered_or_were_silent_since_the_limit_are_dropped() {
    let bus = Bus::new();
    for name in ["stays", "silent", "gone"] {
        let seat = bus.join(name);
        rooms::join(&bus.home, &seat, &room("seo")).unwrap();
    }
    registry::unregister(&bus.home, &id("gone")).unwrap();
    bus.days(8);
    registry::heartbeat(&bus.home, &id("stays")).unwrap();
    let counts = bus.removed(&Want::default());
    assert_eq!(members(&bus, "seo"), ["stays"]);
    assert_eq!(counts.members, 2);
    assert_eq!(counts.swept_members["seo"], ["silent", "gone"]);
    // Six days of silence are not enough.
    bus.days(6);
    assert_eq!(bus.removed(&Want::default()).members, 0);
}

// spec: PRU-009 PRU-011
#[test]
fn a_channel_that_nobody_is_in_and_nobody_writes_to_is_put_away_whole() {
    let bus = Bus::new();
    let ann = bus.join("ann");
    for name in ["left", "fileonly"] {
        bus.post(name, "said", None);
    }
    rooms::join(&bus.home, &ann, &room("left")).unwrap();
    rooms::set(
        &bus.home,
        &ann,
        &room("left"),
        rooms::Line::Topic,
        "what it was about",
    )
    .unwrap();
    bus.post("general", "said", None);
    bus.read("bob", &Source::Room(room("left")));
    fs::write(bus.dir.path().join("rooms.json"), {
        let mut all: Entry =
            serde_json::from_slice(&fs::read(bus.dir.path().join("rooms.json")).unwrap()).unwrap();
        all.remove("fileonly").unwrap();
        serde_json::to_vec(&all).unwrap()
    })
    .unwrap();
    bus.days(8);
    let counts = bus.removed(&Want::default());
    assert_eq!(counts.archived_rooms, ["fileonly", "left"]);
    assert_eq!(counts.rooms["left"], 3, "a post and two notices");
    assert_eq!(listed(&bus), ["general"]);
    assert!(!bus.has("rooms/left.jsonl") && !bus.has("rooms/fileonly.jsonl") && bus.has("room.jsonl"));
    assert_eq!(bus.texts("archive/rooms/left.jsonl").len(), 3);
    assert_eq!(bus.texts("archive/rooms/fileonly.jsonl"), ["said"]);
    let entry: Entry = serde_json::from_str(
        fs::read_to_string(bus.dir.path().join("archive/rooms.jsonl"))
            .unwrap()
            .trim(),
    )
    .unwrap();
    assert_eq!(entry["room"], "left");
    assert_eq!(entry["entry"]["topic"], "what it was about");
    // Made anew, it is read from its beginning by those who had read the old one.
    bus.post("left", "new life", None);
    assert_eq!(bus.read("bob", &Source::Room(room("left"))).returned, 1);
}

// spec: PRU-009
#[test]
fn a_channel_in_use_is_not_put_away() {
    let bus = Bus::new();
    let ann = bus.join("ann");
    rooms::join(&bus.home, &ann, &room("member")).unwrap();
    bus.post("decided", "we do it", Some(Kind::Decision));
    bus.post("written", "old", None);
    bus.days(8);
    registry::heartbeat(&bus.home, &ann).unwrap();
    bus.post("written", "new", None);
    bus.post("fresh", "x", None);
    fs::write(bus.dir.path().join("rooms/fresh.jsonl"), "").unwrap();
    let counts = bus.removed(&Want::default());
    assert_eq!(counts.archived_rooms, [""; 0]);
    assert_eq!(listed(&bus), ["decided", "fresh", "general", "member", "written"]);
    assert_eq!(bus.texts("rooms/written.jsonl"), ["new"]);
}

// spec: PRU-010
#[test]
fn empty_channels_are_kept_if_asked_for() {
    let bus = Bus::new();
    bus.post("seo", "old", None);
    bus.days(8);
    let want = Want {
        archive_empty_rooms: false,
        ..Want::default()
    };
    let counts = bus.removed(&want);
    assert_eq!((counts.archived_rooms.len(), counts.room_messages), (0, 1));
    assert_eq!(listed(&bus), ["general", "seo"]);
}

#[test]
fn an_entry_that_another_program_understands_better_is_left_alone() {
    let bus = Bus::new();
    bus.post("seo", "old", None);
    bus.write(
        "rooms.json",
        "{\"seo\":{\"members\":\"everybody\"},\"Odd Name\":{\"members\":[\"x\"]}}",
    );
    bus.write("agents.json", "{\"strange\":[1]}");
    bus.days(8);
    let counts = bus.removed(&Want::default());
    assert_eq!(
        (counts.members, counts.archived_rooms.len(), counts.room_messages),
        (0, 0, 1)
    );
    assert_eq!(
        fs::read_to_string(bus.dir.path().join("rooms.json")).unwrap(),
        "{\"seo\":{\"members\":\"everybody\"},\"Odd Name\":{\"members\":[\"x\"]}}"
    );
}

#[test]
fn a_post_that_meets_a_cleaning_leaves_its_channel_with_an_entry() {
    let bus = Bus::new();
    let want = Want {
        older_than_days: Some(1.0),
        ..Want::default()
    };
    let mut put_away = 0;
    for round in 0..400 {
        // Old enough to go, and written to at the very moment.
        bus.days(2);
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let cleaner = scope.spawn(|| {
                begin.wait();
                bus.removed(&want).archived_rooms.len()
            });
            begin.wait();
            bus.post("seo", &format!("round {round}"), None);
            put_away += cleaner.join().unwrap();
        });
        assert!(bus.has("rooms/seo.jsonl"), "the last post stands in it");
        let entry = Rooms::load(&bus.home).unwrap().get(&room("seo"));
        assert!(entry.is_some(), "round {round}");
    }
    assert!(put_away > 2, "they met: {put_away}");
}
