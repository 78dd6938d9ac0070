//! A daemon that is stopped or killed under open sessions, and what each official client sees of it.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Bus, CLIENTS, Client, Daemon, Sdk, texts, tools};

// spec: NET-021
#[test]
fn after_a_restart_a_client_with_a_session_begins_anew_and_one_without_carries_on() {
    let Some(tools) = tools() else { return };
    let mut hidden = 0;
    for (sdk, mode) in CLIENTS {
        for shared in [None, Some("one-token-for-all-of-us")] {
            if shared.is_some() && mode == "auto" {
                // Without a session and without a token of its own nobody is anybody for longer than a call.
                continue;
            }
            let bus = Bus::new();
            let token = shared.map_or_else(|| bus.token("ada"), str::to_owned);
            let mut daemon = bus.daemon(0, shared);
            let (url, port) = (daemon.url(), daemon.port);
            let mut client = Client::new(sdk, &tools);
            client.http(&url, &token, "ada", mode);
            client.call("ada", "join", json!({"agentId": "ada"}));
            for signal in [Signal::SIGTERM, Signal::SIGKILL] {
                let text = format!("before {signal}");
                client.call(
                    "ada",
                    "send_message",
                    json!({"from": "ada", "to": "ada", "text": text}),
                );
                daemon.end(signal);
                daemon = bus.daemon(port, shared);
                let read = json!({"agentId": "ada", "source": "inbox"});
                let first = client.whole("ada", "read_messages", read.clone());
                let batch = if mode == "auto" {
                    assert_eq!(first["ok"], true, "{sdk:?} {signal}: {first}");
                    first["body"].clone()
                } else {
                    assert_eq!(first["ok"], false, "{sdk:?} {signal}: {first}");
                    let error = first["error"].as_str().unwrap();
                    assert!(
                        error.contains("Session terminated") || error.contains("Session not found"),
                        "{error}"
                    );
                    hidden += 1;
                    client.ask("close", json!({"session": "ada"}));
                    client.http(&url, &token, "ada", mode);
                    client.call("ada", "read_messages", read)
                };
                assert_eq!(texts(&batch), [text.as_str()], "{sdk:?} {mode} {signal}");
            }
        }
    }
    assert_eq!(
        hidden, 12,
        "three clients with sessions, two kinds of token, two signals"
    );
}

// spec: NET-023
#[test]
fn a_daemon_that_stops_does_not_wait_for_a_wait_and_the_message_that_comes_later_is_unread() {
    let Some(tools) = tools() else { return };
    for (sdk, mode) in CLIENTS {
        let bus = Bus::new();
        let (mut client, daemon, _) = waiting(&bus, sdk, mode, &tools);
        let begun = Instant::now();
        daemon.end(Signal::SIGTERM);
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{sdk:?} {mode}: {:?}",
            begun.elapsed()
        );
        client.stdio(&bus, "cai", mode);
        client.call(
            "cai",
            "send_message",
            json!({"from": "cai", "to": "ada", "text": "still here"}),
        );
        std::thread::sleep(Duration::from_millis(700));
        let status = client.call("cai", "status", json!({"agentId": "ada"}));
        assert_eq!(status["inboxUnread"], 1, "{sdk:?} {mode}");
    }
}

// spec: NET-023
#[test]
fn a_daemon_that_stops_answers_the_wait_that_it_breaks_off() {
    let Some(tools) = tools() else { return };
    for (sdk, mode) in CLIENTS {
        let bus = Bus::new();
        let (client, daemon, wait) = waiting(&bus, sdk, mode, &tools);
        daemon.end(Signal::SIGTERM);
        let answer = client.answer(wait);
        assert_eq!(answer["body"]["cancelled"], true, "{sdk:?} {mode}: {answer}");
        assert_eq!(answer["body"]["returned"], 0, "{sdk:?} {mode}: {answer}");
    }
}

/// A daemon with a wait of `ada` open on it.
fn waiting(bus: &Bus, sdk: Sdk, mode: &str, tools: &Path) -> (Client, Daemon, u64) {
    let tokens = ["ada", "bea"].map(|agent| bus.token(agent));
    let daemon = bus.daemon(0, None);
    let mut client = Client::new(sdk, tools);
    client.http(&daemon.url(), &tokens[0], "ada", mode);
    client.http(&daemon.url(), &tokens[1], "bea", mode);
    // The Python client lists the tools to check an answer, unless it has; a daemon that stops answers no list.
    assert_eq!(client.ask("tools", json!({"session": "ada"}))["ok"], true);
    let wait = client.begin_wait("ada", "ada", "bea");
    (client, daemon, wait)
}
