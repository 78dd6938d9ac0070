//! How long a caller may keep a connection waiting: with the rest of a request's body, and with taking the answer. Never bounds how long muster itself may think.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The body took too long; whoever reads it sees it break off.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct TooSlow;

/// A request's body, all of which must have come within a span of the first look at it.
pub(super) struct Timely {
    body: Incoming,
    span: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    pub(super) fn new(body: Incoming, span: Duration) -> Self {
        Self {
            body,
            span,
            deadline: None,
        }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let span = self.span;
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(span)));
        match polled {
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(frame)) if !deadline.is_elapsed() => {
                Poll::Ready(Some(frame.map_err(Into::into)))
            }
            Poll::Ready(Some(_)) => Poll::Ready(Some(Err(TooSlow.into()))),
            Poll::Pending => deadline.as_mut().poll(cx).map(|()| Some(Err(TooSlow.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose writing fails once the caller has taken nothing for a span.
pub(super) struct Taken {
    stream: TcpStream,
    span: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Taken {
    pub(super) fn new(stream: TcpStream, span: Duration) -> Self {
        Self {
            stream,
            span,
            stalled: None,
        }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let span = self.span;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(span)));
        stalled
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Taken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Taken {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::Router;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::super::{Limits, serve};
    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    /// A server that answers with what it was sent, and with more than the kernel's buffers hold; a connection to it.
    async fn connected() -> (TcpStream, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", post(|body: String| async { body }))
            .route("/large", get(|| async { vec![b'x'; 64 << 20] }));
        let stop = CancellationToken::new();
        let limits = Limits {
            head: SHORT,
            body: SHORT,
            take: SHORT,
            ..Limits::default()
        };
        tokio::spawn(serve(listener, router, limits, stop.clone()));
        (TcpStream::connect(address).await.unwrap(), stop)
    }

    /// Reads until the other end closes; a reset counts as the end.
    async fn rest(link: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        let reading = async {
            while let Ok(read @ 1..) = link.read(&mut piece).await {
                all.extend_from_slice(&piece[..read]);
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reading)
            .await
            .expect("the connection was never closed");
        String::from_utf8_lossy(&all).into_owned()
    }

    #[tokio::test]
    async fn a_body_that_trickles_is_cut_off_and_its_connection_closed() {
        let (mut link, _stop) = connected().await;
        let begun = Instant::now();
        link.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
            .await
            .unwrap();
        for _ in 0..5 {
            // Into a closed connection nothing is sent; what it said before is read below.
            let _ = link.write_all(b"a").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let said = rest(&mut link).await;
        assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
        assert!(
            begun.elapsed() >= SHORT && begun.elapsed() < SHORT * 10,
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test]
    async fn a_body_that_comes_in_pieces_but_in_time_is_taken() {
        let (mut link, _stop) = connected().await;
        link.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        link.write_all(b"b").await.unwrap();
        let said = rest(&mut link).await;
        assert!(
            said.starts_with("HTTP/1.1 200 ") && said.ends_with("\r\n\r\nab"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_the_connection() {
        let (mut link, _stop) = connected().await;
        link.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(SHORT * 3).await;
        let mut taken = 0;
        let mut piece = vec![0; 1 << 16];
        let reading = async {
            while let Ok(read @ 1..) = link.read(&mut piece).await {
                taken += read;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), reading)
            .await
            .expect("the connection was never closed");
        assert!(taken < 64 << 20, "the whole answer came after all");
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_slowly_but_steadily_comes_whole() {
        let (mut link, _stop) = connected().await;
        link.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let (mut taken, mut piece) = (0, vec![0; 4 << 20]);
        while let Ok(read @ 1..) = link.read(&mut piece).await {
            taken += read;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(taken > 64 << 20, "{taken}");
    }
}
