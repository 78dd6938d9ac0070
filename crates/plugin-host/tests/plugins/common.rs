//! What the tests share: packages, a host in a folder of its own, and an agent at the other end of a session. Never reaches outside its folder.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use muster_core::Clock;
use muster_plugin_host::session::{Again, Approver, Ask, Nobody, Options, Verdict, serve};
use muster_plugin_host::{Act, Budgets, Host, Launcher, ServerKey, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Python itself, not a shim that sets variables of its own.
pub(crate) fn python() -> String {
    let print = ["-c", "import sys; print(sys.executable)"];
    let found = std::process::Command::new("python3")
        .args(print)
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

pub(crate) fn launcher() -> Launcher {
    Launcher::new(env!("CARGO_BIN_EXE_muster-plugin-launch"), Vec::<OsString>::new())
}

/// A data folder, a project's folder, a home, and packages beside them.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) host: Host,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "home", "project"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let host = Host::new(&dir.path().join("data"), Clock::system());
        Self { dir, host }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A package whose server is tests/servers/server.py in the given mood.
    pub(crate) fn package(&self, id: &str, words: &[&str]) -> PathBuf {
        let mut command = vec!["python3", "mcp/server.py"];
        command.extend(words);
        self.package_with(id, &json!([{"id": "s", "command": command}]))
    }

    pub(crate) fn package_with(&self, id: &str, servers: &Value) -> PathBuf {
        let folder = self.path("packages").join(id);
        fs::create_dir_all(folder.join("mcp")).unwrap();
        fs::create_dir_all(folder.join(".muse-plugin")).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/server.py");
        let server = folder.join("mcp/server.py");
        assert!(!server.is_symlink(), "it would be written through");
        fs::copy(own, server).unwrap();
        let manifest = json!({
            "schemaVersion": 1, "name": id, "version": "1.0.0", "description": "For tests.",
            "compat": {"manifestDir": ".muse-plugin"}, "capabilities": {"mcpServers": servers},
        });
        fs::write(folder.join(".muse-plugin/plugin.json"), manifest.to_string()).unwrap();
        folder
    }

    pub(crate) fn approve(&self, id: &str) {
        self.host
            .decide(&Target::Plugin(id.to_owned()), Act::Approve, None)
            .unwrap();
    }

    /// Installs and approves a package with the test server in it.
    pub(crate) fn installed(&self, id: &str, words: &[&str]) -> ServerKey {
        self.host.install(&self.package(id, words)).unwrap();
        self.approve(id);
        ServerKey::new(id, "s")
    }

    pub(crate) fn settings(&self, value: &Value) {
        fs::write(self.path("data/settings.json"), value.to_string()).unwrap();
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            session: "session-1".to_owned(),
            dir: self.path("project"),
            launcher: launcher(),
            approver: Arc::new(Nobody),
            budgets: Budgets {
                framing: Duration::from_secs(2),
                ..Budgets::default()
            },
        }
    }

    pub(crate) fn agent(&self, key: &ServerKey) -> Agent {
        self.agent_with(key, self.options())
    }

    pub(crate) fn agent_with(&self, key: &ServerKey, options: Options) -> Agent {
        Agent::new(self.host.ready(key).unwrap(), options)
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let all = self.host.events().read(&Default::default()).unwrap();
        all.iter()
            .map(|event| serde_json::to_value(event).unwrap())
            .collect()
    }

    /// The happenings, each as one word with its decision.
    pub(crate) fn happenings(&self) -> Vec<String> {
        let word = |event: &Value| {
            let decision = event["decision"]
                .as_str()
                .map(|d| format!(" {d}"))
                .unwrap_or_default();
            event["event"].as_str().unwrap().to_owned() + &decision
        };
        self.events().iter().map(word).collect()
    }
}

/// The other end of a session.
pub(crate) struct Agent {
    input: Option<WriteHalf<DuplexStream>>,
    output: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) session: JoinHandle<()>,
    pub(crate) others: VecDeque<Value>,
    next: u64,
}

impl Agent {
    pub(crate) fn new(ready: muster_plugin_host::Ready, options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let session = tokio::spawn(serve(ready, options, input, output));
        Self::over(ours, session)
    }

    pub(crate) fn over(stream: DuplexStream, session: JoinHandle<()>) -> Self {
        let (output, input) = tokio::io::split(stream);
        Self {
            input: Some(input),
            output: BufReader::new(output),
            session,
            others: VecDeque::new(),
            next: 100,
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, message: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(message.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn next_text(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(60), self.output.read_line(&mut line)).await;
        assert!(
            read.expect("a message within a minute").unwrap() > 0,
            "the session ended"
        );
        line
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).unwrap()
    }

    /// The answer to `id`; what comes before it is kept in `others`.
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        if let Some(at) = self
            .others
            .iter()
            .position(|m| m.get("method").is_none() && m["id"] == *id)
        {
            return self.others.remove(at).unwrap();
        }
        loop {
            let message = self.next().await;
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
            self.others.push_back(message);
        }
    }

    pub(crate) async fn start(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = json!(self.next);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.answer(&id).await
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "test", "version": "1"}});
        let answer = self.ask("initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer["result"].clone()
    }

    pub(crate) async fn tools(&mut self) -> Vec<Value> {
        let answer = self.ask("tools/list", json!({})).await;
        answer["result"]["tools"]
            .as_array()
            .expect("a list of tools")
            .clone()
    }

    pub(crate) async fn names(&mut self) -> Vec<String> {
        let tools = self.tools().await;
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self
            .ask("tools/call", json!({"name": tool, "arguments": arguments}))
            .await;
        answer["result"].clone()
    }

    /// Closes the stream and waits for the session's end.
    pub(crate) async fn close(mut self) {
        drop(self.input.take());
        // The other half holds the stream open.
        drop(self.output);
        timeout(Duration::from_secs(30), self.session)
            .await
            .expect("an end")
            .unwrap();
    }

    /// Closes the sending half and gives what still comes.
    pub(crate) async fn hang_up(mut self) -> Vec<Value> {
        self.input.take().unwrap().shutdown().await.unwrap();
        let mut rest = Vec::new();
        let mut line = String::new();
        while timeout(Duration::from_secs(30), self.output.read_line(&mut line))
            .await
            .unwrap()
            .unwrap()
            > 0
        {
            rest.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        timeout(Duration::from_secs(30), self.session)
            .await
            .expect("an end")
            .unwrap();
        rest
    }
}

/// Decides as it is told, and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) verdict: Verdict,
    pub(crate) after: Duration,
    pub(crate) asks: Arc<Mutex<Vec<Ask>>>,
    pub(crate) withdrawn: Arc<Mutex<usize>>,
}

impl Told {
    pub(crate) fn new(verdict: Verdict) -> Self {
        Self {
            verdict,
            after: Duration::ZERO,
            asks: Arc::default(),
            withdrawn: Arc::default(),
        }
    }
}

struct Withdrawn(Arc<Mutex<usize>>, bool);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        if self.1 {
            *self.0.lock().unwrap() += 1;
        }
    }
}

impl Approver for Told {
    fn ask<'a>(&'a self, ask: Ask, _again: Again<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            self.asks.lock().unwrap().push(ask);
            let mut open = Withdrawn(self.withdrawn.clone(), true);
            tokio::time::sleep(self.after).await;
            open.1 = false;
            self.verdict.clone()
        })
    }
}

/// Whether a process is there and no zombie.
pub(crate) fn runs(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: u64, within: Duration) -> bool {
    let until = tokio::time::Instant::now() + within;
    while runs(pid) {
        if tokio::time::Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}
