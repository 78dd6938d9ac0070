//! Postgres's own wall between owners, past every statement of muster's: what its role sees and may write with a setting, without one and with a wrong one. Never goes through the API alone.

use std::collections::BTreeSet;

use muster_core::Fault;
use muster_store::{Db, Engine, Options, Sql, system};
use muster_testkit::{TestMuster, on_both};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::recipes::{Seeded, seed};
use crate::support::{Raw, owner_column};

/// How many rows of each table muster's role sees in a transaction after `set`.
async fn seen(
    conn: &mut PgConnection,
    tables: &[String],
    set: &str,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let mut tx = conn.begin().await?;
    tx.execute(AssertSqlSafe(set.to_owned())).await?;
    let mut found = Vec::new();
    for table in tables {
        let (rows,): (i64,) = sqlx::query_as(AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&mut *tx)
            .await?;
        found.push((table.clone(), rows));
    }
    tx.rollback().await?;
    Ok(found)
}

/// Runs a statement after `set` and rolls it back; answers how many rows it changed, or the engine's code.
async fn tried(conn: &mut PgConnection, set: &str, text: &str) -> Result<u64, String> {
    let mut tx = conn.begin().await.unwrap();
    tx.execute(AssertSqlSafe(set.to_owned())).await.unwrap();
    let done = tx.execute(AssertSqlSafe(text.to_owned())).await;
    tx.rollback().await.unwrap();
    done.map(|done| done.rows_affected()).map_err(|error| {
        error
            .as_database_error()
            .and_then(|e| e.code().map(|code| code.into_owned()))
            .unwrap_or_default()
    })
}

fn as_owner(seeded: &Seeded) -> String {
    format!("SELECT set_config('muster.owner', '{}', true)", seeded.owner)
}

const NO_SETTING: &str = "SELECT 1";
const EMPTY: &str = "SELECT set_config('muster.owner', '', true), set_config('muster.system', '', true)";
/// Row-level security's refusal of a row that is written.
const REFUSED: &str = "42501";

fn on_postgres<F: Future<Output = ()>>(law: impl Fn(TestMuster) -> F) {
    on_both(|muster| {
        let here = (muster.engine == Engine::Postgres).then(|| law(muster));
        async move {
            if let Some(law) = here {
                law.await;
            }
        }
    });
}

#[test]
fn with_no_setting_or_an_empty_or_a_senseless_one_nothing_is_seen() {
    on_postgres(|muster| async move {
        seed(&muster, "ada2", 5_000_000).await;
        let tables = Raw::of(&muster).await.tables().await;
        let mut conn = Raw::as_muster(&muster.url).await;
        for set in [NO_SETTING, EMPTY] {
            let found = seen(&mut conn, &tables, set).await.unwrap();
            assert!(found.iter().all(|(_, rows)| *rows == 0), "{set}: {found:?}");
        }
        let senseless = seen(
            &mut conn,
            &tables,
            "SELECT set_config('muster.owner', '1 OR TRUE', true)",
        )
        .await;
        assert!(senseless.is_err(), "a setting that is no id fails");
    });
}

#[test]
fn with_an_owners_setting_only_that_owners_rows_are_seen() {
    on_postgres(|muster| async move {
        let (ada, bob) = (
            seed(&muster, "ada2", 5_000_000).await,
            seed(&muster, "bob", 6_000_000).await,
        );
        let mut raw = Raw::of(&muster).await;
        let tables = raw.tables().await;
        let mut conn = Raw::as_muster(&muster.url).await;
        for owner in [&ada, &bob] {
            for (table, rows) in seen(&mut conn, &tables, &as_owner(owner)).await.unwrap() {
                let theirs = raw
                    .number(&format!(
                        "SELECT count(*) FROM {table} WHERE {} = {}",
                        owner_column(&table),
                        owner.owner
                    ))
                    .await;
                assert!(
                    rows == theirs && rows > 0,
                    "{table}: {rows} rows are seen, {theirs} are the owner's"
                );
            }
        }
        let nobody = seen(
            &mut conn,
            &tables,
            "SELECT set_config('muster.owner', '999', true)",
        )
        .await
        .unwrap();
        assert!(nobody.iter().all(|(_, rows)| *rows == 0), "{nobody:?}");
    });
}

#[test]
fn another_owners_rows_cannot_be_written_whatever_the_statement_says() {
    on_postgres(|muster| async move {
        let (ada, bob) = (
            seed(&muster, "ada2", 5_000_000).await,
            seed(&muster, "bob", 6_000_000).await,
        );
        let mut raw = Raw::of(&muster).await;
        let mut conn = Raw::as_muster(&muster.url).await;
        for table in raw.tables().await {
            let column = owner_column(&table);
            let hers = format!("WHERE {column} = {}", ada.owner);
            let columns: Vec<String> = raw
                .rows(&format!("SELECT column_name::text FROM information_schema.columns WHERE table_name = '{table}' AND column_name <> 'id' ORDER BY ordinal_position"))
                .await
                .iter()
                .map(crate::support::Loose::text)
                .collect();
            let copied: Vec<String> = columns
                .iter()
                // Of the same kind and unlike every stored value, where a unique index would speak first.
                .map(|c| match c.as_str() {
                    "owner_id" => ada.owner.to_string(),
                    "token_hash" | "credential_id" | "name" | "external_id" => format!("{c} || '-copy'"),
                    "state" => "'expired'".to_owned(),
                    "removed_at" | "revoked_at" => "1".to_owned(),
                    c => c.to_owned(),
                })
                .collect();
            // A copy of one of the caller's own rows, made out to the other owner.
            let copy = format!(
                "INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {column} = {} LIMIT 1",
                columns.join(", "),
                copied.join(", "),
                bob.owner
            );
            let some = columns.iter().find(|column| *column != "owner_id").unwrap();
            for set in [as_owner(&bob), NO_SETTING.to_owned(), EMPTY.to_owned()] {
                assert_eq!(
                    tried(
                        &mut conn,
                        &set,
                        &format!("UPDATE {table} SET {some} = {some} {hers}")
                    )
                    .await,
                    Ok(0),
                    "{table} {set}"
                );
                assert_eq!(
                    tried(&mut conn, &set, &format!("DELETE FROM {table} {hers}")).await,
                    Ok(0),
                    "{table} {set}"
                );
            }
            let inserted = tried(&mut conn, &as_owner(&bob), &copy).await;
            if table == "owners" {
                // Who may add owners is a transaction across owners.
                assert_eq!(inserted, Err(REFUSED.to_owned()), "{copy}");
            } else {
                // A guard or a key that asks for rows the caller cannot see refuses before the policy does.
                let code = inserted.unwrap_err();
                assert!(
                    [REFUSED, "P0001", "23503", "23514"].contains(&code.as_str()),
                    "{table}: {code}"
                );
                let moved = tried(
                    &mut conn,
                    &as_owner(&bob),
                    &format!(
                        "UPDATE {table} SET owner_id = {} WHERE owner_id = {}",
                        ada.owner, bob.owner
                    ),
                )
                .await;
                let code = moved.unwrap_err();
                assert!([REFUSED, "P0001"].contains(&code.as_str()), "{table}: {code}");
            }
        }
    });
}

#[test]
fn muster_s_role_can_neither_empty_the_audit_log_nor_switch_the_wall_off_by_truncating() {
    on_postgres(|muster| async move {
        seed(&muster, "ada2", 5_000_000).await;
        let mut conn = Raw::as_muster(&muster.url).await;
        let refused = conn.execute("TRUNCATE audit").await.unwrap_err();
        assert!(refused.to_string().contains("audit_append_only"), "{refused}");
    });
}

static SETTINGS: Sql = system(
    "test.settings",
    "SELECT pg_backend_pid()::bigint, coalesce(current_setting('muster.owner', true), ''), coalesce(current_setting('muster.system', true), ''), (SELECT count(*) FROM messages)",
);

/// The connection's own number, both settings and how many messages are seen, in a transaction that names no reason.
async fn left_behind(db: &Db) -> (i64, String, String, i64) {
    let found: Result<_, Fault> = db
        .system_read("", |tx| Box::pin(async move { tx.one(&SETTINGS, ()).await }))
        .await;
    found.unwrap()
}

#[test]
fn a_setting_ends_with_its_transaction_and_never_reaches_the_pools_next_user() {
    on_postgres(|muster| async move {
        let ada = seed(&muster, "ada2", 5_000_000).await;
        let mut options = Options::new(&muster.url, muster.dir.path().join("locks"));
        options.connections = 2;
        let db = Db::open(&options).await.unwrap();
        let (mut owners, mut next) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..20 {
            let pid = db
                .write(ada.owner, move |tx| {
                    Box::pin(async move {
                        static PID: Sql = muster_store::owned(
                            "test.pid",
                            "SELECT pg_backend_pid()::bigint FROM owners WHERE id = $1",
                        );
                        let pid = tx.number(&PID, ()).await?;
                        // Committed and refused ones alike.
                        if round % 2 == 0 {
                            Ok(pid)
                        } else {
                            Err(Fault::other(pid.to_string()))
                        }
                    })
                })
                .await
                .unwrap_or_else(|fault| fault.to_string().parse().unwrap());
            owners.insert(pid);
            // Two looks, so that a pool of two that takes its connections in turn comes back to the one that wrote.
            for _ in 0..2 {
                let (pid, owner, reason, messages) = left_behind(&db).await;
                assert_eq!(
                    (owner.as_str(), reason.as_str(), messages),
                    ("", "", 0),
                    "round {round}"
                );
                next.insert(pid);
            }
        }
        assert!(
            owners.intersection(&next).next().is_some(),
            "no connection was used twice: {owners:?} {next:?}"
        );
        db.close().await;
    });
}
