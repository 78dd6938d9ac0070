//! Functions that somebody made under the names of functions that read, and fields that look like calls. Never believes what such a function says of itself.

use muster_db_gateway::{Connection, Error};

use crate::postgres::Server;
use crate::world::{connection, json, limits, may_read, may_write, read, traces};

const NAMESAKES: &str = "
CREATE TYPE tag AS (label text, place int);
CREATE TABLE tagged (id int, tag tag, tags tag[]); INSERT INTO tagged VALUES (1, ROW('A', 7), ARRAY[ROW('B', 8)::tag]);
CREATE FUNCTION lower(tag) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE FUNCTION abs(tag) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE FUNCTION length(tag, int DEFAULT 1) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('s'); END $$;
CREATE FUNCTION side_step(tag) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE FUNCTION reverse(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE SCHEMA aside; CREATE FUNCTION aside.upper(tag) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE SCHEMA extensions; CREATE FUNCTION extensions.digest(tag, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('s')::text; END $$;
CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE EXTENSION hstore; CREATE EXTENSION tablefunc;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; GRANT ALL ON SEQUENCE s TO writer;
GRANT USAGE ON SCHEMA aside, extensions TO reader;
";

async fn stopped(connection: &Connection, statement: &str) -> String {
    match read(connection, statement).await {
        Err(Error::Gate { verdict }) if verdict.class == muster_db_gateway::Class::Write => {
            verdict.reason.into_owned()
        }
        other => panic!("{statement}: {other:?}"),
    }
}

mod heavy {
    use super::*;

    // spec: DBA-003 DBA-007
    #[tokio::test(flavor = "multi_thread")]
    async fn a_function_that_somebody_made_is_no_read_under_the_name_of_one() {
        for server in Server::all() {
            server.psql(NAMESAKES);
            let before = server.world();
            for user in ["reader", "postgres"] {
                let connection = connection(&server.url(user), None);
                for (statement, name) in [
                    ("SELECT lower(tag) FROM tagged", "lower"),
                    ("SELECT id FROM tagged WHERE \"lower\"(tag) <> ''", "lower"),
                    ("SELECT lower('A')", "lower"),
                    ("SELECT abs(tag) FROM tagged", "abs"),
                    ("SELECT * FROM tagged, LATERAL abs(tag)", "abs"),
                    ("EXPLAIN ANALYZE SELECT abs(tag) FROM tagged", "abs"),
                    ("EXPLAIN SELECT abs(ROW('a', 1)::tag)", "abs"),
                    ("SELECT extensions.digest(tag, 'md5') FROM tagged", "digest"),
                    (
                        "SELECT * FROM crosstab('SELECT 1, 2, lower(tag) FROM tagged') AS c(a int, b text)",
                        "lower",
                    ),
                ] {
                    let why = stopped(&connection, statement).await;
                    assert!(
                        why.contains(&format!("{name}() can be a function here")),
                        "{statement}: {why}"
                    );
                }
                // By a dot as well, under a name that reads or one that does not.
                for statement in [
                    "SELECT (tag).lower FROM tagged",
                    "SELECT t.length FROM (SELECT ROW('a', 1)::tag AS x) q, LATERAL (SELECT (x).*) t",
                    "SELECT (tag).side_step FROM tagged",
                    "SELECT * FROM crosstab('SELECT 1, 2, (tag).side_step FROM tagged') AS c(a int, b text)",
                ] {
                    stopped(&connection, statement).await;
                }
                let plan = connection
                    .explain(&may_read(), "ANALYZE SELECT abs(tag) FROM tagged", limits())
                    .await;
                assert_eq!(plan.unwrap_err().code(), "refused_gate", "{user}");
                let plan = connection
                    .explain(&may_read(), "SELECT abs(ROW('a', 1)::tag)", limits())
                    .await;
                assert_eq!(plan.unwrap_err().code(), "refused_gate", "{user}");
                // The server's own, an extension's, one that another hides, one that is not on the path.
                for (statement, answer) in [
                    ("SELECT pg_catalog.lower('A'), upper('a')", r#"[["a","A"]]"#),
                    (
                        "SELECT similarity('a', 'a') = 1, hstore('a', '1') -> 'a'",
                        r#"[[true,"1"]]"#,
                    ),
                    (
                        "SELECT count(*), max(id), coalesce(min(id), 0) FROM tagged",
                        "[[1,1,1]]",
                    ),
                    ("SELECT reverse('ab')", r#"[["ba"]]"#),
                ] {
                    assert_eq!(json(&connection, statement).await, answer, "{user}: {statement}");
                }
            }
            server.psql("ALTER ROLE reader SET search_path = aside, public");
            stopped(&server.reader(), "SELECT upper(tag) FROM tagged").await;
            server.psql("ALTER ROLE reader RESET search_path");
            assert_eq!(traces(&before, &server.world()), [""; 0]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_server_takes_for_a_write_runs_as_one_for_who_may_write() {
        for server in Server::all() {
            server.psql(NAMESAKES);
            let connection = server.reader();
            let statement = "SELECT lower(ROW('A', 1)::tag)";
            let unsaid = connection.write(&may_write(), statement, false, limits()).await;
            assert_eq!(unsaid.unwrap_err().code(), "refused_gate");
            assert_eq!(server.psql("SELECT is_called FROM s"), "f");
            let done = connection
                .write(&may_write(), statement, true, limits())
                .await
                .unwrap();
            assert_eq!(
                serde_json::to_string(&done.rows().unwrap().rows).unwrap(),
                r#"[["10"]]"#
            );
            assert_eq!(server.psql("SELECT is_called FROM s"), "t");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_field_of_a_composite_column_is_read_where_no_function_has_its_name() {
        for server in Server::all() {
            server.psql(NAMESAKES);
            for user in ["reader", "postgres"] {
                let connection = connection(&server.url(user), None);
                assert_eq!(
                    json(&connection, "SELECT (tag).label, (t.tag).place, (tags[1]).label FROM tagged t WHERE (tag).place > 1").await,
                    r#"[["A",7,"B"]]"#
                );
                let plan = connection
                    .explain(&may_read(), "SELECT (tag).label FROM tagged", limits())
                    .await;
                assert!(plan.is_ok(), "{plan:?}");
                // No composite type has such a field.
                let why = stopped(&connection, "SELECT (tag).nothing FROM tagged").await;
                assert!(why.contains("nothing behind a dot may call nothing()"), "{why}");
            }
            // A function of the name, wherever it is and whatever it says of itself.
            server.psql(
                "CREATE FUNCTION aside.label(anyelement) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
            );
            stopped(&server.reader(), "SELECT (tag).label FROM tagged").await;
        }
    }
}
