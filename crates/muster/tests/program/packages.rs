//! Plugin packages on the command line, from `validate` to `serve`, with real servers and real asks. Never calls a function of muster's.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::Place;
use crate::support::package::{Client, EXAMPLES, runs, until};

fn status(place: &Place, plugin: &str) -> String {
    let found = place.json(&["plugins", "inspect", plugin]);
    found["capabilities"][0]["status"].as_str().unwrap().to_owned()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["error"]["code"].as_str().unwrap()
}

// spec: MAN-026
#[test]
fn validate_tells_every_fault_at_once_and_its_exit_code_tells_whether_there_is_one() {
    let place = Place::new();
    let folder = place.package("fine", &["python3", "mcp/server.py"]);
    let dir = folder.display().to_string();
    assert_eq!(
        place.ok(&["plugins", "validate", &dir]),
        "fine can be installed\n"
    );
    assert_eq!(
        place.json(&["plugins", "validate", &dir]),
        json!({"ok": true, "plugin": "fine", "diagnostics": []})
    );
    let broken = place.package("broken", &["python3", "mcp/missing.py", "../secret"]);
    let dir = broken.display().to_string();
    let said = place.run(&["plugins", "validate", &dir, "--json"]);
    assert_eq!(said.code(), 1);
    assert!(
        said.err.starts_with("muster: the package has 2 errors"),
        "{said:?}"
    );
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&found["ok"], &found["plugin"]),
        (&json!(false), &json!("broken"))
    );
    let mut codes: Vec<&str> = found["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, ["missing-capability-path", "unsafe-path"]);
    let said = place.run(&["plugins", "validate", &dir]);
    assert_eq!((said.code(), said.out.lines().count()), (1, 2), "{said:?}");
    assert_eq!(place.run(&["plugins", "validate", "/nowhere"]).code(), 1);
    assert_eq!(place.run(&["plugins", "validate"]).code(), 2);
    assert!(!place.data().exists(), "a look makes nothing");
}

// spec: TRU-017
#[test]
fn a_package_goes_through_its_life_by_commands() {
    let place = Place::new();
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    let dir = folder.display().to_string();
    assert_eq!(place.json(&["plugins", "list"]), json!([]));
    let said = place.run(&["plugins", "install", &dir]);
    assert!(
        said.err
            .ends_with("muster plugins inspect tools, then muster plugins approve tools\n"),
        "{said:?}"
    );
    assert_eq!(said.ok(), "tools\n");
    assert_eq!(place.error(&["plugins", "install", &dir])["code"], "name_taken");
    assert_eq!(
        place.json(&["plugins", "list"]),
        json!([{"id": "tools", "name": "tools", "version": "1.0.0", "source": dir}])
    );
    let found = place.json(&["plugins", "inspect", "tools"]);
    let one = &found["capabilities"][0];
    let hash = one["definition_hash"].as_str().unwrap().to_owned();
    assert_eq!(
        [&one["status"], &one["stable_id"], &one["tool_prefix"]],
        [
            "review_needed",
            "plugin:tools:mcp_server:s",
            "mcp__plugin_tools_s__"
        ]
    );
    assert_eq!(one["last_start"], Value::Null);
    // Every spelling of a target, every act, and what each prints.
    for (target, act, status) in [
        ("tools", "approve", "trusted_enabled"),
        ("tools:mcp_server:s", "disable", "trusted_disabled"),
        ("plugin:tools:mcp_server:s", "enable", "trusted_enabled"),
        ("tools", "reject", "trusted_disabled"),
    ] {
        let printed = place.json(&["plugins", act, target, "--hash", &hash]);
        assert_eq!(printed["capabilities"][0]["status"], status, "{act}");
        assert_eq!(printed, place.json(&["plugins", "inspect", "tools"]));
        let said = place.ok(&["plugins", act, target]);
        assert_eq!(said, format!("plugin:tools:mcp_server:s {status}\n"));
    }
    let refused = place.error(&["plugins", "enable", "tools"]);
    assert_eq!(refused["code"], "not_allowed");
    let refused = place.error(&["plugins", "approve", "tools", "--hash", "0000"]);
    assert_eq!(
        (&refused["code"], &refused["definition_hash"]),
        (&json!("hash_mismatch"), &json!(hash))
    );
    for words in [
        ["inspect", "none"],
        ["approve", "none"],
        ["remove", "none"],
        ["update", "none"],
    ] {
        assert_eq!(place.error(&["plugins", words[0], words[1]])["code"], "not_found");
    }
    assert_eq!(place.run(&["plugins", "approve", "tools:s:t"]).code(), 2);
    assert_eq!(place.run(&["plugins", "frobnicate", "tools"]).code(), 2);
    // A change asks again, and what changed is named; bytes that come back bring the status back.
    place.ok(&["plugins", "approve", "tools"]);
    let server = folder.join("mcp/server.py");
    let before = std::fs::read(&server).unwrap();
    std::fs::write(&server, [before.as_slice(), b"\n# changed\n"].concat()).unwrap();
    std::fs::write(folder.join("mcp/more.txt"), "x").unwrap();
    let said = place.run(&["plugins", "update", "tools"]);
    let next = "muster plugins inspect tools, then muster plugins approve tools\n";
    assert!(
        said.err.contains("looked at it again") && said.err.ends_with(next),
        "{said:?}"
    );
    assert_eq!(said.ok(), "plugin:tools:mcp_server:s modified\n");
    let said = place.ok(&["plugins", "inspect", "tools"]);
    assert!(
        said.contains("  changed  mcp/server.py\n") && said.contains("  added    mcp/more.txt\n"),
        "{said}"
    );
    assert!(
        said.contains(&hash) && said.contains("modified_definition_hash"),
        "{said}"
    );
    std::fs::write(&server, &before).unwrap();
    std::fs::remove_file(folder.join("mcp/more.txt")).unwrap();
    let said = place.run(&["plugins", "update", "tools"]);
    assert_eq!(said.err, "it is what was decided about; nothing is to do\n");
    assert_eq!(said.ok(), "plugin:tools:mcp_server:s trusted_enabled\n");
    // An update with errors starts nothing.
    std::fs::remove_file(&server).unwrap();
    let refused = place.error(&["plugins", "update", "tools"]);
    assert_eq!(refused["code"], "invalid_package");
    assert_eq!(refused["diagnostics"][0]["code"], "missing-capability-path");
    assert_eq!(status(&place, "tools"), "invalid");
    let gone = place.json(&["plugins", "remove", "tools"]);
    assert_eq!(gone["id"], "tools");
    assert_eq!(place.json(&["plugins", "list"]), json!([]));
    assert_eq!(place.error(&["plugins", "inspect", "tools"])["code"], "not_found");
}

#[test]
fn a_package_with_errors_is_not_installed_and_nothing_of_it_is_stored() {
    let place = Place::new();
    let folder = place.package("broken", &["python3", "mcp/missing.py"]);
    let refused = place.error(&["plugins", "install", &folder.display().to_string()]);
    assert_eq!(refused["code"], "invalid_package");
    assert_eq!(refused["diagnostics"][0]["entry"], "s");
    assert_eq!(place.json(&["plugins", "list"]), json!([]));
}

#[test]
fn of_two_installs_at_once_one_is_done_and_the_other_is_told_that_the_name_is_taken() {
    let place = Place::new();
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    let dir = folder.display().to_string();
    let start = || {
        place
            .command(&["plugins", "install", &dir, "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let both = [start(), start(), start()];
    let mut codes: Vec<Value> = both
        .map(|child| child.wait_with_output().unwrap())
        .iter()
        .map(|done| serde_json::from_slice::<Value>(&done.stdout).unwrap())
        .map(|document| document["error"]["code"].clone())
        .collect();
    codes.sort_by_key(Value::is_null);
    assert_eq!(codes, [json!("name_taken"), json!("name_taken"), Value::Null]);
    place.ok(&["plugins", "approve", "tools"]);
    assert_eq!(
        place.client("tools:s", &[]).greet()["serverInfo"]["name"],
        "plugin_tools_s"
    );
}

#[test]
fn what_a_package_says_of_itself_cannot_forge_a_line_on_the_terminal() {
    let place = Place::new();
    let folder = place.package(
        "tools",
        &[
            "python3",
            "mcp/server.py",
            "\u{1b}[2J\nstatus      trusted_enabled",
        ],
    );
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    for words in [&["plugins", "inspect", "tools"][..], &["plugins", "list"]] {
        let said = place.ok(words);
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert!(
            !said
                .lines()
                .any(|line| line.starts_with("status") && line.ends_with("trusted_enabled"))
        );
    }
}

#[test]
fn nothing_that_is_not_approved_as_it_is_is_served_or_answers_a_byte() {
    let place = Place::new();
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    let refused = |word: &str| {
        let said = place.run_with(&["plugins", "serve", "tools:s"], "{}\n");
        assert_eq!((said.code(), said.out.as_str()), (1, ""), "{word}: {said:?}");
        assert!(said.err.contains(word), "{word}: {said:?}");
    };
    refused("review_needed");
    place.ok(&["plugins", "approve", "tools"]);
    place.ok(&["plugins", "disable", "tools"]);
    refused("trusted_disabled");
    place.ok(&["plugins", "enable", "tools"]);
    // A file of the stored copy is written to behind the approval.
    let root = place.json(&["plugins", "inspect", "tools"])["root"]
        .as_str()
        .unwrap()
        .to_owned();
    let server = std::path::Path::new(&root).join("mcp/server.py");
    let swapped = std::process::Command::new("sh")
        .arg("-c")
        .arg("chmod -R u+w \"$1\" && echo 'import os; os._exit(0)' > \"$2\"")
        .args(["sh", &root, &server.display().to_string()])
        .status()
        .unwrap();
    assert!(swapped.success());
    refused("blocked");
    assert_eq!(status(&place, "tools"), "blocked");
    let said = place.run(&["doctor"]);
    assert!(
        said.out
            .lines()
            .any(|line| line.starts_with("PROBLEM") && line.contains("packages")),
        "{said:?}"
    );
    place.ok(&["plugins", "update", "tools"]);
    assert_eq!(status(&place, "tools"), "trusted_enabled");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    assert_eq!(client.leave(), 0);
    let said = place.run(&["plugins", "serve", "tools:other"]);
    assert_eq!((said.code(), said.out.as_str()), (1, ""));
    assert_eq!(place.run(&["plugins", "serve", "tools"]).code(), 2);
    for session in ["a\nb", "agent-3"] {
        let said = place.run(&["plugins", "serve", "tools:s", "--session", session]);
        assert_eq!((said.code(), said.out.as_str()), (2, ""), "{session:?}");
    }
}

#[test]
fn a_session_calls_under_rules_and_the_log_tells_how_each_call_was_decided() {
    let place = Place::new();
    place.approved("tools", "plain");
    let registered = |tool: &str| format!("mcp__plugin_tools_s__{tool}");
    place.settings(
        &json!({"permissions": {"allow": [registered("write")], "deny": [registered("slow")], "prompt": []}}),
    );
    let mut client = place.client("tools:s", &["--session", "monday"]);
    assert_eq!(client.greet()["serverInfo"]["name"], "plugin_tools_s");
    let tools = client.tools();
    assert_eq!(tools[0]["name"], "get_forecast");
    assert_eq!(
        tools[0]["_meta"]["muster/registered_name"],
        registered("get_forecast")
    );
    let told = client.call("get_forecast", &json!({"a": 1}));
    assert_eq!(text(&told), r#"called get.forecast with {"a": 1}"#);
    assert_eq!(text(&client.call("write", &json!({}))), "called write with {}");
    assert_eq!(code(&client.call("slow", &json!({}))), "refused_denied");
    // No owner and no database: nobody can be asked, and asking makes none.
    assert_eq!(
        code(&client.call("image", &json!({}))),
        "refused_app_closed_strict"
    );
    assert!(!place.data().join("muster.db").exists());
    place.settings(&json!({"permissions": {"alow": []}}));
    assert_eq!(code(&client.call("write", &json!({}))), "refused_error");
    for look in [&["plugins", "list"][..], &["plugins", "inspect", "tools"]] {
        let said = place.run(look);
        assert!(said.err.contains("every call is refused"), "{said:?}");
    }
    assert_eq!(client.leave(), 0);
    assert_eq!(
        place.decisions(),
        [
            "allow:mcp_read_only_hint",
            "allow:rule",
            "deny:rule",
            "deny:nobody_to_ask",
            "deny:rule"
        ]
    );
    let log = place.json(&["plugins", "log", "--session", "monday", "--plugin", "tools"]);
    let events: Vec<&str> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .filter(|event| *event != "call")
        .collect();
    assert_eq!(events, ["started", "ready", "stopped"]);
    for field in [
        "at", "session", "plugin", "server", "event", "tool", "decision", "detail",
    ] {
        assert!(log[0].get(field).is_some(), "{field}");
    }
    assert_eq!(place.json(&["plugins", "log", "--session", "tuesday"]), json!([]));
    assert!(place.ok(&["plugins", "log"]).contains("allow:mcp_read_only_hint"));
    let start = &place.json(&["plugins", "inspect", "tools"])["capabilities"][0]["last_start"];
    assert_eq!((&start["ok"], &start["error"]), (&json!(true), &Value::Null));
}

// spec: APR-015
#[test]
fn a_call_that_asks_waits_for_the_owner_and_the_hint_opens_no_way_around_a_rule() {
    let place = Place::new();
    place.add_owner("ada");
    place.approved("tools", "plain");
    let hinted = "mcp__plugin_tools_s__get_forecast";
    place.settings(&json!({"permissions": {"prompt": [hinted]}}));
    let mut client = place.client("tools:s", &["--session", "monday"]);
    client.greet();
    // With nobody there it is refused, although the setting lets grants of ask run.
    assert_eq!(
        code(&client.call("write", &json!({}))),
        "refused_app_closed_strict"
    );
    assert_eq!(
        code(&client.call("get_forecast", &json!({}))),
        "refused_app_closed_strict"
    );
    let watcher = place.watcher();
    let first = client.begin("get_forecast", &json!({"region": "hills"}));
    let ask = place.asks("parked", 1).remove(0);
    assert_eq!(
        (&ask["kind"], &ask["tool"], &ask["arguments"]),
        (&json!("plugin_tool"), &json!(hinted), &json!({"region": "hills"}))
    );
    assert_eq!(ask["agent"], json!({"id": null, "label": "monday"}));
    assert_eq!((&ask["task"], &ask["pairs"]), (&Value::Null, &json!([])));
    let shown = place.ok(&["asks", "show", ask["id"].as_str().unwrap()]);
    assert!(
        shown.contains("session monday") && shown.contains(hinted),
        "{shown}"
    );
    assert!(
        shown.contains("tools, its server s") && shown.contains("A tool.") && shown.contains("asked because"),
        "{shown}"
    );
    assert!(place.ok(&["asks", "list"]).contains("session monday"));
    place.ok(&["asks", "approve", ask["id"].as_str().unwrap()]);
    let answered = client.answer(first);
    assert_eq!(
        text(&answered["result"]),
        r#"called get.forecast with {"region": "hills"}"#
    );
    // The same call is covered for a minute, another one is not.
    let covered = client.call("get_forecast", &json!({"region": "hills"}));
    assert!(text(&covered).starts_with("called"));
    let second = client.begin("get_forecast", &json!({"region": "coast"}));
    let ask = place.asks("parked", 1).remove(0);
    place.ok(&["asks", "refuse", ask["id"].as_str().unwrap()]);
    assert_eq!(code(&client.answer(second)["result"]), "refused_by_person");
    place.settings(&json!({"permissions": {"deny": [hinted]}}));
    assert_eq!(code(&client.call("get_forecast", &json!({}))), "refused_denied");
    place.settings(&json!({}));
    assert!(text(&client.call("get_forecast", &json!({}))).starts_with("called"));
    // Nobody answers.
    place.ok(&["setting", "set", "asks.expiry_seconds", "1"]);
    assert_eq!(code(&client.call("write", &json!({}))), "refused_expired");
    drop(watcher);
    assert_eq!(client.leave(), 0);
    assert_eq!(
        place.decisions(),
        [
            "deny:nobody_to_ask",
            "deny:nobody_to_ask",
            "allow:person",
            "allow:person",
            "deny:person",
            "deny:rule",
            "allow:mcp_read_only_hint",
            "deny:expired"
        ]
    );
    let calls = place.json(&["audit", "list", "--agent", "monday"]);
    let outcomes: Vec<&Value> = calls
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["outcome"])
        .collect();
    assert_eq!(
        outcomes,
        [
            "refused_app_closed_strict",
            "refused_app_closed_strict",
            "allowed_by_person",
            "allowed_by_recent_approval",
            "refused_by_person",
            "refused_expired"
        ]
    );
    assert_eq!(place.json(&["audit", "verify"])["ok"], true);
}

#[test]
fn what_refuses_a_call_by_the_time_of_a_yes_counts_and_its_row_says_so() {
    let place = Place::new();
    place.add_owner("ada");
    let root = place.path("root");
    std::fs::create_dir(&root).unwrap();
    place.ok(&["project", "add", "engine", "--root", &root.display().to_string()]);
    let task = place.ok(&["task", "add", "--project", "engine", "--title", "Look"]);
    let token = place.json(&["token", "create", "--kind", "agent", "--task", task.trim()]);
    let place = place.with("MUSTER_AGENT_TOKEN", token["token"].as_str().unwrap());
    place.approved("tools", "plain");
    let _watcher = place.watcher();
    let mut client = place.client("tools:s", &[]);
    client.greet();
    let reject = || place.ok(&["plugins", "reject", "tools"]);
    let deny = || {
        place.settings(&json!({"permissions": {"deny": ["mcp__plugin_tools_s__write"]}}));
        String::new()
    };
    let meanwhile: [(&dyn Fn() -> String, &str); 3] = [
        (&String::new, "allowed_by_person"),
        (&reject, "refused_error"),
        (&deny, "refused_denied"),
    ];
    for (number, (change, outcome)) in meanwhile.into_iter().enumerate() {
        let waiting = client.begin("write", &json!({ "a": number }));
        let ask = place.asks("parked", 1).remove(0);
        change();
        place.ok(&["asks", "approve", ask["id"].as_str().unwrap()]);
        let result = client.answer(waiting)["result"].clone();
        let allowed = outcome == "allowed_by_person";
        if allowed {
            assert!(text(&result).starts_with("called write"), "{result}");
        } else {
            assert_eq!(code(&result), outcome);
        }
        let rows = place.json(&["audit", "list", "--event", "call", "--limit", "1"]);
        assert_eq!(rows[0]["outcome"], outcome);
        assert_eq!(rows[0]["ask_id"], ask["id"]);
        assert_eq!(rows[0]["task"], json!({"id": task.trim(), "title": "Look"}));
        assert_eq!(
            rows[0]["decided_by"],
            if allowed { json!("ada") } else { Value::Null }
        );
    }
    assert_eq!(client.leave(), 0);
    assert_eq!(place.decisions(), ["allow:person", "deny:rule", "deny:rule"]);
    assert_eq!(place.json(&["audit", "verify"])["ok"], true);
}

/// What the log has beside the newest event that has more than its word.
fn newest_detail(place: &Place) -> String {
    let events = place.json(&["plugins", "log"]);
    let mut details = events.as_array().unwrap().iter().rev();
    let found = details.find_map(|event| event["detail"].as_str().filter(|_| event["event"] == "call"));
    found.unwrap_or_default().to_owned()
}

#[test]
fn a_changed_tool_is_inspected_as_it_was_and_as_it_is() {
    let place = Place::new();
    place.settings(&json!({"approval_mode": "never-ask"}));
    place.approved("tools", "turning");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    client.call("look", &json!({}));
    client.tools();
    assert_eq!(client.leave(), 0);
    let said = place.ok(&["plugins", "inspect", "tools"]);
    let rows: Vec<&str> = said.lines().map(str::trim).collect();
    let before = rows.iter().position(|row| row.starts_with("before ")).unwrap();
    assert!(rows[before - 1].ends_with("changed since the approval"), "{said}");
    assert!(
        rows[before].ends_with(r#""Looks.", says that it only reads"#),
        "{said}"
    );
    assert!(
        rows[before + 1].starts_with("now ") && rows[before + 1].contains("\"Sends all."),
        "{said}"
    );
    assert!(!said.contains('\u{202e}') && !said.contains('\u{1b}'), "{said:?}");
    assert!(
        rows.iter()
            .any(|row| row.ends_with("mcp__plugin_tools_s__leaving, not listed any more")),
        "{said}"
    );
    assert_eq!(said.matches("not listed any more").count(), 1, "{said}");
}

#[test]
fn an_agents_token_makes_the_ask_its_agents_and_one_that_was_revoked_asks_nobody() {
    let place = Place::new();
    place.add_owner("ada");
    place.add_owner("bob");
    let root = place.path("root");
    std::fs::create_dir(&root).unwrap();
    let ada = ["--owner", "ada"];
    place.ok(&[
        &["project", "add", "engine", "--root", &root.display().to_string()][..],
        &ada,
    ]
    .concat());
    let task = place.ok(&[
        &["task", "add", "--project", "engine", "--title", "Look"][..],
        &ada,
    ]
    .concat());
    let token = place.json(
        &[
            &[
                "token",
                "create",
                "--kind",
                "agent",
                "--label",
                "worker",
                "--task",
                task.trim(),
            ][..],
            &ada,
        ]
        .concat(),
    );
    let place = place.with("MUSTER_AGENT_TOKEN", token["token"].as_str().unwrap());
    place.approved("tools", "plain");
    let mut watching = place
        .command(&["asks", "watch", "--owner", "ada"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(watching.stderr.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let mut client = place.client("tools:s", &[]);
    client.greet();
    let waiting = client.begin("write", &json!({"a": 1}));
    let list = [&["asks", "list", "--json"][..], &ada].concat();
    let mut asks = Value::Null;
    until(|| {
        asks = serde_json::from_str(&place.ok(&list)).unwrap();
        asks[0].is_object()
    });
    assert_eq!(asks[0]["agent"], json!({"id": token["id"], "label": "worker"}));
    assert_eq!(asks[0]["task"]["title"], "Look");
    place.ok(&[&["asks", "approve", asks[0]["id"].as_str().unwrap()][..], &ada].concat());
    assert!(text(&client.answer(waiting)["result"]).starts_with("called"));
    // Closing the task withdraws what it waits for.
    let waiting = client.begin("write", &json!({"a": 2}));
    until(|| place.ok(&list).contains("plugin_tool"));
    place.ok(&[&["task", "close", task.trim()][..], &ada].concat());
    assert_eq!(code(&client.answer(waiting)["result"]), "withdrawn");
    place.ok(&[&["token", "revoke", token["id"].as_str().unwrap()][..], &ada].concat());
    let refused = client.call("write", &json!({"a": 3}));
    assert_eq!(code(&refused), "withdrawn");
    let revoked = "what is in MUSTER_AGENT_TOKEN is no live agent token";
    assert!(text(&refused).contains(revoked), "{refused}");
    assert!(newest_detail(&place).contains(revoked));
    assert_eq!(client.leave(), 0);
    // A session without a token, where there are two owners and none is named, can ask neither.
    let place = place.with("MUSTER_AGENT_TOKEN", "");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    let refused = client.call("write", &json!({}));
    assert_eq!(code(&refused), "refused_app_closed_strict");
    let several = "there are several accounts, ada, bob; say which with --owner NAME";
    assert!(text(&refused).contains(several), "{refused}");
    assert!(!text(&refused).contains("Asks page"), "{refused}");
    assert!(newest_detail(&place).contains(several));
    let mut client = place.client("tools:s", &ada);
    client.greet();
    let waiting = client.begin("write", &json!({}));
    until(|| place.ok(&list).contains("plugin_tool"));
    client.signal(Signal::SIGTERM);
    until(|| !place.ok(&list).contains("plugin_tool"));
    let _ = waiting;
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_client_that_leaves_or_gives_up_while_its_call_waits_leaves_no_ask_behind() {
    let place = Place::new();
    place.add_owner("ada");
    place.approved("tools", "plain");
    let _watcher = place.watcher();
    let mut client = place.client("tools:s", &[]);
    client.greet();
    client.begin("write", &json!({"a": 1}));
    place.asks("parked", 1);
    assert_eq!(client.leave(), 0);
    place.asks("withdrawn", 1);
    let mut client = place.client("tools:s", &[]);
    client.greet();
    client.begin("write", &json!({"a": 2}));
    place.asks("parked", 1);
    client.signal(Signal::SIGKILL);
    place.asks("parked", 0);
}

#[test]
fn a_proxy_that_is_killed_takes_its_server_with_it() {
    let place = Place::new();
    place.approved("tools", "stubborn");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    let told = client.call("environment", &json!({}));
    let server = told["structuredContent"]["pid"].as_i64().unwrap();
    assert!(runs(server));
    client.signal(Signal::SIGKILL);
    until(|| !runs(server));
}

#[test]
fn a_limit_on_the_size_of_files_is_told_and_leaves_nothing_in_staging() {
    let place = Place::new();
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    std::fs::write(folder.join("large.bin"), vec![7; 3 << 20]).unwrap();
    let own = place.command(&["plugins", "install", &folder.display().to_string()]);
    let limited = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(own.get_program())
            .args(own.get_args())
            .env_clear()
            .current_dir(place.path(""))
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap()
    };
    let done = limited("ulimit -f 1024; exec \"$@\"");
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("large") && said.lines().count() == 1, "{said}");
    let staging = std::fs::read_dir(place.data().join("plugins/staging")).unwrap();
    assert_eq!(staging.count(), 0);
    assert_eq!(place.json(&["plugins", "list"]), json!([]));
    // A child is ended by the signal as ever.
    let said = place.run(&["exec", "--", "sh", "-c", "kill -XFSZ $$"]);
    assert_eq!(said.code(), 128 + Signal::SIGXFSZ as i32, "{said:?}");
}

#[test]
fn a_server_starts_from_a_clean_room_whatever_its_proxy_was_given() {
    let place = Place::new().with("OWNERS_SECRET", "swordfish");
    place.approved("tools", "plain");
    let mut client = place.client("tools:s", &["--session", "monday"]);
    client.greet();
    let told = client.call("environment", &json!({}));
    let env = told["structuredContent"]["env"].as_object().unwrap();
    assert!(!told.to_string().contains("swordfish"), "{told}");
    assert_eq!(env["MUSTER_SESSION_ID"], "monday");
    assert!(!env.contains_key("MUSTER_DATA_DIR"));
    assert_eq!(
        told["structuredContent"]["cwd"],
        place.path("").canonicalize().unwrap().display().to_string()
    );
}

#[test]
fn the_examples_for_authors_can_be_installed_approved_and_used() {
    let place = Place::new();
    place.settings(&json!({"approval_mode": "never-ask"}));
    let forecast = format!("{EXAMPLES}/forecast-tools");
    place.ok(&["plugins", "validate", &forecast]);
    place.ok(&["plugins", "install", &forecast]);
    place.ok(&["plugins", "approve", "forecast-tools"]);
    let mut client = place.client("forecast-tools:forecast", &[]);
    client.greet();
    let told = client.call(
        "describe_forecast",
        &json!({"region": "coast", "season": "winter"}),
    );
    assert_ne!(told["isError"], true, "{told}");
    let told = client.call("remember_region", &json!({"region": "hills"}));
    assert_ne!(told["isError"], true, "{told}");
    assert!(place.data().join("plugins/data/forecast-tools").is_dir());
    assert_eq!(client.leave(), 0);
}

mod heavy {
    use super::*;

    fn spawned(client: &mut Client, arguments: &Value) -> Vec<i64> {
        client.greet();
        let told = client.call("spawn", arguments);
        let pids: Vec<i64> = serde_json::from_value(told["structuredContent"]["pids"].clone()).unwrap();
        assert_eq!(pids.len(), 3);
        pids
    }

    // spec: LIF-017
    #[test]
    fn a_server_that_holds_its_own_input_open_ends_with_a_proxy_that_is_killed() {
        let place = Place::new();
        place.settings(&json!({"approval_mode": "never-ask"}));
        place.approved("tools", "holding-stubborn");
        let mut client = place.client("tools:s", &[]);
        let pids = spawned(&mut client, &json!({}));
        assert!(pids.iter().all(|pid| runs(*pid)));
        client.signal(Signal::SIGKILL);
        until(|| !pids.iter().any(|pid| runs(*pid)));
    }

    // spec: LIF-016 LIF-017
    #[test]
    fn a_server_that_kills_its_launcher_or_holds_it_up_ends_with_its_proxy_and_all_that_it_started() {
        for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
            for leaves in [true, false] {
                let place = Place::new();
                place.settings(&json!({"approval_mode": "never-ask"}));
                place.approved("tools", "holding-stubborn");
                let mut client = place.client("tools:s", &[]);
                let pids = spawned(&mut client, &json!({"launcher": signal as i32}));
                if leaves {
                    assert_eq!(client.leave(), 0);
                } else {
                    client.signal(Signal::SIGTERM);
                }
                until(|| !pids.iter().any(|pid| runs(*pid)));
            }
        }
    }

    fn tools(needed: &str) -> Option<std::path::PathBuf> {
        muster_testkit::installed("MUSTER_TEST_TOOLS").filter(|folder| folder.join(needed).exists())
    }

    fn serve(command: &[&str]) -> (Place, crate::support::package::Client) {
        let place = Place::new();
        let folder = place.package("other", command);
        place.settings(&json!({"approval_mode": "never-ask"}));
        place.ok(&["plugins", "install", &folder.display().to_string()]);
        place.ok(&["plugins", "approve", "other"]);
        let mut client = place.client("other:s", &[]);
        client.greet();
        (place, client)
    }

    const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-host/tests/servers");

    #[test]
    fn the_official_everything_server_works_behind_the_command() {
        let needed = "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let Some(folder) = tools(needed) else { return };
        let (node, script) = (folder.join("bin/node"), folder.join(needed));
        let (_place, mut client) = serve(&[&node.to_string_lossy(), &script.to_string_lossy(), "stdio"]);
        assert!(client.tools().len() > 8);
        let told = client.call("echo", &json!({"message": "hé"}));
        assert!(text(&told).contains("hé"), "{told}");
        assert_eq!(client.leave(), 0);
    }

    #[test]
    fn servers_of_the_official_libraries_work_behind_the_command() {
        let Some(folder) = tools("venv/bin/python") else {
            return;
        };
        let python = folder.join("venv/bin/python");
        let (_place, mut client) = serve(&[&python.to_string_lossy(), &format!("{SERVERS}/sdk.py")]);
        let told = client.call("add", &json!({"a": 2, "b": 3}));
        assert_eq!(text(&told), "5");
        assert_eq!(client.leave(), 0);
        let (node, modules) = (folder.join("bin/node"), folder.join("npm/node_modules"));
        for generation in ["1", "2"] {
            let (_place, mut client) = serve(&[
                &node.to_string_lossy(),
                &format!("{SERVERS}/sdk.mjs"),
                &modules.parent().unwrap().to_string_lossy(),
                generation,
            ]);
            let told = client.call("add", &json!({"a": 2, "b": 3}));
            assert_eq!(told["structuredContent"]["sum"], 5, "{told}");
            assert_eq!(client.leave(), 0);
        }
    }
}
