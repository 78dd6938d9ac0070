//! Damage that a directory comes with: torn lines and cursors, orphan locks, wrong indexes, texts too large, lines of other programs.
//! Answered here, by the numbers of the reports it is known from (kept with the design facts): 6, 7, 8, 9, 10, 12, 17. Never heals by forgetting.

use std::time::{Duration, Instant};

use muster_bus::limits::MAX_TEXT;
use muster_bus::read::{Want, depth, unread};
use muster_bus::registry::{Agents, register};
use muster_bus::{BusError, Mode, RoomName, Source, history, post, rooms};

use crate::support::{bus, public, room, seat, shared_bus, texts, word};

fn send(bus: &crate::support::Bus, text: &str) {
    post::send(&bus.home, &seat("bob"), &seat("ann"), text).unwrap();
}

// spec: STO-029
#[test]
fn a_torn_line_is_neither_shown_nor_glued_to_the_next_one() {
    let bus = bus();
    send(&bus, "one");
    bus.add("inbox/ann.jsonl", b"{\"id\":\"t\",\"from\":\"bob\",\"text\":\"to");
    assert_eq!(bus.inbox("ann"), ["one"]);
    send(&bus, "two");
    assert_eq!(bus.inbox("ann"), ["two"]);
    let text = String::from_utf8(bus.bytes("inbox/ann.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(
        text.lines().nth(1).unwrap().ends_with("\"to"),
        "the torn line stands alone"
    );
    assert!(serde_json::from_str::<serde_json::Value>(text.lines().nth(2).unwrap()).is_ok());
}

// spec: STO-029
#[test]
fn a_line_that_is_whole_but_for_its_end_waits_for_it_and_is_then_shown_once() {
    let bus = bus();
    send(&bus, "one");
    let line = r#"{"id":"w","ts":1,"from":"old","text":"late"}"#;
    bus.add("inbox/ann.jsonl", line);
    assert_eq!(bus.inbox("ann"), ["one"]);
    assert_eq!(bus.inbox("ann"), [""; 0]);
    bus.add("inbox/ann.jsonl", "\n");
    assert_eq!(bus.inbox("ann"), ["late"]);
    bus.add("inbox/ann.jsonl", line);
    send(&bus, "two");
    assert_eq!(bus.inbox("ann"), ["late", "two"]);
}

#[test]
fn every_tail_of_a_line_that_a_death_leaves_is_survived() {
    let line = "{\"id\":\"x\",\"from\":\"bob\",\"text\":\"é😀\\\"\\n\"}";
    for length in 0..=line.len() {
        let bus = bus();
        send(&bus, "one");
        bus.add("inbox/ann.jsonl", &line.as_bytes()[..length]);
        send(&bus, "two");
        let got = bus.inbox("ann");
        let wanted: &[&str] = if length == line.len() {
            &["one", "é😀\"\n", "two"]
        } else {
            &["one", "two"]
        };
        assert_eq!(got, wanted, "{length} bytes");
        assert_eq!(
            depth(&bus.home, &seat("ann"), &Source::Inbox).unwrap(),
            wanted.len() as u64
        );
    }
}

#[test]
fn a_torn_cursor_shows_again_what_may_be_unread_and_says_so() {
    let bus = bus();
    send(&bus, "one");
    assert_eq!(bus.inbox("ann"), ["one"]);
    for torn in ["", "{", "{\"inboxOff", "[]", "17", "\0\0\0"] {
        bus.put("cursors/ann.json", torn);
        let batch = bus.read("ann", &Source::Inbox, Want::default());
        assert_eq!(texts(&batch), ["one"], "{torn:?}");
        assert!(batch.note.unwrap().contains("could not be read"), "{torn:?}");
        assert!(bus.inbox("ann").is_empty(), "healed after {torn:?}");
    }
    for odd in [
        r#"{"inboxOffset":-5}"#,
        r#"{"inboxOffset":"1"}"#,
        r#"{"inboxOffset":1.5}"#,
        r#"{"inboxOffset":null}"#,
    ] {
        bus.put("cursors/ann.json", odd);
        assert_eq!(bus.inbox("ann"), ["one"], "{odd}");
        assert!(bus.inbox("ann").is_empty(), "healed after {odd}");
    }
}

// spec: STO-027
#[test]
fn a_torn_registry_or_channel_list_is_never_written_over() {
    for torn in ["", "{\"ann\":{\"agentId\":\"an", "[1]", "null!"] {
        let bus = bus();
        register(&bus.home, &seat("ann"), None, None).unwrap();
        for file in ["agents.json", "rooms.json"] {
            bus.put(file, torn);
        }
        let general = RoomName::general();
        let seo = RoomName::parse("seo").unwrap();
        let acts = [
            register(&bus.home, &seat("bob"), None, None).map(drop),
            muster_bus::registry::unregister(&bus.home, &seat("ann")).map(drop),
            muster_bus::registry::heartbeat(&bus.home, &seat("ann")),
            rooms::join(&bus.home, &seat("ann"), &seo).map(drop),
            rooms::set(&bus.home, &seat("ann"), &general, rooms::Line::Topic, "x"),
            post::post(&bus.home, &seat("ann"), &seo, "x", None).map(drop),
        ];
        for act in acts {
            assert!(matches!(act, Err(BusError::Damaged(_))), "{torn:?}: {act:?}");
        }
        for file in ["agents.json", "rooms.json"] {
            assert_eq!(bus.bytes(file), torn.as_bytes(), "{file}");
        }
        // What needs neither goes on, and says what it could not see.
        let sent = post::send(&bus.home, &seat("bob"), &seat("ann"), "x").unwrap();
        assert!(
            sent.warning
                .unwrap()
                .contains("whether 'ann' is registered cannot be told")
        );
        post::post(&bus.home, &seat("bob"), &general, "x", None).unwrap();
        assert_eq!(bus.inbox("ann"), ["x"]);
    }
}

// spec: TOOL-045
#[test]
fn a_text_over_the_limit_is_refused_whole_and_nothing_is_written() {
    let bus = bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    let before = public(&bus.home);
    let (ann, bob) = (seat("ann"), seat("bob"));
    for length in [MAX_TEXT + 1, 10 * 1024 * 1024] {
        let text = "x".repeat(length);
        let refused = [
            post::send(&bus.home, &bob, &ann, &text).map(drop),
            post::post(&bus.home, &bob, &RoomName::general(), &text, None).map(drop),
            post::status(&bus.home, &bob, &text, None).map(drop),
            post::status(&bus.home, &bob, "x", Some(&text)).map(drop),
            register(&bus.home, &bob, None, Some(&text)).map(drop),
        ];
        for refused in refused {
            let Err(BusError::TooLong { bytes, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(bytes, length);
        }
    }
    assert_eq!(public(&bus.home), before);
    let largest = "é".repeat(MAX_TEXT / 2);
    send(&bus, &largest);
    assert_eq!(bus.inbox("ann"), [largest]);
}

// spec: TOOL-044
#[test]
fn an_empty_text_is_refused_and_nothing_is_written() {
    let bus = bus();
    let before = public(&bus.home);
    for text in ["", " ", "\n\t"] {
        assert!(matches!(
            post::send(&bus.home, &seat("bob"), &seat("ann"), text),
            Err(BusError::Empty("text"))
        ));
        assert!(matches!(
            post::post(&bus.home, &seat("bob"), &RoomName::general(), text, None),
            Err(BusError::Empty("text"))
        ));
    }
    assert_eq!(public(&bus.home), before);
}

// spec: TOOL-043
#[test]
fn a_misspelt_recipient_is_told_of_with_the_name_that_was_meant() {
    let bus = bus();
    register(&bus.home, &seat("frontend"), None, None).unwrap();
    let warning = |to: &str| {
        post::send(&bus.home, &seat("bob"), &seat(to), "x")
            .unwrap()
            .warning
    };
    assert_eq!(warning("frontend"), None);
    assert!(warning("frontned").unwrap().contains("did you mean 'frontend'?"));
    assert!(!warning("somebody").unwrap().contains("did you mean"));
    assert_eq!(bus.inbox("frontned"), ["x"], "it waits there all the same");
}

#[test]
fn an_index_that_lies_is_found_out() {
    let bus = bus();
    for n in 0..700 {
        send(&bus, &n.to_string());
    }
    let index = bus.path(".muster/index/inbox+ann.jsonl");
    let good = std::fs::read(&index).unwrap();
    let want = Want {
        limit: Some(3),
        peek: true,
        since: None,
    };
    let check = |what: &str| {
        for first in [0_u32, 1, 127, 128, 129, 255, 256, 640, 697] {
            bus.put("cursors/ann.json", format!("{{\"inboxOffset\":{first}}}"));
            let batch = bus.read("ann", &Source::Inbox, want);
            let wanted: Vec<String> = (first..first + 3).map(|n| n.to_string()).collect();
            assert_eq!(
                (texts(&batch), batch.total_new),
                (wanted, 700 - first as usize),
                "{what}, from {first}"
            );
        }
        assert_eq!(
            depth(&bus.home, &seat("ann"), &Source::Inbox).unwrap(),
            700,
            "{what}"
        );
    };
    check("as it is");
    std::fs::remove_file(&index).unwrap();
    check("removed");
    for length in [0, 1, 47, 48, 55, good.len() - 1] {
        std::fs::write(&index, &good[..length]).unwrap();
        check(&format!("cut to {length}"));
    }
    for at in (0..48).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 0x5a;
        std::fs::write(&index, bad).unwrap();
        check(&format!("byte {at} of the head changed"));
    }
    std::fs::write(&index, vec![0xff; 4_096]).unwrap();
    check("garbage");
    // The index of a longer past of the same file.
    let all = bus.bytes("inbox/ann.jsonl");
    send(&bus, "700");
    bus.put("inbox/ann.jsonl", &all);
    check("the log was cut in place");
}

#[test]
fn a_log_that_another_program_rewrote_is_counted_anew() {
    let bus = bus();
    for n in 0..300 {
        send(&bus, &format!("first {n}"));
    }
    assert_eq!(bus.inbox("ann").len(), 300);
    // In place, longer than before, so that neither inode nor size betrays it.
    let mut text = String::new();
    for n in 0..400 {
        text.push_str(&format!("{{\"id\":\"{n}\",\"ts\":1,\"from\":\"old\",\"text\":\"second {n}, somewhat longer than the first, so that it does not fit\"}}\n"));
    }
    assert!(text.len() > bus.bytes("inbox/ann.jsonl").len());
    bus.put("inbox/ann.jsonl", &text);
    assert_eq!(depth(&bus.home, &seat("ann"), &Source::Inbox).unwrap(), 400);
    let got = bus.inbox("ann");
    assert_eq!((got.len(), got[0].starts_with("second 300")), (100, true));
}

#[test]
fn what_other_programs_write_is_shown_and_what_is_no_entry_is_passed_over() {
    let bus = bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    let lines: [&[u8]; 12] = [
        br#"{"id":"1","ts":1700000000000.5,"from":"old","text":"float"}"#,
        b"",
        b"   ",
        br#"{"id":"2","from":"old","text":"cut \ud83d"}"#,
        br#"{"id":"3","from":"old","text":"low \udc00\ud83d\ude00 \\ud83d"}"#,
        b"[1,2]",
        b"17",
        b"{\"id\":\"4\",\"from\":\"old\",\"text\":\"latin \xe9\"}",
        br#"{"id":"5","from":"old"#,
        br#"  {"id":"6","from":"old","text":"indented"}  "#,
        b"{\"id\":\"7\",\"from\":\"old\",\"text\":\"windows\"}\r",
        br#"{"id":"8","from":"old","text":"too much","n":1e999}"#,
    ];
    bus.put("inbox/ann.jsonl", [lines.join(&b'\n'), b"\n".to_vec()].concat());
    let batch = bus.read("ann", &Source::Inbox, Want::default());
    let wanted = [
        "float",
        "cut \u{fffd}",
        "low \u{fffd}😀 \\ud83d",
        "latin \u{fffd}",
        "indented",
        "windows",
        "",
    ];
    assert_eq!(texts(&batch), wanted);
    assert_eq!((batch.total_new, batch.remaining), (7, 0));
    assert_eq!(
        unread(&bus.home, &seat("ann"), &Source::Inbox).unwrap(),
        0,
        "the last one does not stay unread for ever"
    );
}

// spec: STO-028
#[test]
fn an_orphan_lock_is_taken_over_and_a_fresh_one_is_waited_for() {
    let bus = shared_bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    let lock = bus.path("inbox/ann.jsonl.lock");
    std::fs::create_dir(&lock).unwrap();
    crate::foreign::set_age(&lock, Duration::from_secs(6));
    let begun = Instant::now();
    send(&bus, "one");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(!lock.exists());
    // One that its holder has just taken is not ours to break; it is given back while we wait.
    std::fs::create_dir(&lock).unwrap();
    let giver = std::thread::spawn({
        let lock = lock.clone();
        move || {
            std::thread::sleep(Duration::from_millis(300));
            std::fs::remove_dir(lock).unwrap();
        }
    });
    let begun = Instant::now();
    send(&bus, "two");
    assert!(
        begun.elapsed() >= Duration::from_millis(290),
        "{:?}",
        begun.elapsed()
    );
    giver.join().unwrap();
    assert_eq!(bus.inbox("ann"), ["one", "two"]);
}

// spec: STO-028
#[test]
fn a_lock_directory_of_another_program_is_nothing_to_a_bus_of_our_own() {
    let bus = bus();
    std::fs::create_dir(bus.path("inbox/ann.jsonl.lock")).unwrap();
    let begun = Instant::now();
    send(&bus, "one");
    assert_eq!(
        (bus.home.mode(), begun.elapsed() < Duration::from_secs(4)),
        (Mode::Native, true)
    );
}

#[test]
fn since_neither_repeats_nor_skips() {
    use muster_core::{Clock, Time};
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual(Time::from_micros(1_000_000));
    let home =
        muster_bus::Home::open(dir.path(), muster_bus::limits::Limits::default(), clock.clone()).unwrap();
    for n in 1..=4 {
        post::send(&home, &seat("bob"), &seat("ann"), &format!("m{n}")).unwrap();
        clock.advance(Duration::from_secs(1));
    }
    let read = |since| {
        let want = Want {
            since,
            ..Want::default()
        };
        texts(&muster_bus::read::read(&home, &seat("ann"), &Source::Inbox, want).unwrap()).join(" ")
    };
    assert_eq!(read(Some(2_000)), "m3 m4");
    assert_eq!(read(None), "m1 m2 m3 m4", "the older ones were not passed over");
    assert_eq!(read(None), "");
    post::send(&home, &seat("bob"), &seat("ann"), "m5").unwrap();
    assert_eq!(read(Some(2_000)), "m5");
    assert_eq!(read(None), "", "nothing twice");
}

#[test]
fn a_read_says_how_much_it_left() {
    let bus = bus();
    for n in 0..25 {
        send(&bus, &n.to_string());
    }
    let want = Want {
        limit: Some(10),
        ..Want::default()
    };
    let mut got = Vec::new();
    for left in [15, 5, 0] {
        let batch = bus.read("ann", &Source::Inbox, want);
        assert_eq!((batch.remaining, batch.total_new), (left, left + batch.returned));
        got.extend(texts(&batch));
    }
    assert_eq!(got, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn the_registry_is_never_emptied_by_reading_it() {
    let bus = bus();
    register(&bus.home, &seat("ann"), None, None).unwrap();
    bus.put("agents.json", "{\"ann\":");
    assert!(matches!(Agents::load(&bus.home), Err(BusError::Damaged(_))));
    std::fs::remove_file(bus.path("agents.json")).unwrap();
    std::fs::create_dir(bus.path("agents.json")).unwrap();
    assert!(Agents::load(&bus.home).unwrap_err().is_fault());
    assert!(register(&bus.home, &seat("bob"), None, None).is_err());
    assert!(bus.path("agents.json").is_dir());
}

#[test]
fn a_digest_that_was_damaged_is_said_to_be() {
    let bus = bus();
    for n in 0..60 {
        post::post(
            &bus.home,
            &seat("bob"),
            &RoomName::general(),
            &n.to_string(),
            None,
        )
        .unwrap();
    }
    let digest = bus
        .read("ann", &room("general"), Want::default())
        .history
        .unwrap();
    let all = history::retrieve(&bus.home, &seat("ann"), &digest.hash, None).unwrap();
    assert_eq!(
        all.iter().map(|entry| word(entry, "text")).collect::<Vec<_>>(),
        (0..10).map(|n| n.to_string()).collect::<Vec<_>>()
    );
    let file = bus.path(&format!(".muster/history/{}.json", digest.hash));
    std::fs::write(&file, "{").unwrap();
    let said = history::retrieve(&bus.home, &seat("ann"), &digest.hash, None);
    assert!(matches!(said, Err(BusError::Damaged(_))));
    for hash in ["", "../../etc/pas", "ABCDEF", "zzzzzzzzzzzz", "000000000000"] {
        assert!(
            matches!(
                history::retrieve(&bus.home, &seat("ann"), hash, None),
                Err(BusError::NoDigest)
            ),
            "{hash}"
        );
    }
}
