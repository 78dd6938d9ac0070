//! `/packages/{plugin}/{server}/mcp`: one package server for one agent over Streamable HTTP, one message at a time. Never starts a server for who has no live
//! token, and never passes on a message whose headers say something else than its body.
//!
//! An answer is JSON. Where the server says something before it (the progress of the call, a line of its log, that a list changed) and the caller takes events,
//! it is a stream of them, of which the answer is the last.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use muster_app::accounts::AgentCaller;
use muster_plugin_host::ServerKey;
use muster_plugin_host::session::Posted;
use tokio::sync::mpsc::{self, Receiver};

use super::envelope::{self, Broken, Envelope};
use super::pool::Refused;
use crate::Web;
use crate::mcp_agent::{agents_only, foreign_origin, is_json, taken};
use crate::router::{Door, Table};

/// Where a server's door is.
const PATH: &str = "/packages/{plugin}/{server}/mcp";
/// Notices that wait for a caller who reads slowly; what comes on top of them is left out.
const NOTICES: usize = 256;
/// How often a stream without an event says that it lives, so that a caller who is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// What a message gets: a status, and a text unless it wants no answer.
type Answer = (StatusCode, Option<String>);
/// The answer that is waited for. Dropping it cancels the call.
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(crate) fn table(web: &Web) -> Table {
    let agents_only = from_fn_with_state(web.clone(), agents_only);
    Table::of(Door::Agent)
        .post(PATH, post)
        .get(PATH, only_post)
        .wrap(move |router| router.route_layer(agents_only))
}

/// The door has no stream of its own to open: what a server says while nobody waits for it reaches nobody here.
async fn only_post() -> Response {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        [(ALLOW, "POST")],
        "Method Not Allowed\n",
    )
        .into_response()
}

async fn post(
    State(web): State<Web>,
    Path((plugin, server)): Path<(String, String)>,
    Extension(caller): Extension<AgentCaller>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if foreign_origin(&web, &parts.headers) {
        return (
            StatusCode::FORBIDDEN,
            "this request comes from a page of another site; nothing was done\n",
        )
            .into_response();
    }
    if let Some(refusal) = unreadable(&parts.headers) {
        return refusal;
    }
    let bytes = match taken(&Method::POST, body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let envelope = match Envelope::read(&bytes).and_then(|envelope| {
        envelope.agrees(&parts.headers)?;
        Ok(envelope)
    }) {
        Ok(envelope) => envelope,
        Err(broken) => return broken_answer(&broken),
    };
    // What is no name is not looked for, and not said again.
    let named = ServerKey::parse(&format!("{plugin}:{server}"));
    let Some(key) = named.filter(|key| key.plugin == plugin && key.server == server) else {
        return whole(refusal(&envelope, &Refused::nameless()));
    };
    let (tell, mut heard) = mpsc::channel(NOTICES);
    let notices = envelope::accepts_events(&parts.headers).then_some(tell);
    let mut answering: Answering = Box::pin(async move {
        let posted = web.packages.post(&caller, &key, &bytes, envelope.asks(), notices);
        match posted.await {
            Ok(Posted::Accepted) => (StatusCode::ACCEPTED, None),
            Ok(Posted::Answer(text)) => (envelope.status_of(&text), Some(text)),
            Ok(Posted::Refused(text)) => (StatusCode::BAD_REQUEST, Some(text)),
            Err(refused) => refusal(&envelope, &refused),
        }
    });
    // What was said first is sent first, also when the answer is there by now.
    tokio::select! {
        biased;
        Some(first) = heard.recv() => events(first, heard, answering),
        answer = &mut answering => whole(answer),
    }
}

/// A stream that begins with `first` and ends with the answer.
fn events(first: String, heard: Receiver<String>, answering: Answering) -> Response {
    let stream = stream::unfold(
        (Some(first), heard, Some(answering)),
        |(first, mut heard, answering)| async move {
            if let Some(first) = first {
                return Some((event(&first), (None, heard, answering)));
            }
            let mut answering = answering?;
            tokio::select! {
                biased;
                Some(notice) = heard.recv() => Some((event(&notice), (None, heard, Some(answering)))),
                (_, text) = &mut answering => Some((event(&text.unwrap_or_default()), (None, heard, None))),
            }
        },
    );
    streamed(stream)
}

fn streamed(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(stream)
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response()
}

fn event(message: &str) -> Result<Event, Infallible> {
    // In a JSON text these two stand between values only.
    Ok(Event::default()
        .event("message")
        .data(message.replace(['\r', '\n'], " ")))
}

/// What a client must say of itself before its body is looked at.
fn unreadable(headers: &HeaderMap) -> Option<Response> {
    if !envelope::accepts_json(headers) {
        let words = "the answer is JSON: send Accept: application/json, text/event-stream\n";
        return Some((StatusCode::NOT_ACCEPTABLE, words).into_response());
    }
    if !is_json(headers) {
        let words = "the body must be JSON: send Content-Type: application/json\n";
        return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, words).into_response());
    }
    None
}

fn whole((status, text): Answer) -> Response {
    match text {
        None => status.into_response(),
        Some(text) => (status, [(CONTENT_TYPE, "application/json")], Body::from(text)).into_response(),
    }
}

fn broken_answer(broken: &Broken) -> Response {
    let text = envelope::failure(&broken.id, broken.code, &broken.sentence, None);
    whole((StatusCode::BAD_REQUEST, Some(text)))
}

/// A call that found its server is answered as a call is; what found none, with an error.
fn refusal(envelope: &Envelope, refused: &Refused) -> Answer {
    let (code, sentence) = (refused.code(), refused.to_string());
    if matches!(refused, Refused::Ended(_)) && envelope.method == "tools/call" {
        let text = envelope::refused_call(&envelope.id, code, &sentence);
        return (StatusCode::OK, Some(text));
    }
    let status = match refused {
        Refused::Unknown(_) => StatusCode::NOT_FOUND,
        Refused::NotRunnable(_) => StatusCode::FORBIDDEN,
        Refused::Ended(_) => StatusCode::CONFLICT,
        Refused::Busy(_) | Refused::Stopping | Refused::Broken(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = envelope::failure(&envelope.id, envelope::REFUSED, &sentence, Some(code));
    (status, Some(text))
}
