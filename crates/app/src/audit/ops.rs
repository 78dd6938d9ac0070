//! Writing an audit row inside the transaction of its act, and reading them back. Never writes one outside it.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{
    AskId, AuditId, HostId, IntegrationId, OwnerId, PolicyId, ProjectId, TaskId, TokenId,
};
use muster_store::{Bind as _, Db, Stored, Tx, Value};
use serde_json::Value as Json;

use super::chain::Link;
use super::sql;

/// What happened, in the texts' own names.
#[derive(Debug, Clone)]
pub struct Event {
    /// Such as `plugin.draft.approved`.
    pub name: &'static str,
    /// Who did it: `owner`, `chief`, `plugin:NAME`, `administrator`, `visitor` (nobody who is known), `muster`.
    pub actor: String,
    /// What it happened to.
    pub subject: Subject,
    /// Further facts; never a secret, and outside text only as a value of its own (the reason that a task was closed for).
    pub data: Json,
}

impl Event {
    /// What the owner did.
    pub fn by_owner(name: &'static str, subject: Subject, data: Json) -> Self {
        Self {
            name,
            actor: "owner".to_owned(),
            subject,
            data,
        }
    }
}

/// What an event happened to.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A reply draft.
    Draft(muster_core::ids::DraftId),
    /// An inbound message.
    Message(muster_core::ids::MessageId),
    /// A connector.
    Plugin(muster_core::ids::PluginId),
    /// A token.
    Token(muster_core::ids::TokenId),
    /// A chief.
    Chief(muster_core::ids::ChiefId),
    /// A passkey.
    Passkey(muster_core::ids::PasskeyId),
    /// The owner's account.
    Owner(OwnerId),
    /// A policy.
    Policy(PolicyId),
    /// An ask.
    Ask(AskId),
    /// A setting, by its key.
    Setting(&'static str),
    /// A project.
    Project(ProjectId),
    /// A task.
    Task(TaskId),
    /// A host.
    Host(HostId),
    /// An integration.
    Integration(IntegrationId),
    /// A database connection.
    Connection(muster_core::ids::ConnectionId),
    /// A session that has no agent's token, by its id.
    Session(String),
    /// A plugin package, or a server or hook of it, by the name that its owner pointed at it with.
    Package(String),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Draft(id) => write!(f, "draft:{id}"),
            Subject::Message(id) => write!(f, "message:{id}"),
            Subject::Plugin(id) => write!(f, "plugin:{id}"),
            Subject::Token(id) => write!(f, "token:{id}"),
            Subject::Chief(id) => write!(f, "chief:{id}"),
            Subject::Passkey(id) => write!(f, "passkey:{id}"),
            Subject::Owner(id) => write!(f, "owner:{id}"),
            Subject::Policy(id) => write!(f, "policy:{id}"),
            Subject::Ask(id) => write!(f, "ask:{id}"),
            Subject::Setting(key) => write!(f, "setting:{key}"),
            Subject::Project(id) => write!(f, "project:{id}"),
            Subject::Task(id) => write!(f, "task:{id}"),
            Subject::Host(id) => write!(f, "host:{id}"),
            Subject::Integration(id) => write!(f, "integration:{id}"),
            Subject::Connection(id) => write!(f, "db_connection:{id}"),
            Subject::Session(id) => write!(f, "session:{id}"),
            Subject::Package(id) => write!(f, "package:{id}"),
        }
    }
}

/// Who makes a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// An agent, by the token that it called with.
    Agent(TokenId),
    /// A session that has no agent's token, by its id. Outside text.
    Session(String),
}

impl Caller {
    /// The agent's token, if it has one.
    #[must_use]
    pub const fn token(&self) -> Option<TokenId> {
        match self {
            Self::Agent(token) => Some(*token),
            Self::Session(_) => None,
        }
    }

    /// The session, for one without a token.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Agent(_) => None,
            Self::Session(id) => Some(id),
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Agent(token) => Subject::Token(*token),
            Self::Session(id) => Subject::Session(id.clone()),
        }
    }
}

/// What a row is found by: a token's id, or a session's with the word that no token's id has.
impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(token) => token.fmt(f),
            Self::Session(id) => write!(f, "session:{id}"),
        }
    }
}

/// One tool call, as it was decided.
#[derive(Debug, Clone)]
pub struct Call {
    /// Who called.
    pub agent: Caller,
    /// The task the agent works on.
    pub task: Option<TaskId>,
    /// The tool.
    pub tool: String,
    /// What became of the call.
    pub outcome: &'static str,
    /// Pairs, policy, ask, decider and the names as they were then; of the arguments the statement to a database, or the names of what is looked at there, alone.
    pub data: Json,
}

/// Longest part of a statement that a row holds, in bytes.
const STATEMENT: usize = 64 * 1024;

/// Puts the text of a statement into a row's facts, as it was given. Of one over 64 KiB the row holds the beginning, and by `statement_cut` how
/// long the whole was and its SHA-256.
pub fn put_statement(data: &mut Json, statement: &str) {
    let Some(facts) = data.as_object_mut() else {
        return;
    };
    let mut end = statement.len().min(STATEMENT);
    while !statement.is_char_boundary(end) {
        end -= 1;
    }
    let held = statement.get(..end).unwrap_or_default();
    facts.insert("statement".to_owned(), held.into());
    if end < statement.len() {
        let cut = serde_json::json!({
            "bytes": statement.len(),
            "sha256": muster_core::secret::sha256_hex(statement.as_bytes()),
        });
        facts.insert("statement_cut".to_owned(), cut);
    }
}

/// Longest name that a row holds, in bytes; no engine has an object with a longer one.
const NAME: usize = 1024;

/// Puts the name of what a call looks at into a row's facts, at most 1 KiB of it, as it was given.
pub fn put_name(data: &mut Json, field: &'static str, name: &str) {
    let Some(facts) = data.as_object_mut() else {
        return;
    };
    let end = name.floor_char_boundary(NAME);
    facts.insert(field.to_owned(), name.get(..end).unwrap_or_default().into());
}

/// A stored row.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id; later rows have larger ones.
    pub id: AuditId,
    /// When.
    pub at: Time,
    /// Who.
    pub actor: String,
    /// What.
    pub event: String,
    /// To what.
    pub subject: String,
    /// Further facts.
    pub data: Json,
    /// For a call: the id of the agent's token, or `session:` and the session's id.
    pub agent: Option<String>,
    /// For a call: the id of the agent's task.
    pub task: Option<String>,
    /// For a call: the tool.
    pub tool: Option<String>,
    /// For a call: what became of it.
    pub outcome: Option<String>,
    /// The row's link in the chain; empty for rows from before there was one.
    pub hash: String,
    /// Which columns hold what is no text, or no JSON where that belongs; [`UNREADABLE`] or nothing stands in their place.
    pub unreadable: Vec<&'static str>,
}

/// What stands where a column of a row cannot be read.
pub const UNREADABLE: &str = "(unreadable)";

/// Which rows to read. An empty text stands for any.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Only this event.
    pub event: String,
    /// Only calls of this agent: the id of its token, its label, or the id of a session.
    pub agent: String,
    /// Only calls of agents on this task, by its id.
    pub task: String,
    /// Only calls of this tool.
    pub tool: String,
    /// Only calls with this outcome.
    pub outcome: String,
    /// Only rows at or after this moment.
    pub since: Time,
    /// Only rows before this moment.
    pub until: Time,
    /// Only rows with a smaller id, for paging back.
    pub before: i64,
    /// At most this many, the newest.
    pub limit: i64,
}

impl Filter {
    fn is_about_calls(&self) -> bool {
        [&self.agent, &self.task, &self.tool, &self.outcome]
            .iter()
            .any(|text| !text.is_empty())
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            event: String::new(),
            agent: String::new(),
            task: String::new(),
            tool: String::new(),
            outcome: String::new(),
            since: Time::from_micros(0),
            until: Time::from_micros(i64::MAX),
            before: i64::MAX,
            limit: 1000,
        }
    }
}

/// What is stored of a row, the chain aside.
struct New {
    at: Time,
    actor: String,
    event: &'static str,
    subject: String,
    data: String,
    agent: Option<String>,
    task: Option<String>,
    tool: Option<String>,
    outcome: Option<&'static str>,
}

impl New {
    fn of(now: Time, event: Event) -> Self {
        Self {
            at: now,
            actor: event.actor,
            event: event.name,
            subject: event.subject.to_string(),
            data: event.data.to_string(),
            agent: None,
            task: None,
            tool: None,
            outcome: None,
        }
    }

    /// The arguments that follow the owner, the link to the row before among them.
    fn linked(self, owner: OwnerId, before: &str) -> Vec<Value> {
        let hash = Link {
            owner,
            at: self.at.micros(),
            actor: &self.actor,
            event: self.event,
            subject: &self.subject,
            data: &self.data,
            agent: self.agent.as_deref(),
            task: self.task.as_deref(),
            tool: self.tool.as_deref(),
            outcome: self.outcome,
        }
        .after(before);
        vec![
            self.at.value(),
            self.actor.value(),
            self.event.value(),
            self.subject.value(),
            self.data.value(),
            self.agent.value(),
            self.task.value(),
            self.tool.value(),
            self.outcome.value(),
            hash.value(),
        ]
    }
}

async fn store(tx: &mut Tx, new: New) -> Result<(), Fault> {
    let owner = tx
        .owner()
        .ok_or_else(|| Fault::other("an owner's audit row was written across owners"))?;
    let (before,): (String,) = tx.one(&sql::HEAD, ()).await?;
    tx.number(&sql::INSERT, new.linked(owner, &before))
        .await
        .map(|_| ())
}

/// Writes one row with the act itself, at the end of its transaction, so that neither exists without the other. The end of the chain is locked
/// until the commit; were it taken earlier, two acts could wait for each other.
///
/// # Errors
/// None here; when the row cannot be stored the transaction fails, and the act with it.
pub async fn record(tx: &mut Tx, now: Time, event: Event) -> Result<(), Fault> {
    let new = New::of(now, event);
    tx.at_the_end(move |tx| Box::pin(store(tx, new)));
    Ok(())
}

/// Writes the row of a tool call in the same way. It is stored before the call has any effect: the effect begins after the commit.
pub fn record_call(tx: &mut Tx, now: Time, call: Call) {
    let new = New {
        at: now,
        actor: match &call.agent {
            Caller::Agent(token) => format!("agent:{token}"),
            Caller::Session(_) => call.agent.to_string(),
        },
        event: "call",
        subject: call.agent.subject().to_string(),
        data: call.data.to_string(),
        agent: Some(call.agent.to_string()),
        task: call.task.map(|task| task.to_string()),
        tool: Some(call.tool),
        outcome: Some(call.outcome),
    };
    tx.at_the_end(move |tx| Box::pin(store(tx, new)));
}

/// As [`record`], in a transaction across owners: for an act that makes the owner whose row it is.
///
/// # Errors
/// A fault; the act must then fail too.
pub async fn record_for(tx: &mut Tx, owner: OwnerId, now: Time, event: Event) -> Result<(), Fault> {
    let (before,): (String,) = tx.one(&sql::HEAD_FOR, (owner,)).await?;
    let mut values = vec![owner.value()];
    values.extend(New::of(now, event).linked(owner, &before));
    tx.number(&sql::INSERT_FOR, values).await.map(|_| ())
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: i64,
    at: i64,
    actor: String,
    event: String,
    subject: String,
    data: String,
    agent: Option<String>,
    task: Option<String>,
    tool: Option<String>,
    outcome: Option<String>,
    pub(super) hash: String,
}

impl Row {
    pub(super) fn link(&self, owner: OwnerId) -> Link<'_> {
        Link {
            owner,
            at: self.at,
            actor: &self.actor,
            event: &self.event,
            subject: &self.subject,
            data: &self.data,
            agent: self.agent.as_deref(),
            task: self.task.as_deref(),
            tool: self.tool.as_deref(),
            outcome: self.outcome.as_deref(),
        }
    }
}

/// The same row, read as far as it can be.
#[derive(sqlx::FromRow)]
struct Listed {
    id: i64,
    at: i64,
    actor: Stored,
    event: Stored,
    subject: Stored,
    data: Stored,
    agent: Option<Stored>,
    task: Option<Stored>,
    tool: Option<Stored>,
    outcome: Option<Stored>,
    hash: Stored,
}

/// An owner's rows, newest first. One that somebody broke is shown as far as it goes and hides no other; [`verify`](super::verify) names it.
///
/// # Errors
/// A fault.
pub async fn list(db: &Db, owner: OwnerId, filter: Filter) -> Result<Vec<Entry>, Fault> {
    let rows: Vec<Listed> = db
        .read(owner, move |tx| {
            Box::pin(async move {
                if !filter.is_about_calls() {
                    return tx
                        .all(
                            &sql::NEWEST,
                            (
                                filter.before,
                                filter.since,
                                filter.until,
                                filter.event,
                                filter.limit,
                            ),
                        )
                        .await;
                }
                let mut rows = Vec::new();
                for agent in agents(tx, &filter.agent).await? {
                    rows.append(&mut calls(tx, &filter, agent).await?);
                }
                rows.sort_by_key(|row| std::cmp::Reverse(row.id));
                rows.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
                Ok(rows)
            })
        })
        .await?;
    Ok(rows.into_iter().map(Entry::from).collect())
}

/// What calls that a word names are found by: a token by its id, all that have it for their label, a session by its id. An empty word stands for any.
async fn agents(tx: &mut Tx, word: &str) -> Result<Vec<String>, Fault> {
    if word.is_empty() || word.contains('\0') {
        return Ok(vec![word.replace('\0', "-")]);
    }
    let labelled: Vec<(i64,)> = tx.all(&sql::LABELLED, (word,)).await?;
    let mut ids: Vec<String> = labelled.into_iter().map(|(id,)| id.to_string()).collect();
    if !ids.iter().any(|id| id == word) {
        ids.push(word.to_owned());
    }
    ids.push(Caller::Session(word.to_owned()).to_string());
    Ok(ids)
}

async fn calls(tx: &mut Tx, filter: &Filter, agent: String) -> Result<Vec<Listed>, Fault> {
    tx.all(
        &sql::NEWEST_CALLS,
        (
            filter.before,
            filter.since,
            filter.until,
            filter.event.as_str(),
            agent,
            filter.task.as_str(),
            filter.tool.as_str(),
            filter.outcome.as_str(),
            filter.limit,
        ),
    )
    .await
}

impl From<Listed> for Entry {
    fn from(row: Listed) -> Self {
        let mut unreadable = Vec::new();
        let mut word = |what, stored: &Stored| {
            stored.text().map(str::to_owned).unwrap_or_else(|| {
                unreadable.push(what);
                UNREADABLE.to_owned()
            })
        };
        let (actor, event) = (word("actor", &row.actor), word("event", &row.event));
        let (subject, hash) = (word("subject", &row.subject), word("hash", &row.hash));
        let mut may = |what, stored: &Option<Stored>| stored.as_ref().map(|stored| word(what, stored));
        let (agent, task) = (may("agent", &row.agent), may("task", &row.task));
        let (tool, outcome) = (may("tool", &row.tool), may("outcome", &row.outcome));
        let data = row.data.text().and_then(|data| serde_json::from_str(data).ok());
        if data.is_none() {
            unreadable.push("data");
        }
        Self {
            id: AuditId::new(row.id),
            at: Time::from_micros(row.at),
            actor,
            event,
            subject,
            data: data.unwrap_or(Json::Null),
            agent,
            task,
            tool,
            outcome,
            hash,
            unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_is_held_as_it_was_given_and_a_long_one_says_what_is_missing() {
        let mut data = json!({"pairs": []});
        put_statement(&mut data, "SELECT '\u{1b}[2J\0'");
        assert_eq!(data, json!({"pairs": [], "statement": "SELECT '\u{1b}[2J\0'"}));
        // A letter of two bytes across the bound is left out whole.
        let long = format!("{}\u{e9}{}", "x".repeat(STATEMENT - 1), "y".repeat(10));
        put_statement(&mut data, &long);
        assert_eq!(data["statement"], "x".repeat(STATEMENT - 1));
        assert_eq!(
            data["statement_cut"],
            json!({"bytes": STATEMENT + 11, "sha256": muster_core::secret::sha256_hex(long.as_bytes())})
        );
    }
}
