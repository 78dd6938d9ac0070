//! Why a draft was not filed, decided, claimed or reported, one variant a rule. Never carries outside text.

use muster_core::Fault;
use muster_core::screen::ScreenRefusal;
use muster_core::text::TextError;

use super::DraftState;
use crate::plugins::PluginError;

/// A refusal to file a draft. Nothing was filed.
#[derive(Debug, thiserror::Error)]
pub enum FileRefusal {
    /// Plugins are off.
    #[error("plugins are off on this server, so there is no message to reply to")]
    Off,
    /// The caller is not the owner's chief.
    #[error("only the owner's chief may draft a reply")]
    NotChief,
    /// Missing, another owner's, or never handed to this chief: one sentence, so that none can be told from another.
    #[error("message_id does not name a message that was delivered to you; nothing was filed")]
    NoSuchMessage,
    /// Nobody may answer it.
    #[error("this message is marked no_reply: nobody can answer it; nothing was filed")]
    NoReply,
    /// The body breaks a rule.
    #[error("{0}")]
    Body(#[from] TextError),
    /// The screen stopped it.
    #[error("{0}")]
    Screened(#[from] ScreenRefusal),
    /// A reply is on its way.
    #[error(
        "a reply to this message is approved and on its way; wait for its result before you draft another; nothing was filed"
    )]
    InFlight,
    /// Too many wait for the owner.
    #[error(
        "20 of your drafts already await the owner; no more can be filed until some are decided; nothing was filed"
    )]
    TooMany,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

/// A refusal to decide about a draft. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DecideRefusal {
    /// Missing or another owner's.
    #[error("No such draft.")]
    NotFound,
    /// The sign-in is too old to send something.
    #[error("your sign-in is too old to approve a reply; confirm that it is you first")]
    ConfirmFirst,
    /// Already decided, expired or superseded.
    #[error("this draft is {} and no longer pending; nothing was changed", .0.as_str())]
    NotPending(DraftState),
    /// Nothing to withdraw.
    #[error("this draft is {}, so there is no approval to withdraw; nothing was changed", .0.as_str())]
    NotApproved(DraftState),
    /// A claim took it.
    #[error(
        "the connector already collected this reply, so its approval cannot be withdrawn; nothing was changed"
    )]
    Collected,
    /// Another reply to the message is on its way.
    #[error(
        "another reply to this message is approved and on its way; wait for its result; nothing was changed"
    )]
    InFlight,
    /// Its connector was revoked, so nobody will ever collect it.
    #[error(
        "this draft's connector was revoked, so nobody could collect the reply; nothing was changed. Reject the draft, or let it expire"
    )]
    Revoked,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

/// A refusal to hand out a reply.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The token is no longer live.
    #[error("this is not the token of a live connector")]
    NotLive,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

impl From<PluginError> for ClaimError {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Fault(fault) => Self::Fault(fault),
            _ => Self::NotLive,
        }
    }
}

/// A refusal to record a result. The draft stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReportRefusal {
    /// The token is no longer live.
    #[error("this is not the token of a live connector")]
    NotLive,
    /// Another connector's, another owner's, or none.
    #[error("there is no such reply of this connector's")]
    NotFound,
    /// The other result is recorded, or it was never claimed.
    #[error("this reply is {}, so this result cannot be recorded; nothing was changed", .0.as_str())]
    Conflict(DraftState),
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

impl From<PluginError> for ReportRefusal {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Fault(fault) => Self::Fault(fault),
            _ => Self::NotLive,
        }
    }
}
