//! The probe of a database: it proves a commit, into the file that lies where it was opened, at most once a second. Never trusts a read.

use std::time::Duration;

use muster_core::FaultKind;
use muster_store::{Db, Engine};
use muster_testkit::on_both;

use crate::support::{Raw, file};

/// A little more than an answer stands.
const STALE: Duration = Duration::from_millis(1_100);

/// What every commit changes: the log beside the file, or the row's version.
async fn mark(raw: &mut Raw, wal: &std::path::Path) -> String {
    match raw {
        Raw::Sqlite(_) => muster_core::secret::sha256_hex(&std::fs::read(wal).unwrap()),
        Raw::Postgres(_) => raw
            .rows("SELECT xmin::text FROM _sqlx_migrations WHERE version = 1")
            .await[0]
            .text(),
    }
}

#[test]
fn a_probe_is_a_commit_that_changes_nothing_and_stands_for_a_second() {
    on_both(|muster| async move {
        let mut raw = Raw::of(&muster).await;
        let wal = match muster.engine {
            Engine::Sqlite => file(&muster).with_extension("db-wal"),
            Engine::Postgres => "".into(),
        };
        let rows = raw.rows_of(muster.owner).await;
        let before = mark(&mut raw, &wal).await;
        let db = &muster.app.db;
        db.probe().await.unwrap();
        let after = mark(&mut raw, &wal).await;
        assert_ne!(before, after, "nothing reached the disk");
        let mut many = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let db = db.clone();
            many.spawn(async move { db.probe().await });
        }
        assert!(many.join_all().await.iter().all(Result::is_ok));
        assert_eq!(
            mark(&mut raw, &wal).await,
            after,
            "each of them made a commit of its own"
        );
        tokio::time::sleep(STALE).await;
        db.probe().await.unwrap();
        assert_ne!(mark(&mut raw, &wal).await, after, "an old answer still stands");
        assert_eq!(raw.rows_of(muster.owner).await, rows);
        raw.close().await;
    });
}

/// A probe whose answer is not one from before.
async fn fresh(db: &Db) -> Result<(), muster_core::Fault> {
    tokio::time::sleep(STALE).await;
    db.probe().await
}

#[test]
fn a_probe_fails_while_a_file_of_the_database_is_gone_or_replaced() {
    on_both(|muster| async move {
        if muster.engine == Engine::Postgres {
            return;
        }
        let db = &muster.app.db;
        let main = file(&muster);
        for path in [
            main.clone(),
            main.with_extension("db-wal"),
            main.with_extension("db-shm"),
        ] {
            let aside = main.with_file_name("aside");
            db.probe().await.unwrap();
            std::fs::rename(&path, &aside).unwrap();
            let gone = fresh(db).await.unwrap_err();
            assert_eq!(*gone.kind(), FaultKind::Unavailable);
            assert!(
                gone.chain().contains(&path.display().to_string()) && gone.chain().contains("it is gone"),
                "{}",
                gone.chain()
            );
            std::fs::write(&path, "another").unwrap();
            let replaced = fresh(db).await.unwrap_err();
            assert!(
                replaced.chain().contains("another file lies in its place"),
                "{}",
                replaced.chain()
            );
            std::fs::rename(&aside, &path).unwrap();
            fresh(db).await.unwrap();
        }
    });
}

#[test]
fn a_probe_fails_while_no_write_can_be_committed_although_reads_go_on() {
    on_both(|muster| async move {
        let mut raw = Raw::of(&muster).await;
        let hold = match muster.engine {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN; LOCK TABLE _sqlx_migrations IN EXCLUSIVE MODE",
        };
        raw.run(hold).await.unwrap();
        let db = &muster.app.db;
        let begun = std::time::Instant::now();
        let fault = db.probe().await.unwrap_err();
        assert_eq!(*fault.kind(), FaultKind::Unavailable, "{}", fault.chain());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(muster_app::accounts::any_owner(&muster.app).await.unwrap());
        raw.run("ROLLBACK").await.unwrap();
        let begun = std::time::Instant::now();
        while let Err(fault) = fresh(db).await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", fault.chain());
        }
        raw.close().await;
    });
}
