//! The bytes of messages under way over HTTP, bounded in all and under each token. Never looks at a message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use muster_core::TokenHash;

/// How many bytes may be under way at once: read, and not answered yet.
const ALL: usize = 256 * 1024 * 1024;

/// How many of them under one token.
const EACH: usize = 64 * 1024 * 1024;

/// What is under way. Cloning shares it.
#[derive(Clone, Default)]
pub(super) struct Budget(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    all: usize,
    each: HashMap<TokenHash, usize>,
}

/// There is no room for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl IntoResponse for Full {
    fn into_response(self) -> Response {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, HeaderValue::from_static("1"))],
            "the bus has as many messages under way as it takes, under this token or in all; nothing was done: try again in a second\n",
        )
            .into_response()
    }
}

/// What one message takes; dropping it gives it back.
pub(super) struct Share {
    budget: Budget,
    bearer: TokenHash,
    bytes: usize,
}

impl Budget {
    /// Nothing yet, of a token.
    pub(super) fn share(&self, bearer: TokenHash) -> Share {
        Share {
            budget: self.clone(),
            bearer,
            bytes: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes so many bytes more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let mut counts = self.budget.lock();
        let each = counts.each.get(&self.bearer).copied().unwrap_or(0);
        if each + bytes > EACH || counts.all + bytes > ALL {
            return Err(Full);
        }
        counts.all += bytes;
        counts.each.insert(self.bearer.clone(), each + bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives all of it back.
    pub(super) fn clear(&mut self) {
        let mut counts = self.budget.lock();
        counts.all = counts.all.saturating_sub(self.bytes);
        let left = counts.each.get_mut(&self.bearer).map_or(0, |count| {
            *count = count.saturating_sub(self.bytes);
            *count
        });
        if left == 0 {
            counts.each.remove(&self.bearer);
        }
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_takes_so_many_bytes_and_all_together_so_many_and_each_gives_them_back() {
        let budget = Budget::default();
        let mut shares = Vec::new();
        for token in 0..ALL / EACH {
            let mut share = budget.share(TokenHash::of(&token.to_string()));
            assert_eq!(share.grow(EACH - 1), Ok(()));
            assert_eq!(share.grow(2), Err(Full));
            assert_eq!(share.grow(1), Ok(()));
            shares.push(share);
        }
        let mut other = budget.share(TokenHash::of("other"));
        assert_eq!(other.grow(1), Err(Full), "all together");
        let mut again = budget.share(TokenHash::of("0"));
        assert_eq!(again.grow(1), Err(Full), "one token");
        drop(shares.swap_remove(0));
        assert_eq!(other.grow(EACH), Ok(()));
        other.clear();
        assert_eq!(again.grow(EACH), Ok(()));
        drop((shares, other, again));
        let counts = budget.lock();
        assert_eq!((counts.all, counts.each.len()), (0, 0));
    }
}
