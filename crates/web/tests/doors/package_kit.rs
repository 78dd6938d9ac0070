//! What the tests of package servers share: packages, agents and their messages. It tests nothing itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_app::accounts;
use muster_core::Clock;
use muster_core::ids::TokenId;
use muster_core::secret::TokenKind;
use muster_plugin_host::{Act, Host, Launcher, Target};
use muster_web::PackageLimits;
use serde_json::{Value, json};

use super::kit::{Answer, Ask, Doors};

/// A server with packages.
pub(crate) struct Packaged {
    pub(crate) doors: Doors,
    pub(crate) host: Host,
}

/// An agent without a task, and the only copy of its token.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) token: String,
    pub(crate) id: TokenId,
}

/// Limits with which a test need not wait long.
pub(crate) fn quick() -> PackageLimits {
    PackageLimits {
        again: Duration::ZERO,
        look: Duration::from_millis(50),
        ..PackageLimits::default()
    }
}

impl Packaged {
    /// Doors whose package servers are started by the launcher alone, since a test program is none.
    pub(crate) fn new(doors: &Doors, limits: PackageLimits) -> Self {
        let launcher = Launcher::new(env!("CARGO_BIN_EXE_muster-web-launch"), Vec::new());
        let web = doors.web.clone().with_packages(launcher, limits);
        Self {
            doors: doors.behind(web),
            host: Host::new(&doors.app.settings.data_dir, Clock::system()),
        }
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.doors.app.settings.data_dir.join(name)
    }

    /// A folder with a package whose server behaves as `words` say.
    pub(crate) fn folder(&self, id: &str, words: &[&str]) -> PathBuf {
        let mut command = vec!["python3", "mcp/server.py"];
        command.extend(words);
        self.folder_of(id, "For tests.", &json!([{"id": "s", "command": command}]))
    }

    pub(crate) fn folder_of(&self, id: &str, description: &str, servers: &Value) -> PathBuf {
        let folder = self.data("sources").join(id);
        fs::create_dir_all(folder.join("mcp")).unwrap();
        fs::create_dir_all(folder.join(".muse-plugin")).unwrap();
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin-host/tests/servers/server.py");
        fs::copy(server, folder.join("mcp/server.py")).unwrap();
        let manifest = json!({
            "schemaVersion": 1, "name": id, "displayName": format!("<b>{id}</b> \u{202e}name"), "version": "1.0.0",
            "description": description, "compat": {"manifestDir": ".muse-plugin"}, "capabilities": {"mcpServers": servers},
        });
        fs::write(folder.join(".muse-plugin/plugin.json"), manifest.to_string()).unwrap();
        folder
    }

    pub(crate) fn decide(&self, id: &str, act: Act) {
        self.host.decide(&Target::parse(id).unwrap(), act, None).unwrap();
    }

    /// Installs and approves a package, and makes the folder in which its server notes what it is told.
    pub(crate) fn approved(&self, id: &str, words: &[&str]) -> PathBuf {
        self.host.install(&self.folder(id, words)).unwrap();
        self.decide(id, Act::Approve);
        let notes = self.host.data_dir(id);
        fs::create_dir_all(&notes).unwrap();
        notes
    }

    pub(crate) fn mode(&self, mode: &str) {
        fs::write(
            self.data("settings.json"),
            json!({"approval_mode": mode}).to_string(),
        )
        .unwrap();
    }

    pub(crate) async fn agent(&self) -> Agent {
        let doors = &self.doors;
        let token = doors.token(doors.ada(), TokenKind::Agent).await;
        let caller = accounts::agent(&doors.app, &token).await.unwrap().unwrap();
        Agent {
            token,
            id: caller.token,
        }
    }

    /// Sends a message and wants JSON back.
    pub(crate) async fn tell(&self, agent: &Agent, id: &str, body: &Value) -> Answer {
        self.doors.send(message(&agent.token, id, body)).await
    }

    pub(crate) async fn ask(&self, agent: &Agent, id: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.tell(agent, id, &body).await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        answer.json()
    }

    pub(crate) async fn call(&self, agent: &Agent, id: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask(agent, id, "tools/call", params).await["result"].clone()
    }

    /// A call that goes on beside the test; its client is gone when it is aborted.
    pub(crate) fn calling(
        &self,
        agent: &Agent,
        id: &str,
        tool: &str,
        arguments: &Value,
    ) -> tokio::task::JoinHandle<Answer> {
        self.doors
            .sending(message(&agent.token, id, &calls(1, tool, arguments)))
    }

    /// The process that serves this agent.
    pub(crate) async fn pid(&self, agent: &Agent, id: &str) -> u64 {
        let found = self.call(agent, id, "environment", json!({})).await;
        found["structuredContent"]["pid"]
            .as_u64()
            .unwrap_or_else(|| panic!("{found}"))
    }

    pub(crate) fn happenings(&self) -> Vec<String> {
        let all = self.host.events().read(&Default::default()).unwrap();
        all.iter()
            .map(|event| {
                let event = serde_json::to_value(event).unwrap();
                let decision = event["decision"].as_str().map(|word| format!(" {word}"));
                event["event"].as_str().unwrap().to_owned() + &decision.unwrap_or_default()
            })
            .collect()
    }
}

/// A call of a tool.
pub(crate) fn calls(id: i64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A message of the days of `initialize` to the server `s` of the package `id`.
pub(crate) fn message(token: &str, id: &str, body: &Value) -> Ask {
    Ask::json(&format!("/packages/{id}/s/mcp"), body)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .bearer(token)
}

/// Whether a process is there and no zombie.
pub(crate) fn runs(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until `done`, half a minute at most: what starts and ends programs may be slow on a busy machine.
pub(crate) async fn within(what: &str, done: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen within half a minute");
}

/// What a server noted, line by line.
pub(crate) fn noted(notes: &Path, name: &str) -> usize {
    fs::read_to_string(notes.join(name))
        .unwrap_or_default()
        .lines()
        .count()
}
