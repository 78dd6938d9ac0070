//! A muster that keeps the connector contract strictly and remembers everything. Never forgives: what the contract does not allow is kept as a violation.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "mpl_0123456789abcdef0123456789abcdef";

/// What a route does instead of, or after, its work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Answers with this status and does nothing.
    Status(u16),
    /// Answers 429 with this many seconds.
    RetryAfter(u64),
    /// Does its work and breaks the connection in the middle of the answer.
    LoseAnswer,
    /// Answers like some other web server.
    OtherServer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Approved,
    Claimed,
    Sent,
    Failed,
}

#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) external_id: String,
    pub(crate) body: String,
    pub(crate) fate: Fate,
    pub(crate) results: Vec<Value>,
    pub(crate) claims: u32,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    /// The stored messages by external_id.
    pub(crate) messages: BTreeMap<String, Value>,
    /// Every post with its moment, also the refused ones.
    pub(crate) posts: Vec<(Instant, Value)>,
    pub(crate) drafts: BTreeMap<u64, Draft>,
    pub(crate) claims: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) message_faults: VecDeque<Fault>,
    pub(crate) claim_faults: VecDeque<Fault>,
    pub(crate) result_faults: VecDeque<Fault>,
    /// Subjects that are refused with 400.
    pub(crate) poison: Vec<String>,
    /// Subjects that always make the server fail.
    pub(crate) breaking: Vec<String>,
    /// Whether each stored message that can be answered gets an approved reply at once.
    pub(crate) approve_all: bool,
    /// Offer this draft again although it was claimed.
    pub(crate) offer_again: Option<u64>,
    /// Whether the routes exist.
    pub(crate) switched_off: bool,
}

impl World {
    pub(crate) fn approve(&mut self, external_id: &str, body: &str) -> u64 {
        let draft_id = 1 + self.drafts.keys().last().copied().unwrap_or_default();
        let draft = Draft {
            external_id: external_id.to_owned(),
            body: body.to_owned(),
            fate: Fate::Approved,
            results: Vec::new(),
            claims: 0,
        };
        self.drafts.insert(draft_id, draft);
        draft_id
    }

    pub(crate) fn external_id_of(&self, subject: &str) -> Option<String> {
        self.messages
            .iter()
            .find(|(_, message)| message["subject"] == subject)
            .map(|(id, _)| id.clone())
    }

    fn violation(&mut self, text: String) {
        self.violations.push(text);
    }
}

/// A running stub. Dropping it ends its server.
pub(crate) struct Stub {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    world: Arc<Mutex<World>>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Stub {
    pub(crate) fn start() -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::default())
    }

    /// The same world on a chosen address.
    pub(crate) fn start_on(address: SocketAddr, world: Arc<Mutex<World>>) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let app = Router::new()
            .route("/plugin/v1/messages", post(messages))
            .route("/plugin/v1/drafts/claim", post(claim))
            .route("/plugin/v1/drafts/{id}/result", post(result))
            .with_state(world.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = async { axum::serve(listener, app).await } => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            url: format!("http://{address}"),
            address,
            world,
            _stop: stop,
        }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn shared(&self) -> Arc<Mutex<World>> {
        self.world.clone()
    }
}

type Shared = State<Arc<Mutex<World>>>;

fn refusal(status: u16, text: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, axum::Json(json!({ "error": text }))).into_response()
}

fn lost() -> Response {
    let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("lost")) });
    Response::new(Body::from_stream(broken))
}

/// What must hold on every route; an answer when it does not.
fn enter(world: &mut World, headers: &HeaderMap, route: &str) -> Option<Response> {
    if headers.get("authorization").map(|value| value.as_bytes())
        != Some(format!("Bearer {TOKEN}").as_bytes())
    {
        return Some(refusal(401, "no"));
    }
    if world.switched_off {
        return Some(refusal(404, "connectors are off"));
    }
    if headers.get("content-type").map(|value| value.as_bytes()) != Some(b"application/json") {
        world.violation(format!("{route}: no JSON content type"));
    }
    let faults = match route {
        "messages" => &mut world.message_faults,
        "claim" => &mut world.claim_faults,
        _ => &mut world.result_faults,
    };
    match faults.front().copied() {
        Some(Fault::Status(status)) => {
            faults.pop_front();
            Some(refusal(status, "a fault of the test"))
        }
        Some(Fault::RetryAfter(seconds)) => {
            faults.pop_front();
            let mut answer = refusal(429, "too many");
            answer.headers_mut().insert("retry-after", seconds.into());
            Some(answer)
        }
        Some(Fault::OtherServer) => {
            faults.pop_front();
            Some("<html>welcome".into_response())
        }
        Some(Fault::LoseAnswer) | None => None,
    }
}

/// Whether this answer is to be lost.
fn loses(faults: &mut VecDeque<Fault>) -> bool {
    let lost = matches!(faults.front(), Some(Fault::LoseAnswer));
    if lost {
        faults.pop_front();
    }
    lost
}

async fn messages(State(world): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let mut world = world.lock().unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    world.posts.push((Instant::now(), message.clone()));
    if let Some(answer) = enter(&mut world, &headers, "messages") {
        return answer;
    }
    for complaint in complaints(&message) {
        world.violation(format!("message: {complaint}: {message}"));
    }
    let subject = message["subject"].as_str().unwrap_or_default().to_owned();
    if world.poison.contains(&subject) {
        return refusal(400, "body: this is \u{1b}[31mpoison");
    }
    if world.breaking.contains(&subject) {
        return refusal(500, "broken");
    }
    let external_id = message["external_id"].as_str().unwrap_or_default().to_owned();
    let known = world.messages.contains_key(&external_id);
    if !known {
        if world.approve_all && message["no_reply"] == false {
            let text = format!("reply to {subject}");
            world.approve(&external_id, &text);
        }
        world.messages.insert(external_id, message);
    }
    if loses(&mut world.message_faults) {
        return lost();
    }
    let status = if known {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    (status, axum::Json(json!({ "id": 1, "status": "queued" }))).into_response()
}

/// What the contract does not allow in a message.
pub(crate) fn complaints(message: &Value) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let Some(fields) = message.as_object() else {
        return vec!["not an object"];
    };
    let text = |name: &str| message[name].as_str();
    let word = |text: &str| {
        (1..=200).contains(&text.len()) && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    let line = |name: &str| match &message[name] {
        Value::Null => !fields.contains_key(name),
        Value::String(text) => text.chars().count() <= 200,
        _ => false,
    };
    const KNOWN: [&str; 8] = [
        "external_id",
        "sender",
        "subject",
        "body",
        "received_at",
        "no_reply",
        "sender_verified",
        "thread",
    ];
    let checks = [
        (
            fields.keys().all(|key| KNOWN.contains(&key.as_str())),
            "an unknown field",
        ),
        (text("external_id").is_some_and(word), "external_id"),
        (
            text("body").is_some_and(|body| (1..=16384).contains(&body.len()) && !body.contains('\0')),
            "body",
        ),
        (line("sender"), "sender"),
        (line("subject"), "subject"),
        (
            !fields.contains_key("thread") || text("thread").is_some_and(word),
            "thread",
        ),
        (
            text("received_at").is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()),
            "received_at",
        ),
        (
            message["no_reply"].is_boolean() && message["sender_verified"].is_boolean(),
            "a mark",
        ),
    ];
    for (good, what) in checks {
        if !good {
            wrong.push(what);
        }
    }
    wrong
}

async fn claim(State(shared): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let wait = request["wait_seconds"].as_u64().filter(|wait| *wait <= 25);
    {
        let mut world = shared.lock().unwrap();
        world.claims += 1;
        if let Some(answer) = enter(&mut world, &headers, "claim") {
            return answer;
        }
        if wait.is_none() || request.as_object().is_none_or(|fields| fields.len() != 1) {
            world.violation(format!("claim: {request}"));
        }
    }
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or_default());
    loop {
        {
            let mut world = shared.lock().unwrap();
            let again = world.offer_again.take();
            let ready = world
                .drafts
                .iter()
                .find(|(id, draft)| draft.fate == Fate::Approved || again == Some(**id))
                .map(|(id, _)| *id);
            if let Some(draft_id) = ready {
                let lose = loses(&mut world.claim_faults);
                let draft = world.drafts.get_mut(&draft_id).unwrap();
                if draft.fate == Fate::Approved {
                    draft.fate = Fate::Claimed;
                }
                draft.claims += 1;
                let answer = json!({
                    "draft_id": draft_id, "message_external_id": draft.external_id,
                    "body": draft.body, "approved_at": "2028-01-02T03:04:05Z",
                });
                return if lose {
                    lost()
                } else {
                    axum::Json(answer).into_response()
                };
            }
        }
        if Instant::now() >= until {
            return StatusCode::NO_CONTENT.into_response();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn result(State(world): Shared, Path(id): Path<u64>, headers: HeaderMap, body: Bytes) -> Response {
    let mut world = world.lock().unwrap();
    let report: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(answer) = enter(&mut world, &headers, "result") {
        return answer;
    }
    let fits = |name: &str, limit: usize| match &report[name] {
        Value::Null => true,
        Value::String(text) if name == "detail" => text.len() <= limit,
        Value::String(text) => text.chars().count() <= limit,
        _ => false,
    };
    let Some(ok) = report["ok"]
        .as_bool()
        .filter(|_| fits("external_ref", 200) && fits("detail", 4096))
    else {
        world.violation(format!("result: {report}"));
        return refusal(400, "result");
    };
    let lose = loses(&mut world.result_faults);
    let Some(draft) = world.drafts.get_mut(&id) else {
        return refusal(404, "no such reply");
    };
    let wanted = if ok { Fate::Sent } else { Fate::Failed };
    draft.results.push(report);
    if draft.fate == Fate::Claimed {
        draft.fate = wanted;
    }
    if draft.fate != wanted {
        return refusal(409, "settled otherwise");
    }
    if lose {
        return lost();
    }
    axum::Json(json!({ "draft_id": id, "status": if ok { "sent" } else { "failed" } })).into_response()
}
