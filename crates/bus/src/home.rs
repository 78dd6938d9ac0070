//! The directory of one bus: where each file stands, how it is shared, and the limits in force. Never reads a message.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_core::Clock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::json::{self, Keep};
use crate::limits::Limits;
use crate::names::{RoomName, SeatId};
use crate::registry::Agents;
use crate::rooms::Rooms;
use crate::seen::Seen;

/// The folders in it that files are written to.
const FOLDERS: [&str; 15] = [
    "inbox",
    "cursors",
    "rooms",
    "receipts",
    "sessions",
    "transports",
    "work",
    "archive",
    "archive/inbox",
    "archive/rooms",
    PRIVATE,
    ".muster/locks",
    ".muster/new",
    ".muster/index",
    ".muster/history",
];

/// How a directory is shared with other programs. It stands in `config.json` as `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Only muster writes here: kernel locks.
    Native,
    /// The Node program that wrote these directories first may write here too: its lock directories besides, at about 600 writes a second.
    Shared,
}

/// The private folder inside the directory: locks, indexes, digests. All of it can be rebuilt from the files beside it.
pub(crate) const PRIVATE: &str = ".muster";

/// One bus's directory. Cloning shares it.
#[derive(Clone)]
pub struct Home(Arc<Inner>);

struct Inner {
    root: PathBuf,
    mode: Mode,
    limits: Limits,
    clock: Clock,
    agents: Seen<Agents>,
    rooms: Seen<Rooms>,
}

impl Home {
    /// Opens a directory and makes what is missing of it.
    ///
    /// # Errors
    /// [`BusError::Damaged`] when its `config.json` cannot be read, which decides how it is shared; a fault when it cannot be made.
    pub fn open(root: &Path, limits: Limits, clock: Clock) -> Result<Self, BusError> {
        make_folder(root)?;
        let root = fs::canonicalize(root).map_err(|error| failed("open", root, error))?;
        let foreign = foreign_traces(&root);
        let at = |mode| {
            Self(Arc::new(Inner {
                root: root.clone(),
                mode,
                limits,
                clock: clock.clone(),
                agents: Seen::default(),
                rooms: Seen::default(),
            }))
        };
        let probe = at(Mode::Native);
        no_links(&probe)?;
        for folder in ["inbox", "cursors", "rooms"] {
            make_folder(&probe.path(folder))?;
        }
        for folder in ["locks", "new", "index", "history"] {
            make_folder(&probe.private(folder))?;
        }
        let home = match configured(&probe)? {
            Some(mode) => at(mode),
            None if foreign => {
                // What wrote here before may still run, and nobody has said otherwise: be careful, and say so on disk.
                let home = at(Mode::Shared);
                home.choose(Mode::Shared)?;
                home
            }
            None => probe,
        };
        if home.mode() == Mode::Shared {
            for (name, empty) in [("room.jsonl", ""), ("status.jsonl", ""), ("agents.json", "{}")] {
                home.create_early(name, empty)?;
            }
        }
        Ok(home)
    }

    /// The same for whoever only looks at what is there: makes nothing, and `None` when there is no such directory.
    ///
    /// # Errors
    /// As [`Home::open`].
    pub fn look(root: &Path, limits: Limits, clock: Clock) -> Result<Option<Self>, BusError> {
        let root = match fs::canonicalize(root) {
            Ok(root) => root,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", root, error)),
        };
        let at = |mode| {
            Self(Arc::new(Inner {
                root: root.clone(),
                mode,
                limits,
                clock: clock.clone(),
                agents: Seen::default(),
                rooms: Seen::default(),
            }))
        };
        no_links(&at(Mode::Native))?;
        let mode = match configured(&at(Mode::Native))? {
            Some(mode) => mode,
            None if foreign_traces(&root) => Mode::Shared,
            None => Mode::Native,
        };
        Ok(Some(at(mode)))
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// How it is shared.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Retention and size limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The registry as it was last read.
    pub(crate) fn agents(&self) -> &Seen<Agents> {
        &self.0.agents
    }

    /// The channels as they were last read.
    pub(crate) fn rooms(&self) -> &Seen<Rooms> {
        &self.0.rooms
    }

    /// Milliseconds since 1970, as the files count time.
    pub fn now(&self) -> i64 {
        self.0.clock.now().micros().div_euclid(1_000)
    }

    /// Writes how the directory is shared into `config.json`, beside whatever else stands there. Takes effect when it is opened next.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub fn choose(&self, mode: Mode) -> Result<(), BusError> {
        let _held = crate::lock::lock(self, "config.json")?;
        let mut config: Map<String, Value> = json::read(self, "config.json")?.unwrap_or_default();
        let word = match mode {
            Mode::Native => "native",
            Mode::Shared => "shared",
        };
        if config.get("mode").is_some_and(|chosen| chosen == word) {
            return Ok(());
        }
        config.insert("mode".to_owned(), word.into());
        json::write(self, "config.json", &config, Keep::Durably)
    }

    /// A path inside the directory, of a name this crate made.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.root.join(name)
    }

    /// A path inside the private folder.
    pub(crate) fn private(&self, name: &str) -> PathBuf {
        self.0.root.join(PRIVATE).join(name)
    }

    /// Makes a file unless it is there, so that no program that shares the directory truncates one it believes absent.
    pub(crate) fn create_early(&self, name: &str, content: &str) -> Result<bool, BusError> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.path(name);
        let make = || {
            fs::File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .and_then(|mut file| file.write_all(content.as_bytes()))
        };
        let made = match make() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // The folder was removed under a running process.
                make_folder(path.parent().unwrap_or(&path))?;
                make()
            }
            other => other,
        };
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(failed("create", &path, error)),
        }
    }
}

/// The file of an agent's messages.
pub(crate) fn inbox(seat: &SeatId) -> String {
    format!("inbox/{seat}.jsonl")
}

/// The file of what an agent has read.
pub(crate) fn cursor(seat: &SeatId) -> String {
    format!("cursors/{seat}.json")
}

/// The file of a channel. `general` keeps the name it had when it was the only one.
pub(crate) fn room(room: &RoomName) -> String {
    if room.is_general() {
        "room.jsonl".to_owned()
    } else {
        format!("rooms/{room}.jsonl")
    }
}

/// The file of status broadcasts.
pub(crate) const STATUS: &str = "status.jsonl";

/// Where the aged entries of a log go.
pub(crate) fn archive(log: &str) -> String {
    match log {
        "room.jsonl" => "archive/rooms/general.jsonl".to_owned(),
        other => format!("archive/{other}"),
    }
}

/// Refuses a directory one of whose folders is a link: files move between the folders, which only one disk can do at once, and what stands
/// behind a link is nobody's to clean or to check.
fn no_links(home: &Home) -> Result<(), BusError> {
    let linked = |folder: &&&str| {
        fs::symlink_metadata(home.path(folder)).is_ok_and(|meta| meta.file_type().is_symlink())
    };
    match FOLDERS.iter().find(linked) {
        Some(folder) => Err(BusError::LinkedFolder((*folder).to_owned())),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
struct Config {
    mode: Option<Value>,
}

fn configured(home: &Home) -> Result<Option<Mode>, BusError> {
    let Some(said) = json::read::<Config>(home, "config.json")?.and_then(|config| config.mode) else {
        return Ok(None);
    };
    Mode::deserialize(&said).map(Some).map_err(|_| {
        let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        BusError::Mode(muster_core::text::terminal(
            &said.chars().take(64).collect::<String>(),
        ))
    })
}

/// Whether a directory is one of a bus: muster's or another program's.
pub fn is_bus(root: &Path) -> bool {
    [
        PRIVATE,
        "config.json",
        "agents.json",
        "room.jsonl",
        "status.jsonl",
    ]
    .iter()
    .any(|name| fs::symlink_metadata(root.join(name)).is_ok())
}

/// The lock directories of other programs that stand in the directory now, by their names inside it. In native mode there should be none: who
/// takes them does not see muster's own locks.
pub fn foreign_locks(home: &Home) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "inbox/", "rooms/", "cursors/"] {
        let Ok(entries) = fs::read_dir(home.path(folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_lock = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let Some(name) = name.to_str().filter(|name| is_lock && name.ends_with(".lock")) {
                found.push(format!("{folder}{}", muster_core::text::terminal(name)));
            }
        }
    }
    found.sort();
    found
}

/// What says that the folders of pushers and their logs are of a node of muster's, in a directory that need hold nothing else.
pub const NODE_MARK: &str = "pids/.muster";

/// Whether another program has written here and muster never has.
pub fn foreign_traces(root: &Path) -> bool {
    let any = |names: &[&str]| names.iter().any(|name| root.join(name).exists());
    !root.join(PRIVATE).exists()
        && (any(&["agents.json", "room.jsonl", "status.jsonl"])
            || any(&["pids", "logs"]) && !root.join(NODE_MARK).exists())
}

/// Makes a folder that only its user may enter, with those above it. One that exists stays as it is.
pub(crate) fn make_folder(path: &Path) -> Result<(), BusError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed("make the folder", path, error))
}

/// Whether others than the user may enter or read a path.
pub(crate) fn open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}
