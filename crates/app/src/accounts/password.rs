//! Hashing and checking passwords with Argon2id off the async threads. Never more than two at once, never a secret in a log.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use muster_core::{Fault, Secret};

use crate::App;

/// Checked when there is no account, so that a wrong name takes as long as a wrong password. The hash of random bytes nobody knows.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$8Y3vYFv1bGd2Sg0xwM6ZlZ0YH2kVdYH3ZC3hC2kqHk4";

/// The PHC string of a password (Argon2id, 19 MiB, two passes, one lane).
///
/// # Errors
/// A fault.
pub(super) async fn hash(app: &App, password: &Secret) -> Result<String, Fault> {
    let password = password.clone();
    blocking(app, move || {
        Argon2::default()
            .hash_password(password.expose().as_bytes())
            .map(|hash| hash.to_string())
            .map_err(|e| Fault::other(format!("a password could not be hashed: {e}")))
    })
    .await?
}

/// Whether the password fits the stored hash. With no hash it does the same work and says no.
///
/// # Errors
/// A fault.
pub(super) async fn fits(app: &App, password: &Secret, stored: Option<String>) -> Result<bool, Fault> {
    let password = password.clone();
    blocking(app, move || {
        let known = stored.is_some();
        let text = stored.unwrap_or_else(|| NOBODY.to_owned());
        let hash = PasswordHash::new(&text)
            .map_err(|e| Fault::other(format!("a stored password hash cannot be read: {e}")))?;
        Ok(Argon2::default()
            .verify_password(password.expose().as_bytes(), &hash)
            .is_ok()
            && known)
    })
    .await?
}

async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let place = app
        .password_gate
        .clone()
        .acquire_owned()
        .await
        .map_err(|_| Fault::other("muster is being stopped"))?;
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    })
    .await
    .map_err(|e| Fault::other("a password could not be checked").because(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_nobody_is_a_hash() {
        let hash = PasswordHash::new(NOBODY).unwrap();
        assert!(Argon2::default().verify_password(b"anything", &hash).is_err());
    }
}
