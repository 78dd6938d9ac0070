//! A stored ask, read as far as it can be. Never lets what cannot be read of one hide the others.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, TaskId, TokenId};
use muster_store::Stored;
use serde_json::Value;

use super::asks::Ask;
use super::state::AskState;
use crate::audit::UNREADABLE;

fn value(stored: &Stored) -> Option<Value> {
    serde_json::from_str(stored.text()?).ok()
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    id: i64,
    state: Stored,
    kind: Stored,
    token_id: Option<i64>,
    label: Option<Stored>,
    session: Option<Stored>,
    about: Option<Stored>,
    task_id: Option<i64>,
    title: Option<Stored>,
    tool: Stored,
    arguments: Stored,
    pairs: Stored,
    created_at: i64,
    expires_at: i64,
    decided_at: Option<i64>,
    decided_by: Option<Stored>,
}

/// An ask whose state may be one of those that could not be read.
pub(super) struct Partial {
    /// The ask; one without a state stands as expired.
    pub(super) ask: Ask,
    /// Where it stands, if that is one of the five.
    pub(super) state: Option<AskState>,
}

impl From<Row> for Partial {
    fn from(row: Row) -> Self {
        let mut unreadable = Vec::new();
        let mut part = |what, value: Option<Value>| {
            value.unwrap_or_else(|| {
                unreadable.push(what);
                Value::Null
            })
        };
        let arguments = part("the arguments", value(&row.arguments));
        // A list of pairs and nothing else: what is none would be shown as a call that asks for nothing.
        let pairs = part("what it charges", value(&row.pairs).filter(Value::is_array));
        let about = row.about.as_ref().map(value);
        // Of a permission it is kept for the audit row, and nobody is shown it. Of what may be either, it is told.
        let about = if row.kind.text() == Some("permission") {
            about.flatten().unwrap_or(Value::Null)
        } else {
            about.map_or(Value::Null, |about| part("what is told of its tool", about))
        };
        let mut word = |what, stored: Option<&Stored>| {
            stored
                .and_then(Stored::text)
                .map(str::to_owned)
                .unwrap_or_else(|| {
                    unreadable.push(what);
                    UNREADABLE.to_owned()
                })
        };
        let kind = word("its kind", Some(&row.kind));
        let tool = word("the tool", Some(&row.tool));
        let label = word("whose it is", row.label.as_ref().or(row.session.as_ref()));
        let mut may = |what, stored: Option<&Stored>| stored.map(|stored| word(what, Some(stored)));
        let title = may("the task's title", row.title.as_ref());
        let decided_by = may("who decided", row.decided_by.as_ref());
        let state = row.state.text().and_then(AskState::parse);
        let ask = Ask {
            id: AskId::new(row.id),
            state: state.unwrap_or(AskState::Expired),
            kind,
            agent: row.token_id.map(TokenId::new),
            label,
            about,
            task: row.task_id.map(TaskId::new).zip(title),
            tool,
            arguments,
            pairs,
            created_at: Time::from_micros(row.created_at),
            expires_at: Time::from_micros(row.expires_at),
            decided_at: row.decided_at.map(Time::from_micros),
            decided_by,
            unreadable,
        };
        Self { ask, state }
    }
}

impl TryFrom<Row> for Ask {
    type Error = Fault;

    fn try_from(row: Row) -> Result<Self, Fault> {
        let id = row.id;
        let Partial { ask, state } = row.into();
        match state {
            Some(_) => Ok(ask),
            None => Err(Fault::contradiction("asks", id, "its state is none of the five")),
        }
    }
}
