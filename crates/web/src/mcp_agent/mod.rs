//! MCP server `muster`: the agents' door `/mcp` over Streamable HTTP, stateless, JSON answers, and the same on standard streams. Never decides what an agent may do: the app does, call by call.

mod caller;
mod exact;
mod flight;
mod remote;
mod server;
mod stdio;
mod tools;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use muster_app::accounts::AgentCaller;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use tower::ServiceExt as _;

use crate::Web;
use crate::router::{Door, Table};

pub(crate) use caller::agents_only;
pub(crate) use flight::Calls;
pub use stdio::{Open, Server, Session};
pub(crate) use tools::Databases;

/// The largest arguments are a task's text of 256 KiB; this leaves room for every way of spelling one.
const BODY: usize = 2 * 1024 * 1024;

pub(crate) fn table(web: &Web) -> Table {
    let agents_only = from_fn_with_state(web.clone(), agents_only);
    Table::of(Door::Agent)
        .post("/mcp", serve)
        .get("/mcp", serve)
        .wrap(move |router| router.route_layer(agents_only))
}

async fn serve(State(web): State<Web>, request: Request) -> Response {
    if foreign_origin(&web, request.headers()) {
        return (
            StatusCode::FORBIDDEN,
            "this request comes from a page of another site; nothing was done\n",
        )
            .into_response();
    }
    let mut config = StreamableHttpServerConfig::default();
    // Stateless: no session to lose at a restart, and two calls with one id cannot cross.
    config.legacy_session_mode = false;
    config.json_response = true;
    config.sse_retry = None;
    config.max_request_body_bytes = BODY;
    // The host was checked for every door already, and the origin above, both by muster's own rules.
    config.allowed_hosts = Vec::new();
    config.allowed_origins = Vec::new();
    let (app, calls, databases) = (web.app.clone(), web.calls.clone(), web.databases.clone());
    let service = StreamableHttpService::new(
        move || Ok(server::Server::new(app.clone(), calls.clone(), databases.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let (parts, body) = request.into_parts();
    // Kept for a look at what could not be read: the library says 415 to that, as to another kind of content.
    let bytes = match taken(&parts.method, body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let json = is_json(&parts.headers);
    if let Some(caller) = parts.extensions.get::<AgentCaller>() {
        web.calls.heard(caller.token, &bytes);
    }
    let request = Request::from_parts(parts, Body::from(bytes.clone()));
    let response = match service.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    };
    if json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        unread(&bytes)
    } else {
        exact::response(response).await
    }
}

/// The body of a call; other methods have none to read.
pub(crate) async fn taken(method: &Method, body: Body) -> Result<Bytes, Response> {
    if *method != Method::POST {
        return Ok(Bytes::new());
    }
    match Limited::new(body, BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than 2 MiB; nothing was done\n",
        )
            .into_response()),
        Err(_) => Err((
            StatusCode::BAD_REQUEST,
            "the body broke off before its end; nothing was done\n",
        )
            .into_response()),
    }
}

/// Whether the request says that it carries JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// The answer to JSON that is none, or that is no request of the protocol: as JSON-RPC words it.
fn unread(bytes: &[u8]) -> Response {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(bytes) {
        Err(_) => (-32700, "Parse error: the body is not JSON; nothing was done"),
        Ok(IgnoredAny) => (
            -32600,
            "Invalid Request: the body is not one JSON-RPC 2.0 message; nothing was done",
        ),
    };
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

/// Whether a browser sent this from a page that is not muster's: agent programs send no `Origin` at all.
pub(crate) fn foreign_origin(web: &Web, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    headers.get(ORIGIN).is_some_and(|origin| {
        !origin
            .to_str()
            .is_ok_and(|origin| web.origin.is_origin(origin, host))
    })
}
