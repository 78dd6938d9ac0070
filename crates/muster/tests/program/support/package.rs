//! A plugin package on disk, and a client of `muster plugins serve`. It tests nothing itself.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{Place, Said};

/// A server of tools in Python's standard library; its argument says how it behaves.
const SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugin-host/tests/servers/server.py"
);
/// The packages for authors to begin from.
pub(crate) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/plugins");
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Place {
    /// A package with one server `s`, which runs this command; it may name `mcp/server.py`.
    pub(crate) fn package(&self, id: &str, command: &[&str]) -> PathBuf {
        let folder = self.path("packages").join(id);
        std::fs::create_dir_all(folder.join("mcp")).unwrap();
        std::fs::create_dir_all(folder.join(".muse-plugin")).unwrap();
        std::fs::copy(SERVER, folder.join("mcp/server.py")).unwrap();
        let manifest = json!({
            "schemaVersion": 1, "name": id, "version": "1.0.0", "description": "A package.",
            "compat": {"manifestDir": ".muse-plugin"},
            "capabilities": {"mcpServers": [{"id": "s", "command": command}]},
        });
        std::fs::write(folder.join(".muse-plugin/plugin.json"), manifest.to_string()).unwrap();
        folder
    }

    /// The same with the server of the tests in this mood, installed and approved.
    pub(crate) fn approved(&self, id: &str, mood: &str) {
        let folder = self.package(id, &["python3", "mcp/server.py", mood]);
        self.ok(&["plugins", "install", &folder.display().to_string()]);
        self.ok(&["plugins", "approve", id]);
    }

    pub(crate) fn settings(&self, settings: &Value) {
        std::fs::create_dir_all(self.data()).unwrap();
        std::fs::set_permissions(self.data(), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(self.data().join("settings.json"), settings.to_string()).unwrap();
    }

    /// A client of one server of a package.
    pub(crate) fn client(&self, server: &str, more: &[&str]) -> Client {
        Client::start(self.command(&[&["plugins", "serve", server], more].concat()))
    }

    /// The error document of a command that must be refused.
    pub(crate) fn error(&self, args: &[&str]) -> Value {
        let said: Said = self.run(&[args, &["--json"]].concat());
        assert_eq!(said.code(), 1, "{args:?}: {said:?}");
        assert!(said.err.starts_with("muster: "), "{said:?}");
        let document: Value = serde_json::from_str(&said.out).unwrap();
        document["error"].clone()
    }

    /// Somebody who watches the asks until it is dropped.
    pub(crate) fn watcher(&self) -> Watcher {
        let mut child = self
            .command(&["asks", "watch", "--json"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "watching\n");
        Watcher(child)
    }

    /// The asks in a state, as soon as there are `count`.
    pub(crate) fn asks(&self, state: &str, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        until(|| {
            let asks = self.json(&["asks", "list", "--state", state]);
            found = asks.as_array().unwrap().clone();
            found.len() == count
        });
        found
    }

    /// The decisions about calls in the event log, oldest first.
    pub(crate) fn decisions(&self) -> Vec<String> {
        let events = self.json(&["plugins", "log"]);
        events
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["event"] == "call")
            .map(|event| event["decision"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Waits until something holds.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "it never came to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there and no mere entry of one that ended.
pub(crate) fn runs(pid: i64) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// `muster asks watch`.
pub(crate) struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// An agent's client at the other end of a proxy.
pub(crate) struct Client {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
    answers: HashMap<u64, Value>,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if line.map(|line| tell.send(line)).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            next: 1,
            answers: HashMap::new(),
        }
    }

    fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            let line = self.lines.recv_timeout(PATIENCE).expect("no answer came");
            let message: Value = serde_json::from_str(&line).unwrap();
            if let (Some(id), true) = (message["id"].as_u64(), message.get("method").is_none()) {
                self.answers.insert(id, message);
            }
        }
    }

    /// Greets the server as clients do; what it answered.
    pub(crate) fn greet(&mut self) -> Value {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let id = self.send("initialize", &hello);
        let answer = self.answer(id)["result"].clone();
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    pub(crate) fn tools(&mut self) -> Vec<Value> {
        let id = self.send("tools/list", &json!({}));
        self.answer(id)["result"]["tools"].as_array().unwrap().clone()
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// A call to its end.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer(id)["result"].clone()
    }

    /// Ends the input, as a client does that is done; how the proxy ended.
    pub(crate) fn leave(mut self) -> i32 {
        drop(self.stdin.take());
        let mut code = None;
        until(|| {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, signal).unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
