//! A pipe, a link, a folder or a socket where a file of the bus belongs. Never waited for, never written through, and never taken for a message that is stored.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use muster_bus::read::{self, Want};
use muster_bus::receipts::{self, Receipt};
use muster_bus::registry::register;
use muster_bus::{BusError, Home, RoomName, Source, history, post, rename, rooms, scopes, sessions, tokens};

use crate::support::{Bus, bus, public, seat, shared_bus};

type Act = fn(&Home) -> Result<(), BusError>;

fn send(home: &Home) -> Result<(), BusError> {
    post::send(home, &seat("bob"), &seat("ann"), "x").map(drop)
}

fn inbox(home: &Home) -> Result<(), BusError> {
    read::read(home, &seat("ann"), &Source::Inbox, Want::default()).map(drop)
}

fn general(home: &Home) -> Result<(), BusError> {
    post::post(home, &seat("bob"), &RoomName::general(), "x", None).map(drop)
}

fn seo(home: &Home) -> Result<(), BusError> {
    post::post(home, &seat("bob"), &RoomName::parse("seo").unwrap(), "x", None).map(drop)
}

fn status(home: &Home) -> Result<(), BusError> {
    post::status(home, &seat("bob"), "x", None).map(drop)
}

fn registers(home: &Home) -> Result<(), BusError> {
    register(home, &seat("bob"), None, None).map(drop)
}

fn joins(home: &Home) -> Result<(), BusError> {
    rooms::join(home, &seat("ann"), &RoomName::parse("seo").unwrap()).map(drop)
}

fn mints(home: &Home) -> Result<(), BusError> {
    tokens::mint(home, &seat("ann")).map(drop)
}

fn tightens(home: &Home) -> Result<(), BusError> {
    tokens::list(home).map(drop)
}

fn connections(home: &Home) -> Result<(), BusError> {
    sessions::live(home).map(drop)
}

fn renames(home: &Home) -> Result<(), BusError> {
    rename::rename(home, &seat("ann"), &seat("zoe"))
}

fn receipt(home: &Home) -> Result<(), BusError> {
    receipts::write(home, &seat("ann"), &Receipt::new(home, &seat("ann"), "m", "bob"))
}

fn declared(home: &Home) -> Result<(), BusError> {
    scopes::list(home).map(drop)
}

fn expands(home: &Home) -> Result<(), BusError> {
    history::retrieve(home, &seat("ann"), "0123456789ab", None).map(drop)
}

const FILES: [(&str, Act); 25] = [
    ("inbox/ann.jsonl", send),
    ("inbox/ann.jsonl", inbox),
    ("inbox/ann.jsonl", renames),
    ("archive/inbox/ann.jsonl", renames),
    ("cursors/ann.json", renames),
    ("cursors/ann.json", inbox),
    ("room.jsonl", general),
    ("rooms/seo.jsonl", seo),
    ("status.jsonl", status),
    ("agents.json", registers),
    ("rooms.json", joins),
    ("rooms.json", seo),
    ("tokens.json", mints),
    ("tokens.json", tightens),
    ("sessions/one.json", connections),
    ("receipts/ann.jsonl", receipt),
    ("scopes.json", declared),
    (".muster/rename/ann.json", renames),
    (".muster/rename/ann.inbox", renames),
    (".muster/history/0123456789ab.json", expands),
    (".muster/cut/inbox+ann.jsonl.json", send),
    (".muster/cut/room.jsonl.json", general),
    (".muster/index/inbox+ann.jsonl", send),
    (".muster/locks/inbox+ann.jsonl", send),
    (".muster/locks/agents.json", registers),
];

/// Puts something that is no file in a file's place.
type Put = fn(&Path, &Path);

const KINDS: [(&str, Put); 5] = [
    ("a named pipe", |path, _| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }),
    ("a symbolic link", |path, outside| symlink(outside, path).unwrap()),
    ("a symbolic link", |path, outside| {
        symlink(outside.with_extension("none"), path).unwrap();
    }),
    ("a folder", |path, _| std::fs::create_dir(path).unwrap()),
    ("a socket", |path, _| drop(UnixListener::bind(path).unwrap())),
];

fn refused(bus: &Bus, name: &str, act: Act, kind: &str, put: Put) {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    std::fs::write(&target, "{}").unwrap();
    let path = bus.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&path);
    put(&path, &target);
    let home = bus.home.clone();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(act(&home)));
    let answer = told.recv_timeout(Duration::from_secs(8));
    let Err(error) = answer.unwrap_or_else(|_| panic!("{name} as {kind} is waited for")) else {
        panic!("{name} as {kind} is said to be in order");
    };
    assert!(error.is_fault(), "{name} as {kind}: {error:?}");
    let said = error.to_string();
    assert!(
        said.contains(&format!("{name} is not a plain file (it is {kind})")),
        "{name} as {kind}: {said}"
    );
    let meta = std::fs::symlink_metadata(&path).unwrap();
    assert!(!meta.is_file(), "{name} as {kind} was replaced");
    assert_eq!(
        std::fs::read(&target).unwrap(),
        b"{}",
        "{name} was written through"
    );
    assert_eq!(
        std::fs::read_dir(outside.path()).unwrap().count(),
        1,
        "{name} made a file elsewhere"
    );
}

#[test]
fn what_is_no_file_is_refused_at_once_with_its_name_and_nothing_is_said_to_be_stored() {
    for (name, act) in FILES {
        for (kind, put) in KINDS {
            let bus = bus();
            register(&bus.home, &seat("ann"), None, None).unwrap();
            refused(&bus, name, act, kind, put);
            assert!(
                !bus.path(".muster/rename/ann.json").is_file(),
                "{name}: a rename that cannot be done was begun"
            );
        }
    }
}

#[test]
fn a_shared_directory_makes_no_difference_to_what_is_no_file() {
    let files: [(&str, Act); 4] = [
        ("inbox/ann.jsonl", send),
        ("room.jsonl", general),
        ("status.jsonl", status),
        ("agents.json", registers),
    ];
    for (name, act) in files {
        for (kind, put) in KINDS {
            let bus = shared_bus();
            register(&bus.home, &seat("ann"), None, None).unwrap();
            refused(&bus, name, act, kind, put);
        }
    }
}

#[test]
fn a_cut_writes_through_no_link_and_loses_nothing_when_it_cannot_write() {
    for place in ["archive/rooms/general.jsonl", ".muster/new/cut-room.jsonl"] {
        for (kind, put) in KINDS {
            let bus = bus();
            let outside = tempfile::tempdir().unwrap();
            let target = outside.path().join("target");
            std::fs::write(&target, "theirs").unwrap();
            let path = bus.path(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            put(&path, &target);
            for _ in 0..1_003 {
                general(&bus.home).unwrap();
            }
            assert_eq!(bus.lines("room.jsonl").len(), 1_003, "{place} as {kind}");
            assert_eq!(std::fs::read(&target).unwrap(), b"theirs", "{place} as {kind}");
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn the_directory_itself_may_be_reached_by_a_link() {
    let real = bus();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("bus");
    symlink(real.home.root(), &link).unwrap();
    let home = crate::support::open(&link);
    send(&home).unwrap();
    assert_eq!(real.inbox("ann"), ["x"]);
    assert_eq!(public(&home), public(&real.home));
}
