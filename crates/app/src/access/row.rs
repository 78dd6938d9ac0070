//! A stored ask, read as far as it can be. Never lets what cannot be read of one hide the others.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, TaskId, TokenId};
use muster_store::Stored;
use serde_json::Value;

use super::asks::Ask;
use super::state::AskState;

fn value(stored: &Stored) -> Option<Value> {
    serde_json::from_str(stored.text()?).ok()
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    id: i64,
    state: String,
    kind: String,
    token_id: Option<i64>,
    label: Option<String>,
    session: Option<String>,
    about: Option<Stored>,
    task_id: Option<i64>,
    title: Option<String>,
    tool: String,
    arguments: Stored,
    pairs: Stored,
    created_at: i64,
    expires_at: i64,
    decided_at: Option<i64>,
    decided_by: Option<String>,
}

impl TryFrom<Row> for Ask {
    type Error = Fault;

    fn try_from(row: Row) -> Result<Self, Fault> {
        let broken = |what| Fault::contradiction("asks", row.id, what);
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
        // Of a permission it is kept for the audit row, and nobody is shown it.
        let about = if row.kind == "plugin_tool" {
            about.map_or(Value::Null, |about| part("what is told of its tool", about))
        } else {
            about.flatten().unwrap_or(Value::Null)
        };
        Ok(Self {
            id: AskId::new(row.id),
            state: AskState::parse(&row.state).ok_or_else(|| broken("its state is none of the five"))?,
            kind: row.kind,
            agent: row.token_id.map(TokenId::new),
            label: row
                .label
                .or(row.session)
                .ok_or_else(|| broken("it is neither an agent's nor a session's"))?,
            about,
            task: row.task_id.map(TaskId::new).zip(row.title),
            tool: row.tool,
            arguments,
            pairs,
            created_at: Time::from_micros(row.created_at),
            expires_at: Time::from_micros(row.expires_at),
            decided_at: row.decided_at.map(Time::from_micros),
            decided_by: row.decided_by,
            unreadable,
        })
    }
}
