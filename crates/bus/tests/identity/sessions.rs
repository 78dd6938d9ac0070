//! Markers of bus connections.

use std::fs::{self, File};
use std::time::Duration;

use muster_bus::BusError;
use muster_bus::identity::{Ask, How, Session};
use muster_bus::registry;
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

/// Sets when a file was last written, in seconds before now.
fn age(world: &World, name: &str, seconds: u64) {
    let path = world.dir.path().join(name);
    let now = fs::metadata(&path).unwrap().modified().unwrap();
    let then = now - Duration::from_secs(seconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(then)
        .unwrap();
}

/// Whether the ids of others can be told to be free, though this marker stands there.
fn free(world: &World) -> bool {
    let bound = bind(&world.session(), "alice");
    assert!(
        matches!(bound, Ok(()) | Err(BusError::CannotVerify { .. })),
        "{bound:?}"
    );
    assert_eq!(sessions::live(&world.home).is_ok(), bound.is_ok());
    bound.is_ok()
}

#[test]
fn a_marker_that_was_left_empty_a_minute_ago_proves_nobody_alive() {
    let world = World::new();
    world.put("sessions/torn.json", "");
    assert!(!free(&world), "it may be about to be filled");
    age(&world, "sessions/torn.json", 55);
    assert!(!free(&world));
    age(&world, "sessions/torn.json", 61);
    assert!(free(&world));
    assert!(world.exists("sessions/torn.json"), "it is the doctor's to remove");
    // Half of one may be somebody's who is there.
    let world = World::new();
    world.put("sessions/torn.json", "{");
    age(&world, "sessions/torn.json", 61);
    assert!(!free(&world));
}

#[test]
fn a_marker_that_cannot_be_read_from_before_the_machine_booted_proves_nobody_alive() {
    let up = fs::read_to_string("/proc/uptime").unwrap();
    let up: u64 = up.split('.').next().unwrap().parse().unwrap();
    let world = World::new();
    world.put("sessions/torn.json", "{\"agentId\":\"alice\",");
    age(&world, "sessions/torn.json", up.saturating_sub(30));
    assert!(!free(&world), "it was written after the boot");
    age(&world, "sessions/torn.json", up + 30);
    assert!(free(&world));
    // What can be read is judged by its process, however old it is.
    let world = World::new();
    let pid = std::process::id();
    world.put(
        "sessions/old.json",
        &format!("{{\"agentId\":\"alice\",\"pid\":{pid}}}"),
    );
    age(&world, "sessions/old.json", up + 30);
    assert!(matches!(
        bind(&world.session(), "alice"),
        Err(BusError::Live { .. })
    ));
}

// spec: IDN-010
#[test]
fn the_end_of_a_call_without_a_session_frees_nobody() {
    for client in [Some("here"), None] {
        let world = World::new();
        let alice = seat("alice");
        let once = || {
            let call = Session::new(&world.home, Link::Http, Panes::default()).unwrap();
            call.claim(Ask {
                client,
                bearer: client.is_none(),
                once: true,
                ..Ask::of(&alice)
            })
            .unwrap()
            .commit();
            registry::register(&world.home, &alice, None, None).unwrap();
            call.end().unwrap();
        };
        once();
        let said = bind(&world.session(), "alice").unwrap_err().to_string();
        assert!(said.contains("heartbeat"), "{said}");
        // The agent itself goes on, and its silence frees the id as any other's.
        once();
        world.pass(301);
        bind(&world.session(), "alice").unwrap();
    }
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
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("a) S 1 (b");
    let sleep = ["/usr/bin/sleep", "/bin/sleep"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists());
    std::os::unix::fs::symlink(sleep.unwrap(), &program).unwrap();
    let mut child = std::process::Command::new(&program).arg("600").spawn().unwrap();
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
