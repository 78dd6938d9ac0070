//! A statement as a constant: its text for each engine and whose rows it may touch. Never built from data.

/// Whose rows a statement touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One owner's rows: `$1` is that owner and is bound by the transaction, never by the caller.
    Owner,
    /// Rows of any owner: only a system transaction, which names its reason, may run it.
    System,
}

/// A constant statement. Placeholders are `$1..$n` on both engines.
#[derive(Debug)]
pub struct Sql {
    /// The statement's name in the catalogue, unique within its slice.
    pub name: &'static str,
    /// Whose rows.
    pub scope: Scope,
    /// The text SQLite runs.
    pub sqlite: &'static str,
    /// The text Postgres runs.
    pub postgres: &'static str,
}

impl Sql {
    /// Whether the two engines need different texts.
    pub fn is_pair(&self) -> bool {
        self.sqlite != self.postgres
    }
}

/// One text for both engines, on one owner's rows (`$1` is the owner).
pub const fn owned(name: &'static str, text: &'static str) -> Sql {
    Sql { name, scope: Scope::Owner, sqlite: text, postgres: text }
}

/// Two texts, on one owner's rows. The list of pairs is a snapshot test: keep it short.
pub const fn owned_pair(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Sql {
    Sql { name, scope: Scope::Owner, sqlite, postgres }
}

/// One text for both engines, across owners.
pub const fn system(name: &'static str, text: &'static str) -> Sql {
    Sql { name, scope: Scope::System, sqlite: text, postgres: text }
}

/// Two texts, across owners.
pub const fn system_pair(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Sql {
    Sql { name, scope: Scope::System, sqlite, postgres }
}
