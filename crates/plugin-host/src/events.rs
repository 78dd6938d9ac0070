//! The event log of package servers: one JSON object a line. Never holds an argument or a result of a call, and nothing of a server's unescaped.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_core::{Clock, Fault};
use serde::{Deserialize, Serialize};

use crate::diagnostic::shown;
use crate::ledger::{failed, make_folder};
use crate::names::ServerKey;

/// A file larger than this, in bytes, is set aside.
const LARGEST: u64 = 16 * 1024 * 1024;
/// How many files set aside are kept.
const KEPT: u32 = 4;
/// Most events that one reading gives; the newest.
const MOST: usize = 100_000;
/// The longest line, in bytes; muster writes none near it.
const LONGEST: u64 = 256 * 1024;

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

/// The same line before it is written.
#[derive(Serialize)]
struct Line<'a> {
    at: &'a str,
    session: &'a str,
    plugin: &'a str,
    server: &'a str,
    event: Happening,
    tool: Option<&'a str>,
    decision: Option<&'a str>,
    detail: Option<&'a str>,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only those of this package.
    pub plugin: Option<String>,
    /// Only those of this session.
    pub session: Option<String>,
}

/// What one reading found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The events that are wanted, oldest first.
    pub events: Vec<Event>,
    /// How many more of them there are, all older.
    pub left_out: usize,
    /// How many lines are no events: cut off by a full disk, or of a newer muster.
    pub unreadable: usize,
    /// As many files are set aside as are kept, so older events may have been let go.
    pub let_go: bool,
}

/// Where the events lie.
#[derive(Debug, Clone)]
pub struct EventLog {
    path: PathBuf,
    clock: Clock,
    largest: u64,
    most: usize,
}

impl EventLog {
    pub(crate) fn new(folder: &Path, clock: Clock) -> Self {
        Self {
            path: folder.join("events.jsonl"),
            clock,
            largest: LARGEST,
            most: MOST,
        }
    }

    /// The writer of one session's events about one server.
    pub(crate) fn of(&self, session: &str, key: &ServerKey) -> Writer {
        Writer {
            log: self.clone(),
            session: shown(session),
            key: key.clone(),
            second: Arc::default(),
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
        self.look(wanted).map(|found| found.events)
    }

    /// As [`EventLog::read`], and what of the log is not among them.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn look(&self, wanted: &Wanted) -> Result<Found, Fault> {
        let fits = |wanted: &Option<String>, has: &String| wanted.as_ref().is_none_or(|wanted| wanted == has);
        let mut newest = VecDeque::new();
        let mut found = Found {
            let_go: self.aside(KEPT).exists(),
            ..Found::default()
        };
        let aside = (1..=KEPT).rev().map(|number| self.aside(number));
        for path in aside.chain([self.path.clone()]) {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("read", &path, &error)),
            };
            let take = |line: &[u8]| {
                let Ok(event) = serde_json::from_slice::<Event>(line) else {
                    found.unreadable += 1;
                    return;
                };
                if fits(&wanted.plugin, &event.plugin) && fits(&wanted.session, &event.session) {
                    if newest.len() == self.most {
                        newest.pop_front();
                        found.left_out += 1;
                    }
                    newest.push_back(event);
                }
            };
            lines(file, take).map_err(|error| failed("read", &path, &error))?;
        }
        found.events = newest.into();
        Ok(found)
    }

    fn aside(&self, number: u32) -> PathBuf {
        self.path.with_extension(format!("jsonl.{number}"))
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
        if file.metadata()?.len() > self.largest {
            self.set_aside()?;
            return open();
        }
        Ok(file)
    }

    /// Moves each file one further; the oldest is let go. One at a time, because a second move would let go what the first has only just set aside.
    fn set_aside(&self) -> io::Result<()> {
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.path.with_extension("lock"))?;
        lock.lock()?;
        // Another session may have done it while this one waited, and may not have begun the new one yet.
        match fs::metadata(&self.path) {
            Ok(found) if found.len() > self.largest => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
        for number in (1..KEPT).rev() {
            match fs::rename(self.aside(number), self.aside(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.aside(1))
    }
}

/// Gives `take` each line that is not empty. Of one that is longer than any of muster's only the beginning, which is no event.
fn lines(file: File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut goes_on = false;
    loop {
        line.clear();
        if reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let ended = line.last() == Some(&b'\n');
        if !goes_on && !line.trim_ascii().is_empty() {
            take(line.trim_ascii());
        }
        goes_on = !ended;
    }
}

/// Writes events of one server in one session.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    log: EventLog,
    /// The session's id as it is shown.
    session: String,
    key: ServerKey,
    /// The last second that a line was written in, and its text: many lines are written in one.
    second: Arc<Mutex<(i64, String)>>,
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
        // It is refused either way.
        if let Err(fault) = self.write(Happening::Call, tool, Some("deny:rule"), Some(detail)) {
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
        self.write(event, Some(tool), decision, detail)
    }

    /// The line about a call that runs by this decision, to be written with others.
    pub(crate) fn call_line(&self, tool: &str, decision: &str) -> Vec<u8> {
        self.line(Happening::Call, Some(tool), Some(decision), None)
    }

    fn write(
        &self,
        event: Happening,
        tool: Option<&str>,
        decision: Option<&str>,
        detail: Option<String>,
    ) -> Result<(), Fault> {
        let line = self.line(event, tool, decision, detail.as_deref());
        match self.lines([line.as_slice()]).1 {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn line(
        &self,
        event: Happening,
        tool: Option<&str>,
        decision: Option<&str>,
        detail: Option<&str>,
    ) -> Vec<u8> {
        let now = self.log.clock.now();
        let second = now.micros().div_euclid(1_000_000);
        let mut last = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != second || last.1.is_empty() {
            *last = (second, now.rfc3339());
        }
        let (tool, detail) = (tool.map(shown), detail.map(shown));
        let event = Line {
            at: &last.1,
            session: &self.session,
            plugin: &self.key.plugin,
            server: &self.key.server,
            event,
            tool: tool.as_deref(),
            decision,
            detail: detail.as_deref(),
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
            (written, Some(error)) => (written, Some(failed("write", &self.log.path, &error))),
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
            .map_err(|error| failed("open", &self.log.path, &error))?;
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

    fn numbers(found: &Found) -> Vec<usize> {
        let number = |event: &Event| event.detail.as_ref().unwrap().parse().unwrap();
        found.events.iter().map(number).collect()
    }

    #[test]
    fn a_full_log_is_set_aside_by_one_of_many_and_the_oldest_are_let_go_aloud() {
        let dir = tempfile::tempdir().unwrap();
        let log = EventLog {
            largest: 2_000,
            ..EventLog::new(dir.path(), Clock::system())
        };
        let write = |number: usize| {
            // A writer that begins finds the file as it is now.
            log.of("s", &ServerKey::new("a", "b"))
                .server(Happening::Stopped, Some(number.to_string()));
        };
        (0..20).for_each(write);
        let found = log.look(&Wanted::default()).unwrap();
        assert_eq!(numbers(&found), (0..20).collect::<Vec<_>>());
        assert!(!found.let_go && fs::exists(log.aside(1)).unwrap());
        // Of many that find it full at once the first sets it aside; the others leave alone what is there by then, or not yet.
        let text = fs::read(&log.path).unwrap();
        let large: Vec<u8> = std::iter::repeat_n(text, 20).flatten().collect();
        fs::write(&log.path, &large).unwrap();
        log.set_aside().unwrap();
        log.set_aside().unwrap();
        (20..24).for_each(write);
        log.set_aside().unwrap();
        std::thread::scope(|scope| (24..28).for_each(|number| drop(scope.spawn(move || write(number)))));
        assert_eq!(fs::metadata(log.aside(1)).unwrap().len(), large.len() as u64);
        (28..200).for_each(write);
        let found = log.look(&Wanted::default()).unwrap();
        assert!(found.let_go);
        let kept = numbers(&found);
        let first = *kept.first().unwrap();
        assert!(first > 28 && kept.iter().copied().eq(first..200), "{kept:?}");
        let bytes: u64 = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes < 6 * 2_300, "{bytes}");
    }

    #[test]
    fn what_is_no_event_is_counted_and_takes_no_event_along() {
        let dir = tempfile::tempdir().unwrap();
        let log = EventLog {
            most: 2,
            ..EventLog::new(dir.path(), Clock::system())
        };
        let write = |number: usize| {
            log.of("s", &ServerKey::new("a", "b"))
                .server(Happening::Stopped, Some(number.to_string()));
        };
        write(1);
        // A disk that was full, a muster that is newer, a file that somebody else wrote.
        let whole = fs::read_to_string(&log.path).unwrap();
        let newer = whole.replace("stopped", "slept");
        let long = "x".repeat(3 * 256 * 1024);
        fs::write(
            &log.path,
            format!(
                "{whole}{newer}{long}\n\n{}",
                whole.split_once("plugin").unwrap().0
            ),
        )
        .unwrap();
        write(2);
        let found = log.look(&Wanted::default()).unwrap();
        assert_eq!(
            (numbers(&found), found.unreadable, found.left_out),
            (vec![1, 2], 3, 0)
        );
        write(3);
        let found = log.look(&Wanted::default()).unwrap();
        assert_eq!((numbers(&found), found.left_out), (vec![2, 3], 1));
    }
}
