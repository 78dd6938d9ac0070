//! Names that nothing had before: random UUIDs. Never a secret, and never taken from the clock.

use muster_core::{Fault, secret};

use crate::error::BusError;

/// A random UUID (version 4), as messages, connections and files on their way to a name bear it.
///
/// # Errors
/// A fault, when the system gives no randomness.
pub(crate) fn id() -> Result<String, BusError> {
    let random = secret::random_hex::<16>().map_err(Fault::from)?;
    let bytes = uuid::Uuid::parse_str(&random)
        .map_err(|error| Fault::other("no new name could be made").because(error))?;
    Ok(uuid::Builder::from_random_bytes(bytes.into_bytes())
        .into_uuid()
        .to_string())
}
