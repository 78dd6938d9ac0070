//! Where each thing stands, as other programs and people with `tail -f` find it. Never by this crate's own reader where the file itself can be looked at.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use muster_bus::limits::Limits;
use muster_bus::read::{Want, depth, unread};
use muster_bus::registry::{Agents, register};
use muster_bus::rooms::{self, Line};
use muster_bus::{BusError, Home, Kind, Mode, RoomName, SeatId, Source, post};
use muster_core::{Clock, Time};
use serde_json::json;

use crate::support::{bus, open, public, room, seat, texts, word};

// spec: STO-005
#[test]
fn a_missing_directory_is_made_with_all_that_belongs_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b/bus");
    let home = open(&root);
    register(&home, &seat("ann"), None, None).unwrap();
    for name in ["agents.json", "inbox/ann.jsonl", "cursors/ann.json", "rooms"] {
        assert!(root.join(name).exists(), "{name}");
    }
}

// spec: STO-006
#[test]
fn two_directories_know_nothing_of_each_other() {
    let (one, two) = (bus(), bus());
    register(&one.home, &seat("ann"), None, None).unwrap();
    post::send(&one.home, &seat("ann"), &seat("bob"), "here").unwrap();
    post::post(&one.home, &seat("ann"), &RoomName::general(), "here", None).unwrap();
    assert_eq!(Agents::load(&two.home).unwrap(), Agents::default());
    assert!(two.inbox("bob").is_empty());
    assert_eq!(depth(&two.home, &seat("bob"), &room("general")).unwrap(), 0);
}

// spec: STO-007..STO-013 STO-019
#[test]
fn each_thing_stands_in_its_file() {
    let clock = Clock::manual(Time::from_micros(1_900_000_000_123_456));
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path(), Limits::default(), clock).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let line = |name: &str| -> serde_json::Value {
        serde_json::from_str(read(name).lines().last().unwrap()).unwrap()
    };
    let (ann, bob, seo) = (seat("ann"), seat("bob"), RoomName::parse("seo").unwrap());
    register(&home, &ann, Some("muster"), Some("lead")).unwrap();
    let agents: serde_json::Value = serde_json::from_str(&read("agents.json")).unwrap();
    assert_eq!(
        agents["ann"],
        json!({"agentId": "ann", "project": "muster", "role": "lead", "registeredAt": 1_900_000_000_123_i64, "lastHeartbeat": 1_900_000_000_123_i64})
    );
    let sent = post::post(&home, &ann, &RoomName::general(), "to all", None).unwrap();
    assert_eq!(
        line("room.jsonl"),
        json!({"id": sent.id, "ts": 1_900_000_000_123_i64, "from": "ann", "room": "general", "text": "to all"})
    );
    let sent = post::post(&home, &ann, &seo, "to seo", Some(Kind::Decision)).unwrap();
    assert_eq!(
        line("rooms/seo.jsonl"),
        json!({"id": sent.id, "ts": 1_900_000_000_123_i64, "from": "ann", "room": "seo", "text": "to seo", "kind": "decision"})
    );
    rooms::join(&home, &ann, &seo).unwrap();
    rooms::set(&home, &ann, &seo, Line::Topic, "ranking").unwrap();
    rooms::set(&home, &ann, &seo, Line::Motd, "be kind").unwrap();
    let entry: serde_json::Value = serde_json::from_str(&read("rooms.json")).unwrap();
    let entry = &entry["seo"];
    assert_eq!(
        (&entry["topic"], &entry["motd"], &entry["members"]),
        (&json!("ranking"), &json!("be kind"), &json!(["ann"]))
    );
    post::status(&home, &ann, "busy", Some("with tests")).unwrap();
    let status = line("status.jsonl");
    assert_eq!(
        (&status["agentId"], &status["status"], &status["detail"]),
        (&json!("ann"), &json!("busy"), &json!("with tests"))
    );
    let sent = post::send(&home, &bob, &ann, "to ann").unwrap();
    assert_eq!(
        line("inbox/ann.jsonl"),
        json!({"id": sent.id, "ts": 1_900_000_000_123_i64, "from": "bob", "to": "ann", "text": "to ann"})
    );
    for source in [Source::Inbox, Source::Status, room("general"), room("seo")] {
        muster_bus::read::read(&home, &ann, &source, Want::default()).unwrap();
    }
    let cursor: serde_json::Value = serde_json::from_str(&read("cursors/ann.json")).unwrap();
    // Her post, and the notices of her joining and of both lines.
    assert_eq!(
        cursor,
        json!({"inboxOffset": 1, "statusOffset": 1, "roomOffset": 1, "roomOffsets": {"seo": 4}})
    );
}

// spec: STO-018 STO-025
#[test]
fn any_text_is_one_line_of_json_and_reads_back_as_it_was_written() {
    let bus = bus();
    let all = [
        "two\nlines\r\nand three",
        "emoji 😀 and 日本語",
        "line \u{2028}\u{2029}\u{85}\u{b} ends",
        "nul \0 and escape \u{1b}[31m",
        "\"quotes\" and \\ and \u{feff}",
        "{\"json\": true}\n[1]",
        " x ",
        &"long ".repeat(50_000),
    ];
    for text in all {
        post::send(&bus.home, &seat("ann"), &seat("bob"), text).unwrap();
    }
    let lines = bus.lines("inbox/bob.jsonl");
    assert_eq!(lines.len(), all.len());
    assert_eq!(bus.inbox("bob"), all);
}

// spec: STO-021
#[test]
fn after_a_reset_a_process_that_was_running_goes_on() {
    let bus = bus();
    let (ann, bob) = (seat("ann"), seat("bob"));
    register(&bus.home, &ann, None, None).unwrap();
    post::send(&bus.home, &bob, &ann, "before").unwrap();
    let root = bus.home.root();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    for folder in ["inbox", "cursors"] {
        std::fs::create_dir(root.join(folder)).unwrap();
    }
    register(&bus.home, &ann, None, None).unwrap();
    rooms::join(&bus.home, &ann, &RoomName::parse("new").unwrap()).unwrap();
    post::status(&bus.home, &ann, "back", None).unwrap();
    post::send(&bus.home, &bob, &ann, "after").unwrap();
    assert_eq!(bus.inbox("ann"), ["after"]);
    let private = root.join(".muster").metadata().unwrap();
    assert_eq!(private.mode() & 0o777, 0o700);
    // The whole folder, without anything made anew.
    std::fs::remove_dir_all(root).unwrap();
    post::send(&bus.home, &bob, &ann, "again").unwrap();
    assert_eq!(bus.inbox("ann"), ["again"]);
}

// spec: STO-022
#[test]
fn a_directory_of_the_earlier_program_opens_with_its_messages_and_is_shared_with_care() {
    let dir = tempfile::tempdir().unwrap();
    let old = "{\"id\":\"1\",\"ts\":1700000000000,\"from\":\"old\",\"room\":\"#seo\",\"text\":\"hello\",\"extra\":{\"kept\":1}}\n";
    std::fs::write(dir.path().join("room.jsonl"), old).unwrap();
    let home = open(dir.path());
    assert_eq!(home.mode(), Mode::Shared);
    let read = muster_bus::read::read(&home, &seat("ann"), &room("general"), Want::default()).unwrap();
    assert_eq!(texts(&read), ["hello"]);
    assert_eq!(read.messages[0]["extra"]["kept"], 1);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("room.jsonl")).unwrap(),
        old
    );
    assert_eq!(open(dir.path()).mode(), Mode::Shared, "and stays so");
    // What muster alone has made is its own.
    let own = tempfile::tempdir().unwrap();
    open(own.path());
    assert_eq!(open(own.path()).mode(), Mode::Native);
}

// spec: STO-022
#[test]
fn what_another_program_keeps_in_an_entry_or_a_cursor_stays_there() {
    let bus = bus();
    let ann = seat("ann");
    bus.put("agents.json", r#"{"ann":{"agentId":"ann","registeredAt":5,"lastHeartbeat":6,"capabilities":["x"],"roleId":"r"},"odd/id":17}"#);
    bus.put("cursors/ann.json", r#"{"inboxOffset":0,"theirs":[1,2]}"#);
    bus.put(
        "rooms.json",
        r#"{"seo":{"createdAt":1,"createdBy":"old","members":["old"],"theirs":true},"Odd Name":{"x":1}}"#,
    );
    register(&bus.home, &ann, Some("p"), None).unwrap();
    post::send(&bus.home, &seat("bob"), &ann, "x").unwrap();
    bus.inbox("ann");
    rooms::join(&bus.home, &ann, &RoomName::parse("seo").unwrap()).unwrap();
    let agents = bus.json("agents.json");
    assert_eq!(
        (
            &agents["ann"]["capabilities"],
            &agents["ann"]["roleId"],
            &agents["odd/id"]
        ),
        (&json!(["x"]), &json!("r"), &json!(17))
    );
    assert_eq!(
        (&agents["ann"]["registeredAt"], &agents["ann"]["project"]),
        (&json!(5), &json!("p"))
    );
    assert_eq!(
        bus.json("cursors/ann.json"),
        json!({"inboxOffset": 1, "roomOffsets": {"seo": 0}, "theirs": [1, 2]})
    );
    let rooms = bus.json("rooms.json");
    assert_eq!(
        (
            &rooms["seo"]["theirs"],
            &rooms["seo"]["members"],
            &rooms["Odd Name"]
        ),
        (&json!(true), &json!(["old", "ann"]), &json!({"x": 1}))
    );
}

// spec: STO-023
#[test]
fn a_room_is_the_same_with_or_without_its_mark() {
    let bus = bus();
    for name in ["seo", "#seo", " #SEO ", "##Seo"] {
        post::post(
            &bus.home,
            &seat("ann"),
            &RoomName::parse(name).unwrap(),
            name,
            None,
        )
        .unwrap();
    }
    assert_eq!(bus.lines("rooms/seo.jsonl").len(), 4);
    assert_eq!(std::fs::read_dir(bus.path("rooms")).unwrap().count(), 1);
}

// spec: STO-024
#[test]
fn a_name_that_could_leave_its_folder_or_share_a_file_is_refused() {
    let (long, longest) = ("a".repeat(65), "a".repeat(64));
    for id in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "a\0b",
        "a\nb",
        "a b",
        ".hidden",
        "-rf",
        "ä",
        "a\u{202e}b",
        "system",
        "__proto__",
        "constructor",
        "prototype",
        &long,
    ] {
        assert!(matches!(SeatId::parse(id), Err(BusError::SeatName)), "{id:?}");
    }
    for name in [
        "", "#", "..", "#../x", "a/b", "a\0b", "a\nb", "a b", ".hidden", "-rf", "ä", &long,
    ] {
        assert!(
            matches!(RoomName::parse(name), Err(BusError::RoomName)),
            "{name:?}"
        );
    }
    for id in ["a", "A", "a.b", "a-b_c.9", "Z9", "_x", &longest] {
        assert_eq!(SeatId::parse(id).unwrap().as_str(), id);
    }
}

// spec: STO-030
#[test]
fn nobody_else_may_look_into_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("bus");
    let home = open(&root);
    let (ann, seo) = (seat("ann"), RoomName::parse("seo").unwrap());
    register(&home, &ann, None, None).unwrap();
    rooms::join(&home, &ann, &seo).unwrap();
    post::send(&home, &ann, &seat("bob"), "x").unwrap();
    post::status(&home, &ann, "x", None).unwrap();
    home.choose(Mode::Shared).unwrap();
    muster_bus::read::read(&home, &ann, &room("seo"), Want::default()).unwrap();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o077,
            0,
            "{}",
            folder.display()
        );
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.starts_with(home.root().join(".muster")) {
                assert_eq!(
                    path.metadata().unwrap().mode() & 0o777,
                    0o600,
                    "{}",
                    path.display()
                );
            }
        }
    }
}

// spec: STO-031 STO-032
#[test]
fn reading_one_source_leaves_every_other_one_unread() {
    let bus = bus();
    let (ann, bob) = (seat("ann"), seat("bob"));
    let sources = [
        Source::Inbox,
        Source::Status,
        room("general"),
        room("a"),
        room("b"),
    ];
    post::send(&bus.home, &bob, &ann, "x").unwrap();
    post::status(&bus.home, &bob, "x", None).unwrap();
    for name in ["general", "a", "b"] {
        post::post(&bus.home, &bob, &RoomName::parse(name).unwrap(), "x", None).unwrap();
    }
    for (index, read) in sources.iter().enumerate() {
        bus.read("ann", read, Want::default());
        for (other, source) in sources.iter().enumerate() {
            let left = unread(&bus.home, &ann, source).unwrap();
            assert_eq!(left, usize::from(other > index), "{source:?} after {read:?}");
        }
    }
}

// spec: STO-033
#[test]
fn a_peek_leaves_the_cursor_and_every_file() {
    let bus = bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    post::send(&bus.home, &seat("bob"), &seat("ann"), "x").unwrap();
    post::post(&bus.home, &seat("bob"), &RoomName::general(), "y", None).unwrap();
    let before = public(&bus.home);
    let peek = Want {
        peek: true,
        ..Want::default()
    };
    for _ in 0..2 {
        assert_eq!(texts(&bus.read("ann", &Source::Inbox, peek)), ["x"]);
        assert_eq!(texts(&bus.read("ann", &room("general"), peek)), ["y"]);
    }
    assert_eq!(public(&bus.home), before);
}

// spec: STO-034 STO-035
#[test]
fn a_cursor_moves_with_a_cut_and_one_past_the_end_hides_nothing() {
    let limits = Limits {
        room: muster_bus::limits::Bound { max: 10, keep: 4 },
        ..Limits::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path(), limits, Clock::system()).unwrap();
    let (ann, bob, general) = (seat("ann"), seat("bob"), RoomName::general());
    let say = |n: u32| post::post(&home, &bob, &general, &n.to_string(), None).unwrap();
    let read =
        || texts(&muster_bus::read::read(&home, &ann, &room("general"), Want::default()).unwrap()).join(" ");
    (0..9).for_each(|n| drop(say(n)));
    assert_eq!(read(), "0 1 2 3 4 5 6 7 8");
    // The eleventh cuts it to four: 7 to 10 stay, and two of them are read.
    (9..11).for_each(|n| drop(say(n)));
    assert_eq!(depth(&home, &ann, &room("general")).unwrap(), 4);
    assert_eq!(read(), "9 10");
    assert_eq!(read(), "");
    std::fs::write(
        dir.path().join("cursors/ann.json"),
        r#"{"roomOffset": 1000000000}"#,
    )
    .unwrap();
    say(11);
    let batch = muster_bus::read::read(&home, &ann, &room("general"), Want::default()).unwrap();
    assert_eq!(texts(&batch).join(" "), "7 8 9 10 11");
    assert!(batch.note.unwrap().contains("past the end"));
    say(12);
    assert_eq!(read(), "12");
}

#[test]
fn an_entry_is_named_by_its_own_id_however_often_it_is_looked_at() {
    let bus = bus();
    let sent = post::send(&bus.home, &seat("bob"), &seat("ann"), "x").unwrap();
    let entry = &bus.lines("inbox/ann.jsonl")[0];
    assert_eq!(word(entry, "id"), sent.id);
    assert_eq!(entry["ts"], sent.ts);
}
