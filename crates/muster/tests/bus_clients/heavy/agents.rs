//! Claude Code, Codex and Gemini CLI, each set up as docs/bus.md says, with a scripted model in place of a real one.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_testkit::{Model, claude, claude_env};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bus, filled, finish, guide, heard, tools};

/// What an agent does in these tests: it joins and says hello.
fn hello(prefix: &str, namespace: Option<&str>, agent: &str) -> Value {
    let call = |tool: &str, input: Value| {
        let mut step = json!({"tool": format!("{prefix}{tool}"), "input": input});
        if let Some(namespace) = namespace {
            step["namespace"] = namespace.into();
        }
        step
    };
    json!([
        call("join", json!({"agentId": agent, "role": "greeter"})),
        call("send_message", json!({"from": agent, "text": format!("hello from {agent}")})),
        {"text": "done"}
    ])
}

fn said_hello(bus: &Bus, agent: &str, said: &str) {
    let expected = (agent.to_owned(), format!("hello from {agent}"));
    assert_eq!(bus.posts().last(), Some(&expected), "{said}");
}

/// Runs a line of the guide as its reader does.
fn as_printed(bus: &Bus, line: &str) {
    let mut command = bus.command("sh", &["-c", line]);
    command.env("DISABLE_AUTOUPDATER", "1");
    let (good, said) = finish(bus, command);
    assert!(good, "{line}: {said}");
}

fn claude_code(bus: &Bus, model: &Model) -> Command {
    claude_code_asked(bus, model, "say hello")
}

pub(super) fn claude_code_asked(bus: &Bus, model: &Model, prompt: &str) -> Command {
    let mut command = bus.command(
        "claude",
        &[
            "-p",
            prompt,
            "--allowedTools",
            "mcp__agent-coord",
            "--model",
            "claude-sonnet-4-5",
            "--output-format",
            "stream-json",
            "--verbose",
        ],
    );
    command.envs(claude_env(model.port)).env("TERM", "dumb");
    command
}

// spec: NET-026 NODE-023
#[test]
fn claude_code_joins_and_posts_with_the_printed_commands_on_both_ways() {
    let Some(program) = claude() else { return };
    let lines = guide("Claude Code", "sh");
    assert_eq!(lines.len(), 2);
    for (line, far) in lines.iter().zip([false, true]) {
        let bus = Bus::new();
        bus.offer("claude", &program);
        let agent = if far { "claude-far" } else { "claude-near" };
        let (token, model) = (
            bus.token(agent),
            Model::new(&bus.path(""), "model", &hello("mcp__agent-coord__", None, agent)),
        );
        let daemon = bus.daemon(0, None);
        as_printed(
            &bus,
            &if far {
                filled(line, &daemon, &token)
            } else {
                line.clone()
            },
        );
        let (good, said) = finish(&bus, claude_code(&bus, &model));
        assert!(good, "{said}");
        said_hello(&bus, agent, &said);
    }
}

// spec: IDN-033
#[test]
fn claude_code_begins_a_session_where_one_token_is_for_all() {
    let Some(program) = claude() else { return };
    let lines = guide("Claude Code", "sh");
    let (bus, token) = (Bus::new(), "one-token-for-all-of-us");
    bus.offer("claude", &program);
    let model = Model::new(
        &bus.path(""),
        "model",
        &hello("mcp__agent-coord__", None, "claude-shared"),
    );
    let daemon = bus.daemon(0, Some(token));
    as_printed(&bus, &filled(&lines[1], &daemon, token));
    let (good, said) = finish(&bus, claude_code(&bus, &model));
    assert!(good, "{said}");
    said_hello(&bus, "claude-shared", &said);
}

#[test]
fn claude_code_carries_on_after_the_daemon_was_restarted_under_it() {
    let Some(program) = claude() else { return };
    let bus = Bus::new();
    bus.offer("claude", &program);
    let token = bus.token("claude");
    let daemon = bus.daemon(0, None);
    as_printed(&bus, &filled(&guide("Claude Code", "sh")[1], &daemon, &token));
    let mut steps = hello("mcp__agent-coord__", None, "claude");
    // The model answers the join with the next call only once the daemon is another.
    let restarted = bus.path("restarted");
    steps[1]["when"] = restarted.display().to_string().into();
    let model = Model::new(&bus.path(""), "model", &steps);
    let running = claude_code(&bus, &model);
    let said = std::thread::scope(|scope| {
        let agent = scope.spawn(|| finish(&bus, running));
        let joined = || {
            fs::read_to_string(bus.home().join("agent-coord/agents.json"))
                .is_ok_and(|text| text.contains("claude"))
        };
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !joined() {
            assert!(std::time::Instant::now() < end, "it did not join");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        let port = daemon.port;
        daemon.end(Signal::SIGTERM);
        let again = bus.daemon(port, None);
        fs::write(&restarted, "").unwrap();
        let (good, said) = agent.join().unwrap();
        drop(again);
        assert!(good, "{said}");
        said
    });
    said_hello(&bus, "claude", &said);
}

fn codex(bus: &Bus, model: &Model, entry: &str) -> Command {
    let folder = bus.home().join(".codex");
    fs::create_dir_all(&folder).unwrap();
    let settings = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         check_for_update_on_startup = false\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nenv_key = \"SCRIPTED_KEY\"\n\
         wire_api = \"responses\"\n[analytics]\nenabled = false\n[feedback]\nenabled = false\n[otel]\nexporter = \"none\"\n\n{entry}",
        model.url()
    );
    fs::write(folder.join("config.toml"), settings).unwrap();
    let mut command = bus.command(
        "codex",
        &[
            "exec",
            "--skip-git-repo-check",
            "--json",
            "-c",
            "features.plugins=false",
            "say hello",
        ],
    );
    command.envs([("SCRIPTED_KEY", "dummy"), ("TERM", "dumb")]);
    command
}

/// Offers the programs of a package, and the Node that runs them.
fn offer(bus: &Bus, tools: &Path, name: &str) {
    let programs = tools.join("npm/node_modules/.bin");
    bus.offer("node", &programs.join("node"));
    bus.offer(name, &programs.join(name));
}

// spec: NODE-023
#[test]
fn codex_joins_and_posts_with_the_printed_entries_on_both_ways() {
    let Some(tools) = tools() else { return };
    let entries = guide("Codex", "toml");
    assert_eq!(entries.len(), 2);
    for (entry, far) in entries.iter().zip([false, true]) {
        let bus = Bus::new();
        offer(&bus, &tools, "codex");
        let agent = if far { "codex-far" } else { "codex-near" };
        let model = Model::new(
            &bus.path(""),
            "model",
            &hello("", Some("mcp__agent_coord"), agent),
        );
        let token = bus.token(agent);
        let daemon = bus.daemon(0, None);
        let entry = if far {
            entry.replace("HOST:8765", &format!("127.0.0.1:{}", daemon.port))
        } else {
            entry.clone()
        };
        let mut command = codex(&bus, &model, &entry);
        command.env("BUS_TOKEN", token);
        let (good, said) = finish(&bus, command);
        assert!(good, "{said}");
        said_hello(&bus, agent, &said);
        assert!(
            heard(&model).contains("registered"),
            "the model did not see what join answered"
        );
    }
}

// spec: NODE-023
#[test]
fn gemini_cli_joins_and_posts_with_the_printed_entries_on_both_ways() {
    let Some(tools) = tools() else { return };
    let entries = guide("Gemini CLI", "json");
    assert_eq!(entries.len(), 2);
    for (entry, far) in entries.iter().zip([false, true]) {
        let bus = Bus::new();
        offer(&bus, &tools, "gemini");
        let agent = if far { "gemini-far" } else { "gemini-near" };
        let model = Model::new(&bus.path(""), "model", &hello("mcp_agent-coord_", None, agent));
        let token = bus.token(agent);
        let daemon = bus.daemon(0, None);
        let entry = if far {
            filled(entry, &daemon, &token)
        } else {
            entry.clone()
        };
        let mut settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false},
            "general": {"enableAutoUpdate": false}
        });
        settings["mcpServers"] = serde_json::from_str::<Value>(&entry).unwrap()["mcpServers"].clone();
        fs::create_dir_all(bus.home().join(".gemini")).unwrap();
        fs::write(bus.home().join(".gemini/settings.json"), settings.to_string()).unwrap();
        let mut command = bus.command(
            "gemini",
            &[
                "-p",
                "say hello",
                "--approval-mode",
                "yolo",
                "-o",
                "stream-json",
                "--skip-trust",
            ],
        );
        command.envs([
            ("GEMINI_API_KEY", "dummy"),
            ("GOOGLE_GEMINI_BASE_URL", model.url().as_str()),
            ("GEMINI_TELEMETRY_ENABLED", "false"),
            ("NO_BROWSER", "1"),
            ("TERM", "dumb"),
        ]);
        let (good, said) = finish(&bus, command);
        assert!(good, "{said}");
        said_hello(&bus, agent, &said);
    }
}
