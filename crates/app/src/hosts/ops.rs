//! The hosts' acts. Never gives an id out twice, and never forgets the last name of one that was removed.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{HostId, OwnerId, RunId};
use muster_core::text::Slug;
use muster_store::Tx;
use serde_json::{Value, json};

use super::{HostError, sql};
use crate::audit::{self, Event, Subject};
use crate::named::{Named, Word, is_taken};
use crate::{App, RESOURCES};

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its id.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// When it was added.
    pub created_at: Time,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    created_at: i64,
}

impl From<Row> for Host {
    fn from(row: Row) -> Self {
        Self {
            id: HostId::new(row.id),
            name: row.name,
            created_at: Time::from_micros(row.created_at),
        }
    }
}

fn name_taken(fault: Fault) -> HostError {
    if is_taken(&fault, "hosts") {
        HostError::NameTaken
    } else {
        HostError::Fault(fault)
    }
}

fn event(name: &'static str, host: HostId, data: Value) -> Event {
    Event::by_owner(name, Subject::Host(host), data)
}

/// Adds a host.
///
/// # Errors
/// [`HostError::NameTaken`], or a fault.
pub async fn add(app: &App, owner: OwnerId, name: Slug) -> Result<Host, HostError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let id = tx
                    .number(&sql::INSERT, (name.as_str(), now))
                    .await
                    .map_err(name_taken)?;
                let host = Host {
                    id: HostId::new(id),
                    name: name.into_string(),
                    created_at: now,
                };
                audit::record(tx, now, event("host.add", host.id, json!({"name": host.name}))).await?;
                Ok(host)
            })
        })
        .await
}

/// The owner's hosts, oldest first, without removed ones.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Host>, Fault> {
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    Ok(rows.into_iter().map(Host::from).collect())
}

/// The live host that a word names: its id, or its name.
///
/// # Errors
/// [`HostError::NotFound`], or a fault.
pub async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Host, HostError> {
    let word = Word::of(word);
    app.db
        .read(owner, move |tx| Box::pin(async move { found(tx, word).await }))
        .await
}

async fn found(tx: &mut Tx, word: Word) -> Result<Host, HostError> {
    let row: Option<Row> = tx.optional(&sql::FIND, (word.id, word.name)).await?;
    row.map(Host::from).ok_or(HostError::NotFound)
}

async fn of(tx: &mut Tx, host: HostId) -> Result<Host, HostError> {
    found(tx, Word::of_id(host.get())).await
}

/// Gives a host another name. Its id, which is what grants hold, stays.
///
/// # Errors
/// [`HostError::NotFound`], [`HostError::NameTaken`], or a fault.
pub async fn rename(app: &App, owner: OwnerId, host: HostId, name: Slug) -> Result<Host, HostError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, host).await?;
                tx.run(&sql::RENAME, (host, name.as_str()))
                    .await
                    .map_err(name_taken)?;
                let data = json!({"from": before.name, "to": name.as_str()});
                audit::record(tx, now, event("host.rename", host, data)).await?;
                Ok(Host {
                    name: name.into_string(),
                    ..before
                })
            })
        })
        .await
}

/// Removes a host that no queued run waits for: its name is free again, its id never comes back.
///
/// # Errors
/// [`HostError::NotFound`], [`HostError::InUse`], or a fault.
pub async fn remove(app: &App, owner: OwnerId, host: HostId) -> Result<Host, HostError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, host).await?;
                let queued: Vec<(i64, String)> = tx.all(&sql::QUEUED, (host,)).await?;
                if !queued.is_empty() {
                    let runs = queued.into_iter().map(|(id, name)| Named {
                        id: RunId::new(id),
                        name,
                    });
                    return Err(HostError::InUse(runs.collect()));
                }
                tx.run(&sql::REMOVE, (host, now)).await?;
                audit::record(tx, now, event("host.remove", host, json!({"name": before.name}))).await?;
                Ok(before)
            })
        })
        .await
}
