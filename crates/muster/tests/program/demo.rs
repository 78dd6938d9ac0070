//! The tour as processes: how it ends, and what of it is left afterwards. Never looks at a page.

use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::support::{Place, Server, lives};

/// A tour in a process group of its own, as a terminal starts one, and its connector's process number.
fn tour(place: &Place) -> (Server, i32) {
    let mut command = place.command(&["demo", "--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(place.path("tour")).process_group(0);
    let server = Server::start(command).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(connector) = child_of(server.pid(), "demo-connector") {
            return (server, connector);
        }
        assert!(Instant::now() < end, "the tour has no connector");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The child of `parent` whose command line holds `word`.
fn child_of(parent: i32, word: &str) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parents: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (parents == parent && line.split('\0').any(|part| part == word)).then_some(pid)
    })
}

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("tour/connector.log")).unwrap()
}

/// Waits until the connector works: only then a signal finds it as it usually is.
fn connected(place: &Place) {
    let end = Instant::now() + Duration::from_secs(60);
    while !log(place).contains("connected to the Maildir") {
        assert!(Instant::now() < end, "{}", log(place));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_connector_of_a_tour_that_was_killed_ends_by_itself() {
    let place = Place::new();
    let (server, connector) = tour(&place);
    connected(&place);
    std::thread::sleep(Duration::from_millis(300));
    assert!(lives(connector), "{}", log(&place));
    server.kill();
    let end = Instant::now() + Duration::from_secs(60);
    while lives(connector) {
        if Instant::now() > end {
            nix::sys::signal::kill(Pid::from_raw(connector), Signal::SIGKILL).unwrap();
            panic!("it goes on without its tour: {}", log(&place));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(log(&place).contains("stopping"), "not in order: {}", log(&place));
}

#[test]
fn a_terminal_that_closes_or_interrupts_ends_the_tour_in_order() {
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
        let place = Place::new();
        let (server, connector) = tour(&place);
        connected(&place);
        // A terminal tells every process of the group.
        killpg(Pid::from_raw(server.pid()), signal).unwrap();
        let said = server.ended();
        assert_eq!(said.code(), 0, "{signal}: {said:?}");
        assert!(
            said.out.contains("Stopped. The data is in") && !said.err.contains("ended by itself"),
            "{signal}: {said:?}"
        );
        assert!(!lives(connector), "{signal}: the connector goes on");
        assert!(
            log(&place).contains("stopping"),
            "{signal}: not in order: {}",
            log(&place)
        );
        assert!(
            !place.path("tour/muster.db-wal").exists(),
            "{signal}: the database was left open"
        );
    }
}
