//! Logs, cursors, and what a death left half done. Never loses a message to a repair.

use super::*;

// spec: DOC-004 DOC-016
#[test]
fn a_line_that_nobody_can_read_is_found_with_its_number_and_goes_with_a_copy_beside() {
    let bus = Bus::new();
    let mut lines: Vec<String> = bus.text("inbox/bob.jsonl").lines().map(str::to_owned).collect();
    lines.insert(1, "{\"id\":\"torn".to_owned());
    lines.insert(2, String::new());
    lines.insert(4, "[1,2]".to_owned());
    let damaged = lines.join("\n") + "\n";
    bus.write("inbox/bob.jsonl", &damaged);
    let found = bus.mended("malformed-line");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Error, "inbox/bob.jsonl")
    );
    assert!(found.message.contains("lines 2, 5"), "{found:?}");
    assert_eq!(bus.text("inbox/bob.jsonl.bak"), damaged);
    // What was read stays read, and what was not is read once.
    let batch = bus.read("bob", &Source::Inbox);
    assert_eq!((batch.returned, batch.note), (1, None));
    assert_eq!(batch.messages[0]["text"], "unread");
}

// spec: DOC-016
#[test]
fn of_many_bad_lines_the_first_are_named_and_all_are_counted() {
    let bus = Bus::new();
    bus.write("status.jsonl", "x\n".repeat(1_000));
    assert!(
        bus.one("malformed-line")
            .message
            .contains("lines 1, 2, 3, 4, 5 and 995 more")
    );
}

#[test]
fn what_other_programs_write_and_a_strict_reader_refuses_is_no_damage() {
    let bus = Bus::new();
    bus.write("room.jsonl", "{\"id\":\"a\",\"ts\":1,\"text\":\"\\ud83d cut\"}\n  {\"id\":\"b\",\"ts\":1}\n\n{\"id\":\"c\",\"ts\":1e999}\n");
    let before = bus.text("room.jsonl");
    assert_eq!(bus.fix().fixed, 0);
    assert_eq!(bus.text("room.jsonl"), before);
}

// spec: DOC-003 DOC-016
#[test]
fn half_a_line_at_the_end_goes_with_a_copy_and_a_whole_one_without_its_end_is_saved() {
    let bus = Bus::new();
    let whole = bus.text("rooms/seo.jsonl");
    bus.write("rooms/seo.jsonl", format!("{whole}{{\"id\":\"half"));
    let found = bus.mended("unfinished-line");
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(bus.text("rooms/seo.jsonl"), whole);
    assert_eq!(bus.text("rooms/seo.jsonl.bak"), format!("{whole}{{\"id\":\"half"));

    let saved = "{\"id\":\"saved\",\"ts\":1,\"from\":\"x\",\"text\":\"saved\"}";
    bus.write("rooms/seo.jsonl", format!("{whole}{saved}"));
    assert_eq!(of(&bus.fix(), "unfinished-line")[0].fixed, Some(true));
    assert_eq!(bus.text("rooms/seo.jsonl"), format!("{whole}{saved}\n"));
    assert_eq!(
        bus.read("bob", &Source::Room(room("seo")))
            .messages
            .last()
            .unwrap()["text"],
        "saved"
    );
}

#[test]
fn an_id_that_occurs_twice_is_told_of() {
    let bus = Bus::new();
    let text = bus.text("room.jsonl");
    bus.write("room.jsonl", format!("{text}{text}"));
    bus.write("receipts/bob.jsonl", "{\"id\":\"same\"}\n{\"id\":\"same\"}\n");
    let found = bus.one("duplicate-id");
    assert_eq!(
        (found.severity, found.subject.as_str(), found.fixable),
        (Severity::Info, "room.jsonl", false)
    );
    assert!(bus.look().healthy);
}

// spec: DOC-015 STO-035
#[test]
fn a_cursor_past_the_end_is_found_and_set_where_no_message_is_missed() {
    let bus = Bus::new();
    bus.write("cursors/bob.json", "{\"inboxOffset\":1000000000,\"statusOffset\":2,\"roomOffset\":1000000000,\"roomOffsets\":{\"seo\":1000000000,\"gone\":4},\"other\":\"kept\"}");
    let found = of(&bus.look(), "cursor-past-end");
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found.iter().all(|finding| finding.fixable
        && finding.severity == Severity::Error
        && finding.subject == "cursors/bob.json"));
    assert!(bus.fix().healthy);
    assert_eq!(bus.fix().fixed, 0);
    let cursor = bus.json("cursors/bob.json");
    assert_eq!(cursor["inboxOffset"], 0);
    assert_eq!(
        (&cursor["statusOffset"], &cursor["other"]),
        (&2.into(), &"kept".into())
    );
    post::send(&bus.home, &id("ann"), &id("bob"), "later").unwrap();
    let batch = bus.read("bob", &Source::Inbox);
    assert_eq!(batch.messages.last().unwrap()["text"], "later");
    assert_eq!(batch.returned, 7);
}

#[test]
fn an_offset_that_is_no_number_is_found() {
    let bus = Bus::new();
    bus.write("cursors/bob.json", "{\"inboxOffset\":-3,\"roomOffset\":\"two\"}");
    assert_eq!(of(&bus.look(), "cursor-offset").len(), 2);
    assert_eq!(bus.fix().fixed, 2);
    assert_eq!(bus.fix().fixed, 0);
}

#[test]
fn a_cut_that_a_death_interrupted_is_found_and_completed() {
    let bus = Bus::new();
    // As it stands after the channel was replaced and before its cursors were moved: three of five entries are gone.
    let kept: Vec<String> = bus
        .text("status.jsonl")
        .lines()
        .skip(3)
        .map(str::to_owned)
        .collect();
    bus.write("status.jsonl", kept.join("\n") + "\n");
    bus.write("cursors/ann.json", "{\"statusOffset\":4}");
    let intent =
        "{\"log\":\"status.jsonl\",\"inode\":1,\"gone\":[[0,3]],\"cursors\":{\"cursors/ann.json\":[4,1]}}";
    bus.write(".muster/cut/status.jsonl.json", intent);
    let before = bus.state();
    let report = bus.look();
    assert_eq!(bus.state(), before);
    assert_eq!(of(&report, "unfinished-cut").len(), 1);
    let report = bus.fix();
    assert_eq!(of(&report, "unfinished-cut")[0].fixed, Some(true), "{report:#?}");
    assert_eq!(bus.json("cursors/ann.json")["statusOffset"], 1);
    assert!(!bus.path(".muster/cut/status.jsonl.json").exists());
    assert!(bus.fix().findings.is_empty());
}

#[test]
fn a_rename_that_a_death_interrupted_is_found_and_completed() {
    let bus = Bus::new();
    bus.write(
        ".muster/rename/bob.json",
        "{\"old\":\"bob\",\"new\":\"rob\",\"since\":1,\"notice\":\"11111111-1111-4111-8111-111111111111\"}",
    );
    let found = bus.one("unfinished-rename");
    assert!(found.fixable && found.subject == "bob");
    let report = bus.fix();
    assert_eq!(
        of(&report, "unfinished-rename")[0].fixed,
        Some(true),
        "{report:#?}"
    );
    assert!(bus.json("agents.json").contains_key("rob"));
    assert_eq!(bus.read("rob", &Source::Inbox).returned, 1);
    assert_eq!(bus.fix().fixed, 0);
}

#[test]
fn files_that_were_never_put_in_their_place_are_found_once_they_are_old() {
    let bus = Bus::new();
    bus.write(".muster/new/abc", "x");
    assert_eq!(of(&bus.look(), "leftover-file"), []);
    fs::File::open(bus.path(".muster/new/abc"))
        .unwrap()
        .set_modified(hours_ago(2))
        .unwrap();
    bus.mended("leftover-file");
    assert!(!bus.path(".muster/new/abc").exists());
}
