//! Bytes on a socket, for what no HTTP client would send. Nothing here knows what an answer means.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection that sends what it is told.
pub(crate) struct Raw {
    link: TcpStream,
}

impl Raw {
    pub(crate) fn to(port: u16) -> Self {
        let link = TcpStream::connect(("127.0.0.1", port)).unwrap();
        link.set_nodelay(true).unwrap();
        Self { link }
    }

    /// Sends bytes; false when the other end takes no more.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.link.write_all(bytes.as_ref()).is_ok()
    }

    /// Everything until the other end closes or says nothing for `patience`; whether it closed.
    pub(crate) fn rest(&mut self, patience: Duration) -> (String, bool) {
        self.link.set_read_timeout(Some(patience)).unwrap();
        let mut all = Vec::new();
        let mut piece = [0; 16 * 1024];
        let closed = loop {
            match self.link.read(&mut piece) {
                Ok(0) => break true,
                Ok(read) => all.extend_from_slice(&piece[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break false;
                }
                // A reset is an end too.
                Err(_) => break true,
            }
        };
        (String::from_utf8_lossy(&all).into_owned(), closed)
    }

    /// Whether the other end has closed by now; what it said before is thrown away.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.link.set_nonblocking(true).unwrap();
        let mut piece = [0; 4096];
        let closed = loop {
            match self.link.read(&mut piece) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        self.link.set_nonblocking(false).unwrap();
        closed
    }
}

/// Sends one request on a fresh connection; what came back, whether the server closed, and how long that took.
pub(crate) fn exchange(port: u16, bytes: impl AsRef<[u8]>) -> (String, bool, Duration) {
    let begun = Instant::now();
    let mut raw = Raw::to(port);
    raw.send(bytes);
    let (said, closed) = raw.rest(Duration::from_secs(1));
    (said, closed, begun.elapsed())
}

/// The status of the first answer; 0 when there is none.
pub(crate) fn status(said: &str) -> u16 {
    said.strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}
