//! Why an act on packages was refused, with the word that scripts read. Never holds outside text unescaped.

use muster_core::Fault;

use crate::diagnostic::Diagnostic;
use crate::trust::Status;

/// A refusal or a failure.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The package has errors; nothing was stored.
    #[error("the package has errors, so nothing of it was installed: {}", first(.0))]
    Invalid(Vec<Diagnostic>),
    /// An update found errors; the installed copy stays, and nothing of the package starts.
    #[error("the package has errors now, so nothing of it starts until they are mended: {}", first(.0))]
    InvalidUpdate(Vec<Diagnostic>),
    /// A package of this id is installed.
    #[error("{0} is installed already; take its changes in with muster plugins update {0}")]
    NameTaken(String),
    /// The package was installed from another folder while an update of it ran.
    #[error(
        "{0} was removed and installed from another folder meanwhile, so this update changed nothing; to take in what is there now, run muster plugins update {0} again"
    )]
    Moved(String),
    /// The folder that an update reads cannot be opened.
    #[error(
        "the folder that {plugin} came from cannot be opened ({why}), so nothing was changed: {folder}. Bring it back, or run muster plugins remove {plugin} and install it from where it is now"
    )]
    NoFolder {
        /// The package.
        plugin: String,
        /// Its source, escaped.
        folder: String,
        /// Why, in the system's words.
        why: std::io::ErrorKind,
    },
    /// There is no such package, server or hook.
    #[error("there is no {0}; muster plugins list names what is installed")]
    NotFound(String),
    /// The definition is not the one that was meant.
    #[error(
        "the definition's hash is {now}, not the one that was given; read the package again with muster plugins inspect"
    )]
    HashMismatch {
        /// The hash now.
        now: String,
    },
    /// `--hash` with more than one thing to decide about.
    #[error("a hash names one definition; name one server beside it")]
    HashOfMany,
    /// The status does not allow it.
    #[error("{what} {why}")]
    NotAllowed {
        /// The server or hook.
        what: String,
        /// The reason.
        why: &'static str,
        /// Its status.
        status: Status,
    },
    /// The server does not start.
    #[error("{what} does not start: its status is {}; {advice}", .status.word())]
    NotRunnable {
        /// The server.
        what: String,
        /// Its status.
        status: Status,
        /// What to do.
        advice: String,
    },
    /// Another approved server has the same name in an agent's configuration.
    #[error("{what} does not start: {other} would have the same name for an agent; rename one of the two")]
    NameCollision {
        /// The server.
        what: String,
        /// The other one.
        other: String,
    },
    /// Something broke.
    #[error(transparent)]
    Fault(#[from] Fault),
}

fn first(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|one| one.is_error()).count();
    let first = diagnostics
        .iter()
        .find(|one| one.is_error())
        .map_or("", |one| one.message.as_str());
    match errors {
        0 | 1 => first.to_owned(),
        more => format!("{first} (and {} more)", more - 1),
    }
}

impl PluginError {
    /// The word for scripts.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::InvalidUpdate(_) => "invalid_package",
            Self::NameTaken(_) => "name_taken",
            Self::Moved(_) => "changed_meanwhile",
            Self::NotFound(_) => "not_found",
            Self::NoFolder { .. } => "no_folder",
            Self::HashMismatch { .. } | Self::HashOfMany => "hash_mismatch",
            Self::NotAllowed { .. } => "not_allowed",
            Self::NotRunnable { .. } => "not_runnable",
            Self::NameCollision { .. } => "name_collision",
            Self::Fault(_) => "fault",
        }
    }

    /// The findings, for a package that has errors.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Invalid(all) | Self::InvalidUpdate(all) => all,
            _ => &[],
        }
    }
}
