//! Writing an audit row inside the transaction of its act, and reading them back. Never writes one outside it.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AuditId, OwnerId};
use muster_store::{Db, Tx};
use serde_json::Value;

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
    /// Further facts; never a secret, never outside text.
    pub data: Value,
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
    /// A project.
    Project(muster_core::ids::ProjectId),
    /// A task, its worktree and its runs.
    Task(muster_core::ids::TaskId),
    /// A host.
    Host(muster_core::ids::HostId),
    /// An integration.
    Integration(muster_core::ids::IntegrationId),
    /// A database connection.
    Connection(muster_core::ids::ConnectionId),
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
            Subject::Project(id) => write!(f, "project:{id}"),
            Subject::Task(id) => write!(f, "task:{id}"),
            Subject::Host(id) => write!(f, "host:{id}"),
            Subject::Integration(id) => write!(f, "integration:{id}"),
            Subject::Connection(id) => write!(f, "db_connection:{id}"),
        }
    }
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
    pub data: Value,
}

/// Which rows to read.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Only this event; empty for all.
    pub event: String,
    /// Only rows at or after this moment.
    pub since: Time,
    /// Only rows before this moment.
    pub until: Time,
    /// Only rows with a smaller id, for paging back.
    pub before: i64,
    /// At most this many, the newest.
    pub limit: i64,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            event: String::new(),
            since: Time::from_micros(0),
            until: Time::from_micros(i64::MAX),
            before: i64::MAX,
            limit: 1000,
        }
    }
}

/// Writes one row in the transaction of the act itself, so that neither exists without the other.
///
/// # Errors
/// A fault; the act must then fail too.
pub async fn record(tx: &mut Tx, now: Time, event: Event) -> Result<(), Fault> {
    tx.run(
        &sql::INSERT,
        (
            now,
            event.actor,
            event.name,
            event.subject.to_string(),
            event.data.to_string(),
        ),
    )
    .await
    .map(|_| ())
}

/// The same in a transaction across owners: for an act that makes the owner whose row it is.
///
/// # Errors
/// A fault; the act must then fail too.
pub async fn record_for(tx: &mut Tx, owner: OwnerId, now: Time, event: Event) -> Result<(), Fault> {
    tx.run(
        &sql::INSERT_FOR,
        (
            owner,
            now,
            event.actor,
            event.name,
            event.subject.to_string(),
            event.data.to_string(),
        ),
    )
    .await
    .map(|_| ())
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    at: i64,
    actor: String,
    event: String,
    subject: String,
    data: String,
}

/// An owner's rows, newest first.
///
/// # Errors
/// A fault.
pub async fn list(db: &Db, owner: OwnerId, filter: Filter) -> Result<Vec<Entry>, Fault> {
    let rows: Vec<Row> = db
        .read(owner, move |tx| {
            Box::pin(async move {
                tx.all(
                    &sql::NEWEST,
                    (
                        filter.before,
                        filter.since,
                        filter.until,
                        filter.event,
                        filter.limit,
                    ),
                )
                .await
            })
        })
        .await?;
    rows.into_iter()
        .map(|row| {
            let data = serde_json::from_str(&row.data)
                .map_err(|_| Fault::contradiction("audit", row.id, "its data is not JSON"))?;
            Ok(Entry {
                id: AuditId::new(row.id),
                at: Time::from_micros(row.at),
                actor: row.actor,
                event: row.event,
                subject: row.subject,
                data,
            })
        })
        .collect()
}
