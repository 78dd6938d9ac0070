//! What these tests share: a tmux server of their own, an agent in a pane, pushers and a bus. It tests nothing itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::agent::FOLDER;
use crate::bus::{Bus, Output, Process, until};

/// A tmux server. Dropping it ends it.
pub(crate) struct Tmux {
    name: String,
    folder: TempDir,
}

impl Tmux {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let tmux = Self {
            name: format!("muster-test-push-{}-{count}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        };
        // One session that lasts, so that the server does.
        tmux.run(&[
            "new-session",
            "-d",
            "-s",
            "lasts",
            "-x",
            "120",
            "-y",
            "30",
            "sleep",
            "600",
        ]);
        tmux
    }

    /// Runs tmux on this server; what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let said = self.call(arguments);
        assert!(said.0, "tmux {arguments:?}: {}", said.1);
        said.1
    }

    /// The same for what may fail.
    pub(crate) fn call(&self, arguments: &[&str]) -> (bool, String) {
        let done = Command::new("tmux")
            .args(["-L", &self.name, "-f", "/dev/null"])
            .args(arguments)
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (
            done.status.success(),
            String::from_utf8(text).unwrap().trim().to_owned(),
        )
    }

    /// The variable by which a process inside this server finds it.
    pub(crate) fn env(&self) -> String {
        let socket = self.run(&["display-message", "-p", "-t", "lasts", "#{socket_path}"]);
        let pid = self.run(&["display-message", "-p", "-t", "lasts", "#{pid}"]);
        format!("{socket},{pid},0")
    }

    /// An agent in a pane of its own.
    pub(crate) fn agent(&self, id: &str) -> Agent {
        self.agent_with(id, "")
    }

    /// The same, with somebody's draft in its input.
    pub(crate) fn agent_with(&self, id: &str, draft: &str) -> Agent {
        let folder = self.folder.path().join(id);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("draft"), draft).unwrap();
        let mut arguments = vec![
            "new-session",
            "-d",
            "-s",
            id,
            "-x",
            "120",
            "-y",
            "30",
            "-P",
            "-F",
            "#{pane_id}",
            "--",
        ];
        let words = agent_command(&folder);
        arguments.extend(words.iter().map(String::as_str));
        let pane = self.run(&arguments);
        let agent = Agent {
            id: id.to_owned(),
            pane,
            folder,
        };
        until("the agent's input box", || {
            self.screen(&agent.pane).contains("for shortcuts")
        });
        agent
    }

    pub(crate) fn screen(&self, pane: &str) -> String {
        self.run(&["capture-pane", "-p", "-t", pane])
    }

    pub(crate) fn has(&self, session: &str) -> bool {
        self.call(&["has-session", "-t", &format!("={session}")]).0
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

/// The words that start the agent, which writes into a folder.
pub(crate) fn agent_command(folder: &Path) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    [
        "env".to_owned(),
        format!("{FOLDER}={}", folder.display()),
        program.display().to_string(),
        "--exact".to_owned(),
        "agent::role".to_owned(),
        "--nocapture".to_owned(),
        "--quiet".to_owned(),
    ]
    .into()
}

/// An agent in a pane.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) pane: String,
    pub(crate) folder: PathBuf,
}

impl Agent {
    /// What was submitted to it, in order.
    pub(crate) fn taken(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("taken")).unwrap_or_default();
        muster_testkit::whole_lines(&text)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// How often `words` stand in what was submitted.
    pub(crate) fn times(&self, words: &str) -> usize {
        self.taken()
            .iter()
            .map(|taken| taken.matches(words).count())
            .sum()
    }

    /// Waits until `words` were submitted.
    pub(crate) fn gets(&self, words: &str) {
        until(
            &format!("{words:?} in what {} got: {:?}", self.id, self.taken()),
            || self.times(words) > 0,
        );
    }

    /// Every byte that came.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("bytes")).unwrap_or_default()).into_owned()
    }
}

/// A running pusher.
pub(crate) struct Pusher {
    pub(crate) process: Process,
    pub(crate) err: Output,
    follower: Option<std::thread::JoinHandle<()>>,
}

impl Pusher {
    /// Starts one and does not wait.
    pub(crate) fn begin(mut command: Command) -> Self {
        let mut process = Process(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let err = Output::default();
        let follower = err.follow(process.0.stderr.take().unwrap());
        Self {
            process,
            err,
            follower: Some(follower),
        }
    }

    /// Starts one and waits until it says that it is attached.
    pub(crate) fn start(command: Command) -> Self {
        let pusher = Self::begin(command);
        pusher.err.says("muster: attached: ");
        pusher
    }

    /// Ends it by a signal; how it ended and what it said.
    pub(crate) fn end_by(mut self, signal: Signal) -> (ExitStatus, String) {
        self.process.signal(signal);
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let status = self.process.ended();
        self.follower.take().unwrap().join().unwrap();
        (status, self.err.text())
    }
}

/// The command line of a pusher for an agent's pane.
pub(crate) fn pusher(bus: &Bus, tmux: &Tmux, url: &str, token: &str, agent: &Agent) -> Command {
    let mut command = bus.command(&[
        "bus",
        "pusher",
        "--server",
        url,
        "--agent",
        &agent.id,
        "--tmux",
        &agent.pane,
    ]);
    command
        .env("AGENT_COORD_TOKEN", token)
        // It has no part in the bus's folder.
        .env_remove("AGENT_COORD_DIR")
        .env_remove("AGENT_COORD_TRANSPORT")
        .env("TMUX", tmux.env());
    command
}

/// Whether a text stands in the command line of any process.
pub(crate) fn in_a_command_line(text: &str) -> bool {
    fs::read_dir("/proc").unwrap().any(|entry| {
        let path = entry.unwrap().path().join("cmdline");
        let line = fs::read(path).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// Waits longer than anything takes that would come.
pub(crate) fn a_while() {
    std::thread::sleep(Duration::from_secs(3));
}

/// The marker of an agent, as its file says.
pub(crate) fn marker(bus: &Bus, agent: &str) -> Value {
    bus.json(&format!("transports/{agent}.json"))
}

/// Whether it has one.
pub(crate) fn has_marker(bus: &Bus, agent: &str) -> bool {
    bus.file(&format!("transports/{agent}.json")).exists()
}
