//! The hooks that `muster init --client claude` writes, in the real Claude Code, with a scripted model in place of a real one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use muster_testkit::{Model, claude};
use serde_json::json;

use super::agents::claude_code_asked;
use crate::support::{Bus, finish};

const ONCE: &str = "do not call read_messages for them again";

/// A bus that the client knows as ada.
fn wired(scope: &[&str]) -> Option<Bus> {
    let program = claude()?;
    let bus = Bus::new();
    bus.offer("claude", &program);
    let (good, said) = finish(
        &bus,
        bus.command(
            "muster",
            &[&["init", "--client", "claude", "--id", "ada", "--yes"], scope].concat(),
        ),
    );
    assert!(good, "{said}");
    Some(bus)
}

/// Sends direct messages from bea to ada through a session of their own, one after another: calls at the same time have no order.
fn dms(bus: &Bus, texts: &[String]) {
    let mut child = bus
        .command("muster", &["bus", "serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bea", "version": "1"}});
    let mut calls = vec![json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})];
    for (number, text) in texts.iter().enumerate() {
        let call = json!({"name": "send_message", "arguments": {"from": "bea", "to": "ada", "text": text}});
        calls.push(json!({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": call}));
    }
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answers = String::new();
    for call in calls {
        writeln!(input, "{call}").unwrap();
        output.read_line(&mut answers).unwrap();
        if call["id"] == 0 {
            writeln!(
                input,
                "{}",
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
            )
            .unwrap();
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let sent = answers.matches("\"isError\":false").count();
    assert_eq!(sent, texts.len(), "{answers}");
}

// spec: HOOK-004 HOOK-010
#[test]
fn what_was_sent_before_a_prompt_is_in_what_the_model_hears_as_a_whole_page() {
    let Some(bus) = wired(&[]) else { return };
    let texts: Vec<String> = (0..60)
        .map(|number| format!("<{number}> {}", "words \"and\" more ".repeat(20)))
        .collect();
    dms(&bus, &texts);
    let model = Model::new(&bus.path(""), "model", &json!([{"text": "done"}]));
    let (good, said) = finish(&bus, claude_code_asked(&bus, &model, "say hello"));
    assert!(good, "{said}");
    // At the end of the turn the next page follows, and so on until all is told or the client has had enough.
    let asked = model.asked();
    let first = &asked[0];
    for words in [ONCE, "] new messages for ada", "<0> words", "More is unread."] {
        let words = words.trim_start_matches(']');
        assert!(first.contains(words), "{words}: {first}");
    }
    assert!(!said.contains("hook error"), "{said}");
}

// spec: HOOK-005 HOOK-006 HOOK-016
#[test]
fn what_is_sent_in_a_turn_puts_off_its_end_once_and_not_twice() {
    let Some(bus) = wired(&[]) else { return };
    let go = bus.path("go");
    let model = Model::new(
        &bus.path(""),
        "model",
        &json!([{"text": "first", "when": go}, {"text": "second"}, {"text": "third"}]),
    );
    let running = claude_code_asked(&bus, &model, "say hello");
    let said = std::thread::scope(|scope| {
        let agent = scope.spawn(|| finish(&bus, running));
        let end = Instant::now() + Duration::from_secs(30);
        while model.asked().is_empty() {
            assert!(Instant::now() < end, "the model was not asked");
            std::thread::sleep(Duration::from_millis(20));
        }
        dms(&bus, &["one more thing".to_owned()]);
        std::fs::write(&go, "").unwrap();
        let (good, said) = agent.join().unwrap();
        assert!(good, "{said}");
        said
    });
    let asked = model.asked();
    assert_eq!(asked.len(), 2, "{said}");
    assert!(!asked[0].contains("one more thing"), "{}", asked[0]);
    let heard = &asked[1];
    assert!(
        heard.contains("# one more thing") && heard.contains(ONCE),
        "{heard}"
    );
    assert!(said.contains("second") && !said.contains("third"), "{said}");
}

#[test]
fn a_prompt_longer_than_a_pipe_holds_and_a_quiet_inbox_trouble_nobody_in_a_wired_project() {
    let Some(bus) = wired(&["--project", "."]) else {
        return;
    };
    let status = json!({"tool": "mcp__agent-coord__status", "input": {"agentId": "ada"}});
    let model = Model::new(&bus.path(""), "model", &json!([status, {"text": "done"}]));
    let long = "x".repeat(120_000);
    let (good, said) = finish(&bus, claude_code_asked(&bus, &model, &long));
    assert!(good && !said.contains("hook error"), "{said}");
    // The server of the project is there without a question, and the session is ada's.
    let asked = model.asked();
    assert_eq!(asked.len(), 2, "{said}");
    assert!(
        asked[1].contains("bound") && !asked[1].contains("No such tool"),
        "{}",
        asked[1]
    );
}
