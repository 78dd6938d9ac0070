//! The programs that docs/bus.md prints for the SDKs, and its entries that name a command, run as they stand there.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Bus, Client, Daemon, Sdk, filled, finish, guide, tools};

/// Runs a printed program and expects its one post.
fn posts(bus: &Bus, mut command: std::process::Command, daemon: &Daemon, token: &str, text: &str) {
    command.env("BUS_URL", daemon.url()).env("BUS_TOKEN", token);
    let before = bus.posts().len();
    let (good, said) = finish(bus, command);
    assert!(good, "{said}");
    assert_eq!(
        bus.posts()[before..],
        [("frontend".to_owned(), text.to_owned())],
        "{said}"
    );
}

#[test]
fn the_printed_python_programs_post_on_both_ways() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let token = bus.token("frontend");
    let daemon = bus.daemon(0, None);
    let programs = guide("Python SDK", "python");
    assert_eq!(programs.len(), 2);
    for program in programs {
        fs::write(bus.path("printed.py"), program).unwrap();
        let command = bus.command(tools.join("venv/bin/python"), &["printed.py"]);
        posts(&bus, command, &daemon, &token, "hello from Python");
    }
}

#[test]
fn the_printed_typescript_programs_post_on_both_ways() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let token = bus.token("frontend");
    let daemon = bus.daemon(0, None);
    symlink(tools.join("npm/node_modules"), bus.path("node_modules")).unwrap();
    let programs = guide("TypeScript SDK", "js");
    assert_eq!(programs.len(), 2);
    for program in programs {
        fs::write(bus.path("printed.mjs"), program).unwrap();
        let command = bus.command(tools.join("npm/node_modules/.bin/node"), &["printed.mjs"]);
        posts(&bus, command, &daemon, &token, "hello from TypeScript");
    }
}

/// Cursor is no program that runs without a screen and an account, so its entry is read the way it documents and what it names is started.
// spec: NET-026 NODE-023
#[test]
fn the_printed_entries_for_editors_name_a_program_and_an_address_that_answer() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let token = bus.token("ada");
    let daemon = bus.daemon(0, None);
    for heading in ["Cursor", "Claude Code", "Gemini CLI"] {
        let entries = guide(heading, "json");
        assert_eq!(entries.len(), 2, "{heading}");
        let entry = |text: &str| -> Value {
            serde_json::from_str::<Value>(text).unwrap()["mcpServers"]["agent-coord"].clone()
        };
        let mut client = Client::new(Sdk::Python, &tools);
        let near = entry(&entries[0]);
        let mut command = vec![near["command"].clone()];
        command.extend(near["args"].as_array().unwrap().iter().cloned());
        let mut env: serde_json::Map<String, Value> = bus
            .env()
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect();
        env.extend(near["env"].as_object().cloned().unwrap_or_default());
        let opened = client.ask(
            "open",
            json!({"session": "near", "command": command, "env": env, "mode": "auto"}),
        );
        assert_eq!(opened["name"], "agent-coord", "{heading}: {opened}");
        let far = entry(&filled(&entries[1], &daemon, &token));
        let bearer = far["headers"]["Authorization"]
            .as_str()
            .unwrap()
            .strip_prefix("Bearer ")
            .unwrap();
        client.http(far["url"].as_str().unwrap(), bearer, "far", "auto");
        assert_eq!(
            client.call("far", "register", json!({"agentId": "ada"}))["ok"],
            true,
            "{heading}"
        );
        client.call("far", "unregister", json!({"agentId": "ada"}));
    }
}
