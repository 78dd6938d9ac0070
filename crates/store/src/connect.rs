//! A database that is open: runs jobs on the write lane and readers of SQLite or the pool of Postgres. Never decides what a job does.

use std::sync::Arc;

use muster_core::Fault;
use muster_core::ids::OwnerId;
use sqlx::sqlite::SqlitePool;

use crate::JobFuture;
use crate::lane::Lane;
use crate::lock::{self, Locks, Place};
use crate::open::{self, OpenError, Options};
use crate::postgres::{Reach, Server};
use crate::probe::Probe;
use crate::sql::Sql;
use crate::tx::{Conn, Tx, caught, kind};
use crate::wake::Wakeups;

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
    probe: Probe,
}

pub(crate) enum Pool {
    Sqlite {
        lane: Lane,
        readers: SqlitePool,
    },
    Postgres {
        server: Server,
        /// Hears what other servers say, and tells them.
        hints: [tokio::task::JoinHandle<()>; 2],
    },
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Pool::Postgres { hints, .. } = &self.pool {
            hints.iter().for_each(tokio::task::JoinHandle::abort);
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

    pub(crate) fn of(pool: Pool, wakeups: Wakeups, place: Place, probe: Probe) -> Self {
        Self {
            inner: Arc::new(Inner {
                pool,
                wakeups,
                place,
                probe,
            }),
        }
    }

    pub(crate) fn probing(&self) -> &Probe {
        &self.inner.probe
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
        self.begin_write(Some(owner), "", None, job).await
    }

    /// As [`Db::write`], one after another for the same `class` and `id`, so that what it counts stays true until it is committed: on Postgres
    /// by an advisory lock that costs no trip of its own. SQLite has one writer anyway.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub async fn write_in_turn<F, T, E>(
        &self,
        owner: OwnerId,
        class: &'static str,
        id: i64,
        job: F,
    ) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        self.begin_write(Some(owner), "", Some(lock::key(class, id)), job)
            .await
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
        self.begin_write(None, reason, None, job).await
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
            Pool::Sqlite { lane, readers, .. } => {
                readers.close().await;
                lane.close().await;
            }
            Pool::Postgres { server, hints } => {
                server.close().await;
                hints.iter().for_each(tokio::task::JoinHandle::abort);
            }
        }
    }

    async fn begin_write<F, T, E>(
        &self,
        owner: Option<OwnerId>,
        reason: &'static str,
        held: Option<i64>,
        job: F,
    ) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        // Boxed: what a call takes while it runs is not kept by a request that waits for something else afterwards.
        match &self.inner.pool {
            Pool::Sqlite { lane, .. } => Box::pin(lane.write(owner, job)).await,
            Pool::Postgres { server, .. } => Box::pin(server.write(Reach { held, owner, reason }, job)).await,
        }
    }

    async fn begin_read<F, T, E>(&self, owner: Option<OwnerId>, reason: &'static str, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        match &self.inner.pool {
            Pool::Sqlite { readers, .. } => Box::pin(read_sqlite(readers, owner, job)).await,
            Pool::Postgres { server, .. } => {
                Box::pin(server.read(
                    Reach {
                        held: None,
                        owner,
                        reason,
                    },
                    job,
                ))
                .await
            }
        }
    }
}

async fn read_sqlite<F, T, E>(readers: &SqlitePool, owner: Option<OwnerId>, job: F) -> Result<T, E>
where
    F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>>,
    E: From<Fault>,
{
    let begun = readers
        .begin()
        .await
        .map_err(|e| Fault::new(kind(&e), "the database did not answer").because(e))?;
    // A reader has nothing to commit: dropping the transaction ends it.
    caught(&mut Tx::new(Conn::SqliteRead(begun), owner), job).await
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
            Pool::Postgres { server, .. } => {
                use sqlx::SqlSafeStr as _;
                let mut conn = server.lend().await.map_err(failed)?;
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
