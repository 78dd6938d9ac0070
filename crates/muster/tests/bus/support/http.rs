//! Agents' clients over Streamable HTTP: one of the revisions with sessions, one of the revision without. They use no proxy and follow no redirect.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{LazyLock, Once};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use super::{Calls, Pending};

/// The revision without a handshake and without sessions.
const NOW: &str = "2026-07-28";
/// The newest revision with both.
const THEN: &str = "2025-11-25";

/// Where calls run; the tests themselves are plain functions.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    &RUNTIME
}

fn client() -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        rustls::crypto::ring::default_provider()
            .install_default()
            .unwrap();
    });
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(70))
        .build()
        .unwrap()
}

/// What a request answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn of(request: RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self {
            status,
            headers,
            text: response.text().await?,
        })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The one message of the answer, as JSON or as an event stream.
    pub(crate) fn message(&self) -> Value {
        let text = if self.header("content-type").starts_with("text/event-stream") {
            let events: Vec<&str> = self
                .text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .collect();
            // An event without data is what some clients take for a broken message.
            assert!(events.iter().all(|event| !event.trim().is_empty()), "{self:?}");
            assert_eq!(events.len(), 1, "{self:?}");
            events[0].trim()
        } else {
            &self.text
        };
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Posts any body with any headers.
pub(crate) fn post(url: &str, token: Option<&str>, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = client()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body.to_owned());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    runtime().block_on(Answer::of(request)).unwrap()
}

/// Gets an address without a token.
pub(crate) fn get(url: &str) -> Answer {
    runtime().block_on(Answer::of(client().get(url))).unwrap()
}

/// Sends bytes and reads until the server closes or `patience` is over; an empty `bytes` only connects.
pub(crate) fn exchange(port: u16, bytes: &[u8], patience: Duration) -> std::io::Result<String> {
    runtime().block_on(async {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(bytes).await?;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(patience, stream.read_to_end(&mut answer)).await;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    })
}

fn send(id: u64, request: RequestBuilder) -> Pending {
    let (sender, answer) = channel();
    runtime().spawn(async move {
        match Answer::of(request).await {
            // The stream of a request that was taken back ends without an answer; whoever waits learns that nothing comes.
            Ok(answer) if answer.status == 200 => {
                if !answer.text.trim().is_empty() {
                    let _ = sender.send(answer.message());
                }
            }
            other => eprintln!("request {id}: {other:?}"),
        }
    });
    Pending { id, answer }
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": THEN, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
}

/// A session.
pub(crate) struct Http {
    client: Client,
    url: String,
    token: String,
    /// The session's name.
    pub(crate) session: String,
    next: AtomicU64,
}

impl Http {
    pub(crate) fn connect(url: &str, token: &str) -> Self {
        let hello = hello();
        let answer = post(url, Some(token), &[], &hello.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.message()["result"]["serverInfo"]["name"], "agent-coord");
        let session = answer.header("mcp-session-id").to_owned();
        assert!(session.len() >= 16, "{answer:?}");
        let it = Self {
            client: client(),
            url: url.to_owned(),
            token: token.to_owned(),
            session,
            next: AtomicU64::new(1),
        };
        let told = it.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202, "{told:?}");
        it
    }

    /// Begins sessions one after the other and goes on with none; the status that each got.
    pub(crate) fn begin_many(url: &str, token: &str, count: usize) -> Vec<u16> {
        let (client, hello) = (client(), hello());
        runtime().block_on(async {
            let mut statuses = Vec::new();
            for _ in 0..count {
                let request = client
                    .post(url)
                    .bearer_auth(token)
                    .header("accept", "application/json, text/event-stream")
                    .json(&hello);
                let answer = Answer::of(request).await.unwrap();
                assert!(
                    answer.status == 200 || answer.text.contains("no session was opened"),
                    "{answer:?}"
                );
                statuses.push(answer.status);
            }
            statuses
        })
    }

    /// The same session under another token.
    pub(crate) fn under(&self, token: &str) -> Self {
        Self {
            client: self.client.clone(),
            url: self.url.clone(),
            token: token.to_owned(),
            session: self.session.clone(),
            next: AtomicU64::new(1_000),
        }
    }

    fn request(&self, body: &Value) -> RequestBuilder {
        self.client
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", THEN)
            .json(body)
    }

    /// Posts any message of the session's.
    pub(crate) fn post(&self, body: &Value) -> Answer {
        runtime().block_on(Answer::of(self.request(body))).unwrap()
    }

    /// The status that a call of `ping` gets.
    pub(crate) fn status(&self) -> u16 {
        let params = json!({"name": "ping", "arguments": {}});
        self.post(&json!({"jsonrpc": "2.0", "id": 9_999, "method": "tools/call", "params": params}))
            .status
    }

    /// Leaves in order.
    pub(crate) fn leave(&self) -> u16 {
        let request = self
            .client
            .delete(&self.url)
            .bearer_auth(&self.token)
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", THEN);
        runtime().block_on(Answer::of(request)).unwrap().status
    }

    /// Begins a call and hangs up after `time`.
    pub(crate) fn hang_up(&self, tool: &str, arguments: &Value, time: Duration) {
        let params = json!({"name": tool, "arguments": arguments});
        let request =
            self.request(&json!({"jsonrpc": "2.0", "id": 77_777, "method": "tools/call", "params": params}));
        hang_up(request, time);
    }
}

fn hang_up(request: RequestBuilder, time: Duration) {
    let ended = runtime().block_on(async { tokio::time::timeout(time, Answer::of(request)).await });
    assert!(ended.is_err(), "it was answered before the hang-up: {ended:?}");
}

impl Calls for Http {
    fn begin(&self, method: &str, params: Value) -> Pending {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        send(
            id,
            self.request(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})),
        )
    }

    fn cancel(&self, pending: &Pending) {
        let params = json!({"requestId": pending.id, "reason": "the test waits no more"});
        let told =
            self.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        assert_eq!(told.status, 202, "{told:?}");
    }
}

/// A client that says all it has to say in each request.
pub(crate) struct Now {
    client: Client,
    url: String,
    token: String,
    next: AtomicU64,
}

impl Now {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        Self {
            client: client(),
            url: url.to_owned(),
            token: token.to_owned(),
            next: AtomicU64::new(1),
        }
    }

    fn request(&self, id: u64, method: &str, mut params: Value) -> RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NOW,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let name = params["name"].as_str().map(str::to_owned);
        let mut request = self
            .client
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", NOW)
            .header("mcp-method", method)
            .json(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        request
    }

    /// Begins a call and hangs up after `time`.
    pub(crate) fn hang_up(&self, tool: &str, arguments: &Value, time: Duration) {
        let params = json!({"name": tool, "arguments": arguments});
        hang_up(self.request(77_777, "tools/call", params), time);
    }
}

impl Calls for Now {
    fn begin(&self, method: &str, params: Value) -> Pending {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        send(id, self.request(id, method, params))
    }

    fn cancel(&self, _: &Pending) {
        // This revision's clients hang up instead.
    }
}
