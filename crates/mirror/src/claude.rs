//! Claude Code's own words: which session runs in a pane, what it is doing, and the socket by which it takes messages from other programs. Never believes a file without the process behind it, and never writes to a socket of anybody else.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::text;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::getuid;
use serde_json::{Value, json};

use crate::guard::Status;
use crate::process;
use crate::tmux::{PaneId, ServerId};

/// A session file larger than this is none.
const MAX_FILE: u64 = 64 * 1024;
/// A settings file larger than this is none; Claude Code keeps its list of projects in one, too.
const MAX_SETTINGS: u64 = 16 * 1024 * 1024;
/// How far back the end of a transcript is read for the newest mode.
const TAIL: u64 = 256 * 1024;

/// A live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) id: String,
    pub(crate) status: Status,
    pub(crate) socket: Option<PathBuf>,
    /// Where Claude Code keeps its files.
    folder: PathBuf,
}

/// What was found in a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// No session is published for it.
    None,
    /// One, and it is in front.
    Session(Session),
    /// The one that was there ended without a word, and whatever started it is in front: what the screen shows is what was left on it.
    Died(u32),
    /// Something that does not fit together, as a sentence: the socket is not used, and the screen alone decides.
    Odd(String),
}

/// Looks for the session in a pane of a server whose first process is `pane_pid`.
pub(crate) fn find(pane: PaneId, server: ServerId, pane_pid: u32, usual: Option<&Path>) -> Found {
    let Some(front) = process::stat(pane_pid).and_then(|stat| stat.front) else {
        return Found::None;
    };
    let Some(folder) = folder_of(front).or_else(|| usual.map(Path::to_owned)) else {
        return Found::None;
    };
    let live = sessions(&folder);
    let here: Vec<&Session> = live
        .iter()
        .filter(|(session, tmux)| is_in(session, tmux.as_deref(), pane, server, pane_pid))
        .map(|(session, _)| session)
        .filter(|session| process::stat(session.pid).is_some_and(|stat| stat.group == front))
        .collect();
    let session = match here.as_slice() {
        [] => return died(&folder, pane, server, front).map_or(Found::None, Found::Died),
        [one] => (*one).clone(),
        _ => return Found::Odd("more than one Claude Code session is in front in this pane".to_owned()),
    };
    let same = live.iter().filter(|(other, _)| other.id == session.id).count();
    if same > 1 {
        return Found::Odd(format!(
            "{same} processes run the Claude Code session {} at the same time",
            text::terminal(&session.id)
        ));
    }
    Found::Session(session)
}

/// Whether the Claude Code in front of a pane's first process may have vim's keys, by what its settings say: those of its user, and those of
/// the project it works in.
pub(crate) fn has_vim_keys(pane_pid: u32, session: Option<&Session>, usual: Option<&Path>) -> bool {
    let Some(front) = process::stat(pane_pid).and_then(|stat| stat.front) else {
        return false;
    };
    let pid = session.map_or(front, |session| session.pid);
    let folder = session.map(|session| session.folder.clone());
    let folder = folder
        .or_else(|| folder_of(front))
        .or_else(|| usual.map(Path::to_owned));
    let mut files: Vec<PathBuf> = Vec::new();
    if let Some(folder) = folder {
        files.extend([folder.join("settings.json"), folder.join(".claude.json")]);
        // Without a folder of its own the older file lies beside it.
        files.extend(folder.parent().map(|home| home.join(".claude.json")));
    }
    if let Ok(work) = fs::read_link(format!("/proc/{pid}/cwd")) {
        let names = ["settings.json", "settings.local.json"];
        files.extend(names.map(|name| work.join(".claude").join(name)));
    }
    files.iter().any(|path| says_vim(path))
}

/// Whether a settings file chooses vim's keys. One that is too large to be one, or that is no file, says nothing.
fn says_vim(path: &Path) -> bool {
    let is_one = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_SETTINGS);
    let text = is_one.then(|| fs::read(path).ok()).flatten().unwrap_or_default();
    serde_json::from_slice::<Value>(&text)
        .is_ok_and(|value| value.get("editorMode").and_then(Value::as_str) == Some("vim"))
}

/// Where the Claude Code of a process keeps its files: as its environment says, which may differ from ours.
fn folder_of(pid: u32) -> Option<PathBuf> {
    let set = |name| process::variable(pid, name).filter(|value| !value.is_empty());
    set("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".claude")))
}

/// Every session whose process runs, with its own words for its pane.
fn sessions(folder: &Path) -> Vec<(Session, Option<String>)> {
    let Ok(entries) = fs::read_dir(folder.join("sessions")) else {
        return Vec::new();
    };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .filter_map(|path| read(folder, &path))
        .collect()
}

/// What a session's file says, and which process wrote it: its number and when it began.
struct Noted {
    pid: u32,
    start: u64,
    value: Value,
}

impl Noted {
    fn read(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        if !meta.is_file() || meta.len() > MAX_FILE || meta.uid() != getuid().as_raw() {
            return None;
        }
        let value: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let pid = u32::try_from(value.get("pid")?.as_u64()?).ok()?;
        let start = value.get("procStart")?;
        let start = start
            .as_u64()
            .or_else(|| start.as_str().and_then(|text| text.parse().ok()))?;
        (path.file_stem()?.to_str()? == pid.to_string()).then_some(Self { pid, start, value })
    }

    /// Files outlive their process, and numbers of processes come again.
    fn lives(&self) -> bool {
        process::stat(self.pid).is_some_and(|stat| stat.start == self.start)
    }

    fn word(&self, name: &str) -> Option<String> {
        self.value.get(name).and_then(Value::as_str).map(str::to_owned)
    }
}

/// The session of a pane whose process is gone while its file is there, and which began after what is in front did: one that was killed below
/// its wrapper. A session that ends in order takes its file away.
fn died(folder: &Path, pane: PaneId, server: ServerId, front: u32) -> Option<u32> {
    let begun = process::stat(front)?.start;
    let left = |noted: &Noted| {
        let there = noted.word("tmux").is_some_and(|words| is_pane(&words, pane));
        there && begun <= noted.start && server.start <= noted.start && !noted.lives()
    };
    let entries = fs::read_dir(folder.join("sessions")).ok()?;
    entries
        .filter_map(|entry| Noted::read(&entry.ok()?.path()))
        .find(left)
        .map(|noted| noted.pid)
}

/// Whether a session's own words for its pane, as `main:@1.%7`, name this one.
fn is_pane(words: &str, pane: PaneId) -> bool {
    words
        .rsplit('.')
        .next()
        .is_some_and(|last| last == pane.to_string())
}

fn read(folder: &Path, path: &Path) -> Option<(Session, Option<String>)> {
    let noted = Noted::read(path).filter(Noted::lives)?;
    let word = |name: &str| noted.word(name);
    let (pid, start) = (noted.pid, noted.start);
    let status = match word("status").as_deref() {
        Some("idle") => Status::Idle,
        Some("busy") => Status::Busy,
        Some("waiting") => Status::Waiting(word("waitingFor").unwrap_or_else(|| "an answer".to_owned())),
        Some(other) => Status::Other(other.to_owned()),
        None => Status::Other(String::new()),
    };
    let interactive = word("kind").is_none_or(|kind| kind == "interactive");
    let session = Session {
        pid,
        start,
        id: word("sessionId").filter(|id| is_id(id))?,
        status,
        socket: word("messagingSocketPath")
            .filter(|_| interactive)
            .map(PathBuf::from),
        folder: folder.to_owned(),
    };
    Some((session, word("tmux")))
}

/// A session's id is the name of a file, and nothing else.
fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Whether a session is the one in a pane: by its own words, by the environment it was started with, and by its ancestors.
fn is_in(session: &Session, tmux: Option<&str>, pane: PaneId, server: ServerId, pane_pid: u32) -> bool {
    let named = tmux.is_some_and(|words| is_pane(words, pane));
    // `$TMUX` is the server's socket, its process and the session's number.
    let served = process::variable(session.pid, "TMUX")
        .and_then(|value| value.rsplit(',').nth(1)?.parse().ok())
        == Some(server.pid);
    named && served && process::descends(session.pid, pane_pid)
}

impl Session {
    /// Its status now, read again. `None` when it is not the same session any more.
    pub(crate) fn again(&self) -> Option<Self> {
        let path = self.folder.join("sessions").join(format!("{}.json", self.pid));
        read(&self.folder, &path)
            .map(|(session, _)| session)
            .filter(|session| session.start == self.start)
    }

    /// The transcripts of this session: one, unless it was copied.
    fn transcripts(&self) -> Vec<PathBuf> {
        let Ok(projects) = fs::read_dir(self.folder.join("projects")) else {
            return Vec::new();
        };
        let name = format!("{}.jsonl", self.id);
        projects
            .filter_map(|entry| Some(entry.ok()?.path().join(&name)))
            .filter(|path| path.is_file())
            .collect()
    }

    /// A mark at the end of what stands in the transcript now.
    pub(crate) fn mark(&self) -> Mark {
        let places = self.transcripts().into_iter().map(|path| {
            let length = fs::metadata(&path).map_or(0, |meta| meta.len());
            (path, length)
        });
        Mark(places.collect())
    }

    /// Whether a message with this word came into the transcript after the mark, also when the session has another id since.
    pub(crate) fn took(&self, mark: &Mark, token: &str) -> bool {
        let renamed = self.again().filter(|now| now.id != self.id);
        let now = renamed.iter().flat_map(Self::transcripts);
        self.transcripts().into_iter().chain(now).any(|path| {
            let from = mark
                .0
                .iter()
                .find(|(known, _)| *known == path)
                .map_or(0, |(_, at)| *at);
            since(&path, from).is_some_and(|text| text.lines().any(|line| is_message(line, token)))
        })
    }

    /// Whether it lets tools run without asking: then messages of other programs wait for its person and are dropped if he does not come.
    pub(crate) fn holds_messages(&self) -> bool {
        let started = process::words(self.pid)
            .iter()
            .any(|word| word == "--dangerously-skip-permissions" || word.contains("bypassPermissions"));
        let newest = || {
            let path = self.transcripts().into_iter().next()?;
            let length = fs::metadata(&path).ok()?.len();
            let text = since(&path, length.saturating_sub(TAIL))?;
            text.lines().rev().find_map(|line| {
                let value: Value = serde_json::from_str(line).ok()?;
                value.get("permissionMode")?.as_str().map(str::to_owned)
            })
        };
        started || newest().is_some_and(|mode| mode == "bypassPermissions")
    }

    /// Opens the inbox socket and proves that this session's process is behind it.
    ///
    /// # Errors
    /// Why it is not used, as a sentence. Nothing was written.
    pub(crate) fn open(&self) -> Result<UnixStream, String> {
        let path = self.socket.as_deref().ok_or("the session publishes no socket")?;
        let meta = fs::symlink_metadata(path).map_err(|_| "the session's socket is not there")?;
        let folder = path
            .parent()
            .and_then(|folder| fs::symlink_metadata(folder).ok())
            .ok_or("the folder of the session's socket is not there")?;
        let mine = getuid().as_raw();
        if !meta.file_type().is_socket() || meta.uid() != mine {
            return Err("the session's socket is not a socket of this user".to_owned());
        }
        if !folder.is_dir() || folder.uid() != mine || folder.mode() & 0o022 != 0 {
            return Err("others may write where the session's socket lies".to_owned());
        }
        let stream =
            UnixStream::connect(path).map_err(|error| format!("the session's socket refuses: {error}"))?;
        let peer = getsockopt(&stream, PeerCredentials).map_err(|error| {
            format!("the system does not say who listens at the session's socket: {error}")
        })?;
        let pid = u32::try_from(peer.pid()).unwrap_or(0);
        if peer.uid() != mine || pid != self.pid {
            return Err(format!(
                "process {pid} listens at the session's socket, which is not the session"
            ));
        }
        stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .map_err(|error| format!("the session's socket cannot be bounded: {error}"))?;
        Ok(stream)
    }

    /// Sends one message. The stream is to be kept open until it is seen to be taken.
    ///
    /// # Errors
    /// The system's words. Something may have been sent.
    pub(crate) fn send(&self, stream: &mut UnixStream, text: &str) -> std::io::Result<()> {
        let frame = json!({
            "type": "user",
            "session_id": self.id,
            "message": {"role": "user", "content": text},
        });
        stream.write_all(format!("{frame}\n").as_bytes())
    }
}

/// Where a transcript ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark(Vec<(PathBuf, u64)>);

fn since(path: &Path, from: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(16 << 20).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A whole record of something that was said to the model, with this word in it: a tool's result that quotes the word is none.
fn is_message(line: &str, token: &str) -> bool {
    if !line.contains(token) {
        return false;
    }
    let Ok(record) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    let word = |name: &str| record.get(name).and_then(Value::as_str);
    match word("type") {
        Some("user") => {
            let content = record.pointer("/message/content");
            let parts = content.and_then(Value::as_array);
            let said = |part: &Value| {
                part.get("text")
                    .and_then(Value::as_str)
                    .is_some_and(|text| text.contains(token))
            };
            content
                .and_then(Value::as_str)
                .is_some_and(|text| text.contains(token))
                || parts.is_some_and(|parts| parts.iter().any(said))
        }
        Some("queue-operation") => {
            word("operation") == Some("enqueue") && word("content").is_some_and(|text| text.contains(token))
        }
        Some("attachment") => true,
        _ => false,
    }
}
