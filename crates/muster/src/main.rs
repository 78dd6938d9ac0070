//! The program `muster`: arguments, configuration, wiring. Never holds a rule of its own.
mod cli;
mod commands;
mod config;
mod demo;
mod output;
mod parse;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use muster_plugin_host::launch;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The names that muster answers to besides its own, each with the command it stands for.
const NAMES: &[(&str, &[&str])] = &[
    ("agent-coord-mcp", &["bus", "serve"]),
    ("coord-node", &["bus", "node"]),
    ("coord-pusher", &["bus", "pusher"]),
    ("coord-chat", &["chat"]),
    ("coord-token", &["bus", "token"]),
    ("stop-agent", &["bus", "node", "down"]),
    ("peek-coord", &["bus", "peek"]),
];

/// The arguments as they would be spelled under muster's own name.
fn called_by(mut args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().map(Path::new).and_then(Path::file_name);
    let stands_for = NAMES.iter().find(|(other, _)| name == Some(OsStr::new(other)));
    if let Some((_, command)) = stands_for {
        args.splice(
            0..1,
            std::iter::once("muster")
                .chain(command.iter().copied())
                .map(OsString::from),
        );
    }
    args
}

/// How long the end of the program waits for work that has not heard of it.
const STILL_AT_WORK: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == launch::WORD) {
        return launch::run(words);
    }
    // What muster makes belongs to its user alone.
    let usual = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let args = called_by(std::env::args_os().collect());
    if let Some(ended) = commands::bus::peek::at_once(&args) {
        return ended;
    }
    let cli = match cli::Cli::of_agent_client(&args) {
        Some(cli) => cli,
        None => match parse::command_line(args) {
            Ok(cli) => cli,
            Err(ended) => return ended,
        },
    };
    if cli.command.starts_programs() {
        nix::sys::stat::umask(usual);
    }
    // Two providers in one program would make rustls panic at its first use; this one is muster's choice. An agent's session speaks no TLS.
    let serves_one = cli.command.serves_one();
    if !serves_one
        && rustls::crypto::ring::default_provider()
            .install_default()
            .is_err()
    {
        output::notice("muster: the TLS provider was installed twice");
        return ExitCode::FAILURE;
    }
    let json = cli.json;
    // Half the cores: the other half is SQLite's and Postgres's, which work whenever a request does. More threads than that wake each other.
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let one_thread = serves_one || cli.command.pushes();
    let mut builder = if one_thread {
        // One agent's session: every thread more is memory and a start more.
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = match builder.worker_threads((cores / 2).max(1)).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::notice(&format!(
                "muster: the async runtime could not be started: {error}"
            ));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        // A shell may limit how large a file can grow. The signal for it would end this process amidst its work; with somebody who hears it, the
        // write fails and is told like any other. Unlike one that is ignored, a signal that is heard is as usual again in every child.
        let too_large = SignalKind::from_raw(Signal::SIGXFSZ as i32);
        let _heard_from_now_on = signal(too_large);
        commands::run(cli).await
    });
    if one_thread {
        // A client that asked for the end may hold standard input open; the read of it must not hold the process.
        runtime.shutdown_background();
    } else {
        // What waits for a lock of another process, or for a disk that does not answer, must not hold it for ever either.
        runtime.shutdown_timeout(STILL_AT_WORK);
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
