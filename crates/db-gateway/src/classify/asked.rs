//! What a connection asks PostgreSQL about a statement of which the class alone cannot be sure. Never judges a statement.

use std::collections::BTreeSet;

use super::attribute;
use super::lex::{Dialect, Kind, lex};
use super::postgres::{arguments, reads, written_out};
use super::postgres_words::{GRAMMAR, RUN_A_TEXT};
use super::sql::Tokens;

/// Statements in texts in texts are refused before they are this deep.
const DEEPEST: u8 = 3;

/// Names that may be those of functions which somebody made, in order and each once. As many as a statement has, and of calls no more
/// than there are functions that are known to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Behind a dot: calls where there is no such column.
    pub(crate) dots: Vec<String>,
    /// Those of them that are not known to only read.
    pub(crate) unknown: Vec<String>,
    /// Those of the unknown that stand behind a value, where no table says that there is such a column.
    pub(crate) fields: Vec<String>,
    /// Called with a parenthesis, less those that say `pg_catalog`: another function of the name may be meant.
    pub(crate) calls: Vec<String>,
    /// Whether one of the calls names its schema.
    pub(crate) in_schemas: bool,
}

/// What is to be asked about a statement of PostgreSQL, and about those that stand in its texts and are run.
pub(crate) fn asked(statement: &str) -> Asked {
    let mut found = Found::default();
    found.collect(statement, 0);
    let listed = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
    let dots = listed(found.dots);
    Asked {
        unknown: dots.iter().filter(|name| !reads(name)).cloned().collect(),
        dots,
        fields: listed(found.fields),
        calls: listed(found.calls),
        in_schemas: found.in_schemas,
    }
}

#[derive(Default)]
struct Found {
    dots: BTreeSet<String>,
    fields: BTreeSet<String>,
    calls: BTreeSet<String>,
    in_schemas: bool,
}

impl Found {
    fn collect(&mut self, statement: &str, depth: u8) {
        let Ok(lexed) = lex(Dialect::Postgres, statement) else {
            return;
        };
        let Ok(tokens) = Tokens::single(&lexed.tokens) else {
            return;
        };
        self.dots.extend(attribute::behind_dots(tokens));
        let fields = attribute::dotted(tokens)
            .into_iter()
            .filter(|dotted| dotted.of_value);
        self.fields.extend(
            fields
                .map(|dotted| dotted.name.into_owned())
                .filter(|name| !reads(name)),
        );
        for call in tokens.calls(&GRAMMAR) {
            let name = call.name.as_ref();
            if RUN_A_TEXT.contains(&name) && depth < DEEPEST {
                for argument in arguments(tokens, call.open) {
                    if let [text] = argument
                        && text.kind == Kind::Text
                        && let Some(inner) = written_out(text.text)
                    {
                        self.collect(&inner, depth + 1);
                    }
                }
            }
            match call.qualifier.as_deref() {
                Some("pg_catalog") => continue,
                Some(_) => self.in_schemas = true,
                None => {}
            }
            if !self.calls.contains(name) {
                self.calls.insert(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(statement: &str) -> (Vec<String>, Vec<String>) {
        let asked = asked(statement);
        (asked.dots, asked.calls)
    }

    #[test]
    fn what_somebody_may_have_made_is_asked_about_and_nothing_else() {
        let none: [&str; 0] = [];
        let (dots, calls) = of("SELECT t.id, lower(v), Lower(v), \"lower\"(v), count(*) FROM t");
        assert_eq!(
            (dots, calls),
            (
                vec!["id".to_owned()],
                vec!["count".to_owned(), "lower".to_owned()]
            )
        );
        let (dots, calls) =
            of("SELECT pg_catalog.lower(v), v::varchar(3), 'upper(x)' FROM t AS a(v) WHERE id IN (1)");
        assert_eq!(
            (dots.as_slice(), calls.as_slice()),
            (&none.map(str::to_owned)[..], &none.map(str::to_owned)[..])
        );
        assert_eq!(of("SELECT extensions.digest(v, 'md5') FROM t").1, ["digest"]);
        assert!(
            asked("SELECT extensions.digest(v, 'md5')").in_schemas && !asked("SELECT lower(v)").in_schemas
        );
        let known = asked("SELECT t.id, t.length, (c).city, (c).lower, (t).v FROM t");
        assert_eq!(known.dots, ["city", "id", "length", "lower", "v"]);
        assert_eq!(known.unknown, ["city", "id", "v"]);
        assert_eq!(known.fields, ["city"]);
    }

    #[test]
    fn a_statement_that_stands_in_a_text_is_asked_about_as_well() {
        let (dots, calls) = of(
            "SELECT * FROM crosstab('SELECT t.aut, upper(''x'') FROM t', $$ SELECT lower('y') $$) AS c(a text)",
        );
        assert_eq!(dots, ["aut"]);
        assert_eq!(calls, ["crosstab", "lower", "upper"]);
    }
}
