//! The engine's own mode without the gate before it: every row of the corpus, whatever its verdict, leaves nothing of the data changed. Never part of the program.

use std::process::Command;
use std::time::Duration;

use xtask::pg::{ADMIN, Cluster, Durability};

use crate::{Engine, Limits, Url, mysql, postgres};

#[path = "../tests/live/servers.rs"]
#[expect(dead_code, reason = "the tests against all servers use the rest")]
mod servers;

const CORPUS: &str = include_str!("../tests/read_write_refuse.tsv");

fn corpus(engine: Engine) -> impl Iterator<Item = String> {
    CORPUS
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(move |fields| fields[0].parse() == Ok(engine))
        .map(|fields| fields[1].replace("\\n", "\n"))
}

fn limits() -> Limits {
    Limits {
        time: Duration::from_millis(700),
        ..Limits::default()
    }
}

mod heavy {
    use super::*;

    // spec: DBA-004..DBA-006 DBA-008 DBA-009
    #[tokio::test(flavor = "multi_thread")]
    async fn postgres_keeps_its_data_when_the_gate_lets_everything_through() {
        let found = std::fs::read_dir("/usr/lib/postgresql").is_ok() || servers::program("initdb").is_some();
        if !found {
            return;
        }
        let cluster = Cluster::start(Durability::Fast).unwrap();
        let psql = |text: &str| {
            let output = servers::out(
                Command::new(cluster.bin().join("psql"))
                    .args([
                        "-X",
                        "-q",
                        "-A",
                        "-t",
                        "-v",
                        "ON_ERROR_STOP=1",
                        "-U",
                        ADMIN,
                        "-d",
                        "postgres",
                        "-h",
                    ])
                    .arg(cluster.dir())
                    .args(["-c", text]),
            );
            String::from_utf8(output.stdout).unwrap()
        };
        psql(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE SEQUENCE s; \
             CREATE FUNCTION side() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (90, 'x'); RETURN 1; END $$; \
             CREATE FUNCTION side_sd() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO t VALUES (91, 'x'); RETURN 1; END $$; \
             CREATE FUNCTION lie() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN nextval('s'); END $$; \
             CREATE PROCEDURE pr_commit() LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO t VALUES (92, 'x'); END $$; \
             CREATE EXTENSION dblink; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
             CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        );
        let world = || {
            psql(
                "SELECT 'row ' || t::text FROM t UNION ALL SELECT 'sequence ' || last_value::text || is_called::text FROM s \
                 UNION ALL SELECT 'class ' || oid::text || relname || coalesce(relacl::text, '') FROM pg_class WHERE relnamespace <> 11 AND relname !~ '^pg_toast' \
                 UNION ALL SELECT 'proc ' || oid::text FROM pg_proc WHERE pronamespace <> 11 \
                 UNION ALL SELECT 'role ' || rolname || coalesce(rolconfig::text, '') FROM pg_roles \
                 UNION ALL SELECT 'blob ' || oid::text FROM pg_largeobject_metadata \
                 UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots \
                 UNION ALL SELECT 'setting ' || name || setting FROM pg_settings WHERE source NOT IN ('client', 'session') \
                 UNION ALL SELECT 'lock ' || mode FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1",
            )
        };
        let before = world();
        let server = postgres::Server::new(Url::parse(&cluster.url("reader", "postgres")).unwrap());
        for some in corpus(Engine::Postgres).collect::<Vec<_>>().chunks(8) {
            for statement in some {
                let _ = server.read(statement, limits()).await;
            }
            assert_eq!(world(), before, "{some:?}");
        }
        cluster.stop().unwrap();
    }

    // spec: DBA-004..DBA-006 DBA-008 DBA-009
    #[tokio::test(flavor = "multi_thread")]
    async fn mariadb_keeps_its_data_when_the_gate_lets_everything_through() {
        let Some(running) = servers::mariadb() else { return };
        let client = |text: &str| {
            let output = servers::out(
                Command::new("mariadb")
                    .arg("--no-defaults")
                    .arg(format!("--socket={}", servers::socket(&running)))
                    .args(["-uroot", "-N", "-e", text]),
            );
            String::from_utf8(output.stdout).unwrap()
        };
        client(
            "CREATE DATABASE app; USE app; CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1,'a'),(2,'b'); \
             CREATE SEQUENCE sq; CREATE TABLE mem1 (a INT) ENGINE=MEMORY; \
             CREATE FUNCTION side() RETURNS INT RETURN NEXTVAL(sq); CREATE FUNCTION liar() RETURNS INT READS SQL DATA RETURN NEXTVAL(sq); \
             CREATE USER reader@localhost; GRANT SELECT ON app.* TO reader@localhost",
        );
        let world = || {
            client(
                "SELECT * FROM app.t; SELECT next_not_cached_value FROM app.sq; SELECT COUNT(*) FROM app.mem1; SHOW FULL TABLES FROM app; \
                 SHOW DATABASES; SELECT User, Host, Priv FROM mysql.global_priv; SHOW TRIGGERS FROM app; SELECT * FROM mysql.plugin; \
                 SELECT IS_USED_LOCK('a'); SHOW GLOBAL VARIABLES WHERE Variable_name IN ('general_log', 'max_connections', 'read_only')",
            )
        };
        let before = world();
        let url = format!(
            "mariadb://reader@localhost/app?socket={}",
            servers::socket(&running)
        );
        let server = mysql::Server::new(Url::parse(&url).unwrap());
        for some in corpus(Engine::Mysql).collect::<Vec<_>>().chunks(8) {
            for statement in some {
                let _ = server.read(statement, limits()).await;
            }
            assert_eq!(world(), before, "{some:?}");
        }
    }
}
