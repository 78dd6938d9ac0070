//! What is asked of a name that has no passkey to sign in with: the same as of any other, which no authenticator can prove. Never tells the two apart, in what it says or in how long it takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_app::accounts::Begun;
use muster_core::clock::Time;
use muster_core::secret::random_hex;
use muster_core::{Fault, Secret, TokenHash};
use serde_json::{Value, json};
use webauthn_rs::prelude::Url;

use crate::Web;

/// How long a ceremony waits for its answer, a real one as well.
const WAITS: Duration = Duration::from_secs(300);
/// Ceremonies of nobody that are remembered.
const REMEMBERED: usize = 10_000;
/// No answer about a passkey leaves sooner: longer than the few rows take that only a real one stores.
const FLOOR: Duration = Duration::from_millis(100);

/// `answer`, after as long as any other.
pub(super) async fn like_any_other<T>(answer: impl Future<Output = T>) -> T {
    let (answer, ()) = futures::future::join(answer, tokio::time::sleep(FLOOR)).await;
    answer
}

/// The ceremonies that nobody can finish. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct Decoys(Arc<Mutex<VecDeque<(Time, TokenHash)>>>);

impl Decoys {
    /// Begins one for this name.
    ///
    /// # Errors
    /// A fault, as a real one would.
    pub(super) fn begin(&self, web: &Web, name: &str) -> Result<Begun, Fault> {
        let (ceremony, now) = (Secret::new(random_hex::<32>()?), web.app.clock.now());
        let options = options(web, name).ok_or_else(|| {
            Fault::other("a passkey could not be asked for: there is no key or no host name")
        })?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(until, _)| *until > now);
        if all.len() >= REMEMBERED {
            all.pop_front();
        }
        all.push_back((now.plus(WAITS), TokenHash::of(ceremony.expose())));
        Ok(Begun { ceremony, options })
    }

    /// Whether this is one that waits; it serves once, as a real one does.
    pub(super) fn take(&self, web: &Web, ceremony: &str) -> bool {
        let (hash, now) = (TokenHash::of(ceremony), web.app.clock.now());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(_, kept)| *kept == hash);
        at.and_then(|at| all.remove(at))
            .is_some_and(|(until, _)| until > now)
    }
}

/// What a browser is asked to prove: as the passkeys' own library asks it.
fn options(web: &Web, name: &str) -> Option<Value> {
    let challenge = web.key.bytes(&["challenge", &random_hex::<32>().ok()?])?;
    Some(json!({"publicKey": {
        "challenge": URL_SAFE_NO_PAD.encode(challenge),
        "timeout": 300_000,
        "rpId": relying_party(&web.app.settings.public_url)?,
        "allowCredentials": credentials(web, name)?,
        "userVerification": "required",
    }}))
}

/// Whom passkeys of this public address belong to.
fn relying_party(public_url: &str) -> Option<String> {
    let url = Url::parse(public_url).ok()?;
    let host = url.host_str()?;
    let own = matches!(host, "127.0.0.1" | "[::1]");
    Some(if own { "localhost" } else { host }.to_owned())
}

/// The credentials of this name: the same each time, of lengths that authenticators use, mostly one.
fn credentials(web: &Web, name: &str) -> Option<Vec<Value>> {
    let dice = web.key.bytes(&["credentials", name])?;
    let count = if dice.first()? % 4 == 0 { 2 } else { 1 };
    (0..count)
        .map(|n: u8| {
            let halves = [
                web.key.bytes(&["credential", name, &n.to_string(), "first"])?,
                web.key.bytes(&["credential", name, &n.to_string(), "second"])?,
            ];
            let length = match dice.get(usize::from(n) + 1)? % 4 {
                0 => 16,
                1 => 20,
                2 => 32,
                _ => 64,
            };
            let id: Vec<u8> = halves.concat().into_iter().take(length).collect();
            Some(json!({"type": "public-key", "id": URL_SAFE_NO_PAD.encode(id)}))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relying_party_is_the_host_that_passkeys_belong_to() {
        for (url, host) in [
            ("http://localhost:7447", "localhost"),
            ("http://127.0.0.1:7447", "localhost"),
            ("http://[::1]:7447", "localhost"),
            ("https://Muster.example:8443/", "muster.example"),
        ] {
            assert_eq!(relying_party(url).as_deref(), Some(host), "{url}");
        }
    }
}
