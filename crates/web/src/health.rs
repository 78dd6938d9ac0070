//! `/healthz`, `/readyz` and `/metrics`: whether muster lives, whether its database can be read and written, and counts. Never says anything about an owner.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::Web;
use crate::router::{Door, Table};

/// What a proxy on this machine adds for a caller elsewhere, who must not pass for a loopback one.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

pub(crate) fn tables() -> Vec<Table> {
    vec![
        Table::of(Door::Anyone)
            .get("/healthz", alive)
            .get("/readyz", ready),
        Table::of(Door::Loopback).get("/metrics", metrics),
    ]
}

async fn alive() -> &'static str {
    "ok\n"
}

async fn ready(State(web): State<Web>) -> Response {
    let answers = async || {
        muster_app::accounts::any_owner(&web.app).await?;
        web.app.db.probe().await
    };
    match answers().await {
        Ok(()) => "ready\n".into_response(),
        Err(fault) => {
            tracing::warn!(error = %fault.chain(), "muster is not ready: its database cannot be read or written");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "muster is not ready: it cannot read or write its database. The server's log says why.\n",
            )
                .into_response()
        }
    }
}

async fn metrics(
    State(web): State<Web>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    if !peer.ip().is_loopback() || FORWARDED.iter().any(|name| headers.contains_key(*name)) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "# HELP muster_claims_waiting Connectors whose claim waits for an approved reply.\n# TYPE muster_claims_waiting gauge"
    );
    let _ = writeln!(text, "muster_claims_waiting {}", web.app.db.wakeups().topics());
    let _ = writeln!(
        text,
        "# HELP muster_background_tasks Deliveries and sweeps that run.\n# TYPE muster_background_tasks gauge"
    );
    let _ = writeln!(text, "muster_background_tasks {}", web.app.tasks.running());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
