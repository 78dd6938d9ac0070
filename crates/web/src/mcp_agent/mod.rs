//! The agents' door `/mcp`: MCP server `muster` over Streamable HTTP, stateless, JSON answers. Never offers a tool to an agent that may not call it.

mod caller;
mod server;
mod tools;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tower::ServiceExt as _;

use crate::Web;
use crate::router::{Door, Table};

/// Tool arguments are a reply of at most 16 KiB; this leaves room for every way of spelling one.
const BODY: usize = 256 * 1024;

pub(crate) fn table(web: &Web) -> Table {
    let agents_only = from_fn_with_state(web.clone(), caller::agents_only);
    Table::of(Door::Agent).post("/mcp", serve).get("/mcp", serve).wrap(move |router| router.route_layer(agents_only))
}

async fn serve(State(web): State<Web>, request: Request) -> Response {
    let mut config = StreamableHttpServerConfig::default();
    // Stateless: no session to lose at a restart, and two calls with one id cannot cross.
    config.legacy_session_mode = false;
    config.json_response = true;
    config.sse_retry = None;
    config.max_request_body_bytes = BODY;
    // The host was checked for every door already, by the same rule.
    config.allowed_hosts = Vec::new();
    config.allowed_origins = Vec::new();
    config.cancellation_token = web.app.tasks.stopping();
    let config = config.enforce_origin_validation();
    let app = web.app.clone();
    let service = StreamableHttpService::new(move || Ok(server::Server::new(app.clone())), Arc::new(NeverSessionManager::default()), config);
    match service.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}
