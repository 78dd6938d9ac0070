//! What the tests of the program share: an installation in a folder, commands on it, a running server. It tests nothing itself.

mod http;
mod look;
pub(crate) mod package;
mod raw;

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_testkit::PgDatabase;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use http::{Answer, Browser, Http, offered};
pub(crate) use look::Look;
pub(crate) use muster_store::Engine;
pub(crate) use muster_testkit::engines;
pub(crate) use raw::{Raw, exchange, status};

/// The program under test.
pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");
/// The password of every owner made here.
pub(crate) const PASSWORD: &str = "correct horse battery";
/// The chief that is a script.
pub(crate) const CHIEF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/support/chief.py");
/// The same in little time, for one purpose: it always drafts.
pub(crate) const QUICK_CHIEF: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/program/support/quick_chief.sh"
);
/// The repository's own tools for tests.
pub(crate) const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools");

/// One installation of muster: a data folder, a database, the environment its commands run in. Nothing of the caller's
/// environment comes in but PATH.
pub(crate) struct Place {
    folder: TempDir,
    env: Vec<(String, String)>,
    database: Option<PgDatabase>,
}

impl Place {
    /// A fresh one on SQLite, with plugins on.
    pub(crate) fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            env: Vec::new(),
            database: None,
        };
        let data = place.data().display().to_string();
        place.with("MUSTER_DATA_DIR", &data).with("MUSTER_PLUGINS", "1")
    }

    /// A fresh one on this engine.
    pub(crate) async fn on(engine: Engine) -> Self {
        eprintln!("on {engine:?}");
        match engine {
            Engine::Sqlite => Self::new(),
            Engine::Postgres => {
                let database = PgDatabase::fresh().await;
                let mut place = Self::new().with("MUSTER_DATABASE_URL", &database.url);
                place.database = Some(database);
                place
            }
        }
    }

    /// The same with a variable for every command and server; an empty value takes it away.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.env.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The same with a clock that [`Place::move_clock`] moves.
    pub(crate) fn with_clock(self) -> Self {
        let path = self.path("clock").display().to_string();
        self.with("MUSTER_TEST_CLOCK", &path)
    }

    /// Sets the clock of every process of this place to `seconds` from the real time.
    pub(crate) fn move_clock(&self, seconds: i64) {
        let fresh = self.path("clock.new");
        std::fs::write(&fresh, seconds.to_string()).unwrap();
        std::fs::rename(fresh, self.path("clock")).unwrap();
    }

    /// A path beside the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The data folder; it does not exist before muster makes it.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A command line of muster's.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MUSTER);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.run_with(arguments, "")
    }

    /// Runs a command with something on its standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> Said {
        Said::of(self.command(arguments), stdin)
    }

    /// Runs a command that must succeed; its standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    /// Runs a command that must succeed with `--json`; its document.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Makes an owner, as a script does.
    pub(crate) fn add_owner(&self, name: &str) {
        self.run_with(
            &["owner", "add", name, "--password-stdin"],
            &format!("{PASSWORD}\n"),
        )
        .ok();
    }

    /// Makes a connector of an owner's, as a script does; its token.
    pub(crate) fn add_connector(&self, owner: &str, name: &str) -> String {
        let label = format!("Label of {name}");
        let said = self.ok(&[
            "connector",
            "add",
            name,
            "--owner",
            owner,
            "--label",
            &label,
            "--data-scope",
            "notes",
        ]);
        said.trim_end().to_owned()
    }

    /// Makes a personal token of an owner's, as a script does.
    pub(crate) fn add_token(&self, owner: &str) -> String {
        self.ok(&["token", "create", "--owner", owner, "--kind", "personal"])
            .trim_end()
            .to_owned()
    }

    /// Makes the script the owner's chief; what it records is in [`Place::record`] of the same name.
    pub(crate) fn set_chief(&self, owner: &str, record: &str, options: &str) {
        let line = format!(
            "python3 -I -S '{CHIEF}' '{}' {options}",
            self.path(record).display()
        );
        self.ok(&[
            "chief",
            "set",
            "--owner",
            owner,
            "--runtime",
            "command",
            "--command",
            &line,
        ]);
    }

    /// What a chief wrote down, in order.
    pub(crate) fn record(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        muster_testkit::whole_lines(&text)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until a chief wrote down `count` lines.
    pub(crate) async fn recorded(&self, name: &str, count: usize) -> Vec<Value> {
        let mut last = Vec::new();
        for _ in 0..6_000 {
            last = self.record(name);
            if last.len() >= count {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} holds {} lines, not {count}: {last:?}", last.len());
    }

    /// Starts the server on a port that the system picks.
    pub(crate) fn serve(&self) -> Server {
        Server::start(self.serving(&["--listen", "127.0.0.1:0"])).unwrap()
    }

    /// The command line of a server.
    pub(crate) fn serving(&self, arguments: &[&str]) -> Command {
        self.command(&[&["serve"], arguments].concat())
    }

    /// Runs a server that must not start; what it said.
    pub(crate) fn refused(&self, arguments: &[&str]) -> Said {
        match Server::start(self.serving(arguments)) {
            Err(said) => said,
            Ok(server) => panic!("it started: {}", server.err.text()),
        }
    }

    /// A raw look at the database.
    pub(crate) async fn look(&self) -> Look {
        match &self.database {
            None => Look::sqlite(&self.data().join("muster.db")).await,
            Some(database) => Look::postgres(&database.admin_url()).await,
        }
    }

    /// Drops the database of a place on Postgres.
    pub(crate) async fn end(mut self) {
        if let Some(database) = self.database.take() {
            database.drop_now().await;
        }
    }
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    fn of(command: Command, stdin: &str) -> Self {
        let done = muster_testkit::fed(command, stdin);
        Self {
            status: done.status,
            out: String::from_utf8(done.stdout).unwrap(),
            err: String::from_utf8(done.stderr).unwrap(),
        }
    }

    /// Its exit code; 128 and more for a signal, as a shell says it.
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap())
    }

    /// Exit code, standard output, standard error.
    pub(crate) fn all(&self) -> (i32, &str, &str) {
        (self.code(), &self.out, &self.err)
    }

    /// Its output, when it succeeded.
    pub(crate) fn ok(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }
}

/// What a process wrote so far.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn follow(&self, mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
        let output = self.0.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                output.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        })
    }

    /// All of it as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// All of it as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Waits until it holds `words`.
    pub(crate) fn says(&self, words: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.text().contains(words) {
            assert!(Instant::now() < end, "{words:?} is not in {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    /// What follows the line that says where it listens.
    pub(crate) out: Output,
    pub(crate) err: Output,
    followers: Vec<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts the command and waits until it listens; what it said when it ended before that.
    pub(crate) fn start(mut command: Command) -> Result<Self, Said> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = (Output::default(), Output::default());
        let mut followers = vec![err.follow(child.stderr.take().unwrap())];
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        if let Some(address) = line.trim_end().strip_prefix("listening on http://") {
            let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
            followers.push(out.follow(stdout));
            return Ok(Self {
                child,
                port,
                out,
                err,
                followers,
            });
        }
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        followers
            .into_iter()
            .for_each(|follower| follower.join().unwrap());
        Err(Said {
            status,
            out: line + &rest,
            err: err.text(),
        })
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The base of its addresses.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Calls without a cookie.
    pub(crate) fn http(&self) -> Http {
        Http::new(&self.url())
    }

    /// A browser that signs in with a form.
    pub(crate) async fn sign_in(&self, name: &str) -> Browser {
        Browser::sign_in(&self.url(), name, PASSWORD).await
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Ends it at once, as a power cut of the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop and waits for its end; how it ended and how long that took.
    pub(crate) fn stop(self) -> (Said, Duration) {
        let begun = Instant::now();
        self.signal(Signal::SIGTERM);
        let said = self.ended();
        (said, begun.elapsed())
    }

    /// Waits for its end, half a minute at most.
    pub(crate) fn ended(mut self) -> Said {
        let end = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it did not end: {}", self.err.text());
            std::thread::sleep(Duration::from_millis(2));
        };
        std::mem::take(&mut self.followers)
            .into_iter()
            .for_each(|follower| follower.join().unwrap());
        Said {
            status,
            out: self.out.text(),
            err: self.err.text(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A plain message.
pub(crate) fn message(external_id: &str) -> Value {
    serde_json::json!({"external_id": external_id, "sender": "Ada <ada@example.test>", "subject": "hello", "body": format!("body of {external_id}"), "sender_verified": true})
}

/// Whether a process runs; one that only waits to be reaped does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Every file and folder below a folder, itself too.
pub(crate) fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
