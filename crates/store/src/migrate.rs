//! Brings a database to this version's schema, one process at a time. Never runs against a database of a newer version.

use muster_core::Fault;
use sqlx::migrate::{MigrateError, Migrator};

use crate::open::OpenError;

pub(crate) static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
pub(crate) static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// Turns a migration's failure into what its reader can do about it; `broke` speaks of what broke underneath.
pub(crate) fn explain(error: MigrateError, broke: impl FnOnce(sqlx::Error) -> OpenError) -> OpenError {
    match error {
        MigrateError::VersionMissing(version) | MigrateError::VersionNotPresent(version) => {
            OpenError::Newer { version }
        }
        MigrateError::VersionMismatch(version) => OpenError::Altered { version },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => broke(error),
        other => OpenError::Fault(
            Fault::other("the database could not be brought to this version; it was left as it was")
                .because(other),
        ),
    }
}
