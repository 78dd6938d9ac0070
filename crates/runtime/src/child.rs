//! The program of a turn as a process: started in a group of its own, fed, read within bounds, and ended as a whole group. It never decides
//! what an ending means for the turn.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::FusedFuture;
use muster_core::text::terminal;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::{Program, Settings, Turn};

/// How long a group has between the request to end and its end.
const GRACE: Duration = Duration::from_secs(2);

/// Variables by which a Claude Code session knows its own processes. When muster itself was started from such a session, a chief must not
/// take itself for a part of it.
const OUTER_SESSION: [&str; 7] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PID",
];

/// A child and everything that it starts within its process group. Dropping it kills the group at once.
pub(crate) struct Group {
    child: Child,
    id: Option<Pid>,
}

/// A started child with its three pipes.
pub(crate) struct Started {
    pub(crate) group: Group,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Starts the program with `further` arguments behind the owner's, in the work folder, with muster's environment less every `MUSTER_*`
/// variable, plus the settings' and the three that a chief is given.
///
/// # Errors
/// A sentence that says why nothing was started.
pub(crate) fn start(
    program: &Program,
    further: &[OsString],
    settings: &Settings,
    turn: &Turn,
) -> Result<Started, String> {
    let mut command = Command::new(program.name());
    command
        .args(program.arguments())
        .args(further)
        .current_dir(&settings.work_dir);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.kill_on_drop(true).process_group(0);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"MUSTER_") {
            command.env_remove(name);
        }
    }
    for name in OUTER_SESSION {
        command.env_remove(name);
    }
    command.envs(settings.env.iter().map(|(name, value)| (name, value)));
    command.env("MUSTER_MCP_URL", &turn.mcp_url);
    command.env("MUSTER_AGENT_TOKEN", turn.agent_token.expose());
    command.env("MUSTER_CONVERSATION", &turn.conversation);

    let mut child = command
        .spawn()
        .map_err(|error| not_started(program.name(), &error))?;
    let id = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = Group { child, id };
    match (stdin, stdout, stderr) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(Started {
            group,
            stdin,
            stdout,
            stderr,
        }),
        _ => {
            Err("the chief's program could not be connected; it was ended, and the message waits".to_owned())
        }
    }
}

fn not_started(name: &str, error: &io::Error) -> String {
    let name = terminal(name);
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the chief's program {name} was not found (or the interpreter that its first line names); install it, or give its full path with muster chief set"
        ),
        io::ErrorKind::PermissionDenied => {
            format!(
                "the chief's program {name} may not be executed; check its permissions and those of its folder"
            )
        }
        _ => format!("the chief's program {name} could not be started: {error}"),
    }
}

impl Group {
    /// The process number of the first process, while it is known.
    pub(crate) fn id(&self) -> Option<i32> {
        self.id.map(Pid::as_raw)
    }

    /// Waits for the first process of the group. Safe to drop and call again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Whether the first process is over.
    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills what is left of the group, at once. Call it right after the first process ended: nothing that a turn started outlives it.
    pub(crate) fn kill(&mut self) {
        // Taken, so that no later call can reach a group that got the same number.
        if let Some(id) = self.id.take() {
            let _ = killpg(id, Signal::SIGKILL);
        }
    }

    /// Ends the group: a request, two seconds, then the kill.
    pub(crate) async fn end(mut self) {
        if let Some(id) = self.id {
            let _ = killpg(id, Signal::SIGTERM);
        }
        let _ = timeout(GRACE, self.child.wait()).await;
        self.kill();
        // The kill leaves the first process only to be reaped; one that hangs in the kernel is not waited for.
        let _ = timeout(GRACE, self.child.wait()).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes all of `bytes` and closes the pipe. A program that closes its end early has read what it wanted: no error.
pub(crate) async fn feed(mut stdin: ChildStdin, bytes: &[u8]) {
    let _ = stdin.write_all(bytes).await;
}

/// Reads until the end and hands every piece to `keep`. An error ends it like the end.
pub(crate) async fn pump(mut from: impl AsyncRead + Unpin, mut keep: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        keep(piece);
    }
}

/// Runs `work` to its end and `aside` beside it. `aside` may end first or not at all.
pub(crate) async fn beside<T>(
    work: impl Future<Output = T>,
    mut aside: Pin<&mut impl FusedFuture<Output = ()>>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = &mut aside, if !aside.is_terminated() => {}
        }
    }
}

/// Lines of a child's output, each at most `limit` bytes. Safe to drop and call again.
pub(crate) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(from: R, limit: usize) -> Self {
        Self {
            from: BufReader::with_capacity(64 * 1024, from),
            line: Vec::new(),
            limit,
        }
    }

    /// The next line without its end; `None` at the end of the output, where a line that was begun is dropped.
    ///
    /// # Errors
    /// A failed read, or a line over the limit.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let ready = self.from.fill_buf().await?;
            if ready.is_empty() {
                return Ok(None);
            }
            let end = ready.iter().position(|byte| *byte == b'\n');
            let piece = ready.get(..end.unwrap_or(ready.len())).unwrap_or_default();
            if self.line.len().saturating_add(piece.len()) > self.limit {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a line of output is too long",
                ));
            }
            self.line.extend_from_slice(piece);
            let used = piece.len().saturating_add(usize::from(end.is_some()));
            self.from.consume(used);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

/// The moment that lies `span` from now.
pub(crate) fn after(span: Duration) -> Instant {
    later(Instant::now(), span)
}

/// The moment that lies `span` from `begin`; a span beyond all clocks is cut to ten years.
pub(crate) fn later(begin: Instant, span: Duration) -> Instant {
    begin
        .checked_add(span)
        .unwrap_or_else(|| begin + Duration::from_secs(10 * 365 * 24 * 60 * 60))
}

/// How a program ended, for a sentence: `ended with exit code 3`.
pub(crate) fn ending(status: &io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended without saying how".to_owned(),
        },
        Err(error) => format!("ended, but the system did not say how ({error})"),
    }
}

/// A span for a sentence: `30 minutes`, `90 seconds`, `400 milliseconds`.
pub(crate) fn span(span: Duration) -> String {
    let (count, unit) = match span.as_millis() {
        ms if ms % 60_000 == 0 && ms > 0 => (ms / 60_000, "minute"),
        ms if ms % 1_000 == 0 => (ms / 1_000, "second"),
        ms => (ms, "millisecond"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_the_same_however_the_output_is_cut() {
        let text = b"one\n\nthree is longer\nlast without an end";
        for size in 1..text.len() {
            let (mut writer, reader) = tokio::io::duplex(size);
            let write = tokio::spawn(async move { writer.write_all(text).await });
            let mut lines = Lines::new(reader, 64);
            let mut seen = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                seen.push(String::from_utf8(line).unwrap());
            }
            write.await.unwrap().unwrap();
            assert_eq!(seen, ["one", "", "three is longer"], "{size}");
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_an_error_and_takes_no_memory() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1 << 20);
        assert_eq!(lines.next().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(lines.line.len() <= 1 << 20);
    }

    #[test]
    fn a_span_is_told_in_its_largest_whole_unit() {
        let table = [
            (1_800_000, "30 minutes"),
            (60_000, "1 minute"),
            (90_000, "90 seconds"),
            (1_000, "1 second"),
            (400, "400 milliseconds"),
            (0, "0 seconds"),
        ];
        for (ms, words) in table {
            assert_eq!(span(Duration::from_millis(ms)), words);
        }
    }
}
