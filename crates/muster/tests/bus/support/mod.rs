//! What the tests of the bus share: a directory, agents on standard streams and over HTTP, a daemon. It tests nothing itself.

mod http;
mod stdio;

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use http::{Answer, Http, Now, exchange, get, post, runtime};
pub(crate) use stdio::Stdio;

/// The program under test.
pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");
/// A token that all share.
pub(crate) const SHARED: &str = "a-token-that-all-of-them-share";

/// One bus: its directory and the environment of every process on it. Nothing of the caller's environment comes in but PATH.
pub(crate) struct Bus {
    folder: TempDir,
    env: Vec<(String, String)>,
    daemon: Option<Daemon>,
}

impl Bus {
    /// A fresh one, with a transport chosen by the environment and a clock that can be moved.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (dir, clock) = (folder.path().join("bus"), folder.path().join("clock"));
        let bus = Self {
            folder,
            env: Vec::new(),
            daemon: None,
        };
        bus.with("AGENT_COORD_DIR", dir.to_str().unwrap())
            .with("AGENT_COORD_TRANSPORT", "tmux-push-remote")
            .with("MUSTER_TEST_CLOCK", clock.to_str().unwrap())
    }

    /// The same with a variable for every process; an empty value takes it away.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.env.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Sets the clock of every process to `seconds` from the real time.
    pub(crate) fn move_clock(&self, seconds: i64) {
        let fresh = self.path("clock.new");
        std::fs::write(&fresh, seconds.to_string()).unwrap();
        std::fs::rename(fresh, self.path("clock")).unwrap();
    }

    /// A path beside the bus's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path inside the bus's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path("bus").join(name)
    }

    /// A file's text.
    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A file's JSON.
    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// The lines of a log, each of which must be one JSON object.
    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        if !self.file(name).exists() {
            return Vec::new();
        }
        let text = self.text(name);
        assert!(
            text.is_empty() || text.ends_with('\n'),
            "{name} ends in a whole line"
        );
        text.lines()
            .map(|line| {
                let value: Value = serde_json::from_str(line).unwrap();
                assert!(value.is_object(), "{name}: {line}");
                value
            })
            .collect()
    }

    /// Writes a file as another program or a person would.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Every public file with its content: what a call may have changed. The private folder holds locks and what can be rebuilt.
    pub(crate) fn public(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.path("bus");
        let mut found = BTreeMap::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.ends_with(".muster") {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().to_owned();
                    if let Ok(content) = std::fs::read(path) {
                        found.insert(name, content);
                    }
                }
            }
        }
        found
    }

    /// The markers of open sessions that name an agent.
    pub(crate) fn markers(&self, agent: &str) -> Vec<Value> {
        let files = std::fs::read_dir(self.file("sessions")).into_iter().flatten();
        files
            // One that ends meanwhile is gone.
            .filter_map(|entry| std::fs::read(entry.unwrap().path()).ok())
            .map(|content| serde_json::from_slice::<Value>(&content).unwrap())
            .filter(|marker| marker["agentId"] == agent)
            .collect()
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
            .env("HOME", self.path("home"))
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments))
    }

    /// Mints an agent's token.
    pub(crate) fn mint(&self, agent: &str) -> String {
        let said = self.run(&["bus", "token", "add", agent]);
        assert!(said.status.success(), "{said:?}");
        said.out.trim_end().to_owned()
    }

    /// A session on standard streams, of a process of its own.
    pub(crate) fn stdio(&self) -> Stdio {
        self.stdio_with(&[])
    }

    /// The same with more environment.
    pub(crate) fn stdio_with(&self, env: &[(&str, &str)]) -> Stdio {
        let mut command = self.command(&["bus", "serve"]);
        command.envs(env.iter().copied());
        Stdio::start(command)
    }

    /// Runs a session on standard streams that must not start; what it said.
    pub(crate) fn stdio_refused(&self, env: &[(&str, &str)]) -> Said {
        let mut command = self.command(&["bus", "serve"]);
        command.envs(env.iter().copied());
        Said::of(command)
    }

    /// The command line of a daemon, on a port that the system picks.
    pub(crate) fn serving(&self, env: &[(&str, &str)]) -> Command {
        let mut command = self.command(&["bus", "serve"]);
        command
            .env("AGENT_COORD_HTTP_PORT", "0")
            .envs(env.iter().copied());
        command
    }

    /// A daemon under the shared token.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_with(&[("AGENT_COORD_TOKEN", SHARED)])
    }

    /// A daemon with this environment.
    pub(crate) fn daemon_with(&self, env: &[(&str, &str)]) -> Daemon {
        Daemon::start(self.serving(env)).unwrap_or_else(|said| panic!("{said:?}"))
    }

    /// Runs a server that must not start; what it said.
    pub(crate) fn refused(&self, env: &[(&str, &str)]) -> Said {
        match Daemon::start(self.serving(env)) {
            Err(said) => said,
            Ok(daemon) => panic!("it started: {}", daemon.err.text()),
        }
    }

    /// A new agent by the door under test.
    pub(crate) fn agent(&self) -> Box<dyn Calls> {
        match &self.daemon {
            None => Box::new(self.stdio()),
            Some(daemon) => Box::new(daemon.session(SHARED)),
        }
    }

    /// A new agent by the door under test, joined.
    pub(crate) fn joined(&self, id: &str) -> Box<dyn Calls> {
        let agent = self.agent();
        agent.ok("join", serde_json::json!({"agentId": id}));
        agent
    }
}

/// The same law for agents on standard streams and for agents over HTTP under a shared token.
pub(crate) fn by_both_doors(law: impl Fn(&Bus)) {
    eprintln!("by standard streams");
    law(&Bus::new());
    eprintln!("by HTTP");
    let mut bus = Bus::new();
    bus.daemon = Some(bus.daemon());
    law(&bus);
}

/// What answers calls of tools.
pub(crate) trait Calls: Send + Sync {
    /// Sends a request of any method and waits for nothing.
    fn begin(&self, method: &str, params: Value) -> Pending;

    /// Takes a request back, as a client does that waits no more.
    fn cancel(&self, pending: &Pending);

    /// Sends a call and waits for its answer.
    fn call(&self, tool: &str, arguments: Value) -> Got {
        self.wait(tool, arguments).end()
    }

    /// Sends a call and does not wait.
    fn wait(&self, tool: &str, arguments: Value) -> Pending {
        self.begin(
            "tools/call",
            serde_json::json!({"name": tool, "arguments": arguments}),
        )
    }

    /// What a call says that must succeed.
    fn ok(&self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).ok()
    }

    /// The sentence of a call that must be refused with this code.
    fn refused(&self, tool: &str, arguments: Value, code: &str) -> String {
        self.call(tool, arguments).refused(code)
    }
}

/// A request under way.
pub(crate) struct Pending {
    pub(crate) id: u64,
    answer: std::sync::mpsc::Receiver<Value>,
}

impl Pending {
    /// Waits for the answer of a call, longer than any wait lasts.
    pub(crate) fn end(self) -> Got {
        Got::of(&self.message())
    }

    /// The same for any method: the whole message.
    pub(crate) fn message(self) -> Value {
        self.answer
            .recv_timeout(Duration::from_secs(75))
            .unwrap_or_else(|_| panic!("request {} was not answered", self.id))
    }

    /// Whether nothing came yet.
    pub(crate) fn silent_for(&self, time: Duration) -> bool {
        self.answer.recv_timeout(time).is_err()
    }
}

/// The answer to a call.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    /// The tool's own answer; null after a protocol error.
    pub(crate) body: Value,
    /// The protocol's mark of a failure.
    pub(crate) failed: bool,
    /// The protocol's error, when the call reached no tool.
    pub(crate) error: Value,
}

impl Got {
    fn of(message: &Value) -> Self {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        if message.get("error").is_some() {
            return Self {
                body: Value::Null,
                failed: true,
                error: message["error"].clone(),
            };
        }
        let result = &message["result"];
        // What a client reads that knows no structured content.
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.len(), 1, "{message}");
        let text: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "both forms say the same");
        Self {
            body: text,
            failed: result["isError"] == true,
            error: Value::Null,
        }
    }

    /// What it says, when it succeeded.
    pub(crate) fn ok(self) -> Value {
        assert!(self.body["ok"] == true && !self.failed, "{self:?}");
        self.body
    }

    fn sentence(&self, code: &str) -> String {
        assert_eq!(
            (&self.body["ok"], &self.body["code"]),
            (&Value::Bool(false), &Value::from(code)),
            "{self:?}"
        );
        let sentence = self.body["error"].as_str().unwrap().to_owned();
        assert!(sentence.len() > 12 && sentence.contains(' '), "{sentence}");
        assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
        sentence
    }

    /// The sentence of a refusal with this code.
    pub(crate) fn refused(self, code: &str) -> String {
        assert!(!self.failed, "{self:?}");
        self.sentence(code)
    }

    /// The sentence of what broke or could not be read, with this code.
    pub(crate) fn broke(self, code: &str) -> String {
        assert!(self.failed, "{self:?}");
        self.sentence(code)
    }
}

/// The texts of the messages in an answer.
pub(crate) fn texts(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap_or_else(|| panic!("{body}"));
    messages
        .iter()
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(mut command: Command) -> Self {
        Self::from(command.stdin(Pipe::null()).output().unwrap())
    }

    /// Of a command with something on its standard input.
    pub(crate) fn fed(command: Command, input: &str) -> Self {
        Self::from(muster_testkit::fed(command, input))
    }
}

impl From<std::process::Output> for Said {
    fn from(done: std::process::Output) -> Self {
        Self {
            status: done.status,
            out: String::from_utf8(done.stdout).unwrap(),
            err: String::from_utf8(done.stderr).unwrap(),
        }
    }
}

/// What a process wrote so far.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub(crate) fn follow(&self, mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
        let output = self.0.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                output.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Waits until it holds `words`.
    pub(crate) fn says(&self, words: &str) {
        until(&format!("{words:?} in what it says"), || {
            self.text().contains(words)
        });
    }
}

/// Waits until something is so, a minute at most.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process of ours. Dropping it kills it.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// One that only lasts.
    pub(crate) fn lasting() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .stdin(Pipe::null())
                .spawn()
                .unwrap(),
        )
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it did not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running HTTP daemon.
pub(crate) struct Daemon {
    pub(crate) process: Process,
    pub(crate) err: Output,
    pub(crate) out: Output,
    /// Where it says that it listens.
    pub(crate) addresses: Vec<String>,
    followers: Vec<std::thread::JoinHandle<()>>,
}

impl Daemon {
    /// Starts the command and waits until it says where it listens; what it said when it ended before that.
    pub(crate) fn start(mut command: Command) -> Result<Self, Said> {
        let mut process = Process(
            command
                .stdin(Pipe::null())
                .stdout(Pipe::piped())
                .stderr(Pipe::piped())
                .spawn()
                .unwrap(),
        );
        let (out, err) = (Output::default(), Output::default());
        let followers = vec![
            err.follow(process.0.stderr.take().unwrap()),
            out.follow(process.0.stdout.take().unwrap()),
        ];
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let said = err.text();
            let found: Vec<String> = said
                .lines()
                .filter_map(|line| line.split_once("the bus answers on http://"))
                .filter_map(|(_, rest)| rest.split_once("/mcp (process "))
                .map(|(address, _)| address.to_owned())
                .collect();
            // The lines of all addresses are written at once.
            if !found.is_empty() && said.ends_with('\n') {
                return Ok(Self {
                    process,
                    err,
                    out,
                    addresses: found,
                    followers,
                });
            }
            if let Some(status) = process.0.try_wait().unwrap() {
                followers
                    .into_iter()
                    .for_each(|follower| follower.join().unwrap());
                return Err(Said {
                    status,
                    out: out.text(),
                    err: err.text(),
                });
            }
            assert!(Instant::now() < end, "neither started nor ended: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The port of its first address.
    pub(crate) fn port(&self) -> u16 {
        self.addresses[0].rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Its MCP endpoint on loopback.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port())
    }

    /// A session of the revisions that have sessions.
    pub(crate) fn session(&self, token: &str) -> Http {
        Http::connect(&self.url(), token)
    }

    /// A client of the revision that has none.
    pub(crate) fn now(&self, token: &str) -> Now {
        Now::new(&self.url(), token)
    }

    /// Ends it as an operator does; how it ended, what it said and how long that took.
    pub(crate) fn stop(self) -> (Said, Duration) {
        self.process.signal(Signal::SIGTERM);
        self.stop_after()
    }

    /// The same after another signal was sent.
    pub(crate) fn stop_after(mut self) -> (Said, Duration) {
        let begun = Instant::now();
        let status = self.process.ended();
        let took = begun.elapsed();
        std::mem::take(&mut self.followers)
            .into_iter()
            .for_each(|follower| follower.join().unwrap());
        let said = Said {
            status,
            out: self.out.text(),
            err: self.err.text(),
        };
        (said, took)
    }
}

/// Appends to a file as another program does.
pub(crate) fn append(path: &Path, text: &str) {
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
