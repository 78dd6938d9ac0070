//! The tour's connector: the Maildir connector as a process of its own. Never anything the real one would not do.

use std::io::Read as _;

use nix::sys::signal::{Signal, raise};

use crate::output::Failure;

pub(crate) async fn run(options: muster_maildir::Options) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // A log that cannot be written (a full disk, a closed pipe) is no reason to end: the default would complain on it, and panic.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .init();
    end_with_the_tour();
    muster_maildir::run(options)
        .await
        .map_err(|error| Failure::refused("connector", error.to_string()))
}

/// Asks this process to end when its standard input does. The tour holds the other end and writes nothing to it: the system closes it even when
/// the tour is killed. A thread of its own, since a read cannot be given up, and the end of the program waits for no thread.
fn end_with_the_tour() {
    std::thread::spawn(|| {
        let mut piece = [0; 64];
        loop {
            match std::io::stdin().lock().read(&mut piece) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        tracing::info!("the tour is gone");
        // The same as a request from outside: a reply that is being sent is finished first.
        let _ = raise(Signal::SIGTERM);
    });
}
