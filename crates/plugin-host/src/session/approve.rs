//! How a person is asked about a call, and what can come of it. Never decides by itself.

use futures::future::BoxFuture;

use crate::names::ServerKey;

/// A call that a person is asked about.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The session that calls.
    pub session: String,
    /// The server.
    pub key: ServerKey,
    /// The registered name of the tool.
    pub tool: String,
    /// What is asked about: the server's reviewed definition, the tool as it was listed, and whether it is what it was at the approval. A yes covers no other.
    pub definition: String,
    /// The arguments as JSON, byte for byte as they would be sent. Outside text.
    pub arguments: String,
    /// What the server would get beside the arguments, as JSON, where that is more than the protocol's own notes. Outside text.
    pub beside: Option<String>,
    /// What the server says about the tool. Outside text.
    pub description: Option<String>,
    /// Why it is asked, as a sentence of muster's.
    pub reason: &'static str,
}

/// What came of an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A person let it run.
    Allowed,
    /// A person refused it.
    Refused,
    /// Nobody decided in time.
    Expired,
    /// No approver is there.
    NobodyToAsk,
    /// Too many asks wait already.
    Saturated,
    /// It is more than a person is asked about.
    TooLarge,
    /// The ask was given up before anybody decided, or could not be put.
    Withdrawn,
}

impl Verdict {
    pub(crate) const fn decision(self) -> &'static str {
        match self {
            Self::Allowed => "allow:person",
            Self::Refused => "deny:person",
            // The log's words are fixed and have none of their own for what was given up; the audit and the agent are told `withdrawn`.
            Self::Expired | Self::Withdrawn => "deny:expired",
            Self::NobodyToAsk => "deny:nobody_to_ask",
            Self::Saturated => "deny:queue_saturated",
            // The log's words are fixed here as well; the audit and the agent are told `refused_error`.
            Self::TooLarge => "deny:rule",
        }
    }

    pub(crate) const fn refusal(self) -> (&'static str, &'static str) {
        match self {
            Self::Allowed => ("", ""),
            Self::Refused => (
                "refused_by_person",
                "The owner refused this call. Nothing was sent to the tool.",
            ),
            Self::Expired => (
                "refused_expired",
                "Nobody decided about this call in time. Nothing was sent to the tool; call it again when the owner is there.",
            ),
            Self::NobodyToAsk => (
                // The audit's word. The event log has `deny:nobody_to_ask`; both are fixed by the texts.
                "refused_app_closed_strict",
                "This call has to be approved, and nobody is there to ask. Nothing was sent to the tool; the owner can open the Asks page or allow the tool in settings.json.",
            ),
            Self::Withdrawn => (
                "withdrawn",
                "The ask about this call ended before the owner decided: the task was closed, the token was revoked, or muster could not ask. Nothing was sent to the tool.",
            ),
            Self::TooLarge => (
                "refused_error",
                "This call has to be approved, and it has more than the 64 KiB of arguments that a person is asked about. Nothing was sent to the tool and nobody was asked; send less, or have the owner allow the tool in settings.json.",
            ),
            Self::Saturated => (
                "refused_queue_saturated",
                "Too many calls wait for the owner already. Nothing was sent to the tool; wait until some are decided.",
            ),
        }
    }
}

/// Asks a person. Dropping the future withdraws the ask: nobody waits for it any more.
pub trait Approver: Send + Sync + 'static {
    /// Asks, and waits for what comes of it.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Verdict>;
}

/// Where nobody can be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Approver for Nobody {
    fn ask(&self, _ask: Ask) -> BoxFuture<'_, Verdict> {
        Box::pin(std::future::ready(Verdict::NobodyToAsk))
    }
}
