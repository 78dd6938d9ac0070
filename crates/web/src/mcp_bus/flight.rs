//! Requests under way over HTTP: each number once in a session, and a sign when whoever asked hangs up. Never looks further into a message than its number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use muster_bus::tools::Caller;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::budget::{Full, Share};
use super::{BODY, Daemon, caller};

/// How long a number may still be taken after its answer went out: the client may have read the answer before this process let go of it.
const LINGER: Duration = Duration::from_millis(300);

/// How much of a message that is too long is read all the same.
const FORGOTTEN: usize = 16 * BODY;

/// The numbers under way, each with its session. Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashSet<Key>>>);

type Key = (String, String);

impl Flights {
    fn board(&self, key: &Key) -> Option<Flight> {
        let new = self.lock().insert(key.clone());
        new.then(|| Flight {
            all: self.clone(),
            key: key.clone(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request under way; dropping it frees its number.
struct Flight {
    all: Flights,
    key: Key,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

/// Ends when nobody waits for the answer any more: it was sent, or its connection is gone.
#[derive(Clone)]
pub(super) struct HungUp(pub(super) CancellationToken);

/// What lasts as long as a request: until the last of its answer is sent, or its connection is gone.
struct Underway {
    _flight: Option<Flight>,
    _share: Share,
    _hung_up: DropGuard,
}

#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow, default)]
    id: Option<&'m RawValue>,
    #[serde(borrow, default)]
    method: Option<&'m RawValue>,
    #[serde(borrow, default)]
    params: Option<&'m RawValue>,
}

impl Message<'_> {
    /// Whether it asks for a new session.
    fn begins(&self) -> bool {
        self.method
            .and_then(|method| serde_json::from_str::<String>(method.get()).ok())
            .is_some_and(|method| method == "initialize")
    }

    /// Whether it names its revision itself, as clients without sessions do in each message.
    fn stands_alone(&self) -> bool {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "_meta", default)]
            meta: HashMap<String, IgnoredAny>,
        }
        self.params
            .and_then(|params| serde_json::from_str::<Params>(params.get()).ok())
            .is_some_and(|params| {
                params
                    .meta
                    .contains_key("io.modelcontextprotocol/protocolVersion")
            })
    }
}

/// A message that asks for a new session.
#[derive(Clone)]
pub(super) struct Begins;

/// Lets a message through, unless its number is under way in its session: of two requests with one number the answers cannot be told apart.
pub(super) async fn one_at_a_time(State(daemon): State<Daemon>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Some(caller::Bearer(bearer)) = parts.extensions.get().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let mut share = daemon.budget.share(bearer);
    let body = match read(body, &mut share).await {
        Ok(body) => body,
        Err(unread) => return unread.into_response(),
    };
    let session = caller::session(&parts.headers);
    let message = serde_json::from_slice::<Message<'_>>(&body).ok();
    if message.as_ref().is_some_and(Message::begins) {
        parts.extensions.insert(Begins);
    }
    let begins = parts.extensions.get::<Begins>().is_some();
    let stands_alone =
        caller::has_no_sessions(&parts.headers) || message.as_ref().is_some_and(Message::stands_alone);
    if let Some(caller) = parts.extensions.get_mut::<Caller>() {
        if stands_alone && !begins && caller.seat.is_none() {
            return no_sessions(&parts.headers, message.and_then(|message| message.id));
        }
        caller.once |= stands_alone;
    }
    let number = message.and_then(|message| message.method.and(message.id).map(|id| id.get().to_owned()));
    let flight = match session.zip(number) {
        None => None,
        Some((session, number)) => match board(&daemon.flights, (session.to_owned(), number)).await {
            Some(flight) => Some(flight),
            None => {
                return (
                    StatusCode::CONFLICT,
                    "a request with this id is still under way in this session; nothing was done\n",
                )
                    .into_response();
            }
        },
    };
    let hung_up = CancellationToken::new();
    let underway = Underway {
        _flight: flight,
        _share: share,
        _hung_up: hung_up.clone().drop_guard(),
    };
    parts.extensions.insert(HungUp(hung_up));
    // A connection that closes drops this future, and with it what is under way; so does one that closes during the answer.
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &underway;
            frame
        }))
    })
}

/// Refuses a revision without sessions, in the words of the protocol: a client that speaks older ones begins a session when it hears this.
fn no_sessions(headers: &HeaderMap, id: Option<&RawValue>) -> Response {
    let requested = caller::revision(headers).unwrap_or(caller::FIRST_WITHOUT_SESSIONS);
    let error = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {
            "code": ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
            "message": NO_SESSIONS,
            "data": {"requested": requested, "supported": WITH_SESSIONS},
        }
    });
    (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
}

/// Without a session and without a token of its own a caller would be anybody at each call.
const NO_SESSIONS: &str = "under a token that all share the bus takes only revisions of MCP that have sessions; for a newer one mint each agent a token with `muster bus token add AGENT`. Nothing was done";

/// Those that do.
const WITH_SESSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Why a body was not taken.
enum Unread {
    TooLong,
    Broken,
    Full(Full),
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        match self {
            Self::Full(full) => full.into_response(),
            Self::TooLong | Self::Broken => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "a message is at most 2 MiB and must arrive whole; nothing was done\n",
            )
                .into_response(),
        }
    }
}

/// Reads a body of at most [`BODY`], for which there must be room. One for which there is none is read to its end within reason and
/// forgotten: a client that is still sending when its connection is closed never sees the answer.
async fn read(mut body: Body, share: &mut Share) -> Result<Bytes, Unread> {
    let (mut bytes, mut length, mut refused) = (BytesMut::new(), 0, None);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
            continue;
        };
        length += data.len();
        if length > FORGOTTEN {
            return Err(Unread::TooLong);
        }
        if length > BODY {
            refused = Some(Unread::TooLong);
        } else if refused.is_none()
            && let Err(full) = share.grow(data.len())
        {
            refused = Some(Unread::Full(full));
        }
        if refused.is_none() {
            bytes.extend_from_slice(&data);
        } else {
            bytes = BytesMut::new();
            share.clear();
        }
    }
    match refused {
        Some(refused) => Err(refused),
        None => Ok(bytes.freeze()),
    }
}

async fn board(flights: &Flights, key: Key) -> Option<Flight> {
    let until = tokio::time::Instant::now() + LINGER;
    loop {
        if let Some(flight) = flights.board(&key) {
            return Some(flight);
        }
        if tokio::time::Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
