//! `/audit`: what happened, newest first, found by agent, task, tool, outcome, event and time. Never changes a row.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::audit::{self, Entry, Filter, Verified};
use muster_core::clock::Time;
use muster_core::ids::AuditId;
use serde::Deserialize;
use serde_json::Value;

use super::asks::{PairView, pairs};
use super::audit_facts::{Facts, shortened};
use super::audit_words::{EVENTS, OUTCOMES};
use super::caller::Person;
use super::fields::Asked;
use super::refuse;
use super::view::{self, Here, PAGE, Shell, When, counted, one_line, query_value};
use crate::Web;

/// Longest text that is looked for, in bytes.
const LIMIT: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
pub(super) struct AuditPage {
    shell: Shell,
    which: Which,
    events: &'static [&'static str],
    outcomes: &'static [&'static str],
    rows: Vec<RowView>,
    /// The address of the older rows.
    older: Option<String>,
    /// The address of the same rows as JSON lines.
    export: String,
    /// What going along the chain found, when that was asked for.
    verified: Option<VerifiedView>,
}

#[derive(Debug, Clone)]
struct RowView {
    id: String,
    at: When,
    event: String,
    actor: String,
    subject: String,
    call: Option<CallView>,
    facts: Facts,
    /// What of the row cannot be read, with the row's number.
    unreadable: Option<String>,
}

/// A tool call, told so that it can be read.
#[derive(Debug, Clone)]
struct CallView {
    tool: String,
    outcome: String,
    /// Whether the outcome let the call run.
    ran: bool,
    task: Option<String>,
    pairs: Vec<JudgedView>,
    policy: String,
    ask: Option<String>,
    decider: Option<String>,
    /// What a database was to run, or its beginning.
    statement: Option<String>,
    /// Of a database: the schema or object that was looked at.
    names: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone)]
struct JudgedView {
    pair: PairView,
    verdict: String,
    layer: Option<String>,
}

#[derive(Debug, Clone)]
struct VerifiedView {
    ok: bool,
    rows: String,
    first_bad: Option<String>,
}

impl From<Verified> for VerifiedView {
    fn from(verified: Verified) -> Self {
        Self {
            ok: verified.ok,
            rows: counted(verified.rows.unsigned_abs(), "row"),
            first_bad: verified.first_bad,
        }
    }
}

impl RowView {
    fn new(entry: Entry, now: Time) -> Self {
        let call = (entry.event == "call").then(|| CallView::new(&entry));
        let unreadable = (!entry.unreadable.is_empty())
            .then(|| format!("row {}: {}", entry.id, entry.unreadable.join(", ")));
        let actor = match (&call, text(&entry.data, "/agent/label")) {
            (Some(_), Some(label)) => format!("{label} ({})", one_line(&entry.actor)),
            _ => one_line(&entry.actor),
        };
        let facts = if call.is_some() {
            Facts::default()
        } else {
            Facts::of(&entry.data)
        };
        Self {
            id: entry.id.to_string(),
            at: When::new(entry.at, now),
            event: one_line(&entry.event),
            actor,
            subject: one_line(&entry.subject),
            call,
            facts,
            unreadable,
        }
    }
}

impl CallView {
    fn new(entry: &Entry) -> Self {
        let none = Value::Null;
        let charged = entry.data.get("pairs").unwrap_or(&none);
        let verdicts = charged.as_array().map(Vec::as_slice).unwrap_or_default();
        let outcome = entry.outcome.as_deref().map(one_line).unwrap_or_default();
        let policy = match (
            text(&entry.data, "/policy/name"),
            entry.data.pointer("/policy/revision"),
        ) {
            (Some(name), Some(revision)) => format!("{name}, revision {revision}"),
            _ => "none".to_owned(),
        };
        Self {
            tool: entry.tool.as_deref().map(one_line).unwrap_or_default(),
            ran: outcome.contains("allowed"),
            outcome,
            task: text(&entry.data, "/task/title").or_else(|| entry.task.as_deref().map(one_line)),
            pairs: pairs(charged)
                .into_iter()
                .zip(verdicts)
                .map(|(pair, found)| JudgedView {
                    pair,
                    verdict: text(found, "/verdict").unwrap_or_default(),
                    layer: text(found, "/layer"),
                })
                .collect(),
            policy,
            ask: text(&entry.data, "/ask_id"),
            decider: text(&entry.data, "/decided_by"),
            statement: text(&entry.data, "/statement").map(shortened),
            names: [("schema", "/schema"), ("object", "/object")]
                .into_iter()
                .filter_map(|(name, place)| Some((name, shortened(text(&entry.data, place)?))))
                .collect(),
        }
    }
}

/// The text at a place of a row's data, readable.
fn text(data: &Value, place: &str) -> Option<String> {
    data.pointer(place).and_then(Value::as_str).map(one_line)
}

/// Which rows, as the form asks for them.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    event: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    task: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    before: Option<String>,
    verify: Option<String>,
}

/// Why an address names no rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nothing {
    /// No row is found by it.
    There,
    /// Its moments are none.
    Moment,
}

impl Nothing {
    pub(super) fn refusal(&self, headers: &HeaderMap) -> Response {
        match self {
            Self::There => refuse::not_found(headers),
            Self::Moment => refuse::page(
                StatusCode::BAD_REQUEST,
                "Not understood",
                "a moment is written such as 2026-03-04T05:06, in UTC. Nothing was looked for",
                refuse::TO_AUDIT,
            ),
        }
    }
}

impl Which {
    fn trimmed(self) -> Self {
        let trim = |text: String| text.trim().to_owned();
        Self {
            event: trim(self.event),
            agent: trim(self.agent),
            task: trim(self.task),
            tool: trim(self.tool),
            outcome: trim(self.outcome),
            since: trim(self.since),
            until: trim(self.until),
            ..self
        }
    }

    fn texts(&self) -> [(&'static str, &str); 7] {
        [
            ("event", &self.event),
            ("agent", &self.agent),
            ("task", &self.task),
            ("tool", &self.tool),
            ("outcome", &self.outcome),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    /// Whether anything is filtered.
    fn any(&self) -> bool {
        self.texts().iter().any(|(_, text)| !text.is_empty())
    }

    /// The same filter as a part of an address, each word of it led by `&`.
    fn query(&self) -> String {
        self.texts()
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| format!("&{name}={}", query_value(text)))
            .collect()
    }

    /// The filter over at most `limit` rows.
    ///
    /// # Errors
    /// [`Nothing`] for an address that can name no rows.
    pub(super) fn filter(&self, limit: i64) -> Result<Filter, Nothing> {
        let before = self.before.as_deref().map(str::parse::<AuditId>).transpose();
        let before = before.map_err(|_| Nothing::There)?;
        // Postgres takes no NUL in a text, and nothing that is looked for is that long.
        let odd = |text: &str| text.len() > LIMIT || text.contains('\0');
        if self.texts().iter().any(|(_, text)| odd(text)) {
            return Err(Nothing::There);
        }
        let whole = Filter::default();
        Ok(Filter {
            event: self.event.clone(),
            agent: self.agent.clone(),
            task: self.task.clone(),
            tool: self.tool.clone(),
            outcome: self.outcome.clone(),
            since: moment(&self.since)?.unwrap_or(whole.since),
            // The minute that is named is looked at to its end.
            until: moment(&self.until)?.map_or(whole.until, |until| until.plus(Duration::from_secs(60))),
            before: before.map_or(i64::MAX, AuditId::get),
            limit,
        })
    }
}

/// A moment as a form or a person writes it, in UTC unless it says otherwise.
fn moment(text: &str) -> Result<Option<Time>, Nothing> {
    if text.is_empty() {
        return Ok(None);
    }
    [String::new(), "Z".to_owned(), ":00Z".to_owned()]
        .iter()
        .find_map(|rest| Time::parse_rfc3339(&format!("{text}{rest}")))
        .map(Some)
        .ok_or(Nothing::Moment)
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    let which = which.trimmed();
    let limit = i64::try_from(PAGE).unwrap_or(i64::MAX - 1) + 1;
    let filter = which.filter(limit).map_err(|nothing| nothing.refusal(&headers))?;
    let entries = audit::list(&web.app.db, caller.owner, filter)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let verified = match which.verify {
        None => None,
        Some(_) => Some(
            audit::verify(&web.app.db, caller.owner)
                .await
                .map_err(|fault| refuse::fault(&fault))?,
        ),
    };
    let shell = Shell::of(&web, &caller, Here::Audit, "Audit log").await?;
    let mut page = compose(shell, which, entries, web.app.clock.now());
    page.verified = verified.map(VerifiedView::from);
    Ok(view::page(StatusCode::OK, &page))
}

fn compose(shell: Shell, which: Which, entries: Vec<Entry>, now: Time) -> AuditPage {
    let more = entries.len() > PAGE;
    let last = entries.get(PAGE - 1).filter(|_| more).map(|entry| entry.id);
    let rows = entries
        .into_iter()
        .take(PAGE)
        .map(|entry| RowView::new(entry, now))
        .collect();
    let filter = which.query();
    AuditPage {
        shell,
        events: &EVENTS,
        outcomes: &OUTCOMES,
        rows,
        older: last.map(|id| format!("/audit?before={id}{filter}")),
        export: match filter.strip_prefix('&') {
            None => "/audit/export".to_owned(),
            Some(filter) => format!("/audit/export?{filter}"),
        },
        which,
        verified: None,
    }
}

#[cfg(test)]
impl AuditPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let row = |call: Option<CallView>| RowView {
            id: "7".to_owned(),
            at: when(),
            event: hostile(),
            actor: hostile(),
            subject: hostile(),
            facts: if call.is_some() {
                Facts::default()
            } else {
                Facts {
                    told: vec![(hostile(), hostile())],
                    stored: Some(hostile()),
                }
            },
            unreadable: call.is_none().then(hostile),
            call,
        };
        let call = |ran| CallView {
            tool: hostile(),
            outcome: hostile(),
            ran,
            task: Some(hostile()),
            pairs: vec![JudgedView {
                pair: PairView {
                    action: hostile(),
                    on: hostile(),
                    id: Some(hostile()),
                },
                verdict: hostile(),
                layer: Some(hostile()),
            }],
            policy: hostile(),
            ask: Some(hostile()),
            decider: Some(hostile()),
            statement: Some(hostile()),
            names: vec![("object", hostile())],
        };
        let page = |rows, older, verified| Self {
            shell: shell(Here::Audit),
            which: Which {
                event: hostile(),
                agent: hostile(),
                task: hostile(),
                tool: hostile(),
                outcome: hostile(),
                since: hostile(),
                until: hostile(),
                before: None,
                verify: None,
            },
            events: &EVENTS,
            outcomes: &OUTCOMES,
            rows,
            older,
            export: "/audit/export".to_owned(),
            verified,
        };
        let verified = |ok, first_bad| VerifiedView {
            ok,
            rows: "3 rows".to_owned(),
            first_bad,
        };
        vec![
            page(
                vec![row(None), row(Some(call(true))), row(Some(call(false)))],
                Some("/audit?before=1".to_owned()),
                Some(verified(false, Some(hostile()))),
            ),
            page(vec![], None, Some(verified(true, None))),
            Self {
                which: Which::default(),
                ..page(vec![], None, Some(verified(false, None)))
            },
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
            unreadable: Vec::new(),
        }
    }

    fn which(event: &str) -> Which {
        Which {
            event: event.to_owned(),
            ..Which::default()
        }
    }

    #[test]
    fn a_page_leads_to_the_rows_before_its_last_one_under_the_same_filter() {
        let shell = || super::super::tests::shell(Here::Audit);
        let filtered = Which {
            agent: "helper".to_owned(),
            ..which("a&b")
        };
        let many = (1..=51).rev().map(entry).collect();
        let page = compose(shell(), filtered, many, Time::from_micros(0));
        assert_eq!(
            (page.rows.len(), page.older.as_deref(), page.export.as_str()),
            (
                50,
                Some("/audit?before=2&event=a%26b&agent=helper"),
                "/audit/export?event=a%26b&agent=helper"
            )
        );
        let all = (1..=50).rev().map(entry).collect();
        let page = compose(shell(), Which::default(), all, Time::from_micros(0));
        assert_eq!((page.older, page.export.as_str()), (None, "/audit/export"));
    }

    #[test]
    fn an_address_that_can_name_no_row_is_not_asked_of_the_database() {
        let reads = |which: Which| which.filter(1).is_ok();
        assert!(reads(Which::default()) && reads(which("plugin.delivered")));
        assert!(!reads(which("a\0b")) && !reads(which(&"a".repeat(201))));
        for before in ["x", "-1"] {
            let before = Some(before.to_owned());
            assert!(!reads(Which {
                before,
                ..Which::default()
            }));
        }
    }

    #[test]
    fn a_moment_is_read_as_a_form_and_as_a_person_writes_it() {
        let at = Time::parse_rfc3339("2026-03-04T05:06:00Z");
        for text in ["2026-03-04T05:06", "2026-03-04T05:06:00", "2026-03-04T05:06:00Z"] {
            assert_eq!(moment(text), Ok(at), "{text}");
        }
        assert_eq!(
            (moment(""), moment("yesterday")),
            (Ok(None), Err(Nothing::Moment))
        );
    }

    #[test]
    fn a_row_that_cannot_be_read_whole_says_which_it_is_and_what_of_it() {
        use askama::Template as _;
        let broken = Entry {
            data: Value::Null,
            unreadable: vec!["tool", "data"],
            ..entry(7)
        };
        let shell = super::super::tests::shell(Here::Audit);
        let page = compose(
            shell,
            Which::default(),
            vec![broken, entry(6)],
            Time::from_micros(0),
        );
        let html = page.render().unwrap();
        assert_eq!(html.matches("cannot be read").count(), 1);
        assert!(html.contains("row 7: tool, data"), "{html}");
    }

    #[test]
    fn facts_are_told_one_by_one() {
        let row = RowView::new(entry(1), Time::from_micros(0));
        assert!(
            row.facts
                .told
                .contains(&("outcome".to_owned(), "delivered".to_owned()))
                && row.facts.told.contains(&("attempt".to_owned(), "2".to_owned()))
        );
    }

    #[test]
    fn a_call_is_told_by_its_pairs_verdicts_ask_and_decider() {
        let data = json!({
            "agent": {"id": "3", "label": "helper"}, "task": {"id": "4", "title": "Tidy up"},
            "pairs": [{"action": "db_read", "resource": {"kind": "db_connection", "id": "9", "name": "staging"}, "verdict": "ask", "layer": "project"}],
            "policy": {"id": "5", "name": "shared", "revision": 7}, "ask_id": "8", "decided_by": "ada",
        });
        let call = Entry {
            event: "call".to_owned(),
            actor: "agent:3".to_owned(),
            tool: Some("muster_db_query".to_owned()),
            outcome: Some("allowed_by_person".to_owned()),
            data,
            ..entry(1)
        };
        let row = RowView::new(call, Time::from_micros(0));
        let call = row.call.unwrap();
        assert_eq!(row.actor, "helper (agent:3)");
        assert_eq!(
            (call.pairs[0].pair.on.as_str(), call.pairs[0].verdict.as_str()),
            ("db_connection staging", "ask")
        );
        assert_eq!(call.pairs[0].layer.as_deref(), Some("project"));
        assert_eq!(
            (
                call.policy.as_str(),
                call.ask.as_deref(),
                call.decider.as_deref(),
                call.ran
            ),
            ("shared, revision 7", Some("8"), Some("ada"), true)
        );
    }
}
