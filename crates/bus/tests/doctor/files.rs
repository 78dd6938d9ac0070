//! The directory, its small files, its tokens and its documents. Never prints a token.

use super::*;
use std::os::unix::fs::symlink;

fn mode(bus: &Bus, name: &str, mode: u32) {
    fs::set_permissions(bus.path(name), fs::Permissions::from_mode(mode)).unwrap();
}

// spec: DOC-022
#[test]
fn a_directory_that_others_may_enter_is_found_and_closed() {
    let bus = Bus::new();
    mode(&bus, "", 0o755);
    assert_eq!(bus.mended("directory").severity, Severity::Warning);
    assert_eq!(fs::metadata(bus.dir.path()).unwrap().mode() & 0o777, 0o700);
}

// spec: DOC-022
#[test]
fn a_folder_where_nothing_can_be_written_is_found() {
    let bus = Bus::new();
    fs::remove_dir_all(bus.path(".muster/new")).unwrap();
    bus.write(".muster/new", "");
    let found = bus.one("directory");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Error, ".muster/new")
    );
}

// spec: DOC-022
#[test]
fn programs_that_are_chosen_and_missing_are_found() {
    let bus = Bus::new();
    bus.write("config.json", "{\"transport\":\"herdr\"}");
    let tools = tempfile::tempdir().unwrap();
    let look = || {
        let options = Options {
            path: Some(tools.path().into()),
            ..LOOK
        };
        of(&doctor(&bus.home, &options), "missing-program")
            .into_iter()
            .map(|finding| finding.subject)
            .collect::<Vec<_>>()
    };
    // Who is there already has a client somewhere.
    assert_eq!(look(), ["herdr"]);
    bus.write("agents.json", "{}");
    assert_eq!(look(), ["herdr", "claude"]);
    for tool in ["herdr", "claude"] {
        fs::write(tools.path().join(tool), "").unwrap();
        fs::set_permissions(tools.path().join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(look(), [""; 0]);
    bus.write("config.json", "{\"transport\":\"heardr\"}");
    assert!(bus.one("transport-config").message.contains("tmux-push-remote"));
}

#[test]
fn what_is_not_the_buss_is_told_of_once_and_stays() {
    let bus = Bus::new();
    for name in [
        "notes.txt",
        "inbox/bob.jsonl.tmp",
        "cursors/stray.tmp",
        "rooms/Not A Name.jsonl",
    ] {
        bus.write(name, "x");
        // What was written just now may be on its way to its place.
        assert_eq!(of(&bus.look(), "stray-file"), []);
        bus.written(name, 1);
        let found = bus.one("stray-file");
        assert!(
            found.severity == Severity::Info && found.message.contains(name),
            "{found:?}"
        );
        bus.fix();
        assert!(bus.path(name).exists());
        fs::remove_file(bus.path(name)).unwrap();
    }
    for name in [
        "room.jsonl.bak",
        "agents.json.bak.3",
        "pids/pusher-bob.pid",
        "chat-colors.json",
    ] {
        bus.write(name, "x");
        bus.written(name, 1);
    }
    assert_eq!(of(&bus.look(), "stray-file"), []);
}

// spec: DOC-018
#[test]
fn a_file_over_the_limit_is_found() {
    let bus = Bus::new();
    bus.write("archive/status.jsonl", "x".repeat(5_000));
    bus.write("logs/pusher.log", "x".repeat(4_001));
    let options = Options {
        max_file_bytes: Some(4_000),
        ..LOOK
    };
    let found = of(&doctor(&bus.home, &options), "oversized-file");
    let found: Vec<_> = found
        .iter()
        .map(|finding| (finding.subject.as_str(), finding.severity))
        .collect();
    assert_eq!(
        found,
        [
            ("logs/pusher.log", Severity::Warning),
            ("archive/status.jsonl", Severity::Info)
        ]
    );
    assert_eq!(of(&bus.look(), "oversized-file"), []);
}

#[test]
fn a_link_is_told_of_and_never_followed() {
    let bus = Bus::new();
    let outside = tempfile::tempdir().unwrap();
    let (log, json) = (outside.path().join("log"), outside.path().join("json"));
    fs::write(&log, "not json at all\n").unwrap();
    fs::write(&json, "{\"torn").unwrap();
    symlink(&log, bus.path("rooms/away.jsonl")).unwrap();
    symlink(&json, bus.path("cursors/away.json")).unwrap();
    symlink(outside.path(), bus.path("archive")).unwrap();
    let report = bus.fix();
    let links: Vec<_> = of(&report, "symbolic-link")
        .into_iter()
        .map(|finding| finding.subject)
        .collect();
    assert_eq!(links.len(), 3, "{links:?}");
    assert!(!report.healthy);
    assert_eq!(fs::read_to_string(&log).unwrap(), "not json at all\n");
    assert_eq!(fs::read_to_string(&json).unwrap(), "{\"torn");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
}

#[test]
fn what_is_no_file_in_place_of_one_is_an_error_that_looking_neither_waits_for_nor_takes_away() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "{}").unwrap();
    for name in [
        "agents.json",
        "rooms.json",
        "room.jsonl",
        "status.jsonl",
        "scopes.json",
        "tokens.json",
        "inbox/bob.jsonl",
        "rooms/seo.jsonl",
        "cursors/bob.json",
        "receipts/bob.jsonl",
        "sessions/one.json",
        "transports/bob.json",
        "work/site.json",
        "archive/inbox/bob.jsonl",
        ".muster/cut/room.jsonl.json",
        ".muster/rename/bob.json",
        ".muster/rename/bob.inbox",
        ".muster/alias/old.json",
        ".muster/index/room.jsonl",
        ".muster/locks/room.jsonl",
        ".muster/history/0123456789ab.json",
    ] {
        for link in [false, true] {
            let bus = Bus::new();
            let path = bus.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            if link {
                symlink(&secret, &path).unwrap();
            } else {
                nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            }
            let home = bus.home.clone();
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::spawn(move || drop(tell.send([doctor(&home, &LOOK), doctor(&home, &FIX)])));
            let reports = told.recv_timeout(Duration::from_secs(60));
            let check = if link { "symbolic-link" } else { "not-a-file" };
            for report in reports.unwrap_or_else(|_| panic!("doctor waits for {name}")) {
                let found = of(&report, check);
                assert_eq!(found.len(), 1, "{name}: {report:#?}");
                assert_eq!(
                    (found[0].severity, found[0].subject.as_str(), found[0].fixable),
                    (Severity::Error, name, false)
                );
                assert!(!report.healthy);
            }
            assert!(
                fs::symlink_metadata(&path).is_ok(),
                "{name} stands where it stood"
            );
            assert_eq!(fs::read(&secret).unwrap(), b"{}", "{name}");
        }
    }
}

#[test]
fn a_config_that_is_no_file_is_told_of_before_anything_else_can_be_looked_at() {
    let bus = Bus::new();
    fs::remove_file(bus.path("config.json")).unwrap();
    nix::unistd::mkfifo(&bus.path("config.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let root = bus.dir.path().to_owned();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (limits, clock) = (
            muster_bus::limits::Limits::default(),
            muster_core::Clock::system(),
        );
        tell.send(muster_bus::doctor::doctor_at(&root, limits, &clock, &FIX))
    });
    let report = told.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(
        (report.findings[0].check, report.findings[0].subject.as_str()),
        ("not-a-file", "config.json")
    );
    assert!(!report.healthy && report.fixed == 0);
}

// spec: DOC-027
#[test]
fn tokens_that_others_may_read_or_that_are_damaged_are_found_and_never_shown() {
    let secret = "tk_0123456789abcdef0123456789abcdef0123456789abcdef";
    let bus = Bus::new();
    bus.write("tokens.json", format!("{{\"bob\":\"{secret}\"}}"));
    mode(&bus, "tokens.json", 0o640);
    let found = bus.mended("tokens");
    assert_eq!(found.severity, Severity::Error);
    assert_eq!(
        fs::metadata(bus.path("tokens.json")).unwrap().mode() & 0o777,
        0o600
    );
    for text in [
        format!("{{\"bob\":\"{secret}\""),
        format!("{{\"bob\":\"{secret}\",\"ann\":\"{secret}\"}}"),
        format!("{{\"no/id\":\"{secret}\"}}"),
        format!("[\"{secret}\"]"),
    ] {
        bus.write("tokens.json", &text);
        let found = bus.one("tokens");
        assert!(!found.fixable);
        assert!(
            !serde_json::to_string(&bus.fix())
                .unwrap()
                .contains("0123456789abcdef")
        );
        assert_eq!(bus.text("tokens.json"), text, "a token is never thrown away");
    }
}

// spec: DOC-003
#[test]
fn a_torn_registry_keeps_its_whole_entries_and_a_copy_of_what_it_was() {
    let bus = Bus::new();
    let whole = bus.text("agents.json");
    let torn = whole.split_at(whole.len() - 40).0;
    bus.write("agents.json", torn);
    assert!(bus.one("damaged-file").fixable);
    let report = bus.fix();
    assert_eq!(of(&report, "damaged-file")[0].fixed, Some(true));
    assert_eq!(bus.text("agents.json.bak"), torn);
    let agents = bus.json("agents.json");
    assert_eq!(agents.keys().collect::<Vec<_>>(), ["ann"]);
    assert_eq!(
        agents["ann"],
        serde_json::from_str::<Entry>(&whole).unwrap()["ann"]
    );
    registry::register(&bus.home, &id("bob"), None, None).unwrap();
    assert!(bus.fix().healthy);
}

// spec: DOC-003
#[test]
fn torn_cursors_and_channels_keep_what_is_whole() {
    let bus = Bus::new();
    bus.write(
        "cursors/bob.json",
        "{\"inboxOffset\": 2, \"statusOffset\": 3, \"roomOff",
    );
    bus.mended("damaged-file");
    assert_eq!(
        bus.json("cursors/bob.json"),
        serde_json::from_str::<Entry>("{\"inboxOffset\":2,\"statusOffset\":3}").unwrap()
    );
    assert_eq!(bus.read("bob", &Source::Inbox).returned, 4);
    bus.write(
        "rooms.json",
        "{\"seo\":{\"topic\":\"t\",\"members\":[\"ann\"]},\"other\":{\"to",
    );
    bus.mended("damaged-file");
    assert_eq!(bus.json("rooms.json")["seo"]["topic"], "t");
}

// spec: DOC-028
#[test]
fn a_damaged_marker_is_put_aside_unless_the_process_it_seems_to_name_runs() {
    let bus = Bus::new();
    let sleeper = Sleeper::new();
    bus.write(
        "sessions/torn.json",
        format!("{{\"pid\": {}, \"agentId\": ", dead()),
    );
    bus.write("transports/bob.json", "not json");
    bus.write(
        "sessions/live.json",
        format!("{{\"pid\": {}, \"agentId\": ", sleeper.pid()),
    );
    let report = bus.fix();
    let found = of(&report, "damaged-file");
    assert_eq!(
        found.iter().filter(|finding| finding.fixed == Some(true)).count(),
        2,
        "{found:#?}"
    );
    assert!(bus.path("sessions/torn.json.bak").exists() && !bus.path("sessions/torn.json").exists());
    assert!(bus.path("transports/bob.json.bak").exists() && !bus.path("transports/bob.json").exists());
    assert!(bus.path("sessions/live.json").exists());
    assert!(!report.healthy);
    drop(sleeper);
    assert_eq!(bus.fix().fixed, 1);
    assert!(!bus.path("sessions/live.json").exists());
}

#[test]
fn imported_work_that_cannot_be_read_is_put_aside() {
    let bus = Bus::new();
    bus.write("work/site.json", "{\"queue\":");
    bus.mended("damaged-file");
    assert_eq!(bus.text("work/site.json.bak"), "{\"queue\":");
}

// spec: DOC-021
#[test]
fn a_document_that_another_role_committed_last_is_found() {
    let bus = Bus::new();
    let repo = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .current_dir(repo.path())
            .args([
                "-c",
                "user.name=bob",
                "-c",
                "user.email=bob@localhost",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(args)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(done.success());
    };
    let document = repo.path().join("PLAN.md");
    fs::write(&document, "plan").unwrap();
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "plan"]);
    let path = fs::canonicalize(&document).unwrap().display().to_string();
    bus.write(
        "scopes.json",
        serde_json::json!({path.as_str(): "lead"}).to_string(),
    );
    let found = bus.one("document-drift");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Warning, path.as_str())
    );
    assert!(
        found.message.contains("'bob' (dev)") && found.message.contains("lead"),
        "{found:?}"
    );
    bus.write(
        "scopes.json",
        serde_json::json!({path.as_str(): "dev"}).to_string(),
    );
    assert_eq!(of(&bus.look(), "document-drift"), []);
    bus.write("scopes.json", "{");
    assert_eq!(bus.one("document-drift").severity, Severity::Error);
}
