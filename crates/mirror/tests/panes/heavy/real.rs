//! The real Claude Code in a pane of its own, with a scripted model in place of a real one. Nothing leaves the machine.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_testkit::{Model, claude, claude_env};
use serde_json::{Value, json};

use crate::support::{Tmux, wait};

/// Whether a model was asked something with these words under a name of its requests, within a few seconds.
pub(crate) fn is_asked(model: &Model, name: &str, words: &str) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if asked(model, name)
            .last()
            .is_some_and(|asked| asked.contains(words))
        {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// What stood under a name in each request that offered tools, as JSON text.
pub(crate) fn asked(model: &Model, name: &str) -> Vec<String> {
    model
        .requests()
        .iter()
        .map(|body| body[name].to_string())
        .collect()
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
        let program = claude()?.display().to_string();
        let model = Model::new(tmux.folder.path(), name, steps);
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
        let config = folder.display().to_string();
        let own = claude_env(model.port);
        let mut env: Vec<(&str, &str)> = own
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        env.extend([("HOME", home.as_str()), ("CLAUDE_CONFIG_DIR", config.as_str())]);
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

    /// Waits until it is idle and has nothing more to publish: what it writes next is not written over.
    pub(crate) fn settles(&self) {
        self.idle();
        let mut before = self.session();
        wait("a session that says nothing new", || {
            std::thread::sleep(Duration::from_millis(500));
            let now = self.session();
            std::mem::replace(&mut before, now.clone()) == now && self.status() == "idle"
        });
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
        asked(&self.model, "messages")
    }

    /// Whether the model was asked something with these words within a few seconds.
    pub(crate) fn is_asked(&self, words: &str) -> bool {
        is_asked(&self.model, "messages", words)
    }
}
