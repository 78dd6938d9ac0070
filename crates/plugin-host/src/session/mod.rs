//! One server served to one agent: names, rules, budgets and the event log between the two, everything else passed on. Never sends the server a call that was not
//! decided, and never leaves a call without an answer.

mod approve;
mod asking;
mod beside;
mod calls;
mod door;
mod incoming;
mod state;
mod streams;
mod together;
mod tools;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

pub use self::approve::{Again, Approver, Ask, Nobody, Overruled, Verdict};
use self::beside::Beside;
pub use self::door::{Door, Notices, Posted, unheard};
use self::state::{Kind, Pending, State, Up};
pub use self::streams::{standard_input, standard_output};
use self::together::Together;
use crate::child::{Launcher, plan};
use crate::diagnostic::shown;
use crate::events::{Happening, Writer};
use crate::frame::{Decoder, Frame, Framing};
use crate::host::Ready;
use crate::jsonrpc::{self, Fields, Message, Shape, answer, code, failure};
use crate::link::http::HttpLink;
use crate::link::outbox::Outbox;
use crate::link::stdio::{Starter, StdioLink};
use crate::link::{Budgets, Incoming, Link, Outgoing};
use crate::names::ServerKey;
use crate::package::Launch;
use crate::settings::Watched;

/// Requests that may wait for the server at once.
const MOST_PENDING: usize = 1_024;

/// How a session runs.
#[derive(Clone)]
pub struct Options {
    /// The session's id.
    pub session: String,
    /// Where the session runs.
    pub dir: PathBuf,
    /// What starts servers.
    pub launcher: Launcher,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// The spans it goes by.
    pub budgets: Budgets,
}

struct Inner {
    ready: Ready,
    options: Options,
    events: Writer,
    settings: Watched,
    beside: Beside,
    together: Together,
    settings_path: PathBuf,
    /// Absent when the server did not start.
    link: Option<Link>,
    out: Outbox,
    state: Mutex<State>,
    /// One look at the list of tools at a time.
    loading: tokio::sync::Mutex<()>,
    tasks: Mutex<JoinSet<()>>,
    /// What is still being written into the ledger.
    notes: Mutex<Vec<JoinHandle<()>>>,
    /// The agent does not read any more.
    gone: Notify,
    /// Something was answered.
    settled: Notify,
    /// Something waits, where nothing did.
    begun: Notify,
    /// The server is over; whoever holds the session may look.
    over: Arc<AtomicBool>,
}

/// Serves `ready` to the agent that writes to `input` and reads `output`, until the input ends. Everything that was started has ended when this
/// returns. Dropping it instead ends the server as well, a moment later, while the runtime lives.
pub async fn serve(
    ready: Ready,
    options: Options,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) {
    serve_until(ready, options, input, output, std::future::pending()).await;
}

/// As [`serve`], and also until `stop`: a signal, or the end of the session that this server belongs to.
pub async fn serve_until(
    ready: Ready,
    options: Options,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) {
    watched(ready, options, input, output, stop, Arc::default()).await;
}

/// As [`serve_until`], and tells by `over` when the server is over, which need not be the end of the session.
async fn watched(
    ready: Ready,
    options: Options,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
    over: Arc<AtomicBool>,
) {
    let events = ready.host.events().of(&options.session, &ready.key);
    let (sender, mut incoming) = mpsc::channel(64);
    let opened = open(&ready, &options, sender).await;
    let (link, up) = match opened {
        Ok(link) => {
            events.server(Happening::Started, None);
            (Some(link), Up::Waiting)
        }
        Err(why) => {
            events.server(Happening::StartFailed, Some(why.clone()));
            (None, Up::Down(why))
        }
    };
    let inner = Arc::new(Inner {
        settings: Watched::default(),
        beside: Beside::default(),
        together: Together::default(),
        settings_path: ready.host.settings_path(),
        ready,
        options,
        events,
        link,
        out: Outbox::new(output),
        state: Mutex::new(State::new(up)),
        loading: tokio::sync::Mutex::new(()),
        tasks: Mutex::new(JoinSet::new()),
        notes: Mutex::default(),
        gone: Notify::new(),
        settled: Notify::new(),
        begun: Notify::new(),
        over,
    });
    if let Some(why) = inner.down_because() {
        inner.over.store(true, Ordering::Release);
        inner.state().start_noted = true;
        inner.write_start(Some(why));
    }
    let reading = {
        let inner = inner.clone();
        tokio::spawn(async move {
            let mut tick = interval(Duration::from_millis(100));
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                // A session that waits for nothing does not wake.
                let waits = inner.state().waits();
                tokio::select! {
                    biased;
                    () = inner.begun.notified(), if !waits => {}
                    found = incoming.recv() => match found {
                        Some(found) => inner.from_server(found).await,
                        None => std::future::pending().await,
                    },
                    _ = tick.tick(), if waits => inner.overdue().await,
                }
            }
        })
    };
    let running = Running {
        inner: inner.clone(),
        reading,
    };
    tokio::select! {
        () = inner.read(input) => inner.drain().await,
        () = inner.gone.notified() => {}
        () = stop => {}
    }
    lock(&inner.tasks).abort_all();
    if let Some(link) = &inner.link {
        link.stop().await;
        if inner.down_because().is_none() {
            inner.events.server(Happening::Stopped, None);
        }
    }
    drop(running);
    let notes = std::mem::take(&mut *lock(&inner.notes));
    for note in notes {
        let _ = note.await;
    }
    inner.out.shut(Duration::from_secs(2)).await;
}

/// Ends what runs beside a session, also when nobody waits for the session's own end.
struct Running {
    inner: Arc<Inner>,
    reading: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.reading.abort();
        lock(&self.inner.tasks).abort_all();
        if let Some(link) = &self.inner.link {
            link.abandon();
        }
    }
}

async fn open(ready: &Ready, options: &Options, incoming: mpsc::Sender<Incoming>) -> Result<Link, String> {
    if let Launch::Http { url, headers } = &ready.launch {
        return HttpLink::open(url, headers, incoming).map(Link::Http);
    }
    let inherited = |name: &str| std::env::var_os(name);
    let plan = plan(ready, &options.session, &options.dir, inherited)
        .ok_or_else(|| "the server has no program".to_owned())?;
    let starter = Starter {
        launcher: options.launcher.clone(),
        plan,
        family: ready.family,
        data_dir: ready.data_dir.clone(),
    };
    StdioLink::open(starter, options.budgets, incoming)
        .await
        .map(Link::Stdio)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Why the server is over, if it is.
    fn down_because(&self) -> Option<String> {
        match &self.state().up {
            Up::Down(why) => Some(why.clone()),
            Up::Waiting | Up::Ready => None,
        }
    }

    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work)
    }

    /// Writes a message to the agent.
    async fn tell(&self, message: &str) {
        if self
            .out
            .send(Framing::Lines.encode(message.as_bytes()))
            .await
            .is_err()
        {
            self.gone.notify_one();
        }
        self.settled.notify_waiters();
    }

    /// Reads the agent's messages until there are no more.
    async fn read(self: &Arc<Self>, mut input: impl AsyncRead + Unpin) {
        let mut decoder = Decoder::default();
        loop {
            while let Some(frame) = decoder.next_frame() {
                match frame {
                    Frame::Message(bytes) => self.from_agent(&bytes).await,
                    Frame::TooLarge(id) => {
                        let id = id.map_or_else(|| "null".to_owned(), |id| id.to_string());
                        let sentence = "the message is larger than 16 MiB; nothing of it was sent";
                        self.tell(&failure(&id, code::INVALID_REQUEST, sentence)).await;
                    }
                    Frame::Noise => {
                        let sentence = "this line is no JSON-RPC message";
                        self.tell(&failure("null", code::PARSE, sentence)).await;
                    }
                }
            }
            self.release().await;
            let buffer = decoder.buffer();
            buffer.reserve(64 * 1024);
            if !input.read_buf(buffer).await.is_ok_and(|count| count > 0) {
                return;
            }
            self.together.came();
        }
    }

    /// Lets calls that run come to their end for a moment.
    async fn drain(&self) {
        let until = sleep(self.options.budgets.drain);
        tokio::pin!(until);
        while self.state().is_busy() {
            let settled = self.settled.notified();
            tokio::select! {
                () = &mut until => return,
                () = self.gone.notified() => return,
                () = settled => {}
                () = sleep(Duration::from_millis(20)) => {}
            }
        }
    }

    async fn from_agent(self: &Arc<Self>, bytes: &[u8]) {
        let Some(message) = Message::parse(bytes) else {
            let sentence = "the message is no JSON-RPC, or names a field twice; nothing of it was sent";
            self.tell(&failure("null", code::PARSE, sentence)).await;
            return;
        };
        // What is no call goes behind the calls that came before it.
        if message.method.as_deref() != Some("tools/call") {
            self.release().await;
        }
        match message.shape_of_agent() {
            Shape::Request => self.request(&message).await,
            Shape::Notification => self.notification(&message).await,
            Shape::Unanswerable => self.unanswerable(&message).await,
            Shape::Answer => {
                let asked = message.id.and_then(|id| id.get().parse().ok());
                let whose = asked.and_then(|number: u64| self.state().asked.remove(&number));
                if let (Some(id), Some((kind, value))) = (whose, outcome(&message)) {
                    self.pass(None, answer(&id, kind, value)).await;
                }
            }
            Shape::Nonsense => {
                let id = message.id.map_or("null", serde_json::value::RawValue::get);
                let sentence = "the message is neither a request, a notification nor an answer";
                self.tell(&failure(id, code::INVALID_REQUEST, sentence)).await;
            }
        }
    }

    /// A request without an id that an answer could carry: no rule could refuse it aloud, so nothing of it is sent.
    async fn unanswerable(&self, message: &Message<'_>) {
        unsent(&self.events, &self.ready.key, message);
        if message.unnamed || message.id.is_some() {
            self.tell(&failure("null", code::INVALID_REQUEST, jsonrpc::UNANSWERABLE))
                .await;
        }
    }

    async fn notification(self: &Arc<Self>, message: &Message<'_>) {
        if self.down_because().is_some() {
            return;
        }
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(serde_json::value::RawValue::get);
        if method == "notifications/cancelled" {
            self.cancelled(params.unwrap_or("{}")).await;
            return;
        }
        self.pass(None, jsonrpc::call(None, method, params)).await;
        if method == "notifications/initialized" {
            // The list is looked at before the agent asks, so that it is pinned and its names are known.
            self.look_ahead(None);
        }
    }

    fn look_ahead(self: &Arc<Self>, meta: Option<String>) {
        let inner = self.clone();
        self.spawn(async move {
            if !inner.state().offers_tools {
                inner.is_ready(None);
            } else if let Err(refused) = inner.tools(meta, false).await {
                inner.is_ready(Some(refused.sentence()));
            }
        });
    }

    /// A call that the agent does not want any more.
    async fn cancelled(&self, params: &str) {
        let Ok(fields) = Fields::parse(params) else {
            return;
        };
        let Some(request) = fields.get("requestId") else {
            return;
        };
        let found = self.state().cancel(request.get());
        if let Some(asking) = found.asking {
            // The ask is withdrawn with the task that waits for it.
            asking.abort();
        }
        if let Some(id) = found.pending {
            let params = fields.with(&[("requestId", &id.to_string())]);
            self.pass(
                None,
                jsonrpc::call(None, "notifications/cancelled", Some(&params)),
            )
            .await;
            self.forget(id);
        }
        self.settled.notify_waiters();
    }

    fn forget(&self, id: u64) {
        if let Some(link) = &self.link {
            link.forget(id);
        }
    }

    /// Gives a request its number.
    fn begin(&self, pending: Pending) -> u64 {
        let (number, first) = {
            let mut state = self.state();
            let first = !state.waits();
            (state.begin(pending), first)
        };
        if first {
            self.begun.notify_one();
        }
        number
    }

    /// Sends the server a message.
    async fn pass(&self, id: Option<u64>, body: String) {
        let sent = match &self.link {
            Some(link) => link.send(Outgoing { id, body }).await.is_ok(),
            None => false,
        };
        // When the server is over, its end answers what waits; what came later is answered here.
        if let (false, Some(id)) = (sent, id) {
            self.unanswered(id).await;
        }
    }

    async fn request(self: &Arc<Self>, message: &Message<'_>) {
        let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
            return;
        };
        let id = id.get();
        let params = message.params.map(serde_json::value::RawValue::get);
        let fields = match params.map(Fields::parse).transpose() {
            Ok(fields) => fields.unwrap_or_else(|| Fields(Vec::new())),
            Err(_) => {
                let sentence = "\"params\" is no object, or names a field twice; nothing was sent";
                self.tell(&failure(id, code::INVALID_PARAMS, sentence)).await;
                return;
            }
        };
        if let Some(why) = self.down_because() {
            self.tell(&self.instead(id, method, version(&fields).as_deref(), &why))
                .await;
            return;
        }
        if self.state().pending.len() >= MOST_PENDING {
            let sentence = format!("{MOST_PENDING} requests wait for this server already");
            self.tell(&failure(id, code::INTERNAL, &sentence)).await;
            return;
        }
        match method {
            "tools/list" => self.list(id, &fields),
            "tools/call" => self.call(id, &fields).await,
            // Nor may a server that reads them less strictly take it for a call.
            other if is_like_a_call(other) => {
                let sentence = "the method is tools/call, spelled so";
                self.tell(&failure(id, code::METHOD_NOT_FOUND, sentence)).await;
            }
            _ => {
                let budgets = self.options.budgets;
                let (kind, budget) = match method {
                    "initialize" => (Kind::Initialize(version(&fields)), Some(budgets.initialize)),
                    "server/discover" => {
                        let meta = fields.get("_meta").map(|meta| meta.get().to_owned());
                        (Kind::Discover(meta), Some(budgets.discover))
                    }
                    // Open for as long as the agent listens.
                    "subscriptions/listen" => (Kind::Plain, None),
                    _ => (Kind::Plain, Some(budgets.call)),
                };
                let request = self.numbered(id, method, params.map(|_| &fields), kind, budget, &[]);
                self.pass(request.id, request.body).await;
            }
        }
    }

    /// A request under a number of muster's own, so that no two calls can be taken for each other.
    fn numbered(
        &self,
        id: &str,
        method: &str,
        fields: Option<&Fields<'_>>,
        kind: Kind,
        budget: Option<Duration>,
        with: &[(&str, &str)],
    ) -> Outgoing {
        let meta = fields
            .and_then(|fields| fields.get("_meta"))
            .and_then(|meta| Fields::parse(meta.get()).ok());
        let token = meta.as_ref().and_then(|meta| meta.get("progressToken"));
        let number = self.begin(Pending {
            agent: Some(id.to_owned()),
            method: method.to_owned(),
            kind,
            deadline: budget.map(|budget| Instant::now() + budget),
            token: token.map(|token| token.get().to_owned()),
        });
        let own = number.to_string();
        let meta = match (&meta, token) {
            (Some(meta), Some(_)) => Some(meta.with(&[("progressToken", &own)])),
            _ => None,
        };
        let mut changes = with.to_vec();
        if let Some(meta) = &meta {
            changes.push(("_meta", meta));
        }
        let params = fields.map(|fields| fields.with(&changes));
        Outgoing {
            id: Some(number),
            body: jsonrpc::call(Some(&own), method, params.as_deref()),
        }
    }
}

/// Writes down that a request without an id was not sent.
fn unsent(events: &Writer, key: &ServerKey, message: &Message<'_>) {
    let method = message.method.as_deref().unwrap_or_default();
    let named = message
        .params
        .filter(|_| method == "tools/call")
        .and_then(|params| {
            Fields::parse(params.get())
                .ok()?
                .text("name")
                .map(|name| key.tool(&name))
        });
    let detail = format!("{} came without an id and was not sent", shown(method));
    events.refused(named.as_deref(), detail);
}

/// Why something that muster itself asked the server came to nothing.
#[derive(Debug)]
enum Refused {
    /// The server's own error, as JSON.
    Error(String),
    /// A sentence.
    Sentence(String),
}

impl Refused {
    fn sentence(&self) -> String {
        match self {
            Self::Error(error) => format!("the server answered tools/list with the error {}", shown(error)),
            Self::Sentence(sentence) => sentence.clone(),
        }
    }
}

/// Whether a method that is not `tools/call` could be read as that one.
fn is_like_a_call(method: &str) -> bool {
    let plain: String = method
        .chars()
        .filter(|c| !c.is_whitespace() && !c.is_control())
        .collect();
    jsonrpc::folded(plain.trim_matches('/')) == "tools/call"
}

/// The revision that the agent asks for, as JSON.
fn version(fields: &Fields<'_>) -> Option<String> {
    fields
        .get("protocolVersion")
        .map(|version| version.get().to_owned())
}

fn outcome<'a>(message: &Message<'a>) -> Option<(&'static str, &'a str)> {
    match (message.result, message.error) {
        (Some(result), None) => Some(("result", result.get())),
        (_, Some(error)) => Some(("error", error.get())),
        (None, None) => None,
    }
}
