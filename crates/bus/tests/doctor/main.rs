//! Looking over a directory: each fault alone is found under its name, nothing sound is, and what is put right is right afterwards. Never looks at a real directory.
#![cfg(test)]

mod contract;
mod files;
mod locks;
mod logs;
mod people;
mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use muster_bus::doctor::{Finding, Options, Report, Severity, doctor};
use muster_bus::limits::Limits;
use muster_bus::read::{self, Want};
use muster_bus::{Entry, Home, Mode, RoomName, SeatId, Source, post, registry, rooms};
use muster_core::Clock;
use tempfile::TempDir;

const LOOK: Options = Options {
    fix: false,
    max_file_bytes: None,
    path: None,
    transport: None,
};
const FIX: Options = Options { fix: true, ..LOOK };

/// A directory in ordinary use: two agents, a channel, messages read and unread.
struct Bus {
    dir: TempDir,
    home: Home,
}

impl Bus {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let home = Home::open(dir.path(), Limits::default(), Clock::system()).unwrap();
        let bus = Self { dir, home };
        bus.write(
            "config.json",
            "{\"mode\":\"native\",\"transport\":\"tmux-push-remote\"}",
        );
        let (ann, bob) = (id("ann"), id("bob"));
        for seat in [&ann, &bob] {
            registry::register(&bus.home, seat, Some("site"), Some("dev")).unwrap();
            rooms::join(&bus.home, seat, &room("seo")).unwrap();
        }
        for number in 0..5 {
            let text = format!("message {number}");
            post::send(&bus.home, &ann, &bob, &text).unwrap();
            post::post(&bus.home, &ann, &room("seo"), &text, None).unwrap();
            post::post(&bus.home, &ann, &room("general"), &text, None).unwrap();
            post::status(&bus.home, &ann, &text, None).unwrap();
        }
        bus.read("bob", &Source::Inbox);
        bus.read("bob", &Source::Room(room("seo")));
        post::send(&bus.home, &ann, &bob, "unread").unwrap();
        bus
    }

    fn read(&self, seat: &str, source: &Source) -> read::Batch {
        read::read(&self.home, &id(seat), source, Want::default()).unwrap()
    }

    fn look(&self) -> Report {
        doctor(&self.home, &LOOK)
    }

    fn fix(&self) -> Report {
        doctor(&self.home, &FIX)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn json(&self, name: &str) -> Entry {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// Sets when a file was written last, this many days ago.
    fn written(&self, name: &str, days: u64) {
        let file = fs::File::open(self.path(name)).unwrap();
        let now = fs::metadata(self.path("agents.json"))
            .unwrap()
            .modified()
            .unwrap();
        file.set_modified(now - Duration::from_secs(days * 24 * 60 * 60))
            .unwrap();
    }

    /// Every file and folder with bytes, mode, inode and time.
    fn state(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        state(self.dir.path(), &mut found);
        found
    }

    /// The messages of all logs, by file.
    fn messages(&self) -> BTreeMap<String, usize> {
        let count = |name: &str| {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            text.lines()
                .filter(|line| serde_json::from_str::<Entry>(line).is_ok())
                .count()
        };
        [
            "room.jsonl",
            "rooms/seo.jsonl",
            "status.jsonl",
            "inbox/bob.jsonl",
            "inbox/ann.jsonl",
        ]
        .into_iter()
        .map(|name| (name.to_owned(), count(name)))
        .collect()
    }

    /// Looks without changing a byte, and answers the one finding of a check.
    fn one(&self, check: &str) -> Finding {
        let before = self.state();
        let report = self.look();
        assert_eq!(self.state(), before, "{check} changed something");
        let found: Vec<Finding> = of(&report, check);
        assert_eq!(found.len(), 1, "{check}: {report:#?}");
        found.into_iter().next().unwrap()
    }

    /// The same for a check whose finding can be put right: does that, and sees that nothing fixable is left.
    fn mended(&self, check: &str) -> Finding {
        let found = self.one(check);
        assert!(found.fixable, "{found:?}");
        assert_eq!(found.fixed, None);
        let messages = self.messages();
        let report = self.fix();
        let fixed = of(&report, check);
        assert_eq!(fixed.len(), 1, "{report:#?}");
        assert_eq!(fixed[0].fixed, Some(true), "{report:#?}");
        assert_eq!(self.messages(), messages, "no message came or went");
        let again = self.fix();
        assert_eq!(again.fixed, 0, "{again:#?}");
        assert!(
            again.findings.iter().all(|finding| !finding.fixable),
            "{again:#?}"
        );
        assert!(of(&again, check).is_empty());
        found
    }
}

fn of(report: &Report, check: &str) -> Vec<Finding> {
    assert!(
        report.checked.contains(&check),
        "{check} is not among those that were made"
    );
    report
        .findings
        .iter()
        .filter(|finding| finding.check == check)
        .cloned()
        .collect()
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

/// A process that does nothing and ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn of(program: &Path) -> Self {
        let child = Command::new(program)
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn new() -> Self {
        Self::of(Path::new("sleep"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The number of a process that has ended.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// Makes a lock folder look as if nobody renewed it for so long.
fn aged(path: &Path, seconds: u64) {
    let made = fs::metadata(path).unwrap().modified().unwrap();
    let folder = fs::File::open(path).unwrap();
    folder.set_modified(made - Duration::from_secs(seconds)).unwrap();
}

fn hours_ago(hours: u64) -> SystemTime {
    let now = tempfile::tempfile()
        .unwrap()
        .metadata()
        .unwrap()
        .modified()
        .unwrap();
    now - Duration::from_secs(hours * 3600)
}
