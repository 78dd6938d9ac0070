//! A database that is open: runs jobs on the write lane and readers of SQLite or the pool of Postgres. Never decides what a job does.

use std::sync::Arc;

use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;

use crate::JobFuture;
use crate::lane::Lane;
use crate::listen::CHANNEL;
use crate::lock::{Locks, Place};
use crate::open::{self, OpenError, Options};
use crate::sql::Sql;
use crate::tx::{Conn, Tx, attempt, kind};
use crate::wake::{Topic, Wakeups};

/// Which engine a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The embedded default: one file.
    Sqlite,
    /// For several servers on one database.
    Postgres,
}

/// A database, open. Cloning shares it.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pool: Pool,
    wakeups: Wakeups,
    pub(crate) place: Place,
}

pub(crate) enum Pool {
    Sqlite {
        lane: Lane,
        readers: SqlitePool,
    },
    Postgres {
        pool: PgPool,
        listener: tokio::task::JoinHandle<()>,
    },
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Pool::Postgres { listener, .. } = &self.pool {
            listener.abort();
        }
    }
}

impl Db {
    /// Opens the database, makes it when it is a SQLite file that does not exist, and brings it to this version's schema.
    ///
    /// # Errors
    /// A sentence for the person who starts muster; the database is then as it was.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        open::open(options).await
    }

    pub(crate) fn of(pool: Pool, wakeups: Wakeups, place: Place) -> Self {
        Self {
            inner: Arc::new(Inner { pool, wakeups, place }),
        }
    }

    /// Which engine this is.
    pub fn engine(&self) -> Engine {
        match self.inner.pool {
            Pool::Sqlite { .. } => Engine::Sqlite,
            Pool::Postgres { .. } => Engine::Postgres,
        }
    }

    /// Wake-ups of this database.
    pub fn wakeups(&self) -> &Wakeups {
        &self.inner.wakeups
    }

    /// Locks between the processes that use this database.
    pub fn locks(&self) -> Locks {
        Locks::of(&self.inner)
    }

    /// Runs `job` in a writing transaction on `owner`'s rows; it is durable when this answers `Ok`.
    ///
    /// # Errors
    /// What the job refused with (nothing is stored then), or a fault.
    pub async fn write<F, T, E>(&self, owner: OwnerId, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        self.begin_write(Some(owner), "", job).await
    }

    /// Runs `job` in a writing transaction across owners, for a named reason.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub async fn system_write<F, T, E>(&self, reason: &'static str, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        self.begin_write(None, reason, job).await
    }

    /// Runs `job` on a snapshot of `owner`'s rows.
    ///
    /// # Errors
    /// What the job refused with, or a fault.
    pub async fn read<F, T, E>(&self, owner: OwnerId, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        self.begin_read(Some(owner), "", job).await
    }

    /// Runs `job` on a snapshot across owners, for a named reason.
    ///
    /// # Errors
    /// As [`Db::read`].
    pub async fn system_read<F, T, E>(&self, reason: &'static str, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        self.begin_read(None, reason, job).await
    }

    /// Closes the connections; a SQLite database is checkpointed by its last one.
    pub async fn close(&self) {
        match &self.inner.pool {
            Pool::Sqlite { lane, readers } => {
                readers.close().await;
                lane.close().await;
            }
            Pool::Postgres { pool, listener } => {
                listener.abort();
                pool.close().await;
            }
        }
    }

    async fn begin_write<F, T, E>(&self, owner: Option<OwnerId>, reason: &'static str, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        match &self.inner.pool {
            Pool::Sqlite { lane, .. } => lane.write(owner, job).await,
            Pool::Postgres { pool, .. } => {
                let mut tx = begin_postgres(pool, WRITE, owner, reason).await?;
                let value = attempt(&mut tx, job).await?;
                let wakes = std::mem::take(&mut tx.wakes);
                commit_postgres(tx, &wakes).await?;
                for topic in wakes {
                    self.inner.wakeups.wake(topic);
                }
                Ok(value)
            }
        }
    }

    async fn begin_read<F, T, E>(&self, owner: Option<OwnerId>, reason: &'static str, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        let mut tx = match &self.inner.pool {
            Pool::Sqlite { readers, .. } => {
                let begun = readers
                    .begin()
                    .await
                    .map_err(|e| Fault::new(kind(&e), "the database did not answer").because(e))?;
                Tx::new(Conn::SqliteRead(begun), owner)
            }
            Pool::Postgres { pool, .. } => begin_postgres(pool, READ, owner, reason).await?,
        };
        // A reader has nothing to commit: dropping the transaction ends it.
        job(&mut tx).await
    }
}

/// How a writing transaction begins on Postgres: every move of a state is one guarded statement, so nothing stricter is needed.
const WRITE: &str = "BEGIN";
/// How a reading one does: one snapshot for all its statements, and no writes, as on SQLite.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Begins on a connection that works. One that broke while nobody used it (Postgres was restarted) is found out here, before anything
/// was asked of it, so the next is tried: at most all that may lie in the pool, and a new one.
async fn begin_postgres(
    pool: &PgPool,
    how: &'static str,
    owner: Option<OwnerId>,
    reason: &'static str,
) -> Result<Tx, Fault> {
    let mut left = pool.options().get_max_connections();
    loop {
        match begin_scoped(pool, how, owner, reason).await {
            Ok(begun) => return Ok(Tx::new(Conn::Postgres(begun), owner)),
            Err(error) if left > 0 && broke(&error) => left -= 1,
            Err(error) => return Err(Fault::new(kind(&error), "the database did not answer").because(error)),
        }
    }
}

/// Whether it was the connection that broke. A pool that had none to give, or that is closed, has waited already or will never have one.
fn broke(error: &sqlx::Error) -> bool {
    kind(error) == FaultKind::Unavailable
        && !matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
}

async fn begin_scoped(
    pool: &PgPool,
    how: &'static str,
    owner: Option<OwnerId>,
    reason: &'static str,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, sqlx::Error> {
    let mut begun = pool.begin_with(how).await?;
    // Local to the transaction: the next user of the pooled connection starts with neither. RLS policies read both.
    let scoped = match owner {
        Some(owner) => sqlx::query("SELECT set_config('muster.owner', $1, true)").bind(owner.to_string()),
        None => sqlx::query("SELECT set_config('muster.system', $1, true)").bind(reason),
    };
    scoped.execute(&mut *begun).await?;
    Ok(begun)
}

async fn commit_postgres(tx: Tx, wakes: &[Topic]) -> Result<(), Fault> {
    let Conn::Postgres(mut begun) = tx.conn else {
        return Err(Fault::other("a transaction changed its engine"));
    };
    for topic in wakes {
        let sent = sqlx::query("SELECT pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(topic.encode())
            .execute(&mut *begun)
            .await;
        sent.map_err(|e| Fault::new(kind(&e), "a write was not stored").because(e))?;
    }
    begun.commit().await.map_err(|e| {
        Fault::new(
            kind(&e),
            "Postgres did not confirm a commit; the write may be stored or not",
        )
        .because(e)
    })
}

/// The two columns of an engine's description of one prepared statement, for the catalogue test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// How many placeholders it takes.
    pub parameters: usize,
    /// The names of the columns it answers.
    pub columns: Vec<String>,
}

impl Db {
    /// Prepares a statement without running it: what the catalogue test compares between the engines.
    ///
    /// # Errors
    /// A fault naming the statement when the engine refuses its text.
    pub async fn prepare(&self, statement: &'static Sql) -> Result<Prepared, Fault> {
        use sqlx::{Column as _, Executor as _, Statement as _};
        let failed = |e: sqlx::Error| {
            Fault::new(
                kind(&e),
                format!("statement {} cannot be prepared", statement.name),
            )
            .because(e)
        };
        let count = |p: Option<sqlx::Either<&[sqlx::postgres::PgTypeInfo], usize>>| {
            p.map_or(0, |p| p.either(<[_]>::len, |n| n))
        };
        match &self.inner.pool {
            Pool::Sqlite { readers, .. } => {
                use sqlx::SqlSafeStr as _;
                let mut conn = readers.acquire().await.map_err(failed)?;
                let prepared = conn
                    .prepare(statement.sqlite.into_sql_str())
                    .await
                    .map_err(failed)?;
                let parameters = prepared.parameters().map_or(0, |p| p.either(<[_]>::len, |n| n));
                Ok(Prepared {
                    parameters,
                    columns: prepared.columns().iter().map(|c| c.name().to_owned()).collect(),
                })
            }
            Pool::Postgres { pool, .. } => {
                use sqlx::SqlSafeStr as _;
                let mut conn = pool.acquire().await.map_err(failed)?;
                let prepared = conn
                    .prepare(statement.postgres.into_sql_str())
                    .await
                    .map_err(failed)?;
                Ok(Prepared {
                    parameters: count(prepared.parameters()),
                    columns: prepared.columns().iter().map(|c| c.name().to_owned()).collect(),
                })
            }
        }
    }
}
