//! How a person is asked about a call, and what can come of it. Never decides by itself.

use std::borrow::Cow;

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

/// What refuses a call that a person let run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overruled {
    /// The agent's `error.code`, which is the outcome in the audit.
    pub word: &'static str,
    /// What happened, for the model that reads it.
    pub sentence: String,
}

/// Looks once more at what decides about a call. Nothing is looked at before it is awaited.
pub type Again<'a> = BoxFuture<'a, Result<(), Overruled>>;

/// What came of an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A person let it run.
    Allowed,
    /// A person refused it.
    Refused,
    /// A person let it run, and something refuses it by then.
    Overruled(Overruled),
    /// Nobody decided in time.
    Expired,
    /// No approver is there; or, with this sentence, why nobody could be asked.
    NobodyToAsk(Option<String>),
    /// Too many asks wait already.
    Saturated,
    /// It has this many bytes, which is more than a person is asked about.
    TooLarge(usize),
    /// The ask was given up before anybody decided, or could not be put; with a sentence that says why, where that is known.
    Withdrawn(Option<String>),
}

impl Verdict {
    pub(crate) const fn decision(&self) -> &'static str {
        match self {
            Self::Allowed => "allow:person",
            Self::Refused => "deny:person",
            // The log's words are fixed and have none of their own for what was given up; the audit and the agent are told `withdrawn`.
            Self::Expired | Self::Withdrawn(_) => "deny:expired",
            Self::NobodyToAsk(_) => "deny:nobody_to_ask",
            Self::Saturated => "deny:queue_saturated",
            // The log's words are fixed here as well; the audit and the agent are told `refused_error` of what is too large.
            Self::TooLarge(_) | Self::Overruled(_) => "deny:rule",
        }
    }

    /// What the event log has beside the decision: what that word does not say by itself.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::Overruled(overruled) => Some(overruled.sentence.clone()),
            Self::NobodyToAsk(why) | Self::Withdrawn(why) => why.clone(),
            _ => None,
        }
    }

    pub(crate) fn refusal(&self) -> (&'static str, Cow<'static, str>) {
        let because = |why: &str| Cow::from(format!("{why} Nothing was sent to the tool."));
        let (word, sentence) = match self {
            Self::Allowed => ("", ""),
            Self::Overruled(overruled) => return (overruled.word, overruled.sentence.clone().into()),
            Self::TooLarge(bytes) => {
                let sentence = format!(
                    "This call has to be approved, and it has {bytes} bytes of arguments and what is sent beside them, more than the 64 KiB that a person is asked about. Nothing was sent to the tool and nobody was asked; send less, or have the owner allow the tool in settings.json."
                );
                return ("refused_error", sentence.into());
            }
            Self::Refused => (
                "refused_by_person",
                "The owner refused this call. Nothing was sent to the tool.",
            ),
            Self::Expired => (
                "refused_expired",
                "Nobody decided about this call in time. Nothing was sent to the tool; call it again when the owner is there.",
            ),
            Self::NobodyToAsk(Some(why)) => return ("refused_app_closed_strict", because(why)),
            Self::Withdrawn(Some(why)) => return ("withdrawn", because(why)),
            Self::NobodyToAsk(None) => (
                // The audit's word. The event log has `deny:nobody_to_ask`; both are fixed by the texts.
                "refused_app_closed_strict",
                "This call has to be approved, and nobody is there to ask. Nothing was sent to the tool; the owner can open the Asks page or allow the tool in settings.json.",
            ),
            Self::Withdrawn(None) => (
                "withdrawn",
                "The ask about this call ended before the owner decided: the task was closed, the token was revoked, or muster could not ask. Nothing was sent to the tool.",
            ),
            Self::Saturated => (
                "refused_queue_saturated",
                "Too many calls wait for the owner already. Nothing was sent to the tool; wait until some are decided.",
            ),
        };
        (word, sentence.into())
    }
}

/// Asks a person. Dropping the future withdraws the ask: nobody waits for it any more.
pub trait Approver: Send + Sync + 'static {
    /// Asks, and waits for what comes of it. Whoever writes down what came of a yes awaits `again` before, and answers what that says; the session
    /// itself looks once more in any case.
    fn ask<'a>(&'a self, ask: Ask, again: Again<'a>) -> BoxFuture<'a, Verdict>;
}

/// Where nobody can be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _ask: Ask, _again: Again<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::NobodyToAsk(None)))
    }
}
