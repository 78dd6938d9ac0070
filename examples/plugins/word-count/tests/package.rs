//! The package as it is packed: valid, installed, approved, and its program answering. Never leaves anything behind.
#![cfg(test)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use muster_core::Clock;
use muster_plugin_host::{Act, Host, Launch, ServerKey, Target};
use serde_json::{Value, json};

#[test]
fn the_packed_example_is_installed_approved_and_answers() {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("word-count");
    fs::create_dir_all(package.join("bin")).unwrap();
    fs::create_dir_all(package.join(".muse-plugin")).unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = ".muse-plugin/plugin.json";
    fs::copy(own.join(manifest), package.join(manifest)).unwrap();
    let host = Host::new(&dir.path().join("data"), Clock::system());
    assert!(
        !host.validate(&package).ok(),
        "without its program it is no package"
    );
    fs::copy(env!("CARGO_BIN_EXE_word-count"), package.join("bin/word-count")).unwrap();
    assert!(host.validate(&package).diagnostics.is_empty());
    host.install(&package).unwrap();
    host.decide(&Target::Plugin("word-count".to_owned()), Act::Approve, None)
        .unwrap();
    let ready = host.ready(&ServerKey::new("word-count", "count")).unwrap();
    assert!(matches!(ready.launch, Launch::Stdio { path: Some(0), .. }));
    let mut server = Command::new(ready.root.join("bin/word-count"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    for (method, params) in [
        ("initialize", json!({"protocolVersion": "2025-06-18"})),
        (
            "tools/call",
            json!({"name": "count.words", "arguments": {"text": "a bé\nc"}}),
        ),
        ("tools/call", json!({"name": "count.words"})),
        ("no/such", json!({})),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let said = server.wait_with_output().unwrap();
    let answers: Vec<Value> = String::from_utf8(said.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(
        answers[1]["result"]["structuredContent"],
        json!({"lines": 2, "words": 3, "characters": 6})
    );
    assert_eq!(answers[2]["result"]["isError"], true);
    assert!(answers[3]["error"].is_object());
}
