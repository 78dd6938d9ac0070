//! The program `muster-maildir`: turns arguments into options and an error into a sentence and an exit code. Never holds a rule itself.
#![expect(
    clippy::print_stderr,
    reason = "a command-line program says on its error stream why it ended"
)]

mod words;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use muster_maildir::Options;
use tracing_subscriber::EnvFilter;

/// Connects a Maildir to muster: posts its mails, sends the replies that the owner approved.
#[derive(Parser)]
#[command(
    name = "muster-maildir",
    version,
    after_help = "Example:
  export MUSTER_CONNECTOR_TOKEN=\"$(muster connector add mail --owner ada --label Mail --data-scope private)\"
  muster-maildir --maildir ~/Maildir --state ~/.local/state/muster-maildir \\
    --from 'Ada <ada@example.org>' --sendmail '/usr/sbin/sendmail -f ada@example.org'

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 muster does not accept the connector (401 or 404).
RUST_LOG=debug says more."
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let options = match Arguments::try_parse() {
        Ok(arguments) => arguments.options,
        Err(mut error) => {
            words::spell(&mut error);
            error.exit();
        }
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written (a full disk, a closed pipe) is no reason to end: the default would complain on it, and panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    // The words of a panic may quote a mail; the place is enough to find the fault.
    std::panic::set_hook(Box::new(|panic| match panic.location() {
        Some(place) => eprintln!("muster-maildir: internal fault at {place}"),
        None => eprintln!("muster-maildir: internal fault"),
    }));
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("muster-maildir: a TLS library was chosen twice");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("muster-maildir: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(muster_maildir::run(options));
    // A mail reader that never ends must not keep the program alive.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-maildir: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
