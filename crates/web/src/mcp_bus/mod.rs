//! The bus's door: MCP server `agent-coord` on stdio, or over Streamable HTTP on a listener of its own. Never decides: the tools of the bus do.

mod budget;
mod caller;
mod flight;
mod gate;
pub(crate) mod input;
mod lanes;
pub mod remote;
mod server;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::StatusCode;
use muster_bus::identity::Session;
use muster_bus::sessions::Link;
use muster_bus::tools::Tools;
use muster_bus::transports::Panes;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::Limits;

pub use caller::Bearers;
pub use gate::{GateError, Proof, gate};

/// A message of 256 KiB, however it is spelled in JSON, and what stands around it.
const BODY: usize = 2 * 1024 * 1024;

/// A session without a request or an open stream for this long ends; its client is told to begin another.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// How long open requests have for their answers after a stop was asked for: waits end at once, and their callers are told.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Serves one session on standard input and output until the client leaves or `stop`.
///
/// # Errors
/// A sentence, when the client does not speak the protocol.
pub async fn serve_stdio(tools: Tools, session: Session, stop: CancellationToken) -> Result<(), String> {
    let ended = stop.child_token();
    let server = server::Server::new(tools, session, lanes::Lanes::default(), ended.clone());
    let (stdin, stdout) = rmcp::transport::stdio();
    let lines = input::Lines::new(stdin, stdout, ended);
    let serving = server.serve_with_ct(lines, stop.clone()).await;
    let running = match serving {
        Ok(running) => running,
        // It left before it said anything, or a signal came first: no fault.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(muster_core::text::terminal(&error.to_string())),
    };
    match running.waiting().await {
        Ok(_) => Ok(()),
        Err(error) => Err(muster_core::text::terminal(&error.to_string())),
    }
}

/// The HTTP daemon.
#[derive(Clone)]
pub struct Daemon {
    bearers: Bearers,
    listening: Arc<[SocketAddr]>,
    names: Arc<[String]>,
    flights: flight::Flights,
    budget: budget::Budget,
    /// Ends what is left of sessions and streams, after the last words.
    cut: CancellationToken,
    sessions: Arc<sessions::Sessions>,
    service: StreamableHttpService<server::Server, sessions::Sessions>,
}

impl Daemon {
    /// A daemon that answers on the addresses it listens on; `names` are the host names among them.
    pub fn new(
        tools: Tools,
        bearers: Bearers,
        listening: &[SocketAddr],
        names: &[String],
        stop: &CancellationToken,
    ) -> Self {
        let sessions = Arc::new(sessions::Sessions::new(IDLE));
        let mut config = StreamableHttpServerConfig::default();
        config.json_response = true;
        config.sse_retry = None;
        config.max_request_body_bytes = BODY;
        // The host and the origin are checked below, by the bus's own rules.
        config.allowed_hosts = Vec::new();
        config.allowed_origins = Vec::new();
        let cut = CancellationToken::new();
        config.cancellation_token = cut.child_token();
        let (ends, lanes) = (stop.clone(), lanes::Lanes::default());
        let service = StreamableHttpService::new(
            move || {
                let session = Session::new(tools.home(), Link::Http, Panes::default())
                    .map_err(|error| std::io::Error::other(error.chain()))?;
                Ok(server::Server::new(
                    tools.clone(),
                    session,
                    lanes.clone(),
                    ends.clone(),
                ))
            },
            sessions.clone(),
            config,
        );
        Self {
            bearers,
            listening: listening.into(),
            names: names.into(),
            flights: flight::Flights::default(),
            budget: budget::Budget::default(),
            cut,
            sessions,
            service,
        }
    }

    /// Serves on one listener until `stop`.
    pub async fn serve(self, listener: tokio::net::TcpListener, stop: CancellationToken) {
        let limits = Limits {
            // Agents think between two calls, and clients keep their connections for it.
            head: Duration::from_secs(75),
            ..Limits::default()
        };
        let (cut, ends) = (self.cut.clone(), stop.clone());
        let sessions = self.sessions.clone();
        let serving = crate::serve(listener, self.router(), limits, stop);
        let last_words = async {
            ends.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
            cut.cancel();
        };
        tokio::join!(serving, last_words, sessions.end_unused_until(&ends));
    }

    /// Its routes.
    pub fn router(self) -> Router {
        let bearers_only = from_fn_with_state(self.clone(), caller::bearers_only);
        let one_at_a_time = from_fn_with_state(self.clone(), flight::one_at_a_time);
        let this_server_only = from_fn_with_state(self.clone(), caller::this_server_only);
        Router::new()
            .route("/mcp", any(mcp).layer(one_at_a_time))
            .fallback(nothing)
            .layer(bearers_only)
            // Open to whoever asks, so it stands outside the check.
            .route("/healthz", get(healthz))
            .layer(this_server_only)
            .with_state(self)
    }
}

async fn mcp(State(daemon): State<Daemon>, request: Request) -> Response {
    let Some(caller::Bearer(bearer)) = request.extensions().get().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let begins = request.extensions().get::<flight::Begins>().is_some();
    if begins && let Err(full) = daemon.sessions.room(&bearer) {
        return full.into_response();
    }
    let serving = daemon.service.oneshot(request);
    match sessions::under(bearer, serving).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn nothing() -> Response {
    (
        StatusCode::NOT_FOUND,
        "the bus answers at /mcp and /healthz; nothing is here\n",
    )
        .into_response()
}
