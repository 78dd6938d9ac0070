//! MongoDB: a command runs when every operator in it reads and the account's role lets it. Never lets a cursor stay open, nor a caller name another database.

mod json;
mod scope;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Bson, Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{ClientOptions, Tls as DriverTls, TlsOptions};
use mongodb::{Client, Database};
use tokio::sync::OnceCell;

use crate::address::{Tls, Url};
use crate::answer::Answer;
use crate::catalogue::{ColumnInfo, Description, Guarantee, Object, Rule, Schema, Wide, not_found};
use crate::classify::{Class, Verdict};
use crate::error::{Error, Scrub};
use crate::limits::Limits;
use crate::net;

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
                if options.tls.is_none() && self.url.tls != Tls::Off {
                    options.tls = Some(DriverTls::Enabled(TlsOptions::builder().build()));
                }
                let (heard, last) = (Arc::clone(&self.heard), Arc::clone(&self.last));
                options.sdam_event_handler = Some(EventHandler::callback(move |event| {
                    if somebody_there(&event) {
                        heard.store(true, Ordering::Relaxed);
                    }
                    if let SdamEvent::ServerHeartbeatFailed(failed) = &event {
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
            ErrorKind::ServerSelection { .. } => {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                let why = match last.as_deref() {
                    Some(last) => format!("{}: {last}", said(error)),
                    None => said(error),
                };
                self.scrub.closed(why, !self.heard.load(Ordering::Relaxed))
            }
            _ => self.scrub.unreachable(said(error)),
        }
    }

    async fn command(&self, command: Document, limits: Limits) -> Result<Document, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let database = self.database().await?;
            database
                .run_command(command)
                .await
                .map_err(|error| self.error(&error, limits))
        })
        .await
        .unwrap_or(Err(Error::TimedOut { after: limits.time }))
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

    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        let command = self.parse(statement)?;
        let is_pipeline = command.keys().next().is_some_and(|name| name == "aggregate");
        let reply = if is_pipeline {
            let mut command = command;
            bound(&mut command, limits);
            self.command(command, limits).await?
        } else {
            self.command(command, limits).await?
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

    pub(crate) async fn schemas(&self, _limits: Limits) -> Result<Vec<Schema>, Error> {
        Ok(vec![Schema {
            name: self.name().to_owned(),
        }])
    }

    pub(crate) async fn objects(&self, limits: Limits) -> Result<Vec<Object>, Error> {
        let wanted = i32::try_from(limits.rows).unwrap_or(i32::MAX);
        let command = doc! { "listCollections": 1, "cursor": { "batchSize": wanted } };
        let reply = self.command(command.clone(), limits).await?;
        self.close_cursor(&command, &reply, limits).await;
        let mut found: Vec<Object> = batch(&reply)
            .map(|collection| Object {
                schema: Some(self.name().to_owned()),
                name: collection.get_str("name").unwrap_or_default().to_owned(),
                kind: collection.get_str("type").unwrap_or("collection").to_owned(),
                ..Object::default()
            })
            .collect();
        found.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        Ok(found)
    }

    async fn find(&self, named: &str, limits: Limits) -> Result<Object, Error> {
        let bare = named
            .strip_prefix(self.name())
            .and_then(|rest| rest.strip_prefix('.'));
        let known = self
            .objects(Limits {
                rows: limits.rows.max(10_000),
                ..limits
            })
            .await?;
        known
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

    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<serde_json::Value, Error> {
        let reply = self.command(self.parse(statement)?, limits).await?;
        Ok(Bson::Document(tidy(reply)).into_relaxed_extjson())
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
        let reachable = Guarantee::reachable(self.version().await);
        if !reachable.ok {
            return vec![reachable];
        }
        let mut found = vec![reachable, Guarantee::narrow(self.wide().await)];
        // Deletes what nobody has, where it is let through.
        let nothing = doc! { "delete": "muster_check", "deletes": [{ "q": { "_id": "muster_check_none" }, "limit": 1 }] };
        let tried = self.command(nothing, Limits::default()).await;
        found.push(Guarantee::of(
            "no_write",
            matches!(&tried, Err(Error::Engine { code, .. }) if code == "13"),
            "A delete of nothing was refused for want of rights.",
            "A delete of nothing was not refused: the account may write, and MongoDB has no read-only mode besides its roles.",
        ));
        let elsewhere = self.parse("{\"ping\":1,\"$db\":\"muster_check_other\"}");
        found.push(Guarantee::of(
            "no_other_database",
            elsewhere.is_err(),
            "A command for another database was stopped.",
            "A command for another database was not stopped.",
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

/// The gateway's own bounds come after the caller's.
fn bound(command: &mut Document, limits: Limits) {
    let name = command.keys().next().cloned().unwrap_or_default();
    let batch = i32::try_from(limits.rows.saturating_add(1)).unwrap_or(i32::MAX);
    let milliseconds = i64::try_from(limits.milliseconds()).unwrap_or(i64::MAX);
    match name.as_str() {
        "find" => {
            let asked = command.get("batchSize").and_then(number).unwrap_or(i64::MAX);
            command.insert("batchSize", asked.min(i64::from(batch)));
            command.insert("maxTimeMS", milliseconds);
        }
        "aggregate" => {
            if !command.contains_key("explain") {
                command.insert("cursor", doc! { "batchSize": batch });
            }
            command.insert("maxTimeMS", milliseconds);
        }
        "count" | "distinct" | "explain" | "collStats" | "collstats" | "dbStats" | "dbstats" | "dataSize"
        | "datasize" | "validate" | "dbHash" | "dbhash" | "listCollections" | "listIndexes" => {
            command.insert("maxTimeMS", milliseconds);
        }
        _ => {
            command.remove("maxTimeMS");
        }
    }
}

fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}

fn batch(reply: &Document) -> impl Iterator<Item = &Document> {
    reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"))
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
}

fn index(described: &Document) -> Rule {
    let unique = described.get_bool("unique").unwrap_or(false);
    let key = described.get_document("key").cloned().unwrap_or_default();
    Rule {
        name: described.get_str("name").unwrap_or_default().to_owned(),
        kind: if unique { "unique" } else { "index" }.to_owned(),
        definition: json::write(&Bson::Document(key)),
    }
}

/// Cuts the first batch, or another list of the reply, to the limits. Whether anything was left off.
fn shorten(reply: &mut Document, limits: Limits) -> bool {
    let mut cut = false;
    let list = if reply.contains_key("cursor") {
        reply
            .get_document_mut("cursor")
            .and_then(|cursor| cursor.get_array_mut("firstBatch"))
            .ok()
    } else {
        reply.get_array_mut("values").ok()
    };
    if let Some(list) = list {
        let mut bytes = 0_usize;
        let fitting = list
            .iter()
            .take(limits.rows)
            .take_while(|item| {
                bytes = bytes.saturating_add(json::write(item).len());
                bytes <= limits.bytes
            })
            .count();
        cut = fitting < list.len();
        list.truncate(fitting);
    }
    cut
}

/// What a write that failed at some place did all the same. An insert counts what was stored, an update what was found, a delete what is gone.
fn partly(reply: &Document, errors: usize) -> String {
    let done = reply.get("n").and_then(number).unwrap_or(0);
    let more = match errors {
        0 | 1 => String::new(),
        errors => format!(" {} more failed.", errors - 1),
    };
    match done {
        0 => format!(" Nothing else of the command was done.{more}"),
        done => format!(
            " This is one part of the command; others were done and stay: the server counts {done}.{more}"
        ),
    }
}

/// Without what the cluster tells its drivers.
fn tidy(mut reply: Document) -> Document {
    for key in [
        "$clusterTime",
        "operationTime",
        "electionId",
        "opTime",
        "$configTime",
        "$topologyTime",
    ] {
        reply.remove(key);
    }
    reply
}

fn answer(reply: Document, truncated: bool) -> Answer {
    let text = json::write(&Bson::Document(tidy(reply)));
    let document = serde_json::from_str(&text).unwrap_or_default();
    Answer::Document { document, truncated }
}
