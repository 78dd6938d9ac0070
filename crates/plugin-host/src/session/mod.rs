//! One server served to one agent: names, rules, budgets and the event log between the two, everything else passed on. Never sends the server a call that was not
//! decided, and never leaves a call without an answer.

mod approve;
mod calls;
mod state;
mod streams;
mod tools;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

pub use self::approve::{Approver, Ask, Nobody, Verdict};
use self::state::{Kind, Pending, State, Up};
pub use self::streams::{standard_input, standard_output};
use crate::child::{Launcher, plan};
use crate::diagnostic::shown;
use crate::events::{Happening, Writer};
use crate::frame::{Decoder, Frame, Framing};
use crate::host::Ready;
use crate::jsonrpc::{self, Fields, Message, Shape, answer, code, failure, quoted};
use crate::ledger::LastStart;
use crate::link::http::HttpLink;
use crate::link::outbox::Outbox;
use crate::link::stdio::{Starter, StdioLink};
use crate::link::{Budgets, Incoming, Link, Outgoing, Over};
use crate::package::Launch;

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
    /// Absent when the server did not start.
    link: Option<Link>,
    out: Outbox,
    state: Mutex<State>,
    /// One look at the list of tools at a time.
    loading: tokio::sync::Mutex<()>,
    tasks: Mutex<JoinSet<()>>,
    /// The agent does not read any more.
    gone: Notify,
    /// Something was answered.
    settled: Notify,
}

/// Serves `ready` to the agent that writes to `input` and reads `output`, until the input ends. Everything that was started has ended when this
/// returns. Dropping it instead ends the server as well, a moment later.
pub async fn serve(
    ready: Ready,
    options: Options,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
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
        ready,
        options,
        events,
        link,
        out: Outbox::new(output),
        state: Mutex::new(State::new(up)),
        loading: tokio::sync::Mutex::new(()),
        tasks: Mutex::new(JoinSet::new()),
        gone: Notify::new(),
        settled: Notify::new(),
    });
    if let Some(why) = inner.down_because() {
        inner.state().start_noted = true;
        inner.write_start(Some(why));
    }
    let from_server = {
        let inner = inner.clone();
        tokio::spawn(async move {
            let mut tick = interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    biased;
                    found = incoming.recv() => match found {
                        Some(found) => inner.from_server(found).await,
                        None => std::future::pending().await,
                    },
                    _ = tick.tick() => inner.overdue().await,
                }
            }
        })
    };
    tokio::select! {
        () = inner.read(input) => {}
        () = inner.gone.notified() => {}
    }
    inner.drain().await;
    lock(&inner.tasks).abort_all();
    if let Some(link) = &inner.link {
        link.stop().await;
        if inner.down_because().is_none() {
            inner.events.server(Happening::Stopped, None);
        }
    }
    from_server.abort();
    let _ = from_server.await;
    inner.out.shut(Duration::from_secs(2)).await;
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
            let buffer = decoder.buffer();
            buffer.reserve(64 * 1024);
            if !input.read_buf(buffer).await.is_ok_and(|count| count > 0) {
                return;
            }
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
        match message.shape() {
            Shape::Request => self.request(&message).await,
            Shape::Notification => self.notification(&message).await,
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
                self.forward(id, method, params.map(|_| &fields), kind, budget, &[])
                    .await;
            }
        }
    }

    /// Sends a request on under a number of muster's own, so that no two calls can be taken for each other.
    async fn forward(
        &self,
        id: &str,
        method: &str,
        fields: Option<&Fields<'_>>,
        kind: Kind,
        budget: Option<Duration>,
        with: &[(&str, &str)],
    ) {
        let meta = fields
            .and_then(|fields| fields.get("_meta"))
            .and_then(|meta| Fields::parse(meta.get()).ok());
        let token = meta.as_ref().and_then(|meta| meta.get("progressToken"));
        let number = self.state().begin(Pending {
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
        self.pass(Some(number), jsonrpc::call(Some(&own), method, params.as_deref()))
            .await;
    }

    async fn from_server(self: &Arc<Self>, found: Incoming) {
        match found {
            Incoming::Message(bytes) => {
                let Some(message) = Message::parse(&bytes) else {
                    return;
                };
                match message.shape() {
                    Shape::Answer => self.answered(&message).await,
                    Shape::Request => self.asked(&message).await,
                    Shape::Notification => self.told(&message).await,
                    Shape::Nonsense => {}
                }
            }
            Incoming::TooLarge(call) => {
                let sentence = "The server's answer is larger than 16 MiB and was thrown away.";
                let ids = match call {
                    Some(id) => vec![id],
                    // Whose it was cannot be told; no call is left waiting for it.
                    None => self.state().pending.keys().copied().collect(),
                };
                for id in ids {
                    self.fail(id, "answer_too_large", sentence).await;
                }
            }
            Incoming::Failed(id, why) => {
                let kind = self.state().pending.get(&id).map(|pending| pending.kind.word());
                if kind == Some("initialize") {
                    self.down(&Over::Unstarted(why)).await;
                } else {
                    self.fail(id, "server_failed", &format!("The call failed: {why}."))
                        .await;
                }
            }
            Incoming::Unknown(id) => {
                self.unknown(id).await;
            }
            Incoming::Closed(over) => self.down(&over).await,
        }
    }

    async fn answered(self: &Arc<Self>, message: &Message<'_>) {
        let number = message.id.and_then(|id| id.get().parse::<u64>().ok());
        // A second answer, a late one, or one to a number that nobody gave: there is nobody to take it.
        let Some(pending) = number.and_then(|number| self.state().pending.remove(&number)) else {
            return;
        };
        let Some((word, value)) = outcome(message) else {
            return;
        };
        let agent = pending.agent.as_deref().unwrap_or("null");
        match pending.kind {
            Kind::Inside(waiting) => {
                let found = if word == "result" {
                    Ok(value.to_owned())
                } else {
                    Err(Refused::Error(value.to_owned()))
                };
                let _ = waiting.send(found);
            }
            Kind::Initialize(_) if word == "result" => {
                let text = self.introduced(value);
                self.tell(&answer(agent, word, &text)).await;
            }
            Kind::Initialize(_) => {
                self.is_ready(Some("the server answered initialize with an error".to_owned()));
                self.tell(&answer(agent, word, value)).await;
            }
            Kind::Discover(meta) if word == "result" => {
                let text = self.introduced(value);
                self.tell(&answer(agent, word, &text)).await;
                self.look_ahead(meta);
            }
            Kind::Plain | Kind::Call | Kind::Discover(_) => self.tell(&answer(agent, word, value)).await,
        }
    }

    /// What the server says of itself, under the name by which the agent knows it.
    fn introduced(&self, value: &str) -> String {
        const SERVER: &str = "io.modelcontextprotocol/serverInfo";
        let Ok(fields) = Fields::parse(value) else {
            return value.to_owned();
        };
        let name = quoted(&self.ready.key.entry());
        let renamed = |info: &Fields<'_>| info.with(&[("name", &name)]);
        let object = |fields: &Fields<'_>, name: &str| fields.get(name).map(|value| value.get().to_owned());
        let offers = fields
            .get("capabilities")
            .and_then(|capabilities| Fields::parse(capabilities.get()).ok())
            .is_some_and(|capabilities| capabilities.get("tools").is_some());
        {
            let mut state = self.state();
            state.up = Up::Ready;
            state.offers_tools = offers;
        }
        let info = object(&fields, "serverInfo").and_then(|info| Some(renamed(&Fields::parse(&info).ok()?)));
        let meta = object(&fields, "_meta").and_then(|meta| {
            let meta = Fields::parse(&meta).ok()?;
            let info = renamed(&Fields::parse(meta.get(SERVER)?.get()).ok()?);
            Some(meta.with(&[(SERVER, &info)]))
        });
        let mut changes = Vec::new();
        if let Some(info) = &info {
            changes.push(("serverInfo", info.as_str()));
        }
        if let Some(meta) = &meta {
            changes.push(("_meta", meta.as_str()));
        }
        fields.with(&changes)
    }

    /// Notes once how the start went.
    fn is_ready(&self, problem: Option<String>) {
        let first = !std::mem::replace(&mut self.state().start_noted, true);
        if !first {
            return;
        }
        match problem {
            None => {
                let tools = self.state().tools.as_ref().map_or(0, |tools| tools.offered.len());
                self.events
                    .server(Happening::Ready, Some(format!("{tools} tools are offered")));
                self.write_start(None);
            }
            Some(why) => {
                self.events.server(Happening::StartFailed, Some(why.clone()));
                self.write_start(Some(why));
            }
        }
    }

    fn write_start(&self, error: Option<String>) {
        let start = LastStart {
            at: self.ready.host.clock.now(),
            ok: error.is_none(),
            error: error.map(|error| shown(&error)),
        };
        let id = self.ready.key.stable_id();
        let noted = self.ready.host.book.note(|ledger| {
            // A package that was removed meanwhile stays forgotten.
            if ledger.packages.contains_key(&id.plugin) {
                ledger.starts.insert(id, start);
            }
        });
        if let Err(fault) = noted {
            tracing::warn!(
                fault = fault.chain(),
                "the start of a package's server was not noted"
            );
        }
    }

    /// A request of the server's: sampling, elicitation, roots, a ping.
    async fn asked(&self, message: &Message<'_>) {
        let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
            return;
        };
        let number = self.state().ask(id.get());
        let Some(number) = number else {
            let sentence = "too many requests of the server wait for the agent";
            self.pass(None, failure(id.get(), code::INTERNAL, sentence)).await;
            return;
        };
        let params = message.params.map(serde_json::value::RawValue::get);
        self.tell(&jsonrpc::call(Some(&number.to_string()), method, params))
            .await;
    }

    /// A notification of the server's, with numbers of muster's own in it turned back into the agent's.
    async fn told(&self, message: &Message<'_>) {
        const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(serde_json::value::RawValue::get);
        if method == "notifications/tools/list_changed" {
            self.state().tools = None;
        }
        let Some(fields) = params.and_then(|params| Fields::parse(params).ok()) else {
            self.tell(&jsonrpc::call(None, method, params)).await;
            return;
        };
        let number = |value: Option<&serde_json::value::RawValue>| {
            value.and_then(|value| value.get().trim_matches('"').parse::<u64>().ok())
        };
        let changed = match method {
            "notifications/progress" => {
                let token = number(fields.get("progressToken"))
                    .and_then(|number| self.state().pending.get(&number)?.token.clone());
                // Progress of a call that is over, or of nobody's.
                let Some(token) = token else { return };
                Some(fields.with(&[("progressToken", &token)]))
            }
            "notifications/cancelled" => {
                let request = fields.get("requestId").map(|id| id.get().to_owned());
                let whose = request.and_then(|request| self.state().withdraw(&request));
                let Some(whose) = whose else { return };
                Some(fields.with(&[("requestId", &whose.to_string())]))
            }
            _ => fields
                .get("_meta")
                .and_then(|meta| Fields::parse(meta.get()).ok())
                .and_then(|meta| {
                    let number = number(meta.get(SUBSCRIPTION))?;
                    let agent = self.state().pending.get(&number)?.agent.clone()?;
                    let meta = meta.with(&[(SUBSCRIPTION, &agent)]);
                    Some(fields.with(&[("_meta", &meta)]))
                }),
        };
        self.tell(&jsonrpc::call(None, method, changed.as_deref().or(params)))
            .await;
    }

    /// Ends what takes longer than it may.
    async fn overdue(self: &Arc<Self>) {
        let overdue = self.state().overdue(Instant::now());
        for id in overdue {
            let kind = self.state().pending.get(&id).map(|pending| pending.kind.word());
            match kind {
                Some("initialize") => self.down(&Over::Silent).await,
                Some("discover") => self.unknown(id).await,
                Some(_) => {
                    let span = self.options.budgets.call.as_secs_f64();
                    let params =
                        format!("{{\"requestId\":{id},\"reason\":\"no answer within {span} seconds\"}}");
                    self.pass(
                        None,
                        jsonrpc::call(None, "notifications/cancelled", Some(&params)),
                    )
                    .await;
                    self.forget(id);
                    let sentence = format!(
                        "The tool did not answer within {span} seconds. It was told to stop; what it did until then is not known."
                    );
                    self.fail(id, "timed_out", &sentence).await;
                }
                None => {}
            }
        }
    }

    /// The newer era's first question, answered for a server of the older one: the agent then goes on as that one wants.
    async fn unknown(&self, id: u64) {
        let agent = self.state().pending.remove(&id).and_then(|pending| pending.agent);
        if let Some(agent) = agent {
            let sentence = "the server does not know server/discover";
            self.tell(&failure(&agent, code::METHOD_NOT_FOUND, sentence))
                .await;
        }
    }

    /// The server is over: said once, and everything that waits is answered.
    async fn down(&self, over: &Over) {
        let (happening, why) = match over {
            Over::Silent => (
                Happening::InitializeTimeout,
                format!(
                    "the server did not answer initialize within {} seconds",
                    self.options.budgets.initialize.as_secs_f64()
                ),
            ),
            Over::Unstarted(why) => (Happening::StartFailed, why.clone()),
            Over::Ended(how) => (Happening::Exited, format!("the server {how}")),
        };
        let waiting: Vec<u64> = {
            let mut state = self.state();
            if matches!(state.up, Up::Down(_)) {
                return;
            }
            state.up = Up::Down(why.clone());
            state.pending.keys().copied().collect()
        };
        self.events.server(happening, Some(why.clone()));
        if !std::mem::replace(&mut self.state().start_noted, true) {
            self.write_start(Some(why));
        }
        for id in waiting {
            self.unanswered(id).await;
        }
        if !matches!(over, Over::Ended(_))
            && let Some(link) = &self.link
        {
            link.stop().await;
        }
    }

    /// Answers a request that the server never will.
    async fn unanswered(&self, id: u64) {
        let Some(why) = self.down_because() else { return };
        let pending = self.state().pending.remove(&id);
        let Some(pending) = pending else { return };
        match (pending.kind, pending.agent) {
            (Kind::Inside(waiting), _) => drop(waiting.send(Err(Refused::Sentence(why)))),
            (Kind::Initialize(version), Some(agent)) => {
                let text = self.instead(&agent, &pending.method, version.as_deref(), &why);
                self.tell(&text).await;
            }
            (_, Some(agent)) => {
                self.tell(&self.instead(&agent, &pending.method, None, &why))
                    .await
            }
            (_, None) => {}
        }
    }

    /// The answer in the place of a server that is over: it has no tools.
    fn instead(&self, id: &str, method: &str, version: Option<&str>, why: &str) -> String {
        match method {
            "initialize" => {
                let version = version.unwrap_or("\"2025-11-25\"");
                let name = quoted(&self.ready.key.entry());
                let result = format!(
                    "{{\"protocolVersion\":{version},\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{{\"name\":{name},\"version\":\"0\"}}}}"
                );
                answer(id, "result", &result)
            }
            "tools/list" => answer(id, "result", "{\"tools\":[]}"),
            "ping" => answer(id, "result", "{}"),
            "tools/call" => answer(
                id,
                "result",
                &calls::refusal(
                    "server_over",
                    &format!("The call was not made or not answered: {why}."),
                ),
            ),
            _ => failure(
                id,
                code::METHOD_NOT_FOUND,
                &format!("the server is not there: {why}"),
            ),
        }
    }
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
