//! Every way in which an act at a forge can fail, each with its sentence. Never holds a token, and holds the forge's own words only cut and escaped.

use muster_core::Time;
use muster_core::text::terminal;
use muster_policy::{Action, Resource};

/// Most characters that are repeated of what a forge said.
const SAID: usize = 300;

/// Why an act at a forge did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// What was asked for can be seen to be wrong from here.
    #[error("{0}; nothing was sent")]
    Invalid(String),
    /// The permit is for something else.
    #[error("the permit of this call does not cover {action} on {resource}; nothing was sent")]
    NotCovered {
        /// What the act charges.
        action: Action,
        /// On what.
        resource: Resource,
    },
    /// The token is not known, or no longer.
    #[error(
        "the forge does not accept the integration's token, so nothing was done; the owner can add the integration again with a valid one"
    )]
    Unauthorised,
    /// The token is known and may not do this.
    #[error("the forge does not let the integration's token do this, and nothing was done{}", said(.reason))]
    Forbidden {
        /// What the forge said, cut and escaped.
        reason: String,
    },
    /// No such thing, or one that the token may not see.
    #[error(
        "the forge knows nothing under that name, or its token may not see it, and nothing was done; check the name and what the token may read{}",
        said(.reason)
    )]
    NotFound {
        /// What the forge said, cut and escaped.
        reason: String,
    },
    /// A rule of the forge refuses it: no commits between the branches, a pull request that is open already, tickets switched off.
    #[error("the forge refused it, and nothing was done{}", said(.reason))]
    Refused {
        /// What the forge said, cut and escaped.
        reason: String,
    },
    /// Too many requests.
    #[error("the forge takes no more requests with this token for now, and nothing was done; try again {}", when(.until))]
    RateLimited {
        /// When it takes requests again, if it said so.
        until: Option<Time>,
    },
    /// It lives under another address; muster sends the token nowhere else.
    #[error(
        "the forge points to another address, which muster does not follow, and nothing was done; if the repository was renamed or the forge moved, give muster the new name{}",
        said(.to)
    )]
    Moved {
        /// The address it points to, cut and escaped.
        to: String,
    },
    /// No connection, or no answer to a request that only reads.
    #[error("the forge could not be reached, and nothing was done{}", said(.detail))]
    Unreachable {
        /// What broke.
        detail: String,
    },
    /// The request was sent, and what came of it is not known.
    #[error(
        "the request was sent to the forge, and it is not known whether it was carried out; look there before doing it again{}",
        said(.detail)
    )]
    Unknown {
        /// What broke.
        detail: String,
    },
    /// An answer that the interface does not have, to a request that only reads.
    #[error(
        "the forge gave an answer that muster does not understand; check that the integration's kind and address are right{}",
        said(.detail)
    )]
    Unexpected {
        /// What is wrong with it.
        detail: String,
    },
}

impl ForgeError {
    /// One word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_argument",
            Self::NotCovered { .. } => "not_permitted",
            Self::Unauthorised => "forge_unauthorised",
            Self::Forbidden { .. } => "forge_forbidden",
            Self::NotFound { .. } => "not_found",
            Self::Refused { .. } => "forge_refused",
            Self::RateLimited { .. } => "forge_rate_limited",
            Self::Moved { .. } => "forge_moved",
            Self::Unreachable { .. } => "forge_unreachable",
            Self::Unknown { .. } => "forge_unknown",
            Self::Unexpected { .. } => "forge_unexpected",
        }
    }

    /// Whether the act may have been carried out although this came back.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// What a forge said, on one line, with nothing that cannot be seen, cut to a bearable length.
pub(crate) fn spoken(text: &str) -> String {
    let text = text.trim();
    let beginning: String = text.chars().take(SAID).collect();
    let more = if beginning.len() < text.len() { "…" } else { "" };
    format!("{}{more}", terminal(&beginning))
}

fn said(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

fn when(until: &Option<Time>) -> String {
    match until {
        Some(until) => format!("after {until}"),
        None => "in a few minutes".to_owned(),
    }
}
