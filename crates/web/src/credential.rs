//! What credential a request carries, read once and the same way for every door. Never checks whether it is good.

use axum_extra::extract::cookie::CookieJar;
use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::state::Origin;

/// The `Authorization` header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorization<'a> {
    /// There is none.
    Absent,
    /// One `Bearer` token.
    Bearer(&'a str),
    /// Another scheme, several headers, or bytes that are no text.
    Other,
}

/// Reads the `Authorization` header.
pub(crate) fn authorization(headers: &HeaderMap) -> Authorization<'_> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    match (all.next(), all.next()) {
        (None, _) => Authorization::Absent,
        (Some(one), None) => one
            .to_str()
            .ok()
            .and_then(bearer)
            .map_or(Authorization::Other, Authorization::Bearer),
        (Some(_), Some(_)) => Authorization::Other,
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The one bearer token of a request that carries nothing else: a browser's session beside it is another kind of credential, and a door takes
/// exactly one.
pub(crate) fn bearer_alone<'a>(headers: &'a HeaderMap, origin: &Origin) -> Option<&'a str> {
    match authorization(headers) {
        Authorization::Bearer(token) if session(headers, origin).is_none_or(|text| text.is_empty()) => {
            Some(token)
        }
        _ => None,
    }
}

/// The session cookie's text.
pub(crate) fn session(headers: &HeaderMap, origin: &Origin) -> Option<String> {
    cookie(headers, origin.cookie())
}

/// The text of the cookie of this name.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    CookieJar::from_headers(headers)
        .get(name)
        .map(|cookie| cookie.value().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_bearer_header_is_a_bearer() {
        let mut headers = HeaderMap::new();
        assert_eq!(authorization(&headers), Authorization::Absent);
        headers.append(AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(authorization(&headers), Authorization::Bearer("abc"));
        headers.append(AUTHORIZATION, "Bearer def".parse().unwrap());
        assert_eq!(authorization(&headers), Authorization::Other);
        headers.clear();
        headers.append(AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(authorization(&headers), Authorization::Other);
    }

    #[test]
    fn a_token_beside_a_browsers_session_is_not_alone() {
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, "Bearer abc".parse().unwrap());
        let (plain, tls) = (
            Origin::public("http://localhost:7447"),
            Origin::public("https://muster.example"),
        );
        headers.append(http::header::COOKIE, "theme=dark; muster-7447=".parse().unwrap());
        assert_eq!(
            bearer_alone(&headers, &plain),
            Some("abc"),
            "what a sign-out leaves behind is no credential"
        );
        headers.append(http::header::COOKIE, "muster-7447=def".parse().unwrap());
        assert_eq!(bearer_alone(&headers, &plain), None);
        assert_eq!(
            bearer_alone(&headers, &tls),
            Some("abc"),
            "behind TLS the session's cookie has another name"
        );
    }
}
