//! What PostgreSQL itself takes for a call of a function: none of that is a read. Never asks the gateway to run anything.

use std::process::Command;

use muster_db_gateway::{Class, Engine, classify};
use xtask::pg::{Cluster, Durability};

use crate::servers;

const SETUP: &str = "
CREATE SEQUENCE calls; CREATE TABLE t (id int, v text); INSERT INTO t VALUES (1, 'a');
CREATE FUNCTION aut(text) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT nextval('calls')::text $$;
CREATE FUNCTION aut(bigint) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT nextval('calls')::text $$;
CREATE FUNCTION said(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN nextval('calls')::text; END $$;
";

/// Each with whether PostgreSQL 15 calls a function of a user for it.
const STATEMENTS: &[(&str, bool)] = &[
    ("SELECT aut('x')", true),
    ("SELECT ('x'::text).aut", true),
    ("SELECT (v).aut FROM t", true),
    ("SELECT (v).aut FROM t AS v", true),
    ("SELECT (t.v).aut FROM t", true),
    ("SELECT (current_user::text).aut", true),
    ("SELECT ('x' COLLATE \"C\").aut", true),
    ("SELECT (SELECT 'x'::text).aut", true),
    ("SELECT t[1].aut FROM (SELECT ARRAY['x'] t) q", true),
    ("SELECT (aut).aut FROM (SELECT 'x'::text aut) q", true),
    ("SELECT (t).aut FROM t, (SELECT 'x'::text) q(t)", true),
    ("SELECT u.aut FROM unnest(ARRAY['x']) u", true),
    ("SELECT u.aut FROM unnest(ARRAY['x']) AS u(a)", true),
    ("SELECT (u).aut FROM unnest(ARRAY['x']) u", true),
    ("SELECT \"U\".aut FROM unnest(ARRAY['x']) \"U\"", true),
    ("SELECT U.\"aut\" FROM \"unnest\"(ARRAY['x']) u", true),
    ("SELECT u.aut FROM pg_catalog.unnest(ARRAY['x']) u", true),
    ("SELECT u.aut FROM ROWS FROM (unnest(ARRAY['x'])) u", true),
    ("SELECT u.aut FROM LATERAL unnest(ARRAY['x']) u", true),
    ("SELECT u.aut FROM t JOIN unnest(ARRAY['x']) u ON true", true),
    (
        "SELECT u.aut FROM t b LEFT JOIN t c ON b.id IN (1), unnest(ARRAY['x']) u",
        true,
    ),
    ("SELECT set.aut FROM unnest(ARRAY['x']) set", true),
    (
        "SELECT generate_series.aut FROM generate_series(1::bigint, 1)",
        true,
    ),
    ("SELECT e.aut FROM jsonb_array_elements_text('[\"x\"]') e", true),
    ("SELECT u.aut FROM CAST('x' AS text) AS u", true),
    ("SELECT u.aut FROM COALESCE('x'::text) u", true),
    ("SELECT u.aut FROM substring('xyz' FROM 1) u", true),
    (
        "SELECT 1 FROM t WHERE CASE WHEN true THEN (v).aut END <> ''",
        true,
    ),
    ("EXPLAIN SELECT said('x')", true),
    ("EXPLAIN SELECT id FROM t WHERE v = said('x')", true),
    ("EXPLAIN (\"analyze\") SELECT aut('x')", true),
    ("EXPLAIN UPDATE t SET v = said('x')", true),
    ("SELECT E'a'\n'\\'', aut('x'), ' --'", true),
    ("SELECT E'a'-- b\n--c\n\t'\\'', aut('x'), ' --'", true),
    ("SELECT * FROM t, aut(v) AS (insert text)", false),
    ("SELECT U&\"!0061ut\" UESCAPE '!' ('x')", true),
    ("SELECT t.id, t.v FROM t", false),
    ("SELECT (t).v, ((t)).id, (t.*).id FROM t", false),
    ("SELECT (ROW(1, 2)).f1", false),
    ("SELECT aut.aut FROM (SELECT 'x'::text aut) aut", false),
    ("SELECT c.aut FROM t c(aut)", false),
    ("SELECT (json_each('{\"a\":1}')).key", false),
    ("SELECT e.key, e.value FROM json_each('{\"a\":1}') e", false),
    ("SELECT e.value FROM jsonb_array_elements('[1]') e", false),
    ("SELECT 'a'\n'b' AS aut, E'c'\n'\\'d'", false),
    ("EXPLAIN SELECT lower(v) FROM t", false),
    ("EXPLAIN INSERT INTO t (id, v) SELECT 1, upper('x')", false),
];

/// Refused or a write although nothing is called: in doubt. The rows above that PostgreSQL answers with an error.
const STRICT: &[&str] = &["SELECT * FROM t, aut(v) AS (insert text)"];

mod heavy {
    use super::*;

    // spec: DBA-003 DBA-010 DBA-016
    #[test]
    fn what_the_server_takes_for_a_call_is_no_read() {
        let found = std::fs::read_dir("/usr/lib/postgresql").is_ok() || servers::program("initdb").is_some();
        if !found {
            return;
        }
        let cluster = Cluster::start(Durability::Fast).unwrap();
        let psql = |text: &str| {
            let mut command = Command::new(cluster.bin().join("psql"));
            command
                .args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"])
                .arg(cluster.dir())
                .args(["-c", text]);
            command.output().unwrap()
        };
        let calls = || psql("SELECT last_value, is_called FROM calls").stdout;
        assert!(psql(SETUP).status.success());
        for (statement, calling) in STATEMENTS {
            let before = calls();
            let answered = psql(statement);
            let called = calls() != before;
            assert_eq!(called, *calling, "{statement}: {answered:?}");
            let verdict = classify(Engine::Postgres, statement);
            let reads = verdict.class == Class::Read;
            assert_eq!(
                reads,
                !called && !STRICT.contains(statement),
                "{statement}: {verdict:?}"
            );
            if reads {
                assert!(answered.status.success(), "{statement}: {answered:?}");
            }
        }
    }
}
