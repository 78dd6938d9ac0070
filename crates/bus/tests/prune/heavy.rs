//! Cleaning under load, under kill -9 and of a very long log. Never asks for a quiet machine.

use super::*;
use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Which part this process plays when a test starts it again.
const ROLE: &str = "MUSTER_PRUNE_TEST";

fn again(test: &str, dir: &Path, now: i64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(ROLE, dir).env("MUSTER_PRUNE_NOW", now.to_string());
    command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// A log of a million, of which nine in ten are old.
fn million(bus: &Bus) {
    let (old, now) = (1_000_000_000_000_i64, bus.home.now());
    let mut file = std::io::BufWriter::new(fs::File::create(bus.dir.path().join("room.jsonl")).unwrap());
    for number in 0..1_000_000_u32 {
        let ts = if number % 10 == 9 { now } else { old };
        writeln!(file, "{{\"id\":\"m{number}\",\"ts\":{ts},\"from\":\"x\",\"text\":\"a message of ordinary length that somebody wrote, number {number}\"}}").unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    // Counted once before anybody is timed, as it is wherever the file grew under our eyes.
    let depth = read::depth(&bus.home, &id("bob"), &Source::Room(room("general"))).unwrap();
    assert_eq!(depth, 1_000_000);
}

fn lines(bus: &Bus, name: &str) -> usize {
    BufReader::new(fs::File::open(bus.dir.path().join(name)).unwrap())
        .lines()
        .count()
}

/// Cleans, and tells what that took.
fn clean(home: &Home) {
    let before = peak();
    let begun = Instant::now();
    let removed = prune(home, &Want::default()).unwrap().removed.unwrap();
    println!(
        "\nMOVED {} {} {}",
        removed.room_messages,
        peak() - before,
        begun.elapsed().as_millis()
    );
}

/// What a cleaning process told.
fn told(child: std::process::Child) -> thread::JoinHandle<Vec<u64>> {
    let mut lines = BufReader::new(child.stdout.unwrap()).lines();
    thread::spawn(move || {
        let told = lines
            .find_map(|line| line.ok()?.strip_prefix("MOVED ").map(str::to_owned))
            .unwrap();
        told.split(' ').map(|number| number.parse().unwrap()).collect()
    })
}

/// The directory and the time, in a process that was started again.
fn role() -> Option<Home> {
    let dir = std::env::var_os(ROLE)?;
    let now: i64 = std::env::var("MUSTER_PRUNE_NOW").unwrap().parse().unwrap();
    let clock = Clock::manual(Time::from_micros(now * 1_000));
    let limits = Limits {
        room: Bound {
            max: 10_000_000,
            keep: 500_000,
        },
        status: Bound {
            max: 10_000_000,
            keep: 500_000,
        },
    };
    Some(Home::open(Path::new(&dir), limits, clock).unwrap())
}

// spec: PRU-016
#[test]
fn cleaning_while_agents_post_loses_nothing() {
    let bus = Bus::new();
    bus.join("bob");
    let (writers, each) = (4, 150);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let posting: Vec<_> = (0..writers)
            .map(|writer| {
                let (home, clock) = (bus.home.clone(), bus.clock.clone());
                scope.spawn(move || {
                    for number in 0..each {
                        let text = format!("{writer}-{number}");
                        post::post(&home, &id("poster"), &room("general"), &text, None).unwrap();
                        post::send(&home, &id("poster"), &id("bob"), &text).unwrap();
                        clock.advance(DAY / 8);
                    }
                })
            })
            .collect();
        let pruning = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                prune(&bus.home, &Want::default()).unwrap();
            }
        });
        let mut seen = HashSet::new();
        while posting.iter().any(|writer| !writer.is_finished()) {
            for entry in bus.read("bob", &Source::Inbox).messages {
                assert!(
                    seen.insert(entry["text"].as_str().unwrap().to_owned()),
                    "read twice"
                );
            }
        }
        for entry in bus.read("bob", &Source::Inbox).messages {
            assert!(
                seen.insert(entry["text"].as_str().unwrap().to_owned()),
                "read twice"
            );
        }
        assert_eq!(seen.len(), writers * each, "every direct message was read once");
        done.store(true, Ordering::Relaxed);
        pruning.join().unwrap();
    });
    for (live, archive) in [
        ("room.jsonl", "archive/rooms/general.jsonl"),
        ("inbox/bob.jsonl", "archive/inbox/bob.jsonl"),
    ] {
        let mut all = bus.texts(archive);
        assert!(!all.is_empty(), "something was cleaned");
        all.extend(bus.texts(live));
        assert_eq!(all.len(), writers * each);
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), writers * each);
    }
}

/// Posts numbered messages, tells each, and cleans, until it is killed.
fn work(home: &Home, first: u64) {
    let mut out = std::io::stdout();
    let clean = Want {
        older_than_days: Some(0.000_000_1),
        ..Want::default()
    };
    for number in first..first + 400 {
        let text = number.to_string();
        post::send(home, &id("poster"), &id("bob"), &text).unwrap();
        post::post(home, &id("poster"), &room("general"), &text, None).unwrap();
        writeln!(out, "\nSENT {number}").unwrap();
        out.flush().unwrap();
        if number % 3 == 0 {
            prune(home, &clean).unwrap();
        }
    }
}

// spec: STO-034 STO-046
#[test]
fn a_process_killed_while_it_cleans_loses_no_message_and_confuses_no_reader() {
    const NAME: &str = "heavy::a_process_killed_while_it_cleans_loses_no_message_and_confuses_no_reader";
    if let Some(home) = role() {
        let first = std::env::var("MUSTER_PRUNE_FIRST").unwrap().parse().unwrap();
        return work(&home, first);
    }
    let bus = Bus::new();
    bus.join("bob");
    let (mut sent, mut first, mut dms, mut posts) = (BTreeSet::new(), 0_u64, Vec::new(), Vec::new());
    let mut killed = 0;
    for round in 0..40_u64 {
        bus.days(1);
        let mut child = again(NAME, bus.dir.path(), bus.home.now())
            .env("MUSTER_PRUNE_FIRST", first.to_string())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let life = thread::spawn(move || {
            let sent = |line: String| line.strip_prefix("SENT ")?.parse::<u64>().ok();
            lines
                .lines()
                .map_while(Result::ok)
                .filter_map(sent)
                .collect::<Vec<_>>()
        });
        thread::sleep(
            Duration::from_millis(60 + round * 37 % 240) + Duration::from_micros(round * 7_919 % 1_000),
        );
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        sent.extend(life.join().unwrap());
        first += 400;
        let number = |entry: &Entry| entry["text"].as_str().unwrap().parse::<u64>().unwrap();
        let half = read::Want {
            limit: Some(1 + usize::try_from(round % 3).unwrap() * 200),
            ..read::Want::default()
        };
        let batch = read::read(&bus.home, &id("bob"), &Source::Inbox, half).unwrap();
        assert_eq!(batch.note, None);
        dms.extend(batch.messages.iter().map(number));
        let wide = read::Want {
            limit: Some(500),
            ..read::Want::default()
        };
        let batch = read::read(&bus.home, &id("bob"), &Source::Room(room("general")), wide).unwrap();
        assert_eq!((batch.note, batch.history), (None, None));
        posts.extend(batch.messages.iter().map(number));
    }
    assert!(
        killed > 20 && sent.len() > 500,
        "{killed} killed, {} sent",
        sent.len()
    );
    dms.extend(
        bus.read("bob", &Source::Inbox)
            .messages
            .iter()
            .map(|entry| entry["text"].as_str().unwrap().parse::<u64>().unwrap()),
    );
    // Each in order and once; and every acknowledged direct message reached its reader.
    assert!(dms.is_sorted_by(|a, b| a < b), "{dms:?}");
    assert!(posts.is_sorted_by(|a, b| a < b), "{posts:?}");
    let dms: BTreeSet<u64> = dms.into_iter().collect();
    assert_eq!(sent.difference(&dms).count(), 0);
    for (live, archive) in [
        ("room.jsonl", "archive/rooms/general.jsonl"),
        ("inbox/bob.jsonl", "archive/inbox/bob.jsonl"),
    ] {
        let text = |name| fs::read_to_string(bus.dir.path().join(name)).unwrap();
        let entries: Vec<Entry> = (text(archive) + &text(live))
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let all: BTreeSet<u64> = entries
            .iter()
            .map(|entry| entry["text"].as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(sent.difference(&all).count(), 0, "{live}");
    }
}

/// The most memory this process has had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_million_entries_are_cleaned_in_little_memory_while_others_post() {
    const NAME: &str = "heavy::a_million_entries_are_cleaned_in_little_memory_while_others_post";
    if let Some(home) = role() {
        return clean(&home);
    }
    let bus = Bus::new();
    million(&bus);
    bus.write("cursors/bob.json", "{\"roomOffset\":999995}");
    let cleaning = told(again(NAME, bus.dir.path(), bus.home.now()).spawn().unwrap());
    let mut posted = 0;
    while !cleaning.is_finished() {
        match post::post(&bus.home, &id("poster"), &room("general"), "meanwhile", None) {
            Ok(_) => posted += 1,
            // A build without optimisation may need longer than a writer waits; it is told so, and nothing was written.
            Err(muster_bus::BusError::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
    let told = cleaning.join().unwrap();
    println!(
        "moved {}, {} KiB more than before, {} ms, {posted} posts meanwhile",
        told[0], told[1], told[2]
    );
    assert_eq!(told[0], 900_000);
    assert!(told[1] < 48 * 1024, "{} KiB", told[1]);
    assert_eq!(lines(&bus, "archive/rooms/general.jsonl"), 900_000);
    assert_eq!(lines(&bus, "room.jsonl"), 100_000 + posted);
    let unread = read::unread(&bus.home, &id("bob"), &Source::Room(room("general"))).unwrap();
    assert_eq!(unread, 1 + posted, "of the last five entries one stayed");
}

/// Appends a line as another program does: its lock is a folder, which it takes over when nobody renewed it for five seconds.
fn foreign_append(root: &Path, line: &str) {
    let lock = root.join("room.jsonl.lock");
    loop {
        match fs::create_dir(&lock) {
            Ok(()) => break,
            Err(_) => {
                let renewed = fs::metadata(&lock).and_then(|meta| meta.modified());
                let stale = renewed
                    .is_ok_and(|renewed| renewed.elapsed().is_ok_and(|age| age > Duration::from_secs(5)));
                assert!(!stale, "a lock that is at work was left to look abandoned");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let mut file = fs::File::options()
        .append(true)
        .open(root.join("room.jsonl"))
        .unwrap();
    writeln!(file, "{line}").unwrap();
    drop(file);
    fs::remove_dir(lock).unwrap();
}

// spec: PRU-016
#[test]
fn in_a_shared_directory_a_long_cleaning_keeps_its_lock_and_loses_no_post_of_another_program() {
    const NAME: &str =
        "heavy::in_a_shared_directory_a_long_cleaning_keeps_its_lock_and_loses_no_post_of_another_program";
    if let Some(home) = role() {
        assert_eq!(home.mode(), muster_bus::Mode::Shared);
        return clean(&home);
    }
    let bus = Bus::new();
    bus.home.choose(muster_bus::Mode::Shared).unwrap();
    million(&bus);
    let cleaning = told(again(NAME, bus.dir.path(), bus.home.now()).spawn().unwrap());
    let mut posted = 0;
    while !cleaning.is_finished() {
        let line = format!(
            "{{\"id\":\"foreign{posted}\",\"ts\":{},\"from\":\"y\",\"text\":\"t\"}}",
            bus.home.now()
        );
        foreign_append(bus.dir.path(), &line);
        posted += 1;
        thread::sleep(Duration::from_millis(5));
    }
    let told = cleaning.join().unwrap();
    println!(
        "moved {} in {} ms, {posted} posts of another program meanwhile",
        told[0], told[2]
    );
    assert_eq!(told[0], 900_000);
    assert!(posted > 0);
    assert_eq!(lines(&bus, "archive/rooms/general.jsonl"), 900_000);
    assert_eq!(lines(&bus, "room.jsonl"), 100_000 + posted);
    assert!(!bus.has("room.jsonl.lock"));
}
