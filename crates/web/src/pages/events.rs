//! `/events`: tells an open page that something of its owner's changed. Never says what; the page looks for itself.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use http::HeaderMap;
use muster_app::{Topic, accounts};

use super::caller::Person;
use crate::Web;
use crate::credential::session;

/// At most one hint in this time, so that a burst of changes is one look.
const PACE: Duration = Duration::from_millis(200);
/// How often a silent stream shows that it lives.
const ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn show(
    State(web): State<Web>,
    person: Result<Person, Response>,
    headers: HeaderMap,
) -> Response {
    let caller = match person {
        Ok(Person(caller)) => caller,
        // A page that was open when its sign-in ended connects again. A redirect to another page tells it nothing; this it understands.
        Err(refusal) if refusal.status().is_redirection() && wants_events(&headers) => {
            let end = futures::stream::once(async { Ok::<_, Infallible>(hint("signed-out")) });
            return Sse::new(end).into_response();
        }
        Err(refusal) => return refusal,
    };
    let cookie = session(&headers, &web.origin).unwrap_or_default();
    let waiter = web.app.db.wakeups().waiter(Topic::Owner(caller.owner));
    // Armed before the first answer, so that a change while the browser connects is not missed.
    let woken = waiter.woken();
    let stream = hints(web, cookie, Box::pin(woken), move || Box::pin(waiter.woken()));
    Sse::new(stream)
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response()
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(http::header::ACCEPT)
        .and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.starts_with("text/event-stream"))
}

type Woken = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// One `changed` a wake-up; `signed-out`, and the end, when the session no longer lives; the end when muster stops.
fn hints(
    web: Web,
    cookie: String,
    woken: Woken,
    again: impl Fn() -> Woken + Send,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let stop = web.app.tasks.stopping();
    futures::stream::unfold(Some((web, cookie, woken, again, stop)), async |state| {
        let (web, cookie, woken, again, stop) = state?;
        tokio::select! {
            () = woken => {}
            () = stop.cancelled() => return None,
        }
        // What changes from here on wakes the next round.
        let woken = again();
        tokio::time::sleep(PACE).await;
        match accounts::browser(&web.app, &cookie).await {
            Ok(None) => Some((Ok(hint("signed-out")), None)),
            // A database that does not answer now may do so for the page's own request.
            Ok(Some(_)) | Err(_) => Some((Ok(hint("changed")), Some((web, cookie, woken, again, stop)))),
        }
    })
}

/// A browser passes on no event without data, so the name stands there too.
fn hint(name: &'static str) -> Event {
    Event::default().event(name).data(name)
}
