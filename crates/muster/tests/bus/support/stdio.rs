//! An agent's client on the standard streams of a process of its own: one JSON object a line. It checks that nothing else comes.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio as Pipe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Calls, Output, Pending, Process};

type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

/// One session.
pub(crate) struct Stdio {
    process: Mutex<Process>,
    pid: u32,
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    next: AtomicU64,
    /// Every line of standard output.
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    pub(crate) err: Output,
    followers: Vec<std::thread::JoinHandle<()>>,
}

impl Stdio {
    /// Starts the process and says hello.
    pub(crate) fn start(command: Command) -> Self {
        let session = Self::silent(command);
        session.hello("2025-11-25");
        session
    }

    /// Starts the process and says nothing.
    pub(crate) fn silent(mut command: Command) -> Self {
        let mut child: Child = command
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (err, waiting, lines) = (Output::default(), Waiting::default(), Arc::default());
        let followers = vec![err.follow(child.stderr.take().unwrap()), {
            let (waiting, lines): (Waiting, Arc<Mutex<Vec<String>>>) = (waiting.clone(), Arc::clone(&lines));
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let Ok(line) = line else { break };
                    lines.lock().unwrap().push(line.clone());
                    let Ok(message) = serde_json::from_str::<Value>(&line) else {
                        continue;
                    };
                    if let Some(sender) = message["id"]
                        .as_u64()
                        .and_then(|id| waiting.lock().unwrap().remove(&id))
                    {
                        let _ = sender.send(message);
                    }
                }
                // Whoever still waits learns that nothing comes.
                waiting.lock().unwrap().clear();
            })
        }];
        Self {
            pid: child.id(),
            process: Mutex::new(Process(child)),
            stdin: Mutex::new(Some(stdin)),
            waiting,
            next: AtomicU64::new(1),
            lines,
            err,
            followers,
        }
    }

    /// The handshake; what the server says of itself.
    pub(crate) fn hello(&self, version: &str) -> Value {
        let hello = self.begin(
            "initialize",
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        let answer = hello.message();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        answer["result"].clone()
    }

    /// Sends a line as it is.
    pub(crate) fn send(&self, line: &str) {
        let mut stdin = self.stdin.lock().unwrap();
        let stdin = stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Leaves in order: closes standard input and waits for the process.
    pub(crate) fn close(mut self) -> (ExitStatus, Vec<String>, String) {
        drop(self.stdin.lock().unwrap().take());
        self.over()
    }

    /// Sends a signal and waits for the process.
    pub(crate) fn end_by(mut self, signal: nix::sys::signal::Signal) -> (ExitStatus, Vec<String>, String) {
        self.process.lock().unwrap().signal(signal);
        self.over()
    }

    fn over(&mut self) -> (ExitStatus, Vec<String>, String) {
        let status = self.process.lock().unwrap().ended();
        std::mem::take(&mut self.followers)
            .into_iter()
            .for_each(|follower| follower.join().unwrap());
        (status, self.lines.lock().unwrap().clone(), self.err.text())
    }
}

impl Calls for Stdio {
    fn begin(&self, method: &str, params: Value) -> Pending {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let (sender, answer) = channel();
        self.waiting.lock().unwrap().insert(id, sender);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        Pending { id, answer }
    }

    fn cancel(&self, pending: &Pending) {
        let params = json!({"requestId": pending.id, "reason": "the test waits no more"});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string(),
        );
    }
}
