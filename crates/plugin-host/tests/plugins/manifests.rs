//! What is said about packages of all three formats. Never starts one.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use muster_plugin_host::{Checked, Cwd, Family, Launch, Place, validate};
use serde_json::{Value, json};

use crate::common::World;

/// The codes of the errors, or of all findings.
fn codes(checked: &Checked, errors: bool) -> BTreeSet<String> {
    checked
        .diagnostics
        .iter()
        .filter(|one| one.is_error() || !errors)
        .map(|one| {
            serde_json::to_value(one).unwrap()["code"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn errors(checked: &Checked) -> Vec<String> {
    codes(checked, true).into_iter().collect()
}

fn servers(world: &World, servers: &Value) -> Checked {
    validate(&world.package_with("p", servers))
}

fn edit(world: &World, change: impl FnOnce(&mut Value)) -> Checked {
    let folder = world.package("p", &[]);
    let path = folder.join(".muse-plugin/plugin.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
    validate(&folder)
}

// spec: MAN-001 MAN-004 MAN-011 MAN-015 MAN-017 MAN-018 MAN-023 MAN-024 LIM-001 LIM-002 LIM-005..LIM-008
#[test]
fn what_is_not_read_is_a_warning_and_changes_nothing() {
    let world = World::new();
    let checked = servers(
        &world,
        &json!([
            {"id": "a", "command": ["python3", "mcp/server.py"]},
            {"id": "b", "transport": "stdio", "command": ["/usr/bin/python3", "-c", "x/y:z"], "url": "http://x", "env": {"A": "1"}, "cwd": "/", "args": ["x"], "framing": "x", "tool_timeout_sec": 5, "required": true},
            {"id": "c", "transport": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "x"}, "command": ["../no/such"]},
        ]),
    );
    assert_eq!(
        errors(&checked),
        ["missing-capability-path"],
        "a word with a slash is a path"
    );
    let checked = servers(
        &world,
        &json!([
            {"id": "a", "command": ["python3", "mcp/server.py"]},
            {"id": "b", "transport": "stdio", "command": ["/usr/bin/python3", "--at=x/y", "https://x/y"], "url": "http://x", "env": {"A": "1"}, "cwd": "/", "args": ["x"], "framing": "x", "tool_timeout_sec": 5, "required": true},
            {"id": "c", "transport": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "x"}, "command": ["../no/such"]},
        ]),
    );
    assert!(checked.ok(), "{:?}", checked.diagnostics);
    assert_eq!(
        codes(&checked, false),
        BTreeSet::from(["unsupported-field".to_owned()])
    );
    let warned = |entry: &str| -> Vec<&str> {
        checked
            .diagnostics
            .iter()
            .filter(|one| one.entry.as_deref() == Some(entry))
            .filter_map(|one| one.field.as_deref())
            .collect()
    };
    assert_eq!(warned("a"), Vec::<&str>::new());
    let b = BTreeSet::from_iter(warned("b"));
    assert_eq!(
        b,
        BTreeSet::from([
            "args",
            "cwd",
            "env",
            "framing",
            "required",
            "tool_timeout_sec",
            "url"
        ])
    );
    assert_eq!(
        BTreeSet::from_iter(warned("c")),
        BTreeSet::from(["command", "headers"])
    );
    let package = checked.package.unwrap();
    assert_eq!(package.family, Family::Native);
    let launches: Vec<&Launch> = package.servers.iter().map(|server| &server.launch).collect();
    assert_eq!(
        launches[0],
        &Launch::Stdio {
            argv: vec!["python3".to_owned(), "mcp/server.py".to_owned()],
            path: Some(1),
            env: Default::default(),
            cwd: Cwd::Session
        }
    );
    assert!(
        matches!(launches[1], Launch::Stdio { path: None, env, cwd: Cwd::Session, .. } if env.is_empty())
    );
    assert!(matches!(launches[2], Launch::Http { headers, .. } if headers.is_empty()));
}

// spec: MAN-002 MAN-003 MAN-005..MAN-009 MAN-012..MAN-014 MAN-016 MAN-019..MAN-021
#[test]
fn each_fault_of_an_entry_has_its_code() {
    let world = World::new();
    let file = "mcp/server.py";
    for (entry, code) in [
        (json!({"command": ["python3", file]}), "invalid-capability-id"),
        (
            json!({"id": "A", "command": ["python3"]}),
            "invalid-capability-id",
        ),
        (json!({"id": 1, "command": ["python3"]}), "invalid-capability-id"),
        (json!({"id": "a"}), "missing-capability-command"),
        (
            json!({"id": "a", "url": "https://x.example"}),
            "missing-capability-command",
        ),
        (json!({"id": "a", "command": []}), "missing-capability-command"),
        (
            json!({"id": "a", "command": "python3"}),
            "missing-capability-command",
        ),
        (json!({"id": "a", "command": [1]}), "missing-capability-command"),
        (json!({"id": "a", "command": [""]}), "missing-capability-command"),
        (
            json!({"id": "a", "transport": "sse", "url": "https://x.example"}),
            "invalid-manifest-schema",
        ),
        (json!({"id": "a", "transport": 1}), "invalid-manifest-schema"),
        (json!({"id": "a", "transport": "http"}), "missing-capability-url"),
        (
            json!({"id": "a", "transport": "http", "url": ""}),
            "missing-capability-url",
        ),
        (
            json!({"id": "a", "transport": "http", "url": "  "}),
            "missing-capability-url",
        ),
        (
            json!({"id": "a", "transport": "http", "url": "ftp://x.example"}),
            "invalid-manifest-schema",
        ),
        (
            json!({"id": "a", "transport": "http", "url": "\u{0}https://x.example"}),
            "invalid-manifest-schema",
        ),
        (
            json!({"id": "a", "transport": "http", "url": "mcp"}),
            "invalid-manifest-schema",
        ),
        (
            json!({"id": "a", "transport": "http", "url": "https://u:p@x.example"}),
            "invalid-manifest-schema",
        ),
        (
            json!({"id": "a", "command": ["python3", "mcp/missing.py"]}),
            "missing-capability-path",
        ),
        (
            json!({"id": "a", "command": ["python3", "mcp/"]}),
            "missing-capability-path",
        ),
        (
            json!({"id": "a", "command": ["./mcp"]}),
            "missing-capability-path",
        ),
        (json!({"id": "a", "command": ["../evil.py"]}), "unsafe-path"),
        (
            json!({"id": "a", "command": ["mcp/../../evil.py"]}),
            "unsafe-path",
        ),
        (
            json!({"id": "a", "command": ["mcp/../mcp/server.py"]}),
            "unsafe-path",
        ),
        (json!("a"), "invalid-manifest-schema"),
    ] {
        let checked = servers(&world, &json!([entry]));
        assert_eq!(errors(&checked), [code], "{entry}");
        assert!(!checked.ok());
    }
    let twice = json!([{"id": "a", "command": ["x"]}, {"id": "a", "command": ["y"]}]);
    assert_eq!(errors(&servers(&world, &twice)), ["duplicate-capability-id"]);
}

// spec: MAN-025 MAN-029 TRB-001 TRB-002
#[test]
fn every_fault_is_reported_in_one_run_with_entry_field_and_what_to_do() {
    let world = World::new();
    let checked = servers(
        &world,
        &json!([{"id": "a"}, {"id": "b", "command": ["python3", "no/file.py"]}, {"id": "c", "transport": "sse"}]),
    );
    let shown = serde_json::to_value(&checked.diagnostics).unwrap();
    let one = |entry: &str| {
        let all = shown.as_array().unwrap();
        all.iter().find(|one| one["entry"] == entry).unwrap().clone()
    };
    assert_eq!(shown.as_array().unwrap().len(), 3);
    assert_eq!(one("a")["code"], "missing-capability-command");
    assert_eq!(one("a")["field"], "command");
    assert_eq!(one("a")["severity"], "error");
    assert!(
        one("a")["message"]
            .as_str()
            .unwrap()
            .contains("add \"command\": [\"<program>\", ...]")
    );
    let message = one("b")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("fix the path or add the file"), "{message}");
    assert_eq!(one("c")["field"], "transport");
    assert_eq!(checked.id.as_deref(), Some("p"));
}

// spec: MAN-028
#[test]
fn each_fault_of_the_manifest_has_its_code() {
    type Change = fn(&mut Value);
    let world = World::new();
    let changes: [(Change, &str); 14] = [
        (|m| m["schemaVersion"] = json!(2), "invalid-manifest-schema"),
        (|m| m["schemaVersion"] = json!("1"), "invalid-manifest-schema"),
        (|m| m["name"] = json!("Not An Id"), "invalid-plugin-id"),
        (|m| m["name"] = json!("../p"), "invalid-plugin-id"),
        (|m| m["name"] = json!(1), "invalid-manifest-schema"),
        (|m| m["name"] = json!("muse-core"), "bundled_plugin_id_reserved"),
        (|m| m["version"] = json!("one two"), "invalid-version"),
        (|m| m["version"] = json!(1), "invalid-manifest-schema"),
        (
            |m| drop(m.as_object_mut().unwrap().remove("description")),
            "invalid-manifest-schema",
        ),
        (
            |m| m["compat"] = json!({"manifestDir": ".claude-plugin"}),
            "manifest-family-mismatch",
        ),
        (
            |m| drop(m.as_object_mut().unwrap().remove("compat")),
            "invalid-manifest-schema",
        ),
        (|m| m["capabilities"] = json!([]), "invalid-manifest-schema"),
        (
            |m| m["capabilities"] = json!({"mcpServers": {}}),
            "invalid-manifest-schema",
        ),
        (
            |m| m["capabilities"] = json!({"skills": [{"id": "x"}]}),
            "unsupported-capability",
        ),
    ];
    for (number, (change, code)) in changes.into_iter().enumerate() {
        assert_eq!(errors(&edit(&world, change)), [code], "change {number}");
    }
    let more = edit(&world, |m| {
        m["extra"] = json!(1);
        m["capabilities"]["skills"] = json!([{"id": "x"}]);
    });
    assert!(more.ok());
    assert_eq!(
        codes(&more, false),
        BTreeSet::from([
            "unsupported-capability".to_owned(),
            "unsupported-field".to_owned()
        ])
    );
    let folder = world.package("q", &[]);
    fs::write(folder.join(".muse-plugin/plugin.json"), "{\"name\":").unwrap();
    assert_eq!(
        errors(&validate(&folder)),
        ["invalid-manifest-json", "invalid-manifest-schema"]
    );
    // Of two values under one name a person may read the first and a program takes the last, however deep and however it is spelled.
    for twice in [
        r#"{"name":"q","version":"1","name":"q"}"#,
        r#"{"name":"q","na\u006de":"r","version":"1"}"#,
        r#"{"name":"q","capabilities":{"mcp_servers":[{"id":"s","command":["a"],"command":["b"]}]}}"#,
    ] {
        fs::write(folder.join(".muse-plugin/plugin.json"), twice).unwrap();
        let checked = validate(&folder);
        assert_eq!(errors(&checked), ["invalid-manifest-schema"], "{twice}");
        assert!(
            checked
                .diagnostics
                .iter()
                .any(|one| one.message.contains("twice")),
            "{twice}"
        );
    }
    fs::write(folder.join(".muse-plugin/plugin.json"), "[]").unwrap();
    assert_eq!(errors(&validate(&folder)), ["invalid-manifest-schema"]);
    fs::write(folder.join(".muse-plugin/plugin.json"), " ".repeat(131_073)).unwrap();
    assert_eq!(errors(&validate(&folder)), ["invalid-plugin-package"]);
    assert_eq!(
        errors(&validate(Path::new("/nonexistent"))),
        ["invalid-plugin-package"]
    );
}

// spec: MAN-022
#[test]
fn links_and_special_files_anywhere_keep_a_package_out() {
    let world = World::new();
    let folder = world.package("p", &[]);
    fs::remove_file(folder.join("mcp/server.py")).unwrap();
    let outside = world.path("outside");
    fs::write(&outside, "the owner's").unwrap();
    symlink(&outside, folder.join("mcp/server.py")).unwrap();
    let checked = validate(&folder);
    assert!(errors(&checked).contains(&"unsafe-path".to_owned()));
    // A link would be written through.
    fs::remove_file(folder.join("mcp/server.py")).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "the owner's");
    for (place, target) in [
        ("data", "/tmp"),
        ("mcp/inner.py", "server.py"),
        (".muse-plugin/x", "/"),
    ] {
        let folder = world.package("p", &[]);
        symlink(target, folder.join(place)).unwrap();
        assert_eq!(errors(&validate(&folder)), ["unsafe-path"], "{place}");
        fs::remove_file(folder.join(place)).unwrap();
    }
    let folder = world.package("q", &[]);
    nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(errors(&validate(&folder)), ["invalid-plugin-package"]);
    let folder = world.package("r", &[]);
    fs::write(folder.join("x\ny"), "").unwrap();
    assert_eq!(errors(&validate(&folder)), ["unsafe-path"]);
    let folder = world.package("s", &[]);
    let large = fs::File::create(folder.join("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    assert_eq!(errors(&validate(&folder)), ["invalid-plugin-package"]);
    // A manifest that is a link is none.
    let folder = world.package("t", &[]);
    fs::rename(folder.join(".muse-plugin/plugin.json"), folder.join("real.json")).unwrap();
    symlink("../real.json", folder.join(".muse-plugin/plugin.json")).unwrap();
    assert_eq!(errors(&validate(&folder)), ["missing-manifest", "unsafe-path"]);
}

#[test]
fn a_package_has_exactly_one_format() {
    let world = World::new();
    let folder = world.path("packages/none");
    fs::create_dir_all(&folder).unwrap();
    assert_eq!(errors(&validate(&folder)), ["missing-manifest"]);
    let folder = world.package("p", &[]);
    fs::create_dir(folder.join(".claude-plugin")).unwrap();
    fs::write(folder.join(".claude-plugin/plugin.json"), "{\"name\":\"p\"}").unwrap();
    assert_eq!(errors(&validate(&folder)), ["multiple-manifests"]);
    let folder = world.package("q", &[]);
    fs::write(folder.join("plugin.json"), "{\"name\":\"q\"}").unwrap();
    let checked = validate(&folder);
    assert!(checked.ok());
    assert!(codes(&checked, false).contains("ignored-root-manifest"));
    fs::write(
        folder.join("plugin.json"),
        "{\"$schema\":\"https://agent-plugins.org/schemas/1.0.0/plugin.schema.json\",\"name\":\"q\"}",
    )
    .unwrap();
    assert_eq!(errors(&validate(&folder)), ["multiple-manifests"]);
    let folder = world.path("packages/codex");
    fs::create_dir_all(folder.join(".codex-plugin")).unwrap();
    fs::write(folder.join(".codex-plugin/plugin.json"), "{\"name\":\"q\"}").unwrap();
    assert_eq!(errors(&validate(&folder)), ["missing-manifest"]);
}

fn agent_plugin(world: &World, servers: &Value) -> Checked {
    let folder = world.path("packages/agent");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(folder.join("bin/run"), "").unwrap();
    fs::write(
        folder.join("plugin.json"),
        json!({"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "agent", "version": "2"}).to_string(),
    )
    .unwrap();
    fs::write(
        folder.join("mcp.json"),
        json!({"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": servers})
            .to_string(),
    )
    .unwrap();
    validate(&folder)
}

#[test]
fn the_portable_format_skips_a_broken_server_and_keeps_its_siblings() {
    let world = World::new();
    let checked = agent_plugin(
        &world,
        &json!({
            "good": {"type": "stdio", "command": "./bin/run", "args": ["${PLUGIN_ROOT}/x", "a/b"], "env": {"A": "${PLUGIN_DATA}"}},
            "inData": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/a"},
            "web": {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"X": "y", "Authorization": "z"}},
            "old": {"type": "sse", "url": "https://example.com"},
            "plain": {"type": "streamable-http", "url": "http://example.com"},
            "open": {"type": "stdio", "command": "x", "more": 1},
            "words": {"type": "stdio", "command": "node --eval"},
            "out": {"type": "stdio", "command": "./../x"},
            "none": {"type": "stdio", "command": "./bin/none"},
            "cwd": {"type": "stdio", "command": "x", "cwd": "/"},
            "own": {"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "/"}},
        }),
    );
    assert!(checked.ok(), "{:?}", checked.diagnostics);
    let skipped: BTreeSet<&str> = checked
        .diagnostics
        .iter()
        .filter(|one| one.code == muster_plugin_host::Code::AgentMcpServerSkipped)
        .filter_map(|one| one.entry.as_deref())
        .collect();
    assert_eq!(
        skipped,
        BTreeSet::from(["old", "plain", "open", "words", "out", "none", "cwd", "own"])
    );
    let package = checked.package.unwrap();
    assert_eq!(package.servers.len(), 3);
    let launch = |id: &str| package.server(id).unwrap().launch.clone();
    assert!(matches!(
        launch("good"),
        Launch::Stdio {
            path: Some(0),
            cwd: Cwd::In(Place::Root, _),
            ..
        }
    ));
    assert!(matches!(
        launch("inData"),
        Launch::Stdio {
            cwd: Cwd::In(Place::Data, _),
            ..
        }
    ));
    assert!(matches!(launch("web"), Launch::Http { headers, .. } if headers.len() == 1));
    let folder = world.path("packages/agent");
    fs::write(folder.join("mcp.json"), "{}").unwrap();
    let checked = validate(&folder);
    assert!(checked.ok() && codes(&checked, false).contains("agent-component-invalid"));
    let twice = r#"{"$schema":"https://agent-plugins.org/schemas/1.0.0/mcp.schema.json","mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}"#;
    fs::write(folder.join("mcp.json"), twice).unwrap();
    let checked = validate(&folder);
    assert!(
        codes(&checked, false).contains("agent-component-invalid"),
        "{checked:?}"
    );
    assert!(checked.package.unwrap().servers.is_empty());
    fs::write(
        folder.join("plugin.json"),
        json!({"$schema": "https://agent-plugins.org/schemas/9.0.0/plugin.schema.json", "name": "a--b"})
            .to_string(),
    )
    .unwrap();
    assert_eq!(
        errors(&validate(&folder)),
        ["invalid-plugin-id", "unsupported-agent-schema"]
    );
}

#[test]
fn claude_codes_layout_is_read_with_its_variables_and_none_of_the_owners() {
    let world = World::new();
    let folder = world.path("packages/claude");
    fs::create_dir_all(folder.join(".claude-plugin")).unwrap();
    fs::create_dir_all(folder.join("commands")).unwrap();
    fs::write(folder.join("server.js"), "").unwrap();
    fs::write(
        folder.join(".claude-plugin/plugin.json"),
        json!({"name": "claude", "version": "1.0.0"}).to_string(),
    )
    .unwrap();
    let write = |servers: Value| {
        fs::write(
            folder.join(".mcp.json"),
            json!({"mcpServers": servers}).to_string(),
        )
        .unwrap();
        validate(&folder)
    };
    fs::write(
        folder.join(".mcp.json"),
        r#"{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}"#,
    )
    .unwrap();
    assert!(
        !validate(&folder).ok(),
        "the second of two servers of one name is none that was read"
    );
    let checked = write(json!({
        "Local": {"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/server.js"], "env": {"TOKEN": "${MY_TOKEN}"}},
        "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
    }));
    assert!(checked.ok(), "{:?}", checked.diagnostics);
    assert_eq!(
        codes(&checked, false),
        BTreeSet::from(
            [
                "honored-declaration",
                "unsupported-capability",
                "unsupported-field"
            ]
            .map(str::to_owned)
        )
    );
    let package = checked.package.unwrap();
    assert_eq!((package.family, package.servers.len()), (Family::ClaudeCode, 2));
    assert!(
        matches!(&package.server("web").unwrap().launch, Launch::Http { headers, .. } if headers.is_empty())
    );
    for (servers, code) in [
        (json!({"a": {"args": []}}), "missing-capability-command"),
        (
            json!({"a": {"command": "x", "args": ["${CLAUDE_PLUGIN_ROOT}/../y"]}}),
            "unsafe-path",
        ),
        (
            json!({"a": {"command": "${CLAUDE_PLUGIN_ROOT}/none"}}),
            "missing-capability-path",
        ),
        (
            json!({"a": {"type": "sse", "url": "https://x.example"}}),
            "invalid-manifest-schema",
        ),
        (json!({"a": {"type": "http"}}), "missing-capability-url"),
        (
            json!({"a": {"command": "x", "env": {"CLAUDE_PLUGIN_ROOT": "/"}}}),
            "invalid-manifest-schema",
        ),
        (json!({"a b": {"command": "x"}}), "invalid-capability-id"),
        // Of this package, and looked for where the session works.
        (json!({"a": {"command": "./server.js"}}), "unsafe-path"),
    ] {
        assert_eq!(errors(&write(servers.clone())), [code], "{servers}");
    }
    let warned = |word: &str| {
        let checked = write(json!({"a": {"command": "node", "args": [word]}}));
        assert!(checked.ok(), "{word}");
        codes(&checked, false).contains("unsafe-path")
    };
    assert!(warned("./server.js") && warned(".//server.js") && warned("server.js"));
    // What is not in the package is the session's own.
    assert!(!warned("./other.js") && !warned("other.js") && !warned("${CLAUDE_PLUGIN_ROOT}/server.js"));
    // A program without a slash is looked for in PATH alone.
    let bare = write(json!({"a": {"command": "server.js"}}));
    assert!(bare.ok() && !codes(&bare, false).contains("unsafe-path"));
    let manifest = folder.join(".claude-plugin/plugin.json");
    fs::write(
        &manifest,
        json!({"name": "claude", "mcpServers": "../x.json"}).to_string(),
    )
    .unwrap();
    assert_eq!(errors(&validate(&folder)), ["unsafe-path"]);
    fs::write(
        &manifest,
        json!({"name": "claude", "mcpServers": {"in": {"command": "x"}}}).to_string(),
    )
    .unwrap();
    assert_eq!(validate(&folder).package.unwrap().servers[0].id, "in");
}

#[test]
fn hooks_are_a_closed_set_and_are_reviewed_like_servers() {
    let world = World::new();
    let hook = |entry: Value| {
        edit(&world, |m| {
            m["capabilities"]["hooks"] = json!([{"id": "h", "event": "Stop", "command": ["x"]}, entry])
        })
    };
    let good = hook(json!({"id": "i", "event": "Stop", "command": ["x"], "timeoutMs": 5}));
    assert!(good.ok());
    assert!(codes(&good, false).contains("duplicate-hook-source"));
    for (entry, code) in [
        (
            json!({"id": "i", "event": "Setup", "command": ["x"]}),
            "unsupported-hook-event",
        ),
        (json!({"id": "i", "event": "Stop"}), "missing-capability-command"),
        (
            json!({"id": "i", "event": "Stop", "command": ["x"], "env": {}}),
            "invalid-manifest-schema",
        ),
        (
            json!({"id": "h", "event": "Stop", "command": ["y"]}),
            "duplicate-capability-id",
        ),
        (
            json!({"id": "i", "event": "Stop", "command": ["../x"]}),
            "unsafe-path",
        ),
    ] {
        assert_eq!(errors(&hook(entry.clone())), [code], "{entry}");
    }
}
