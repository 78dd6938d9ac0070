//! What every run of doctor keeps to: looking changes nothing, one run with fix is enough, nothing unreadable is called clean. Never about one check alone.

use super::*;
use muster_bus::BusError;
use muster_bus::doctor::doctor_at;

// spec: DOC-002 DOC-005
#[test]
fn a_directory_in_ordinary_use_is_healthy_and_looking_at_it_changes_nothing() {
    let bus = Bus::new();
    let before = bus.state();
    let report = bus.look();
    assert!(report.healthy);
    assert_eq!(report.findings, []);
    assert!(report.checked.len() > 25);
    assert_eq!(bus.state(), before);
    let fixed = bus.fix();
    assert!(fixed.healthy && fixed.findings.is_empty());
}

/// Every fault at once.
fn ruin(bus: &Bus) {
    bus.write("agents.json", "{\"ann\":{\"agentId\":\"ann\",\"lastHeartbeat\":1},\"bob\":{\"agentId\":\"bob\",\"lastHeartbeat\":99999999999999},\"to");
    bus.write(
        "rooms.json",
        format!("{}\n", bus.text("rooms.json").trim_end().trim_end_matches('}')),
    );
    bus.write("rooms/lonely.jsonl", "");
    bus.write("inbox/ghost.jsonl", "{\"id\":\"1\",\"ts\":1,\"text\":\"x\"}\n");
    bus.write("cursors/ghost.json", "{\"inboxOffset\":7}");
    bus.write(
        "cursors/bob.json",
        "{\"inboxOffset\":1000000000,\"roomOffsets\":{\"seo\":99}}",
    );
    bus.write("cursors/ann.json", "{\"statusOffset\":3,\"inbox");
    let text = bus.text("room.jsonl");
    bus.write("room.jsonl", format!("not json\n{text}{{\"id\":\"half"));
    bus.write(
        "transports/nobody.json",
        format!(
            "{{\"agentId\":\"nobody\",\"transport\":\"herdr\",\"pid\":{}}}",
            dead()
        ),
    );
    bus.write(
        "sessions/left.json",
        format!("{{\"agentId\":\"ann\",\"pid\":{}}}", dead()),
    );
    bus.write("sessions/torn.json", "{\"agentId\":");
    bus.write("tokens.json", "{}");
    fs::create_dir(bus.path("room.jsonl.lock")).unwrap();
    aged(&bus.path("room.jsonl.lock"), 60);
    bus.write("work/site.json", "[");
    bus.write(".muster/new/left", "x");
    fs::File::open(bus.path(".muster/new/left"))
        .unwrap()
        .set_modified(hours_ago(3))
        .unwrap();
}

// spec: DOC-001 DOC-003 DOC-006 DOC-007
#[test]
fn one_run_finds_every_fault_and_one_with_fix_leaves_none_that_it_could_mend() {
    let bus = Bus::new();
    ruin(&bus);
    let before = bus.state();
    let messages = bus.messages();
    let report = bus.look();
    assert_eq!(bus.state(), before);
    assert!(!report.healthy);
    let found: std::collections::BTreeSet<_> = report.findings.iter().map(|finding| finding.check).collect();
    for check in [
        "damaged-file",
        "channel-mismatch",
        "cursor-past-end",
        "malformed-line",
        "unfinished-line",
        "session-leftover",
        "tokens",
        "stale-lock",
        "leftover-file",
    ] {
        assert!(found.contains(check), "{check}: {report:#?}");
    }
    // What depends on a file that cannot be read is not called sound.
    assert!(
        of(&report, "stale-agent")[0]
            .message
            .contains("cannot be verified")
    );
    let fixed = bus.fix();
    assert!(fixed.healthy && fixed.fixed > 8, "{fixed:#?}");
    assert_eq!(bus.messages(), messages);
    let again = bus.fix();
    assert_eq!(again.fixed, 0, "{again:#?}");
    assert!(
        again
            .findings
            .iter()
            .all(|finding| !finding.fixable && finding.severity != Severity::Error),
        "{again:#?}"
    );
    // The room works.
    post::send(&bus.home, &id("ann"), &id("bob"), "after").unwrap();
    let batch = bus.read("bob", &Source::Inbox);
    assert_eq!(batch.messages.last().unwrap()["text"], "after");
    for finding in report.findings {
        let json = serde_json::to_value(&finding).unwrap();
        for field in ["check", "severity", "subject", "message", "fixable"] {
            assert!(json.get(field).is_some(), "{json}");
        }
        assert!(json.get("fixed").is_none());
        assert!(finding.check.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
    }
}

// spec: DOC-005
#[test]
fn a_warning_leaves_the_bus_healthy_and_an_error_does_not() {
    let bus = Bus::new();
    bus.write("rooms/lonely.jsonl", "");
    let report = bus.look();
    assert!(report.healthy && !report.findings.is_empty());
    bus.write("rooms/lonely.jsonl", "damage\n");
    assert!(!bus.look().healthy);
}

// spec: DOC-026
#[test]
fn what_cannot_be_read_is_not_called_clean() {
    for (name, check) in [
        ("agents.json", "damaged-file"),
        ("rooms.json", "damaged-file"),
        ("cursors/bob.json", "damaged-file"),
        ("inbox/bob.jsonl", "unreadable-log"),
        ("room.jsonl", "unreadable-log"),
        ("tokens.json", "tokens"),
        ("sessions/one.json", "damaged-file"),
        ("transports/bob.json", "damaged-file"),
        ("scopes.json", "document-drift"),
    ] {
        let bus = Bus::new();
        let _ = fs::remove_file(bus.path(name));
        fs::create_dir_all(bus.path(name)).unwrap();
        for report in [bus.look(), bus.fix()] {
            assert!(!report.healthy, "{name}");
            assert!(
                of(&report, check)
                    .iter()
                    .any(|finding| finding.severity == Severity::Error && finding.subject == name),
                "{name}: {report:#?}"
            );
        }
        assert!(bus.path(name).is_dir(), "{name} was not touched");
    }
}

// spec: DOC-004
#[test]
fn copies_never_take_the_place_of_older_ones() {
    let bus = Bus::new();
    for round in 0..3 {
        let text = format!("damage {round}\n{}", bus.text("room.jsonl"));
        bus.write("room.jsonl", &text);
        assert_eq!(bus.fix().fixed, 1);
        let name = if round == 0 {
            "room.jsonl.bak".to_owned()
        } else {
            format!("room.jsonl.bak.{round}")
        };
        assert_eq!(bus.text(&name), text);
        assert_eq!(fs::metadata(bus.path(&name)).unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn words_of_others_cannot_play_with_a_terminal_and_are_short() {
    let bus = Bus::new();
    let nasty = "\u{1b}[2J\u{202e}evil\nline";
    bus.write(
        "agents.json",
        serde_json::json!({nasty: {"agentId": nasty}, "x".repeat(5_000): 1}).to_string(),
    );
    let mut rooms = bus.json("rooms.json");
    rooms["seo"]["members"] = serde_json::json!([nasty]);
    bus.write("rooms.json", serde_json::to_vec(&rooms).unwrap());
    let report = bus.look();
    assert!(report.findings.len() > 2);
    for finding in report.findings {
        for text in [&finding.subject, &finding.message] {
            assert!(
                text.chars().all(|c| !c.is_control() && c != '\u{202e}'),
                "{text:?}"
            );
            assert!(text.chars().count() <= 401);
        }
    }
}

// spec: DOC-003
#[test]
fn a_damaged_configuration_is_told_of_and_mended_the_careful_way() {
    for (text, mode, transport) in [
        (
            "{\"transport\":\"herdr\",\"mode\":\"native\",",
            Mode::Native,
            Some("herdr"),
        ),
        (
            "{\"transport\":\"herdr\",\"mode\":\"nat",
            Mode::Shared,
            Some("herdr"),
        ),
        ("", Mode::Shared, None),
    ] {
        let bus = Bus::new();
        bus.write("config.json", text);
        let before = bus.state();
        let open = |options| doctor_at(bus.dir.path(), Limits::default(), &Clock::system(), options);
        let report = open(&LOOK).unwrap();
        assert!(!report.healthy && report.findings[0].fixable);
        assert_eq!(bus.state(), before);
        assert!(matches!(
            Home::open(bus.dir.path(), Limits::default(), Clock::system()),
            Err(BusError::Damaged(_))
        ));
        let report = open(&FIX).unwrap();
        assert!(
            report.healthy && report.findings[0].fixed == Some(true),
            "{report:#?}"
        );
        assert_eq!(bus.text("config.json.bak"), text);
        let home = Home::open(bus.dir.path(), Limits::default(), Clock::system()).unwrap();
        assert_eq!(home.mode(), mode);
        assert_eq!(
            bus.json("config.json")
                .get("transport")
                .and_then(|value| value.as_str()),
            transport
        );
        assert_eq!(open(&FIX).unwrap().fixed, 0);
    }
}
