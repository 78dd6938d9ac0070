//! Locks that are held and locks that are left, and programs that nobody announced. Never waits for a lock.

use super::*;

// spec: DOC-019 DOC-028
#[test]
fn a_lock_that_nobody_renews_goes_and_one_that_somebody_does_stays() {
    let bus = Bus::new();
    bus.home.choose(Mode::Shared).unwrap();
    fs::create_dir(bus.path("inbox/bob.jsonl.lock")).unwrap();
    fs::create_dir(bus.path("status.jsonl.lock")).unwrap();
    aged(&bus.path("status.jsonl.lock"), 60);
    let home = Home::open(bus.dir.path(), Limits::default(), Clock::system()).unwrap();
    let found = of(&doctor(&home, &LOOK), "stale-lock");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].subject.as_str(), found[0].severity),
        ("status.jsonl.lock", Severity::Warning)
    );
    let fixed = of(&doctor(&home, &FIX), "stale-lock");
    assert_eq!(fixed[0].fixed, Some(true));
    assert!(bus.path("inbox/bob.jsonl.lock").exists() && !bus.path("status.jsonl.lock").exists());
    assert_eq!(of(&doctor(&home, &FIX), "stale-lock"), []);
}

// spec: DOC-019 DOC-028
#[test]
fn a_lock_file_goes_with_the_process_that_it_names() {
    let bus = Bus::new();
    let sleeper = Sleeper::new();
    bus.write("dead.lock", dead().to_string());
    bus.write("rooms/dead.lock", format!("{{\"pid\":{}}}", dead()));
    bus.write("live.lock", format!("{}\n", sleeper.pid()));
    bus.write("unnamed.lock", "");
    let found: Vec<_> = of(&bus.look(), "stale-lock")
        .into_iter()
        .map(|finding| finding.subject)
        .collect();
    assert_eq!(found, ["dead.lock", "rooms/dead.lock"]);
    fs::File::open(bus.path("unnamed.lock"))
        .unwrap()
        .set_modified(hours_ago(1))
        .unwrap();
    let report = bus.fix();
    assert_eq!(report.fixed, 3, "{report:#?}");
    assert!(bus.path("live.lock").exists() && !bus.path("dead.lock").exists());
    assert!(bus.path("dead.lock.bak").exists());
    assert_eq!(bus.fix().fixed, 0);
}

#[test]
fn another_program_at_work_in_a_directory_that_is_said_to_be_ours_alone_is_found() {
    let bus = Bus::new();
    fs::create_dir(bus.path("room.jsonl.lock")).unwrap();
    let found = bus.one("foreign-writer");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Error, "room.jsonl.lock")
    );
    fs::remove_dir(bus.path("room.jsonl.lock")).unwrap();

    let sleeper = Sleeper::new();
    bus.write("pids/pusher-bob.pid", sleeper.pid().to_string());
    bus.write("pids/pusher-ann.pid", dead().to_string());
    let found = bus.one("foreign-writer");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Warning, "pids/pusher-bob.pid")
    );
    drop(sleeper);

    let text = bus.text("room.jsonl");
    bus.write(
        "room.jsonl",
        text + "{\"id\":\"foreign\",\"ts\":1,\"from\":\"x\",\"text\":\"t\"}\n",
    );
    let found = bus.one("foreign-writer");
    assert_eq!(
        (found.severity, found.subject.as_str()),
        (Severity::Info, "room.jsonl")
    );
    // Once it was read here, it is known.
    bus.read("bob", &Source::Room(room("general")));
    assert_eq!(of(&bus.look(), "foreign-writer"), []);
}

#[test]
fn in_a_shared_directory_other_programs_are_expected() {
    let bus = Bus::new();
    bus.home.choose(Mode::Shared).unwrap();
    let home = Home::open(bus.dir.path(), Limits::default(), Clock::system()).unwrap();
    let sleeper = Sleeper::new();
    bus.write("pids/pusher-bob.pid", sleeper.pid().to_string());
    fs::create_dir(bus.path("room.jsonl.lock")).unwrap();
    assert_eq!(of(&doctor(&home, &LOOK), "foreign-writer"), []);
}

#[test]
fn locks_of_what_is_gone_and_notes_about_nobody_are_found_and_taken_away() {
    let bus = Bus::new();
    post::send(&bus.home, &id("ann"), &id("carl"), "x").unwrap();
    fs::remove_file(bus.path("inbox/carl.jsonl")).unwrap();
    bus.write(".muster/last/carl.json", "{\"session\":\"s\"}");
    bus.write(".muster/last/bob.json", "{\"session\":\"s\"}");
    let found = bus.mended("unused-file");
    assert_eq!(found.severity, Severity::Info);
    assert!(
        found.message.starts_with("1 lock files") && found.message.contains("1 notes"),
        "{found:?}"
    );
    assert!(!bus.path(".muster/locks/inbox+carl.jsonl").exists());
    assert!(!bus.path(".muster/index/inbox+carl.jsonl").exists());
    assert!(bus.path(".muster/locks/inbox+bob.jsonl").exists());
    assert!(!bus.path(".muster/last/carl.json").exists() && bus.path(".muster/last/bob.json").exists());
}

#[test]
fn a_lock_folder_that_waits_in_its_private_place_is_no_finding_and_any_other_folder_there_is() {
    let bus = Bus::new();
    for name in [
        "taking-config.json",
        "taking-inbox+bob.jsonl",
        "stolen-room.jsonl.lock",
    ] {
        fs::create_dir(bus.path(".muster/locks").join(name)).unwrap();
    }
    assert_eq!(bus.look().findings, []);
    fs::create_dir(bus.path(".muster/locks/inbox+ann.jsonl.d")).unwrap();
    assert_eq!(bus.one("not-a-file").subject, ".muster/locks/inbox+ann.jsonl.d");
}
