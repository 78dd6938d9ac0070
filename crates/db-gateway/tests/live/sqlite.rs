//! SQLite, on files of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_db_gateway::{Class, Connection, Engine, Error, Limits, classify};

use crate::world::{connection, corpus, engine_code, json, limits, may_read, may_write, read, rows};

const SETUP: &str = "
CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, j JSON);
INSERT INTO t VALUES (1, 'a', '{\"k\": 1.0}'), (2, 'b', NULL), (3, 'c', NULL);
CREATE INDEX by_v ON t (v);
CREATE VIEW vw AS SELECT * FROM t;
CREATE TRIGGER tr INSTEAD OF INSERT ON vw BEGIN INSERT INTO t (id, v) VALUES (new.id, new.v); END;
CREATE VIRTUAL TABLE ft USING fts5(x);
INSERT INTO ft VALUES ('hello world');
CREATE TABLE typed (big INTEGER, r REAL, b BLOB);
INSERT INTO typed VALUES (9007199254740993, 0.1, x'00ff');
";

struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new(wal: bool) -> Self {
        let file = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let database = rusqlite::Connection::open(file.path()).unwrap();
        if wal {
            database.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        }
        database.execute_batch(SETUP).unwrap();
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("a.db")
    }

    fn connection(&self) -> Connection {
        connection(&format!("sqlite:{}", self.path().display()), None)
    }

    /// Every file of the folder with its bytes, and whether the traces that the corpus tries to leave elsewhere are there.
    fn world(&self) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
            .collect();
        for path in ["/tmp/evil.db", "/tmp/e.db", "/tmp/copy.db", "/tmp/x"] {
            found.push((path.to_owned(), Path::new(path).exists().to_string().into_bytes()));
        }
        found.sort();
        found
    }
}

mod heavy {
    use super::*;

    // spec: DBA-005..DBA-009 DBA-012
    #[tokio::test(flavor = "multi_thread")]
    async fn no_statement_of_the_corpus_leaves_a_trace_when_it_is_read() {
        for wal in [false, true] {
            let file = File::new(wal);
            // With WAL a writer keeps its two files in place.
            let writer = rusqlite::Connection::open(file.path()).unwrap();
            writer.execute_batch("BEGIN; SELECT * FROM t; COMMIT").unwrap();
            let connection = file.connection();
            let _ = read(&connection, "SELECT 1 FROM t").await;
            let before = file.world();
            for (statement, expected) in corpus(Engine::Sqlite) {
                let short = Limits {
                    time: Duration::from_millis(500),
                    ..limits()
                };
                let answer = connection.read(&may_read(), &statement, short).await;
                assert_eq!(
                    matches!(answer, Err(Error::Gate { .. })),
                    expected != "read",
                    "{statement}: {answer:?}"
                );
                // Without end, too large, or of a table that is not there; all others are answered.
                let excused = ["RECURSIVE", "zeroblob(1000000000)"];
                if expected == "read" && !excused.iter().any(|word| statement.contains(word)) {
                    assert!(answer.is_ok(), "{statement}: {answer:?}");
                }
                assert!(file.world() == before, "{statement}");
            }
            // Nobody holds a lock either.
            writer.execute_batch("BEGIN EXCLUSIVE; ROLLBACK").unwrap();
        }
    }
}

// spec: DBA-005 DBA-011
#[tokio::test(flavor = "multi_thread")]
async fn the_handle_and_the_authorizer_each_stop_what_the_gate_would_let_through() {
    let file = File::new(false);
    let connection = file.connection();
    for guarantee in connection.check().await {
        assert!(guarantee.ok, "{guarantee:?}");
    }
    assert!(!connection.wide().await.unwrap().wide);
}

// spec: DBA-001..DBA-004 DBA-007 DBA-037
#[tokio::test(flavor = "multi_thread")]
async fn writes_need_their_gates_and_then_happen() {
    let file = File::new(false);
    let connection = file.connection();
    let update = "UPDATE t SET v = 'z' WHERE id < 3";
    for (permit, write) in [(may_read(), true), (may_write(), false)] {
        assert!(connection.write(&permit, update, write, limits()).await.is_err());
    }
    assert_eq!(
        json(&connection, "SELECT count(*) FROM t WHERE v = 'z'").await,
        "[[0]]"
    );
    let done = connection
        .write(&may_write(), update, true, limits())
        .await
        .unwrap();
    assert_eq!(done.rows().unwrap().affected, Some(2));
    assert_eq!(
        json(&connection, "SELECT count(*) FROM t WHERE v = 'z'").await,
        "[[2]]"
    );
    for statement in [
        "VACUUM",
        "PRAGMA user_version = 7",
        "CREATE TABLE n (x)",
        "ANALYZE",
        "REINDEX",
        "DROP TABLE n",
    ] {
        let done = connection.write(&may_write(), statement, true, limits()).await;
        assert!(done.is_ok(), "{statement}: {done:?}");
    }
    assert_eq!(json(&connection, "PRAGMA user_version").await, "[[7]]");
    let other = connection
        .write(&may_write(), "ATTACH '/tmp/evil.db' AS e", true, limits())
        .await;
    assert_eq!(other.unwrap_err().code(), "refused_gate");
}

// spec: DBA-013
#[tokio::test(flavor = "multi_thread")]
async fn values_lose_nothing_and_answers_stay_within_their_limits() {
    let file = File::new(false);
    let connection = file.connection();
    assert_eq!(
        json(&connection, "SELECT * FROM typed").await,
        r#"[["9007199254740993",0.1,"AP8="]]"#
    );
    assert_eq!(
        json(&connection, "SELECT j FROM t").await,
        r#"[[{"k": 1.0}],[null],[null]]"#
    );
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT * FROM c";
    assert!(rows(&connection, endless).await.truncated);
    let short = Limits {
        time: Duration::from_millis(200),
        ..limits()
    };
    let begun = Instant::now();
    let counting = endless.replace("SELECT * FROM", "SELECT count(*) FROM");
    let slow = connection.read(&may_read(), &counting, short).await;
    assert!(matches!(slow, Err(Error::TimedOut { .. })), "{slow:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let burn = read(&connection, "SELECT hex(zeroblob(1000000000))").await;
    assert_eq!(engine_code(&burn), "18");
    // Within one step nothing interrupts SQLite: what such a step works on is bounded.
    for endless in [
        "SELECT instr(hex(zeroblob(30000000)), hex(zeroblob(15000000)) || '1')",
        "SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1')",
        "SELECT trim(hex(zeroblob(2000000)), hex(zeroblob(2000000)))",
        "SELECT hex(zeroblob(2000000)) LIKE hex(zeroblob(1000))",
    ] {
        let begun = Instant::now();
        let answer = read(&connection, endless).await;
        assert!(
            matches!(answer, Err(Error::Engine { .. })),
            "{endless}: {answer:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20), "{endless}");
    }
    assert_eq!(
        json(&connection, "SELECT instr(v, 'b'), replace(v, 'b', 'x') FROM t").await,
        r#"[[0,"a"],[1,"x"],[0,"c"]]"#
    );
    let wrong = read(&connection, "SELECT nothere FROM t").await.unwrap_err();
    assert!(
        matches!(
            wrong,
            Error::Engine {
                position: Some(8),
                ..
            }
        ),
        "{wrong:?}"
    );
}

// spec: DBA-031..DBA-036
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_can_be_listed_described_previewed_and_explained() {
    let file = File::new(false);
    let connection = file.connection();
    let permit = may_read();
    assert_eq!(
        connection.schemas(&permit, limits()).await.unwrap().all[0].name,
        "main"
    );
    let objects = connection.objects(&permit, None, limits()).await.unwrap().all;
    assert!(
        objects
            .iter()
            .any(|object| object.name == "vw" && object.kind == "view")
    );
    let small = Limits {
        bytes: 20,
        ..limits()
    };
    assert!(connection.objects(&permit, None, small).await.unwrap().truncated);
    let described = connection.describe(&permit, "t", limits()).await.unwrap();
    assert_eq!(described.columns.len(), 3);
    assert_eq!(described.keys[0].definition, "(id)");
    assert_eq!(described.indexes[0].name, "by_v");
    let preview = connection
        .preview(&permit, "t", 1, false, limits())
        .await
        .unwrap();
    assert!(preview.rows().unwrap().truncated);
    let plan = connection
        .explain(&permit, "SELECT * FROM t WHERE v = 'a'", limits())
        .await
        .unwrap();
    assert!(plan.as_str().unwrap().contains("by_v"), "{plan}");
    let plan = connection
        .explain(&permit, "DELETE FROM t", limits())
        .await
        .unwrap();
    assert!(plan.as_str().unwrap().contains('t'), "{plan}");
    assert_eq!(json(&connection, "SELECT count(*) FROM t").await, "[[3]]");
    assert_eq!(
        classify(Engine::Sqlite, "EXPLAIN DELETE FROM t").class,
        Class::Read
    );
    assert!(
        read(&connection, "SELECT * FROM ft WHERE ft MATCH 'hello'")
            .await
            .is_ok()
    );
    assert_eq!(
        connection
            .describe(&permit, "nothere", limits())
            .await
            .unwrap_err()
            .code(),
        "not_found"
    );
}
