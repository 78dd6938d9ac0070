//! How often somebody may try a password: an allowance for each guesser that is used up by tries and grows again with time. Never knows whether a try was right.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_core::ids::BrowserSessionId;

/// Guessers that are remembered before those with a full allowance are let go.
const REMEMBERED: usize = 10_000;

/// Whose tries are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Guesser {
    /// Whoever connects from here. Behind a proxy that is everybody, so it is wide.
    Address(IpAddr),
    /// Whoever names this account, from wherever. Only failures stay counted, and no known browser is.
    Account(String),
    /// A browser that has signed in before, by its mark: strangers cannot use up what is its own.
    Known(String),
    /// Whoever holds this session: neither can strangers use up that.
    Session(BrowserSessionId),
}

/// So many tries at once, then one each time.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    burst: u32,
    each: Duration,
}

impl Guesser {
    /// A person never meets these; a guesser does. Sixty a minute is no way to find a password, and keeps who shares an address waiting for
    /// a second at a time.
    const fn allowance(&self) -> Allowance {
        match self {
            Self::Address(_) => Allowance {
                burst: 60,
                each: Duration::from_secs(1),
            },
            Self::Account(_) | Self::Known(_) | Self::Session(_) => Allowance {
                burst: 10,
                each: Duration::from_secs(6),
            },
        }
    }

    /// What was too much, as a refusal names it.
    pub(crate) const fn words(&self) -> &'static str {
        match self {
            Self::Address(_) => "there were too many tries from your address",
            Self::Account(_) => "there were too many failed tries for this name",
            Self::Known(_) | Self::Session(_) => "there were too many tries from this browser",
        }
    }
}

/// A try that is one too many; nothing was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// What was too much.
    pub(crate) words: &'static str,
    /// Seconds until the next try is looked at.
    pub(crate) seconds: u64,
}

/// Everybody's tries. A guesser's allowance is full again at the moment that is kept for it.
#[derive(Debug, Default)]
pub(crate) struct Tries(Mutex<HashMap<Guesser, Instant>>);

impl Tries {
    /// Counts a try of `who`'s.
    ///
    /// # Errors
    /// It is one too many.
    pub(crate) fn take(&self, who: &Guesser) -> Result<(), TooMany> {
        self.take_at(who, Instant::now())
    }

    fn take_at(&self, who: &Guesser, now: Instant) -> Result<(), TooMany> {
        let Allowance { burst, each } = who.allowance();
        let mut all = self.all();
        if all.len() > REMEMBERED {
            all.retain(|_, full| *full > now);
        }
        let full = all.get(who).map_or(now, |full| now.max(*full)) + each;
        let over = full
            .saturating_duration_since(now)
            .saturating_sub(each.saturating_mul(burst));
        if over.is_zero() {
            all.insert(who.clone(), full);
            Ok(())
        } else {
            Err(TooMany {
                words: who.words(),
                seconds: over.as_secs().saturating_add(1),
            })
        }
    }

    /// Uncounts one try: it was no guess.
    pub(crate) fn give_back(&self, who: &Guesser) {
        let each = who.allowance().each;
        if let Some(full) = self.all().get_mut(who) {
            *full = full.checked_sub(each).unwrap_or(*full);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Guesser, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> Guesser {
        Guesser::Account(name.to_owned())
    }

    #[test]
    fn ten_tries_at_once_and_then_one_every_six_seconds() {
        let (tries, start) = (Tries::default(), Instant::now());
        for _ in 0..10 {
            assert!(tries.take_at(&account("ada"), start).is_ok());
        }
        let refused = tries.take_at(&account("ada"), start).unwrap_err();
        assert!((6..=7).contains(&refused.seconds), "{refused:?}");
        assert!(
            tries.take_at(&account("grace"), start).is_ok(),
            "nobody else's allowance"
        );
        let later = start + Duration::from_secs(6);
        assert!(tries.take_at(&account("ada"), later).is_ok());
        assert!(tries.take_at(&account("ada"), later).is_err());
        let much_later = later + Duration::from_secs(600);
        for _ in 0..10 {
            assert!(tries.take_at(&account("ada"), much_later).is_ok());
        }
        assert!(
            tries.take_at(&account("ada"), much_later).is_err(),
            "time saves up no more than the first ten"
        );
    }

    #[test]
    fn a_try_that_is_given_back_was_none() {
        let (tries, start) = (Tries::default(), Instant::now());
        for _ in 0..100 {
            assert!(tries.take_at(&account("ada"), start).is_ok());
            tries.give_back(&account("ada"));
        }
        tries.give_back(&account("nobody"));
        let mut counted = 0;
        while tries.take_at(&account("ada"), start).is_ok() {
            counted += 1;
        }
        assert_eq!(counted, 10, "and gives nothing in advance");
    }

    #[test]
    fn who_shares_an_address_with_a_guesser_waits_for_a_second_at_a_time() {
        let (tries, start) = (Tries::default(), Instant::now());
        let here = Guesser::Address(IpAddr::from([192, 0, 2, 1]));
        for _ in 0..60 {
            assert!(tries.take_at(&here, start).is_ok());
        }
        assert!(tries.take_at(&here, start).unwrap_err().seconds <= 2);
        assert!(tries.take_at(&here, start + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn who_has_not_tried_for_long_is_forgotten() {
        let (tries, start) = (Tries::default(), Instant::now());
        for n in 0..=REMEMBERED {
            tries.take_at(&account(&n.to_string()), start).unwrap();
        }
        let later = start + Duration::from_secs(6);
        tries.take_at(&account("ada"), later).unwrap();
        assert_eq!(tries.all().len(), 1);
    }
}
