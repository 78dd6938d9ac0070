//! Servers over HTTP, played by a few lines that write down every request. Never leaves loopback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_plugin_host::session::Options;
use muster_plugin_host::{Budgets, ServerKey};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Agent, World};

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

#[derive(Clone)]
struct Server {
    how: &'static str,
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    async fn start(how: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            how,
            url: format!("http://{}/mcp", listener.local_addr().unwrap()),
            seen: Arc::default(),
        };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        server
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await {
            self.seen.lock().unwrap().push(request.clone());
            let reply = self.reply(&request).await;
            if stream.write_all(reply.as_bytes()).await.is_err() || reply.contains("connection: close") {
                return;
            }
        }
    }

    async fn reply(&self, request: &Request) -> String {
        let body = &request.body;
        if request.line.starts_with("GET") {
            if self.how == "resumed" && request.headers.contains_key("last-event-id") {
                let id = self
                    .seen
                    .lock()
                    .unwrap()
                    .iter()
                    .rev()
                    .find_map(|r| r.body["id"].as_u64())
                    .unwrap();
                return events(&format!(
                    "id: 2\ndata: {}\n\n",
                    result(&json!(id), json!({"tools": []}))
                ));
            }
            return status("405 Method Not Allowed");
        }
        if request.line.starts_with("DELETE") {
            return status("200 OK");
        }
        if body.get("id").is_none() || body.get("method").is_none() {
            return status("202 Accepted");
        }
        let method = body["method"].as_str().unwrap();
        match (self.how, method) {
            ("locked", _) => {
                return status(
                    "401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"http://127.0.0.1:9/x\"",
                );
            }
            ("elsewhere", _) => return status("307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/mcp"),
            ("moved", _) if request.line.starts_with("POST /mcp ") => {
                return status("307 Temporary Redirect\r\nlocation: /moved");
            }
            ("slow", "initialize") => tokio::time::sleep(Duration::from_secs(5)).await,
            ("slow-calls", "tools/call") => tokio::time::sleep(Duration::from_secs(5)).await,
            ("old", "server/discover") => return status("400 Bad Request"),
            ("forgets", "tools/call") => return status("404 Not Found"),
            ("forgets-aloud", "tools/call") => {
                let text =
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
                return whole("application/json", text, "").replacen("200 OK", "404 Not Found", 1);
            }
            ("answers-404", "tools/call") => {
                let answer = result(
                    &body["id"],
                    json!({"content": [{"type": "text", "text": "an answer"}]}),
                );
                return whole("application/json", &answer, "").replacen("200 OK", "404 Not Found", 1);
            }
            ("page", _) => return whole("text/html", "<html>", ""),
            _ => {}
        }
        let value = match method {
            "initialize" => {
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})
            }
            "server/discover" => {
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}}})
            }
            "tools/list" => {
                json!({"tools": [{"name": "a.b", "inputSchema": {"type": "object"}}, {"name": "é", "inputSchema": {}}], "newer": 1})
            }
            "tools/call" => {
                json!({"content": [{"type": "text", "text": format!("called {}", body["params"]["name"].as_str().unwrap())}]})
            }
            _ => json!({}),
        };
        let answer = result(&body["id"], value);
        let session = if method == "initialize" {
            "mcp-session-id: s-42\r\n"
        } else {
            ""
        };
        match self.how {
            "events" => {
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": method}});
                events(&format!(
                    "id: 0\ndata:\n\ndata: {note}\n\nevent: message\ndata: {answer}\n\n"
                ))
            }
            "resumed" if method == "tools/list" => events("id: 1\nretry: 10\ndata:\n\n"),
            "wrong" => whole("application/json", &result(&json!(99_999), json!({})), session),
            _ => whole("application/json", &answer, session),
        }
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|request| match request.body["method"].as_str() {
                Some(method) => method.to_owned(),
                None => request.line.split(' ').next().unwrap().to_owned(),
            })
            .collect()
    }
}

fn result(id: &Value, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n")
}

fn whole(kind: &str, body: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}; charset=utf-8\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn events(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: s-42\r\nconnection: close\r\n\r\n{body}"
    )
}

pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let headers: BTreeMap<String, String> = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        line: lines.first()?.clone(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

fn budgets() -> Budgets {
    Budgets {
        initialize: Duration::from_secs(2),
        call: Duration::from_secs(2),
        ..Budgets::default()
    }
}

async fn open(world: &World, server: &Server) -> Agent {
    let servers = json!([{"id": "s", "transport": "http", "url": server.url, "headers": {"Authorization": "Bearer secret", "X-Key": "k"}}]);
    world.host.install(&world.package_with("p", &servers)).unwrap();
    world.approve("p");
    world.settings(&json!({"approval_mode": "never-ask"}));
    let options = Options {
        budgets: budgets(),
        ..world.options()
    };
    world.agent_with(&ServerKey::new("p", "s"), options)
}

// spec: WIR-008 WIR-009 WIR-010 LIM-002
#[tokio::test]
async fn answers_come_as_json_or_as_events_and_no_credential_is_ever_sent() {
    for how in ["json", "events", "moved"] {
        let world = World::new();
        let server = Server::start(how).await;
        let mut agent = open(&world, &server).await;
        assert_eq!(
            agent.initialize().await["serverInfo"]["name"],
            "plugin_p_s",
            "{how}"
        );
        assert_eq!(agent.names().await, ["a_b", "_"]);
        assert_eq!(
            agent.call("a_b", json!({})).await["content"][0]["text"],
            "called a.b"
        );
        assert_eq!(
            agent
                .others
                .iter()
                .any(|m| m["method"] == "notifications/message"),
            how == "events"
        );
        agent.close().await;
        let methods = server.methods();
        assert_eq!(methods[0], "initialize");
        assert_eq!(methods.last().unwrap(), "DELETE", "{methods:?}");
        let seen = server.seen.lock().unwrap();
        for request in seen.iter() {
            for name in ["authorization", "x-key", "cookie"] {
                assert!(!request.headers.contains_key(name), "{name} was sent");
            }
        }
        let call = seen
            .iter()
            .rev()
            .find(|request| request.body["method"] == "tools/call")
            .unwrap();
        assert_eq!(call.headers["mcp-session-id"], "s-42");
        assert_eq!(call.headers["mcp-protocol-version"], "2025-06-18");
        assert!(
            call.headers["accept"].contains("application/json")
                && call.headers["accept"].contains("text/event-stream")
        );
    }
}

#[tokio::test]
async fn the_newer_era_passes_with_its_labels_and_without_a_session() {
    let world = World::new();
    let server = Server::start("json").await;
    let mut agent = open(&world, &server).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
    let hello = agent.ask("server/discover", json!({"_meta": meta})).await;
    assert_eq!(
        hello["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "plugin_p_s"
    );
    let list = agent.ask("tools/list", json!({"_meta": meta})).await;
    assert_eq!(list["result"]["newer"], 1);
    let call = agent.ask("tools/call", json!({"name": "_", "_meta": meta})).await;
    assert_eq!(call["result"]["content"][0]["text"], "called é");
    agent.close().await;
    let seen = server.seen.lock().unwrap();
    let call = seen
        .iter()
        .find(|request| request.body["method"] == "tools/call")
        .unwrap();
    assert_eq!(call.headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!(call.headers["mcp-method"], "tools/call");
    assert_eq!(call.headers["mcp-name"], "=?base64?w6k=?=");
    assert!(
        seen.iter()
            .all(|request| !request.headers.contains_key("mcp-session-id"))
    );
    assert!(seen.iter().all(|request| request.line.starts_with("POST")));
}

// spec: WIR-011 WIR-012 LIM-004
#[tokio::test]
async fn a_server_that_wants_a_sign_in_points_elsewhere_or_is_late_is_dropped_alone() {
    for (how, said) in [
        ("locked", "HTTP 401"),
        ("elsewhere", "another address"),
        ("page", "neither JSON nor an event stream"),
        ("wrong", "something else"),
        ("slow", "within 2 seconds"),
    ] {
        let world = World::new();
        let server = Server::start(how).await;
        let mut agent = open(&world, &server).await;
        let begun = std::time::Instant::now();
        assert_eq!(agent.initialize().await["serverInfo"]["version"], "0", "{how}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{how}");
        assert!(agent.tools().await.is_empty());
        agent.close().await;
        let start = world.host.inspect("p").unwrap().capabilities[0]
            .last_start
            .clone()
            .unwrap();
        assert!(
            !start.ok && start.error.as_ref().unwrap().contains(said),
            "{how}: {start:?}"
        );
        let asked: Vec<String> = server.methods();
        assert!(
            asked
                .iter()
                .all(|method| method == "initialize" || method == "DELETE"),
            "{how}: no sign-in is begun: {asked:?}"
        );
    }
    let world = World::new();
    let server = Server::start("slow-calls").await;
    let mut agent = open(&world, &server).await;
    agent.initialize().await;
    let result = agent.call("a_b", json!({})).await;
    assert_eq!(result["structuredContent"]["error"]["code"], "timed_out");
    assert_eq!(agent.ask("ping", json!({})).await["result"], json!({}));
    agent.close().await;
    assert!(server.methods().contains(&"notifications/cancelled".to_owned()));
}

#[tokio::test]
async fn an_older_server_that_answers_the_newer_question_with_an_http_error_is_asked_the_older_way() {
    let world = World::new();
    let server = Server::start("old").await;
    let mut agent = open(&world, &server).await;
    assert_eq!(
        agent.ask("server/discover", json!({})).await["error"]["code"],
        -32601
    );
    assert_eq!(agent.initialize().await["serverInfo"]["name"], "plugin_p_s");
    agent.close().await;
}

#[tokio::test]
async fn a_stream_that_is_closed_early_is_taken_up_again_where_it_stood() {
    let world = World::new();
    let server = Server::start("resumed").await;
    let mut agent = open(&world, &server).await;
    agent.initialize().await;
    assert!(agent.tools().await.is_empty());
    agent.close().await;
    let seen = server.seen.lock().unwrap();
    assert!(
        seen.iter()
            .any(|request| request.headers.get("last-event-id").map(String::as_str) == Some("1"))
    );
}

#[tokio::test]
async fn a_server_that_forgets_its_session_is_over_and_who_called_is_told_that_it_did_not_take_the_call() {
    for how in ["forgets", "forgets-aloud"] {
        let world = World::new();
        let server = Server::start(how).await;
        let mut agent = open(&world, &server).await;
        agent.initialize().await;
        agent.names().await;
        let refused = agent.call("a_b", json!({})).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], "server_failed");
        let said = refused["content"][0]["text"].as_str().unwrap();
        assert!(
            said.contains("HTTP 404") && said.contains("did not take it"),
            "{said}"
        );
        // What comes of a session that is over, and nothing is sent in it.
        let later = loop {
            let later = agent.call("a_b", json!({})).await;
            if later["structuredContent"]["error"]["code"] == "server_over" {
                break later;
            }
        };
        assert!(later["content"][0]["text"].as_str().unwrap().contains("HTTP 404"));
        agent.close().await;
        assert!(world.happenings().contains(&"exited".to_owned()), "{how}");
        assert!(!server.methods().contains(&"DELETE".to_owned()), "{how}");
    }
    // What answers the very request is its answer, whatever HTTP says beside it.
    let world = World::new();
    let server = Server::start("answers-404").await;
    let mut agent = open(&world, &server).await;
    agent.initialize().await;
    for _ in 0..2 {
        let answer = agent.call("a_b", json!({})).await;
        assert_eq!(answer["content"][0]["text"], "an answer");
    }
    agent.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_leaves_a_session_without_its_tools() {
    let world = World::new();
    let server = Server {
        how: "",
        url: "http://127.0.0.1:9/mcp".to_owned(),
        seen: Arc::default(),
    };
    let mut agent = open(&world, &server).await;
    agent.initialize().await;
    assert!(agent.tools().await.is_empty());
    agent.close().await;
    assert!(world.happenings().contains(&"start_failed".to_owned()));
}
