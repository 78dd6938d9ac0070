//! How much one call may take. Never a promise about what a server spends on it.

use std::time::Duration;

/// What ends an answer early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of an answer; more are cut off, and the answer says so.
    pub rows: usize,
    /// Most bytes of an answer, counted as the values are printed; at the first value beyond them the answer is cut.
    pub bytes: usize,
    /// Longest time for one call; the server is told to stop, too.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows: 1000,
            bytes: 1024 * 1024,
            time: Duration::from_secs(30),
        }
    }
}

/// Longest time for reaching a server.
const CONNECTING: Duration = Duration::from_secs(10);

impl Limits {
    /// How long the whole way to a server may take, signing in included. Shorter than [`Limits::hang_up`], so that a server that is silent
    /// is not told as a statement that takes too long.
    pub(crate) fn connecting(self) -> Duration {
        self.time.min(CONNECTING)
    }

    pub(crate) fn milliseconds(self) -> u64 {
        u64::try_from(self.time.as_millis())
            .unwrap_or(u64::MAX)
            .clamp(1, 86_400_000)
    }

    /// The server ends a statement by itself; only when that fails does the gateway hang up.
    pub(crate) fn hang_up(self) -> Duration {
        self.time + Duration::from_secs(2)
    }
}
