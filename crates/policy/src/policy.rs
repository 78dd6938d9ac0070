//! Three layers that only narrow, and what they say together about one pair. Never reads a fork's upper layers from anywhere but the root.

use crate::invalid::Invalid;
use crate::layer::{Layer, LayerEffect};
use crate::needs::Pair;
use crate::words::{Effect, LayerName};

/// Most forks between a policy and its root.
pub const MAX_FORKS_DEEP: usize = 64;

/// The layers that are in force: of a root its own three, of a fork the root's upper two and its own task layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    layers: [Layer; 3],
}

impl Policy {
    /// A policy of these layers.
    #[must_use]
    pub const fn new(global: Layer, project: Layer, task: Layer) -> Self {
        Self {
            layers: [global, project, task],
        }
    }

    /// A policy without a layer. It grants nothing.
    #[must_use]
    pub const fn closed() -> Self {
        Self::new(Layer::absent(), Layer::absent(), Layer::absent())
    }

    /// What is in force for a fork with this task layer: `root` is the policy at the very root, as it is now.
    #[must_use]
    pub fn fork(root: &Self, task: Layer) -> Self {
        root.with(LayerName::Task, task)
    }

    /// The layers from the outermost to the innermost.
    pub fn layers(&self) -> impl Iterator<Item = (LayerName, &Layer)> {
        LayerName::ALL.iter().copied().zip(&self.layers)
    }

    /// One layer.
    #[must_use]
    pub const fn layer(&self, name: LayerName) -> &Layer {
        let [global, project, task] = &self.layers;
        match name {
            LayerName::Global => global,
            LayerName::Project => project,
            LayerName::Task => task,
        }
    }

    /// The policy with `layer` in the place of its layer `name`.
    #[must_use]
    pub fn with(&self, name: LayerName, layer: Layer) -> Self {
        let mut layers = self.layers.clone();
        let [global, project, task] = &mut layers;
        match name {
            LayerName::Global => *global = layer,
            LayerName::Project => *project = layer,
            LayerName::Task => *task = layer,
        }
        Self { layers }
    }

    /// What the layers say together about `pair`: each can only narrow what the one above leaves.
    #[must_use]
    pub fn verdict(&self, pair: &Pair) -> Verdict {
        let mut decisive: Option<(LayerEffect, LayerName)> = None;
        for (name, layer) in self.layers() {
            let Some(effect) = layer.effect(pair) else {
                continue;
            };
            // The strictest counts, and of equal ones the outermost.
            if decisive.is_none_or(|(strictest, _)| effect > strictest) {
                decisive = Some((effect, name));
            }
        }
        let answer = match decisive {
            Some((LayerEffect::Allow, _)) => Answer::Allow,
            Some((LayerEffect::Ask, _)) => Answer::Ask,
            Some((LayerEffect::None, _)) | None => Answer::NotGranted,
            Some((LayerEffect::Deny, _)) => Answer::Deny,
        };
        Verdict {
            answer,
            layer: decisive.map(|(_, name)| name),
        }
    }
}

/// What governs a caller. A policy that could not be loaded is neither of the two: refuse the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'p> {
    /// This policy.
    Under(&'p Policy),
    /// None at all (legacy-unscoped): no policy restricts the call.
    Unscoped,
}

impl Standing<'_> {
    /// What governs the caller says about `pair`.
    #[must_use]
    pub fn verdict(self, pair: &Pair) -> Verdict {
        match self {
            Self::Under(policy) => policy.verdict(pair),
            Self::Unscoped => Verdict {
                answer: Answer::Unscoped,
                layer: None,
            },
        }
    }
}

/// The answer about a pair, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// No policy governs the caller.
    Unscoped,
    /// It may.
    Allow,
    /// A person decides.
    Ask,
    /// A layer that counts has nothing that matches, or no layer counts.
    NotGranted,
    /// A layer denies it.
    Deny,
}

impl Answer {
    /// The word: `unscoped`, `allow`, `ask`, `not_granted` or `deny`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unscoped => "unscoped",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::NotGranted => "not_granted",
            Self::Deny => "deny",
        }
    }

    /// Whether the call is refused, whatever a person would say.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::NotGranted | Self::Deny)
    }

    /// What is left of it for the caller: allow, ask, or nothing.
    #[must_use]
    pub const fn leaves(self) -> Option<Effect> {
        match self {
            Self::Unscoped | Self::Allow => Some(Effect::Allow),
            Self::Ask => Some(Effect::Ask),
            Self::NotGranted | Self::Deny => None,
        }
    }
}

/// The answer about a pair and the layer that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// The outermost layer with the deciding effect; none when no layer counts.
    pub layer: Option<LayerName>,
}

/// Whether a policy may have `layer` of its own.
///
/// # Errors
/// [`Invalid::NotARoot`] for an upper layer of a fork.
pub const fn may_author(is_fork: bool, layer: LayerName) -> Result<(), Invalid> {
    match (is_fork, layer) {
        (true, LayerName::Global | LayerName::Project) => Err(Invalid::NotARoot(layer)),
        _ => Ok(()),
    }
}

/// Why a fork has no root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Tangled<E> {
    /// The parents go round in a circle.
    #[error("the policy is its own ancestor, so it has no root; nothing is allowed by it")]
    Circle,
    /// Too many forks of forks.
    #[error("more than {MAX_FORKS_DEEP} forks lie between the policy and its root; nothing is allowed by it")]
    TooDeep,
    /// A parent could not be read.
    #[error(transparent)]
    Unread(E),
}

/// The policy whose upper two layers `start` has: itself, or the ancestor that is no fork. `parent` reads one step.
///
/// # Errors
/// [`Tangled`]; whoever gets it must refuse.
pub fn root_of<P: Copy + PartialEq, E>(
    start: P,
    mut parent: impl FnMut(P) -> Result<Option<P>, E>,
) -> Result<P, Tangled<E>> {
    let (mut passed, mut here) = (Vec::new(), start);
    while let Some(above) = parent(here).map_err(Tangled::Unread)? {
        passed.push(here);
        if passed.contains(&above) {
            return Err(Tangled::Circle);
        }
        if passed.len() > MAX_FORKS_DEEP {
            return Err(Tangled::TooDeep);
        }
        here = above;
    }
    Ok(here)
}
