//! What the laws of accounts share: signing in, and a raw look at everything that is stored. Never asserts a law.

use std::str::FromStr as _;
use std::time::Duration;

use muster_app::App;
use muster_app::accounts::{self, BrowserCaller, OwnerName, Password, SignInError};
use muster_app::audit::{self, Entry, Filter};
use muster_core::Secret;
use muster_core::ids::OwnerId;
use muster_store::Engine;
use muster_testkit::{PASSWORD, TestMuster};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn try_sign_in(app: &App, name: &str, password: &str) -> Result<Secret, SignInError> {
    accounts::sign_in_password(app, name, &Secret::new(password)).await
}

pub(crate) async fn sign_in(app: &App, name: &str) -> Secret {
    try_sign_in(app, name, PASSWORD).await.unwrap()
}

/// Who the cookie belongs to, if its session lives.
pub(crate) async fn who(app: &App, cookie: &Secret) -> Option<BrowserCaller> {
    accounts::browser(app, cookie.expose()).await.unwrap()
}

pub(crate) async fn add(
    app: &App,
    name: &str,
    password: &str,
    first: bool,
) -> Result<OwnerId, accounts::AccountError> {
    accounts::add(
        app,
        OwnerName::parse(name).unwrap(),
        Password::parse(password).unwrap(),
        first,
    )
    .await
}

/// The audit rows of this event, newest first; of every event when it is empty.
pub(crate) async fn events(app: &App, owner: OwnerId, event: &str) -> Vec<Entry> {
    audit::list(
        &app.db,
        owner,
        Filter {
            event: event.to_owned(),
            ..Filter::default()
        },
    )
    .await
    .unwrap()
}

/// Everything the database holds, as one text: SQLite's files byte by byte, Postgres row by row.
pub(crate) async fn everything_stored(muster: &TestMuster) -> String {
    match muster.engine {
        Engine::Sqlite => {
            let path = muster.url.strip_prefix("sqlite://").unwrap();
            let mut bytes = std::fs::read(path).unwrap();
            bytes.extend(std::fs::read(format!("{path}-wal")).unwrap());
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Engine::Postgres => {
            let mut conn = PgConnection::connect_with(&PgConnectOptions::from_str(&muster.url).unwrap())
                .await
                .unwrap();
            sqlx::query("SELECT set_config('muster.system', 'a test', false)")
                .execute(&mut conn)
                .await
                .unwrap();
            let tables: Vec<(String,)> =
                sqlx::query_as("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
                    .fetch_all(&mut conn)
                    .await
                    .unwrap();
            assert!(tables.len() > 10);
            let mut all = String::new();
            for (table,) in tables {
                let rows: Vec<(String,)> =
                    sqlx::query_as(AssertSqlSafe(format!("SELECT t::text FROM {table} t")))
                        .fetch_all(&mut conn)
                        .await
                        .unwrap();
                for (row,) in rows {
                    all.push_str(&row);
                    all.push('\n');
                }
            }
            conn.close().await.unwrap();
            all
        }
    }
}
