//! One server for callers who send single messages, as a stateless HTTP route hands them on. Never mixes up two of them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use muster_plugin_host::session::{Door, Posted};
use muster_plugin_host::{Act, ServerKey, Target};
use serde_json::{Value, json};

use crate::common::{World, gone};
use crate::session::never_ask;

async fn ask(door: &Door, id: &Value, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    match door.post(body.as_bytes(), None).await {
        Posted::Answer(text) => {
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["id"], *id);
            answer
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn callers_without_a_session_share_a_server_and_each_gets_its_own_answer() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let door = Arc::new(Door::open(world.host.ready(&key).unwrap(), world.options()));
    // Without a greeting, with one, and with another.
    let none = json!({});
    let list = ask(&door, &json!("a"), "tools/list", &none).await;
    assert_eq!(list["result"]["tools"][0]["name"], "get_forecast");
    for id in [json!(1), json!("x")] {
        let hello = ask(
            &door,
            &id,
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
        )
        .await;
        assert_eq!(hello["result"]["serverInfo"]["name"], "plugin_p_s");
        let said = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert_eq!(door.post(said.as_bytes(), None).await, Posted::Accepted);
    }
    let mut calls = Vec::new();
    for number in 0..20 {
        let door = door.clone();
        calls.push(tokio::spawn(async move {
            // All of them by the same id.
            let params = json!({"name": "write", "arguments": {"n": number}});
            let answer = ask(&door, &json!(1), "tools/call", &params).await;
            let text = answer["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned();
            assert_eq!(text, format!("called write with {{\"n\": {number}}}"));
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    // A server that asks back is told at once that nobody can answer.
    let asked = ask(&door, &json!(7), "tools/call", &json!({"name": "question"})).await;
    assert_eq!(asked["result"]["content"][0]["text"], "answered null");
    for bad in ["", "[]", "{\"id\":1,\"id\":2,\"method\":\"ping\"}", "{\"id\":1}"] {
        assert!(
            matches!(door.post(bad.as_bytes(), None).await, Posted::Refused(_)),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_its_call_and_closing_ends_the_server() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let notes = world.path("data/plugins/data/p");
    fs::create_dir_all(&notes).unwrap();
    let door = Door::open(world.host.ready(&key).unwrap(), world.options());
    let found = ask(&door, &json!(1), "tools/call", &json!({"name": "environment"})).await;
    let pid = found["result"]["structuredContent"]["pid"].as_u64().unwrap();
    let slow = json!({"name": "slow", "arguments": {"seconds": 2}});
    let one = json!(2);
    let call = ask(&door, &one, "tools/call", &slow);
    assert!(
        tokio::time::timeout(Duration::from_millis(400), call)
            .await
            .is_err()
    );
    let found = ask(&door, &json!(3), "tools/call", &json!({"name": "write"})).await;
    assert!(found["result"]["content"].is_array());
    // The cancellation goes its own way, and may reach the server behind the call.
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    let cancelled = || fs::read_to_string(notes.join("cancelled")).unwrap_or_default();
    while cancelled().is_empty() && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(cancelled().lines().count(), 1);
    assert!(!door.is_over() && !door.is_without_server());
    door.close().await;
    assert!(gone(pid, Duration::from_secs(30)).await);
    assert_eq!(world.happenings().last().unwrap(), "stopped");
}

#[tokio::test]
async fn a_door_tells_when_its_server_is_gone_and_only_a_clear_cancellation_reaches_a_call() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &["silent-calls"]);
    let notes = world.path("data/plugins/data/p");
    fs::create_dir_all(&notes).unwrap();
    let door = Arc::new(Door::open(world.host.ready(&key).unwrap(), world.options()));
    let received = |what: &str| {
        let text = fs::read_to_string(notes.join("received")).unwrap_or_default();
        text.matches(what).count()
    };
    let until = async |done: &dyn Fn() -> bool| {
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(tokio::time::Instant::now() < end, "it never came to that");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let calling = || {
        let door = door.clone();
        tokio::spawn(async move {
            let body =
                json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "write"}});
            door.post(body.to_string().as_bytes(), None).await
        })
    };
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        .to_string();
    let (first, second) = (calling(), calling());
    until(&|| received("tools/call") == 2).await;
    door.post(cancel.as_bytes(), None).await;
    ask(&door, &json!(1), "ping", &json!({})).await;
    assert_eq!(
        received("notifications/cancelled"),
        0,
        "which of the two was meant?"
    );
    first.abort();
    until(&|| received("notifications/cancelled") == 1).await;
    door.post(cancel.as_bytes(), None).await;
    until(&|| received("notifications/cancelled") == 2).await;
    assert!(matches!(second.await.unwrap(), Posted::Answer(text) if text.contains("cancelled")));

    let dead = world.installed("q", &["crash"]);
    let dead = Door::open(world.host.ready(&dead).unwrap(), world.options());
    let list = ask(&dead, &json!(1), "tools/list", &json!({})).await;
    assert_eq!(list["result"]["tools"], json!([]));
    assert!(dead.is_without_server() && !dead.is_over());
    dead.end();
    until(&|| dead.is_over()).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_during_the_greeting_has_it_made_no_second_time() {
    let world = World::new();
    let key = world.installed("p", &["slow-greeting"]);
    let notes = world.path("data/plugins/data/p");
    fs::create_dir_all(&notes).unwrap();
    let door = Door::open(world.host.ready(&key).unwrap(), world.options());
    let received = |what: &str| {
        let text = fs::read_to_string(notes.join("received")).unwrap_or_default();
        text.matches(&format!("\"{what}\"")).count()
    };
    let (one, none) = (json!(1), json!({}));
    {
        let mut call = Box::pin(ask(&door, &one, "tools/list", &none));
        while received("initialize") == 0 {
            let wait = tokio::time::sleep(Duration::from_millis(10));
            tokio::select! {
                answer = &mut call => panic!("it was to be slow: {answer}"),
                () = wait => {}
            }
        }
    }
    fs::write(notes.join("go"), "").unwrap();
    let list = ask(&door, &json!(2), "tools/list", &none).await;
    assert_eq!(list["result"]["tools"][0]["name"], "get_forecast");
    let hello = ask(&door, &json!(3), "initialize", &none).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "plugin_p_s");
    door.close().await;
    assert_eq!(received("initialize"), 1);
    assert_eq!(received("notifications/initialized"), 1);
    assert_eq!(received("notifications/cancelled"), 0);
}

// spec: WIR-007
#[tokio::test]
async fn progress_reaches_the_call_that_it_is_about_and_a_line_of_the_log_reaches_one_call() {
    let world = World::new();
    never_ask(&world);
    let key = world.installed("p", &[]);
    let door = Arc::new(Door::open(world.host.ready(&key).unwrap(), world.options()));
    let calling = |token: Value| {
        let (door, (notices, mut heard)) = (door.clone(), tokio::sync::mpsc::channel(8));
        tokio::spawn(async move {
            // Both by the same id.
            let params = json!({"name": "progress", "_meta": {"progressToken": token, "newer": 1}});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let posted = door.post(body.to_string().as_bytes(), Some(notices)).await;
            assert!(matches!(posted, Posted::Answer(text) if text.contains("done")));
            let mut all: Vec<Value> = Vec::new();
            while let Some(notice) = heard.recv().await {
                all.push(serde_json::from_str(&notice).unwrap());
            }
            all
        })
    };
    // Two that chose one token, one that chose a number of muster's, and one that wants none.
    let calls = [json!("mine"), json!("mine"), json!(1)].map(|token| (token.clone(), calling(token)));
    let mut lines = 0;
    for (token, call) in calls {
        let heard = call.await.unwrap();
        let progress: Vec<&Value> = heard
            .iter()
            .filter(|one| one["method"] == "notifications/progress")
            .collect();
        assert_eq!(progress.len(), 1, "{heard:?}");
        assert_eq!(
            progress[0]["params"],
            json!({"progressToken": token, "progress": 1, "total": 2})
        );
        lines += heard
            .iter()
            .filter(|one| one["method"] == "notifications/message")
            .count();
    }
    assert_eq!(lines, 3);
    // Who does not listen holds up nobody.
    let (notices, heard) = tokio::sync::mpsc::channel(1);
    let params = json!({"name": "progress", "_meta": {"progressToken": 5}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let posted = door.post(body.as_bytes(), Some(notices)).await;
    assert!(matches!(posted, Posted::Answer(text) if text.contains("done")));
    assert_eq!(heard.len(), 1, "there was room for one");
    let silent = ask(&door, &json!(2), "tools/call", &params).await;
    assert_eq!(silent["result"]["content"][0]["text"], "done");
}

#[test]
fn a_standing_is_that_of_the_ledger_after_each_change() {
    let world = World::new();
    let standing = world.host.standing();
    let (p, q) = (ServerKey::new("p", "s"), ServerKey::new("q", "s"));
    assert_eq!(standing.definition(&p).unwrap(), None);
    world.host.install(&world.package("p", &[])).unwrap();
    assert_eq!(standing.definition(&p).unwrap(), None);
    let decide = |act| {
        world
            .host
            .decide(&Target::Plugin("p".to_owned()), act, None)
            .unwrap()
    };
    for _ in 0..20 {
        decide(Act::Approve);
        let hash = world.host.inspect("p").unwrap().capabilities[0]
            .definition_hash
            .clone();
        assert_eq!(standing.definition(&p).unwrap(), Some(hash));
        decide(Act::Disable);
        assert_eq!(standing.definition(&p).unwrap(), None);
        decide(Act::Enable);
        assert!(standing.definition(&p).unwrap().is_some());
        decide(Act::Reject);
        assert_eq!(standing.definition(&p).unwrap(), None);
    }
    // One that would share its name starts no more than the other.
    decide(Act::Approve);
    world.installed("q", &[]);
    assert_eq!(standing.definitions().unwrap().len(), 2);
    let twin = world.package_with(
        "p",
        &json!([{"id": "s.x", "command": ["true"]}, {"id": "s_x", "command": ["true"]}]),
    );
    world.host.update("p").unwrap();
    world.approve("p");
    assert!(twin.is_dir() && standing.definitions().unwrap().keys().eq([&q]));
    fs::write(world.path("data/plugins/ledger.json"), "{").unwrap();
    assert!(
        standing.definition(&q).is_err(),
        "what cannot be read approves nothing"
    );
}
