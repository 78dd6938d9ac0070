//! `muster audit`. Never changes a row.

use muster_app::audit::{self, Filter};
use muster_core::clock::Time;
use serde_json::{Value, json};

use super::{offline, owner};
use crate::cli::Audit;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Audit, json: bool) -> Result<(), Failure> {
    let Audit::List {
        owner: whose,
        event,
        since,
        until,
        limit,
    } = command;
    let time = |text: Option<String>, default: Time| match text {
        None => Ok(default),
        Some(text) => Time::parse_rfc3339(&text)
            .ok_or_else(|| Failure::usage("write a time as RFC 3339 does, such as 2000-01-02T03:04:05Z")),
    };
    let unbounded = Filter::default();
    let filter = Filter {
        event: event.unwrap_or_default(),
        since: time(since, unbounded.since)?,
        until: time(until, unbounded.until)?,
        before: unbounded.before,
        limit,
    };
    let app = offline(config).await?;
    let entries = match owner(&app, &whose).await {
        Ok(owner) => audit::list(&app.db, owner, filter).await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    app.db.close().await;
    let mut entries = entries?;
    entries.reverse();
    if json {
        let all: Vec<Value> = entries
            .iter()
            .map(|e| json!({"id": e.id.to_string(), "at": e.at.rfc3339(), "event": e.event, "actor": e.actor, "subject": e.subject, "data": e.data}))
            .collect();
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
                e.subject.clone(),
                e.data.to_string(),
            ]
        })
        .collect();
    output::table(&["ID", "AT", "EVENT", "ACTOR", "SUBJECT", "DATA"], &rows)
}
