//! Cleaning, checking, scopes and work documents as a client calls them: that each tool does its work by both doors. Never its rules: the library's own tests prove those.

use serde_json::json;

use crate::support::{Bus, Calls as _, by_both_doors};

const DAY: i64 = 24 * 60 * 60;

// spec: PRU-002 PRU-003 PRU-013 PRU-015
#[test]
fn a_prune_moves_what_is_old_and_a_dry_one_only_says_so() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "text": "chatter"}));
        alice.ok(
            "send_message",
            json!({"from": "alice", "text": "verdict", "kind": "decision"}),
        );
        bus.move_clock(8 * DAY);
        alice.ok("join", json!({"agentId": "alice"}));
        alice.ok("send_message", json!({"from": "alice", "text": "fresh"}));
        let before = bus.public();
        let dry = alice.ok("prune", json!({"dryRun": true}));
        assert_eq!(bus.public(), before);
        let real = alice.ok("prune", json!({}));
        let live: Vec<String> = bus
            .lines("room.jsonl")
            .iter()
            .map(|line| line["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(live, ["verdict", "fresh"]);
        assert_eq!(bus.lines("archive/rooms/general.jsonl")[0]["text"], "chatter");
        assert_eq!(dry["wouldRemove"], real["removed"], "{dry} {real}");
        bus.move_clock(0);
    });
}

// spec: DOC-001 DOC-002 DOC-003 DOC-004 DOC-005
#[test]
fn the_doctor_finds_a_broken_line_and_repairs_it_when_told_to_and_the_command_says_the_same() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        alice.ok("send_message", json!({"from": "alice", "text": "good"}));
        assert_eq!(alice.ok("doctor", json!({}))["healthy"], true);
        let broken = format!("not json\n{}", bus.text("room.jsonl"));
        bus.write("room.jsonl", &broken);
        let before = bus.public();
        let found = alice.ok("doctor", json!({}));
        assert_eq!(found["healthy"], false, "{found}");
        assert!(found["findings"].to_string().contains("malformed"), "{found}");
        assert_eq!(bus.public(), before);
        let command = bus.run(&["bus", "doctor", "--json"]);
        assert_eq!(command.status.code(), Some(1));
        let said: serde_json::Value = serde_json::from_str(&command.out).unwrap();
        let checks = |report: &serde_json::Value| {
            let findings = report["findings"].as_array().unwrap();
            let mut checks: Vec<String> = findings
                .iter()
                .map(|finding| finding["check"].to_string())
                .collect();
            checks.sort();
            checks
        };
        assert_eq!(checks(&said), checks(&found));
        let fixed = alice.ok("doctor", json!({"fix": true}));
        assert!(
            fixed["findings"].to_string().contains("\"fixed\":true"),
            "{fixed}"
        );
        assert_eq!(bus.lines("room.jsonl").len(), 1);
        let copies: Vec<_> = bus
            .public()
            .into_iter()
            .filter(|(name, content)| {
                name.to_string_lossy().contains(".bak") && *content == broken.as_bytes()
            })
            .collect();
        assert_eq!(copies.len(), 1);
        assert_eq!(alice.ok("doctor", json!({}))["healthy"], true);
    });
}

// spec: DOC-002
#[test]
fn commands_that_look_make_no_bus_where_there_is_none() {
    let bus = Bus::new();
    let typo = bus.path("typo");
    std::fs::create_dir_all(bus.path("empty")).unwrap();
    for dir in [typo.clone(), bus.path("empty")] {
        let dir = dir.to_str().unwrap();
        for arguments in [
            &["bus", "doctor", "--dir", dir][..],
            &["bus", "doctor", "--fix", "--dir", dir],
            &["bus", "token", "list", "--dir", dir],
            &["bus", "token", "revoke", "alice", "--dir", dir],
        ] {
            let said = bus.run(arguments);
            assert_eq!(said.status.code(), Some(1), "{arguments:?}: {said:?}");
            let words = format!("there is no bus at {dir}: `muster init --dir {dir}` makes one");
            assert!(said.err.contains(&words), "{arguments:?}: {said:?}");
        }
    }
    assert!(!typo.exists());
    assert_eq!(std::fs::read_dir(bus.path("empty")).unwrap().count(), 0);
}

// spec: DOC-005
#[test]
fn the_doctor_command_names_its_directory_and_counts_what_is_left_after_its_repairs() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    let said = bus.run(&["init"]);
    assert!(said.out.starts_with("wrote "), "{said:?}");
    let dir = bus.path("bus").canonicalize().unwrap().display().to_string();
    let verdict = |arguments: &[&str], code: i32| {
        let said = bus.run(&[&["bus", "doctor"], arguments].concat());
        assert_eq!(said.status.code(), Some(code), "{said:?}");
        said.out.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        verdict(&[], 0),
        format!("healthy: the bus at {dir} is consistent")
    );
    bus.write("room.jsonl", "damage\n");
    bus.write("tokens.json", "[]");
    let said = verdict(&[], 1);
    assert!(
        said.starts_with("not healthy") && said.contains(&dir) && said.contains("--fix"),
        "{said}"
    );
    let said = verdict(&["--fix"], 1);
    assert!(
        !said.contains("--fix") && said.ends_with("1 error is to be put right by hand"),
        "{said}"
    );
    std::fs::remove_file(bus.file("tokens.json")).unwrap();
    verdict(&[], 0);
    // Damage in what chooses the transport is no health, whatever was repaired.
    bus.write("config.json", "{\"mode\": \"nat");
    let said = bus.run(&["bus", "doctor", "--fix"]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    for words in [
        "`muster init --mode native` puts native back",
        "it names no transport, so no server starts: run `muster init`",
    ] {
        assert!(said.out.contains(words), "{said:?}");
    }
    assert!(bus.run(&["init", "--mode", "native"]).status.success());
    verdict(&[], 0);
}

#[test]
fn init_says_whether_it_changed_anything_and_writes_nothing_that_stands_there() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    bus.write(
        "config.json",
        "{\"transport\":\"herdr\",\"mode\":\"native\",\"mine\":1}",
    );
    let before = bus.text("config.json");
    let said = bus.run(&["init"]);
    assert!(
        said.out.starts_with("nothing to do in ") && said.out.contains("mode native, transport herdr"),
        "{said:?}"
    );
    assert_eq!(bus.text("config.json"), before);
    let said = bus.run(&["init", "--mode", "shared"]);
    assert!(
        said.out.starts_with("wrote ") && said.out.contains("mode shared"),
        "{said:?}"
    );
    let config = bus.json("config.json");
    assert_eq!((&config["mode"], &config["mine"]), (&json!("shared"), &json!(1)));
    bus.write("config.json", "{\"transport\":\"herdr\",\"mode\":\"nativ\"}");
    for arguments in [&["init"][..], &["bus", "serve"]] {
        let said = bus.run(arguments);
        assert!(
            said.status.code() == Some(1)
                && said.err.contains(
                    "mode 'nativ' of config.json does not exist; the valid ones are native and shared"
                ),
            "{said:?}"
        );
    }
}

// spec: WRK-001 WRK-007 WRK-013
#[test]
fn work_documents_are_read_listed_and_written_back_as_they_were() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let repo = bus.path("repo");
        std::fs::create_dir_all(repo.join("docs")).unwrap();
        let queue = "# Queue\n\n## P0\n\n- [ ] first thing\n- [x] second thing\n";
        std::fs::write(repo.join("docs/QUEUE.md"), queue).unwrap();
        let repo = repo.to_str().unwrap();
        alice.ok("import_work", json!({"project": "shop", "repo": repo}));
        let listed = alice.ok("list_work", json!({"project": "shop"}));
        assert!(listed.to_string().contains("first thing") && !listed.to_string().contains("second thing"));
        let written = alice.ok(
            "export_work",
            json!({"project": "shop", "write": true, "repo": repo, "agentId": "alice"}),
        );
        assert_eq!(written["wrote"], true);
        assert_eq!(
            std::fs::read_to_string(bus.path("repo/docs/QUEUE.md")).unwrap(),
            queue
        );
        alice.refused(
            "export_work",
            json!({"project": "shop", "write": true, "repo": repo, "agentId": "bob"}),
            "identity_bound",
        );
    });
}

// spec: SCO-002 SCO-003 SCO-006
#[test]
fn scopes_answer_who_may_write_and_a_broken_file_is_no_absent_one() {
    let bus = Bus::new();
    bus.write("scopes.json", "{\"docs/QUEUE.md\": \"lead\"}");
    let lead = bus.stdio();
    lead.ok("join", json!({"agentId": "ann", "role": "lead"}));
    let yes = lead.ok("list_scopes", json!({"path": "docs/QUEUE.md", "agentId": "ann"}));
    let no = lead.ok("list_scopes", json!({"path": "docs/QUEUE.md", "agentId": "bob"}));
    assert_ne!(yes["mayWrite"], no["mayWrite"], "{yes} {no}");
    bus.write("scopes.json", "{");
    let got = lead.call("list_scopes", json!({}));
    assert_eq!(got.body["ok"], false, "{got:?}");
}
