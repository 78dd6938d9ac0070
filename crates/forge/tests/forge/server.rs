//! A forge for tests: a script of requests, each taken only exactly as written, and an answer to each. Never answers anything that was not scripted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_core::{Clock, Secret, Time};
use muster_forge::{Forge, ForgeError, Kind, Limits, Setup};
use muster_policy::{
    Action, Decision, Grant, Layer, Needs, Permit, Policy, Resource, ScopeKind, Standing, Target, decide,
};
use serde_json::Value;

pub(crate) const TOKEN: &str = "t0ken-that-must-not-show";
pub(crate) const NOW: Time = Time::from_micros(1_800_000_000_000_000);

/// One request that is due, and what answers it.
pub(crate) struct Step {
    method: &'static str,
    target: String,
    body: Option<Value>,
    play: Play,
}

/// What a server does with a request.
pub(crate) enum Play {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Reads the request and closes.
    Hangup,
    /// Reads the request and says nothing for a while.
    Silence,
    /// Sends more than anybody wants to read.
    Flood,
}

pub(crate) fn get(target: &str) -> Step {
    Step {
        method: "GET",
        target: target.to_owned(),
        body: None,
        play: Play::Hangup,
    }
}

pub(crate) fn post(target: &str, body: Value) -> Step {
    Step {
        method: "POST",
        target: target.to_owned(),
        body: Some(body),
        play: Play::Hangup,
    }
}

impl Step {
    pub(crate) fn gives(self, status: u16, body: Value) -> Self {
        self.plays(Play::Answer {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        })
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Play::Answer { headers, .. } = &mut self.play {
            headers.push((name, value.to_owned()));
        }
        self
    }

    pub(crate) fn plays(mut self, play: Play) -> Self {
        self.play = play;
        self
    }
}

#[derive(Default)]
struct State {
    due: VecDeque<Step>,
    wrong: Vec<String>,
    count: usize,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    kind: Kind,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn new(kind: Kind, script: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            due: script.into_iter().collect(),
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || converse(kind, port, stream, &shared));
            }
        });
        Self { port, kind, state }
    }

    pub(crate) fn forge(&self) -> Forge {
        self.forge_with(Limits {
            connect: Duration::from_secs(5),
            total: Duration::from_secs(20),
            ..Limits::default()
        })
    }

    pub(crate) fn forge_with(&self, limits: Limits) -> Forge {
        connect(self.kind, &format!("http://127.0.0.1:{}", self.port), limits).unwrap()
    }

    /// How many requests came.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().unwrap().count
    }

    /// That every step of the script came, each as written, and nothing else.
    pub(crate) fn done(&self) {
        let state = self.state.lock().unwrap();
        assert_eq!(state.wrong, Vec::<String>::new());
        let left: Vec<&str> = state.due.iter().map(|step| step.target.as_str()).collect();
        assert_eq!(left, Vec::<&str>::new());
    }
}

pub(crate) fn connect(kind: Kind, url: &str, limits: Limits) -> Result<Forge, ForgeError> {
    Forge::connect(Setup {
        kind,
        url,
        token: &Secret::new(TOKEN),
        integration: &integration(),
        clock: Clock::manual(NOW),
        limits,
    })
}

pub(crate) fn integration() -> Resource {
    Resource::new(ScopeKind::Integration, "7").unwrap()
}

/// A permit as a decision gives it: a policy that allows `action` on `resource`, and a call that charges it.
pub(crate) fn permit(action: Action, resource: &str) -> Permit {
    let resource: Resource = resource.parse().unwrap();
    let grant = Grant::parse(action.as_str(), &resource.to_string(), "allow").unwrap();
    let policy = Policy::new(
        Layer::authored([grant]).unwrap(),
        Layer::absent(),
        Layer::absent(),
    );
    let needs = Needs::of(action, Target::new(resource).unwrap());
    match decide(Standing::Under(&policy), &needs) {
        Decision::Allow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

fn converse(kind: Kind, port: u16, stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((line, headers, body)) = read(&mut reader) {
        let step = {
            let mut state = state.lock().unwrap();
            state.count += 1;
            let Some(step) = state.due.pop_front() else {
                state.wrong.push(format!("not in the script: {line}"));
                return;
            };
            let wrong = judge(kind, port, &step, &line, &headers, &body);
            if !wrong.is_empty() {
                state.wrong.extend(wrong);
                return;
            }
            step
        };
        match step.play {
            Play::Answer {
                status,
                headers,
                body,
            } => {
                let mut text =
                    format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json; charset=utf-8\r\n");
                for (name, value) in headers {
                    text.push_str(&format!("{name}: {value}\r\n"));
                }
                text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
                stream.write_all(text.as_bytes()).unwrap();
            }
            Play::Hangup => return,
            Play::Silence => {
                std::thread::sleep(Duration::from_secs(3));
                return;
            }
            Play::Flood => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut good = stream.write_all(head.as_bytes()).is_ok();
                while good {
                    good = stream
                        .write_all(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes())
                        .is_ok();
                }
                return;
            }
        }
    }
}

type Heard = (String, BTreeMap<String, String>, Vec<u8>);

fn read(reader: &mut BufReader<TcpStream>) -> Option<Heard> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        let twice = headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        assert_eq!(twice, None, "{name} came twice");
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line.trim_end().to_owned(), headers, body))
}

/// What about a request is not as the script and the forge's documents have it.
fn judge(
    kind: Kind,
    port: u16,
    step: &Step,
    line: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let want = format!("{} {} HTTP/1.1", step.method, step.target);
    if line != want {
        wrong.push(format!("{line}, and not {want}"));
    }
    let mut due = BTreeMap::from([
        ("host", format!("127.0.0.1:{port}")),
        ("user-agent", format!("muster/{}", env!("CARGO_PKG_VERSION"))),
    ]);
    match kind {
        Kind::GitHub => {
            due.insert("accept", "application/vnd.github+json".to_owned());
            due.insert("authorization", format!("Bearer {TOKEN}"));
            due.insert("x-github-api-version", "2022-11-28".to_owned());
        }
        Kind::GitLab => {
            due.insert("accept", "application/json".to_owned());
            due.insert("authorization", format!("Bearer {TOKEN}"));
        }
        Kind::Forgejo => {
            due.insert("accept", "application/json".to_owned());
            due.insert("authorization", format!("token {TOKEN}"));
        }
    }
    if let Some(expected) = &step.body {
        due.insert("content-type", "application/json".to_owned());
        due.insert("content-length", body.len().to_string());
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if value == *expected => {}
            _ => wrong.push(format!("{}, and not {expected}", String::from_utf8_lossy(body))),
        }
    } else if !body.is_empty() {
        wrong.push("a body where none belongs".to_owned());
    }
    let due: BTreeMap<String, String> = due
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    if *headers != due {
        wrong.push(format!("{headers:?}, and not {due:?}"));
    }
    wrong
}
