//! Packages from install to removal, and what stands in the way of everything that changes behind an approval. Never trusts what it did not look up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use muster_plugin_host::{Act, Change, Host, PluginError, ServerKey, Status, Target};
use serde_json::json;

use crate::common::World;

pub(crate) fn status(host: &Host, id: &str) -> Status {
    host.inspect(id).unwrap().capabilities[0].status
}

pub(crate) fn key() -> ServerKey {
    ServerKey::new("p", "s")
}

pub(crate) fn target() -> Target {
    Target::One(key().stable_id())
}

// spec: TRU-001 TRU-002 TRU-003 TRU-004 TRU-006 TRU-010 TRU-015 TRB-003 MAN-030 LIM-010 APR-014
#[test]
fn an_installed_package_is_inert_until_it_is_approved_as_it_is() {
    let world = World::new();
    let host = &world.host;
    let folder = world.package("p", &[]);
    assert_eq!(host.install(&folder).unwrap(), "p");
    assert!(world.events().is_empty(), "nothing was started");
    let seen = host.inspect("p").unwrap();
    let one = &seen.capabilities[0];
    assert_eq!(one.status, Status::ReviewNeeded);
    assert_eq!(one.stable_id, "plugin:p:mcp_server:s");
    assert_eq!(one.registered_name, "plugin:p:s");
    assert_eq!(one.tool_prefix, "mcp__plugin_p_s__");
    assert_eq!(one.command.as_deref().unwrap(), ["python3", "mcp/server.py"]);
    assert_eq!(one.transport.as_deref(), Some("stdio"));
    assert!(one.approved_hash.is_none() && one.last_start.is_none());
    assert!(one.advice.contains("muster plugins approve p") && one.advice.contains("readOnlyHint"));
    assert!(Path::new(&seen.root).join("mcp/server.py").is_file());
    assert!(!Path::new(&seen.data_dir).exists());
    assert!(!world.path("data/settings.json").exists());
    assert!(matches!(
        host.ready(&key()),
        Err(PluginError::NotRunnable {
            status: Status::ReviewNeeded,
            ..
        })
    ));
    assert!(host.approved().unwrap().servers.is_empty());
    for unknown in ["q", "p:mcp_server:t", "p:hook:s"] {
        let target = Target::parse(unknown).unwrap();
        assert_eq!(
            host.decide(&target, Act::Approve, None).unwrap_err().code(),
            "not_found"
        );
    }
    host.decide(&target(), Act::Approve, None).unwrap();
    assert_eq!(status(host, "p"), Status::TrustedEnabled);
    assert_eq!(host.ready(&key()).unwrap().key, key());
    assert_eq!(host.list().unwrap()[0].id, "p");
    assert_eq!(host.install(&folder).unwrap_err().code(), "name_taken");
    host.decide(&target(), Act::Disable, None).unwrap();
    assert_eq!(status(host, "p"), Status::TrustedDisabled);
    assert!(host.ready(&key()).is_err());
    host.decide(&target(), Act::Reject, None).unwrap();
    assert_eq!(
        host.decide(&target(), Act::Enable, None).unwrap_err().code(),
        "not_allowed"
    );
    host.remove("p").unwrap();
    assert_eq!(host.inspect("p").unwrap_err().code(), "not_found");
    host.install(&folder).unwrap();
    assert_eq!(
        status(host, "p"),
        Status::ReviewNeeded,
        "a removal forgets what was decided"
    );
}

#[test]
fn a_data_folder_named_from_where_one_stands_is_the_same_from_everywhere() {
    let host = Host::new(Path::new("here"), muster_core::Clock::system());
    assert!(host.data_dir("p").is_absolute());
    assert!(host.settings_path().ends_with("here/settings.json"));
}

// spec: TRU-011 TRU-012 TRU-013 TRU-025
#[test]
fn one_server_or_all_of_a_package_is_decided_about_hooks_included() {
    let world = World::new();
    let servers = json!([{"id": "a", "command": ["x"]}, {"id": "b", "command": ["y"]}]);
    let folder = world.package_with("p", &servers);
    let manifest = folder.join(".muse-plugin/plugin.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let with_hook = text.replace(
        "\"mcpServers\"",
        "\"hooks\":[{\"id\":\"h\",\"event\":\"Stop\",\"command\":[\"x\"]}],\"mcpServers\"",
    );
    fs::write(&manifest, with_hook).unwrap();
    world.host.install(&folder).unwrap();
    let statuses = || -> Vec<(String, Status)> {
        let seen = world.host.inspect("p").unwrap();
        seen.capabilities
            .into_iter()
            .map(|one| (one.stable_id, one.status))
            .collect()
    };
    let decide = |target: &str, act| {
        world
            .host
            .decide(&Target::parse(target).unwrap(), act, None)
            .unwrap()
    };
    decide("p:mcp_server:a", Act::Approve);
    let on = Status::TrustedEnabled;
    assert_eq!(statuses().iter().filter(|(_, status)| *status == on).count(), 1);
    decide("p", Act::Approve);
    assert!(statuses().iter().all(|(_, status)| *status == on));
    assert!(statuses().iter().any(|(id, _)| id == "plugin:p:hook:h"));
    decide("plugin:p:mcp_server:b", Act::Reject);
    let approved = world.host.approved().unwrap().servers;
    assert_eq!(approved, [ServerKey::new("p", "a")]);
}

// spec: TRU-005 TRU-018 TRU-019 TRU-020 TRU-021 TRU-022 TRU-023 TRU-026 TRB-004
#[test]
fn any_changed_byte_takes_the_approval_away_at_the_update_and_its_return_brings_it_back() {
    let world = World::new();
    let host = &world.host;
    let folder = world.package("p", &[]);
    fs::write(folder.join("README.md"), "one").unwrap();
    host.install(&folder).unwrap();
    world.approve("p");
    let before = host.inspect("p").unwrap();
    for (file, text) in [
        ("README.md", "two"),
        ("mcp/server.py", "print(1)"),
        (".muse-plugin/plugin.json", "manifest"),
        ("new.txt", "new"),
    ] {
        let path = folder.join(file);
        let old = fs::read(&path).ok();
        let text = if text == "manifest" {
            fs::read_to_string(&path)
                .unwrap()
                .replace("For tests", "for tests")
        } else {
            text.to_owned()
        };
        fs::write(&path, text).unwrap();
        // The source alone changes nothing.
        assert_eq!(status(host, "p"), Status::TrustedEnabled);
        host.ready(&key()).unwrap();
        host.update("p").unwrap();
        let seen = host.inspect("p").unwrap();
        let one = &seen.capabilities[0];
        assert_eq!(one.status, Status::Modified, "{file}");
        assert_eq!(
            serde_json::to_value(&one.diagnostics[0]).unwrap()["code"],
            "modified_definition_hash"
        );
        assert!(one.advice.contains("approve p") && one.advice.contains("new session"));
        assert_ne!(one.definition_hash, before.capabilities[0].definition_hash);
        assert_eq!(
            one.approved_hash.as_ref(),
            Some(&before.capabilities[0].definition_hash)
        );
        assert!(host.ready(&key()).is_err());
        let changes = host.changes_since_decision(&key().stable_id()).unwrap().unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, file);
        assert_eq!(
            changes[0].change,
            if old.is_some() {
                Change::Changed
            } else {
                Change::Added
            }
        );
        match old {
            Some(old) => fs::write(&path, old).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        host.update("p").unwrap();
        assert_eq!(status(host, "p"), Status::TrustedEnabled, "{file}");
        assert_eq!(host.inspect("p").unwrap().digest, before.digest);
    }
}

// spec: TRU-027
#[test]
fn an_approval_can_name_the_hash_that_was_read() {
    let world = World::new();
    let folder = world.package("p", &[]);
    world.host.install(&folder).unwrap();
    let read = world.host.inspect("p").unwrap().capabilities[0]
        .definition_hash
        .clone();
    fs::write(folder.join("more"), "x").unwrap();
    world.host.update("p").unwrap();
    let refused = world
        .host
        .decide(&target(), Act::Approve, Some(&read))
        .unwrap_err();
    assert_eq!(refused.code(), "hash_mismatch");
    assert_eq!(status(&world.host, "p"), Status::ReviewNeeded);
    let now = world.host.inspect("p").unwrap().capabilities[0]
        .definition_hash
        .clone();
    assert!(refused.to_string().contains(&now));
    world.host.decide(&target(), Act::Approve, Some(&now)).unwrap();
    assert_eq!(status(&world.host, "p"), Status::TrustedEnabled);
}

// spec: TRU-024
#[test]
fn a_stored_copy_that_was_written_to_does_not_start_and_an_update_stores_it_again() {
    let world = World::new();
    world.installed("p", &[]);
    let root = world.host.inspect("p").unwrap().root;
    let file = Path::new(&root).join("mcp/server.py");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o222, 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    // As long as before.
    fs::write(&file, text.replacen("library", "librari", 1)).unwrap();
    assert_eq!(status(&world.host, "p"), Status::Blocked);
    assert!(matches!(
        world.host.ready(&key()),
        Err(PluginError::NotRunnable {
            status: Status::Blocked,
            ..
        })
    ));
    let refused = world.host.decide(&target(), Act::Approve, None).unwrap_err();
    assert_eq!(refused.code(), "not_allowed");
    world.host.update("p").unwrap();
    assert_eq!(status(&world.host, "p"), Status::TrustedEnabled);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(status(&world.host, "p"), Status::Blocked);
    world.host.update("p").unwrap();
    assert!(world.host.ready(&key()).is_ok());
}

// spec: MAN-027 TRU-016
#[test]
fn an_invalid_package_is_not_installed_and_an_invalid_update_stops_what_is() {
    let world = World::new();
    let host = &world.host;
    let bad = world.package_with("bad", &json!([{"id": "s", "command": ["python3", "no/file"]}]));
    let refused = host.install(&bad).unwrap_err();
    assert_eq!(refused.code(), "invalid_package");
    assert_eq!(refused.diagnostics().len(), 1);
    assert!(!world.path("data/plugins").exists(), "nothing is stored");
    let folder = world.package("p", &[]);
    host.install(&folder).unwrap();
    world.approve("p");
    fs::remove_file(folder.join("mcp/server.py")).unwrap();
    assert_eq!(host.update("p").unwrap_err().code(), "invalid_package");
    let seen = host.inspect("p").unwrap();
    assert_eq!(seen.capabilities[0].status, Status::Invalid);
    assert_eq!(seen.capabilities[0].diagnostics.len(), 1);
    assert!(host.ready(&key()).is_err());
    assert_eq!(
        host.decide(&target(), Act::Approve, None).unwrap_err().code(),
        "not_allowed"
    );
    world.package("p", &[]);
    host.update("p").unwrap();
    assert_eq!(status(host, "p"), Status::TrustedEnabled);
    // A folder that is away says nothing about the package: what is approved stays so.
    let away = world.path("away");
    fs::rename(&folder, &away).unwrap();
    assert_eq!(host.update("p").unwrap_err().code(), "no_folder");
    assert_eq!(status(host, "p"), Status::TrustedEnabled);
    fs::rename(&away, &folder).unwrap();
    // Another package in the folder is no update of this one.
    let other = world.package("q", &[]);
    fs::copy(
        other.join(".muse-plugin/plugin.json"),
        folder.join(".muse-plugin/plugin.json"),
    )
    .unwrap();
    assert_eq!(host.update("p").unwrap_err().code(), "invalid_package");
    assert_eq!(status(host, "p"), Status::Invalid);
}

// spec: LIF-007 LIF-008 LIF-009 ENV-016 TRB-005
#[tokio::test]
async fn a_live_session_keeps_its_copy_over_an_update_and_a_removal_and_the_next_gets_the_new_one() {
    let world = World::new();
    world.settings(&json!({"approval_mode": "never-ask"}));
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let root = world.host.inspect("p").unwrap().root;
    let state = world.path("data/plugins/data/p");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("kept"), "x").unwrap();
    fs::write(world.path("packages/p/more"), "x").unwrap();
    world.host.update("p").unwrap();
    assert_ne!(world.host.inspect("p").unwrap().root, root);
    assert!(Path::new(&root).join("mcp/server.py").is_file());
    assert!(agent.call("write", json!({})).await["isError"].is_null());
    world.host.remove("p").unwrap();
    assert!(Path::new(&root).join("mcp/server.py").is_file());
    assert!(agent.call("write", json!({})).await["isError"].is_null());
    agent.close().await;
    assert!(state.join("kept").is_file());
    // The next act on packages clears away what nobody runs from any more.
    world.package("q", &[]);
    world.host.install(&world.path("packages/q")).unwrap();
    assert!(!Path::new(&root).exists());
    assert!(!world.path("data/plugins/cache/p").exists());
    assert_eq!(
        fs::read_dir(world.path("data/plugins/staging")).unwrap().count(),
        0
    );
}

// spec: LIF-005
#[tokio::test]
async fn each_session_has_a_process_of_its_own() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let mut pids = Vec::new();
    let mut agents = Vec::new();
    for _ in 0..2 {
        let mut agent = world.agent(&key);
        agent.initialize().await;
        pids.push(agent.call("environment", json!({})).await["structuredContent"]["pid"].clone());
        agents.push(agent);
    }
    assert_ne!(pids[0], pids[1]);
    for agent in agents {
        agent.close().await;
    }
}

#[test]
fn two_installs_at_once_store_one_package_whole() {
    let world = World::new();
    let folder = world.package("p", &[]);
    for number in 0..200 {
        fs::write(folder.join(format!("file-{number}")), vec![b'x'; 2_000]).unwrap();
    }
    let outcomes: Vec<Result<String, PluginError>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| world.host.install(&folder)))
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|one| one.is_ok()).count(), 1);
    let refused = outcomes.iter().filter_map(|one| one.as_ref().err());
    assert!(refused.map(PluginError::code).all(|code| code == "name_taken"));
    world.approve("p");
    assert!(world.host.ready(&key()).is_ok());
    assert!(world.host.reread("p").unwrap());
    assert_eq!(
        fs::read_dir(world.path("data/plugins/staging")).unwrap().count(),
        0
    );
}

// A file that changes while it is copied: what is stored is what was hashed, so it may be either, never one hashed as the other.
#[test]
fn a_file_that_is_swapped_during_the_install_cannot_run_under_another_files_hash() {
    let world = World::new();
    let folder = world.package("p", &[]);
    let (file, other) = (folder.join("mcp/server.py"), folder.join("other"));
    for number in 0..300 {
        fs::write(folder.join(format!("file-{number:03}")), vec![b'x'; 5_000]).unwrap();
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                fs::write(&other, format!("version {round}")).unwrap();
                fs::rename(&other, &file).unwrap();
                if round.is_multiple_of(3) {
                    let _ = fs::remove_file(&file);
                    let _ = std::os::unix::fs::symlink("/etc/passwd", &file);
                }
            }
        });
        for _ in 0..20 {
            if world.host.install(&folder).is_ok() {
                let seen = world.host.inspect("p").unwrap();
                assert_ne!(seen.capabilities[0].status, Status::Blocked);
                assert!(world.host.reread("p").unwrap());
                let stored = Path::new(&seen.root).join("mcp/server.py");
                assert!(fs::symlink_metadata(&stored).unwrap().is_file());
                assert!(fs::read_to_string(stored).unwrap().starts_with("version"));
                world.host.remove("p").unwrap();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_a_killed_install_left_is_cleared_away_by_the_next() {
    let world = World::new();
    let staging = world.path("data/plugins/staging");
    fs::create_dir_all(staging.join("0123456789abcdef/mcp")).unwrap();
    fs::write(staging.join("0123456789abcdef.lock"), "").unwrap();
    fs::create_dir_all(staging.join("fedcba9876543210")).unwrap();
    world.installed("p", &[]);
    assert_eq!(fs::read_dir(staging).unwrap().count(), 0);
}

#[test]
fn a_full_disk_stores_nothing_and_says_so() {
    let world = World::new();
    let folder = world.package("p", &[]);
    fs::write(folder.join("large"), vec![b'x'; 1 << 20]).unwrap();
    // As an install that may write no more than 64 KiB to a file: the same way out as a full disk.
    let said = with_little_disk("packages::installs_what_it_is_told", &folder, &world.path("data"));
    assert!(
        said.contains("refused: muster could not copy the package"),
        "{said}"
    );
    assert!(world.host.list().unwrap().is_empty());
    assert_eq!(
        fs::read_dir(world.path("data/plugins/staging")).unwrap().count(),
        0
    );
    world.host.install(&folder).unwrap();
}

pub(crate) fn with_little_disk(test: &str, package: &Path, data: &Path) -> String {
    let run = std::process::Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 128; trap '' XFSZ; exec \"$0\" --ignored --exact \"$1\" --nocapture")
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env("TEST_PACKAGE", package)
        .env("TEST_DATA", data)
        .output()
        .unwrap();
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn where_the_ledger_has_no_room_the_approved_copy_stays_and_goes_on_being_served() {
    let world = World::new();
    let key = world.installed("p", &[]);
    // Enough that the ledger is longer than the 10 KiB which the process below may write to a file, and no file of a package is.
    for number in 0..30 {
        world.installed(&format!("q{number}"), &[]);
    }
    let root = world.host.ready(&key).unwrap().root;
    fs::write(world.path("packages/p/new"), "changed").unwrap();
    for act in ["update", "remove"] {
        let run = std::process::Command::new("sh")
            .arg("-c")
            .arg("ulimit -f 20; trap '' XFSZ; exec \"$0\" --ignored --exact packages::installs_what_it_is_told --nocapture")
            .arg(std::env::current_exe().unwrap())
            .env("TEST_ACT", act)
            .env("TEST_PACKAGE", "p")
            .env("TEST_DATA", world.path("data"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(
            said.contains("refused: ") && said.contains("ledger.json"),
            "{act}: {said}"
        );
        let now = world.host.ready(&key).unwrap();
        assert_eq!(now.root, root, "{act}");
        assert!(now.root.join("mcp/server.py").exists(), "{act}");
    }
    // With room again both are done, and only what is named is kept.
    world.host.update("p").unwrap();
    world.host.remove("p").unwrap();
    assert!(!root.exists());
}

#[test]
#[ignore = "run as a process of its own by a_full_disk_stores_nothing_and_says_so"]
fn installs_what_it_is_told() {
    let data = std::env::var("TEST_DATA").unwrap();
    let package = std::env::var("TEST_PACKAGE").unwrap();
    let host = Host::new(Path::new(&data), muster_core::Clock::system());
    let done = match std::env::var("TEST_ACT").as_deref() {
        Ok("update") => host.update(&package).map(|()| package),
        Ok("remove") => host.remove(&package).map(|()| package),
        _ => host.install(Path::new(&package)),
    };
    match done {
        Ok(id) => println!("installed: {id}"),
        Err(error) => println!("refused: {error}"),
    }
}

/// A server that opens the terminal of whoever starts it types what is run there once muster has ended.
#[test]
fn a_server_has_no_terminal_though_its_host_has_one() {
    let world = World::new();
    world.settings(&json!({"approval_mode": "never-ask"}));
    world.installed("p", &[]);
    let run = std::process::Command::new(crate::common::python())
        .args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "packages::looks_for_the_terminal",
            "--nocapture",
        ])
        .env("TEST_DATA", world.path("data"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.contains("the host: opened"), "{said}");
    assert!(
        said.contains("the server: No such device or address, in a session of its own"),
        "{said}"
    );
}

/// An agent with the server of the package `p` in the data folder that this process was told of.
async fn agent_of_this_process() -> crate::common::Agent {
    let data = std::env::var("TEST_DATA").unwrap();
    let host = Host::new(Path::new(&data), muster_core::Clock::system());
    let options = muster_plugin_host::session::Options {
        session: "s".to_owned(),
        dir: std::env::temp_dir(),
        launcher: crate::common::launcher(),
        approver: std::sync::Arc::new(muster_plugin_host::session::Nobody),
        budgets: Default::default(),
    };
    let mut agent = crate::common::Agent::new(host.ready(&key()).unwrap(), options);
    agent.initialize().await;
    agent
}

#[tokio::test]
#[ignore = "run as a process of its own by a_server_has_no_terminal_though_its_host_has_one"]
async fn looks_for_the_terminal() {
    let mut agent = agent_of_this_process().await;
    let found = agent.call("environment", json!({})).await["structuredContent"].clone();
    let own = match fs::File::open("/dev/tty") {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    };
    let session = i64::from(nix::unistd::getsid(None).unwrap().as_raw());
    let whose = if found["session"] == session {
        "ours"
    } else {
        "a session of its own"
    };
    println!("the host: {own}");
    println!("the server: {}, in {whose}", found["terminal"].as_str().unwrap());
    agent.close().await;
}

// spec: LIF-018
#[tokio::test]
async fn a_host_that_is_killed_takes_its_servers_and_all_that_they_started_with_it() {
    let world = World::new();
    world.settings(&json!({"approval_mode": "never-ask"}));
    world.installed("p", &["stubborn"]);
    let exe = std::env::current_exe().unwrap();
    let mut host = std::process::Command::new(exe)
        .args([
            "--ignored",
            "--exact",
            "packages::serves_until_it_is_killed",
            "--nocapture",
        ])
        .env("TEST_DATA", world.path("data"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(host.stdout.take().unwrap());
    let pids: Vec<u64> = loop {
        let mut line = String::new();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0);
        if let Some((_, pids)) = line.split_once("pids ") {
            break serde_json::from_str(pids).unwrap();
        }
    };
    assert!(pids.iter().all(|pid| crate::common::runs(*pid)));
    host.kill().unwrap();
    host.wait().unwrap();
    for pid in pids {
        assert!(
            crate::common::gone(pid, Duration::from_secs(4)).await,
            "{pid} is left"
        );
    }
}

#[tokio::test]
#[ignore = "run as a process of its own by a_host_that_is_killed_takes_its_servers_and_all_that_they_started_with_it"]
async fn serves_until_it_is_killed() {
    let mut agent = agent_of_this_process().await;
    let pids = agent.call("spawn", json!({})).await["structuredContent"]["pids"].clone();
    println!("pids {pids}");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

// spec: LIM-009 TRB-007 TRB-009 TRB-010 TRB-012
#[tokio::test]
async fn the_example_of_the_documentation_works_as_it_says() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/forecast-tools");
    let world = World::new();
    assert!(world.host.validate(&example).diagnostics.is_empty());
    world.host.install(&example).unwrap();
    world.approve("forecast-tools");
    let remember = "mcp__plugin_forecast_tools_forecast__remember_region";
    world.settings(&json!({"permissions": {"allow": [remember]}}));
    let key = ServerKey::new("forecast-tools", "forecast");
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let tools = agent.tools().await;
    assert_eq!(
        tools[0]["_meta"]["muster/registered_name"],
        "mcp__plugin_forecast_tools_forecast__describe_forecast"
    );
    let call = agent
        .call(
            "describe_forecast",
            json!({"region": "coast", "season": "winter"}),
        )
        .await;
    assert!(
        call["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("coast in winter")
    );
    let unknown = agent.call("describe_forecast", json!({"region": "moon"})).await;
    assert_eq!(unknown["isError"], true);
    let state = world.path("data/plugins/data/forecast-tools");
    assert!(!state.exists());
    assert!(agent.call("remember_region", json!({"region": "hills"})).await["isError"].is_null());
    assert!(state.join("region").is_file());
    agent.close().await;
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let kept = agent.call("describe_forecast", json!({"region": "moon"})).await;
    assert!(kept["content"][0]["text"].as_str().unwrap().contains("thunder"));
    agent.close().await;
    // What its user puts there is there for it.
    fs::write(state.join("region"), "plain").unwrap();
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let put = agent.call("describe_forecast", json!({"region": "moon"})).await;
    assert!(
        put["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("foggy mornings")
    );
    agent.close().await;
    // By hand, with a pipe.
    let mut by_hand = std::process::Command::new("python3")
        .arg(example.join("mcp/server.py"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n";
    std::io::Write::write_all(&mut by_hand.stdin.take().unwrap(), line).unwrap();
    let said = by_hand.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("\"serverInfo\""));
}
