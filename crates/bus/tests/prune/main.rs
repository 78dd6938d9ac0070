//! Cleaning and cutting: what moves, what stays, what is counted, and what a death in the middle leaves. Never looks into the private folder.
#![cfg(test)]

mod compaction;
mod heavy;
mod inboxes;
mod limits;
mod rooms;
mod scope;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use muster_bus::limits::{Bound, Limits};
use muster_bus::prune::{Counts, Report, Want, prune};
use muster_bus::read::{self, Batch};
use muster_bus::{Entry, Home, Kind, RoomName, SeatId, Source, post, registry};
use muster_core::{Clock, Time};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory with a clock that a test moves.
struct Bus {
    dir: TempDir,
    home: Home,
    clock: Clock,
}

impl Bus {
    fn new() -> Self {
        Self::with(Limits {
            room: Bound {
                max: 10_000_000,
                keep: 500_000,
            },
            status: Bound {
                max: 10_000_000,
                keep: 500_000,
            },
        })
    }

    fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Time::from_micros(1_770_000_000_000_000));
        let home = Home::open(dir.path(), limits, clock.clone()).unwrap();
        Self { dir, home, clock }
    }

    fn days(&self, days: u32) {
        self.clock.advance(DAY * days);
    }

    fn join(&self, name: &str) -> SeatId {
        let seat = id(name);
        registry::register(&self.home, &seat, None, None).unwrap();
        seat
    }

    fn post(&self, name: &str, text: &str, kind: Option<Kind>) {
        post::post(&self.home, &id("poster"), &room(name), text, kind).unwrap();
    }

    fn send(&self, to: &str, text: &str) {
        post::send(&self.home, &id("poster"), &id(to), text).unwrap();
    }

    fn read(&self, seat: &str, source: &Source) -> Batch {
        read::read(&self.home, &id(seat), source, read::Want::default()).unwrap()
    }

    fn prune(&self, want: &Want) -> Report {
        prune(&self.home, want).unwrap()
    }

    /// Prunes for real and answers the counts.
    fn removed(&self, want: &Want) -> Counts {
        let report = self.prune(want);
        assert!(
            !report.dry_run && report.would_remove.is_none() && report.skipped.is_empty(),
            "{report:?}"
        );
        report.removed.unwrap()
    }

    /// The texts in a file, in order.
    fn texts(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        let said = |line: &str| {
            let entry: Entry = serde_json::from_str(line).unwrap();
            let said = entry.get("text").or_else(|| entry.get("status")).unwrap();
            said.as_str().unwrap().to_owned()
        };
        text.lines().map(said).collect()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }

    /// Every file and folder with its bytes, mode, time and inode.
    fn state(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        state(self.dir.path(), &mut found);
        found
    }
}

fn state(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let what = format!(
            "{} {:o} {}.{} {bytes:?}",
            meta.ino(),
            meta.mode(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        found.insert(path.display().to_string(), what);
        if meta.is_dir() {
            state(&path, found);
        }
    }
}

fn id(name: &str) -> SeatId {
    SeatId::parse(name).unwrap()
}

fn room(name: &str) -> RoomName {
    RoomName::parse(name).unwrap()
}

fn dry(want: &Want) -> Want {
    Want {
        dry_run: true,
        ..want.clone()
    }
}
