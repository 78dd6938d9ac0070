//! The kinds of databases, and every word that people have for one. Never knows an address.

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

/// Every spelling that is understood, as the scheme of an address and as a word of the command line alike.
const SPELLINGS: [(&str, Engine); 15] = [
    ("postgres", Engine::Postgres),
    ("postgresql", Engine::Postgres),
    ("pg", Engine::Postgres),
    ("pgsql", Engine::Postgres),
    ("mysql", Engine::Mysql),
    ("mariadb", Engine::Mariadb),
    ("sqlite", Engine::Sqlite),
    ("sqlite3", Engine::Sqlite),
    ("redis", Engine::Redis),
    ("rediss", Engine::Redis),
    ("valkey", Engine::Redis),
    ("valkeys", Engine::Redis),
    ("mongodb", Engine::Mongodb),
    ("mongodb+srv", Engine::Mongodb),
    ("mongo", Engine::Mongodb),
];

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

    /// The word for it on every door, in the store, and the usual scheme of its addresses.
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

    /// Every spelling that [`Engine::from_str`] understands, with what it means.
    pub fn spellings() -> impl Iterator<Item = (&'static str, Self)> {
        SPELLINGS.into_iter()
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

    /// Any of the usual spellings, in letters of any size.
    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        Self::spellings()
            .find(|(spelling, _)| spelling.eq_ignore_ascii_case(word))
            .map(|(_, engine)| engine)
            .ok_or(UnknownEngine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_understood_by_its_own_word_and_no_spelling_means_two() {
        for engine in Engine::ALL {
            assert_eq!(engine.as_str().parse(), Ok(engine));
        }
        for (at, (word, engine)) in SPELLINGS.iter().enumerate() {
            assert_eq!(word.to_uppercase().parse(), Ok(*engine));
            assert!(
                SPELLINGS.iter().skip(at + 1).all(|(other, _)| other != word),
                "{word}"
            );
        }
        for word in ["", "oracle", "postgres ", "postgres:", "sql"] {
            assert_eq!(word.parse::<Engine>(), Err(UnknownEngine), "{word}");
        }
    }
}
