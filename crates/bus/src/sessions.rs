//! The bus connections that are open and whom each is bound to: one file each in `sessions/`. Never takes a process for another that once had its number.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::Pid;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::fresh;
use crate::home::{self, Home};
use crate::identity::How;
use crate::json::{self, Keep};
use crate::lock;
use crate::names::SeatId;

/// The folder, whose lock stands for every file in it: one lock file for each connection there ever was would be many.
pub(crate) const FOLDER: &str = "sessions";

/// How a connection reached us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// A process of its own on its standard streams.
    Stdio,
    /// One of many in an HTTP server.
    Http,
}

impl Link {
    /// Its word in the marker.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// One connection that is bound to an agent, as its file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMarker {
    /// Whom it acts as.
    pub agent_id: String,
    /// The process that serves it.
    pub pid: u32,
    /// When that process began, in the kernel's ticks since it booted: a number that comes again is told from the first one by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_start: Option<u64>,
    /// Milliseconds since 1970; 0 when another program wrote a time of another kind.
    #[serde(default, deserialize_with = "millis")]
    pub started_at: i64,
    /// `stdio` or `http`.
    #[serde(default)]
    pub transport: String,
    /// How it came to be bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Somebody passed `force:true` to take an id that was live, or of which it could not be told.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forced: bool,
    /// It is a pusher's, which reads only what it brings to the agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pusher: bool,
    /// What other programs keep here.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A time in milliseconds. Anything else is none: what it says decides nothing.
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_i64().or_else(|| value.as_f64().map(whole)).unwrap_or(0))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float cast saturates, and a nonsense time stays nonsense"
)]
fn whole(ms: f64) -> i64 {
    ms as i64
}

impl SessionMarker {
    /// The marker of a connection that this process serves.
    pub(crate) fn here(home: &Home, seat: &SeatId, link: Link) -> Self {
        let pid = std::process::id();
        Self {
            agent_id: seat.as_str().to_owned(),
            pid,
            pid_start: start_of(pid),
            started_at: home.now(),
            transport: link.as_str().to_owned(),
            how: None,
            forced: false,
            pusher: false,
            more: Map::new(),
        }
    }

    /// Whether the process that serves it still runs.
    pub fn alive(&self) -> bool {
        running(self.pid, self.pid_start)
    }
}

/// One file of the folder and what it says, or what is wrong with it.
#[derive(Debug)]
pub struct Found {
    /// The connection: the file's name without its ending.
    pub id: String,
    /// What stands in it.
    pub marker: Result<SessionMarker, BusError>,
    /// It cannot be read, and whoever wrote it serves nobody any more: it was last written before this machine booted, or was left empty a
    /// minute ago or longer.
    pub over: bool,
}

/// How long another program may take between emptying a marker and filling it.
const FILLING: Duration = Duration::from_secs(60);

/// A new name for a connection.
///
/// # Errors
/// A fault, when the system gives no randomness.
pub fn new_id() -> Result<String, BusError> {
    fresh::id()
}

fn file(id: &str) -> String {
    format!("{FOLDER}/{id}.json")
}

/// Writes the marker of a connection, or replaces it.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn mark(home: &Home, id: &str, marker: &SessionMarker) -> Result<(), BusError> {
    plain(id)?;
    home::make_folder(&home.path(FOLDER))?;
    let _held = lock::lock(home, FOLDER)?;
    json::write(home, &file(id), marker, Keep::Quickly)
}

/// Removes the marker of a connection that ended. Answers whether there was one.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn unmark(home: &Home, id: &str) -> Result<bool, BusError> {
    plain(id)?;
    let path = home.path(&file(id));
    let _held = lock::lock(home, FOLDER)?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("remove", &path, error)),
    }
}

/// Writes the new id of an agent into the markers of its connections that have it now: the one that asked, and all that came with the
/// agent's token, which names the new id from here on.
pub(crate) fn rename(home: &Home, old: &SeatId, new: &SeatId, asked: Option<&str>) -> Result<(), BusError> {
    let _held = lock::lock(home, FOLDER)?;
    for found in all(home)? {
        let asked = asked == Some(found.id.as_str());
        let marker = match found.marker {
            Ok(marker) => marker,
            Err(error) if asked => return Err(error),
            // Whose it is cannot be told.
            Err(_) => continue,
        };
        let by_token = marker.how.as_deref() == Some(How::Bearer.as_str());
        if asked || (by_token && marker.agent_id == old.as_str()) {
            let marker = SessionMarker {
                agent_id: new.as_str().to_owned(),
                ..marker
            };
            json::write(home, &file(&found.id), &marker, Keep::Quickly)?;
        }
    }
    Ok(())
}

/// A name of ours or of another program's, and no path.
fn plain(id: &str) -> Result<(), BusError> {
    let plain = !id.is_empty()
        && id.len() <= 64
        && !id.starts_with('.')
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if plain {
        Ok(())
    } else {
        Err(BusError::Argument(
            "a session's name is 1 to 64 letters, digits, '-', '_' and '.'",
        ))
    }
}

/// Every file of the folder, with what is wrong with it if something is.
///
/// # Errors
/// A fault, when the folder cannot be read.
pub fn all(home: &Home) -> Result<Vec<Found>, BusError> {
    let mut found = Vec::new();
    for id in stems(home, FOLDER)? {
        let name = file(&id);
        let (marker, over) = match json::read(home, &name) {
            Ok(Some(marker)) => (Ok(marker), false),
            // It ended between the two looks.
            Ok(None) => continue,
            Err(error) => {
                let over = matches!(error, BusError::Damaged(_)) && over(&home.path(&name));
                (Err(error), over)
            }
        };
        found.push(Found { id, marker, over });
    }
    Ok(found)
}

/// Whether nobody can be alive who wrote a marker that says nothing.
fn over(path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return false;
    };
    let Some(written) = meta.modified().ok().filter(|_| meta.is_file()) else {
        return false;
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with a time that the file system set, which no test moves either"
    )]
    let age = SystemTime::now().duration_since(written);
    let left_empty = meta.len() == 0 && age.is_ok_and(|age| age > FILLING);
    left_empty || booted().is_some_and(|booted| written < booted)
}

/// When this machine was started, to the second.
fn booted() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The connections whose process runs.
///
/// # Errors
/// [`BusError::Damaged`] or a fault when a single marker cannot be read and its writer may be alive: whose it is cannot be told, so nothing is
/// concluded.
pub fn live(home: &Home) -> Result<Vec<(String, SessionMarker)>, BusError> {
    let mut live = Vec::new();
    for found in all(home)? {
        if found.over {
            continue;
        }
        let marker = found.marker?;
        if marker.alive() {
            live.push((found.id, marker));
        }
    }
    Ok(live)
}

/// The markers that a process left behind when it was killed. Those that cannot be read are not among them.
///
/// # Errors
/// A fault, when the folder cannot be read.
pub fn leftovers(home: &Home) -> Result<Vec<(String, SessionMarker)>, BusError> {
    let dead = |found: Found| {
        let marker = found.marker.ok()?;
        (!marker.alive()).then_some((found.id, marker))
    };
    Ok(all(home)?.into_iter().filter_map(dead).collect())
}

/// The names of the `.json` files of a folder, without their ending, in order. A folder that is absent has none.
pub(crate) fn stems(home: &Home, folder: &str) -> Result<Vec<String>, BusError> {
    let path = home.path(folder);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let mut stems = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed("read", &path, error))?;
        let name = entry.file_name();
        if let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
            stems.push(stem.to_owned());
        }
    }
    stems.sort();
    Ok(stems)
}

/// When a process began, in the kernel's ticks since it booted. `None` when there is none, when it has ended and only waits to be collected,
/// or when the system does not say.
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, which may hold spaces and brackets itself.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // The state is field 3; the start is field 22.
    fields.nth(18)?.parse().ok()
}

/// Whether a process runs and, where its start was noted, is still the same. Where the system hides other users' processes, one that exists
/// counts as running: an id is rather protected once too often.
pub fn running(pid: u32, start: Option<u64>) -> bool {
    let Some(number) = i32::try_from(pid).ok().filter(|number| *number > 0) else {
        return false;
    };
    match (start_of(pid), start) {
        (Some(now), Some(then)) => now == then,
        (Some(_), None) => true,
        (None, _) if fs::exists(format!("/proc/{pid}/stat")).unwrap_or(false) => false,
        (None, _) => signal::kill(Pid::from_raw(number), None) != Err(Errno::ESRCH),
    }
}
