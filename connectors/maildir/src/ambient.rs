//! The one place where the connector asks the machine for the time and for chance. Never used where a caller could pass the value in.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// The moment now, for dates in mails. The connector is a program beside muster: muster's clock for tests does not move it.
#[expect(
    clippy::disallowed_methods,
    reason = "the dates of mails are those of the world; every function below takes the moment as an argument"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The same moment in whole seconds, as the mail library wants it.
pub(crate) fn system_time(at: Timestamp) -> SystemTime {
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Chance that nobody can guess, for a Message-ID.
#[expect(
    clippy::disallowed_methods,
    reason = "the connector stands on the published contract alone, so it draws its own chance, here only"
)]
pub(crate) fn chance() -> u128 {
    rand::random()
}

/// A fraction from 0 up to 1, for waits.
#[expect(clippy::disallowed_methods, reason = "as above; nothing secret comes from it")]
pub(crate) fn fraction() -> f64 {
    rand::random()
}
