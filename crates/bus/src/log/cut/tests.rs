//! Cuts, step by step.

use std::collections::BTreeMap;
use std::fs;
use std::mem::forget;
use std::path::Path;

use muster_core::Clock;
use muster_core::clock::Time;
use proptest::prelude::*;

use super::*;
use crate::limits::Limits;
use crate::names::SeatId;
use crate::read::{self, Want};

const ROOM: &str = "room.jsonl";
const ARCHIVE: &str = "archive/rooms/general.jsonl";

fn home(dir: &Path) -> Home {
    Home::open(dir, Limits::default(), Clock::manual(Time::from_micros(0))).unwrap()
}

fn entry(number: u64) -> String {
    format!(r#"{{"id":"m{number}","ts":{number},"from":"x","text":"t"}}"#)
}

fn set_cursor(home: &Home, name: &str, offset: u64) {
    fs::write(
        home.path(&format!("cursors/{name}.json")),
        format!(r#"{{"roomOffset":{offset},"kept":1}}"#),
    )
    .unwrap();
}

/// The numbers of the entries in a file, in order.
fn numbers(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let number = |line: &str| {
        let entry: Entry = serde_json::from_str(line).ok()?;
        entry.get("id")?.as_str()?.strip_prefix('m')?.parse().ok()
    };
    text.lines().filter_map(number).collect()
}

/// A channel of twenty, read to different places by five agents.
fn channel(dir: &Path) -> Home {
    let home = home(dir);
    let lines: Vec<String> = (0..20).map(entry).collect();
    Log::open(&home, ROOM).unwrap().append(&lines).unwrap();
    for (name, offset) in READERS {
        set_cursor(&home, name, offset);
    }
    home
}

const READERS: [(&str, u64); 5] = [("a", 0), ("b", 4), ("c", 10), ("d", 15), ("e", 20)];

fn aged(number: u64) -> bool {
    number < 10 && number != 3
}

/// What each reader sees next is what stands in the file and it had not read, each once; and nothing was lost.
fn nobody_noticed(home: &Home) {
    let live = numbers(&home.path(ROOM));
    for (name, offset) in READERS {
        let seat = SeatId::parse(name).unwrap();
        let peek = Want {
            peek: true,
            ..Want::default()
        };
        let batch = read::read(home, &seat, &Source::Room(RoomName::general()), peek).unwrap();
        let seen: Vec<u64> = batch
            .messages
            .iter()
            .map(|entry| {
                entry["id"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches('m')
                    .parse()
                    .unwrap()
            })
            .collect();
        let expected: Vec<u64> = live.iter().copied().filter(|number| *number >= offset).collect();
        assert_eq!(seen, expected, "reader {name}");
        assert_eq!(batch.note, None);
    }
    let mut all = numbers(&home.path(ROOM));
    all.extend(numbers(&home.path(ARCHIVE)));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

fn draft(home: &Home) -> Draft {
    Draft {
        new: new_file(home, ROOM),
        intent: intent_file(home, ROOM),
        kept: None,
        archive: None,
        done: false,
    }
}

fn fate(line: &Line<'_>) -> Fate {
    if line.number.is_some_and(aged) {
        Fate::Archived
    } else {
        Fate::Stays
    }
}

/// Does a cut as far as `step` and dies there.
fn die_at(home: &Home, step: usize) {
    let mut log = Log::open(home, ROOM).unwrap();
    let mut draft = draft(home);
    if step == 0 {
        // In the middle of the archive: some lines are there, the last one half.
        fs::create_dir_all(home.path("archive/rooms")).unwrap();
        fs::write(
            home.path(ARCHIVE),
            format!("{}\n{}", entry(0), entry(1).split_at(9).0),
        )
        .unwrap();
        return;
    }
    let gone = log
        .sort(&mut draft, fate, Fate::Stays, Some(ARCHIVE))
        .unwrap()
        .unwrap();
    if step == 1 {
        return forget(draft);
    }
    let intent = log.intend(&draft, gone.0, gone.1).unwrap();
    if step == 2 {
        return forget(draft);
    }
    log.swap(&mut draft).unwrap();
    let (source, files) = readers(home, ROOM).unwrap().unwrap();
    for file in files.iter().take(step - 3) {
        move_one(home, &intent, &source, file).unwrap();
    }
}

// spec: STO-034 STO-046
#[test]
fn a_death_at_any_step_of_a_cut_loses_nothing_and_moves_each_cursor_once() {
    for step in 0..=8 {
        let dir = tempfile::tempdir().unwrap();
        let home = channel(dir.path());
        die_at(&home, step);
        drop(Log::open(&home, ROOM).unwrap());
        assert!(!intent_file(&home, ROOM).exists(), "step {step}");
        nobody_noticed(&home);
        // And the next cut works on what the last one left.
        Log::open(&home, ROOM)
            .unwrap()
            .archive(|_, entry| aged(entry["ts"].as_u64().unwrap()), Some(ARCHIVE))
            .unwrap();
        nobody_noticed(&home);
        assert_eq!(
            numbers(&home.path(ROOM)),
            [&[3][..], &(10..20).collect::<Vec<_>>()].concat()
        );
    }
}

// spec: STO-034 STO-046
#[test]
fn a_cursor_that_was_renamed_in_the_middle_of_a_cut_still_counts_what_its_agent_read() {
    for moved in [0, 5] {
        let dir = tempfile::tempdir().unwrap();
        let home = channel(dir.path());
        die_at(&home, 3 + moved);
        fs::rename(home.path("cursors/d.json"), home.path("cursors/z.json")).unwrap();
        drop(Log::open(&home, ROOM).unwrap());
        fs::rename(home.path("cursors/z.json"), home.path("cursors/d.json")).unwrap();
        nobody_noticed(&home);
    }
}

/// Every file with its bytes, the private folder left out.
fn bytes(home: &Home) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![home.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".muster") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn cut(home: &Home) -> Result<Gone, BusError> {
    Log::open(home, ROOM)?.archive(|number, _| aged(number), Some(ARCHIVE))
}

// spec: STO-043 STO-046
#[test]
fn a_cut_that_fails_leaves_log_archive_and_cursors_as_they_were() {
    type Harm = fn(&Home);
    let harms: [(&str, Harm); 4] = [
        ("the archive is a folder", |home| {
            fs::create_dir_all(home.path(ARCHIVE)).unwrap()
        }),
        ("the archive's folder is a file", |home| {
            fs::write(home.path("archive"), "x").unwrap()
        }),
        ("nothing can be written beside", |home| {
            fs::create_dir_all(new_file(home, ROOM)).unwrap()
        }),
        ("the intent cannot be written", |home| {
            fs::write(home.private(INTENTS), "x").unwrap()
        }),
    ];
    for (what, harm) in harms {
        let dir = tempfile::tempdir().unwrap();
        let home = channel(dir.path());
        harm(&home);
        let before = bytes(&home);
        assert!(cut(&home).is_err(), "{what}");
        let mut after = bytes(&home);
        // A file of the archive that was made for this cut stays, and is empty.
        after.retain(|_, bytes| !bytes.is_empty());
        assert_eq!(before, after, "{what}");
    }
    let dir = tempfile::tempdir().unwrap();
    let home = channel(dir.path());
    fs::create_dir_all(home.path("archive/rooms")).unwrap();
    fs::write(home.path(ARCHIVE), "{\"id\":\"old\"}\n").unwrap();
    fs::write(home.private(INTENTS), "x").unwrap();
    assert!(cut(&home).is_err());
    assert_eq!(
        fs::read_to_string(home.path(ARCHIVE)).unwrap(),
        "{\"id\":\"old\"}\n"
    );
    fs::remove_file(home.private(INTENTS)).unwrap();
    assert_eq!(cut(&home).unwrap().count(), 9);
    nobody_noticed(&home);
}

// spec: STO-034
#[test]
fn a_cursor_that_cannot_be_read_holds_nobody_up_and_is_moved_when_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let home = channel(dir.path());
    let (file, aside) = (home.path("cursors/d.json"), home.path("cursors/d"));
    fs::rename(&file, &aside).unwrap();
    let mut log = Log::open(&home, ROOM).unwrap();
    let mut draft = draft(&home);
    let gone = log
        .sort(&mut draft, fate, Fate::Stays, Some(ARCHIVE))
        .unwrap()
        .unwrap();
    let mut intent = log.intend(&draft, gone.0, gone.1).unwrap();
    log.swap(&mut draft).unwrap();
    intent.cursors.insert("cursors/d.json".to_owned(), (15, 6));
    note(&home, &intent).unwrap();
    drop(log);
    // Its lock cannot be taken, since a folder stands where the lock file belongs.
    fs::rename(&aside, &file).unwrap();
    let lock = lock::lock_file(&home, "cursors/d.json");
    let _ = fs::remove_file(&lock);
    fs::create_dir(&lock).unwrap();
    let mut log = Log::open(&home, ROOM).unwrap();
    log.append(&[entry(20)]).unwrap();
    assert!(
        log.archive(|_, _| true, Some(ARCHIVE)).is_err(),
        "no second cut before the first is complete"
    );
    drop(log);
    let c = Cursor::load_file(&home, "cursors/c.json").unwrap();
    assert_eq!(c.get(&Source::Room(RoomName::general())), Some(1));
    fs::remove_dir(&lock).unwrap();
    drop(Log::open(&home, ROOM).unwrap());
    let d = Cursor::load_file(&home, "cursors/d.json").unwrap();
    assert_eq!(d.get(&Source::Room(RoomName::general())), Some(6));
    let c = Cursor::load_file(&home, "cursors/c.json").unwrap();
    assert_eq!(c.get(&Source::Room(RoomName::general())), Some(1));
    assert!(!intent_file(&home, ROOM).exists());
}

// spec: STO-034
#[test]
fn cursors_of_other_programs_under_names_that_muster_refuses_are_moved_too() {
    let dir = tempfile::tempdir().unwrap();
    let home = channel(dir.path());
    let long = "l".repeat(200);
    for name in ["-bot", "system", long.as_str()] {
        set_cursor(&home, name, 12);
    }
    cut(&home).unwrap();
    for name in ["-bot", "system", long.as_str()] {
        let text = fs::read_to_string(home.path(&format!("cursors/{name}.json"))).unwrap();
        let fields: Entry = serde_json::from_str(&text).unwrap();
        assert_eq!(fields["roomOffset"], 3, "{name}");
        assert_eq!(fields["kept"], 1);
    }
}

#[test]
fn a_cut_gives_up_when_another_program_took_its_lock_over() {
    let dir = tempfile::tempdir().unwrap();
    channel(dir.path()).choose(crate::Mode::Shared).unwrap();
    let home = home(dir.path());
    let mut log = Log::open(&home, ROOM).unwrap();
    let lock = home.path("room.jsonl.lock");
    fs::rename(&lock, home.path("stolen")).unwrap();
    fs::create_dir(&lock).unwrap();
    let before = fs::read(home.path(ROOM)).unwrap();
    let refused = log.archive(|number, _| aged(number), Some(ARCHIVE));
    assert!(matches!(refused, Err(BusError::Held { .. })), "{refused:?}");
    assert_eq!(fs::read(home.path(ROOM)).unwrap(), before);
    assert_eq!(fs::read(home.path(ARCHIVE)).unwrap(), b"");
    drop(log);
    assert!(lock.exists(), "the other program's lock is not removed");
    fs::remove_dir(&lock).unwrap();
    cut(&home).unwrap();
    nobody_noticed(&home);
}

#[test]
fn half_a_line_in_the_archive_swallows_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let home = channel(dir.path());
    fs::create_dir_all(home.path("archive/rooms")).unwrap();
    fs::write(home.path(ARCHIVE), "{\"id\":\"m").unwrap();
    cut(&home).unwrap();
    assert_eq!(numbers(&home.path(ARCHIVE)), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    assert!(
        fs::read_to_string(home.path(ARCHIVE))
            .unwrap()
            .starts_with("{\"id\":\"m\n{")
    );
}

#[test]
fn a_line_too_long_to_look_at_and_an_unfinished_one_stay_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    let long = "y".repeat(33 * 1024 * 1024);
    let tail = "{\"id\":\"half";
    fs::write(
        home.path(ROOM),
        format!("{}\n{long}\n{}\n{tail}", entry(0), entry(1)),
    )
    .unwrap();
    let mut log = Log::open(&home, ROOM).unwrap();
    log.archive(|number, _| number == 0, Some(ARCHIVE)).unwrap();
    assert_eq!(log.entries(), 1);
    drop(log);
    assert!(fs::read_to_string(home.path(ROOM)).unwrap() == format!("{long}\n{}\n{tail}", entry(1)));
    let log = Log::open(&home, ROOM).unwrap();
    assert_eq!(log.retire(ARCHIVE).unwrap(), 1);
    assert!(!home.path(ROOM).exists());
    assert!(
        fs::read_to_string(home.path(ARCHIVE)).unwrap()
            == format!("{}\n{long}\n{}\n{tail}", entry(0), entry(1))
    );
}

// spec: STO-039
#[test]
fn a_log_that_is_put_away_takes_its_cursors_to_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let home = channel(dir.path());
    Log::open(&home, ROOM).unwrap().retire(ARCHIVE).unwrap();
    assert!(!home.path(ROOM).exists());
    assert_eq!(numbers(&home.path(ARCHIVE)), (0..20).collect::<Vec<_>>());
    Log::open(&home, ROOM).unwrap().append(&[entry(20)]).unwrap();
    for (name, _) in READERS {
        let seat = SeatId::parse(name).unwrap();
        let source = Source::Room(RoomName::general());
        assert_eq!(
            read::read(&home, &seat, &source, Want::default())
                .unwrap()
                .returned,
            1,
            "{name}"
        );
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Entry,
    Indented,
    Blank,
    Malformed,
    /// An object that a strict reader refuses, and every program counts.
    Huge,
}

fn kinds() -> impl Strategy<Value = Vec<(Kind, bool)>> {
    let kind = prop_oneof![
        6 => Just(Kind::Entry),
        1 => Just(Kind::Indented),
        1 => Just(Kind::Blank),
        1 => Just(Kind::Malformed),
        1 => Just(Kind::Huge),
    ];
    proptest::collection::vec((kind, any::<bool>()), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    // spec: STO-034 STO-039
    #[test]
    fn whatever_a_log_holds_a_cut_moves_what_it_should_and_each_cursor_by_what_went(kinds in kinds(), at in 0_u64..320) {
        let dir = tempfile::tempdir().unwrap();
        let home = home(dir.path());
        let (mut text, mut kept, mut went) = (String::new(), String::new(), String::new());
        let (mut number, mut before, mut goes) = (0_u64, 0_u64, Vec::new());
        for (kind, wanted) in &kinds {
            let line = match kind {
                Kind::Entry => entry(number),
                Kind::Indented => format!("  {}", entry(number)),
                Kind::Blank => " ".to_owned(),
                Kind::Malformed => "{\"id\":".to_owned(),
                Kind::Huge => "{\"ts\":1e999}".to_owned(),
            };
            let counts = !matches!(kind, Kind::Blank | Kind::Malformed);
            let may_go = counts && *wanted;
            let to = if may_go { &mut went } else { &mut kept };
            *to += &line;
            to.push('\n');
            text += &line;
            text.push('\n');
            if counts {
                goes.push(*wanted);
                before += u64::from(may_go && number < at);
                number += 1;
            }
        }
        fs::write(home.path(ROOM), &text).unwrap();
        let at = at.min(number);
        set_cursor(&home, "r", at);
        let mut log = Log::open(&home, ROOM).unwrap();
        prop_assert_eq!(log.entries(), number);
        log.archive(|number, _| goes[usize::try_from(number).unwrap()], Some(ARCHIVE)).unwrap();
        drop(log);
        prop_assert_eq!(fs::read_to_string(home.path(ROOM)).unwrap(), kept);
        prop_assert_eq!(fs::read_to_string(home.path(ARCHIVE)).unwrap_or_default(), went);
        let cursor = Cursor::load_file(&home, "cursors/r.json").unwrap();
        prop_assert_eq!(cursor.get(&Source::Room(RoomName::general())), Some(at - before));
    }
}
