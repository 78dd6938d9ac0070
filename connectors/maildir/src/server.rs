//! Speaks muster's connector door: three calls, each answer sorted into what the connector must do next. Never retries by itself and never follows a redirect with the token.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};

use crate::error::ConnectorError;

/// A call that does not wait for anything is answered within this time, or not at all.
const PATIENCE: Duration = Duration::from_secs(30);
/// On top of the time that a claim waits. The contract asks for at least this much.
const CLAIM_EXTRA: Duration = Duration::from_secs(10);
/// Longest wait of a claim that muster grants.
pub(crate) const LONGEST_CLAIM: u64 = 25;
/// Most bytes of an answer that are read.
const LONGEST_ANSWER: usize = 256 * 1024;
/// Longest wait that a Retry-After can impose.
const LONGEST_RETRY_AFTER: u64 = 3600;

/// The body of `POST /plugin/v1/messages`.
#[derive(Debug, Serialize)]
pub(crate) struct InboundMessage {
    pub(crate) external_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) body: String,
    pub(crate) received_at: String,
    pub(crate) no_reply: bool,
    pub(crate) sender_verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<String>,
}

/// An approved reply that is now leased to this connector.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Claimed {
    pub(crate) draft_id: u64,
    pub(crate) message_external_id: String,
    pub(crate) body: String,
}

/// The body of `POST /plugin/v1/drafts/{id}/result`.
#[derive(Debug, Serialize)]
pub(crate) struct ResultBody<'a> {
    pub(crate) ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) external_ref: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) detail: &'a str,
}

/// What an answer asks of the connector.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// Done.
    Good(T),
    /// muster will never take this; its sentence says why.
    Refused(String),
    /// Too much for now: the same call again after this time.
    Wait(Duration),
    /// No answer, or not one of muster's: the same call again, later and later.
    Trouble(Trouble),
    /// Nothing will be accepted any more.
    Stop(ConnectorError),
}

/// Why there is no usable answer. The words are fixed, so that they can be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No answer at all.
    Silent(&'static str),
    /// An answer that says that something is wrong on the other side.
    Status(u16),
    /// An answer that muster would not give.
    Strange,
}

impl Trouble {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Silent(words) => words,
            Self::Status(_) => "the server answered with an error",
            Self::Strange => "the answer is not one that muster gives",
        }
    }
}

/// What became of a reported result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    /// muster has it.
    Recorded,
    /// muster has settled this reply otherwise (409).
    Contradicted,
    /// muster does not know this reply (404), or the whole door is shut: the next claim tells which.
    Unknown,
    /// muster cannot take this body (400).
    Malformed,
}

struct Reply {
    status: StatusCode,
    retry_after: Option<u64>,
    body: Vec<u8>,
}

/// The door of one server, with the token of this connector.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    http: reqwest::Client,
    base: String,
}

impl Server {
    pub(crate) fn new(base: &str, token: &str) -> Result<Self, ConnectorError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ConnectorError::Start(
                "the program that runs it has not chosen a TLS library".to_owned(),
            ));
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| ConnectorError::Usage("The token cannot stand in a header.".to_owned()))?;
        bearer.set_sensitive(true);
        let mut client = reqwest::Client::builder()
            .default_headers([(AUTHORIZATION, bearer)].into_iter().collect())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10));
        if is_local(base) {
            // A proxy is for the world outside; it would send the token away from this machine.
            client = client.no_proxy();
        }
        let http = client
            .build()
            .map_err(|error| ConnectorError::Start(error.without_url().to_string()))?;
        Ok(Self {
            http,
            base: base.to_owned(),
        })
    }

    /// Posts one mail. Only an answer that is certainly muster's counts as stored.
    pub(crate) async fn post_message(&self, message: &InboundMessage) -> Answer<()> {
        #[derive(Deserialize)]
        struct Stored {
            #[serde(rename = "id")]
            _id: serde_json::Value,
            #[serde(rename = "status")]
            _status: String,
        }
        let reply = match self.post("/plugin/v1/messages", message, PATIENCE).await {
            Ok(reply) => reply,
            Err(trouble) => return Answer::Trouble(trouble),
        };
        match reply.status.as_u16() {
            200 | 202 => match serde_json::from_slice::<Stored>(&reply.body) {
                Ok(_) => Answer::Good(()),
                Err(_) => Answer::Trouble(Trouble::Strange),
            },
            // 413 and 422 come from what may stand before muster; the same mail would never pass either.
            400 | 413 | 422 => Answer::Refused(sentence(&reply)),
            _ => common(&reply),
        }
    }

    /// Waits up to `wait_seconds` for an approved reply.
    pub(crate) async fn claim(&self, wait_seconds: u64) -> Answer<Option<Claimed>> {
        let body = serde_json::json!({ "wait_seconds": wait_seconds });
        let patience = Duration::from_secs(wait_seconds).saturating_add(CLAIM_EXTRA);
        let reply = match self.post("/plugin/v1/drafts/claim", &body, patience).await {
            Ok(reply) => reply,
            Err(trouble) => return Answer::Trouble(trouble),
        };
        match reply.status.as_u16() {
            204 => Answer::Good(None),
            200 => match serde_json::from_slice(&reply.body) {
                Ok(claimed) => Answer::Good(Some(claimed)),
                Err(_) => Answer::Trouble(Trouble::Strange),
            },
            _ => common(&reply),
        }
    }

    /// Reports what became of a reply.
    pub(crate) async fn report(&self, draft_id: u64, result: &ResultBody<'_>) -> Answer<Reported> {
        let path = format!("/plugin/v1/drafts/{draft_id}/result");
        let reply = match self.post(&path, result, PATIENCE).await {
            Ok(reply) => reply,
            Err(trouble) => return Answer::Trouble(trouble),
        };
        match reply.status.as_u16() {
            200 => Answer::Good(Reported::Recorded),
            400 => Answer::Good(Reported::Malformed),
            404 => Answer::Good(Reported::Unknown),
            409 => Answer::Good(Reported::Contradicted),
            _ => common(&reply),
        }
    }

    async fn post<B: Serialize>(&self, path: &str, body: &B, patience: Duration) -> Result<Reply, Trouble> {
        let exchange = async {
            let mut response = self
                .http
                .post(format!("{}{path}", self.base))
                .header(CONTENT_TYPE, "application/json")
                .body(serde_json::to_vec(body).map_err(|_| Trouble::Strange)?)
                .send()
                .await
                .map_err(|error| no_answer(&error))?;
            let retry_after = response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|value| value.trim().parse().ok());
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(&error))? {
                if body.len().saturating_add(chunk.len()) > LONGEST_ANSWER {
                    return Err(Trouble::Strange);
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Reply {
                status: response.status(),
                retry_after,
                body,
            })
        };
        tokio::time::timeout(patience, exchange)
            .await
            .unwrap_or(Err(Trouble::Silent("no answer in time")))
    }
}

/// What the statuses mean on every route.
fn common<T>(reply: &Reply) -> Answer<T> {
    match reply.status.as_u16() {
        401 => Answer::Stop(ConnectorError::TokenRefused),
        404 => Answer::Stop(ConnectorError::SwitchedOff),
        status if status == 429 || (status == 503 && reply.retry_after.is_some()) => {
            let seconds = reply.retry_after.unwrap_or(60).clamp(1, LONGEST_RETRY_AFTER);
            Answer::Wait(Duration::from_secs(seconds))
        }
        status @ (500..) => Answer::Trouble(Trouble::Status(status)),
        _ => Answer::Trouble(Trouble::Strange),
    }
}

fn no_answer(error: &reqwest::Error) -> Trouble {
    Trouble::Silent(if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "the connection broke"
    })
}

/// The sentence of a refusal, as text of another program: short and printable.
fn sentence(reply: &Reply) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let text = match serde_json::from_slice::<Refusal>(&reply.body) {
        Ok(refusal) => refusal.error.into_bytes(),
        Err(_) => reply.body.clone(),
    };
    format!(
        "muster answered {}: {}",
        reply.status.as_u16(),
        crate::text::printable(&text, 2000)
    )
}

fn is_local(base: &str) -> bool {
    Url::parse(base).is_ok_and(|url| {
        url.host_str().is_some_and(|host| {
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, retry_after: Option<u64>) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap_or_default(),
            retry_after,
            body: Vec::new(),
        }
    }

    #[test]
    fn each_status_asks_for_its_own_act() {
        let act = |status, after| match common::<()>(&reply(status, after)) {
            Answer::Stop(error) => format!("stop {}", error.exit_code()),
            Answer::Wait(time) => format!("wait {}", time.as_secs()),
            Answer::Trouble(Trouble::Status(status)) => format!("trouble {status}"),
            Answer::Trouble(_) => "strange".to_owned(),
            Answer::Good(()) | Answer::Refused(_) => "wrong".to_owned(),
        };
        assert_eq!(act(401, None), "stop 3");
        assert_eq!(act(404, None), "stop 3");
        assert_eq!(act(429, Some(7)), "wait 7");
        assert_eq!(act(429, None), "wait 60");
        assert_eq!(act(429, Some(0)), "wait 1");
        assert_eq!(act(429, Some(u64::MAX)), "wait 3600");
        assert_eq!(act(500, None), "trouble 500");
        assert_eq!(act(503, None), "trouble 503");
        assert_eq!(act(503, Some(120)), "wait 120");
        for strange in [201, 301, 307, 403, 408, 418] {
            assert_eq!(act(strange, None), "strange", "{strange}");
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        for local in ["http://127.0.0.1:7447", "http://localhost:1", "http://[::1]:7447"] {
            assert!(is_local(local), "{local}");
        }
        for remote in [
            "http://192.0.2.1",
            "https://localhost.example.test",
            "https://127.0.0.1.example.test",
        ] {
            assert!(!is_local(remote), "{remote}");
        }
    }
}
