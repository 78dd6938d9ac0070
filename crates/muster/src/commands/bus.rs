//! `muster bus`: the coordination bus. Never needs the database, a running server or an account.

mod check;
pub(super) mod doctor;
mod init;
mod node;
pub(crate) mod peek;
mod pusher;
mod serve;
pub(crate) mod settings;
mod token;

pub(super) use init::init;
pub(super) use serve::log;

use std::path::{Path, PathBuf};

use muster_bus::doctor::{Options, doctor_at};
use muster_bus::limits::Limits;
use muster_bus::{BusError, Home, SeatId};
use muster_core::Clock;

use crate::cli::{Bus, BusToken};
use crate::output::{self, Failure};

pub(super) async fn run(command: Bus, json: bool) -> Result<(), Failure> {
    match command {
        Bus::Serve(args) => serve::run(&args).await,
        Bus::Token { dir, command } => {
            let dir = folder(dir.as_deref())?;
            // Only minting begins something; whoever asks or revokes means a bus that is there.
            if !matches!(command, BusToken::Add { .. }) && !muster_bus::home::is_bus(&dir) {
                return Err(refused(BusError::NoBus(dir)));
            }
            token::run(&open(Some(&dir))?, command, json)
        }
        Bus::Doctor(args) => doctor::run(&args, json),
        Bus::Pusher(args) => pusher::run(args).await,
        Bus::Node(args) => node::run(args, json).await,
        Bus::Check { dir } => check::run(dir.as_deref(), json),
        Bus::Peek(args) => {
            peek::run(&args);
            Ok(())
        }
    }
}

/// The directory: `--dir`, else `AGENT_COORD_DIR`, else `CLAUDE_COORD_DIR`, else `agent-coord` in the home folder.
pub(super) fn folder(dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = dir
        .map(Path::to_owned)
        .or_else(|| named("AGENT_COORD_DIR"))
        .or_else(|| named("CLAUDE_COORD_DIR"))
    {
        return Ok(dir);
    }
    std::env::home_dir()
        .map(|home| home.join("agent-coord"))
        .ok_or_else(|| {
            Failure::refused(
                "no_home",
                "there is no home folder to keep the bus in; name one with AGENT_COORD_DIR",
            )
        })
}

fn open(dir: Option<&Path>) -> Result<Home, Failure> {
    let (limits, said) = Limits::of(|name| std::env::var(name).ok());
    for sentence in said {
        output::notice(&format!("muster: {sentence}"));
    }
    Home::open(&folder(dir)?, limits, Clock::system()).map_err(refused)
}

/// What `muster doctor` says of the bus in the usual place: whether it is well, and what there is to know.
pub(super) fn health() -> (bool, String) {
    let dir = match folder(None) {
        Ok(dir) => dir,
        Err(failure) => return (false, failure.sentence().to_owned()),
    };
    let (limits, _) = Limits::of(|name| std::env::var(name).ok());
    match doctor_at(&dir, limits, &Clock::system(), &Options::default()) {
        // Whoever uses none has nothing to put right.
        Err(error @ BusError::NoBus(_)) => (true, error.to_string()),
        Err(error) => (false, error.chain()),
        Ok(report) if report.findings.is_empty() => (true, report.verdict()),
        Ok(report) => (
            report.healthy,
            format!("{}. `muster bus doctor` tells each finding", report.verdict()),
        ),
    }
}

fn seat(id: &str) -> Result<SeatId, Failure> {
    SeatId::parse(id).map_err(|error| Failure::usage(error.to_string()))
}

fn refused(error: BusError) -> Failure {
    Failure::refused(error.code(), error.chain())
}
