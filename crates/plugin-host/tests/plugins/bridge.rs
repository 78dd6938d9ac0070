//! A few lines of HTTP in front of sessions, so that the protocol's own suite, which speaks HTTP, can look through the proxy. Never more than that suite needs.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_plugin_host::ServerKey;
use muster_plugin_host::session::serve;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::common::World;
use crate::heavy::{own, tools};
use crate::http::read;

/// Streams that wait for an answer, by its id in the order of asking.
type Waiting = Arc<Mutex<BTreeMap<u64, (Value, mpsc::UnboundedSender<Value>)>>>;

/// One session and the way into it.
#[derive(Clone)]
struct Open {
    input: Arc<tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    waiting: Waiting,
}

struct Bridge {
    world: World,
    key: ServerKey,
    open: Mutex<HashMap<String, Open>>,
    next: Mutex<u64>,
}

impl Bridge {
    fn session(&self) -> Open {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let ready = self.world.host.ready(&self.key).unwrap();
        tokio::spawn(serve(ready, self.world.options(), input, output));
        let (output, input) = tokio::io::split(ours);
        let waiting = Waiting::default();
        let streams = waiting.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let mut streams = streams.lock().unwrap();
                let answered = streams
                    .iter()
                    .find(|(_, (id, _))| message.get("method").is_none() && *id == message["id"])
                    .map(|(number, _)| *number);
                match answered {
                    Some(number) => drop(streams.remove(&number).unwrap().1.send(message)),
                    // What the server says by itself belongs to the call that runs.
                    None => drop(
                        streams
                            .values()
                            .next_back()
                            .map(|(_, stream)| stream.send(message)),
                    ),
                }
            }
        });
        Open {
            input: Arc::new(tokio::sync::Mutex::new(Box::new(input))),
            waiting,
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream).await {
            if !request.line.starts_with("POST") {
                stream
                    .write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
                    .await?;
                continue;
            }
            let initialize = request.body["method"] == "initialize";
            let id = request.headers.get("mcp-session-id").cloned().unwrap_or_else(|| {
                let mut next = self.next.lock().unwrap();
                *next += 1;
                format!("session-{next}")
            });
            let open = self
                .open
                .lock()
                .unwrap()
                .entry(id.clone())
                .or_insert_with(|| self.session())
                .clone();
            let asks = request.body.get("id").is_some() && request.body.get("method").is_some();
            let (sender, mut messages) = mpsc::unbounded_channel();
            if asks {
                let number = {
                    let mut next = self.next.lock().unwrap();
                    *next += 1;
                    *next
                };
                open.waiting
                    .lock()
                    .unwrap()
                    .insert(number, (request.body["id"].clone(), sender));
            }
            let line = request.body.to_string() + "\n";
            open.input.lock().await.write_all(line.as_bytes()).await?;
            if !asks {
                stream
                    .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                    .await?;
                continue;
            }
            let session = if initialize {
                format!("mcp-session-id: {id}\r\n")
            } else {
                String::new()
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{session}connection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            while let Some(message) = messages.recv().await {
                stream
                    .write_all(format!("event: message\ndata: {message}\n\n").as_bytes())
                    .await?;
                stream.flush().await?;
            }
            return Ok(());
        }
        Ok(())
    }
}

/// What the suite says of each scenario.
async fn suite(node: &str, suite: &str, url: &str) -> BTreeMap<String, String> {
    let done = Command::new(node)
        .args([suite, "server", "--url", url, "--suite", "active"])
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(Duration::from_secs(180), done)
        .await
        .expect("the suite's end")
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    said.lines()
        .filter(|line| line.starts_with(['✓', '✗']))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, found)| {
            (
                name.trim_start_matches(['✓', '✗', ' ']).to_owned(),
                found.to_owned(),
            )
        })
        .collect()
}

pub(crate) mod heavy {
    //! Takes the suite's time twice.
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_protocols_own_suite_sees_through_the_proxy_what_it_sees_directly() {
        let needed = "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let Some(folder) = tools(needed) else { return };
        let node = folder.join("bin/node").to_string_lossy().into_owned();
        let modules = folder.join("npm").to_string_lossy().into_owned();
        let server = own("conformance.mjs");
        let mut direct = Command::new(&node)
            .args([&server, &modules, "http"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(direct.stdout.take().unwrap())
            .read_line(&mut port)
            .await
            .unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        let program = folder.join(needed).to_string_lossy().into_owned();
        let directly = suite(&node, &program, &url).await;

        let world = World::new();
        let servers = json!([{"id": "s", "command": [node, server, modules, "stdio"]}]);
        world.host.install(&world.package_with("p", &servers)).unwrap();
        world.approve("p");
        world.settings(&json!({"approval_mode": "never-ask"}));
        let bridge = Arc::new(Bridge {
            world,
            key: ServerKey::new("p", "s"),
            open: Mutex::default(),
            next: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(bridge.clone().serve(stream));
            }
        });
        let through = suite(&node, &program, &url).await;
        // What concerns HTTP alone is not the proxy's.
        let of_the_protocol = |all: BTreeMap<String, String>| -> BTreeMap<String, String> {
            all.into_iter()
                .filter(|(name, _)| name != "dns-rebinding-protection")
                .collect()
        };
        let (directly, through) = (of_the_protocol(directly), of_the_protocol(through));
        assert!(directly.len() > 25, "{directly:?}");
        let passed = directly
            .values()
            .filter(|found| found.ends_with(" 0 failed"))
            .count();
        assert!(
            passed > 25,
            "the server that is measured against should pass: {directly:?}"
        );
        assert_eq!(through, directly);
    }
}
