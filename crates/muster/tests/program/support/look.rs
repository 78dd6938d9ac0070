//! A raw look at muster's database, past every rule of its own. It never writes, but for the few tests that damage a database on purpose.

use std::path::Path;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Executor as _, FromRow};

/// A connection past muster.
pub(crate) enum Look {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Look {
    /// A SQLite file anywhere.
    pub(crate) async fn open(path: &Path) -> Self {
        Self::sqlite(path).await
    }

    pub(super) async fn sqlite(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(std::time::Duration::from_secs(10));
        Self::Sqlite(
            SqlitePoolOptions::new()
                .max_connections(1)
                .connect_with(options)
                .await
                .unwrap(),
        )
    }

    /// A Postgres database as this role.
    pub(crate) async fn postgres(url: &str) -> Self {
        let options = PgConnectOptions::from_str(url).unwrap();
        Self::Postgres(
            PgPoolOptions::new()
                .max_connections(1)
                .connect_with(options)
                .await
                .unwrap(),
        )
    }

    /// All rows of a query, in the order it gives them.
    pub(crate) async fn all<R>(&self, query: &str) -> Vec<R>
    where
        R: Send + Unpin + for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow>,
    {
        let query = AssertSqlSafe(query.to_owned());
        match self {
            Self::Sqlite(pool) => sqlx::query_as(query).fetch_all(pool).await.unwrap(),
            Self::Postgres(pool) => sqlx::query_as(query).fetch_all(pool).await.unwrap(),
        }
    }

    /// The one text of a query.
    pub(crate) async fn text(&self, query: &str) -> String {
        let rows: Vec<(String,)> = self.all(query).await;
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        rows[0].0.clone()
    }

    /// The one number of a query.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let rows: Vec<(i64,)> = self.all(query).await;
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        rows[0].0
    }

    /// Waits until the one text of a query reads `wanted`.
    pub(crate) async fn becomes(&self, query: &str, wanted: &str) {
        for _ in 0..6_000 {
            if self.text(query).await == wanted {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(self.text(query).await, wanted, "{query}");
    }

    /// Changes the database behind muster's back.
    pub(crate) async fn damage(&self, statement: &str) {
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::Sqlite(pool) => drop(pool.execute(statement).await.unwrap()),
            Self::Postgres(pool) => drop(pool.execute(statement).await.unwrap()),
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
