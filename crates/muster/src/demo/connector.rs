//! The tour's connector: the Maildir connector as a process of its own. Never anything the real one would not do.

use crate::output::Failure;

pub(crate) async fn run(options: muster_maildir::Options) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // A log that cannot be written (a full disk, a closed pipe) is no reason to end: the default would complain on it, and panic.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .init();
    muster_maildir::run(options)
        .await
        .map_err(|error| Failure::refused("connector", error.to_string()))
}
