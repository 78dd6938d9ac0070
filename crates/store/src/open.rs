//! Opens a database: its address, its file or role, its schema. Never changes one that it refuses.

use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use muster_core::text::terminal;
use muster_core::{Fault, FaultKind};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection};

use crate::connect::{Db, Pool};
use crate::lane::Lane;
use crate::listen::Teller;
use crate::lock::Place;
use crate::postgres::Server;
use crate::probe::Probe;
use crate::tx::{ACQUIRE, kind};
use crate::wake::Wakeups;
use crate::{listen, migrate};

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Connections that read (SQLite) or do anything (Postgres).
    pub connections: u32,
    /// The folder for lock files when the engine has no locks of its own that die with their holder.
    pub lock_folder: PathBuf,
    /// How long to wait for another process that is making the same database ready.
    pub patience: Duration,
}

impl Options {
    /// The usual options for `url`, with lock files in `lock_folder`.
    pub fn new(url: impl Into<String>, lock_folder: impl Into<PathBuf>) -> Self {
        Self {
            url: url.into(),
            connections: 16,
            lock_folder: lock_folder.into(),
            patience: Duration::from_secs(30),
        }
    }
}

/// Why a database was not opened. Each is a sentence for the person who starts muster.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is neither of the two kinds.
    #[error("the database address is not one muster knows; write sqlite://PATH or postgres://USER@HOST/NAME")]
    Address,
    /// The file holds something else.
    #[error("{} is not a SQLite database; it was left as it is. Name another file, or move this one away", terminal(&.path.display().to_string()))]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// Another program's database.
    #[error("{} is a SQLite database of another program; it was left as it is. Name another file", terminal(&.path.display().to_string()))]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer muster made it.
    #[error(
        "this database was made by a newer muster (it has schema version {version}); it was left as it is. Start that version, or restore a backup made before the upgrade"
    )]
    Newer {
        /// The version that this muster does not have.
        version: i64,
    },
    /// Its recorded schema differs from this version's.
    #[error(
        "schema version {version} of this database is not the one this muster has; it was left as it is. It was made by a different build"
    )]
    Altered {
        /// The version whose text differs.
        version: i64,
    },
    /// A Postgres role that row-level security does not bind.
    #[error(
        "the database role {role} is a superuser or has BYPASSRLS, so Postgres would not keep one owner's rows from another. Make a fit one and use it in the address:\n  CREATE ROLE muster_app LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '…';\n  ALTER DATABASE {} OWNER TO muster_app;\n  ALTER SCHEMA public OWNER TO muster_app;",
        quoted(.database)
    )]
    Role {
        /// The role's name.
        role: String,
        /// The database's name.
        database: String,
    },
    /// Another process makes the same database ready and does not get done.
    #[error(
        "{} has kept {} locked for {} seconds, which is held only while a database is made ready; nothing was changed. Wait until it is done, or end it, and start muster again",
        .holder.map_or_else(|| "another muster".to_owned(), |holder| format!("another muster (process {holder})")),
        terminal(&.lock.display().to_string()),
        .waited.as_secs()
    )]
    Busy {
        /// The lock file.
        lock: PathBuf,
        /// The process that wrote its number into it last.
        holder: Option<u32>,
        /// How long was waited.
        waited: Duration,
    },
    /// Anything else.
    #[error("the database could not be opened: {}", .0.chain())]
    Fault(Fault),
}

/// A name as an SQL statement that a person copies takes it.
fn quoted(name: &str) -> String {
    terminal(&format!("\"{}\"", name.replace('"', "\"\"")))
}

/// Opens what `options` name.
pub(crate) async fn open(options: &Options) -> Result<Db, OpenError> {
    if let Some(path) = options.url.strip_prefix("sqlite://") {
        // SQLite would take these for a database that ends with the process, and store every message in it.
        if path.is_empty() || path == ":memory:" || path.starts_with("file:") {
            return Err(OpenError::Address);
        }
        open_sqlite(Path::new(path), options).await
    } else if options.url.starts_with("postgres://") || options.url.starts_with("postgresql://") {
        open_postgres(options).await
    } else {
        Err(OpenError::Address)
    }
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        // Every answer of muster's promises that what it names survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .pragma("trusted_schema", "OFF")
        // Twice the statements there are: on the lane many stand with what begins their transaction too.
        .statement_cache_capacity(512)
}

async fn open_sqlite(path: &Path, options: &Options) -> Result<Db, OpenError> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| folder_fault(parent, error))?;
    }
    // SQLite's migrator takes no lock of its own, so two first starts at once would both create the tables.
    let guard = boot_lock(&options.lock_folder, options.patience).await?;
    let writer = prepare_file(path).await?;
    let probe = Probe::of_file(path).map_err(|error| {
        let what = format!(
            "the file {} and those beside it cannot be looked at",
            path.display()
        );
        OpenError::Fault(Fault::new(crate::lock::io_kind(&error), what).because(error))
    })?;
    drop(guard);
    let readers = SqlitePoolOptions::new()
        .max_connections(options.connections.clamp(2, 8))
        .acquire_timeout(ACQUIRE)
        .connect_lazy_with(sqlite_options(path).read_only(true));
    let wakeups = Wakeups::default();
    let lane = Lane::start(writer, wakeups.clone());
    Ok(Db::of(
        Pool::Sqlite { lane, readers },
        wakeups,
        Place::Folder(options.lock_folder.clone()),
        probe,
    ))
}

/// The one writing connection, on a file that is muster's and at this version's schema.
async fn prepare_file(path: &Path) -> Result<SqliteConnection, OpenError> {
    let failed = |error: sqlx::Error| file_fault(path, error);
    if !may_be_sqlite(path)? {
        return Err(OpenError::NotADatabase {
            path: path.to_owned(),
        });
    }
    let mut writer = SqliteConnection::connect_with(&sqlite_options(path).create_if_missing(true))
        .await
        .map_err(failed)?;
    match make_ready(&mut writer, path).await {
        Ok(()) => Ok(writer),
        Err(refusal) => {
            // Closed before anybody is told, so that nothing of muster's still stands on a file that was refused.
            if let Err(error) = writer.close().await {
                tracing::debug!(error = %error, "closing a database that was refused failed");
            }
            Err(refusal)
        }
    }
}

async fn make_ready(writer: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: sqlx::Error| file_fault(path, error);
    if is_foreign(writer).await.map_err(failed)? {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
        });
    }
    migrate::SQLITE
        .run_direct(None, writer, false)
        .await
        .map_err(|error| migrate::explain(error, failed))?;
    // Only now, because it is the one setting that stays in the file.
    let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode = WAL")
        .fetch_one(&mut *writer)
        .await
        .map_err(failed)?;
    if mode != "wal" {
        let what = format!(
            "the place of {} does not allow SQLite's write-ahead log; name one on a local disk",
            path.display()
        );
        return Err(OpenError::Fault(Fault::other(what)));
    }
    // SQLite opens a file that it may not write for reading alone, and a schema that is complete writes nothing:
    // ask, with a statement that changes nothing. This also makes the files beside it, which a connection that
    // only reads could not make.
    match sqlx::query("DELETE FROM _sqlx_migrations WHERE FALSE")
        .execute(writer)
        .await
    {
        Ok(_) => Ok(()),
        // Another process writes at this moment, so the file can be written.
        Err(error) if code(&error) == Some(BUSY) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

const BUSY: u32 = 5;
const CANTOPEN: u32 = 14;

/// SQLite's primary result code.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Whether the file is missing, empty or begins as every SQLite database does.
fn may_be_sqlite(path: &Path) -> Result<bool, OpenError> {
    const BEGINS: &[u8] = b"SQLite format 3\0";
    let mut begins = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => {
            let length = u64::try_from(BEGINS.len()).unwrap_or(u64::MAX);
            file.take(length).read_to_end(&mut begins).map_err(|error| {
                OpenError::Fault(
                    Fault::new(
                        FaultKind::Unavailable,
                        format!("the file {} could not be read", path.display()),
                    )
                    .because(error),
                )
            })?;
            Ok(begins.is_empty() || begins == BEGINS)
        }
        // SQLite says better than this what is wrong with the rest.
        Err(_) => Ok(true),
    }
}

/// Whether the database has tables and none of them is the list of migrations.
async fn is_foreign(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let (tables, ours): (i64, i64) =
        sqlx::query_as("SELECT count(*), count(*) FILTER (WHERE name = '_sqlx_migrations') FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'")
            .fetch_one(conn)
            .await?;
    Ok(tables > 0 && ours == 0)
}

fn file_fault(path: &Path, error: sqlx::Error) -> OpenError {
    let (kind, path) = (kind(&error), path.display());
    let what = match kind {
        FaultKind::ReadOnly => format!(
            "the file {path} or its folder cannot be written; make both writable for the user that runs muster"
        ),
        FaultKind::StorageFull => {
            format!("the disk that holds {path} is full; make room and start muster again")
        }
        _ if code(&error) == Some(CANTOPEN) => {
            format!(
                "the file {path} could not be opened or made; let the user that runs muster write to it and to its folder"
            )
        }
        _ => format!("the SQLite file {path} could not be made ready; what it held is as it was"),
    };
    OpenError::Fault(Fault::new(kind, what).because(error))
}

fn folder_fault(folder: &Path, error: std::io::Error) -> OpenError {
    let (kind, folder) = (crate::lock::io_kind(&error), folder.display());
    let what = match kind {
        FaultKind::StorageFull => {
            format!("the disk that holds the folder {folder} is full; make room and start muster again")
        }
        _ => format!("the folder {folder} cannot be written; make it writable for the user that runs muster"),
    };
    OpenError::Fault(Fault::new(kind, what).because(error))
}

/// How often the lock is asked for while another process has it, and after how long that is logged.
const ASK: Duration = Duration::from_millis(20);
const TELL: Duration = Duration::from_secs(1);

/// Takes the lock under which a database is made ready. It is the file's, so it dies with its process; the number in it only tells people
/// whom they wait for.
async fn boot_lock(folder: &Path, patience: Duration) -> Result<std::fs::File, OpenError> {
    let failed = |error| folder_fault(folder, error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let path = folder.join("boot.lock");
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    let (begun, mut told) = (Instant::now(), false);
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
            Err(std::fs::TryLockError::WouldBlock) => {}
        }
        let waited = begun.elapsed();
        if waited >= patience {
            return Err(OpenError::Busy {
                holder: holder(&path),
                lock: path,
                waited,
            });
        }
        if waited >= TELL && !std::mem::replace(&mut told, true) {
            tracing::warn!(
                lock = %terminal(&path.display().to_string()),
                holder = holder(&path),
                "waiting for another muster that is making this database ready"
            );
        }
        tokio::time::sleep(ASK).await;
    }
    // A full disk keeps the number out, which is told less then, and nothing else.
    if let Err(error) = sign(&file) {
        tracing::debug!(error = %error, "the boot lock does not name its holder");
    }
    Ok(file)
}

fn sign(mut file: &std::fs::File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The process that the lock file names.
fn holder(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

async fn open_postgres(options: &Options) -> Result<Db, OpenError> {
    let failed = |e: sqlx::Error| {
        let what = "Postgres did not let muster in; check that it runs, and the address, role and password";
        OpenError::Fault(Fault::new(kind(&e), what).because(e))
    };
    let connect = PgConnectOptions::from_str(&options.url)
        .map_err(|_| OpenError::Address)?
        .application_name("muster")
        // Every statement finds its rows by an index whatever its arguments are: planning it anew each time costs more than running it.
        .options([("plan_cache_mode", "force_generic_plan")])
        .statement_cache_capacity(256);
    let pool = PgPoolOptions::new()
        .max_connections(options.connections.max(2))
        .acquire_timeout(ACQUIRE)
        // A ping before each use would cost a round trip; a connection that broke is found out at BEGIN, which is asked again on another.
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
        return Err(OpenError::Role {
            role: quoted(&role),
            database,
        });
    }
    let broke = |error| {
        let what = "the database could not be brought to this version; it was left as it was";
        OpenError::Fault(Fault::new(kind(&error), what).because(error))
    };
    migrate::POSTGRES
        .run(&pool)
        .await
        .map_err(|error| migrate::explain(error, broke))?;
    let wakeups = Wakeups::default();
    let teller = Teller::default();
    let hints = [
        tokio::spawn(listen::listen(
            pool.clone(),
            connect.clone(),
            wakeups.clone(),
            teller.clone(),
        )),
        tokio::spawn(listen::speak(pool.clone(), connect.clone(), teller.clone())),
    ];
    let server = Server::of(pool, teller, wakeups.clone());
    Ok(Db::of(
        Pool::Postgres { server, hints },
        wakeups,
        Place::Postgres(Box::new(connect)),
        Probe::elsewhere(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_statement_to_copy_is_quoted_and_shows_nothing_unseen() {
        assert_eq!(quoted("muster"), "\"muster\"");
        assert_eq!(quoted("a\"; DROP\u{1b}[2J"), "\"a\"\"; DROP\\u{1b}[2J\"");
    }
}
