//! What a database has in it: schemas, objects, their columns, keys and indexes. Never reads rows.

use serde::Serialize;

use crate::answer::{Cell, Rows};
use crate::error::Error;
use crate::limits::Limits;

/// A schema; in MySQL a database, in MongoDB the connection's database, in Redis a numbered database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// Its name.
    pub name: String,
}

/// A list that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed<T> {
    /// What was found, in order.
    pub all: Vec<T>,
    /// Whether there was more than the limits of the call allow.
    pub truncated: bool,
}

impl<T> Listed<T> {
    /// All that there is.
    pub(crate) const fn whole(all: Vec<T>) -> Self {
        Self {
            all,
            truncated: false,
        }
    }
}

/// A table, a view or their like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Object {
    /// The schema it is in, where the engine has any.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// `table`, `view`, `materialized_view`, `foreign_table`, `sequence`, `collection`, `key_type:N`…
    pub kind: String,
    /// Its size in bytes, where the engine knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What its owner wrote about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type in the database's own words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it may hold no value.
    pub nullable: bool,
    /// What it holds when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What its owner wrote about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// An index or a key, in the database's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// `primary`, `unique`, `foreign`, `check`, `index`…
    pub kind: String,
    /// What it says.
    pub definition: String,
}

/// What an object is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The object itself.
    pub object: Object,
    /// Its columns in order; in Redis and MongoDB what was found in a sample.
    pub columns: Vec<ColumnInfo>,
    /// Its keys and checks.
    pub keys: Vec<Rule>,
    /// Its indexes.
    pub indexes: Vec<Rule>,
}

/// What the account of an address may do beyond reading.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Wide {
    /// Whether it may do more than read.
    pub wide: bool,
    /// What more, one sentence each.
    pub reasons: Vec<String>,
    /// What an administrator runs to make an account that only reads. `CHANGE_ME` stands for its password.
    pub statements: Vec<String>,
}

/// One thing that the gateway promises, tried on the live connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarantee {
    /// Which.
    pub id: &'static str,
    /// Whether it held.
    pub ok: bool,
    /// What was tried, what came of it, and what to do where it does not hold.
    pub detail: String,
}

/// What to do while a guarantee does not hold that no address and no account mends.
const MEANWHILE: &str = "Grant nobody this connection before that is mended.";

impl Guarantee {
    pub(crate) fn held(id: &'static str, detail: impl Into<String>) -> Self {
        Self {
            id,
            ok: true,
            detail: detail.into(),
        }
    }

    pub(crate) fn broken(id: &'static str, detail: impl Into<String>) -> Self {
        Self {
            id,
            ok: false,
            detail: detail.into(),
        }
    }

    /// Something that must be stopped: `held` says that it was, `broken` what happened instead.
    pub(crate) fn of(id: &'static str, ok: bool, held: &str, broken: &str) -> Self {
        if ok {
            Self::held(id, held)
        } else {
            Self::broken(id, format!("{broken} {MEANWHILE}"))
        }
    }

    /// Something that must be refused, tried on the live connection. `what` is how a person calls it, `answer` what came back, `right` what should.
    pub(crate) fn refused(id: &'static str, what: &str, ok: bool, answer: &str, right: &str) -> Self {
        Self::of(
            id,
            ok,
            &format!("Tried {what}: it was refused ({answer}), as it must be."),
            &format!("Tried {what}: the answer was {answer}, where it must be refused ({right})."),
        )
    }

    /// Whether the server let muster in, and who it says it is.
    pub(crate) fn reached(version: &Result<String, Error>) -> Self {
        let id = "reachable";
        match version {
            Ok(version) => Self::held(id, format!("Reached it: {version}.")),
            Err(error) => Self::not_reached(error),
        }
    }

    /// The server was not reached, so nothing could be tried.
    pub(crate) fn not_reached(error: &Error) -> Self {
        let then = match error {
            Error::NotLetIn { .. } => {
                "Nothing else could be tried. Let the account in on the server, or remove the connection and add it with a name, a password and a database that the server takes."
            }
            _ => {
                "Nothing else could be tried. Start the server, or remove the connection and add it with the right address."
            }
        };
        Self::broken("reachable", format!("{error} {then}"))
    }

    /// Whether the account may only read.
    pub(crate) fn account(found: Result<Wide, Error>) -> Self {
        let id = "narrow_account";
        match found {
            Ok(found) if found.wide => Self::broken(
                id,
                format!(
                    "Asked the server what the account may do: more than read. {} Only the gate and, where the engine has one, its read-only mode stop a write then. Add the database once more, under another name and without --accept-wide-account: muster prints the statements that make an account which only reads.",
                    found.reasons.join(" ")
                ),
            ),
            Ok(_) => Self::held(id, "Asked the server what the account may do: it may only read."),
            Err(error) => Self::broken(
                id,
                format!(
                    "Asked the server what the account may do, and was not told. {error} Try it again; what is not known counts as more than reading."
                ),
            ),
        }
    }
}

/// Room for a whole catalogue, however few rows of a table are wanted.
pub(crate) fn many(limits: Limits) -> Limits {
    Limits {
        rows: limits.rows.max(10_000),
        ..limits
    }
}

/// What a cell of a catalogue says.
pub(crate) fn text(cell: Option<&Cell>) -> Option<String> {
    match cell? {
        Cell::Text(text) => Some(text.clone()),
        Cell::Int(number) => Some(number.to_string()),
        Cell::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// The first cell of the first row.
pub(crate) fn first(rows: &Rows) -> Option<String> {
    rows.rows.first().and_then(|row| text(row.first()))
}

/// A schema for each row that has its name.
pub(crate) fn schemas(rows: &Rows) -> Listed<Schema> {
    let named = |row: &Vec<Cell>| text(row.first()).map(|name| Schema { name });
    Listed {
        all: rows.rows.iter().filter_map(named).collect(),
        truncated: rows.truncated,
    }
}

/// A column for each row of name, type, whether it may be null as `nullable` reads it, default and comment.
pub(crate) fn columns(rows: &Rows, nullable: fn(Option<&Cell>) -> bool) -> Vec<ColumnInfo> {
    let column = |row: &Vec<Cell>| ColumnInfo {
        name: text(row.first()).unwrap_or_default(),
        kind: text(row.get(1)).unwrap_or_default(),
        nullable: nullable(row.get(2)),
        default: text(row.get(3)),
        comment: text(row.get(4)).filter(|comment| !comment.is_empty()),
    };
    rows.rows.iter().map(column).collect()
}

/// A rule for each row of name, kind and definition.
pub(crate) fn rules(rows: &Rows) -> Vec<Rule> {
    let rule = |row: &Vec<Cell>| Rule {
        name: text(row.first()).unwrap_or_default(),
        kind: text(row.get(1)).unwrap_or_default(),
        definition: text(row.get(2)).unwrap_or_default(),
    };
    rows.rows.iter().map(rule).collect()
}

/// `schema.name`, either part in double quotes where it has a dot in it.
pub(crate) fn split_name(object: &str) -> Result<(Option<String>, String), Error> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut quoted = false;
    let mut letters = object.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                push(&mut parts, '"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            other => push(&mut parts, other),
        }
    }
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next(), quoted) {
        (Some(name), None, None, false) if !name.is_empty() => Ok((None, name)),
        (Some(schema), Some(name), None, false) if !schema.is_empty() && !name.is_empty() => {
            Ok((Some(schema), name))
        }
        _ => Err(Error::Invalid(
            "An object is named NAME or SCHEMA.NAME".to_owned(),
        )),
    }
}

fn push(parts: &mut [String], letter: char) {
    if let Some(part) = parts.last_mut() {
        part.push(letter);
    }
}

pub(crate) fn not_found(object: &str) -> Error {
    Error::NotFound {
        what: crate::classify::shown(object),
    }
}
