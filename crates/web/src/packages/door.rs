//! `/packages/{plugin}/{server}/mcp`: one package server for one agent over Streamable HTTP, one message at a time. Never starts a server for who has no live
//! token, and never passes on a message whose headers say something else than its body.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use muster_app::accounts::AgentCaller;
use muster_plugin_host::ServerKey;
use muster_plugin_host::session::Posted;

use super::envelope::{self, Broken, Envelope};
use super::pool::Refused;
use crate::Web;
use crate::mcp_agent::{agents_only, foreign_origin, is_json, taken};
use crate::router::{Door, Table};

/// Where a server's door is.
const PATH: &str = "/packages/{plugin}/{server}/mcp";

pub(crate) fn table(web: &Web) -> Table {
    let agents_only = from_fn_with_state(web.clone(), agents_only);
    Table::of(Door::Agent)
        .post(PATH, post)
        .get(PATH, only_post)
        .wrap(move |router| router.route_layer(agents_only))
}

/// The door has no stream of its own to open: what a server says unasked reaches nobody here.
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
        return refusal(&envelope, &Refused::nameless());
    };
    match web.packages.post(&caller, &key, &bytes, envelope.asks()).await {
        Ok(Posted::Accepted) => StatusCode::ACCEPTED.into_response(),
        Ok(Posted::Answer(text)) => json(envelope.status_of(&text), text),
        Ok(Posted::Refused(text)) => json(StatusCode::BAD_REQUEST, text),
        Err(refused) => refusal(&envelope, &refused),
    }
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

fn json(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
}

fn broken_answer(broken: &Broken) -> Response {
    let text = envelope::failure(&broken.id, broken.code, &broken.sentence, None);
    json(StatusCode::BAD_REQUEST, text)
}

/// A call that found its server is answered as a call is; what found none, with an error.
fn refusal(envelope: &Envelope, refused: &Refused) -> Response {
    let (code, sentence) = (refused.code(), refused.to_string());
    if matches!(refused, Refused::Ended(_)) && envelope.method == "tools/call" {
        let text = envelope::refused_call(&envelope.id, code, &sentence);
        return json(StatusCode::OK, text);
    }
    let status = match refused {
        Refused::Unknown(_) => StatusCode::NOT_FOUND,
        Refused::NotRunnable(_) => StatusCode::FORBIDDEN,
        Refused::Ended(_) => StatusCode::CONFLICT,
        Refused::Busy(_) | Refused::Stopping | Refused::Broken(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = envelope::failure(&envelope.id, envelope::REFUSED, &sentence, Some(code));
    json(status, text)
}
