//! What it costs to try muster: the processor time from nothing built to the tour's printed link, and which crates take it. Never uses what was built before.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::report::{Amount, Figure, Target};
use crate::server::workspace;

/// Names the file in which this program, standing before rustc, writes what each crate took.
const LOG: &str = "BENCH_RUSTC_LOG";

/// When cargo calls this program in rustc's place: runs rustc, notes its processor time and ends as it ended.
pub(crate) fn before_rustc() -> Option<ExitCode> {
    let log = PathBuf::from(std::env::var_os(LOG)?);
    let mut arguments = std::env::args_os().skip(1);
    let mut rustc = Command::new(arguments.next()?);
    let arguments: Vec<_> = arguments.collect();
    let name = arguments
        .iter()
        .skip_while(|argument| *argument != "--crate-name")
        .nth(1);
    let name = name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned());
    let code = rustc
        .args(&arguments)
        .env_remove(LOG)
        .status()
        .ok()
        .and_then(|status| status.code());
    if let (Ok(seconds), Ok(mut file)) = (
        children(),
        std::fs::File::options().create(true).append(true).open(log),
    ) {
        // One short line is written at once, whoever else writes; without it the crate counts as unknown.
        let _ = file.write_all(format!("{name} {seconds:.3}\n").as_bytes());
    }
    Some(
        code.and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
    )
}

/// Processor seconds of all children that were waited for.
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| {
        let micros = i32::try_from(time.tv_usec()).unwrap_or_default();
        f64::from(u32::try_from(time.tv_sec()).unwrap_or(u32::MAX)) + f64::from(micros) / 1e6
    };
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// The figures of both profiles that a README could name.
pub(crate) fn run(folder: &Path) -> Result<Vec<Figure>> {
    Ok(vec![
        one(folder, "cargo run -- demo", &["run", "--locked", "--", "demo"])?,
        one(
            folder,
            "cargo run --release -- demo",
            &["run", "--locked", "--release", "--", "demo"],
        )?,
    ])
}

fn one(folder: &Path, name: &str, arguments: &[&str]) -> Result<Figure> {
    let fresh = tempfile::TempDir::with_prefix_in("build-", folder)?;
    let log = fresh.path().join("rustc.log");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told this program about itself is nothing a newcomer's shell would hold.
    for (variable, _) in std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("MUSTER_") || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    }) {
        cargo.env_remove(variable);
    }
    cargo
        .args(arguments)
        .current_dir(workspace()?)
        .env("CARGO_TARGET_DIR", fresh.path().join("target"))
        .env("TMPDIR", fresh.path())
        .env("RUSTC_WRAPPER", std::env::current_exe()?)
        .env(LOG, &log)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let (before, begun) = (children()?, Instant::now());
    let mut child = cargo.spawn().context("cargo could not be started")?;
    let output = child.stdout.take().context("cargo's output cannot be read")?;
    let mut lines = BufReader::new(output).lines();
    let linked = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("http://"));
    let wall = begun.elapsed().as_secs_f64();
    let pid = i32::try_from(child.id()).context("a process id is too large")?;
    if linked {
        kill(Pid::from_raw(pid), Signal::SIGINT)?;
    }
    // The tour goes on speaking while it ends.
    lines.map_while(Result::ok).for_each(drop);
    child.wait()?;
    if !linked {
        bail!("{name} ended without printing a link");
    }
    let seconds = children()? - before;
    let crates = read(&log)?;
    let outside: f64 = crates
        .iter()
        .filter(|(name, _)| !ours(name))
        .map(|(_, seconds)| seconds)
        .sum();
    let own: f64 = crates
        .iter()
        .filter(|(name, _)| ours(name))
        .map(|(_, seconds)| seconds)
        .sum();
    let heaviest: Vec<String> = heaviest(crates)
        .into_iter()
        .take(8)
        .map(|(name, seconds)| format!("{name} {seconds:.0}"))
        .collect();
    Ok(Figure::new(
        format!("{name}, from nothing built to the printed link"),
        Amount::of(seconds, "CPU-s"),
        Some(("crates of others, rustc alone", Amount::of(outside, "CPU-s"))),
        Target::Below(1_000.0),
        format!(
            "{wall:.0} s by the clock; muster's own crates {own:.0} CPU-s; build scripts, C, links and the tour {:.0} CPU-s; heaviest: {}",
            seconds - outside - own,
            heaviest.join(", ")
        ),
    ))
}

fn ours(name: &str) -> bool {
    name.starts_with("muster")
}

fn read(log: &Path) -> Result<Vec<(String, f64)>> {
    let text = std::fs::read_to_string(log).context("rustc left no times")?;
    let line = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Sums per crate, the largest first.
fn heaviest(crates: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let mut sums = std::collections::BTreeMap::<String, f64>::new();
    for (name, seconds) in crates {
        *sums.entry(name).or_default() += seconds;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    sums
}
