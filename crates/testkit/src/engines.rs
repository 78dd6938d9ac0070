//! Runs a test on SQLite and on Postgres alike. Never lets one engine's half be forgotten: in CI a missing Postgres fails.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use muster_store::{Db, Engine, Options};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::TestMuster;

/// The engines this run has: both, or SQLite alone where no Postgres was started.
pub fn engines() -> Vec<Engine> {
    if std::env::var_os("MUSTER_TEST_PG_ADMIN_URL").is_some() {
        return vec![Engine::Sqlite, Engine::Postgres];
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "MUSTER_TEST_PG_ADMIN_URL is not set: ./test starts a Postgres and sets it"
    );
    eprintln!("SKIPPED on Postgres: MUSTER_TEST_PG_ADMIN_URL is not set (./test sets it)");
    vec![Engine::Sqlite]
}

/// The address of the throw-away cluster's superuser.
pub fn postgres_admin_url() -> String {
    std::env::var("MUSTER_TEST_PG_ADMIN_URL").unwrap()
}

/// Runs `law` on a fresh app on each engine, on a runtime with several threads.
pub fn on_both<F: Future<Output = ()>>(law: impl Fn(TestMuster) -> F) {
    for engine in engines() {
        eprintln!("on {engine:?}");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let dir = Arc::new(tempfile::tempdir().unwrap());
            // A law that names only a part of its `TestMuster` lets go of the rest, the folder too, before it runs.
            let _kept = dir.clone();
            match engine {
                Engine::Sqlite => {
                    let muster = TestMuster::open(
                        format!("sqlite://{}", dir.path().join("muster.db").display()),
                        dir,
                    )
                    .await;
                    let app = muster.app.clone();
                    law(muster).await;
                    app.tasks.stop().await;
                    app.db.close().await;
                }
                Engine::Postgres => {
                    let database = PgDatabase::fresh().await;
                    let muster = TestMuster::open(database.url.clone(), dir).await;
                    let app = muster.app.clone();
                    law(muster).await;
                    app.tasks.stop().await;
                    app.db.close().await;
                    database.drop_now().await;
                }
            }
        });
    }
}

/// A database of its own on the throw-away cluster, already at this version's schema.
pub struct PgDatabase {
    /// Its name.
    pub name: String,
    /// Its address for muster's own role.
    pub url: String,
}

fn with_database(url: &str, name: &str) -> String {
    let (head, query) = url
        .split_once('?')
        .map_or((url, None), |(head, query)| (head, Some(query)));
    let base = head.rsplit_once('/').map_or(head, |(base, _)| base);
    query.map_or_else(
        || format!("{base}/{name}"),
        |query| format!("{base}/{name}?{query}"),
    )
}

impl PgDatabase {
    /// One without any table, such as somebody else's.
    pub async fn empty() -> Self {
        let name = format!("other_{}_{}", std::process::id(), unique());
        let mut conn = connect(&postgres_admin_url()).await;
        conn.execute(AssertSqlSafe(format!("CREATE DATABASE {name} OWNER muster_app")))
            .await
            .unwrap();
        conn.close().await.unwrap();
        Self {
            url: with_database(&std::env::var("MUSTER_TEST_PG_URL").unwrap(), &name),
            name,
        }
    }

    /// Copies the migrated template, which the first caller makes.
    pub async fn fresh() -> Self {
        let admin = postgres_admin_url();
        let app = std::env::var("MUSTER_TEST_PG_URL").unwrap();
        let template = format!("muster_template_{}", schema_hash());
        let name = format!("muster_{}_{}", std::process::id(), unique());
        let mut conn = connect(&admin).await;
        // One process at a time makes the template; the copies must not overlap with that either.
        sqlx::query("SELECT pg_advisory_lock(727)")
            .execute(&mut conn)
            .await
            .unwrap();
        let exists: Option<(i32,)> = sqlx::query_as("SELECT 1 FROM pg_database WHERE datname = $1")
            .bind(&template)
            .fetch_optional(&mut conn)
            .await
            .unwrap();
        if exists.is_none() {
            conn.execute(AssertSqlSafe(format!(
                "CREATE DATABASE {template} OWNER muster_app"
            )))
            .await
            .unwrap();
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(&Options::new(with_database(&app, &template), dir.path()))
                .await
                .unwrap();
            db.close().await;
        }
        // As files: without waiting for the disk this takes a fifth of what it takes page by page through the log.
        // The template refuses to be copied while anybody is still leaving it.
        for attempt in 0.. {
            match conn
                .execute(AssertSqlSafe(format!(
                    "CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY OWNER muster_app"
                )))
                .await
            {
                Ok(_) => break,
                Err(error) if attempt < 50 && error.to_string().contains("being accessed") => {
                    tokio::time::sleep(Duration::from_millis(50)).await
                }
                Err(error) => panic!("{error}"),
            }
        }
        conn.close().await.unwrap();
        Self {
            url: with_database(&app, &name),
            name,
        }
    }

    /// Its address for the superuser.
    pub fn admin_url(&self) -> String {
        with_database(&postgres_admin_url(), &self.name)
    }

    /// Drops the database with whoever is still in it.
    pub async fn drop_now(self) {
        let mut conn = connect(&postgres_admin_url()).await;
        conn.execute(AssertSqlSafe(format!("DROP DATABASE {} WITH (FORCE)", self.name)))
            .await
            .unwrap();
    }
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect_with(&PgConnectOptions::from_str(url).unwrap())
        .await
        .unwrap()
}

fn unique() -> String {
    muster_core::secret::random_hex::<6>().unwrap()
}

/// A new template for each change of the schema, so that a kept cluster never serves an old one.
fn schema_hash() -> String {
    hash(
        MIGRATIONS
            .iter()
            .map(|migration| (migration.version, migration.checksum.as_ref())),
    )
}

/// The store's own; its build notices a new file, and this crate is built after it.
static MIGRATIONS: Migrator = sqlx::migrate!("../store/migrations/postgres");

fn hash<'m>(migrations: impl Iterator<Item = (i64, &'m [u8])>) -> String {
    let mut all = Vec::new();
    for (version, checksum) in migrations {
        all.extend(version.to_be_bytes());
        all.extend(checksum);
    }
    muster_core::secret::sha256_hex(&all).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_template_changes_with_every_migration() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/migrations/postgres");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(MIGRATIONS.iter().count(), files, "a migration is left out");
        let all: Vec<(i64, &[u8])> = MIGRATIONS
            .iter()
            .map(|m| (m.version, m.checksum.as_ref()))
            .collect();
        let mut names = std::collections::BTreeSet::from([schema_hash()]);
        let mut further = all.clone();
        further.push((9001, b"another"));
        names.insert(hash(further.iter().copied()));
        for at in 0..all.len() {
            let mut changed = all.clone();
            changed[at].1 = b"changed";
            names.insert(hash(changed.into_iter()));
        }
        assert_eq!(names.len(), all.len() + 2);
    }
}
