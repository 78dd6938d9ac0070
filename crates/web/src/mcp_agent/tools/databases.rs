//! Databases as agents read and write them: policy, what the call says about writing, and the class of its statement, in this order. Never reaches a database before the permit.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_app::App;
use muster_app::access::{self, Call};
use muster_app::databases::{self, DatabaseError, Sealed};
use muster_core::ids::{ConnectionId, OwnerId};
use muster_db_gateway::{
    Answer as Answered, Class, Connection, Engine, Error, Limits, Verdict, classify_connected,
    classify_explained,
};
use muster_policy::{Action, Needs, Pair, Permit, ScopeKind, Target};
use serde_json::{Value, json};

use super::answer::{Done, Failed};
use super::call::Calling;
use crate::databases::{self as stored, NotOpened};

type Answer = Result<Value, Failed>;

/// How long connections that nobody uses are kept, and how often they are looked at.
#[derive(Clone, Copy)]
struct Keeping {
    unused: Duration,
    look: Duration,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            unused: Duration::from_secs(120),
            look: Duration::from_secs(5),
        }
    }
}

/// A connection in use, the addresses that it was opened with, and when it was used last.
struct Kept {
    connection: Arc<Connection>,
    sealed: Sealed,
    used: Instant,
}

#[derive(Default)]
struct Known {
    all: HashMap<(OwnerId, ConnectionId), Kept>,
    /// Whether somebody looks after them.
    kept: bool,
}

/// Connections in use, so that each call need not sign in anew. An id never comes back, so a connection is the same as long as its addresses are,
/// which whatever process may replace. As long as one is kept a task looks after them: one that nobody uses, or that was removed by whatever
/// process, is let go, and its sessions with it.
#[derive(Clone, Default)]
pub(crate) struct Databases {
    known: Arc<Mutex<Known>>,
    keeping: Keeping,
}

impl Databases {
    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, owner: OwnerId, id: ConnectionId, sealed: &Sealed) -> Option<Arc<Connection>> {
        let mut known = self.locked();
        let kept = known.all.get_mut(&(owner, id))?;
        if kept.sealed != *sealed {
            return None;
        }
        kept.used = Instant::now();
        Some(kept.connection.clone())
    }

    fn keep(&self, app: &App, owner: OwnerId, id: ConnectionId, sealed: Sealed, connection: Arc<Connection>) {
        let mut known = self.locked();
        let kept = Kept {
            connection,
            sealed,
            used: Instant::now(),
        };
        known.all.insert((owner, id), kept);
        if !std::mem::replace(&mut known.kept, true) {
            let (own, app) = (self.clone(), app.clone());
            app.tasks.clone().spawn(async move { own.look_after(&app).await });
        }
    }

    /// Ends when nothing is kept any more, or with muster.
    async fn look_after(&self, app: &App) {
        let stop = app.tasks.stopping();
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.locked().all.clear();
                    return;
                }
                () = tokio::time::sleep(self.keeping.look) => {}
            }
            let kept: Vec<(OwnerId, ConnectionId)> = self.locked().all.keys().copied().collect();
            let removed = removed(app, &kept).await;
            let mut known = self.locked();
            known
                .all
                .retain(|key, kept| kept.used.elapsed() < self.keeping.unused && !removed.contains(key));
            if known.all.is_empty() {
                known.kept = false;
                return;
            }
        }
    }
}

/// Which of these are stored no more.
async fn removed(app: &App, kept: &[(OwnerId, ConnectionId)]) -> HashSet<(OwnerId, ConnectionId)> {
    let mut removed = HashSet::new();
    for owner in kept.iter().map(|(owner, _)| *owner).collect::<HashSet<_>>() {
        match databases::list(app, owner).await {
            Ok(live) => removed.extend(
                kept.iter()
                    .copied()
                    .filter(|(whose, id)| *whose == owner && live.iter().all(|one| one.id != *id)),
            ),
            // It is asked again; what nobody uses goes all the same.
            Err(fault) => tracing::warn!(
                error = %fault.chain(),
                "whether the databases that agents use are still stored could not be looked up; it is tried again"
            ),
        }
    }
    removed
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let failed = Self::new(error.code(), error.to_string());
        match (error.verdict(), error.engine_code()) {
            (Some(verdict), _) => failed.with("verdict", verdict.class.as_str()),
            (None, Some(code)) => failed.with("engine_code", code),
            (None, None) => failed,
        }
    }
}

impl From<DatabaseError> for Failed {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Fault(fault) => fault.into(),
            DatabaseError::NotFound => Self::missing("database connection"),
            other => {
                // What it says is for the owner: it names files of this machine.
                tracing::error!(error = %other, "a database connection could not be opened");
                Self::new(
                    "engine_error",
                    "The address of this database cannot be opened, and nothing was done. Your owner finds the reason in muster's log.",
                )
                .with("engine_code", "sealed")
            }
        }
    }
}

impl From<NotOpened> for Failed {
    fn from(error: NotOpened) -> Self {
        match error {
            NotOpened::Stored(error) => error.into(),
            NotOpened::Address(error) => {
                tracing::error!(error = %error, "the address of a database connection cannot be used");
                Self::new(
                    "engine_error",
                    "The address of this database cannot be used, and nothing was done. Your owner can add the connection again.",
                )
                .with("engine_code", "address")
            }
            NotOpened::Together(error) | NotOpened::Unseen(error) => error.into(),
            NotOpened::Wide(found) => {
                // Why is in the server's words.
                tracing::warn!(
                    code = "wide_account",
                    reasons = found.reasons.len(),
                    "the account of a database connection may do more than read, and its owner did not accept that; muster db check says why"
                );
                Self::new(
                    "wide_account",
                    "The account of this database may do more than read, so nothing was read. Only your owner can change that: by removing the connection and adding it with an account that only reads, or with --accept-wide-account.",
                )
            }
        }
    }
}

/// A call's way to its connection: the permit first.
struct Open {
    connection: Arc<Connection>,
    permit: Permit,
    limits: Limits,
}

/// What a call names and needs, before it is decided.
struct Named {
    target: Option<Target>,
    needs: Needs,
}

async fn named(call: &Calling<'_>, writes: bool) -> Result<Named, Failed> {
    let target = call.named(ScopeKind::DbConnection, "connection_id").await?;
    let pair = |action| match &target {
        Some(target) => Pair::new(action, target.clone()),
        None => Pair::naming_nothing(action),
    };
    let needs = if writes {
        Needs::new(pair(Action::DbRead), [pair(Action::DbWrite)])
    } else {
        Needs::new(pair(Action::DbRead), [])
    };
    Ok(Named { target, needs })
}

/// Takes a decision about the call, and opens the connection with the permit.
async fn open(call: &Calling<'_>, named: Named) -> Result<Open, Failed> {
    let permit = call.permitted(named.needs).await?;
    let missing = || Failed::missing("database connection");
    let target = named.target.ok_or_else(missing)?;
    if !permit.covers(Action::DbRead, target.resource()) {
        return Err(missing());
    }
    let (owner, id) = (call.caller.owner, id_of(&target)?);
    let limits = stored::limits(call.app, owner).await?;
    // Read before the connection is opened: what is replaced in between is noticed by the next call.
    let sealed = databases::sealed(call.app, owner, id).await?;
    let connection = if let Some(known) = call.databases.known(owner, id, &sealed) {
        known
    } else {
        let made = Arc::new(call.running(stored::open_for(call.app, call.caller, id)).await?);
        call.databases.keep(call.app, owner, id, sealed, made.clone());
        made
    };
    Ok(Open {
        connection,
        permit,
        limits,
    })
}

fn id_of(target: &Target) -> Result<ConnectionId, Failed> {
    let id = target.resource().id().parse();
    id.map_err(|_| Failed::missing("database connection"))
}

/// Stops a statement that could not run whatever the policy says, before anybody is asked about it.
async fn gate(
    call: &Calling<'_>,
    named: &Named,
    stops: impl FnOnce(Engine) -> Option<Verdict>,
) -> Result<(), Failed> {
    let Some(target) = &named.target else {
        return Ok(());
    };
    // How long a statement takes to be classified must not tell whether a hidden connection exists.
    let readable = access::leaves(call.app, call.caller, Pair::new(Action::DbRead, target.clone())).await?;
    if readable.is_none() {
        return Ok(());
    }
    let id = id_of(target)?;
    let known = databases::list(call.app, call.caller.owner).await?;
    let engine = known
        .iter()
        .find(|known| known.id == id)
        .map(|known| known.engine);
    let Some(verdict) = engine.and_then(stops) else {
        return Ok(());
    };
    let class = verdict.class;
    let error = Error::Gate { verdict };
    let asked = Call {
        tool: call.tool.to_owned(),
        arguments: call.arguments.whole(),
        needs: named.needs.clone(),
    };
    let refused = access::refuse_at_gate(call.app, call.caller, asked, error.to_string()).await;
    let at_gate = refused.code == "refused_gate";
    let failed = Failed::from(refused);
    Err(if at_gate {
        failed.with("verdict", class.as_str())
    } else {
        failed
    })
}

/// The rows that a call wants, at least one.
fn rows(call: &Calling<'_>) -> Result<Option<usize>, Failed> {
    match call.arguments.number("limit") {
        None => Ok(None),
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0)
            .map(Some)
            .ok_or_else(|| Failed::argument("the argument limit must be 1 or more")),
    }
}

fn unprintable(error: &serde_json::Error) -> Failed {
    tracing::error!(error = %error, "an answer of a database could not be spelled as JSON");
    Failed::new(
        "engine_error",
        "The answer of the database cannot be spelled as JSON; it was read and is not shown.",
    )
    .with("engine_code", "unprintable")
}

fn shown<T: serde::Serialize>(answer: &T) -> Answer {
    serde_json::to_value(answer).map_err(|error| unprintable(&error))
}

/// Rows, a reply or a document, every digit as the database wrote it.
fn said(answer: &Answered) -> Result<Done, Failed> {
    Ok(Done::Said {
        json: serde_json::to_string(answer).map_err(|error| unprintable(&error))?,
        text: answer.text(),
    })
}

fn statement<'c>(call: &'c Calling<'_>) -> &'c str {
    call.arguments.text("statement").unwrap_or_default()
}

/// A list under its name. That it was cut is said; of a whole one nothing is.
fn listed(name: &str, all: Value, truncated: bool) -> Value {
    if truncated {
        json!({name: all, "truncated": true})
    } else {
        json!({name: all})
    }
}

pub(super) async fn schemas(call: &Calling<'_>) -> Answer {
    let open = open(call, named(call, false).await?).await?;
    let found = call
        .running(open.connection.schemas(&open.permit, open.limits))
        .await?;
    Ok(listed("schemas", shown(&found.all)?, found.truncated))
}

pub(super) async fn objects(call: &Calling<'_>) -> Answer {
    let open = open(call, named(call, false).await?).await?;
    let schema = call.arguments.text("schema");
    let mut found = call
        .running(open.connection.objects(&open.permit, schema, open.limits))
        .await?;
    if let Some(kind) = call.arguments.text("kind") {
        found.all.retain(|object| object.kind == kind);
    }
    Ok(listed("objects", shown(&found.all)?, found.truncated))
}

pub(super) async fn describe(call: &Calling<'_>) -> Answer {
    let open = open(call, named(call, false).await?).await?;
    let object = call.arguments.text("object").unwrap_or_default();
    let found = call
        .running(open.connection.describe(&open.permit, object, open.limits))
        .await?;
    shown(&found)
}

pub(super) async fn preview(call: &Calling<'_>) -> Result<Done, Failed> {
    let wanted = rows(call)?;
    let open = open(call, named(call, false).await?).await?;
    let object = call.arguments.text("object").unwrap_or_default();
    let rows = wanted.unwrap_or(20);
    let found = call
        .running(
            open.connection
                .preview(&open.permit, object, rows, false, open.limits),
        )
        .await?;
    said(&found)
}

pub(super) async fn explain(call: &Calling<'_>) -> Result<Done, Failed> {
    let named = named(call, false).await?;
    // What is explained is not run, so a writing statement passes here: the explaining one is judged.
    gate(call, &named, |engine| {
        let verdict = classify_explained(engine, statement(call));
        (verdict.class != Class::Read).then_some(verdict)
    })
    .await?;
    let open = open(call, named).await?;
    let plan = call
        .running(
            open.connection
                .explain(&open.permit, statement(call), open.limits),
        )
        .await?;
    let json = serde_json::to_string(&json!({ "plan": plan })).map_err(|error| unprintable(&error))?;
    let text = match plan {
        Value::String(lines) => lines,
        other => other.to_string(),
    };
    Ok(Done::Said { json, text })
}

pub(super) async fn query(call: &Calling<'_>) -> Result<Done, Failed> {
    let wanted = rows(call)?;
    let named = named(call, false).await?;
    gate(call, &named, |engine| {
        let verdict = classify_connected(engine, statement(call));
        (verdict.class != Class::Read).then_some(verdict)
    })
    .await?;
    let open = open(call, named).await?;
    let limits = Limits {
        rows: wanted.map_or(open.limits.rows, |wanted| wanted.min(open.limits.rows)),
        ..open.limits
    };
    let found = call
        .running(open.connection.read(&open.permit, statement(call), limits))
        .await?;
    said(&found)
}

pub(super) async fn execute(call: &Calling<'_>) -> Result<Done, Failed> {
    let write = call.arguments.flag("write");
    let named = named(call, true).await?;
    gate(call, &named, |engine| {
        let verdict = classify_connected(engine, statement(call));
        match verdict.class {
            Class::Refuse => Some(verdict),
            _ if write => None,
            _ => Some(Verdict {
                reason: "the call does not say write: true".into(),
                ..verdict
            }),
        }
    })
    .await?;
    let open = open(call, named).await?;
    let found = call
        .running(
            open.connection
                .write(&open.permit, statement(call), write, open.limits),
        )
        .await?;
    said(&found)
}

#[cfg(test)]
mod tests {
    use muster_app::databases::{DbUrl, NewConnection};
    use muster_app::projects::{self, NewProject};
    use muster_core::Secret;
    use muster_core::text::Slug;
    use muster_testkit::{idle, on_both};

    use super::*;

    async fn stored_one(app: &App, owner: OwnerId) -> (ConnectionId, Arc<Connection>) {
        let dir = app.settings.data_dir.clone();
        let project = NewProject {
            name: Slug::parse("name", "one").unwrap(),
            root: dir.clone(),
            repo: None,
        };
        let project = projects::add(app, owner, project).await.unwrap();
        let new = NewConnection {
            name: Slug::parse("name", "file").unwrap(),
            project: project.id,
            url: DbUrl::parse(Secret::new(format!("sqlite://{}/one.db", dir.display()))).unwrap(),
            write_url: None,
            wide: false,
            looked: true,
        };
        let id = databases::add(app, owner, new).await.unwrap().id;
        (id, Arc::new(stored::open(app, owner, id).await.unwrap()))
    }

    #[test]
    fn a_connection_that_was_removed_or_that_nobody_uses_is_let_go_without_another_call() {
        on_both(|muster| async move {
            let (app, owner) = (&muster.app, muster.owner);
            let look = Duration::from_millis(10);
            let (id, connection) = stored_one(app, owner).await;
            let gone = Arc::downgrade(&connection);
            let sealed = databases::sealed(app, owner, id).await.unwrap();

            // Who keeps one again has somebody who looks after it again.
            let short = Databases {
                keeping: Keeping {
                    unused: Duration::ZERO,
                    look,
                },
                ..Databases::default()
            };
            for _ in 0..2 {
                short.keep(app, owner, id, sealed.clone(), connection.clone());
                idle(app).await;
                assert!(short.known(owner, id, &sealed).is_none());
            }

            // Where nothing is ever unused for too long, only the removal can end it; here by another process.
            let long = Databases {
                keeping: Keeping {
                    unused: Duration::MAX,
                    look,
                },
                ..Databases::default()
            };
            long.keep(app, owner, id, sealed.clone(), connection.clone());
            assert!(long.known(owner, id, &sealed).is_some());
            databases::remove(&muster.second().await.0, owner, id)
                .await
                .unwrap();
            idle(app).await;
            assert!(long.known(owner, id, &sealed).is_none());
            drop(connection);
            assert!(gone.upgrade().is_none(), "somebody still holds it");
        });
    }
}
