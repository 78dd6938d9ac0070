//! What the runtime's tests share: a folder, turns, scripts, and a look at processes. It tests nothing itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_core::secret::Secret;
use muster_runtime::{Outcome, Program, Settings, Turn};

pub(crate) const TOKEN: &str = "mag_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A folder of one test, with the chief's work folder in it.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.path("chief"));
        settings.watchdog = Duration::from_secs(20);
        settings
    }

    /// A program that runs this shell script.
    pub(crate) fn shell(&self, script: &str) -> Program {
        let path = self.path("script.sh");
        fs::write(&path, script).unwrap();
        Program::parse(&format!("sh '{}'", path.display())).unwrap()
    }

    /// As [`Place::pids`], for a test whose own task the program waits for.
    pub(crate) async fn pids_soon(&self, name: &str, count: usize) -> Vec<i32> {
        let end = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(self.path(name))
            .unwrap_or_default()
            .lines()
            .count()
            < count
        {
            assert!(Instant::now() < end, "{name} was not written");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.pids(name, count)
    }

    /// The process numbers in a file that a script wrote, one a line, once it has written `count` of them.
    pub(crate) fn pids(&self, name: &str, count: usize) -> Vec<i32> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            let pids: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
            if pids.len() >= count && text.ends_with('\n') {
                return pids;
            }
            assert!(Instant::now() < end, "{name} holds {text:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) fn turn(conversation: &str, text: &str) -> Turn {
    Turn {
        conversation: conversation.to_owned(),
        title: "Mail".to_owned(),
        text: text.to_owned(),
        mcp_url: "http://127.0.0.1:9/mcp".to_owned(),
        agent_token: Secret::new(TOKEN),
    }
}

pub(crate) fn reply(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed { reply } => reply,
        other => panic!("{other:?} instead of a completed turn"),
    }
}

pub(crate) fn not_started(outcome: Outcome) -> String {
    match outcome {
        Outcome::NotStarted { reason } => reason,
        other => panic!("{other:?} instead of a turn that was not started"),
    }
}

pub(crate) fn broken_off(outcome: Outcome) -> String {
    match outcome {
        Outcome::BrokenOff { reason } => reason,
        other => panic!("{other:?} instead of a turn that was broken off"),
    }
}

/// Whether a process runs; one that only waits to be reaped does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn assert_gone(pids: &[i32]) {
    let end = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(|pid| lives(*pid)) {
        assert!(Instant::now() < end, "of {pids:?} some still run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn kill(pid: i32) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Runs one ignored test of this test program as a process of its own.
pub(crate) fn again(test: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}
