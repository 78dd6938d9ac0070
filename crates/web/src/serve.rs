//! Accepts connections and serves the doors on them, each bounded in time, all bounded in number. Never decides what a request means.

mod patience;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use patience::{Taken, Timely};

/// How much of the machine callers may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; more wait in the kernel's queue.
    pub connections: usize,
    /// How long a connection may take to send the head of a request, and how long it may lie idle between two.
    pub head: Duration,
    /// How long a request's body may take, all of it. A door may be stricter.
    pub body: Duration,
    /// How long a caller may take nothing of an answer.
    pub take: Duration,
    /// How long running requests may go on after a stop was asked for.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            head: Duration::from_secs(10),
            // A little more than the connector's door allows, which says so in its own words.
            body: Duration::from_secs(12),
            take: Duration::from_secs(30),
            stop: Duration::from_secs(5),
        }
    }
}

/// Serves until `stop`, then lets running requests end.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, peer, router, limits, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: the next accept would fail at once, over and over.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.stop, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "some connections did not end in time and were cut"
        );
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    // Without it a small answer on a kept-alive connection waits 40 ms for the peer's delayed acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "a connection keeps Nagle's algorithm");
    }
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.map(|body| axum::body::Body::new(Timely::new(body, limits.body)))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(100)
        .keep_alive(true);
    let serving = http.serve_connection(
        TokioIo::new(Taken::new(stream, limits.take)),
        TowerToHyperService::new(service),
    );
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection ended early");
    }
}
