//! The kinds of databases. Never knows an address.

use std::fmt;
use std::str::FromStr;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MySQL.
    Mysql,
    /// MariaDB.
    Mariadb,
    /// A file of SQLite.
    Sqlite,
    /// Redis or Valkey.
    Redis,
    /// MongoDB.
    Mongodb,
}

impl Engine {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::Postgres,
        Self::Mysql,
        Self::Mariadb,
        Self::Sqlite,
        Self::Redis,
        Self::Mongodb,
    ];

    /// The word for it, which is also the usual scheme of its URLs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Mongodb => "mongodb",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("that is no kind of database; one of: postgres mysql mariadb sqlite redis mongodb")]
pub struct UnknownEngine;

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.as_str() == word)
            .ok_or(UnknownEngine)
    }
}
