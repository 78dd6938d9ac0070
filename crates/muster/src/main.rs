//! The program `muster`: arguments, configuration, wiring. Never holds a rule of its own.
mod cli;
mod commands;
mod config;
mod demo;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // What muster makes belongs to its user alone.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    // Two providers in one program would make rustls panic at its first use; this one is muster's choice.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        output::notice("muster: the TLS provider was installed twice");
        return ExitCode::FAILURE;
    }
    let cli = cli::Cli::parse();
    let json = cli.json;
    // Half the cores: the other half is SQLite's and Postgres's, which work whenever a request does. More threads than that wake each other.
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            output::notice(&format!(
                "muster: the async runtime could not be started: {error}"
            ));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
