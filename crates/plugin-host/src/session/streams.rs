//! A program's own standard streams for a session. Never moves a byte through another thread when the streams are pipes or sockets, as they are under an agent.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as StdStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Standard input. Call it inside the runtime.
#[must_use]
pub fn standard_input() -> Box<dyn AsyncRead + Send + Unpin> {
    match directly(&io::stdin(), pipe::Receiver::from_file) {
        Some(Direct::Pipe(receiver)) => Box::new(receiver),
        Some(Direct::Socket(stream)) => Box::new(stream),
        None => Box::new(tokio::io::stdin()),
    }
}

/// Standard output. Call it inside the runtime.
#[must_use]
pub fn standard_output() -> Box<dyn AsyncWrite + Send + Unpin> {
    match directly(&io::stdout(), pipe::Sender::from_file) {
        Some(Direct::Pipe(sender)) => Box::new(sender),
        Some(Direct::Socket(stream)) => Box::new(stream),
        None => Box::new(tokio::io::stdout()),
    }
}

enum Direct<P> {
    Pipe(P),
    Socket(UnixStream),
}

fn directly<P>(stream: &impl AsFd, pipe: impl FnOnce(File) -> io::Result<P>) -> Option<Direct<P>> {
    let owned: OwnedFd = stream.as_fd().try_clone_to_owned().ok()?;
    let file = File::from(owned);
    let kind = file.metadata().ok()?.file_type();
    if kind.is_fifo() {
        return pipe(file).ok().map(Direct::Pipe);
    }
    if kind.is_socket() {
        let stream = StdStream::from(OwnedFd::from(file));
        stream.set_nonblocking(true).ok()?;
        return UnixStream::from_std(stream).ok().map(Direct::Socket);
    }
    None
}
