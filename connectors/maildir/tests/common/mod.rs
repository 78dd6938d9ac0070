//! A Maildir, a state folder, an outbox and a stub server to run the real program against. Never shared between tests.
#![expect(dead_code, reason = "each test file uses its own part of this rig")]

pub(crate) mod stub;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use stub::{Stub, TOKEN};
use tempfile::TempDir;

pub(crate) struct Rig {
    pub(crate) stub: Stub,
    folder: TempDir,
    delivered: std::cell::Cell<u32>,
}

/// A running connector, killed at the end of the test when it still runs.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub(crate) fn kill_9(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["new", "cur", "tmp"] {
            fs::create_dir_all(folder.path().join("maildir").join(part)).unwrap();
        }
        Self {
            stub: Stub::start(),
            folder,
            delivered: std::cell::Cell::new(0),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Delivers a mail as a mail server does; returns the file's name.
    pub(crate) fn deliver(&self, raw: impl AsRef<[u8]>) -> String {
        let number = self.delivered.get() + 1;
        self.delivered.set(number);
        let name = format!("{number:06}.rig.host");
        let tmp = self.path("maildir/tmp").join(&name);
        fs::write(&tmp, raw).unwrap();
        fs::rename(tmp, self.path("maildir/new").join(&name)).unwrap();
        name
    }

    /// A plain mail with this subject, from a person who can be answered.
    pub(crate) fn deliver_plain(&self, subject: &str) -> String {
        self.deliver(plain(subject))
    }

    pub(crate) fn command(&self, way: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster-maildir"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("MUSTER_CONNECTOR_TOKEN", TOKEN)
            .env("MUSTER_URL", &self.stub.url)
            .args(["--from", "Me <me@ours.test>", "--maildir"])
            .arg(self.path("maildir"))
            .arg("--state")
            .arg(self.path("state"))
            .args(way);
        if !way.contains(&"--sendmail") {
            command.arg("--outbox").arg(self.path("outbox"));
        }
        command
    }

    /// Starts the connector; what it logs goes to the file `log`.
    pub(crate) fn start(&self, way: &[&str]) -> Running {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        Running(
            self.command(way)
                .stderr(log)
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    pub(crate) fn once(&self, way: &[&str]) -> Output {
        self.command(way).arg("--once").output().unwrap()
    }

    pub(crate) fn once_ok(&self, way: &[&str]) {
        let output = self.once(way);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        names(&self.path(folder))
    }

    /// The mails in the outbox, parsed far enough to check them.
    pub(crate) fn outbox(&self) -> Vec<String> {
        let folder = self.path("outbox/new");
        names(&folder)
            .iter()
            .map(|name| fs::read_to_string(folder.join(name)).unwrap())
            .collect()
    }

    /// Waits for something that must happen.
    pub(crate) fn wait(&self, what: &str, mut there: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !there() {
            assert!(
                Instant::now() < until,
                "{what} did not happen; log:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn assert_no_violations(&self) {
        assert_eq!(self.stub.world().violations, [""; 0]);
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn plain(subject: &str) -> String {
    format!(
        "Received: from x by mx.ours.test; Mon, 1 Jan 2024 10:00:00 +0000\nFrom: Ada <ada@example.test>\n\
         To: me@ours.test\nSubject: {subject}\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\
         Message-ID: <{subject}@example.test>\nReferences: <root-{subject}@example.test>\n\nbody of {subject}\n"
    )
}

/// The value of a header of a composed mail, folded lines joined.
pub(crate) fn header(mail: &str, name: &str) -> Option<String> {
    let head = mail.split("\n\n").next().unwrap_or_default().replace("\n ", " ");
    let prefix = format!("{name}: ");
    let mut found = head
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix))
        .map(str::to_owned);
    let value = found.next();
    assert_eq!(found.next(), None, "{name} stands there twice");
    value
}
