//! The rules of messages as pure functions. Never reads a clock or a row.

use std::time::Duration;

use muster_core::clock::Time;

use super::RetryRefusal;

/// New messages a connector may store in an hour.
pub const HOURLY_CAP: i64 = 60;
/// Messages of a connector that may wait (queued or being delivered).
pub const UNDELIVERED_CAP: i64 = 200;
/// The window of [`HOURLY_CAP`].
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// When to try again while the queue is full: about two long-polled claims, each of which moves the queue.
pub(super) const UNDELIVERED_RETRY: u64 = 60;

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// Stored, waiting for the chief.
    Queued,
    /// A turn about it runs, or did when muster stopped.
    Delivering,
    /// The chief's turn completed.
    Delivered,
    /// The turn broke off; the chief may have read it.
    Unconfirmed,
}

impl MessageState {
    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "queued" => Self::Queued,
            "delivering" => Self::Delivering,
            "delivered" => Self::Delivered,
            "unconfirmed" => Self::Unconfirmed,
            _ => return None,
        })
    }

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivering => "delivering",
            Self::Delivered => "delivered",
            Self::Unconfirmed => "unconfirmed",
        }
    }

    /// What a connector is told. A running turn is nobody's business but the owner's: it reads as queued.
    pub const fn status(self) -> Status {
        match self {
            Self::Queued | Self::Delivering => Status::Queued,
            Self::Delivered => Status::Delivered,
            Self::Unconfirmed => Status::Unconfirmed,
        }
    }
}

/// The three words a connector can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Waiting for the chief, or with it.
    Queued,
    /// The chief's turn completed.
    Delivered,
    /// Perhaps read; the owner decides.
    Unconfirmed,
}

impl Status {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Delivered => "delivered",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

/// Seconds until the oldest of the counted messages leaves the hour: at least one.
pub(super) fn hourly_retry_after(oldest_counted: Time, now: Time) -> u64 {
    let age = now.since(oldest_counted);
    HOUR.saturating_sub(age).as_secs().max(1)
}

/// What a retry looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryFacts {
    /// Where the message stands.
    pub state: MessageState,
    /// The state of a draft that shows the chief acted (pending, approved, sent or unconfirmed).
    pub acted: Option<&'static str>,
    /// Whether its connector was revoked.
    pub revoked: bool,
    /// Whether the owner has a chief.
    pub chief: bool,
}

/// Whether the owner may retry.
///
/// # Errors
/// The first rule that forbids it, each with its own sentence.
pub(super) fn may_retry(facts: RetryFacts) -> Result<(), RetryRefusal> {
    match facts.state {
        MessageState::Queued => return Err(RetryRefusal::Queued),
        MessageState::Delivering => return Err(RetryRefusal::Delivering),
        MessageState::Delivered => return Err(RetryRefusal::Delivered),
        MessageState::Unconfirmed => {}
    }
    if let Some(state) = facts.acted {
        return Err(RetryRefusal::Drafted(state));
    }
    if facts.revoked {
        return Err(RetryRefusal::Revoked);
    }
    if !facts.chief {
        return Err(RetryRefusal::NoChief);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: MSG-026 MSG-027
    #[test]
    fn a_connector_sees_three_words_and_a_running_turn_reads_as_queued() {
        let words: Vec<_> = [
            MessageState::Queued,
            MessageState::Delivering,
            MessageState::Delivered,
            MessageState::Unconfirmed,
        ]
        .map(|s| s.status().as_str())
        .into();
        assert_eq!(words, ["queued", "queued", "delivered", "unconfirmed"]);
    }

    // spec: MSG-035
    #[test]
    fn the_hourly_cap_says_when_the_oldest_message_leaves_the_window() {
        let now = Time::from_micros(10_000_000_000);
        assert_eq!(
            hourly_retry_after(now.minus(Duration::from_secs(40 * 60)), now),
            1200
        );
        assert_eq!(hourly_retry_after(now.minus(HOUR), now), 1);
        assert_eq!(hourly_retry_after(now.plus(Duration::from_secs(9)), now), 3600);
    }

    // spec: RTY-025
    #[test]
    fn each_refusal_to_retry_has_its_own_reason() {
        let fine = RetryFacts {
            state: MessageState::Unconfirmed,
            acted: None,
            revoked: false,
            chief: true,
        };
        assert!(may_retry(fine).is_ok());
        let refused = [
            RetryFacts {
                state: MessageState::Queued,
                ..fine
            },
            RetryFacts {
                state: MessageState::Delivering,
                ..fine
            },
            RetryFacts {
                state: MessageState::Delivered,
                ..fine
            },
            RetryFacts {
                acted: Some("pending"),
                ..fine
            },
            RetryFacts {
                acted: Some("sent"),
                ..fine
            },
            RetryFacts {
                revoked: true,
                ..fine
            },
            RetryFacts { chief: false, ..fine },
        ];
        let sentences: std::collections::BTreeSet<String> = refused
            .iter()
            .map(|facts| may_retry(*facts).unwrap_err().to_string())
            .collect();
        assert_eq!(sentences.len(), refused.len());
    }
}
