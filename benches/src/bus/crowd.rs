//! A thousand agents on one HTTP daemon: each waits, and each sends one message a second to the next. Never more than one send in flight for each.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::directory;
use super::speaker::{Program, resident};
use crate::report::{Amount, Figure, Samples, Target};

const AGENTS: usize = 1_000;
const TOKEN: &str = "bench-token-of-no-worth";

struct Daemon {
    child: Child,
    address: SocketAddr,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    fn start(program: &Program, folder: &Path) -> Result<Self> {
        let mut child = program
            .command(folder)?
            .env("AGENT_COORD_HTTP_PORT", "0")
            .env("AGENT_COORD_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the bus could not be started")?;
        let said = child.stderr.take().context("the bus has no standard error")?;
        let mut lines = BufReader::new(said).lines();
        let address = loop {
            let line = lines.next().context("the bus ended before it listened")??;
            let place = line
                .split("http://")
                .nth(1)
                .and_then(|rest| rest.split('/').next());
            if let Some(Ok(address)) = place.map(str::parse) {
                break address;
            }
        };
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }
}

/// A kept connection that reads answers in one piece or in chunks.
struct Link {
    stream: TcpStream,
    address: SocketAddr,
    session: Option<String>,
    read: Vec<u8>,
    next: u64,
}

impl Link {
    async fn open(address: SocketAddr, session: Option<String>) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .context("the bus accepts no connection")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            address,
            session,
            read: Vec::new(),
            next: 0,
        })
    }

    async fn post(&mut self, body: &Value) -> Result<Option<Value>> {
        let body = body.to_string();
        let session = self.session.as_ref().map_or_else(String::new, |session| {
            format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n")
        });
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let (head, body) = loop {
            if let Some(whole) = self.whole()? {
                break whole;
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                bail!("the bus closed a connection in the middle of an answer");
            }
        };
        let status = head.split(' ').nth(1).unwrap_or("");
        if !matches!(status, "200" | "202") {
            bail!("the bus answered {status}: {body}");
        }
        if self.session.is_none() {
            self.session = header(&head, "mcp-session-id").map(str::to_owned);
        }
        let json = body
            .lines()
            .filter_map(|line| {
                line.strip_prefix("data:")
                    .map(str::trim)
                    .or_else(|| line.starts_with('{').then_some(line))
            })
            .find(|text| text.contains("\"result\"") || text.contains("\"error\""));
        json.map(serde_json::from_str).transpose().map_err(Into::into)
    }

    /// A whole answer, once all of it is there.
    fn whole(&mut self) -> Result<Option<(String, String)>> {
        let Some(end) = find(&self.read, b"\r\n\r\n") else {
            return Ok(None);
        };
        let (head, rest) = self.read.split_at(end + 4);
        let head = std::str::from_utf8(head)?.to_owned();
        let (body, used) = if header(&head, "transfer-encoding").is_some() {
            match chunks(rest)? {
                Some(found) => found,
                None => return Ok(None),
            }
        } else {
            let length: usize = header(&head, "content-length").map_or(Ok(0), str::parse)?;
            match rest.get(..length) {
                Some(body) => (body.to_vec(), length),
                None => return Ok(None),
            }
        };
        self.read.drain(..end + 4 + used);
        Ok(Some((head, String::from_utf8(body)?)))
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let answer = self.post(&request).await?.context("the bus answered nothing")?;
        let text = answer
            .pointer("/result/content/0/text")
            .and_then(Value::as_str)
            .with_context(|| format!("{tool} was refused: {answer}"))?;
        Ok(serde_json::from_str(text)?)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// The body of an answer in chunks and how many bytes it took, once its last chunk is there.
fn chunks(mut rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
    let (mut body, mut used) = (Vec::new(), 0);
    loop {
        let Some(end) = find(rest, b"\r\n") else {
            return Ok(None);
        };
        let (size, after) = rest.split_at(end + 2);
        let size = usize::from_str_radix(std::str::from_utf8(size)?.trim(), 16)?;
        let Some(chunk) = after.get(..size + 2) else {
            return Ok(None);
        };
        used += end + 2 + size + 2;
        if size == 0 {
            return Ok(Some((body, used)));
        }
        body.extend_from_slice(chunk.get(..size).unwrap_or_default());
        rest = after.get(size + 2..).unwrap_or_default();
    }
}

/// Opens a session for an agent.
async fn enter(address: SocketAddr, name: &str) -> Result<Link> {
    let mut link = Link::open(address, None).await?;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}});
    link.post(&hello).await?;
    link.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await?;
    let answer = link.call("register", json!({"agentId": name})).await?;
    if answer.get("ok") != Some(&Value::Bool(true)) {
        bail!("{name} could not register: {answer}");
    }
    Ok(link)
}

pub(super) fn run(program: &Program, folder: &Path, time: Duration) -> Result<Vec<Figure>> {
    let directory = directory(folder, "crowd", "native")?;
    let daemon = Daemon::start(program, &directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let samples = tokio::task::LocalSet::new()
        .block_on(&runtime, crowd(daemon.address, time.max(Duration::from_secs(10))))?;
    let held = resident(daemon.child.id())? / 1024.0;
    Ok(vec![
        Figure::new(
            "bus over HTTP: 1,000 agents waiting, one message each a second: delivery, p99",
            Amount::of(samples.percentile(0.99), "ms"),
            None,
            Target::Below(50.0),
            format!(
                "{} messages; p50 {:.2} ms, worst {:.1} ms; from before the send to after the wait's answer, client and server on the same cores",
                samples.len(),
                samples.median(),
                samples.worst()
            ),
        ),
        Figure::new(
            "bus over HTTP: resident with them",
            Amount::of(held, "MiB"),
            None,
            Target::Below(200.0),
            String::new(),
        ),
    ])
}

async fn crowd(address: SocketAddr, time: Duration) -> Result<Samples> {
    let samples = Rc::new(RefCell::new(Samples::default()));
    let mut links = Vec::new();
    for number in 0..AGENTS {
        let mut link = enter(address, &name(number)).await?;
        links.push(link.session.take());
    }
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for (number, session) in links.into_iter().enumerate() {
        // Opened anew: one that lay idle while the others came may be gone.
        let mut link = Link::open(address, session.clone()).await?;
        let samples = samples.clone();
        tasks.push(tokio::task::spawn_local(async move {
            let until = time + Duration::from_secs(1);
            while begun.elapsed() < until {
                let answer = link
                    .call(
                        "wait_for_message",
                        json!({"agentId": name(number), "source": "inbox", "timeoutMs": 1_000}),
                    )
                    .await?;
                let now = begun.elapsed().as_secs_f64();
                for message in answer
                    .get("messages")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                {
                    let sent: f64 = message
                        .get("text")
                        .and_then(Value::as_str)
                        .context("a message has no text")?
                        .parse()?;
                    samples.borrow_mut().add((now - sent) * 1e3);
                }
            }
            anyhow::Ok(())
        }));
        tasks.push(tokio::task::spawn_local(async move {
            let mut link = Link::open(address, session).await?;
            // Two connections of one session number their requests apart.
            link.next = 1_000_000;
            // Each begins at its own moment of the second.
            let share = f64::from(u32::try_from(number)?) / f64::from(u32::try_from(AGENTS)?);
            tokio::time::sleep(Duration::from_secs_f64(0.5 + share)).await;
            let mut tick = tokio::time::interval(Duration::from_secs(1));
            while begun.elapsed() < time {
                tick.tick().await;
                let text = begun.elapsed().as_secs_f64().to_string();
                let answer = link
                    .call(
                        "send_message",
                        json!({"from": name(number), "to": name((number + 1) % AGENTS), "text": text}),
                    )
                    .await?;
                if answer.get("ok") != Some(&Value::Bool(true)) {
                    bail!("a message was refused: {answer}");
                }
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(Rc::try_unwrap(samples).map_or_else(|shared| shared.borrow().clone(), RefCell::into_inner))
}

fn name(number: usize) -> String {
    format!("agent-{number}")
}
