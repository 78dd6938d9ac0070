//! Calls as a connector, a script and a browser make them. It follows no redirect, keeps no cookie by itself and uses no proxy.

use std::sync::Once;
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};

/// What a call answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn of(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self {
            status,
            headers,
            text: response.text().await?,
        })
    }

    /// A header's text; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The sentence of a refusal.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// Calls to one server without a cookie. Cloning shares its connections.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    base: String,
}

impl Http {
    pub(crate) fn new(base: &str) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            rustls::crypto::ring::default_provider()
                .install_default()
                .unwrap()
        });
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(40));
        Self {
            client: client.build().unwrap(),
            base: base.to_owned(),
        }
    }

    /// A request that can still be changed.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// Sends a request; an error when no whole answer came.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        Answer::of(request.send().await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await.unwrap()
    }

    /// Posts JSON with a bearer token; an error when no whole answer came.
    pub(crate) async fn try_post(&self, path: &str, token: &str, body: &Value) -> reqwest::Result<Answer> {
        self.send(self.request(Method::POST, path).bearer_auth(token).json(body))
            .await
    }

    /// Posts JSON with a bearer token.
    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> Answer {
        self.try_post(path, token, body).await.unwrap()
    }

    /// Posts a message.
    pub(crate) async fn message(&self, token: &str, body: &Value) -> Answer {
        self.post("/plugin/v1/messages", token, body).await
    }

    /// Asks for an approved reply.
    pub(crate) async fn claim(&self, token: &str, wait: u64) -> Answer {
        self.post("/plugin/v1/drafts/claim", token, &json!({"wait_seconds": wait}))
            .await
    }

    /// Reports a result.
    pub(crate) async fn report(&self, token: &str, draft: i64, result: &Value) -> Answer {
        self.post(&format!("/plugin/v1/drafts/{draft}/result"), token, result)
            .await
    }

    /// Waits until a message's state reads `status`.
    pub(crate) async fn settled(&self, token: &str, message: &Value, status: &str) -> i64 {
        let mut last = None;
        for _ in 0..1_000 {
            let answer = self.message(token, message).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.json()["status"] == status {
                return answer.json()["id"].as_i64().unwrap();
            }
            last = Some(answer);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the message is not {status}: {last:?}");
    }
}

/// A person's browser: keeps the session's cookie and sends the origin with each form.
#[derive(Clone)]
pub(crate) struct Browser {
    http: Http,
    origin: String,
    cookie: String,
}

impl Browser {
    /// One that is not signed in.
    pub(crate) fn new(base: &str) -> Self {
        Self {
            http: Http::new(base),
            origin: base.to_owned(),
            cookie: String::new(),
        }
    }

    /// Signs in as a person does.
    pub(crate) async fn sign_in(base: &str, name: &str, password: &str) -> Self {
        let mut browser = Self::new(base);
        let answer = browser
            .submit("/sign-in", &[("name", name), ("password", password)])
            .await;
        assert_eq!(answer.status, 303, "{answer:?}");
        browser
    }

    /// The session's cookie, name and value.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(crate) async fn try_get(&self, path: &str) -> reqwest::Result<Answer> {
        self.http
            .send(
                self.http
                    .request(Method::GET, path)
                    .header("cookie", &self.cookie),
            )
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.try_get(path).await.unwrap()
    }

    /// Submits a form; an error when no whole answer came.
    pub(crate) async fn try_submit(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::Result<Answer> {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        let form = self
            .http
            .request(Method::POST, path)
            .header("origin", &self.origin)
            .header("cookie", &self.cookie);
        let form = form
            .header("content-type", "application/x-www-form-urlencoded")
            .body(pairs.join("&"));
        self.http.send(form).await
    }

    /// Submits a form and keeps the cookie that the answer sets.
    pub(crate) async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let answer = self.try_submit(path, fields).await.unwrap();
        if let Some((pair, _)) = answer.header("set-cookie").split_once(';') {
            self.cookie = pair.to_owned();
        }
        answer
    }

    /// Decides about a draft: `approve`, `reject` or `withdraw`.
    pub(crate) async fn decide(&mut self, act: &str, draft: i64) -> Answer {
        self.submit(&format!("/attention/drafts/{draft}/{act}"), &[])
            .await
    }

    /// Approves a draft and sees that it was.
    pub(crate) async fn approve(&mut self, draft: i64) {
        let answer = self.decide("approve", draft).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, format!("/attention?tab=drafts#draft-{draft}").as_str()),
            "{answer:?}"
        );
    }
}

/// The drafts that a page offers to approve, in its order.
pub(crate) fn offered(page: &str) -> Vec<i64> {
    let after = page.split("/attention/drafts/").skip(1);
    after
        .filter_map(|rest| rest.split_once("/approve\""))
        .filter_map(|(id, _)| id.parse().ok())
        .collect()
}

/// As a form encodes a value.
fn encode(text: &str) -> String {
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
