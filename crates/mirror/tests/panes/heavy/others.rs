//! Deliveries to the real Codex and the real Gemini CLI, with a scripted model in place of a real one. Nothing leaves the machine.

use std::fs;
use std::path::{Path, PathBuf};

use muster_bus::push::{ControlCommand, Door, Outcome, Transport as _, Why};
use muster_mirror::{Server, Settings, TmuxPanes};
use muster_testkit::{Model, installed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::real::{asked as asked_of, is_asked};
use crate::support::{PASTED, Tmux, command, held, insist, text, wait};

/// The folder of installed tools. Without it a test is skipped, but never where CI runs.
fn tools() -> Option<PathBuf> {
    installed("MUSTER_TEST_TOOLS")
}

/// A program in a pane, and all that it started.
struct Other<'a> {
    tmux: &'a Tmux,
    pane: String,
    home: PathBuf,
    model: Model,
}

impl<'a> Other<'a> {
    fn new(
        tmux: &'a Tmux,
        tools: &Path,
        name: &str,
        env: &[(&str, &str)],
        settings: impl Fn(&Path, &str),
    ) -> Self {
        let go = tmux.path("go").display().to_string();
        let model = Model::new(
            tmux.folder.path(),
            name,
            &json!([{"text": "done"}, {"text": "done", "when": go}, {"text": "done"}]),
        );
        let (home, work) = (tmux.path("home"), tmux.path("work"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&work).unwrap();
        let url = model.url();
        settings(&home, &url);
        let programs = tools.join("npm/node_modules/.bin");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let home_name = home.display().to_string();
        let mut all = vec![
            ("HOME", home_name.as_str()),
            ("PATH", path.as_str()),
            ("LANG", "C.UTF-8"),
            ("GOOGLE_GEMINI_BASE_URL", url.as_str()),
        ];
        all.extend(env);
        let (work, program) = (
            work.display().to_string(),
            programs.join(name).display().to_string(),
        );
        let pane = tmux.start(name, &all, &["env", "-C", &work, &program]);
        Self {
            tmux,
            pane,
            home,
            model,
        }
    }

    fn shows(&self, words: &str) -> bool {
        self.tmux.screen(&self.pane).contains(words)
    }
}

impl Drop for Other<'_> {
    /// Codex leaves a server behind that does not end with its pane.
    fn drop(&mut self) {
        let home = format!("HOME={}", self.home.display());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let mine = environment
                .split(|byte| *byte == 0)
                .any(|pair| pair == home.as_bytes());
            if let (true, Ok(pid)) = (mine, entry.file_name().to_string_lossy().parse()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

fn codex<'a>(tmux: &'a Tmux, tools: &Path) -> Other<'a> {
    let other = Other::new(tmux, tools, "codex", &[("SCRIPTED_KEY", "dummy")], |home, url| {
        let folder = home.join(".codex");
        fs::create_dir_all(&folder).unwrap();
        let work = home.parent().unwrap().join("work");
        let settings = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n\
             check_for_update_on_startup = false\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{url}/v1\"\nenv_key = \"SCRIPTED_KEY\"\n\
             wire_api = \"responses\"\n[analytics]\nenabled = false\n[feedback]\nenabled = false\n[otel]\nexporter = \"none\"\n\
             [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
            work.display()
        );
        fs::write(folder.join("config.toml"), settings).unwrap();
    });
    wait("Codex's input", || other.shows("Ask Codex to do anything"));
    other
}

fn gemini<'a>(tmux: &'a Tmux, tools: &Path) -> Other<'a> {
    let env = [
        ("GEMINI_API_KEY", "dummy"),
        ("GEMINI_TELEMETRY_ENABLED", "false"),
        ("NO_BROWSER", "1"),
    ];
    let other = Other::new(tmux, tools, "gemini", &env, |home, _| {
        fs::create_dir_all(home.join(".gemini")).unwrap();
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false},
            "general": {"enableAutoUpdate": false}
        });
        fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
    });
    wait("Gemini CLI's input", || other.shows("Type your message"));
    other
}

/// One text of a few lines, one while it is at work, one of many lines, and a draft between them.
fn takes_texts(other: &Other<'_>, asked: &str) {
    let panes = TmuxPanes::new(Server::Named(other.tmux.name.clone()), Settings::default());
    let paste = |token: &str, body: &str| {
        let outcome = insist(&panes, &other.pane, &text(token, body));
        assert_eq!(outcome, PASTED, "{}", other.tmux.screen(&other.pane));
    };
    let reload = || panes.deliver(&other.pane, &command(ControlCommand::ReloadSkills));
    paste("t-0001", "# one\n# two\n/clear\n! touch x");
    assert!(is_asked(&other.model, asked, "t-0001"));
    paste("t-0002", "# this takes a while");
    assert!(is_asked(&other.model, asked, "t-0002"));
    assert_eq!(
        held(&panes.deliver(&other.pane, &text("t-0003", "# not yet"))),
        Why::Busy
    );
    fs::write(other.tmux.path("go"), "").unwrap();
    let long: Vec<String> = (0..60)
        .map(|line| format!("# line {line} of a long text"))
        .collect();
    paste("t-0003", &long.join("\n"));
    assert!(is_asked(&other.model, asked, "line 59 of a long text"));
    wait("the end of the turn", || held(&reload()) != Why::Busy);
    other.tmux.keys(&other.pane, "half a thought");
    wait("the draft", || other.shows("half a thought"));
    assert_eq!(
        held(&panes.deliver(&other.pane, &text("t-0004", "# hello"))),
        Why::Draft
    );
    for _ in 0.."half a thought".len() {
        other.tmux.run(&["send-keys", "-t", &other.pane, "BSpace"]);
    }
    let cleared = insist(&panes, &other.pane, &command(ControlCommand::Clear));
    assert!(
        matches!(cleared, Outcome::Delivered { door: Door::Keys, .. }),
        "{cleared:?}"
    );
    // It has no such command and would take it for a message.
    wait(
        "an empty input",
        || matches!(reload(), Outcome::Held(hold) if hold.detail.contains("no command")),
    );
    paste("t-0005", "# afterwards");
    assert!(is_asked(&other.model, asked, "t-0005"));
    let last = asked_of(&other.model, asked).pop().unwrap();
    assert!(!last.contains("t-0001"), "it was cleared");
}

#[test]
fn codex_takes_texts_and_commands() {
    let Some(tools) = tools() else { return };
    let tmux = Tmux::new();
    let other = codex(&tmux, &tools);
    takes_texts(&other, "input");
}

#[test]
fn gemini_cli_takes_texts_and_commands() {
    let Some(tools) = tools() else { return };
    let tmux = Tmux::new();
    let other = gemini(&tmux, &tools);
    takes_texts(&other, "contents");
}
