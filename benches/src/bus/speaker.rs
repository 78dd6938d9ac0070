//! One bus server on its standard streams and a client of it that blocks. Never more than one call in flight, and nothing of muster's own code.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The command line of a bus server.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) words: Vec<String>,
}

impl Program {
    /// The command that serves the directory `folder`.
    pub(crate) fn command(&self, folder: &Path) -> Result<Command> {
        let (program, arguments) = self
            .words
            .split_first()
            .context("the bus's command line is empty")?;
        let mut command = Command::new(program);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AGENT_COORD_"))
        {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .env("AGENT_COORD_DIR", folder)
            .env("AGENT_COORD_TRANSPORT", "tmux-push-remote");
        Ok(command)
    }
}

/// A server and the client's ends of its streams.
pub(crate) struct Speaker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    line: String,
    next: u64,
}

impl Speaker {
    /// Starts a server and shakes hands with it.
    pub(crate) fn start(program: &Program, folder: &Path) -> Result<Self> {
        let mut child = program
            .command(folder)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the bus could not be started")?;
        let to = child.stdin.take().context("the bus has no standard input")?;
        let from = child.stdout.take().context("the bus has no standard output")?;
        let mut speaker = Self {
            child,
            to,
            from: BufReader::new(from),
            line: String::new(),
            next: 0,
        };
        speaker.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        )?;
        writeln!(
            speaker.to,
            r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
        )?;
        Ok(speaker)
    }

    /// Sends one request and reads until its answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.to.write_all(format!("{request}\n").as_bytes())?;
        loop {
            self.line.clear();
            if self.from.read_line(&mut self.line)? == 0 {
                bail!("the bus closed its standard output");
            }
            let answer: Value = serde_json::from_str(&self.line)?;
            if answer.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(answer);
            }
        }
    }

    /// Calls a tool; its answer as an object, and an error for everything that is not `ok`.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let result = answer
            .get("result")
            .with_context(|| format!("{tool} was refused: {answer}"))?;
        let text = result
            .pointer("/content/0/text")
            .and_then(Value::as_str)
            .unwrap_or("{}");
        if result.get("isError") == Some(&Value::Bool(true)) {
            bail!("{tool} failed: {text}");
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Milliseconds that a call takes.
    pub(crate) fn timed(&mut self, tool: &str, arguments: &Value) -> Result<f64> {
        let begun = Instant::now();
        self.call(tool, arguments)?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }

    /// KiB of memory that the server holds.
    pub(crate) fn resident(&self) -> Result<f64> {
        resident(self.child.id())
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // It is this run's own child, and what it wrote is removed with the folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// KiB of memory that a process holds.
pub(crate) fn resident(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix(" kB")?
                .trim()
                .parse()
                .ok()
        })
        .context("the kernel does not say how much memory the bus holds")
}
