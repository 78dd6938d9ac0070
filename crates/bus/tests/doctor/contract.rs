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
    assert!(!report.checked.contains(&"stale-agent"));
    let damaged = of(&report, "damaged-file");
    let agents = damaged
        .iter()
        .find(|finding| finding.subject == "agents.json")
        .unwrap();
    assert!(
        agents.message.contains("cannot be verified") && agents.message.contains("stale-agent"),
        "{agents:?}"
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

// spec: DOC-026
#[test]
fn one_damaged_file_is_one_error_that_names_what_it_holds_up() {
    for (name, held_up) in [
        (
            "agents.json",
            &["stale-agent", "orphan-membership", "orphan-inbox", "agent-id"][..],
        ),
        ("tokens.json", &["orphan-membership", "orphan-inbox"]),
        ("rooms.json", &["orphan-membership", "channel-mismatch"]),
    ] {
        let bus = Bus::new();
        bus.write("tokens.json", "{}");
        fs::set_permissions(bus.path("tokens.json"), fs::Permissions::from_mode(0o600)).unwrap();
        bus.write(name, "{\"ann\": ");
        let report = bus.look();
        let errors: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        assert_eq!(errors.len(), 1, "{report:#?}");
        assert_eq!(errors[0].subject, name);
        for check in held_up {
            assert!(errors[0].message.contains(check), "{errors:?}");
            assert!(!report.checked.contains(check), "{check} was not made");
        }
    }
}

#[test]
fn a_directory_without_a_bus_is_said_to_have_none_and_stays_as_it_is() {
    let outside = tempfile::tempdir().unwrap();
    let nowhere = outside.path().join("not/there");
    for options in [LOOK, FIX] {
        for dir in [outside.path(), &nowhere] {
            let said = doctor_at(dir, Limits::default(), &Clock::system(), &options).unwrap_err();
            assert!(matches!(said, BusError::NoBus(_)), "{said}");
            let line = format!("`muster init --dir {}`", dir.display());
            assert!(said.to_string().contains(&line), "{said}");
        }
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

// spec: DOC-002
#[test]
fn looking_at_a_directory_of_the_earlier_program_makes_nothing_there() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(outside.path().join("agents.json"), "{}").unwrap();
    fs::write(
        outside.path().join("room.jsonl"),
        "{\"id\":\"1\",\"ts\":1,\"from\":\"x\",\"text\":\"x\"}\n",
    )
    .unwrap();
    let mut before = BTreeMap::new();
    state(outside.path(), &mut before);
    let options = Options {
        transport: Some("herdr".to_owned()),
        ..LOOK
    };
    let report = doctor_at(outside.path(), Limits::default(), &Clock::system(), &options).unwrap();
    assert!(report.healthy, "{report:#?}");
    let mut after = BTreeMap::new();
    state(outside.path(), &mut after);
    assert_eq!(after, before);
}

#[test]
fn the_report_names_the_directory_and_says_what_is_left_to_do_by_hand() {
    let bus = Bus::new();
    let dir = bus.dir.path().canonicalize().unwrap().display().to_string();
    let verdict = |report: &Report| report.lines().last().unwrap().clone();
    assert_eq!(
        verdict(&bus.look()),
        format!("healthy: the bus at {dir} is consistent")
    );
    bus.write("room.jsonl", "damage\n");
    bus.write("config.json", "{\"mode\":\"native\"}");
    let said = verdict(&bus.look());
    assert!(
        said.starts_with(&format!("not healthy: the bus at {dir}"))
            && said.contains("`muster bus doctor --fix`")
            && said.ends_with("1 error is to be put right by hand"),
        "{said}"
    );
    let said = verdict(&bus.fix());
    assert!(
        !said.contains("--fix") && said.ends_with("1 error is to be put right by hand"),
        "{said}"
    );
}

// spec: PUSH-006
#[test]
fn a_directory_that_chooses_no_transport_is_not_called_healthy_unless_the_environment_does() {
    let bus = Bus::new();
    for config in [Some("{\"mode\":\"native\"}"), None] {
        match config {
            Some(text) => bus.write("config.json", text),
            None => fs::remove_file(bus.path("config.json")).unwrap(),
        }
        let found = bus.one("transport-config");
        assert_eq!(found.severity, Severity::Error);
        assert_eq!(
            found.message,
            "it names no transport, so no server starts: run `muster init`"
        );
        assert!(!bus.fix().healthy);
        let options = Options {
            transport: Some("herdr".to_owned()),
            ..LOOK
        };
        assert!(doctor(&bus.home, &options).healthy);
        // A server that runs was told elsewhere.
        bus.write(
            "sessions/one.json",
            format!("{{\"agentId\":\"ann\",\"pid\":{}}}", std::process::id()),
        );
        assert_eq!(bus.one("transport-config").severity, Severity::Warning);
        fs::remove_file(bus.path("sessions/one.json")).unwrap();
    }
}

// spec: DOC-005
#[test]
fn a_mode_that_there_is_not_is_named_with_those_that_there_are() {
    let bus = Bus::new();
    bus.write("config.json", "{\"mode\":\"nativ\",\"transport\":\"herdr\"}");
    let words = "the mode 'nativ' of config.json does not exist; the valid ones are native and shared";
    let opened = Home::open(bus.dir.path(), Limits::default(), Clock::system());
    assert!(opened.err().unwrap().to_string().starts_with(words));
    let before = bus.state();
    for options in [LOOK, FIX] {
        let report = doctor_at(bus.dir.path(), Limits::default(), &Clock::system(), &options).unwrap();
        assert!(
            !report.healthy && report.findings[0].message.starts_with(words),
            "{report:?}"
        );
    }
    assert_eq!(bus.state(), before, "whoever wrote it knows what was meant");
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
        // Without a transport no server starts, so it is no more healthy than before.
        assert_eq!(report.healthy, transport.is_some(), "{report:#?}");
        let mended = &report.findings[0];
        assert_eq!(
            (mended.fixed, mended.subject.as_str()),
            (Some(true), "config.json")
        );
        // A mode that nobody chose is not taken without a word.
        let told = mended.message.contains("`muster init --mode native`");
        assert_eq!(told, mode == Mode::Shared, "{mended:?}");
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
