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
    /// How many arguments it takes, the owner's `$1` included: the highest placeholder of its texts.
    pub parameters: usize,
}

impl Sql {
    /// Whether the two engines need different texts.
    pub fn is_pair(&self) -> bool {
        self.sqlite != self.postgres
    }
}

/// One text for both engines, on one owner's rows (`$1` is the owner).
pub const fn owned(name: &'static str, text: &'static str) -> Sql {
    statement(name, Scope::Owner, text, text)
}

/// Two texts, on one owner's rows. The list of pairs is a snapshot test: keep it short.
pub const fn owned_pair(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Sql {
    statement(name, Scope::Owner, sqlite, postgres)
}

/// One text for both engines, across owners.
pub const fn system(name: &'static str, text: &'static str) -> Sql {
    statement(name, Scope::System, text, text)
}

/// Two texts, across owners.
pub const fn system_pair(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Sql {
    statement(name, Scope::System, sqlite, postgres)
}

const fn statement(name: &'static str, scope: Scope, sqlite: &'static str, postgres: &'static str) -> Sql {
    let (one, other) = (highest_placeholder(sqlite), highest_placeholder(postgres));
    Sql {
        name,
        scope,
        sqlite,
        postgres,
        parameters: if one > other { one } else { other },
    }
}

/// The number of the highest `$n`. SQLite takes a missing argument for NULL, so the count has to be known on this side.
const fn highest_placeholder(text: &str) -> usize {
    let mut rest = text.as_bytes();
    let (mut highest, mut number, mut inside) = (0, 0, false);
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'$' {
            (number, inside) = (0, true);
        } else if inside && byte.is_ascii_digit() {
            number = number * 10 + (byte - b'0') as usize;
            if number > highest {
                highest = number;
            }
        } else {
            inside = false;
        }
        rest = tail;
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_placeholder_is_the_number_of_arguments() {
        for (text, count) in [
            ("SELECT 1", 0),
            ("a = $1", 1),
            ("VALUES ($1, $2, $2)", 2),
            ("($12,$3)", 12),
            ("cost $ 5", 0),
        ] {
            assert_eq!(system("test.one", text).parameters, count, "{text}");
        }
        assert_eq!(owned_pair("test.pair", "$1", "$1 $2").parameters, 2);
    }
}
