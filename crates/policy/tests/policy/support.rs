//! A second, slow reading of the rules by words, and random policies. Never uses the index or the tables of the crate.

use std::sync::LazyLock;

use muster_policy::{
    Action, Answer, Effect, Grant, Layer, LayerName, Pair, Policy, Resource, Scope, Target, Verdict,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Which kinds each action takes, written a second time.
pub(crate) const KINDS: [(&str, &[&str]); 11] = [
    ("projects_read", &["project"]),
    ("tasks_write", &["project", "worktree"]),
    ("tasks_close", &["project", "worktree"]),
    ("worktree_read", &["project", "worktree"]),
    ("diff_read", &["project", "worktree"]),
    ("pr_write", &["repo"]),
    ("hosts_read", &["host"]),
    ("db_read", &["db_connection"]),
    ("db_write", &["db_connection"]),
    ("issues_read", &["integration"]),
    ("issues_write", &["integration"]),
];

pub(crate) fn takes(action: Action, kind: &str) -> bool {
    KINDS
        .iter()
        .find(|(name, _)| *name == action.as_str())
        .is_some_and(|(_, kinds)| kinds.contains(&kind))
}

pub(crate) fn grant(text: &str) -> Grant {
    let words: Vec<&str> = text.split(' ').collect();
    let [action, scope, effect] = words[..] else {
        panic!("{text} is not three words")
    };
    Grant {
        action: action.parse().unwrap(),
        scope: scope.parse().unwrap(),
        effect: effect.parse().unwrap(),
    }
}

/// A layer of grants, one a line or separated by commas.
pub(crate) fn layer(grants: &str) -> Layer {
    Layer::authored(
        grants
            .split([',', '\n'])
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(grant),
    )
    .unwrap()
}

pub(crate) fn policy(global: Layer, project: Layer, task: Layer) -> Policy {
    Policy::new(global, project, task)
}

/// `KIND:ID`, or `worktree:ID@PROJECT`.
pub(crate) fn target(text: &str) -> Target {
    match text.split_once('@') {
        Some((worktree, project)) => {
            Target::worktree(worktree.strip_prefix("worktree:").unwrap(), project).unwrap()
        }
        None => Target::new(text.parse().unwrap()).unwrap(),
    }
}

/// `ACTION TARGET`, with `none` for a call that names nothing.
pub(crate) fn pair(text: &str) -> Pair {
    let (action, named) = text.split_once(' ').unwrap();
    let action = action.parse().unwrap();
    match named {
        "none" => Pair::naming_nothing(action),
        named => Pair::new(action, target(named)),
    }
}

pub(crate) fn answer(policy: &Policy, question: &str) -> Answer {
    policy.verdict(&pair(question)).answer
}

/// Whether the grant says something about the pair, read off the words of both.
pub(crate) fn says_something(grant: &Grant, pair: &Pair) -> bool {
    let Some(named) = pair.target() else { return false };
    let named_kind = named.resource().kind().as_str();
    if grant.action.as_str() != pair.action().as_str() || !takes(pair.action(), named_kind) {
        return false;
    }
    let scope = grant.scope.to_string();
    if scope == "any" {
        return true;
    }
    let kind = scope.split(':').next().unwrap();
    let around = named.project().map(ToString::to_string);
    let named = named.resource().to_string();
    let itself = match kind {
        "repo" => scope.to_lowercase() == named.to_lowercase(),
        _ => scope == named,
    };
    takes(grant.action, kind) && (itself || Some(scope) == around)
}

/// The verdict by the sentences of the specification, without an index.
pub(crate) fn by_the_book(policy: &Policy, pair: &Pair) -> Verdict {
    let mut counting: Vec<(LayerName, &str)> = Vec::new();
    for (name, layer) in policy.layers() {
        if layer.state().as_str() == "absent" {
            continue;
        }
        let effects: Vec<&str> = layer
            .grants()
            .iter()
            .filter(|grant| says_something(grant, pair))
            .map(|grant| grant.effect.as_str())
            .collect();
        let effect = ["deny", "ask", "allow"]
            .into_iter()
            .find(|effect| effects.contains(effect));
        counting.push((name, effect.unwrap_or("none")));
    }
    let first = |effect: &str| {
        counting
            .iter()
            .find(|(_, found)| *found == effect)
            .map(|(name, _)| *name)
    };
    for (effect, answer) in [
        ("deny", Answer::Deny),
        ("none", Answer::NotGranted),
        ("ask", Answer::Ask),
        ("allow", Answer::Allow),
    ] {
        if let Some(layer) = first(effect) {
            return Verdict {
                answer,
                layer: Some(layer),
            };
        }
    }
    Verdict {
        answer: Answer::NotGranted,
        layer: None,
    }
}

/// Few resources, so that grants and calls meet: two of each kind, a worktree in each project and two in the first.
pub(crate) fn world() -> Vec<Target> {
    [
        "project:p1",
        "project:p2",
        "worktree:w1@p1",
        "worktree:w2@p1",
        "worktree:w3@p2",
        "db_connection:d1",
        "db_connection:d2",
        "host:h1",
        "host:h2",
        "integration:i1",
        "integration:i2",
        "repo:acme/app",
        "repo:acme/lib",
    ]
    .map(target)
    .to_vec()
}

/// Every pair over the world, the ones of a kind that the action does not take and those that name nothing included.
pub(crate) fn all_pairs() -> Vec<Pair> {
    let named = Action::ALL
        .iter()
        .flat_map(|action| world().into_iter().map(|target| Pair::new(*action, target)));
    named
        .chain(Action::ALL.iter().copied().map(Pair::naming_nothing))
        .collect()
}

/// Every grant over the world, over `any` and over one resource of each kind that is gone.
static GRANTS: LazyLock<Vec<Grant>> = LazyLock::new(|| {
    let gone = [
        "project:gone",
        "worktree:gone",
        "db_connection:gone",
        "host:gone",
        "integration:gone",
        "repo:acme/gone",
    ]
    .map(|text| text.parse().unwrap());
    let existing = world().into_iter().map(|target| target.resource().clone());
    // Forges know one repository under every case of its letters.
    let respelled: [Resource; 1] = ["repo:Acme/APP".parse().unwrap()];
    let scopes: Vec<Scope> = existing
        .chain(gone)
        .chain(respelled)
        .map(Scope::One)
        // Often enough to meet the others.
        .chain([Scope::Any, Scope::Any, Scope::Any])
        .collect();
    let mut grants = Vec::new();
    for action in Action::ALL.iter().copied() {
        for scope in &scopes {
            for effect in Effect::ALL.iter().copied() {
                grants.push(Grant {
                    action,
                    scope: scope.clone(),
                    effect,
                });
            }
        }
    }
    grants
});

/// Mostly grants that can match, some of a kind that their action does not take.
pub(crate) fn grants() -> impl Strategy<Value = Grant> {
    let fitting: Vec<Grant> = GRANTS
        .iter()
        .filter(|grant| grant.check().is_ok())
        .cloned()
        .collect();
    prop_oneof![1 => select(GRANTS.as_slice()), 6 => select(fitting)]
}

pub(crate) fn rows() -> impl Strategy<Value = Vec<Grant>> {
    proptest::collection::vec(grants(), 0..32).prop_map(|mut rows| {
        rows.sort();
        rows.dedup_by(|one, next| one.action == next.action && one.scope == next.scope);
        rows
    })
}

pub(crate) fn layers() -> impl Strategy<Value = Layer> {
    prop_oneof![
        1 => Just(Layer::absent()),
        1 => Just(Layer::empty()),
        2 => Just(Layer::authored(Action::ALL.iter().map(|action| Grant {
            action: *action,
            scope: Scope::Any,
            effect: Effect::Allow,
        })).unwrap()),
        6 => rows().prop_map(|rows| Layer::authored(rows).unwrap()),
    ]
}

pub(crate) fn policies() -> impl Strategy<Value = Policy> {
    (layers(), layers(), layers()).prop_map(|(global, project, task)| Policy::new(global, project, task))
}

pub(crate) fn pairs() -> impl Strategy<Value = Pair> {
    select(all_pairs())
}

/// Pairs that some grant can match.
pub(crate) fn pairs_of_a_fitting_kind() -> impl Strategy<Value = Pair> {
    let fitting: Vec<Pair> = all_pairs()
        .into_iter()
        .filter(|pair| {
            pair.resource()
                .is_some_and(|resource| takes(pair.action(), resource.kind().as_str()))
        })
        .collect();
    select(fitting)
}
