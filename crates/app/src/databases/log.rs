//! What the audit log says about a database connection: what its owner runs there by hand, what agents ran, the last self-test. Never reaches the database.

use std::collections::HashMap;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{ConnectionId, OwnerId};
use muster_policy::{Action, Decision, Needs, Pair, Permit, Resource, ScopeKind, Standing, Target};
use muster_store::Tx;
use serde_json::{Value, json};

use super::ops::{event, of};
use super::{DatabaseError, sql};
use crate::App;
use crate::audit::{self, Entry, Filter};

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

/// How many rows of a kind are looked through for those of one connection.
const LOOKED_THROUGH: i64 = 500;

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

fn of_event(name: &str) -> Filter {
    Filter {
        event: name.to_owned(),
        limit: LOOKED_THROUGH,
        ..Filter::default()
    }
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
    /// The statement, or the name of what was looked at, as the log holds it; empty where neither was given. Outside text.
    pub statement: String,
}

/// The tools that reach a database.
const TOOLS: [&str; 7] = [
    "muster_db_query",
    "muster_db_execute",
    "muster_db_explain",
    "muster_db_schemas",
    "muster_db_objects",
    "muster_db_describe",
    "muster_db_preview",
];

/// What was last sent to a connection, newest first, at most `most`: out of the newest 500 calls of each tool, and of the owner's own.
///
/// # Errors
/// A fault.
pub async fn last_statements(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    most: usize,
) -> Result<Vec<Ran>, Fault> {
    let mut rows = audit::list(&app.db, owner, of_event("db.shell")).await?;
    for tool in TOOLS {
        let filter = Filter {
            tool: tool.to_owned(),
            limit: LOOKED_THROUGH,
            ..Filter::default()
        };
        rows.extend(audit::list(&app.db, owner, filter).await?);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    let subject = audit::Subject::Connection(connection).to_string();
    let found = rows.into_iter().filter(|row| names(row, &subject, connection));
    Ok(found.map(ran).take(most).collect())
}

/// Whether a row is about the connection: by its subject, or by the resource of one of its pairs.
fn names(row: &Entry, subject: &str, connection: ConnectionId) -> bool {
    let pairs = row.data.get("pairs").and_then(Value::as_array);
    let id = connection.to_string();
    row.subject == subject
        || pairs.into_iter().flatten().any(|pair| {
            let of = |field| pair.pointer(field).and_then(Value::as_str);
            of("/resource/kind") == Some(ScopeKind::DbConnection.as_str()) && of("/resource/id") == Some(&id)
        })
}

fn ran(row: Entry) -> Ran {
    let text = |place: &str| row.data.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let about = || text("/object").or_else(|| text("/schema"));
    Ran {
        statement: text("/statement").or_else(about).unwrap_or_default(),
        agent: text("/agent/label"),
        outcome: row
            .outcome
            .clone()
            .or_else(|| text("/outcome"))
            .unwrap_or_default(),
        by: row.tool.clone().or_else(|| text("/act")).unwrap_or_default(),
        at: row.at,
    }
}
