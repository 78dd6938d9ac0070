//! The way to a bus on another machine: its address, a session over it, and why there is none, in words of a person's. Never says a token.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use muster_bus::push::FeedError;
use muster_core::{Secret, text};
use rmcp::ServiceExt as _;
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};

use super::{Session, shown};

/// The longest answer that is read, in bytes: the unread entries of every source.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Why a call came to nothing.
pub(super) enum Broken {
    /// The session is of no use any more.
    Session(FeedError),
    /// The bus answered in it, and said no.
    Said {
        /// Its word for why.
        code: String,
        /// What that means for the caller.
        error: FeedError,
    },
    /// Nobody waits any more.
    Stopped,
}

impl Broken {
    pub(super) fn into_error(self) -> FeedError {
        match self {
            Self::Session(error) | Self::Said { error, .. } => error,
            Self::Stopped => stopped(),
        }
    }
}

pub(super) fn stopped() -> FeedError {
    FeedError::Later("it was asked to stop".to_owned())
}

/// The way to a server.
pub(super) struct Door {
    url: String,
    /// The same as a sentence may name it.
    name: String,
    token: Secret,
    client: reqwest::Client,
}

impl Door {
    pub(super) fn new(url: &str, token: Secret) -> Result<Self, FeedError> {
        let refused = || {
            FeedError::Refused(
                "the server must be an address like http://host:8765/mcp or https://host/mcp, without a user name in it"
                    .to_owned(),
            )
        };
        let mut parsed = reqwest::Url::parse(url).map_err(|_| refused())?;
        let named =
            parsed.host_str().is_some() && parsed.username().is_empty() && parsed.password().is_none();
        if !named || !["http", "https"].contains(&parsed.scheme()) {
            return Err(refused());
        }
        if parsed.path() == "/" {
            parsed.set_path("/mcp");
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none());
        if parsed.scheme() == "http" {
            // Nothing is encrypted, so that no authority is needed; the system's list of them is most of a small process.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            FeedError::Refused(format!("no connection can be made from here: {}", chain(&error)))
        })?;
        Ok(Self {
            name: text::terminal(parsed.as_str()),
            url: parsed.into(),
            token,
            client,
        })
    }

    /// Opens a session.
    pub(super) async fn open(&self) -> Result<Session, Broken> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .auth_header(self.token.expose())
            // A new session has to say first who is there.
            .reinit_on_expired_session(false);
        config.max_json_response_size = ANSWER_BYTES;
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
        ().serve(transport)
            .await
            .map_err(|error| Broken::Session(self.unopened(&error)))
    }

    fn unopened(&self, error: &ClientInitializeError) -> FeedError {
        if error.auth_challenge().is_some() {
            return refused_token(&format!(" at {}", self.name));
        }
        let said = match error {
            ClientInitializeError::TransportError { error, .. } => match unreached(error) {
                Some(cause) => {
                    return FeedError::Later(format!("the bus at {} cannot be reached: {cause}", self.name));
                }
                None => plain(error),
            },
            // These show the library's own types.
            ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
                "its answer is not one of the protocol's".to_owned()
            }
            other => chain(other),
        };
        // What the server takes for the caller's mistake, it will take for one again.
        let mistake = said
            .split_once("HTTP 4")
            .is_some_and(|(_, rest)| !rest.starts_with("08") && !rest.starts_with("29"));
        let sentence = format!("the bus at {} does not open a session: {said}", self.name);
        if mistake {
            FeedError::Refused(sentence)
        } else {
            FeedError::Later(sentence)
        }
    }

    pub(super) async fn limited<T>(
        &self,
        time: Duration,
        act: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Broken> {
        tokio::time::timeout(time, act).await.unwrap_or_else(|_| {
            Err(Broken::Session(FeedError::Later(format!(
                "the bus at {} does not answer",
                self.name
            ))))
        })
    }
}

pub(super) fn refused_token(name: &str) -> FeedError {
    FeedError::Refused(format!(
        "the bus{name} does not take this token: mint one on its machine with `muster bus token add AGENT`, and give it by AGENT_COORD_TOKEN"
    ))
}

/// What the way to the server broke by, if no server was reached: the system's own words, which stand at the end of all causes.
pub(super) fn unreached(error: &DynamicTransportError) -> Option<String> {
    let StreamableHttpError::Client(error) = client_error(error)? else {
        return None;
    };
    if !error.is_connect() {
        return None;
    }
    let mut last: &dyn Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    Some(shown(&last.to_string()))
}

/// What the transport broke by, without the name of its Rust type.
pub(super) fn plain(error: &DynamicTransportError) -> String {
    match client_error(error) {
        Some(StreamableHttpError::Client(error)) => chain(error),
        _ => chain(&*error.error),
    }
}

fn client_error(error: &DynamicTransportError) -> Option<&StreamableHttpError<reqwest::Error>> {
    error.error.downcast_ref()
}

/// An error with its causes, each once; without what a person cannot use.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        if !said.contains(&cause_said) {
            said = format!("{said}: {cause_said}");
        }
        source = cause.source();
    }
    shown(&said)
}
