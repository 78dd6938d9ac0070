//! Requests under way over HTTP: each number once in a session, and a sign when whoever asked hangs up. Never looks further into a message than its number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use muster_bus::tools::Caller;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

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
    let Some(body) = read(body).await else {
        return (
            StatusCode::PAYLOAD_TOO_LARGE,
            "a message is at most 2 MiB and must arrive whole; nothing was done\n",
        )
            .into_response();
    };
    let session = caller::session(&parts.headers);
    let message = serde_json::from_slice::<Message<'_>>(&body).ok();
    if message.as_ref().is_some_and(Message::begins) {
        parts.extensions.insert(Begins);
    }
    if message.as_ref().is_some_and(Message::stands_alone)
        && let Some(caller) = parts.extensions.get_mut::<Caller>()
    {
        caller.once = true;
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

/// Reads a body of at most [`BODY`]. One that is longer is read to its end within reason and forgotten: a client that is still sending when
/// its connection is closed never sees the answer.
async fn read(mut body: Body) -> Option<Bytes> {
    let (mut bytes, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else {
            continue;
        };
        length += data.len();
        if length > FORGOTTEN {
            return None;
        }
        if length <= BODY {
            bytes.extend_from_slice(&data);
        }
    }
    (length <= BODY).then(|| bytes.freeze())
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
