//! Servers that others wrote: the official Everything server and the SDKs of two languages, unmodified; and servers that will not end. Never runs without the tools that ./test installs.

use std::path::PathBuf;
use std::time::Duration;

use muster_plugin_host::ServerKey;
use serde_json::{Value, json};

use crate::common::{Agent, World, gone, python, runs};

/// How long a process may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

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

async fn started(agent: &mut Agent, arguments: Value) -> Vec<u64> {
    agent.initialize().await;
    let called = agent.call("spawn", arguments).await;
    let pids: Vec<u64> = serde_json::from_value(called["structuredContent"]["pids"].clone()).unwrap();
    assert_eq!(pids.len(), 3);
    pids
}

// spec: LIF-016 LIF-017
#[tokio::test]
async fn a_server_that_holds_its_own_input_open_ends_with_its_session() {
    for how in ["holding", "holding-stubborn"] {
        for dropped in [false, true] {
            let world = World::new();
            world.settings(&json!({"approval_mode": "never-ask"}));
            let key = world.installed("p", &[how]);
            let mut agent = world.agent(&key);
            let pids = started(&mut agent, json!({})).await;
            assert!(pids.iter().all(|pid| runs(*pid)));
            if dropped {
                agent.session.abort();
            } else {
                agent.close().await;
            }
            for pid in pids {
                assert!(gone(pid, PATIENCE).await, "{how}: {pid} is left");
            }
        }
    }
}

// spec: LIF-017
#[tokio::test]
async fn a_server_that_kills_its_launcher_or_holds_it_up_ends_with_its_session() {
    let (kill, stop) = (9, 19);
    for signal in [kill, stop] {
        let world = World::new();
        world.settings(&json!({"approval_mode": "never-ask"}));
        let key = world.installed("p", &["holding-stubborn"]);
        let mut agent = world.agent(&key);
        let [apart, child, server] = started(&mut agent, json!({"launcher": signal})).await[..] else {
            panic!("three processes")
        };
        agent.close().await;
        for pid in [apart, child, server] {
            assert!(gone(pid, PATIENCE).await, "{signal}: {pid} is left");
        }
    }
}

#[tokio::test]
async fn a_packages_variables_reach_its_server_and_not_the_launcher() {
    let world = World::new();
    world.settings(&json!({"approval_mode": "never-ask"}));
    // The loader of programs writes a file for each process that has these.
    let traces = world.path("trace");
    let env = json!({"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": traces.display().to_string(), "ODD": "a\nb=c"});
    let folder = world.path("packages/p");
    std::fs::create_dir_all(folder.join(".claude-plugin")).unwrap();
    std::fs::copy(own("server.py"), folder.join("server.py")).unwrap();
    let servers =
        json!({"s": {"command": python(), "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"], "env": env}});
    let manifest =
        json!({"name": "p", "version": "1.0.0", "description": "For tests.", "mcpServers": servers});
    std::fs::write(folder.join(".claude-plugin/plugin.json"), manifest.to_string()).unwrap();
    world.host.install(&folder).unwrap();
    world.approve("p");
    let mut agent = world.agent(&ServerKey::new("p", "s"));
    agent.initialize().await;
    let told = agent.call("environment", json!({})).await["structuredContent"].clone();
    assert_eq!(told["env"]["ODD"], "a\nb=c");
    let server = told["pid"].as_u64().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
    let launcher = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .to_owned();
    let traced = |pid: &str| world.path(&format!("trace.{pid}")).exists();
    assert!(traced(&server.to_string()), "the loader writes no traces here");
    assert!(!traced(&launcher));
    // What it has open is nobody's to open, and it had nothing in its environment.
    let environment = std::fs::read(format!("/proc/{launcher}/environ")).unwrap_or_default();
    assert_eq!(environment, b"");
    agent.close().await;
}

#[tokio::test]
async fn two_copies_of_a_silent_server_are_ended_together() {
    let world = World::new();
    let key = world.installed("p", &["mute-stays"]);
    std::fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
    let mut agent = world.agent(&key);
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    agent.start("initialize", params).await;
    let noted = |name: &str| {
        let path = world.path("data/plugins/data/p").join(name);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let until = tokio::time::Instant::now() + PATIENCE;
    // The other copy reads a header first.
    while noted("raw").len() < 2 {
        assert!(tokio::time::Instant::now() < until, "{:?}", noted("raw"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    agent.close().await;
    assert_eq!(noted("end"), ["closed", "closed", "term", "term"]);
}
