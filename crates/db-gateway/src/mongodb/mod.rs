//! MongoDB: a command runs when every operator in it reads and the account's role lets it. Never lets a cursor stay open, nor a caller name another database.

mod bounds;
mod json;
mod reply;
mod scope;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Bson, Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{ClientOptions, ServerMonitoringMode, Tls as DriverTls, TlsOptions};
use mongodb::{Client, Database};
use tokio::sync::OnceCell;

use crate::address::{Tls, Url};
use crate::answer::Answer;
use crate::catalogue::{ColumnInfo, Description, Guarantee, Listed, Object, Schema, Wide, not_found};
use crate::classify::{Class, Verdict};
use crate::error::{Error, Scrub};
use crate::limits::Limits;
use crate::net;
use bounds::{bound, shorten_time};
use reply::{answer, batch, index, partly, shorten, tidy};

/// What a role that only reads is granted.
const NARROW: &[&str] = &[
    "changeStream",
    "collStats",
    "dbHash",
    "dbStats",
    "find",
    "killCursors",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "listSearchIndexes",
    "planCacheRead",
];

pub(crate) struct Server {
    url: Url,
    scrub: Scrub,
    client: OnceCell<Client>,
    /// Whether any server of the address was there, be it that it would not talk.
    heard: Arc<AtomicBool>,
    /// What came of the last try to reach one.
    last: Arc<Mutex<Option<String>>>,
    /// Whether the account was let in, and the servers were there ever since.
    met: Arc<AtomicBool>,
}

/// The driver's errors show its own structures; only what was said leaves.
fn said(error: &DriverError) -> String {
    match error.kind.as_ref() {
        ErrorKind::Io(error) => error.to_string(),
        ErrorKind::Command(command) => format!("{} ({})", command.message, command.code),
        ErrorKind::Authentication { message, .. }
        | ErrorKind::DnsResolve { message, .. }
        | ErrorKind::InvalidArgument { message, .. }
        | ErrorKind::InvalidResponse { message, .. }
        | ErrorKind::InvalidTlsConfig { message, .. } => {
            // A cause is told in the driver's own way, and stands behind what was said.
            let said = message.split("Some(Error").next().unwrap_or_default();
            said.trim_end_matches([' ', ':', ',']).to_owned()
        }
        ErrorKind::ServerSelection { .. } => "no server of the address answered".to_owned(),
        ErrorKind::ConnectionPoolCleared { .. } => {
            "the connection was closed by a failure on another one".to_owned()
        }
        _ => "the driver gave up on the server".to_owned(),
    }
}

/// Whether an error means that nobody was there.
fn nobody_there(error: &DriverError) -> bool {
    match error.kind.as_ref() {
        ErrorKind::DnsResolve { .. } => true,
        ErrorKind::Io(error) => net::nobody_there(error),
        _ => false,
    }
}

/// Whether what the driver tells of its servers means that one is there.
fn somebody_there(event: &SdamEvent) -> bool {
    match event {
        SdamEvent::ServerHeartbeatSucceeded(_) => true,
        SdamEvent::ServerHeartbeatFailed(failed) => !nobody_there(&failed.failure),
        _ => false,
    }
}

impl Server {
    pub(crate) fn new(url: Url) -> Self {
        Self {
            scrub: url.scrub(),
            url,
            client: OnceCell::new(),
            heard: Arc::default(),
            last: Arc::default(),
            met: Arc::default(),
        }
    }

    fn name(&self) -> &str {
        self.url.database.as_deref().unwrap_or("test")
    }

    async fn database(&self) -> Result<Database, Error> {
        let client = self
            .client
            .get_or_try_init(|| async {
                let mut options = ClientOptions::parse(&self.url.given)
                    .await
                    .map_err(|error| self.scrub.closed(said(&error), nobody_there(&error)))?;
                options.app_name = Some("muster".to_owned());
                options.server_selection_timeout = Some(Duration::from_secs(10));
                options.connect_timeout = Some(Duration::from_secs(10));
                options.max_pool_size = Some(4);
                // A server whose sign-in failed counts as unknown until it is looked at again. A look that the server may hold back for
                // ten seconds is too late for the next call, which would be told that nobody is there.
                options.server_monitoring_mode = Some(ServerMonitoringMode::Poll);
                if options.tls.is_none() && self.url.tls != Tls::Off {
                    options.tls = Some(DriverTls::Enabled(TlsOptions::builder().build()));
                }
                let (heard, last, met) = (
                    Arc::clone(&self.heard),
                    Arc::clone(&self.last),
                    Arc::clone(&self.met),
                );
                options.sdam_event_handler = Some(EventHandler::callback(move |event| {
                    if somebody_there(&event) {
                        heard.store(true, Ordering::Relaxed);
                    }
                    if let SdamEvent::ServerHeartbeatFailed(failed) = &event {
                        met.store(false, Ordering::Relaxed);
                        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(said(&failed.failure));
                    }
                }));
                Client::with_options(options).map_err(|error| self.scrub.unreachable(said(&error)))
            })
            .await?;
        Ok(client.database(self.name()))
    }

    fn error(&self, error: &DriverError, limits: Limits) -> Error {
        match error.kind.as_ref() {
            ErrorKind::Command(command) if matches!(command.code, 50 | 262) => {
                Error::TimedOut { after: limits.time }
            }
            ErrorKind::Command(command) => Error::Engine {
                code: command.code.to_string(),
                message: self.scrub.clean(&command.message),
                position: None,
            },
            ErrorKind::ServerSelection { .. } => self.nobody(&said(error)),
            ErrorKind::Authentication { .. } => self.scrub.not_let_in(said(error)),
            _ => self.scrub.unreachable(said(error)),
        }
    }

    /// No server of the address could be used, be it that there is none or that none would talk.
    fn nobody(&self, why: &str) -> Error {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match last.as_deref() {
            Some(last) => format!("{why}: {last}"),
            None => why.to_owned(),
        };
        self.scrub.closed(why, !self.heard.load(Ordering::Relaxed))
    }

    /// The database, once a server of it has answered and let the account in. The driver only begins to look for one when there is a command.
    async fn reached(&self, limits: Limits) -> Result<Database, Error> {
        let patience = limits.connecting();
        let reaching = async {
            let database = self.database().await?;
            if !self.met.load(Ordering::Relaxed) {
                match database.run_command(doc! { "ping": 1 }).await {
                    Ok(_) => {}
                    // It may not do even that, and was let in.
                    Err(error) if matches!(error.kind.as_ref(), ErrorKind::Command(_)) => {}
                    Err(error) => return Err(self.error(&error, limits)),
                }
                self.met.store(true, Ordering::Relaxed);
            }
            Ok(database)
        };
        tokio::time::timeout(patience, reaching)
            .await
            .unwrap_or_else(|_| {
                let why = format!("no whole answer came within {} s", patience.as_secs_f64());
                Err(self.nobody(&why))
            })
    }

    async fn command(&self, command: Document, limits: Limits) -> Result<Document, Error> {
        let unheard = Error::Unanswered { after: limits.time };
        self.asked(command, limits, unheard).await
    }

    /// The answer to a command, or `unheard` where none comes.
    async fn asked(&self, command: Document, limits: Limits, unheard: Error) -> Result<Document, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let database = self.reached(limits).await?;
            database.run_command(command).await.map_err(|error| {
                if !matches!(error.kind.as_ref(), ErrorKind::Command(_)) {
                    self.met.store(false, Ordering::Relaxed);
                }
                self.error(&error, limits)
            })
        })
        .await
        .unwrap_or_else(|_| {
            self.met.store(false, Ordering::Relaxed);
            Err(unheard)
        })
    }

    fn parse(&self, statement: &str) -> Result<Document, Error> {
        let gate = |reason: &str| Error::Gate {
            verdict: Verdict {
                class: Class::Refuse,
                reason: reason.to_owned().into(),
            },
        };
        let mut command: Document =
            serde_json::from_str(statement).map_err(|_| gate("it is no command in Extended JSON"))?;
        match command.remove("$db") {
            Some(Bson::String(name)) if name == self.name() => {}
            None => {}
            Some(_) => return Err(gate("it names another database than the connection's")),
        }
        if scope::leaves(&command, self.name()) {
            return Err(gate("it reads or writes another database than the connection's"));
        }
        command.remove("$readPreference");
        Ok(command)
    }

    pub(crate) async fn read(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        let command = self.parse(statement)?;
        self.run(command, limits).await
    }

    async fn run(&self, mut command: Document, limits: Limits) -> Result<Answer, Error> {
        bound(&mut command, limits);
        let mut reply = self.command(command.clone(), limits).await?;
        let open = self.close_cursor(&command, &reply, limits).await;
        let truncated = shorten(&mut reply, limits) || open;
        Ok(answer(reply, truncated))
    }

    /// Whether the cursor had more; it is closed.
    async fn close_cursor(&self, command: &Document, reply: &Document, limits: Limits) -> bool {
        let Ok(cursor) = reply.get_document("cursor") else {
            return false;
        };
        let Ok(id) = cursor.get_i64("id") else {
            return false;
        };
        if id == 0 {
            return false;
        }
        let namespace = cursor.get_str("ns").unwrap_or_default();
        let collection = namespace.split_once('.').map_or_else(
            || command.values().next().and_then(Bson::as_str).unwrap_or_default(),
            |(_, collection)| collection,
        );
        // It would time out by itself; should this fail, that is what happens.
        let _ = self
            .command(doc! { "killCursors": collection, "cursors": [id] }, limits)
            .await;
        true
    }

    /// A command that may write, with its bounds.
    fn writing(&self, statement: &str, limits: Limits) -> Result<Document, Error> {
        let mut command = self.parse(statement)?;
        if command.keys().next().is_some_and(|name| name == "aggregate") {
            bound(&mut command, limits);
        } else {
            shorten_time(&mut command, limits);
        }
        Ok(command)
    }

    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        let command = self.writing(statement, limits)?;
        let unheard = Error::GivenUp { after: limits.time };
        let reply = match self.asked(command, limits, unheard.clone()).await {
            // Documents that were changed before the server stopped stay so.
            Err(Error::TimedOut { .. }) => return Err(unheard),
            other => other?,
        };
        if let Ok(errors) = reply.get_array("writeErrors")
            && let Some(Bson::Document(first)) = errors.first()
        {
            return Err(Error::Engine {
                code: first.get_i32("code").unwrap_or_default().to_string(),
                message: format!(
                    "{}{}",
                    self.scrub.clean(first.get_str("errmsg").unwrap_or_default()),
                    partly(&reply, errors.len())
                ),
                position: None,
            });
        }
        let mut reply = reply;
        let truncated = shorten(&mut reply, limits);
        Ok(answer(reply, truncated))
    }

    pub(crate) async fn version(&self) -> Result<String, Error> {
        let reply = self.command(doc! { "buildInfo": 1 }, Limits::default()).await?;
        Ok(format!(
            "MongoDB {}",
            reply.get_str("version").unwrap_or("of an unknown version")
        ))
    }

    pub(crate) async fn schemas(&self, _limits: Limits) -> Result<Listed<Schema>, Error> {
        Ok(Listed::whole(vec![Schema {
            name: self.name().to_owned(),
        }]))
    }

    pub(crate) async fn objects(&self, limits: Limits) -> Result<Listed<Object>, Error> {
        self.collections(doc! {}, limits).await
    }

    async fn collections(&self, filter: Document, limits: Limits) -> Result<Listed<Object>, Error> {
        let wanted = i32::try_from(limits.rows).unwrap_or(i32::MAX);
        let mut command = doc! { "listCollections": 1, "filter": filter, "cursor": { "batchSize": wanted } };
        bound(&mut command, limits);
        let reply = self.command(command.clone(), limits).await?;
        let truncated = self.close_cursor(&command, &reply, limits).await;
        let mut found: Vec<Object> = batch(&reply)
            .map(|collection| Object {
                schema: Some(self.name().to_owned()),
                name: collection.get_str("name").unwrap_or_default().to_owned(),
                kind: collection.get_str("type").unwrap_or("collection").to_owned(),
                ..Object::default()
            })
            .collect();
        found.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        Ok(Listed {
            all: found,
            truncated,
        })
    }

    async fn find(&self, named: &str, limits: Limits) -> Result<Object, Error> {
        let bare = named
            .strip_prefix(self.name())
            .and_then(|rest| rest.strip_prefix('.'));
        let mut names = vec![named];
        names.extend(bare);
        let room = Limits {
            rows: names.len() + 1,
            ..limits
        };
        let known = self.collections(doc! { "name": { "$in": names } }, room).await?;
        known
            .all
            .into_iter()
            .find(|object| object.name == named || bare == Some(object.name.as_str()))
            .ok_or_else(|| not_found(named))
    }

    /// Collections have no columns of their own; these are the fields of a sample.
    pub(crate) async fn describe(&self, named: &str, limits: Limits) -> Result<Description, Error> {
        let object = self.find(named, limits).await?;
        let mut sample = doc! { "find": &object.name, "limit": 100 };
        bound(&mut sample, limits);
        let reply = self.command(sample.clone(), limits).await?;
        self.close_cursor(&sample, &reply, limits).await;
        let documents: Vec<&Document> = batch(&reply).collect();
        let mut columns: Vec<(ColumnInfo, usize)> = Vec::new();
        for document in &documents {
            for (name, value) in *document {
                let kind = json::type_name(value);
                let room = columns.len() < 500;
                match columns.iter_mut().find(|(column, _)| column.name == *name) {
                    Some((column, count)) => {
                        *count += 1;
                        if !column.kind.split(" or ").any(|known| known == kind) {
                            column.kind = format!("{} or {kind}", column.kind);
                        }
                    }
                    None if room => columns.push((
                        ColumnInfo {
                            name: name.clone(),
                            kind: kind.to_owned(),
                            ..ColumnInfo::default()
                        },
                        1,
                    )),
                    None => {}
                }
            }
        }
        let indexes = match object.kind.as_str() {
            "view" => Vec::new(),
            _ => {
                let command = doc! { "listIndexes": &object.name };
                let reply = self.command(command.clone(), limits).await?;
                self.close_cursor(&command, &reply, limits).await;
                batch(&reply).map(index).collect()
            }
        };
        Ok(Description {
            object,
            columns: columns
                .into_iter()
                .map(|(column, count)| ColumnInfo {
                    nullable: count < documents.len(),
                    ..column
                })
                .collect(),
            keys: Vec::new(),
            indexes,
        })
    }

    pub(crate) async fn preview(
        &self,
        named: &str,
        rows: usize,
        sample: bool,
        limits: Limits,
    ) -> Result<Answer, Error> {
        let object = self.find(named, limits).await?;
        let limits = Limits { rows, ..limits };
        let wanted = i64::try_from(rows.saturating_add(1)).unwrap_or(i64::MAX);
        let command = if sample {
            doc! { "aggregate": &object.name, "pipeline": [{ "$sample": { "size": wanted } }], "cursor": {} }
        } else {
            doc! { "find": &object.name, "limit": wanted }
        };
        self.run(command, limits).await
    }

    /// A command that asks for a plan, and may run what it plans, with its bounds.
    fn planning(&self, statement: &str, limits: Limits) -> Result<Document, Error> {
        let mut command = self.parse(statement)?;
        bound(&mut command, limits);
        Ok(command)
    }

    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<serde_json::Value, Error> {
        let reply = self.command(self.planning(statement, limits)?, limits).await?;
        let plan = Bson::Document(tidy(reply));
        let text = json::write(&plan);
        if text.len() <= limits.bytes {
            return Ok(plan.into_relaxed_extjson());
        }
        // A part of it is no JSON any more, so it is told as a text.
        let fitting = text.floor_char_boundary(limits.bytes);
        let shown = text.get(..fitting).unwrap_or_default();
        Ok(serde_json::Value::String(format!("{shown}\n(more was cut off)")))
    }

    pub(crate) async fn wide(&self) -> Result<Wide, Error> {
        let reply = self
            .command(
                doc! { "connectionStatus": 1, "showPrivileges": true },
                Limits::default(),
            )
            .await?;
        let mut reasons = Vec::new();
        let info = reply.get_document("authInfo").cloned().unwrap_or_default();
        if info.get_array("authenticatedUsers").is_ok_and(Vec::is_empty) || self.url.user.is_none() {
            reasons.push("Nobody signs in: the server lets everybody do everything.".to_owned());
        } else {
            for privilege in info
                .get_array("authenticatedUserPrivileges")
                .into_iter()
                .flatten()
            {
                let Bson::Document(privilege) = privilege else {
                    continue;
                };
                let more: Vec<&str> = privilege
                    .get_array("actions")
                    .into_iter()
                    .flatten()
                    .filter_map(Bson::as_str)
                    .filter(|action| !NARROW.contains(action))
                    .collect();
                if !more.is_empty() {
                    let place = privilege
                        .get_document("resource")
                        .map(|place| json::write(&Bson::Document(place.clone())));
                    reasons.push(format!(
                        "The account may {} on {}.",
                        more.join(", "),
                        place.unwrap_or_else(|_| "the server".to_owned())
                    ));
                }
            }
            for role in info.get_array("authenticatedUserRoles").into_iter().flatten() {
                let Bson::Document(role) = role else { continue };
                let name = role.get_str("role").unwrap_or_default();
                if !matches!(name, "read" | "readAnyDatabase") && is_builtin(name) {
                    reasons.push(format!("The account has the role {name}."));
                }
            }
        }
        reasons.dedup();
        let database = serde_json::to_string(self.name()).unwrap_or_default();
        Ok(Wide {
            wide: !reasons.is_empty(),
            reasons,
            statements: vec![format!(
                "db.getSiblingDB({database}).createUser({{user: \"muster_reader\", pwd: \"CHANGE_ME\", roles: [{{role: \"read\", db: {database}}}]}})"
            )],
        })
    }

    pub(crate) async fn check(&self) -> Vec<Guarantee> {
        let version = self.version().await;
        let mut found = vec![Guarantee::reached(&version)];
        if version.is_err() {
            return found;
        }
        found.push(Guarantee::account(self.wide().await));
        // Deletes what nobody has, where it is let through.
        let nothing = doc! { "delete": "muster_check", "deletes": [{ "q": { "_id": "muster_check_none" }, "limit": 1 }] };
        let tried = self.command(nothing, Limits::default()).await;
        found.push(Guarantee::of(
            "no_write",
            matches!(&tried, Err(Error::Engine { code, .. }) if code == "13"),
            "Tried to delete a document that nobody has: the server refused it for want of rights, as it must.",
            "Tried to delete a document that nobody has: the server did not refuse it, so the account may write, and MongoDB has no read-only mode beside its roles. Add the database again with an account that has the role read.",
        ));
        let elsewhere = self.parse("{\"ping\":1,\"$db\":\"muster_check_other\"}");
        found.push(Guarantee::of(
            "no_other_database",
            elsewhere.is_err(),
            "Tried a command for another database: muster stopped it, as it must.",
            "Tried a command for another database: muster did not stop it.",
        ));
        found
    }
}

fn is_builtin(role: &str) -> bool {
    [
        "readWrite",
        "dbAdmin",
        "dbOwner",
        "userAdmin",
        "clusterAdmin",
        "clusterManager",
        "clusterMonitor",
        "hostManager",
        "backup",
        "restore",
        "root",
        "__system",
        "readWriteAnyDatabase",
        "userAdminAnyDatabase",
        "dbAdminAnyDatabase",
    ]
    .contains(&role)
}
