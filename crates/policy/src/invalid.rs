//! Why a word, a scope, a grant or an edit was refused, as sentences that list what is valid. Never holds more of what was typed than a short, escaped beginning.

use std::fmt;

use muster_core::text::terminal;

use crate::words::{Action, Effect, LayerName, ScopeKind};

/// Most characters of a refused word that a sentence repeats.
const SHOWN: usize = 40;

/// The beginning of what was typed, quoted, on one line and without anything that cannot be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl Shown {
    pub(crate) fn of(text: &str) -> Self {
        let beginning: String = text.chars().take(SHOWN).collect();
        let more = if beginning.len() < text.len() { "…" } else { "" };
        Self(format!("\"{}{more}\"", terminal(&beginning)))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A refusal of something that was typed, imported or stored. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No such action.
    #[error("{0} is not an action; the eleven actions are {words}", words = list(Action::ALL))]
    Action(Shown),
    /// No such kind of resource.
    #[error(
        "{0} is not a kind of resource; a scope is `any` or KIND:ID, where KIND is one of {words}",
        words = list(ScopeKind::ALL)
    )]
    Kind(Shown),
    /// No such effect.
    #[error("{0} is not an effect; the three effects are {words}", words = list(Effect::ALL))]
    Effect(Shown),
    /// No such layer.
    #[error("{0} is not a layer; the three layers are {words}", words = list(LayerName::ALL))]
    Layer(Shown),
    /// No such preset.
    #[error("{0} is not a preset; the presets are {words}", words = list(crate::Preset::ALL))]
    Preset(Shown),
    /// Neither `any` nor a kind and an id.
    #[error(
        "{0} is not a scope; a scope is `any` or KIND:ID for exactly one resource, where KIND is one of {words}",
        words = list(ScopeKind::ALL)
    )]
    Scope(Shown),
    /// An id that could not be the id of one resource: a list, a pattern, blanks, too long.
    #[error(
        "{id} does not name exactly one {kind}; an id has 1 to 64 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen and starts with a letter or digit, and a repo is OWNER/NAME"
    )]
    Id {
        /// The kind of resource that the id stood behind.
        kind: ScopeKind,
        /// What stood there.
        id: Shown,
    },
    /// A scope that the action never looks at, so that the grant could never match.
    #[error("{action} is never about a {kind}; it takes `any` or a {}", alternatives(action.kinds()))]
    WrongKind {
        /// The grant's action.
        action: Action,
        /// The kind of its scope.
        kind: ScopeKind,
    },
    /// The same action and scope stand twice in one layer.
    #[error(
        "{action} on {scope} stands twice in the layer; a layer holds one effect for an action and a scope"
    )]
    Twice {
        /// The action that stands twice.
        action: Action,
        /// Its scope, as it is printed.
        scope: String,
    },
    /// The grant to remove is not there.
    #[error("the layer has no grant of {action} on {scope}; nothing was removed")]
    NoSuchGrant {
        /// The action looked for.
        action: Action,
        /// Its scope, as it is printed.
        scope: String,
    },
    /// More grants than a layer can have.
    #[error(
        "the layer would have {given} grants; it can have at most {}",
        crate::MAX_GRANTS
    )]
    TooMany {
        /// How many there would be.
        given: usize,
    },
    /// A worktree named without the project that it lies in, where a grant on the project could not be found.
    #[error("a worktree is named together with the project that it lies in")]
    NoProject,
    /// An upper layer on a fork.
    #[error(
        "a fork has only a task layer of its own; its {0} layer is read from the policy at the root, so change it there"
    )]
    NotARoot(LayerName),
}

/// The words in their order, separated by commas.
fn list<T: fmt::Display>(words: &[T]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join(", ")
}

fn alternatives(kinds: &[ScopeKind]) -> String {
    let words: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    words.join(" or a ")
}
