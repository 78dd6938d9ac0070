//! The decision about a call, and the permit that only a decision can mint. Never keeps a decision for a later call.

use std::fmt;

use crate::needs::{Needs, Pair};
use crate::policy::{Answer, Standing, Verdict};
use crate::scope::{Names, Resource, nameless};
use crate::words::Action;

/// What happens to one call.
#[derive(Debug)]
#[must_use = "a call that was not decided must not run"]
pub enum Decision {
    /// It runs.
    Allow(Permit),
    /// A person decides, once for all its pairs.
    Ask(Asked),
    /// It is refused, without asking anybody.
    Deny(Refusal),
}

/// Decides a call by what governs the caller now.
///
/// Each call is decided anew, and once more when an approval for it arrives: what was decided before says nothing about now.
/// On the way to a permit nothing is allocated.
pub fn decide(standing: Standing<'_>, needs: &Needs) -> Decision {
    let strictest = weigh(standing, needs);
    match strictest {
        Answer::Unscoped | Answer::Allow => Decision::Allow(Permit {
            needs: needs.clone(),
            basis: if strictest == Answer::Unscoped {
                Basis::Unscoped
            } else {
                Basis::Granted
            },
        }),
        Answer::Ask => Decision::Ask(Asked {
            verdicts: judged(standing, needs),
            needs: needs.clone(),
        }),
        Answer::NotGranted | Answer::Deny => Decision::Deny(Refusal {
            verdicts: judged(standing, needs),
        }),
    }
}

/// The answer about a call as a whole, the strictest of its pairs', without a permit to show for it.
#[must_use]
pub fn weigh(standing: Standing<'_>, needs: &Needs) -> Answer {
    needs
        .pairs()
        .iter()
        .map(|pair| standing.verdict(pair).answer)
        .max()
        // Needs hold at least one pair; were there none, nothing would be granted.
        .unwrap_or(Answer::NotGranted)
}

fn judged(standing: Standing<'_>, needs: &Needs) -> Vec<Judged> {
    needs
        .pairs()
        .iter()
        .map(|pair| Judged {
            pair: pair.clone(),
            verdict: standing.verdict(pair),
        })
        .collect()
}

impl Decision {
    /// What a person's approval of this very call makes of the decision, taken anew when the approval arrives.
    ///
    /// # Errors
    /// The refusal, when the policy refuses by now.
    pub fn approved(self, approval: Approval) -> Result<Permit, Refusal> {
        match self {
            Self::Allow(Permit { needs, .. }) | Self::Ask(Asked { needs, .. }) => Ok(Permit {
                needs,
                basis: approval.basis(),
            }),
            Self::Deny(refusal) => Err(refusal),
        }
    }
}

/// A pair and what was found about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The pair.
    pub pair: Pair,
    /// What was found.
    pub verdict: Verdict,
}

/// That one call may run. Effects take it as an argument and check what it covers.
///
/// It has no constructor, and its fields are out of reach:
///
/// ```compile_fail,E0451
/// use muster_policy::{Action, Basis, Needs, Permit};
/// fn forge(needs: Needs) -> Permit {
///     Permit { needs, basis: Basis::Granted }
/// }
/// ```
///
/// It comes from no default and cannot be read from outside:
///
/// ```compile_fail,E0277
/// fn from_nothing<T: Default>() -> T { T::default() }
/// let forged: muster_policy::Permit = from_nothing();
/// ```
///
/// ```compile_fail,E0277
/// let forged: muster_policy::Permit = serde_json::from_str("{}").unwrap();
/// ```
///
/// It is good for one call, so it cannot be doubled:
///
/// ```compile_fail,E0277
/// fn twice<T: Clone>(one: &T) -> T { one.clone() }
/// fn double(permit: &muster_policy::Permit) -> muster_policy::Permit { twice(permit) }
/// ```
///
/// Neither can what leads to one be made by hand:
///
/// ```compile_fail,E0451
/// use muster_policy::{Approval, Asked, Needs, Permit};
/// fn forge(needs: Needs) -> Permit {
///     Asked { verdicts: Vec::new(), needs }.approved(Approval::Person)
/// }
/// ```
///
/// A decision gives it:
///
/// ```
/// use muster_policy::{Action, Decision, Grant, Layer, Needs, Policy, Standing, Target, decide};
/// let staging = Target::new("db_connection:staging".parse()?)?;
/// let layer = Layer::authored([Grant::parse("db_read", "db_connection:staging", "allow")?])?;
/// let policy = Policy::new(layer, Layer::absent(), Layer::absent());
/// let needs = Needs::of(Action::DbRead, staging.clone());
/// let Decision::Allow(permit) = decide(Standing::Under(&policy), &needs) else { unreachable!() };
/// assert!(permit.covers(Action::DbRead, staging.resource()));
/// assert!(!permit.covers(Action::DbWrite, staging.resource()));
/// # Ok::<(), muster_policy::Invalid>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit is good for one call"]
pub struct Permit {
    needs: Needs,
    basis: Basis,
}

impl Permit {
    /// Whether the call that the permit is for charged `action` on `resource`.
    #[must_use]
    pub fn covers(&self, action: Action, resource: &Resource) -> bool {
        // Where no policy governs, a call that named nothing may pass; its permit then covers nothing either.
        self.needs
            .pairs()
            .iter()
            .any(|pair| pair.action() == action && pair.resource() == Some(resource))
    }

    /// What the call charged.
    #[must_use]
    pub const fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Why it may run.
    #[must_use]
    pub const fn basis(&self) -> Basis {
        self.basis
    }
}

/// Why a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Every pair is allowed.
    Granted,
    /// No policy governs the caller.
    Unscoped,
    /// A person said yes to this call.
    Person,
    /// An approval of a matching call covers it.
    RecentApproval,
    /// Nobody could be asked, and the setting lets such calls run.
    NobodyToAsk,
}

impl Basis {
    /// The word that the audit log records for the call.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Granted | Self::Unscoped => "allowed",
            Self::Person => "allowed_by_person",
            Self::RecentApproval => "allowed_by_recent_approval",
            Self::NobodyToAsk => "auto_allowed_app_closed",
        }
    }
}

/// What turns an ask into a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Approval {
    /// A person said yes to this call.
    Person,
    /// An approval of a matching call, not older than [`crate::APPROVAL_COVERS`].
    Recent,
    /// Nobody can be asked, and the setting was read and lets such calls run.
    NobodyToAsk,
}

impl Approval {
    const fn basis(self) -> Basis {
        match self {
            Self::Person => Basis::Person,
            Self::Recent => Basis::RecentApproval,
            Self::NobodyToAsk => Basis::NobodyToAsk,
        }
    }
}

/// A call that a person decides: no pair is refused and at least one asks.
#[derive(Debug)]
#[must_use = "a call that asks waits for a person"]
pub struct Asked {
    needs: Needs,
    verdicts: Vec<Judged>,
}

impl Asked {
    /// What the call charges; one prompt covers all of it.
    #[must_use]
    pub const fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Every pair with what was found about it.
    #[must_use]
    pub fn verdicts(&self) -> &[Judged] {
        &self.verdicts
    }

    /// The pairs that ask.
    pub fn asking(&self) -> impl Iterator<Item = &Pair> {
        self.verdicts
            .iter()
            .filter(|judged| judged.verdict.answer == Answer::Ask)
            .map(|judged| &judged.pair)
    }

    /// The permit for the call, once it is approved. When time has passed since the decision, take a new one and ask that ([`Decision::approved`]).
    pub fn approved(self, approval: Approval) -> Permit {
        Permit {
            needs: self.needs,
            basis: approval.basis(),
        }
    }
}

/// A call that the policy refuses. Printed, it says which pair, which layer and what the owner can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    verdicts: Vec<Judged>,
}

impl Refusal {
    /// Every pair with what was found about it, those that are not refused included.
    #[must_use]
    pub fn verdicts(&self) -> &[Judged] {
        &self.verdicts
    }

    /// The pairs that are refused.
    pub fn refused(&self) -> impl Iterator<Item = &Judged> {
        self.verdicts
            .iter()
            .filter(|judged| judged.verdict.answer.refuses())
    }

    /// Whether a layer denies one of the pairs, rather than only not granting it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.verdicts
            .iter()
            .any(|judged| judged.verdict.answer == Answer::Deny)
    }

    /// The word that the audit log records for the call; a denied pair wins over one that is not granted.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        if self.is_denied() {
            "refused_denied"
        } else {
            "refused_not_granted"
        }
    }
}

impl Refusal {
    /// What was refused and what the owner can do, in one sentence, with names beside the ids.
    #[must_use]
    pub fn told(&self, names: Names<'_>) -> String {
        let pairs: Vec<String> = self
            .refused()
            .map(|Judged { pair, verdict }| {
                let told = pair.told(names);
                match (verdict.answer, verdict.layer) {
                    (Answer::Deny, Some(layer)) => {
                        format!("{told} is denied by the {layer} layer, and the owner can revoke that grant")
                    }
                    (_, Some(_)) if pair.target().is_none() => format!(
                        "{} names no resource that exists, and no grant covers that; name one",
                        pair.action()
                    ),
                    (_, Some(_)) if pair.reachable_target().is_none() => {
                        format!("{told} does not exist, and no grant can open it")
                    }
                    (_, Some(layer)) => {
                        format!("{told} is not granted by the {layer} layer, and the owner can grant it there")
                    }
                    (_, None) => format!(
                        "{told} is not granted, because the policy has no layer, and the owner can grant it in one"
                    ),
                }
            })
            .collect();
        format!("Refused, and nothing was done: {}.", pairs.join("; "))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(&nameless))
    }
}
