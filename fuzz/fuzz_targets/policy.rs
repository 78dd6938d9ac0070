//! Reads any text as a policy and as the words of a grant. Never may one that is accepted say something else when it is written again, or allow what a layer does not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_core::text::unseen;
use muster_policy::{
    Decision, Effect, Grant, LayerState, MAX_GRANTS, Needs, Pair, Policy, Resource, Scope, Standing, Target,
    decide,
};

/// What a grant is about; a worktree is taken to lie in the project `p`.
fn about(grant: &Grant) -> Option<Pair> {
    let target = match &grant.scope {
        Scope::Any => return None,
        Scope::One(resource) => Target::new(resource.clone())
            .or_else(|_| Target::worktree(resource.id(), "p"))
            .expect("an id that was accepted once"),
    };
    Some(Pair::new(grant.action, target))
}

fn is_seen(sentence: &str) {
    assert!(sentence.chars().all(|c| unseen(c).is_none()), "{sentence:?}");
}

fn holds(policy: &Policy, pair: &Pair) {
    let needs = Needs::new(pair.clone(), []);
    let counting: Vec<_> = policy
        .layers()
        .filter(|(_, layer)| layer.state() != LayerState::Absent)
        .collect();
    let every_layer_allows = needs.pairs().iter().all(|pair| {
        counting.iter().all(|(_, layer)| {
            let mut matching = layer
                .grants()
                .iter()
                .filter(|grant| grant.matches(pair))
                .peekable();
            matching.peek().is_some() && matching.all(|grant| grant.effect == Effect::Allow)
        })
    });
    match decide(Standing::Under(policy), &needs) {
        Decision::Allow(permit) => {
            assert!(every_layer_allows && !counting.is_empty());
            assert!(permit.covers(
                pair.action(),
                pair.resource().expect("nothing is allowed on no resource")
            ));
        }
        Decision::Ask(_) => assert!(!every_layer_allows),
        Decision::Deny(refusal) => {
            assert!(!every_layer_allows || counting.is_empty());
            is_seen(&refusal.to_string());
        }
    }
}

fuzz_target!(|text: &str| {
    match Policy::from_json(text) {
        Err(damaged) => is_seen(&damaged.to_string()),
        Ok(policy) => {
            let written = policy.to_json();
            let again = Policy::from_json(&written).expect("what was written is read");
            assert!(again == policy && again.to_json() == written);
            let mut damaged = text.trim_end().to_owned();
            damaged.pop();
            assert!(Policy::from_json(&damaged).is_err());
            for (_, layer) in policy.layers() {
                assert!(layer.grants().len() <= MAX_GRANTS);
                for grant in layer.grants().iter().take(64) {
                    holds(&policy, &Pair::naming_nothing(grant.action));
                    if let Some(pair) = about(grant) {
                        assert!(grant.matches(&pair));
                        holds(&policy, &pair);
                    }
                }
            }
        }
    }
    let mut words = text.splitn(3, ' ').chain(["", "", ""]);
    let mut word = || words.next().unwrap_or_default();
    match Grant::parse(word(), word(), word()) {
        Ok(grant) => {
            is_seen(&grant.to_string());
            assert_eq!(grant.to_string(), text);
        }
        Err(invalid) => is_seen(&invalid.to_string()),
    }
    if let Ok(resource) = text.parse::<Resource>() {
        assert_eq!(resource.to_string(), text);
        assert!(text.is_ascii() && !text.contains(['*', ',', ' ', '"', '\\']) && text.len() <= 256);
    }
});
