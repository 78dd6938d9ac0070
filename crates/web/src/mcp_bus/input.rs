//! Standard input, line by line: tells when it ends, since a client that left waits for nothing any more, and answers what the protocol's library would drop. Never changes a byte of what it passes on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::RoleServer;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

/// A request that cannot be read, though its number can.
struct Unread {
    id: RequestId,
    why: String,
}

/// The number of a request whose JSON is well formed and means nothing here, such as half of a surrogate pair, and what is wrong with it.
/// Whoever sent it waits for an answer. What has no number, or is no JSON at all, is answered by nobody.
fn unread(line: &[u8]) -> Option<Unread> {
    #[derive(Deserialize)]
    struct Shape<'m> {
        #[serde(borrow)]
        id: &'m RawValue,
        #[serde(borrow, rename = "method")]
        _method: &'m RawValue,
    }
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let error = serde_json::from_slice::<Value>(line).err()?;
    let shape: Shape<'_> = serde_json::from_slice(line).ok()?;
    Some(Unread {
        id: serde_json::from_str(shape.id.get()).ok()?,
        why: format!("this message cannot be read ({error}); nothing was done"),
    })
}

/// Lines of a reader on their way to the protocol's library.
pub(crate) struct Input<R> {
    reader: BufReader<R>,
    /// What was read of the line, and how much of it was passed on.
    line: Vec<u8>,
    given: usize,
    state: State,
    unread: UnboundedSender<Unread>,
    /// The end of the input cancels it.
    ended: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The line is not whole yet.
    Reading,
    /// What is there is passed on; then another line begins.
    Giving,
    /// The line is longer than the library takes; it is passed on as it comes.
    TooLong,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Reads on until there is something to pass on. `false` at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        loop {
            let available = ready!(Pin::new(&mut self.reader).poll_fill_buf(cx))?;
            if available.is_empty() {
                self.state = State::Giving;
                return Poll::Ready(Ok(!self.line.is_empty()));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..end.map_or(available.len(), |end| end + 1));
            let part = part.unwrap_or(available);
            self.line.extend_from_slice(part);
            let used = part.len();
            Pin::new(&mut self.reader).consume(used);
            match (end, self.state) {
                (Some(_), State::Reading) => {
                    if let Some(unread) = unread(&self.line) {
                        self.line.clear();
                        // Nobody listens once the session has ended.
                        let _ = self.unread.send(unread);
                        continue;
                    }
                    self.state = State::Giving;
                }
                (Some(_), _) => self.state = State::Giving,
                (None, State::Reading) if self.line.len() <= DEFAULT_MAX_LINE_LENGTH => continue,
                (None, _) => self.state = State::TooLong,
            }
            return Poll::Ready(Ok(true));
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let it = &mut *self;
        // Also when a part of a line is there: it may be the beginning of one that is answered here.
        if it.line.is_empty() || it.state == State::Reading {
            let more = ready!(it.poll_more(cx));
            if !matches!(more, Ok(true)) {
                it.ended.cancel();
                return Poll::Ready(more.map(drop));
            }
        }
        let rest = it.line.get(it.given..).unwrap_or_default();
        let part = rest.get(..buf.remaining()).unwrap_or(rest);
        buf.put_slice(part);
        it.given += part.len();
        if it.given == it.line.len() {
            it.line.clear();
            it.given = 0;
            if it.state == State::Giving {
                it.state = State::Reading;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The library's own transport, behind an [`Input`].
pub(crate) struct Lines<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, Input<R>, W>,
    unread: UnboundedReceiver<Unread>,
    /// An answer on its way. Kept here, since whoever waits for a message may stop waiting and come back.
    answer: Option<Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(reader: R, writer: W, ended: CancellationToken) -> Self {
        let (told, unread) = mpsc::unbounded_channel();
        let input = Input {
            reader: BufReader::new(reader),
            line: Vec::new(),
            given: 0,
            state: State::Reading,
            unread: told,
            ended,
        };
        Self {
            inner: AsyncRwTransport::new(input, writer),
            unread,
            answer: None,
        }
    }

    fn answer(&mut self, unread: Unread) {
        let error = ErrorData::parse_error(unread.why, None);
        let answer = self
            .inner
            .send(ServerJsonRpcMessage::error(error, Some(unread.id)));
        self.answer = Some(Box::pin(answer));
    }

    async fn answered(&mut self) {
        if let Some(answer) = &mut self.answer {
            // Who does not read what is written to them learns nothing; the library's own answers fail in the same way.
            let _ = answer.await;
            self.answer = None;
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.answered().await;
            let received = tokio::select! {
                biased;
                Some(unread) = self.unread.recv() => Err(unread),
                message = self.inner.receive() => Ok(message),
            };
            match received {
                Ok(Some(message)) => return Some(message),
                Err(unread) => self.answer(unread),
                // The end may have come with the last of them.
                Ok(None) => match self.unread.try_recv() {
                    Ok(unread) => self.answer(unread),
                    Err(_) => return None,
                },
            }
        }
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn id(line: &str) -> Option<RequestId> {
        unread(line.as_bytes()).map(|unread| unread.id)
    }

    #[test]
    fn only_a_request_that_cannot_be_read_and_has_a_number_is_answered_here() {
        let text = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"t":{text}}}}}"#)
        };
        let deep = "[".repeat(200) + &"]".repeat(200);
        for bad in [r#""\ud800""#, r#""\udc00 x""#, r#""\ud800\ud800""#, &deep] {
            assert_eq!(id(&text(bad)), Some(RequestId::Number(7)), "{bad}");
        }
        let named = r#"{"id":"a","method":"m","params":"\ud800"}"#;
        assert_eq!(id(named), Some(RequestId::String("a".into())));
        for other in [
            &text(r#""\ud83e\udd80""#),
            &text(r#""\\ud800""#),
            "not json",
            "",
            r#"{"method":"notifications/x","params":"\ud800"}"#,
            r#"{"id":7,"result":"\ud800"}"#,
            r#"{"id":{},"method":"m","params":"\ud800"}"#,
            r#"{"id":7,"method":"m","params":"\ud800""#,
        ] {
            assert_eq!(id(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn every_other_byte_is_passed_on_as_it_came_however_it_came_and_however_it_is_taken() {
        let bad = "{\"id\":1,\"method\":\"m\",\"params\":\"\\ud800\"}\n";
        let long = "x".repeat(DEFAULT_MAX_LINE_LENGTH + 70_000);
        let parts = [
            "{\"a\":1}\n",
            bad,
            "\n\n",
            "not json\r\n",
            bad,
            &long,
            "\nlast, without an end",
        ];
        let (reader, mut writer) = tokio::io::duplex(4_096);
        let (told, mut unread) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let mut input = Input {
            reader: BufReader::with_capacity(13, reader),
            line: Vec::new(),
            given: 0,
            state: State::Reading,
            unread: told,
            ended: ended.clone(),
        };
        let sent: String = parts.concat();
        let feeding = tokio::spawn(async move {
            // The first of them byte by byte: whoever reads finds a part of a line and nothing behind it.
            let (slow, rest) = sent.as_bytes().split_at(100);
            for byte in slow.chunks(1) {
                writer.write_all(byte).await.unwrap();
                tokio::task::yield_now().await;
            }
            writer.write_all(rest).await.unwrap();
        });
        let mut passed = Vec::new();
        input.read_to_end(&mut passed).await.unwrap();
        feeding.await.unwrap();
        let rest: String = parts.into_iter().filter(|part| *part != bad).collect();
        assert!(passed == rest.as_bytes(), "{} of {}", passed.len(), rest.len());
        assert!(ended.is_cancelled());
        assert_eq!(unread.try_recv().unwrap().id, RequestId::Number(1));
        assert!(unread.try_recv().is_ok() && unread.try_recv().is_err());
    }
}
