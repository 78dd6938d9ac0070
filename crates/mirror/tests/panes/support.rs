//! A tmux server for one test, and the transport on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_bus::push::text::Inert;
use muster_bus::push::{ControlCommand, Delivery, Door, Outcome, Transport as _, Why};
use muster_mirror::{Server, Settings, TmuxPanes};
use tempfile::TempDir;

/// A server that ends with this value.
pub(crate) struct Tmux {
    pub(crate) name: String,
    pub(crate) folder: TempDir,
}

impl Tmux {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("muster-test-{}-{number}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(["-u", "-L", &self.name, "-f", "/dev/null"])
            .env_remove("TMUX")
            .env_remove("TMUX_PANE")
            // Programs draw otherwise, or not at all, where these say that nobody looks.
            .env_remove("CI")
            .env_remove("NO_COLOR")
            .env_remove("FORCE_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command of tmux and answers what it printed.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let said = self.command().args(words).output().unwrap();
        assert!(said.status.success(), "{words:?}: {said:?}");
        String::from_utf8(said.stdout).unwrap().trim_end().to_owned()
    }

    /// Starts a program in a session of its own; the number of its pane.
    pub(crate) fn start(&self, session: &str, env: &[(&str, &str)], program: &[&str]) -> String {
        let mut words = vec![
            "new-session",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-x",
            "100",
            "-y",
            "30",
            "-s",
            session,
        ];
        let set: Vec<String> = env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for pair in &set {
            words.extend(["-e", pair]);
        }
        words.extend(program);
        self.run(&words)
    }

    /// Types as a person does.
    pub(crate) fn keys(&self, pane: &str, text: &str) {
        self.run(&["send-keys", "-t", pane, "-l", text]);
    }

    pub(crate) fn screen(&self, pane: &str) -> String {
        self.run(&["capture-pane", "-p", "-t", pane])
    }

    pub(crate) fn panes(&self) -> TmuxPanes {
        TmuxPanes::new(Server::Named(self.name.clone()), quick())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let socket = self
            .command()
            .args(["display-message", "-p", "#{socket_path}"])
            .output();
        let _ = self.command().arg("kill-server").stderr(Stdio::null()).status();
        // A server leaves the file of its socket behind.
        if let Ok(said) = socket {
            let path = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            if path.ends_with(&self.name) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// The settings of these tests: as usual, but with less waiting.
pub(crate) fn quick() -> Settings {
    Settings {
        steady: Duration::from_millis(40),
        warm: Duration::from_millis(40),
        settle: Duration::from_millis(20),
        second_look: Duration::from_millis(2500),
        patience: Duration::from_millis(2500),
        ..Settings::default()
    }
}

/// Something to deliver with a token of its own.
pub(crate) fn text(token: &str, body: &str) -> Delivery {
    Delivery::Text {
        text: Inert::of(&format!("[agent-coord] message {token}\n{body}")),
        token: token.to_owned(),
    }
}

pub(crate) fn command(command: ControlCommand) -> Delivery {
    Delivery::Command(command)
}

pub(crate) const PASTED: Outcome = Outcome::Delivered {
    door: Door::Paste,
    verified: true,
};

/// The reason for which nothing was typed.
pub(crate) fn held(outcome: &Outcome) -> Why {
    match outcome {
        Outcome::Held(hold) => hold.why,
        other => panic!("not held: {other:?}"),
    }
}

/// Delivers until it is held for this reason: a busy machine may show an agent's last moments of work for a while.
pub(crate) fn holds(panes: &TmuxPanes, pane: &str, what: &Delivery, why: Why) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = held(&panes.deliver(pane, what));
        if found == why {
            return;
        }
        assert!(
            Instant::now() < end,
            "held as {found:?} for a minute, not as {why:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Delivers until it is not held any more.
pub(crate) fn insist(panes: &TmuxPanes, pane: &str, what: &Delivery) -> Outcome {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match panes.deliver(pane, what) {
            Outcome::Held(hold) => assert!(Instant::now() < end, "held for a minute: {hold:?}"),
            other => return other,
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

pub(crate) fn wait(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < end, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts this test program again, in one of its other parts.
pub(crate) fn part(name: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    vec![
        program.display().to_string(),
        "--exact".to_owned(),
        name.to_owned(),
        "--nocapture".to_owned(),
    ]
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    muster_testkit::whole_lines(&text).map(str::to_owned).collect()
}
