//! Why a message was not stored or not retried, one variant a rule. Never carries outside text.

use muster_core::Fault;

use crate::plugins::PluginError;

/// A refusal to store a message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The hour's allowance is used up.
    #[error(
        "this connector already stored 60 new messages in the last hour; nothing was stored, send the message again after Retry-After seconds"
    )]
    HourlyCap {
        /// Seconds until the oldest counted message leaves the hour.
        retry_after: u64,
    },
    /// Too many wait.
    #[error(
        "200 messages of this connector are not yet delivered; nothing was stored, send the message again after Retry-After seconds"
    )]
    UndeliveredCap {
        /// Seconds; a guess, since it depends on the chief.
        retry_after: u64,
    },
    /// The token is no longer live.
    #[error("this is not the token of a live connector")]
    NotLive,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

impl From<PluginError> for MessageError {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Fault(fault) => Self::Fault(fault),
            _ => Self::NotLive,
        }
    }
}

/// A refusal to retry a message. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RetryRefusal {
    /// No such message of this owner.
    #[error("there is no such message")]
    NotFound,
    /// It waits already.
    #[error("this message is already queued: it reaches the chief at the connector's next claim")]
    Queued,
    /// It is with the chief.
    #[error("this message is being delivered to the chief right now")]
    Delivering,
    /// It arrived.
    #[error("this message was delivered; there is nothing to retry")]
    Delivered,
    /// The chief acted on it.
    #[error(
        "the chief already drafted a reply to this message, and that draft is {0}; decide about the draft instead"
    )]
    Drafted(&'static str),
    /// Its connector is gone.
    #[error("the connector of this message was revoked, so its messages never reach the chief again")]
    Revoked,
    /// Nobody to hand it to.
    #[error("you have no chief to hand this message to; set one first with muster chief set")]
    NoChief,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
