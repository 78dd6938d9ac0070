//! Reading a policy back: why a pair is answered as it is, what a caller has in the end, what an edit would change. Never mints a permit.

use crate::layer::{Grant, LayerEffect, LayerState};
use crate::needs::Pair;
use crate::policy::{Answer, Standing, Verdict};
use crate::scope::{Names, Target, nameless};
use crate::words::{Action, Effect, LayerName};

/// What one layer contributed to a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerExplanation<'p> {
    /// Which layer.
    pub name: LayerName,
    /// Absent, empty or authored.
    pub state: LayerState,
    /// What it says about the pair; none when it is absent.
    pub effect: Option<LayerEffect>,
    /// Its grants that match the pair.
    pub rows: Vec<&'p Grant>,
}

/// Why a pair is answered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<'p> {
    /// The pair.
    pub pair: Pair,
    /// The answer and the layer that gave it.
    pub verdict: Verdict,
    /// The layers from the outermost to the innermost; empty when no policy governs.
    pub layers: Vec<LayerExplanation<'p>>,
}

/// Explains what governs the caller on `pair`.
#[must_use]
pub fn explain<'p>(standing: Standing<'p>, pair: &Pair) -> Explanation<'p> {
    let layers = match standing {
        Standing::Unscoped => Vec::new(),
        Standing::Under(policy) => policy
            .layers()
            .map(|(name, layer)| LayerExplanation {
                name,
                state: layer.state(),
                effect: layer.effect(pair),
                rows: layer.matching(pair),
            })
            .collect(),
    };
    Explanation {
        pair: pair.clone(),
        verdict: standing.verdict(pair),
        layers,
    }
}

impl Explanation<'_> {
    /// The layer that took the pair away or made it an ask; none when nothing was taken.
    #[must_use]
    pub const fn narrowed_by(&self) -> Option<LayerName> {
        match self.verdict.answer {
            Answer::Unscoped | Answer::Allow => None,
            Answer::Ask | Answer::NotGranted | Answer::Deny => self.verdict.layer,
        }
    }

    /// The explanation in one sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        self.told(&nameless)
    }

    /// The same with names beside the ids.
    #[must_use]
    pub fn told(&self, names: Names<'_>) -> String {
        let pair = self.pair.told(names);
        let Some(layer) = self.verdict.layer else {
            return if self.verdict.answer == Answer::Unscoped {
                format!("No policy is attached (LEGACY-UNSCOPED), so nothing restricts {pair}.")
            } else {
                format!(
                    "All three layers are absent, and a policy without layers grants nothing: not {pair}."
                )
            };
        };
        let rows = |effect| self.rows(effect, names);
        match self.verdict.answer {
            Answer::Deny => format!("The {layer} layer denies {pair}: {}.", rows(Effect::Deny)),
            Answer::Ask => format!("The {layer} layer asks for {pair}: {}.", rows(Effect::Ask)),
            Answer::Unscoped | Answer::Allow => {
                format!("Every layer that is authored allows {pair}.")
            }
            Answer::NotGranted => self.why_not(layer, &pair),
        }
    }

    fn why_not(&self, layer: LayerName, told: &str) -> String {
        let pair = &self.pair;
        match pair.target() {
            None => format!("Nothing matches {told}: not even `any` covers a call that names none."),
            Some(target) if !pair.action().takes(target.resource().kind()) => format!(
                "Nothing matches {told}: {} is never about a {}.",
                pair.action(),
                target.resource().kind()
            ),
            Some(_) if self.of(layer).is_some_and(|one| one.state == LayerState::Empty) => {
                format!("The {layer} layer is authored and empty, which refuses everything: also {told}.")
            }
            Some(_) => format!("The {layer} layer has no grant that matches {told}."),
        }
    }

    fn of(&self, layer: LayerName) -> Option<&LayerExplanation<'_>> {
        self.layers.iter().find(|one| one.name == layer)
    }

    /// The deciding layer's rows with this effect.
    fn rows(&self, effect: Effect, names: Names<'_>) -> String {
        let rows: Vec<String> = self
            .verdict
            .layer
            .and_then(|layer| self.of(layer))
            .into_iter()
            .flat_map(|layer| &layer.rows)
            .filter(|grant| grant.effect == effect)
            .map(|grant| format!("`{} {} {}`", grant.action, grant.scope.told(names), grant.effect))
            .collect();
        rows.join(" and ")
    }
}

/// One line of the table of what a caller has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The action.
    pub action: Action,
    /// The resource.
    pub target: Target,
    /// What was found about the pair by itself.
    pub verdict: Verdict,
    /// What becomes of a call that charges the pair: stricter than the verdict where a `db_write` meets a stricter `db_read`.
    pub call: Answer,
}

/// The table over every action and each of `targets` whose kind it takes, in the order of the actions and of `targets`.
#[must_use]
pub fn effective(standing: Standing<'_>, targets: &[Target]) -> Vec<Row> {
    let rows = Action::ALL.iter().flat_map(|action| {
        targets
            .iter()
            .filter(|target| action.takes(target.resource().kind()))
            .map(|target| row(standing, *action, target))
    });
    rows.collect()
}

fn row(standing: Standing<'_>, action: Action, target: &Target) -> Row {
    let verdict = standing.verdict(&Pair::new(action, target.clone()));
    let call = if action == Action::DbWrite {
        let read = Pair::new(Action::DbRead, target.clone());
        verdict.answer.max(standing.verdict(&read).answer)
    } else {
        verdict.answer
    };
    Row {
        action,
        target: target.clone(),
        verdict,
        call,
    }
}

/// A pair that is answered otherwise by two policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The pair.
    pub pair: Pair,
    /// What the first says.
    pub before: Verdict,
    /// What the second says.
    pub after: Verdict,
}

/// Those of `pairs` whose answer differs, in their order. Another layer giving the same answer is no change.
#[must_use]
pub fn diff(before: Standing<'_>, after: Standing<'_>, pairs: &[Pair]) -> Vec<Change> {
    pairs
        .iter()
        .map(|pair| Change {
            pair: pair.clone(),
            before: before.verdict(pair),
            after: after.verdict(pair),
        })
        .filter(|change| change.before.answer != change.after.answer)
        .collect()
}
