//! The program `muster`: arguments, configuration, wiring. Never holds a rule of its own.
#![expect(
    clippy::print_stderr,
    reason = "a program speaks through its standard streams"
)]

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
        eprintln!("muster: the TLS provider was installed twice");
        return ExitCode::FAILURE;
    }
    let cli = cli::Cli::parse();
    let json = cli.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("muster: the async runtime could not be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
