//! Locks between processes that die with their holder: a file lock beside a SQLite database, an advisory lock on Postgres. Never a row, which would outlive a crash.

use std::fs::File;
use std::path::PathBuf;

use muster_core::{Fault, FaultKind};
use sqlx::{Connection as _, PgConnection};

use crate::connect::Inner;
use crate::tx::kind;

/// Takes named locks for this database.
#[derive(Clone)]
pub struct Locks {
    pub(crate) place: Place,
}

#[derive(Clone)]
pub(crate) enum Place {
    /// Lock files in this folder.
    Folder(PathBuf),
    /// Advisory locks of this database, each on a connection of its own.
    Postgres(Box<sqlx::postgres::PgConnectOptions>),
}

/// A lock that is held; dropping it gives it back.
pub struct HeldLock {
    held: Held,
}

enum Held {
    File { _file: File, path: PathBuf },
    Postgres { conn: PgConnection },
}

impl Locks {
    pub(crate) fn of(inner: &Inner) -> Self {
        Self {
            place: inner.place.clone(),
        }
    }

    /// Takes the lock `class`/`id` when nobody holds it, in this process or another; `None` when somebody does.
    ///
    /// # Errors
    /// A fault when the folder cannot be written or the database does not answer.
    pub async fn try_take(&self, class: &'static str, id: i64) -> Result<Option<HeldLock>, Fault> {
        match &self.place {
            Place::Folder(folder) => take_file(folder, class, id),
            Place::Postgres(options) => take_advisory(options, class, id).await,
        }
    }
}

fn take_file(folder: &std::path::Path, class: &'static str, id: i64) -> Result<Option<HeldLock>, Fault> {
    let failed = |e: std::io::Error| {
        Fault::new(io_kind(&e), format!("the lock {class}-{id} could not be taken")).because(e)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let path = folder.join(format!("{class}-{id}.lock"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(HeldLock {
            held: Held::File { _file: file, path },
        })),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// What broke when a file of muster's own could not be made.
pub(crate) fn io_kind(error: &std::io::Error) -> FaultKind {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => FaultKind::StorageFull,
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => FaultKind::ReadOnly,
        _ => FaultKind::Other,
    }
}

/// The key of an advisory lock. The class is part of it, so that chief 3 and owner 3 are two locks: 8 bits of class, 56 of id.
pub(crate) fn key(class: &'static str, id: i64) -> i64 {
    let class_bits = class
        .bytes()
        .fold(7_i64, |sum, byte| (sum * 31 + i64::from(byte)) & 0xff);
    (class_bits << 55) ^ id
}

async fn take_advisory(
    options: &sqlx::postgres::PgConnectOptions,
    class: &'static str,
    id: i64,
) -> Result<Option<HeldLock>, Fault> {
    let failed =
        |e: sqlx::Error| Fault::new(kind(&e), format!("the lock {class}-{id} could not be taken")).because(e);
    let mut conn = PgConnection::connect_with(options).await.map_err(failed)?;
    let (taken,): (bool,) = sqlx::query_as("SELECT pg_try_advisory_lock($1)")
        .bind(key(class, id))
        .fetch_one(&mut conn)
        .await
        .map_err(failed)?;
    if taken {
        Ok(Some(HeldLock {
            held: Held::Postgres { conn },
        }))
    } else {
        Ok(None)
    }
}

impl HeldLock {
    /// Gives the lock back before it answers. Merely dropping it on Postgres gives it back once the server sees the connection end.
    pub async fn release(self) {
        match self.held {
            Held::File { _file, .. } => drop(_file),
            Held::Postgres { mut conn } => {
                let unlocked = sqlx::query("SELECT pg_advisory_unlock_all()")
                    .execute(&mut conn)
                    .await;
                if let Err(error) = unlocked.and(
                    conn.close()
                        .await
                        .map(|()| sqlx::postgres::PgQueryResult::default()),
                ) {
                    tracing::debug!(error = %error, "a lock went with its connection");
                }
            }
        }
    }

    /// Gives back a lock that nobody will ever ask for again: its file goes, too. With another lock this would let two hold it at once.
    pub async fn retire(self) {
        if let Held::File { path, .. } = &self.held
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::debug!(error = %error, "the file of a lock was gone already");
        }
        self.release().await;
    }

    /// Whether the lock is still ours, and others can see it: a connection to Postgres that broke has given it back, and a file that was
    /// deleted is held by nobody who looks for it.
    pub async fn still_held(&mut self) -> bool {
        match &mut self.held {
            Held::File { _file, path } => {
                use std::os::unix::fs::MetadataExt as _;
                let own = _file.metadata().map(|found| found.ino());
                let there = std::fs::metadata(path).map(|found| found.ino());
                matches!((own, there), (Ok(own), Ok(there)) if own == there)
            }
            Held::Postgres { conn } => conn.ping().await.is_ok(),
        }
    }
}
