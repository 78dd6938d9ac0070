//! The one way to a forge: one request, one bounded answer. Never follows a redirect, sends the token to another address, or sends a request again.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LINK, LOCATION, RETRY_AFTER};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use muster_core::{Clock, Secret, Time};
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::spoken;
use crate::{ForgeError, Kind, Setup};

/// Longest token that is taken, in bytes.
const MAX_TOKEN: usize = 4_096;
/// Farthest that a forge's word about the end of a limit is believed.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Bounds of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the beginning to the last byte of the answer.
    pub total: Duration,
    /// Most bytes of an answer's body.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            answer_bytes: 8 * 1024 * 1024,
        }
    }
}

/// Checks an address and gives the base of the interface, without a slash at its end.
pub(crate) fn base(kind: Kind, text: &str) -> Result<Url, ForgeError> {
    let refused = |why: &str| ForgeError::Invalid(format!("the address of a forge {why}"));
    let mut url = Url::parse(text.trim())
        .map_err(|_| refused("is spelled like https://forge.example, and this one is not"))?;
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(refused("needs a host"));
    };
    match url.scheme() {
        "https" => {}
        "http" if is_here(host) => {}
        "http" => {
            return Err(refused(
                "must begin with https://, so that nobody on the way reads the token",
            ));
        }
        _ => return Err(refused("must begin with https://")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("must hold no user name and no password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("must end before any ? or #"));
    }
    if kind == Kind::GitHub && host.eq_ignore_ascii_case("github.com") {
        url = Url::parse("https://api.github.com").map_err(|_| refused("cannot be used"))?;
    }
    let root = url.path().trim_end_matches('/').to_owned();
    let version = match kind {
        Kind::GitHub => "",
        Kind::GitLab => "/api/v4",
        Kind::Forgejo => "/api/v1",
    };
    let path = if root.ends_with(version) {
        root
    } else {
        format!("{root}{version}")
    };
    url.set_path(&path);
    Ok(url)
}

/// Whether a host is this machine, whatever the network says.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A client for one forge.
pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
    authorisation: HeaderValue,
    token: Secret,
    accept: HeaderValue,
    clock: Clock,
    limits: Limits,
}

/// The whole of a good answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Whether the forge says that a further page follows; where it says nothing about pages, a full one does.
    pub(crate) fn has_further_page(&self, rows: usize, per_page: u32) -> bool {
        match self.headers.get(LINK) {
            Some(links) => links
                .to_str()
                .is_ok_and(|links| links.contains("rel=\"next\"") || links.contains("rel=next")),
            None => u32::try_from(rows).is_ok_and(|rows| rows >= per_page),
        }
    }
}

impl Http {
    pub(crate) fn new(setup: Setup<'_>) -> Result<Self, ForgeError> {
        let base = base(setup.kind, setup.url)?;
        // A client is built with TLS even where nothing is encrypted, and wants to know whose. The program has chosen; a test has not.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(setup.limits.connect)
            .timeout(setup.limits.total)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if base.scheme() == "http" {
            // Nothing is encrypted, so that no authority is needed.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            ForgeError::Invalid(format!("no connection can be made from here: {}", chain(&error)))
        })?;
        Ok(Self {
            client,
            base: base.as_str().trim_end_matches('/').to_owned(),
            authorisation: authorisation(setup.kind, setup.token.expose())?,
            token: Secret::new(setup.token.expose().trim()),
            accept: HeaderValue::from_static(match setup.kind {
                Kind::GitHub => "application/vnd.github+json",
                Kind::GitLab | Kind::Forgejo => "application/json",
            }),
            clock: setup.clock,
            limits: setup.limits,
        })
    }

    /// Reads rows: `path` begins with a slash and may hold a query.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Answer), ForgeError> {
        let answer = self
            .send(Method::GET, path, &HeaderMap::new(), Bytes::new())
            .await?;
        let rows = serde_json::from_slice(&answer.body)
            .map_err(|error| unreadable(&Method::GET, &describe(&error)))?;
        Ok((rows, answer))
    }

    /// Creates something.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ForgeError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Bytes::from(body.to_string());
        let answer = self.send(Method::POST, path, &headers, body).await?;
        serde_json::from_slice(&answer.body).map_err(|error| unreadable(&Method::POST, &describe(&error)))
    }

    /// Sends one request and reads the whole answer; only a good one comes back as such.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ForgeError> {
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", self.base))
            .headers(headers.clone())
            .header(ACCEPT, &self.accept)
            .header(AUTHORIZATION, &self.authorisation);
        if !body.is_empty() {
            request = request.body(body);
        }
        let mut response = request.send().await.map_err(|error| broken(&method, &error))?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let body = self.whole(&method, response).await?;
        let answer = Answer {
            status,
            headers,
            body,
        };
        if status.is_success() {
            Ok(answer)
        } else {
            Err(self.refusal(&method, &answer))
        }
    }

    /// The body, as long as it is within the bound.
    async fn whole(&self, method: &Method, mut response: reqwest::Response) -> Result<Bytes, ForgeError> {
        let too_long = || {
            let most = self.limits.answer_bytes;
            unreadable(method, &format!("it has more than {most} bytes"))
        };
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| broken(method, &error))? {
            if body.len().saturating_add(piece.len()) > self.limits.answer_bytes {
                return Err(too_long());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.into())
    }

    /// What an answer means that is not a good one.
    fn refusal(&self, method: &Method, answer: &Answer) -> ForgeError {
        let reason = self.spoken(&reason(&answer.body));
        let limited = answer.status == StatusCode::TOO_MANY_REQUESTS
            || (answer.status == StatusCode::FORBIDDEN
                && (answer.headers.contains_key(RETRY_AFTER)
                    || number(&answer.headers, "x-ratelimit-remaining") == Some(0)
                    || reason.to_ascii_lowercase().contains("rate limit")));
        if limited {
            return ForgeError::RateLimited {
                until: self.until(&answer.headers),
            };
        }
        match answer.status.as_u16() {
            300..=399 => ForgeError::Moved {
                to: answer
                    .headers
                    .get(LOCATION)
                    .map(|to| self.spoken(&String::from_utf8_lossy(to.as_bytes())))
                    .unwrap_or_default(),
            },
            401 => ForgeError::Unauthorised,
            403 => ForgeError::Forbidden { reason },
            404 => ForgeError::NotFound { reason },
            // Not: a request that took too long. It may have been carried out.
            400 | 402 | 405..=407 | 409..=499 => ForgeError::Refused { reason },
            status => unreadable(method, &format!("status {status} {reason}")),
        }
    }

    /// What the forge said, fit to be shown, even if it repeats what it was sent.
    fn spoken(&self, text: &str) -> String {
        spoken(&text.replace(self.token.expose(), "(the token)"))
    }

    /// When requests are taken again.
    fn until(&self, headers: &HeaderMap) -> Option<Time> {
        let now = self.clock.now();
        let latest = now.plus(LONGEST_LIMIT);
        let after = number(headers, "retry-after").map(|seconds| now.plus(Duration::from_secs(seconds)));
        let reset = ["x-ratelimit-reset", "ratelimit-reset"]
            .into_iter()
            .find_map(|name| number(headers, name))
            .and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1_000_000))
            .map(Time::from_micros);
        after.or(reset).filter(|until| *until >= now && *until <= latest)
    }
}

/// The header that carries the token, marked so that nothing prints it.
fn authorisation(kind: Kind, token: &str) -> Result<HeaderValue, ForgeError> {
    let token = token.trim();
    let plain = !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(|b| b.is_ascii_graphic());
    let scheme = match kind {
        Kind::GitHub | Kind::GitLab => "Bearer",
        Kind::Forgejo => "token",
    };
    let mut value = HeaderValue::from_str(&format!("{scheme} {token}"))
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| {
            ForgeError::Invalid(format!(
                "a token is one word of at most {MAX_TOKEN} visible ASCII characters, and this one is not"
            ))
        })?;
    value.set_sensitive(true);
    Ok(value)
}

fn number(headers: &HeaderMap, name: &'static str) -> Option<u64> {
    headers
        .get(HeaderName::from_static(name))?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// A request that broke: one that writes may have arrived unless no connection ever stood.
fn broken(method: &Method, error: &reqwest::Error) -> ForgeError {
    let detail = chain(error);
    if *method == Method::GET || error.is_connect() || error.is_builder() {
        ForgeError::Unreachable { detail }
    } else {
        ForgeError::Unknown { detail }
    }
}

/// An answer that cannot be read: what was asked to be written may have been.
pub(crate) fn unreadable(method: &Method, detail: &str) -> ForgeError {
    let detail = detail.trim().to_owned();
    if *method == Method::GET {
        ForgeError::Unexpected { detail }
    } else {
        ForgeError::Unknown { detail }
    }
}

/// Where the answer stops being what it should be, without any of it.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "other fields than it should have",
        serde_json::error::Category::Eof => "an early end",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "no JSON",
    };
    format!("it has {what}")
}

/// The chain of causes without the address.
fn chain(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".to_owned();
    }
    let mut text = String::new();
    let mut next = error.source();
    while let Some(cause) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    if text.is_empty() {
        text.push_str("the connection broke");
    }
    spoken(&text)
}

/// What a forge says about a refusal, from the places where the three kinds of forge say it.
fn reason(body: &[u8]) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return String::new();
    };
    let mut parts = Vec::new();
    for field in ["message", "error", "error_description"] {
        sentences(body.get(field), &mut parts);
    }
    for error in body.get("errors").and_then(Value::as_array).into_iter().flatten() {
        match error.get("message") {
            Some(message) => sentences(Some(message), &mut parts),
            None => match (error.get("field"), error.get("code")) {
                (Some(Value::String(field)), Some(Value::String(code))) => {
                    parts.push(format!("{field} is {code}"))
                }
                _ => sentences(Some(error), &mut parts),
            },
        }
    }
    parts.dedup();
    parts.join("; ")
}

/// The texts in a value: itself, a list's, or those of an object with the name of their field.
fn sentences(value: Option<&Value>, parts: &mut Vec<String>) {
    match value {
        Some(Value::String(text)) if !text.trim().is_empty() => parts.push(text.clone()),
        Some(Value::Array(list)) => {
            for text in list.iter().filter_map(Value::as_str) {
                parts.push(text.to_owned());
            }
        }
        Some(Value::Object(fields)) => {
            for (field, value) in fields {
                let mut inner = Vec::new();
                if !value.is_object() {
                    sentences(Some(value), &mut inner);
                }
                parts.extend(inner.into_iter().map(|text| format!("{field} {text}")));
            }
        }
        _ => {}
    }
}

/// `path` with these parameters behind it, each encoded.
pub(crate) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        let mut out = String::with_capacity(text.len());
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    };
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forge_says_is_found_in_every_place_where_it_says_it() {
        let table = [
            (r#"{"message":"Not Found"}"#, "Not Found"),
            (
                r#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"No commits between main and x"}]}"#,
                "Validation Failed; No commits between main and x",
            ),
            (
                r#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"head","code":"invalid"}]}"#,
                "Validation Failed; head is invalid",
            ),
            (
                r#"{"message":["Another open merge request already exists"]}"#,
                "Another open merge request already exists",
            ),
            (r#"{"message":{"title":["is too long"]}}"#, "title is too long"),
            (
                r#"{"error":"insufficient_scope","error_description":"needs api"}"#,
                "insufficient_scope; needs api",
            ),
            ("<html>", ""),
            ("[]", ""),
            (r#"{"message":"\u001b[2Jgone"}"#, "\\u{1b}[2Jgone"),
        ];
        for (body, said) in table {
            assert_eq!(spoken(&reason(body.as_bytes())), said, "{body}");
        }
        let long = format!("{{\"message\":\"{}\"}}", "x".repeat(10_000));
        assert!(spoken(&reason(long.as_bytes())).chars().count() <= 301);
    }

    #[test]
    fn an_address_is_https_or_this_machine_and_holds_no_secret() {
        let good = [
            (Kind::GitHub, "https://github.com", "https://api.github.com/"),
            (Kind::GitHub, "https://api.github.com/", "https://api.github.com/"),
            (
                Kind::GitHub,
                "https://ghe.example/api/v3/",
                "https://ghe.example/api/v3",
            ),
            (Kind::GitHub, "http://127.0.0.1:9/", "http://127.0.0.1:9/"),
            (
                Kind::GitLab,
                "https://gitlab.example",
                "https://gitlab.example/api/v4",
            ),
            (
                Kind::GitLab,
                "https://example.org/gitlab/api/v4",
                "https://example.org/gitlab/api/v4",
            ),
            (Kind::Forgejo, "http://[::1]:3000", "http://[::1]:3000/api/v1"),
            (
                Kind::Forgejo,
                "http://localhost:3000/",
                "http://localhost:3000/api/v1",
            ),
        ];
        for (kind, given, want) in good {
            assert_eq!(base(kind, given).unwrap().as_str(), want, "{given}");
        }
        let bad = [
            "",
            "forge.example",
            "ftp://forge.example",
            "http://forge.example",
            "http://127.0.0.1.example",
            "http://10.0.0.1",
            "http://localhost.example",
            "https://user@forge.example",
            "https://user:pass@forge.example",
            "https://forge.example/?token=x",
            "https://forge.example/#x",
            "file:///etc/passwd",
        ];
        for given in bad {
            for kind in Kind::ALL {
                assert!(
                    matches!(base(kind, given), Err(ForgeError::Invalid(_))),
                    "{given}"
                );
            }
        }
    }

    #[test]
    fn a_parameter_cannot_become_another() {
        assert_eq!(
            with_query("/x", &[("q", "a&b=c #ü"), ("page", "1")]),
            "/x?q=a%26b%3Dc%20%23%C3%BC&page=1"
        );
    }

    #[test]
    fn a_token_is_one_visible_word() {
        for token in ["", " ", "two words", "line\nbreak", "ümlaut", &"x".repeat(5_000)] {
            assert!(authorisation(Kind::GitHub, token).is_err());
        }
        let value = authorisation(Kind::Forgejo, "s3cret\n").unwrap();
        assert_eq!(value.to_str().unwrap(), "token s3cret");
        assert_eq!(format!("{value:?}"), "Sensitive");
    }
}
