//! A server over Streamable HTTP: a POST for each message, answers as JSON or as an event stream. Never follows a redirect to another origin and never sends a credential.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::sse::Events;
use super::{Incoming, Outgoing, Over};
use crate::frame::LARGEST_MESSAGE;
use crate::jsonrpc::{Fields, Message, string};
use crate::manifest::is_loopback;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// How long a notification may take; the next message waits for it.
const NOTICE: Duration = Duration::from_secs(10);
/// What is said of a server that answers a request of its session with 404, as one does that was started anew.
const FORGOT: &str = "does not know its session any more (HTTP 404)";
/// How often a broken stream is taken up again.
const RESUMED: u32 = 20;

/// The way to a server over HTTP.
#[derive(Debug)]
pub(crate) struct HttpLink {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
    calls: Mutex<HashMap<u64, AbortHandle>>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    url: Url,
    headers: HeaderMap,
    era: Mutex<Era>,
    incoming: mpsc::Sender<Incoming>,
}

/// What the `initialize` era keeps over calls.
#[derive(Debug, Default)]
struct Era {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

impl HttpLink {
    pub(crate) fn open(
        url: &str,
        headers: &BTreeMap<String, String>,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("the server's address cannot be used: {error}"))?;
        // Harmless when the program has installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(redirect::Policy::custom(|attempt| {
                let same = attempt
                    .previous()
                    .first()
                    .is_some_and(|first| first.origin() == attempt.url().origin());
                if same && attempt.previous().len() <= 5 {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            }))
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(10));
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| format!("HTTP cannot be used: {error}"))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value),
            ) {
                map.insert(name, value);
            }
        }
        Ok(Self {
            shared: Arc::new(Shared {
                client,
                url,
                headers: map,
                era: Mutex::new(Era::default()),
                incoming,
            }),
            tasks: Mutex::new(JoinSet::new()),
            calls: Mutex::new(HashMap::new()),
        })
    }

    /// Sends a message. A request goes on by itself; anything else has arrived when this returns, so that what follows it finds it done.
    pub(crate) async fn send(&self, message: Outgoing) {
        let shared = self.shared.clone();
        let Some(id) = message.id else {
            let initialized = Message::parse(message.body.as_bytes())
                .is_some_and(|parsed| parsed.method.as_deref() == Some("notifications/initialized"));
            let _ = timeout(NOTICE, shared.post(&message)).await;
            if initialized {
                lock(&self.tasks).spawn(async move { shared.listen().await });
            }
            return;
        };
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        let mut calls = lock(&self.calls);
        calls.retain(|_, call| !call.is_finished());
        let call = tasks.spawn(async move { shared.request(id, &message).await });
        calls.insert(id, call);
    }

    /// Closes the stream of a request that is not waited for any more.
    pub(crate) fn forget(&self, id: u64) {
        if let Some(call) = lock(&self.calls).remove(&id) {
            call.abort();
        }
    }

    pub(crate) fn abandon(&self) {
        lock(&self.tasks).abort_all();
    }

    pub(crate) async fn stop(&self) {
        self.abandon();
        let headers = self.shared.kept();
        let session = lock(&self.shared.era).session.take();
        if session.is_some() {
            let delete = self
                .shared
                .client
                .delete(self.shared.url.clone())
                .headers(headers);
            let _ = timeout(Duration::from_secs(2), delete.send()).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The entry's headers and what the era keeps.
    fn kept(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let era = lock(&self.era);
        if let Some(session) = &era.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = &era.version {
            headers.insert(VERSION, version.clone());
        }
        headers
    }

    fn headers(&self, message: &Message<'_>) -> HeaderMap {
        let mut headers = self.kept();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let params = message.params.and_then(|params| Fields::parse(params.get()).ok());
        let meta = params
            .as_ref()
            .and_then(|params| Fields::parse(params.get("_meta")?.get()).ok());
        // A message of the newer era says its revision itself, and is labelled so that what stands between can route it.
        if let Some(version) = meta.as_ref().and_then(|meta| meta.text(VERSION_KEY))
            && let Ok(version) = HeaderValue::from_str(&version)
        {
            headers.insert(VERSION, version);
            if let Some(method) = message.method.as_deref() {
                label(&mut headers, METHOD, method);
                let field = match method {
                    "tools/call" | "prompts/get" => Some("name"),
                    "resources/read" => Some("uri"),
                    "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
                    _ => None,
                };
                let name = field.and_then(|field| params.as_ref()?.text(field));
                if let Some(name) = name {
                    label(&mut headers, NAME, &name);
                }
            }
        }
        headers
    }

    async fn post(&self, outgoing: &Outgoing) -> Result<Response, String> {
        let message = Message::parse(outgoing.body.as_bytes()).ok_or("the message could not be read")?;
        let headers = self.headers(&message);
        self.client
            .post(self.url.clone())
            .headers(headers)
            .body(outgoing.body.clone())
            .send()
            .await
            .map_err(|error| format!("the server could not be reached: {}", causes(&error)))
    }

    async fn request(&self, id: u64, outgoing: &Outgoing) {
        let method =
            Message::parse(outgoing.body.as_bytes()).and_then(|message| Some(message.method?.into_owned()));
        let session = lock(&self.era).session.clone();
        let mut forgotten = false;
        let found = match self.post(outgoing).await {
            Ok(response) => {
                forgotten = session.is_some() && response.status() == StatusCode::NOT_FOUND;
                self.answer(id, method.as_deref(), response).await
            }
            Err(why) => Err(why),
        };
        let incoming = match found {
            // Also a 404 that carries the protocol's own answer to this very request.
            Ok(()) => return,
            Err(_) if method.as_deref() == Some("server/discover") => Incoming::Unknown(id),
            Err(_) if forgotten => Incoming::Failed(
                id,
                format!(
                    "the server {FORGOT}, so it did not take it; it may be called again in a new session"
                ),
            ),
            Err(why) => Incoming::Failed(id, why),
        };
        let _ = self.incoming.send(incoming).await;
        if forgotten && self.forgets(session.as_ref()) {
            // The protocol has one way on from here, which is a session begun anew.
            let over = Over::Ended(FORGOT.to_owned());
            let _ = self.incoming.send(Incoming::Closed(over)).await;
        }
    }

    /// Lets the session go that the server does not know any more; false when there is another one by now, or none.
    fn forgets(&self, session: Option<&HeaderValue>) -> bool {
        let mut era = lock(&self.era);
        let same = session.is_some() && era.session.as_ref() == session;
        if same {
            era.session = None;
        }
        same
    }

    /// Reads what came of a request until its answer is there.
    async fn answer(&self, id: u64, method: Option<&str>, response: Response) -> Result<(), String> {
        let status = response.status();
        let initialize = method == Some("initialize");
        if initialize && status.is_success() {
            lock(&self.era).session = response.headers().get(SESSION).cloned();
        }
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let is = |wanted: &str| {
            kind.as_ref()
                .and_then(|kind| kind.to_str().ok())
                .and_then(|kind| kind.split(';').next())
                .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
        };
        if is("application/json") {
            let body = body(response).await?;
            // An error of HTTP may carry the protocol's own answer.
            if !status.is_success() && !answers(&body, id) {
                return Err(refused(status));
            }
            if !answers(&body, id) {
                return Err("the server answered something else than it was asked".to_owned());
            }
            self.give(initialize, body).await;
            return Ok(());
        }
        if !status.is_success() {
            return Err(refused(status));
        }
        if !is("text/event-stream") {
            return Err("the server's answer is neither JSON nor an event stream".to_owned());
        }
        let mut last = None;
        let mut wait = Duration::from_secs(1);
        let mut response = Some(response);
        for _ in 0..RESUMED {
            if let Some(response) = response.take()
                && self
                    .stream(response, Some(id), initialize, &mut last, &mut wait)
                    .await?
            {
                return Ok(());
            }
            // A stream may be closed early and taken up again where it stood.
            let Some(last) = last.clone() else {
                return Err("the server's stream ended before its answer".to_owned());
            };
            sleep(wait).await;
            let resumed = self.get(Some(last)).await?;
            if !resumed.status().is_success() {
                return Err(refused(resumed.status()));
            }
            response = Some(resumed);
        }
        Err("the server's stream ended too often before its answer".to_owned())
    }

    /// Gives on what a stream holds; true when the answer to `id` was among it.
    async fn stream(
        &self,
        response: Response,
        id: Option<u64>,
        initialize: bool,
        last: &mut Option<HeaderValue>,
        wait: &mut Duration,
    ) -> Result<bool, String> {
        let mut events = Events::default();
        let mut bytes = response.bytes_stream();
        while let Some(piece) = bytes.next().await {
            let Ok(piece) = piece else {
                break;
            };
            events.push(&piece);
            loop {
                let event = match events.next_event(LARGEST_MESSAGE) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(_) => return Err("the server's answer is too large".to_owned()),
                };
                if let Some(retry) = events.retry {
                    *wait = Duration::from_millis(retry.min(10_000));
                }
                if let Some(seen) = event.id.and_then(|id| HeaderValue::from_str(&id).ok()) {
                    *last = Some(seen);
                }
                // An event without data only says where the stream stands.
                if event.data.trim().is_empty() {
                    continue;
                }
                let data = Bytes::from(event.data);
                let done = id.is_some_and(|id| answers(&data, id));
                self.give(initialize && done, data).await;
                if done {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn give(&self, initialize: bool, message: Bytes) {
        if initialize {
            let version = Message::parse(&message)
                .and_then(|message| Fields::parse(message.result?.get()).ok())
                .and_then(|result| HeaderValue::from_str(&string(result.get("protocolVersion")?)?).ok());
            lock(&self.era).version = version;
        }
        let _ = self.incoming.send(Incoming::Message(message)).await;
    }

    async fn get(&self, last: Option<HeaderValue>) -> Result<Response, String> {
        let mut headers = self.kept();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            headers.insert(LAST_EVENT, last);
        }
        self.client
            .get(self.url.clone())
            .headers(headers)
            .send()
            .await
            .map_err(|error| format!("the server could not be reached: {}", causes(&error)))
    }

    /// What a server of the `initialize` era says by itself. Most offer no such stream.
    async fn listen(&self) {
        let mut last = None;
        let mut wait = Duration::from_secs(1);
        for _ in 0..RESUMED {
            let Ok(response) = self.get(last.clone()).await else {
                return;
            };
            let streams = response
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|kind| kind.to_str().ok())
                .is_some_and(|kind| kind.starts_with("text/event-stream"));
            if !response.status().is_success() || !streams {
                return;
            }
            if self
                .stream(response, None, false, &mut last, &mut wait)
                .await
                .is_err()
            {
                return;
            }
            sleep(wait).await;
        }
    }
}

/// Whether a message is the answer to the request of this number.
fn answers(message: &[u8], id: u64) -> bool {
    Message::parse(message).is_some_and(|message| {
        message.method.is_none() && message.id.is_some_and(|found| found.get() == id.to_string())
    })
}

async fn body(response: Response) -> Result<Bytes, String> {
    let mut whole = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(piece) = bytes.next().await {
        let piece = piece.map_err(|error| format!("the server's answer broke off: {}", causes(&error)))?;
        if whole.len() + piece.len() > LARGEST_MESSAGE {
            return Err("the server's answer is too large".to_owned());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

fn refused(status: StatusCode) -> String {
    match status.as_u16() {
        401 | 403 => format!(
            "the server wants a sign-in (HTTP {}), and a packaged server gets no credentials; declare it in settings.json instead",
            status.as_u16()
        ),
        300..=399 => {
            "the server points to another address, which is not followed; put that address into the package"
                .to_owned()
        }
        other => format!("the server answered HTTP {other}"),
    }
}

fn causes(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut text = String::new();
    let mut next = error.source();
    while let Some(cause) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    if text.is_empty() {
        "no reason was given".to_owned()
    } else {
        text
    }
}

/// A header that carries a text of the message; what no header can hold goes as base64.
fn label(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    let plain = !text.starts_with([' ', '\t'])
        && !text.ends_with([' ', '\t'])
        && !text.starts_with("=?base64?")
        && text.chars().all(|c| (' '..='~').contains(&c));
    let value = if plain {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(text)))
    };
    if let Ok(value) = value {
        headers.insert(name, value);
    }
}
