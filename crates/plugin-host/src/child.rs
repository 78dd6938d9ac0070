//! One server as a process: what it is started with, and how muster holds it. Never gives it a variable, a descriptor or a file of the owner's beyond the list.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::diagnostic::shown;
use crate::frame::Framing;
use crate::host::Ready;
use crate::launch::{FAILED, GRACE, Handed, NAME, STARTED, WORD};
use crate::ledger::make_folder;
use crate::link::outbox::Outbox;
use crate::package::{Cwd, Family, Launch, Place};
use crate::processes;

/// Variables that are passed on when they are set. Everything else is not.
pub const PASSED_ON: [&str; 11] = [
    "HOME", "PATH", "SHELL", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
];

/// How often those that are left are looked for, and the pause after each look.
const ROUNDS: (usize, Duration) = (200, Duration::from_millis(5));

/// The launchers that this process has.
static LAUNCHERS: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

/// The program that starts servers: muster itself with the launcher's word.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
    sole: bool,
}

impl Launcher {
    /// This very program with [`WORD`] before the server's command; its `main` must hand that word to [`crate::launch::run`].
    #[must_use]
    pub fn this_program() -> Self {
        // Found also when the file was replaced or removed since the start.
        #[cfg(target_os = "linux")]
        let program = PathBuf::from("/proc/self/exe");
        #[cfg(not(target_os = "linux"))]
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("muster"));
        Self::new(program, vec![OsString::from(WORD)])
    }

    /// Another program that hands what stands behind `arguments` to [`crate::launch::run`].
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments,
            sole: false,
        }
    }

    /// For a process that serves one session and has no children but launchers. Whoever loses its launcher then comes to this process (Linux),
    /// and is ended with the session: a server can kill its launcher.
    #[must_use]
    pub fn sole(mut self) -> Self {
        #[cfg(target_os = "linux")]
        {
            self.sole = nix::sys::prctl::set_child_subreaper(true).is_ok();
        }
        #[cfg(not(target_os = "linux"))]
        {
            self.sole = false;
        }
        self
    }
}

/// Everything a process starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
}

impl Plan {
    /// The variables by which a process of this session and package is known: the copy it runs from, and the session.
    fn marks(&self) -> Vec<Vec<u8>> {
        let names = ["MUSTER_PLUGIN_ROOT", "MUSTER_SESSION_ID"];
        let mark = |name: &str| {
            let value = self.env.get(OsStr::new(name))?;
            Some([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let marks: Vec<Vec<u8>> = names.into_iter().filter_map(mark).collect();
        // One of the two alone says too little.
        if marks.len() == names.len() {
            marks
        } else {
            Vec::new()
        }
    }
}

/// What a stdio server starts with: `inherited` gives the variables of this process by name. `None` for an http server.
#[must_use]
pub fn plan(
    ready: &Ready,
    session: &str,
    session_dir: &Path,
    inherited: impl Fn(&str) -> Option<OsString>,
) -> Option<Plan> {
    let Launch::Stdio { argv, path, env, cwd } = &ready.launch else {
        return None;
    };
    let (root, data) = (&ready.root, &ready.data_dir);
    let argv = argv
        .iter()
        .enumerate()
        .map(|(at, word)| match path {
            Some(path) if *path == at => clean(root, word).into_os_string(),
            _ => OsString::from(ready.family.fill(word, root, data)),
        })
        .collect();
    let mut all = BTreeMap::new();
    for name in PASSED_ON {
        if let Some(value) = inherited(name) {
            all.insert(OsString::from(name), value);
        }
    }
    for (name, value) in env {
        all.insert(name.into(), ready.family.fill(value, root, data).into());
    }
    let mut set = |names: &[&str], value: OsString| {
        for name in names {
            all.insert(OsString::from(name), value.clone());
        }
    };
    set(
        &["MUSE_PLUGIN_ID", "MUSTER_PLUGIN_ID"],
        ready.key.plugin.clone().into(),
    );
    set(
        &[
            "MUSE_PLUGIN_ROOT",
            "MUSTER_PLUGIN_ROOT",
            "PLUGIN_ROOT",
            "CLAUDE_PLUGIN_ROOT",
        ],
        root.clone().into(),
    );
    set(
        &[
            "MUSE_PLUGIN_DATA_DIR",
            "MUSTER_PLUGIN_DATA_DIR",
            "PLUGIN_DATA",
            "CLAUDE_PLUGIN_DATA",
        ],
        data.clone().into(),
    );
    set(&["MUSE_SESSION_ID", "MUSTER_SESSION_ID"], session.into());
    let cwd = match cwd {
        Cwd::Session => session_dir.to_path_buf(),
        Cwd::In(Place::Root, below) => root.join(below),
        Cwd::In(Place::Data, below) => data.join(below),
    };
    Some(Plan { argv, env: all, cwd })
}

/// The full path of a file of the package that `word` names, without `./`.
fn clean(root: &Path, word: &str) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(word.split('/').filter(|part| !part.is_empty() && *part != "."));
    path
}

/// A started server.
#[derive(Debug)]
pub(crate) struct Running {
    launcher: Child,
    known: Known,
    server: Option<Server>,
    left: Left,
    /// Held as long as the session lasts: the launcher sees when nobody reads what it would say.
    heard: BufReader<Take<ChildStderr>>,
    pub(crate) stdin: Arc<Outbox>,
    pub(crate) framing: Framing,
    pub(crate) stdout: ChildStdout,
}

/// How what a launcher left is found.
#[derive(Debug)]
struct Left {
    /// By whose child it is.
    sole: bool,
    /// By the variables that it was started with.
    marks: Vec<Vec<u8>>,
}

/// The server itself, and the group that has its number.
#[derive(Debug, Clone, Copy)]
struct Server {
    pid: Pid,
    began: Option<u64>,
}

impl Server {
    fn told(pid: &str) -> Option<Self> {
        let pid = Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 1)?);
        let began = processes::seen(pid).map(|seen| seen.began);
        Some(Self { pid, began })
    }

    /// Kills the server and its group, unless another process has its number by now, which it can only have when the group is empty.
    fn kill(self) {
        let now = processes::seen(self.pid).map(|seen| seen.began);
        if now.is_none() || now == self.began {
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        if now.is_some() && now == self.began {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}

/// A launcher's place in the list of them.
#[derive(Debug)]
struct Known(Option<Pid>);

impl Known {
    fn pid(&self) -> Option<Pid> {
        self.0
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            LAUNCHERS
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&pid);
        }
    }
}

/// Starts a server.
///
/// # Errors
/// A sentence that says why it did not start.
pub(crate) async fn start(
    launcher: &Launcher,
    plan: &Plan,
    family: Family,
    data_dir: &Path,
    framing: Framing,
) -> Result<Running, String> {
    if family == Family::AgentPlugins {
        // That format's own rule; the others leave it to the package.
        make_folder(data_dir).map_err(|fault| fault.to_string())?;
        if plan.cwd.starts_with(data_dir) {
            make_folder(&plan.cwd).map_err(|fault| fault.to_string())?;
        }
    }
    let handed = Handed {
        parent: std::process::id(),
        env: plan.env.clone(),
    };
    let handed = handed
        .encode()
        .map_err(|error| format!("the server's variables are too large: {error}"))?;
    let mut command = Command::new(&launcher.program);
    command
        .arg0(NAME)
        .args(&launcher.arguments)
        .args(&plan.argv)
        // What the loader of programs does for a variable of the package's must not happen in the launcher.
        .env_clear()
        .current_dir(&plan.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (mut child, known) = spawn(&mut command).map_err(|error| unstarted(&plan.cwd, &error))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the server could not be connected".to_owned());
    };
    let mut said = String::new();
    let mut stderr = BufReader::new(stderr.take(16 * 1024));
    let told = timeout(Duration::from_secs(10), async {
        // One that ended before it read all says why.
        let _ = stdin.write_all(&handed).await;
        stderr.read_line(&mut said).await
    })
    .await;
    let said = said.trim_end();
    if let (Ok(Ok(_)), Some(pid)) = (&told, said.strip_prefix(STARTED)) {
        return Ok(Running {
            server: Server::told(pid),
            launcher: child,
            known,
            left: Left {
                sole: launcher.sole,
                marks: plan.marks(),
            },
            heard: stderr,
            stdin: Arc::new(Outbox::new(stdin)),
            framing,
            stdout,
        });
    }
    end(&mut child, &known).await;
    Err(said.strip_prefix(FAILED).map_or_else(
        || "the launcher of servers did not answer".to_owned(),
        ToOwned::to_owned,
    ))
}

/// Starts a launcher and lists it; between the two nobody looks for strangers.
fn spawn(command: &mut Command) -> io::Result<(Child, Known)> {
    let mut launchers = LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    launchers.extend(pid);
    Ok((child, Known(pid)))
}

/// Ends a launcher that does not end by itself, and first everything below it: what outlives it is nobody's.
async fn end(launcher: &mut Child, known: &Known) {
    if let (Some(pid), Some(_)) = (known.pid(), launcher.id()) {
        let (rounds, pause) = ROUNDS;
        for _ in 0..rounds {
            if processes::kill_below(pid) == 0 {
                break;
            }
            sleep(pause).await;
        }
    }
    let _ = launcher.start_kill();
    let _ = timeout(GRACE, launcher.wait()).await;
}

/// Ends who came to this process because its launcher is dead.
async fn end_strangers() {
    let (rounds, pause) = ROUNDS;
    for _ in 0..rounds {
        let left = {
            let launchers = LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all = processes::all();
            all.retain(|one| one.parent == Pid::this() && !launchers.contains(&one.pid));
            for one in &all {
                processes::kill_below(one.pid);
                let _ = kill(one.pid, Signal::SIGKILL);
                let _ = waitpid(one.pid, Some(WaitPidFlag::WNOHANG));
            }
            all.len()
        };
        if left == 0 {
            return;
        }
        sleep(pause).await;
    }
}

fn unstarted(cwd: &Path, error: &io::Error) -> String {
    if cwd.is_dir() {
        format!("the launcher of servers could not be started: {error}")
    } else {
        format!(
            "the folder {} that the server would run in is not there",
            shown(&cwd.to_string_lossy())
        )
    }
}

impl Running {
    /// Waits for the server's end after its output ended; one that only closed its output is ended.
    pub(crate) async fn finish(mut self) -> String {
        match timeout(Duration::from_millis(500), self.launcher.wait()).await {
            Ok(status) => {
                clear(&status, self.server, self.left).await;
                ending(status)
            }
            Err(_) => {
                self.stop().await;
                "closed its output and was ended".to_owned()
            }
        }
    }

    /// Ends the server: its input is closed, the launcher does the rest. Longer than the launcher may take is not waited, and what a launcher
    /// that was killed or held up has left is ended here.
    pub(crate) async fn stop(mut self) {
        self.stdin.shut(Duration::from_millis(200)).await;
        // A server that holds the other end of its own input does not hold this one.
        drop(self.heard);
        if let (Some(pid), Some(_)) = (self.known.pid(), self.launcher.id()) {
            // It may have been stopped.
            let _ = kill(pid, Signal::SIGCONT);
        }
        // Its output still goes somewhere, so that a server which says something at its end does not hang or break on it.
        let mut stdout = self.stdout;
        let drained = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
        });
        let longest = GRACE * 2 + Duration::from_secs(2);
        let status = if let Ok(status) = timeout(longest, self.launcher.wait()).await {
            status
        } else {
            end(&mut self.launcher, &self.known).await;
            Err(io::ErrorKind::TimedOut.into())
        };
        drained.abort();
        clear(&status, self.server, self.left).await;
    }
}

/// Ends what a launcher left that did not end by itself; one that did has left nothing.
async fn clear(status: &io::Result<std::process::ExitStatus>, server: Option<Server>, left: Left) {
    let by_itself = status.as_ref().is_ok_and(|status| status.code().is_some());
    if by_itself {
        return;
    }
    if let Some(server) = server {
        server.kill();
    }
    if left.sole {
        end_strangers().await;
    }
    end_marked(left.marks).await;
}

/// Ends who was started with these variables and is below no launcher any more, wherever it went.
async fn end_marked(marks: Vec<Vec<u8>>) {
    if marks.is_empty() {
        return;
    }
    // Looking at every process takes a moment.
    let looking = tokio::task::spawn_blocking(move || {
        let marked = |variables: &[&[u8]]| marks.iter().all(|mark| variables.contains(&mark.as_slice()));
        let (rounds, pause) = ROUNDS;
        for _ in 0..rounds {
            if processes::end_orphans(marked) == 0 {
                return;
            }
            std::thread::sleep(pause);
        }
    });
    let _ = looking.await;
}

/// How a server ended, for a sentence that begins with "the server".
fn ending(status: io::Result<std::process::ExitStatus>) -> String {
    match status.ok().and_then(|status| status.code()) {
        Some(code) if code > 128 => format!("was ended by signal {}", code - 128),
        Some(code) => format!("ended with exit code {code}"),
        None => "ended, and its launcher with it".to_owned(),
    }
}
