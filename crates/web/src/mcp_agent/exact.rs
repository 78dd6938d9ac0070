//! Structured content that keeps every digit: the protocol's library holds it as values of its own, which round numbers and sort keys, so it passes through it as a marked text and is put back where the answer leaves. Never puts back what muster did not mark.

use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use muster_core::secret::random_hex;
use serde_json::Value;
use tokio::io::AsyncWrite;

/// The one key of the object that a marked text is in: the library wants an object. Nobody outside of this process has seen it, so no value of a
/// database can hold it.
static MARK: LazyLock<Option<String>> =
    LazyLock::new(|| random_hex::<16>().ok().map(|hex| format!("exactly:{hex}")));
/// How such an object begins where it is written, up to its text.
static BEGINNING: LazyLock<Option<String>> =
    LazyLock::new(|| MARK.as_ref().map(|mark| format!("{{\"{mark}\":")));

/// JSON as a value for the library. It leaves on one line: messages end with theirs.
pub(super) fn value(json: &str) -> Value {
    let json = json.replace(['\n', '\r'], " ");
    MARK.as_ref().map_or_else(
        // Where the system gives no randomness the rounded value is what there is.
        || serde_json::from_str(&json).unwrap_or_default(),
        |mark| {
            Value::Object(
                [(mark.clone(), Value::String(json.clone()))]
                    .into_iter()
                    .collect(),
            )
        },
    )
}

/// Bytes of answers on their way out.
#[derive(Default)]
struct Exact {
    /// A marked text whose end has not come, or what may be the beginning of one.
    held: Vec<u8>,
}

impl Exact {
    /// What can leave now.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(beginning) = BEGINNING.as_ref() else {
            return bytes.to_vec();
        };
        self.held.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            let at = begins(rest, beginning.as_bytes());
            let (before, from) = rest.split_at(at.unwrap_or(rest.len()));
            out.extend_from_slice(before);
            rest = from;
            let text = rest.get(beginning.len()..).unwrap_or_default();
            // Behind the text the object ends.
            let Some((text, behind)) = ends(text).and_then(|end| text.split_at_checked(end)) else {
                break;
            };
            let Some(behind) = behind.get(1..) else {
                break;
            };
            // What this process marked itself is one string; whoever could forge it knew the mark.
            let json = serde_json::from_slice::<String>(text).unwrap_or_else(|_| "null".to_owned());
            out.extend_from_slice(json.as_bytes());
            rest = behind;
        }
        let held = rest.to_vec();
        self.held = held;
        out
    }
}

/// Where a marked text begins, or may: the bytes that would tell have not come.
fn begins(bytes: &[u8], beginning: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(brace) = bytes.get(from..)?.iter().position(|byte| *byte == b'{') {
        let at = from + brace;
        let here = bytes.get(at..).unwrap_or_default();
        let common = here.len().min(beginning.len());
        if here.get(..common) == beginning.get(..common) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Where the string ends that begins here.
fn ends(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// An answer over HTTP with its structured content put back.
pub(super) async fn response(response: Response) -> Response {
    let whole = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"));
    let (parts, body) = response.into_parts();
    let mut exact = Exact::default();
    let body = if whole {
        match body.collect().await {
            Ok(collected) => Body::from(exact.push(&collected.to_bytes())),
            Err(error) => {
                tracing::error!(error = %error, "an answer to an agent broke off");
                Body::empty()
            }
        }
    } else {
        let stream = body
            .into_data_stream()
            .map(move |chunk| chunk.map(|chunk| Bytes::from(exact.push(&chunk))));
        // An empty part would end the answer.
        Body::from_stream(
            stream.filter(|chunk| std::future::ready(!matches!(chunk, Ok(chunk) if chunk.is_empty()))),
        )
    };
    Response::from_parts(parts, body)
}

/// A writer of lines that puts the structured content of answers back.
pub(super) struct Writer<W> {
    inner: W,
    exact: Exact,
    /// What is to be written, and how much of it was.
    out: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            exact: Exact::default(),
            out: Vec::new(),
            written: 0,
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.out.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Writer<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_out(cx))?;
        let it = &mut *self;
        it.out = it.exact.push(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const KEPT: &str = r#"{"rows":[[{"b":12345678901234567890.10,"a":1,"a":"\"x\\"}]]}"#;

    #[test]
    fn every_digit_and_every_key_comes_out_however_the_bytes_come() {
        let sent =
            json!({"a": "plain \"text\"", "b": [value(KEPT), value("1.50")], "c": "exactly:"}).to_string();
        let expected = format!(r#"{{"a":"plain \"text\"","b":[{KEPT},1.50],"c":"exactly:"}}"#);
        for size in [1, 2, 7, 40, 10_000] {
            let mut exact = Exact::default();
            let out: Vec<u8> = sent
                .as_bytes()
                .chunks(size)
                .flat_map(|part| exact.push(part))
                .collect();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
            assert!(exact.held.is_empty());
        }
    }

    #[test]
    fn a_text_that_muster_did_not_mark_stays_a_text() {
        for text in [
            "{\"exactly:00000000000000000000000000000000\":\"1\"}",
            "{\"exactly:",
            "{\"a\":1.50}",
        ] {
            let sent = json!({ "rows": [[text]] }).to_string();
            assert_eq!(Exact::default().push(sent.as_bytes()), sent.as_bytes());
        }
    }

    #[tokio::test]
    async fn what_is_written_to_a_stream_arrives_whole() {
        let mut writer = Writer::new(Vec::new());
        let line = json!({ "structuredContent": value(KEPT) }).to_string();
        for part in line.as_bytes().chunks(11) {
            writer.write_all(part).await.unwrap();
        }
        writer.write_all(b"\n").await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(
            String::from_utf8(writer.inner).unwrap(),
            format!("{{\"structuredContent\":{KEPT}}}\n")
        );
    }
}
