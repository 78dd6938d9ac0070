//! What the suites share: a bus in a folder of its own, its lines, and this test program started again as another process. Never starts a shell.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_bus::limits::Limits;
use muster_bus::read::{Batch, Want, read};
use muster_bus::{Entry, Home, Mode, SeatId, Source};
use muster_core::Clock;
use serde_json::Value;

const ROLE: &str = "MUSTER_BUS_TEST_ROLE";
const PLACE: &str = "MUSTER_BUS_TEST_PLACE";

/// A bus in a folder that ends with the test.
pub(crate) struct Bus {
    pub(crate) home: Home,
    _dir: tempfile::TempDir,
}

pub(crate) fn bus() -> Bus {
    bus_in(tempfile::tempdir().unwrap(), Mode::Native)
}

pub(crate) fn shared_bus() -> Bus {
    bus_in(tempfile::tempdir().unwrap(), Mode::Shared)
}

pub(crate) fn bus_in(dir: tempfile::TempDir, mode: Mode) -> Bus {
    let home = open(dir.path());
    home.choose(mode).unwrap();
    let home = open(dir.path());
    assert_eq!(home.mode(), mode);
    Bus { home, _dir: dir }
}

pub(crate) fn open(root: &Path) -> Home {
    Home::open(root, Limits::default(), Clock::system()).unwrap()
}

impl Bus {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.root().join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn add(&self, name: &str, bytes: impl AsRef<[u8]>) {
        use std::io::Write as _;
        let mut file = std::fs::File::options()
            .append(true)
            .open(self.path(name))
            .unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap()
    }

    /// Every line of a log, each of which must be a JSON object.
    pub(crate) fn lines(&self, name: &str) -> Vec<Entry> {
        let bytes = self.bytes(name);
        assert!(
            bytes.is_empty() || bytes.ends_with(b"\n"),
            "{name} ends in an unfinished line"
        );
        let lines = bytes.strip_suffix(b"\n").unwrap_or_default();
        if lines.is_empty() {
            return Vec::new();
        }
        lines
            .split(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    /// The texts of what is new in an inbox.
    pub(crate) fn inbox(&self, id: &str) -> Vec<String> {
        texts(&self.read(id, &Source::Inbox, Want::default()))
    }

    pub(crate) fn read(&self, id: &str, source: &Source, want: Want) -> Batch {
        read(&self.home, &seat(id), source, want).unwrap()
    }
}

pub(crate) fn texts(batch: &Batch) -> Vec<String> {
    batch.messages.iter().map(|entry| word(entry, "text")).collect()
}

/// A text field of an entry; nothing where it has none.
pub(crate) fn word(entry: &Entry, name: &str) -> String {
    entry
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

pub(crate) fn room(name: &str) -> Source {
    Source::Room(muster_bus::RoomName::parse(name).unwrap())
}

/// Every file below a folder with its bytes, the private folder aside, for a comparison of before and after.
pub(crate) fn public(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![home.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with(".muster") {
                    folders.push(path);
                }
            } else {
                files.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Which role this process plays, and where, when it is a child.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(PLACE)?.into()))
}

/// This program again, for the one test, in a role.
pub(crate) fn child(test: &str, role: &str, place: &Path) -> Command {
    again(Command::new(std::env::current_exe().unwrap()), test, role, place)
}

fn again(mut command: Command, test: &str, role: &str, place: &Path) -> Command {
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env(PLACE, place)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The same in a mount namespace of its own, so that what it mounts is seen by nobody else and ends with it. `None` where nothing may be
/// mounted; in CI it has to be.
pub(crate) fn child_with_mounts(test: &str, place: &Path) -> Option<Command> {
    let words: &[&str] = if nix::unistd::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let possible = Command::new("unshare")
        .args(words)
        .args(["mount", "-t", "tmpfs", "tmpfs"])
        .arg(place)
        .output();
    if !possible.is_ok_and(|said| said.status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test} needs a mount of its own (unshare --mount)"
        );
        eprintln!("SKIPPED {test}: nothing can be mounted here (unshare --mount)");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(words).arg(std::env::current_exe().unwrap());
    Some(again(command, test, "child", place))
}

/// What a child said, line by line, without the words of the test program itself. Ends with the child.
pub(crate) fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines()
        .map_while(Result::ok)
        // The program begins its own line ("test x ... ") and does not end it before the first of ours.
        .filter_map(|line| line.split_once("SAID ").map(|(_, said)| said.to_owned()))
}

/// Says something to the parent.
pub(crate) fn say(words: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "SAID {words}").and_then(|()| out.flush()).unwrap();
}

/// Runs children to their ends, which must all be good ones, and answers what each said.
pub(crate) fn run(commands: Vec<Command>) -> Vec<Vec<String>> {
    let children: Vec<_> = commands
        .into_iter()
        .map(|mut command| {
            std::thread::spawn(move || {
                let mut child = command.spawn().unwrap();
                let words: Vec<String> = said(&mut child).collect();
                let ended = child.wait().unwrap();
                assert!(ended.success(), "a child ended with {ended}; it said {words:?}");
                words
            })
        })
        .collect();
    children.into_iter().map(|child| child.join().unwrap()).collect()
}

/// Waits for a file, so that children begin together.
pub(crate) fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} never came",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Numbers that look like chance and are the same in every run: xorshift.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
