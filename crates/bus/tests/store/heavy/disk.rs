//! A disk that is full or may not be written. Never fills the machine's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_bus::read::{Want, depth, read};
use muster_bus::registry::register;
use muster_bus::{BusError, Home, RoomName, Source, post, rooms};
use muster_core::FaultKind;

use crate::support::{child_with_mounts, open, public, role, run, seat, texts};

fn mount(words: &[&str], at: &Path) {
    let said = Command::new("mount").args(words).arg(at).output().unwrap();
    assert!(
        said.status.success(),
        "mount {words:?}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Runs `law` in a child that may mount on the folder it is given.
fn with_mounts(test: &str, law: impl FnOnce(PathBuf)) {
    if let Some((_, place)) = role() {
        law(place);
        crate::support::say("done");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if let Some(command) = child_with_mounts(test, dir.path()) {
        assert_eq!(run(vec![command]), [["done"]], "the child ran the law");
    }
}

/// Takes all the room that is left.
fn fill(file: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file)
        .unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
}

fn kind<T: std::fmt::Debug>(answer: Result<T, BusError>) -> FaultKind {
    match answer.as_ref().map_err(BusError::cause) {
        Err(BusError::Fault(fault)) => fault.kind().clone(),
        _ => panic!("{answer:?}"),
    }
}

fn peek(home: &Home, id: &str) -> Vec<String> {
    let want = Want {
        peek: true,
        limit: Some(500),
        since: None,
    };
    texts(&read(home, &seat(id), &Source::Inbox, want).unwrap())
}

#[test]
fn on_a_full_disk_a_message_is_refused_whole_or_stored_whole_and_what_was_stored_can_be_read() {
    const NAME: &str = "heavy::disk::on_a_full_disk_a_message_is_refused_whole_or_stored_whole_and_what_was_stored_can_be_read";
    with_mounts(NAME, |dir| {
        mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"], &dir);
        std::fs::write(dir.join("ballast"), vec![0; 300_000]).unwrap();
        let home = open(&dir);
        let (ann, bob, cid) = (seat("ann"), seat("bob"), seat("cid"));
        register(&home, &ann, Some("kept"), None).unwrap();
        post::send(&home, &bob, &cid, "early").unwrap();
        rooms::join(&home, &ann, &RoomName::parse("seo").unwrap()).unwrap();
        let mut stored = Vec::new();
        // Of every size, so that the last room is found by a line, by its index and by a part of a line.
        let mut size = 8_000;
        let mut refused = 0;
        while refused < 400 {
            let text = format!("{} {}", stored.len(), "x".repeat(size));
            match post::send(&home, &bob, &ann, &text) {
                Ok(_) => stored.push(text),
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        said.starts_with("the disk that holds the bus is full, so nothing was written"),
                        "{said}"
                    );
                    refused += 1;
                    size = size * 4 / 5 + 1;
                }
            }
        }
        assert!(stored.len() > 50, "{} fitted", stored.len());
        assert_eq!(
            peek(&home, "ann"),
            stored.iter().take(500).cloned().collect::<Vec<_>>()
        );
        assert_eq!(depth(&home, &ann, &Source::Inbox).unwrap(), stored.len() as u64);
        // A new log, a new channel and a new entry need room as well.
        let before = public(&home);
        let long = "y".repeat(4_000);
        assert_eq!(
            kind(register(&home, &bob, Some(&long), Some(&long)).map(drop)),
            FaultKind::StorageFull
        );
        let agents = before
            .iter()
            .find(|(path, _)| path.ends_with("agents.json"))
            .unwrap();
        assert_eq!(
            std::fs::read(&agents.0).unwrap(),
            agents.1,
            "the registry stands as it was"
        );
        assert_eq!(
            kind(read(
                &home,
                &ann,
                &Source::Inbox,
                Want {
                    limit: Some(1),
                    ..Want::default()
                }
            )),
            FaultKind::StorageFull
        );
        assert_eq!(
            peek(&home, "ann").len(),
            stored.len().min(500),
            "nothing was passed over"
        );
        // With an index that is lost and finds no room again the log is counted anew each time, and a line that still fits is taken and
        // told of as stored.
        for id in ["ann", "cid"] {
            std::fs::write(dir.join(format!(".muster/index/inbox+{id}.jsonl")), "").unwrap();
        }
        fill(&dir.join("rest"));
        assert_eq!(depth(&home, &ann, &Source::Inbox).unwrap(), stored.len() as u64);
        let indexes = ["ann", "cid"].map(|id| dir.join(format!(".muster/index/inbox+{id}.jsonl")));
        let empty = || {
            indexes
                .iter()
                .all(|index| std::fs::metadata(index).unwrap().len() == 0)
        };
        post::send(&home, &bob, &cid, "fits").unwrap();
        assert_eq!(peek(&home, "cid"), ["early", "fits"]);
        assert!(empty(), "there was no room for an index");
        // Nothing of what was refused stands in the file.
        for line in std::fs::read_to_string(dir.join("inbox/ann.jsonl"))
            .unwrap()
            .lines()
        {
            serde_json::from_str::<muster_bus::Entry>(line).unwrap();
        }

        for file in ["ballast", "rest"] {
            std::fs::remove_file(dir.join(file)).unwrap();
        }
        post::send(&home, &bob, &ann, "room again").unwrap();
        register(&home, &bob, Some(&long), Some(&long)).unwrap();
        let mut got = Vec::new();
        while got.len() <= stored.len() {
            let batch = read(
                &home,
                &ann,
                &Source::Inbox,
                Want {
                    limit: Some(500),
                    ..Want::default()
                },
            )
            .unwrap();
            assert!(batch.returned > 0);
            got.extend(texts(&batch));
        }
        stored.push("room again".to_owned());
        assert_eq!(got, stored);
        let left: Vec<_> = std::fs::read_dir(dir.join(".muster/new")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_channel_that_cannot_be_cut_for_want_of_room_takes_its_post_and_keeps_all() {
    const NAME: &str =
        "heavy::disk::a_channel_that_cannot_be_cut_for_want_of_room_takes_its_post_and_keeps_all";
    with_mounts(NAME, |dir| {
        mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"], &dir);
        let bound = muster_bus::limits::Bound { max: 40, keep: 20 };
        let limits = muster_bus::limits::Limits {
            room: bound,
            ..muster_bus::limits::Limits::default()
        };
        let home = Home::open(&dir, limits, muster_core::Clock::system()).unwrap();
        let (bob, general) = (seat("bob"), RoomName::general());
        let text = "x".repeat(10_000);
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(post::post(&home, &bob, &general, &text, None).unwrap().id);
        }
        // Room for the next post and not for the copy that a cut writes.
        fill(&dir.join("ballast"));
        let ballast = std::fs::File::options()
            .write(true)
            .open(dir.join("ballast"))
            .unwrap();
        let size = ballast.metadata().unwrap().len();
        ballast.set_len(size - 10 * 4_096).unwrap();
        drop(ballast);
        ids.push(post::post(&home, &bob, &general, "small", None).unwrap().id);
        let file = |name: &str| -> Vec<String> {
            let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
            text.lines()
                .map(|line| crate::support::word(&serde_json::from_str(line).unwrap(), "id"))
                .collect()
        };
        assert_eq!(file("room.jsonl"), ids);
        assert_eq!(file("archive/rooms/general.jsonl"), [""; 0]);
        std::fs::remove_file(dir.join("ballast")).unwrap();
        ids.push(post::post(&home, &bob, &general, "cut now", None).unwrap().id);
        assert_eq!(file("room.jsonl"), ids[ids.len() - 20..]);
        assert_eq!(file("archive/rooms/general.jsonl"), ids[..ids.len() - 20]);
    });
}

#[test]
fn in_a_directory_that_may_not_be_written_every_act_says_so_and_changes_nothing() {
    const NAME: &str =
        "heavy::disk::in_a_directory_that_may_not_be_written_every_act_says_so_and_changes_nothing";
    with_mounts(NAME, |dir| {
        mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], &dir);
        let root = dir.join("bus");
        let home = open(&root);
        let (ann, bob, seo) = (seat("ann"), seat("bob"), RoomName::parse("seo").unwrap());
        register(&home, &ann, None, None).unwrap();
        rooms::join(&home, &ann, &seo).unwrap();
        post::send(&home, &bob, &ann, "kept").unwrap();
        let before = public(&home);
        mount(&["--bind", root.to_str().unwrap()], &root);
        mount(&["-o", "remount,ro,bind"], &root);
        let refused = [
            post::send(&home, &bob, &ann, "x").map(drop),
            post::send(&home, &bob, &seat("new"), "x").map(drop),
            post::post(&home, &bob, &seo, "x", None).map(drop),
            post::status(&home, &bob, "x", None).map(drop),
            register(&home, &bob, None, None).map(drop),
            rooms::leave(&home, &ann, &seo).map(drop),
        ];
        let unread = read(&home, &ann, &Source::Inbox, Want::default()).map(drop);
        let each = refused.into_iter().map(|refused| (refused, "written"));
        for (refused, what) in each.chain([(unread, "marked as read")]) {
            let said = refused.as_ref().unwrap_err().to_string();
            let sentence = format!("cannot be written or read by this user; nothing was {what}");
            assert!(said.contains(&sentence), "{said}");
            assert_eq!(kind(refused), FaultKind::ReadOnly);
        }
        assert_eq!(public(&home), before);
        let said = Command::new("umount").arg(&root).output().unwrap();
        assert!(said.status.success());
        assert_eq!(peek(&home, "ann"), ["kept"]);
        post::send(&home, &bob, &ann, "more").unwrap();
    });
}
