//! The real Claude Code in a pane of its own, with a scripted model in place of a real one. Nothing leaves the machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Tmux, lines, wait};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools");

/// Claude Code. Without it a test is skipped, but never where CI runs.
pub(crate) fn program() -> Option<PathBuf> {
    let found = std::env::var_os("MUSTER_TEST_CLAUDE").map(PathBuf::from);
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_CLAUDE is not set: ./test installs Claude Code and sets it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_CLAUDE is not set (./test sets it)");
    }
    found
}

/// The scripted model; it ends with this value.
pub(crate) struct Model {
    process: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Model {
    pub(crate) fn new(tmux: &Tmux, name: &str, steps: &Value) -> Self {
        let (script, log) = (
            tmux.path(&format!("{name}.steps")),
            tmux.path(&format!("{name}.log")),
        );
        fs::write(&script, steps.to_string()).unwrap();
        let mut command = Command::new("python3");
        command
            .arg(format!("{TOOLS}/fake_model.py"))
            .arg("--script")
            .arg(&script);
        let mut process = command
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Self { process, port, log }
    }
}

impl Model {
    /// What stood under a name in each request that offered tools, as JSON text.
    pub(crate) fn asked(&self, name: &str) -> Vec<String> {
        lines(&self.log)
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|request| request["door"] == "model" && request["body"]["tools"][0].is_object())
            .map(|request| request["body"][name].to_string())
            .collect()
    }

    /// Whether it was asked something with these words within a few seconds.
    pub(crate) fn is_asked(&self, name: &str, words: &str) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if self.asked(name).last().is_some_and(|asked| asked.contains(words)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A session in a pane.
pub(crate) struct Claude<'a> {
    tmux: &'a Tmux,
    pub(crate) pane: String,
    pub(crate) folder: PathBuf,
    model: Model,
}

/// How one is started.
#[derive(Default)]
pub(crate) struct How<'a> {
    pub(crate) words: &'a [&'a str],
    pub(crate) env: &'a [(&'a str, &'a str)],
    /// It has not been told that its folder may be trusted.
    pub(crate) strange: bool,
    /// Its keys are vim's.
    pub(crate) vim: bool,
    /// It is started by this.
    pub(crate) below: &'a [&'a str],
}

impl<'a> Claude<'a> {
    /// Starts one and waits until it is idle.
    pub(crate) fn new(tmux: &'a Tmux, name: &str, steps: &Value) -> Option<Self> {
        let claude = Self::with(tmux, name, steps, &How::default())?;
        claude.idle();
        Some(claude)
    }

    pub(crate) fn with(tmux: &'a Tmux, name: &str, steps: &Value, how: &How<'_>) -> Option<Self> {
        let program = program()?.display().to_string();
        let model = Model::new(tmux, name, steps);
        let (home, work) = (
            tmux.path(&format!("{name}-home")),
            tmux.path(&format!("{name}-work")),
        );
        let folder = home.join(".claude");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&work).unwrap();
        let key = "sk-ant-dummy-000";
        let mut settings = json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [key], "rejected": []},
            "bypassPermissionsModeAccepted": true,
            "projects": {}
        });
        if !how.strange {
            settings["projects"][work.display().to_string()] =
                json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
        }
        fs::write(folder.join(".claude.json"), settings.to_string()).unwrap();
        if how.vim {
            fs::write(folder.join("settings.json"), r#"{"editorMode": "vim"}"#).unwrap();
        }
        let (home, work) = (home.display().to_string(), work.display().to_string());
        let (url, config) = (
            format!("http://127.0.0.1:{}", model.port),
            folder.display().to_string(),
        );
        let mut env = vec![
            ("HOME", home.as_str()),
            ("CLAUDE_CONFIG_DIR", config.as_str()),
            ("ANTHROPIC_BASE_URL", url.as_str()),
            ("ANTHROPIC_API_KEY", key),
            ("LANG", "C.UTF-8"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_BUG_COMMAND", "1"),
            ("DISABLE_COST_WARNINGS", "1"),
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "0"),
            ("ENABLE_TOOL_SEARCH", "false"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ];
        env.extend(how.env);
        let mut words = vec!["env", "-C", &work];
        words.extend(how.below);
        words.extend([&program, "--model", "claude-sonnet-4-5"]);
        words.extend(how.words);
        let pane = tmux.start(name, &env, &words);
        Some(Self {
            tmux,
            pane,
            folder,
            model,
        })
    }

    /// What it publishes of itself.
    pub(crate) fn session(&self) -> Option<Value> {
        let files = fs::read_dir(self.folder.join("sessions")).ok()?;
        let file = files
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "json"))?;
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    pub(crate) fn status(&self) -> String {
        self.session()
            .and_then(|session| session["status"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    pub(crate) fn idle(&self) {
        wait("an idle session", || self.status() == "idle" && self.shows("❯"));
    }

    pub(crate) fn becomes(&self, status: &str) {
        wait(status, || self.status() == status);
    }

    pub(crate) fn shows(&self, words: &str) -> bool {
        self.tmux.screen(&self.pane).contains(words)
    }

    /// Types as a person does and waits until it shows.
    pub(crate) fn types(&self, words: &str) {
        self.tmux.keys(&self.pane, words);
        wait(words, || self.shows(words.trim_start_matches('!')));
    }

    pub(crate) fn key(&self, key: &str) {
        self.tmux.run(&["send-keys", "-t", &self.pane, key]);
    }

    /// What the model was asked in each request that offered tools, as JSON text.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.model.asked("messages")
    }

    /// Whether the model was asked something with these words within a few seconds.
    pub(crate) fn is_asked(&self, words: &str) -> bool {
        self.model.is_asked("messages", words)
    }
}
