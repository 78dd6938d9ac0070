//! Servers that others wrote: the official Everything server and the SDKs of two languages, unmodified. Never runs without the tools that ./test installs.

use std::path::PathBuf;

use muster_plugin_host::ServerKey;
use serde_json::{Value, json};

use crate::common::{Agent, World};

/// The folder of tools when it holds `needed`.
pub(crate) fn tools(needed: &str) -> Option<PathBuf> {
    let found = std::env::var_os("MUSTER_TEST_TOOLS")
        .map(PathBuf::from)
        .filter(|folder| folder.join(needed).exists());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_TOOLS holds no {needed}: ./test installs it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_TOOLS holds no {needed} (./test installs it)");
    }
    found
}

pub(crate) fn own(name: &str) -> String {
    format!("{}/tests/servers/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn open(world: &World, command: &[&str]) -> Agent {
    let servers = json!([{"id": "s", "command": command}]);
    world.host.install(&world.package_with("p", &servers)).unwrap();
    world.approve("p");
    world.settings(&json!({"approval_mode": "never-ask"}));
    world.agent(&ServerKey::new("p", "s"))
}

fn modern() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}})
}

#[tokio::test]
async fn the_official_everything_server_works_with_all_its_parts() {
    let needed = "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some(folder) = tools(needed) else { return };
    let world = World::new();
    let node = folder.join("bin/node");
    let mut agent = open(
        &world,
        &[
            &node.to_string_lossy(),
            &folder.join(needed).to_string_lossy(),
            "stdio",
        ],
    );
    let hello = agent.initialize().await;
    assert_eq!(hello["serverInfo"]["name"], "plugin_p_s");
    let names = agent.names().await;
    assert!(names.len() > 8, "{names:?}");
    let echo = agent.call("echo", json!({"message": "hé"})).await;
    assert!(echo["content"][0]["text"].as_str().unwrap().contains("hé"));
    let image = names.iter().find(|name| name.contains("image")).unwrap().clone();
    let image = agent.call(&image, json!({})).await;
    assert!(
        image["content"]
            .as_array()
            .unwrap()
            .iter()
            .any(|part| part["type"] == "image")
    );
    let structured = names
        .iter()
        .find(|name| name.contains("structured"))
        .unwrap()
        .clone();
    let structured = agent.call(&structured, json!({"location": "New York"})).await;
    assert!(structured["structuredContent"].is_object(), "{structured}");
    let prompts = agent.ask("prompts/list", json!({})).await;
    assert!(!prompts["result"]["prompts"].as_array().unwrap().is_empty());
    let resources = agent.ask("resources/list", json!({})).await;
    let uri = resources["result"]["resources"][0]["uri"].clone();
    let read = agent.ask("resources/read", json!({"uri": uri})).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    let long = names
        .iter()
        .find(|name| name.contains("long-running") || name.contains("long_running"))
        .cloned();
    if let Some(long) = long {
        let done = agent
            .ask(
                "tools/call",
                json!({"name": long, "arguments": {"duration": 1, "steps": 3}, "_meta": {"progressToken": "mine"}}),
            )
            .await;
        assert!(done["result"]["content"].is_array(), "{done}");
        let progress: Vec<&Value> = agent
            .others
            .iter()
            .filter(|m| m["method"] == "notifications/progress")
            .collect();
        assert!(!progress.is_empty() && progress.iter().all(|m| m["params"]["progressToken"] == "mine"));
    }
    agent.close().await;
}

#[tokio::test]
async fn a_server_of_the_python_sdk_works_in_both_eras() {
    let Some(folder) = tools("venv/bin/python") else {
        return;
    };
    let python = folder.join("venv/bin/python").to_string_lossy().into_owned();
    let world = World::new();
    let command = [python.as_str(), &own("sdk.py")];
    let mut agent = open(&world, &command);
    agent.initialize().await;
    assert_eq!(agent.names().await, ["add", "say_it"]);
    let sum = agent.call("add", json!({"a": 2, "b": 3})).await;
    assert_eq!(sum["content"][0]["text"], "5");
    assert_eq!(
        agent.call("say_it", json!({"text": "x"})).await["content"][0]["text"],
        "you said x"
    );
    agent.close().await;
    let mut agent = world.agent(&ServerKey::new("p", "s"));
    let hello = agent.ask("server/discover", json!({"_meta": modern()})).await;
    assert!(hello["result"]["supportedVersions"].is_array(), "{hello}");
    let sum = agent
        .ask(
            "tools/call",
            json!({"name": "add", "arguments": {"a": 1, "b": 1}, "_meta": modern()}),
        )
        .await;
    assert_eq!(sum["result"]["content"][0]["text"], "2", "{sum}");
    agent.close().await;
}

#[tokio::test]
async fn servers_of_both_typescript_sdks_work() {
    let Some(folder) = tools("npm/node_modules/@modelcontextprotocol/server") else {
        return;
    };
    for generation in ["1", "2"] {
        let world = World::new();
        let node = folder.join("bin/node").to_string_lossy().into_owned();
        let modules = folder.join("npm").to_string_lossy().into_owned();
        let mut agent = open(&world, &[&node, &own("sdk.mjs"), &modules, generation]);
        let hello = agent.initialize().await;
        assert_eq!(hello["serverInfo"]["version"], format!("{generation}.0.0"));
        let tools = agent.tools().await;
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
        assert_eq!(
            tools[0]["_meta"]["muster/registered_name"],
            "mcp__plugin_p_s__add"
        );
        let sum = agent.call("add", json!({"a": 2, "b": 3})).await;
        assert_eq!(sum["structuredContent"], json!({"sum": 5}));
        let wrong = agent
            .ask("tools/call", json!({"name": "add", "arguments": {"a": "x"}}))
            .await;
        assert!(wrong.get("error").is_some() || wrong["result"]["isError"] == true);
        agent.close().await;
    }
}

// spec: LIF-006
#[tokio::test]
async fn slow_servers_start_side_by_side() {
    let world = World::new();
    let keys: Vec<ServerKey> = ["a", "b", "c"]
        .iter()
        .map(|id| world.installed(id, &["late", "2"]))
        .collect();
    let begun = std::time::Instant::now();
    let mut agents: Vec<Agent> = keys.iter().map(|key| world.agent(key)).collect();
    for agent in &mut agents {
        agent.initialize().await;
    }
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    for agent in agents {
        agent.close().await;
    }
}
