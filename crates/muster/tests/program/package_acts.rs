//! What acts on packages leave behind and how they may be spelled: audit rows, names, rules that say nothing; and the example in Rust. Never calls a function of
//! muster's.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::package::EXAMPLES;
use crate::support::{Http, MUSTER, Place};

/// The rows about packages, each as its event, what it is about and the hash.
fn rows(place: &Place) -> Vec<(String, String)> {
    let all = place.json(&["audit", "list"]);
    let said = |row: &Value| {
        let event = row["event"].as_str().unwrap().to_owned();
        event.starts_with("package.").then(|| (event, row.to_string()))
    };
    all.as_array().unwrap().iter().filter_map(said).collect()
}

#[test]
fn what_the_command_line_does_about_packages_and_what_came_of_it_stands_in_the_audit_of_the_first_account() {
    let place = Place::new();
    place.add_owner("ada");
    place.add_owner("bob");
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    let hash = place.json(&["plugins", "inspect", "tools"])["capabilities"][0]["definition_hash"].clone();
    for act in ["approve", "disable", "enable", "reject"] {
        place.ok(&["plugins", act, "tools"]);
    }
    // What was refused is no act.
    assert_eq!(
        place.error(&["plugins", "enable", "tools"])["code"],
        "not_allowed"
    );
    assert_eq!(
        place.error(&["plugins", "approve", "tools", "--hash", "00"])["code"],
        "hash_mismatch"
    );
    std::fs::write(folder.join("more"), "x").unwrap();
    place.ok(&["plugins", "update", "tools"]);
    std::fs::remove_file(folder.join("mcp/server.py")).unwrap();
    assert_eq!(
        place.error(&["plugins", "update", "tools"])["code"],
        "invalid_package"
    );
    place.ok(&["plugins", "remove", "tools"]);
    let all = place.ok(&["audit", "list", "--owner", "ada", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&all).unwrap();
    let events: Vec<&str> = all
        .iter()
        .filter_map(|row| row["event"].as_str())
        .filter(|event| event.starts_with("package."))
        .collect();
    assert_eq!(
        events,
        [
            "package.install",
            "package.approve",
            "package.disable",
            "package.enable",
            "package.reject",
            "package.update",
            "package.update",
            "package.remove"
        ]
    );
    let outcomes: Vec<&Value> = all
        .iter()
        .filter(|row| row["event"] == "package.update")
        .map(|row| &row["data"]["outcome"])
        .collect();
    assert_eq!(json!(outcomes), json!([null, "invalid"]));
    let approve = all.iter().find(|row| row["event"] == "package.approve").unwrap();
    let text = approve.to_string();
    assert!(
        text.contains("plugin:tools:mcp_server:s") && text.contains(hash.as_str().unwrap()),
        "{text}"
    );
    let bobs = place.ok(&["audit", "list", "--owner", "bob", "--json"]);
    assert!(!bobs.contains("package."), "{bobs}");
    let verified = place.ok(&["audit", "verify", "--owner", "ada", "--json"]);
    assert!(
        verified.contains("\"ok\":true") || verified.contains("\"ok\": true"),
        "{verified}"
    );
}

#[test]
fn without_an_owner_the_packages_own_ledger_is_the_record_and_no_database_is_made() {
    let place = Place::new();
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    let said = place.run(&["plugins", "install", &folder.display().to_string()]);
    assert!(!said.err.contains("audit"), "{said:?}");
    let said = place.run(&["plugins", "approve", "tools"]);
    assert!(said.code() == 0 && !said.err.contains("audit"), "{said:?}");
    assert!(!place.data().join("muster.db").exists());
    // A database that cannot be reached holds up no decision, and is told.
    let place = place.with("MUSTER_DATABASE_URL", "postgres://127.0.0.1:1/none");
    let said = place.run(&["plugins", "reject", "tools"]);
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(said.err.contains("the audit has no row of it"), "{said:?}");
    let found = place.json(&["plugins", "inspect", "tools"]);
    assert_eq!(found["capabilities"][0]["status"], "trusted_disabled");
    // An owner who comes later finds what is done from then on.
    let place = place.with("MUSTER_DATABASE_URL", "");
    place.add_owner("ada");
    assert!(rows(&place).is_empty());
    place.ok(&["plugins", "approve", "tools"]);
    assert_eq!(rows(&place).len(), 1);
}

#[test]
fn a_server_is_known_by_each_of_its_names_and_never_by_one_of_two() {
    let place = Place::new();
    for id in ["a", "a.b", "plugin"] {
        let folder = place.package(id, &["python3", "mcp/server.py"]);
        place.ok(&["plugins", "install", &folder.display().to_string()]);
    }
    for name in [
        "a:s",
        "a:mcp_server:s",
        "plugin:a:s",
        "plugin:a:mcp_server:s",
        "plugin_a_s",
    ] {
        for (act, status) in [("approve", "trusted_enabled"), ("disable", "trusted_disabled")] {
            let said = place.ok(&["plugins", act, name]);
            assert_eq!(said, format!("plugin:a:mcp_server:s {status}\n"), "{name}");
        }
        place.ok(&["plugins", "enable", name]);
        let mut client = place.client(name, &[]);
        assert_eq!(client.greet()["serverInfo"]["name"], "plugin_a_s", "{name}");
        assert_eq!(client.leave(), 0);
    }
    // A package called `plugin` is one like any other.
    let said = place.ok(&["plugins", "approve", "plugin:s"]);
    assert_eq!(said, "plugin:plugin:mcp_server:s trusted_enabled\n");
    // What could be either is neither.
    let twin = place.package("a-b", &["python3", "mcp/server.py"]);
    place.ok(&["plugins", "install", &twin.display().to_string()]);
    for words in [["plugins", "approve"], ["plugins", "serve"]] {
        let said = place.run(&[words[0], words[1], "plugin_a_b_s"]);
        assert_eq!(said.code(), 2, "{said:?}");
        assert!(said.err.contains("a-b:s or a.b:s"), "{said:?}");
    }
    for odd in ["a:s:t", "a:", ":s", "plugin:a:tool:s"] {
        assert_eq!(place.run(&["plugins", "approve", odd]).code(), 2, "{odd}");
    }
    assert_eq!(
        place.error(&["plugins", "approve", "plugin_c_s"])["code"],
        "not_found"
    );
    assert_eq!(
        place.error(&["plugins", "approve", "a:other"])["code"],
        "not_found"
    );
}

#[test]
fn a_rule_that_matches_no_tool_is_told_and_one_that_may_match_yet_is_not() {
    let place = Place::new();
    place.approved("tools", "plain");
    place.settings(
        &json!({"approval_mode": "never-ask", "aproval_mode": "always-ask", "permissions": {
            "allow": ["mcp__plugin_tools_s__write"],
            "deny": ["mcp__plugin_tools_s__wriet", "mcp__plugin_tool_s__write", "Bash(rm:*)"],
        }}),
    );
    let told = |words: &[&str]| {
        let said = place.run(words);
        assert_eq!(said.code(), 0, "{said:?}");
        let lines = said.err.lines().filter(|line| line.contains("matches no tool"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // Before the first start the tools of the server are not known.
    let before = told(&["plugins", "list"]);
    assert_eq!(before.len(), 2, "{before:?}");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    assert!(!client.tools().is_empty());
    assert_eq!(client.leave(), 0);
    let inspected = place.run(&["plugins", "inspect", "tools"]);
    assert!(
        inspected.err.contains("the key aproval_mode of settings.json"),
        "{inspected:?}"
    );
    assert!(
        inspected.out.contains("mcp__plugin_tools_s__write\n"),
        "{inspected:?}"
    );
    for words in [
        &["plugins", "list"][..],
        &["plugins", "inspect", "tools"],
        &["plugins", "list", "--json"],
    ] {
        let after = told(words);
        assert_eq!(after.len(), 3, "{after:?}");
        assert!(
            after
                .iter()
                .any(|line| line.contains("mcp__plugin_tools_s__wriet") && line.contains("permissions.deny")),
            "{after:?}"
        );
        assert!(
            !after.iter().any(|line| line.contains("tools_s__write ")),
            "{after:?}"
        );
    }
    let said = place.run(&["doctor"]);
    let line = said
        .out
        .lines()
        .find(|line| line.contains("1 installed"))
        .unwrap();
    assert!(line.contains("Bash(rm:*)") && line.starts_with("ok"), "{said:?}");
}

mod heavy {
    use super::*;

    /// The folder that `pack.sh` makes, from an unoptimised build.
    fn packed(place: &Place) -> std::path::PathBuf {
        let own = Path::new(EXAMPLES).join("word-count");
        let target = Path::new(MUSTER).parent().and_then(Path::parent).unwrap();
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--locked",
                "--offline",
                "--package",
                "word-count",
                "--target-dir",
            ])
            .arg(target)
            .current_dir(&own)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        let folder = place.path("packed");
        for part in ["bin", ".muse-plugin"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        std::fs::copy(
            own.join(".muse-plugin/plugin.json"),
            folder.join(".muse-plugin/plugin.json"),
        )
        .unwrap();
        std::fs::copy(target.join("debug/word-count"), folder.join("bin/word-count")).unwrap();
        folder
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_example_in_rust_is_installed_approved_served_and_called() {
        let place = Place::new();
        place.add_owner("ada");
        let folder = packed(&place).display().to_string();
        assert_eq!(
            place.ok(&["plugins", "validate", &folder]),
            "word-count can be installed\n"
        );
        place.ok(&["plugins", "install", &folder]);
        assert_eq!(
            place
                .run_with(&["plugins", "serve", "word-count:count"], "{}\n")
                .code(),
            1,
            "nobody has approved it"
        );
        place.ok(&["plugins", "approve", "word-count"]);
        let counts = json!({"lines": 2, "words": 3, "characters": 6});
        // Over standard streams; it says of its tool that it only reads, so nobody is asked.
        let mut client = place.client("word-count:count", &[]);
        assert_eq!(client.greet()["serverInfo"]["name"], "plugin_word_count_count");
        assert_eq!(client.tools()[0]["name"], "count_words");
        let told = client.call("count_words", &json!({"text": "a bé\nc"}));
        assert_eq!(told["structuredContent"], counts, "{told}");
        assert_eq!(client.call("count_words", &json!({}))["isError"], true);
        assert_eq!(client.leave(), 0);
        assert_eq!(
            place.decisions(),
            ["allow:mcp_read_only_hint", "allow:mcp_read_only_hint"]
        );
        // And over HTTP, for an agent.
        let root = place.path("project");
        std::fs::create_dir_all(&root).unwrap();
        place.ok(&["project", "add", "shop", "--root", &root.display().to_string()]);
        let task = place.ok(&["task", "add", "--project", "shop", "--title", "Count"]);
        let token = place.ok(&["token", "create", "--kind", "agent", "--task", task.trim()]);
        let server = place.serve();
        let http: Http = server.http();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "count_words", "arguments": {"text": "a bé\nc"}}});
        let answer = http
            .post("/packages/word-count/count/mcp", token.trim(), &body)
            .await;
        assert_eq!(answer.json()["result"]["structuredContent"], counts, "{answer:?}");
        let (said, _) = server.stop();
        assert_eq!(said.code(), 0, "{said:?}");
    }
}

/// Writes the files of a package of another format.
fn package(folder: &Path, files: &[(&str, Value)]) {
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text.to_string()).unwrap();
    }
}

#[test]
fn what_a_manifest_is_warned_of_is_told_when_it_is_stored_and_stays_with_the_package() {
    let place = Place::new();
    let folder = place.path("tides");
    let manifest = json!({"name": "tides", "version": "1.0.0"});
    let server = |word: &str| json!({"mcpServers": {"here": {"command": "python3", "args": [word]}}});
    // A relative word is looked for in the session's folder.
    package(
        &folder,
        &[
            ("srv.py", Value::Null),
            (".claude-plugin/plugin.json", manifest),
            (".mcp.json", server("srv.py")),
        ],
    );
    let elsewhere = "another file could run than the one that is reviewed";
    let said = place.run(&["plugins", "install", &folder.display().to_string()]);
    assert!(said.code() == 0 && said.err.contains(elsewhere), "{said:?}");
    let shown = place.ok(&["plugins", "inspect", "tides"]);
    assert_eq!(shown.matches(elsewhere).count(), 1, "{shown}");
    let found = place.json(&["plugins", "inspect", "tides"]);
    assert_eq!(found["capabilities"][0]["diagnostics"][0]["code"], "unsafe-path");
    assert_eq!(found["capabilities"][0]["status"], "review_needed");
    // What an update mends is not said any more.
    package(&folder, &[(".mcp.json", server("${CLAUDE_PLUGIN_ROOT}/srv.py"))]);
    let said = place.run(&["plugins", "update", "tides"]);
    assert!(said.code() == 0 && !said.err.contains("warning"), "{said:?}");
    assert!(!place.ok(&["plugins", "inspect", "tides"]).contains("warning"));
}

#[test]
fn a_server_that_is_left_out_is_named_as_long_as_the_package_is_there() {
    let place = Place::new();
    let folder = place.path("tides");
    let schema = |what: &str| format!("https://agent-plugins.org/schemas/1.0.0/{what}.schema.json");
    let servers = json!({
        "tides": {"type": "stdio", "command": "python3", "args": ["-V"]},
        "old": {"type": "sse", "url": "https://tides.example.test/sse"},
    });
    package(
        &folder,
        &[
            (
                "plugin.json",
                json!({"$schema": schema("plugin"), "name": "tides", "version": "1.0.0"}),
            ),
            (
                "mcp.json",
                json!({"$schema": schema("mcp"), "mcpServers": servers}),
            ),
        ],
    );
    let said = place.run(&["plugins", "install", &folder.display().to_string()]);
    assert!(said.code() == 0 && said.err.contains("(old"), "{said:?}");
    assert!(place.ok(&["plugins", "inspect", "tides"]).contains("(old"));
    let found = place.json(&["plugins", "inspect", "tides"]);
    assert_eq!(found["diagnostics"][0]["entry"], "old");
    assert_eq!(found["capabilities"].as_array().unwrap().len(), 1);
}

#[test]
fn a_stored_copy_that_somebody_changed_is_not_stored_again_in_silence() {
    let place = Place::new();
    place.approved("tools", "plain");
    let root = place.json(&["plugins", "inspect", "tools"])["root"].clone();
    let file = Path::new(root.as_str().unwrap()).join("mcp/server.py");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&file, "print('other')").unwrap();
    let found = place.json(&["plugins", "inspect", "tools"]);
    assert_eq!(found["capabilities"][0]["status"], "blocked");
    let said = place.run(&["plugins", "update", "tools"]);
    assert!(
        said.code() == 0 && said.err.contains("somebody changed it on the disk"),
        "{said:?}"
    );
    let said = place.run(&["plugins", "update", "tools"]);
    assert!(
        said.code() == 0 && !said.err.contains("somebody changed it"),
        "{said:?}"
    );
}

/// A page's act that waits for the packages' ledger, which another process holds and does not let go.
#[tokio::test]
async fn a_server_ends_in_time_while_another_process_holds_the_packages_ledger() {
    let place = Place::new();
    place.add_owner("ada");
    let folder = place.package("tools", &["python3", "mcp/server.py"]);
    place.ok(&["plugins", "install", &folder.display().to_string()]);
    place.ok(&["plugins", "approve", "tools"]);
    let hash = place.json(&["plugins", "inspect", "tools"])["capabilities"][0]["definition_hash"].clone();
    let server = place.serve();
    let browser = server.sign_in("ada").await;
    let lock = place.data().join("plugins/ledger.lock");
    let held = std::fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let fields = [
        ("about", "plugin:tools:mcp_server:s".to_owned()),
        ("act", "disable".to_owned()),
        ("hash", hash.as_str().unwrap().to_owned()),
    ];
    let acting = tokio::spawn(async move {
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        browser
            .try_submit("/plugins/packages/tools", &fields)
            .await
            .is_ok_and(|answer| answer.status == 303)
    });
    let waits = || {
        std::fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|file| file == lock)
    };
    for _ in 0..3_000 {
        if waits() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(waits(), "the act never came to the lock");
    let (said, _) = server.stop();
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(!acting.await.unwrap(), "it was told as done");
    drop(held);
    // What was not told as done is not done, and has no row.
    let status = place.json(&["plugins", "inspect", "tools"])["capabilities"][0]["status"].clone();
    assert_ne!(status, "trusted_disabled");
    assert!(rows(&place).iter().all(|(event, _)| event != "package.disable"));
}
