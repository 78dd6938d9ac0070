//! Claims: who may act as whom.

use muster_bus::identity::{Ask, How, Session};
use muster_bus::post;
use muster_bus::registry;
use muster_bus::sessions::{self, Link};
use muster_bus::tokens;
use muster_bus::transports::{self, Attach, Panes, Report};
use muster_bus::{BusError, RoomName};

use crate::{World, bind, seat};

fn live(result: Result<(), BusError>) -> String {
    match result {
        Err(error @ BusError::Live { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

// spec: IDN-001 IDN-002 IDN-003
#[test]
fn the_first_act_binds_and_no_later_one_changes_it() {
    let world = World::new();
    let session = world.session();
    assert_eq!((session.bound(), session.how()), (None, None));
    bind(&session, "alice").unwrap();
    assert_eq!(
        (session.bound(), session.how()),
        (Some(seat("alice")), Some(How::First))
    );
    bind(&session, "alice").unwrap();
    let said = bind(&session, "bob").unwrap_err().to_string();
    assert_eq!(
        said,
        "identity bound to 'alice'; rejected attempt to act as 'bob'"
    );
    assert_eq!(session.bound(), Some(seat("alice")));
}

// spec: IDN-004 IDN-003
#[test]
fn a_refused_claim_changes_no_byte() {
    let world = World::new();
    let session = world.session();
    bind(&session, "alice").unwrap();
    registry::register(&world.home, &seat("bob"), None, None).unwrap();
    let before = world.files();
    let (token, forced) = (Some("tk_x"), true);
    for ask in [
        Ask::of(&seat("bob")),
        Ask {
            force: forced,
            ..Ask::of(&seat("bob"))
        },
        Ask {
            token,
            ..Ask::of(&seat("bob"))
        },
    ] {
        assert!(matches!(session.claim(ask).err(), Some(BusError::Bound { .. })));
        assert!(matches!(
            world.session().claim(Ask { force: false, ..ask }).err(),
            Some(BusError::Live { .. } | BusError::WrongToken(_))
        ));
    }
    assert_eq!(world.files(), before);
}

// spec: IDN-008
#[test]
fn a_first_call_that_fails_binds_nobody() {
    let world = World::new();
    let session = world.session();
    let claim = session.claim(Ask::of(&seat("alice"))).unwrap();
    drop(claim);
    assert_eq!(session.bound(), None);
    assert!(sessions::all(&world.home).unwrap().is_empty());
    bind(&session, "bob").unwrap();
    bind(&world.session(), "alice").unwrap();
}

#[test]
fn while_a_first_call_runs_the_session_is_nobody_else_and_nobody_else_is_it() {
    let world = World::new();
    let session = world.session();
    let first = session.claim(Ask::of(&seat("alice"))).unwrap();
    assert!(matches!(bind(&session, "bob"), Err(BusError::Bound { .. })));
    live(bind(&world.session(), "alice"));
    let second = session.claim(Ask::of(&seat("alice"))).unwrap();
    drop(first);
    assert!(
        matches!(bind(&session, "bob"), Err(BusError::Bound { .. })),
        "one call is still under way"
    );
    second.commit();
    assert_eq!(session.bound(), Some(seat("alice")));
    assert_eq!(sessions::live(&world.home).unwrap().len(), 1);
    assert!(matches!(bind(&session, "bob"), Err(BusError::Bound { .. })));
}

// spec: IDN-009
#[test]
fn sessions_are_bound_each_for_itself() {
    let world = World::new();
    let (one, two) = (world.session(), world.session());
    bind(&one, "alice").unwrap();
    bind(&two, "bob").unwrap();
    assert_eq!(
        (one.bound(), two.bound()),
        (Some(seat("alice")), Some(seat("bob")))
    );
}

// spec: IDN-010 IDN-017 IDN-019
#[test]
fn a_fresh_heartbeat_holds_an_id_for_five_minutes() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    world.pass(299);
    let said = live(bind(&world.session(), "alice"));
    for words in [
        "'alice' is live",
        "heartbeat was 299 seconds ago",
        "own pane",
        "token",
        "force:true",
    ] {
        assert!(said.contains(words), "{said}");
    }
    world.pass(1);
    let session = world.session();
    bind(&session, "alice").unwrap();
    assert_eq!(session.how(), Some(How::First));
}

// spec: IDN-011 IDN-019
#[test]
fn a_live_marker_alone_holds_an_id() {
    let world = World::new();
    let target = "w3:p1".to_owned();
    transports::attach(
        &world.home,
        &seat("alice"),
        Attach {
            target,
            ..Attach::default()
        },
    )
    .unwrap();
    assert!(live(bind(&world.session(), "alice")).contains("live herdr transport marker"));
    // One of a process that died holds nothing.
    world.put(
        "transports/bob.json",
        r#"{"agentId":"bob","transport":"herdr","pid":1999999999,"target":"w3:p2"}"#,
    );
    bind(&world.session(), "bob").unwrap();
}

// spec: IDN-012 IDN-019
#[test]
fn another_live_session_alone_holds_an_id() {
    let world = World::new();
    let first = world.session();
    bind(&first, "alice").unwrap();
    let said = live(bind(&world.session(), "alice"));
    assert!(
        said.contains(&format!(
            "another live session, of process {}",
            std::process::id()
        )),
        "{said}"
    );
    first.end().unwrap();
    bind(&world.session(), "alice").unwrap();
}

// spec: IDN-013
#[test]
fn the_agents_own_pane_may_take_it_back() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let report = Report {
        transport: "tmux-push-remote",
        host: Some(here.trim()),
        target: Some("%7"),
        ..Report::default()
    };
    transports::report(&world.home, &seat("alice"), report).unwrap();
    live(bind(&world.session(), "alice"));
    live(bind(&world.session_in("TMUX_PANE", "%8"), "alice"));
    live(bind(&world.session_in("HERDR_PANE_ID", "%7"), "alice"));
    let own = world.session_in("TMUX_PANE", "%7");
    bind(&own, "alice").unwrap();
    assert_eq!(own.how(), Some(How::OwnPane));

    // The process that served the pane has ended, the heartbeat is still fresh: a restart in place.
    registry::register(&world.home, &seat("bob"), None, None).unwrap();
    world.put(
        "transports/bob.json",
        r#"{"agentId":"bob","transport":"herdr","pid":1999999999,"target":"w3:p2"}"#,
    );
    let own = world.session_in("HERDR_PANE_ID", "w3:p2");
    bind(&own, "bob").unwrap();
    // But not while a session elsewhere acts as it: then the pane is an old one.
    live(bind(&world.session_in("HERDR_PANE_ID", "w3:p2"), "bob"));
    // A pane of that name on another machine is another pane.
    registry::register(&world.home, &seat("carol"), None, None).unwrap();
    let elsewhere = Report {
        host: Some("another-machine-than-this"),
        target: Some("%9"),
        ..report
    };
    transports::report(&world.home, &seat("carol"), elsewhere).unwrap();
    live(bind(&world.session_in("TMUX_PANE", "%9"), "carol"));
}

// spec: IDN-014
#[test]
fn the_agents_token_takes_it_back_and_a_wrong_one_does_not() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    let token = tokens::mint(&world.home, &seat("alice")).unwrap();
    let other = tokens::mint(&world.home, &seat("bob")).unwrap();
    let alice = seat("alice");
    let ask = |token| Ask {
        token: Some(token),
        ..Ask::of(&alice)
    };
    for wrong in [other.expose(), "", "tk_"] {
        let error = world.session().claim(ask(wrong)).err().unwrap();
        assert!(matches!(error, BusError::WrongToken(_)), "{error}");
        assert!(!error.to_string().contains(other.expose()));
    }
    let session = world.session();
    session.claim(ask(token.expose())).unwrap().commit();
    assert_eq!(
        (session.bound(), session.how()),
        (Some(seat("alice")), Some(How::Token))
    );
    // Nobody who passes a token that cannot be checked is believed.
    world.put("tokens.json", "{");
    let error = world.session().claim(ask(token.expose())).err().unwrap();
    assert!(
        matches!(&error, BusError::CannotVerify { what, .. } if what == "tokens.json"),
        "{error}"
    );
}

// spec: IDN-015
#[test]
fn force_takes_a_live_id_and_is_recorded() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    let alice = seat("alice");
    let forced = Ask {
        force: true,
        ..Ask::of(&alice)
    };
    let session = world.session();
    session.claim(forced).unwrap().commit();
    let marker = world.json(&format!("sessions/{}.json", session.id()));
    assert_eq!(
        (&marker["forced"], &marker["agentId"]),
        (&true.into(), &"alice".into())
    );
    // Against nothing, it is no force.
    let bob = seat("bob");
    let session = world.session();
    session
        .claim(Ask {
            force: true,
            ..Ask::of(&bob)
        })
        .unwrap()
        .commit();
    assert_eq!(session.how(), Some(How::First));
    assert_eq!(
        world
            .json(&format!("sessions/{}.json", session.id()))
            .get("forced"),
        None
    );
}

// spec: IDN-016
#[test]
fn an_id_that_nobody_has_is_free() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    bind(&world.session(), "bob").unwrap();
}

// spec: IDN-018
#[test]
fn evidence_that_cannot_be_read_is_no_evidence_of_absence() {
    for (file, text, named) in [
        ("agents.json", "{\"alice\":", "agents.json"),
        ("agents.json", "[]", "agents.json"),
        ("agents.json", "{\"alice\":7}", "agents.json"),
        ("transports/alice.json", "", "transports/alice.json"),
        (
            "transports/alice.json",
            r#"{"agentId":"bob","transport":"herdr"}"#,
            "transports/alice.json",
        ),
        ("sessions/x.json", "{", "sessions/x.json"),
    ] {
        let world = World::new();
        world.put(file, text);
        let before = world.files();
        let error = bind(&world.session(), "alice").unwrap_err();
        assert!(
            matches!(&error, BusError::CannotVerify { what, .. } if what == named),
            "{file} {text}: {error}"
        );
        assert!(error.to_string().contains(named));
        assert_eq!(world.files(), before);
        // A person who decides so may go on.
        let alice = seat("alice");
        let session = world.session();
        session
            .claim(Ask {
                force: true,
                ..Ask::of(&alice)
            })
            .unwrap()
            .commit();
        assert_eq!(session.how(), Some(How::Forced));
    }
}

// spec: IDN-018
#[test]
fn a_state_file_that_cannot_be_opened_makes_the_guard_refuse() {
    for (file, named) in [
        ("agents.json", "agents.json"),
        ("transports/alice.json", "transports/alice.json"),
        ("sessions/x.json", "sessions/x.json"),
    ] {
        let world = World::new();
        std::fs::create_dir_all(world.dir.path().join(file)).unwrap();
        let error = bind(&world.session(), "alice").unwrap_err();
        assert!(
            matches!(&error, BusError::CannotVerify { what, .. } if what == named),
            "{file}: {error}"
        );
    }
    let world = World::new();
    world.put("sessions", "a file in the folder's place");
    let error = bind(&world.session(), "alice").unwrap_err();
    assert!(
        matches!(&error, BusError::CannotVerify { what, .. } if what == "sessions"),
        "{error}"
    );
}

// spec: IDN-037 IDN-040 IDN-042
#[test]
fn a_session_that_is_bound_from_the_start_needs_no_leave_and_gets_no_other_id() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    let before = world.session();
    for how in [How::Environment, How::Bearer] {
        let session =
            Session::prebound(&world.home, Link::Stdio, Panes::default(), &seat("alice"), how).unwrap();
        let said = bind(&session, "bob").unwrap_err().to_string();
        assert_eq!(
            said,
            "identity bound to 'alice'; rejected attempt to act as 'bob'"
        );
        let bob = seat("bob");
        assert!(
            session
                .claim(Ask {
                    force: true,
                    ..Ask::of(&bob)
                })
                .is_err()
        );
        bind(&session, "alice").unwrap();
        assert_eq!(session.how(), Some(how));
        world.pass(301);
        live(bind(&before, "alice"));
    }
}

// spec: IDN-039 IDN-041
#[test]
fn with_nothing_configured_switching_and_live_ids_are_blocked_and_idle_ids_are_not() {
    let world = World::new();
    registry::register(&world.home, &seat("live"), None, None).unwrap();
    let session = world.session();
    live(bind(&session, "live"));
    bind(&session, "mine").unwrap();
    assert!(matches!(bind(&session, "other"), Err(BusError::Bound { .. })));
    world.pass(301);
    bind(&world.session(), "live").unwrap();
}

#[test]
fn sessions_of_one_server_that_no_token_names_are_bound_by_their_first_act() {
    let world = World::new();
    let http = || Session::new(&world.home, Link::Http, Panes::default()).unwrap();
    let (one, two) = (http(), http());
    bind(&one, "alice").unwrap();
    bind(&two, "bob").unwrap();
    assert!(matches!(bind(&two, "alice"), Err(BusError::Bound { .. })));
    live(bind(&http(), "alice"));
    assert_eq!(
        world.json(&format!("sessions/{}.json", one.id()))["transport"],
        "http"
    );
}

// spec: TOOL-013
#[test]
fn after_unregister_the_session_is_still_who_it_was() {
    let world = World::new();
    let session = world.session();
    bind(&session, "alice").unwrap();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    registry::unregister(&world.home, &seat("alice")).unwrap();
    assert!(matches!(bind(&session, "bob"), Err(BusError::Bound { .. })));
    bind(&session, "alice").unwrap();
    // And a session that has ended acts as nobody else either.
    session.end().unwrap();
    assert!(matches!(bind(&session, "bob"), Err(BusError::Bound { .. })));
}

// spec: IDN-006 TOOL-087
#[test]
fn a_rename_moves_the_binding() {
    let world = World::new();
    let session = world.session();
    bind(&session, "alice").unwrap();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    session.rename(&seat("carol")).unwrap();
    assert_eq!(session.bound(), Some(seat("carol")));
    bind(&session, "carol").unwrap();
    let said = bind(&session, "alice").unwrap_err().to_string();
    assert_eq!(
        said,
        "identity bound to 'carol'; rejected attempt to act as 'alice'"
    );
    assert_eq!(
        world.json(&format!("sessions/{}.json", session.id()))["agentId"],
        "carol"
    );
    world.pass(301);
    live(bind(&world.session(), "carol"));
    bind(&world.session(), "alice").unwrap();
}

#[test]
fn a_rename_as_the_first_act_binds_to_the_new_id() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    world.pass(301);
    let session = world.session();
    assert!(matches!(
        session.rename(&seat("carol")),
        Err(BusError::Argument(_))
    ));
    let claim = session.claim(Ask::of(&seat("alice"))).unwrap();
    session.rename(&seat("carol")).unwrap();
    claim.commit();
    assert_eq!(session.bound(), Some(seat("carol")));
    // A refused one leaves everything as it was.
    registry::register(&world.home, &seat("dave"), None, None).unwrap();
    assert!(matches!(
        session.rename(&seat("dave")),
        Err(BusError::IdInUse { .. })
    ));
    assert_eq!(session.bound(), Some(seat("carol")));
}

#[test]
fn an_agent_that_ended_in_order_may_begin_again_at_once() {
    let world = World::new();
    let first = world.session();
    bind(&first, "alice").unwrap();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    live(bind(&world.session(), "alice"));
    first.end().unwrap();
    // A first call that fails changes nothing of that.
    let again = world.session();
    drop(again.claim(Ask::of(&seat("alice"))).unwrap());
    bind(&again, "alice").unwrap();
    assert_eq!(again.how(), Some(How::First));
    world.pass(1);
    registry::heartbeat(&world.home, &seat("alice")).unwrap();
    live(bind(&world.session(), "alice"));
    drop(again);
    bind(&world.session(), "alice").unwrap();
}

#[test]
fn an_end_says_nothing_about_a_heartbeat_that_came_later() {
    let world = World::new();
    let first = world.session();
    bind(&first, "alice").unwrap();
    first.end().unwrap();
    world.pass(1);
    // Of another program, which leaves no marker.
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    live(bind(&world.session(), "alice"));
    // A forced call that fails does not end what it did not begin.
    let alice = seat("alice");
    drop(
        world
            .session()
            .claim(Ask {
                force: true,
                ..Ask::of(&alice)
            })
            .unwrap(),
    );
    live(bind(&world.session(), "alice"));
}

#[test]
fn under_a_shared_token_the_machine_that_held_an_id_last_returns_to_it() {
    let world = World::new();
    let http = || Session::new(&world.home, Link::Http, Panes::default()).unwrap();
    let alice = seat("alice");
    let ask = |client| Ask {
        client: Some(client),
        ..Ask::of(&alice)
    };
    let first = http();
    first.claim(ask("here")).unwrap().commit();
    registry::register(&world.home, &alice, None, None).unwrap();
    assert!(
        matches!(http().claim(ask("here")).err(), Some(BusError::Live { .. })),
        "it is there still"
    );
    // The daemon was killed: its markers are left, and belong to nobody.
    world.put(
        &format!("sessions/{}.json", first.id()),
        r#"{"agentId":"alice","pid":1999999999}"#,
    );
    assert!(matches!(
        http().claim(ask("there")).err(),
        Some(BusError::Live { .. })
    ));
    let again = http();
    again.claim(ask("here")).unwrap().commit();
    assert_eq!(again.how(), Some(How::SameClient));
}

#[test]
fn a_session_that_ended_becomes_nobody() {
    let world = World::new();
    let session = world.session();
    let claim = session.claim(Ask::of(&seat("alice"))).unwrap();
    session.end().unwrap();
    let other = world.session();
    bind(&other, "alice").unwrap();
    assert!(matches!(bind(&session, "alice"), Err(BusError::Argument(_))));
    drop(claim);
    assert!(matches!(bind(&session, "bob"), Err(BusError::Argument(_))));
    assert_eq!((session.bound(), other.bound()), (None, Some(seat("alice"))));
}

#[test]
fn of_many_sessions_that_claim_an_id_at_once_one_gets_it() {
    for world in [World::new(), World::shared()] {
        for round in 0..20 {
            let id = format!("agent-{round}");
            let sessions: Vec<Session> = (0..6).map(|_| world.session()).collect();
            let won: usize = std::thread::scope(|scope| {
                let workers: Vec<_> = sessions
                    .iter()
                    .map(|session| {
                        let id = &id;
                        scope.spawn(move || usize::from(bind(session, id).is_ok()))
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            assert_eq!(won, 1, "round {round}");
        }
    }
}

#[test]
fn reading_the_evidence_opens_nobodys_messages() {
    let world = World::new();
    post::send(&world.home, &seat("bob"), &seat("alice"), "hello").unwrap();
    post::post(&world.home, &seat("bob"), &RoomName::general(), "hi", None).unwrap();
    let before = world.files();
    drop(world.session().claim(Ask::of(&seat("alice"))).unwrap());
    assert_eq!(world.files(), before);
}
