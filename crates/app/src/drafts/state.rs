//! The rules of drafts as pure functions. Never reads a clock or a row.

use std::time::Duration;

use muster_core::clock::Time;

use super::DecideRefusal;

/// How long a claimed reply is the claimer's.
pub const LEASE: Duration = Duration::from_secs(120);
/// How long after its writing a draft may still be sent.
pub const LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// Drafts of one chief that may await the owner at once.
pub const PENDING_CAP: i64 = 20;

/// Where a draft stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DraftState {
    /// Awaits the owner.
    Pending,
    /// The next claim gets it, or one already has.
    Approved,
    /// The connector said it was sent.
    Sent,
    /// The connector said it was not sent.
    Failed,
    /// Claimed and never reported: it may have been sent.
    Unconfirmed,
    /// The owner said no.
    Rejected,
    /// A newer draft, or another reply that was sent, took its place.
    Superseded,
    /// Not sent within seven days of its writing.
    Expired,
}

impl DraftState {
    /// Every state.
    pub const ALL: [DraftState; 8] = [
        Self::Pending,
        Self::Approved,
        Self::Sent,
        Self::Failed,
        Self::Unconfirmed,
        Self::Rejected,
        Self::Superseded,
        Self::Expired,
    ];

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The stored word, which is also the word on every door.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unconfirmed => "unconfirmed",
            Self::Rejected => "rejected",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
        }
    }
}

/// Whether a sign-in of this age may approve. Only approving sends something, so only approving asks.
pub(super) fn fresh_enough(signed_in_at: Time, now: Time, window: Duration) -> bool {
    now.since(signed_in_at) <= window
}

/// Whether a draft may be approved or rejected.
///
/// # Errors
/// Names the state that forbids it.
pub(super) fn may_decide(state: DraftState) -> Result<(), DecideRefusal> {
    match state {
        DraftState::Pending => Ok(()),
        other => Err(DecideRefusal::NotPending(other)),
    }
}

/// Whether an approval may be withdrawn: approved, and no claim took it.
///
/// # Errors
/// Names what forbids it.
pub(super) fn may_withdraw(state: DraftState, claimed: bool) -> Result<(), DecideRefusal> {
    match (state, claimed) {
        (DraftState::Approved, false) => Ok(()),
        (DraftState::Approved, true) => Err(DecideRefusal::Collected),
        (other, _) => Err(DecideRefusal::NotApproved(other)),
    }
}

/// What a connector's result does to a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultMove {
    /// It becomes this.
    Record(DraftState),
    /// It is this already; nothing changes.
    Same(DraftState),
    /// The draft has another result, or none may be given.
    Conflict(DraftState),
}

/// Decides what a result does, by the draft's state, whether it was ever claimed, and what the connector says.
pub(super) fn result_move(state: DraftState, claimed: bool, ok: bool) -> ResultMove {
    let wanted = if ok { DraftState::Sent } else { DraftState::Failed };
    match (state, claimed) {
        (DraftState::Approved | DraftState::Unconfirmed, true) => ResultMove::Record(wanted),
        (DraftState::Sent | DraftState::Failed, _) if state == wanted => ResultMove::Same(state),
        _ => ResultMove::Conflict(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back() {
        for state in DraftState::ALL {
            assert_eq!(DraftState::parse(state.as_str()), Some(state));
        }
        assert_eq!(DraftState::parse("PENDING"), None);
    }

    // spec: RES-006 RES-012 RES-013 RES-016
    #[test]
    fn a_result_is_taken_once_and_only_from_a_claimed_draft() {
        for state in DraftState::ALL {
            for claimed in [false, true] {
                for ok in [false, true] {
                    let wanted = if ok { DraftState::Sent } else { DraftState::Failed };
                    let expected = match state {
                        DraftState::Approved | DraftState::Unconfirmed if claimed => {
                            ResultMove::Record(wanted)
                        }
                        DraftState::Sent | DraftState::Failed if state == wanted => ResultMove::Same(wanted),
                        _ => ResultMove::Conflict(state),
                    };
                    assert_eq!(
                        result_move(state, claimed, ok),
                        expected,
                        "{state:?} claimed={claimed} ok={ok}"
                    );
                }
            }
        }
    }

    // spec: DRF-049 DRF-051
    #[test]
    fn only_a_pending_draft_is_decided_and_only_an_uncollected_approval_withdrawn() {
        for state in DraftState::ALL {
            assert_eq!(may_decide(state).is_ok(), state == DraftState::Pending);
            for claimed in [false, true] {
                assert_eq!(
                    may_withdraw(state, claimed).is_ok(),
                    state == DraftState::Approved && !claimed
                );
            }
        }
        assert!(
            may_decide(DraftState::Expired)
                .unwrap_err()
                .to_string()
                .contains("expired")
        );
    }

    #[test]
    fn a_sign_in_is_fresh_up_to_the_window_and_not_beyond() {
        let now = Time::from_micros(100_000_000_000);
        let window = Duration::from_secs(60);
        assert!(fresh_enough(now.minus(window), now, window));
        assert!(!fresh_enough(
            now.minus(window + Duration::from_micros(1)),
            now,
            window
        ));
    }
}
