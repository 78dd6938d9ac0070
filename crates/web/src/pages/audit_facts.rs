//! What a row of the audit log says of its act, in words. Never leaves anything out: what is not told whole stands beside it as it is stored.

use serde_json::{Map, Value};

use super::view::{lines, one_line};

/// Most characters of one fact in a row.
const FACT: usize = 1_000;
/// Most characters of a row as it is stored; the export has all of it.
const STORED: usize = 16_000;
/// Things of a list that are told one by one.
const NAMED: usize = 8;
/// Things in things that are told.
const DEEP: u8 = 3;

/// A row's data.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// By name, each readable.
    pub(super) told: Vec<(String, String)>,
    /// All of it as it is stored, where that is more than names and words.
    pub(super) stored: Option<String>,
}

impl Facts {
    pub(super) fn of(data: &Value) -> Self {
        let told = match data {
            Value::Null => Vec::new(),
            Value::Object(facts) => facts.iter().flat_map(|(name, value)| told(name, value)).collect(),
            other => vec![("data".to_owned(), shortened(words(other, 0)))],
        };
        let nested = |value: &Value| value.is_object() || value.is_array();
        let stored = match data {
            Value::Object(facts) => facts.values().any(nested),
            other => nested(other),
        };
        Self {
            told,
            stored: stored.then(|| as_stored(data)),
        }
    }
}

fn as_stored(data: &Value) -> String {
    // Every key is a text, so this is JSON always.
    let text = lines(&serde_json::to_string_pretty(data).unwrap_or_default());
    cut(text, STORED)
}

fn told(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Array(tried) if name == "guarantees" => tries(tried),
        other => vec![(one_line(name), shortened(words(other, 0)))],
    }
}

/// A self-test: which guarantees hold and which do not.
fn tries(tried: &[Value]) -> Vec<(String, String)> {
    let of = |holds: bool| {
        let ids: Vec<String> = tried
            .iter()
            .filter(|one| (one.get("ok") == Some(&Value::Bool(true))) == holds)
            .map(|one| one_line(one.get("id").and_then(Value::as_str).unwrap_or("?")))
            .collect();
        ids.join(", ")
    };
    [("fails", of(false)), ("holds", of(true))]
        .into_iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(name, ids)| (name.to_owned(), shortened(ids)))
        .collect()
}

fn words(value: &Value, depth: u8) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => one_line(text),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Object(of) if of.is_empty() => "none".to_owned(),
        _ if depth == DEEP => "…".to_owned(),
        Value::Array(all) => {
            let plain = all.iter().all(|one| !one.is_object() && !one.is_array());
            let some: Vec<String> = all.iter().take(NAMED).map(|one| words(one, depth + 1)).collect();
            let more = all.len().saturating_sub(NAMED);
            let rest = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("{}{rest}", some.join(if plain { ", " } else { "; " }))
        }
        Value::Object(of) => thing(of).unwrap_or_else(|| {
            let all = of
                .iter()
                .map(|(name, value)| format!("{} {}", one_line(name), words(value, depth + 1)));
            all.collect::<Vec<_>>().join(", ")
        }),
    }
}

/// What has an id or a kind is called by its name; nothing of what has anything else besides.
fn thing(of: &Map<String, Value>) -> Option<String> {
    let known = ["kind", "id", "name", "title", "label", "revision"];
    if of.keys().any(|key| !known.contains(&key.as_str()))
        || !["kind", "id"].iter().any(|key| of.contains_key(*key))
    {
        return None;
    }
    let text = |key: &str| match of.get(key) {
        Some(Value::String(text)) => Some(one_line(text)),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let name = ["name", "title", "label"].iter().find_map(|key| text(key));
    let id = text("id");
    let mut out: Vec<String> = text("kind")
        .into_iter()
        .chain(name.clone().or_else(|| id.clone()))
        .collect();
    if let Some(id) = id.filter(|id| name.as_ref().is_some_and(|name| name != id)) {
        out.push(format!("({id})"));
    }
    let revision = text("revision").map_or_else(String::new, |revision| format!(", revision {revision}"));
    Some(format!("{}{revision}", out.join(" ")))
}

/// The beginning of a long text, for a row; the export has all of it.
pub(super) fn shortened(text: String) -> String {
    cut(text, FACT)
}

fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(data: &Value) -> (Vec<String>, bool) {
        let facts = Facts::of(data);
        let told = facts.told.iter().map(|(name, value)| format!("{name}: {value}"));
        (told.collect(), facts.stored.is_some())
    }

    #[test]
    fn a_self_test_is_told_by_what_fails_and_what_holds() {
        let data = json!({"name": "staging", "ok": false, "guarantees": [
            {"id": "reachable", "ok": true, "detail": "PostgreSQL 15"},
            {"id": "no_write", "ok": true, "detail": "x"},
            {"id": "narrow_account", "ok": false, "detail": "<b>may write</b>"},
        ]});
        let (told, stored) = of(&data);
        assert_eq!(
            told,
            [
                "name: staging",
                "ok: no",
                "fails: narrow_account",
                "holds: reachable, no_write"
            ]
        );
        assert!(stored);
        let whole = Facts::of(&data).stored.unwrap();
        assert!(
            whole.contains("may write") && whole.lines().count() > 10,
            "{whole}"
        );
    }

    #[test]
    fn things_are_called_by_their_names_and_nothing_is_told_as_json() {
        let (told, stored) = of(&json!({
            "policy": {"id": "5", "name": "careful", "revision": 7},
            "scope": {"kind": "db_connection", "id": "9", "name": "staging"},
            "everything": {"kind": "any"},
            "project": "3",
            "before": null,
            "dependents": {"tasks": [{"id": "4", "name": "Tidy up"}], "forks": []},
            "triples": [["db_read", "any", "allow"]],
        }));
        assert_eq!(
            told,
            [
                "policy: careful (5), revision 7",
                "scope: db_connection staging (9)",
                "everything: any",
                "project: 3",
                "before: none",
                "dependents: tasks Tidy up (4), forks none",
                "triples: db_read, any, allow",
            ]
        );
        assert!(stored);
        assert!(
            !of(&json!({"outcome": "delivered", "attempt": 2})).1,
            "all of it is told"
        );
    }

    #[test]
    fn nothing_of_a_row_is_out_of_sight_or_without_end() {
        let deep = (0..100).fold(json!("\u{202e}"), |inner, _| json!([inner]));
        let many: Vec<Value> = (0..50)
            .map(|n| json!({"n": n, "text": "x".repeat(500)}))
            .collect();
        let facts = Facts::of(&json!({"\u{202e}": deep, "many": many}));
        let all: String = facts
            .told
            .iter()
            .map(|(name, value)| format!("{name}{value}"))
            .collect();
        let stored = facts.stored.unwrap();
        assert!(!all.contains('\u{202e}') && !stored.contains('\u{202e}'));
        assert!(all.chars().count() < 3 * FACT && stored.chars().count() <= STORED + 1);
        assert!(all.contains("…"), "{all}");
    }
}
