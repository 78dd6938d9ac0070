//! Sealing and opening with the key of the data folder (XChaCha20-Poly1305). Never opens what was sealed for another row.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use muster_core::{Fault, Secret};

use super::{SealError, key, sql};
use crate::App;

/// What a sealed text of this form begins with, so that a later form can be told from it.
const FORM: &str = "x1.";
/// A nonce's length in bytes: enough for random ones never to meet.
const NONCE: usize = 24;

/// The key, ready for use.
pub struct Key(XChaCha20Poly1305);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    fn of(bytes: [u8; key::LENGTH]) -> Self {
        Self(XChaCha20Poly1305::new(&bytes.into()))
    }

    /// Seals `plain` for one place, which `context` names: it opens there and nowhere else.
    ///
    /// # Errors
    /// A fault when the system gives no randomness.
    pub fn seal(&self, context: &str, plain: &Secret) -> Result<String, SealError> {
        let mut nonce = [0_u8; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| Fault::other("nothing could be sealed: no random bytes"))?;
        let payload = Payload {
            msg: plain.expose().as_bytes(),
            aad: context.as_bytes(),
        };
        let sealed = self
            .0
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| Fault::other("a secret could not be sealed"))?;
        Ok(format!("{FORM}{}", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    /// Opens what [`Self::seal`] made for the same context.
    ///
    /// # Errors
    /// [`SealError::Foreign`] for anything else.
    pub fn open(&self, context: &str, sealed: &str) -> Result<Secret, SealError> {
        let bytes = sealed
            .strip_prefix(FORM)
            .and_then(|text| BASE64.decode(text).ok())
            .ok_or(SealError::Foreign)?;
        let (nonce, msg) = bytes.split_first_chunk::<NONCE>().ok_or(SealError::Foreign)?;
        let payload = Payload {
            msg,
            aad: context.as_bytes(),
        };
        let plain = self
            .0
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| SealError::Foreign)?;
        String::from_utf8(plain)
            .map(Secret::new)
            .map_err(|_| SealError::Foreign)
    }
}

/// The key for sealing something new. The first of a data folder makes it; a key that is missed is never replaced.
///
/// # Errors
/// [`SealError`]; nothing was stored then.
pub async fn ready(app: &App) -> Result<Key, SealError> {
    let folder = &app.settings.data_dir;
    if let Some(bytes) = key::read(folder)? {
        return Ok(Key::of(bytes));
    }
    if sealed(app).await? == 0 {
        key::make(folder)?;
    }
    held(app)
}

/// Whether the key is there that opens what is stored. Makes nothing.
///
/// # Errors
/// [`SealError`]: something is stored that no key is there for.
pub async fn looked(app: &App) -> Result<(), SealError> {
    if sealed(app).await? == 0 {
        return Ok(());
    }
    held(app).map(|_| ())
}

/// How many rows of anybody's only the key opens.
async fn sealed(app: &App) -> Result<i64, SealError> {
    Ok(app
        .db
        .system_read("whether anything is sealed", |tx| {
            Box::pin(async move { tx.number(&sql::SEALED, ()).await })
        })
        .await?)
}

/// The key for opening what is stored.
///
/// # Errors
/// [`SealError`].
pub fn held(app: &App) -> Result<Key, SealError> {
    let folder = &app.settings.data_dir;
    key::read(folder)?.map(Key::of).ok_or_else(|| SealError::Missing {
        path: key::shown(&key::path(folder)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::of([byte; key::LENGTH])
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_in_its_place_alone() {
        let plain = Secret::new("postgres://reader:hunter2@db/app");
        let sealed = key(1).seal("here", &plain).unwrap();
        assert_eq!(key(1).open("here", &sealed).unwrap().expose(), plain.expose());
        assert!(!sealed.contains("hunter2"));
        for (key, context) in [(key(1), "there"), (key(1), ""), (key(2), "here")] {
            assert!(matches!(key.open(context, &sealed), Err(SealError::Foreign)));
        }
        // The same text twice shows nothing in common.
        assert_ne!(sealed, key(1).seal("here", &plain).unwrap());
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let sealed = key(1).seal("here", &Secret::new("hunter2")).unwrap();
        let flipped = |at: usize| -> String {
            sealed
                .char_indices()
                .map(|(n, c)| match (n == at, c) {
                    (false, c) => c,
                    (true, 'A') => 'B',
                    (true, _) => 'A',
                })
                .collect()
        };
        for at in 0..sealed.len() {
            assert!(key(1).open("here", &flipped(at)).is_err(), "{at}");
            assert!(key(1).open("here", sealed.get(..at).unwrap()).is_err(), "{at}");
        }
        for wrong in ["", "x1.", "x1.AAAA", "hunter2", "x2.AAAA", "x1.\u{e9}"] {
            assert!(matches!(key(1).open("here", wrong), Err(SealError::Foreign)));
        }
    }

    #[test]
    fn an_empty_and_a_long_secret_are_sealed_whole() {
        for text in [String::new(), "é".repeat(10_000)] {
            let sealed = key(1).seal("here", &Secret::new(text.clone())).unwrap();
            assert_eq!(key(1).open("here", &sealed).unwrap().expose(), text);
        }
    }

    #[test]
    fn a_key_does_not_print_itself() {
        assert_eq!(format!("{:?}", key(7)), "Key(..)");
    }
}
