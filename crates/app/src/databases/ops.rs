//! The database connections' acts. Never hands an address to anything but the call that needs it.

use muster_core::clock::Time;
use muster_core::engine::Engine;
use muster_core::ids::{ConnectionId, OwnerId, ProjectId};
use muster_core::text::Slug;
use muster_core::{Fault, Secret};
use muster_store::Tx;
use serde_json::{Map, Value, json};

use super::{DatabaseError, DbUrl, sql};
use crate::audit::{self, Event, Subject};
use crate::named::{Named, Word, is_taken};
use crate::tasks::By;
use crate::{App, RESOURCES, seal};

/// A live database connection, without its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its id.
    pub id: ConnectionId,
    /// Its name.
    pub name: String,
    /// Whose protocol it speaks.
    pub engine: Engine,
    /// The project it belongs to.
    pub project: Named<ProjectId>,
    /// Whether the account that reads may do more than read, and its owner took that.
    pub wide: bool,
    /// Whether its account was looked at, or taken unseen as wide, or is none (SQLite). Before that nothing is read through it.
    pub looked: bool,
    /// Whether writes have an account of their own.
    pub has_write_account: bool,
    /// When it was added.
    pub created_at: Time,
}

/// A new database connection, its fields already checked.
#[derive(Debug, Clone)]
pub struct NewConnection {
    /// Unique among the owner's live connections.
    pub name: Slug,
    /// The project it belongs to.
    pub project: ProjectId,
    /// Where, with the account that reads.
    pub url: DbUrl,
    /// The same with the account that writes.
    pub write_url: Option<DbUrl>,
    /// Whether the account that reads may do more than read, and its owner took that.
    pub wide: bool,
    /// Whether the account was looked at. A file of SQLite needs no look, and what is taken as wide without one is taken unseen.
    pub looked: bool,
}

/// Which addresses of a connection are replaced. What is not named stays.
#[derive(Debug, Clone)]
pub struct NewUrls {
    /// Where, with the account that reads; and of that account [`NewConnection::wide`] and [`NewConnection::looked`].
    pub read: Option<(DbUrl, bool, bool)>,
    /// The one with the account that writes.
    pub write: NewWrite,
}

/// What becomes of the address with the account that writes.
#[derive(Debug, Clone)]
pub enum NewWrite {
    /// It stays.
    Kept,
    /// There is none any more.
    Removed,
    /// It is this one.
    Set(DbUrl),
}

/// The addresses as they are stored. Each replacement makes them others, whatever they say.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    read: String,
    write: Option<String>,
    looked: bool,
}

/// The addresses of a connection, for the gateway alone.
#[derive(Debug, Clone)]
pub struct Urls {
    /// With the account that reads.
    pub read: DbUrl,
    /// With the account that writes, where there is one.
    pub write: Option<DbUrl>,
    /// As [`Connection::looked`].
    pub looked: bool,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    engine: String,
    project_id: i64,
    project_name: String,
    wide: bool,
    looked: bool,
    has_write: bool,
    created_at: i64,
}

impl TryFrom<Row> for Connection {
    type Error = Fault;

    fn try_from(row: Row) -> Result<Self, Fault> {
        let engine = Engine::ALL
            .into_iter()
            .find(|engine| engine.as_str() == row.engine)
            .ok_or_else(|| Fault::contradiction("db_connections", row.id, "its engine is no engine"))?;
        Ok(Self {
            id: ConnectionId::new(row.id),
            name: row.name,
            engine,
            project: Named {
                id: ProjectId::new(row.project_id),
                name: row.project_name,
            },
            wide: row.wide,
            looked: row.looked,
            has_write_account: row.has_write,
            created_at: Time::from_micros(row.created_at),
        })
    }
}

fn name_taken(fault: Fault) -> DatabaseError {
    if is_taken(&fault, "db_connections") {
        DatabaseError::NameTaken
    } else {
        DatabaseError::Fault(fault)
    }
}

pub(super) fn event(name: &'static str, connection: ConnectionId, data: Value) -> Event {
    Event::by_owner(name, Subject::Connection(connection), data)
}

/// What an address is sealed for: its own column of its own row of its own owner.
fn place(owner: OwnerId, connection: ConnectionId, column: &'static str) -> String {
    format!("muster/db_connection/{owner}/{connection}/{column}")
}

/// Stores a database connection. The database is not contacted.
///
/// # Errors
/// [`DatabaseError::OtherEngine`], [`DatabaseError::NameTaken`], [`DatabaseError::NoProject`], [`DatabaseError::Seal`], or a fault.
pub async fn add(app: &App, owner: OwnerId, new: NewConnection) -> Result<Connection, DatabaseError> {
    let engine = new.url.engine();
    if new.write_url.as_ref().is_some_and(|url| url.engine() != engine) {
        return Err(DatabaseError::OtherEngine);
    }
    let key = seal::ready(app).await?;
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let seen = new.looked || engine == Engine::Sqlite;
                // What was taken unseen as wide is not looked at later either.
                let looked = (seen || new.wide).then_some(now);
                let args = (new.project, new.name.as_str(), engine.as_str(), new.wide, looked, now);
                let inserted: Option<(i64,)> = tx.optional(&sql::INSERT, args).await.map_err(name_taken)?;
                let id = ConnectionId::new(inserted.ok_or(DatabaseError::NoProject)?.0);
                let url = key.seal(&place(owner, id, "url"), new.url.secret())?;
                let write_url = new
                    .write_url
                    .map(|url| key.seal(&place(owner, id, "write_url"), url.secret()))
                    .transpose()?;
                tx.run(&sql::SET_URLS, (id, url, write_url)).await?;
                let data = json!({"name": new.name.as_str(), "engine": engine.as_str(), "project": new.project.to_string(), "wide": new.wide, "looked": seen, "unseen": new.wide && !seen});
                audit::record(tx, now, event("db.add", id, data)).await?;
                of(tx, id).await
            })
        })
        .await
}

/// The owner's database connections, oldest first, without removed ones.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Connection>, Fault> {
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    rows.into_iter().map(Connection::try_from).collect()
}

/// The live database connection that a word names: its id, or its name.
///
/// # Errors
/// [`DatabaseError::NotFound`], or a fault.
pub async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Connection, DatabaseError> {
    let word = Word::of(word);
    app.db
        .read(owner, move |tx| Box::pin(async move { found(tx, word).await }))
        .await
}

async fn found(tx: &mut Tx, word: Word) -> Result<Connection, DatabaseError> {
    let row: Option<Row> = tx.optional(&sql::FIND, (word.id, word.name)).await?;
    Ok(Connection::try_from(row.ok_or(DatabaseError::NotFound)?)?)
}

pub(super) async fn of(tx: &mut Tx, connection: ConnectionId) -> Result<Connection, DatabaseError> {
    found(tx, Word::of_id(connection.get())).await
}

/// The addresses of a live database connection.
///
/// # Errors
/// [`DatabaseError::NotFound`], [`DatabaseError::Seal`], or a fault.
pub async fn url(app: &App, owner: OwnerId, connection: ConnectionId) -> Result<Urls, DatabaseError> {
    let Sealed { read, write, looked } = sealed(app, owner, connection).await?;
    let key = seal::held(app)?;
    let open = |column, sealed: &str| -> Result<DbUrl, DatabaseError> {
        let url: Secret = key.open(&place(owner, connection, column), sealed)?;
        DbUrl::parse(url)
    };
    Ok(Urls {
        read: open("url", &read)?,
        write: write.map(|sealed| open("write_url", &sealed)).transpose()?,
        looked,
    })
}

/// The addresses of a live database connection, still sealed: whether they are the same as a moment ago.
///
/// # Errors
/// [`DatabaseError::NotFound`], or a fault.
pub async fn sealed(app: &App, owner: OwnerId, connection: ConnectionId) -> Result<Sealed, DatabaseError> {
    let row: Option<(String, Option<String>, bool)> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::URLS, (connection,)).await })
        })
        .await?;
    let (read, write, looked) = row.ok_or(DatabaseError::NotFound)?;
    Ok(Sealed { read, write, looked })
}

/// Replaces addresses of a database connection, and forgets what was found out about the old ones. Its id, which is what grants hold, stays. The
/// database is not contacted.
///
/// # Errors
/// [`DatabaseError::NotFound`], [`DatabaseError::EngineStays`], [`DatabaseError::Seal`], or a fault.
pub async fn set_url(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    new: NewUrls,
) -> Result<Connection, DatabaseError> {
    let key = seal::ready(app).await?;
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, connection).await?;
                let engine = before.engine;
                let mut data = Map::from_iter([("name".to_owned(), json!(before.name))]);
                if let Some((url, wide, looked)) = new.read {
                    if url.engine() != engine {
                        return Err(DatabaseError::EngineStays);
                    }
                    let seen = looked || engine == Engine::Sqlite;
                    // What was taken unseen as wide is not looked at later either.
                    let looked_at = (seen || wide).then_some(now);
                    let sealed = key.seal(&place(owner, connection, "url"), url.secret())?;
                    tx.run(&sql::SET_URL, (connection, sealed, wide, looked_at))
                        .await?;
                    let found = json!({"wide": wide, "looked": seen, "unseen": wide && !seen});
                    data.insert("read".to_owned(), found);
                }
                let write = match new.write {
                    NewWrite::Kept => None,
                    NewWrite::Removed => Some(("removed", None)),
                    NewWrite::Set(url) if url.engine() == engine => {
                        let sealed = key.seal(&place(owner, connection, "write_url"), url.secret())?;
                        Some(("set", Some(sealed)))
                    }
                    NewWrite::Set(_) => return Err(DatabaseError::EngineStays),
                };
                if let Some((word, sealed)) = write {
                    tx.run(&sql::SET_WRITE_URL, (connection, sealed)).await?;
                    data.insert("write".to_owned(), json!(word));
                }
                audit::record(tx, now, event("db.set_url", connection, Value::Object(data))).await?;
                of(tx, connection).await
            })
        })
        .await
}

/// Remembers that the account of a connection was looked at, by whose use, and may only read. To do it twice changes nothing.
///
/// # Errors
/// A fault.
pub async fn looked(
    app: &App,
    owner: OwnerId,
    by: By,
    connection: ConnectionId,
) -> Result<(), DatabaseError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                if tx.run(&sql::LOOKED, (connection, now)).await? == 1 {
                    let data = json!({"name": of(tx, connection).await?.name, "wide": false});
                    let event = Event {
                        actor: by.to_string(),
                        ..event("db.look", connection, data)
                    };
                    audit::record(tx, now, event).await?;
                }
                Ok(())
            })
        })
        .await
}

/// Gives a database connection another name. Its id, which is what grants hold, stays.
///
/// # Errors
/// [`DatabaseError::NotFound`], [`DatabaseError::NameTaken`], or a fault.
pub async fn rename(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
    name: Slug,
) -> Result<Connection, DatabaseError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, connection).await?;
                tx.run(&sql::RENAME, (connection, name.as_str()))
                    .await
                    .map_err(name_taken)?;
                let data = json!({"from": before.name, "to": name.as_str()});
                audit::record(tx, now, event("db.rename", connection, data)).await?;
                Ok(Connection {
                    name: name.into_string(),
                    ..before
                })
            })
        })
        .await
}

/// Removes a database connection and its addresses: its name is free again, its id never comes back. The database is not touched.
///
/// # Errors
/// [`DatabaseError::NotFound`], or a fault.
pub async fn remove(
    app: &App,
    owner: OwnerId,
    connection: ConnectionId,
) -> Result<Connection, DatabaseError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, connection).await?;
                tx.run(&sql::REMOVE, (connection, now)).await?;
                let data = json!({"name": before.name});
                audit::record(tx, now, event("db.remove", connection, data)).await?;
                Ok(before)
            })
        })
        .await
}
