//! Transport markers, connections and builds. Never removes a marker whose process runs.

use super::*;

fn marker(bus: &Bus, id: &str, fields: &str) {
    bus.write(
        &format!("transports/{id}.json"),
        format!("{{\"agentId\":\"{id}\",\"transport\":\"herdr\",\"target\":\"w1:{id}\"{fields}}}"),
    );
}

fn session(bus: &Bus, name: &str, id: &str, pid: u32, more: &str) {
    bus.write(
        &format!("sessions/{name}.json"),
        format!("{{\"agentId\":\"{id}\",\"pid\":{pid}{more}}}"),
    );
}

fn build() -> &'static str {
    muster_bus::build_id::stamp().unwrap()
}

// spec: DOC-008
#[test]
fn a_marker_of_nobody_is_found_and_removed() {
    let bus = Bus::new();
    marker(
        &bus,
        "ghost",
        &format!(",\"pid\":{},\"build\":\"{}\"", dead(), build()),
    );
    let found = bus.mended("orphan-marker");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Warning, "transports/ghost.json")
    );
    assert!(!bus.path("transports/ghost.json").exists());
}

// spec: DOC-028
#[test]
fn a_marker_whose_process_runs_is_never_removed() {
    let bus = Bus::new();
    let sleeper = Sleeper::new();
    let fields = format!(",\"pid\":{},\"build\":\"{}\"", sleeper.pid(), build());
    marker(&bus, "ghost", &fields);
    marker(&bus, "bob", &fields);
    assert!(!bus.one("orphan-marker").fixable);
    bus.fix();
    assert!(bus.path("transports/ghost.json").exists() && bus.path("transports/bob.json").exists());
    drop(sleeper);
    assert_eq!(bus.fix().fixed, 2);
    assert!(!bus.path("transports/ghost.json").exists() && !bus.path("transports/bob.json").exists());
}

#[test]
fn a_marker_that_names_another_agent_than_its_file_is_found_and_stays() {
    let bus = Bus::new();
    bus.write(
        "transports/bob.json",
        "{\"agentId\":\"ann\",\"transport\":\"herdr\",\"pid\":1}",
    );
    assert!(!bus.one("odd-marker").fixable);
    bus.fix();
    assert!(bus.path("transports/bob.json").exists());
}

// spec: DOC-009 DOC-011
#[test]
fn markers_of_another_build_than_the_installed_one_are_found() {
    let bus = Bus::new();
    let me = std::process::id();
    marker(
        &bus,
        "ann",
        &format!(",\"pid\":{me},\"build\":\"00000000000000000000000000000000\""),
    );
    bus.write("transports/bob.json", "{\"agentId\":\"bob\",\"transport\":\"tmux-push-remote\",\"pid\":0,\"host\":\"elsewhere\",\"build\":\"0000\"}");
    assert_eq!(bus.one("stale-pusher").subject, "transports/bob.json");
    assert_eq!(bus.one("stale-server-marker").subject, "transports/ann.json");
    marker(&bus, "ann", &format!(",\"pid\":{me},\"build\":\"{}\"", build()));
    bus.write("transports/bob.json", format!("{{\"agentId\":\"bob\",\"transport\":\"tmux-push-remote\",\"pid\":0,\"host\":\"elsewhere\",\"build\":\"{}\"}}", build()));
    let report = bus.look();
    assert_eq!(report.findings, []);
}

// spec: DOC-025
#[test]
fn a_marker_without_a_stamp_is_unknown_and_never_fresh() {
    let bus = Bus::new();
    marker(&bus, "ann", &format!(",\"pid\":{}", std::process::id()));
    assert_eq!(bus.one("unstamped-marker").subject, "transports/ann.json");
    marker(
        &bus,
        "ann",
        &format!(
            ",\"pid\":{},\"build\":\"\",\"scriptMtime\":17.5",
            std::process::id()
        ),
    );
    assert_eq!(bus.one("unstamped-marker").severity, Severity::Warning);
}

// spec: DOC-010 DOC-011
#[test]
fn a_server_whose_program_was_replaced_under_it_is_found_with_its_markers() {
    let bus = Bus::new();
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("server");
    let sleep = ["/bin/sleep", "/usr/bin/sleep"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .unwrap();
    fs::copy(sleep, &program).unwrap();
    let server = Sleeper::of(&program);
    session(&bus, "one", "bob", server.pid(), "");
    marker(
        &bus,
        "bob",
        &format!(",\"pid\":{},\"build\":\"{}\"", server.pid(), build()),
    );
    assert_eq!(bus.look().findings, []);
    fs::copy(sleep, programs.path().join("next")).unwrap();
    fs::rename(programs.path().join("next"), &program).unwrap();
    let found = bus.one("stale-server");
    assert_eq!(found.subject, format!("process {}", server.pid()));
    assert!(found.severity == Severity::Warning && found.message.contains("bob"));
    assert_eq!(bus.one("stale-server-marker").subject, "transports/bob.json");
    bus.fix();
    assert!(bus.path("sessions/one.json").exists() && bus.path("transports/bob.json").exists());
}

// spec: DOC-023
#[test]
fn two_live_connections_of_one_agent_are_found() {
    let bus = Bus::new();
    let me = std::process::id();
    session(&bus, "one", "bob", me, "");
    session(&bus, "two", "ann", me, "");
    session(&bus, "old", "bob", dead(), "");
    assert_eq!(of(&bus.look(), "duplicate-session-binding"), []);
    session(&bus, "three", "bob", me, ",\"forced\":true");
    let found = bus.one("duplicate-session-binding");
    assert_eq!(
        (found.severity, found.subject.as_str(), found.fixable),
        (Severity::Warning, "bob", false)
    );
    assert!(found.message.contains("by force") && found.message.ends_with("End all but one"));
    session(&bus, "three", "bob", me, ",\"transport\":\"http\"");
    let found = bus.one("duplicate-session-binding");
    assert!(
        found.message.contains("by themselves within an hour"),
        "{found:?}"
    );
}

// spec: DOC-024 DOC-028
#[test]
fn connections_of_processes_that_ended_are_cleaned_and_live_ones_are_not() {
    let bus = Bus::new();
    let sleeper = Sleeper::new();
    session(&bus, "dead", "bob", dead(), "");
    session(&bus, "live", "bob", sleeper.pid(), "");
    // The number of a process that began at another time is another process.
    session(&bus, "again", "ann", sleeper.pid(), ",\"pidStart\":1");
    let found: Vec<_> = of(&bus.look(), "session-leftover")
        .into_iter()
        .map(|finding| finding.subject)
        .collect();
    assert_eq!(found, ["sessions/again.json", "sessions/dead.json"]);
    assert_eq!(bus.fix().fixed, 2);
    assert!(bus.path("sessions/live.json").exists());
    assert!(!bus.path("sessions/dead.json").exists() && !bus.path("sessions/again.json").exists());
    assert_eq!(bus.fix().fixed, 0);
}
