//! Package servers of the running program for agents over HTTP: real processes that end when they may not run any more. Never calls a function of muster's.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Http, Place, Server, lives};

/// A place with an approved package `p`, and the token of an agent on a task.
fn prepared(mood: &str) -> (Place, String) {
    let place = Place::new().with("MUSTER_HOOK_TOKEN", "a-secret-of-the-owners");
    place.add_owner("ada");
    let root = place.path("project");
    std::fs::create_dir_all(&root).unwrap();
    place.settings(&json!({"approval_mode": "never-ask"}));
    place.approved("p", mood);
    let root = root.display().to_string();
    place.ok(&["project", "add", "shop", "--root", &root]);
    let task = place.ok(&["task", "add", "--project", "shop", "--title", "Tidy up"]);
    let token = place.ok(&["token", "create", "--kind", "agent", "--task", task.trim()]);
    (place, token.trim().to_owned())
}

async fn call(http: &Http, token: &str, tool: &str) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"seconds": 300}}});
    http.post("/packages/p/s/mcp", token, &body).await
}

/// What the server says of itself: its process, and what it was started with.
async fn environment(server: &Server, token: &str) -> (i32, Value) {
    let answer = call(&server.http(), token, "environment").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let found = answer.json()["result"]["structuredContent"].clone();
    let pid = found["pid"].as_i64().unwrap_or_else(|| panic!("{answer:?}"));
    (i32::try_from(pid).unwrap(), found)
}

fn ends(pid: i32) {
    let end = Instant::now() + Duration::from_secs(30);
    while lives(pid) {
        assert!(Instant::now() < end, "the package's server runs on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_server_runs_where_its_task_is_and_ends_with_a_decision_made_elsewhere() {
    let (place, token) = prepared("plain");
    let server = place.serve();
    let (pid, found) = environment(&server, &token).await;
    assert!(lives(pid));
    let root = place.path("project").canonicalize().unwrap();
    assert_eq!(found["cwd"], root.to_str().unwrap());
    let env = found["env"].as_object().unwrap();
    assert!(env["MUSTER_SESSION_ID"].as_str().unwrap().starts_with("agent-"));
    assert!(!found.to_string().contains("a-secret-of-the-owners") && !env.contains_key("MUSTER_DATA_DIR"));
    // Another process of muster's decides; the running server hears of it, in the middle of a call too.
    let http = server.http();
    let waits = {
        let (http, token) = (http.clone(), token.clone());
        tokio::spawn(async move { call(&http, &token, "slow").await })
    };
    let notes = place.json(&["plugins", "inspect", "p"])["capabilities"][0]["definition_hash"].clone();
    place.ok(&["plugins", "reject", "p", "--hash", notes.as_str().unwrap()]);
    let answer = waits.await.unwrap();
    let text = answer.text.clone();
    assert!(
        text.contains("server_over") || text.contains("not_runnable"),
        "the call was under way, or came after the decision: {text}"
    );
    ends(pid);
    let refused = call(&http, &token, "write").await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["data"]["code"]),
        (403, &json!("not_runnable"))
    );
    place.ok(&["plugins", "approve", "p"]);
    let (again, _) = environment(&server, &token).await;
    assert!(again != pid && lives(again));
    let (said, _) = server.stop();
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(!lives(again), "the package's server outlived the stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_server_dies_with_a_muster_that_was_killed() {
    let (place, token) = prepared("plain");
    let server = place.serve();
    let (pid, _) = environment(&server, &token).await;
    assert!(lives(pid));
    server.kill();
    ends(pid);
}

// spec: LIF-017
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_left_ends_also_when_its_launcher_and_muster_were_both_killed() {
    let (place, token) = prepared("holding-stubborn");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "spawn", "arguments": {"launcher": 9}}});
    let spawned = async |server: &Server| -> Vec<i32> {
        let answer = server.http().post("/packages/p/s/mcp", &token, &body).await;
        let pids = answer.json()["result"]["structuredContent"]["pids"].clone();
        serde_json::from_value(pids).unwrap_or_else(|_| panic!("{answer:?}"))
    };
    // The launcher alone: one that left its group, one that did not, and the server itself.
    let server = place.serve();
    let pids = spawned(&server).await;
    assert!(pids.len() == 3 && pids.iter().all(|pid| lives(*pid)));
    place.ok(&["plugins", "reject", "p"]);
    pids.iter().for_each(|pid| ends(*pid));
    // Both: the next muster of this data folder finds them, and nobody else's.
    place.ok(&["plugins", "approve", "p"]);
    let pids = spawned(&server).await;
    let (elsewhere, their_token) = prepared("plain");
    let theirs = elsewhere.serve();
    let (their_pid, _) = environment(&theirs, &their_token).await;
    server.kill();
    assert!(lives(pids[0]), "nobody is there who could end it");
    let server = place.serve();
    pids.iter().for_each(|pid| ends(*pid));
    assert!(lives(their_pid));
    let (said, _) = server.stop();
    assert_eq!(said.code(), 0, "{said:?}");
}
