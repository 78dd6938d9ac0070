//! Grants that can never fire, and why. Never takes one for dead that a resource made later could wake.

use std::collections::HashMap;
use std::fmt;

use crate::layer::{Grant, Layer, LayerEffect};
use crate::needs::Pair;
use crate::policy::Policy;
use crate::scope::{Resource, Scope, Target};
use crate::words::{Action, Effect, LayerName, ScopeKind};

/// Why a grant can never fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dead {
    /// Its action is never about a resource of its scope's kind.
    WrongKind,
    /// Its resource does not exist (any more).
    Gone,
    /// This upper layer leaves nothing of it.
    Shadowed(LayerName),
    /// Stricter grants of its own layer cover all of its scope.
    Overruled,
    /// A `db_write` where no `db_read` can be reached, so that no call gets through.
    NoRead,
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind => f.write_str("its action is never about this kind of resource"),
            Self::Gone => f.write_str("the resource does not exist any more"),
            Self::Shadowed(layer) => write!(f, "the {layer} layer leaves nothing of it"),
            Self::Overruled => f.write_str("a stricter grant in the same layer covers all of it"),
            Self::NoRead => f.write_str("db_write without a db_read that can be reached gives no access"),
        }
    }
}

/// A grant that can never fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRule<'p> {
    /// The layer that it stands in.
    pub layer: LayerName,
    /// The grant.
    pub grant: &'p Grant,
    /// Why.
    pub why: Dead,
}

/// The grants of `policy` that can never fire while `live` are all the resources there are, from the outermost layer inwards, in the order of the layers' grants.
///
/// An allow or ask fires where every upper layer that counts allows or asks; a deny where none of them denies already. `any`
/// also covers a resource that is still to come. What lower layers take away does not make a grant dead, except that a
/// `db_write` needs a `db_read` that all layers leave.
#[must_use]
pub fn dead_rules<'p>(policy: &'p Policy, live: &[Target]) -> Vec<DeadRule<'p>> {
    let live = Live::new(live);
    let mut dead = Vec::new();
    for (name, layer) in policy.layers() {
        for grant in layer.grants() {
            if let Some(why) = why(policy, name, layer, grant, &live) {
                dead.push(DeadRule {
                    layer: name,
                    grant,
                    why,
                });
            }
        }
    }
    dead
}

fn why(policy: &Policy, name: LayerName, layer: &Layer, grant: &Grant, live: &Live<'_>) -> Option<Dead> {
    if grant.check().is_err() {
        return Some(Dead::WrongKind);
    }
    let places = live.covered_by(grant.action, &grant.scope);
    let mut shadow = None;
    let (mut passes_above, mut fires) = (false, false);
    for place in &places {
        let pair = Pair::new(grant.action, place.clone());
        let refusing = policy
            .layers()
            .take_while(|(above, _)| *above != name)
            .find(|(_, above)| stops(above.effect(&pair), grant.effect));
        if let Some((above, _)) = refusing {
            shadow = shadow.or(Some(above));
            continue;
        }
        passes_above = true;
        if layer.effect(&pair) != Some(of(grant.effect)) {
            continue;
        }
        fires = true;
        if grant.effect == Effect::Deny || is_of_use(policy, grant.action, place) {
            return None;
        }
    }
    Some(match (fires, passes_above, shadow) {
        (true, ..) => Dead::NoRead,
        (false, true, _) => Dead::Overruled,
        (false, false, Some(above)) => Dead::Shadowed(above),
        // No place at all.
        (false, false, None) => Dead::Gone,
    })
}

/// Whether nothing else that a call of `action` charges is refused.
fn is_of_use(policy: &Policy, action: Action, target: &Target) -> bool {
    action != Action::DbWrite || {
        let read = Pair::new(Action::DbRead, target.clone());
        !policy.verdict(&read).answer.refuses()
    }
}

/// Whether an upper layer with this effect keeps a grant below from changing anything.
const fn stops(above: Option<LayerEffect>, below: Effect) -> bool {
    match above {
        None | Some(LayerEffect::Allow | LayerEffect::Ask) => false,
        Some(LayerEffect::None) => !matches!(below, Effect::Deny),
        Some(LayerEffect::Deny) => true,
    }
}

const fn of(effect: Effect) -> LayerEffect {
    match effect {
        Effect::Allow => LayerEffect::Allow,
        Effect::Ask => LayerEffect::Ask,
        Effect::Deny => LayerEffect::Deny,
    }
}

/// The resources that exist, by id, by kind and by what they lie in.
struct Live<'l> {
    all: &'l [Target],
    by_resource: HashMap<&'l Resource, &'l Target>,
    by_project: HashMap<&'l Resource, Vec<&'l Target>>,
}

impl<'l> Live<'l> {
    fn new(all: &'l [Target]) -> Self {
        let mut by_project: HashMap<&Resource, Vec<&Target>> = HashMap::new();
        for target in all {
            if let Some(project) = target.project() {
                by_project.entry(project).or_default().push(target);
            }
        }
        Self {
            all,
            by_resource: all.iter().map(|target| (target.resource(), target)).collect(),
            by_project,
        }
    }

    /// The places that a grant of `action` on `scope` covers, the ones still to come represented by one of each kind.
    fn covered_by(&self, action: Action, scope: &Scope) -> Vec<Target> {
        match scope {
            Scope::Any => {
                let existing = self
                    .all
                    .iter()
                    .filter(|target| action.takes(target.resource().kind()))
                    .cloned();
                let to_come = action.kinds().iter().map(|kind| Target::to_come(*kind));
                to_come.chain(existing).collect()
            }
            Scope::One(resource) => {
                let itself = self.by_resource.get(resource).copied();
                let inside = itself
                    .filter(|_| action.takes(ScopeKind::Worktree))
                    .and_then(|_| self.by_project.get(resource))
                    .into_iter()
                    .flatten()
                    .copied();
                itself.into_iter().chain(inside).cloned().collect()
            }
        }
    }
}
