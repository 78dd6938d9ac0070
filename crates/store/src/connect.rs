//! Opens a database and runs jobs on it: the write lane and readers of SQLite, the pool of Postgres. Never decides what a job does.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection};

use crate::JobFuture;
use crate::lane::Lane;
use crate::lock::{Locks, Place};
use crate::tx::{ACQUIRE, Conn, Tx, kind};
use crate::wake::{Topic, Wakeups};
use crate::{migrate, sql};

/// The channel that Postgres carries wake-ups on.
const CHANNEL: &str = "muster_wake";

/// Which engine a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The embedded default: one file.
    Sqlite,
    /// For several servers on one database.
    Postgres,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Connections that read (SQLite) or do anything (Postgres).
    pub connections: u32,
    /// The folder for lock files when the engine has no locks of its own that die with their holder.
    pub lock_folder: PathBuf,
}

impl Options {
    /// The usual options for `url`, with lock files in `lock_folder`.
    pub fn new(url: impl Into<String>, lock_folder: impl Into<PathBuf>) -> Self {
        Self { url: url.into(), connections: 16, lock_folder: lock_folder.into() }
    }
}

/// Why a database was not opened. Each is a sentence for the person who starts muster.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is neither of the two kinds.
    #[error("the database address is not one muster knows; write sqlite://PATH or postgres://USER@HOST/NAME")]
    Address,
    /// A newer muster made it.
    #[error("this database was made by a newer muster (it has schema version {version}); it was left as it is. Start that version, or restore a backup made before the upgrade")]
    Newer {
        /// The version that this muster does not have.
        version: i64,
    },
    /// Its recorded schema differs from this version's.
    #[error("schema version {version} of this database is not the one this muster has; it was left as it is. It was made by a different build")]
    Altered {
        /// The version whose text differs.
        version: i64,
    },
    /// A Postgres role that row-level security does not bind.
    #[error(
        "the database role {role} is a superuser or has BYPASSRLS, so Postgres would not keep one owner's rows from another. Make a fit one and use it in the address:\n  CREATE ROLE muster_app LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '…';\n  ALTER DATABASE {database} OWNER TO muster_app;\n  ALTER SCHEMA public OWNER TO muster_app;"
    )]
    Role {
        /// The role's name.
        role: String,
        /// The database's name.
        database: String,
    },
    /// Anything else.
    #[error("the database could not be opened: {}", .0.chain())]
    Fault(Fault),
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

enum Pool {
    Sqlite { lane: Lane, readers: SqlitePool },
    Postgres { pool: PgPool, listener: tokio::task::JoinHandle<()> },
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
        if let Some(rest) = options.url.strip_prefix("sqlite://") {
            open_sqlite(Path::new(rest), options).await
        } else if options.url.starts_with("postgres://") || options.url.starts_with("postgresql://") {
            open_postgres(options).await
        } else {
            Err(OpenError::Address)
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
                let mut tx = begin_postgres(pool, owner, reason).await?;
                let value = job(&mut tx).await?;
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
                let begun = readers.begin().await.map_err(|e| Fault::new(kind(&e), "the database did not answer").because(e))?;
                Tx { conn: Conn::SqliteRead(begun), owner, wakes: Vec::new() }
            }
            Pool::Postgres { pool, .. } => begin_postgres(pool, owner, reason).await?,
        };
        // A reader has nothing to commit: dropping the transaction ends it.
        job(&mut tx).await
    }
}

async fn begin_postgres(pool: &PgPool, owner: Option<OwnerId>, reason: &'static str) -> Result<Tx, Fault> {
    let failed = |e: sqlx::Error| Fault::new(kind(&e), "the database did not answer").because(e);
    let mut begun = pool.begin().await.map_err(failed)?;
    // Local to the transaction: the next user of the pooled connection starts with neither. RLS policies read both.
    let scoped = match owner {
        Some(owner) => sqlx::query("SELECT set_config('muster.owner', $1, true)").bind(owner.to_string()),
        None => sqlx::query("SELECT set_config('muster.system', $1, true)").bind(reason),
    };
    scoped.execute(&mut *begun).await.map_err(failed)?;
    Ok(Tx { conn: Conn::Postgres(begun), owner, wakes: Vec::new() })
}

async fn commit_postgres(tx: Tx, wakes: &[Topic]) -> Result<(), Fault> {
    let Conn::Postgres(mut begun) = tx.conn else { return Err(Fault::other("a transaction changed its engine")) };
    let failed = |e: sqlx::Error| Fault::new(kind(&e), "a write was not stored").because(e);
    for topic in wakes {
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(topic.encode()).execute(&mut *begun).await.map_err(failed)?;
    }
    begun.commit().await.map_err(failed)
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .journal_mode(SqliteJournalMode::Wal)
        // Every answer of muster's promises that what it names survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .pragma("trusted_schema", "OFF")
        .statement_cache_capacity(256)
}

async fn open_sqlite(path: &Path, options: &Options) -> Result<Db, OpenError> {
    let failed = |e: sqlx::Error| OpenError::Fault(Fault::new(kind(&e), format!("SQLite file {}", path.display())).because(e));
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| OpenError::Fault(Fault::new(FaultKind::ReadOnly, format!("the folder {} could not be made", parent.display())).because(e)))?;
    }
    // SQLite's migrator takes no lock of its own, so two first starts at once would both create the tables.
    let guard = boot_lock(&options.lock_folder).await?;
    let mut writer = SqliteConnection::connect_with(&sqlite_options(path).create_if_missing(true)).await.map_err(failed)?;
    migrate::SQLITE.run_direct(None, &mut writer, false).await.map_err(migrate::explain)?;
    drop(guard);
    let readers = SqlitePoolOptions::new()
        .max_connections(options.connections.clamp(2, 8))
        .acquire_timeout(ACQUIRE)
        .connect_lazy_with(sqlite_options(path).read_only(true));
    let wakeups = Wakeups::default();
    let lane = Lane::start(writer, wakeups.clone());
    Ok(Db { inner: Arc::new(Inner { pool: Pool::Sqlite { lane, readers }, wakeups, place: Place::Folder(options.lock_folder.clone()) }) })
}

async fn boot_lock(folder: &Path) -> Result<std::fs::File, OpenError> {
    let failed = |e: std::io::Error| {
        let kind = if e.kind() == std::io::ErrorKind::StorageFull { FaultKind::StorageFull } else { FaultKind::ReadOnly };
        OpenError::Fault(Fault::new(kind, format!("the folder {} cannot be written", folder.display())).because(e))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(folder.join("boot.lock")).map_err(failed)?;
    tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await.map_err(|e| OpenError::Fault(Fault::other("the boot lock").because(e)))?.map_err(failed)
}

async fn open_postgres(options: &Options) -> Result<Db, OpenError> {
    let failed = |e: sqlx::Error| OpenError::Fault(Fault::new(kind(&e), "Postgres").because(e));
    let connect = PgConnectOptions::from_str(&options.url).map_err(|_| OpenError::Address)?.application_name("muster");
    let pool = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(ACQUIRE)
        // A ping before each use would cost a round trip; a broken connection fails one request cleanly and is replaced.
        .test_before_acquire(false)
        .connect_with(connect.clone())
        .await
        .map_err(failed)?;
    let (role, database, unfit): (String, String, bool) = sqlx::query_as(
        "SELECT current_user::text, current_database()::text, (rolsuper OR rolbypassrls) FROM pg_catalog.pg_roles WHERE rolname = current_user",
    )
    .fetch_one(&pool)
    .await
    .map_err(failed)?;
    if unfit {
        return Err(OpenError::Role { role, database });
    }
    migrate::POSTGRES.run(&pool).await.map_err(migrate::explain)?;
    let wakeups = Wakeups::default();
    let listener = tokio::spawn(listen(pool.clone(), connect.clone(), wakeups.clone()));
    Ok(Db { inner: Arc::new(Inner { pool: Pool::Postgres { pool, listener }, wakeups, place: Place::Postgres(connect) }) })
}

/// Passes other servers' wake-ups on. A lost connection loses hints, so everybody is woken once it is back.
async fn listen(pool: PgPool, connect: PgConnectOptions, wakeups: Wakeups) {
    let mut pause = Duration::from_millis(100);
    while !pool.is_closed() {
        match hear(&connect, &wakeups).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(error = %error, "the connection for wake-ups was lost; it is opened again");
                wakeups.wake_all();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
        }
    }
}

async fn hear(connect: &PgConnectOptions, wakeups: &Wakeups) -> Result<(), sqlx::Error> {
    let own = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE).connect_with(connect.clone()).await?;
    let mut listener = PgListener::connect_with(&own).await?;
    listener.listen(CHANNEL).await?;
    wakeups.wake_all();
    loop {
        match listener.try_recv().await? {
            Some(heard) => {
                if let Some(topic) = Topic::decode(heard.payload()) {
                    wakeups.wake(topic);
                }
            }
            // The listener has just connected again; what was sent meanwhile is lost.
            None => wakeups.wake_all(),
        }
    }
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
    pub async fn prepare(&self, statement: &'static sql::Sql) -> Result<Prepared, Fault> {
        use sqlx::{Column as _, Executor as _, Statement as _};
        let failed = |e: sqlx::Error| Fault::new(kind(&e), format!("statement {} cannot be prepared", statement.name)).because(e);
        let count = |p: Option<sqlx::Either<&[sqlx::postgres::PgTypeInfo], usize>>| p.map_or(0, |p| p.either(<[_]>::len, |n| n));
        match &self.inner.pool {
            Pool::Sqlite { readers, .. } => {
                use sqlx::SqlSafeStr as _;
                let mut conn = readers.acquire().await.map_err(failed)?;
                let prepared = conn.prepare(statement.sqlite.into_sql_str()).await.map_err(failed)?;
                let parameters = prepared.parameters().map_or(0, |p| p.either(<[_]>::len, |n| n));
                Ok(Prepared { parameters, columns: prepared.columns().iter().map(|c| c.name().to_owned()).collect() })
            }
            Pool::Postgres { pool, .. } => {
                use sqlx::SqlSafeStr as _;
                let mut conn = pool.acquire().await.map_err(failed)?;
                let prepared = conn.prepare(statement.postgres.into_sql_str()).await.map_err(failed)?;
                Ok(Prepared { parameters: count(prepared.parameters()), columns: prepared.columns().iter().map(|c| c.name().to_owned()).collect() })
            }
        }
    }
}
