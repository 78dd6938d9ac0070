//! A running muster at the other end of an address: passes one request on and reads its answer. Never follows a redirect, and never sends a request twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_core::Secret;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{StatusCode, Url};
use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::exact;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// The largest answer that is read.
const ANSWER: usize = 64 * 1024 * 1024;
/// The revision that requests are sent in; answers mean the same in every one.
const REVISION: &str = "2025-11-25";

/// What came of a request.
pub(super) enum Heard {
    /// Its result.
    Result(Value),
    /// The server answered with an error of the protocol.
    Error(ErrorData),
    /// The token does not count there.
    Unauthorized,
    /// Nothing that answers as muster does is there; nothing was done.
    Nobody,
    /// A call was sent and not answered as muster answers: what came of it is not known.
    Broken,
}

/// The server. Cloning shares the numbers of its requests.
#[derive(Clone)]
pub(super) struct Remote {
    client: reqwest::Client,
    door: Url,
    token: Secret,
    next: Arc<AtomicU64>,
}

impl Remote {
    /// The muster at `base`.
    pub(super) fn new(base: &str, token: Secret) -> Result<Self, String> {
        let door = door(base)?;
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // A kept connection may have died with the server it led to, and a call must not be sent twice to find out.
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            .tcp_keepalive(Duration::from_secs(15))
            .build()
            .map_err(|error| format!("the way to the server could not be prepared: {error}"))?;
        Ok(Self {
            client,
            door,
            token,
            next: Arc::new(AtomicU64::new(1)),
        })
    }

    /// The same at another address.
    pub(super) fn at(&self, base: &str) -> Result<Self, String> {
        Ok(Self {
            client: self.client.clone(),
            door: door(base)?,
            token: self.token.clone(),
            next: self.next.clone(),
        })
    }

    /// Sends one request and waits for its answer, however long it takes. Dropping it closes the connection, and the server gives the call up.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Heard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", std::process::id());
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self
            .client
            .post(self.door.clone())
            .bearer_auth(self.token.expose())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .header("mcp-protocol-version", REVISION)
            .body(body.to_string());
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Heard::Nobody,
            Err(_) => return Heard::Broken,
        };
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Heard::Unauthorized,
            // There is no such door.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Heard::Nobody,
            // What stands before a muster says so too when that was ended in the middle of a call.
            _ => return unheard(method),
        }
        let mut read = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) if read.len() + chunk.len() <= ANSWER => read.extend_from_slice(&chunk),
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => return Heard::Broken,
            }
        }
        understood(&read, method, &id)
    }
}

fn door(base: &str) -> Result<Url, String> {
    Url::parse(&format!("{}/mcp", base.trim_end_matches('/')))
        .map_err(|error| format!("MUSTER_URL is no address: {error}"))
}

/// What is made of an answer that is none of muster's: a call may have been carried out before it was lost, and is not sent again.
fn unheard(method: &str) -> Heard {
    if method == "tools/call" {
        Heard::Broken
    } else {
        Heard::Nobody
    }
}

/// An answer as JSON-RPC shapes it, its result not taken apart yet.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
}

fn understood(read: &[u8], method: &str, id: &str) -> Heard {
    let Ok(answer) = serde_json::from_slice::<Answered<'_>>(read) else {
        return unheard(method);
    };
    if answer.id.as_ref().and_then(Value::as_str) != Some(id) {
        return unheard(method);
    }
    if let Some(result) = answer.result {
        return result_of(result.get()).map_or_else(|| unheard(method), Heard::Result);
    }
    match answer.error.map(serde_json::from_value::<ErrorData>) {
        Some(Ok(error)) => Heard::Error(error),
        _ => unheard(method),
    }
}

/// The result, its structured content as it was written.
fn result_of(text: &str) -> Option<Value> {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
        return serde_json::from_str(text).ok();
    };
    let mut result = serde_json::Map::new();
    for (name, field) in fields {
        let value = if name == "structuredContent" {
            exact::value(field.get())
        } else {
            serde_json::from_str(field.get()).ok()?
        };
        result.insert(name, value);
    }
    Some(Value::Object(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_request_is_one() {
        let heard = |text: &str| understood(text.as_bytes(), "tools/list", "9-1");
        assert!(
            matches!(heard(r#"{"jsonrpc":"2.0","id":"9-1","result":{"a":1}}"#), Heard::Result(value) if value == json!({"a": 1}))
        );
        assert!(
            matches!(heard(r#"{"jsonrpc":"2.0","id":"9-1","error":{"code":-32602,"message":"no"}}"#), Heard::Error(error) if error.code.0 == -32602)
        );
        // What a database wrote passes on as it is.
        let Heard::Result(called) = heard(
            r#"{"jsonrpc":"2.0","id":"9-1","result":{"isError":false,"structuredContent":{"b":1.50,"a":2}}}"#,
        ) else {
            panic!()
        };
        assert_eq!(called["structuredContent"], exact::value(r#"{"b":1.50,"a":2}"#));
        for other in [
            "",
            "[]",
            "<html>",
            "{}",
            r#"{"jsonrpc":"2.0","id":"9-1"}"#,
            r#"{"jsonrpc":"2.0","id":"9-2","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        ] {
            assert!(matches!(heard(other), Heard::Nobody), "{other}");
            // A call that was sent may have been carried out, whatever came back.
            let called = understood(other.as_bytes(), "tools/call", "9-1");
            assert!(matches!(called, Heard::Broken), "{other}");
        }
    }
}
