//! The one check of a bus bearer: a token of one agent, or the one that all share. Never says whose a token is, and never logs one.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use muster_bus::tokens::Tokens;
use muster_bus::tools::Caller;
use muster_bus::{BusError, Home};
use muster_core::{Secret, TokenHash, secret};

use super::{Daemon, gate};

/// Who may come in. Cloning shares it.
#[derive(Clone)]
pub struct Bearers {
    home: Home,
    state: Arc<Mutex<Held>>,
    shared: Option<TokenHash>,
}

struct Held {
    /// `None` while there is no `tokens.json`: then the shared token counts.
    tokens: Option<Tokens>,
    /// The file that was read, so that a rename of an agent by another process is noticed.
    seen: Option<Seen>,
    /// How many maps were read: as long as it is the same, so is whoever was let in.
    reads: u64,
}

type Seen = (u64, u64, i64, i64);

impl Bearers {
    /// Reads `tokens.json`. `shared` counts only while there is none.
    ///
    /// # Errors
    /// [`BusError`]: a map that is malformed lets nobody in, and nobody is let in by half of it.
    pub fn load(home: &Home, shared: Option<&Secret>) -> Result<Self, BusError> {
        let seen = seen(home);
        let tokens = Tokens::load(home)?;
        Ok(Self {
            home: home.clone(),
            state: Arc::new(Mutex::new(Held {
                tokens,
                seen,
                reads: 0,
            })),
            shared: shared.map(|token| TokenHash::of(token.expose())),
        })
    }

    /// Whether there is a map of agents to tokens.
    pub fn has_tokens(&self) -> bool {
        self.lock().tokens.is_some()
    }

    /// Reads the map again. One that cannot be read changes nothing: a typing error must not turn every agent away.
    ///
    /// # Errors
    /// [`BusError`]; the last good map holds.
    pub fn reload(&self) -> Result<(), BusError> {
        let now = seen(&self.home);
        let mut state = self.lock();
        // Also after a failure: what cannot be read is complained of once and not at every request.
        state.seen = now;
        let tokens = Tokens::load(&self.home)?;
        if tokens.is_none() && state.tokens.is_some() {
            // A map that is gone lets nobody in, rather than everybody who knows the shared token.
            tracing::warn!(
                "tokens.json is gone; no token is accepted until it is back or the bus is started anew"
            );
            state.tokens = Some(Tokens::default());
        } else {
            state.tokens = tokens;
        }
        state.reads += 1;
        Ok(())
    }

    /// The number of the map that counts now, which is read again when its file is another.
    fn fresh(&self) -> u64 {
        let now = seen(&self.home);
        let (changed, reads) = {
            let state = self.lock();
            (state.seen != now, state.reads)
        };
        if !changed {
            return reads;
        }
        if let Err(error) = self.reload() {
            tracing::error!(error = %error.chain(), "tokens.json could not be read; the tokens that were read before still count");
        }
        self.lock().reads
    }

    fn caller(&self, bearer: &str, peer: Option<IpAddr>) -> Option<Caller> {
        self.fresh();
        match &self.lock().tokens {
            Some(tokens) => tokens.find(bearer).map(|seat| Caller {
                seat: Some(seat),
                ..Caller::default()
            }),
            None => self
                .shared
                .as_ref()
                .is_some_and(|shared| secret::same(shared.as_str(), TokenHash::of(bearer).as_str()))
                .then(|| Caller {
                    client: peer.map(|peer| client(bearer, peer)),
                    ..Caller::default()
                }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells one machine's sessions under the shared token from another's, in a form that shows neither.
fn client(bearer: &str, peer: IpAddr) -> String {
    let mut print = secret::sha256_hex(format!("bus client\0{peer}\0{bearer}").as_bytes());
    print.truncate(16);
    print
}

fn seen(home: &Home) -> Option<Seen> {
    let meta = fs::metadata(home.root().join("tokens.json")).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Lets a request with a good bearer through, with its [`Caller`] as an extension.
pub(super) async fn bearers_only(State(daemon): State<Daemon>, mut request: Request, next: Next) -> Response {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|peer| peer.0.ip());
    // Before the look: a map that is read in between is looked up again.
    let reads = daemon.bearers.fresh();
    let known = bearer(request.headers()).and_then(|bearer| {
        Some((
            daemon.bearers.caller(bearer, peer)?,
            Bearer(TokenHash::of(bearer)),
            Standing {
                bearers: daemon.bearers.clone(),
                token: Secret::new(bearer.to_owned()),
                reads: Arc::new(AtomicU64::new(reads)),
            },
        ))
    });
    let Some((mut caller, bearer, standing)) = known else {
        let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        return (
            StatusCode::UNAUTHORIZED,
            challenge,
            "no such token, or it was revoked, so nothing was done: mint one on the bus's machine with `muster bus token add ID` and send it as Authorization: Bearer tk_…\n",
        )
            .into_response();
    };
    let session = session(request.headers());
    // Another agent's session is as unknown as one that has ended. Clients look for the first words.
    if session.is_some_and(|session| !daemon.sessions.is_of(session, &bearer.0)) {
        return (
            StatusCode::NOT_FOUND,
            "Not Found: Session not found. None of this name is open under this token; nothing was done, begin another\n",
        )
            .into_response();
    }
    caller.once = session.is_none() || has_no_sessions(request.headers());
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(bearer);
    request.extensions_mut().insert(standing);
    next.run(request).await
}

/// The token that came with a request, as its hash.
#[derive(Clone)]
pub(super) struct Bearer(pub(super) TokenHash);

/// Whether the token that a request came with still lets it in: a call may last, and its token be revoked meanwhile.
#[derive(Clone)]
pub(super) struct Standing {
    bearers: Bearers,
    token: Secret,
    /// The map by which it was last let in. Looking it up in a large map takes its time, and a thousand calls wait at once.
    reads: Arc<AtomicU64>,
}

impl Standing {
    /// Asks again, by the file as it is now.
    pub(super) fn holds(&self) -> bool {
        let reads = self.bearers.fresh();
        if self.reads.load(Ordering::Relaxed) == reads {
            return true;
        }
        let holds = self.bearers.caller(self.token.expose(), None).is_some();
        if holds {
            self.reads.store(reads, Ordering::Relaxed);
        }
        holds
    }
}

/// The session that a request names.
pub(super) fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id").and_then(|id| id.to_str().ok())
}

/// Whether a request is of a revision that has no sessions, whatever else it says.
pub(super) fn has_no_sessions(headers: &HeaderMap) -> bool {
    headers
        .get(REVISION)
        .is_some_and(|revision| revision.as_bytes() >= FIRST_WITHOUT_SESSIONS.as_bytes())
}

/// The revision that a request names in its head.
pub(super) fn revision(headers: &HeaderMap) -> Option<&str> {
    headers.get(REVISION).and_then(|revision| revision.to_str().ok())
}

const REVISION: &str = "mcp-protocol-version";

/// Revisions are dates, so that they are compared as text.
pub(super) const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";

/// Turns away what a page of another site sends, and what was sent to a name that is not this server's.
pub(super) async fn this_server_only(State(daemon): State<Daemon>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let ours = |host: &str| gate::is_host(host, &daemon.listening, &daemon.names);
    let host = match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
        (Some(Ok(host)), None) if ours(host) => host,
        (Some(_), None) => {
            return (
                StatusCode::MISDIRECTED_REQUEST,
                "the bus does not answer to that host name; use its address, or put the name into AGENT_COORD_BIND\n",
            )
                .into_response();
        }
        _ => {
            return (
                StatusCode::BAD_REQUEST,
                "send one Host header; nothing was done\n",
            )
                .into_response();
        }
    };
    let foreign = headers.get_all(ORIGIN).iter().any(|origin| {
        !origin
            .to_str()
            .is_ok_and(|origin| gate::is_origin(origin, host, &daemon.listening, &daemon.names))
    });
    if foreign {
        return (
            StatusCode::FORBIDDEN,
            "this request comes from a page of another site; nothing was done\n",
        )
            .into_response();
    }
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
