//! The registry of ids: each kind of row has its own type, so that one cannot be passed for another. Never does arithmetic on them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A path or argument that does not spell an id: not a positive decimal integer in its one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not an id: an id is a positive whole number")]
pub struct NotAnId;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// Wraps the number that a database row or a wire field carries.
            pub const fn new(raw: i64) -> Self {
                Self(raw)
            }

            /// The number, for a statement's argument or a wire field.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                match text.parse::<i64>() {
                    Ok(raw) if raw > 0 && raw.to_string() == text => Ok(Self(raw)),
                    _ => Err(NotAnId),
                }
            }
        }
    )+};
}

ids! {
    /// A person with an account; every other row belongs to one.
    OwnerId,
    /// One browser sign-in.
    BrowserSessionId,
    /// A registered passkey.
    PasskeyId,
    /// A personal, mirror host or agent token.
    TokenId,
    /// A connector (the texts call it a plugin).
    PluginId,
    /// An inbound message.
    MessageId,
    /// A reply draft.
    DraftId,
    /// A chief: one per change of the owner's choice, so that a replaced chief's deliveries stay its own.
    ChiefId,
    /// One turn given to a chief.
    TurnId,
    /// An audit event.
    AuditId,
    /// A notice (push) to the owner.
    NoticeId,
    /// A project: a root folder and what belongs to it.
    ProjectId,
    /// A task.
    TaskId,
    /// A task's git worktree.
    WorktreeId,
    /// A run of an agent on a task.
    RunId,
    /// A machine that runs agents.
    HostId,
    /// A forge's or tracker's account.
    IntegrationId,
    /// Somebody's database, reached through the gateway.
    ConnectionId,
    /// A policy.
    PolicyId,
    /// A question that waits for the owner.
    AskId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_positive_decimal_number_is_an_id() {
        assert_eq!("17".parse::<DraftId>(), Ok(DraftId::new(17)));
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            "1.0",
            "abc",
            " 1",
            "1 ",
            "99999999999999999999",
            "0x1",
        ] {
            assert_eq!(bad.parse::<DraftId>(), Err(NotAnId), "{bad:?}");
        }
    }
}
