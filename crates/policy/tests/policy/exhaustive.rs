//! Every action, scope kind, effect and layer, each against every kind of call, with account of what was met. Never skips a combination.

use std::collections::BTreeSet;

use muster_policy::{
    Action, Answer, Decision, Effect, Grant, Layer, LayerName, Needs, Pair, Policy, Scope, ScopeKind,
    Standing, Target, Verdict, decide,
};

use crate::support::{KINDS, by_the_book, takes, target};

/// One scope of each kind, and `any`.
const SCOPES: [&str; 7] = [
    "any",
    "project:p1",
    "worktree:w1",
    "db_connection:d1",
    "host:h1",
    "integration:i1",
    "repo:acme/app",
];

/// What calls name: what the scopes name, others of the same kinds, and nothing.
const NAMED: [&str; 15] = [
    "none",
    "project:p1",
    "project:p2",
    "worktree:w1@p1",
    "worktree:w2@p1",
    "worktree:w1x@p2",
    "worktree:w3@p2",
    "db_connection:d1",
    "db_connection:d2",
    "host:h1",
    "host:h2",
    "integration:i1",
    "integration:i2",
    "repo:acme/app",
    "repo:acme/lib",
];

/// What the two other layers are.
const OTHERS: [&str; 3] = ["absent", "empty", "open"];

fn other(state: &str) -> Layer {
    match state {
        "absent" => Layer::absent(),
        "empty" => Layer::empty(),
        _ => Layer::authored(Action::ALL.iter().map(|action| Grant {
            action: *action,
            scope: Scope::Any,
            effect: Effect::Allow,
        }))
        .unwrap(),
    }
}

fn call(action: Action, named: &str) -> Pair {
    match named {
        "none" => Pair::naming_nothing(action),
        named => Pair::new(action, target(named)),
    }
}

/// Whether one grant reaches a call, by the words alone.
fn reaches(action: Action, scope: &str, named: &str) -> bool {
    let kind = named.split(':').next().unwrap();
    if named == "none" || !takes(action, kind) {
        return false;
    }
    let (resource, project) = match named.split_once('@') {
        Some((worktree, project)) => (worktree, format!("project:{project}")),
        None => (named, String::new()),
    };
    scope == "any" || scope == resource || scope == project
}

/// The answer and the layer for one grant in `place` with two other layers alike.
fn expected(reached: bool, takes: bool, effect: Effect, place: LayerName, others: &str) -> Verdict {
    let outermost_other = if place == LayerName::Global {
        LayerName::Project
    } else {
        LayerName::Global
    };
    let (answer, layer) = match (reached, effect, others) {
        (true, Effect::Deny, _) => (Answer::Deny, place),
        (true, _, "empty") => (Answer::NotGranted, outermost_other),
        (true, Effect::Ask, _) => (Answer::Ask, place),
        (true, Effect::Allow, "open") => (Answer::Allow, LayerName::Global),
        (true, Effect::Allow, _) => (Answer::Allow, place),
        (false, _, "empty") => (Answer::NotGranted, LayerName::Global),
        // Open layers cover a call only if it names something of a kind that the action takes.
        (false, _, "open") if !takes => (Answer::NotGranted, LayerName::Global),
        (false, ..) => (Answer::NotGranted, place),
    };
    Verdict {
        answer,
        layer: Some(layer),
    }
}

fn agrees(decision: &Decision, answer: Answer) -> bool {
    match decision {
        Decision::Allow(_) => answer == Answer::Allow,
        Decision::Ask(_) => answer == Answer::Ask,
        Decision::Deny(refusal) => refusal.is_denied() == (answer == Answer::Deny) && answer.refuses(),
    }
}

// spec: POL-003 POL-011 POL-029 POL-033 POL-034 POL-037
#[test]
fn every_action_scope_effect_and_layer_is_answered_as_the_rules_say() {
    let (mut met, mut reached_by) = (BTreeSet::new(), BTreeSet::new());
    let mut asked = 0_usize;
    for action in Action::ALL.iter().copied() {
        for scope in SCOPES {
            for effect in Effect::ALL.iter().copied() {
                for place in LayerName::ALL.iter().copied() {
                    let rows = Layer::authored([Grant {
                        action,
                        scope: scope.parse().unwrap(),
                        effect,
                    }])
                    .unwrap();
                    for others in OTHERS {
                        let other = other(others);
                        let policy =
                            Policy::new(other.clone(), other.clone(), other).with(place, rows.clone());
                        for named in NAMED {
                            let pair = call(action, named);
                            let reached = reaches(action, scope, named)
                                && (scope == "any" || takes(action, scope.split(':').next().unwrap()));
                            let takes = takes(action, named.split(':').next().unwrap());
                            let wanted = expected(reached, takes, effect, place, others);
                            let context =
                                format!("{action} {scope} {effect} in {place}, others {others}: {named}");
                            assert_eq!(policy.verdict(&pair), wanted, "{context}");
                            assert_eq!(by_the_book(&policy, &pair), wanted, "{context}");
                            asked += 1;
                            if action != Action::DbWrite {
                                let decision = decide(Standing::Under(&policy), &Needs::new(pair, []));
                                assert!(agrees(&decision, wanted.answer), "{context}");
                            }
                            if reached {
                                reached_by.insert((action, scope, effect, place));
                            }
                        }
                    }
                    met.insert((action, scope, effect, place));
                }
            }
        }
    }
    let kinds = ScopeKind::ALL.len() + 1;
    assert_eq!((Action::ALL.len(), kinds, SCOPES.len()), (11, 7, 7));
    assert_eq!(met.len(), 11 * 7 * 3 * 3);
    assert_eq!(asked, met.len() * OTHERS.len() * NAMED.len());
    // A scope reaches calls exactly when the action takes its kind; in every layer, with every effect.
    let fitting: usize = KINDS.iter().map(|(_, kinds)| kinds.len() + 1).sum();
    assert_eq!(reached_by.len(), fitting * 3 * 3);
}

const STATES: [&str; 5] = ["absent", "none", "allow", "ask", "deny"];

fn in_state(state: &str) -> Layer {
    match state {
        "absent" => Layer::absent(),
        "none" => {
            Layer::authored([Grant::parse("db_read", "db_connection:other", "allow").unwrap()]).unwrap()
        }
        effect => Layer::authored([Grant::parse("db_read", "db_connection:d1", effect).unwrap()]).unwrap(),
    }
}

// spec: POL-056 POL-057 POL-058 POL-059 POL-061 POL-071 POL-076
#[test]
fn every_combination_of_three_layers_is_answered_by_the_strictest_and_outermost() {
    let pair = Pair::new(Action::DbRead, target("db_connection:d1"));
    let mut seen = BTreeSet::new();
    for global in STATES {
        for project in STATES {
            for task in STATES {
                let states = [global, project, task];
                let policy = Policy::new(in_state(global), in_state(project), in_state(task));
                let at = |state: &str| {
                    states
                        .iter()
                        .position(|found| *found == state)
                        .map(|place| LayerName::ALL[place])
                };
                let (answer, layer) = if states.contains(&"deny") {
                    (Answer::Deny, at("deny"))
                } else if states.contains(&"none") || states == ["absent"; 3] {
                    (Answer::NotGranted, at("none"))
                } else if states.contains(&"ask") {
                    (Answer::Ask, at("ask"))
                } else {
                    (Answer::Allow, at("allow"))
                };
                assert_eq!(policy.verdict(&pair), Verdict { answer, layer }, "{states:?}");
                let decision = decide(Standing::Under(&policy), &Needs::new(pair.clone(), []));
                assert!(agrees(&decision, answer), "{states:?}");
                seen.insert(states);
            }
        }
    }
    assert_eq!(seen.len(), 125);
}

#[test]
fn a_worktree_cannot_be_named_without_its_project() {
    let worktree = "worktree:w1".parse().unwrap();
    assert!(Target::new(worktree).is_err());
    let inside = Target::worktree("w1", "p1").unwrap();
    assert_eq!(
        inside.project().map(ToString::to_string).as_deref(),
        Some("project:p1")
    );
}
