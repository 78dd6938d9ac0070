//! What an integration may be, as pure functions. Never looks a name up on the network.

use muster_core::Secret;
use url::{Host, Url};

use super::IntegrationError;

/// Which API an integration speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForgeKind {
    /// GitHub, and GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
    /// Forgejo and Gitea.
    Forgejo,
}

impl ForgeKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Github, Self::Gitlab, Self::Forgejo];

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The stored word, which is also the word on every door.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Forgejo => "forgejo",
        }
    }
}

/// Longest address, in bytes.
const URL_MAX: usize = 2000;
/// Longest token, in bytes.
const TOKEN_MAX: usize = 4096;

/// A forge's address: https, or http on this machine, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeUrl(String);

impl ForgeUrl {
    /// Checks an address that a token will be sent to.
    ///
    /// # Errors
    /// [`IntegrationError::Url`].
    pub fn parse(text: &str) -> Result<Self, IntegrationError> {
        // The parser takes blanks around an address and controls inside it out; such an address would not be what it looks like.
        if text.len() > URL_MAX || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(IntegrationError::Url);
        }
        let url = Url::parse(text).map_err(|_| IntegrationError::Url)?;
        let safe = match (url.scheme(), url.host()) {
            ("https", Some(_)) => true,
            ("http", Some(host)) => is_loopback(&host),
            _ => false,
        };
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if safe && plain {
            Ok(Self(text.to_owned()))
        } else {
            Err(IntegrationError::Url)
        }
    }

    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Whether this may be a token: what fits into a header and nothing else.
pub(super) fn is_token(token: &Secret) -> bool {
    let text = token.expose();
    (1..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_https_or_stays_on_this_machine() {
        for good in [
            "https://api.github.com",
            "https://git.example.test/api/v1/",
            "https://git.example.test:8443",
            "https://10.0.0.1",
            "http://localhost:3000",
            "http://127.0.0.1:1",
            "http://127.9.9.9",
            "http://[::1]:8080/x",
        ] {
            assert_eq!(ForgeUrl::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "api.github.com",
            "http://api.github.com",
            "http://10.0.0.1",
            "http://localhost.example.test",
            "http://127.0.0.1.example.test",
            "http://0.0.0.0",
            "http://[::]",
            "ftp://git.example.test",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https://user@git.example.test",
            "https://user:word@git.example.test",
            "https://git.example.test/?token=x",
            "https://git.example.test/#x",
            " https://git.example.test",
            "https://git.example.test\n",
            "https://git.exa\tmple.test",
            "https://git.example.test/\u{202e}",
            "https://git.example.test/\0",
        ] {
            assert!(
                matches!(ForgeUrl::parse(bad), Err(IntegrationError::Url)),
                "{bad:?}"
            );
        }
        let long = format!("https://git.example.test/{}", "a".repeat(2000));
        assert!(ForgeUrl::parse(&long).is_err());
    }

    #[test]
    fn a_token_is_one_visible_word() {
        for (text, fits) in [
            ("ghp_abc123", true),
            ("glpat-x.y_z", true),
            ("", false),
            ("two words", false),
            ("line\n", false),
            ("caf\u{e9}", false),
            ("a\0b", false),
        ] {
            assert_eq!(is_token(&Secret::new(text)), fits, "{text:?}");
        }
        assert!(is_token(&Secret::new("x".repeat(4096))) && !is_token(&Secret::new("x".repeat(4097))));
    }

    #[test]
    fn a_kind_is_one_of_three_words() {
        for kind in ForgeKind::ALL {
            assert_eq!(ForgeKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(ForgeKind::parse("gitea"), None);
    }
}
