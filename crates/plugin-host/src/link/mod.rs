//! The way to one server, whatever it is reached by: messages out, messages in. Never looks at what they mean.

pub(crate) mod http;
pub(crate) mod outbox;
mod sse;
pub(crate) mod stdio;

use std::time::Duration;

use bytes::Bytes;

use self::http::HttpLink;
use self::outbox::Closed;
use self::stdio::StdioLink;

/// Something to be sent to the server.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The number of a request; notifications and answers have none.
    pub(crate) id: Option<u64>,
    pub(crate) body: String,
}

/// Something that came of a server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(Bytes),
    /// An answer that was too large, with the request's number when it could be told.
    TooLarge(Option<u64>),
    /// A request got no answer that could be read, for this reason.
    Failed(u64, String),
    /// The server does not know what it was asked before it knows anything: the newer era's first question.
    Unknown(u64),
    /// It is over.
    Closed(Over),
}

/// How a server is over.
#[derive(Debug, Clone)]
pub(crate) enum Over {
    /// It never answered in time.
    Silent,
    /// It could not be started, or ended without a word.
    Unstarted(String),
    /// It ended after it had answered.
    Ended(String),
}

/// The spans that a session goes by. The defaults are muster's; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Budgets {
    /// For a server's first answer and for `initialize`.
    pub initialize: Duration,
    /// For a call, once it is decided that it runs.
    pub call: Duration,
    /// How long a silent server has the stream for itself before the other framing is tried beside it.
    pub framing: Duration,
    /// For an answer to the newer era's first question, before it is answered in an older server's place.
    pub discover: Duration,
    /// For calls that run when the agent's stream ends.
    pub drain: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            initialize: Duration::from_secs(30),
            call: Duration::from_secs(300),
            framing: Duration::from_secs(8),
            discover: Duration::from_secs(10),
            drain: Duration::from_secs(2),
        }
    }
}

/// The way to a server.
#[derive(Debug)]
pub(crate) enum Link {
    Stdio(StdioLink),
    Http(HttpLink),
}

impl Link {
    pub(crate) async fn send(&self, message: Outgoing) -> Result<(), Closed> {
        self.send_all(vec![message]).await
    }

    /// Sends messages one after the other.
    pub(crate) async fn send_all(&self, messages: Vec<Outgoing>) -> Result<(), Closed> {
        match self {
            Self::Stdio(link) => link.send_all(messages).await,
            Self::Http(link) => {
                for message in messages {
                    link.send(message).await;
                }
                Ok(())
            }
        }
    }

    /// An answer to this request is not waited for any more.
    pub(crate) fn forget(&self, id: u64) {
        match self {
            Self::Stdio(_) => {}
            Self::Http(link) => link.forget(id),
        }
    }

    /// Has the server ended without waiting for it.
    pub(crate) fn abandon(&self) {
        match self {
            Self::Stdio(link) => link.abandon(),
            Self::Http(link) => link.abandon(),
        }
    }

    /// Ends the server, or what muster has open to it.
    pub(crate) async fn stop(&self) {
        match self {
            Self::Stdio(link) => link.stop().await,
            Self::Http(link) => link.stop().await,
        }
    }
}
