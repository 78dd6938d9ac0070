//! Who is who: markers, tokens, sessions, claims, renames, receipts and builds, from the outside. One test program, so that it is linked once.
#![cfg(test)]

mod builds;
mod claims;
mod heavy;
mod laws;
mod receipts;
mod renames;
mod sessions;
mod tokens;
mod transports;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_bus::identity::{Ask, Session};
use muster_bus::limits::Limits;
use muster_bus::sessions::Link;
use muster_bus::transports::Panes;
use muster_bus::{BusError, Home, Mode, SeatId};
use muster_core::{Clock, Time};
use serde_json::Value;

/// A bus of its own, whose clock stands still until it is moved.
struct World {
    home: Home,
    clock: Clock,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Time::from_micros(1_800_000_000_000_000));
        let home = Home::open(dir.path(), Limits::default(), clock.clone()).unwrap();
        Self { home, clock, dir }
    }

    /// The same in a directory that other programs share.
    fn shared() -> Self {
        let world = Self::new();
        world.home.choose(Mode::Shared).unwrap();
        let home = Home::open(world.dir.path(), Limits::default(), world.clock.clone()).unwrap();
        assert_eq!(home.mode(), Mode::Shared);
        Self { home, ..world }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.dir.path().join(name)).unwrap()).unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }

    /// A connection on standard streams that runs in no pane.
    fn session(&self) -> Session {
        Session::new(&self.home, Link::Stdio, Panes::default()).unwrap()
    }

    /// One that runs in a pane.
    fn session_in(&self, variable: &str, pane: &str) -> Session {
        let panes = Panes::of(|name| (name == variable).then(|| pane.to_owned()));
        Session::new(&self.home, Link::Stdio, panes).unwrap()
    }

    /// Every public file of the bus with its bytes; locks, indexes and drafts left out.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        walk(self.dir.path(), self.dir.path(), &mut files);
        files
    }
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if [".muster/locks", ".muster/index", ".muster/new"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
}

fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

/// A first call that succeeds.
fn bind(session: &Session, id: &str) -> Result<(), BusError> {
    session.claim(Ask::of(&seat(id))).map(|claim| claim.commit())
}

/// This very test program again, as one of its tests that plays a role.
fn again(test: &str, role: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env("BUS_ROLE", role)
        .env("BUS_DIR", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The role this process plays, if it was started by [`again`].
fn role() -> Option<(String, Home)> {
    let role = std::env::var("BUS_ROLE").ok()?;
    let dir = std::env::var("BUS_DIR").unwrap();
    let home = Home::open(Path::new(&dir), Limits::default(), Clock::system()).unwrap();
    Some((role, home))
}

/// A process that does nothing until it is ended.
fn sleeper() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}
