//! What one call charges: pairs of an action and the resource that the call names. Never lets a database be written without being charged as read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_core::Time;
use muster_core::ids::TokenId;

use crate::scope::{Names, Resource, Target};
use crate::words::Action;

/// How long an approval covers matching calls, counted from the approval.
pub const APPROVAL_COVERS: Duration = Duration::from_secs(60);

/// An action and the resource that a call names for it, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    action: Action,
    target: Option<Target>,
}

impl Pair {
    /// A call that names `target`, which exists: `any` covers every existing resource, so one that does not exist must be charged as [`Self::naming_nothing`].
    #[must_use]
    pub const fn new(action: Action, target: Target) -> Self {
        Self {
            action,
            target: Some(target),
        }
    }

    /// A call that names no resource, or one that does not exist. Nothing matches it.
    #[must_use]
    pub const fn naming_nothing(action: Action) -> Self {
        Self { action, target: None }
    }

    /// The action.
    #[must_use]
    pub const fn action(&self) -> Action {
        self.action
    }

    /// What the call names.
    #[must_use]
    pub const fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// The resource that the call names, without what lies around it.
    #[must_use]
    pub fn resource(&self) -> Option<&Resource> {
        self.target.as_ref().map(Target::resource)
    }

    /// The pair for a sentence, with the name of what it names beside the id.
    #[must_use]
    pub fn told(&self, names: Names<'_>) -> String {
        match &self.target {
            Some(target) => format!("{} on {}", self.action, target.resource().told(names)),
            None => self.to_string(),
        }
    }

    /// The target, if it is of a kind that the action takes; no grant reaches any other.
    pub(crate) fn reachable_target(&self) -> Option<&Target> {
        self.target
            .as_ref()
            .filter(|target| self.action.takes(target.resource().kind()))
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(f, "{} on {target}", self.action),
            None => write!(f, "{} on no resource", self.action),
        }
    }
}

/// All pairs of one call: at least one, each once, in their order. Cloning shares them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Needs(Arc<[Pair]>);

impl Needs {
    /// What a call charges: `first`, `others`, and `db_read` beside every `db_write`, on the same connection.
    #[must_use]
    pub fn new(first: Pair, others: impl IntoIterator<Item = Pair>) -> Self {
        let mut pairs: Vec<Pair> = [first].into_iter().chain(others).collect();
        let reads: Vec<Pair> = pairs
            .iter()
            .filter(|pair| pair.action == Action::DbWrite)
            .map(|pair| Pair {
                action: Action::DbRead,
                target: pair.target.clone(),
            })
            .collect();
        pairs.extend(reads);
        pairs.sort_unstable();
        pairs.dedup();
        Self(pairs.into())
    }

    /// A call that charges one action on one existing resource.
    #[must_use]
    pub fn of(action: Action, target: Target) -> Self {
        Self::new(Pair::new(action, target), [])
    }

    /// A call that named no resource for its action.
    #[must_use]
    pub fn naming_nothing(action: Action) -> Self {
        Self::new(Pair::naming_nothing(action), [])
    }

    /// The pairs in the order of action, resource.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        &self.0
    }
}

/// One call as far as it matters for whether two of them are the same, or one is covered by the approval of the other.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The token that the agent called with; each is one agent.
    pub agent: TokenId,
    /// The tool.
    pub tool: &'a str,
    /// What it charges.
    pub needs: &'a Needs,
    /// Its arguments in one canonical spelling, such as JSON with sorted keys.
    pub arguments: &'a str,
}

impl Request<'_> {
    /// Equal for calls that share one prompt while it is parked: same agent, tool and arguments. As long as the arguments; hash it to store it.
    #[must_use]
    pub fn parking_key(&self) -> String {
        serde_json::json!([self.agent, self.tool, self.arguments]).to_string()
    }

    /// Equal for calls that one approval covers: same agent, tool and pairs, and the same arguments when a pair changes something.
    ///
    /// It says nothing about time ([`is_covered`]), and a call that it covers must still be decided anew.
    #[must_use]
    pub fn approval_key(&self) -> String {
        let changes = self.needs.pairs().iter().any(|pair| pair.action.changes());
        let pairs: Vec<String> = self.needs.pairs().iter().map(ToString::to_string).collect();
        let arguments = changes.then_some(self.arguments);
        serde_json::json!([self.agent, self.tool, pairs, arguments]).to_string()
    }
}

/// Whether an approval given at `approved` still covers a matching call at `now`: for [`APPROVAL_COVERS`] from the approval, not
/// extended by use, and not at all when the clock stands before the approval.
#[must_use]
pub fn is_covered(approved: Time, now: Time) -> bool {
    now >= approved && now.since(approved) < APPROVAL_COVERS
}
