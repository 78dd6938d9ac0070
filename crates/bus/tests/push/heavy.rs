//! Processes on one seat, and processes that are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use muster_bus::push::{
    Delivery, Door, LocalFeed, Outcome, Probe, Screen, Seat, Settings, Stop, Transport, run,
};
use muster_bus::transports::{self, Report, TransportKind};
use muster_bus::wait::Watch;
use muster_bus::{Home, post, registry};
use serde_json::json;

use crate::support::{Agent, World, again, open, plain_tools, role, seat, until};

/// Hands that write what they typed, and who they are, into a file that all of them share.
struct Shared {
    path: std::path::PathBuf,
    /// Types, and then never says so.
    stuck: bool,
}

impl Transport for Shared {
    fn kind(&self) -> TransportKind {
        TransportKind::TmuxPushRemote
    }

    fn available(&self) -> Result<(), String> {
        Ok(())
    }

    fn probe(&self, _: &str) -> Probe {
        Probe::Found
    }

    fn read(&self, _: &str, _: usize, _: bool) -> Result<Screen, String> {
        Err("not here".to_owned())
    }

    fn deliver(&self, _: &str, what: &Delivery) -> Outcome {
        let text = match what {
            Delivery::Text { text, .. } => text.as_str().to_owned(),
            Delivery::Command(command) => format!("# {command}\n"),
        };
        let said = text.lines().filter(|line| line.starts_with("# "));
        let lines: String = said
            .map(|line| format!("{} {line}\n", std::process::id()))
            .collect();
        let file = fs::File::options().append(true).create(true).open(&self.path);
        file.unwrap().write_all(lines.as_bytes()).unwrap();
        if self.stuck {
            std::thread::sleep(Duration::from_secs(600));
        }
        Outcome::Delivered {
            door: Door::Keys,
            verified: true,
        }
    }
}

fn bob() -> Seat {
    Seat {
        id: seat("bob"),
        target: "%1".to_owned(),
        include_room: true,
        allowlist: None,
        debounce: Duration::from_millis(20),
    }
}

fn deliver(home: &Home, stuck: bool, stop: &Stop) {
    let hands = Shared {
        path: home.root().join("typed"),
        stuck,
    };
    let mut feed = LocalFeed::new(home, &Watch::new(home), &seat("bob"), "%1", true).unwrap();
    run(&mut feed, &hands, &bob(), &Settings::default(), stop).unwrap();
}

/// The role of the other tests: delivers to bob until it is killed.
#[test]
fn delivers_without_end() {
    let Some((role, home)) = role() else { return };
    println!("\nbegun");
    deliver(&home, role == "stuck", &Stop::new());
}

/// A process that ends with the test, however that ends.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn process(dir: &Path, role: &str) -> Process {
    begun(again("heavy::delivers_without_end", role, dir).spawn().unwrap())
}

fn begun(child: Child) -> Process {
    let mut process = Process(child);
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "begun"));
    process
}

/// A bus whose bob is attached on this machine by whoever takes the lease.
fn bus(dir: &Path) -> Home {
    let home = open(dir);
    registry::register(&home, &seat("bob"), None, None).unwrap();
    let report = Report {
        transport: "tmux-push-remote",
        target: Some("%1"),
        ..Report::default()
    };
    transports::report(&home, &seat("bob"), report).unwrap();
    home
}

/// What was typed, and by which process each time.
fn typed(home: &Home) -> BTreeMap<String, Vec<u32>> {
    let text = fs::read_to_string(home.root().join("typed")).unwrap_or_default();
    let mut typed: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in text.lines() {
        let (pid, said) = line.split_once(" # ").unwrap();
        typed
            .entry(said.to_owned())
            .or_default()
            .push(pid.parse().unwrap());
    }
    typed
}

// spec: PUSH-042
#[test]
fn two_processes_on_one_seat_type_each_message_once_and_the_second_goes_on_when_the_first_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let home = bus(dir.path());
    let mut children = vec![process(dir.path(), "deliver"), process(dir.path(), "deliver")];
    let mut sent = 0;
    let mut send = |count: usize| {
        for _ in 0..count {
            post::send(&home, &seat("alice"), &seat("bob"), &format!("m{sent:03}")).unwrap();
            sent += 1;
            std::thread::sleep(Duration::from_millis(11));
        }
        sent
    };
    let all = send(60);
    until(|| typed(&home).len() == all);
    let by: Vec<u32> = typed(&home).into_values().flatten().collect();
    assert_eq!(by.len(), all, "each once");
    let first = by[0];
    assert!(by.iter().all(|pid| *pid == first), "one of them alone");
    let at = children.iter().position(|child| child.0.id() == first).unwrap();
    let mut killed = children.swap_remove(at);
    killed.kill();
    let all = send(30);
    until(|| typed(&home).len() == all);
    std::thread::sleep(Duration::from_millis(300));
    for (said, by) in typed(&home) {
        // What the first one had typed and not noted when it was killed may come again, and only that.
        assert!(
            by.len() == 1 || by == [first, children[0].0.id()],
            "{said}: {by:?}"
        );
    }
}

// spec: PUSH-034 STO-037
#[test]
fn what_was_typed_by_a_process_that_is_killed_before_it_could_note_it_is_typed_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = bus(dir.path());
    let mut child = process(dir.path(), "stuck");
    for text in ["one", "two"] {
        post::send(&home, &seat("alice"), &seat("bob"), text).unwrap();
    }
    until(|| !typed(&home).is_empty());
    let cursor = fs::read_to_string(dir.path().join("cursors/bob.json")).unwrap();
    assert!(!cursor.contains("inboxOffset"), "{cursor}");
    child.kill();
    let stop = Stop::new();
    let deliverer = std::thread::spawn({
        let (home, stop) = (home.clone(), stop.clone());
        move || deliver(&home, false, &stop)
    });
    let own = std::process::id();
    until(|| {
        let typed = typed(&home);
        ["one", "two"]
            .iter()
            .all(|text| typed.get(*text).is_some_and(|by| by.contains(&own)))
    });
    until(|| {
        fs::read_to_string(dir.path().join("cursors/bob.json"))
            .unwrap()
            .contains("\"inboxOffset\": 2")
    });
    let asked = std::time::Instant::now();
    stop.set();
    deliverer.join().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "a wait ends at once: {:?}",
        asked.elapsed()
    );
    assert!(
        !dir.path().join(".muster/deliverers/bob.json").exists(),
        "the lease is given back"
    );
}

#[test]
fn killed_again_and_again_at_any_moment_it_loses_nothing_and_keeps_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let home = bus(dir.path());
    let mut sent = 0;
    for round in 0..12_u64 {
        let mut child = process(dir.path(), "deliver");
        for _ in 0..8 {
            post::send(&home, &seat("alice"), &seat("bob"), &format!("m{sent:03}")).unwrap();
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(20 + round * 7 % 40));
        child.kill();
    }
    let mut child = process(dir.path(), "deliver");
    until(|| typed(&home).len() == sent);
    child.kill();
    let text = fs::read_to_string(dir.path().join("typed")).unwrap();
    let mut first: Vec<&str> = Vec::new();
    for line in text.lines() {
        let said = line.split_once(" # ").unwrap().1;
        if !first.contains(&said) {
            first.push(said);
        }
    }
    assert!(first.is_sorted(), "{first:?}");
}

// spec: CMD-034
#[test]
fn a_confirmation_by_a_process_whose_program_is_not_the_one_installed_says_so() {
    let world = World::new();
    let home = bus(world.dir.path());
    let lead = world.agent("lead");
    // The same program with a byte more: another build, as far as anybody can tell.
    let copy = world.dir.path().join("older-build");
    let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
    bytes.push(0);
    fs::write(&copy, bytes).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let command = again("heavy::delivers_without_end", "deliver", home.root());
    let mut older = std::process::Command::new(&copy);
    older
        .args(command.get_args())
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    for (child, warned) in [(older, true), (command, false)] {
        let mut child = child;
        let mut child = begun(child.spawn().unwrap());
        let said = lead.ok("send_command", json!({"to": "bob", "command": "/compact"}));
        assert_eq!(said["delivery"], "confirmed", "{said:?}");
        assert_eq!(said.get("warning").is_some(), warned, "{said:?}");
        child.kill();
    }
}

#[test]
fn a_thousand_waits_for_receipts_hold_no_threads() {
    let dir = tempfile::tempdir().unwrap();
    let home = bus(dir.path());
    let tools = plain_tools(home);
    let lead = Agent::join(&tools, "lead");
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let waits: Vec<_> = (0..1_000)
        .map(|_| lead.begin("send_command", json!({"to": "bob", "command": "/compact"})))
        .collect();
    // One for the watch over the folders.
    assert!(threads() <= before + 2, "{} and {before}", threads());
    drop(waits);
}
