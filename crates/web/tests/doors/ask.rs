//! A request and its answer, as a browser, a connector, a script or an agent would send and read them. It tests nothing itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::extract::ConnectInfo;
use base64::Engine as _;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, LOCATION, ORIGIN, SET_COOKIE,
};
use http::{HeaderMap, HeaderValue, Method, Request};
use serde_json::Value;

/// What a browser says it takes.
pub(crate) const HTML: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

/// A request before it is sent. Without a `Host` it names the server itself.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Vec<u8>,
    /// Whether to send what a browser sends with a form of our own page.
    ours: bool,
    /// Whether a `Host` is added when there is none.
    hosted: bool,
    peer: IpAddr,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        // A loopback address of its own each time, so that the limit on sign-ins meets only who wants to meet it.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let peer = IpAddr::V4(Ipv4Addr::new(127, a, b, c));
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            ours: false,
            hosted: true,
            peer,
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path).header(ACCEPT, HTML)
    }

    pub(crate) fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// A form of our own pages.
    pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Self {
        let body: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", percent(value)))
            .collect();
        let mut ask = Self::post(path)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, HTML);
        (ask.body, ask.ours) = (body.join("&").into_bytes(), true);
        ask
    }

    /// JSON of our own script.
    pub(crate) fn script(path: &str, body: &Value) -> Self {
        let mut ask = Self::json(path, body);
        ask.ours = true;
        ask
    }

    pub(crate) fn json(path: &str, body: &Value) -> Self {
        Self::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The same, without what a browser sends with a form of our own page.
    pub(crate) fn of_another_site(mut self) -> Self {
        self.ours = false;
        self
    }

    /// The same, without a `Host` unless it is given one.
    pub(crate) fn without_host(mut self) -> Self {
        self.hosted = false;
        self
    }

    pub(crate) fn header(
        mut self,
        name: impl TryInto<HeaderName, Error: std::fmt::Debug>,
        value: &str,
    ) -> Self {
        self.headers
            .push((name.try_into().unwrap(), HeaderValue::from_str(value).unwrap()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header(AUTHORIZATION, &format!("Bearer {token}"))
    }

    pub(crate) fn basic(self, user: &str, password: &str) -> Self {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        self.header(AUTHORIZATION, &format!("Basic {pair}"))
    }

    pub(crate) fn cookie(self, cookie: &str) -> Self {
        self.header(COOKIE, cookie)
    }

    pub(crate) fn sent_from(mut self, peer: [u8; 4]) -> Self {
        self.peer = IpAddr::from(peer);
        self
    }

    pub(crate) fn request(self, host: &str, base: &str) -> Request<Body> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path)
            .body(Body::from(self.body))
            .unwrap();
        for (name, value) in self.headers {
            request.headers_mut().append(name, value);
        }
        if self.ours {
            request
                .headers_mut()
                .entry(ORIGIN)
                .or_insert(base.parse().unwrap());
            request
                .headers_mut()
                .entry("sec-fetch-site")
                .or_insert(HeaderValue::from_static("same-origin"));
        }
        if self.hosted {
            request.headers_mut().entry(HOST).or_insert(host.parse().unwrap());
        }
        request
            .extensions_mut()
            .insert(ConnectInfo(SocketAddr::new(self.peer, 40_000)));
        request
    }
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A header's text, empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> &str {
        self.header(LOCATION.as_str())
    }

    /// The cookie that was set, as a browser sends it back.
    pub(crate) fn cookie(&self) -> String {
        self.header(SET_COOKIE.as_str())
            .split(';')
            .next()
            .unwrap()
            .to_owned()
    }

    /// The mark of a known browser that was set, as a browser sends it back.
    pub(crate) fn mark(&self) -> String {
        let all = self.headers.get_all(SET_COOKIE).iter();
        all.map(|set| set.to_str().unwrap().split(';').next().unwrap())
            .find(|pair| pair.contains("-known="))
            .unwrap_or_default()
            .to_owned()
    }

    /// The error sentence of a JSON refusal.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    /// Status and body on one line, for snapshots.
    pub(crate) fn line(&self) -> String {
        format!("{} {} {}", self.status, self.header("content-type"), self.text())
            .trim_end()
            .to_owned()
    }
}

/// As a page escapes outside text.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&#38;")
        .replace('<', "&#60;")
        .replace('>', "&#62;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}
