//! MariaDB, on a socket of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use muster_db_gateway::{Connection, Engine, Error, Limits};
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, OptsBuilder, Row};

use crate::servers::{self, Running};
use crate::world::{
    connection, corpus, engine_code, is_not_let_in, json, limits, may_read, may_write, read, rows,
    says_how_writes_get_an_account, stopped_and_left, traces,
};

const SETUP: &str = r#"
CREATE DATABASE app; USE app;
CREATE TABLE t (id INT PRIMARY KEY, v TEXT) COMMENT 'things'; INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c');
CREATE TABLE mem1 (a INT) ENGINE=MEMORY;
CREATE SEQUENCE sq START WITH 10;
CREATE TABLE typed (n DECIMAL(20,4), big BIGINT UNSIGNED, d DATE, at TIMESTAMP NULL, dt DATETIME(3), tm TIME, b VARBINARY(9), j JSON, e ENUM('calm','cross'), f FLOAT, nothing INT);
INSERT INTO typed VALUES (0.1, 18446744073709551615, '2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05.120', '-26:00:01', x'00ff', '{"b": 1.50}', 'cross', 0.1, NULL);
CREATE TABLE parent (id INT PRIMARY KEY); CREATE TABLE child (p INT, FOREIGN KEY (p) REFERENCES parent (id));
DELIMITER //
CREATE FUNCTION side() RETURNS INT BEGIN INSERT INTO t VALUES (90,'side'); RETURN 1; END//
CREATE FUNCTION liar() RETURNS INT READS SQL DATA BEGIN INSERT INTO t VALUES (91,'liar'); RETURN 1; END//
CREATE PROCEDURE pr_commit() BEGIN COMMIT; INSERT INTO t VALUES (92,'pr'); END//
DELIMITER ;
CREATE VIEW sly AS SELECT liar() AS x;
CREATE USER reader@localhost IDENTIFIED BY 'SECRETPASSWORD'; GRANT SELECT ON app.* TO reader@localhost;
CREATE USER writer@localhost; GRANT SELECT, INSERT, UPDATE, DELETE ON app.* TO writer@localhost;
"#;

struct Server(Running);

impl Server {
    fn start() -> Option<Self> {
        let server = Self(servers::mariadb()?);
        server.client(SETUP);
        Some(server)
    }

    fn client(&self, text: &str) -> String {
        let output = servers::out(
            Command::new("mariadb")
                .arg("--no-defaults")
                .arg(format!("--socket={}", servers::socket(&self.0)))
                .args(["-uroot", "-N", "-e", text]),
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn url(&self, account: &str) -> String {
        format!(
            "mariadb://{account}@localhost/app?socket={}",
            servers::socket(&self.0)
        )
    }

    fn reader(&self) -> Connection {
        connection(&self.url("reader:SECRETPASSWORD"), Some(&self.url("writer")))
    }

    async fn admin(&self) -> Conn {
        Conn::new(
            OptsBuilder::default()
                .user(Some("root"))
                .socket(Some(servers::socket(&self.0))),
        )
        .await
        .unwrap()
    }

    /// Rows, schema, sequences, accounts, settings, locks, sessions, files.
    async fn world(&self, admin: &mut Conn) -> String {
        let mut found = Vec::new();
        for asked in [
            "SELECT * FROM app.t",
            "SELECT next_not_cached_value FROM app.sq",
            "SELECT count(*) FROM app.mem1",
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'app'",
            "SELECT ROUTINE_NAME, LAST_ALTERED FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'app'",
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'app'",
            "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA",
            "SELECT User, Host, Priv FROM mysql.global_priv",
            "SELECT Db, User FROM mysql.db",
            "SELECT * FROM mysql.plugin",
            "SELECT * FROM mysql.servers",
            "SELECT name FROM mysql.func",
            "SELECT COUNT(*) FROM mysql.column_stats",
            "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES \
             WHERE VARIABLE_NAME NOT LIKE '%timestamp%' AND VARIABLE_NAME NOT LIKE 'gtid%'",
            "SELECT IS_USED_LOCK('a')",
        ] {
            let rows: Vec<Row> = admin.query(asked).await.unwrap();
            found.extend(rows.into_iter().map(|row| format!("{asked}: {:?}", row.unwrap())));
        }
        let mut files: Vec<String> = std::fs::read_dir(self.0.dir.path())
            .unwrap()
            .chain(std::fs::read_dir(self.0.dir.path().join("data/app")).unwrap())
            .map(|entry| format!("file {}", entry.unwrap().file_name().display()))
            .collect();
        files.sort();
        format!("{}\n{}", found.join("\n"), files.join("\n"))
    }
}

mod heavy {
    use super::*;

    // spec: DBA-005..DBA-009 DBA-012
    #[tokio::test(flavor = "multi_thread")]
    async fn no_statement_of_the_corpus_leaves_a_trace_when_it_is_read() {
        let Some(server) = Server::start() else { return };
        let mut root = server.admin().await;
        let before = server.world(&mut root).await;
        // As the narrow account, and as one that could do everything: then only the gate and the mode stand.
        for user in ["reader:SECRETPASSWORD", "root"] {
            let connection = connection(&server.url(user), None);
            for (statement, expected) in corpus(Engine::Mysql) {
                let answer = read(&connection, &statement).await;
                assert_eq!(
                    matches!(answer, Err(Error::Gate { .. })),
                    expected != "read",
                    "{statement}: {answer:?}"
                );
                // MariaDB plans no change in a transaction that only reads, and shows its logs to few; all others are answered.
                let excused = ["EXPLAIN DELETE", "SHOW BINARY LOGS"];
                if expected == "read" && !excused.iter().any(|front| statement.starts_with(front)) {
                    assert!(answer.is_ok(), "{statement}: {answer:?}");
                }
                // What the gate stopped was not sent.
                if expected == "read" {
                    assert_eq!(
                        traces(&before, &server.world(&mut root).await),
                        [""; 0],
                        "{user}: {statement}"
                    );
                }
            }
            // What no parser sees the engine stops.
            assert_eq!(engine_code(&read(&connection, "SELECT * FROM sly").await), "1792");
            assert_eq!(traces(&before, &server.world(&mut root).await), [""; 0]);
        }
    }

    // spec: DBA-001..DBA-004 DBA-010 DBA-013 DBA-014 DBA-031..DBA-037
    #[tokio::test(flavor = "multi_thread")]
    async fn reads_and_writes_answer_in_full_and_within_their_limits() {
        let Some(server) = Server::start() else { return };
        let connection = server.reader();
        let typed = rows(&connection, "SELECT * FROM typed").await;
        assert_eq!(
            serde_json::to_string(&typed.rows).unwrap(),
            r#"[["0.1000","18446744073709551615","2026-01-02","2026-01-02T03:04:05Z","2026-01-02T03:04:05.12","-26:00:01","AP8=",{"b": 1.50},"cross",0.1,null]]"#
        );
        let kinds: Vec<&str> = typed.columns.iter().map(|column| column.kind.as_str()).collect();
        assert_eq!(
            kinds,
            [
                "decimal",
                "bigint unsigned",
                "date",
                "timestamp",
                "datetime",
                "time",
                "varbinary",
                "json",
                "enum",
                "float",
                "int"
            ]
        );
        let many = rows(&connection, "SELECT * FROM seq_1_to_1000000, seq_1_to_1000").await;
        assert!(many.truncated && many.rows.len() == 1000);
        let slow = "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b";
        stopped_and_left(&connection, slow).await;
        let begun = Instant::now();
        let running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'reader' AND COMMAND <> 'Sleep'";
        while server.client(running) != "0" {
            assert!(begun.elapsed() < Duration::from_secs(30), "it still runs");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let delete = "DELETE FROM t WHERE id = 3";
        assert!(
            connection
                .write(&may_read(), delete, true, limits())
                .await
                .is_err()
        );
        assert!(
            connection
                .write(&may_write(), delete, false, limits())
                .await
                .is_err()
        );
        assert!(read(&connection, delete).await.is_err());
        says_how_writes_get_an_account(&server.url("reader:SECRETPASSWORD"), delete).await;
        assert_eq!(json(&connection, "SELECT count(*) FROM t").await, "[[3]]");
        let done = connection
            .write(&may_write(), delete, true, limits())
            .await
            .unwrap();
        assert_eq!(done.rows().unwrap().affected, Some(1));
        assert_eq!(json(&connection, "SELECT count(*) FROM t").await, "[[2]]");

        let permit = may_read();
        assert!(
            connection
                .schemas(&permit, limits())
                .await
                .unwrap()
                .all
                .iter()
                .any(|schema| schema.name == "app")
        );
        let objects = connection.objects(&permit, None, limits()).await.unwrap().all;
        let t = objects.iter().find(|object| object.name == "t").unwrap();
        assert_eq!((t.kind.as_str(), t.comment.as_deref()), ("table", Some("things")));
        let described = connection.describe(&permit, "app.child", limits()).await.unwrap();
        assert_eq!(described.columns[0].kind, "int(11)");
        assert_eq!(described.keys[0].kind, "foreign");
        let preview = connection
            .preview(&permit, "t", 1, false, limits())
            .await
            .unwrap();
        assert!(preview.rows().unwrap().truncated);
        let plan = connection
            .explain(&permit, "SELECT * FROM t", limits())
            .await
            .unwrap();
        assert!(plan.as_str().unwrap().contains("query_block"), "{plan}");
        let analysed = connection
            .explain(&permit, "ANALYZE DELETE FROM t", limits())
            .await
            .unwrap_err();
        assert_eq!(analysed.code(), "refused_gate");
        assert_eq!(
            connection
                .describe(&permit, "nothere", limits())
                .await
                .unwrap_err()
                .code(),
            "not_found"
        );
        let wrong = self::connection(&server.url("reader:OTHERPASSWORD"), None);
        let error = read(&wrong, "SELECT 1").await.unwrap_err();
        assert!(
            !format!("{error} {error:?} {wrong:?}").contains("OTHERPASSWORD"),
            "{error}"
        );
    }

    // spec: DBA-014
    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_account_may_do_is_told_without_the_hash_of_its_password() {
        let Some(server) = Server::start() else { return };
        let hash = server.client("SELECT PASSWORD('SECRETPASSWORD')");
        assert!(server.client("SHOW GRANTS FOR reader@localhost").contains(&hash));
        let grants = json(&server.reader(), "SHOW /* all */ GRANTS").await;
        assert!(grants.contains("GRANT SELECT ON `app`.*"), "{grants}");
        assert!(!grants.contains(&hash), "{grants}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_account_that_may_do_more_is_told_from_one_that_only_reads() {
        let Some(server) = Server::start() else { return };
        let narrow = server.reader();
        let wide = narrow.wide().await.unwrap();
        assert!(!wide.wide, "{:?}", wide.reasons);
        for guarantee in narrow.check().await {
            assert!(guarantee.ok, "{guarantee:?}");
        }
        let mut root = server.admin().await;
        let before = server.world(&mut root).await;
        let admin = connection(&server.url("root"), None);
        let wide = admin.wide().await.unwrap();
        assert!(wide.wide);
        let failed: Vec<_> = admin
            .check()
            .await
            .into_iter()
            .filter(|found| !found.ok)
            .map(|found| found.id)
            .collect();
        assert_eq!(failed, ["narrow_account"]);
        assert_eq!(
            traces(&before, &server.world(&mut root).await),
            [""; 0],
            "a check leaves nothing behind"
        );
        assert!(connection(&server.url("writer"), None).wide().await.unwrap().wide);
        server.client(&wide.statements.join("\n"));
        let made = connection(&server.url("muster_reader:CHANGE_ME"), None);
        assert!(!made.wide().await.unwrap().wide);
        assert_eq!(json(&made, "SELECT count(*) FROM t").await, "[[3]]");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_not_let_in_is_told_so_and_not_that_nobody_is_there() {
        let Some(server) = Server::start() else { return };
        server.client(
            "CREATE USER locked@localhost IDENTIFIED BY 'SECRETPASSWORD' ACCOUNT LOCK; \
             CREATE USER late@localhost IDENTIFIED BY 'SECRETPASSWORD' PASSWORD EXPIRE; GRANT SELECT ON app.* TO late@localhost; CREATE DATABASE closed",
        );
        for (account, code) in [
            ("reader:OTHERPASSWORD", "(1045)"),
            ("nobody:OTHERPASSWORD", "(1045)"),
            ("locked:SECRETPASSWORD", "(4151)"),
            ("late:SECRETPASSWORD", "(1820)"),
        ] {
            let password = account.split_once(':').unwrap().1;
            let said = is_not_let_in(&server.url(account), password).await;
            assert!(said.contains(code), "{said}");
        }
        let elsewhere = |database: &str, account: &str| {
            let url = server.url(account);
            url.replace("/app?", &format!("/{database}?"))
        };
        let said = is_not_let_in(&elsewhere("closed", "reader:SECRETPASSWORD"), "SECRETPASSWORD").await;
        assert!(said.contains("(1044)"), "{said}");
        let said = is_not_let_in(&elsewhere("no_such_database", "root"), "SECRETPASSWORD").await;
        assert!(said.contains("(1049)"), "{said}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_list_that_was_cut_says_so_and_hides_no_object_from_who_names_it() {
        let Some(server) = Server::start() else { return };
        let connection = server.reader();
        let permit = may_read();
        let small = Limits {
            bytes: 60,
            ..limits()
        };
        let cut = connection.objects(&permit, None, small).await.unwrap();
        assert!(cut.truncated);
        assert!(
            cut.all.iter().all(|object| object.name != "typed"),
            "the list does not reach it, or this proves nothing"
        );
        let whole = connection.objects(&permit, None, limits()).await.unwrap();
        assert!(!whole.truncated && whole.all.iter().any(|object| object.name == "typed"));
        let found = connection.describe(&permit, "typed", small).await.unwrap();
        assert_eq!(found.object.name, "typed");
        let found = connection
            .preview(&permit, "app.typed", 1, false, small)
            .await
            .unwrap();
        assert_eq!(found.rows().unwrap().columns.len(), 11);
        // The catalogue does not look at the case of a name; the file system does.
        let missing = connection.describe(&permit, "TYPED", limits()).await.unwrap_err();
        assert_eq!(missing.code(), "not_found");
        assert!(
            connection
                .schemas(&permit, Limits { bytes: 1, ..limits() })
                .await
                .unwrap()
                .truncated
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_right_that_stands_behind_the_name_of_a_column_is_wide() {
        let Some(server) = Server::start() else { return };
        server.client(
            "CREATE TABLE app.odd (`a(` INT, `b` INT, `c)` INT); CREATE USER odd@localhost; CREATE USER even@localhost; \
             GRANT SELECT (`a(`), INSERT (`b`) ON app.odd TO odd@localhost; GRANT SELECT (`a(`, `c)`) ON app.odd TO even@localhost",
        );
        let wide = connection(&server.url("odd"), None).wide().await.unwrap();
        assert!(wide.wide && wide.reasons[0].contains("INSERT"), "{wide:?}");
        let narrow = connection(&server.url("even"), None).wide().await.unwrap();
        assert!(!narrow.wide, "{narrow:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_looks_into_other_sessions_is_not_sent() {
        let Some(server) = Server::start() else { return };
        let connection = server.reader();
        for statement in [
            "SHOW PROCESSLIST",
            "SHOW FULL PROCESSLIST",
            "SHOW EXPLAIN FOR 1",
            "SHOW EXPLAIN FORMAT=JSON FOR 1",
            "SHOW ANALYZE FORMAT=JSON FOR 1",
        ] {
            let refused = read(&connection, statement).await;
            assert!(
                matches!(refused, Err(Error::Gate { .. })),
                "{statement}: {refused:?}"
            );
        }
    }
}
