//! What wakes whom: the classifier alone, as a table.

use muster_bus::Entry;
use muster_bus::push::Settings;
use muster_bus::push::tier::{Hearer, Never, Sort, Tier, is_ci, runs_gates, sort, tier};
use serde_json::json;

fn entry(from: &str, text: &str) -> Entry {
    json!({"id": "m1", "ts": 1, "from": from, "text": text})
        .as_object()
        .unwrap()
        .clone()
}

fn wakes(text: &str, hearer: Hearer<'_>, settings: &Settings) -> bool {
    tier(false, &entry("alice", text), hearer, settings) == Tier::Now
}

// spec: PUSH-013 PUSH-014 PUSH-015 PUSH-024 PUSH-025 PUSH-027
#[test]
fn literal_prefixes_wake_everybody_and_nothing_like_them_does() {
    let settings = Settings::default();
    let wakes = |text| wakes(text, Hearer::default(), &settings);
    for text in [
        "BLOCKER: the build",
        "BLOCKER:",
        "DAVID_DECISION: ship",
        "GO: 17",
        "GO:17",
    ] {
        assert!(wakes(text), "{text}");
    }
    for text in [
        "blocker: the build",
        " BLOCKER: the build",
        "\nBLOCKER: the build",
        "BLOCKER the build",
        "BLOCKER : the build",
        "# BLOCKER: x",
        "the BLOCKER: x",
        "Go: x",
        "GOOD: x",
        "GO x",
        "david_decision: x",
        "FYI: x",
        "AGENT_ACTION: x",
        "RISK: x",
        "how are you",
        "",
    ] {
        assert!(!wakes(text), "{text:?}");
    }
}

// spec: PUSH-012
#[test]
fn every_direct_message_wakes() {
    for text in ["FYI: x", "chatter", "blocker:"] {
        let tier = tier(
            true,
            &entry("alice", text),
            Hearer::default(),
            &Settings::default(),
        );
        assert_eq!(tier, Tier::Now);
    }
}

// spec: PUSH-016
#[test]
fn scope_wakes_when_somebody_trusted_says_it() {
    let trusted = ["alice".to_owned()];
    let settings = Settings::default();
    for text in ["SCOPE: less", "SCOPE CHANGE: more"] {
        let hearer = Hearer {
            trusted: &trusted,
            ..Hearer::default()
        };
        assert!(wakes(text, hearer, &settings));
        assert!(!wakes(text, Hearer::default(), &settings));
        let by_another = tier(false, &entry("mallory", text), hearer, &settings);
        assert_eq!(by_another, Tier::Routine);
    }
}

// spec: PUSH-017 PUSH-018 PUSH-021
#[test]
fn done_wakes_who_runs_gates_and_ci_and_the_environment_outranks_the_role() {
    let gate = Hearer {
        gate_runner: true,
        ..Hearer::default()
    };
    let ci = Hearer {
        ci: true,
        ..Hearer::default()
    };
    let with = |gate_runner| Settings {
        gate_runner,
        ..Settings::default()
    };
    let done = |hearer, set| wakes("DONE: 17", hearer, &with(set));
    assert!(done(gate, None) && !done(Hearer::default(), None));
    assert!(!done(gate, Some(false)) && done(Hearer::default(), Some(true)));
    assert!(done(ci, None) && done(ci, Some(false)));
    // Wake only: nothing else reaches ci sooner.
    assert!(!wakes("FYI: x", ci, &with(None)) && !wakes("SCOPE: x", ci, &with(None)));
}

// spec: PUSH-023
#[test]
fn what_the_bus_flagged_wakes() {
    let mut flagged = entry("alice", "who you are");
    flagged.insert("urgent".to_owned(), true.into());
    let tier = tier(false, &flagged, Hearer::default(), &Settings::default());
    assert_eq!(tier, Tier::Now);
}

// spec: PUSH-026
#[test]
fn without_tiers_everything_is_pushed() {
    let settings = Settings {
        tiers: false,
        ..Settings::default()
    };
    assert!(wakes("chatter", Hearer::default(), &settings));
}

#[test]
fn an_owners_own_prefix_wakes_beside_the_literal_ones() {
    let hearer = Hearer {
        owner_prefix: Some("ANNE_DECISION:"),
        ..Hearer::default()
    };
    let settings = Settings::default();
    assert!(wakes("ANNE_DECISION: ship", hearer, &settings));
    assert!(wakes("DAVID_DECISION: ship", hearer, &settings));
    assert!(!wakes("anne_decision: ship", hearer, &settings));
    let empty = Hearer {
        owner_prefix: Some(""),
        ..Hearer::default()
    };
    assert!(!wakes("chatter", empty, &settings));
}

// spec: PUSH-043 PUSH-044 PUSH-051 CMD-006
#[test]
fn only_a_marked_command_is_one_and_no_text_that_begins_with_a_slash_is_typed() {
    for text in [
        "/clear",
        " /clear",
        "\n/clear",
        "\u{feff}/clear",
        "\u{200b}\t/compact",
        "/etc/passwd is gone",
    ] {
        assert_eq!(
            sort(true, &entry("alice", text), None),
            Sort::Never(Never::Slash),
            "{text:?}"
        );
    }
    for text in ["see /clear", "a/b", "(/clear)"] {
        assert_eq!(sort(true, &entry("alice", text), None), Sort::Text, "{text:?}");
    }
    let marked = |text| {
        let mut entry = entry("alice", text);
        entry.insert("control".to_owned(), true.into());
        entry
    };
    for command in muster_bus::push::ControlCommand::ALL {
        assert_eq!(
            sort(true, &marked(command.as_str()), None),
            Sort::Command(command)
        );
        // In a channel nothing is a command.
        assert_eq!(
            sort(false, &marked(command.as_str()), None),
            Sort::Never(Never::Slash)
        );
    }
    for text in ["/help", "/clear now", "/clear ", "clear", "!ls"] {
        assert_eq!(
            sort(true, &marked(text), None),
            Sort::Never(Never::NoCommand),
            "{text:?}"
        );
    }
    let list = ["bob".to_owned()];
    assert_eq!(
        sort(true, &entry("alice", "x"), Some(&list)),
        Sort::Never(Never::NotAllowed)
    );
    assert_eq!(sort(true, &entry("bob", "x"), Some(&list)), Sort::Text);
    assert_eq!(
        sort(true, &entry("bob", "x"), Some(&[])),
        Sort::Never(Never::NotAllowed)
    );
    assert_eq!(
        sort(true, &marked("/clear"), Some(&list)),
        Sort::Never(Never::NotAllowed)
    );
    let mut flagged = entry("alice", "who you are");
    flagged.insert("urgent".to_owned(), true.into());
    assert_eq!(sort(true, &flagged, Some(&list)), Sort::Text);
}

#[test]
fn a_role_is_read_word_by_word() {
    for role in ["qa", "QA", "qa engineer", "lead/coordinator", "release-gate"] {
        assert!(runs_gates(role), "{role}");
    }
    for role in ["dev", "aqua", "delegate", "coordinators' friend", ""] {
        assert!(!runs_gates(role), "{role}");
    }
    assert!(is_ci("ci", None) && is_ci("runner", Some("CI")) && is_ci("runner", Some("the ci bot")));
    assert!(!is_ci("ci2", None) && !is_ci("cindy", Some("circus")));
}
