//! The git program: run with an environment of its own, within a time and a size. Never lets it ask, fetch, page, edit or outlive its time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::Refusal;
use crate::error::said;

/// Most bytes that are kept of what git complains about.
const COMPLAINT: usize = 16 * 1024;
/// Most bytes of an answer that is known to be short.
pub(crate) const SHORT: usize = 1024 * 1024;
/// How often a call is made in all while it meets a worktree that is being made.
const TRIES: u32 = 40;
/// How long such a call waits before it is made again.
const PAUSE: Duration = Duration::from_millis(25);

/// Said in every call, over whatever a configuration says. Where the repository's own configuration is not read, most of it is idle.
const OVERRIDES: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "core.untrackedCache=false",
];

/// All that git finds in its environment besides the path of programs and what a view sets.
const ENVIRONMENT: [(&str, &str); 19] = [
    ("LC_ALL", "C"),
    ("HOME", "/nonexistent"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// The time that all calls of one act share.
#[derive(Debug)]
pub(crate) struct Git {
    until: Instant,
    span: Duration,
    lock: Option<File>,
}

/// One call.
pub(crate) struct Call<'a> {
    folder: &'a Path,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    input: Vec<u8>,
    most: usize,
}

/// What came of it.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) out: Vec<u8>,
    pub(crate) complaint: Vec<u8>,
    /// Whether it was ended because it said more than was wanted.
    pub(crate) cut: bool,
}

impl Output {
    /// What git said at its end, on one line. One that a signal ended says nothing itself.
    pub(crate) fn said(&self) -> String {
        let signal = self
            .status
            .signal()
            .and_then(|number| Signal::try_from(number).ok());
        match signal {
            Some(signal) if self.complaint.is_empty() => format!("it was ended by {signal}"),
            _ => said(&self.complaint),
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new<I: AsRef<OsStr>>(folder: &'a Path, arguments: impl IntoIterator<Item = I>) -> Self {
        Self {
            folder,
            arguments: arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned())
                .collect(),
            environment: Vec::new(),
            input: Vec::new(),
            most: SHORT,
        }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    pub(crate) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    pub(crate) const fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }
}

enum Said {
    Out(Vec<u8>),
    Complaint(Vec<u8>),
    End,
}

impl Git {
    /// Starts the clock.
    pub(crate) fn within(span: Duration) -> Self {
        let begin = Instant::now();
        Self {
            until: begin.checked_add(span).unwrap_or(begin),
            span,
            lock: None,
        }
    }

    /// Lets every git that is started hold `lock` too: should this process be killed, the lock ends only when git does, and nobody clears
    /// away a worktree into which a git that was left behind still writes.
    pub(crate) fn holding(mut self, lock: File) -> Self {
        self.lock = Some(lock);
        self
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Runs a call to its end, which must be a good one.
    pub(crate) fn good(&self, doing: &'static str, call: Call<'_>) -> Result<Vec<u8>, Refusal> {
        let output = self.run(doing, call)?;
        if output.status.success() && !output.cut {
            Ok(output.out)
        } else {
            Err(Refusal::Git {
                doing,
                said: output.said(),
            })
        }
    }

    /// Runs a call to its end, whatever that is. One that met a worktree which somebody else is making in this moment is run anew: git
    /// reads the entries of all worktrees and dies of one that is not whole yet. Every call that is made here may be repeated.
    pub(crate) fn run(&self, doing: &'static str, call: Call<'_>) -> Result<Output, Refusal> {
        for _ in 1..TRIES {
            let output = self.once(doing, &call)?;
            if output.status.success() || !met_a_making(&output.complaint) {
                return Ok(output);
            }
            std::thread::sleep(PAUSE.min(self.left()));
        }
        self.once(doing, &call)
    }

    fn once(&self, doing: &'static str, call: &Call<'_>) -> Result<Output, Refusal> {
        let mut command = Command::new("git");
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(ENVIRONMENT);
        command.envs(call.environment.iter().map(|(name, value)| (name, value)));
        for one in OVERRIDES {
            command.args(["-c", one]);
        }
        command.arg("--no-pager").args(&call.arguments);
        command.current_dir(call.folder).process_group(0);
        let stdin = match &self.lock {
            Some(lock) if call.input.is_empty() => lock.try_clone().map_err(Refusal::io(call.folder))?.into(),
            _ => Stdio::piped(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if call.folder.is_dir() => Refusal::NoGit,
            io::ErrorKind::PermissionDenied => Refusal::NoGit,
            _ => Refusal::io(call.folder)(error),
        })?;
        let mut group = Group { child, over: false };
        let told = group.tell(call.input.clone()).map_err(|error| Refusal::Git {
            doing,
            said: error.to_string(),
        })?;

        let (mut out, mut complaint, mut open) = (Vec::new(), Vec::new(), 2);
        while open > 0 {
            match told.recv_timeout(self.left()) {
                Ok(Said::Out(piece)) => {
                    out.extend_from_slice(&piece);
                    if out.len() > call.most {
                        out.truncate(call.most);
                        let status = group.kill().map_err(Refusal::io(call.folder))?;
                        return Ok(Output {
                            status,
                            out,
                            complaint,
                            cut: true,
                        });
                    }
                }
                Ok(Said::Complaint(piece)) => {
                    let room = COMPLAINT.saturating_sub(complaint.len());
                    complaint.extend(piece.into_iter().take(room));
                }
                Ok(Said::End) => open -= 1,
                Err(RecvTimeoutError::Disconnected) => break,
                // Dropping the group ends it.
                Err(RecvTimeoutError::Timeout) => return Err(Refusal::TooSlow(self.span)),
            }
        }
        loop {
            match group.child.try_wait().map_err(Refusal::io(call.folder))? {
                Some(status) => {
                    group.over = true;
                    return Ok(Output {
                        status,
                        out,
                        complaint,
                        cut: false,
                    });
                }
                None if self.left().is_zero() => return Err(Refusal::TooSlow(self.span)),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Whether git died of the entry of another worktree, whose file had a name and no content yet, or was on its way out.
fn met_a_making(complaint: &[u8]) -> bool {
    let words = String::from_utf8_lossy(complaint);
    words
        .lines()
        .any(|line| line.contains("failed to read ") && line.contains("/commondir: "))
}

/// git and whatever it starts. Dropped before it is over, all of it is killed.
struct Group {
    child: Child,
    over: bool,
}

impl Group {
    /// Feeds it and listens to it, each in a thread of its own, so that nothing waits for anything.
    fn tell(&mut self, input: Vec<u8>) -> io::Result<mpsc::Receiver<Said>> {
        let (teller, told) = mpsc::sync_channel(16);
        if let Some(mut stdin) = self.child.stdin.take()
            && !input.is_empty()
        {
            // A git that closes its end early has read what it wanted.
            std::thread::Builder::new().spawn(move || {
                let _ = stdin.write_all(&input);
            })?;
        }
        if let Some(stdout) = self.child.stdout.take() {
            let teller = teller.clone();
            std::thread::Builder::new().spawn(move || listen(stdout, &teller, Said::Out))?;
        }
        if let Some(stderr) = self.child.stderr.take() {
            std::thread::Builder::new().spawn(move || listen(stderr, &teller, Said::Complaint))?;
        }
        Ok(told)
    }

    /// Ends the group. The first process is reaped only after the signal, so that its number cannot be another's by then.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        if !self.over
            && let Ok(id) = i32::try_from(self.child.id())
        {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        self.over = true;
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.kill();
        }
    }
}

fn listen(mut from: impl Read, teller: &SyncSender<Said>, as_what: fn(Vec<u8>) -> Said) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let piece = buffer.get(..count).unwrap_or_default().to_vec();
                if teller.send(as_what(piece)).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = teller.send(Said::End);
}

/// One line of git's, without its end.
pub(crate) fn line(out: &[u8]) -> String {
    String::from_utf8_lossy(out)
        .trim_end_matches(['\n', '\r'])
        .to_owned()
}
