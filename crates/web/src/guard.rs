//! What holds for every request before its door sees it: the host is ours, an unsafe browser request comes from our own pages, answers carry strict headers. Never looks at a body.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures::future::Either;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode, Version};
use tower::{Layer, Service};

use crate::state::{Origin, Web};

/// No inline script or style, nothing from elsewhere, no frame, forms only to ourselves.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Refuses a request that does not name exactly one host, or whose `Host` is not ours: a page elsewhere whose name resolves to this machine (DNS rebinding).
///
/// A layer of its own make, because what stands around a claim waits with it, a thousand times over: this one waits with nothing.
#[derive(Clone)]
pub(crate) struct OwnHost<S = ()> {
    origin: Arc<Origin>,
    inner: S,
}

impl OwnHost {
    pub(crate) fn of(web: &Web) -> Self {
        Self {
            origin: web.origin.clone(),
            inner: (),
        }
    }
}

impl<S> Layer<S> for OwnHost {
    type Service = OwnHost<S>;

    fn layer(&self, inner: S) -> OwnHost<S> {
        OwnHost {
            origin: self.origin.clone(),
            inner,
        }
    }
}

impl<S: Service<Request, Response = Response>> Service<Request> for OwnHost<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut hosts = request.headers().get_all(HOST).iter();
        let refusal = match (hosts.next(), hosts.next()) {
            (Some(host), None) if host.to_str().is_ok_and(|host| self.origin.is_host(host)) => {
                return Either::Left(self.inner.call(request));
            }
            // A proxy and a server that each take another of the two would not speak of the same site.
            (Some(_), Some(_)) => (
                StatusCode::BAD_REQUEST,
                "This request names more than one host, so nothing was done. Send one Host header.\n",
            ),
            (None, _) if request.version() >= Version::HTTP_11 => (
                StatusCode::BAD_REQUEST,
                "This request names no host, so nothing was done. Send a Host header.\n",
            ),
            _ => (
                StatusCode::MISDIRECTED_REQUEST,
                "This server does not answer to that host name. Set MUSTER_PUBLIC_URL to the name you use.\n",
            ),
        };
        Either::Right(ready(Ok(refusal.into_response())))
    }
}

/// The headers of every answer.
pub(crate) fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, CSP),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages and answers hold an owner's data; only static files say otherwise.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether a request may act with a browser's cookie: it is safe, or it comes from one of our own pages. A browser that sends neither
/// `Sec-Fetch-Site` nor `Origin` with a form is older than both; nothing it sends can be told from a foreign page's.
pub(crate) fn same_origin(origin: &Origin, method: &Method, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return true;
    }
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("invalid"));
    let host = text(&HOST);
    let own = text(&ORIGIN).map(|sent| origin.is_origin(sent, host));
    match (text(&HeaderName::from_static("sec-fetch-site")), own) {
        (Some("same-origin"), Some(true) | None) => true,
        // "none" is a person's own doing (an address typed in), which never makes a form post.
        (Some(_), _) => false,
        (None, Some(own)) => own,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: TOK-020
    #[test]
    fn an_unsafe_request_needs_our_own_origin() {
        let origin = Origin::listener(std::net::SocketAddr::from(([127, 0, 0, 1], 7447)));
        let check = |method: Method, pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            same_origin(&origin, &method, &headers)
        };
        assert!(check(Method::GET, &[("sec-fetch-site", "cross-site")]));
        assert!(check(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(check(Method::POST, &[("origin", "http://localhost:7447")]));
        for bad in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
            &[
                ("sec-fetch-site", "same-origin"),
                ("origin", "https://evil.example"),
            ],
        ] {
            assert!(!check(Method::POST, bad), "{bad:?}");
        }
    }
}
