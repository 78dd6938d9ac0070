//! Laws of identity over any evidence and any order of events.

use std::collections::BTreeMap;

use muster_bus::identity::{Ask, Claim, Evidence, How, Proof, Session, Sight, Verdict, decide};
use muster_bus::{BusError, registry};
use proptest::prelude::*;

use crate::{World, seat};

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![
        Just(Sight::Absent),
        Just(Sight::Live("live".to_owned())),
        Just(Sight::Unreadable("file".to_owned())),
    ]
}

fn proof() -> impl Strategy<Value = Proof> {
    prop_oneof![
        3 => Just(Proof::None),
        1 => Just(Proof::Right),
        1 => Just(Proof::Wrong),
        1 => Just(Proof::Unreadable("tokens.json".to_owned())),
    ]
}

prop_compose! {
    fn evidence()(heartbeat in sight(), marker in sight(), session in sight(), own_pane: bool, token in proof()) -> Evidence {
        // Whoever cannot read the marker cannot know its pane.
        let own_pane = own_pane && !matches!(marker, Sight::Unreadable(_));
        Evidence { heartbeat, marker, session, own_pane, token }
    }
}

fn sights(evidence: &Evidence) -> [&Sight; 3] {
    [&evidence.heartbeat, &evidence.marker, &evidence.session]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    // spec: IDN-003
    #[test]
    fn whoever_is_bound_is_that_one_whatever_else_is_true(evidence in evidence(), force: bool) {
        let (alice, bob) = (seat("alice"), seat("bob"));
        prop_assert_eq!(decide(Some(&alice), &alice, force, &evidence), Verdict::Bound);
        prop_assert_eq!(decide(Some(&alice), &bob, force, &evidence), Verdict::Another(alice));
    }

    // spec: IDN-010..IDN-018
    #[test]
    fn an_unbound_claim_needs_absence_or_proof(evidence in evidence(), force: bool) {
        let verdict = decide(None, &seat("alice"), force, &evidence);
        let all_absent = sights(&evidence).into_iter().all(|sight| *sight == Sight::Absent);
        let live = sights(&evidence).into_iter().any(|sight| matches!(sight, Sight::Live(_)));
        let unreadable = sights(&evidence).into_iter().any(|sight| matches!(sight, Sight::Unreadable(_)));
        match verdict {
            Verdict::Bind(How::Token) => prop_assert_eq!(&evidence.token, &Proof::Right),
            Verdict::Bind(How::OwnPane) => prop_assert!(evidence.own_pane),
            Verdict::Bind(How::First) => prop_assert!(all_absent),
            Verdict::Bind(How::Forced) => prop_assert!(force && !all_absent),
            Verdict::WrongToken => prop_assert_eq!(&evidence.token, &Proof::Wrong),
            Verdict::CannotVerify(_) => prop_assert!(!force && (unreadable || matches!(evidence.token, Proof::Unreadable(_)))),
            Verdict::Live(said) => prop_assert!(!force && live && !unreadable && !said.is_empty()),
            other => prop_assert!(false, "{:?}", other),
        }
        // The other way round: the ways out are open.
        if evidence.token == Proof::Right {
            prop_assert_eq!(decide(None, &seat("alice"), force, &evidence), Verdict::Bind(How::Token));
        }
        if force && evidence.token != Proof::Wrong {
            prop_assert!(matches!(decide(None, &seat("alice"), true, &evidence), Verdict::Bind(_)));
        }
        if all_absent && evidence.token == Proof::None {
            prop_assert!(matches!(decide(None, &seat("alice"), false, &evidence), Verdict::Bind(_)));
        }
    }

    // spec: IDN-018
    #[test]
    fn damage_never_opens_what_is_closed(evidence in evidence()) {
        let before = decide(None, &seat("alice"), false, &evidence);
        for part in 0..3 {
            let mut damaged = evidence.clone();
            let sight = match part {
                0 => &mut damaged.heartbeat,
                1 => { damaged.own_pane = false; &mut damaged.marker }
                _ => &mut damaged.session,
            };
            *sight = Sight::Unreadable("file".to_owned());
            let after = decide(None, &seat("alice"), false, &damaged);
            if !matches!(before, Verdict::Bind(_)) {
                prop_assert!(!matches!(after, Verdict::Bind(_)), "{:?} became {:?}", before, after);
            }
            prop_assert_ne!(after, Verdict::Bind(How::First));
        }
    }
}

/// What may happen to a few sessions on one bus.
#[derive(Debug, Clone)]
enum Event {
    Claim { session: usize, id: usize, force: bool },
    Commit { session: usize },
    Fail { session: usize },
    Rename { session: usize, id: usize },
    Register { id: usize },
    Pass,
    End { session: usize },
}

const IDS: [&str; 3] = ["alice", "bob", "carol"];

fn event() -> impl Strategy<Value = Event> {
    let session = 0..3_usize;
    let id = 0..IDS.len();
    prop_oneof![
        4 => (session.clone(), id.clone(), prop::bool::weighted(0.1)).prop_map(|(session, id, force)| Event::Claim { session, id, force }),
        3 => session.clone().prop_map(|session| Event::Commit { session }),
        2 => session.clone().prop_map(|session| Event::Fail { session }),
        1 => (session.clone(), id.clone()).prop_map(|(session, id)| Event::Rename { session, id }),
        1 => id.prop_map(|id| Event::Register { id }),
        1 => Just(Event::Pass),
        1 => session.prop_map(|session| Event::End { session }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    // spec: IDN-002 IDN-003 IDN-008 IDN-012 TOOL-013 TOOL-087
    #[test]
    fn a_session_becomes_one_agent_once_and_only_a_rename_moves_it(events in prop::collection::vec(event(), 1..40)) {
        let world = World::new();
        let sessions: Vec<Session> = (0..3).map(|_| world.session()).collect();
        let mut calls: BTreeMap<usize, Vec<Claim>> = BTreeMap::new();
        // What each session is, as plainly as it can be said.
        let mut model: [Option<String>; 3] = Default::default();
        let mut ended = [false; 3];
        for event in events {
            match event {
                Event::Claim { session, id, force } => {
                    let id = seat(IDS[id]);
                    match sessions[session].claim(Ask { force, ..Ask::of(&id) }) {
                        Ok(claim) => {
                            prop_assert!(model[session].as_ref().is_none_or(|bound| bound == id.as_str()));
                            let elsewhere = (0..3).any(|other| other != session && !ended[other] && model[other].as_deref() == Some(id.as_str()));
                            // A call under way has reserved the id, by force perhaps.
                            let reserved = calls.get(&session).is_some_and(|calls| !calls.is_empty());
                            prop_assert!(model[session].is_some() || reserved || force || !elsewhere, "two sessions became {}", id);
                            calls.entry(session).or_default().push(claim);
                        }
                        Err(BusError::Bound { bound, .. }) => {
                            prop_assert!(bound != id);
                            let waiting = calls.get(&session).is_some_and(|calls| !calls.is_empty());
                            prop_assert!(model[session].as_deref() == Some(bound.as_str()) || waiting);
                        }
                        Err(BusError::Argument(_)) => prop_assert!(ended[session] && model[session].is_none()),
                        Err(BusError::Live { .. }) => prop_assert!(model[session].is_none() && !force),
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                }
                Event::Commit { session } => {
                    if let Some(claim) = calls.get_mut(&session).and_then(Vec::pop) {
                        claim.commit();
                        let now = sessions[session].bound().map(|bound| bound.to_string());
                        prop_assert!(now.is_some() && (model[session].is_none() || model[session] == now));
                        model[session] = now;
                    }
                }
                Event::Fail { session } => drop(calls.get_mut(&session).and_then(Vec::pop)),
                Event::Rename { session, id } => {
                    let bound = sessions[session].bound();
                    if sessions[session].rename(&seat(IDS[id])).is_ok() && bound.is_some() {
                        model[session] = Some(IDS[id].to_owned());
                    }
                }
                Event::Register { id } => drop(registry::register(&world.home, &seat(IDS[id]), None, None).unwrap()),
                Event::Pass => world.pass(301),
                Event::End { session } => {
                    sessions[session].end().unwrap();
                    ended[session] = true;
                }
            }
            for (session, bound) in sessions.iter().zip(&model) {
                prop_assert_eq!(session.bound().map(|bound| bound.to_string()), bound.clone());
            }
        }
    }
}
