//! Who may call what: rules, asks, pinned tools, and names that meet. Never asks a real person.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use muster_plugin_host::ServerKey;
use muster_plugin_host::session::{Door, Nobody, Options, Posted, Verdict};
use serde_json::{Value, json};

use crate::common::{Agent, Told, World, launcher};
use crate::session::{error_code, never_ask};

// spec: NAM-010 NAM-011 NAM-013
#[tokio::test]
async fn colliding_tools_are_withheld_logged_and_cannot_be_called() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &["colliding"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.names().await, ["other"]);
    for name in ["get_it", "get.it", "get-it"] {
        let answer = agent.ask("tools/call", json!({"name": name})).await;
        assert_eq!(answer["error"]["code"], -32602, "{name}");
    }
    agent.close().await;
    let dropped: Vec<Value> = world
        .events()
        .into_iter()
        .filter(|e| e["event"] == "tool_dropped")
        .collect();
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0]["tool"], "mcp__plugin_p_s__get_it");
    let diagnostics = serde_json::to_string(&world.host.inspect("p").unwrap()).unwrap();
    assert!(diagnostics.contains("tool-name-collision"));
}

// spec: NAM-012
#[tokio::test]
async fn tools_of_two_packages_that_would_share_a_name_are_both_withheld() {
    let world = World::new();
    // The names of the two servers differ, and those of two tools meet across the separator.
    let one = world.installed("a", &["crossing"]);
    let other = json!([{"id": "crossed", "command": ["python3", "mcp/server.py"]}]);
    world.host.install(&world.package_with("a_s_", &other)).unwrap();
    world.approve("a_s_");
    let other = ServerKey::new("a_s_", "crossed");
    assert_eq!(one.tool("crossed__write"), other.tool("write"));
    assert_ne!(one.entry(), other.entry());
    for round in 0..2 {
        for (key, shared, free) in [(&one, "crossed__write", "free"), (&other, "write", "slow")] {
            let mut agent = world.agent(key);
            agent.initialize().await;
            let names = agent.names().await;
            assert!(names.contains(&free.to_owned()));
            // The very first session cannot know what the other server will list.
            if round > 0 || *key == other {
                assert!(!names.contains(&shared.to_owned()), "{names:?}");
            }
            agent.close().await;
        }
    }
    // Servers whose entries would have one name are not started at all.
    for (plugin, server) in [("b", "c.d"), ("b.c", "d")] {
        let servers = json!([{"id": server, "command": ["python3", "mcp/server.py"]}]);
        world.host.install(&world.package_with(plugin, &servers)).unwrap();
        world.approve(plugin);
    }
    let approved = world.host.approved().unwrap();
    assert_eq!(approved.servers.len(), 2);
    assert_eq!(approved.withheld.len(), 2);
    assert!(world.host.ready(&ServerKey::new("b", "c.d")).is_err());
}

// spec: APR-001 APR-005
#[tokio::test]
async fn a_call_that_no_rule_decides_asks_and_what_comes_of_it_is_done_and_logged() {
    for (verdict, word, decision) in [
        (Verdict::Allowed, "", "call allow:person"),
        (Verdict::Refused, "refused_by_person", "call deny:person"),
        (Verdict::Expired, "refused_expired", "call deny:expired"),
        (
            Verdict::NobodyToAsk(None),
            "refused_app_closed_strict",
            "call deny:nobody_to_ask",
        ),
        (
            Verdict::NobodyToAsk(Some("There is no owner.".to_owned())),
            "refused_app_closed_strict",
            "call deny:nobody_to_ask",
        ),
        (
            Verdict::Withdrawn(Some("There is no token.".to_owned())),
            "withdrawn",
            "call deny:expired",
        ),
        (
            Verdict::Saturated,
            "refused_queue_saturated",
            "call deny:queue_saturated",
        ),
        (Verdict::TooLarge(70_001), "refused_error", "call deny:rule"),
    ] {
        let world = World::new();
        let key = world.installed("p", &[]);
        fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
        let told = Told::new(verdict.clone());
        let options = Options {
            approver: Arc::new(told.clone()),
            ..world.options()
        };
        let mut agent = world.agent_with(&key, options);
        agent.initialize().await;
        let result = agent
            .call("write", json!({"big": 12345678901234567890_u64}))
            .await;
        if verdict == Verdict::Allowed {
            assert!(
                result["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .starts_with("called write")
            );
        } else {
            assert_eq!(error_code(&result), word);
        }
        if let Verdict::NobodyToAsk(Some(why)) | Verdict::Withdrawn(Some(why)) = &verdict {
            let said = result["content"][0]["text"].as_str().unwrap();
            assert!(
                said.starts_with(why) && said.contains("Nothing was sent"),
                "{said}"
            );
            let events = world.events();
            let call = events.iter().find(|event| event["event"] == "call").unwrap();
            assert_eq!(call["detail"], **why);
        }
        if matches!(verdict, Verdict::TooLarge(_)) {
            let said = result["content"][0]["text"].as_str().unwrap();
            assert!(said.contains("70001 bytes") && said.contains("64 KiB"), "{said}");
        }
        agent.close().await;
        {
            let asks = told.asks.lock().unwrap();
            assert_eq!(asks.len(), 1);
            assert_eq!(asks[0].tool, "mcp__plugin_p_s__write");
            assert_eq!(asks[0].arguments, "{\"big\":12345678901234567890}");
        }
        assert!(world.happenings().contains(&decision.to_owned()));
        let called = fs::read_to_string(world.path("data/plugins/data/p/called")).unwrap_or_default();
        assert_eq!(called.contains("write"), verdict == Verdict::Allowed);
    }
}

#[tokio::test]
async fn what_is_asked_about_is_another_thing_once_the_tool_or_its_package_is() {
    let world = World::new();
    let key = world.installed("p", &["changing"]);
    world.settings(&json!({"approval_mode": "always-ask"}));
    let told = Told::new(Verdict::Allowed);
    let options = || Options {
        approver: Arc::new(told.clone()),
        ..world.options()
    };
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    agent.tools().await;
    for _ in 0..2 {
        agent.call("look", json!({})).await;
        agent.tools().await;
    }
    agent.close().await;
    // The same tool of another package under the same names.
    world.host.remove("p").unwrap();
    fs::write(world.path("packages/p/other"), "").unwrap();
    world.host.install(&world.path("packages/p")).unwrap();
    world.approve("p");
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    agent.call("look", json!({})).await;
    agent.close().await;
    let asked: BTreeSet<String> = told
        .asks
        .lock()
        .unwrap()
        .iter()
        .map(|ask| ask.definition.clone())
        .collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
}

// spec: APR-003 APR-008 APR-009 APR-010 TRB-011
#[tokio::test]
async fn rules_are_read_at_every_call_and_broken_ones_refuse() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let hinted = "mcp__plugin_p_s__get_forecast";
    let plain = "mcp__plugin_p_s__write";
    assert!(agent.call("get_forecast", json!({})).await["isError"].is_null());
    world.settings(&json!({"permissions": {"deny": [hinted], "allow": [plain]}}));
    assert_eq!(
        error_code(&agent.call("get_forecast", json!({})).await),
        "refused_denied"
    );
    assert!(agent.call("write", json!({})).await["isError"].is_null());
    world.settings(&json!({"permissions": {"prompt": [hinted], "allow": ["plugin:p:s", "write"]}}));
    assert_eq!(
        error_code(&agent.call("get_forecast", json!({})).await),
        "refused_app_closed_strict"
    );
    assert_eq!(
        error_code(&agent.call("write", json!({})).await),
        "refused_app_closed_strict"
    );
    world.settings(&json!({"approval_mode": "always-ask"}));
    assert_eq!(
        error_code(&agent.call("get_forecast", json!({})).await),
        "refused_app_closed_strict"
    );
    world.settings(&json!({"approval_mode": "sometimes"}));
    assert_eq!(
        error_code(&agent.call("get_forecast", json!({})).await),
        "refused_error"
    );
    agent.close().await;
    assert_eq!(
        world.happenings()[2..],
        [
            "call allow:mcp_read_only_hint",
            "call deny:rule",
            "call allow:rule",
            "call deny:nobody_to_ask",
            "call deny:nobody_to_ask",
            "call deny:nobody_to_ask",
            "call deny:rule",
            "stopped"
        ]
    );
}

// spec: APR-012
#[tokio::test]
async fn a_tool_that_changes_behind_the_approval_asks_until_it_is_approved_again() {
    let world = World::new();
    let key = world.installed("p", &["changing"]);
    let told = Told::new(Verdict::Refused);
    let options = || Options {
        approver: Arc::new(told.clone()),
        ..world.options()
    };
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    agent.tools().await;
    assert_eq!(
        agent.call("look", json!({})).await["content"][0]["text"],
        "looked"
    );
    // The list that is asked for after the change is compared with the first one.
    assert_eq!(agent.tools().await[0]["description"], "run 1");
    assert_eq!(
        error_code(&agent.call("look", json!({})).await),
        "refused_by_person"
    );
    assert_eq!(told.asks.lock().unwrap().len(), 1);
    agent.close().await;
    let shown = serde_json::to_string(&world.host.inspect("p").unwrap()).unwrap();
    assert!(shown.contains("tool-definition-changed"));
    // Whoever approves it again is shown what it was and what it is.
    let look = world.host.inspect("p").unwrap().capabilities[0].tools.remove(0);
    assert_eq!(look.says.description.as_deref(), Some("run 0"));
    let newest = look.newest.unwrap();
    assert_eq!(newest.says.description.as_deref(), Some("run 1"));
    assert!(look.changed && !look.added && !newest.as_it_was);
    world.approve("p");
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    assert_eq!(
        agent.call("look", json!({})).await["content"][0]["text"],
        "looked"
    );
    agent.close().await;
}

/// What a server was sent, when its package has a folder of its own.
fn received(world: &World, what: &str) -> usize {
    let text = fs::read_to_string(world.path("data/plugins/data/p/received")).unwrap_or_default();
    text.matches(what).count()
}

#[tokio::test]
async fn a_request_without_an_id_reaches_no_server_and_is_written_down() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
    let mut agent = world.agent(&key);
    agent.initialize().await;
    agent.tools().await;
    for text in [
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"a:b"}}"#,
    ] {
        agent.send_text(text).await;
    }
    for id in ["null", "{}", "[1]", "true"] {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write"}}}}"#);
        agent.send_text(&text).await;
        let answer = agent.answer(&Value::Null).await;
        assert_eq!(answer["error"]["code"], -32600, "{id}");
    }
    // What a notification is called goes on to the server, so that whatever came before it would have come too.
    agent
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}))
        .await;
    assert_eq!(agent.ask("ping", json!({})).await["error"]["code"], -32601);
    agent.close().await;
    assert_eq!(received(&world, "notifications/roots/list_changed"), 1);
    assert_eq!(received(&world, "tools/call"), 0);
    assert_eq!(received(&world, "resources/read"), 0);
    let refused: Vec<Value> = world
        .events()
        .into_iter()
        .filter(|event| event["event"] == "call")
        .collect();
    assert_eq!(refused.len(), 6);
    assert!(refused.iter().all(|event| event["decision"] == "deny:rule"));
    assert_eq!(refused[0]["tool"], "mcp__plugin_p_s__write");
    assert_eq!(refused[1]["tool"], Value::Null);
}

#[tokio::test]
async fn a_request_without_an_id_does_not_pass_a_door_either() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
    let door = Door::open(world.host.ready(&key).unwrap(), world.options());
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert!(matches!(
        door.post(list.as_bytes(), None).await,
        Posted::Answer(_)
    ));
    for id in ["", r#""id":null,"#, r#""id":{},"#] {
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"method":"tools/call","params":{{"name":"write"}}}}"#);
        match door.post(text.as_bytes(), None).await {
            Posted::Refused(text) => assert!(text.contains("-32600"), "{text}"),
            other => panic!("{id}: {other:?}"),
        }
    }
    // Behind those three on the same way.
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    assert!(matches!(
        door.post(ping.as_bytes(), None).await,
        Posted::Answer(_)
    ));
    door.close().await;
    assert_eq!(received(&world, "tools/call"), 0);
    let refused = world.happenings();
    assert_eq!(refused.iter().filter(|word| *word == "call deny:rule").count(), 3);
}

#[tokio::test]
async fn a_server_that_lists_ever_more_fills_neither_the_ledger_nor_the_log() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &["growing"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let mut refused = 0;
    for _ in 0..6 {
        let answer = agent.ask("tools/list", json!({})).await;
        match answer["error"]["message"].as_str() {
            None => assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 901),
            Some(why) => {
                assert!(why.contains("approve it again"), "{why}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 3, "{refused}");
    // Nothing is offered of a list that is withheld, not even what was offered before it.
    assert_eq!(error_code(&agent.call("short", json!({})).await), "server_failed");
    agent.close().await;
    for name in ["ledger.json", "events.jsonl"] {
        let size = fs::metadata(world.path("data/plugins").join(name)).unwrap().len();
        assert!(size < 4 << 20, "{name}: {size}");
    }
    let dropped: Vec<Value> = world
        .events()
        .into_iter()
        .filter(|event| event["event"] == "tool_dropped")
        .collect();
    assert!(dropped.iter().any(|event| event["tool"].is_null()));
    assert!(
        dropped
            .iter()
            .any(|event| event["tool"].as_str().is_some_and(|tool| tool.contains("1xxx")))
    );
    let inspected = serde_json::to_string(&world.host.inspect("p").unwrap()).unwrap();
    assert!(inspected.contains("is not offered") && inspected.len() < 4 << 20);
    assert_eq!(world.host.list().unwrap().len(), 1);
    // Approved again, it begins anew.
    world.approve("p");
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.tools().await.len(), 901);
    agent.close().await;
    world.host.remove("p").unwrap();
}

// spec: APR-012
#[tokio::test]
async fn a_tool_that_changed_and_is_as_it_was_again_asks_until_it_is_approved_again() {
    let world = World::new();
    let key = world.installed("p", &["flipping"]);
    world.settings(&json!({"permissions": {"allow": ["mcp__plugin_p_s__look"]}}));
    let told = Told::new(Verdict::Allowed);
    let options = || Options {
        approver: Arc::new(told.clone()),
        ..world.options()
    };
    let asked = || told.asks.lock().unwrap().len();
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    agent.tools().await;
    for (wanted, description) in [(0, "run 1"), (1, "run 0"), (2, "run 0")] {
        let result = agent.call("look", json!({})).await;
        assert_eq!(result["content"][0]["text"], "looked");
        assert_eq!(asked(), wanted);
        assert_eq!(agent.tools().await[0]["description"], description);
    }
    agent.close().await;
    // The server of a new session begins with what was approved.
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    assert_eq!(agent.tools().await[0]["description"], "run 0");
    agent.call("look", json!({})).await;
    assert_eq!(asked(), 3);
    agent.close().await;
    world.approve("p");
    let mut agent = world.agent_with(&key, options());
    agent.initialize().await;
    agent.call("look", json!({})).await;
    assert_eq!(asked(), 3);
    agent.close().await;
}

#[tokio::test]
async fn a_call_that_another_reader_could_read_otherwise_reaches_no_server() {
    let world = World::new();
    world.settings(
        &json!({"approval_mode": "never-ask", "permissions": {"deny": ["mcp__plugin_p_s__write"]}}),
    );
    let key = world.installed("p", &[]);
    fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
    let mut agent = world.agent(&key);
    agent.initialize().await;
    agent.tools().await;
    for params in [
        json!({"name": "slow", "Name": "write"}),
        json!({"Name": "write", "name": "slow"}),
        json!({"name": "slow", "arguments": {}, "Arguments": {"a": 1}}),
        json!({"name": "slow", "ARGUMENTS": {"a": 1}}),
        json!({"name": "slow", "argument\u{17f}": {"a": 1}}),
        json!({"name": "slow", "_Meta": {}}),
        json!({"name": "slow", "newer": 1, "Newer": 2}),
    ] {
        let answer = agent.ask("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
    for method in ["Tools/Call", "tools/call ", "TOOLS/CALL", "tools/call\u{0}"] {
        let answer = agent.ask(method, json!({"name": "write"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    let params = json!({"name": "slow", "arguments": {"seconds": 0, "Seconds": 1}, "newer": 1});
    let answer = agent.ask("tools/call", params).await;
    assert_eq!(answer["result"]["content"][0]["text"], "slept");
    agent.close().await;
    assert_eq!(received(&world, "tools/call"), 1);
    assert_eq!(received(&world, "write"), 0);
}

// spec: NAM-012 NAM-013
#[tokio::test]
async fn tools_that_meet_while_both_servers_are_served_are_both_withheld_from_then_on() {
    let world = World::new();
    never_ask(&world);
    let one = world.installed("a", &["crossing"]);
    let other = json!([{"id": "crossed", "command": ["python3", "mcp/server.py"]}]);
    world.host.install(&world.package_with("a_s_", &other)).unwrap();
    world.approve("a_s_");
    let other = ServerKey::new("a_s_", "crossed");
    // Both sessions are made ready before either has listed anything.
    let mut first = world.agent(&one);
    let mut second = world.agent(&other);
    first.initialize().await;
    let names = first.names().await;
    assert!(names.contains(&"crossed__write".to_owned()), "{names:?}");
    assert_eq!(
        first.call("crossed__write", json!({})).await["content"][0]["text"],
        "called crossed__write with {}"
    );
    second.initialize().await;
    let names = second.names().await;
    assert!(!names.contains(&"write".to_owned()) && names.contains(&"slow".to_owned()));
    // The first has its list still, and the tool in it is not called any more.
    for (agent, name) in [(&mut first, "crossed__write"), (&mut second, "write")] {
        let answer = agent.ask("tools/call", json!({"name": name})).await;
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        assert!(!agent.names().await.contains(&name.to_owned()));
    }
    assert_eq!(first.names().await, ["free"]);
    first.close().await;
    second.close().await;
    let dropped: Vec<Value> = world
        .events()
        .into_iter()
        .filter(|event| event["event"] == "tool_dropped")
        .collect();
    assert_eq!(dropped.len(), 2);
}

#[tokio::test]
async fn a_list_that_changes_while_it_comes_is_looked_at_again() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &["moving"]);
    fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.tools().await[0]["description"], "list 2");
    assert_eq!(received(&world, "tools/list"), 2);
    agent.close().await;

    // One that never comes to an end with it is not waited for, and nothing of it is taken for the newest.
    let key = world.installed("q", &["restless"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let mut last = 0;
    for _ in 0..3 {
        let description = agent.tools().await[0]["description"].clone();
        let number = description.as_str().unwrap().strip_prefix("list ").unwrap();
        let number: u32 = number.parse().unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    agent.close().await;
}

fn call(id: usize, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
        .to_string()
}

#[tokio::test]
async fn calls_that_come_together_are_each_ruled_on_and_written_down_in_their_order() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let denied = key.tool("write");
    world.settings(&json!({"approval_mode": "never-ask", "permissions": {"deny": [denied]}}));
    let mut agent = world.agent(&key);
    agent.initialize().await;
    agent.names().await;
    let tools = ["image", "image", "write", "image", "write", "image"];
    let lines: Vec<String> = tools
        .iter()
        .enumerate()
        .map(|(id, tool)| call(id, tool))
        .collect();
    agent.send_text(&lines.join("\n")).await;
    for (id, tool) in tools.iter().enumerate() {
        let result = agent.answer(&json!(id)).await["result"].clone();
        assert_eq!(
            result["isError"] == json!(true),
            *tool == "write",
            "{id} {result}"
        );
    }
    // What was asked for before the rules changed is no reason for what comes after.
    world.settings(
        &json!({"approval_mode": "never-ask", "permissions": {"deny": [denied, key.tool("image")]}}),
    );
    assert_eq!(
        error_code(&agent.call("image", json!({})).await),
        "refused_denied"
    );
    agent.close().await;
    let calls: Vec<String> = world
        .happenings()
        .into_iter()
        .filter(|word| word.starts_with("call"))
        .collect();
    let word = |tool: &&str| {
        if *tool == "write" {
            "call deny:rule"
        } else {
            "call allow:mode"
        }
    };
    let mut wanted: Vec<&str> = tools.iter().map(word).collect();
    wanted.push("call deny:rule");
    assert_eq!(calls, wanted);
}

#[test]
fn of_calls_that_come_together_on_a_full_disk_those_run_that_are_written_down() {
    let world = World::new();
    world.settings(&json!({"approval_mode": "never-ask"}));
    let key = world.installed("p", &[]);
    // Room for a few lines and a half below the 64 KiB that the process may write to a file.
    let log = world.path("data/plugins/events.jsonl");
    let line = json!({"at": "2026-01-01T00:00:00Z", "session": "s", "plugin": "p", "server": "s", "event": "stopped", "tool": null, "decision": null, "detail": null}).to_string() + "\n";
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, line.repeat((64 * 1024 - 2_500) / line.len())).unwrap();
    let before = world.events().len();
    let run = std::process::Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 128; trap '' XFSZ; exec \"$0\" --ignored --exact rules::calls_thirty_times_at_once --nocapture")
        .arg(std::env::current_exe().unwrap())
        .env("TEST_DATA", world.path("data"))
        .env("TEST_PROJECT", world.path("project"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let count = |word: &str| -> usize {
        let at = said.split(word).nth(1).unwrap_or_else(|| panic!("{said}"));
        at.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (made, refused) = (count("made:"), count("refused:"));
    assert_eq!(made + refused, 30, "{said}");
    assert!(made > 0 && refused > 0, "{said}");
    let calls = |events: &[Value]| events.iter().filter(|event| event["event"] == "call").count();
    assert_eq!(calls(&world.events()), made);
    assert!(
        fs::metadata(&log).unwrap().len() == 64 * 1024,
        "the last line is cut off"
    );
    // With room again: the line that was cut off takes no other with it.
    world.host.events().server_dropped("later", &key, "because");
    let events = world.events();
    assert!(events.len() > before);
    assert_eq!(events.last().unwrap()["session"], "later");
}

#[test]
#[ignore = "run as a process of its own by of_calls_that_come_together_on_a_full_disk_those_run_that_are_written_down"]
fn calls_thirty_times_at_once() {
    let path = |name: &str| std::path::PathBuf::from(std::env::var(name).unwrap());
    let host = muster_plugin_host::Host::new(&path("TEST_DATA"), muster_core::Clock::system());
    let options = Options {
        session: "s".to_owned(),
        dir: path("TEST_PROJECT"),
        launcher: launcher(),
        approver: Arc::new(Nobody),
        budgets: muster_plugin_host::Budgets::default(),
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut agent = Agent::new(host.ready(&ServerKey::new("p", "s")).unwrap(), options);
        agent.initialize().await;
        agent.names().await;
        let lines: Vec<String> = (0..30).map(|id| call(id, "image")).collect();
        agent.send_text(&lines.join("\n")).await;
        let mut made = 0;
        for id in 0..30 {
            let result = agent.answer(&json!(id)).await["result"].clone();
            if result["isError"] == json!(true) {
                assert_eq!(error_code(&result), "refused_error");
            } else {
                made += 1;
            }
        }
        println!("made:{made} refused:{}", 30 - made);
        agent.close().await;
    });
}
