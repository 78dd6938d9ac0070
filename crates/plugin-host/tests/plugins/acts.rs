//! Acts on packages that end halfway or meet others, and what is found meanwhile. Never leaves a copy that was approved to chance.

use std::fs;
use std::path::Path;

use muster_plugin_host::{Act, Host, PluginError, Status};
use serde_json::json;

use crate::common::World;
use crate::packages::{key, status, target, with_little_disk};

// The ledger is larger than a file may be, the copies are not: the failure comes after the new copy has its name.
#[test]
fn an_update_whose_ledger_is_not_written_leaves_the_approved_copy_and_the_next_act_clears_up() {
    let world = World::new();
    let folder = world.package("p", &[]);
    world.host.install(&folder).unwrap();
    world.host.decide(&target(), Act::Approve, None).unwrap();
    let ledger = world.path("data/plugins/ledger.json");
    let mut book: serde_json::Value = serde_json::from_slice(&fs::read(&ledger).unwrap()).unwrap();
    book["starts"]["plugin:p:mcp_server:s"] =
        json!({"at": book["packages"]["p"]["at"], "ok": false, "error": "x".repeat(200_000)});
    fs::write(&ledger, book.to_string()).unwrap();
    let copies = || -> usize {
        let found = fs::read_dir(world.path("data/plugins/cache/p"))
            .unwrap()
            .flatten();
        found.filter(|entry| entry.path().is_dir()).count()
    };
    fs::write(folder.join("more"), "new").unwrap();
    let said = with_little_disk("acts::updates_what_it_is_told", &folder, &world.path("data"));
    assert!(said.contains("refused: muster could not write"), "{said}");
    assert_eq!(status(&world.host, "p"), Status::TrustedEnabled);
    assert!(world.host.ready(&key()).is_ok());
    assert_eq!(copies(), 1, "what was stored for nothing is gone");
    // As after a kill between the copy and the ledger.
    fs::create_dir_all(world.path("data/plugins/cache/p").join("ab".repeat(32))).unwrap();
    assert_eq!(copies(), 2);
    world.host.decide(&target(), Act::Disable, None).unwrap();
    assert_eq!(copies(), 1);
    world.host.update("p").unwrap();
    assert_eq!(copies(), 1);
    assert_eq!(status(&world.host, "p"), Status::Modified);
}

#[test]
fn a_look_during_updates_and_removals_finds_one_state_or_the_other_and_never_half_of_one() {
    let world = World::new();
    let folder = world.package("p", &[]);
    for number in 0..200 {
        fs::write(folder.join(format!("file-{number:03}")), "x").unwrap();
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let go_on = || !stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..4)
            .map(|number| {
                let (host, go_on) = (&world.host, &go_on);
                scope.spawn(move || {
                    let mut odd = Vec::new();
                    while go_on() {
                        let found = if number % 2 == 0 {
                            host.ready(&key()).err()
                        } else {
                            let seen = host.inspect("p");
                            if let Ok(seen) = &seen
                                && seen.capabilities[0].status == Status::Blocked
                            {
                                odd.push("inspected as blocked".to_owned());
                            }
                            seen.err()
                        };
                        match found {
                            None | Some(PluginError::NotFound(_)) => {}
                            Some(PluginError::NotRunnable { status, .. }) if status != Status::Blocked => {}
                            Some(other) => odd.push(other.to_string()),
                        }
                    }
                    odd
                })
            })
            .collect();
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..12 {
                fs::write(folder.join("v"), format!("{round}")).unwrap();
                if round % 4 == 0 {
                    let _ = world.host.remove("p");
                    world.host.install(&folder).unwrap();
                } else {
                    world.host.update("p").unwrap();
                }
                world.host.decide(&target(), Act::Approve, None).unwrap();
            }
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for looker in lookers {
            assert_eq!(looker.join().unwrap(), Vec::<String>::new());
        }
        changed.unwrap();
    });
    fs::rename(world.path("data/plugins/cache/p"), world.path("moved")).unwrap();
    assert!(matches!(
        world.host.ready(&key()),
        Err(PluginError::NotRunnable {
            status: Status::Blocked,
            ..
        })
    ));
}

#[test]
#[ignore = "run as a process of its own by an_update_whose_ledger_is_not_written_leaves_the_approved_copy_and_the_next_act_clears_up"]
fn updates_what_it_is_told() {
    let data = std::env::var("TEST_DATA").unwrap();
    let host = Host::new(Path::new(&data), muster_core::Clock::system());
    match host.update("p") {
        Ok(()) => println!("updated"),
        Err(error) => println!("refused: {error}"),
    }
}
