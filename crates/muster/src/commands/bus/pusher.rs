//! `muster bus pusher`: types what an agent has unread into its tmux pane on this machine. Never says its token or a message, and never goes on without the right to.

mod told;

use std::io::IsTerminal as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_bus::push::{self, Feed, FeedError, LocalFeed, Probe, Seat, Settings, Stop, Transport as _};
use muster_bus::transports::{self, TransportKind};
use muster_bus::wait::Watch;
use muster_bus::{BusError, Home, SeatId, build_id, registry, rename};
use muster_core::text::terminal;
use muster_core::{Secret, secret};
use muster_mirror::{Server, TmuxPanes};
use muster_web::mcp_bus::remote::{Pusher, Remote};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{open, refused, seat};
use crate::cli::BusPusher;
use crate::output::{self, Failure};

use told::Told;

/// The variable that holds the token.
pub(super) const TOKEN: &str = "AGENT_COORD_TOKEN";

/// How the line begins that says that everything is in place.
pub(super) const ATTACHED: &str = "muster: attached: ";

/// How long a stop may take: a delivery that is under way is completed first, and the marker is taken away.
const ENDS: Duration = Duration::from_secs(30);

/// How often a pane to which nothing comes is looked for.
const LOOK: Duration = Duration::from_secs(60);

/// How long a pusher whose agent was renamed is turned away under the new id before it ends.
const FOLLOWS: Duration = Duration::from_secs(5);

/// What is said when the pane is gone: none of its number ever comes back.
const GONE: &str = "the pane is gone, so the pusher ends; what is unread stays unread";

/// A variable that says something.
pub(super) fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The token: of the flag, with a warning, else of the environment.
pub(super) fn token(flag: Option<&str>) -> Option<Secret> {
    match flag.filter(|token| !token.is_empty()) {
        Some(token) => {
            output::notice(
                "muster: --token stands in the list of processes and in the shell's history; AGENT_COORD_TOKEN does not",
            );
            Some(Secret::new(token))
        }
        None => from_environment(TOKEN).map(Secret::new),
    }
}

/// What a pusher runs with.
struct Plan {
    seat: Seat,
    /// The socket of the tmux server that has its pane.
    socket: String,
    settings: Settings,
    host: String,
    build: Option<String>,
    refresh: Duration,
    force: bool,
}

/// Where what is unread comes from.
enum Way {
    Remote { server: String, token: Secret },
    Local,
}

pub(super) async fn run(args: BusPusher) -> Result<(), Failure> {
    log();
    let (id, pane, way) = asked(&args)?;
    if matches!(way, Way::Local) {
        let dir = super::folder(args.dir.as_deref())?;
        // A pusher delivers from a bus that is there; a directory that was mistyped would become an empty one.
        if !muster_bus::home::is_bus(&dir) {
            return Err(refused(BusError::NoBus(dir)));
        }
    }
    let mut plan = plan(&args, &id, pane)?;
    let panes = Arc::new(panes()?);
    plan.seat.target = find(&panes, &plan.seat.target)?;
    not_its_own(&plan.seat.target)?;
    let tmux = tmux_server(&plan.seat.target)?;
    plan.socket = tmux.socket;
    let _alone = alone(&plan.seat, &tmux.process).await?;
    let watched = (panes.clone(), plan.seat.target.clone());
    let (stop, cancel) = (Stop::new(), CancellationToken::new());
    let ends = (stop.clone(), cancel.clone());
    let runtime = Handle::current();
    let pushing = tokio::task::spawn_blocking(move || match way {
        Way::Remote { server, token } => remote(&plan, &panes, runtime, &server, token, (&stop, cancel)),
        Way::Local => local(&plan, &panes, args.dir.as_deref(), &stop),
    });
    until_ended(pushing, ends, watched).await
}

/// Logs go to standard error. Of the protocol's library nothing does: it prints its own types, and below a warning whole messages.
fn log() {
    let filter = from_environment("MUSTER_LOG")
        .and_then(|said| said.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(tracing::Level::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // A line that cannot be written, because the terminal was closed, must not break the end that is under way.
        .log_internal_errors(false)
        .with_filter(filter.and(filter_fn(|meta| !meta.target().starts_with("rmcp"))));
    // A second subscriber in one process cannot be; there is none before this.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Reads who, where and by which way out of the flags and the environment.
fn asked(args: &BusPusher) -> Result<(String, String, Way), Failure> {
    let or = |flag: &Option<String>, name: &str| flag.clone().or_else(|| from_environment(name));
    let id = or(&args.agent, "AGENT_COORD_ID");
    let pane = or(&args.tmux, "AGENT_COORD_TMUX_TARGET");
    let server = or(&args.server, "AGENT_COORD_SERVER").filter(|_| !args.local);
    let token = if args.local {
        None
    } else {
        token(args.token.as_deref())
    };
    let missing: Vec<&str> = [
        (
            "--server URL (or AGENT_COORD_SERVER)",
            args.local || server.is_some(),
        ),
        ("a token in AGENT_COORD_TOKEN", args.local || token.is_some()),
        ("--agent ID (or AGENT_COORD_ID)", id.is_some()),
        ("--tmux PANE (or AGENT_COORD_TMUX_TARGET)", pane.is_some()),
    ]
    .into_iter()
    .filter_map(|(what, there)| (!there).then_some(what))
    .collect();
    match (id, pane, server, token) {
        (Some(id), Some(pane), Some(server), Some(token)) => Ok((id, pane, Way::Remote { server, token })),
        (Some(id), Some(pane), ..) if args.local => Ok((id, pane, Way::Local)),
        _ => Err(Failure::usage(format!(
            "a pusher needs {}; nothing was started\n\nUsage: muster bus pusher --server URL --agent ID --tmux PANE, with the token in AGENT_COORD_TOKEN\n       muster bus pusher --local --agent ID --tmux PANE",
            missing.join(", ")
        ))),
    }
}

/// Waits for the end: of the pusher itself, of its pane, or by a signal, after which it ends in order.
async fn until_ended(
    mut pushing: JoinHandle<Result<(), Failure>>,
    (stop, cancel): (Stop, CancellationToken),
    (panes, pane): (Arc<TmuxPanes>, String),
) -> Result<(), Failure> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // A terminal that closes ends what runs in it, unless that was started to outlive it, as nohup does.
    let mut hangup = if hangup_is_ignored() {
        None
    } else {
        Some(signal(SignalKind::hangup())?)
    };
    let fault = |error: tokio::task::JoinError| Failure::refused("fault", error.to_string());
    let mut lost = false;
    loop {
        tokio::select! {
            ended = &mut pushing => return ended.map_err(fault)?,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = hung_up(&mut hangup) => break,
            () = tokio::time::sleep(LOOK) => {
                let (panes, pane) = (panes.clone(), pane.clone());
                let looked = tokio::task::spawn_blocking(move || panes.probe(&pane)).await;
                lost = matches!(looked.map_err(fault)?, Probe::Gone { .. });
                if lost {
                    break;
                }
            }
        }
    }
    stop.set();
    cancel.cancel();
    let ended = tokio::select! {
        ended = &mut pushing => ended.map_err(fault)?,
        _ = terminate.recv() => Err(gave_up()),
        _ = interrupt.recv() => Err(gave_up()),
        () = tokio::time::sleep(ENDS) => Err(gave_up()),
    };
    if lost {
        ended.and(Err(Failure::refused("pane", GONE)))
    } else {
        ended
    }
}

/// Waits for the terminal to close. It is never told of where that is ignored.
async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether whoever started this process had it ignore that its terminal closes.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is the first signal, which this one is.
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

fn gave_up() -> Failure {
    Failure::refused(
        "stopped",
        "stopped before the marker was taken away; it counts no more in five minutes",
    )
}

fn plan(args: &BusPusher, id: &str, pane: String) -> Result<Plan, Failure> {
    let allowlist = args.push.allowlist.as_ref().map(|ids| {
        let ids = ids.iter().map(|id| id.trim()).filter(|id| !id.is_empty());
        ids.map(|id| seat(id).map(|seat| seat.as_str().to_owned()))
            .collect::<Result<Vec<_>, _>>()
    });
    Ok(Plan {
        seat: Seat {
            id: seat(id)?,
            target: pane,
            include_room: !args.push.no_room,
            allowlist: allowlist.transpose()?,
            debounce: Duration::from_millis(args.push.debounce_ms.unwrap_or(1_000)),
        },
        socket: String::new(),
        settings: Settings::of(from_environment).map_err(|error| Failure::usage(error.to_string()))?,
        host: host(),
        build: build_id::stamp().map(str::to_owned).ok(),
        refresh: Duration::from_millis(args.push.refresh_ms.unwrap_or(30_000)),
        force: args.push.force,
    })
}

/// The name of this machine, as the kernel has it.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| transports::UNKNOWN.to_owned())
}

/// The panes of the tmux server that this environment means.
fn panes() -> Result<TmuxPanes, Failure> {
    let settings = muster_mirror::Settings::from_env(from_environment)
        .map_err(|sentence| Failure::usage(format!("{sentence}. Nothing was started")))?;
    let panes = TmuxPanes::new(Server::Usual, settings);
    panes
        .available()
        .map_err(|reason| Failure::refused("tmux", format!("{reason}. Nothing was started")))?;
    Ok(panes)
}

/// The number of the pane that was named. One that is not there now would never be it.
fn find(panes: &TmuxPanes, words: &str) -> Result<String, Failure> {
    panes.resolve(words).map_err(|reason| {
        Failure::refused(
            "pane",
            format!(
                "'{}' names no pane to type into: {reason}. Nothing was started",
                terminal(words)
            ),
        )
    })
}

/// Refuses the pane that this very process writes its log into: the log would stand in the way of whatever is typed there.
fn not_its_own(pane: &str) -> Result<(), Failure> {
    if from_environment("TMUX_PANE").as_deref() != Some(pane) || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::refused(
        "pane",
        format!(
            "the pane {} is the one this pusher writes its own log to; name the agent's pane (`tmux list-panes -a`), or redirect the log. Nothing was started",
            terminal(pane)
        ),
    ))
}

/// The tmux server that a pane is one of.
struct TmuxServer {
    /// Its process and when that began, which are the same however the server is reached.
    process: String,
    /// Its socket, as the server itself calls it.
    socket: String,
}

fn tmux_server(pane: &str) -> Result<TmuxServer, Failure> {
    let refused = |reason: &str| {
        Failure::refused(
            "tmux",
            format!("tmux does not say which server the pane is one of: {reason}. Nothing was started"),
        )
    };
    let done = Command::new("tmux")
        .args([
            "-u",
            "display-message",
            "-p",
            "-t",
            pane,
            "#{pid} #{start_time}|#{socket_path}",
        ])
        .env_remove(TOKEN)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refused(&error.to_string()))?;
    let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    match said.split_once('|') {
        Some((process, socket)) if done.status.success() && !process.is_empty() => Ok(TmuxServer {
            process: process.to_owned(),
            socket: socket.to_owned(),
        }),
        _ => Err(refused(&terminal(String::from_utf8_lossy(&done.stderr).trim()))),
    }
}

/// Holds the place of the one pusher that types for an agent into its pane, by whatever name and way it reaches the bus. It dies with the
/// process, whatever ends that.
async fn alone(seat: &Seat, tmux: &str) -> Result<UnixListener, Failure> {
    let of = format!("muster pusher\0{tmux}\0{}\0{}", seat.target, seat.id);
    let name = format!("muster-pusher-{}", secret::sha256_hex(of.as_bytes()));
    let bound = SocketAddr::from_abstract_name(&name).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let (who, how) = match holder_of(&name).await {
                Some(pid) => (format!(", process {pid},"), format!("; `kill {pid}` ends it")),
                None => (String::new(), String::new()),
            };
            Err(Failure::refused(
                "running",
                format!(
                    "another pusher on this machine{who} delivers for {} into the pane {} already{how}. Nothing was started",
                    seat.id,
                    terminal(&seat.target)
                ),
            ))
        }
        Err(error) => Err(Failure::refused("io", error.to_string())),
    }
}

/// The process that holds a place, as the kernel noted it. A caller that would have to wait gets no answer.
async fn holder_of(name: &str) -> Option<i32> {
    let stream = UnixStream::connect(format!("\0{name}")).await.ok()?;
    // One of another process namespace has no number here.
    stream.peer_cred().ok()?.pid().filter(|pid| *pid > 0)
}

/// Who this is among all that may deliver: the same after a crash, so that its own lease does not keep it out, and another on every machine.
fn holder(plan: &Plan) -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let of = format!(
        "{}\0{}\0{}\0{}\0{}\0{}",
        boot.trim(),
        plan.host,
        nix::unistd::getuid(),
        from_environment("TMUX").unwrap_or_default(),
        from_environment("TMUX_TMPDIR").unwrap_or_default(),
        plan.seat.target,
    );
    let mut print = secret::sha256_hex(of.as_bytes());
    print.truncate(16);
    format!("pusher-{print}")
}

fn remote(
    plan: &Plan,
    panes: &TmuxPanes,
    runtime: Handle,
    server: &str,
    token: Secret,
    (stop, cancel): (&Stop, CancellationToken),
) -> Result<(), Failure> {
    let pusher = Pusher {
        seat: plan.seat.id.clone(),
        holder: holder(plan),
        host: plan.host.clone(),
        pane: plan.seat.target.clone(),
        socket: Some(plan.socket.clone()).filter(|socket| !socket.is_empty()),
        build: plan.build.clone(),
        since: muster_core::Clock::system().now().micros().div_euclid(1_000),
        include_room: plan.seat.include_room,
        refresh: plan.refresh,
        force: plan.force,
    };
    let mut feed = Remote::new(runtime, server, token, pusher, cancel).map_err(ended)?;
    let (mut begun, mut complained) = (false, false);
    while !begun && !stop.is_set() {
        match feed.begin() {
            Ok(()) => begun = true,
            // Whoever asks for the end breaks off what is being asked, too.
            Err(FeedError::Later(reason)) if !complained && !stop.is_set() => {
                tracing::warn!("{reason}; it is asked again until it answers");
                complained = true;
            }
            Err(FeedError::Later(_)) => {}
            Err(refusal) => return Err(ended(refusal)),
        }
    }
    if !begun {
        // It published no marker, so there is none to take away.
        return Ok(());
    }
    let mut seat = plan.seat.clone();
    let delivered = loop {
        let delivered = deliver(plan, &seat, panes, &mut feed, stop);
        if delivered.is_ok() || stop.is_set() {
            break delivered;
        }
        match followed(&mut feed, stop) {
            Ok(Some(new)) => {
                tracing::info!(from = %seat.id, to = %new, "the agent was renamed, and is delivered to under its new id");
                seat.id = new;
            }
            Ok(None) => break delivered,
            Err(refusal) => break Err(refusal),
        }
    };
    if let Err(error) = feed.leave() {
        tracing::warn!(%error, "the marker could not be taken away; it counts no more in five minutes");
    }
    delivered
}

/// The new id of an agent that was renamed, once the bus lets this pusher act as it. A rename moves one thing after the other, and what
/// tells whose a token is comes last, so it is tried for a moment.
fn followed(feed: &mut Remote, stop: &Stop) -> Result<Option<SeatId>, Failure> {
    let Some(new) = feed.follow() else {
        return Ok(None);
    };
    let until = Instant::now() + FOLLOWS;
    loop {
        match feed.begin() {
            Ok(()) => return Ok(Some(new)),
            Err(_) if stop.is_set() => return Ok(None),
            Err(refusal @ FeedError::Refused(_)) if Instant::now() >= until => return Err(ended(refusal)),
            Err(_) => stop.wait(Duration::from_millis(200)),
        }
    }
}

fn local(plan: &Plan, panes: &TmuxPanes, dir: Option<&std::path::Path>, stop: &Stop) -> Result<(), Failure> {
    let home = open(dir)?;
    let id = &plan.seat.id;
    registry::register(&home, id, None, None).map_err(refused)?;
    let report = transports::Report {
        transport: TransportKind::TmuxPushRemote.as_str(),
        host: Some(&plan.host),
        target: Some(&plan.seat.target),
        socket: Some(plan.socket.as_str()).filter(|socket| !socket.is_empty()),
        since: None,
        build: plan.build.as_deref(),
    };
    transports::report(&home, id, report).map_err(refused)?;
    let watch = Watch::new(&home);
    let mut seat = plan.seat.clone();
    loop {
        let mut feed =
            LocalFeed::new(&home, &watch, &seat.id, &seat.target, seat.include_room).map_err(refused)?;
        let delivered = deliver(plan, &seat, panes, &mut feed, stop);
        drop(feed);
        if delivered.is_err()
            && !stop.is_set()
            && let Some(new) = renamed(&home, &seat, stop)
        {
            tracing::info!(from = %seat.id, to = %new, "the agent was renamed, and is delivered to under its new id");
            seat.id = new;
            continue;
        }
        // One that took its place meanwhile has a marker of its own.
        let cleared =
            transports::clear_of(&home, &seat.id, &seat.target, Some(&plan.socket)).map_err(refused);
        return delivered.and(cleared.map(drop));
    }
}

/// The new id of an agent that took its marker along, and what is unread. A rename moves one thing after the other, so it is looked for a moment.
fn renamed(home: &Home, seat: &Seat, stop: &Stop) -> Option<SeatId> {
    for _ in 0..10 {
        if let Ok(Some(new)) = rename::forwarded(home, &seat.id)
            && let Ok(Some(found)) = transports::load(home, &new)
            && found.pane() == Some(seat.target.as_str())
        {
            return Some(new);
        }
        stop.wait(Duration::from_millis(50));
    }
    None
}

fn deliver(
    plan: &Plan,
    seat: &Seat,
    panes: &TmuxPanes,
    feed: &mut dyn Feed,
    stop: &Stop,
) -> Result<(), Failure> {
    if stop.is_set() {
        return Ok(());
    }
    output::notice(&format!(
        "{ATTACHED}what {} has unread is typed into the pane {} from now on",
        seat.id,
        terminal(&seat.target)
    ));
    let told = Told::new(panes, stop);
    let pushed = push::run(feed, &told, seat, &plan.settings, stop).map_err(ended);
    if told.is_gone() {
        return Err(Failure::refused("pane", GONE));
    }
    pushed
}

fn ended(error: FeedError) -> Failure {
    Failure::refused("bus", error.to_string())
}
