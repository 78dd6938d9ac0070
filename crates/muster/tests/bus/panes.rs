//! Markers, panes and what runs, as far as a process that types into no pane can answer. Never more than it knows.

use serde_json::json;

use crate::support::{Bus, Calls as _, Process, SHARED, by_both_doors};

fn marker(id: &str, transport: &str, pid: u32, target: &str) -> String {
    json!({"agentId": id, "transport": transport, "pid": pid, "target": target, "tmuxTarget": target, "since": 1, "extra": "kept"})
        .to_string()
}

// spec: TOOL-022 TOOL-023 TOOL-026 TOOL-028 IDN-006
#[test]
fn a_pane_that_cannot_be_read_is_unknown_with_a_reason_and_its_marker_stays_as_it_was() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let ask = |lines: Option<u32>| {
            let mut arguments = json!({"agentId": "alice", "targetAgentId": "bob"});
            if let Some(lines) = lines {
                arguments["lines"] = json!(lines);
            }
            alice.call("read_pane", arguments)
        };
        let got = ask(None).ok();
        assert_eq!((&got["state"], got.get("screen")), (&json!("unknown"), None));
        assert!(got["reason"].as_str().unwrap().contains("not attached"), "{got}");
        bob.ok(
            "report_transport",
            json!({"agentId": "bob", "transport": "tmux-push-remote", "tmuxTarget": "%4"}),
        );
        let before = bus.text("transports/bob.json");
        let got = ask(Some(2_000)).ok();
        assert_eq!(got["state"], "unknown");
        assert!(
            got["reason"].as_str().unwrap().contains("tmux-push-remote"),
            "{got}"
        );
        let sentence = ask(Some(5_000)).refused("invalid_arguments");
        assert!(sentence.contains("2000"), "{sentence}");
        bus.move_clock(3_600);
        let got = ask(None).ok();
        assert!(got["reason"].as_str().unwrap().contains("gone"), "{got}");
        assert_eq!(bus.text("transports/bob.json"), before);
        bus.move_clock(0);
    });
}

// spec: TOOL-095
#[test]
fn detaching_removes_the_marker() {
    by_both_doors(|bus| {
        let bob = bus.joined("bob");
        let pusher = Process::lasting();
        bus.write(
            "transports/bob.json",
            &marker("bob", "herdr", pusher.pid(), "w1:p1"),
        );
        assert_eq!(bob.ok("status", json!({"agentId": "bob"}))["attached"], true);
        assert_eq!(
            bob.ok("detach_agent", json!({"agentId": "bob"}))["detached"],
            true
        );
        assert!(!bus.file("transports/bob.json").exists());
        assert_eq!(bob.ok("status", json!({"agentId": "bob"}))["attached"], false);
    });
}

// spec: TOOL-096 TOOL-097 TOOL-098 STO-017
#[test]
fn a_remote_seat_publishes_its_marker_and_takes_it_back_as_often_as_it_likes() {
    by_both_doors(|bus| {
        let bob = bus.joined("bob");
        let said = bob.ok(
            "report_transport",
            json!({"agentId": "bob", "transport": "tmux-push-remote", "host": "elsewhere", "tmuxTarget": "%4", "since": 99}),
        );
        let file = bus.json("transports/bob.json");
        assert_eq!(said["transport"], file);
        assert_eq!(
            (
                &file["agentId"],
                &file["transport"],
                &file["host"],
                &file["target"],
                &file["tmuxTarget"],
                &file["since"]
            ),
            (
                &json!("bob"),
                &json!("tmux-push-remote"),
                &json!("elsewhere"),
                &json!("%4"),
                &json!("%4"),
                &json!(99)
            )
        );
        let listed = bob.ok("list_agents", json!({}))["agents"][0].clone();
        assert_eq!((&listed["transport"], &listed["attached"]), (&file, &json!(true)));
        let inbox = bus.public();
        for kind in ["heardr", "tmux-push", "", "HERDR"] {
            let sentence = bob.refused(
                "report_transport",
                json!({"agentId": "bob", "transport": kind, "tmuxTarget": "%5"}),
                "refused",
            );
            assert!(sentence.contains("herdr and tmux-push-remote"), "{sentence}");
        }
        assert_eq!(bus.public(), inbox);
        assert_eq!(
            bob.ok("clear_transport", json!({"agentId": "bob"}))["cleared"],
            true
        );
        assert_eq!(
            bob.ok("clear_transport", json!({"agentId": "bob"}))["cleared"],
            false
        );
        assert!(!bus.file("transports/bob.json").exists());
        assert!(
            bus.json("agents.json").get("bob").is_some(),
            "only the marker went"
        );
    });
}

// spec: TOOL-099
#[test]
fn an_attach_without_a_pane_of_its_own_takes_nobodys_and_asks_for_one() {
    for transport in ["herdr", "tmux-push-remote"] {
        let bus = Bus::new().with("AGENT_COORD_TRANSPORT", transport);
        // The daemon runs in a pane; its callers do not.
        let daemon = bus.daemon_with(&[
            ("AGENT_COORD_TOKEN", SHARED),
            ("HERDR_PANE_ID", "w3:p1"),
            ("HERDR_ENV", "1"),
            ("TMUX_PANE", "%3"),
        ]);
        let pusher = Process::lasting();
        bus.write(
            "transports/alice.json",
            &marker("alice", "herdr", pusher.pid(), "w3:p1"),
        );
        let bob = daemon.session(SHARED);
        bob.ok("join", json!({"agentId": "bob"}));
        let before = bus.public();
        let sentence = bob.refused("attach_agent", json!({"agentId": "bob"}), "not_attached");
        assert!(sentence.contains("tmuxTarget"), "{sentence}");
        assert_eq!(bus.public(), before);
        assert_eq!(
            bob.ok("status", json!({"agentId": "bob"}))["tmuxPane"],
            json!(null)
        );
    }
}

// spec: TOOL-100
#[test]
fn a_pane_that_another_live_seat_holds_is_not_taken() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let report = |id: &str, pane: &str| json!({"agentId": id, "transport": "tmux-push-remote", "host": "box", "tmuxTarget": pane});
        alice.ok("report_transport", report("alice", "%1"));
        let sentence = bob.refused("report_transport", report("bob", "%1"), "not_attached");
        assert!(sentence.contains("alice"), "{sentence}");
        assert!(!bus.file("transports/bob.json").exists());
        bob.ok("report_transport", report("bob", "%2"));
        alice.ok("clear_transport", json!({"agentId": "alice"}));
        bob.ok("report_transport", report("bob", "%1"));
    });
}

// spec: TOOL-102 TOOL-103 TOOL-107 TOOL-108 TOOL-109 TOOL-110 TOOL-111 TOOL-112 TOOL-113
#[test]
fn capabilities_tell_what_is_configured_what_runs_and_whose_marker_disagrees() {
    for (config, env, configured, source) in [
        ("", "herdr", "herdr", "env"),
        (
            "{\"transport\": \"herdr\"}",
            "tmux-push-remote",
            "herdr",
            "machine-config",
        ),
        ("{}", "tmux-push-remote", "tmux-push-remote", "env"),
    ] {
        let bus = Bus::new().with("AGENT_COORD_TRANSPORT", env);
        if !config.is_empty() {
            bus.write("config.json", config);
        }
        let pusher = Process::lasting();
        bus.write(
            "transports/live.json",
            &marker("live", "tmux-push", pusher.pid(), "%1"),
        );
        bus.write(
            "transports/dead.json",
            &marker("dead", "tmux-push-remote", 0, "%2"),
        );
        let alice = bus.stdio();
        let before = bus.public();
        let said = alice.ok("capabilities", json!({}));
        let transport = said["transport"].as_object().unwrap();
        let mut fields: Vec<&str> = transport.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "agrees",
                "configured",
                "configuredSource",
                "disagreeingAgents",
                "evidence",
                "running"
            ]
        );
        assert_eq!(
            (&transport["configured"], &transport["configuredSource"]),
            (&json!(configured), &json!(source))
        );
        if configured == "herdr" {
            // No herdr runs here, so no name is put there and nothing agrees.
            assert_eq!(
                (&transport["running"], &transport["agrees"]),
                (&json!(null), &json!(false))
            );
            assert!(transport["evidence"]["reason"].is_string(), "{said}");
            assert_eq!(
                transport["disagreeingAgents"],
                json!(["dead: tmux-push-remote [stale]", "live: tmux-push"])
            );
        } else {
            // Pushers report themselves, and no pusher reported the pane that cannot be.
            assert_eq!(
                (&transport["running"], &transport["agrees"]),
                (&json!(configured), &json!(true))
            );
            assert_eq!(transport["evidence"]["probe"]["state"], "gone", "{said}");
            assert_eq!(transport["disagreeingAgents"], json!(["live: tmux-push"]));
        }
        assert_eq!(bus.public(), before);
        let answered = &said["answeredBy"];
        let own = std::fs::canonicalize(crate::support::MUSTER).unwrap();
        assert_eq!(answered["module"], own.to_str().unwrap());
        assert_eq!(answered["pid"], alice.pid());
        assert_eq!(answered["behindInstalled"], false);
        // Neither of the two binds.
        assert_eq!(alice.ok("ping", json!({}))["alive"], true);
        assert_eq!(alice.ok("ping", json!({"to": "live"}))["reachable"], true);
        assert_eq!(alice.ok("ping", json!({"to": "nobody"}))["alive"], false);
        assert_eq!(bus.public(), before);
        alice.ok("register", json!({"agentId": "anybody"}));
    }
}

// spec: TOOL-112
#[test]
fn another_copy_of_the_program_answers_under_its_own_path() {
    let bus = Bus::new();
    let copy = bus.path("copy-of-muster");
    std::fs::copy(crate::support::MUSTER, &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    command
        .args(["bus", "serve", "--dir", bus.file("").to_str().unwrap()])
        .env_clear()
        .env("AGENT_COORD_TRANSPORT", "herdr");
    let session = crate::support::Stdio::start(command);
    let module = session.ok("capabilities", json!({}))["answeredBy"]["module"].clone();
    assert_eq!(module, std::fs::canonicalize(copy).unwrap().to_str().unwrap());
}

#[test]
fn a_command_for_nobody_attached_is_not_written_anywhere() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        bus.joined("bob");
        let before = bus.public();
        let got = alice.call(
            "send_command",
            json!({"from": "alice", "to": "bob", "command": "/clear"}),
        );
        assert!(!got.failed);
        assert_eq!(
            (&got.body["ok"], &got.body["skipped"]["bob"]),
            (&json!(false), &json!("not attached"))
        );
        assert_eq!(bus.public(), before);
    });
}
