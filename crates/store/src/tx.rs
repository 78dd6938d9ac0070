//! A transaction that hides the engine: binds the owner, runs constant statements, collects wake-ups. Never lives across a call to the outside.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::{FutureExt as _, TryStreamExt as _};
use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Executor as _, FromRow, SqlSafeStr as _, SqlStr, Sqlite, SqliteConnection,
};

use crate::JobFuture;
use crate::postgres::Lent;
use crate::sql::{Scope, Sql};
use crate::value::{Args, Value};
use crate::wake::Topic;

/// A row type that both engines can fill: derive `sqlx::FromRow` with portable fields (`i64`, `String`, `bool`, `Vec<u8>`, and options of them).
pub trait Row: Send + Unpin + for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> {}
impl<T> Row for T where T: Send + Unpin + for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> {}

pub(crate) enum Conn {
    /// The one writing connection of the lane, which begins and ends transactions itself.
    Lane(SqliteConnection),
    /// A reader's snapshot.
    SqliteRead(sqlx::Transaction<'static, Sqlite>),
    /// Any transaction on Postgres.
    Postgres(Lent),
}

/// Work that waits for the end of its transaction.
pub(crate) type Last = Box<dyn for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<(), Fault>> + Send>;

/// An open transaction of one owner, or of the system for a named reason.
///
/// After a statement of it has failed it runs nothing more and is never committed, on either engine: Postgres would drop its work
/// at COMMIT without a word, and SQLite would keep half of it.
pub struct Tx {
    pub(crate) conn: Conn,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) wakes: Vec<Topic>,
    /// What runs once the job is done, right before the commit, in the order it was asked for.
    pub(crate) last: VecDeque<Last>,
    /// What the statement that failed broke on.
    pub(crate) failed: Option<FaultKind>,
    /// What the lane still has to run before the next statement, and runs in one trip with it; empty once it ran.
    pub(crate) before: &'static str,
}

impl Tx {
    pub(crate) fn new(conn: Conn, owner: Option<OwnerId>) -> Self {
        Self {
            conn,
            owner,
            wakes: Vec::new(),
            last: VecDeque::new(),
            failed: None,
            before: "",
        }
    }

    /// The owner whose rows this transaction may touch; `None` in a system transaction.
    pub fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    /// Wakes whoever waits for `topic`, once and only if this transaction commits.
    pub fn wake(&mut self, topic: Topic) {
        if !self.wakes.contains(&topic) {
            self.wakes.push(topic);
        }
    }

    /// Runs `work` after everything else of this transaction, right before its commit, and not at all if the job refuses. For what takes a
    /// lock that every transaction of an owner wants: taken last, by all of them, it can be waited for by nobody who holds what its holder
    /// still needs.
    pub fn at_the_end(
        &mut self,
        work: impl for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<(), Fault>> + Send + 'static,
    ) {
        self.last.push_back(Box::new(work));
    }

    async fn end(&mut self) -> Result<(), Fault> {
        while let Some(work) = self.last.pop_front() {
            work(self).await?;
        }
        Ok(())
    }

    /// Runs a statement and answers how many rows it changed.
    ///
    /// # Errors
    /// A fault; a constraint that refused is named in it.
    pub async fn run(&mut self, sql: &'static Sql, args: impl Args) -> Result<u64, Fault> {
        let values = self.arguments(sql, args)?;
        let done = match &mut self.conn {
            Conn::Lane(c) => {
                let arguments = sqlite_arguments(sql, values)?;
                eager(changed(
                    c,
                    sqlx::query_with(joined(&mut self.before, sql), arguments),
                ))
                .await
            }
            Conn::SqliteRead(t) => sqlx::query_with(sql.sqlite, sqlite_arguments(sql, values)?)
                .execute(&mut **t)
                .await
                .map(|done| done.rows_affected()),
            Conn::Postgres(t) => sqlx::query_with(sql.postgres, pg_arguments(sql, values)?)
                .execute(&mut **t)
                .await
                .map(|done| done.rows_affected()),
        };
        self.heard(sql, done)
    }

    /// All rows of a statement.
    ///
    /// # Errors
    /// A fault.
    pub async fn all<R: Row>(&mut self, sql: &'static Sql, args: impl Args) -> Result<Vec<R>, Fault> {
        let values = self.arguments(sql, args)?;
        let rows = match &mut self.conn {
            Conn::Lane(c) => {
                let arguments = sqlite_arguments(sql, values)?;
                eager(sqlx::query_as_with(joined(&mut self.before, sql), arguments).fetch_all(c)).await
            }
            Conn::SqliteRead(t) => {
                sqlx::query_as_with(sql.sqlite, sqlite_arguments(sql, values)?)
                    .fetch_all(&mut **t)
                    .await
            }
            Conn::Postgres(t) => {
                sqlx::query_as_with(sql.postgres, pg_arguments(sql, values)?)
                    .fetch_all(&mut **t)
                    .await
            }
        };
        self.heard(sql, rows)
    }

    /// The first row of a statement, if it has any.
    ///
    /// # Errors
    /// A fault.
    pub async fn optional<R: Row>(&mut self, sql: &'static Sql, args: impl Args) -> Result<Option<R>, Fault> {
        let values = self.arguments(sql, args)?;
        let row = match &mut self.conn {
            Conn::Lane(c) => {
                let arguments = sqlite_arguments(sql, values)?;
                eager(sqlx::query_as_with(joined(&mut self.before, sql), arguments).fetch_optional(c)).await
            }
            Conn::SqliteRead(t) => {
                sqlx::query_as_with(sql.sqlite, sqlite_arguments(sql, values)?)
                    .fetch_optional(&mut **t)
                    .await
            }
            Conn::Postgres(t) => {
                sqlx::query_as_with(sql.postgres, pg_arguments(sql, values)?)
                    .fetch_optional(&mut **t)
                    .await
            }
        };
        self.heard(sql, row)
    }

    /// The row of a statement that always has one (an aggregate, an INSERT with RETURNING).
    ///
    /// # Errors
    /// A fault, also when there is none.
    pub async fn one<R: Row>(&mut self, sql: &'static Sql, args: impl Args) -> Result<R, Fault> {
        self.optional(sql, args)
            .await?
            .ok_or_else(|| Fault::other(format!("statement {} answered no row", sql.name)))
    }

    /// The single 64-bit integer of a statement that always answers one.
    ///
    /// # Errors
    /// A fault.
    pub async fn number(&mut self, sql: &'static Sql, args: impl Args) -> Result<i64, Fault> {
        self.one::<(i64,)>(sql, args).await.map(|(n,)| n)
    }

    /// Why nothing of this transaction may be kept, whatever its job made of it: a statement of it failed.
    pub(crate) fn spoilt(&self) -> Option<Fault> {
        self.failed.as_ref().map(|kind| {
            Fault::new(
                kind.clone(),
                "a statement of a write failed, so nothing of the write was stored",
            )
        })
    }

    fn heard<T>(&mut self, sql: &'static Sql, answer: Result<T, sqlx::Error>) -> Result<T, Fault> {
        answer.map_err(|error| {
            let kind = kind(&error);
            self.failed.get_or_insert_with(|| kind.clone());
            Fault::new(kind, format!("statement {} failed", sql.name)).because(error)
        })
    }

    fn arguments(&self, sql: &'static Sql, args: impl Args) -> Result<Vec<Value>, Fault> {
        if let Some(kind) = &self.failed {
            return Err(Fault::new(
                kind.clone(),
                format!(
                    "statement {} was not run: one before it in its transaction failed",
                    sql.name
                ),
            ));
        }
        let owner = match (sql.scope, self.owner) {
            (Scope::Owner, Some(owner)) => Some(Value::Int(Some(owner.get()))),
            (Scope::System, None) => None,
            (Scope::Owner, None) => {
                return Err(Fault::other(format!(
                    "statement {} belongs to one owner but ran in a system transaction",
                    sql.name
                )));
            }
            (Scope::System, Some(_)) => {
                return Err(Fault::other(format!(
                    "statement {} crosses owners but ran in an owner's transaction",
                    sql.name
                )));
            }
        };
        let values: Vec<Value> = owner.into_iter().chain(args.values()).collect();
        if values.len() == sql.parameters {
            Ok(values)
        } else {
            Err(Fault::other(format!(
                "statement {} takes {} arguments and was given {}",
                sql.name,
                sql.parameters,
                values.len()
            )))
        }
    }
}

/// A statement's text with what must run before it. Each trip to the thread that runs SQLite costs more than most statements do.
fn joined(before: &mut &'static str, sql: &'static Sql) -> SqlStr {
    match std::mem::take(before) {
        "" => sql.sqlite.into_sql_str(),
        // Both are constants.
        before => AssertSqlSafe(format!("{before}; {}", sql.sqlite)).into_sql_str(),
    }
}

/// How long the lane asks again and again for the end of a statement before it goes to sleep until it is told.
const AWAKE: Duration = Duration::from_micros(250);

/// Waits for a statement of the lane without going to sleep at once. Most take less time than it takes to put a thread to sleep and to wake
/// it, on either side; all writers wait behind this one. Whatever else is ready on this thread runs in between.
pub(crate) async fn eager<T>(statement: impl Future<Output = T>) -> T {
    let mut statement = pin!(statement);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(ended) = futures::poll!(statement.as_mut()) {
            return ended;
        }
        if begun.elapsed() >= AWAKE {
            return statement.await;
        }
        tokio::task::yield_now().await;
    }
}

/// How many rows the last statement of the text changed; SQLite counts those before it again.
async fn changed(
    conn: &mut SqliteConnection,
    query: sqlx::query::Query<'_, Sqlite, SqliteArguments>,
) -> Result<u64, sqlx::Error> {
    let mut steps = conn.fetch_many(query);
    let mut changed = 0;
    while let Some(step) = steps.try_next().await? {
        if let sqlx::Either::Left(done) = step {
            changed = done.rows_affected();
        }
    }
    Ok(changed)
}

/// Runs a job. A panic of its is an error like others, so that the connection is brought out of the transaction, and SQLite's lane and the
/// server with it live on.
pub(crate) async fn caught<F, T, E>(tx: &mut Tx, job: F) -> Result<T, E>
where
    F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>>,
    E: From<Fault>,
{
    AssertUnwindSafe(async { job(&mut *tx).await })
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Fault::other("a job on the database panicked").into()))
}

/// Runs a write's job. When it passes over a statement that failed, nothing of it may be kept, and this says so.
pub(crate) async fn attempt<F, T, E>(tx: &mut Tx, job: F) -> Result<T, E>
where
    F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>>,
    E: From<Fault>,
{
    let outcome = match caught(tx, job).await {
        Ok(done) => tx.end().await.map(|()| done).map_err(E::from),
        Err(refused) => Err(refused),
    };
    tx.last.clear();
    match tx.spoilt() {
        Some(fault) if outcome.is_ok() => Err(fault.into()),
        _ => outcome,
    }
}

fn unbound(sql: &'static Sql, error: sqlx::error::BoxDynError) -> Fault {
    Fault::other(format!("the arguments of statement {} cannot be bound", sql.name)).because(error)
}

macro_rules! engine_arguments {
    ($name:ident, $arguments:ty) => {
        fn $name(sql: &'static Sql, values: Vec<Value>) -> Result<$arguments, Fault> {
            let mut arguments = <$arguments>::default();
            for value in values {
                match value {
                    Value::Int(v) => arguments.add(v),
                    Value::Text(v) => arguments.add(v),
                    Value::Bool(v) => arguments.add(v),
                    Value::Bytes(v) => arguments.add(v),
                }
                .map_err(|error| unbound(sql, error))?;
            }
            Ok(arguments)
        }
    };
}

engine_arguments!(sqlite_arguments, SqliteArguments);
engine_arguments!(pg_arguments, PgArguments);

/// What broke, read from the engine's own codes.
pub(crate) fn kind(error: &sqlx::Error) -> FaultKind {
    match error {
        sqlx::Error::Database(database) => {
            let code = database.code();
            let code = code.as_deref().unwrap_or_default();
            // SQLSTATE has five characters, SQLite's extended result codes are shorter numbers or may be four digits long.
            if database
                .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
                .is_some()
            {
                postgres_kind(code, database.constraint(), database.message())
            } else {
                sqlite_kind(code.parse().unwrap_or(0), database.message())
            }
        }
        sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => FaultKind::Unavailable,
        _ => FaultKind::Other,
    }
}

fn sqlite_kind(code: u32, message: &str) -> FaultKind {
    const CONSTRAINT_TRIGGER: u32 = 1811;
    // The memory that connections share lies in a file; when that cannot be made larger, the disk is full.
    const IOERR_SHMSIZE: u32 = 4874;
    match code & 0xff {
        13 => FaultKind::StorageFull,
        10 if code == IOERR_SHMSIZE => FaultKind::StorageFull,
        8 => FaultKind::ReadOnly,
        // BUSY, LOCKED, IOERR, CANTOPEN: a disk that fails now may work again.
        5 | 6 | 10 | 14 => FaultKind::Unavailable,
        19 if code == CONSTRAINT_TRIGGER => FaultKind::Constraint(message.to_owned()),
        19 => FaultKind::Constraint(
            message
                .rsplit_once(": ")
                .map_or(message, |(_, name)| name)
                .to_owned(),
        ),
        _ => FaultKind::Other,
    }
}

fn postgres_kind(code: &str, constraint: Option<&str>, message: &str) -> FaultKind {
    match code {
        "53100" => FaultKind::StorageFull,
        "25006" => FaultKind::ReadOnly,
        // Raised by muster's own triggers, which put the constraint's name into the message.
        "P0001" => FaultKind::Constraint(message.to_owned()),
        _ if code.starts_with("23") => FaultKind::Constraint(constraint.unwrap_or(message).to_owned()),
        _ if code.starts_with("08")
            || code.starts_with("53")
            || code.starts_with("57")
            || code.starts_with("58")
            || code == "55P03"
            || code == "40001"
            || code == "40P01" =>
        {
            FaultKind::Unavailable
        }
        _ => FaultKind::Other,
    }
}

/// How long an acquire waits for a connection before the request fails cleanly.
pub(crate) const ACQUIRE: Duration = Duration::from_secs(5);
