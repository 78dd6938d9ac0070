//! Many processes at once, and some of them killed at any moment. Answers the reports 10, 11 and 12. Never counts what a process meant to do, only what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_bus::registry::register;
use muster_bus::{Home, RoomName, post};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Dice, bus, child, open, role, run, said, say, seat, wait_for, word};

/// How often each id stands in a log, and how many lines are none.
fn count(path: &Path) -> (BTreeMap<String, usize>, usize) {
    let bytes = std::fs::read(path).unwrap();
    let (mut ids, mut torn) = (BTreeMap::new(), 0);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<muster_bus::Entry>(line) {
            Ok(entry) => *ids.entry(word(&entry, "id")).or_insert(0) += 1,
            Err(_) => torn += 1,
        }
    }
    (ids, torn)
}

// spec: STO-026
#[test]
fn eight_processes_write_to_one_log_and_one_channel_and_no_line_is_lost_or_mixed() {
    const NAME: &str =
        "heavy::many::eight_processes_write_to_one_log_and_one_channel_and_no_line_is_lost_or_mixed";
    const EACH: usize = 500;
    if let Some((role, place)) = role() {
        let home = open(&place);
        wait_for(&place.join("go"));
        for n in 0..EACH {
            let text = format!("{role} {n} {}", "x".repeat(n * 7));
            let sent = if n % 2 == 0 {
                post::send(&home, &seat(&role), &seat("all"), &text).unwrap()
            } else {
                post::post(
                    &home,
                    &seat(&role),
                    &RoomName::parse("many").unwrap(),
                    &text,
                    None,
                )
                .unwrap()
            };
            say(&sent.id);
        }
        return;
    }
    let bus = bus();
    let children = (0..8)
        .map(|n| child(NAME, &format!("w{n}"), bus.home.root()))
        .collect();
    std::fs::write(bus.path("go"), "").unwrap();
    let said: BTreeSet<String> = run(children).concat().into_iter().collect();
    assert_eq!(said.len(), 8 * EACH);
    let mut found = BTreeMap::new();
    for name in ["inbox/all.jsonl", "rooms/many.jsonl", "archive/rooms/many.jsonl"] {
        let (ids, torn) = count(&bus.path(name));
        assert_eq!(torn, 0, "{name}");
        found.extend(ids);
    }
    assert!(found.values().all(|times| *times == 1));
    assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), said);
}

// spec: STO-026
#[test]
fn first_messages_to_new_inboxes_from_four_processes_at_once_all_arrive() {
    const NAME: &str = "heavy::many::first_messages_to_new_inboxes_from_four_processes_at_once_all_arrive";
    const INBOXES: usize = 250;
    if let Some((role, place)) = role() {
        let home = open(&place);
        wait_for(&place.join("go"));
        for n in 0..INBOXES {
            let sent = post::send(&home, &seat(&role), &seat(&format!("new-{n}")), "first").unwrap();
            say(&format!("{n} {}", sent.id));
        }
        return;
    }
    let bus = bus();
    let children = (0..4)
        .map(|n| child(NAME, &format!("w{n}"), bus.home.root()))
        .collect();
    std::fs::write(bus.path("go"), "").unwrap();
    let said = run(children).concat();
    assert_eq!(said.len(), 4 * INBOXES);
    for words in said {
        let (n, id) = words.split_once(' ').unwrap();
        let lines = bus.lines(&format!("inbox/new-{n}.jsonl"));
        assert_eq!(
            lines.iter().filter(|line| word(line, "id") == id).count(),
            1,
            "{id} to new-{n}"
        );
        assert_eq!(lines.len(), 4);
    }
}

/// A child that is replaced by another when it is killed, until enough was acknowledged.
struct Slot {
    child: Mutex<Option<Child>>,
    acknowledged: Mutex<Vec<String>>,
}

/// Runs `slots` children of `test`, kills one of them at any moment again and again, and answers what was acknowledged and how many were
/// killed. A child is told how many acknowledgements are left by its role, `NAME LEFT`.
fn under_fire(
    test: &'static str,
    place: PathBuf,
    slots: usize,
    each: usize,
    pause: Duration,
) -> (Vec<String>, usize) {
    let slots: Arc<Vec<Slot>> = Arc::new(
        (0..slots)
            .map(|_| Slot {
                child: Mutex::new(None),
                acknowledged: Mutex::new(Vec::new()),
            })
            .collect(),
    );
    let (over, kills) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let killer = std::thread::spawn({
        let (slots, over, kills) = (slots.clone(), over.clone(), kills.clone());
        move || {
            let mut dice = Dice::new(7);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(pause + Duration::from_micros(dice.below(20_000)));
                let slot = &slots[usize::try_from(dice.below(slots.len() as u64)).unwrap()];
                if let Some(child) = slot.child.lock().unwrap().as_ref() {
                    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
                    // Not yet waited for, so the number is still its own.
                    if kill(pid, Signal::SIGKILL).is_ok() {
                        kills.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    });
    let runners: Vec<_> = (0..slots.len())
        .map(|n| {
            let (slots, place) = (slots.clone(), place.clone());
            std::thread::spawn(move || {
                loop {
                    let slot = &slots[n];
                    let left = each.saturating_sub(slot.acknowledged.lock().unwrap().len());
                    if left == 0 {
                        return;
                    }
                    let mut started = child(test, &format!("w{n} {left}"), &place).spawn().unwrap();
                    let words = said(&mut started);
                    *slot.child.lock().unwrap() = Some(started);
                    words.for_each(|id| slot.acknowledged.lock().unwrap().push(id));
                    let ended = slot.child.lock().unwrap().take().unwrap().wait().unwrap();
                    use std::os::unix::process::ExitStatusExt as _;
                    assert!(
                        ended.success() || ended.signal() == Some(9),
                        "a child ended with {ended}"
                    );
                }
            })
        })
        .collect();
    for runner in runners {
        runner.join().unwrap();
    }
    over.store(true, Ordering::Relaxed);
    killer.join().unwrap();
    let acknowledged = slots
        .iter()
        .flat_map(|slot| slot.acknowledged.lock().unwrap().clone())
        .collect();
    (acknowledged, kills.load(Ordering::Relaxed))
}

fn told(role: &str) -> (&str, usize) {
    let (name, left) = role.split_once(' ').unwrap();
    (name, left.parse().unwrap())
}

// spec: STO-026 STO-028 STO-029
#[test]
fn of_eight_processes_killed_again_and_again_every_acknowledged_message_is_there_exactly_once() {
    const NAME: &str = "heavy::many::of_eight_processes_killed_again_and_again_every_acknowledged_message_is_there_exactly_once";
    if let Some((role, place)) = role() {
        let home = open(&place);
        let (name, left) = told(&role);
        let mut dice = Dice::new(u64::from(std::process::id()));
        for _ in 0..left {
            let text = "x".repeat(1 + usize::try_from(dice.below(2_000)).unwrap());
            say(&post::send(&home, &seat(name), &seat("all"), &text).unwrap().id);
        }
        return;
    }
    let bus = bus();
    let begun = Instant::now();
    let (acknowledged, kills) = under_fire(
        NAME,
        bus.home.root().to_owned(),
        8,
        5_000,
        Duration::from_millis(40),
    );
    let (found, torn) = count(&bus.path("inbox/all.jsonl"));
    println!(
        "{} acknowledged, {kills} killed, {torn} torn lines, {:?}",
        acknowledged.len(),
        begun.elapsed()
    );
    assert!(acknowledged.len() >= 8 * 5_000 && kills > 20, "{kills} kills");
    assert_eq!(
        acknowledged.iter().collect::<BTreeSet<_>>().len(),
        acknowledged.len()
    );
    assert!(
        found.values().all(|times| *times == 1),
        "a message stands there twice"
    );
    for id in &acknowledged {
        assert!(found.contains_key(id), "{id} was acknowledged and is gone");
    }
    // A death cuts at most the one line it was writing, and hides at most the one acknowledgement it was giving.
    assert!(
        torn <= kills && found.len() <= acknowledged.len() + kills,
        "{torn} torn, {} found",
        found.len()
    );
    // What is left can be used: nothing was torn for good, and no lock is held.
    let sent = post::send(&bus.home, &seat("ann"), &seat("all"), "last").unwrap();
    let last = bus.bytes("inbox/all.jsonl");
    let last = last
        .strip_suffix(b"\n")
        .unwrap()
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap();
    assert_eq!(word(&serde_json::from_slice(last).unwrap(), "id"), sent.id);
}

// spec: STO-027
#[test]
fn a_registry_written_by_processes_that_are_killed_always_reads_and_keeps_every_acknowledged_entry() {
    const NAME: &str = "heavy::many::a_registry_written_by_processes_that_are_killed_always_reads_and_keeps_every_acknowledged_entry";
    if let Some((role, place)) = role() {
        let home = open(&place);
        let (name, left) = told(&role);
        for n in 0..left {
            let id = format!("{name}-{}-{n}", std::process::id());
            register(&home, &seat(&id), Some("project"), None).unwrap();
            say(&id);
        }
        return;
    }
    let bus = bus();
    let over = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (over, path) = (over.clone(), bus.path("agents.json"));
        move || {
            let mut reads = 0_usize;
            while !over.load(Ordering::Relaxed) {
                if let Ok(text) = std::fs::read(&path) {
                    serde_json::from_slice::<serde_json::Value>(&text).unwrap();
                    reads += 1;
                }
                std::thread::sleep(Duration::from_micros(300));
            }
            reads
        }
    });
    let (acknowledged, kills) = under_fire(
        NAME,
        bus.home.root().to_owned(),
        4,
        150,
        Duration::from_millis(15),
    );
    over.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 100);
    assert!(kills > 10, "{kills} kills");
    let agents = bus.json("agents.json");
    for id in &acknowledged {
        assert_eq!(agents[id]["project"], "project", "{id}");
    }
    assert!(agents.as_object().unwrap().len() <= acknowledged.len() + kills);
}

/// The channel's messages and their readers under cuts by processes that die: the reader may be shown a message twice, and misses none.
// spec: STO-034
#[test]
fn a_reader_misses_no_message_of_a_channel_that_dying_processes_cut() {
    const NAME: &str = "heavy::many::a_reader_misses_no_message_of_a_channel_that_dying_processes_cut";
    fn small(place: &Path) -> Home {
        let bound = muster_bus::limits::Bound { max: 60, keep: 50 };
        let limits = muster_bus::limits::Limits {
            room: bound,
            ..muster_bus::limits::Limits::default()
        };
        Home::open(place, limits, muster_core::Clock::system()).unwrap()
    }
    if let Some((role, place)) = role() {
        let home = small(&place);
        let (name, left) = told(&role);
        for _ in 0..left {
            say(&post::post(&home, &seat(name), &RoomName::general(), "x", None)
                .unwrap()
                .id);
        }
        return;
    }
    let bus = bus();
    let home = small(bus.home.root());
    let over = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (over, home) = (over.clone(), home.clone());
        move || {
            let mut seen = BTreeMap::new();
            let mut last = false;
            // Once more after the last post.
            while !last {
                last = over.load(Ordering::Relaxed);
                let want = muster_bus::read::Want {
                    limit: Some(500),
                    ..muster_bus::read::Want::default()
                };
                let batch =
                    muster_bus::read::read(&home, &seat("reader"), &crate::support::room("general"), want)
                        .unwrap();
                for entry in &batch.messages {
                    *seen.entry(word(entry, "id")).or_insert(0_usize) += 1;
                }
            }
            seen
        }
    });
    let (acknowledged, kills) = under_fire(
        NAME,
        bus.home.root().to_owned(),
        4,
        1_000,
        Duration::from_millis(10),
    );
    over.store(true, Ordering::Relaxed);
    let seen = reader.join().unwrap();
    // A reader who was too slow finds what was cut before he came in the archive; no cut takes a cursor past what still stands.
    let (archived, _) = count(&bus.path("archive/rooms/general.jsonl"));
    let missed: Vec<_> = acknowledged.iter().filter(|id| !seen.contains_key(*id)).collect();
    assert!(
        missed.iter().all(|id| archived.contains_key(*id)),
        "{} missed",
        missed.len()
    );
    let twice = seen.values().filter(|times| **times > 1).count();
    println!(
        "{kills} killed, {} read, {twice} of them twice, {} never seen live",
        seen.len(),
        missed.len()
    );
    assert!(kills > 10, "{kills} kills");
    assert_eq!(twice, 0, "every cursor moved with its cut");
    let (live, _) = count(&bus.path("room.jsonl"));
    for id in &acknowledged {
        assert!(live.contains_key(id) || archived.contains_key(id), "{id} is gone");
    }
}
