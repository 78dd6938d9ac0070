//! A directory shared with another program: one that keeps the protocol, one that does what the old program did, and two who steal one stale lock. Never is anything of ours lost, nor of theirs while they keep the protocol.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_bus::read::Want;
use muster_bus::registry::register;
use muster_bus::{RoomName, Source, post, rooms};

use crate::foreign::{Stealing, append, ensure, hook_cursor, lock, message, rewrite, set_age};
use crate::support::{child, open, role, run, say, seat, shared_bus, wait_for, word};

/// One of our processes: sends, posts, registers and reads, and says what it was told is stored.
fn ours(role: &str, place: &Path, count: usize) {
    let home = open(place);
    assert_eq!(home.mode(), muster_bus::Mode::Shared);
    wait_for(&place.join("go"));
    let me = seat(role);
    for n in 0..count {
        say(&format!(
            "all {}",
            post::send(&home, &me, &seat("all"), &format!("{role} {n}"))
                .unwrap()
                .id
        ));
        if n % 5 == 0 {
            say(&format!(
                "room {}",
                post::post(&home, &me, &RoomName::parse("seo").unwrap(), "x", None)
                    .unwrap()
                    .id
            ));
        }
        if n % 10 == 0 {
            let id = format!("{role}-{n}");
            register(&home, &seat(&id), Some("ours"), None).unwrap();
            say(&format!("agent {id}"));
        }
        muster_bus::read::read(&home, &me, &Source::Inbox, Want::default()).unwrap();
    }
}

/// Everything that our processes were told is stored, against the files.
fn all_there(bus: &crate::support::Bus, said: &[String]) {
    let ids = |name: &str| -> Vec<String> {
        let text = String::from_utf8(bus.bytes(name)).unwrap();
        let whole = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        whole.map(|entry| word(&entry, "id")).collect()
    };
    let (inbox, seo, agents) = (
        ids("inbox/all.jsonl"),
        ids("rooms/seo.jsonl"),
        bus.json("agents.json"),
    );
    for words in said {
        let (what, id) = words.split_once(' ').unwrap();
        match what {
            "all" => assert_eq!(inbox.iter().filter(|found| *found == id).count(), 1, "{words}"),
            "room" => assert_eq!(seo.iter().filter(|found| *found == id).count(), 1, "{words}"),
            _ => assert_eq!(agents[id]["project"], "ours", "{words}"),
        }
    }
}

// spec: STO-026
#[test]
fn beside_a_program_that_keeps_the_protocol_nothing_of_either_is_lost() {
    const NAME: &str = "heavy::shared::beside_a_program_that_keeps_the_protocol_nothing_of_either_is_lost";
    if let Some((role, place)) = role() {
        return match role.strip_prefix("theirs") {
            None => ours(&role, &place, 100),
            Some(n) => {
                wait_for(&place.join("go"));
                for m in 0..150 {
                    append(
                        &place.join("inbox/all.jsonl"),
                        &message(&format!("t{n}-{m}"), "all"),
                        Stealing::Removing,
                    );
                    if m % 5 == 0 {
                        rewrite(&place.join("agents.json"), Duration::from_millis(2), |agents| {
                            let entry = serde_json::json!({"agentId": format!("t{n}-{m}"), "registeredAt": 1, "lastHeartbeat": 1});
                            agents.insert(format!("t{n}-{m}"), entry);
                        });
                    }
                }
            }
        };
    }
    let bus = shared_bus();
    register(&bus.home, &seat("all"), None, None).unwrap();
    rooms::join(&bus.home, &seat("all"), &RoomName::parse("seo").unwrap()).unwrap();
    let roles = ["a", "b", "c", "theirs0", "theirs1"];
    let children = roles
        .iter()
        .map(|role| child(NAME, role, bus.home.root()))
        .collect();
    std::fs::write(bus.path("go"), "").unwrap();
    let begun = Instant::now();
    let said = run(children).concat();
    println!(
        "{} acts of ours beside 360 of theirs in {:?}",
        said.len(),
        begun.elapsed()
    );
    all_there(&bus, &said);
    let lines = bus.lines("inbox/all.jsonl");
    assert_eq!(lines.len(), 3 * 100 + 2 * 150);
    let agents = bus.json("agents.json");
    for n in 0..2 {
        for m in 0..150 {
            let id = format!("t{n}-{m}");
            assert_eq!(
                lines.iter().filter(|line| word(line, "id") == id).count(),
                1,
                "{id}"
            );
            assert!(m % 5 != 0 || agents[&id].is_object(), "{id}");
        }
    }
    assert_eq!(bus.inbox("all").len(), lines.len());
    let left: Vec<_> = std::fs::read_dir(bus.path(".muster/locks"))
        .unwrap()
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("stolen")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

// spec: STO-027 STO-029
#[test]
fn beside_what_the_old_program_does_nothing_of_ours_is_lost_or_refused() {
    const NAME: &str = "heavy::shared::beside_what_the_old_program_does_nothing_of_ours_is_lost_or_refused";
    if let Some((role, place)) = role() {
        return ours(&role, &place, 60);
    }
    let bus = shared_bus();
    register(&bus.home, &seat("all"), None, None).unwrap();
    rooms::join(&bus.home, &seat("all"), &RoomName::parse("seo").unwrap()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let old = {
        let (over, root) = (over.clone(), bus.home.root().to_owned());
        std::thread::spawn(move || {
            let mut round = 0_u32;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                let (inbox, cursor) = (root.join("inbox/all.jsonl"), root.join("cursors/a.json"));
                // Emptied first and filled later, under the lock.
                for file in ["agents.json", "rooms.json"] {
                    rewrite(&root.join(file), Duration::from_millis(4), |_| {});
                }
                // A hook that takes no lock.
                hook_cursor(&cursor, "{\"inboxOffset\": 0}");
                // It dies in the middle of a line and its lock is left behind.
                if round.is_multiple_of(10) {
                    let held = lock(&inbox, Stealing::Removing);
                    use std::io::Write as _;
                    let mut file = std::fs::File::options().append(true).open(&inbox).unwrap();
                    file.write_all(b"{\"id\":\"torn\",\"text\":\"to").unwrap();
                    let orphan = root.join("inbox/all.jsonl.lock");
                    set_age(&orphan, Duration::from_secs(6));
                    std::mem::forget(held);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            round
        })
    };
    let children = ["a", "b", "c"]
        .iter()
        .map(|role| child(NAME, role, bus.home.root()))
        .collect();
    std::fs::write(bus.path("go"), "").unwrap();
    let said = run(children).concat();
    over.store(true, Ordering::Relaxed);
    let rounds = old.join().unwrap();
    assert!(rounds > 10, "{rounds} rounds");
    all_there(&bus, &said);
    assert_eq!(
        bus.inbox("all").len(),
        180,
        "every torn line stands alone and hides none"
    );
}

// spec: STO-026
#[test]
fn our_first_messages_survive_a_program_that_empties_files_it_believes_absent() {
    const NAME: &str =
        "heavy::shared::our_first_messages_survive_a_program_that_empties_files_it_believes_absent";
    const INBOXES: usize = 20;
    if let Some((role, place)) = role() {
        let home = open(&place);
        for n in 0..INBOXES {
            wait_for(&place.join(format!("go-{n}")));
            let sent = post::send(&home, &seat(&role), &seat(&format!("new-{n}")), "first").unwrap();
            say(&format!("{n} {}", sent.id));
        }
        // What is looked after twice more must be looked after by somebody.
        std::thread::sleep(Duration::from_millis(2_500));
        return;
    }
    let bus = shared_bus();
    let root = bus.home.root().to_owned();
    let old = std::thread::spawn(move || {
        for n in 0..INBOXES {
            let inbox = root.join(format!("inbox/new-{n}.jsonl"));
            // It looks before anybody wrote, and empties what it did not see a moment, or half a second, later.
            std::fs::write(root.join(format!("go-{n}")), "").unwrap();
            let pause = [0, 2, 10, 30, 80, 300][n % 6];
            ensure(&inbox, Duration::from_millis(pause));
            append(&inbox, &message(&format!("old-{n}"), "new"), Stealing::Removing);
        }
    });
    let children = ["a", "b", "c"]
        .iter()
        .map(|role| child(NAME, role, bus.home.root()))
        .collect();
    let said = run(children).concat();
    old.join().unwrap();
    assert_eq!(said.len(), 3 * INBOXES);
    for words in said {
        let (n, id) = words.split_once(' ').unwrap();
        let lines = bus.lines(&format!("inbox/new-{n}.jsonl"));
        assert_eq!(
            lines.iter().filter(|line| word(line, "id") == id).count(),
            1,
            "{id} to new-{n}: {lines:?}"
        );
        assert!(
            lines.iter().any(|line| word(line, "id") == format!("old-{n}")),
            "theirs to new-{n}"
        );
    }
}

// spec: STO-028
#[test]
fn two_who_steal_a_stale_lock_never_both_have_it() {
    const ROUNDS: usize = 60;
    let bus = shared_bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    // Past the first seconds of a log, in which a send looks after what it wrote.
    post::send(&bus.home, &seat("bob"), &seat("ann"), "first").unwrap();
    std::thread::sleep(Duration::from_millis(3_100));
    let inbox = bus.path("inbox/ann.jsonl");
    let orphan = bus.path("inbox/ann.jsonl.lock");
    let broken = AtomicUsize::new(0);
    for round in 0..ROUNDS {
        std::fs::create_dir(&orphan).unwrap();
        set_age(&orphan, Duration::from_secs(6));
        let stealing = if round.is_multiple_of(2) {
            Stealing::Removing
        } else {
            Stealing::Moving
        };
        let begin = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let theirs = || {
                begin.wait();
                let held = lock(&inbox, stealing);
                // Whoever holds the lock sees nobody write.
                let before = inbox.metadata().unwrap().len();
                std::thread::sleep(Duration::from_millis(5));
                held.renew();
                broken.fetch_add(
                    usize::from(inbox.metadata().unwrap().len() != before),
                    Ordering::Relaxed,
                );
                drop(held);
            };
            scope.spawn(theirs);
            for n in 0..3 {
                let (begin, bus) = (&begin, &bus);
                scope.spawn(move || {
                    begin.wait();
                    std::thread::sleep(Duration::from_micros(n * 40));
                    post::send(&bus.home, &seat("bob"), &seat("ann"), "x").unwrap();
                });
            }
        });
    }
    assert_eq!(
        broken.load(Ordering::Relaxed),
        0,
        "somebody wrote while another held the lock"
    );
    assert_eq!(bus.lines("inbox/ann.jsonl").len(), 1 + 3 * ROUNDS);
}

// spec: STO-028
#[test]
fn a_lock_whose_holder_died_a_moment_ago_is_waited_for_and_then_taken_over() {
    let bus = shared_bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    let lock = bus.path("inbox/ann.jsonl.lock");
    std::fs::create_dir(&lock).unwrap();
    // As far ahead as a holder that has just begun may set it.
    set_age(&lock, Duration::ZERO);
    let begun = Instant::now();
    post::send(&bus.home, &seat("bob"), &seat("ann"), "x").unwrap();
    let waited = begun.elapsed();
    assert!((4_900..9_500).contains(&waited.as_millis()), "{waited:?}");
    assert!(!lock.exists());
    assert_eq!(bus.inbox("ann"), ["x"]);
}

// spec: STO-028
#[test]
fn a_process_of_ours_that_is_killed_in_the_middle_of_a_write_holds_nobody_up() {
    const NAME: &str =
        "heavy::shared::a_process_of_ours_that_is_killed_in_the_middle_of_a_write_holds_nobody_up";
    if let Some((_, place)) = role() {
        let home = open(&place);
        let _ = std::fs::write(place.join("go"), "");
        loop {
            post::send(&home, &seat("bob"), &seat("ann"), "x").unwrap();
        }
    }
    let bus = shared_bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    // Past the time in which each first message is looked after.
    std::thread::sleep(Duration::from_millis(3_100));
    let lock = bus.path("inbox/ann.jsonl.lock");
    let mut orphans = 0;
    for n in 0..60 {
        let mut killed = child(NAME, "sender", bus.home.root()).spawn().unwrap();
        wait_for(&bus.path("go"));
        let begun = Instant::now();
        while !lock.exists() && begun.elapsed() < Duration::from_secs(10) {}
        // Somewhere in the middle of what it does under the lock.
        std::thread::sleep(Duration::from_micros(n));
        killed.kill().unwrap();
        killed.wait().unwrap();
        std::fs::remove_file(bus.path("go")).unwrap();
        orphans += u32::from(lock.exists());
        let begun = Instant::now();
        post::send(&bus.home, &seat("carl"), &seat("ann"), "y").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(!lock.exists());
        if orphans == 3 {
            return;
        }
    }
    assert!(orphans > 0, "none was killed while it held the lock");
}
