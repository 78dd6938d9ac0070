//! The laws that hold for every policy, each over thousands of random ones. Never assumes that a grant is sensible.

use std::collections::{BTreeMap, HashSet};

use muster_policy::{
    Action, Answer, Dead, Decision, Effect, Grant, Layer, LayerEffect, LayerName, LayerState, Needs, Pair,
    Policy, Resource, Scope, ScopeKind, Standing, Target, dead_rules, decide, diff, effective, explain,
    weigh,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::support::{
    all_pairs, by_the_book, grants, layers, pairs, pairs_of_a_fitting_kind, policies, rows, world,
};

fn is_authored(policy: &Policy) -> bool {
    policy
        .layers()
        .any(|(_, layer)| layer.state() != LayerState::Absent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_index_answers_as_the_book_does(policy in policies(), pair in pairs()) {
        prop_assert_eq!(policy.verdict(&pair), by_the_book(&policy, &pair));
    }

    // spec: POL-062..POL-065
    #[test]
    fn a_layer_never_widens_what_the_others_leave(
        policy in policies(), name in select(LayerName::ALL), layer in layers(), pair in pairs(),
    ) {
        let without = policy.with(name, Layer::absent());
        prop_assume!(is_authored(&without));
        let with = policy.with(name, layer);
        prop_assert!(with.verdict(&pair).answer >= without.verdict(&pair).answer);
    }

    // spec: POL-056..POL-060
    #[test]
    fn a_deny_absorbs_whatever_else_matches(
        policy in policies(), name in select(LayerName::ALL), pair in pairs_of_a_fitting_kind(), any in any::<bool>(),
    ) {
        let named = Scope::One(pair.resource().unwrap().clone());
        let scope = if any { Scope::Any } else { named };
        let grant = Grant { action: pair.action(), scope, effect: Effect::Deny };
        let denied = policy.with(name, policy.layer(name).with(grant).unwrap());
        prop_assert_eq!(denied.verdict(&pair).answer, Answer::Deny);
        let decision = decide(Standing::Under(&denied), &Needs::new(pair, []));
        prop_assert!(matches!(decision, Decision::Deny(refusal) if refusal.is_denied()));
    }

    // spec: POL-071 POL-072
    #[test]
    fn clearing_a_layer_inherits_and_emptying_it_refuses(
        policy in policies(), name in select(LayerName::ALL), pair in pairs(),
    ) {
        let emptied = policy.with(name, Layer::empty());
        prop_assert!(emptied.verdict(&pair).answer.refuses());
        let cleared = policy.with(name, Layer::absent());
        let counting = cleared.layers().filter_map(|(_, layer)| layer.effect(&pair)).max();
        let answer = cleared.verdict(&pair).answer.as_str();
        match counting {
            None => prop_assert_eq!(answer, "not_granted"),
            Some(effect) => prop_assert_eq!(answer.replace("not_granted", "none"), effect.as_str()),
        }
        prop_assert_ne!(emptied.to_json(), cleared.to_json());
    }

    #[test]
    fn letters_of_another_case_name_another_resource_unless_it_is_a_repo(
        kind in select(ScopeKind::ALL), id in "[A-Za-z][A-Za-z0-9]{0,5}", flips in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let id = if kind == ScopeKind::Repo { format!("{id}/{id}") } else { id };
        let flipped: String = id.chars().zip(flips.iter().chain(std::iter::repeat(&false)))
            .map(|(c, flip)| match (flip, c.is_ascii_lowercase()) {
                (false, _) => c,
                (true, true) => c.to_ascii_uppercase(),
                (true, false) => c.to_ascii_lowercase(),
            }).collect();
        let (one, other) = (Resource::new(kind, &id).unwrap(), Resource::new(kind, &flipped).unwrap());
        let same = kind == ScopeKind::Repo || id == flipped;
        prop_assert_eq!(one == other, same);
        prop_assert_eq!(one.cmp(&other).is_eq(), same);
        prop_assert_eq!(HashSet::from([one.clone()]).contains(&other), same);
        prop_assert_eq!((one.id(), other.id()), (id.as_str(), flipped.as_str()));
        // The same in what a layer says.
        if let Some(action) = Action::ALL.iter().copied().find(|action| action.takes(kind)) {
            let target = match kind {
                ScopeKind::Worktree => Target::worktree(&flipped, "p").unwrap(),
                _ => Target::new(other).unwrap(),
            };
            let grant = Grant { action, scope: Scope::One(one), effect: Effect::Deny };
            let held = Layer::authored([grant]).unwrap().effect(&Pair::new(action, target));
            prop_assert_eq!(held == Some(LayerEffect::Deny), same);
        }
    }

    #[test]
    fn the_order_of_grants_is_irrelevant(rows in rows(), turn in any::<prop::sample::Index>(), pair in pairs()) {
        let mut turned = rows.clone();
        if !turned.is_empty() {
            let by = turn.index(turned.len());
            turned.rotate_left(by);
            turned.swap(0, by);
        }
        let (one, other) = (Layer::authored(rows).unwrap(), Layer::authored(turned).unwrap());
        prop_assert_eq!(one.effect(&pair), other.effect(&pair));
        let json = |layer: Layer| Policy::closed().with(LayerName::Task, layer).to_json();
        prop_assert_eq!(json(one), json(other));
    }

    // spec: POL-034
    #[test]
    fn a_call_that_names_nothing_is_refused_by_every_policy(policy in policies(), action in select(Action::ALL)) {
        let needs = Needs::naming_nothing(action);
        prop_assert!(matches!(decide(Standing::Under(&policy), &needs), Decision::Deny(_)));
    }

    #[test]
    fn a_fork_has_its_roots_upper_layers_as_they_are_now_and_its_own_task_layer(
        root in policies(), own in layers(), edit in layers(), name in select(LayerName::ALL), pair in pairs(),
    ) {
        let edited = root.with(name, edit);
        let fork = Policy::fork(&edited, own.clone());
        for upper in [LayerName::Global, LayerName::Project] {
            prop_assert_eq!(fork.layer(upper), edited.layer(upper));
        }
        prop_assert_eq!(fork.layer(LayerName::Task), &own);
        let alone = edited.with(LayerName::Task, Layer::absent());
        prop_assume!(is_authored(&alone));
        prop_assert!(fork.verdict(&pair).answer >= alone.verdict(&pair).answer);
    }

    // spec: POL-039
    #[test]
    fn only_the_id_counts_so_a_new_resource_under_an_old_name_is_not_covered(
        one in "[a-z0-9][a-z0-9._-]{0,15}", other in "[a-z0-9][a-z0-9._-]{0,15}",
    ) {
        let grant = Grant::parse("db_read", &format!("db_connection:{one}"), "allow").unwrap();
        let policy = Policy::closed().with(LayerName::Task, Layer::authored([grant]).unwrap());
        let named = crate::support::target(&format!("db_connection:{other}"));
        let allowed = policy.verdict(&Pair::new(Action::DbRead, named)).answer == Answer::Allow;
        prop_assert_eq!(allowed, one == other);
    }

    #[test]
    fn taking_an_allow_away_never_opens_anything_and_leaves_an_authored_layer(
        policy in policies(), place in any::<prop::sample::Index>(), pair in pairs(),
    ) {
        let allows: Vec<(LayerName, &Grant)> = policy
            .layers()
            .flat_map(|(name, layer)| layer.grants().iter().map(move |grant| (name, grant)))
            .filter(|(_, grant)| grant.effect == Effect::Allow)
            .collect();
        prop_assume!(!allows.is_empty());
        let (name, grant) = *place.get(&allows);
        let without = policy.with(name, policy.layer(name).without(grant.action, &grant.scope).unwrap());
        prop_assert_ne!(without.layer(name).state(), LayerState::Absent);
        prop_assert!(without.verdict(&pair).answer >= policy.verdict(&pair).answer);
    }

    #[test]
    fn granting_again_replaces_the_effect_and_nothing_else(layer in layers(), grant in grants(), effect in select(Effect::ALL)) {
        let Ok(with) = layer.with(grant.clone()) else {
            prop_assert!(grant.check().is_err());
            return Ok(());
        };
        let again = with.with(Grant { effect, ..grant.clone() }).unwrap();
        prop_assert_eq!(again.grants().len(), with.grants().len());
        let bare = |layer: &Layer| layer.without(grant.action, &grant.scope).unwrap();
        prop_assert_eq!(bare(&again), bare(&with));
    }

    // spec: ASK-006 POL-040
    #[test]
    fn a_call_is_refused_before_it_asks_and_asks_before_it_runs(
        policy in policies(), wanted in subsequence(all_pairs(), 1..5),
    ) {
        let (first, others) = wanted.split_first().unwrap();
        let needs = Needs::new(first.clone(), others.iter().cloned());
        for pair in needs.pairs().iter().filter(|pair| pair.action() == Action::DbWrite) {
            let reads = needs.pairs().iter().any(|other| {
                other.action() == Action::DbRead && other.target() == pair.target()
            });
            prop_assert!(reads);
        }
        let answers: Vec<Answer> = needs.pairs().iter().map(|pair| by_the_book(&policy, pair).answer).collect();
        let refused = answers.iter().any(|answer| answer.refuses());
        let asks = answers.contains(&Answer::Ask);
        prop_assert_eq!(weigh(Standing::Under(&policy), &needs), *answers.iter().max().unwrap());
        match decide(Standing::Under(&policy), &needs) {
            Decision::Deny(refusal) => {
                prop_assert!(refused);
                prop_assert_eq!(refusal.is_denied(), answers.contains(&Answer::Deny));
                prop_assert_eq!(refusal.refused().count(), answers.iter().filter(|answer| answer.refuses()).count());
            }
            Decision::Ask(asked) => {
                prop_assert!(!refused && asks);
                prop_assert_eq!(asked.asking().count(), answers.iter().filter(|answer| **answer == Answer::Ask).count());
            }
            Decision::Allow(permit) => {
                prop_assert!(!refused && !asks);
                for pair in needs.pairs() {
                    prop_assert!(permit.covers(pair.action(), pair.resource().unwrap()));
                }
            }
        }
    }

    #[test]
    fn an_explanation_shows_the_rows_that_decide(policy in policies(), pair in pairs()) {
        let explained = explain(Standing::Under(&policy), &pair);
        prop_assert_eq!(explained.verdict, by_the_book(&policy, &pair));
        for (shown, (name, layer)) in explained.layers.iter().zip(policy.layers()) {
            let rows: Vec<&Grant> = layer
                .grants()
                .iter()
                .filter(|grant| crate::support::says_something(grant, &pair))
                .collect();
            prop_assert_eq!((shown.name, &shown.rows), (name, &rows));
        }
        prop_assert!(explained.reason().ends_with('.'));
    }

    #[test]
    fn the_table_says_what_calls_get(policy in policies()) {
        for row in effective(Standing::Under(&policy), &world()) {
            let needs = Needs::of(row.action, row.target.clone());
            let got = match decide(Standing::Under(&policy), &needs) {
                Decision::Allow(_) => Some(Effect::Allow),
                Decision::Ask(_) => Some(Effect::Ask),
                Decision::Deny(_) => None,
            };
            prop_assert_eq!(row.call.leaves(), got);
        }
    }

    #[test]
    fn what_would_change_is_what_is_answered_otherwise(
        before in policies(), after in policies(), asked in subsequence(all_pairs(), 20),
    ) {
        let (one, other) = (Standing::Under(&before), Standing::Under(&after));
        prop_assert!(diff(one, one, &asked).is_empty());
        let changed: Vec<Pair> = diff(one, other, &asked).into_iter().map(|change| change.pair).collect();
        let wanted: Vec<Pair> = asked
            .into_iter()
            .filter(|pair| by_the_book(&before, pair).answer != by_the_book(&after, pair).answer)
            .collect();
        prop_assert_eq!(changed, wanted);
    }

    #[test]
    fn without_its_dead_rules_a_policy_decides_every_call_as_before(policy in policies()) {
        let live = world();
        let mut bare = policy.clone();
        for dead in dead_rules(&policy, &live) {
            let layer = bare.layer(dead.layer).without(dead.grant.action, &dead.grant.scope).unwrap();
            bare = bare.with(dead.layer, layer);
        }
        for action in Action::ALL {
            for target in &live {
                let needs = Needs::of(*action, target.clone());
                let refused = |policy| {
                    let answer = weigh(Standing::Under(policy), &needs);
                    if answer.refuses() { None } else { Some(answer) }
                };
                prop_assert_eq!(refused(&bare), refused(&policy));
            }
        }
        // Nothing comes to light when the dead are gone: what is left fires.
        prop_assert!(dead_rules(&bare, &live).is_empty());
    }
}

#[test]
fn the_random_policies_meet_every_answer_and_every_cause_of_death_often() {
    let mut runner = TestRunner::deterministic();
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..300 {
        let policy = policies().new_tree(&mut runner).unwrap().current();
        let pair = pairs_of_a_fitting_kind().new_tree(&mut runner).unwrap().current();
        *met.entry(policy.verdict(&pair).answer.as_str()).or_default() += 1;
        for dead in dead_rules(&policy, &world()) {
            let cause = match dead.why {
                Dead::WrongKind => "wrong kind",
                Dead::Gone => "gone",
                Dead::Shadowed(_) => "shadowed",
                Dead::Overruled => "overruled",
                Dead::NoRead => "no read",
            };
            *met.entry(cause).or_default() += 1;
        }
    }
    for one in [
        "allow",
        "ask",
        "deny",
        "not_granted",
        "wrong kind",
        "gone",
        "shadowed",
        "overruled",
        "no read",
    ] {
        assert!(met.get(one).is_some_and(|times| *times >= 10), "{one}: {met:?}");
    }
}

#[test]
fn a_decision_on_the_way_to_a_permit_allocates_nothing() {
    let grants = (0..1000).map(|number| Grant {
        action: Action::DbRead,
        scope: Scope::One(
            Resource::new(muster_policy::ScopeKind::DbConnection, &format!("c{number}")).unwrap(),
        ),
        effect: Effect::Allow,
    });
    let layer = Layer::authored(grants).unwrap();
    let policy = Policy::new(layer.clone(), layer.clone(), layer);
    let needs = Needs::of(Action::DbRead, crate::support::target("db_connection:c7"));
    let mut allowed = false;
    let used = allocation_counter::measure(|| {
        allowed = matches!(decide(Standing::Under(&policy), &needs), Decision::Allow(_));
    });
    assert!(allowed);
    assert_eq!(used.count_total, 0);
}
