//! What the audit log says about a database connection: what its owner runs there by hand, what agents ran, the last self-test. Never reaches the database.

use std::collections::HashMap;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{ConnectionId, OwnerId};
use muster_policy::{Action, Decision, Needs, Pair, Permit, Resource, ScopeKind, Standing, Target};
use muster_store::{Stored, Tx};
use serde_json::{Value, json};

use super::ops::{event, of};
use super::{DatabaseError, sql};
use crate::App;
use crate::audit;

/// What an owner looks at, or runs, on a connection of theirs.
#[derive(Debug, Clone)]
pub struct Look {
    /// What is done: `query`, `execute`, `explain`, `schemas`, `objects`, `describe` or `preview`.
    pub act: &'static str,
    /// The statement, where there is one.
    pub statement: Option<String>,
    /// What is looked at, where it is something by name: an object, or the schema whose objects are listed.
    pub of: Option<String>,
    /// Whether it may write.
    pub writes: bool,
}

/// Writes what an owner is about to run on a connection into the audit log, and gives the permit for it. No policy governs an owner. The
/// effect begins after the row is stored; where that fails it must not begin.
///
/// # Errors
/// [`DatabaseError::NotFound`], or a fault.
pub async fn by_owner(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    look: Look,
) -> Result<Permit, DatabaseError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let writes = look.writes;
                // Finds the live one, so what follows needs no other resource than this.
                note(tx, now, connection, look, None).await?;
                permit(target(connection)?, writes)
            })
        })
        .await
}

/// Writes into the audit log what an owner wanted to run and the gate stopped, with its reason.
///
/// # Errors
/// As [`by_owner`].
pub async fn stopped_by_gate(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    look: Look,
    why: String,
) -> Result<(), DatabaseError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { note(tx, now, connection, look, Some(why)).await })
        })
        .await
}

async fn note(
    tx: &mut Tx,
    now: Time,
    connection: ConnectionId,
    look: Look,
    stopped: Option<String>,
) -> Result<(), DatabaseError> {
    let named = of(tx, connection).await?;
    let mut data = json!({
        "name": named.name,
        "act": look.act,
        "write": look.writes,
        "outcome": if stopped.is_some() { "refused_gate" } else { "allowed" },
        "reason": stopped,
    });
    if let Some(statement) = &look.statement {
        audit::put_statement(&mut data, statement);
    }
    if let Some(of) = &look.of {
        audit::put_name(&mut data, named_by(look.act), of);
    }
    audit::record(tx, now, event("db.shell", connection, data)).await?;
    Ok(())
}

/// Under which word the log holds the name of what is looked at.
fn named_by(act: &str) -> &'static str {
    if act == "objects" { "schema" } else { "object" }
}

fn target(connection: ConnectionId) -> Result<Target, Fault> {
    Resource::new(ScopeKind::DbConnection, &connection.to_string())
        .and_then(Target::new)
        .map_err(|error| Fault::other(error.to_string()))
}

fn permit(target: Target, writes: bool) -> Result<Permit, DatabaseError> {
    let read = Pair::new(Action::DbRead, target.clone());
    let write = writes.then(|| Pair::new(Action::DbWrite, target));
    match muster_policy::decide(Standing::Unscoped, &Needs::new(read, write)) {
        Decision::Allow(permit) => Ok(permit),
        Decision::Ask(_) | Decision::Deny(_) => {
            Err(Fault::other("a call that no policy governs was refused by one").into())
        }
    }
}

/// One thing that a self-test tried on a live connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Which guarantee.
    pub id: String,
    /// Whether it held.
    pub ok: bool,
    /// What was tried and what came of it; partly the server's own words.
    pub detail: String,
}

/// Writes what a self-test of a connection found into the audit log, and keeps it as the connection's last.
///
/// # Errors
/// [`DatabaseError::NotFound`], or a fault.
pub async fn checked(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    found: Vec<Checked>,
) -> Result<(), DatabaseError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let named = of(tx, connection).await?;
                let guarantees: Vec<Value> = found
                    .iter()
                    .map(|one| json!({"id": one.id, "ok": one.ok, "detail": one.detail}))
                    .collect();
                let ok = found.iter().all(|one| one.ok);
                let data = json!({"name": named.name, "ok": ok, "guarantees": guarantees});
                tx.run(&sql::CHECKED, (connection, now, data.to_string())).await?;
                audit::record(tx, now, event("db.check", connection, data)).await?;
                Ok(())
            })
        })
        .await
}

/// The last self-test of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheck {
    /// When.
    pub at: Time,
    /// What it found.
    pub found: Vec<Checked>,
}

impl LastCheck {
    /// Whether something was tried and all of it holds.
    #[must_use]
    pub fn ok(&self) -> bool {
        !self.found.is_empty() && self.found.iter().all(|one| one.ok)
    }

    /// What does not hold.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter(|one| !one.ok).map(|one| one.id.as_str())
    }

    fn read(at: Time, data: &Value) -> Self {
        let text = |one: &Value, field: &str| {
            let text = one.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let all = data.get("guarantees").and_then(Value::as_array);
        Self {
            at,
            found: all
                .into_iter()
                .flatten()
                .map(|one| Checked {
                    id: text(one, "id"),
                    ok: one.get("ok").and_then(Value::as_bool).unwrap_or(false),
                    detail: text(one, "detail"),
                })
                .collect(),
        }
    }
}

/// The last self-test of each of the owner's connections that had one.
///
/// # Errors
/// A fault.
pub async fn last_checks(app: &App, owner: OwnerId) -> Result<HashMap<ConnectionId, LastCheck>, Fault> {
    let rows: Vec<(i64, i64, String)> = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::CHECKS, ()).await })
        })
        .await?;
    // One that cannot be read is none; a page must not end over it.
    let read = |(id, at, text): (i64, i64, String)| {
        let data = serde_json::from_str(&text).ok()?;
        Some((
            ConnectionId::new(id),
            LastCheck::read(Time::from_micros(at), &data),
        ))
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// A statement that was sent to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// When.
    pub at: Time,
    /// The label of the agent's token; `None` for the owner.
    pub agent: Option<String>,
    /// The tool, or what the owner did.
    pub by: String,
    /// What became of the call, as the log words it.
    pub outcome: String,
    /// The statement, or the name of what was looked at, as the log holds it, at most 2,000 characters; empty where neither was given. Outside text.
    pub statement: String,
    /// Whether the log holds more of it.
    pub cut: bool,
}

/// Most characters of a statement; the audit log has the rest.
const STATEMENT: usize = 2_000;
/// What stands before a row's statement.
const STATEMENT_FIELD: &str = "\"statement\":\"";

/// A row as far as it is read: its facts from their beginning on, enough of them for [`STATEMENT`] characters however these are spelled.
#[derive(sqlx::FromRow)]
struct Row {
    at: i64,
    tool: Option<Stored>,
    outcome: Option<Stored>,
    facts: Stored,
}

/// What was last sent to a connection, newest first, at most `most`.
///
/// # Errors
/// A fault.
pub async fn last_statements(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    most: u32,
) -> Result<Vec<Ran>, Fault> {
    let subject = audit::Subject::Connection(connection).to_string();
    // A resource's id and kind follow one another in either order. No text that is stored as a value can hold them so: its quotes are escaped.
    let kind = format!("\"kind\":\"{}\"", ScopeKind::DbConnection.as_str());
    let id = format!("\"id\":\"{connection}\"");
    let named = (format!("{kind},{id}"), format!("{id},{kind}"));
    let rows: Vec<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move {
                tx.all(&sql::STATEMENTS_OF, (subject, named.0, named.1, i64::from(most)))
                    .await
            })
        })
        .await?;
    Ok(rows.iter().map(ran).collect())
}

fn ran(row: &Row) -> Ran {
    let (facts, statement) = read(row.facts.text().unwrap_or_default());
    let text = |place: &str| facts.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let word = |stored: &Option<Stored>| {
        let stored = stored.as_ref()?;
        Some(stored.text().unwrap_or(audit::UNREADABLE).to_owned())
    };
    let about = || text("/object").or_else(|| text("/schema"));
    let (statement, cut) = statement.unwrap_or_else(|| (about().unwrap_or_default(), false));
    let shown: String = statement.chars().take(STATEMENT).collect();
    Ran {
        at: Time::from_micros(row.at),
        agent: text("/agent/label"),
        outcome: word(&row.outcome)
            .or_else(|| text("/outcome"))
            .unwrap_or_default(),
        by: word(&row.tool).or_else(|| text("/act")).unwrap_or_default(),
        cut: cut || shown.len() < statement.len(),
        statement: shown,
    }
}

/// The facts before a row's statement, and the statement with whether it goes on where `facts` ends. A row without one is short enough to be
/// read whole; what cannot be read is left out.
fn read(facts: &str) -> (Value, Option<(String, bool)>) {
    let object = |text: &str| serde_json::from_str(text).unwrap_or_default();
    let Some((before, rest)) = facts.split_once(STATEMENT_FIELD) else {
        return (object(facts), None);
    };
    let before = object(&format!("{}}}", before.trim_end_matches(',')));
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let mut spelled = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
    loop {
        if let Ok(statement) = serde_json::from_str(&format!("\"{spelled}\"")) {
            return (before, Some((statement, end.is_none())));
        }
        // The end of what was read may lie inside a character's spelling.
        let mut shorter = spelled.chars();
        if shorter.next_back().is_none() {
            return (before, None);
        }
        spelled = shorter.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_from_the_beginning_of_its_row_wherever_that_ends() {
        let statement = "\\ \" \u{1} \u{e9} \u{1f408} \n\\";
        let whole = format!(
            r#"{{"agent":{{"label":"a \"statement\":\" b"}},"statement":{},"statement_cut":{{"bytes":9}}}}"#,
            json!(statement)
        );
        let end = whole.find(r#","statement_cut""#).unwrap();
        let begin = whole.rfind(STATEMENT_FIELD).unwrap() + STATEMENT_FIELD.len();
        for (at, _) in whole.char_indices().skip_while(|(at, _)| *at < begin) {
            let (before, found) = read(whole.get(..at).unwrap());
            assert_eq!(
                before,
                json!({"agent": {"label": "a \"statement\":\" b"}}),
                "{at}"
            );
            let (found, goes_on) = found.unwrap();
            assert!(statement.starts_with(&found), "{at} {found}");
            assert_eq!((goes_on, found == statement), (at < end, at + 1 >= end), "{at}");
        }
        assert_eq!(read(r#"{"object":"cats"}"#), (json!({"object": "cats"}), None));
        for broken in ["", "no JSON", r#"{"object":"#] {
            assert_eq!(read(broken), (Value::Null, None));
        }
    }
}
