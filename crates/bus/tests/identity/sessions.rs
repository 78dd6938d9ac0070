//! Markers of bus connections.

use muster_bus::BusError;
use muster_bus::identity::{How, Session};
use muster_bus::sessions::{self, Link};
use muster_bus::transports::Panes;

use crate::{World, bind, seat, sleeper};

// spec: STO-015 IDN-020
#[test]
fn a_bound_session_has_a_marker_until_it_ends() {
    let world = World::new();
    let session = world.session();
    assert!(
        sessions::all(&world.home).unwrap().is_empty(),
        "nobody is bound yet"
    );
    bind(&session, "alice").unwrap();
    let marker = world.json(&format!("sessions/{}.json", session.id()));
    assert_eq!(
        (&marker["agentId"], &marker["pid"]),
        (&"alice".into(), &std::process::id().into())
    );
    assert_eq!(
        marker["pidStart"].as_u64(),
        sessions::start_of(std::process::id())
    );
    assert_eq!(
        (&marker["transport"], &marker["startedAt"]),
        (&"stdio".into(), &world.home.now().into())
    );
    assert_eq!(marker.get("forced"), None);
    assert_eq!(sessions::live(&world.home).unwrap().len(), 1);

    session.end().unwrap();
    assert!(sessions::all(&world.home).unwrap().is_empty());
    session.end().unwrap();
}

#[test]
fn a_session_that_is_dropped_takes_its_marker_along() {
    let world = World::new();
    let session = world.session();
    bind(&session, "alice").unwrap();
    let clone = session.clone();
    drop(session);
    assert_eq!(
        sessions::live(&world.home).unwrap().len(),
        1,
        "a clone is the same connection"
    );
    drop(clone);
    assert!(sessions::all(&world.home).unwrap().is_empty());
    drop(
        Session::prebound(
            &world.home,
            Link::Http,
            Panes::default(),
            &seat("alice"),
            How::Bearer,
        )
        .unwrap(),
    );
    assert!(sessions::all(&world.home).unwrap().is_empty());
}

// spec: IDN-021
#[test]
fn a_marker_of_a_process_that_died_counts_no_more() {
    let world = World::new();
    let mut child = sleeper();
    let start = sessions::start_of(child.id()).unwrap();
    world.put(
        "sessions/one.json",
        &format!(
            r#"{{"agentId":"alice","pid":{},"pidStart":{start},"startedAt":"2026-01-01T00:00:00Z"}}"#,
            child.id()
        ),
    );
    // A process of the same number that began at another moment.
    world.put(
        "sessions/two.json",
        &format!(
            r#"{{"agentId":"bob","pid":{},"pidStart":{}}}"#,
            child.id(),
            start + 1
        ),
    );
    let ids = |found: Vec<(String, sessions::SessionMarker)>| {
        found.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(ids(sessions::live(&world.home).unwrap()), ["one"]);
    assert_eq!(ids(sessions::leftovers(&world.home).unwrap()), ["two"]);
    assert!(matches!(
        bind(&world.session(), "alice"),
        Err(BusError::Live { .. })
    ));
    bind(&world.session(), "bob").unwrap();

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ids(sessions::leftovers(&world.home).unwrap()), ["one", "two"]);
    bind(&world.session(), "alice").unwrap();
}

#[test]
fn one_marker_that_cannot_be_read_makes_the_list_of_live_ones_unknown() {
    let world = World::new();
    world.put("sessions/broken.json", "{");
    assert!(
        matches!(sessions::live(&world.home), Err(BusError::Damaged(file)) if file == "sessions/broken.json")
    );
    assert_eq!(sessions::all(&world.home).unwrap().len(), 1);
    assert!(
        sessions::leftovers(&world.home).unwrap().is_empty(),
        "it is not known to be dead"
    );
}

#[test]
fn a_sessions_name_is_no_path() {
    let world = World::new();
    world.put("outside.json", "{}");
    for id in ["../outside", "", ".x", "a/b", "a\0b"] {
        assert!(
            matches!(sessions::unmark(&world.home, id), Err(BusError::Argument(_))),
            "{id:?}"
        );
    }
    assert!(world.exists("outside.json"));
    let (a, b) = (sessions::new_id().unwrap(), sessions::new_id().unwrap());
    assert_ne!(a, b);
    assert_eq!((a.len(), a.get(14..15)), (36, Some("4")));
}

#[test]
fn the_start_of_a_process_is_read_whatever_its_name() {
    let mut child = std::process::Command::new("sh")
        .args(["-c", "exec -a 'x' sleep 600 2>/dev/null || sleep 600"])
        .spawn()
        .unwrap();
    let start = sessions::start_of(child.id());
    assert!(start.is_some() && sessions::running(child.id(), start));
    assert!(
        sessions::start_of(std::process::id()) <= start,
        "this process began before its child"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sessions::running(child.id(), start));
    assert!(!sessions::running(0, None) && !sessions::running(u32::MAX, None));
}
