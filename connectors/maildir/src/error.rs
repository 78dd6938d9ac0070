//! Why the connector stopped, as sentences for the person who runs it. Never carries text that came from a mail or from the server.

use std::io;
use std::path::PathBuf;

/// The connector ended without having done what it was asked. No mail is lost by any of these.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// An option is wrong; nothing was touched.
    #[error("{0}")]
    Usage(String),
    /// muster answered 401.
    #[error(
        "muster does not accept this connector's token (401): it is unknown or revoked, or its owner's account is disabled. \
         Mails that are not posted yet stay in new/. Create a new token and start again."
    )]
    TokenRefused,
    /// muster answered 404 on a route that always exists while connectors are allowed.
    #[error(
        "muster does not take connectors (404): start it with MUSTER_PLUGINS=1, or check the address. \
         Mails that are not posted yet stay in new/."
    )]
    SwitchedOff,
    /// Another process holds the state folder.
    #[error(
        "Another muster-maildir works with the state folder {0:?}. Stop it first, or give this one its own --state folder."
    )]
    Busy(PathBuf),
    /// The file system refused something that must not be skipped.
    #[error("Cannot {act} {path:?}: {source}. Nothing was lost; repair this and start again.")]
    Files {
        /// What was tried, as a verb.
        act: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A single pass (`--once`) met a server that does not answer.
    #[error(
        "muster could not be reached ({0}). Mails and results that it has not confirmed are kept and tried in the next run."
    )]
    Unreachable(&'static str),
    /// The HTTP client or the signal handlers could not be set up.
    #[error("The connector could not start: {0}.")]
    Start(String),
}

impl ConnectorError {
    /// The exit code of the program: 2 wrong usage, 3 muster turned this connector away, 1 anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::TokenRefused | Self::SwitchedOff => 3,
            Self::Busy(_) | Self::Files { .. } | Self::Unreachable(_) | Self::Start(_) => 1,
        }
    }
}

/// Names what was tried with which file when the file system refuses.
pub(crate) trait Tried<T> {
    fn tried(self, act: &'static str, path: &std::path::Path) -> Result<T, ConnectorError>;
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, act: &'static str, path: &std::path::Path) -> Result<T, ConnectorError> {
        self.map_err(|source| ConnectorError::Files {
            act,
            path: path.to_owned(),
            source,
        })
    }
}
