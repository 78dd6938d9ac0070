//! How each agent is reached: its transport marker in `transports/`, and which transport this machine uses. Never types anything and never changes a marker by reading it.

mod config;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::sync::OnceLock;

use muster_core::text;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::message;
use crate::names::SeatId;
use crate::registry::{Agent, Agents};
use crate::sessions;

pub use config::{ConfigError, ConfigSource, Configured, choose, configured};

/// The host of a pusher that came over the network and did not say on which machine it is.
pub const UNKNOWN: &str = "unknown";

/// The folder. Its lock stands for every marker in it, so that two agents cannot take one pane at the same moment.
pub(crate) const FOLDER: &str = "transports";

/// A transport that can be chosen or reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// A pane of herdr on this machine, typed into by the process that serves the agent.
    Herdr,
    /// A tmux pane on whatever machine its pusher runs.
    TmuxPushRemote,
}

impl TransportKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Herdr, Self::TmuxPushRemote];

    /// Reads its word.
    ///
    /// # Errors
    /// [`BusError::TransportKind`], which names the valid ones.
    pub fn parse(word: &str) -> Result<Self, BusError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| BusError::TransportKind(format!("'{}'", shown(word))))
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Herdr => "herdr",
            Self::TmuxPushRemote => "tmux-push-remote",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Outside text as a sentence may quote it: short and harmless for a terminal.
fn shown(word: &str) -> String {
    text::terminal(&word.chars().take(64).collect::<String>())
}

/// Where an agent is reached, as its file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// Whose it is.
    pub agent_id: String,
    /// The transport's word. Markers of kinds that are no longer served are read and shown, too.
    pub transport: String,
    /// The process that delivers on this machine; 0 for one on another machine.
    #[serde(default, deserialize_with = "pid")]
    pub pid: u32,
    /// When that process began, in the kernel's ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_start: Option<u64>,
    /// The pane, under the name every reader knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The same pane under its older name, so that an older reader finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_target: Option<String>,
    /// The socket of the tmux server that the pane is one of: every server counts its panes from the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_socket: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default, deserialize_with = "sessions::millis")]
    pub since: i64,
    /// The machine of a remote pusher, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether channel posts are delivered; they are, unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_room: Option<bool>,
    /// The only senders whose messages are typed; everybody when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowlist: Option<Vec<String>>,
    /// How long messages are gathered before they are typed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u64>,
    /// The build of the program that delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// What other programs keep here.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A process number; none of this machine's is as good as 0.
fn pid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok())
        .unwrap_or(0))
}

impl Marker {
    /// The pane, under either name.
    pub fn pane(&self) -> Option<&str> {
        self.target
            .as_deref()
            .or(self.tmux_target.as_deref())
            .filter(|pane| !pane.is_empty())
    }

    /// Whether its pane is one of another tmux server than the one behind `socket`, on the same machine. Where one of them does not say, it is
    /// not known to be.
    pub(crate) fn is_of_another_server(&self, socket: Option<&str>) -> bool {
        matches!((self.tmux_socket.as_deref(), socket), (Some(its), Some(other)) if its != other)
    }

    /// Whether the process it names would be one of this machine.
    fn local(&self) -> bool {
        on_this_machine(self.host.as_deref())
    }
}

fn on_this_machine(host: Option<&str>) -> bool {
    host.is_none_or(named_here)
}

/// Whether a marker's host is the name of this machine.
fn named_here(host: &str) -> bool {
    this_machine() == Some(host)
}

/// The name of this machine, as the kernel has it, if it is one that tells it from others.
pub(crate) fn this_machine() -> Option<&'static str> {
    static NAME: OnceLock<String> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| String::new(), |name| name.trim().to_owned())
    });
    Some(name.as_str()).filter(|name| !name.is_empty() && *name != UNKNOWN)
}

/// Whether a marker's agent can be reached by it, at `now` milliseconds: the process it names runs and is the same one, or, for one on another
/// machine, its agent's heartbeat is under five minutes old.
pub fn alive(marker: &Marker, agent: Option<&Agent>, now: i64) -> bool {
    if marker.pid > 0 && marker.local() {
        sessions::running(marker.pid, marker.pid_start)
    } else {
        agent.is_some_and(|agent| agent.online(now))
    }
}

/// One file of the folder and what it says, or what is wrong with it.
#[derive(Debug)]
pub struct Found {
    /// The file's name without its ending, which should be an id.
    pub id: String,
    /// What stands in it.
    pub marker: Result<Marker, BusError>,
}

pub(crate) fn file(id: &str) -> String {
    format!("{FOLDER}/{id}.json")
}

/// An agent's marker: `None` when it has none.
///
/// # Errors
/// [`BusError::Damaged`], [`BusError::Odd`] when it is another agent's, a fault.
pub fn load(home: &Home, seat: &SeatId) -> Result<Option<Marker>, BusError> {
    read(home, seat.as_str())
}

fn read(home: &Home, id: &str) -> Result<Option<Marker>, BusError> {
    let name = file(id);
    let Some(marker) = json::read::<Marker>(home, &name)? else {
        return Ok(None);
    };
    let odd = |why| {
        Err(BusError::Odd {
            file: name.clone(),
            why,
        })
    };
    if SeatId::parse(id).is_err() {
        return odd("its name is no agent id");
    }
    if marker.agent_id != id {
        return odd("it names another agent than its file does");
    }
    Ok(Some(marker))
}

/// Every marker, live or not, with what is wrong with it if something is. Changes nothing.
///
/// # Errors
/// A fault, when the folder cannot be read.
pub fn all(home: &Home) -> Result<Vec<Found>, BusError> {
    let mut found = Vec::new();
    for id in sessions::stems(home, FOLDER)? {
        let marker = match read(home, &id) {
            Ok(Some(marker)) => Ok(marker),
            // It was cleared between the two looks.
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        found.push(Found { id, marker });
    }
    Ok(found)
}

/// What a remote pusher says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report<'r> {
    /// The transport's word.
    pub transport: &'r str,
    /// Its machine.
    pub host: Option<&'r str>,
    /// The pane it types into.
    pub target: Option<&'r str>,
    /// The socket of the tmux server that has that pane.
    pub socket: Option<&'r str>,
    /// Since when, in milliseconds; now without it.
    pub since: Option<i64>,
    /// Its build.
    pub build: Option<&'r str>,
}

/// Publishes the marker of an agent whose pane is somewhere else; one that stood there is replaced. It lives by the agent's heartbeat.
///
/// # Errors
/// [`BusError::TransportKind`], [`BusError::PaneHeld`], a text that is empty or too long, [`BusError::Damaged`] when the registry cannot be
/// read, a fault. Nothing was changed then.
pub fn report(home: &Home, seat: &SeatId, report: Report<'_>) -> Result<Marker, BusError> {
    let kind = TransportKind::parse(report.transport)?;
    for (field, text) in [
        ("host", report.host),
        ("tmuxTarget", report.target),
        ("tmuxSocket", report.socket),
        ("build", report.build),
    ] {
        text.map_or(Ok(()), |text| message::short(field, text))?;
    }
    let marker = Marker {
        pid: 0,
        pid_start: None,
        host: report.host.map(str::to_owned),
        tmux_socket: report.socket.map(str::to_owned),
        since: report.since.unwrap_or_else(|| home.now()),
        build: report.build.map(str::to_owned),
        ..blank(home, seat, kind, report.target)
    };
    publish(home, seat, &marker)?;
    Ok(marker)
}

/// How an agent wants to be reached in a pane of this machine.
#[derive(Debug, Clone, Default)]
pub struct Attach {
    /// The pane, which exists: whoever calls has looked.
    pub target: String,
    /// Whether channel posts are delivered, too; they are without it.
    pub include_room: Option<bool>,
    /// The only senders whose messages are typed.
    pub allowlist: Option<Vec<String>>,
    /// How long messages are gathered before they are typed, in milliseconds.
    pub debounce_ms: Option<u64>,
    /// The build of this process.
    pub build: Option<String>,
}

/// Publishes the marker of an agent that this very process delivers to. It lives as long as the process does.
///
/// # Errors
/// [`BusError::PaneHeld`], a text that is empty or too long, [`BusError::Damaged`] when the registry cannot be read, a fault. Nothing was
/// changed then.
pub fn attach(home: &Home, seat: &SeatId, how: Attach) -> Result<Marker, BusError> {
    message::short("tmuxTarget", &how.target)?;
    let pid = std::process::id();
    let marker = Marker {
        pid,
        pid_start: sessions::start_of(pid),
        include_room: Some(how.include_room.unwrap_or(true)),
        allowlist: how.allowlist,
        debounce_ms: how.debounce_ms,
        build: how.build,
        ..blank(home, seat, TransportKind::Herdr, Some(&how.target))
    };
    publish(home, seat, &marker)?;
    Ok(marker)
}

fn blank(home: &Home, seat: &SeatId, kind: TransportKind, target: Option<&str>) -> Marker {
    Marker {
        agent_id: seat.as_str().to_owned(),
        transport: kind.as_str().to_owned(),
        pid: 0,
        pid_start: None,
        target: target.map(str::to_owned),
        tmux_target: target.map(str::to_owned),
        tmux_socket: None,
        since: home.now(),
        host: None,
        include_room: None,
        allowlist: None,
        debounce_ms: None,
        build: None,
        more: Map::new(),
    }
}

fn publish(home: &Home, seat: &SeatId, marker: &Marker) -> Result<(), BusError> {
    home::make_folder(&home.path(FOLDER))?;
    let _held = lock::lock(home, FOLDER)?;
    if let Some(pane) = marker.pane()
        && let Some(by) = holder(home, seat, pane, marker)?
    {
        return Err(BusError::PaneHeld {
            pane: shown(pane),
            by,
        });
    }
    json::write(home, &file(seat.as_str()), marker, Keep::Durably)
}

/// Which other live agent is reached in a pane. A marker that cannot be read names no pane, so nothing is ever typed by it.
fn holder(home: &Home, seat: &SeatId, pane: &str, wanted: &Marker) -> Result<Option<String>, BusError> {
    let host = wanted.host.as_deref();
    let agents = Agents::load(home)?;
    let now = home.now();
    let holds = |found: &Found| {
        let Ok(marker) = &found.marker else { return false };
        let same_machine = match (on_this_machine(host), marker.local()) {
            (true, true) => true,
            (false, false) => host == marker.host.as_deref(),
            _ => false,
        };
        let agent = SeatId::parse(&found.id).ok().and_then(|id| agents.get(&id));
        found.id != seat.as_str()
            && same_machine
            && marker.pane() == Some(pane)
            && !marker.is_of_another_server(wanted.tmux_socket.as_deref())
            && alive(marker, agent.as_ref(), now)
    };
    Ok(all(home)?.into_iter().find(holds).map(|found| found.id))
}

/// Removes an agent's marker, whatever stands in it. Answers whether there was one.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub fn clear(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    let _held = lock::lock(home, FOLDER)?;
    remove(home, seat)
}

/// Removes an agent's marker if it names the pane `target` of the tmux server behind `socket`, where that is known: a pusher that ends leaves the marker of the one that took its place. Answers
/// whether it did.
///
/// # Errors
/// [`BusError::Damaged`], [`BusError::Held`], a fault.
pub fn clear_of(home: &Home, seat: &SeatId, target: &str, socket: Option<&str>) -> Result<bool, BusError> {
    let _held = lock::lock(home, FOLDER)?;
    match load(home, seat)? {
        Some(marker) if marker.pane() == Some(target) && !marker.is_of_another_server(socket) => {
            remove(home, seat)
        }
        _ => Ok(false),
    }
}

/// Removes an agent's marker if this very process wrote it. Answers whether it did.
///
/// # Errors
/// [`BusError::Held`], a fault.
pub(crate) fn clear_own(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    let _held = lock::lock(home, FOLDER)?;
    let pid = std::process::id();
    match load(home, seat)? {
        Some(marker) if marker.pid == pid && marker.pid_start == sessions::start_of(pid) => {
            remove(home, seat)
        }
        _ => Ok(false),
    }
}

fn remove(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    let path = home.path(&file(seat.as_str()));
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("remove", &path, error)),
    }
}

/// Moves a marker to another id, with all its fields. A second call finds nothing to do.
pub(crate) fn rename(home: &Home, old: &SeatId, new: &SeatId) -> Result<(), BusError> {
    let _held = lock::lock(home, FOLDER)?;
    let Some(mut marker) = load(home, old)? else {
        return Ok(());
    };
    marker.agent_id = new.as_str().to_owned();
    json::write(home, &file(new.as_str()), &marker, Keep::Durably)?;
    remove(home, old).map(drop)
}

/// The panes a process says it runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Panes {
    herdr: Option<String>,
    tmux: Option<String>,
    /// The socket of the tmux server that the pane is one of.
    socket: Option<String>,
}

impl Panes {
    /// What `HERDR_PANE_ID`, `TMUX_PANE` and `TMUX` say. A connection from elsewhere has none: [`Panes::default`].
    pub fn of(env: impl Fn(&str) -> Option<String>) -> Self {
        let pane = |name| env(name).filter(|pane| !pane.trim().is_empty());
        Self {
            herdr: pane("HERDR_PANE_ID"),
            tmux: pane("TMUX_PANE"),
            // The server's socket, its process and the number of the session; a path may hold a comma itself.
            socket: pane("TMUX").and_then(|tmux| tmux.rsplitn(3, ',').nth(2).map(str::to_owned)),
        }
    }

    /// The tmux pane, if it is in one.
    pub fn tmux(&self) -> Option<&str> {
        self.tmux.as_deref()
    }

    /// Whether a marker points to where this process runs. Every machine counts its panes from the same number, so one that neither names a
    /// process of this machine nor says that it is of this machine points nowhere.
    pub fn are_of(&self, marker: &Marker) -> bool {
        let here = if marker.pid > 0 {
            marker.local()
        } else {
            marker.host.as_deref().is_some_and(named_here)
        };
        here && !marker.is_of_another_server(self.socket.as_deref())
            && marker
                .pane()
                .is_some_and(|pane| self.hold(&marker.transport, pane))
    }

    /// Whether this process runs in that pane of that transport.
    pub fn hold(&self, transport: &str, pane: &str) -> bool {
        let mine = if transport == TransportKind::Herdr.as_str() {
            self.herdr.as_deref()
        } else {
            self.tmux.as_deref()
        };
        mine == Some(pane)
    }

    /// The herdr pane to attach to: the one that was asked for, else this process's own.
    ///
    /// # Errors
    /// [`BusError::NoPane`]: no other pane is ever guessed.
    pub fn target<'p>(&'p self, asked: Option<&'p str>) -> Result<&'p str, BusError> {
        asked.or(self.herdr.as_deref()).ok_or(BusError::NoPane)
    }
}
