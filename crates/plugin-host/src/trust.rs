//! The review status as a pure function of stored facts, and what a person's decision makes of them. Never reads a file and never asks a clock.

use muster_core::Time;
use serde::{Deserialize, Serialize};

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may run.
    Approved,
    /// It may not run.
    Rejected,
}

/// A person's word about one definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was said.
    pub verdict: Verdict,
    /// The definition hash that it was said about.
    pub hash: String,
    /// The digest of the package then, for a comparison with what it is now.
    pub package: String,
    /// When.
    pub at: Time,
}

/// What is remembered of the reviews of one server or hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// The last decision, if there was one.
    pub decision: Option<Decision>,
    /// Whether it is switched on. Kept over updates.
    pub enabled: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            decision: None,
            enabled: true,
        }
    }
}

/// Everything that the status follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Whether the stored copy is there and holds what was installed.
    pub stored: bool,
    /// Whether the package passed its last validation.
    pub valid: bool,
    /// The definition hash now.
    pub hash: &'a str,
    /// The package's digest now.
    pub package: &'a str,
    /// What is remembered of reviews.
    pub trust: &'a Trust,
}

/// The six review statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody has decided.
    ReviewNeeded,
    /// Approved as it is now, and switched on. The only status that starts.
    TrustedEnabled,
    /// Rejected as it is now, or approved and switched off.
    TrustedDisabled,
    /// Decided, and changed since.
    Modified,
    /// The package fails its validation.
    Invalid,
    /// The stored copy is missing or is not what was installed.
    Blocked,
}

impl Status {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ReviewNeeded => "review_needed",
            Self::TrustedEnabled => "trusted_enabled",
            Self::TrustedDisabled => "trusted_disabled",
            Self::Modified => "modified",
            Self::Invalid => "invalid",
            Self::Blocked => "blocked",
        }
    }
}

/// The status that follows from the facts.
#[must_use]
pub fn status(facts: &Facts<'_>) -> Status {
    if !facts.stored {
        return Status::Blocked;
    }
    if !facts.valid {
        return Status::Invalid;
    }
    match &facts.trust.decision {
        None => Status::ReviewNeeded,
        Some(decision) if decision.hash != facts.hash => Status::Modified,
        Some(decision) if decision.verdict == Verdict::Approved && facts.trust.enabled => {
            Status::TrustedEnabled
        }
        Some(_) => Status::TrustedDisabled,
    }
}

/// What a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Say that it may run as it is now.
    Approve,
    /// Say that it may not run.
    Reject,
    /// Switch what was approved on again.
    Enable,
    /// Switch what was approved off and keep the approval.
    Disable,
}

impl Act {
    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

/// What is remembered after `act`, or why it is refused.
///
/// # Errors
/// The reason, as the end of a sentence that begins with what was pointed at.
pub fn after(facts: &Facts<'_>, act: Act, now: Time) -> Result<Trust, &'static str> {
    let trust = facts.trust;
    let decided = |verdict, enabled| Trust {
        decision: Some(Decision {
            verdict,
            hash: facts.hash.to_owned(),
            package: facts.package.to_owned(),
            at: now,
        }),
        enabled,
    };
    let rejected = trust
        .decision
        .as_ref()
        .is_some_and(|decision| decision.verdict == Verdict::Rejected);
    match (act, status(facts)) {
        (Act::Approve, Status::Invalid) => {
            Err("fails its validation; mend the package and run muster plugins update first")
        }
        (Act::Approve, Status::Blocked) => {
            Err("is not stored as it was installed; run muster plugins update first")
        }
        // Nothing to do, so the time of the first approval stands.
        (Act::Approve, Status::TrustedEnabled) => Ok(trust.clone()),
        (Act::Approve, _) => Ok(decided(Verdict::Approved, true)),
        (Act::Reject, Status::TrustedDisabled) if rejected => Ok(trust.clone()),
        (Act::Reject, _) => Ok(decided(Verdict::Rejected, trust.enabled)),
        (Act::Enable | Act::Disable, Status::ReviewNeeded) => {
            Err("was not reviewed yet; approve or reject it")
        }
        (Act::Enable | Act::Disable, Status::Invalid) => {
            Err("fails its validation; mend the package and run muster plugins update first")
        }
        (Act::Enable | Act::Disable, Status::Blocked) => {
            Err("is not stored as it was installed; run muster plugins update first")
        }
        (Act::Enable | Act::Disable, _) if rejected => Err("was rejected; approve it to switch it on"),
        (Act::Enable, _) => Ok(Trust {
            enabled: true,
            ..trust.clone()
        }),
        (Act::Disable, _) => Ok(Trust {
            enabled: false,
            ..trust.clone()
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::from_micros(1);

    /// A package as the events of its life leave it.
    #[derive(Debug, Clone)]
    struct Life {
        stored: bool,
        valid: bool,
        hash: String,
        trust: Trust,
    }

    impl Life {
        fn new() -> Self {
            Self {
                stored: true,
                valid: true,
                hash: "1".to_owned(),
                trust: Trust::default(),
            }
        }

        fn facts(&self) -> Facts<'_> {
            Facts {
                stored: self.stored,
                valid: self.valid,
                hash: &self.hash,
                package: "digest",
                trust: &self.trust,
            }
        }

        fn status(&self) -> Status {
            status(&self.facts())
        }

        fn act(&mut self, act: Act) -> bool {
            match after(&self.facts(), act, NOW) {
                Ok(trust) => {
                    self.trust = trust;
                    true
                }
                Err(_) => false,
            }
        }
    }

    // spec: TRU-003 TRU-004 TRU-005 TRU-007 TRU-008 TRU-009 TRU-026
    #[test]
    fn the_table_of_statuses() {
        let mut life = Life::new();
        assert_eq!(life.status(), Status::ReviewNeeded);
        assert!(!life.act(Act::Enable) && !life.act(Act::Disable));
        assert!(life.act(Act::Approve));
        assert_eq!(life.status(), Status::TrustedEnabled);
        assert!(life.act(Act::Disable));
        assert_eq!(life.status(), Status::TrustedDisabled);
        assert!(life.act(Act::Enable));
        assert_eq!(life.status(), Status::TrustedEnabled);
        life.hash = "2".to_owned();
        assert_eq!(life.status(), Status::Modified);
        assert!(life.act(Act::Disable));
        assert_eq!(life.status(), Status::Modified);
        // Back to the approved bytes: as it was left.
        life.hash = "1".to_owned();
        assert_eq!(life.status(), Status::TrustedDisabled);
        life.hash = "2".to_owned();
        assert!(life.act(Act::Approve));
        assert_eq!(life.status(), Status::TrustedEnabled);
        assert!(life.act(Act::Reject));
        assert_eq!(life.status(), Status::TrustedDisabled);
        assert!(
            !life.act(Act::Enable),
            "a rejection is lifted by an approval only"
        );
        life.hash = "3".to_owned();
        assert_eq!(life.status(), Status::Modified);
        life.valid = false;
        assert_eq!(life.status(), Status::Invalid);
        assert!(!life.act(Act::Approve));
        life.stored = false;
        assert_eq!(life.status(), Status::Blocked);
        assert!(!life.act(Act::Approve) && !life.act(Act::Enable));
        assert!(life.act(Act::Reject));
    }

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Act(Act),
        Change(u8),
        Valid(bool),
        Stored(bool),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            prop_oneof![
                Just(Act::Approve),
                Just(Act::Reject),
                Just(Act::Enable),
                Just(Act::Disable)
            ]
            .prop_map(Event::Act),
            (0_u8..3).prop_map(Event::Change),
            any::<bool>().prop_map(Event::Valid),
            any::<bool>().prop_map(Event::Stored),
        ]
    }

    proptest! {
        // spec: TRU-006 TRU-016
        /// Whatever happens: what starts was approved last, with just the bytes it has now, while it was valid and stored.
        #[test]
        fn nothing_starts_but_what_was_approved_as_it_is(events in proptest::collection::vec(event(), 0..40)) {
            let mut life = Life::new();
            let mut approved: Option<String> = None;
            let mut on = true;
            for event in events {
                let before = life.clone();
                match event {
                    Event::Act(act) => {
                        let done = life.act(act);
                        if !done {
                            prop_assert_eq!(&life.trust, &before.trust);
                        }
                        match act {
                            Act::Approve if done => {
                                prop_assert!(life.valid && life.stored);
                                approved = Some(life.hash.clone());
                                on = true;
                            }
                            Act::Reject if done => approved = None,
                            Act::Enable if done => on = true,
                            Act::Disable if done => on = false,
                            _ => {}
                        }
                    }
                    Event::Change(version) => life.hash = version.to_string(),
                    Event::Valid(valid) => life.valid = valid,
                    Event::Stored(stored) => life.stored = stored,
                }
                let starts = life.status() == Status::TrustedEnabled;
                let may = life.valid && life.stored && on && approved.as_ref() == Some(&life.hash);
                prop_assert_eq!(starts, may);
            }
        }
    }
}
