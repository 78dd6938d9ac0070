//! What a call costs behind public gateways and behind muster's own doors, each in front of the same server in one run. Never counts a start or a session's opening
//! into a call.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::client::bearer;
use crate::report::{Amount, Figure, Samples, Target};
use crate::server::{Muster, Place, workspace};

const CALLS: usize = 600;
const WARM: usize = 50;
const START: Duration = Duration::from_secs(60);

/// One program in front of a server, found under its name.
struct Gateway {
    name: &'static str,
    /// Its arguments for this port in front of this command.
    arguments: fn(&str, &[String]) -> Vec<String>,
}

const GATEWAYS: [Gateway; 2] = [
    Gateway {
        name: "mcp-proxy",
        arguments: |port, server| {
            let own = ["--host", "127.0.0.1", "--port", port, "--"].map(str::to_owned);
            own.into_iter().chain(server.iter().cloned()).collect()
        },
    },
    Gateway {
        name: "supergateway",
        arguments: |port, server| {
            let command = server.join(" ");
            let own = [
                "--stdio",
                &command,
                "--outputTransport",
                "streamableHttp",
                "--stateful",
            ];
            let rest = ["--port", port, "--logLevel", "none"];
            own.into_iter().chain(rest).map(str::to_owned).collect()
        },
    },
];

/// The folder with the gateways' programs, installed in the versions that benches/gateways fixes; `None` without npm.
fn installed() -> Result<Option<PathBuf>> {
    let root = workspace()?;
    let folder = root.join("target/gateways");
    let programs = folder.join("node_modules/.bin");
    std::fs::create_dir_all(&folder)?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(root.join("benches/gateways").join(name), folder.join(name))?;
    }
    if GATEWAYS
        .iter()
        .all(|gateway| programs.join(gateway.name).exists())
    {
        return Ok(Some(programs));
    }
    let npm = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .output();
    match npm {
        Ok(done) if done.status.success() => Ok(Some(programs)),
        Ok(done) => bail!(
            "npm ended with {} while it installed the gateways: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("npm could not be started"),
    }
}

/// A process group that ends with this.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

/// A client of the protocol over HTTP on one kept connection.
struct Caller {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    path: String,
    headers: String,
    next: u64,
}

impl Caller {
    /// Connects and introduces itself; `headers` are whole lines.
    fn open(address: SocketAddr, path: &str, headers: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(START))?;
        let mut caller = Self {
            stream: BufReader::new(stream),
            address,
            path: path.to_owned(),
            headers: headers.to_owned(),
            next: 0,
        };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        let (head, _) = caller.ask("initialize", &hello)?;
        if let Some(session) = header(&head, "mcp-session-id") {
            caller.headers.push_str(&format!("mcp-session-id: {session}\r\n"));
        }
        caller.headers.push_str("mcp-protocol-version: 2025-06-18\r\n");
        caller.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        caller.ask("tools/list", &json!({}))?;
        Ok(caller)
    }

    fn post(&mut self, message: &Value) -> Result<(String, String)> {
        let body = message.to_string();
        let (path, address, headers, length) = (&self.path, self.address, &self.headers, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.answer()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<(String, String)> {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        let (head, body) = self.post(&message)?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status != "200" {
            bail!("{method} was answered with {status}: {body}");
        }
        Ok((head, body))
    }

    /// A whole answer: its head and its body.
    fn answer(&mut self) -> Result<(String, String)> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                bail!("the connection was closed");
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = Vec::new();
        if header(&head, "transfer-encoding").is_some() {
            loop {
                let mut size = String::new();
                self.stream.read_line(&mut size)?;
                let size = usize::from_str_radix(size.trim(), 16).context("a chunk has no size")?;
                let begin = body.len();
                body.resize(begin + size, 0);
                self.stream
                    .read_exact(body.get_mut(begin..).unwrap_or_default())?;
                self.stream.read_line(&mut String::new())?;
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = header(&head, "content-length").map_or(Ok(0), str::parse)?;
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        }
        Ok((head, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Milliseconds of each call, one after the other.
    fn calls(&mut self) -> Result<Samples> {
        let params = json!({"name": "echo", "arguments": {"text": "hello"}});
        let mut samples = Samples::default();
        for number in 0..WARM + CALLS {
            let begun = Instant::now();
            let (_, body) = self.ask("tools/call", &params)?;
            let took = begun.elapsed();
            // A refusal is quick, and no call.
            if !body.contains("\"text\":\"echo\"") || body.contains("\"isError\":true") {
                bail!("a call was not answered as it should be: {body}");
            }
            if number >= WARM {
                samples.add(took.as_secs_f64() * 1e3);
            }
        }
        Ok(samples)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A public gateway in front of the server.
fn public(gateway: &Gateway, programs: &Path, server: &[String]) -> Result<Samples> {
    let port = free_port()?;
    let mut command = Command::new(programs.join(gateway.name));
    command
        .args((gateway.arguments)(&port.to_string(), server))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let _started = Started(command.spawn()?);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        if begun.elapsed() > START {
            bail!("{} did not listen within a minute", gateway.name);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Caller::open(address, "/mcp", "")?.calls()
}

/// muster's own door over HTTP, with a token that is proven at each call.
fn own(muster: &Muster, folder: &Path, source: &Path) -> Result<Samples> {
    let place = Place::sqlite(muster, folder)?;
    let run = |words: &[&str]| -> Result<String> {
        let output = place.command(muster).args(words).output()?;
        if !output.status.success() {
            bail!(
                "muster {} failed: {}",
                words.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    };
    run(&["plugins", "install", &source.display().to_string()])?;
    run(&["plugins", "approve", "echo"])?;
    run(&[
        "project",
        "add",
        "engine",
        "--root",
        &folder.display().to_string(),
    ])?;
    let task = run(&["task", "add", "--project", "engine", "--title", "Look"])?;
    let task = task.lines().next().unwrap_or_default().to_owned();
    let token = run(&["token", "create", "--kind", "agent", "--task", &task])?;
    let token = token.lines().next().unwrap_or_default().to_owned();
    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let samples = Caller::open(server.address, "/packages/echo/s/mcp", &bearer(&token))?.calls()?;
    server.stop()?;
    Ok(samples)
}

/// The figures: `direct` and `proxied` are the calls of the same server on standard streams, alone and behind `muster plugins serve`.
pub(crate) fn figures(
    muster: &Muster,
    folder: &Path,
    source: &Path,
    server: &[String],
    direct: f64,
    proxied: f64,
) -> Result<Vec<Figure>> {
    let own = own(muster, folder, source)?;
    let door = own.median() - direct;
    let mut figures = vec![Figure::new(
        "tools/call: added by muster's door over HTTP, p50",
        Amount::of(door, "ms"),
        Some(("the same server directly, p50", Amount::of(direct, "ms"))),
        Target::Nothing,
        format!(
            "{CALLS} calls with an agent's token; p99 {:.3} ms",
            own.percentile(0.99)
        ),
    )];
    let Some(programs) = installed()? else {
        eprintln!("npm is not there, so no public gateway was measured");
        return Ok(figures);
    };
    for gateway in &GATEWAYS {
        let calls = public(gateway, &programs, server)?;
        let added = calls.median() - direct;
        for (what, ours, target) in [
            (
                "the proxy on standard streams",
                proxied,
                Target::RatioAtLeast(5.0),
            ),
            ("the door over HTTP", door, Target::Nothing),
        ] {
            figures.push(
                Figure::new(
                    format!("{} adds, beside {what}", gateway.name),
                    Amount::of(added, "ms"),
                    Some(("muster adds", Amount::of(ours, "ms"))),
                    target,
                    format!(
                        "{CALLS} calls; p50 {:.3} and p99 {:.3} ms",
                        calls.median(),
                        calls.percentile(0.99)
                    ),
                )
                .with_ratio(added / ours),
            );
        }
    }
    Ok(figures)
}
