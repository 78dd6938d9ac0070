//! Time as muster keeps it: whole microseconds since 1970 in UTC, read through one door so that tests can move it. Never sleeps.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A moment: microseconds since 1970-01-01T00:00:00Z. Both database engines store it as a 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// Wraps microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This moment plus `span`; saturates at the end of time rather than wrapping.
    pub fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// This moment less `span`; saturates.
    pub fn minus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// How long ago `earlier` was; zero when it lies in the future (a clock that was set back).
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads an RFC 3339 date and time with an offset; anything else is `None`. Precision below a microsecond is dropped.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        // jiff reads more than RFC 3339 (time zone annotations, week dates); the shape is checked first.
        let bytes = text.as_bytes();
        let shape = bytes.len() >= 20
            && bytes.len() <= 40
            && bytes.iter().all(|b| {
                b.is_ascii_digit()
                    || matches!(b, b'-' | b':' | b'.' | b'+' | b'T' | b't' | b'Z' | b'z' | b' ')
            })
            && bytes.get(4) == Some(&b'-')
            && bytes.get(7) == Some(&b'-')
            && matches!(bytes.get(10), Some(b'T' | b't' | b' '))
            && bytes.get(13) == Some(&b':')
            && bytes.get(16) == Some(&b':');
        if !shape {
            return None;
        }
        text.parse::<Timestamp>().ok().map(|t| Self(t.as_microsecond()))
    }

    /// RFC 3339 in UTC with whole seconds, as every door prints times.
    pub fn rfc3339(self) -> String {
        match Timestamp::from_microsecond(self.0) {
            Ok(t) => t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            Err(_) => format!("{}us", self.0),
        }
    }
}

impl Time {
    /// The date as mail headers write it, in UTC.
    pub fn rfc2822(self) -> String {
        match Timestamp::from_microsecond(self.0) {
            Ok(t) => t.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string(),
            Err(_) => format!("{}us", self.0),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// Where "now" comes from. Acts take `now` as a value; only the edges ask the clock.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    manual: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// The system's clock. In a build with the feature `test-clock` the file that `MUSTER_TEST_CLOCK` names
    /// (an integer: seconds added to now) is read before each use.
    pub fn system() -> Self {
        Self { manual: None }
    }

    /// A clock that stands still until it is moved; every clone of it is the same clock.
    pub fn manual(start: Time) -> Self {
        Self {
            manual: Some(Arc::new(AtomicI64::new(start.0))),
        }
    }

    /// Moves a manual clock; the system's clock is not muster's to move.
    pub fn advance(&self, span: Duration) {
        if let Some(manual) = &self.manual {
            manual.fetch_add(
                i64::try_from(span.as_micros()).unwrap_or(i64::MAX),
                Ordering::SeqCst,
            );
        }
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        if let Some(manual) = &self.manual {
            return Time(manual.load(Ordering::SeqCst));
        }
        #[expect(clippy::disallowed_methods, reason = "the one door to the system's clock")]
        let now = Timestamp::now();
        Time(now.as_microsecond().saturating_add(offset_micros()))
    }
}

#[cfg(feature = "test-clock")]
fn offset_micros() -> i64 {
    let Some(path) = std::env::var_os("MUSTER_TEST_CLOCK") else {
        return 0;
    };
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse::<i64>().ok())
        .map_or(0, |seconds| seconds.saturating_mul(1_000_000))
}

#[cfg(not(feature = "test-clock"))]
const fn offset_micros() -> i64 {
    0
}

/// Reads a duration as the settings spell it: a whole number and one of `s`, `m`, `h`, `d` (`30s`, `5m`, `12h`, `14d`).
///
/// # Errors
/// A sentence for the person who wrote the setting.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const HELP: &str =
        "write a duration as a whole number and one of s, m, h, d, such as 30s, 5m, 12h or 14d";
    let unit = text.chars().last().ok_or(HELP)?;
    let digits = text.strip_suffix(unit).ok_or(HELP)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(HELP);
    }
    let count: u64 = digits.parse().map_err(|_| HELP)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(HELP),
    };
    count
        .checked_mul(seconds)
        .filter(|s| *s <= 3_650 * 86_400)
        .map(Duration::from_secs)
        .ok_or("the duration is longer than ten years")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_read_strictly() {
        assert_eq!(
            Time::parse_rfc3339("2000-01-02T03:04:05Z")
                .map(Time::rfc3339)
                .as_deref(),
            Some("2000-01-02T03:04:05Z")
        );
        assert_eq!(
            Time::parse_rfc3339("2000-01-02T03:04:05.25+02:00")
                .map(Time::rfc3339)
                .as_deref(),
            Some("2000-01-02T01:04:05Z")
        );
        for bad in [
            "yesterday",
            "",
            "2000-01-02",
            "2000-01-02T03:04:05",
            "2000-01-02T03:04Z",
            "2000-13-02T03:04:05Z",
            "2000-01-02T03:04:05Z[UTC]",
            "20000102T030405Z",
        ] {
            assert_eq!(Time::parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_are_a_number_and_a_unit() {
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("12h"), Ok(Duration::from_secs(43_200)));
        assert_eq!(parse_duration("14d"), Ok(Duration::from_secs(14 * 86_400)));
        for bad in [
            "",
            "s",
            "1",
            "1.5h",
            "-1s",
            "1w",
            "1 h",
            "99999999999d",
            "5000d",
            "１s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_earlier_now_than_then_counts_as_no_time() {
        assert_eq!(Time::from_micros(5).since(Time::from_micros(9)), Duration::ZERO);
    }
}
