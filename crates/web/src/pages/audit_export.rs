//! `/audit/export`: the rows that the audit page shows, as JSON lines, however many there are. Never holds more than a thousand of them at once.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use muster_app::App;
use muster_app::audit::{self, Entry, Filter};
use muster_core::ids::OwnerId;
use serde_json::{Value, json};

use super::audit::Which;
use super::caller::Person;
use super::fields::Asked;
use crate::Web;

/// Rows that are read at a time.
const CHUNK: i64 = 1_000;

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    let filter = which.filter(CHUNK).map_err(|nothing| nothing.refusal(&headers))?;
    let kind = (CONTENT_TYPE, "application/x-ndjson");
    let name = (CONTENT_DISPOSITION, "attachment; filename=\"muster-audit.jsonl\"");
    let body = Body::from_stream(chunks(web.app, caller.owner, filter));
    Ok(([kind, name], body).into_response())
}

/// The rows, the newest first. A fault breaks the download off, so that a part is never taken for the whole.
fn chunks(
    app: App,
    owner: OwnerId,
    filter: Filter,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
    futures::stream::unfold(Some(filter), move |filter| {
        let app = app.clone();
        async move {
            let mut filter = filter?;
            match audit::list(&app.db, owner, filter.clone()).await {
                Err(fault) => {
                    tracing::error!(error = %fault.chain(), "an export of the audit log was broken off");
                    Some((Err(std::io::Error::other(fault.sentence())), None))
                }
                Ok(entries) => {
                    filter.before = entries.last()?.id.get();
                    let lines: String = entries.iter().map(line).collect();
                    Some((Ok(Bytes::from(lines)), Some(filter)))
                }
            }
        }
    })
}

/// A row as one line, with the fields that `muster audit list --json` prints.
fn line(entry: &Entry) -> String {
    let fact = |name: &str| entry.data.get(name).cloned().unwrap_or(Value::Null);
    let pairs = match fact("pairs") {
        Value::Null => json!([]),
        pairs => pairs,
    };
    let mut row = json!({
        "id": entry.id.to_string(),
        "at": entry.at.rfc3339(),
        "event": entry.event,
        "agent": fact("agent"),
        "task": fact("task"),
        "tool": entry.tool,
        "pairs": pairs,
        "outcome": entry.outcome,
        "ask_id": fact("ask_id"),
        "policy": fact("policy"),
        "decided_by": fact("decided_by"),
        "hash": entry.hash,
        "actor": entry.actor,
        "subject": entry.subject,
        "data": entry.data,
    });
    if let (Some(row), false) = (row.as_object_mut(), entry.unreadable.is_empty()) {
        row.insert("unreadable".to_owned(), json!(entry.unreadable));
    }
    format!("{row}\n")
}
