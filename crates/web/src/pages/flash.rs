//! What the next page shows once: a new token, or what was just done. Held in memory for two minutes, for one browser session. Never shown twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, Method};
use muster_core::Secret;
use muster_core::ids::BrowserSessionId;

/// How long the page may take to come.
const KEPT: Duration = Duration::from_secs(120);

/// The page that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Asks,
    Connectors,
    Packages,
    Databases,
    Policies,
    Projects,
    Settings,
    Tasks,
}

/// What is shown.
#[derive(Debug, Clone)]
pub(super) enum Shown {
    /// A new token, with the words that say whose it is.
    Token { what: String, token: Secret },
    /// What was done, in muster's own words.
    Note(&'static str),
    /// What did not go well, in muster's own words.
    Warning(&'static str),
}

/// All that waits to be shown. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Flash(Arc<Mutex<HashMap<(BrowserSessionId, Place), Kept>>>);

#[derive(Debug)]
struct Kept {
    until: Instant,
    shown: Shown,
}

impl Flash {
    /// Keeps `shown` for the next page of this session at `place`, in place of what was kept before.
    pub(super) fn put(&self, session: BrowserSessionId, place: Place, shown: Shown) {
        self.put_at(session, place, shown, Instant::now());
    }

    fn put_at(&self, session: BrowserSessionId, place: Place, shown: Shown, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, kept| kept.until > now);
        all.insert(
            (session, place),
            Kept {
                until: now + KEPT,
                shown,
            },
        );
    }

    /// Takes what is kept; the second caller gets nothing. Only a page that a person opens takes it (see [`Opened`]).
    pub(super) fn take(&self, session: BrowserSessionId, place: Place, opened: &Opened) -> Option<Shown> {
        if opened.0 {
            self.take_at(session, place, Instant::now())
        } else {
            None
        }
    }

    fn take_at(&self, session: BrowserSessionId, place: Place, now: Instant) -> Option<Shown> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&(session, place))
            .filter(|kept| kept.until > now)
            .map(|kept| kept.shown)
    }
}

/// Whether a person opens the page. The script that keeps an open page up to date reads the same page, in any tab, and must not take what
/// the person has not seen; browsers say so in `Sec-Fetch-Dest`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened(bool);

impl Opened {
    fn of(method: &Method, headers: &HeaderMap) -> Self {
        let whole = headers
            .get("sec-fetch-dest")
            .is_none_or(|dest| dest == "document");
        let ahead = headers.contains_key("sec-purpose") || headers.contains_key("purpose");
        // A HEAD is answered like the page without its body: what it would show, nobody sees.
        Self(method == Method::GET && whole && !ahead)
    }
}

impl<S: Sync> FromRequestParts<S> for Opened {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.method, &parts.headers))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const HERS: BrowserSessionId = BrowserSessionId::new(1);
    const HIS: BrowserSessionId = BrowserSessionId::new(2);

    fn token() -> Shown {
        Shown::Token {
            what: "inbox".to_owned(),
            token: Secret::new("mpl_x"),
        }
    }

    // spec: TOK-005 UIP-011
    #[test]
    fn a_new_token_is_shown_once_to_the_session_that_made_it() {
        let flash = Flash::default();
        flash.put(HERS, Place::Connectors, token());
        assert!(flash.take(HIS, Place::Connectors, &Opened(true)).is_none());
        assert!(flash.take(HERS, Place::Settings, &Opened(true)).is_none());
        assert!(
            flash.take(HERS, Place::Connectors, &Opened(false)).is_none(),
            "a refresh by the script takes nothing"
        );
        assert!(
            matches!(flash.take(HERS, Place::Connectors, &Opened(true)), Some(Shown::Token { token, .. }) if token.expose() == "mpl_x")
        );
        assert!(flash.take(HERS, Place::Connectors, &Opened(true)).is_none());
    }

    #[test]
    fn what_nobody_came_for_is_forgotten() {
        let flash = Flash::default();
        let start = Instant::now();
        flash.put_at(HERS, Place::Connectors, token(), start);
        assert!(flash.take_at(HERS, Place::Connectors, start + KEPT).is_none());
        flash.put_at(HERS, Place::Connectors, token(), start);
        flash.put_at(HIS, Place::Settings, Shown::Note("done"), start + KEPT);
        assert_eq!(
            flash.0.lock().unwrap().len(),
            1,
            "an old one goes when a new one comes"
        );
    }

    #[test]
    fn only_a_document_that_a_person_opens_counts() {
        let by = |method: Method, pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            Opened::of(&method, &headers).0
        };
        let with = |pairs: &[(&'static str, &'static str)]| by(Method::GET, pairs);
        assert!(with(&[]) && with(&[("sec-fetch-dest", "document")]));
        assert!(
            !with(&[("sec-fetch-dest", "empty")])
                && !with(&[("sec-fetch-dest", "document"), ("sec-purpose", "prefetch")])
                && !with(&[("purpose", "prefetch")])
        );
        assert!(!by(Method::HEAD, &[]) && !by(Method::HEAD, &[("sec-fetch-dest", "document")]));
    }
}
