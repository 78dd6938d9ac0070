//! A herdr to the letter of its protocol: one request a connection, one line each way, nothing that is not asked for as the protocol says. It tests nothing itself, and notes every breach.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// The longest request.
const LINE: u64 = 1024 * 1024;

/// Which methods there are: `agent.prompt` came with 0.7.5, `pane.send_input` before it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Age {
    Now,
    BeforePrompt,
    BeforeInput,
}

/// What happens to one request instead of its answer.
#[derive(Clone)]
pub(crate) enum Fault {
    /// A refusal with this code, and nothing is done.
    Refuse(&'static str),
    /// Everything is done, and then this refusal.
    DoThenRefuse(&'static str),
    /// Everything is done, and the connection closes without an answer.
    DoThenClose,
    /// Half of the answer comes.
    Half,
    /// The answer comes late.
    Late(Duration),
    /// The answer is to another request.
    Other,
    /// The answer is no JSON.
    Garbled,
}

/// A pane.
#[derive(Clone)]
pub(crate) struct Pane {
    pub(crate) agent: Option<&'static str>,
    pub(crate) status: &'static str,
    pub(crate) front: Vec<&'static str>,
    /// What stands unsent in its input.
    pub(crate) input: String,
    /// The same, as a suggestion that nobody typed.
    pub(crate) ghost: String,
    pub(crate) scrolled: u64,
    /// Its older rows.
    pub(crate) rows: Vec<String>,
    /// Every byte that was typed into it.
    pub(crate) bytes: String,
    /// What it was given as prompts and commands.
    pub(crate) taken: Vec<String>,
    /// It does nothing with what it is given.
    pub(crate) deaf: bool,
    /// Somebody types this between a text and its Enter.
    pub(crate) meddler: Option<&'static str>,
    /// A question lies over the input.
    pub(crate) asks: bool,
}

impl Pane {
    pub(crate) fn idle() -> Self {
        Self {
            agent: Some("claude"),
            status: "idle",
            front: vec!["claude"],
            input: String::new(),
            ghost: String::new(),
            scrolled: 0,
            rows: vec!["an older row".to_owned()],
            bytes: String::new(),
            taken: Vec::new(),
            deaf: false,
            meddler: None,
            asks: false,
        }
    }

    fn screen(&self) -> String {
        if self.asks {
            return " Do you want to proceed?\n \u{276f} 1. Yes\n   2. No\n\n Esc to cancel\n".to_owned();
        }
        let rule = "\u{2500}".repeat(60);
        let mut lines = self.input.split('\n');
        let first = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| format!("\n  {line}")).collect();
        let ghost = if self.ghost.is_empty() {
            String::new()
        } else {
            format!("\u{1b}[2m{}\u{1b}[0m", self.ghost)
        };
        format!(
            "\u{1b}[1m{}\u{1b}[0m\n\n{rule}\n\u{276f}\u{a0}{first}{rest}{ghost}\n{rule}\n  ? for shortcuts\n",
            self.rows.last().cloned().unwrap_or_default()
        )
    }

    fn enter(&mut self) {
        self.bytes.push('\r');
        if self.deaf {
            return;
        }
        let taken = std::mem::take(&mut self.input);
        if !taken.starts_with('/') {
            self.status = "working";
        }
        self.taken.push(taken);
    }
}

struct State {
    panes: BTreeMap<String, Pane>,
    age: Age,
    faults: VecDeque<(&'static str, Fault)>,
    asked: Vec<String>,
    breaches: Vec<String>,
}

/// The server. Dropping it ends it, and fails the test if the protocol was breached.
pub(crate) struct Herdr {
    folder: TempDir,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
}

impl Herdr {
    pub(crate) fn new() -> Self {
        Self::of_age(Age::Now)
    }

    pub(crate) fn of_age(age: Age) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("herdr.sock")).unwrap();
        let state = Arc::new(Mutex::new(State {
            panes: BTreeMap::new(),
            age,
            faults: VecDeque::new(),
            asked: Vec::new(),
            breaches: Vec::new(),
        }));
        let over = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (state.clone(), over.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let shared = shared.clone();
                thread::spawn(move || serve(stream.unwrap(), &shared));
            }
        });
        Self { folder, state, over }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("herdr.sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn put(&self, id: &str, pane: Pane) {
        self.lock().panes.insert(id.to_owned(), pane);
    }

    pub(crate) fn pane(&self, id: &str) -> Pane {
        self.lock().panes[id].clone()
    }

    pub(crate) fn close(&self, id: &str) {
        self.lock().panes.remove(id);
    }

    /// What happens to the next request of a method.
    pub(crate) fn fault(&self, method: &'static str, fault: Fault) {
        self.lock().faults.push_back((method, fault));
    }

    /// The methods that were asked so far, in their order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.lock().asked.clone()
    }
}

impl Drop for Herdr {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(self.socket());
        if !thread::panicking() {
            assert_eq!(self.lock().breaches, [""; 0], "the protocol was breached");
        }
    }
}

fn serve(stream: UnixStream, state: &Mutex<State>) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let read = reader.by_ref().take(LINE).read_line(&mut line);
    if line.is_empty() {
        return;
    }
    let breach = |what: String| state.lock().unwrap().breaches.push(what);
    if read.is_err() || !line.ends_with('\n') {
        return breach(format!("no line of at most a MiB within five seconds: {read:?}"));
    }
    if !reader.buffer().is_empty() {
        breach("more than one line came".to_owned());
    }
    let (id, method) = match serde_json::from_str::<Map<String, Value>>(&line) {
        Ok(request) => (
            request
                .get("id")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            request
                .get("method")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        ),
        Err(_) => return breach("the request is no JSON object".to_owned()),
    };
    let fault = {
        let mut state = state.lock().unwrap();
        state.asked.push(method.clone());
        let at = state.faults.iter().position(|(of, _)| *of == method);
        at.and_then(|at| state.faults.remove(at)).map(|(_, fault)| fault)
    };
    if let Some(Fault::Refuse(code)) = &fault {
        return answer(&stream, &refusal(&id, code));
    }
    let done = act(&line, state);
    let reply = match done {
        Ok(result) => json!({"id": id, "result": result, "more": "newer builds say more"}),
        Err("invalid_request") => refusal("", "invalid_request"),
        Err(code) => refusal(&id, code),
    };
    match fault {
        Some(Fault::DoThenRefuse(code)) => answer(&stream, &refusal(&id, code)),
        Some(Fault::DoThenClose) => {}
        Some(Fault::Half) => {
            let text = reply.to_string();
            let _ = (&stream).write_all(&text.as_bytes()[..text.len() / 2]);
        }
        Some(Fault::Late(time)) => {
            thread::sleep(time);
            answer(&stream, &reply);
        }
        Some(Fault::Other) => answer(
            &stream,
            &json!({"id": "somebody-else", "result": reply["result"]}),
        ),
        Some(Fault::Garbled) => {
            let _ = (&stream).write_all(b"{nothing\n");
        }
        Some(Fault::Refuse(_)) | None => answer(&stream, &reply),
    }
}

fn refusal(id: &str, code: &str) -> Value {
    json!({"id": id, "error": {"code": code, "message": format!("the server says {code}\u{1b}[2J")}})
}

fn answer(mut stream: &UnixStream, reply: &Value) {
    // Who asked may have gone.
    let _ = stream.write_all(format!("{reply}\n").as_bytes());
}

/// The names that a request's parameters may have and those they must have.
fn shape(method: &str, age: Age) -> Option<(&'static [&'static str], &'static [&'static str])> {
    let (must, may): (&[&str], &[&str]) = match method {
        "ping" => (&[], &[]),
        "pane.get" | "pane.process_info" => (&["pane_id"], &[]),
        "pane.read" => (&["pane_id", "source"], &["lines", "format", "strip_ansi"]),
        "pane.send_text" => (&["pane_id", "text"], &[]),
        "pane.send_keys" => (&["pane_id", "keys"], &[]),
        "pane.send_input" if age != Age::BeforeInput => (&["pane_id"], &["text", "keys"]),
        "agent.prompt" if age == Age::Now => (&["target", "text"], &["wait"]),
        _ => return None,
    };
    Some((must, may))
}

fn act(line: &str, state: &Mutex<State>) -> Result<Value, &'static str> {
    let request: Map<String, Value> = serde_json::from_str(line).unwrap();
    let age = state.lock().unwrap().age;
    let names: Vec<&str> = request.keys().map(String::as_str).collect();
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let fits = |state: &Mutex<State>, so: bool, what: &str| {
        if !so {
            state
                .lock()
                .unwrap()
                .breaches
                .push(format!("{method}: {what}: {line}"));
        }
    };
    fits(
        state,
        names == ["id", "method", "params"] || names.len() == 3,
        "id, method and params, nothing else",
    );
    let Some((must, may)) = shape(&method, age) else {
        return Err("invalid_request");
    };
    let params = request["params"].as_object().cloned().unwrap_or_default();
    fits(state, request["params"].is_object(), "params is an object");
    fits(
        state,
        must.iter().all(|name| params.contains_key(*name)),
        "what must be there is",
    );
    fits(
        state,
        params
            .keys()
            .all(|name| must.contains(&name.as_str()) || may.contains(&name.as_str())),
        "nothing else is",
    );
    fits(
        state,
        params.values().all(|value| !value.is_null()),
        "nothing is null",
    );
    if method == "ping" {
        return Ok(json!({"type": "pong", "version": "0.8.2", "protocol": 20, "capabilities": {}}));
    }
    let id = params
        .get("pane_id")
        .or(params.get("target"))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let mut state = state.lock().unwrap();
    // An older name of a pane still finds it.
    let id = if id == "old-name" { "w1:p1".to_owned() } else { id };
    let pane = state.panes.get_mut(&id).ok_or("pane_not_found")?;
    pane_act(&id, pane, &method, &params)
}

fn pane_act(
    id: &str,
    pane: &mut Pane,
    method: &str,
    params: &Map<String, Value>,
) -> Result<Value, &'static str> {
    let text = params.get("text").and_then(Value::as_str).unwrap_or_default();
    match method {
        "pane.get" => Ok(json!({"type": "pane_info", "pane": info(id, pane)})),
        "pane.process_info" => {
            let processes: Vec<Value> = pane
                .front
                .iter()
                .map(|name| json!({"pid": 4_242, "name": name, "argv": [name]}))
                .collect();
            Ok(json!({"type": "pane_process_info", "process_info": {
                "pane_id": id, "shell_pid": 100, "foreground_processes": processes
            }}))
        }
        "pane.read" => Ok(read(id, pane, params)),
        "pane.send_text" => {
            pane.bytes.push_str(text);
            pane.input
                .push_str(&text.replace("\u{1b}[200~", "").replace("\u{1b}[201~", ""));
            pane.input.push_str(pane.meddler.unwrap_or_default());
            Ok(json!({"type": "ok"}))
        }
        "pane.send_input" => {
            pane.bytes.push_str(&format!("\u{1b}[200~{text}\u{1b}[201~"));
            pane.input.push_str(text);
            Ok(json!({"type": "ok"}))
        }
        "pane.send_keys" => {
            if params["keys"] != json!(["enter"]) {
                return Err("invalid_key");
            }
            pane.enter();
            Ok(json!({"type": "ok"}))
        }
        "agent.prompt" => {
            if pane.agent.is_none() {
                return Err("agent_not_found");
            }
            if pane.status == "blocked" {
                return Err("agent_blocked");
            }
            if text.is_empty() {
                return Err("empty_agent_prompt");
            }
            pane.bytes.push_str(&format!("\u{1b}[200~{text}\u{1b}[201~"));
            pane.input.push_str(text);
            pane.enter();
            if pane.deaf {
                return Err("agent_prompt_stalled");
            }
            Ok(json!({"type": "agent_prompted", "agent": info(id, pane)}))
        }
        _ => Err("invalid_request"),
    }
}

fn info(id: &str, pane: &Pane) -> Value {
    let mut info = json!({
        "pane_id": id, "terminal_id": "t1", "workspace_id": "w1", "tab_id": "w1:t1", "focused": false,
        "agent_status": pane.status, "revision": 7, "state_change_seq": 3,
        "scroll": {"offset_from_bottom": pane.scrolled, "max_offset_from_bottom": 900, "viewport_rows": 24},
    });
    if let Some(agent) = pane.agent {
        info["agent"] = agent.into();
    }
    info
}

fn read(id: &str, pane: &Pane, params: &Map<String, Value>) -> Value {
    let ansi = params.get("format") == Some(&"ansi".into());
    let (text, truncated) = if params["source"] == "visible" {
        (pane.screen(), false)
    } else {
        let lines = params
            .get("lines")
            .and_then(Value::as_u64)
            .unwrap_or(80)
            .min(1_000);
        let from = pane.rows.len().saturating_sub(usize::try_from(lines).unwrap());
        (pane.rows[from..].join("\n"), from > 0)
    };
    let text = if ansi {
        text
    } else {
        text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "")
    };
    json!({"type": "pane_read", "read": {
        "pane_id": id, "workspace_id": "w1", "tab_id": "w1:t1", "source": params["source"],
        "format": if ansi { "ansi" } else { "text" }, "text": text, "revision": 7, "truncated": truncated
    }})
}
