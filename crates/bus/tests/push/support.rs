//! A bus, hands that write down what they were told to type, and the calls of an agent. Never a pane.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_bus::identity::Session;
use muster_bus::limits::Limits;
use muster_bus::push::{
    ControlCommand, Delivery, Door, Hold, Outcome, Probe, Screen, Settings, Transport, Why,
};
use muster_bus::sessions::Link;
use muster_bus::tools::{Answer, Called, Caller, Place, Tools, Waiting};
use muster_bus::transports::{ConfigSource, Configured, Panes, TransportKind};
use muster_bus::{Home, SeatId};
use muster_core::Clock;
use serde_json::{Map, Value, json};

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    Text(String),
    Command(ControlCommand),
}

impl Typed {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Command(command) => command.as_str(),
        }
    }
}

/// One delivery that reached a pane.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) target: String,
    pub(crate) what: Typed,
    pub(crate) at: Instant,
}

/// Hands that type into memory.
#[derive(Default)]
pub(crate) struct Fake {
    /// The panes that are there; every one when empty.
    pub(crate) panes: Mutex<BTreeSet<String>>,
    /// Why panes cannot be reached at all.
    pub(crate) broken: Mutex<Option<String>>,
    /// What comes of the next deliveries; after that all of them arrive.
    pub(crate) script: Mutex<VecDeque<Outcome>>,
    /// Holds everything while it is set.
    pub(crate) hold: Mutex<Option<Hold>>,
    /// How long a delivery takes.
    pub(crate) slow: Mutex<Duration>,
    /// Breaks at the next delivery.
    pub(crate) breaks: AtomicBool,
    pub(crate) arrived: Mutex<Vec<Arrival>>,
    /// Every attempt, also those that came to nothing.
    pub(crate) tried: Mutex<Vec<Instant>>,
    pub(crate) screen: Mutex<String>,
    /// What screens were asked for: lines and colours.
    pub(crate) asked: Mutex<Vec<(usize, bool)>>,
}

pub(crate) fn hold(why: Why) -> Hold {
    Hold {
        why,
        detail: "seen by the test".to_owned(),
    }
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown {
        door: Door::Paste,
        reason: "the pane did not say".to_owned(),
    }
}

impl Fake {
    pub(crate) fn texts(&self) -> Vec<String> {
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().map(|one| one.what.text().to_owned()).collect()
    }

    /// Waits for the number of deliveries and answers their texts.
    pub(crate) fn wait(&self, count: usize) -> Vec<String> {
        until(|| self.arrived.lock().unwrap().len() >= count);
        self.texts()
    }
}

impl Transport for Fake {
    fn kind(&self) -> TransportKind {
        TransportKind::Herdr
    }

    fn available(&self) -> Result<(), String> {
        self.broken.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn probe(&self, target: &str) -> Probe {
        let panes = self.panes.lock().unwrap();
        if panes.is_empty() && target.starts_with('w') || panes.contains(target) {
            Probe::Found
        } else {
            Probe::Gone {
                reason: format!("pane_not_found: {target}"),
            }
        }
    }

    fn read(&self, _: &str, lines: usize, colors: bool) -> Result<Screen, String> {
        self.asked.lock().unwrap().push((lines, colors));
        let screen = self.screen.lock().unwrap().clone();
        if screen.is_empty() {
            return Err("the pane is gone".to_owned());
        }
        Ok(Screen {
            text: screen,
            truncated: lines > 1_000,
        })
    }

    fn deliver(&self, target: &str, what: &Delivery) -> Outcome {
        self.tried.lock().unwrap().push(Instant::now());
        assert!(!self.breaks.swap(false, Ordering::SeqCst), "it breaks");
        if let Some(hold) = self.hold.lock().unwrap().clone() {
            return Outcome::Held(hold);
        }
        let outcome = self.script.lock().unwrap().pop_front();
        if let Some(held @ Outcome::Held(_)) = outcome {
            return held;
        }
        let what = match what {
            Delivery::Text { text, token } => {
                assert!(text.as_str().contains(token.as_str()));
                Typed::Text(text.as_str().to_owned())
            }
            Delivery::Command(command) => Typed::Command(*command),
        };
        self.arrived.lock().unwrap().push(Arrival {
            target: target.to_owned(),
            what,
            at: Instant::now(),
        });
        std::thread::sleep(*self.slow.lock().unwrap());
        outcome.unwrap_or(Outcome::Delivered {
            door: Door::Paste,
            verified: true,
        })
    }
}

/// A bus with a server on it that has hands.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) fake: Arc<Fake>,
    pub(crate) tools: Tools,
}

pub(crate) fn open(dir: &Path) -> Home {
    Home::open(dir, Limits::default(), Clock::system()).unwrap()
}

pub(crate) fn plain_tools(home: Home) -> Tools {
    let configured = Configured {
        kind: TransportKind::Herdr,
        source: ConfigSource::Env,
    };
    Tools::new(
        home,
        configured,
        Place {
            panes: Panes::default(),
        },
    )
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::at(tempfile::tempdir().unwrap(), settings)
    }

    pub(crate) fn at(dir: tempfile::TempDir, settings: Settings) -> Self {
        let fake = Arc::new(Fake::default());
        let tools = plain_tools(open(dir.path())).with_transport(fake.clone(), settings);
        Self { dir, fake, tools }
    }

    pub(crate) fn home(&self) -> &Home {
        self.tools.home()
    }

    pub(crate) fn agent(&self, id: &str) -> Agent {
        Agent::join(&self.tools, id)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.file(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tools.end();
    }
}

/// One agent's session.
#[derive(Clone)]
pub(crate) struct Agent {
    tools: Tools,
    session: Session,
    pub(crate) id: String,
}

impl Agent {
    pub(crate) fn join(tools: &Tools, id: &str) -> Self {
        let session = Session::new(tools.home(), Link::Stdio, Panes::default()).unwrap();
        let agent = Self {
            tools: tools.clone(),
            session,
            id: id.to_owned(),
        };
        agent.ok("join", json!({"attach": false}));
        agent
    }

    pub(crate) fn attach(&self, target: &str) -> Map<String, Value> {
        self.ok("attach_agent", json!({"tmuxTarget": target, "debounceMs": 100}))
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.call_while(tool, arguments, &|| true)
    }

    /// Begins a call and leaves it as it is.
    pub(crate) fn begin(&self, tool: &str, arguments: Value) -> Called {
        let mut arguments = arguments.as_object().unwrap().clone();
        let own = if tool == "send_command" { "from" } else { "agentId" };
        arguments.insert(own.to_owned(), self.id.clone().into());
        self.tools
            .call(&self.session, &Caller::default(), tool, arguments, &|| true)
    }

    /// Calls a tool and waits as a server does.
    pub(crate) fn call_while(&self, tool: &str, arguments: Value, wanted: &dyn Fn() -> bool) -> Answer {
        let mut arguments = arguments.as_object().unwrap().clone();
        let own = match tool {
            "send_message" | "send_command" => Some("from"),
            "capabilities" | "list_agents" | "prune" => None,
            _ => Some("agentId"),
        };
        if let Some(own) = own {
            arguments.entry(own).or_insert(self.id.clone().into());
        }
        match self
            .tools
            .call(&self.session, &Caller::default(), tool, arguments, wanted)
        {
            Called::Done(answer) => answer,
            Called::Wait(mut waiting) => {
                let until = Instant::now() + waiting.timeout();
                loop {
                    if !wanted() {
                        return waiting.gone();
                    }
                    if let Some(answer) = waiting.read(&self.tools, wanted) {
                        return answer;
                    }
                    while !waiting.grew() {
                        if Instant::now() > until {
                            return waiting.timed_out();
                        }
                        if !wanted() {
                            return waiting.gone();
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
        }
    }

    pub(crate) fn ok(&self, tool: &str, arguments: Value) -> Map<String, Value> {
        let answer = self.call(tool, arguments);
        assert_eq!(
            answer.body.get("ok"),
            Some(&Value::Bool(true)),
            "{tool}: {answer:?}"
        );
        answer.body
    }

    pub(crate) fn refused(&self, tool: &str, arguments: Value, code: &str) -> String {
        let answer = self.call(tool, arguments);
        assert_eq!(
            answer.body.get("ok"),
            Some(&Value::Bool(false)),
            "{tool}: {answer:?}"
        );
        assert_eq!(answer.body["code"], code, "{answer:?}");
        answer.body["error"].as_str().unwrap().to_owned()
    }

    pub(crate) fn dm(&self, to: &str, text: &str) {
        self.ok("send_message", json!({"to": to, "text": text}));
    }

    pub(crate) fn post(&self, room: &str, text: &str) {
        self.ok("send_message", json!({"room": room, "text": text}));
    }

    /// The texts of what is unread, left unread.
    pub(crate) fn unread(&self, source: &str) -> Vec<String> {
        let arguments = match source.strip_prefix('#') {
            Some(room) => json!({"source": "room", "room": room, "peek": true}),
            None => json!({"source": source, "peek": true}),
        };
        texts(&self.ok("read_messages", arguments))
    }

    pub(crate) fn read(&self, source: &str) -> Vec<String> {
        let arguments = match source.strip_prefix('#') {
            Some(room) => json!({"source": "room", "room": room}),
            None => json!({"source": source}),
        };
        texts(&self.ok("read_messages", arguments))
    }
}

pub(crate) fn texts(body: &Map<String, Value>) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

/// Waits for a condition, at most half a minute.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it did not come to pass"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// This very test program again, as one of its tests that plays a role.
pub(crate) fn again(test: &str, role: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env("BUS_ROLE", role)
        .env("BUS_DIR", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The role this process plays, if it was started by [`again`].
pub(crate) fn role() -> Option<(String, Home)> {
    let role = std::env::var("BUS_ROLE").ok()?;
    let dir = std::env::var("BUS_DIR").unwrap();
    Some((role, open(Path::new(&dir))))
}

/// Unparks a thread.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Whether a wait is told of something within half a minute, without looking.
pub(crate) fn told(waiting: &mut Waiting) -> bool {
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut told = std::pin::pin!(waiting.told());
    let until = Instant::now() + Duration::from_secs(30);
    while told.as_mut().poll(&mut context).is_pending() {
        let Some(left) = until.checked_duration_since(Instant::now()) else {
            return false;
        };
        std::thread::park_timeout(left);
    }
    true
}
