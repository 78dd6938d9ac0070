//! Agents and channels that do not fit together. Never drops somebody who is there.

use super::*;
use muster_bus::identity::{Ask, Session};
use muster_bus::sessions::Link;
use muster_bus::transports::Panes;

// spec: DOC-012
#[test]
fn a_member_who_is_not_registered_is_found_and_dropped() {
    let bus = Bus::new();
    registry::register(&bus.home, &id("gone"), None, None).unwrap();
    rooms::join(&bus.home, &id("gone"), &room("seo")).unwrap();
    registry::unregister(&bus.home, &id("gone")).unwrap();
    fs::remove_file(bus.path("inbox/gone.jsonl")).unwrap();
    fs::remove_file(bus.path("cursors/gone.json")).unwrap();
    let found = bus.mended("orphan-membership");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Warning, "#seo")
    );
    assert!(found.message.contains("'gone'"));
    assert_eq!(
        bus.json("rooms.json")["seo"]["members"],
        serde_json::json!(["ann", "bob"])
    );
}

// spec: DOC-028
#[test]
fn a_member_whose_process_runs_is_not_dropped_because_the_registry_forgot_it() {
    let bus = Bus::new();
    registry::unregister(&bus.home, &id("bob")).unwrap();
    bus.write(
        "sessions/one.json",
        format!("{{\"agentId\":\"bob\",\"pid\":{}}}", std::process::id()),
    );
    let report = bus.fix();
    assert_eq!(report.fixed, 0, "{report:#?}");
    assert_eq!(
        bus.json("rooms.json")["seo"]["members"],
        serde_json::json!(["ann", "bob"])
    );
}

// spec: DOC-013 DOC-014
#[test]
fn inboxes_and_cursors_of_nobody_are_found_and_stay() {
    let bus = Bus::new();
    registry::unregister(&bus.home, &id("bob")).unwrap();
    for (check, subject) in [
        ("orphan-inbox", "inbox/bob.jsonl"),
        ("orphan-cursor", "cursors/bob.json"),
    ] {
        let found = bus.one(check);
        assert_eq!((found.subject.as_str(), found.fixable), (subject, false));
        // The registry forgets after a day, so within a week this is only good to know.
        assert_eq!(found.severity, Severity::Info);
    }
    bus.written("inbox/bob.jsonl", 8);
    bus.written("cursors/bob.json", 8);
    for (check, name) in [
        ("orphan-inbox", "inbox/bob.jsonl"),
        ("orphan-cursor", "cursors/bob.json"),
    ] {
        assert_eq!(bus.one(check).severity, Severity::Warning);
        bus.fix();
        assert!(bus.path(name).exists());
    }
    assert!(bus.look().healthy);
}

// spec: DOC-017
#[test]
fn an_agent_silent_for_more_than_a_day_is_found() {
    let bus = Bus::new();
    let mut agents = bus.json("agents.json");
    let hour = 60 * 60 * 1_000;
    agents["bob"]["lastHeartbeat"] = (bus.home.now() - 25 * hour).into();
    agents["ann"]["lastHeartbeat"] = (bus.home.now() - 23 * hour).into();
    bus.write("agents.json", serde_json::to_vec(&agents).unwrap());
    let found = bus.one("stale-agent");
    assert_eq!(found.subject, "bob");
    assert!(found.message.contains("25 hours"));
}

#[test]
fn ids_that_share_one_inbox_elsewhere_are_found() {
    let bus = Bus::new();
    let mut agents = bus.json("agents.json");
    for id in ["bob/one", "bob_one"] {
        agents.insert(
            id.to_owned(),
            serde_json::json!({"agentId": id, "lastHeartbeat": bus.home.now()}),
        );
    }
    bus.write("agents.json", serde_json::to_vec(&agents).unwrap());
    let found = of(&bus.look(), "agent-id");
    let found: Vec<_> = found
        .iter()
        .map(|finding| (finding.severity, finding.subject.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (Severity::Error, "inbox/bob_one.jsonl"),
            (Severity::Warning, "bob/one")
        ]
    );
}

// spec: DOC-020
#[test]
fn a_channel_with_only_a_file_or_only_an_entry_is_found_and_made_whole() {
    let bus = Bus::new();
    bus.write("rooms/fileonly.jsonl", "");
    let found = bus.mended("channel-mismatch");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Warning, "#fileonly")
    );
    assert!(bus.json("rooms.json").contains_key("fileonly"));
    fs::remove_file(bus.path("rooms/fileonly.jsonl")).unwrap();
    let found = bus.mended("channel-mismatch");
    assert_eq!(found.subject, "#fileonly");
    assert_eq!(bus.text("rooms/fileonly.jsonl"), "");
    let mut all = bus.json("rooms.json");
    all.insert("Not A Name".to_owned(), serde_json::json!({}));
    all["fileonly"] = serde_json::json!(["strange"]);
    bus.write("rooms.json", serde_json::to_vec(&all).unwrap());
    assert_eq!(bus.one("channel-name").subject, "Not A Name");
    assert!(!bus.one("channel-mismatch").fixable);
}

#[test]
fn whoever_left_in_order_and_has_read_everything_is_no_orphan() {
    let bus = Bus::new();
    let zoe = id("zoe");
    let session = Session::new(&bus.home, Link::Stdio, Panes::default()).unwrap();
    session.claim(Ask::of(&zoe)).unwrap().commit();
    registry::register(&bus.home, &zoe, None, Some("human")).unwrap();
    registry::unregister(&bus.home, &zoe).unwrap();
    let orphans = || {
        let report = bus.look();
        let both = [of(&report, "orphan-inbox"), of(&report, "orphan-cursor")].concat();
        let subjects: Vec<String> = both.into_iter().map(|found| found.subject).collect();
        subjects
    };
    session.end().unwrap();
    assert_eq!(orphans(), [""; 0]);
    // What waits for somebody who left is told of.
    post::send(&bus.home, &id("ann"), &zoe, "are you there?").unwrap();
    assert_eq!(orphans(), ["inbox/zoe.jsonl"]);
}
