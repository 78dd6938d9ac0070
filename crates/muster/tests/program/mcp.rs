//! `muster mcp` and `/mcp` of the real program: one agent on standard streams, with a server and without, over restarts, kills and stops.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Place, engines};

const CREATE: &str = "muster_create_task";

/// What there is in a place: a project, and a task under a policy with an agent on it.
struct World {
    project: String,
    task: String,
    token: String,
}

impl World {
    /// Every action of `asks` asks, every one of `allows` is allowed.
    fn new(place: &Place, allows: &[&str], asks: &[&str]) -> Self {
        place.add_owner("ada");
        let root = place.path("root");
        std::fs::create_dir_all(&root).unwrap();
        let one = |arguments: &[&str]| place.ok(arguments).trim_end().to_owned();
        let project = one(&["project", "add", "shop", "--root", root.to_str().unwrap()]);
        one(&["policy", "create", "worker"]);
        for (actions, effect) in [(allows, "allow"), (asks, "ask")] {
            for action in actions {
                place.ok(&[
                    "policy", "grant", "worker", "--layer", "global", action, "any", effect,
                ]);
            }
        }
        let task = one(&[
            "task",
            "add",
            "--project",
            "shop",
            "--title",
            "own",
            "--policy",
            "worker",
        ]);
        let token = one(&[
            "token", "create", "--kind", "agent", "--task", &task, "--label", "worker",
        ]);
        Self { project, task, token }
    }

    fn create(&self, title: &str) -> Value {
        json!({"name": CREATE, "arguments": {"project_id": self.project, "title": title}})
    }

    fn titles(place: &Place) -> Vec<String> {
        let all = place.json(&["task", "list"]);
        all.as_array()
            .unwrap()
            .iter()
            .map(|task| task["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// An agent's session on standard streams.
pub(crate) struct Wire {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last: i64,
}

impl Wire {
    pub(crate) fn new(place: &Place, token: &str, url: Option<&str>) -> Self {
        let mut command = place.command(&["mcp"]);
        command.env("MUSTER_AGENT_TOKEN", token);
        command.envs(url.map(|url| ("MUSTER_URL", url)));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap();
                if told.send(message).is_err() {
                    return;
                }
            }
        });
        let mut wire = Self {
            input: child.stdin.take(),
            child,
            lines,
            last: 0,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let id = wire.begin("initialize", hello);
        assert_eq!(wire.answer(id)["result"]["serverInfo"]["name"], "muster");
        wire.notify("notifications/initialized", json!({}));
        wire
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message that answers `id`; what else comes is let go.
    pub(crate) fn answer(&self, id: i64) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(message) if message["id"] == id => return message,
                Ok(_) => {}
                Err(error) => panic!("{id} was not answered: {error}"),
            }
        }
    }

    pub(crate) fn call(&mut self, params: Value) -> Value {
        let id = self.begin("tools/call", params);
        self.answer(id)["result"].clone()
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn leave(mut self) -> std::process::ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn done(result: &Value) -> &Value {
    assert_ne!(result["isError"], true, "{result}");
    &result["structuredContent"]
}

fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["error"]["code"].as_str().unwrap()
}

/// Somebody who watches the asks, as a process of its own.
struct Watch(Child);

impl Watch {
    fn new(place: &Place) -> Self {
        let mut child = place
            .command(&["asks", "watch"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("watching") {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "nobody watches");
        }
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Self(child)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `count` asks are in a state; their ids.
fn asks(place: &Place, state: &str, count: usize) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let all = place.json(&["asks", "list", "--state", state]);
        let ids: Vec<String> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|ask| ask["id"].as_str().unwrap().to_owned())
            .collect();
        if ids.len() == count {
            return ids;
        }
        assert!(Instant::now() < end, "{count} asks are not {state}: {all}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

// spec: ASK-013
#[tokio::test]
async fn an_agent_on_standard_streams_needs_no_server_and_takes_no_notice_of_one() {
    for engine in engines() {
        let place = Place::on(engine).await;
        let world = World::new(&place, &["projects_read", "tasks_write"], &[]);
        let mut first = Wire::new(&place, &world.token, None);
        let listed = first.begin("tools/list", json!({}));
        let tools = first.answer(listed)["result"]["tools"].clone();
        assert!(
            tools
                .as_array()
                .unwrap()
                .iter()
                .any(|tool| tool["name"] == "muster_whoami")
        );
        let made = first.call(world.create("without a server"));
        assert_eq!(done(&made)["task"]["status"], "open");

        let server = place.serve();
        // Over HTTP the tools are the same.
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let http = server.http();
        let request = http
            .request(reqwest::Method::POST, "/mcp")
            .header("authorization", format!("Bearer {}", world.token))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string());
        assert_eq!(http.send(request).await.unwrap().json()["result"]["tools"], tools);
        let mut second = Wire::new(&place, &world.token, Some(&server.url()));
        done(&second.call(world.create("through the server")));
        done(&first.call(world.create("beside the server")));
        server.kill();
        done(&second.call(world.create("the server is gone")));
        let server = place.serve();
        done(&second.call(world.create("another server")));
        done(&first.call(world.create("still there")));
        server.kill();
        assert!(first.leave().success() && second.leave().success());
        assert_eq!(World::titles(&place).len(), 7);

        // Without a handshake, all at once, and gone before the answers are read.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let mut params = world.create("in a pipe");
        params["_meta"] = meta.clone();
        let script = format!(
            "{}\n{}\n",
            json!({"jsonrpc": "2.0", "id": "a", "method": "server/discover", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": params})
        );
        let mut command = place.command(&["mcp"]);
        command.env("MUSTER_AGENT_TOKEN", &world.token);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap();
        let out = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success() && out.lines().count() == 2, "{out}");
        assert!(World::titles(&place).contains(&"in a pipe".to_owned()));
        place.end().await;
    }
}

#[test]
fn without_a_token_that_counts_it_ends_before_it_answers() {
    let place = Place::new();
    let hello = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let run = |place: &Place, token: Option<&str>| {
        let mut command = place.command(&["mcp"]);
        command.envs(token.map(|token| ("MUSTER_AGENT_TOKEN", token)));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(hello.as_bytes());
        let said = child.wait_with_output().unwrap();
        let err = String::from_utf8(said.stderr).unwrap();
        assert_eq!((said.status.code(), said.stdout.len()), (Some(1), 0), "{err}");
        assert!(
            err.contains("MUSTER_AGENT_TOKEN") || err.contains("there is no muster"),
            "{err}"
        );
        err
    };
    run(&place, None);
    run(&place, Some("mag_nobody"));
    assert!(!place.data().join("muster.db").exists(), "it made a database");
    let world = World::new(&place, &[], &[]);
    let personal = place.add_token("ada");
    let mut short = world.token.clone();
    short.pop();
    for token in ["", "mag_nobody", &personal, &short] {
        run(&place, Some(token));
    }
    let mut wire = Wire::new(&place, &world.token, None);
    let tokens = place.json(&["token", "list"]);
    let id = tokens
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["label"] == "worker")
        .unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    place.ok(&["token", "revoke", &id]);
    let asked = wire.begin("tools/call", json!({"name": "muster_whoami", "arguments": {}}));
    assert!(
        wire.answer(asked)["error"]["code"].is_i64(),
        "a token that was revoked counts no more"
    );
    let err = run(&place, Some(&world.token));
    assert!(!err.contains(&world.token), "{err}");
}

// spec: ASK-010 ASK-013 ASK-039
#[test]
fn a_call_on_standard_streams_waits_for_another_process_and_leaves_no_trace_when_it_is_given_up() {
    let place = Place::new();
    let world = World::new(&place, &[], &["tasks_write"]);
    let watch = Watch::new(&place);
    let mut wire = Wire::new(&place, &world.token, None);
    let mut params = world.create("approved");
    params["_meta"] = json!({"progressToken": 5});
    let id = wire.begin("tools/call", params);
    let ask = asks(&place, "parked", 1).remove(0);
    let told = wire.lines.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(5))
    );
    place.ok(&["asks", "approve", &ask]);
    done(&wire.answer(id)["result"]);

    let id = wire.begin("tools/call", world.create("cancelled"));
    asks(&place, "parked", 1);
    assert_eq!(
        wire.lines.recv_timeout(Duration::from_millis(1_500)),
        Err(RecvTimeoutError::Timeout),
        "nobody asked to be told"
    );
    wire.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
    asks(&place, "withdrawn", 1);

    wire.begin("tools/call", world.create("closed"));
    asks(&place, "parked", 1);
    assert!(wire.leave().success());
    asks(&place, "withdrawn", 2);

    let mut wire = Wire::new(&place, &world.token, None);
    wire.begin("tools/call", world.create("killed"));
    asks(&place, "parked", 1);
    drop(wire);
    asks(&place, "parked", 0);
    asks(&place, "expired", 1);

    // A stop tells the client first.
    let mut wire = Wire::new(&place, &world.token, None);
    let id = wire.begin("tools/call", world.create("stopped"));
    asks(&place, "parked", 1);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(wire.child.id()).unwrap());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(code(&wire.answer(id)["result"]), "refused_expired");
    asks(&place, "expired", 2);

    // With nobody to ask it runs, as the setting is shipped; the watcher that is killed is nobody at once.
    drop(watch);
    let mut wire = Wire::new(&place, &world.token, None);
    let made = wire.begin("tools/call", world.create("unasked"));
    done(&wire.answer(made)["result"]);
    let rows = place.json(&["audit", "list", "--outcome", "auto_allowed_app_closed"]);
    assert_eq!(rows.as_array().unwrap().len(), 1);
    let titles = World::titles(&place);
    assert_eq!(titles, ["own", "approved", "unasked"]);
    assert_eq!(place.json(&["audit", "verify"])["ok"], true);
    assert!(!world.task.is_empty());
}

#[test]
fn a_session_that_is_stopped_gives_up_what_waits_at_the_server_and_says_so() {
    let place = Place::new();
    let world = World::new(&place, &[], &["tasks_write"]);
    let _watch = Watch::new(&place);
    let server = place.serve();
    for (nth, signal) in [Signal::SIGTERM, Signal::SIGINT].into_iter().enumerate() {
        let mut wire = Wire::new(&place, &world.token, Some(&server.url()));
        let id = wire.begin("tools/call", world.create("stopped"));
        let ask = asks(&place, "parked", 1).remove(0);
        let pid = nix::unistd::Pid::from_raw(i32::try_from(wire.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
        assert_eq!(code(&wire.answer(id)["result"]), "withdrawn");
        assert!(wire.child.wait().unwrap().success());
        asks(&place, "withdrawn", nth + 1);
        let late = place.run(&["asks", "approve", &ask]);
        assert_eq!(late.code(), 1, "{}", late.err);
    }
    let rows = place.json(&["audit", "list", "--outcome", "withdrawn"]);
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(World::titles(&place), ["own"]);
    server.kill();
}

/// A program at an address of its own that answers everything in the same words. Its address, and what it was sent.
fn foreigner(answer: &'static str) -> (String, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    use std::io::Read as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let all = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut some = [0; 4_096];
            let read = stream.read(&mut some).unwrap_or(0);
            all.lock().unwrap().extend_from_slice(&some[..read]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, heard)
}

#[test]
fn a_token_that_counts_here_is_sent_to_no_other_server_and_its_calls_are_answered_here() {
    let place = Place::new();
    let world = World::new(&place, &["tasks_write"], &[]);
    let html =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
    let not_done = "HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for (title, answer) in [("beside a page", html), ("beside a 501", not_done)] {
        let (url, heard) = foreigner(answer);
        let mut wire = Wire::new(&place, &world.token, Some(&url));
        done(&wire.call(world.create(title)));
        assert!(wire.leave().success());
        assert!(heard.lock().unwrap().is_empty(), "it was spoken to");
    }
    // Another muster, whose tokens are others.
    let other = Place::new();
    other.add_owner("bob");
    let server = other.serve();
    let mut wire = Wire::new(&place, &world.token, Some(&server.url()));
    done(&wire.call(world.create("beside another muster")));
    assert!(wire.leave().success());
    server.kill();
    // What a server that was killed noted is believed by nobody.
    let server = place.serve();
    let url = server.url();
    server.kill();
    let mut wire = Wire::new(&place, &world.token, Some(&url));
    done(&wire.call(world.create("after a kill")));
    assert_eq!(World::titles(&place).len(), 5);
    // A token that was revoked is told to be, although no server answers.
    let tokens = place.json(&["token", "list"]);
    let own = |token: &&Value| token["label"] == "worker";
    let id = tokens.as_array().unwrap().iter().find(own).unwrap()["id"].clone();
    place.ok(&["token", "revoke", id.as_str().unwrap()]);
    let asked = wire.begin("tools/call", world.create("revoked"));
    let said = wire.answer(asked);
    let sentence = said["error"]["message"].as_str().unwrap();
    assert!(sentence.contains("is no live agent token"), "{sentence}");
    assert!(!sentence.contains("MUSTER_URL"), "{sentence}");
}

mod heavy {
    use super::*;

    // spec: ASK-012 ASK-022
    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_is_killed_or_stopped_while_sixteen_wait_runs_none_of_them_and_has_room_again() {
        for engine in engines() {
            for signal in [Signal::SIGKILL, Signal::SIGTERM] {
                let place = Place::on(engine).await;
                let world = World::new(&place, &[], &["tasks_write"]);
                let watch = Watch::new(&place);
                let server = place.serve();
                let calls: Vec<_> = (0..20)
                    .map(|n| {
                        let http = server.http();
                        let body = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": world.create(&format!("task {n}"))});
                        let token = world.token.clone();
                        tokio::spawn(async move {
                            let request = http
                                .request(reqwest::Method::POST, "/mcp")
                                .header("authorization", format!("Bearer {token}"))
                                .header("accept", "application/json, text/event-stream")
                                .header("content-type", "application/json")
                                .body(body.to_string());
                            http.send(request).await.map(|answer| answer.json()["result"].clone()).ok()
                        })
                    })
                    .collect();
                let parking = || asks(&place, "parked", 16);
                let parked = tokio::task::block_in_place(parking);
                let saturated = || {
                    let filter = ["audit", "list", "--outcome", "refused_queue_saturated"];
                    place.json(&filter).as_array().unwrap().len()
                };
                let end = Instant::now() + Duration::from_secs(30);
                while tokio::task::block_in_place(saturated) < 4 {
                    assert!(Instant::now() < end, "the rest was not refused");
                }
                server.signal(signal);
                let mut answers = Vec::new();
                for call in calls {
                    answers.push(call.await.unwrap());
                }
                let told = |word: &str| {
                    answers
                        .iter()
                        .flatten()
                        .filter(|answer| code(answer) == word)
                        .count()
                };
                if signal == Signal::SIGTERM {
                    assert_eq!(
                        (told("refused_queue_saturated"), told("refused_expired")),
                        (4, 16),
                        "{answers:?}"
                    );
                }
                let server = place.serve();
                let expired = tokio::task::block_in_place(|| asks(&place, "expired", 16));
                assert_eq!(expired, parked);
                for ask in &parked {
                    let late = place.run(&["asks", "approve", ask]);
                    assert_eq!(late.code(), 1);
                }
                assert_eq!(World::titles(&place), ["own"]);
                let mut wire = Wire::new(&place, &world.token, Some(&server.url()));
                let id = wire.begin("tools/call", world.create("after"));
                let ask = tokio::task::block_in_place(|| asks(&place, "parked", 1)).remove(0);
                place.ok(&["asks", "approve", &ask]);
                done(&wire.answer(id)["result"]);
                assert_eq!(World::titles(&place), ["own", "after"]);
                assert_eq!(place.json(&["audit", "verify"])["ok"], true);
                drop((watch, wire, server));
                place.end().await;
            }
        }
    }
}
