//! Tokens and what is kept of them: made from the system's randomness, shown once, stored only as a SHA-256. Never prints or logs one.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// A value that must not be printed: no `Debug` of its content, no `Display`, no serialisation.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret that came from outside.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The plain text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The kinds of bearer token, each with its prefix and its own doors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// `mpl_`: a connector, on `/plugin/v1/*` only.
    Plugin,
    /// `mst_`: the owner's scripts, on `/api/*`.
    Personal,
    /// `mag_`: an agent, on `/mcp`.
    Agent,
    /// `mmh_`: a mirror host daemon.
    MirrorHost,
}

impl TokenKind {
    /// Every kind.
    pub const ALL: [TokenKind; 4] = [Self::Plugin, Self::Personal, Self::Agent, Self::MirrorHost];

    /// The prefix a token of this kind begins with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Plugin => "mpl_",
            Self::Personal => "mst_",
            Self::Agent => "mag_",
            Self::MirrorHost => "mmh_",
        }
    }

    /// A new token of this kind: the prefix and 256 random bits in hexadecimal.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn mint(self) -> Result<Secret, NoRandomness> {
        Ok(Secret(format!("{}{}", self.prefix(), random_hex::<32>()?)))
    }

    /// Whether `text` has the shape of a token of this kind: the prefix and 64 lower-case hexadecimal digits.
    pub fn matches(self, text: &str) -> bool {
        text.strip_prefix(self.prefix()).is_some_and(|rest| {
            rest.len() == 64
                && rest
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    }
}

/// The system's random source failed; nothing was made.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the system gave no random bytes, so no secret was made; try again")]
pub struct NoRandomness;

/// `N` random bytes in lower-case hexadecimal.
///
/// # Errors
/// When the system gives no randomness.
pub fn random_hex<const N: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(hex(&bytes))
}

/// What is stored of a token: the SHA-256 of its text, in lower-case hexadecimal. A token has 256 random bits, so no salt is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenHash(String);

impl TokenHash {
    /// The hash of a token's text.
    pub fn of(token: &str) -> Self {
        Self(sha256_hex(token.as_bytes()))
    }

    /// The hexadecimal text, for a statement's argument.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether two secrets are equal, in a time that depends on neither.
pub fn same(a: &str, b: &str) -> bool {
    use subtle::ConstantTimeEq as _;
    Sha256::digest(a.as_bytes())
        .ct_eq(&Sha256::digest(b.as_bytes()))
        .into()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: TOK-004
    #[test]
    fn a_token_has_its_prefix_and_256_bits() {
        for kind in TokenKind::ALL {
            let a = kind.mint().unwrap();
            let b = kind.mint().unwrap();
            assert!(kind.matches(a.expose()));
            assert_ne!(a.expose(), b.expose());
            for other in TokenKind::ALL.into_iter().filter(|o| *o != kind) {
                assert!(!other.matches(a.expose()));
            }
        }
        assert!(!TokenKind::Plugin.matches("mpl_short"));
        assert!(!TokenKind::Plugin.matches(&format!("mpl_{}", "G".repeat(64))));
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(..)");
    }

    #[test]
    fn the_stored_hash_is_sha256() {
        assert_eq!(
            TokenHash::of("abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(same("abc", "abc") && !same("abc", "abd"));
    }
}
