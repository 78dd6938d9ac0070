//! `/audit`: what happened, newest first. Never changes a row.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::audit::{self, Entry, Filter};
use muster_core::clock::Time;
use muster_core::ids::AuditId;
use serde::Deserialize;
use serde_json::Value;

use super::caller::Person;
use super::fields::Asked;
use super::refuse;
use super::view::{self, Here, PAGE, Shell, When, one_line, query_value};
use crate::Web;

/// The events that the filter suggests; any other may be typed.
const EVENTS: [&str; 26] = [
    "chief.removed",
    "chief.set",
    "owner.added",
    "owner.confirmed",
    "owner.disabled",
    "owner.enabled",
    "owner.signed_in",
    "owner.signed_out",
    "owner.signed_out_everywhere",
    "passkey.registered",
    "passkey.removed",
    "plugin.created",
    "plugin.delivered",
    "plugin.draft.approved",
    "plugin.draft.claimed",
    "plugin.draft.expired",
    "plugin.draft.failed",
    "plugin.draft.filed",
    "plugin.draft.rejected",
    "plugin.draft.sent",
    "plugin.draft.superseded",
    "plugin.draft.unconfirmed",
    "plugin.retried",
    "plugin.revoked",
    "token.created",
    "token.revoked",
];
/// Longest event name that is looked for.
const EVENT_LIMIT: usize = 100;

#[derive(Template)]
#[template(path = "audit.html")]
pub(super) struct AuditPage {
    shell: Shell,
    event: String,
    events: &'static [&'static str],
    rows: Vec<RowView>,
    /// The address of the older rows.
    older: Option<String>,
}

#[derive(Debug, Clone)]
struct RowView {
    at: When,
    event: String,
    actor: String,
    subject: String,
    facts: Vec<(String, String)>,
}

impl RowView {
    fn new(entry: Entry, now: Time) -> Self {
        let facts = match entry.data {
            Value::Object(facts) => facts
                .into_iter()
                .map(|(name, value)| (one_line(&name), fact(&value)))
                .collect(),
            Value::Null => Vec::new(),
            other => vec![("data".to_owned(), fact(&other))],
        };
        Self {
            at: When::new(entry.at, now),
            event: one_line(&entry.event),
            actor: one_line(&entry.actor),
            subject: one_line(&entry.subject),
            facts,
        }
    }
}

fn fact(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        other => one_line(&other.to_string()),
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    event: String,
    before: Option<String>,
}

impl Which {
    /// The filter, or nothing for an address that can name no rows.
    fn filter(&self) -> Option<Filter> {
        let before = self
            .before
            .as_deref()
            .map(str::parse::<AuditId>)
            .transpose()
            .ok()?;
        let event = self.event.trim();
        // Postgres takes no NUL in a text, and no event is that long.
        if event.len() > EVENT_LIMIT || event.contains('\0') {
            return None;
        }
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX - 1) + 1;
        Some(Filter {
            event: event.to_owned(),
            before: before.map_or(i64::MAX, AuditId::get),
            limit,
            ..Filter::default()
        })
    }
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    let Some(filter) = which.filter() else {
        return Err(refuse::not_found(&headers));
    };
    let event = filter.event.clone();
    let entries = audit::list(&web.app.db, caller.owner, filter)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let shell = Shell::of(&web, &caller, Here::Audit, "Audit log").await?;
    Ok(view::page(
        StatusCode::OK,
        &compose(shell, event, entries, web.app.clock.now()),
    ))
}

fn compose(shell: Shell, event: String, entries: Vec<Entry>, now: Time) -> AuditPage {
    let more = entries.len() > PAGE;
    let last = entries.get(PAGE - 1).filter(|_| more).map(|entry| entry.id);
    let rows = entries
        .into_iter()
        .take(PAGE)
        .map(|entry| RowView::new(entry, now))
        .collect();
    let filter = if event.is_empty() {
        String::new()
    } else {
        format!("&event={}", query_value(&event))
    };
    AuditPage {
        shell,
        event,
        events: &EVENTS,
        rows,
        older: last.map(|id| format!("/audit?before={id}{filter}")),
    }
}

#[cfg(test)]
impl AuditPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = || super::tests::HOSTILE.to_owned();
        let row = RowView {
            at: super::tests::when(),
            event: hostile(),
            actor: hostile(),
            subject: hostile(),
            facts: vec![(hostile(), hostile())],
        };
        let page = |rows, older| Self {
            shell: super::tests::shell(Here::Audit),
            event: hostile(),
            events: &EVENTS,
            rows,
            older,
        };
        vec![
            page(vec![row], Some("/audit?before=1".to_owned())),
            page(vec![], None),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(id: i64) -> Entry {
        let data = json!({"outcome": "delivered", "attempt": 2});
        Entry {
            id: AuditId::new(id),
            at: Time::from_micros(0),
            actor: "muster".to_owned(),
            event: "plugin.delivered".to_owned(),
            subject: "message:1".to_owned(),
            data,
            agent: None,
            task: None,
            tool: None,
            outcome: None,
            hash: String::new(),
        }
    }

    #[test]
    fn a_page_leads_to_the_rows_before_its_last_one_under_the_same_filter() {
        let shell = || super::super::tests::shell(Here::Audit);
        let many = (1..=51).rev().map(entry).collect();
        let page = compose(shell(), "a&b".to_owned(), many, Time::from_micros(0));
        assert_eq!(
            (page.rows.len(), page.older.as_deref()),
            (50, Some("/audit?before=2&event=a%26b"))
        );
        let all = (1..=50).rev().map(entry).collect();
        assert!(
            compose(shell(), String::new(), all, Time::from_micros(0))
                .older
                .is_none()
        );
    }

    #[test]
    fn an_address_that_can_name_no_row_is_not_asked_of_the_database() {
        let which = |event: &str, before: Option<&str>| {
            Which {
                event: event.to_owned(),
                before: before.map(str::to_owned),
            }
            .filter()
            .is_some()
        };
        assert!(which("", None) && which(" plugin.delivered ", Some("7")));
        assert!(
            !which("a\0b", None)
                && !which(&"a".repeat(101), None)
                && !which("", Some("x"))
                && !which("", Some("-1"))
        );
    }

    #[test]
    fn facts_are_told_one_by_one() {
        let row = RowView::new(entry(1), Time::from_micros(0));
        assert!(
            row.facts
                .contains(&("outcome".to_owned(), "delivered".to_owned()))
                && row.facts.contains(&("attempt".to_owned(), "2".to_owned()))
        );
    }
}
