//! `muster bus pusher`: types what an agent has unread into its tmux pane on this machine. Never says its token or a message, and never goes on without the right to.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_bus::push::{
    self, Delivery, Feed, FeedError, LocalFeed, Outcome, Probe, Screen, Seat, Settings, Stop, Transport,
};
use muster_bus::transports::{self, TransportKind};
use muster_bus::wait::Watch;
use muster_bus::{SeatId, build_id, registry};
use muster_core::text::terminal;
use muster_core::{Secret, secret};
use muster_mirror::{Server, TmuxPanes};
use muster_web::mcp_bus::remote::{Pusher, Remote};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{open, refused, seat};
use crate::cli::BusPusher;
use crate::output::{self, Failure};

/// The variable that holds the token.
pub(super) const TOKEN: &str = "AGENT_COORD_TOKEN";

/// How the line begins that says that everything is in place.
pub(super) const ATTACHED: &str = "muster: attached: ";

/// How long a stop may take: a delivery that is under way is completed first, and the marker is taken away.
const ENDS: Duration = Duration::from_secs(30);

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
    settings: Settings,
    host: String,
    build: Option<String>,
    refresh: Duration,
    force: bool,
}

pub(super) async fn run(args: BusPusher) -> Result<(), Failure> {
    super::serve::log(tracing::Level::INFO);
    let id = args.agent.clone().or_else(|| from_environment("AGENT_COORD_ID"));
    let pane = args
        .tmux
        .clone()
        .or_else(|| from_environment("AGENT_COORD_TMUX_TARGET"));
    let server = args
        .server
        .clone()
        .or_else(|| from_environment("AGENT_COORD_SERVER"));
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
    let (Some(id), Some(pane), []) = (id, pane, missing.as_slice()) else {
        return Err(Failure::usage(format!(
            "a pusher needs {}; nothing was started\n\nUsage: muster bus pusher --server URL --agent ID --tmux PANE, with the token in AGENT_COORD_TOKEN\n       muster bus pusher --local --agent ID --tmux PANE",
            missing.join(", ")
        )));
    };
    let mut plan = plan(&args, &id, pane)?;
    let panes = panes()?;
    plan.seat.target = find(&panes, &plan.seat.target)?;
    let _alone = alone(&plan.seat.id, server.as_deref().unwrap_or_default())?;
    let (stop, cancel) = (Stop::new(), CancellationToken::new());
    let ends = (stop.clone(), cancel.clone());
    let runtime = Handle::current();
    let mut pushing = tokio::task::spawn_blocking(move || match (server, token) {
        (Some(server), Some(token)) if !args.local => {
            remote(&plan, &panes, runtime, &server, token, (&stop, cancel))
        }
        _ => local(&plan, &panes, args.dir.as_deref(), &stop),
    });
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // The terminal that it was started from may close; whoever wants it to end says so.
    let _hangup = signal(SignalKind::hangup())?;
    let ended = tokio::select! {
        ended = &mut pushing => Some(ended),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            ends.0.set();
            ends.1.cancel();
            tokio::select! {
                ended = &mut pushing => ended,
                _ = terminate.recv() => return Err(gave_up()),
                _ = interrupt.recv() => return Err(gave_up()),
                () = tokio::time::sleep(ENDS) => return Err(gave_up()),
            }
        }
    };
    ended.map_err(|error| Failure::refused("fault", error.to_string()))?
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

/// Holds the place of the one pusher of this user that delivers for an agent of a bus here. It dies with the process, whatever ends that.
fn alone(seat: &SeatId, server: &str) -> Result<UnixListener, Failure> {
    let of = format!("muster pusher\0{}\0{server}\0{seat}", nix::unistd::getuid());
    let name = format!("muster-pusher-{}", secret::sha256_hex(of.as_bytes()));
    SocketAddr::from_abstract_name(name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::refused(
                "running",
                format!("another pusher on this machine delivers for {seat} already; nothing was started"),
            ),
            _ => Failure::refused("io", error.to_string()),
        })
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
        build: plan.build.clone(),
        since: muster_core::Clock::system().now().micros().div_euclid(1_000),
        include_room: plan.seat.include_room,
        refresh: plan.refresh,
        force: plan.force,
    };
    let mut feed = Remote::new(runtime, server, token, pusher, cancel).map_err(ended)?;
    let mut complained = false;
    while !stop.is_set() {
        match feed.begin() {
            Ok(()) => break,
            Err(FeedError::Later(reason)) if !complained => {
                tracing::warn!(%reason, "the bus is asked again until it answers");
                complained = true;
            }
            Err(FeedError::Later(_)) => {}
            Err(refusal) => return Err(ended(refusal)),
        }
    }
    let delivered = deliver(plan, panes, &mut feed, stop);
    if let Err(error) = feed.leave() {
        tracing::warn!(%error, "the marker could not be taken away; it counts no more in five minutes");
    }
    delivered
}

fn local(plan: &Plan, panes: &TmuxPanes, dir: Option<&std::path::Path>, stop: &Stop) -> Result<(), Failure> {
    let home = open(dir)?;
    let id = &plan.seat.id;
    registry::register(&home, id, None, None).map_err(refused)?;
    let report = transports::Report {
        transport: TransportKind::TmuxPushRemote.as_str(),
        host: Some(&plan.host),
        target: Some(&plan.seat.target),
        since: None,
        build: plan.build.as_deref(),
    };
    transports::report(&home, id, report).map_err(refused)?;
    let watch = Watch::new(&home);
    let mut feed =
        LocalFeed::new(&home, &watch, id, &plan.seat.target, plan.seat.include_room).map_err(refused)?;
    let delivered = deliver(plan, panes, &mut feed, stop);
    drop(feed);
    transports::clear(&home, id).map_err(refused)?;
    delivered
}

fn deliver(plan: &Plan, panes: &TmuxPanes, feed: &mut dyn Feed, stop: &Stop) -> Result<(), Failure> {
    if stop.is_set() {
        return Ok(());
    }
    output::notice(&format!(
        "{ATTACHED}what {} has unread is typed into the pane {} from now on",
        plan.seat.id,
        terminal(&plan.seat.target)
    ));
    let told = Told {
        panes,
        last: Mutex::default(),
    };
    push::run(feed, &told, &plan.seat, &plan.settings, stop).map_err(ended)
}

fn ended(error: FeedError) -> Failure {
    Failure::refused("bus", error.to_string())
}

/// The same hands, with a line in the log for what came of each delivery.
struct Told<'p> {
    panes: &'p TmuxPanes,
    /// The last hold that was told of: it is tried again every few seconds.
    last: Mutex<Option<String>>,
}

impl Transport for Told<'_> {
    fn kind(&self) -> TransportKind {
        self.panes.kind()
    }

    fn available(&self) -> Result<(), String> {
        self.panes.available()
    }

    fn probe(&self, target: &str) -> Probe {
        self.panes.probe(target)
    }

    fn read(&self, target: &str, lines: usize, colors: bool) -> Result<Screen, String> {
        self.panes.read(target, lines, colors)
    }

    fn deliver(&self, target: &str, what: &Delivery) -> Outcome {
        let outcome = self.panes.deliver(target, what);
        let kind = match what {
            Delivery::Text { .. } => "text",
            Delivery::Command(command) => command.as_str(),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = None;
        match &outcome {
            Outcome::Delivered { door, verified } => {
                tracing::info!(what = kind, door = door.as_str(), verified, "delivered");
            }
            Outcome::Held(hold) => {
                let reason = format!("{}: {}", hold.why.as_str(), hold.detail);
                if last.as_ref() != Some(&reason) {
                    tracing::info!(what = kind, reason = %terminal(&reason), "held; it is tried again");
                }
                held = Some(reason);
            }
            Outcome::Unknown { door, reason } => {
                tracing::warn!(what = kind, door = door.as_str(), reason = %terminal(reason), "it is not known whether it arrived; it is not typed again");
            }
        }
        *last = held;
        outcome
    }
}
