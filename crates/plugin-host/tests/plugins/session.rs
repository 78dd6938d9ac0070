//! Sessions with small servers that behave and that do not. Never needs more than python3.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Agent, Told, World, gone, python};
use muster_plugin_host::session::{Options, Verdict, serve_until};
use muster_plugin_host::{Budgets, ServerKey};
use serde_json::{Value, json};

pub(crate) fn never_ask(world: &World) {
    world.settings(&json!({"approval_mode": "never-ask"}));
}

pub(crate) fn error_code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["error"]["code"].as_str().unwrap()
}

// spec: LIF-001 NAM-008 APR-006 APR-007 WIR-001
#[tokio::test]
async fn an_approved_server_is_served_under_its_names_with_all_that_it_says() {
    let world = World::new();
    let key = world.installed("forecast-tools", &[]);
    let mut agent = world.agent(&key);
    let hello = agent.initialize().await;
    assert_eq!(hello["serverInfo"]["name"], "plugin_forecast_tools_s");
    assert_eq!(hello["serverInfo"]["title"], "T");
    assert_eq!(hello["capabilities"]["newer"], json!({}));
    let tools = agent.tools().await;
    assert_eq!(tools[0]["name"], "get_forecast");
    assert_eq!(tools[0]["title"], "Forecast");
    assert_eq!(
        tools[0]["_meta"]["muster/registered_name"],
        "mcp__plugin_forecast_tools_s__get_forecast"
    );
    let result = agent.call("get_forecast", json!({"b": 1, "a": 2})).await;
    assert_eq!(
        result["content"][0]["text"],
        "called get.forecast with {\"a\": 2, \"b\": 1}"
    );
    agent.close().await;
    assert_eq!(
        world.happenings(),
        ["started", "ready", "call allow:mcp_read_only_hint", "stopped"]
    );
    let inspected = world.host.inspect("forecast-tools").unwrap();
    assert!(inspected.capabilities[0].last_start.as_ref().unwrap().ok);
}

// spec: ENV-001..ENV-009 ENV-011..ENV-015 ENV-017..ENV-020 MAN-010 NAM-003
#[tokio::test]
async fn the_server_begins_with_the_list_and_three_streams_and_nothing_else() {
    let world = World::new();
    world.host.install(&world.package_with(
        "p",
        &json!([{"id": "s", "command": [python(), "mcp/server.py", "plain", "mcp/server.py", "${MUSE_PLUGIN_ROOT}", "$HOME;ls"], "env": {"SECRET": "1"}, "cwd": "/", "framing": "headers"}]),
    )).unwrap();
    world.approve("p");
    // Descriptors that a careless parent leaves open for all its children.
    let leaked = fs::File::open("/dev/zero").unwrap();
    nix::fcntl::fcntl(
        &leaked,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let mut agent = world.agent(&ServerKey::new("p", "s"));
    agent.initialize().await;
    let found = agent.call("environment", json!({})).await["structuredContent"].clone();
    drop(leaked);
    let root = world.host.inspect("p").unwrap().root;
    let data = world.path("data/plugins/data/p").to_string_lossy().into_owned();
    let mut wanted = std::collections::BTreeMap::new();
    for name in muster_plugin_host::PASSED_ON {
        if let Ok(value) = std::env::var(name) {
            wanted.insert(name.to_owned(), value);
        }
    }
    for (names, value) in [
        (&["MUSE_PLUGIN_ID", "MUSTER_PLUGIN_ID"][..], "p"),
        (
            &[
                "MUSE_PLUGIN_ROOT",
                "MUSTER_PLUGIN_ROOT",
                "PLUGIN_ROOT",
                "CLAUDE_PLUGIN_ROOT",
            ][..],
            &root,
        ),
        (
            &[
                "MUSE_PLUGIN_DATA_DIR",
                "MUSTER_PLUGIN_DATA_DIR",
                "PLUGIN_DATA",
                "CLAUDE_PLUGIN_DATA",
            ][..],
            &data,
        ),
        (&["MUSE_SESSION_ID", "MUSTER_SESSION_ID"][..], "session-1"),
    ] {
        for name in names {
            wanted.insert((*name).to_owned(), value.to_owned());
        }
    }
    // Python itself may set this one when the locale is C.
    let mut env: std::collections::BTreeMap<String, String> =
        serde_json::from_value(found["env"].clone()).unwrap();
    if !wanted.contains_key("LC_CTYPE") {
        env.remove("LC_CTYPE");
    }
    assert_eq!(env, wanted);
    // This process has more than that, as a shell or an agent would.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    assert_eq!(
        found["argv"],
        json!([
            format!("{root}/mcp/server.py"),
            "plain",
            "mcp/server.py",
            "${MUSE_PLUGIN_ROOT}",
            "$HOME;ls"
        ])
    );
    assert!(root.starts_with(&*world.path("data/plugins/cache/p").to_string_lossy()));
    assert_eq!(
        found["cwd"],
        *fs::canonicalize(world.path("project")).unwrap().to_string_lossy()
    );
    assert_eq!(found["group"], found["pid"]);
    assert_eq!(found["signals"], json!([]));
    let files = found["files"].as_object().unwrap();
    // 3 is the folder of descriptors itself, closed by the time it was looked up.
    let mut fds: Vec<&str> = files.keys().map(String::as_str).collect();
    fds.sort_unstable();
    assert_eq!(fds, ["0", "1", "2"]);
    assert_eq!(files["2"], "/dev/null");
    assert!(!world.path("data/plugins/data/p").exists());
    agent.close().await;
}

// spec: WIR-002 WIR-003 WIR-004
#[tokio::test]
async fn a_server_of_the_other_framing_is_found_out_whether_it_ends_or_keeps_silent() {
    for how in ["headers-strict", "headers-silent", "headers"] {
        let world = World::new();
        never_ask(&world);
        let key = world.installed("p", &[how]);
        let notes = world.path("data/plugins/data/p");
        fs::create_dir_all(&notes).unwrap();
        let mut agent = world.agent(&key);
        let begun = Instant::now();
        assert_eq!(
            agent.initialize().await["serverInfo"]["name"],
            "plugin_p_s",
            "{how}"
        );
        assert!(begun.elapsed() < Duration::from_secs(25), "{how}");
        let result = agent.call("write", json!({"a": "\n"})).await;
        assert_eq!(
            result["content"][0]["text"], "called write with {\"a\": \"\\n\"}",
            "{how}"
        );
        agent.close().await;
        let first = fs::read_to_string(notes.join("raw")).unwrap();
        assert!(
            first.starts_with("{\"jsonrpc\""),
            "a line is tried first: {first}"
        );
    }
}

// spec: WIR-005 WIR-007 ENV-021 ENV-022
#[tokio::test]
async fn banners_floods_pings_strange_ids_and_double_answers_hurt_nobody() {
    for how in ["banner", "flood", "stderr", "pinging", "strange-ids", "twice"] {
        let world = World::new();
        never_ask(&world);
        let key = world.installed("p", &[how]);
        let mut agent = world.agent(&key);
        agent.initialize().await;
        for number in 0..3 {
            let result = agent.call("write", json!({"n": number})).await;
            assert_eq!(
                result["content"][0]["text"],
                format!("called write with {{\"n\": {number}}}"),
                "{how}"
            );
        }
        let answers = agent
            .others
            .iter()
            .filter(|message| message.get("method").is_none())
            .count();
        assert_eq!(
            answers, 0,
            "{how}: an answer that nobody asked for reached the agent"
        );
        if how == "pinging" {
            let ping = agent.others.iter().find(|message| message["method"] == "ping");
            assert!(
                ping.is_some()
                    && agent
                        .others
                        .iter()
                        .any(|m| m["method"] == "notifications/tools/list_changed")
            );
        }
        agent.close().await;
    }
}

// spec: WIR-006
#[tokio::test]
async fn large_results_come_whole_and_too_large_ones_are_a_failure_of_their_call_alone() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let result = agent.call("large", json!({"size": 3 << 20})).await;
    assert_eq!(result["content"][0]["text"].as_str().unwrap().len(), 3 << 20);
    agent.close().await;
    let key = world.installed("q", &["too-large"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    for _ in 0..2 {
        assert_eq!(
            error_code(&agent.call("write", json!({})).await),
            "answer_too_large"
        );
    }
    agent.close().await;
    // A hundred mebibytes that answer nothing.
    let key = world.installed("r", &["huge-first"]);
    let mut agent = world.agent(&key);
    let before = memory();
    let hello = agent.initialize().await;
    assert!(
        memory() < before + 64 * 1024,
        "{before} KiB before, {} after",
        memory()
    );
    assert!(!hello.is_null());
    agent.close().await;
}

/// Resident memory of this process in KiB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn images_progress_logging_questions_and_fields_of_tomorrow_pass_both_ways() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let id = agent
        .start("tools/call", json!({"name": "image", "arguments": {}}))
        .await;
    let text = loop {
        let text = agent.next_text().await;
        if text.contains("\"content\"") {
            break text;
        }
    };
    assert!(text.contains(&format!("\"id\":{id}")));
    assert!(
        text.contains("\"newer\": 1.5") && text.contains("{\"z\": 1, \"a\": 2}"),
        "{text}"
    );
    let done = agent
        .ask(
            "tools/call",
            json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "mine", "other": 1}}),
        )
        .await;
    assert_eq!(done["result"]["content"][0]["text"], "done");
    let progress = agent
        .others
        .iter()
        .find(|m| m["method"] == "notifications/progress")
        .unwrap();
    assert_eq!(progress["params"]["progressToken"], "mine");
    assert!(
        agent
            .others
            .iter()
            .any(|m| m["method"] == "notifications/message")
    );
    let id = agent
        .start("tools/call", json!({"name": "question", "arguments": {}}))
        .await;
    let question = loop {
        let message = agent.next().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["message"], "Sure?");
    agent
        .send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}))
        .await;
    let answer = agent.answer(&id).await;
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "answered {\"action\": \"accept\"}"
    );
    agent.close().await;
}

// Two calls of one id in flight must not be taken for each other.
#[tokio::test]
async fn calls_that_share_an_id_and_a_token_each_get_their_own_answer() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    agent.tools().await;
    for seconds in [0.6, 0.0] {
        let params =
            json!({"name": "slow", "arguments": {"seconds": seconds}, "_meta": {"progressToken": 1}});
        agent
            .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
            .await;
    }
    for _ in 0..2 {
        assert_eq!(
            agent.answer(&json!(1)).await["result"]["content"][0]["text"],
            "slept"
        );
    }
    agent.close().await;
}

#[tokio::test]
async fn a_thousand_tools_names_of_300_characters_pages_and_orders_in_descriptions() {
    let world = World::new();
    let key = world.installed("p", &["thousand"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.tools().await.len(), 1000);
    agent.close().await;

    let key = world.installed("q", &["long"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.names().await, ["x".repeat(300), "short".to_owned()]);
    agent.close().await;
    let inspected = serde_json::to_value(world.host.inspect("q").unwrap()).unwrap();
    let found = &inspected["capabilities"][0]["diagnostics"];
    assert_eq!(found[0]["code"], "tool-name-too-long");
    assert_eq!(found.as_array().unwrap().len(), 1);

    let key = world.installed("r", &["pages"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert_eq!(agent.names().await.len(), 12);
    agent.close().await;

    let key = world.installed("s", &["endless"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    let answer = agent.ask("tools/list", json!({})).await;
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("does not end")
    );
    agent.close().await;

    // What a description says is the server's text and reaches the agent as such; nothing of it is done, and nothing of it is logged.
    let key = world.installed("t", &["instructing"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    assert!(
        agent.tools().await[0]["description"]
            .as_str()
            .unwrap()
            .starts_with("Ignore")
    );
    assert_eq!(
        error_code(&agent.call("a", json!({})).await),
        "refused_app_closed_strict"
    );
    agent.close().await;
    let log = fs::read_to_string(world.path("data/plugins/events.jsonl")).unwrap();
    assert!(!log.contains("Ignore") && !log.contains('\u{1b}'));
}

// spec: LIF-019 LIF-020 LIF-021
#[tokio::test]
async fn a_call_has_its_time_once_it_is_decided_and_is_cancelled_and_answered_after_it() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let told = Told {
        after: Duration::from_millis(1_500),
        ..Told::new(Verdict::Allowed)
    };
    assert_eq!(Budgets::default().call, Duration::from_secs(300));
    assert_eq!(Budgets::default().initialize, Duration::from_secs(30));
    let options = Options {
        approver: Arc::new(told.clone()),
        budgets: Budgets {
            call: Duration::from_secs(1),
            ..Budgets::default()
        },
        ..world.options()
    };
    let mut agent = world.agent_with(&key, options);
    agent.initialize().await;
    // The asking takes longer than the call may, and is not counted.
    let result = agent.call("slow", json!({"seconds": 0.2})).await;
    assert_eq!(result["content"][0]["text"], "slept");
    let result = agent.call("slow", json!({"seconds": 3})).await;
    assert_eq!(error_code(&result), "timed_out");
    // The late answer reaches nobody, and the session goes on.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        agent.call("slow", json!({"seconds": 0})).await["content"][0]["text"],
        "slept"
    );
    assert!(agent.others.iter().all(|message| message.get("method").is_some()));
    agent.close().await;
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server_and_a_cancelled_ask_is_withdrawn() {
    let world = World::new();
    let key = world.installed("p", &[]);
    world.settings(&json!({"permissions": {"allow": ["mcp__plugin_p_s__slow"]}}));
    let notes = world.path("data/plugins/data/p");
    fs::create_dir_all(&notes).unwrap();
    let told = Told {
        after: Duration::from_secs(60),
        ..Told::new(Verdict::Allowed)
    };
    let options = Options {
        approver: Arc::new(told.clone()),
        ..world.options()
    };
    let mut agent = world.agent_with(&key, options);
    agent.initialize().await;
    agent.tools().await;
    for (tool, arguments) in [("slow", json!({"seconds": 1})), ("write", json!({}))] {
        let id = agent
            .start("tools/call", json!({"name": tool, "arguments": arguments}))
            .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        agent
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}))
            .await;
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(
        fs::read_to_string(notes.join("cancelled"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    assert_eq!(fs::read_to_string(notes.join("called")).unwrap().trim(), "slow");
    assert_eq!(*told.withdrawn.lock().unwrap(), 1);
    let alive = agent.ask("ping", json!({})).await;
    assert_eq!(alive["error"]["code"], -32601);
    assert!(
        agent.others.iter().all(|message| message.get("method").is_some()),
        "{:?}",
        agent.others
    );
    agent.close().await;
}

// spec: LIF-010 LIF-014 LIF-015 TRB-006
#[tokio::test]
async fn a_server_that_does_not_start_or_dies_leaves_a_session_without_its_tools() {
    let world = World::new();
    never_ask(&world);
    world
        .host
        .install(&world.package_with("gone", &json!([{"id": "s", "command": ["/nonexistent"]}])))
        .unwrap();
    world.approve("gone");
    world.installed("crash", &["crash"]);
    for id in ["gone", "crash"] {
        let mut agent = world.agent(&ServerKey::new(id, "s"));
        let hello = agent.initialize().await;
        assert_eq!(hello["protocolVersion"], "2025-06-18");
        assert!(agent.tools().await.is_empty());
        assert_eq!(error_code(&agent.call("x", json!({})).await), "server_over");
        agent.close().await;
        let inspected = world.host.inspect(id).unwrap();
        let start = inspected.capabilities[0].last_start.clone().unwrap();
        assert!(!start.ok && start.error.is_some());
    }
    let key = world.installed("dies", &["dies"]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    for _ in 0..2 {
        assert_eq!(error_code(&agent.call("write", json!({})).await), "server_over");
    }
    assert!(agent.tools().await.is_empty());
    agent.close().await;
    let happened = world.happenings();
    assert_eq!(
        happened,
        [
            "start_failed",
            "started",
            "start_failed",
            "started",
            "ready",
            "call allow:mode",
            "exited"
        ]
    );
    assert!(
        world.events()[6]["detail"]
            .as_str()
            .unwrap()
            .contains("exit code 7")
    );
}

// spec: LIF-011 LIF-012 LIF-013
#[tokio::test]
async fn a_late_answer_within_the_budget_counts_and_one_beyond_it_drops_the_server_and_ends_it() {
    let world = World::new();
    never_ask(&world);
    let budgets = Budgets {
        initialize: Duration::from_secs(4),
        framing: Duration::from_secs(1),
        ..Budgets::default()
    };
    let key = world.installed("late", &["late", "2.5"]);
    let options = || Options {
        budgets,
        ..world.options()
    };
    let mut agent = world.agent_with(&key, options());
    assert_eq!(agent.initialize().await["serverInfo"]["title"], "T");
    agent.close().await;
    let key = world.installed("mute", &["mute"]);
    let mut agent = world.agent_with(&key, options());
    let begun = Instant::now();
    assert!(agent.initialize().await["serverInfo"]["title"].is_null());
    assert!(begun.elapsed() < Duration::from_secs(25));
    assert!(agent.tools().await.is_empty());
    agent.close().await;
    assert!(world.happenings().contains(&"initialize_timeout".to_owned()));
}

// spec: LIF-016 LIF-017
#[tokio::test]
async fn a_server_ends_with_its_session_and_so_does_all_that_it_started() {
    for (how, longest) in [("plain", 1_900), ("stays", 15_000), ("stubborn", 20_000)] {
        let world = World::new();
        never_ask(&world);
        let key = world.installed("p", &[how]);
        let mut agent = world.agent(&key);
        agent.initialize().await;
        let pids: Vec<u64> =
            serde_json::from_value(agent.call("spawn", json!({})).await["structuredContent"]["pids"].clone())
                .unwrap();
        let begun = Instant::now();
        agent.close().await;
        let took = begun.elapsed();
        for pid in pids {
            assert!(
                gone(pid, Duration::from_millis(500)).await,
                "{how}: {pid} is left"
            );
        }
        assert!(took < Duration::from_millis(longest), "{how}: {took:?}");
        if how == "stubborn" {
            assert!(took > Duration::from_secs(3), "{took:?}");
        }
        assert_eq!(world.happenings().last().unwrap(), "stopped");
    }
}

#[tokio::test]
async fn a_session_that_is_dropped_or_stopped_ends_its_server() {
    for stopped in [false, true] {
        let world = World::new();
        never_ask(&world);
        let key = world.installed("p", &["stays"]);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let stop = Arc::new(tokio::sync::Notify::new());
        let notified = stop.clone();
        let ready = world.host.ready(&key).unwrap();
        let options = world.options();
        let session = tokio::spawn(async move {
            serve_until(
                ready,
                options,
                input,
                output,
                async move { notified.notified().await },
            )
            .await;
        });
        let mut agent = Agent::over(ours, session);
        agent.initialize().await;
        let pids = agent.call("spawn", json!({})).await["structuredContent"]["pids"].clone();
        let pids: Vec<u64> = serde_json::from_value(pids).unwrap();
        if stopped {
            stop.notify_one();
        } else {
            agent.session.abort();
        }
        for pid in pids {
            assert!(gone(pid, Duration::from_secs(5)).await, "{pid} is left");
        }
        if stopped {
            agent.session.await.unwrap();
            assert_eq!(world.happenings().last().unwrap(), "stopped");
        }
    }
}

#[tokio::test]
async fn what_was_asked_before_the_stream_ends_is_still_answered() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let first = agent.start("initialize", params).await;
    let second = agent.start("tools/list", json!({})).await;
    let third = agent.start("tools/call", json!({"name": "write"})).await;
    let answers = agent.hang_up().await;
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert!(
        [&first, &second, &third].iter().all(|id| ids.contains(id)),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_newer_eras_first_question_is_answered_for_servers_that_do_not_know_it() {
    for how in ["plain", "strict", "mute-discover"] {
        let world = World::new();
        let key = world.installed(
            "p",
            &[if how == "mute-discover" {
                "headers-silent"
            } else {
                how
            }],
        );
        let options = Options {
            budgets: Budgets {
                framing: Duration::from_secs(2),
                discover: Duration::from_secs(4),
                ..Budgets::default()
            },
            ..world.options()
        };
        let mut agent = world.agent_with(&key, options);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let answer = agent.ask("server/discover", json!({"_meta": meta})).await;
        assert_eq!(answer["error"]["code"], -32601, "{how}");
        assert_eq!(
            agent.initialize().await["serverInfo"]["name"],
            "plugin_p_s",
            "{how}"
        );
        assert!(!agent.tools().await.is_empty(), "{how}");
        agent.close().await;
    }
}

#[tokio::test]
async fn messages_that_are_none_and_names_given_twice_are_refused_and_nothing_of_them_is_sent() {
    let world = World::new();
    never_ask(&world);
    world.settings(
        &json!({"approval_mode": "never-ask", "permissions": {"deny": ["mcp__plugin_p_s__write"]}}),
    );
    let key = world.installed("p", &[]);
    let mut agent = world.agent(&key);
    agent.initialize().await;
    agent.tools().await;
    for text in [
        "no json",
        "[]",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\",\"name\":\"write\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"n\\u0061me\":\"slow\",\"name\":\"write\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}",
    ] {
        agent.send_text(text).await;
        let answer = loop {
            let message = agent.next().await;
            if message.get("method").is_none() {
                break message;
            }
        };
        assert!(answer["error"]["code"].is_i64(), "{text}: {answer}");
    }
    assert_eq!(
        error_code(&agent.call("write", json!({})).await),
        "refused_denied"
    );
    agent.close().await;
}
