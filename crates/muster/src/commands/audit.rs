//! `muster audit`. Never changes a row.

use muster_app::access;
use muster_app::audit::{self, Entry, Filter};
use muster_core::clock::Time;
use serde_json::{Value, json};

use super::{offline, owner};
use crate::cli::Audit;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Audit, json: bool) -> Result<(), Failure> {
    let app = match command {
        // Wrong words are refused before a database is opened.
        Audit::List { .. } => {
            let (whose, filter) = filter(command)?;
            let app = offline(config).await?;
            let done = list(&app, &whose, filter, json).await;
            app.db.close().await;
            return done;
        }
        Audit::Verify { .. } => offline(config).await?,
    };
    let done = verify(&app, command, json).await;
    app.db.close().await;
    done
}

fn filter(command: Audit) -> Result<(crate::cli::OwnerArg, Filter), Failure> {
    let Audit::List {
        owner: whose,
        event,
        agent,
        task,
        tool,
        outcome,
        since,
        until,
        limit,
    } = command
    else {
        return Err(Failure::usage("only a list is filtered"));
    };
    let time = |text: Option<String>, default: Time| match text {
        None => Ok(default),
        Some(text) => Time::parse_rfc3339(&text)
            .ok_or_else(|| Failure::usage("write a time as RFC 3339 does, such as 2000-01-02T03:04:05Z")),
    };
    if let Some(outcome) = &outcome
        && !audit::OUTCOMES.contains(&outcome.as_str())
    {
        return Err(Failure::usage(format!(
            "there is no such outcome; the outcomes of a call are {}",
            audit::OUTCOMES.join(", ")
        )));
    }
    let unbounded = Filter::default();
    let filter = Filter {
        event: event.unwrap_or_default(),
        agent: agent.unwrap_or_default(),
        task: task.unwrap_or_default(),
        tool: tool.unwrap_or_default(),
        outcome: outcome.unwrap_or_default(),
        since: time(since, unbounded.since)?,
        until: time(until, unbounded.until)?,
        before: unbounded.before,
        limit: limit.unwrap_or(i64::MAX),
    };
    Ok((whose, filter))
}

async fn list(
    app: &muster_app::App,
    whose: &crate::cli::OwnerArg,
    filter: Filter,
    json: bool,
) -> Result<(), Failure> {
    let owner = owner(app, whose).await?;
    // Calls of processes that are gone get their rows first, so that the log is whole when it is read.
    access::settle(app, owner).await?;
    let mut entries = audit::list(&app.db, owner, filter).await?;
    entries.reverse();
    for entry in entries.iter().filter(|entry| !entry.unreadable.is_empty()) {
        output::notice(&format!(
            "muster: row {} cannot be read whole ({}): somebody or a disk changed it past muster; muster audit verify goes along the log",
            entry.id,
            entry.unreadable.join(", ")
        ));
    }
    if json {
        let all: Vec<Value> = entries.iter().map(document).collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|e| {
            vec![
                e.id.to_string(),
                e.at.rfc3339(),
                e.event.clone(),
                e.actor.clone(),
                e.tool.clone().unwrap_or_else(|| e.subject.clone()),
                e.outcome.clone().unwrap_or_default(),
                data(e),
            ]
        })
        .collect();
    output::table(&["ID", "AT", "EVENT", "ACTOR", "ABOUT", "OUTCOME", "DATA"], &rows)
}

/// A row as scripts read it: the fields of a call, null where an event has none of it, and the event's own facts beside them.
fn document(entry: &Entry) -> Value {
    let of = |field: &str| entry.data.get(field).cloned().unwrap_or(Value::Null);
    let pairs = match of("pairs") {
        Value::Null => json!([]),
        pairs => pairs,
    };
    let mut row = json!({
        "id": entry.id.to_string(),
        "at": entry.at.rfc3339(),
        "event": entry.event,
        "agent": of("agent"),
        "task": of("task"),
        "tool": entry.tool,
        "pairs": pairs,
        "outcome": entry.outcome,
        "ask_id": of("ask_id"),
        "policy": of("policy"),
        "decided_by": of("decided_by"),
        "hash": entry.hash,
        "actor": entry.actor,
        "subject": entry.subject,
        "data": entry.data,
    });
    if let (Some(row), false) = (row.as_object_mut(), entry.unreadable.is_empty()) {
        row.insert("unreadable".to_owned(), json!(entry.unreadable));
    }
    row
}

/// The facts of a row, for a table.
fn data(entry: &Entry) -> String {
    if entry.unreadable.contains(&"data") {
        return audit::UNREADABLE.to_owned();
    }
    entry.data.to_string()
}

async fn verify(app: &muster_app::App, command: Audit, json: bool) -> Result<(), Failure> {
    let Audit::Verify { owner: whose } = command else {
        return Err(Failure::usage("only a whole log is verified"));
    };
    let owner = owner(app, &whose).await?;
    let found = audit::verify(&app.db, owner).await?;
    if json {
        output::document(&serde_json::to_value(&found).unwrap_or(Value::Null))?;
    } else if found.ok {
        output::line(&format!("{} rows, each follows the one before it", found.rows))?;
    }
    match (&found.first_bad, found.ok) {
        (_, true) => Ok(()),
        (Some(id), false) => {
            output::notice(&format!(
                "muster: the audit log was tampered with: row {id} does not follow the row before it. It was changed or put in, or rows before it were removed"
            ));
            Err(Failure::silent())
        }
        (None, false) => {
            output::notice("muster: the audit log was tampered with: rows at its end are missing");
            Err(Failure::silent())
        }
    }
}
