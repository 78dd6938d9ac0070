//! `muster bus serve`: one session on the standard streams, or a daemon for many over HTTP. Never writes to standard output what is not the protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use muster_bus::home::foreign_locks;
use muster_bus::identity::{How, Session};
use muster_bus::push::{Settings, Transport};
use muster_bus::sessions::Link;
use muster_bus::tools::{Place, Tools};
use muster_bus::transports::{self, Configured, Panes, TransportKind};
use muster_bus::{Home, Mode, tokens};
use muster_core::Secret;
use muster_mirror::herdr::HerdrPanes;
use muster_mirror::pushers::Pushers;
use muster_web::mcp_bus::{Bearers, Daemon, Proof, gate, serve_stdio};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{open, refused, seat};
use crate::cli::BusServe;
use crate::output::{self, Failure};

/// Fewer characters than this may be found by trying.
const ENOUGH: usize = 16;

pub(super) async fn run(args: &BusServe) -> Result<(), Failure> {
    log(Level::WARN);
    let home = open(args.dir.as_deref())?;
    let transport = transports::configured(&home, environment)
        .map_err(|error| Failure::refused("transport", error.to_string()))?;
    warn_of_others(&home);
    if tokens::loose_mode(&home) {
        output::notice(
            "muster: tokens.json can be read by others than its owner; `muster bus token list` closes it to them",
        );
    }
    let panes = Panes::of(environment);
    let stop = CancellationToken::new();
    match environment("AGENT_COORD_HTTP_PORT") {
        None => stdio(tools(home, transport, panes.clone())?, panes, stop).await,
        // Whoever calls runs elsewhere, whatever pane this process was started in.
        Some(port) => http(tools(home, transport, Panes::default())?, &port, stop).await,
    }
}

/// The tools of this process, with the hands of the transport that this machine uses.
pub(super) fn tools(home: Home, transport: Configured, panes: Panes) -> Result<Tools, Failure> {
    let settings =
        Settings::of(environment).map_err(|error| Failure::refused("bad_setting", error.to_string()))?;
    let hands: Arc<dyn Transport> = match transport.kind {
        TransportKind::Herdr => {
            let looks = muster_mirror::Settings::from_env(environment)
                .map_err(|sentence| Failure::refused("bad_setting", sentence))?;
            Arc::new(HerdrPanes::of(environment).with_ghost(looks.ghost))
        }
        TransportKind::TmuxPushRemote => Arc::new(Pushers::new(&home)),
    };
    Ok(Tools::new(home, transport, Place { panes }).with_transport(hands, settings))
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Logs go to standard error, which clients keep apart.
pub(in crate::commands) fn log(usual: Level) {
    // Targets and levels are enough here, and every session is spared the regular expressions of the filter that can more.
    let filter = environment("MUSTER_LOG")
        .and_then(|said| said.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(usual));
    // A second subscriber in one process cannot be; there is none before this.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Below a warning the protocol's library writes whole messages, with the texts and tokens that stand in them; it warns of every answer that is
        // an error, which its client has.
        .with_filter(filter.and(filter_fn(|meta| {
            !meta.target().starts_with("rmcp") || *meta.level() <= Level::ERROR
        })));
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// In native mode nobody else is expected to write here.
fn warn_of_others(home: &Home) {
    if home.mode() == Mode::Native && !foreign_locks(home).is_empty() {
        output::notice(
            "muster: another program takes lock directories in this bus's folder, which is in native mode: what both write at once can be lost. `muster init --mode shared` makes muster honour them",
        );
    }
}

async fn stdio(tools: Tools, panes: Panes, stop: CancellationToken) -> Result<(), Failure> {
    let bound = environment("AGENT_COORD_BOUND_AGENT")
        .map(|id| seat(&id))
        .transpose()?;
    if bound.is_none() {
        output::notice(
            "muster: AGENT_COORD_BOUND_AGENT is not set, so this session becomes whichever agent it first acts as",
        );
    }
    let session = match &bound {
        Some(seat) => Session::prebound(tools.home(), Link::Stdio, panes, seat, How::Environment),
        None => Session::new(tools.home(), Link::Stdio, panes),
    }
    .map_err(refused)?;
    let mut signals = Signals::new()?;
    let ends = stop.clone();
    let hands = tools.clone();
    let mut serving = tokio::spawn(serve_stdio(tools, session.clone(), stop));
    let served = tokio::select! {
        served = &mut serving => served,
        // A terminal that closes ends the session like any other stop.
        _ = signals.next() => {
            ends.cancel();
            serving.await
        }
    };
    end(hands).await;
    // A call that is still under way holds the session, too.
    if let Err(error) = session.end() {
        tracing::warn!(error = %error.chain(), "the marker of this session could not be removed; it counts no more once this process has ended");
    }
    match served {
        Ok(Ok(())) => Ok(()),
        Ok(Err(sentence)) => Err(Failure::refused("protocol", sentence)),
        Err(error) => Err(Failure::refused("fault", error.to_string())),
    }
}

async fn http(tools: Tools, port: &str, stop: CancellationToken) -> Result<(), Failure> {
    let shared = environment("AGENT_COORD_TOKEN").map(Secret::new);
    let bearers = Bearers::load(tools.home(), shared.as_ref()).map_err(refused)?;
    let proof = Proof {
        tokens: bearers.has_tokens(),
        shared: shared.is_some(),
        insecure: environment("AGENT_COORD_INSECURE").as_deref() == Some("1"),
    };
    let places = gate(std::env::var("AGENT_COORD_BIND").ok().as_deref(), port, proof)
        .map_err(|error| Failure::refused("bind", error.to_string()))?;
    if bearers.has_tokens() && proof.shared {
        output::notice(
            "muster: AGENT_COORD_TOKEN counts for nothing, because tokens.json says who each agent is",
        );
    }
    if !bearers.has_tokens()
        && let Some(token) = &shared
    {
        output::notice(
            "muster: AGENT_COORD_TOKEN is one token for all: every holder of it can be every agent. `muster bus token add AGENT` gives each its own",
        );
        if token.expose().len() < ENOUGH {
            output::notice(&format!(
                "muster: AGENT_COORD_TOKEN has fewer than {ENOUGH} characters, so it can be guessed; `openssl rand -hex 24` makes one that cannot"
            ));
        }
    }
    let mut listeners = Vec::new();
    for (host, port) in &places {
        listeners.push(listen(host, *port).await?);
    }
    let listening: Vec<SocketAddr> = listeners
        .iter()
        .map(TcpListener::local_addr)
        .collect::<std::io::Result<_>>()?;
    let names: Vec<String> = places.into_iter().map(|(host, _)| host).collect();
    let mut signals = Signals::new()?;
    let hands = tools.clone();
    let daemon = Daemon::new(tools, bearers.clone(), &listening, &names, &stop);
    for address in &listening {
        output::notice(&format!(
            "muster: the bus answers on http://{address}/mcp (process {}; kill -HUP reads tokens.json again)",
            std::process::id()
        ));
    }
    let serving = TaskTracker::new();
    for listener in listeners {
        serving.spawn(daemon.clone().serve(listener, stop.clone()));
    }
    serving.close();
    while let Told::Reload = signals.next().await {
        match bearers.reload() {
            Ok(()) => output::notice("muster: tokens.json was read again"),
            Err(error) => output::notice(&format!(
                "muster: {}; the tokens that were read before still count",
                error.chain()
            )),
        }
    }
    stop.cancel();
    serving.wait().await;
    end(hands).await;
    Ok(())
}

/// Ends what is typed for this process's seats, and takes their markers away.
async fn end(hands: Tools) {
    // It waits for what is being typed.
    let _ = tokio::task::spawn_blocking(move || hands.end()).await;
}

async fn listen(host: &str, port: u16) -> Result<TcpListener, Failure> {
    let failed = |error: std::io::Error| {
        Failure::refused(
            "listen",
            format!("the bus cannot listen on {host} port {port}: {error}; nothing is served"),
        )
    };
    let address = tokio::net::lookup_host((host, port))
        .await
        .map_err(failed)?
        .next()
        .ok_or_else(|| failed(std::io::Error::other("the name has no address")))?;
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }
    .map_err(failed)?;
    // Without it a restart would wait for the last server's closed connections to be forgotten.
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(address).map_err(failed)?;
    socket.listen(1024).map_err(failed)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

/// What a signal asks for.
enum Told {
    Stop,
    Reload,
}
