//! The screen for text that leaves muster in the owner's name: it refuses what an outsider should not be told. It is a heuristic; the owner's approval is the control.
//!
//! It works on text folded to NFKC and compares without regard to case. It looks, in this order, for a character that the
//! card could not show, a credential, a URL, an IP address, a host name, an infrastructure word and one of the
//! deployment's own names, and names the first it finds with its place. It errs on the side of refusing, because the
//! writer is an agent that can say the same thing in other words.

mod addresses;
mod body;
mod characters;
mod credentials;
mod deny;
mod domains;
mod hosts;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;

use body::Body;
pub use deny::{DenyWords, DenyWordsError};
pub use words::INFRASTRUCTURE_WORDS;

use crate::text::fold;

/// Why a reply was refused, and where. It never holds a word of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenRefusal {
    at: usize,
    kind: RefusalKind,
}

/// What the screen found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// A character that the card could not show.
    Character {
        /// Its code point.
        code: u32,
        /// What kind of character, with its article.
        what: &'static str,
    },
    /// A credential or a text of such a shape; which shape, with its article.
    Credential(&'static str),
    /// A URL.
    Url,
    /// An IP address, version 4 or 6.
    IpAddress,
    /// A host name of two or more labels.
    HostName,
    /// An e-mail address, which has a host name in it.
    MailAddress,
    /// One of [`INFRASTRUCTURE_WORDS`].
    InfrastructureWord(&'static str),
    /// One of the deployment's own names. It is not named again.
    DeploymentName,
}

impl ScreenRefusal {
    /// The place of what was found, counted in characters of the folded text from 1.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// What was found.
    #[must_use]
    pub const fn kind(&self) -> RefusalKind {
        self.kind
    }
}

impl fmt::Display for ScreenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "No draft was filed, because at character {} the reply holds ",
            self.at
        )?;
        match self.kind {
            RefusalKind::Character { code, what } => write!(f, "U+{code:04X}, {what} that its card could not show. Leave it out"),
            RefusalKind::Credential(what) => write!(f, "what looks like a credential: {what}. Leave it out"),
            RefusalKind::Url => f.write_str("a URL. Say in words what it leads to"),
            RefusalKind::IpAddress => f.write_str("what looks like an IP address. Leave it out, or write a number without dots between its groups"),
            RefusalKind::HostName => f.write_str("what looks like a host name. Say in words what is meant, and put a blank after a full stop"),
            RefusalKind::MailAddress => f.write_str("an e-mail address, which names a host. Name the person instead"),
            RefusalKind::InfrastructureWord(word) => write!(f, "the infrastructure word \"{word}\". Say it without naming how this system is built"),
            RefusalKind::DeploymentName => f.write_str("one of this deployment's own names, which the owner keeps inside. Leave it out"),
        }?;
        f.write_str(" and draft the reply again.")
    }
}

impl std::error::Error for ScreenRefusal {}

/// Where something was found (in characters from 0), and what.
type Found = Option<(usize, RefusalKind)>;

/// Says whether a reply may be filed. The text is folded to NFKC here too, so that no caller can forget it.
///
/// # Errors
/// The first finding, in the order that the module describes.
pub fn screen(reply: &str, deny_words: &DenyWords) -> Result<(), ScreenRefusal> {
    let body = Body::new(&fold(reply));
    let found = characters::find(&body)
        .or_else(|| credentials::find(&body))
        .or_else(|| addresses::find_url(&body))
        .or_else(|| addresses::find_ip(&body))
        .or_else(|| hosts::find(&body))
        .or_else(|| words::find(&body))
        .or_else(|| deny_words.find(&body));
    match found {
        None => Ok(()),
        Some((place, kind)) => Err(ScreenRefusal {
            at: place.saturating_add(1),
            kind,
        }),
    }
}
