//! `muster serve`: opens the database, listens, serves until it is told to stop. Never serves with a setting it does not understand.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use muster_app::{App, accounts, audit, background, chief};
use muster_web::{Limits, Origin, Setup, Web};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::serving::{self, Note};
use super::{database, open_db};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

/// A server that listens and is about to serve.
pub(crate) struct Ready {
    /// The app behind it.
    pub(crate) app: App,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The base of its links.
    pub(crate) base: String,
    listener: TcpListener,
    note: Option<Note>,
    web: Web,
    setup: Setup,
}

pub(crate) async fn run(mut config: Config, args: cli::Serve, json: bool) -> Result<(), Failure> {
    config.flag("MUSTER_LISTEN", args.listen)?;
    config.flag("MUSTER_PUBLIC_URL", args.public_url)?;
    log(&config)?;
    // Before anything can be told that muster runs: a stop may follow at once.
    let stop = stop_signal()?;
    let ready = prepare(&config).await?;
    banner(&config, &ready);
    clock(&ready.app).await?;
    if !accounts::any_owner(&ready.app).await? {
        let code = ready
            .setup
            .open()
            .map_err(|error| Failure::refused("randomness", error.to_string()))?;
        output::notice(&format!(
            "No owner yet. Set up the first one, once, at:\n  {}/setup?code={}",
            ready.base,
            code.expose()
        ));
    }
    let url = format!("http://{}", ready.address);
    if json {
        output::told(&serde_json::json!({"listening": url}).to_string());
    } else {
        output::told(&format!("listening on {url}"));
    }
    ready.serve(stop).await;
    // A statement that a call left behind is stopped on its server, too.
    muster_db_gateway::stopped(Duration::from_secs(5)).await;
    Ok(())
}

/// Opens everything and listens. Nothing is served yet; connections wait.
pub(crate) async fn prepare(config: &Config) -> Result<Ready, Failure> {
    let wanted = config.text("MUSTER_LISTEN").unwrap_or("127.0.0.1:7447");
    let wanted: SocketAddr = wanted
        .parse()
        .map_err(|_| Failure::refused("bad_setting", "MUSTER_LISTEN is not an address"))?;
    let public = config.public_url();
    let insecure = config.on("MUSTER_INSECURE");
    if !wanted.ip().is_loopback()
        && !insecure
        && !public.as_deref().is_some_and(|url| url.starts_with("https://"))
    {
        return Err(Failure::refused(
            "bad_setting",
            "MUSTER_LISTEN is not a loopback address, so passwords and tokens would cross the network in the clear. Put a proxy with TLS in front and set MUSTER_PUBLIC_URL=https://…, or accept the risk with MUSTER_INSECURE=1. Nothing was started",
        ));
    }
    raise_descriptors();
    database::tighten(config);
    let db = open_db(config).await?;
    // A disk that is full now is no reason to be away: the chief's next delivery tries again.
    if let Err(fault) = chief::end_left_over(&db, &config.data_dir).await {
        tracing::warn!(error = %fault.chain(), "what turns of an earlier server left behind could not be cleaned up");
    }
    // What servers of packages left whose launcher was killed with an earlier server. Every process of the machine is looked at for it.
    let host = super::plugins::host(config);
    match tokio::task::spawn_blocking(move || host.end_orphans()).await {
        Ok(0) | Err(_) => {}
        Ok(count) => tracing::warn!(
            count,
            "processes of package servers that an earlier muster left were ended"
        ),
    }
    let listener = listen(wanted).await.map_err(|error| {
        Failure::refused(
            "listen",
            format!("{wanted} cannot be listened on: {error}. Choose another with --listen"),
        )
    })?;
    let address = listener.local_addr()?;
    let origin = match &public {
        Some(url) => Origin::public(url),
        None => listener_origin(address, insecure),
    };
    let base = origin.base().to_owned();
    // A chief runs on this machine, whatever name people use.
    let local = if address.ip().is_unspecified() {
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    } else {
        address
    };
    let origin = origin.and_listener(local);
    let note = serving::note(&config.data_dir, local, &base)
        .await
        .inspect_err(|error| {
            tracing::warn!(error = %error, "where this server listens could not be noted in the data folder; agents' sessions work on the database beside it");
        })
        .ok();
    let app = super::app(config, db, format!("http://{local}/mcp"), base.clone())?;
    let setup = Setup::default();
    let web = Web::new(
        app.clone(),
        origin,
        setup.clone(),
        config.secret("MUSTER_HOOK_TOKEN"),
    );
    Ok(Ready {
        app,
        address,
        base,
        listener,
        note,
        web,
        setup,
    })
}

/// What people call a server without a public address: a name that leads to its listener.
pub(super) fn listener_origin(address: SocketAddr, insecure: bool) -> Origin {
    let ip = address.ip();
    let usual = ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST);
    if ip.is_loopback() && !usual {
        // 127.0.0.2 is this machine too, but `localhost` does not lead there.
        Origin::public(&format!("http://{address}"))
    } else if ip.is_unspecified() {
        // Every address of this machine leads here, and the one that it is listened on is none that a browser can open.
        Origin::public(&format!("http://localhost:{}", address.port())).any_host()
    } else if insecure && !ip.is_loopback() {
        Origin::listener(address).any_host()
    } else {
        Origin::listener(address)
    }
}

/// Connections that the kernel keeps until they are accepted. Every connector comes back at once after a restart, and past this the kernel
/// makes each wait a second; it cuts the number to its own limit.
const BACKLOG: u32 = 4096;
/// How often and how far apart a taken address is tried again.
const TRIES: (u32, Duration) = (25, Duration::from_millis(20));

/// Listens. A muster that was killed a moment ago can hold the address a little longer: through a chief's program that was just being started.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    for _ in 0..TRIES.0 {
        match bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => tokio::time::sleep(TRIES.1).await,
            bound => return bound,
        }
    }
    bind(address)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Without it a restart would wait for the last server's closed connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Ready {
    /// Serves until `stop`, then ends what runs and closes the database.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        background::start_sweep(&self.app);
        let tasks = self.app.tasks.clone();
        let stopping = stop.clone();
        let note = self.note;
        let ending = tokio::spawn(async move {
            stopping.cancelled().await;
            // Before the address is given back: another program may take it then.
            drop(note);
            // Ends waiting claims and running turns, so that their requests can be answered.
            tasks.stop().await;
        });
        muster_web::serve(
            self.listener,
            muster_web::router(self.web),
            Limits::default(),
            stop,
        )
        .await;
        if let Err(error) = ending.await {
            tracing::error!(error = %error, "ending the running work failed");
        }
        self.app.db.close().await;
    }
}

/// Ends at SIGINT, SIGTERM, or SIGHUP: a terminal that closes.
pub(crate) fn stop_signal() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        told.cancel();
        // A second signal means now.
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(stop)
}

/// Logs to standard error.
pub(crate) fn log(config: &Config) -> Result<(), Failure> {
    let directives = config.text("MUSTER_LOG").unwrap_or("info");
    let bad = "MUSTER_LOG has a value muster cannot use: write a level such as info, or directives such as muster_web=debug. Nothing was started";
    let mut filter = EnvFilter::try_new(directives).map_err(|_| Failure::refused("bad_setting", bad))?;
    // The protocol's library calls it an error when an agent hangs up before its answer; only who asks for its log gets it.
    if !directives.contains("rmcp") {
        filter = filter.add_directive(
            "rmcp=off"
                .parse()
                .map_err(|_| Failure::refused("bad_setting", bad))?,
        );
    }
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written (a full disk, a closed pipe) is no reason to end: the default would complain on it, and panic.
        .log_internal_errors(false)
        .with_ansi(false);
    let set = if config.text("MUSTER_LOG_FORMAT") == Some("json") {
        builder.json().try_init()
    } else {
        builder.with_target(false).try_init()
    };
    set.map_err(|error| Failure::refused("log", error.to_string()))
}

/// Says which features are on.
fn banner(config: &Config, ready: &Ready) {
    let on = |on: bool| if on { "on" } else { "off" };
    tracing::info!(
        plugins = on(ready.app.settings.plugins),
        hook_token = if config.text("MUSTER_HOOK_TOKEN").is_some() { "set" } else { "unset: personal tokens only" },
        passkeys = on(ready.app.passkeys.is_some()),
        database = ?ready.app.db.engine(),
        "muster {}",
        env!("CARGO_PKG_VERSION")
    );
    for name in Config::unknown() {
        tracing::warn!(name = %muster_core::text::terminal(&name), "this variable is set but muster does not know it");
    }
    if config.on("MUSTER_INSECURE") {
        tracing::warn!("MUSTER_INSECURE=1: passwords and tokens may cross the network in the clear");
    }
}

/// How far ahead of the clock an event may lie: several servers' clocks differ a little.
const CLOCK_SLACK: Duration = Duration::from_secs(60);
/// Accounts whose newest event is looked at.
const LOOKED_AT: usize = 20;

/// Warns when the clock is behind what the database has already seen: time-based rules follow the clock, so they would wait for it.
async fn clock(app: &App) -> Result<(), Failure> {
    let now = app.clock.now();
    let mut newest = None;
    for owner in accounts::list(app).await?.iter().take(LOOKED_AT) {
        let last = audit::list(
            &app.db,
            owner.id,
            audit::Filter {
                limit: 1,
                ..audit::Filter::default()
            },
        )
        .await?;
        newest = newest.max(last.first().map(|event| event.at));
    }
    if let Some(newest) = newest.filter(|newest| *newest > now.plus(CLOCK_SLACK)) {
        tracing::warn!(
            now = %now,
            newest = %newest,
            "this machine's clock is behind the newest event in the database, so leases, sign-ins and caps may last longer than they should; set the clock right and start muster again"
        );
    }
    Ok(())
}

/// Each waiting claim is an open connection: takes all the descriptors the system allows.
fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::debug!(error = %error, "the limit of open files stays as it is");
    }
}
