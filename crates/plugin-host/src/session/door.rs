//! A session behind a door that takes one message at a time, as a stateless HTTP route does: requests of several callers go to one server and each gets its own
//! answer. Never passes a server's own question on, because such a caller could not answer it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::{Options, lock, outcome, unsent, watched};
use crate::frame::{Decoder, Frame, Framing};
use crate::host::{Host, Ready};
use crate::jsonrpc::{self, Fields, Message, Shape, answer, code, failure};
use crate::link::outbox::Outbox;
use crate::names::ServerKey;

/// What a caller gets for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It wants no answer.
    Accepted,
    /// The answer, as one JSON-RPC message.
    Answer(String),
    /// The message was none; an error of the protocol to send with a status that says so.
    Refused(String),
}

/// Where a caller hears what the server says before its answer, each a JSON-RPC notification: the progress of this call, and log lines and changes of lists,
/// which belong to no call and go to the one that waits longest. One that is full takes no more until there is room.
pub type Notices = mpsc::Sender<String>;

/// What a message gets for which no server runs and none is started: one that wants no answer is taken, one that asks without an id is refused and
/// written down as it is where a server runs.
#[must_use]
pub fn unheard(host: &Host, session: &str, key: &ServerKey, body: &[u8]) -> Posted {
    let Some(message) = Message::parse(body) else {
        return unreadable();
    };
    match message.shape_of_agent() {
        Shape::Unanswerable => {
            unsent(&host.events().of(session, key), key, &message);
            unanswerable()
        }
        Shape::Notification | Shape::Answer => Posted::Accepted,
        Shape::Request | Shape::Nonsense => nonsense(),
    }
}

fn unreadable() -> Posted {
    let sentence = "the message is no JSON-RPC, or names a field twice";
    Posted::Refused(failure("null", code::PARSE, sentence))
}

fn unanswerable() -> Posted {
    Posted::Refused(failure("null", code::INVALID_REQUEST, jsonrpc::UNANSWERABLE))
}

fn nonsense() -> Posted {
    let sentence = "the message is neither a request, a notification nor an answer";
    Posted::Refused(failure("null", code::INVALID_REQUEST, sentence))
}

/// One server for many callers. It is ended by [`Door::close`] or [`Door::end`], or a moment after it is dropped.
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    hello: Mutex<Option<Greeting>>,
    stop: Arc<Notify>,
    session: Option<JoinHandle<()>>,
    server_over: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    input: Outbox,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    /// The caller's own id, as JSON.
    caller: String,
    /// The caller's own progress token, as JSON.
    token: Option<String>,
    notices: Option<Notices>,
    answer: oneshot::Sender<Outcome>,
}

/// `result` or `error`, and its value.
type Outcome = (&'static str, String);

/// A request that is waited for; dropping it tells the server that nobody waits any more.
struct Call {
    shared: Arc<Shared>,
    number: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl Drop for Call {
    fn drop(&mut self) {
        if lock(&self.shared.waiting).remove(&self.number).is_some() {
            let shared = self.shared.clone();
            let number = self.number;
            tokio::spawn(async move { shared.cancel(number).await });
        }
    }
}

/// The greeting that a door makes for all its callers; dropping it gives it up.
#[derive(Debug)]
struct Greeting {
    heard: watch::Receiver<Option<Outcome>>,
    task: JoinHandle<()>,
}

impl Greeting {
    /// Greets with this revision, which is JSON.
    fn begin(shared: &Arc<Shared>, version: &str) -> Self {
        // No capability is claimed, so a server asks nothing back.
        let params = format!(
            "{{\"protocolVersion\":{version},\"capabilities\":{{}},\"clientInfo\":{{\"name\":\"muster\",\"version\":\"{}\"}}}}",
            env!("CARGO_PKG_VERSION")
        );
        let (tell, heard) = watch::channel(None);
        let shared = shared.clone();
        let task = tokio::spawn(async move {
            let (_, call) = shared.begin("null", None, None);
            let outcome = shared.ask(call, "initialize", Some(&params)).await;
            if outcome.0 != "error" {
                shared
                    .send(&jsonrpc::call(None, "notifications/initialized", None))
                    .await;
            }
            let _ = tell.send(Some(outcome));
        });
        Self { heard, task }
    }

    fn was_refused(&self) -> bool {
        match &*self.heard.borrow() {
            Some((word, _)) => *word == "error",
            None => self.task.is_finished(),
        }
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is answered where no answer can come any more.
fn ended() -> Outcome {
    let error = format!(
        "{{\"code\":{},\"message\":\"the call was cancelled, or its session ended\"}}",
        code::INTERNAL
    );
    ("error", error)
}

impl Door {
    /// Opens a session. Call it inside the runtime.
    #[must_use]
    pub fn open(ready: Ready, options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let server_over = Arc::new(AtomicBool::new(false));
        let told = server_over.clone();
        let session = tokio::spawn(async move {
            watched(ready, options, input, output, stopped.notified(), told).await;
        });
        let (output, input): (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) = tokio::io::split(ours);
        let shared = Arc::new(Shared {
            input: Outbox::new(input),
            next: AtomicU64::new(1),
            waiting: Mutex::new(HashMap::new()),
        });
        let reader = tokio::spawn(shared.clone().read(output));
        Self {
            shared,
            hello: Mutex::default(),
            stop,
            session: Some(session),
            server_over,
            reader,
        }
    }

    /// Ends the server and waits for its end.
    pub async fn close(mut self) {
        self.stop.notify_one();
        if let Some(session) = self.session.take() {
            let _ = session.await;
        }
    }

    /// Ends the server without waiting for it; [`Door::is_over`] tells when it has ended.
    pub fn end(&self) {
        self.stop.notify_one();
    }

    /// Whether the server did not start or has died. The session goes on without it and offers no tools.
    #[must_use]
    pub fn is_without_server(&self) -> bool {
        self.server_over.load(Ordering::Acquire)
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes a message. Dropping the future cancels the call. `notices` hears what the server says before the answer.
    pub async fn post(&self, body: &[u8], notices: Option<Notices>) -> Posted {
        let Some(message) = Message::parse(body) else {
            return unreadable();
        };
        match message.shape_of_agent() {
            Shape::Request => self.request(&message, notices).await,
            Shape::Unanswerable => {
                // The session writes it down, and sends it nowhere.
                let method = message.method.as_deref().unwrap_or_default();
                let params = message.params.map(serde_json::value::RawValue::get);
                self.shared.send(&jsonrpc::call(None, method, params)).await;
                unanswerable()
            }
            Shape::Notification => {
                self.notification(&message).await;
                Posted::Accepted
            }
            // Nothing of the server's is passed on, so nothing is answered.
            Shape::Answer => Posted::Accepted,
            Shape::Nonsense => nonsense(),
        }
    }

    async fn request(&self, message: &Message<'_>, notices: Option<Notices>) -> Posted {
        const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
        let id = message.id.map_or("null", serde_json::value::RawValue::get);
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(serde_json::value::RawValue::get);
        let fields = params.and_then(|params| Fields::parse(params).ok());
        let (word, value) = if method == "initialize" {
            self.introduce(fields.as_ref()).await
        } else {
            // A caller of the newer era says who it is in each message; for one that does not, the older one's greeting is done once.
            let meta = fields
                .as_ref()
                .and_then(|fields| Fields::parse(fields.get("_meta")?.get()).ok());
            let newer = meta.as_ref().is_some_and(|meta| meta.get(VERSION).is_some());
            if !newer && method != "server/discover" {
                self.introduce(None).await;
            }
            let token = meta.as_ref().and_then(|meta| meta.get("progressToken"));
            let (number, call) = self.shared.begin(id, token.map(|token| token.get()), notices);
            // Callers choose their tokens by themselves, and two may choose the same.
            let own = match (&fields, &meta, token) {
                (Some(fields), Some(meta), Some(_)) => {
                    let meta = meta.with(&[("progressToken", &number.to_string())]);
                    Some(fields.with(&[("_meta", &meta)]))
                }
                _ => None,
            };
            self.shared.ask(call, method, own.as_deref().or(params)).await
        };
        Posted::Answer(answer(id, word, &value))
    }

    /// The greeting of the `initialize` era, made once and answered from memory afterwards. It is the door's own: a caller that goes away neither cancels
    /// it nor has it made twice. One that was refused is made again for the next caller.
    async fn introduce(&self, fields: Option<&Fields<'_>>) -> Outcome {
        let mut heard = {
            let mut hello = lock(&self.hello);
            let known = hello.as_ref().filter(|hello| !hello.was_refused());
            match known {
                Some(hello) => hello.heard.clone(),
                None => {
                    let version = fields.and_then(|fields| fields.get("protocolVersion"));
                    let version = version.map_or("\"2025-11-25\"", |version| version.get());
                    hello.insert(Greeting::begin(&self.shared, version)).heard.clone()
                }
            }
        };
        match heard.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => ended(),
        }
    }

    async fn notification(&self, message: &Message<'_>) {
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(serde_json::value::RawValue::get);
        match method {
            // Said by muster itself after its own greeting.
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                let request = params
                    .and_then(|params| Fields::parse(params).ok())
                    .and_then(|fields| Some(fields.get("requestId")?.get().to_owned()));
                let number = request.and_then(|request| self.shared.only(&request));
                if let Some(number) = number {
                    lock(&self.shared.waiting).remove(&number);
                    self.shared.cancel(number).await;
                }
            }
            _ => self.shared.send(&jsonrpc::call(None, method, params)).await,
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.stop.notify_one();
        self.reader.abort();
    }
}

impl Shared {
    async fn send(&self, message: &str) {
        let _ = self.input.send(Framing::Lines.encode(message.as_bytes())).await;
    }

    /// Gives a request its number.
    fn begin(self: &Arc<Self>, caller: &str, token: Option<&str>, notices: Option<Notices>) -> (u64, Call) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting {
            caller: caller.to_owned(),
            token: token.map(str::to_owned),
            notices,
            answer: sender,
        };
        lock(&self.waiting).insert(number, waiting);
        let shared = self.clone();
        (
            number,
            Call {
                shared,
                number,
                answer,
            },
        )
    }

    async fn ask(&self, mut call: Call, method: &str, params: Option<&str>) -> Outcome {
        self.send(&jsonrpc::call(Some(&call.number.to_string()), method, params))
            .await;
        (&mut call.answer).await.unwrap_or_else(|_| ended())
    }

    /// The request that its caller gave this id. Where several callers use one id, which of them is meant cannot be told.
    fn only(&self, caller: &str) -> Option<u64> {
        let waiting = lock(&self.waiting);
        let mut numbers = waiting.iter().filter(|(_, one)| one.caller == caller);
        match (numbers.next(), numbers.next()) {
            (Some((number, _)), None) => Some(*number),
            _ => None,
        }
    }

    async fn cancel(&self, number: u64) {
        let params = format!("{{\"requestId\":{number}}}");
        self.send(&jsonrpc::call(None, "notifications/cancelled", Some(&params)))
            .await;
    }

    async fn read(self: Arc<Self>, mut output: ReadHalf<DuplexStream>) {
        let mut decoder = Decoder::default();
        loop {
            while let Some(frame) = decoder.next_frame() {
                if let Frame::Message(bytes) = frame {
                    self.came(&bytes).await;
                }
            }
            let buffer = decoder.buffer();
            buffer.reserve(64 * 1024);
            if !output.read_buf(buffer).await.is_ok_and(|count| count > 0) {
                break;
            }
        }
        // Whoever waits still is told by the dropping of what would have answered.
        lock(&self.waiting).clear();
    }

    async fn came(&self, bytes: &[u8]) {
        let Some(message) = Message::parse(bytes) else {
            return;
        };
        let id = message.id.map_or("null", serde_json::value::RawValue::get);
        match message.shape() {
            Shape::Answer => {
                let waiting = id
                    .parse::<u64>()
                    .ok()
                    .and_then(|number| lock(&self.waiting).remove(&number));
                if let (Some(waiting), Some((word, value))) = (waiting, outcome(&message)) {
                    let _ = waiting.answer.send((word, value.to_owned()));
                }
            }
            Shape::Request if message.method.as_deref() == Some("ping") => {
                self.send(&answer(id, "result", "{}")).await;
            }
            Shape::Request => {
                let sentence = "the agent is reached by single messages and cannot be asked";
                self.send(&failure(id, code::METHOD_NOT_FOUND, sentence)).await;
            }
            Shape::Notification => self.told(&message),
            Shape::Unanswerable | Shape::Nonsense => {}
        }
    }

    /// A notification of the server's: progress goes to the call that it is about, what is about none to the call that waits longest. One goes to one caller, and
    /// to none that could not take it; nobody is waited for.
    fn told(&self, message: &Message<'_>) {
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(serde_json::value::RawValue::get);
        if method == "notifications/cancelled" {
            // About a question that nobody was asked.
            return;
        }
        let waiting = lock(&self.waiting);
        if method != "notifications/progress" {
            let open = waiting
                .iter()
                .filter_map(|(number, one)| Some((number, one.notices.as_ref()?)))
                .min_by_key(|(number, _)| **number);
            if let Some((_, notices)) = open {
                let _ = notices.try_send(jsonrpc::call(None, method, params));
            }
            return;
        }
        let Some(fields) = params.and_then(|params| Fields::parse(params).ok()) else {
            return;
        };
        let number = fields
            .get("progressToken")
            .and_then(|token| token.get().parse::<u64>().ok());
        let one = number.and_then(|number| waiting.get(&number));
        if let Some((notices, token)) = one.and_then(|one| Some((one.notices.as_ref()?, one.token.as_ref()?)))
        {
            let params = fields.with(&[("progressToken", token)]);
            let _ = notices.try_send(jsonrpc::call(None, method, Some(&params)));
        }
    }
}
