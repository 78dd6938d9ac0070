//! `/events`: tells an open page that something of its owner's changed. Never says what; the page looks for itself.
//!
//! The stream of a page on which asks are answered is also what makes its owner one who can be asked: from its beginning to its end.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use http::HeaderMap;
use muster_app::access::{self, Present, Seat};
use muster_app::{Topic, accounts};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::caller::Person;
use super::fields::Asked;
use super::refuse;
use crate::Web;
use crate::credential::session;

/// At most one hint in this time, so that a burst of changes is one look.
const PACE: Duration = Duration::from_millis(200);
/// How often a stream looks whether its sign-in still counts while nothing changes.
const LOOK: Duration = Duration::from_secs(60);
/// How often a silent stream shows that it lives.
const ALIVE: Duration = Duration::from_secs(15);

/// What the page is.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Which {
    /// Set by a page on which asks are answered.
    asks: Option<String>,
}

pub(super) async fn show(
    State(web): State<Web>,
    person: Result<Person, Response>,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    let caller = match person {
        Ok(Person(caller)) => caller,
        // A page that was open when its sign-in ended connects again. A redirect to another page tells it nothing; this it understands.
        Err(refusal) if refusal.status().is_redirection() && wants_events(&headers) => {
            let end = futures::stream::once(async { Ok::<_, Infallible>(hint("signed-out")) });
            return Ok(Sse::new(end).into_response());
        }
        Err(refusal) => return Err(refusal),
    };
    let waiter = web.app.db.wakeups().waiter(Topic::Owner(caller.owner));
    // Armed before the first answer, so that a change while the browser connects is not missed.
    let woken: Woken = Box::pin(waiter.woken());
    let present = match which.asks {
        None => None,
        Some(_) => Some(
            access::present(&web.app, caller.owner, Seat::Page)
                .await
                .map_err(|fault| refuse::fault(&fault))?,
        ),
    };
    let listener = Listener {
        cookie: session(&headers, &web.origin).unwrap_or_default(),
        stop: web.app.tasks.stopping(),
        web,
        woken,
        again: Box::new(move || Box::pin(waiter.woken())),
        _present: present,
    };
    Ok(Sse::new(hints(listener))
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response())
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(http::header::ACCEPT)
        .and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.starts_with("text/event-stream"))
}

type Woken = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// One open page. Somebody is present for as long as this is there: it goes with the connection.
struct Listener {
    web: Web,
    cookie: String,
    stop: CancellationToken,
    woken: Woken,
    again: Box<dyn Fn() -> Woken + Send>,
    _present: Option<Present>,
}

/// One `changed` a wake-up; `signed-out`, and the end, when the session no longer lives; the end when muster stops.
fn hints(listener: Listener) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(Some(listener), async |listener| {
        let mut listener = listener?;
        loop {
            let changed = tokio::select! {
                () = &mut listener.woken => true,
                () = listener.stop.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => false,
            };
            if changed {
                // What changes from here on wakes the next round.
                listener.woken = (listener.again)();
                tokio::time::sleep(PACE).await;
            }
            match accounts::browser(&listener.web.app, &listener.cookie).await {
                Ok(None) => return Some((Ok(hint("signed-out")), None)),
                // A database that does not answer now may do so for the page's own request.
                Ok(Some(_)) | Err(_) if changed => return Some((Ok(hint("changed")), Some(listener))),
                Ok(Some(_)) | Err(_) => {}
            }
        }
    })
}

/// A browser passes on no event without data, so the name stands there too.
fn hint(name: &'static str) -> Event {
    Event::default().event(name).data(name)
}
