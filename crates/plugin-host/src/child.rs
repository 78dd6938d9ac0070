//! One server as a process: what it is started with, and how muster holds it. Never gives it a variable, a descriptor or a file of the owner's beyond the list.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::diagnostic::shown;
use crate::frame::Framing;
use crate::host::Ready;
use crate::launch::{FAILED, GRACE, STARTED, WORD};
use crate::ledger::make_folder;
use crate::link::outbox::Outbox;
use crate::package::{Cwd, Family, Launch, Place};

/// Variables that are passed on when they are set. Everything else is not.
pub const PASSED_ON: [&str; 11] = [
    "HOME", "PATH", "SHELL", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
];

/// The program that starts servers: muster itself with the launcher's word.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
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
        }
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
    server: Option<Pid>,
    pub(crate) stdin: Arc<Outbox>,
    pub(crate) framing: Framing,
    pub(crate) stdout: ChildStdout,
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
    let mut child = Command::new(&launcher.program)
        .arg0("muster-plugin-launch")
        .args(&launcher.arguments)
        .args(&plan.argv)
        .env_clear()
        .envs(&plan.env)
        .current_dir(&plan.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| unstarted(&plan.cwd, &error))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the server could not be connected".to_owned());
    };
    let mut said = String::new();
    let mut stderr = BufReader::new(stderr.take(16 * 1024));
    let told = timeout(Duration::from_secs(10), stderr.read_line(&mut said)).await;
    let said = said.trim_end();
    if let (Ok(Ok(_)), Some(pid)) = (&told, said.strip_prefix(STARTED)) {
        return Ok(Running {
            server: pid.parse().ok().map(Pid::from_raw),
            launcher: child,
            stdin: Arc::new(Outbox::new(stdin)),
            framing,
            stdout,
        });
    }
    let _ = child.start_kill();
    let _ = timeout(GRACE, child.wait()).await;
    Err(said.strip_prefix(FAILED).map_or_else(
        || "the launcher of servers did not answer".to_owned(),
        ToOwned::to_owned,
    ))
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
            Ok(status) => ending(status),
            Err(_) => {
                self.stop().await;
                "closed its output and was ended".to_owned()
            }
        }
    }

    /// Ends the server: its input is closed, the launcher does the rest. Longer than the launcher may take is not waited.
    pub(crate) async fn stop(mut self) {
        self.stdin.shut(Duration::from_millis(200)).await;
        // Its output still goes somewhere, so that a server which says something at its end does not hang or break on it.
        let mut stdout = self.stdout;
        let drained = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
        });
        let longest = GRACE * 2 + Duration::from_secs(2);
        let ended = timeout(longest, self.launcher.wait()).await;
        drained.abort();
        if ended.is_err() {
            if let Some(server) = self.server {
                let _ = killpg(server, Signal::SIGKILL);
            }
            let _ = self.launcher.start_kill();
            let _ = timeout(GRACE, self.launcher.wait()).await;
        }
    }
}

/// How a server ended, for a sentence that begins with "the server".
fn ending(status: io::Result<std::process::ExitStatus>) -> String {
    match status.ok().and_then(|status| status.code()) {
        Some(code) if code > 128 => format!("was ended by signal {}", code - 128),
        Some(code) => format!("ended with exit code {code}"),
        None => "ended, and its launcher with it".to_owned(),
    }
}
