//! The agents' door `/mcp`: MCP server `muster` over Streamable HTTP, stateless, JSON answers. Never offers a tool to an agent that may not call it.

mod caller;
mod server;
mod tools;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tower::ServiceExt as _;

use crate::Web;
use crate::router::{Door, Table};

/// Tool arguments are a reply of at most 16 KiB; this leaves room for every way of spelling one.
const BODY: usize = 256 * 1024;

pub(crate) fn table(web: &Web) -> Table {
    let agents_only = from_fn_with_state(web.clone(), caller::agents_only);
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
    config.cancellation_token = web.app.tasks.stopping();
    let app = web.app.clone();
    let service = StreamableHttpService::new(
        move || Ok(server::Server::new(app.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    match service.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}

/// Whether a browser sent this from a page that is not muster's: agent programs send no `Origin` at all.
fn foreign_origin(web: &Web, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    headers.get(ORIGIN).is_some_and(|origin| {
        !origin
            .to_str()
            .is_ok_and(|origin| web.origin.is_origin(origin, host))
    })
}
