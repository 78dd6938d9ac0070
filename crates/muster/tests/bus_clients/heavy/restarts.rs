//! A daemon that is stopped or killed under open sessions, and what each official client sees of it.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Bus, CLIENTS, Client, texts, tools};

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

#[test]
fn a_daemon_that_stops_answers_a_wait_and_takes_nothing_for_it() {
    let Some(tools) = tools() else { return };
    for (sdk, mode) in CLIENTS {
        let bus = Bus::new();
        let tokens = ["ada", "bea"].map(|agent| bus.token(agent));
        let daemon = bus.daemon(0, None);
        let mut client = Client::new(sdk, &tools);
        client.http(&daemon.url(), &tokens[0], "ada", mode);
        client.http(&daemon.url(), &tokens[1], "bea", mode);
        let wait = json!({"agentId": "ada", "source": "inbox", "timeoutMs": 50_000});
        let waiting = client.begin(
            "call",
            json!({"session": "ada", "tool": "wait_for_message", "arguments": wait}),
        );
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while client.call("bea", "ping", json!({"to": "ada"}))["checks"]["session"] != true {
            assert!(
                std::time::Instant::now() < end,
                "{sdk:?} {mode}: the wait did not begin"
            );
        }
        let begun = std::time::Instant::now();
        daemon.end(Signal::SIGTERM);
        assert!(
            begun.elapsed().as_secs() < 8,
            "{sdk:?} {mode}: {:?}",
            begun.elapsed()
        );
        let answer = client.answer(waiting);
        assert!(
            answer["ok"] == false || answer["body"]["returned"] == 0,
            "{sdk:?} {mode}: {answer}"
        );
        client.stdio(&bus, "cai", mode);
        client.call(
            "cai",
            "send_message",
            json!({"from": "cai", "to": "ada", "text": "still here"}),
        );
        assert_eq!(
            client.call("cai", "status", json!({"agentId": "ada"}))["inboxUnread"],
            1
        );
    }
}
