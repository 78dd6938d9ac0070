//! `muster exec`: what a program is given, how it ends, and what is left behind. Never calls a function of muster's.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use muster_testkit::{Model, claude, claude_env, installed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::package::{EXAMPLES, until};
use crate::support::{Place, Said};

/// What `muster exec` gives to a program.
fn given(place: &Place, more: &[&str]) -> Value {
    let said = place.ok(&[&["exec"], more, &["--", "sh", "-c", "cat \"$MUSTER_MCP_CONFIG\""]].concat());
    serde_json::from_str(&said).unwrap()
}

fn sessions(place: &Place) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(place.data().join("plugins/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn a_program_that_is_not_there_or_cannot_be_run_ends_as_a_shell_would_say_it() {
    let place = Place::new();
    let folder = place.path("no-program");
    std::fs::create_dir(&folder).unwrap();
    for (program, code) in [
        (place.path("missing").display().to_string(), 127),
        ("no-such-program-anywhere".to_owned(), 127),
        (folder.display().to_string(), 126),
    ] {
        let said = place.run(&["exec", "--", &program]);
        assert_eq!(said.code(), code, "{said:?}");
        assert!(
            said.err.contains("could not be started") && said.err.contains("PROGRAM was not started"),
            "{said:?}"
        );
    }
}

#[test]
fn a_program_is_given_one_entry_for_each_approved_server_and_its_exit_code_is_musters() {
    let place = Place::new();
    place.approved("tools", "plain");
    let folder = place.package("unread", &["python3", "mcp/server.py"]);
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    let script = r#"umask; stat -c %a "$MUSTER_MCP_CONFIG"; echo "$MUSTER_SESSION_ID"; echo "$MUSTER_MCP_CONFIG"; cat "$MUSTER_MCP_CONFIG"; exit 7"#;
    let mut command = Command::new("sh");
    command.args(["-c", "umask 027; exec \"$@\"", "sh"]);
    let own = place.command(&["exec", "--", "sh", "-c", script]);
    command
        .arg(own.get_program())
        .args(own.get_args())
        .env_clear()
        .current_dir(place.path(""))
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let [umask, mode, session, path, config] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert_eq!(
        (umask, mode),
        ("0027", "600"),
        "the user's umask, the file its user's alone"
    );
    assert!(path.contains(session) && !std::path::Path::new(path).exists());
    let config: Value = serde_json::from_str(config).unwrap();
    let servers = config["mcpServers"].as_object().unwrap();
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["plugin_tools_s"]);
    let entry = &servers["plugin_tools_s"];
    assert_eq!(entry["args"][2], "tools:s");
    assert_eq!(entry["env"]["MUSTER_SESSION_ID"], session);
    assert!(sessions(&place).is_empty());
    assert_ne!(
        session,
        given(&place, &[])["mcpServers"]["plugin_tools_s"]["env"]["MUSTER_SESSION_ID"]
    );
}

#[test]
fn servers_of_the_settings_the_project_and_the_run_stand_beside_the_packages() {
    let place = Place::new();
    place.approved("tools", "plain");
    place.settings(&json!({"mcpServers": {
        "own": {"command": "node", "args": ["a.js"], "env": {"KEY": "of the owner"}},
        "both": {"command": "settings"},
        "plugin_tools_s": {"command": "shadow"},
    }}));
    let project = json!({"mcpServers": {"docs": {"url": "https://example.com/mcp", "headers": {"A": "b"}}, "both": {"command": "project"}}});
    std::fs::write(place.path(".mcp.json"), project.to_string()).unwrap();
    std::fs::write(
        place.path("more.json"),
        json!({"mcpServers": {"more": {"command": "m"}}}).to_string(),
    )
    .unwrap();
    let servers = &given(&place, &["--mcp-config", "more.json"])["mcpServers"];
    assert_eq!(servers["own"]["env"]["KEY"], "of the owner");
    assert_eq!(servers["both"]["command"], "project");
    assert_eq!(
        servers["docs"],
        json!({"type": "http", "url": "https://example.com/mcp", "headers": {"A": "b"}})
    );
    assert_eq!(servers["more"]["command"], "m");
    assert_ne!(servers["plugin_tools_s"]["command"], "shadow");
    // What cannot be read of the owner's and the project's is left out and told; what was asked for by name stops everything.
    std::fs::write(place.path(".mcp.json"), "{").unwrap();
    std::fs::write(place.data().join("settings.json"), "{").unwrap();
    let said = place.run(&["exec", "--", "sh", "-c", "cat \"$MUSTER_MCP_CONFIG\""]);
    assert!(
        said.err.contains("settings.json") && said.err.contains(".mcp.json"),
        "{said:?}"
    );
    let servers: Value = serde_json::from_str(&said.ok()).unwrap();
    assert_eq!(servers["mcpServers"].as_object().unwrap().len(), 1);
    std::fs::write(place.path("broken.json"), "{").unwrap();
    std::fs::remove_file(place.path(".mcp.json")).unwrap();
    nix::unistd::mkfifo(&place.path(".mcp.json"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let said = place.run(&["exec", "--", "true"]);
    assert!(
        said.code() == 0 && said.err.contains("no regular file"),
        "{said:?}"
    );
    for file in ["broken.json", "absent.json"] {
        let said = place.run(&["exec", "--mcp-config", file, "--", "touch", "started"]);
        assert_eq!(said.code(), 1, "{said:?}");
        assert!(!place.path("started").exists());
    }
}

// spec: NAM-014 NAM-015 NAM-016
#[test]
fn an_added_server_with_a_packages_name_stops_the_program_before_it_starts() {
    let place = Place::new();
    place.approved("tools", "plain");
    for key in ["s", "plugin_tools_s", "plugin:tools:s"] {
        let added = json!({"mcpServers": {key: {"command": "x"}}});
        std::fs::write(place.path("more.json"), added.to_string()).unwrap();
        let said: Said = place.run(&[
            "exec",
            "--json",
            "--mcp-config",
            "more.json",
            "--",
            "touch",
            "started",
        ]);
        assert_eq!(said.code(), 1, "{said:?}");
        let document: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["error"]["code"], "name_taken");
        assert!(
            said.err.contains(key) && said.err.contains("was not started"),
            "{said:?}"
        );
        assert!(!place.path("started").exists());
    }
    assert_eq!(place.run(&["exec", "--"]).code(), 2);
    assert_eq!(place.run(&["exec"]).code(), 2);
}

#[test]
fn an_approved_server_that_would_not_start_is_left_out_told_and_logged() {
    let place = Place::new();
    for id in ["a.b", "a_b", "fine"] {
        place.approved(id, "plain");
    }
    let root = place.json(&["plugins", "inspect", "fine"])["root"]
        .as_str()
        .unwrap()
        .to_owned();
    let swapped = Command::new("sh")
        .args(["-c", "chmod -R u+w \"$1\" && rm -r \"$1\"/mcp", "sh", &root])
        .status()
        .unwrap();
    assert!(swapped.success());
    let said = place.run(&["exec", "--", "sh", "-c", "cat \"$MUSTER_MCP_CONFIG\""]);
    assert_eq!(said.out, r#"{"mcpServers":{}}"#, "{said:?}");
    assert_eq!(said.err.lines().count(), 3, "{said:?}");
    let log = place.json(&["plugins", "log"]);
    let dropped: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "server_dropped")
        .collect();
    assert_eq!(dropped.len(), 3, "{log}");
    assert!(dropped.iter().all(|event| event["detail"].is_string()));
}

#[test]
fn no_password_of_the_database_stands_in_the_file() {
    let place = Place::new().with("MUSTER_DATABASE_URL", "postgres://ada:swordfish@localhost/muster");
    place.approved("tools", "plain");
    assert!(!given(&place, &[]).to_string().contains("swordfish"));
    let url = format!("sqlite://{}", place.path("other.db").display());
    let env = &given(&place, &["--database-url", &url])["mcpServers"]["plugin_tools_s"]["env"];
    assert_eq!(env["MUSTER_DATABASE_URL"], url);
}

#[test]
fn signals_reach_the_program_and_a_signal_that_ends_it_is_told_as_shells_do() {
    let place = Place::new();
    for (signal, code) in [
        (Signal::SIGTERM, 41),
        (Signal::SIGHUP, 42),
        (Signal::SIGUSR1, 43),
        (Signal::SIGINT, 44),
    ] {
        let script = "trap 'exit 41' TERM; trap 'exit 42' HUP; trap 'exit 43' USR1; trap 'exit 44' INT; echo ready; while :; do sleep 0.05; done";
        let mut child = place
            .command(&["exec", "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        kill(pid(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
    assert_eq!(place.run(&["exec", "--", "sh", "-c", "kill -9 $$"]).code(), 137);
    let said = place.run(&["exec", "--", "/nowhere/program"]);
    assert!(
        said.code() == 127 && said.err.contains("/nowhere/program"),
        "{said:?}"
    );
    assert!(sessions(&place).is_empty());
}

#[test]
fn what_a_killed_session_left_is_removed_by_the_next_after_its_program_and_a_living_ones_file_stays() {
    let place = Place::new();
    let start = || {
        let mut child = place
            .command(&["exec", "--", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        child
    };
    let (mut killed, mut living) = (start(), start());
    assert_eq!(sessions(&place).len(), 2);
    for file in sessions(&place) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    kill(pid(&killed), Signal::SIGKILL).unwrap();
    let input = killed.stdin.take();
    killed.wait().unwrap();
    // The program of the killed one lives and may read its file yet.
    place.ok(&["exec", "--", "true"]);
    assert_eq!(sessions(&place).len(), 2);
    drop(input);
    until(|| {
        place.ok(&["exec", "--", "true"]);
        sessions(&place).len() == 1
    });
    // Held until it has ended: the end of its input would end it as well.
    let input = living.stdin.take();
    kill(pid(&living), Signal::SIGTERM).unwrap();
    assert_eq!(living.wait().unwrap().code(), Some(143));
    drop(input);
    assert!(sessions(&place).is_empty());
}

mod heavy {
    use super::*;

    const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/support/sdk_client.py");

    // spec: LIF-003 LIF-004 MAN-031
    #[test]
    fn a_program_on_the_official_library_has_the_tools_of_every_approved_server() {
        let Some(tools) = installed("MUSTER_TEST_TOOLS") else {
            return;
        };
        let python = tools.join("venv/bin/python").display().to_string();
        let place = Place::new();
        place.add_owner("ada");
        place.approved("one", "plain");
        place.approved("two", "headers");
        let _watcher = place.watcher();
        let told = place.ok(&["exec", "--", &python, CLIENT, "environment", "{}"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let servers = told["servers"].as_object().unwrap();
        assert_eq!(
            servers.keys().collect::<Vec<_>>(),
            ["plugin_one_s", "plugin_two_s"]
        );
        for server in servers.values() {
            assert!(
                server["tools"]
                    .as_array()
                    .unwrap()
                    .contains(&json!("get_forecast"))
            );
            assert_eq!(server["structured"]["env"]["MUSTER_SESSION_ID"], told["session"]);
        }
        // A call that asks comes to the owner's queue although the library passes few variables on.
        place.ok(&["plugins", "disable", "two"]);
        let asking = place
            .command(&["exec", "--", &python, CLIENT, "write", r#"{"a":1}"#])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = place.asks("parked", 1).remove(0);
        place.ok(&["asks", "approve", ask["id"].as_str().unwrap()]);
        let done = asking.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            told["servers"]["plugin_one_s"]["text"],
            r#"called write with {"a": 1}"#
        );
        assert_eq!(ask["agent"]["label"], told["session"]);
        // The event log has the two sessions apart.
        let log = place.json(&["plugins", "log", "--session", told["session"].as_str().unwrap()]);
        assert!(
            log.as_array()
                .unwrap()
                .iter()
                .all(|event| event["plugin"] == "one"),
            "{log}"
        );
    }

    // spec: LIF-003
    #[test]
    fn claude_code_has_a_packages_tools_under_their_registered_names() {
        let Some(program) = claude() else { return };
        let place = Place::new();
        let tool = "mcp__plugin_forecast_tools_forecast__describe_forecast";
        let steps =
            json!([{"tool": tool, "input": {"region": "hills", "season": "winter"}}, {"text": "Done."}]);
        let model = Model::new(&place.path(""), "model", &steps);
        let home = place.path("home");
        std::fs::create_dir_all(&home).unwrap();
        let place = claude_env(model.port)
            .into_iter()
            .fold(place, |place, (name, value)| place.with(&name, &value))
            .with("TERM", "dumb")
            .with("CLAUDE_CONFIG_DIR", &home.join(".claude").display().to_string());
        place.ok(&["plugins", "install", &format!("{EXAMPLES}/forecast-tools")]);
        place.ok(&["plugins", "approve", "forecast-tools"]);
        let script = format!(
            "exec '{}' -p --model claude-sonnet-4-5 --output-format stream-json --verbose --mcp-config \"$MUSTER_MCP_CONFIG\" --strict-mcp-config --allowedTools {tool} < /dev/null -- 'What is the weather?'",
            program.display()
        );
        let said = place.run(&["exec", "--", "sh", "-c", &script]);
        assert_eq!(said.code(), 0, "{said:?}");
        let first: Value = said
            .out
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|line| line["subtype"] == "init")
            .unwrap();
        let server = &first["mcp_servers"][0];
        assert_eq!(
            (&server["name"], &server["status"]),
            (&json!("plugin_forecast_tools_forecast"), &json!("connected")),
            "{first}"
        );
        let offered = |request: &Value| {
            let tools = request["tools"].as_array();
            tools.is_some_and(|tools| tools.iter().any(|one| one["name"] == tool))
        };
        assert!(
            model.requests().iter().any(offered),
            "the model was never offered {tool}"
        );
        let asked = model.asked().join("\n");
        assert!(asked.contains("snow above 600 metres"), "{asked}");
        until(|| place.decisions() == ["allow:mcp_read_only_hint"]);
    }
}

#[test]
fn what_nobody_has_decided_about_is_named_and_not_silently_missing() {
    let place = Place::new();
    let folder = place.package("fresh", &["python3", "mcp/server.py", "plain"]);
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    let said = place.run(&["exec", "--", "true"]);
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(
        said.err
            .contains("the server s of fresh is not offered: it is review_needed")
            && said.err.contains("muster plugins inspect fresh"),
        "{said:?}"
    );
    place.ok(&["plugins", "reject", "fresh"]);
    assert_eq!(
        place.run(&["exec", "--", "true"]).err,
        "",
        "who rejected it knows"
    );
}
