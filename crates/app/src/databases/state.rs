//! What an address may be, as pure functions. Never reads more of it than its scheme.

use muster_core::Secret;
use muster_core::engine::Engine;

use super::DatabaseError;

/// Longest address, in bytes.
const URL_MAX: usize = 4096;

/// A database's address with its account: a secret, of which only the engine is known.
#[derive(Debug, Clone)]
pub struct DbUrl {
    engine: Engine,
    url: Secret,
}

impl DbUrl {
    /// Checks an address.
    ///
    /// # Errors
    /// [`DatabaseError::Url`].
    pub fn parse(url: Secret) -> Result<Self, DatabaseError> {
        let text = url.expose();
        let engine = text
            .split_once("://")
            .filter(|(_, rest)| !rest.is_empty())
            .and_then(|(scheme, _)| scheme.parse().ok())
            .ok_or(DatabaseError::Url)?;
        if text.len() > URL_MAX || text.chars().any(char::is_control) {
            return Err(DatabaseError::Url);
        }
        Ok(Self { engine, url })
    }

    /// Whose protocol it speaks.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The address itself.
    pub fn secret(&self) -> &Secret {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_its_engine() {
        for (url, engine) in [
            (
                "postgres://reader:pw@db.example.test:5432/app?sslmode=require",
                "postgres",
            ),
            ("postgresql://db/app", "postgres"),
            ("mysql://db/app", "mysql"),
            ("mariadb://db/app", "mariadb"),
            ("sqlite:///srv/app.db", "sqlite"),
            ("redis://db", "redis"),
            ("rediss://db:6380/0", "redis"),
            ("mongodb://db/app", "mongodb"),
            ("mongodb+srv://db/app", "mongodb"),
            ("POSTGRES://db", "postgres"),
            ("valkey://db", "redis"),
            ("mongo://db/app", "mongodb"),
        ] {
            let parsed = DbUrl::parse(Secret::new(url)).unwrap();
            assert_eq!(
                (parsed.engine().as_str(), parsed.secret().expose()),
                (engine, url)
            );
        }
        for url in [
            "",
            "postgres",
            "postgres:",
            "postgres://",
            "://x",
            "oracle://db",
            " postgres://db",
            "https://db",
            "postgres://db\nx",
            "postgres://db\0",
            "mongodb+x://db",
        ] {
            assert!(
                matches!(DbUrl::parse(Secret::new(url)), Err(DatabaseError::Url)),
                "{url:?}"
            );
        }
        assert!(DbUrl::parse(Secret::new(format!("redis://{}", "a".repeat(4096)))).is_err());
    }

    #[test]
    fn an_address_does_not_print_itself() {
        let url = DbUrl::parse(Secret::new("redis://:hunter2@db")).unwrap();
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
