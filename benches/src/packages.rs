//! What a package's server costs behind the proxy beside the same server directly, fifty of them at once, and hashing beside sha256sum. The servers are this program in
//! other roles; nothing else answers more quickly, so what the proxy adds is seen at its largest. Never counts the start of a program into a call.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_core::Clock;
use muster_plugin_host::session::{Nobody, Options, serve, standard_input, standard_output};
use muster_plugin_host::{Act, Budgets, Host, Launcher, ServerKey, Target, launch, tree};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::gateways;
use crate::report::{Amount, Figure, Samples, Target as Wanted};
use crate::server::Muster;

const ECHO: &str = "package-echo";
const SDK: &str = "package-sdk";
const PROXY: &str = "package-proxy";
const CALLS: usize = 4_000;
const IN_FLIGHT: usize = 32;
const SERVERS: usize = 50;
const FILES: usize = 10_000;
const FILE: usize = 20 * 1024;

/// Plays the role that another process of this run gave it, if one did.
pub(crate) fn role() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let word = words.next()?;
    if word == launch::WORD {
        return Some(launch::run(words));
    }
    let done = if word == ECHO {
        echo(words.next())
    } else if word == SDK {
        sdk()
    } else if word == PROXY {
        proxy(words)
    } else {
        return None;
    };
    Some(if done.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A server that answers as soon as it can, after a delay of its start.
fn echo(delay: Option<OsString>) -> Result<()> {
    let delay = delay.and_then(|text| text.to_str()?.parse().ok()).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(delay));
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message.get("method").and_then(Value::as_str) {
            Some("initialize") => {
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}})
            }
            Some("tools/list") => {
                json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]})
            }
            _ => json!({"content": [{"type": "text", "text": "echo"}]}),
        };
        let mut text = serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        text.push(b'\n');
        out.write_all(&text)?;
        out.flush()?;
    }
    Ok(())
}

/// The same with the Rust SDK, as an author of a package would write it.
fn sdk() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let served = Sdk.serve(rmcp::transport::stdio()).await?;
        served.waiting().await?;
        Ok(())
    })
}

struct Sdk;

impl ServerHandler for Sdk {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let tool =
            Tool::new("echo", "Says echo.", schema).with_annotations(ToolAnnotations::new().read_only(true));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("echo")]).into())
    }
}

fn options() -> Options {
    Options {
        session: "bench".to_owned(),
        dir: std::env::temp_dir(),
        launcher: Launcher::this_program(),
        approver: Arc::new(Nobody),
        budgets: Budgets::default(),
    }
}

/// What an agent's configuration starts: one server on standard streams.
fn proxy(mut words: impl Iterator<Item = OsString>) -> Result<()> {
    let data = words.next().context("no data folder")?;
    let host = Host::new(Path::new(&data), Clock::system());
    let ready = host.ready(&ServerKey::new("echo", "s"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { serve(ready, options(), standard_input(), standard_output()).await });
    Ok(())
}

/// The figures.
pub(crate) fn run(muster: &Muster, folder: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let (mut figures, direct, proxied) = calls(folder, rounds)?;
    let program = std::env::current_exe()?;
    let server = [program.display().to_string(), ECHO.to_owned()];
    let source = folder.join("source/echo");
    figures.extend(gateways::figures(
        muster, folder, &source, &server, direct, proxied,
    )?);
    figures.extend(fifty(folder)?);
    figures.extend(hashing(folder, rounds)?);
    Ok(figures)
}

/// A package with a server of the official Python SDK, where ./test has installed one: the program and the server's file.
fn python(data: &Path, folder: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let tools = std::env::var_os("MUSTER_TEST_TOOLS").map(PathBuf::from);
    let Some(program) = tools
        .map(|tools| tools.join("venv/bin/python"))
        .filter(|program| program.exists())
    else {
        return Ok(None);
    };
    let source = folder.join("source/python");
    fs::create_dir_all(source.join(".muse-plugin"))?;
    let server = source.join("server.py");
    fs::write(&server, PYTHON)?;
    let manifest = json!({
        "schemaVersion": 1, "name": "echo", "version": "1.0.0", "description": "Measured.",
        "compat": {"manifestDir": ".muse-plugin"},
        "capabilities": {"mcpServers": [{"id": "s", "command": [program, "./server.py"]}]},
    });
    fs::write(source.join(".muse-plugin/plugin.json"), manifest.to_string())?;
    let host = Host::new(data, Clock::system());
    host.install(&source)?;
    host.decide(&Target::Plugin("echo".to_owned()), Act::Approve, None)?;
    Ok(Some((program, server)))
}

const PYTHON: &str = r#"
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("echo")

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def echo(text: str) -> str:
    return "echo"

server.run()
"#;

fn install(data: &Path, folder: &Path, id: &str, delay: u64) -> Result<Host> {
    let program = std::env::current_exe()?;
    install_command(data, folder, id, &json!([program, ECHO, delay.to_string()]))
}

fn install_command(data: &Path, folder: &Path, id: &str, command: &Value) -> Result<Host> {
    let source = folder.join("source").join(id);
    fs::create_dir_all(source.join(".muse-plugin"))?;
    let manifest = json!({
        "schemaVersion": 1, "name": id, "version": "1.0.0", "description": "Measured.",
        "compat": {"manifestDir": ".muse-plugin"},
        "capabilities": {"mcpServers": [{"id": "s", "command": command}]},
    });
    fs::write(source.join(".muse-plugin/plugin.json"), manifest.to_string())?;
    let host = Host::new(data, Clock::system());
    host.install(&source)?;
    host.decide(&Target::Plugin(id.to_owned()), Act::Approve, None)?;
    Ok(host)
}

/// A server, or a proxy in front of it, and the streams to it.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Peer {
    fn start(words: &[OsString]) -> Result<Self> {
        Self::of(Command::new(std::env::current_exe()?).args(words))
    }

    fn of(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut peer = Self {
            child,
            input,
            output: BufReader::new(output.context("no output")?),
            next: 0,
        };
        peer.send("initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}))?;
        peer.answer()?;
        peer.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        peer.send("tools/list", &json!({}))?;
        peer.answer()?;
        Ok(peer)
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<()> {
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}))
    }

    fn write(&mut self, message: &Value) -> Result<()> {
        let mut text = serde_json::to_vec(message)?;
        text.push(b'\n');
        self.input.as_mut().context("closed")?.write_all(&text)?;
        Ok(())
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the server ended");
        }
        Ok(line)
    }

    /// An answer that is the server's own: a refusal is quick, and no call.
    fn echoed(&mut self) -> Result<()> {
        let answer = self.answer()?;
        if !answer.contains("\"echo\"") || answer.contains("\"isError\":true") {
            bail!("a call was not answered as it should be: {answer}");
        }
        Ok(())
    }

    /// One call after the other; milliseconds each.
    fn in_turn(&mut self, count: usize, samples: &mut Samples) -> Result<()> {
        let params = json!({"name": "echo", "arguments": {"text": "hello"}});
        for _ in 0..count {
            let one = Instant::now();
            self.send("tools/call", &params)?;
            self.echoed()?;
            samples.add(one.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    }

    /// Calls a second with many in flight.
    fn at_once(&mut self, count: usize) -> Result<f64> {
        let params = json!({"name": "echo", "arguments": {"text": "hello"}});
        let begun = Instant::now();
        let mut waiting = VecDeque::new();
        for _ in 0..count {
            if waiting.len() == IN_FLIGHT {
                self.echoed()?;
                waiting.pop_front();
            }
            self.send("tools/call", &params)?;
            waiting.push_back(());
        }
        for () in waiting {
            self.echoed()?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }

    fn end(mut self) -> Result<()> {
        drop(self.input.take());
        self.child.wait()?;
        Ok(())
    }
}

/// The figures of single calls, and the medians in milliseconds directly and of what the proxy adds.
fn calls(folder: &Path, rounds: usize) -> Result<(Vec<Figure>, f64, f64)> {
    let data = folder.join("calls");
    install(&data, folder, "echo", 0)?;
    let mut direct = Peer::start(&[ECHO.into()])?;
    let mut proxied = Peer::start(&[PROXY.into(), data.into()])?;
    let (mut alone, mut behind) = (Samples::default(), Samples::default());
    for peer in [&mut direct, &mut proxied] {
        peer.in_turn(500, &mut Samples::default())?;
    }
    // For two seconds after a change the ledger is read at each look; nearly all of a session comes later.
    std::thread::sleep(Duration::from_millis(2_500));
    // Alternating, so that what else the machine does meets both alike.
    for _ in 0..rounds * 2 {
        direct.in_turn(CALLS / rounds / 2, &mut alone)?;
        proxied.in_turn(CALLS / rounds / 2, &mut behind)?;
    }
    let bare = rates(&mut direct, &mut proxied, rounds, CALLS * 10)?;
    direct.end()?;
    proxied.end()?;
    let mut figures = vec![throughput(
        "a server that does nothing",
        &bare,
        rounds,
        CALLS * 10,
    )];
    let data = folder.join("sdk");
    install_command(
        &data,
        &folder.join("sdk-source"),
        "echo",
        &json!([std::env::current_exe()?, SDK]),
    )?;
    let mut direct = Peer::start(&[SDK.into()])?;
    let mut proxied = Peer::start(&[PROXY.into(), data.into()])?;
    proxied.in_turn(10, &mut Samples::default())?;
    std::thread::sleep(Duration::from_millis(2_500));
    let written = rates(&mut direct, &mut proxied, rounds, CALLS * 10)?;
    direct.end()?;
    proxied.end()?;
    figures.push(throughput(
        "a server of the Rust SDK",
        &written,
        rounds,
        CALLS * 10,
    ));
    let data = folder.join("python");
    if let Some((program, server)) = python(&data, folder)? {
        let mut direct = Peer::of(Command::new(program).arg(server))?;
        let mut proxied = Peer::start(&[PROXY.into(), data.into()])?;
        proxied.in_turn(10, &mut Samples::default())?;
        std::thread::sleep(Duration::from_millis(2_500));
        let written = rates(&mut direct, &mut proxied, rounds, CALLS / 10)?;
        direct.end()?;
        proxied.end()?;
        figures.push(throughput(
            "a server of the Python SDK",
            &written,
            rounds,
            CALLS / 10,
        ));
    }
    let added = |share| behind.percentile(share) - alone.percentile(share);
    let note = format!(
        "{} calls each in turns; directly p50 {:.3} and p99 {:.3} ms, through the proxy {:.3} and {:.3} ms; each call is ruled on and written into the event log",
        alone.len(),
        alone.median(),
        alone.percentile(0.99),
        behind.median(),
        behind.percentile(0.99)
    );
    figures.splice(
        0..0,
        [
            Figure::new(
                "tools/call: added by the proxy, p50",
                Amount::of(added(0.5), "ms"),
                Some(("the same server directly, p50", Amount::of(alone.median(), "ms"))),
                Wanted::Below(0.3),
                note,
            ),
            Figure::new(
                "the same, p99",
                Amount::of(added(0.99), "ms"),
                Some(("directly, p99", Amount::of(alone.percentile(0.99), "ms"))),
                Wanted::Below(1.0),
                "",
            ),
        ],
    );
    Ok((figures, alone.median(), added(0.5)))
}

/// Calls a second directly, through the proxy, and their ratio, round by round.
type Rates = (Samples, Samples, Samples);

fn rates(direct: &mut Peer, proxied: &mut Peer, rounds: usize, count: usize) -> Result<Rates> {
    let mut rates = Rates::default();
    for _ in 0..rounds {
        let (one, other) = (direct.at_once(count)?, proxied.at_once(count)?);
        rates.0.add(one);
        rates.1.add(other);
        rates.2.add(other / one);
    }
    Ok(rates)
}

fn throughput(what: &str, rates: &Rates, rounds: usize, count: usize) -> Figure {
    Figure::new(
        format!("calls a second through the proxy, {IN_FLIGHT} in flight, {what}"),
        Amount::of(rates.1.median(), "/s"),
        Some(("directly", Amount::of(rates.0.median(), "/s"))),
        Wanted::RatioAtLeast(0.8),
        format!("{rounds} rounds of {count}, ratios {}", rates.2.spread()),
    )
    .with_ratio(rates.2.median())
}

/// Milliseconds to a list of tools from every server, started at once in one process, and what they cost it.
fn fifty(folder: &Path) -> Result<Vec<Figure>> {
    let data = folder.join("fifty");
    let mut keys = Vec::new();
    for number in 0..SERVERS {
        let id = format!("s{number:02}");
        // The slowest takes a second, the others anything up to it.
        let delay = 1_000 * (number as u64 + 1) / SERVERS as u64;
        install(&data, folder, &id, delay)?;
        keys.push(ServerKey::new(id, "s"));
    }
    let begun = Instant::now();
    Peer::start(&[ECHO.into(), "1000".into()])?.end()?;
    let slowest = begun.elapsed().as_secs_f64() * 1e3;
    let before = private(std::process::id())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (ready, memory, launchers) = runtime.block_on(async {
        let host = Host::new(&data, Clock::system());
        let begun = Instant::now();
        let mut running = Vec::new();
        for key in keys {
            let host = host.clone();
            running.push(tokio::spawn(async move {
                let ready = host.ready(&key)?;
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                let (input, output) = tokio::io::split(theirs);
                let session = tokio::spawn(serve(ready, options(), input, output));
                let (output, mut input) = tokio::io::split(ours);
                let mut output = tokio::io::BufReader::new(output).lines();
                for (id, method) in [(1, "initialize"), (2, "tools/list")] {
                    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
                    let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n";
                    input.write_all(text.as_bytes()).await?;
                    let answer = output.next_line().await?.context("the session ended")?;
                    if id == 2 && !answer.contains("\"echo\"") {
                        bail!("a server's tools are not there: {answer}");
                    }
                }
                Ok((input, output, session))
            }));
        }
        let mut open = Vec::new();
        for one in running {
            open.push(one.await??);
        }
        let ready = begun.elapsed().as_secs_f64() * 1e3;
        let memory = private(std::process::id())? - before;
        let launchers = launchers()?;
        for (input, output, session) in open {
            drop((input, output));
            session.await?;
        }
        anyhow::Ok((ready, memory, launchers))
    })?;
    #[expect(clippy::cast_precision_loss, reason = "fifty")]
    let each = (memory + launchers) / SERVERS as f64;
    Ok(vec![
        Figure::new(
            format!("{SERVERS} servers at once: all tools listed"),
            Amount::of(ready / slowest, "times"),
            None,
            Wanted::Below(1.5),
            format!(
                "{ready:.0} ms beside {slowest:.0} ms for the slowest by itself; each verified, started and asked"
            ),
        ),
        Figure::new(
            "memory of the host for each of them",
            Amount::of(each / 1024.0, "MiB"),
            None,
            Wanted::Below(2.0),
            format!(
                "memory of their own: {memory:.0} KiB more in the host, {launchers:.0} KiB in the launchers of all"
            ),
        ),
    ])
}

/// KiB of memory that a process shares with no other.
fn private(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let mut sum = 0.0;
    for line in text.lines().filter(|line| line.starts_with("Private_")) {
        sum += line.split_whitespace().nth(1).unwrap_or("0").parse::<f64>()?;
    }
    Ok(sum)
}

/// KiB of memory of all launchers below this process.
fn launchers() -> Result<f64> {
    let own = std::process::id().to_string();
    let mut sum = 0.0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(own.as_str())
            && let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
        {
            sum += private(pid)?;
        }
    }
    Ok(sum)
}

fn hashing(folder: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let package = folder.join("large");
    let mut seed = 1_u64;
    for number in 0..FILES {
        let place = package.join(format!("{:02}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&place)?;
        }
        let bytes: Vec<u8> = (0..FILE / 8)
            .flat_map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                seed.to_le_bytes()
            })
            .collect();
        fs::write(place.join(format!("{number:05}")), bytes)?;
    }
    let (mut ours, mut theirs, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..rounds {
        let begun = Instant::now();
        tree::digest_of(&package)?;
        let own = begun.elapsed().as_secs_f64() * 1e3;
        let begun = Instant::now();
        let sums = Command::new("sh")
            .arg("-c")
            .arg("find . -type f -print0 | xargs -0 -n 500 -P 2 sha256sum > /dev/null")
            .current_dir(&package)
            .status()?;
        if !sums.success() {
            bail!("sha256sum failed");
        }
        let other = begun.elapsed().as_secs_f64() * 1e3;
        ours.add(own);
        theirs.add(other);
        ratios.add(other / own);
    }
    let source = package.join(".muse-plugin");
    fs::create_dir_all(&source)?;
    let manifest = json!({
        "schemaVersion": 1, "name": "large", "version": "1.0.0", "description": "Measured.",
        "compat": {"manifestDir": ".muse-plugin"}, "capabilities": {"mcpServers": [{"id": "s", "command": ["true"]}]},
    });
    fs::write(source.join("plugin.json"), manifest.to_string())?;
    let host = Host::new(&folder.join("hashing"), Clock::system());
    let begun = Instant::now();
    host.install(&package)?;
    let install = begun.elapsed().as_secs_f64() * 1e3;
    host.decide(&Target::Plugin("large".to_owned()), Act::Approve, None)?;
    // Stamps count once they are older than the clock is coarse.
    std::thread::sleep(Duration::from_secs(3));
    host.ready(&ServerKey::new("large", "s"))?;
    let mut verified = Samples::default();
    for _ in 0..rounds {
        let begun = Instant::now();
        drop(host.ready(&ServerKey::new("large", "s"))?);
        verified.add(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![
        Figure::new(
            format!("hashing a package of {FILES} files, {} MiB", (FILES * FILE) >> 20),
            Amount::of(ours.median(), "ms"),
            Some(("sha256sum over the same files on both cores", Amount::of(theirs.median(), "ms"))),
            Wanted::RatioAtLeast(0.7),
            format!("the ratio is the speed; {rounds} rounds, ratios {}; with a warm cache; installing it (copy, hash, sync) took {install:.0} ms", ratios.spread()),
        )
        .with_ratio(ratios.median()),
        Figure::new(
            "verifying that package at the start of a session",
            Amount::of(verified.median(), "ms"),
            Some(("hashing it", Amount::of(ours.median(), "ms"))),
            Wanted::Nothing,
            "every file looked at, none read: its stamp is the one it had when it was hashed",
        ),
    ])
}
