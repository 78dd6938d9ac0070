//! Standard input that tells when it ends: a client that left waits for nothing any more. Never reads ahead and never changes a byte.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf, Stdin};
use tokio_util::sync::CancellationToken;

/// Standard input, and the token that its end cancels.
pub(super) struct Input {
    pub(super) stdin: Stdin,
    pub(super) ended: CancellationToken,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.remaining();
        let read = ready!(Pin::new(&mut self.stdin).poll_read(cx, buf));
        if read.is_err() || (before > 0 && buf.remaining() == before) {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
