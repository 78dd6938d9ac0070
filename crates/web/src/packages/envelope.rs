//! What the HTTP around a message has to agree with: the protocol's headers, checked against the body in both eras. Never looks at what a tool is given.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Revisions that a header may name when the message itself names none.
const KNOWN: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", NEWER];
/// The first revision without `initialize`: each message says by itself what it needs.
const NEWER: &str = "2026-07-28";

const PARSE: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;
/// The code of a refusal of muster's own.
pub(super) const REFUSED: i64 = -32000;
/// Errors that the newer revision sends with a status of their own.
const BAD: [i64; 3] = [HEADER_MISMATCH, -32021, -32022];

/// A message by what the door has to know of it.
#[derive(Debug)]
pub(super) struct Envelope {
    /// Its id as JSON; `null` when it has none.
    pub(super) id: String,
    /// Its method.
    pub(super) method: String,
    /// The revision that the message itself names.
    revision: Option<String>,
    /// The revision that `initialize` asks for.
    hello: Option<String>,
    /// What the method is about: a tool's name, a resource's address.
    name: Option<String>,
}

/// Why a message is not taken.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) id: String,
    pub(super) code: i64,
    pub(super) sentence: String,
}

#[derive(Deserialize)]
struct Outside<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Inside<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, rename = "protocolVersion")]
    hello: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    task: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<&'a RawValue>,
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

impl Envelope {
    /// Reads the outermost parts of a message.
    ///
    /// # Errors
    /// What is no message, as JSON-RPC words it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let none = |code, sentence: &str| Broken {
            id: "null".to_owned(),
            code,
            sentence: sentence.to_owned(),
        };
        let invalid = "Invalid Request: the body is not one JSON-RPC 2.0 message; nothing was done";
        let outside: Outside<'_> = serde_json::from_slice(bytes).map_err(|error| {
            if error.is_data() {
                none(INVALID_REQUEST, invalid)
            } else {
                none(PARSE, "Parse error: the body is not JSON; nothing was done")
            }
        })?;
        let id = outside.id.map_or("null", RawValue::get).to_owned();
        // A list is read like an object by who does not look; and nothing was asked here that could be answered.
        let object = bytes.trim_ascii_start().first() == Some(&b'{');
        let Some(method) = outside.method.filter(|method| object && !method.is_empty()) else {
            return Err(none(INVALID_REQUEST, invalid));
        };
        let method = method.into_owned();
        if method == "subscriptions/listen" {
            let sentence = "this door answers each message by itself and opens no subscription";
            return Err(Broken {
                id,
                code: METHOD_NOT_FOUND,
                sentence: sentence.to_owned(),
            });
        }
        let inside: Inside<'_> = outside
            .params
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .unwrap_or_default();
        let meta: Meta<'_> = inside
            .meta
            .and_then(|meta| serde_json::from_str(meta.get()).ok())
            .unwrap_or_default();
        let name = match method.as_str() {
            "tools/call" | "prompts/get" => inside.name,
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => inside.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => inside.task,
            _ => None,
        };
        Ok(Self {
            id,
            revision: text(meta.revision),
            hello: if method == "initialize" {
                text(inside.hello)
            } else {
                None
            },
            name: text(name),
            method,
        })
    }

    /// Whether it wants an answer.
    pub(super) fn asks(&self) -> bool {
        self.id != "null"
    }

    fn broken(&self, code: i64, sentence: String) -> Broken {
        Broken {
            id: self.id.clone(),
            code,
            sentence: sentence + "; nothing was done",
        }
    }

    /// Checks the protocol's headers against the message: what stands between routes by them without reading the body.
    ///
    /// # Errors
    /// Which header says something else.
    pub(super) fn agrees(&self, headers: &HeaderMap) -> Result<(), Broken> {
        let said = one(headers, "mcp-protocol-version").map_err(|()| {
            self.broken(
                HEADER_MISMATCH,
                "MCP-Protocol-Version stands there twice, or is no text".to_owned(),
            )
        })?;
        let mismatch = |sentence: &str| Err(self.broken(HEADER_MISMATCH, sentence.to_owned()));
        if self.method == "initialize" {
            if let (Some(said), Some(hello)) = (&said, &self.hello)
                && said != hello
            {
                return mismatch("MCP-Protocol-Version is not the protocolVersion that initialize asks for");
            }
            return match one(headers, "mcp-method") {
                Ok(method) if method.as_deref().is_none_or(|method| method == "initialize") => Ok(()),
                _ => mismatch("Mcp-Method is not the method of the message"),
            };
        }
        match (&self.revision, &said) {
            (Some(_), None) => {
                return mismatch(
                    "a message whose _meta names its protocolVersion needs MCP-Protocol-Version",
                );
            }
            (Some(revision), Some(said)) if revision != said => {
                return mismatch("MCP-Protocol-Version is not the protocolVersion of the message");
            }
            (None, Some(said)) if !KNOWN.contains(&said.as_str()) => {
                return Err(self.broken(
                    INVALID_REQUEST,
                    "MCP-Protocol-Version names a revision that muster does not know".to_owned(),
                ));
            }
            _ => {}
        }
        let newer = said.as_deref().is_some_and(|said| said >= NEWER);
        if !newer {
            return Ok(());
        }
        if self.asks() && self.revision.is_none() {
            let sentence = "params._meta must name io.modelcontextprotocol/protocolVersion in this revision";
            return Err(self.broken(INVALID_PARAMS, sentence.to_owned()));
        }
        match one(headers, "mcp-method") {
            Ok(Some(method)) if method == self.method => {}
            _ => return mismatch("Mcp-Method must be the method of the message"),
        }
        match (&self.name, one(headers, "mcp-name")) {
            (None, Ok(_)) => Ok(()),
            (Some(name), Ok(Some(said))) if decoded(&said).as_deref() == Some(name.as_str()) => Ok(()),
            _ => mismatch("Mcp-Name must be what the message is about"),
        }
    }

    /// The status of an answer: the newer revision has some for errors of the protocol, the older one none.
    pub(super) fn status_of(&self, answer: &str) -> StatusCode {
        /// An error is short; what is longer is a result.
        const LONGEST: usize = 64 * 1024;
        #[derive(Deserialize)]
        struct Answer {
            error: Option<Error>,
        }
        #[derive(Deserialize)]
        struct Error {
            code: i64,
        }
        if (self.revision.is_none() && self.method != "server/discover") || answer.len() > LONGEST {
            return StatusCode::OK;
        }
        let code = serde_json::from_str::<Answer>(answer)
            .ok()
            .and_then(|answer| answer.error)
            .map(|error| error.code);
        match code {
            Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
            Some(code) if BAD.contains(&code) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }
}

/// The one value of a header.
fn one(headers: &HeaderMap, name: &str) -> Result<Option<String>, ()> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => Ok(Some(one.to_str().map_err(drop)?.to_owned())),
        _ => Err(()),
    }
}

/// A name as a header carries it: what is no plain text, in Base64.
fn decoded(said: &str) -> Option<String> {
    let wrapped = said
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match wrapped {
        None => Some(said.to_owned()),
        Some(inside) => String::from_utf8(STANDARD.decode(inside).ok()?).ok(),
    }
}

/// Whether the caller takes JSON: it says so, or says nothing.
pub(super) fn accepts_json(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT) || accepts(headers, &["application/json", "application/*", "*/*"])
}

/// Whether the caller takes a stream of events as well: it says so by name, since who takes anything may read it as one document.
pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    accepts(headers, &["text/event-stream"])
}

fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| types.contains(&range.trim().to_ascii_lowercase().as_str()))
}

/// An error for the message `id`; `word` is for programs.
pub(super) fn failure(id: &str, code: i64, sentence: &str, word: Option<&str>) -> String {
    let error = match word {
        Some(word) => json!({"code": code, "message": sentence, "data": {"code": word}}),
        None => json!({"code": code, "message": sentence}),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

/// The result of a call that was not carried through, in the form of every refused call.
pub(super) fn refused_call(id: &str, word: &str, sentence: &str) -> String {
    let result: Value = json!({
        "content": [{"type": "text", "text": sentence}],
        "structuredContent": {"error": {"code": word, "message": sentence}},
        "isError": true,
    });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn check(body: &Value, pairs: &[(&'static str, &'static str)]) -> Result<(), i64> {
        let envelope = Envelope::read(body.to_string().as_bytes()).map_err(|broken| broken.code)?;
        envelope.agrees(&headers(pairs)).map_err(|broken| broken.code)
    }

    #[test]
    fn a_message_of_the_newer_revision_says_the_same_in_its_headers_and_in_its_body() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": NEWER});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "é", "_meta": meta}});
        let good = [
            ("mcp-protocol-version", NEWER),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
        ];
        assert_eq!(check(&call, &good), Ok(()));
        for (at, other) in [
            (0, ("mcp-protocol-version", "2025-11-25")),
            (1, ("mcp-method", "tools/list")),
            (2, ("mcp-name", "e")),
            (2, ("mcp-name", "=?base64?%%%?=")),
        ] {
            let mut bad = good;
            bad[at] = other;
            assert_eq!(check(&call, &bad), Err(HEADER_MISMATCH), "{other:?}");
        }
        for left_out in 0..3 {
            let rest: Vec<_> = (0..3).filter(|at| *at != left_out).map(|at| good[at]).collect();
            assert_eq!(check(&call, &rest), Err(HEADER_MISMATCH), "{left_out}");
        }
        let twice = [good[0], good[1], good[1], good[2]];
        assert_eq!(check(&call, &twice), Err(HEADER_MISMATCH));
        let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(
            check(
                &bare,
                &[("mcp-protocol-version", NEWER), ("mcp-method", "tools/list")]
            ),
            Err(INVALID_PARAMS)
        );
    }

    #[test]
    fn a_message_of_the_older_revisions_needs_no_header() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}});
        assert_eq!(check(&call, &[]), Ok(()));
        assert_eq!(check(&call, &[("mcp-protocol-version", "2025-06-18")]), Ok(()));
        assert_eq!(
            check(&call, &[("mcp-protocol-version", "1999-01-01")]),
            Err(INVALID_REQUEST)
        );
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
        assert_eq!(check(&hello, &[("mcp-protocol-version", "2025-06-18")]), Ok(()));
        assert_eq!(
            check(&hello, &[("mcp-protocol-version", "2025-11-25")]),
            Err(HEADER_MISMATCH)
        );
        assert_eq!(
            check(&hello, &[("mcp-method", "tools/call")]),
            Err(HEADER_MISMATCH)
        );
    }

    #[test]
    fn what_is_no_message_is_told_apart_from_what_is_no_json() {
        for (body, code) in [
            ("", PARSE),
            ("{", PARSE),
            ("[]", INVALID_REQUEST),
            ("7", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"[null,"ping"]"#, INVALID_REQUEST),
            (r#"{"id":1,"result":{}}"#, INVALID_REQUEST),
            (r#"{"method":7}"#, INVALID_REQUEST),
            (r#"{"id":1,"id":2,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"id":1,"method":"subscriptions/listen"}"#, METHOD_NOT_FOUND),
        ] {
            assert_eq!(Envelope::read(body.as_bytes()).unwrap_err().code, code, "{body}");
        }
    }

    #[test]
    fn only_the_newer_revision_gives_an_error_a_status() {
        let newer = json!({"id": 1, "method": "x", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": NEWER}}});
        let older = json!({"id": 1, "method": "x"});
        let status = |body: &Value, code: i64| {
            let answer = failure("1", code, "no", None);
            Envelope::read(body.to_string().as_bytes())
                .unwrap()
                .status_of(&answer)
                .as_u16()
        };
        assert_eq!(
            (
                status(&newer, -32601),
                status(&newer, -32022),
                status(&newer, -32602)
            ),
            (404, 400, 200)
        );
        assert_eq!((status(&older, -32601), status(&older, -32022)), (200, 200));
    }

    #[test]
    fn who_takes_no_json_is_told_so() {
        for (accept, wanted) in [
            ("application/json, text/event-stream", true),
            ("*/*", true),
            ("text/event-stream;q=1, Application/JSON;q=0.5", true),
            ("text/html", false),
        ] {
            let headers = headers(&[("accept", accept)]);
            assert_eq!(accepts_json(&headers), wanted, "{accept}");
            assert_eq!(
                accepts_events(&headers),
                accept.contains("text/event-stream"),
                "{accept}"
            );
        }
        assert!(accepts_json(&HeaderMap::new()));
    }
}
