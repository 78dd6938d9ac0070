//! Processes that are killed in the middle of what they do.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Duration;

use muster_bus::identity::{Ask, Session};
use muster_bus::limits::Limits;
use muster_bus::read::{self, Want};
use muster_bus::sessions::{self, Link};
use muster_bus::transports::{self, Panes, Report};
use muster_bus::{BusError, Home, RoomName, Source, post, registry, rename, rooms, tokens};
use muster_core::Clock;

use crate::{again, bind, role, seat};

fn open(dir: &tempfile::TempDir) -> Home {
    Home::open(dir.path(), Limits::default(), Clock::system()).unwrap()
}

/// The role of [`a_rename_that_is_killed_anywhere_is_completed_by_whoever_comes_next`]: renames back and forth without end.
#[test]
fn renames_without_end() {
    let Some((role, home)) = role().filter(|(role, _)| role == "rename") else {
        return;
    };
    assert_eq!(role, "rename");
    println!("\nbegun");
    loop {
        for (old, new) in [("alice", "carol"), ("carol", "alice")] {
            match rename::rename(&home, &seat(old), &seat(new)) {
                // One of the two ids is free; which one depends on where the one before was killed.
                Ok(()) | Err(BusError::NotRegistered(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

// spec: TOOL-089
#[test]
fn a_rename_that_is_killed_anywhere_is_completed_by_whoever_comes_next() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir);
    registry::register(&home, &seat("alice"), Some("site"), None).unwrap();
    rooms::join(&home, &seat("alice"), &RoomName::parse("seo").unwrap()).unwrap();
    let report = Report {
        transport: "tmux-push-remote",
        ..Report::default()
    };
    transports::report(&home, &seat("alice"), report).unwrap();
    let token = tokens::mint(&home, &seat("alice")).unwrap();
    for number in 0..50 {
        post::send(&home, &seat("bob"), &seat("alice"), &format!("m{number}")).unwrap();
    }
    let want = Want {
        limit: Some(20),
        ..Want::default()
    };
    read::read(&home, &seat("alice"), &Source::Inbox, want).unwrap();

    let (mut killed_inside, mut late) = (0, 0);
    for round in 0..60_u64 {
        let mut child = again("heavy::renames_without_end", "rename", dir.path())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "begun"));
        std::thread::sleep(Duration::from_micros(500 + round * 337 % 9_000));
        // Sent by somebody who knows one name and not whether it is the present one.
        post::send(&home, &seat("bob"), &seat("alice"), &format!("late{round}")).unwrap();
        late += 1;
        child.kill().unwrap();
        child.wait().unwrap();

        let unfinished = rename::unfinished(&home).unwrap();
        killed_inside += usize::from(!unfinished.is_empty());
        for left in &unfinished {
            assert!(rename::finish(&home, &left.old).unwrap());
        }
        assert!(rename::unfinished(&home).unwrap().is_empty());
        assert!(!rename::finish(&home, &seat("alice")).unwrap());

        let agents = registry::Agents::load(&home).unwrap();
        let ids: Vec<String> = agents.all().into_iter().map(|agent| agent.agent_id).collect();
        let [now] = ids.as_slice() else { panic!("{ids:?}") };
        assert!(["alice", "carol"].contains(&now.as_str()));
        rename::gather(&home, &seat(now)).unwrap();
        let map = tokens::Tokens::load(&home).unwrap().unwrap();
        assert_eq!(
            (map.seats(), map.find(token.expose())),
            (vec![seat(now)], Some(seat(now)))
        );
        assert_eq!(
            rooms::Rooms::load(&home)
                .unwrap()
                .get(&RoomName::parse("seo").unwrap())
                .unwrap()
                .members,
            std::slice::from_ref(now)
        );
        let markers: Vec<String> = transports::all(&home)
            .unwrap()
            .into_iter()
            .map(|found| found.marker.unwrap().agent_id)
            .collect();
        assert_eq!(markers, std::slice::from_ref(now));
        let peek = Want {
            peek: true,
            ..Want::default()
        };
        let batch = read::read(&home, &seat(now), &Source::Inbox, peek).unwrap();
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for message in &batch.messages {
            *count
                .entry(message["text"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
        for number in 20..50 {
            assert_eq!(count.get(&format!("m{number}")), Some(&1), "round {round}");
        }
        for number in 0..late {
            assert_eq!(count.get(&format!("late{number}")), Some(&1), "round {round}");
        }
        assert_eq!(
            batch.returned,
            30 + late,
            "round {round}: what was read comes again"
        );
    }
    assert!(
        killed_inside > 0,
        "no round killed a rename under way, so nothing was proven"
    );
}

/// The role of the tests below: claims an id, says how that ended, and holds it until its input ends.
#[test]
fn claims_and_holds() {
    let Some((id, home)) =
        role().and_then(|(role, home)| Some((role.strip_prefix("claim ")?.to_owned(), home)))
    else {
        return;
    };
    let mut input = std::io::stdin().lines();
    let session = Session::new(&home, Link::Stdio, Panes::default()).unwrap();
    println!("\nready");
    assert!(input.next().is_some());
    let answer = match bind(&session, &id) {
        Ok(()) => "bound".to_owned(),
        Err(BusError::Live { .. }) => "live".to_owned(),
        Err(other) => other.to_string(),
    };
    println!("answer {answer}");
    assert!(input.next().is_none());
    session.end().unwrap();
}

struct Claimer {
    child: std::process::Child,
    input: Option<std::process::ChildStdin>,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Claimer {
    fn start(id: &str, home: &std::path::Path) -> Self {
        let mut child = again("heavy::claims_and_holds", &format!("claim {id}"), home)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut claimer = Self { child, input, lines };
        claimer.until(|line| line == "ready");
        claimer
    }

    fn until(&mut self, found: impl Fn(&str) -> bool) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| found(line))
            .unwrap()
    }

    fn go(&mut self) {
        writeln!(self.input.as_mut().unwrap(), "go").unwrap();
    }

    fn answer(&mut self) -> String {
        self.until(|line| line.starts_with("answer "))
            .split_off("answer ".len())
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

// spec: IDN-009 IDN-012
#[test]
fn of_processes_that_claim_an_id_at_once_one_gets_it() {
    for mode in ["native", "shared"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), format!("{{\"mode\":\"{mode}\"}}")).unwrap();
        for round in 0..5 {
            let id = format!("agent-{round}");
            let mut claimers: Vec<Claimer> = (0..5).map(|_| Claimer::start(&id, dir.path())).collect();
            claimers.iter_mut().for_each(Claimer::go);
            let answers: Vec<String> = claimers.iter_mut().map(Claimer::answer).collect();
            assert_eq!(
                answers.iter().filter(|answer| *answer == "bound").count(),
                1,
                "{mode}: {answers:?}"
            );
            assert_eq!(
                answers.iter().filter(|answer| *answer == "live").count(),
                4,
                "{mode}: {answers:?}"
            );
            claimers.into_iter().for_each(Claimer::end);
        }
        assert!(
            sessions::all(&open(&dir)).unwrap().is_empty(),
            "each took its marker along"
        );
    }
}

// spec: IDN-020 IDN-021
#[test]
fn a_killed_process_holds_its_id_no_longer_than_its_heartbeat() {
    let dir = tempfile::tempdir().unwrap();
    let home = open(&dir);
    let mut claimer = Claimer::start("alice", dir.path());
    claimer.go();
    assert_eq!(claimer.answer(), "bound");
    let second = Session::new(&home, Link::Stdio, Panes::default()).unwrap();
    assert!(matches!(bind(&second, "alice"), Err(BusError::Live { .. })));
    registry::register(&home, &seat("alice"), None, None).unwrap();

    claimer.child.kill().unwrap();
    claimer.child.wait().unwrap();
    assert_eq!(
        sessions::leftovers(&home).unwrap().len(),
        1,
        "the marker of a killed process stays"
    );
    // Its heartbeat is fresh still.
    assert!(matches!(bind(&second, "alice"), Err(BusError::Live { .. })));
    let later = Clock::manual(muster_core::Time::from_micros(0));
    later.advance(Duration::from_millis(u64::try_from(home.now()).unwrap()) + Duration::from_secs(301));
    let later = Home::open(dir.path(), Limits::default(), later).unwrap();
    let third = Session::new(&later, Link::Stdio, Panes::default()).unwrap();
    third.claim(Ask::of(&seat("alice"))).unwrap().commit();
    assert_eq!(third.bound(), Some(seat("alice")));
}
