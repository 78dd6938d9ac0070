//! How what grants name is shown: one resource, one row that depends on another, one thing in full. Never prints outside text unescaped.

use std::io::BufRead as _;

use muster_app::Named;
use muster_core::Secret;
use muster_core::text::{Slug, terminal};
use serde_json::{Value, json};

use crate::output::{self, Failure};

/// A resource as every document shows it.
pub(super) fn resource(kind: &str, id: &str, name: &str) -> Value {
    json!({"kind": kind, "id": id, "name": name})
}

/// A row by id and name.
pub(super) fn named<I: std::fmt::Display>(row: &Named<I>) -> Value {
    json!({"id": row.id.to_string(), "name": row.name})
}

/// Several of them.
pub(super) fn all_named<I: std::fmt::Display>(rows: &[Named<I>]) -> Value {
    rows.iter().map(named).collect()
}

/// The same in a sentence, at most ten of them, safe for a terminal.
pub(super) fn listed<I: std::fmt::Display>(rows: &[Named<I>]) -> String {
    const MOST: usize = 10;
    let mut words: Vec<String> = rows
        .iter()
        .take(MOST)
        .map(|row| format!("{} {}", row.id, terminal(&row.name)))
        .collect();
    if rows.len() > MOST {
        words.push(format!("{} more", rows.len() - MOST));
    }
    words.join(", ")
}

/// A name of the command line's.
pub(super) fn name(text: String) -> Result<Slug, Failure> {
    Slug::parse("name", text).map_err(|error| super::field(&error))
}

/// Prints one thing, a field a line, each safe for a terminal.
pub(super) fn fields(rows: &[(&str, String)]) -> Result<(), Failure> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        output::line(format!("{name:<width$}  {}", terminal(value)).trim_end())?;
    }
    Ok(())
}

/// Prints a list: one document, or a table.
pub(super) fn list(
    json: bool,
    documents: impl FnOnce() -> Vec<Value>,
    head: &[&str],
    rows: impl FnOnce() -> Vec<Vec<String>>,
) -> Result<(), Failure> {
    if json {
        output::document(&Value::Array(documents()))
    } else {
        output::table(head, &rows())
    }
}

/// Prints what an act made: its document, or its id alone.
pub(super) fn made(json: bool, id: &str, document: impl FnOnce() -> Value) -> Result<(), Failure> {
    if json {
        output::document(&document())
    } else {
        output::line(id)
    }
}

/// Prints what an act changed: its document, or nothing.
pub(super) fn changed(json: bool, document: impl FnOnce() -> Value) -> Result<(), Failure> {
    if json {
        output::document(&document())
    } else {
        Ok(())
    }
}

/// One line of standard input, which is a secret. More than any secret has is not read.
pub(super) fn secret_line() -> Result<Secret, Failure> {
    const MOST: u64 = 64 * 1024;
    let mut line = Vec::new();
    std::io::Read::take(std::io::stdin().lock(), MOST).read_until(b'\n', &mut line)?;
    let text = String::from_utf8(line)
        .map_err(|_| Failure::usage("what stands on standard input is not UTF-8; nothing was stored"))?;
    Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
}
