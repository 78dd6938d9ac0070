//! A rename that dies between any two of its steps, or while one is done for the second time.

use muster_core::{Clock, Time};

use super::*;
use crate::cursor::Source;
use crate::limits::Limits;
use crate::read::{self, Want};

struct World {
    home: Home,
    _dir: tempfile::TempDir,
}

fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

/// Alice with two of her four messages read.
fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual(Time::from_micros(1_800_000_000_000_000));
    let home = Home::open(dir.path(), Limits::default(), clock).unwrap();
    registry::register(&home, &seat("alice"), Some("site"), None).unwrap();
    rooms::join(&home, &seat("alice"), &RoomName::parse("seo").unwrap()).unwrap();
    tokens::mint(&home, &seat("alice")).unwrap();
    let report = transports::Report {
        transport: "tmux-push-remote",
        ..transports::Report::default()
    };
    transports::report(&home, &seat("alice"), report).unwrap();
    for text in ["m1", "m2", "m3", "m4"] {
        post::send(&home, &seat("bob"), &seat("alice"), text).unwrap();
    }
    let want = Want {
        limit: Some(2),
        ..Want::default()
    };
    read::read(&home, &seat("alice"), &Source::Inbox, want).unwrap();
    log::append_to_archive(&home, "archive/inbox/alice.jsonl", b"{\"id\":\"aged\"}\n").unwrap();
    World { home, _dir: dir }
}

fn unread(home: &Home, id: &str) -> Vec<String> {
    let batch = read::read(home, &seat(id), &Source::Inbox, Want::default()).unwrap();
    batch
        .messages
        .iter()
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

fn completed(home: &Home, notices: usize) {
    let agents = Agents::load(home).unwrap();
    assert!(agents.has("carol") && !agents.has("alice"));
    assert_eq!(
        agents.get(&seat("carol")).unwrap().project.as_deref(),
        Some("site")
    );
    assert_eq!(Tokens::load(home).unwrap().unwrap().seats(), [seat("carol")]);
    let rooms = Rooms::load(home).unwrap();
    assert_eq!(
        rooms.get(&RoomName::parse("seo").unwrap()).unwrap().members,
        ["carol"]
    );
    assert!(transports::load(home, &seat("carol")).unwrap().is_some());
    assert!(transports::load(home, &seat("alice")).unwrap().is_none());
    let general = fs::read_to_string(home.path("room.jsonl")).unwrap();
    assert_eq!(general.matches("alice is now known as carol").count(), notices);
    assert!(
        fs::read_to_string(home.path("archive/inbox/carol.jsonl"))
            .unwrap()
            .contains("aged")
    );
    assert!(unfinished(home).unwrap().is_empty());
}

// spec: TOOL-083 TOOL-089
#[test]
fn a_death_between_any_two_steps_is_completed_with_nothing_lost_and_nothing_twice() {
    for died in 0..=STEPS.len() {
        for again in [false, true] {
            let World { home, _dir } = &world();
            {
                let _held = identity_lock(home).unwrap();
                let mut intent = begin(home, &seat("alice"), &seat("carol"), None).unwrap();
                for step in &STEPS[..died] {
                    step(home, &mut intent).unwrap();
                }
            }
            // Somebody writes to both ids before anybody completes it.
            for id in ["alice", "carol"] {
                post::send(home, &seat("bob"), &seat(id), &format!("late to {id}")).unwrap();
            }
            if died < STEPS.len() {
                assert_eq!(unfinished(home).unwrap().len(), 1, "died after {died}");
                assert_eq!(finish(home, &seat("alice")).unwrap(), died < STEPS.len());
                if again {
                    assert!(!finish(home, &seat("alice")).unwrap());
                }
            } else {
                gather(home, &seat("carol")).unwrap();
            }
            completed(home, 1);
            let mut got = unread(home, "carol");
            assert_eq!(
                got.drain(..2).collect::<Vec<_>>(),
                ["m3", "m4"],
                "died after {died}"
            );
            got.sort();
            assert_eq!(got, ["late to alice", "late to carol"], "died after {died}");
        }
    }
}

#[test]
fn every_step_may_be_done_again() {
    let World { home, _dir } = &world();
    let held = identity_lock(home).unwrap();
    let mut intent = begin(home, &seat("alice"), &seat("carol"), None).unwrap();
    for step in STEPS {
        let before = intent.clone();
        step(home, &mut intent).unwrap();
        // As by a process that died before it could note that it was done.
        step(home, &mut before.clone()).unwrap();
    }
    drop(held);
    completed(home, 1);
    assert_eq!(unread(home, "carol"), ["m3", "m4"]);
}

#[test]
fn an_inbox_that_waits_takes_late_messages_behind_its_own_once() {
    let World { home, _dir } = &world();
    let held = identity_lock(home).unwrap();
    let mut intent = begin(home, &seat("alice"), &seat("carol"), None).unwrap();
    take(home, &mut intent).unwrap();
    post::send(home, &seat("bob"), &seat("carol"), "early to carol").unwrap();
    // Half a line of a writer that died is at the end of what waits.
    let inbox = waiting(home, &intent);
    File::options()
        .append(true)
        .open(&inbox)
        .unwrap()
        .write_all(b"{\"torn")
        .unwrap();
    follow(&inbox, &home.path("inbox/carol.jsonl")).unwrap();
    follow(&inbox, &home.path("inbox/carol.jsonl")).unwrap();
    go_on(home, &mut intent).unwrap();
    drop(held);
    assert_eq!(unread(home, "carol"), ["m3", "m4", "early to carol"]);
}

#[test]
fn whoever_claims_an_id_of_an_unfinished_rename_completes_it_first() {
    use crate::identity::{Ask, Session};
    use crate::sessions::Link;
    use crate::transports::Panes;
    for (died, id) in (0..STEPS.len()).flat_map(|died| [(died, "alice"), (died, "carol"), (died, "dave")]) {
        let World { home, _dir } = &world();
        {
            let _held = identity_lock(home).unwrap();
            let mut intent = begin(home, &seat("alice"), &seat("carol"), None).unwrap();
            for step in &STEPS[..died] {
                step(home, &mut intent).unwrap();
            }
        }
        let session = Session::new(home, Link::Stdio, Panes::default()).unwrap();
        let claim = session.claim(Ask::of(&seat(id)));
        match id {
            "alice" => claim.unwrap().commit(),
            "carol" => assert!(
                matches!(claim.err(), Some(BusError::Live { .. })),
                "carol is there"
            ),
            _ => {
                claim.unwrap().commit();
                assert_eq!(
                    unfinished(home).unwrap().len(),
                    1,
                    "it is none of dave's business"
                );
                continue;
            }
        }
        completed(home, 1);
        assert_eq!(unread(home, "carol"), ["m3", "m4"]);
    }
}

#[test]
fn a_rename_that_cannot_go_on_says_so_and_goes_on_later() {
    let World { home, _dir } = &world();
    let session = crate::identity::Session::prebound(
        home,
        sessions::Link::Stdio,
        transports::Panes::default(),
        &seat("alice"),
        crate::identity::How::Environment,
    )
    .unwrap();
    // A folder where the archive belongs: nothing can be appended to it.
    fs::create_dir_all(home.path("archive/inbox/carol.jsonl")).unwrap();
    let error = session.rename(&seat("carol")).unwrap_err();
    assert!(matches!(error, BusError::RenameUnfinished { .. }), "{error}");
    assert_eq!(
        session.bound(),
        Some(seat("carol")),
        "it will only ever go forward"
    );
    assert!(matches!(
        finish(home, &seat("alice")),
        Err(BusError::RenameUnfinished { .. })
    ));
    fs::remove_dir(home.path("archive/inbox/carol.jsonl")).unwrap();
    assert!(finish(home, &seat("alice")).unwrap());
    completed(home, 1);
}
