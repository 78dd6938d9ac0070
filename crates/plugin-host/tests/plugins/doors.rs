//! One server for callers who send single messages, as a stateless HTTP route hands them on. Never mixes up two of them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use muster_plugin_host::session::{Door, Posted};
use serde_json::{Value, json};

use crate::common::{World, gone};
use crate::session::never_ask;

async fn ask(door: &Door, id: &Value, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    match door.post(body.as_bytes()).await {
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
        assert_eq!(door.post(said.as_bytes()).await, Posted::Accepted);
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
            matches!(door.post(bad.as_bytes()).await, Posted::Refused(_)),
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
    assert_eq!(
        fs::read_to_string(notes.join("cancelled"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    assert!(!door.is_over());
    door.close().await;
    assert!(gone(pid, Duration::from_millis(500)).await);
    assert_eq!(world.happenings().last().unwrap(), "stopped");
}
