//! Real programs that tests start: where they were installed, what keeps them on this machine, the scripted model that they ask. Never asks a real model.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools/fake_model.py");

/// What a variable says that `./test` installed. Without it a test is skipped, but never where CI runs.
pub fn installed(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{name} is not set: ./test installs what it names and sets it"
        );
        eprintln!("SKIPPED: {name} is not set (./test sets it)");
    }
    found
}

/// Claude Code, in the same way.
pub fn claude() -> Option<PathBuf> {
    installed("MUSTER_TEST_CLAUDE")
}

/// The environment in which Claude Code asks the model at a port of this machine, and nobody else anything.
pub fn claude_env(port: u16) -> Vec<(String, String)> {
    let fixed = [
        ("ANTHROPIC_API_KEY", "sk-ant-dummy-000"),
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
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let url = (
        "ANTHROPIC_BASE_URL".to_owned(),
        format!("http://127.0.0.1:{port}"),
    );
    fixed.into_iter().chain([url]).collect()
}

/// Gives a text to a command on its standard input and waits for its end. One that reads nothing may have ended before.
pub fn fed(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// The lines of a file that somebody else appends to: one without its end is still being written, and does not stand there yet.
pub fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}

/// A model that says what a script says; it ends with this value.
pub struct Model {
    process: Child,
    /// Where it listens.
    pub port: u16,
    log: PathBuf,
}

impl Model {
    /// Starts one, whose script and log lie in a folder under a name.
    pub fn new(folder: &Path, name: &str, steps: &Value) -> Self {
        let (script, log) = (
            folder.join(format!("{name}.steps.json")),
            folder.join(format!("{name}.requests.jsonl")),
        );
        fs::write(&script, steps.to_string()).unwrap();
        let mut process = Command::new("python3")
            .arg(MODEL)
            .args([Path::new("--script"), &script, Path::new("--log"), &log])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            process,
            port: line.trim().parse().unwrap(),
            log,
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bodies of the requests that offered tools: what tools answered stands in them.
    pub fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let requests = whole_lines(&text).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let offers = |request: &Value| {
            request.pointer("/body/tools/0").is_some_and(Value::is_object)
                && request.pointer("/door").is_some_and(|door| door == "model")
        };
        let bodies = requests.filter(offers).map(|mut request| {
            let body = request.pointer_mut("/body").unwrap();
            body.take()
        });
        bodies.collect()
    }

    /// The same as JSON text.
    pub fn asked(&self) -> Vec<String> {
        self.requests().iter().map(Value::to_string).collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // It ends when nobody speaks to it any more.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
