//! Direct messages: what was read goes, what was not stays, and whose inbox is nobody's. Never about channels.

use super::*;

// spec: PRU-014
#[test]
fn a_message_that_was_not_read_stays_whatever_its_age() {
    let bus = Bus::new();
    bus.join("bob");
    bus.send("bob", "read");
    bus.read("bob", &Source::Inbox);
    bus.send("bob", "unread");
    bus.days(300);
    let counts = bus.removed(&Want::default());
    assert_eq!((counts.inbox_messages, counts.unread_kept), (1, 1));
    let batch = bus.read("bob", &Source::Inbox);
    assert_eq!((batch.returned, batch.note), (1, None));
    assert_eq!(batch.messages[0]["text"], "unread");
    let counts = bus.removed(&Want::default());
    assert_eq!((counts.inbox_messages, counts.unread_kept), (1, 0));
}

// spec: PRU-014 STO-035
#[test]
fn where_it_is_not_known_what_was_read_everything_stays() {
    for cursor in [
        "{\"inboxOffset\":",
        "{\"inboxOffset\":1000000000}",
        "{}",
        "{\"inboxOffset\":\"two\"}",
    ] {
        let bus = Bus::new();
        bus.join("bob");
        bus.send("bob", "a");
        bus.send("bob", "b");
        bus.write("cursors/bob.json", cursor);
        bus.days(8);
        let counts = bus.removed(&Want::default());
        assert_eq!((counts.inbox_messages, counts.unread_kept), (0, 2), "{cursor}");
        assert_eq!(bus.read("bob", &Source::Inbox).returned, 2);
    }
}

// spec: STO-034
#[test]
fn what_comes_after_a_cleaning_is_read_once_and_completely() {
    let bus = Bus::new();
    bus.join("bob");
    for number in 0..10 {
        bus.send("bob", &number.to_string());
    }
    bus.read("bob", &Source::Inbox);
    bus.days(8);
    assert_eq!(bus.removed(&Want::default()).inbox_messages, 10);
    for number in 10..22 {
        bus.send("bob", &number.to_string());
        let batch = bus.read("bob", &Source::Inbox);
        assert_eq!(batch.returned, 1);
        assert_eq!(batch.messages[0]["text"], number.to_string());
    }
}

// spec: PRU-012
#[test]
fn an_inbox_of_nobody_moves_whole_to_the_archive() {
    let bus = Bus::new();
    bus.send("ghost", "quiet");
    bus.days(8);
    bus.send("waiting", "for somebody who comes");
    bus.write("inbox/broken.jsonl", "half a line");
    let want = |remove| Want {
        remove_orphan_inboxes: Some(remove),
        ..Want::default()
    };
    assert_eq!(bus.removed(&want(false)).orphan_inboxes, [""; 0]);
    let counts = bus.removed(&Want::default());
    assert_eq!(counts.orphan_inboxes, ["ghost"]);
    assert_eq!((counts.orphan_messages, counts.inbox_messages), (1, 0));
    assert!(!bus.has("inbox/ghost.jsonl") && bus.has("inbox/waiting.jsonl") && bus.has("inbox/broken.jsonl"));
    assert_eq!(bus.texts("archive/inbox/ghost.jsonl"), ["quiet"]);
    // Saying so is the same as saying nothing: what waits for somebody who comes is not taken from them.
    assert_eq!(bus.removed(&want(true)).orphan_inboxes, [""; 0]);
    assert_eq!(bus.texts("inbox/waiting.jsonl"), ["for somebody who comes"]);
    bus.days(8);
    let file = fs::File::open(bus.dir.path().join("inbox/broken.jsonl")).unwrap();
    let quiet = Duration::from_secs(1_700_000_000);
    file.set_modified(std::time::UNIX_EPOCH + quiet).unwrap();
    let report = bus.prune(&want(true));
    assert!(
        report
            .note
            .contains("an agent that is not registered moves as a whole"),
        "{}",
        report.note
    );
    // To the last byte.
    assert_eq!(report.removed.unwrap().orphan_inboxes, ["broken", "waiting"]);
    assert_eq!(
        bus.texts("archive/inbox/waiting.jsonl"),
        ["for somebody who comes"]
    );
    assert_eq!(
        fs::read_to_string(bus.dir.path().join("archive/inbox/broken.jsonl")).unwrap(),
        "half a line"
    );
    assert_eq!(fs::read_dir(bus.dir.path().join("inbox")).unwrap().count(), 0);
}

// spec: PRU-012
#[test]
fn an_inbox_is_nobodys_only_when_nothing_speaks_for_its_owner() {
    let bus = Bus::new();
    let me = std::process::id();
    for name in [
        "registered",
        "with_slash",
        "tokened",
        "seated",
        "reached",
        "renamed",
        "ghost",
    ] {
        bus.send(name, "unread");
    }
    bus.write(
        "agents.json",
        "{\"registered\":{\"agentId\":\"registered\"},\"with/slash\":{\"agentId\":\"with/slash\"}}",
    );
    bus.write("tokens.json", "{\"tokened\":\"tk_x\"}");
    bus.write(
        "sessions/one.json",
        &format!("{{\"agentId\":\"seated\",\"pid\":{me}}}"),
    );
    bus.write(
        "transports/reached.json",
        &format!("{{\"agentId\":\"reached\",\"transport\":\"herdr\",\"pid\":{me}}}"),
    );
    bus.write(".muster/alias/renamed.json", "{\"to\":\"registered\"}");
    bus.days(100);
    let want = Want {
        remove_orphan_inboxes: Some(true),
        ..Want::default()
    };
    assert_eq!(bus.removed(&want).orphan_inboxes, ["ghost"]);
    for name in [
        "registered",
        "with_slash",
        "tokened",
        "seated",
        "reached",
        "renamed",
    ] {
        assert_eq!(bus.texts(&format!("inbox/{name}.jsonl")), ["unread"], "{name}");
    }
}
