//! Measures the figures of docs/performance.md on this machine, each beside its raw limit in the same run. Never prints a figure without what it was measured against.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program speaks through its standard streams"
)]

mod access;
mod browser;
mod building;
mod bus;
mod claims;
mod client;
mod gateway;
mod gateways;
mod messages;
mod packages;
mod page;
mod policy;
mod raw;
mod report;
mod screening;
mod seed;
mod server;
mod start;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use muster_core::Clock;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use serde_json::json;

use crate::report::Figure;
use crate::server::{Muster, workspace};

/// Measures muster's figures, each beside the raw limit of the same machine in the same run.
#[derive(Debug, Parser)]
#[command(
    name = "muster-bench",
    after_help = "Example: cargo run --release -p muster-bench -- all"
)]
struct Arguments {
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    json: bool,
    /// The program to measure; without it the release build of this workspace, brought up to date first
    #[arg(long, global = true, value_name = "PROGRAM")]
    muster: Option<PathBuf>,
    /// A folder on the disk to measure, for data that is removed afterwards; without it one in target
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rounds of each rate; the middle one counts
    #[arg(long, global = true, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Seconds of each stretch of load
    #[arg(long, global = true, value_name = "N", default_value_t = 2)]
    seconds: u64,
    /// The command line of the bus server to measure, with words apart by spaces; without it muster's own
    #[arg(long, global = true, value_name = "COMMAND")]
    bus: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum What {
    /// Every figure; the build comes last and takes the longest
    All {
        /// Leave the build out
        #[arg(long)]
        without_build: bool,
    },
    /// Messages a second on SQLite, with 1 and 32 clients, beside single-row commits
    Messages,
    /// Messages a second on Postgres, with 32 clients, beside pgbench
    MessagesPostgres,
    /// From approval to collection with 1,000 connectors waiting, and what each of them costs
    Claims,
    /// How soon the server is ready, and its memory when idle
    Start,
    /// A page with 10,000 archived drafts
    Page,
    /// The coordination bus: messages a second, delays, reads, start, a thousand agents over HTTP
    Bus,
    /// The bus in the terminal: a message into a tmux pane, an idle pusher, the human seat
    Terminal,
    /// The worst reply against the longest list of deny words
    Screen,
    /// A decision about a call from loaded layers; with the feature `cedar` beside Cedar
    Policy,
    /// Permissions through the agents' door: an allowed call with 1,000 policies, and from click to result
    Access,
    /// The database gateway: classes of statements, reads beside a driver, memory
    Gateway,
    /// Plugin packages: what the proxy adds to a call, fifty servers, hashing beside sha256sum
    Packages,
    /// Processor time from nothing built to the tour's printed link, in both profiles
    Build,
}

impl What {
    fn wants(self, part: Self) -> bool {
        match self {
            Self::All { without_build } => part != Self::Build || !without_build,
            one => one == part,
        }
    }
}

fn main() -> ExitCode {
    if let Some(code) = building::before_rustc() {
        return code;
    }
    // What a pane of the run itself is filled with; nobody else starts it.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "stand-in") {
        return match words
            .next()
            .map_or(Ok(()), |socket| terminal::stand_in::run(Path::new(&socket)))
        {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if let Some(code) = packages::role() {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(met) if met => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("muster-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures, prints, and says whether every target was met.
fn run(arguments: &Arguments) -> Result<bool> {
    let machine = machine()?;
    eprintln!("{machine}");
    let (version, figures) = if arguments.what == What::Policy {
        // Decided in this process: no program, no disk.
        let time = Duration::from_secs(arguments.seconds.max(1));
        (
            concat!("muster ", env!("CARGO_PKG_VERSION")).to_owned(),
            policy::run(time)?,
        )
    } else if arguments.what == What::Gateway {
        // A library with a server of its own: no program, no disk.
        let time = Duration::from_secs(arguments.seconds.max(1));
        (
            concat!("muster ", env!("CARGO_PKG_VERSION")).to_owned(),
            gateway::run(time)?,
        )
    } else {
        let folder = folder(arguments.dir.as_deref())?;
        let muster = Muster::find(arguments.muster.clone())?;
        (muster.version()?, measure(arguments, &muster, folder.path())?)
    };
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(
                &json!({"machine": machine, "muster": version, "figures": figures})
            )?
        );
    } else {
        println!("{machine} {version}.\n\n{}", report::table(&figures));
    }
    Ok(figures.iter().all(|figure| figure.met != Some(false)))
}

fn measure(arguments: &Arguments, muster: &Muster, folder: &Path) -> Result<Vec<Figure>> {
    let (what, time) = (arguments.what, Duration::from_secs(arguments.seconds.max(1)));
    let rounds = arguments.rounds.max(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let mut figures = Vec::new();
    if what.wants(What::Messages) {
        eprintln!("messages on SQLite …");
        figures.extend(local.block_on(&runtime, messages::sqlite(muster, folder, rounds, time))?);
    }
    if what.wants(What::MessagesPostgres) {
        eprintln!("messages on Postgres …");
        figures.extend(local.block_on(&runtime, messages::postgres(muster, folder, rounds, time))?);
    }
    if what.wants(What::Claims) {
        eprintln!("claims …");
        figures.extend(local.block_on(&runtime, claims::run(muster, folder, time))?);
    }
    if what.wants(What::Start) {
        eprintln!("start …");
        figures.extend(local.block_on(&runtime, start::run(muster, folder, 20))?);
    }
    if what.wants(What::Page) {
        eprintln!("page …");
        figures.extend(local.block_on(&runtime, page::run(muster, folder, 200))?);
    }
    if what.wants(What::Screen) {
        eprintln!("screen …");
        figures.extend(screening::run(time)?);
    }
    if what.wants(What::Policy) {
        eprintln!("policy …");
        figures.extend(policy::run(time)?);
    }
    if what.wants(What::Access) {
        eprintln!("access …");
        figures.extend(local.block_on(&runtime, access::run(muster, folder, time))?);
    }
    if what.wants(What::Gateway) {
        eprintln!("gateway …");
        figures.extend(gateway::run(time)?);
    }
    if what.wants(What::Bus) {
        eprintln!("bus …");
        let words = match &arguments.bus {
            Some(command) => command.split_whitespace().map(str::to_owned).collect(),
            None => vec![
                muster.program().display().to_string(),
                "bus".to_owned(),
                "serve".to_owned(),
            ],
        };
        figures.extend(bus::run(&words, folder, rounds, time)?);
    }
    if what.wants(What::Terminal) {
        eprintln!("terminal …");
        figures.extend(terminal::run(muster, folder)?);
    }
    if what.wants(What::Packages) {
        eprintln!("packages …");
        figures.extend(packages::run(muster, folder, rounds)?);
    }
    if what.wants(What::Build) {
        eprintln!("build, twice from nothing …");
        figures.extend(building::run(folder)?);
    }
    Ok(figures)
}

/// A folder on a real disk.
fn folder(wanted: Option<&Path>) -> Result<tempfile::TempDir> {
    let parent = match wanted {
        Some(folder) => folder.to_path_buf(),
        None => {
            let folder = workspace()?.join("target/bench");
            std::fs::create_dir_all(&folder)?;
            folder
        }
    };
    let parent = parent
        .canonicalize()
        .with_context(|| format!("{} is not there", parent.display()))?;
    if statfs(&parent)?.filesystem_type() == TMPFS_MAGIC {
        bail!(
            "{} lies in memory, where every commit is quick; name a folder on a disk with --dir",
            parent.display()
        );
    }
    let folder = tempfile::Builder::new()
        .prefix("run-")
        .permissions(open_to_postgres())
        .tempdir_in(parent)?;
    Ok(folder)
}

/// Postgres refuses to run as root, so the user it runs as must reach its cluster through this folder.
fn open_to_postgres() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o711)
}

/// The machine in a sentence, without its name.
fn machine() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let memory = std::fs::read_to_string("/proc/meminfo").context("the memory cannot be read")?;
    let kibibytes: u64 = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?
                .trim()
                .strip_suffix(" kB")?
                .trim()
                .parse()
                .ok()
        })
        .context("the kernel does not say how much memory there is")?;
    let load = std::fs::read_to_string("/proc/loadavg").context("the load cannot be read")?;
    let load = load.split(' ').next().unwrap_or("?");
    let day = Clock::system().now().rfc3339();
    let day = day.split('T').next().unwrap_or("?");
    Ok(format!(
        "{day}, {cores} cores, {} GiB, load {load} before the run.",
        kibibytes.div_ceil(1024 * 1024)
    ))
}
