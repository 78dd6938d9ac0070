//! One layer: absent, or authored with any number of grants, indexed once when it is loaded. Never takes an empty layer for an absent one.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::invalid::Invalid;
use crate::needs::Pair;
use crate::scope::{Printed, Resource, Scope};
use crate::words::{Action, Effect};

/// Most grants in one layer.
pub const MAX_GRANTS: usize = 10_000;

/// What a policy is a list of: an action, a scope and an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grant {
    /// What may, may be asked for, or may not be done.
    pub action: Action,
    /// With what.
    pub scope: Scope,
    /// Which of the three.
    pub effect: Effect,
}

impl Grant {
    /// Reads the three words of a grant as a person or a program wrote them.
    ///
    /// # Errors
    /// The first word that is not valid, or a scope that the action does not take.
    pub fn parse(action: &str, scope: &str, effect: &str) -> Result<Self, Invalid> {
        let grant = Self {
            action: action.parse()?,
            scope: scope.parse()?,
            effect: effect.parse()?,
        };
        grant.check()?;
        Ok(grant)
    }

    /// Whether the grant can match anything at all; to be asked before it is stored.
    ///
    /// # Errors
    /// [`Invalid::WrongKind`].
    pub fn check(&self) -> Result<(), Invalid> {
        match self.scope.resource().map(Resource::kind) {
            Some(kind) if !self.action.takes(kind) => Err(Invalid::WrongKind {
                action: self.action,
                kind,
            }),
            _ => Ok(()),
        }
    }

    /// Whether the grant says something about `pair`: the same action, on a resource of a kind that the action takes, which its scope covers.
    #[must_use]
    pub fn matches(&self, pair: &Pair) -> bool {
        self.action == pair.action()
            && self.check().is_ok()
            && pair
                .reachable_target()
                .is_some_and(|target| target.is_covered_by(&self.scope))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.action, self.scope, self.effect)
    }
}

/// What one layer says about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerEffect {
    /// Something matches, and all of it allows.
    Allow,
    /// Something asks, and nothing denies.
    Ask,
    /// The layer counts and nothing in it matches.
    None,
    /// Something denies.
    Deny,
}

impl LayerEffect {
    /// The word: `allow`, `ask`, `none` or `deny`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::None => "none",
            Self::Deny => "deny",
        }
    }
}

/// Which of the three states a layer is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerState {
    /// Not authored: it inherits and does not count.
    Absent,
    /// Authored without a grant: it denies everything.
    Empty,
    /// Authored with grants.
    Authored,
}

impl LayerState {
    /// The word: `absent`, `empty` or `authored`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Empty => "empty",
            Self::Authored => "authored",
        }
    }
}

/// For one scope, the actions that each effect stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Masks {
    allow: u16,
    ask: u16,
    deny: u16,
}

impl Masks {
    const fn add(&mut self, action: Action, effect: Effect) {
        match effect {
            Effect::Allow => self.allow |= action.bit(),
            Effect::Ask => self.ask |= action.bit(),
            Effect::Deny => self.deny |= action.bit(),
        }
    }

    const fn join(&mut self, other: Self) {
        self.allow |= other.allow;
        self.ask |= other.ask;
        self.deny |= other.deny;
    }
}

struct Authored {
    /// In the order of action, scope.
    grants: Vec<Grant>,
    any: Masks,
    by_resource: HashMap<Resource, Masks, BuildHasherDefault<Printed>>,
}

impl Authored {
    fn index(grants: Vec<Grant>) -> Self {
        let mut any = Masks::default();
        let mut by_resource: HashMap<Resource, Masks, _> = HashMap::default();
        // A grant of the wrong kind stays in the list, where it is marked, and out of the index, where it could only do harm.
        for grant in grants.iter().filter(|grant| grant.check().is_ok()) {
            match &grant.scope {
                Scope::Any => any.add(grant.action, grant.effect),
                Scope::One(resource) => by_resource
                    .entry(resource.clone())
                    .or_default()
                    .add(grant.action, grant.effect),
            }
        }
        Self {
            grants,
            any,
            by_resource,
        }
    }
}

/// A layer of a policy. Cloning shares it; an edit makes a new one.
#[derive(Clone)]
pub struct Layer(Option<Arc<Authored>>);

impl Layer {
    /// A layer that was never authored, or was cleared: it inherits.
    #[must_use]
    pub const fn absent() -> Self {
        Self(None)
    }

    /// A layer that was authored without a grant: it denies everything.
    #[must_use]
    pub fn empty() -> Self {
        Self(Some(Arc::new(Authored::index(Vec::new()))))
    }

    /// A layer as it was stored; no grants make it empty, never absent. Grants of a kind that their action does not take are kept and never match.
    /// Grants on one repo in two spellings are kept, and the strictest counts.
    ///
    /// # Errors
    /// [`Invalid::TooMany`], or [`Invalid::Twice`] when an action and a scope in one spelling have two effects.
    pub fn authored(grants: impl IntoIterator<Item = Grant>) -> Result<Self, Invalid> {
        let mut grants: Vec<Grant> = grants.into_iter().collect();
        if grants.len() > MAX_GRANTS {
            return Err(Invalid::TooMany { given: grants.len() });
        }
        // One text for one layer, also where a repo is spelled in two ways.
        grants.sort_unstable_by(|one, other| {
            let scope = one
                .action
                .cmp(&other.action)
                .then_with(|| one.scope.cmp(&other.scope));
            let spelling = || one.scope.spelling().cmp(other.scope.spelling());
            scope
                .then_with(spelling)
                .then_with(|| one.effect.cmp(&other.effect))
        });
        let twice = grants.iter().zip(grants.iter().skip(1)).find(|(one, next)| {
            one.action == next.action
                && one.scope == next.scope
                && one.scope.spelling() == next.scope.spelling()
        });
        if let Some((grant, _)) = twice {
            return Err(Invalid::Twice {
                action: grant.action,
                scope: grant.scope.to_string(),
            });
        }
        Ok(Self(Some(Arc::new(Authored::index(grants)))))
    }

    /// Which of the three states it is in.
    #[must_use]
    pub fn state(&self) -> LayerState {
        match &self.0 {
            None => LayerState::Absent,
            Some(authored) if authored.grants.is_empty() => LayerState::Empty,
            Some(_) => LayerState::Authored,
        }
    }

    /// Its grants in the order of action, scope; none when it is empty or absent.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        self.0
            .as_deref()
            .map_or(&[], |authored| authored.grants.as_slice())
    }

    /// The layer with `grant` in it, in the place of one with the same action and scope. An absent layer becomes authored by it.
    ///
    /// # Errors
    /// [`Invalid::WrongKind`] or [`Invalid::TooMany`].
    pub fn with(&self, grant: Grant) -> Result<Self, Invalid> {
        grant.check()?;
        let others = self
            .grants()
            .iter()
            .filter(|other| other.action != grant.action || other.scope != grant.scope)
            .cloned();
        Self::authored(others.chain([grant.clone()]))
    }

    /// The layer without its grant of `action` on `scope`. Without its last grant it is empty.
    ///
    /// # Errors
    /// [`Invalid::NoSuchGrant`].
    pub fn without(&self, action: Action, scope: &Scope) -> Result<Self, Invalid> {
        let left: Vec<Grant> = self
            .grants()
            .iter()
            .filter(|grant| grant.action != action || grant.scope != *scope)
            .cloned()
            .collect();
        if left.len() == self.grants().len() {
            return Err(Invalid::NoSuchGrant {
                action,
                scope: scope.to_string(),
            });
        }
        Self::authored(left)
    }

    /// What the layer says about `pair`; `None` when it is absent and does not count.
    #[must_use]
    pub fn effect(&self, pair: &Pair) -> Option<LayerEffect> {
        let authored = self.0.as_deref()?;
        let Some(target) = pair.reachable_target() else {
            return Some(LayerEffect::None);
        };
        let mut masks = authored.any;
        if let Some(found) = authored.by_resource.get(target.resource()) {
            masks.join(*found);
        }
        if let Some(found) = target
            .project()
            .and_then(|project| authored.by_resource.get(project))
        {
            masks.join(*found);
        }
        let bit = pair.action().bit();
        Some(if masks.deny & bit != 0 {
            LayerEffect::Deny
        } else if masks.ask & bit != 0 {
            LayerEffect::Ask
        } else if masks.allow & bit != 0 {
            LayerEffect::Allow
        } else {
            LayerEffect::None
        })
    }

    /// The grants that match `pair`: `any`, the project around it, the resource itself; of a repo one for each spelling of it.
    #[must_use]
    pub fn matching(&self, pair: &Pair) -> Vec<&Grant> {
        let Some(target) = pair.reachable_target() else {
            return Vec::new();
        };
        let resources = target.project().into_iter().chain([target.resource()]);
        [None]
            .into_iter()
            .chain(resources.map(Some))
            .flat_map(|scope| self.of(pair.action(), scope))
            .filter(|grant| grant.matches(pair))
            .collect()
    }

    /// The grants of `action` on exactly this scope, `None` being `any`.
    fn of(&self, action: Action, scope: Option<&Resource>) -> &[Grant] {
        let place = |grant: &Grant| {
            let resource = grant.scope.resource();
            grant.action.cmp(&action).then_with(|| resource.cmp(&scope))
        };
        let grants = self.grants();
        let from = grants.partition_point(|grant| place(grant).is_lt());
        let to = grants.partition_point(|grant| place(grant).is_le());
        grants.get(from..to).unwrap_or_default()
    }
}

impl PartialEq for Layer {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state() && self.grants() == other.grants()
    }
}

impl Eq for Layer {}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state() == LayerState::Absent {
            return f.write_str("absent");
        }
        f.debug_list()
            .entries(self.grants().iter().map(ToString::to_string))
            .finish()
    }
}
