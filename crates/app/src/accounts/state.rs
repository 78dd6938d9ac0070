//! The rules of accounts as pure functions. Never reads a clock or a row.

use std::time::Duration;

use muster_core::Secret;
use muster_core::clock::Time;

use super::AccountError;

/// How long a browser session lives without being used.
pub const SESSION_IDLE: Duration = Duration::from_secs(14 * 86_400);
/// How long a browser session lives at most.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(90 * 86_400);
/// How long a passkey request may take.
pub(super) const CEREMONY: Duration = Duration::from_secs(300);
/// How exact "last seen" is: a write for every page would be waste.
pub(super) const SEEN_EVERY: Duration = Duration::from_secs(60);

/// An owner's name: `[a-z0-9][a-z0-9._-]{0,63}`, not digits alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerName(String);

impl OwnerName {
    /// Reads a name.
    ///
    /// # Errors
    /// [`AccountError::Name`].
    pub fn parse(text: &str) -> Result<Self, AccountError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let fits = (1..=64).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|b| plain(b) || matches!(b, b'.' | b'_' | b'-'))
            && !text.bytes().all(|b| b.is_ascii_digit());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(AccountError::Name)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A password that may be set: 8 to 1024 characters.
#[derive(Debug, Clone)]
pub struct Password(Secret);

impl Password {
    /// Reads a new password.
    ///
    /// # Errors
    /// [`AccountError::Password`].
    pub fn parse(text: &str) -> Result<Self, AccountError> {
        if (8..=1024).contains(&text.chars().count()) {
            Ok(Self(Secret::new(text)))
        } else {
            Err(AccountError::Password)
        }
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.0
    }
}

/// Whether a browser session may still be used.
pub(super) fn session_lives(created_at: Time, last_seen_at: Time, now: Time) -> bool {
    now.since(last_seen_at) <= SESSION_IDLE && now.since(created_at) <= SESSION_LIFETIME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_slugs_and_passwords_have_a_length() {
        for good in ["ada", "a", "0x", "ada.l-1_2"] {
            assert!(OwnerName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Ada", "42", "-a", "a b", "ä", &"a".repeat(65), "a/b"] {
            assert!(OwnerName::parse(bad).is_err(), "{bad}");
        }
        assert!(Password::parse("1234567").is_err() && Password::parse("12345678").is_ok());
        assert!(Password::parse(&"x".repeat(1025)).is_err());
    }

    #[test]
    fn a_session_ends_by_idleness_and_by_age() {
        let start = Time::from_micros(1_000_000_000_000_000);
        assert!(session_lives(start, start, start.plus(SESSION_IDLE)));
        assert!(!session_lives(
            start,
            start,
            start.plus(SESSION_IDLE + Duration::from_secs(1))
        ));
        let late = start.plus(SESSION_LIFETIME + Duration::from_secs(1));
        assert!(!session_lives(start, late, late));
    }
}
