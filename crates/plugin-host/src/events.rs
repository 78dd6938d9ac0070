//! The event log of package servers: one JSON object a line. Never holds an argument or a result of a call, and nothing of a server's unescaped.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_core::{Clock, Fault};
use serde::{Deserialize, Serialize};

use crate::diagnostic::shown;
use crate::ledger::{failed, make_folder};
use crate::names::ServerKey;

/// A file larger than this, in bytes, is set aside; one such is kept.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Most events that one reading gives; the newest.
const MOST: usize = 100_000;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// The server's program was started, or its address is about to be asked.
    Started,
    /// It answered and its tools are known.
    Ready,
    /// It could not be started or did not answer as a server does.
    StartFailed,
    /// It did not answer within 30 seconds.
    InitializeTimeout,
    /// A tool is not offered.
    ToolDropped,
    /// A server is not offered.
    ServerDropped,
    /// A call was decided about.
    Call,
    /// It ended by itself.
    Exited,
    /// It was ended with its session.
    Stopped,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// The session.
    pub session: String,
    /// The package.
    pub plugin: String,
    /// The server.
    pub server: String,
    /// What happened.
    pub event: Happening,
    /// The registered name of the tool, for a call or a tool that is not offered.
    pub tool: Option<String>,
    /// How a call was decided.
    pub decision: Option<String>,
    /// More, as a sentence.
    pub detail: Option<String>,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only those of this package.
    pub plugin: Option<String>,
    /// Only those of this session.
    pub session: Option<String>,
}

/// Where the events lie.
#[derive(Debug, Clone)]
pub struct EventLog {
    path: PathBuf,
    clock: Clock,
}

impl EventLog {
    pub(crate) fn new(folder: &Path, clock: Clock) -> Self {
        Self {
            path: folder.join("events.jsonl"),
            clock,
        }
    }

    /// The writer of one session's events about one server.
    pub(crate) fn of(&self, session: &str, key: &ServerKey) -> Writer {
        Writer {
            log: self.clone(),
            session: session.to_owned(),
            key: key.clone(),
            file: Arc::default(),
        }
    }

    /// Notes that an approved server is not given to a session, and why.
    pub fn server_dropped(&self, session: &str, key: &ServerKey, why: &str) {
        self.of(session, key)
            .server(Happening::ServerDropped, Some(why.to_owned()));
    }

    /// The events that are wanted, oldest first; at most the newest hundred thousand.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn read(&self, wanted: &Wanted) -> Result<Vec<Event>, Fault> {
        let mut found = VecDeque::new();
        for path in [self.aside(), self.path.clone()] {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("read", &path, error)),
            };
            for line in BufReader::new(file).split(b'\n') {
                let line = line.map_err(|error| failed("read", &path, error))?;
                // A line that a full disk cut off is passed over.
                let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                    continue;
                };
                let fits = |wanted: &Option<String>, has: &String| {
                    wanted.as_ref().is_none_or(|wanted| wanted == has)
                };
                if fits(&wanted.plugin, &event.plugin) && fits(&wanted.session, &event.session) {
                    if found.len() == MOST {
                        found.pop_front();
                    }
                    found.push_back(event);
                }
            }
        }
        Ok(found.into())
    }

    fn aside(&self) -> PathBuf {
        self.path.with_extension("jsonl.1")
    }

    /// Opens the file, and sets it aside first when it is full.
    fn open(&self) -> io::Result<File> {
        let open = || {
            OpenOptions::new()
                .create(true)
                .read(true)
                .append(true)
                .mode(0o600)
                .open(&self.path)
        };
        let file = open()?;
        // Another session may have set the full file aside meanwhile; what is there now is then a new one.
        let full = |found: fs::Metadata| found.len() > LARGEST;
        if full(file.metadata()?) && full(fs::metadata(&self.path)?) {
            fs::rename(&self.path, self.aside())?;
            return open();
        }
        Ok(file)
    }
}

/// Writes events of one server in one session.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    log: EventLog,
    session: String,
    key: ServerKey,
    file: Arc<Mutex<Option<Open>>>,
}

/// The file as it was found, and when it was last looked for under its name.
#[derive(Debug)]
struct Open {
    file: File,
    looked: Instant,
}

/// How long a file is written to before it is looked for again: another session may have set it aside.
const LOOK: Duration = Duration::from_secs(1);

impl Writer {
    /// Writes an event without a tool.
    pub(crate) fn server(&self, event: Happening, detail: Option<String>) {
        // Losing a line about a start must not cost the session its server; the log of muster itself says so.
        if let Err(fault) = self.write(event, None, None, detail) {
            tracing::warn!(
                fault = fault.chain(),
                "an event of a package's server was not written"
            );
        }
    }

    /// Writes that a message of the agent's, about this tool where it names one, was not sent.
    pub(crate) fn refused(&self, tool: Option<&str>, detail: String) {
        let decision = Some("deny:rule".to_owned());
        // It is refused either way.
        if let Err(fault) = self.write(Happening::Call, tool.map(shown), decision, Some(detail)) {
            tracing::warn!(
                fault = fault.chain(),
                "a refused message of an agent was not written down"
            );
        }
    }

    /// Writes an event about a tool.
    ///
    /// # Errors
    /// When it could not be written; a call that cannot be recorded is refused.
    pub(crate) fn tool(
        &self,
        event: Happening,
        tool: &str,
        decision: Option<&str>,
        detail: Option<String>,
    ) -> Result<(), Fault> {
        self.write(event, Some(shown(tool)), decision.map(str::to_owned), detail)
    }

    /// The line about a call that runs by this decision, to be written with others.
    pub(crate) fn call_line(&self, tool: &str, decision: &str) -> Vec<u8> {
        self.line(
            Happening::Call,
            Some(shown(tool)),
            Some(decision.to_owned()),
            None,
        )
    }

    fn write(
        &self,
        event: Happening,
        tool: Option<String>,
        decision: Option<String>,
        detail: Option<String>,
    ) -> Result<(), Fault> {
        let line = self.line(event, tool, decision, detail);
        match self.lines([line.as_slice()]).1 {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn line(
        &self,
        event: Happening,
        tool: Option<String>,
        decision: Option<String>,
        detail: Option<String>,
    ) -> Vec<u8> {
        let event = Event {
            at: self.log.clock.now().rfc3339(),
            session: shown(&self.session),
            plugin: self.key.plugin.clone(),
            server: self.key.server.clone(),
            event,
            tool,
            decision,
            detail: detail.map(|detail| shown(&detail)),
        };
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Writes lines in their order: how many of them are in the file, and what stopped the others.
    pub(crate) fn lines<'a>(&self, lines: impl IntoIterator<Item = &'a [u8]>) -> (usize, Option<Fault>) {
        let (mut ends, mut bytes) = (Vec::new(), Vec::new());
        for line in lines {
            bytes.extend_from_slice(line);
            ends.push(bytes.len());
        }
        let (written, fault) = self.append(&bytes);
        (ends.iter().filter(|end| **end <= written).count(), fault)
    }

    /// How many of the bytes are in the file, and what stopped the others.
    fn append(&self, bytes: &[u8]) -> (usize, Option<Fault>) {
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = match self.current(open.take()) {
            Ok(current) => current,
            Err(fault) => return (0, Some(fault)),
        };
        // One write: lines of several sessions do not mix.
        match write_whole(&mut current.file, bytes) {
            (written, None) => {
                *open = Some(current);
                (written, None)
            }
            (written, Some(error)) => (written, Some(failed("write", &self.log.path, error))),
        }
    }

    /// The file to write to: the one that is open, or for a second or more was not looked for, the one under its name.
    fn current(&self, open: Option<Open>) -> Result<Open, Fault> {
        if let Some(known) = open.filter(|open| open.looked.elapsed() < LOOK) {
            return Ok(known);
        }
        if let Some(folder) = self.log.path.parent() {
            make_folder(folder)?;
        }
        let file = self
            .log
            .open()
            .map_err(|error| failed("open", &self.log.path, error))?;
        Ok(Open {
            file,
            looked: Instant::now(),
        })
    }
}

/// Appends the bytes: how many are in the file, and what stopped the others. A line that a full disk cut off is ended first, so that it takes no other with it.
fn write_whole(file: &mut File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    match ends_open(file) {
        Ok(false) => {}
        Ok(true) => {
            if let Err(error) = file.write_all(b"\n") {
                return (0, Some(error));
            }
        }
        Err(error) => return (0, Some(error)),
    }
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

/// Whether the file's last line has no end.
fn ends_open(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(false);
    };
    let mut byte = [b'\n'];
    let _ = file.read_at(&mut byte, last)?;
    Ok(byte != [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_on_its_line_and_cannot_be_seen_as_anything_else() {
        let dir = tempfile::tempdir().unwrap();
        let log = EventLog::new(dir.path(), Clock::system());
        let writer = log.of("s1", &ServerKey::new("a", "b"));
        let hostile = format!("x\n{{\"at\":\"forged\"}}\u{1b}[2J\u{202e}{}", "y".repeat(5_000));
        writer
            .tool(Happening::ToolDropped, &hostile, None, Some(hostile.clone()))
            .unwrap();
        writer.server(Happening::Stopped, None);
        let text = fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}') && text.len() < 2_000);
        let all = log.read(&Wanted::default()).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].event, Happening::Stopped);
        let none = Wanted {
            session: Some("s2".to_owned()),
            ..Wanted::default()
        };
        assert!(log.read(&none).unwrap().is_empty());
    }
}
