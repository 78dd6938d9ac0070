//! Which transport a machine uses, and how a fleet goes from one to another. Every answer is asked of the running program.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::bus::{Bus, Calls as _, MUSTER, Said, Stdio, until};
use crate::herdr::{Herdr, Pane};
use crate::support::{Pusher, Tmux, marker, pusher};

const KINDS: [&str; 2] = ["herdr", "tmux-push-remote"];

fn transport(session: &Stdio) -> Value {
    session.ok("capabilities", json!({}))["transport"].clone()
}

/// What a server says that must not start: on standard streams, and as a daemon.
fn refused(bus: &Bus, env: &[(&str, &str)]) -> String {
    let said = bus.stdio_refused(env);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert_eq!(said.out, "", "{said:?}");
    let mut shared = env.to_vec();
    shared.push(("AGENT_COORD_TOKEN", "a-token-of-sufficient-length-for-all"));
    let daemon = bus.refused(&shared);
    assert_eq!(
        (daemon.status.code(), &daemon.err),
        (Some(1), &said.err),
        "{daemon:?}"
    );
    for kind in KINDS {
        assert!(said.err.contains(kind), "{kind} is not named: {}", said.err);
    }
    said.err
}

// spec: PUSH-002 PUSH-003 PUSH-004 PUSH-005 PUSH-010
#[test]
fn the_file_of_a_machine_comes_before_the_variable_of_a_process() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    for kind in KINDS {
        let by_variable = transport(&bus.stdio_with(&[("AGENT_COORD_TRANSPORT", kind)]));
        assert_eq!(
            (&by_variable["configured"], &by_variable["configuredSource"]),
            (&json!(kind), &json!("env"))
        );
    }
    bus.write("config.json", "{}");
    let silent = transport(&bus.stdio_with(&[("AGENT_COORD_TRANSPORT", "herdr")]));
    assert_eq!(silent["configuredSource"], "env", "{silent}");
    for (kind, other) in [("herdr", "tmux-push-remote"), ("tmux-push-remote", "herdr")] {
        bus.write("config.json", &json!({"transport": kind}).to_string());
        for env in [&[][..], &[("AGENT_COORD_TRANSPORT", other)]] {
            let by_file = transport(&bus.stdio_with(env));
            assert_eq!(
                (&by_file["configured"], &by_file["configuredSource"]),
                (&json!(kind), &json!("machine-config")),
                "{env:?}"
            );
        }
    }
}

// spec: PUSH-006 PUSH-007 PUSH-008 PUSH-009
#[test]
fn without_a_transport_that_exists_no_server_starts() {
    let bus = Bus::new().with("AGENT_COORD_TRANSPORT", "");
    let bare = refused(&bus, &[]);
    assert!(bare.contains("no transport is chosen"), "{bare}");
    for wrong in ["heardr", "tmux-push", "HERDR", "herdr "] {
        let said = refused(&bus, &[("AGENT_COORD_TRANSPORT", wrong)]);
        assert!(said.contains(wrong), "{said}");
        bus.write("config.json", &json!({"transport": wrong}).to_string());
        // The file is what counts, and a variable does not make it good.
        let said = refused(&bus, &[("AGENT_COORD_TRANSPORT", "herdr")]);
        assert!(said.contains("config.json") && said.contains(wrong), "{said}");
        fs::remove_file(bus.file("config.json")).unwrap();
    }
    for broken in ["{\"transport\": \"her", "[]", "{\"transport\": 7}"] {
        bus.write("config.json", broken);
        let said = bus.stdio_refused(&[("AGENT_COORD_TRANSPORT", "herdr")]);
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(said.err.contains("config.json"), "{said:?}");
        assert_eq!(bus.text("config.json"), broken);
    }
}

// spec: PUSH-001 PUSH-011 MIG-003 MIG-004 MIG-005
#[test]
fn a_fleet_goes_over_seat_by_seat_and_back_by_the_config_alone() {
    let herdr = Herdr::new();
    for pane in ["w1:p1", "w1:p2"] {
        herdr.put(pane, Pane::idle());
    }
    let (bus, tmux) = (
        Bus::new()
            .with("AGENT_COORD_TRANSPORT", "")
            .with("HERDR_SOCKET_PATH", herdr.socket().to_str().unwrap()),
        Tmux::new(),
    );
    let choose = |kind: &str| bus.write("config.json", &json!({"transport": kind}).to_string());
    choose("tmux-push-remote");
    let daemon = bus.daemon();
    let shared = crate::bus::SHARED;
    let agents = [tmux.agent("one"), tmux.agent("two")];
    let start = |at: usize| Pusher::start(pusher(&bus, &tmux, &daemon.url(), shared, &agents[at]));
    let mut pushers: Vec<Option<Pusher>> = vec![Some(start(0)), Some(start(1))];
    let old = bus.stdio();
    let before = transport(&old);
    assert_eq!(
        (&before["agrees"], &before["disagreeingAgents"]),
        (&json!(true), &json!([])),
        "{before}"
    );

    // The config changes; what runs does not.
    choose("herdr");
    let unmoved = transport(&old);
    assert_eq!(
        (&unmoved["configured"], &unmoved["agrees"]),
        (&json!("tmux-push-remote"), &json!(true))
    );

    // One seat first, and it is looked at before the rest.
    let mut sessions = Vec::new();
    for (at, (seat, pane)) in [("one", "w1:p1"), ("two", "w1:p2")].into_iter().enumerate() {
        assert!(pushers[at].take().unwrap().end_by(Signal::SIGTERM).0.success());
        let session = bus.stdio_with(&[("HERDR_PANE_ID", pane)]);
        session.ok("join", json!({"agentId": seat}));
        let now = transport(&session);
        assert_eq!(
            (&now["running"], &now["agrees"]),
            (&json!("herdr"), &json!(true)),
            "{now}"
        );
        let mixed: Vec<&str> = now["disagreeingAgents"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        match at {
            0 => assert!(
                mixed.len() == 1 && mixed[0].starts_with("two: tmux-push-remote"),
                "{mixed:?}"
            ),
            _ => assert_eq!(mixed, [""; 0], "the fleet is over"),
        }
        sessions.push(session);
    }
    assert!(
        sessions
            .iter()
            .all(|session| transport(session)["running"] == "herdr")
    );
    let checked = |code: i32| {
        let said = bus.run(&["--json", "bus", "check"]);
        assert_eq!(said.status.code(), Some(code), "{said:?}");
        serde_json::from_str::<Value>(&said.out).unwrap()
    };
    assert_eq!(checked(0)["running"], "herdr");

    // Back again: the config, and no marker is touched by hand.
    choose("tmux-push-remote");
    let still: Vec<Value> = ["one", "two"].iter().map(|seat| marker(&bus, seat)).collect();
    assert!(
        still.iter().all(|marker| marker["transport"] == "herdr"),
        "{still:?}"
    );
    assert_eq!(checked(1)["disagreeingAgents"].as_array().unwrap().len(), 2);
    for session in sessions {
        session.close();
    }
    until("their markers are gone", || {
        !bus.file("transports/one.json").exists() && !bus.file("transports/two.json").exists()
    });
    let _pushers = [start(0), start(1)];
    let back = transport(&bus.stdio());
    assert_eq!(
        (&back["running"], &back["disagreeingAgents"]),
        (&json!("tmux-push-remote"), &json!([])),
        "{back}"
    );
    let peer = bus.joined("peer");
    for agent in &agents {
        peer.ok(
            "send_message",
            json!({"from": "peer", "to": agent.id, "text": "back again"}),
        );
        agent.gets("back again");
    }
}

// spec: MIG-007
#[test]
fn a_message_shows_whether_a_seat_is_reached() {
    let herdr = Herdr::new();
    herdr.put("w1:p1", Pane::idle());
    let bus = Bus::new()
        .with("AGENT_COORD_TRANSPORT", "herdr")
        .with("HERDR_SOCKET_PATH", herdr.socket().to_str().unwrap());
    let seat = bus.stdio_with(&[("HERDR_PANE_ID", "w1:p1")]);
    seat.ok("join", json!({"agentId": "seat"}));
    let operator = bus.joined("operator");
    operator.ok(
        "send_message",
        json!({"from": "operator", "to": "seat", "text": "are you there?"}),
    );
    until("it was taken in the pane", || {
        herdr
            .pane("w1:p1")
            .taken
            .iter()
            .any(|taken| taken.contains("are you there?"))
    });
    until("it is read", || {
        operator.ok("status", json!({"agentId": "seat"}))["inboxUnread"] == 0
    });
}

// spec: PUSH-060 PUSH-061 MIG-006
#[test]
fn markers_of_newer_and_older_builds_are_read() {
    let bus = Bus::new();
    let session = bus.joined("operator");
    for seat in ["newer", "older", "dead"] {
        bus.joined(seat);
    }
    let pid = std::process::id();
    let write =
        |seat: &str, marker: Value| bus.write(&format!("transports/{seat}.json"), &marker.to_string());
    write(
        "newer",
        json!({"agentId": "newer", "transport": "herdr", "pid": pid, "target": "w9:p9", "tmuxTarget": "w9:p9",
            "since": 1, "invented": {"later": [1, 2]}, "build": "0"}),
    );
    // It knows only the older name of the pane.
    write(
        "older",
        json!({"agentId": "older", "transport": "herdr", "pid": pid, "tmuxTarget": "w9:p8", "since": 1}),
    );
    write(
        "dead",
        json!({"agentId": "dead", "transport": "herdr", "pid": 4_190_000, "target": "w9:p7", "tmuxTarget": "w9:p7", "since": 1}),
    );
    let agents = session.ok("list_agents", json!({}));
    let row = |seat: &str| {
        let mut rows = agents["agents"].as_array().unwrap().iter();
        rows.find(|row| row["agentId"] == seat)
            .unwrap_or_else(|| panic!("{agents}"))
            .clone()
    };
    let status = |seat: &str| session.ok("status", json!({"agentId": seat}));
    assert_eq!(
        (
            status("newer")["attached"].clone(),
            status("older")["attached"].clone()
        ),
        (json!(true), json!(true))
    );
    assert_eq!(status("dead")["attached"], false);
    assert_ne!(row("newer")["transport"], Value::Null, "{agents}");
    assert_eq!(
        status("newer")["transport"]["invented"],
        json!({"later": [1, 2]}),
        "what a newer build says is kept"
    );
    // A marker of ours has both names, so that an older reader finds the pane.
    session.ok(
        "report_transport",
        json!({"agentId": "operator", "transport": "tmux-push-remote", "tmuxTarget": "%3"}),
    );
    let ours = marker(&bus, "operator");
    assert_eq!(
        (&ours["target"], &ours["tmuxTarget"]),
        (&json!("%3"), &json!("%3"))
    );
}

// spec: MIG-002
#[test]
fn a_seat_runs_what_it_was_started_with_until_it_is_started_again() {
    let bus = Bus::new();
    let installed = bus.path("muster");
    fs::copy(MUSTER, &installed).unwrap();
    let start = || {
        let usual = bus.command(&["bus", "serve"]);
        let mut command = Command::new(&installed);
        command.args(["bus", "serve"]).env_clear();
        for (name, value) in usual.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        Stdio::start(command)
    };
    let answered = |session: &Stdio| session.ok("capabilities", json!({}))["answeredBy"].clone();
    let seat = start();
    let before = answered(&seat);
    assert_eq!(
        (&before["behindInstalled"], &before["module"]),
        (&json!(false), &json!(installed)),
        "{before}"
    );
    // Another build is installed over it.
    let newer = bus.path("muster.new");
    let mut program = fs::read(MUSTER).unwrap();
    program.extend_from_slice(b"another build");
    fs::write(&newer, program).unwrap();
    fs::set_permissions(&newer, fs::metadata(MUSTER).unwrap().permissions()).unwrap();
    fs::rename(&newer, &installed).unwrap();
    let behind = answered(&seat);
    assert_eq!(
        (&behind["behindInstalled"], &behind["build"]),
        (&json!(true), &before["build"]),
        "{behind}"
    );
    drop(seat);
    let after = answered(&start());
    assert_eq!(after["behindInstalled"], false, "{after}");
    assert_ne!(after["build"], before["build"]);
}

// spec: MIG-008
#[test]
fn one_command_tells_a_script_whether_the_fleet_agrees() {
    let herdr = Herdr::new();
    let bus = Bus::new()
        .with("AGENT_COORD_TRANSPORT", "herdr")
        .with("HERDR_SOCKET_PATH", herdr.socket().to_str().unwrap());
    let session = bus.joined("other");
    let check = || bus.run(&["--json", "bus", "check"]);
    let good = check();
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let said: Value = serde_json::from_str(&good.out).unwrap();
    assert_eq!(
        (&said["agrees"], &said["running"], &said["disagreeingAgents"]),
        (&json!(true), &json!("herdr"), &json!([]))
    );
    let words = bus.run(&["bus", "check"]);
    assert!(
        words.status.success() && words.out.contains("herdr") && words.out.contains("agrees"),
        "{words:?}"
    );
    // A seat of another transport.
    session.ok(
        "report_transport",
        json!({"agentId": "other", "transport": "tmux-push-remote", "tmuxTarget": "%3"}),
    );
    let mixed = check();
    assert_eq!(mixed.status.code(), Some(1), "{mixed:?}");
    let said: Value = serde_json::from_str(&mixed.out).unwrap();
    assert!(
        said["disagreeingAgents"][0]
            .as_str()
            .unwrap()
            .starts_with("other: tmux-push-remote"),
        "{said}"
    );
    // Nothing that runs.
    session.ok("clear_transport", json!({"agentId": "other"}));
    drop(herdr);
    let gone = check();
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    let said: Value = serde_json::from_str(&gone.out).unwrap();
    assert_eq!((&said["agrees"], &said["running"]), (&json!(false), &Value::Null));
    // Nothing that is chosen.
    let said = Said::of({
        let mut command = bus.command(&["bus", "check"]);
        command.env_remove("AGENT_COORD_TRANSPORT");
        command
    });
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.contains("no transport is chosen"), "{said:?}");
}
