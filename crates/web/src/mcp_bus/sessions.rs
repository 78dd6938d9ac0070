//! The open sessions of the HTTP daemon: how many there may be, whose each is, and which of them were never used. Never looks into a message.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures::Stream;
use http::StatusCode;
use muster_core::TokenHash;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many sessions may be open at once. Each takes some 55 KiB.
const ALL: usize = 4_096;

/// How many of them under one token.
const EACH: usize = 1_200;

/// How long a session lasts whose client asked nothing after the handshake and listens to nothing.
const UNUSED: Duration = Duration::from_secs(5 * 60);

/// How often those are looked for.
const LOOK: Duration = Duration::from_secs(15);

tokio::task_local! {
    /// The token of the request that is being answered.
    static BEARER: TokenHash;
}

/// Answers a request in the name of its token: a session that it begins is that token's.
pub(super) fn under<F: Future>(bearer: TokenHash, answering: F) -> impl Future<Output = F::Output> {
    BEARER.scope(bearer, answering)
}

/// Why no session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Full {
    /// There are too many in all.
    #[error(
        "the bus has {ALL} open sessions, as many as it takes; no session was opened: end some, or try again in some minutes"
    )]
    All,
    /// There are too many under this token.
    #[error(
        "this token has {EACH} open sessions, as many as one token gets; no session was opened: end some, or try again in some minutes"
    )]
    Each,
}

impl IntoResponse for Full {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{self}\n")).into_response()
    }
}

/// Why something cannot be done with a session.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    /// There are too many.
    #[error(transparent)]
    Full(#[from] Full),
    /// A session begins under a token; this request came with none.
    #[error("a session is opened by a request only")]
    NoRequest,
    /// What the protocol's own keeper says.
    #[error(transparent)]
    Kept(#[from] LocalSessionManagerError),
}

/// The open sessions.
pub(super) struct Sessions {
    kept: LocalSessionManager,
    open: Mutex<HashMap<SessionId, Open>>,
    counts: Arc<Mutex<Counts>>,
}

struct Open {
    bearer: TokenHash,
    since: Instant,
    used: bool,
    _place: Place,
}

#[derive(Default)]
struct Counts {
    all: usize,
    each: HashMap<TokenHash, usize>,
}

impl Counts {
    fn room(&self, bearer: &TokenHash) -> Result<(), Full> {
        if self.each.get(bearer).is_some_and(|count| *count >= EACH) {
            return Err(Full::Each);
        }
        if self.all >= ALL {
            return Err(Full::All);
        }
        Ok(())
    }
}

/// A session's place among all; dropping it frees the place.
struct Place {
    counts: Arc<Mutex<Counts>>,
    bearer: TokenHash,
}

impl Place {
    fn take(counts: &Arc<Mutex<Counts>>, bearer: &TokenHash) -> Result<Self, Full> {
        let mut held = lock(counts);
        held.room(bearer)?;
        held.all += 1;
        *held.each.entry(bearer.clone()).or_default() += 1;
        drop(held);
        Ok(Self {
            counts: counts.clone(),
            bearer: bearer.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.all = counts.all.saturating_sub(1);
        let left = counts.each.get_mut(&self.bearer).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == 0 {
            counts.each.remove(&self.bearer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// None yet. One without a request or an open stream for `idle` ends.
    pub(super) fn new(idle: Duration) -> Self {
        let mut kept = LocalSessionManager::default();
        kept.session_config.keep_alive = Some(idle);
        // No empty event first: some clients take it for a broken message.
        kept.session_config.sse_retry = None;
        Self {
            kept,
            open: Mutex::default(),
            counts: Arc::default(),
        }
    }

    /// Whether one more may be opened under a token.
    pub(super) fn room(&self, bearer: &TokenHash) -> Result<(), Full> {
        lock(&self.counts).room(bearer)
    }

    /// Whether a session is open and was opened with this token.
    pub(super) fn is_of(&self, session: &str, bearer: &TokenHash) -> bool {
        lock(&self.open)
            .get(session)
            .is_some_and(|open| open.bearer == *bearer)
    }

    /// Ends sessions that nobody uses, until `stop`.
    pub(super) async fn end_unused_until(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => self.end_unused(Instant::now()).await,
            }
        }
    }

    async fn end_unused(&self, now: Instant) {
        let unused: Vec<SessionId> = lock(&self.open)
            .iter()
            .filter(|(_, open)| !open.used && now.duration_since(open.since) >= UNUSED)
            .map(|(id, _)| id.clone())
            .collect();
        for id in unused {
            if let Err(error) = self.close_session(&id).await {
                tracing::warn!(error = %error, "a session that was never used could not be ended; it ends after an hour");
            }
        }
    }

    fn use_it(&self, session: &SessionId) {
        if let Some(open) = lock(&self.open).get_mut(session) {
            open.used = true;
        }
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let bearer = BEARER
            .try_with(TokenHash::clone)
            .map_err(|_| SessionError::NoRequest)?;
        // First: what is counted is never fewer than what is open.
        let place = Place::take(&self.counts, &bearer)?;
        let (id, transport) = self.kept.create_session().await?;
        let open = Open {
            bearer,
            since: Instant::now(),
            used: false,
            _place: place,
        };
        lock(&self.open).insert(id.clone(), open);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.kept.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.kept.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let closed = self.kept.close_session(id).await;
        lock(&self.open).remove(id);
        Ok(closed?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.use_it(id);
        Ok(self.kept.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.kept.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.use_it(id);
        Ok(self.kept.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.use_it(id);
        Ok(self.kept.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Opened = Result<(SessionId, <LocalSessionManager as SessionManager>::Transport), SessionError>;

    fn token(text: &str) -> TokenHash {
        TokenHash::of(text)
    }

    async fn open(sessions: &Sessions, bearer: &TokenHash) -> Opened {
        under(bearer.clone(), sessions.create_session()).await
    }

    fn full(opened: Opened) -> Full {
        match opened {
            Err(SessionError::Full(full)) => full,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was opened"),
        }
    }

    #[tokio::test]
    async fn one_token_gets_so_many_sessions_and_all_together_so_many() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let mut held = Vec::new();
        for round in 0..4 {
            let bearer = token(&format!("tk_{round}"));
            for count in 0..EACH {
                match open(&sessions, &bearer).await {
                    Ok(opened) => held.push(opened),
                    Err(error) => {
                        assert_eq!((round, count), (3, ALL - 3 * EACH), "{error}");
                        break;
                    }
                }
            }
            let why = if round < 3 { Full::Each } else { Full::All };
            assert_eq!(sessions.room(&bearer), Err(why));
            assert_eq!(full(open(&sessions, &bearer).await), why);
        }
        assert_eq!(held.len(), ALL);
        assert_eq!(full(open(&sessions, &token("tk_new")).await), Full::All);
        // One that ends makes room for one, under its token and in all.
        let (ended, _transport) = held.remove(0);
        sessions.close_session(&ended).await.unwrap();
        held.push(open(&sessions, &token("tk_0")).await.unwrap());
        assert_eq!(full(open(&sessions, &token("tk_0")).await), Full::Each);
        let said = Full::All.into_response();
        assert_eq!(said.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn a_session_that_was_never_used_ends_after_five_minutes_and_a_used_one_stays() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let bearer = token("tk_a");
        let (unused, _one) = open(&sessions, &bearer).await.unwrap();
        let (used, _two) = open(&sessions, &bearer).await.unwrap();
        sessions.use_it(&used);
        let begun = Instant::now();
        sessions.end_unused(begun + UNUSED - Duration::from_secs(1)).await;
        assert!(sessions.is_of(&unused, &bearer) && sessions.is_of(&used, &bearer));
        sessions.end_unused(begun + UNUSED).await;
        assert!(!sessions.is_of(&unused, &bearer) && sessions.is_of(&used, &bearer));
        assert!(!sessions.has_session(&unused).await.unwrap());
        assert!(sessions.has_session(&used).await.unwrap());
        assert_eq!(lock(&sessions.counts).all, 1);
    }

    #[tokio::test]
    async fn a_session_is_of_the_token_that_opened_it_and_of_no_other() {
        let sessions = Sessions::new(Duration::from_secs(60));
        let (id, _transport) = open(&sessions, &token("tk_a")).await.unwrap();
        assert!(sessions.is_of(&id, &token("tk_a")));
        assert!(!sessions.is_of(&id, &token("tk_b")));
        assert!(!sessions.is_of("bogus", &token("tk_a")));
        assert!(matches!(
            sessions.create_session().await,
            Err(SessionError::NoRequest)
        ));
    }
}
