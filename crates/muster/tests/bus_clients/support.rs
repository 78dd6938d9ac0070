//! What these tests share: a bus in a folder, its daemon, a driven SDK client, a scripted model, the texts of the guide. It tests nothing itself.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use muster_testkit::{Model, installed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools");
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of installed tools. Without it a test is skipped, but never where CI runs.
pub(crate) fn tools() -> Option<PathBuf> {
    installed("MUSTER_TEST_TOOLS")
}

/// A bus in a home folder of its own, as `muster init` makes it. Nothing of the caller's environment comes in but `PATH`.
pub(crate) struct Bus {
    folder: TempDir,
}

impl Bus {
    pub(crate) fn new() -> Self {
        let bus = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(bus.home()).unwrap();
        fs::create_dir_all(bus.path("bin")).unwrap();
        symlink(MUSTER, bus.path("bin/muster")).unwrap();
        let said = bus.command(MUSTER, &["init"]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        bus
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a program on this bus's `PATH` under a name.
    pub(crate) fn offer(&self, name: &str, program: &Path) {
        symlink(program, self.path("bin").join(name)).unwrap();
    }

    /// The variables of every process here.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap();
        vec![
            ("PATH".into(), format!("{}:{path}", self.path("bin").display())),
            ("HOME".into(), self.home().display().to_string()),
        ]
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.env());
        command
    }

    /// A new token of an agent.
    pub(crate) fn token(&self, agent: &str) -> String {
        let said = self
            .command(MUSTER, &["bus", "token", "add", agent])
            .output()
            .unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    /// A daemon on this port; 0 picks one.
    pub(crate) fn daemon(&self, port: u16, shared: Option<&str>) -> Daemon {
        let mut command = self.command(MUSTER, &["bus", "serve"]);
        command
            .env("AGENT_COORD_HTTP_PORT", port.to_string())
            .envs(shared.map(|token| ("AGENT_COORD_TOKEN", token)));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let port = loop {
            said.clear();
            assert!(
                err.read_line(&mut said).unwrap() > 0,
                "the daemon did not start: {said}"
            );
            if let Some((_, rest)) = said.split_once("answers on http://127.0.0.1:") {
                break rest.split_once('/').unwrap().0.parse().unwrap();
            }
        };
        // Read on, so that the daemon never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Daemon { child, port }
    }

    /// The posts of `general`, without notices.
    pub(crate) fn posts(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.home().join("agent-coord/room.jsonl")).unwrap_or_default();
        let rows =
            muster_testkit::whole_lines(&text).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        rows.filter(|row| row["system"] != true)
            .map(|row| (word(&row, "from"), word(&row, "text")))
            .collect()
    }
}

/// A running daemon. Dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) port: u16,
}

impl Daemon {
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Ends it with a signal and waits until it is gone.
    pub(crate) fn end(mut self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
        ended(&mut self.child, "the daemon");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: &mut Child, what: &str) -> std::process::ExitStatus {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a program wrote until it ended, standard error after standard output, and whether it succeeded. It may take a minute.
pub(crate) fn finish(bus: &Bus, mut command: Command) -> (bool, String) {
    let (out, err) = (bus.path("out"), bus.path("err"));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap());
    let status = ended(&mut command.spawn().unwrap(), "the program");
    let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    (status.success(), text(out) + &text(err))
}

/// An official client, as the tests drive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    /// `@modelcontextprotocol/sdk`.
    TypeScript,
    /// `@modelcontextprotocol/client`, its successor.
    TypeScript2,
}

/// Each client with each way of opening a connection: by a handshake, and without one where it can.
pub(crate) const CLIENTS: [(Sdk, &str); 5] = [
    (Sdk::Python, "legacy"),
    (Sdk::Python, "auto"),
    (Sdk::TypeScript, "legacy"),
    (Sdk::TypeScript2, "legacy"),
    (Sdk::TypeScript2, "auto"),
];

type Answers = Arc<(Mutex<HashMap<u64, Value>>, Condvar)>;

/// A process that holds sessions of one SDK. It ends with this value.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    answers: Answers,
    last: u64,
}

impl Client {
    pub(crate) fn new(sdk: Sdk, tools: &Path) -> Self {
        let mut command = match sdk {
            Sdk::Python => Command::new(tools.join("venv/bin/python")),
            _ => Command::new(tools.join("npm/node_modules/.bin/node")),
        };
        match sdk {
            Sdk::Python => command.arg(format!("{TOOLS}/bus_client.py")),
            Sdk::TypeScript => command.args([&format!("{TOOLS}/bus_client.mjs"), "--sdk", "v1"]),
            Sdk::TypeScript2 => command.args([&format!("{TOOLS}/bus_client.mjs"), "--sdk", "v2"]),
        };
        command
            .env("MUSTER_TEST_TOOLS", tools)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let answers = Answers::default();
        let told = answers.clone();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let answer: Value = serde_json::from_str(&line).unwrap();
                told.0
                    .lock()
                    .unwrap()
                    .insert(answer["id"].as_u64().unwrap(), answer);
                told.1.notify_all();
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            answers,
            last: 0,
        }
    }

    /// Asks for something; its answer is waited for by its number.
    pub(crate) fn begin(&mut self, op: &str, mut fields: Value) -> u64 {
        self.last += 1;
        fields["id"] = self.last.into();
        fields["op"] = op.into();
        writeln!(self.input.as_mut().unwrap(), "{fields}").unwrap();
        self.last
    }

    pub(crate) fn answer(&self, number: u64) -> Value {
        let (answers, told) = &*self.answers;
        let waiting = answers.lock().unwrap();
        let (mut held, out) = told
            .wait_timeout_while(waiting, PATIENCE, |held| !held.contains_key(&number))
            .unwrap();
        assert!(!out.timed_out(), "request {number} was not answered");
        held.remove(&number).unwrap()
    }

    pub(crate) fn ask(&mut self, op: &str, fields: Value) -> Value {
        let number = self.begin(op, fields);
        self.answer(number)
    }

    /// Opens a session on a process of its own.
    pub(crate) fn stdio(&mut self, bus: &Bus, session: &str, mode: &str) -> Value {
        let env: HashMap<String, String> = bus.env().into_iter().collect();
        self.opened(
            json!({"session": session, "command": [MUSTER, "bus", "serve"], "env": env, "mode": mode}),
        )
    }

    /// Opens a session with a daemon.
    pub(crate) fn http(&mut self, url: &str, token: &str, session: &str, mode: &str) -> Value {
        self.opened(json!({"session": session, "url": url, "token": token, "mode": mode}))
    }

    fn opened(&mut self, how: Value) -> Value {
        let answer = self.ask("open", how);
        assert_eq!(answer["ok"], true, "{answer}");
        answer
    }

    /// Calls a tool and answers what the client made of it.
    pub(crate) fn whole(&mut self, session: &str, tool: &str, arguments: Value) -> Value {
        self.ask(
            "call",
            json!({"session": session, "tool": tool, "arguments": arguments}),
        )
    }

    /// Calls a tool that answers, and answers its body.
    pub(crate) fn call(&mut self, session: &str, tool: &str, arguments: Value) -> Value {
        let answer = self.whole(session, tool, arguments);
        assert_eq!(answer["ok"], true, "{tool}: {answer}");
        answer["body"].clone()
    }
}

impl Client {
    /// Begins a wait of `agent` for direct messages in one session, as far as another one sees it; the number of its answer.
    pub(crate) fn begin_wait(&mut self, session: &str, agent: &str, other: &str) -> u64 {
        let wait = json!({"agentId": agent, "source": "inbox", "timeoutMs": 50_000});
        let call = json!({"session": session, "tool": "wait_for_message", "arguments": wait});
        let waiting = self.begin("call", call);
        let end = Instant::now() + Duration::from_secs(20);
        // Its session is marked as the agent's before it waits.
        while self.call(other, "ping", json!({"to": agent}))["checks"]["session"] != true {
            assert!(Instant::now() < end, "the wait of {agent} did not begin");
        }
        waiting
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The texts of the messages of a read.
pub(crate) fn texts(batch: &Value) -> Vec<&str> {
    let Some(messages) = batch["messages"].as_array() else {
        panic!("no messages: {batch}");
    };
    messages
        .iter()
        .map(|message| message["text"].as_str().unwrap())
        .collect()
}

/// The last of what a model was asked: what the tools answered stands in it.
pub(crate) fn heard(model: &Model) -> String {
    model.asked().pop().unwrap()
}

/// The code blocks of one language below a heading of docs/bus.md, in order, as a reader copies them.
pub(crate) fn guide(heading: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let (_, after) = text.split_once(&format!("\n### {heading}\n")).unwrap();
    let section = after.split("\n#").next().unwrap();
    let fence = format!("```{language}\n");
    section
        .split(&fence)
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// A text of the guide with the address and the token filled in.
pub(crate) fn filled(text: &str, daemon: &Daemon, token: &str) -> String {
    let filled = text
        .replace("HOST:8765", &format!("127.0.0.1:{}", daemon.port))
        .replace("TOKEN", token);
    assert_ne!(
        filled, text,
        "the guide names neither an address nor a token here"
    );
    filled
}
