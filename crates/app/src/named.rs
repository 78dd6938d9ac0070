//! How a person names a row: by its id, or by its name. Never takes one text for both.

use muster_core::Fault;

/// What a look-up asks for: the id that the word spells, or else the name that it is.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// The id; 0, which no row has, for a word that is none.
    pub(crate) id: i64,
    /// The name; empty, which no row has, for a word that is an id.
    pub(crate) name: String,
}

impl Word {
    /// The row with this id.
    pub(crate) const fn of_id(id: i64) -> Self {
        Self {
            id,
            name: String::new(),
        }
    }

    /// Reads a word. No name consists of digits alone, so none is an id as well; an id is spelled in one way only.
    pub(crate) fn of(text: &str) -> Self {
        let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        match text.parse::<i64>() {
            Ok(id) if digits => Self::of_id(id),
            // Postgres takes no NUL, and no name has one.
            _ if text.contains('\0') => Self::of_id(0),
            _ => Self {
                id: 0,
                name: text.to_owned(),
            },
        }
    }
}

/// A row that is referred to: its id, and the name it has, or had last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<I> {
    /// Its id.
    pub id: I,
    /// Its name; a task's is its title, which is outside text.
    pub name: String,
}

/// Whether the unique index over the names of a table's live rows is what refused a row, as each engine names it.
pub(crate) fn is_taken(fault: &Fault, table: &str) -> bool {
    fault.constraint().is_some_and(|constraint| {
        constraint.strip_suffix("_live_name") == Some(table)
            || constraint == format!("{table}.owner_id, {table}.name")
    })
}

/// `one` or `many` after its number, for a sentence.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_an_id_or_a_name_and_never_both() {
        for (text, id, name) in [
            ("7", 7, ""),
            ("staging", 0, "staging"),
            ("7a", 0, "7a"),
            ("007", 0, "007"),
            ("0", 0, "0"),
            ("-7", 0, "-7"),
            ("+7", 0, "+7"),
            ("9223372036854775807", i64::MAX, ""),
            ("9223372036854775808", 0, "9223372036854775808"),
            ("", 0, ""),
            ("a\0b", 0, ""),
        ] {
            let word = Word::of(text);
            assert_eq!((word.id, word.name.as_str()), (id, name), "{text:?}");
        }
    }

    #[test]
    fn a_number_stands_before_its_noun() {
        assert_eq!(counted(1, "task", "tasks"), "1 task");
        assert_eq!(counted(2, "task", "tasks"), "2 tasks");
    }
}
