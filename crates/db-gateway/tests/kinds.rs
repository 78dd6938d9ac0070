//! Kinds of statements beyond the rows of the corpus: each in many spellings, with the same verdict. Never connects.
#![cfg(test)]

use std::time::Instant;

use muster_db_gateway::{Class, Engine, classify};
use proptest::prelude::*;

fn all(engine: Engine, class: Class, statements: &[&str]) {
    let wrong: Vec<String> = statements
        .iter()
        .map(|statement| (statement, classify(engine, statement)))
        .filter(|(_, verdict)| verdict.class != class)
        .map(|(statement, verdict)| format!("{statement:?}: {} ({})", verdict.class, verdict.reason))
        .collect();
    assert!(
        wrong.is_empty(),
        "{engine}, {class} expected:\n{}",
        wrong.join("\n")
    );
}

const POSTGRES_READS: &[&str] = &[
    "SELECT xmltext('<')",
    "EXPLAIN (GENERIC_PLAN) SELECT * FROM t WHERE id = $1",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM t",
    "SELECT id, row_number() OVER (PARTITION BY v ORDER BY id) AS n, lag(v) OVER w FROM t WINDOW w AS (ORDER BY id)",
    "SELECT count(*) FILTER (WHERE id > 1), array_agg(v ORDER BY id), string_agg(v, ',') FROM t",
    "WITH RECURSIVE c(n, m) AS (VALUES (1, 2) UNION ALL SELECT n + 1, m FROM c WHERE n < 5) SELECT * FROM c",
    "WITH a AS NOT MATERIALIZED (SELECT 1), b(x) AS (SELECT 2) SELECT * FROM a, b",
    "SELECT ST_AsText(ST_Buffer(geom, 10)), ST_Distance(a.geom, b.geom) FROM a JOIN b ON ST_DWithin(a.geom, b.geom, 5)",
    "SELECT similarity(v, 'x'), word_similarity('a', v) FROM t WHERE v % 'foo'",
    "SELECT embedding <-> '[1,2,3]' AS d, cosine_distance(a, b) FROM items ORDER BY 1 LIMIT 5",
    "SELECT data->'a'->>'b', data #> '{a,b}', data @> '{\"x\":1}', jsonb_path_query(data, '$.a[*] ? (@ > 1)') FROM docs",
    "SELECT jsonb_agg(x), json_build_object('a', 1), to_jsonb(t) FROM t, jsonb_array_elements(t.j) AS e(x)",
    "SELECT * FROM jsonb_to_recordset('[]') AS r(a int, b text)",
    "SELECT * FROM generate_series(1, 3) g(i), LATERAL (SELECT i * 2) l(d)",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name)",
    "SELECT * FROM (VALUES (1)) v(id) CROSS JOIN unnest(ARRAY[1,2]) WITH ORDINALITY AS u(x, n)",
    "SELECT CAST(1 AS numeric(10,2)), 1::varchar(10), '1'::mytype(3), interval '1 day', date_trunc('day', now())",
    "SELECT CASE WHEN v = 'delete' THEN 1 ELSE 2 END, COALESCE(v, 'x'), NULLIF(v, ''), GREATEST(1, 2) FROM t",
    "SELECT extract(epoch FROM now()), substring(v FROM 1 FOR 2), trim(both 'x' FROM v), position('a' IN v), overlay(v placing 'x' from 1) FROM t",
    "SELECT now() AT TIME ZONE 'UTC', current_timestamp(3), localtime, current_date",
    "SELECT * FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (42)",
    "SELECT a.*, b.v FROM t AS a JOIN t AS b USING (id) LEFT JOIN LATERAL (SELECT 1) x ON true",
    "SELECT id FROM t GROUP BY GROUPING SETS ((id), ()) HAVING count(*) > 1",
    "SELECT v, count(*) FROM t GROUP BY ROLLUP (v), CUBE (id)",
    "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT (SELECT 4) ORDER BY 1 OFFSET 1 FETCH FIRST 2 ROWS ONLY",
    "SELECT ts_rank(to_tsvector('english', v), plainto_tsquery('cat')), ts_headline(v, to_tsquery('a')) FROM t",
    "SELECT regexp_replace(v, 'a', 'b', 'g'), format('%I', v), md5(v), encode(digest(v, 'sha256'), 'hex') FROM t",
    "SELECT pg_size_pretty(pg_total_relation_size('t')), obj_description('t'::regclass), pg_get_viewdef('v'::regclass)",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM information_schema.columns WHERE table_name = 't'",
    "SELECT relname, n_live_tup FROM pg_catalog.pg_stat_user_tables",
    "select pg_catalog.version()",
    "SELECT t.\"update\", t.\"into\" FROM t",
    "SELECT delete FROM t",
    "SELECT 1 AS into",
    "SELECT 'it''s; DROP TABLE t' AS x -- ; DROP TABLE t",
    "SELECT E'a\\'; DELETE FROM t; --' AS x",
    "SELECT $$; DELETE FROM t$$",
    "SELECT 1 /* ; DELETE /* nested */ FROM t */ + 1",
    "TABLE t",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT * FROM t",
    "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM t",
    "EXPLAIN VERBOSE INSERT INTO t VALUES (1)",
    "EXPLAIN (COSTS OFF) UPDATE t SET v = 1",
    "SHOW server_version",
    "SELECT currval('s'), lastval(), gen_random_uuid(), random(), clock_timestamp()",
    "SELECT lo_get(1)",
    "SELECT * FROM crosstab('SELECT 1, 2, 3') AS ct(a int, b int, c int)",
    "SELECT time_bucket('5 min', at), first(v, at), last(v, at) FROM m GROUP BY 1",
    "SELECT h3_latlng_to_cell(p, 9) FROM t",
    "SELECT xmlelement(name a, xmlattributes(1 AS b)), xpath('/a', x) FROM t",
    "SELECT v ILIKE '%insert into%' OR v SIMILAR TO 'update' FROM t",
    "SELECT ARRAY(SELECT id FROM t), ROW(1, 2), (1, 2) = ANY (SELECT 1, 2), EXISTS (SELECT 1) FROM t",
    "SELECT a[1:2], (t).v, ((t)).id FROM t",
    "SELECT inet '10.0.0.1' << inet '10.0.0.0/8', host(ip), '1'::int8 FROM t",
    "SELECT count(DISTINCT v), bool_and(true), corr(a, b), mode() WITHIN GROUP (ORDER BY v) FROM t",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x AS y(b)",
    "SELECT JSON_OBJECT('a': 1), JSON_VALUE('{}', '$.a'), JSON_ARRAYAGG(v) FROM t",
    "SELECT * FROM XMLTABLE('/a' PASSING x COLUMNS id int PATH '@id')",
];

const POSTGRES_WRITES: &[&str] = &[
    "delete from t",
    "DeLeTe/**/FROM t",
    "/* a /* b */ c */ DELETE FROM t",
    "-- x\r\nDELETE FROM t",
    "\n\t\u{c} UPDATE t SET v = 1",
    "WITH a AS (SELECT 1), d AS MATERIALIZED (UPDATE t SET v = 1 RETURNING *) SELECT * FROM d",
    "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT 2) SEARCH DEPTH FIRST BY a SET b DELETE FROM t",
    "WITH x AS (SELECT 1) MERGE INTO t USING x ON true WHEN MATCHED THEN DO NOTHING",
    "SELECT * FROM (SELECT unknown_function(1)) q",
    "SELECT (SELECT side())",
    "SELECT 1 FROM t WHERE side() = 1",
    "SELECT DISTINCT ON (id) side() FROM t",
    "SELECT public.side()",
    "SELECT \"side\"()",
    "SELECT public . \"side\" ( )",
    "SELECT x.lower('a')",
    "SELECT /* c */ side /* c */ ()",
    "SELECT 1 OPERATOR(pg_catalog.+) side()",
    "VALUES (side())",
    "SELECT * FROM t ORDER BY side()",
    "SELECT * FROM side() AS (values int)",
    "SELECT * FROM a, side() AS (id int)",
    "SELECT * FROM ROWS FROM (side(), generate_series(1,2)) AS r(a, b)",
    "SELECT count(*) FILTER (WHERE side() > 0) FROM t",
    "SELECT sum(1) OVER (ORDER BY side()) FROM t",
    "SELECT * FROM t LIMIT side()",
    "SELECT * FROM t TABLESAMPLE side(1)",
    "SELECT CASE side() WHEN 1 THEN 2 END",
    "SELECT now() AT TIME ZONE side()",
    "SELECT v LIKE 'a' ESCAPE side() FROM t",
    "SELECT nextval('s')",
    "SELECT pg_catalog.setval('s', 1)",
    "SELECT * FROM t FOR NO KEY UPDATE",
    "SELECT * FROM t FOR SHARE OF t NOWAIT",
    "SELECT id INTO TEMPORARY x FROM t",
    "EXPLAIN (ANALYZE TRUE) DELETE FROM t",
    "EXPLAIN (VERBOSE, ANALYZE 'on') DELETE FROM t",
    "EXPLAIN ANALYZE VERBOSE DELETE FROM t",
    "EXPLAIN ANALYZE WITH d AS (DELETE FROM t RETURNING 1) SELECT * FROM d",
    "EXPLAIN ANALYZE SELECT side()",
    "CREATE INDEX CONCURRENTLY i ON t (v)",
    "ALTER TABLE t ADD COLUMN x int",
    "DROP TABLE t",
    "COMMENT ON TABLE t IS 'x'",
    "REFRESH MATERIALIZED VIEW mv",
    "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "COPY t FROM STDIN",
    "CALL p()",
    "SELECT lo_put(1, 0, 'x')",
    "SELECT pg_stat_reset_shared('bgwriter')",
];

const POSTGRES_REFUSED: &[&str] = &[
    ";",
    "  \n ",
    "/* only */",
    "SELECT 1; SELECT 2",
    "SELECT '",
    "SELECT (1",
    "SELECT 1)",
    "SELECT \"a",
    "SELECT $a$ x",
    "SELECT /* x",
    "SELECT 1\0",
    "begin",
    "START TRANSACTION",
    "END",
    "ROLLBACK",
    "ROLLBACK TO a",
    "RELEASE a",
    "COMMIT PREPARED 'x'",
    "set role postgres",
    "SET LOCAL statement_timeout = 0",
    "SELECT pg_catalog.set_config('a.b', 'x', true)",
    "SELECT * FROM set_config('a.b', 'x', true)",
    "SELECT \"pg_read_file\"('/etc/passwd')",
    "SELECT U&\"\\0070g_sleep\"(9)",
    "SELECT E'a'\r'\\'', pg_read_file('/etc/hostname'), ' --'",
    "SELECT E'a'\x0b\n--x'\n'\\'', pg_read_file('/etc/hostname'), ' --'",
    "SELECT x.\"pg_read_file\" FROM unnest(ARRAY['/etc/hostname']) AS x",
    "SELECT ((('/etc/hostname')::text)) . pg_read_file",
    "SELECT pg_read_binary_file('x')",
    "SELECT pg_ls_waldir()",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT pg_sleep(100)",
    "SELECT pg_sleep_for('1 h')",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT dblink_exec('x', 'delete from t')",
    "SELECT dblink_connect('x')",
    "SELECT pg_export_snapshot()",
    "SELECT pg_promote()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_logical_slot_get_changes('s', NULL, NULL)",
    "SELECT pg_file_write('x', 'y', false)",
    "INSERT INTO t SELECT pg_read_file('/etc/passwd')",
    "CREATE TABLE x AS SELECT pg_read_file('/etc/passwd')",
    "UPDATE t SET v = (SELECT pg_terminate_backend(1))",
    "SELECT * FROM ts_stat('select pg_sleep(9)')",
    "SELECT * FROM ts_stat('select ' || 'pg_sleep(9)')",
    "SELECT * FROM ts_stat(v) FROM t",
    "SELECT * FROM crosstab('delete from t returning 1, 2, 3')",
    "LISTEN x",
    "UNLISTEN *",
    "FETCH ALL FROM c",
    "MOVE c",
    "CLOSE c",
    "COPY t TO '/tmp/x'",
    "COPY t TO STDOUT",
    "COPY (SELECT 1) TO '/tmp/x'",
    "COPY t(id) FROM PROGRAM 'x'",
    "CREATE ROLE evil SUPERUSER",
    "ALTER USER postgres PASSWORD 'x'",
    "DROP USER x",
    "GRANT pg_read_server_files TO me",
    "ALTER DATABASE x SET work_mem = '1GB'",
    "CREATE TABLESPACE x LOCATION '/tmp'",
    "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw",
    "CREATE USER MAPPING FOR me SERVER s",
    "CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'x.so'",
    "CREATE FUNCTION f() RETURNS int AS $$ import os $$ LANGUAGE plpython3u",
    "IMPORT FOREIGN SCHEMA x FROM SERVER s INTO y",
    "EXPLAIN EXECUTE p",
    "EXPLAIN ANALYZE EXECUTE p",
    "EXPLAIN DECLARE c CURSOR FOR SELECT 1",
    "EXPLAIN SELECT pg_read_file('x')",
    "frobnicate the table",
    "(DELETE FROM t)",
    "\\copy t to x",
    "/*+ Set(statement_timeout 0) */ SELECT 1",
];

const MYSQL_READS: &[&str] = &[
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY v ORDER BY id) FROM t",
    "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT * FROM c",
    "SELECT JSON_EXTRACT(j, '$.a'), j->>'$.b', JSON_ARRAYAGG(v) FROM t",
    "SELECT * FROM JSON_TABLE('[]', '$[*]' COLUMNS (id INT PATH '$.id')) AS jt",
    "SELECT GROUP_CONCAT(DISTINCT v ORDER BY v SEPARATOR ';'), COUNT(*), IF(1, 2, 3), IFNULL(v, '') FROM t",
    "SELECT DATE_FORMAT(NOW(), '%Y'), DATE_ADD(NOW(), INTERVAL 1 DAY), TIMESTAMPDIFF(DAY, a, b) FROM t",
    "SELECT MATCH (v) AGAINST ('x' IN BOOLEAN MODE) FROM t",
    "SELECT CAST(v AS CHAR(10)), CONVERT(v USING utf8mb4), CAST(1 AS DECIMAL(10,2)), BINARY v FROM t",
    "SELECT * FROM t USE INDEX (PRIMARY) WHERE id IN (1, 2) AND v REGEXP 'x'",
    "SELECT * FROM (SELECT 1 AS a) AS d (x)",
    "SELECT SQL_NO_CACHE STRAIGHT_JOIN a.id FROM t a JOIN t b USING (id)",
    "SELECT @@version, @@global.max_connections, @v",
    "SELECT 'a;b', \"c;d\", `e;f` FROM t",
    "SELECT 'C:\\\\temp' AS p",
    "SELECT 1 -- x\n + 1",
    "SELECT 1 /* plain ; DROP */",
    "show tables",
    "SHOW FULL COLUMNS FROM t WHERE Field = 'id'",
    "SHOW CREATE TABLE t",
    "SHOW VARIABLES LIKE '%x%'",
    "SHOW STATUS",
    "DESC t",
    "DESCRIBE app.t id",
    "EXPLAIN FORMAT=JSON SELECT * FROM t",
    "EXPLAIN EXTENDED SELECT * FROM t",
    "EXPLAIN ANALYZE SELECT * FROM t",
    "EXPLAIN UPDATE t SET v = 1",
    "ANALYZE FORMAT=JSON SELECT * FROM t",
    "TABLE t",
    "SELECT NULL LIMIT 5 OFFSET 2",
    "SELECT PREVIOUS VALUE FOR sq, LASTVAL(sq)",
    "SELECT * FROM t PARTITION (p0) x",
    "SELECT LOCATE('a', v), REPLACE(v, 'a', 'b'), UUID(), MD5(v), HEX(b), ST_AsText(g), INET_ATON('1.1.1.1') FROM t",
    "SELECT RANK() OVER w FROM t WINDOW w AS (ORDER BY id)",
    "HELP 'select'",
];

const MYSQL_WRITES: &[&str] = &[
    "insert t values (1)",
    "INSERT IGNORE INTO t VALUES (1) ON DUPLICATE KEY UPDATE v = 1",
    "REPLACE t VALUES (1)",
    "#x\nDELETE FROM t",
    "-- x\nDELETE FROM t",
    "/*!DELETE FROM t*/",
    "/*! DELETE */ /*! FROM t */",
    "SELECT `side`()",
    "SELECT app.side()",
    "SELECT app.lower('x')",
    "SELECT nextval(sq)",
    "SELECT my_udf(1)",
    "SELECT * FROM t WHERE id = side()",
    "SELECT SQL_NO_CACHE side()",
    "SELECT BINARY side()",
    "SELECT * FROM t FOR UPDATE SKIP LOCKED",
    "ANALYZE TABLE t",
    "ANALYZE LOCAL TABLE t",
    "ANALYZE UPDATE t SET v = 1",
    "EXPLAIN ANALYZE UPDATE t SET v = 1",
    "REPAIR TABLE t",
    "CHECK TABLE t",
    "DROP DATABASE x",
    "CREATE VIEW x AS SELECT 1",
    "ALTER TABLE t ADD x INT",
    "CREATE DEFINER=root@localhost PROCEDURE p() DELETE FROM t",
    "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN DELETE FROM t; END",
    "UPDATE t SET v = 1 WHERE id = 2 LIMIT 1",
    "DELETE a FROM t a JOIN t b",
    "WITH x AS (SELECT 1) UPDATE t SET v = 1",
];

const MYSQL_REFUSED: &[&str] = &[
    "",
    "SELECT 1; SELECT 2",
    "SELECT 'x\\'; DROP TABLE t; -- '",
    "SELECT \"x\\\"; DROP TABLE t; -- \"",
    "SELECT 1 /*!99999 ; DROP TABLE t */",
    "/*! SELECT 1 */",
    "/*M!999999 DELETE FROM t */",
    "SELECT /*!50000 1; */ DROP TABLE t",
    "SELECT {fn/**/SLEEP(1)}",
    "SELECT {`fn` SLEEP(1)}",
    "SELECT 1.\nINTO\nOUTFILE '/tmp/x'",
    "SELECT * INTO OUTFILE '/tmp/x' FROM t",
    "SELECT 'x' INTO DUMPFILE '/tmp/x'",
    "SELECT id INTO @a FROM t",
    "SELECT @a := id FROM t",
    "UPDATE t SET v = (@a := 1)",
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT load_file ('/etc/passwd')",
    "SELECT SLEEP(1) FROM t",
    "SELECT 1 FROM t WHERE sleep(10)",
    "SELECT benchmark(1e9, 1)",
    "SELECT `sleep`(10)",
    "INSERT INTO t VALUES (LOAD_FILE('/etc/passwd'))",
    "SELECT LAST_INSERT_ID(5)",
    "SELECT RELEASE_LOCK('a')",
    "SELECT MASTER_POS_WAIT('a', 1)",
    "start transaction",
    "ROLLBACK",
    "SET @a = 1",
    "SET NAMES utf8",
    "USE mysql",
    "KILL QUERY 1",
    "FLUSH TABLES",
    "FLUSH TABLES WITH READ LOCK",
    "SHUTDOWN",
    "GRANT SELECT ON app.* TO x",
    "REVOKE ALL ON *.* FROM x",
    "DROP USER x",
    "ALTER USER x IDENTIFIED BY 'y'",
    "CREATE OR REPLACE USER x",
    "CREATE ROLE x",
    "RENAME USER a TO b",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')",
    "CREATE TABLE x (a INT) DATA DIRECTORY='/tmp'",
    "CREATE TABLE x (a INT) ENGINE=FEDERATED CONNECTION='mysql://x'",
    "CREATE TABLESPACE x ADD DATAFILE 'x'",
    "ALTER INSTANCE ROTATE INNODB MASTER KEY",
    "LOAD DATA CONCURRENT LOCAL INFILE 'x' INTO TABLE t",
    "LOAD INDEX INTO CACHE t",
    "EXPLAIN FOR CONNECTION 5",
    "START SLAVE",
    "STOP REPLICA",
    "RESET MASTER",
    "UNINSTALL PLUGIN x",
    "CLONE LOCAL DATA DIRECTORY '/x'",
    "XA COMMIT 'x'",
    "HANDLER t CLOSE",
    "SELECT /*+ SET_VAR(max_execution_time=0) */ 1",
    "SELECT /*+ MAX_EXECUTION_TIME(0) */ 1",
    "DECLARE x INT",
    "BEGIN NOT ATOMIC DELETE FROM t; END",
    "IF 1 THEN DELETE FROM t; END IF",
    "EXECUTE IMMEDIATE @q",
    "BACKUP STAGE START",
];

const SQLITE_READS: &[&str] = &[
    "select count(*), max(v), group_concat(v, ',') from t",
    "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT x FROM c",
    "SELECT json_extract(j, '$.a'), j ->> '$.b', json_group_array(v) FROM t",
    "SELECT value FROM json_each('[1,2]')",
    "SELECT row_number() OVER (PARTITION BY v ORDER BY id) FROM t",
    "SELECT strftime('%Y', 'now'), date('now', '-1 day'), printf('%d', 1), iif(1, 2, 3), unixepoch()",
    "SELECT * FROM ft WHERE ft MATCH 'x' ORDER BY bm25(ft)",
    "SELECT snippet(ft, 0, '<', '>', '', 9), highlight(ft, 0, '[', ']') FROM ft",
    "SELECT * FROM t INDEXED BY by_v WHERE v GLOB 'a*'",
    "SELECT 'a' AS [b;c], \"d;e\" FROM t",
    "SELECT CAST(v AS decimal(10,2)) FROM t",
    "SELECT 1 -- ; DELETE",
    "SELECT 1 /* unfinished",
    "PRAGMA main.table_info('t')",
    "PRAGMA Foreign_Keys",
    "pragma index_xinfo(by_v)",
    "SELECT name FROM pragma_table_list",
    "SELECT * FROM sqlite_master",
    "EXPLAIN SELECT 1",
    "EXPLAIN QUERY PLAN WITH x AS (SELECT 1) SELECT * FROM x",
    "SELECT sqlite_version(), typeof(1), hex(b), quote(v), total(id), zeroblob(3) FROM t",
];

const SQLITE_WRITES: &[&str] = &[
    "insert or replace into t values (1)",
    "with x as (select 1) insert into t select * from x",
    "PRAGMA main.user_version(5)",
    "PRAGMA optimize",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "SELECT * FROM \"pragma_optimize\"",
    "SELECT * FROM [PRAGMA_OPTIMIZE]",
    "SELECT * FROM pragma_wal_checkpoint",
    "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; SELECT 1; END",
    "DROP INDEX by_v",
    "VACUUM",
    "UPDATE t SET v = 1 RETURNING *",
];

const SQLITE_REFUSED: &[&str] = &[
    "SELECT 1; SELECT 2",
    "SELECT [a; DELETE FROM t",
    "attach 'x' as y",
    "VACUUM main INTO 'x'",
    "vacuum/**/into 'x'",
    "PRAGMA query_only(0)",
    "PRAGMA cache_size = 99",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA key = 'x'",
    "PRAGMA frobnicate",
    "PRAGMA",
    "SELECT * FROM pragma_writable_schema(1) x, pragma_key",
    "SELECT nosuchfunction(1)",
    "SELECT Load_Extension('x')",
    "SELECT \"writefile\"('a', 'b')",
    "INSERT INTO t SELECT readfile('/etc/passwd')",
    "SELECT edit('x')",
    "END TRANSACTION",
    "RELEASE a",
    "EXPLAIN ATTACH 'x' AS y",
    "EXPLAIN EXPLAIN SELECT 1",
    ".read x",
];

const REDIS: &[(&str, Class)] = &[
    ("DELIFEQ k v", Class::Write),
    ("HSETEX h EX 9 FIELDS 1 f v", Class::Write),
    ("CLUSTERSCAN 0 COUNT 10", Class::Read),
    ("CLUSTER MIGRATESLOTS SLOTSRANGE 0 1 NODE n", Class::Refuse),
    ("SCRIPT SHOW 0", Class::Refuse),
    ("COMMANDLOG GET 1 slow", Class::Refuse),
    ("CLIENT IMPORT-SOURCE on", Class::Refuse),
    ("  get   k ", Class::Read),
    ("'get' k", Class::Read),
    ("\"get\" \"a b\"", Class::Read),
    ("MEMORY usage k", Class::Read),
    ("Object ENCODING k", Class::Read),
    ("XREAD COUNT 2 BLOCK 100 STREAMS s 0", Class::Read),
    ("HGETALL h", Class::Read),
    ("SINTERCARD 2 a b", Class::Read),
    ("ZRANGEBYSCORE z -inf +inf WITHSCORES", Class::Read),
    ("SSCAN s 0 MATCH *", Class::Read),
    ("COMMAND DOCS get", Class::Read),
    ("INFO", Class::Read),
    ("\tGetDel k", Class::Write),
    ("\"\\x53ET\" k v", Class::Write),
    ("set k \"\\r\\nFLUSHALL\\r\\n\"", Class::Write),
    ("BITFIELD k SET u8 0 1", Class::Write),
    ("XGROUP CREATE s g 0", Class::Write),
    ("JSON.SET d $ 1", Class::Write),
    ("FLUSHDB", Class::Write),
    ("GETEX k", Class::Write),
    ("", Class::Refuse),
    ("\"\"", Class::Refuse),
    ("get \"k", Class::Refuse),
    ("get \"k\"x", Class::Refuse),
    ("get k\nset k v", Class::Refuse),
    ("FLUSHALL", Class::Refuse),
    ("RESET", Class::Refuse),
    ("auth x", Class::Refuse),
    ("CONFIG GET *", Class::Refuse),
    ("CLIENT", Class::Refuse),
    ("OBJECT", Class::Refuse),
    ("OBJECT NOSUCH k", Class::Refuse),
    ("SUBSCRIBE c", Class::Refuse),
    ("PSUBSCRIBE *", Class::Refuse),
    ("MULTI", Class::Refuse),
    ("DISCARD", Class::Refuse),
    ("READONLY", Class::Refuse),
    ("WAIT 1 0", Class::Refuse),
    ("FAILOVER", Class::Refuse),
    ("SLAVEOF a 1", Class::Refuse),
    ("PSYNC a 1", Class::Refuse),
    ("SHUTDOWN NOSAVE", Class::Refuse),
    ("ACL WHOAMI x", Class::Read),
    ("ACL GENPASS", Class::Refuse),
    ("SCRIPT FLUSH", Class::Refuse),
    ("MEMORY PURGE", Class::Refuse),
    ("XREAD BLOCK 00 STREAMS s $", Class::Refuse),
    ("XREAD BLOCK", Class::Refuse),
    ("my.module cmd", Class::Refuse),
];

const MONGODB: &[(&str, Class)] = &[
    (
        r#"{"find":"a","filter":{"$and":[{"x":{"$gt":1}},{"y":{"$in":["$where"]}}]},"projection":{"x":1},"sort":{"x":-1},"limit":5}"#,
        Class::Read,
    ),
    (
        r#"{"aggregate":"a","pipeline":[{"$match":{"t":"$merge"}},{"$group":{"_id":"$k","n":{"$sum":1}}},{"$facet":{"a":[{"$count":"n"}]}}],"cursor":{}}"#,
        Class::Read,
    ),
    (
        r#"{"aggregate":"a","pipeline":[{"$lookup":{"from":"b","let":{"x":"$x"},"pipeline":[{"$match":{"$expr":{"$eq":["$x","$$x"]}}}],"as":"r"}}],"cursor":{}}"#,
        Class::Read,
    ),
    (
        r#"{"aggregate":"a","pipeline":[{"$project":{"x":{"$literal":{"$out":1}}}}],"cursor":{}}"#,
        Class::Read,
    ),
    (
        r#"{"aggregate":"a","pipeline":[{"$setWindowFields":{"sortBy":{"d":1},"output":{"s":{"$sum":"$x"}}}}],"cursor":{}}"#,
        Class::Read,
    ),
    (
        r#"{"find":"a","filter":{"_id":{"$oid":"507f1f77bcf86cd799439011"},"at":{"$gte":{"$date":"2026-01-01T00:00:00Z"}}}}"#,
        Class::Read,
    ),
    (
        r#"{"explain":{"aggregate":"a","pipeline":[],"cursor":{}}}"#,
        Class::Read,
    ),
    (r#"{"find":"a","comment":"$where"}"#, Class::Read),
    (r#"  {"ping" : 1}  "#, Class::Read),
    (
        r#"{"aggregate":"a","pipeline":[{"$facet":{"x":[{"$lookup":{"from":"b","pipeline":[{"$unionWith":{"coll":"c","pipeline":[{"$merge":"z"}]}}],"as":"r"}}]}}],"cursor":{}}"#,
        Class::Write,
    ),
    (
        r#"{"explain":{"delete":"a","deletes":[{"q":{},"limit":0}]},"verbosity":"executionStats"}"#,
        Class::Write,
    ),
    (r#"{"renameCollection":"a.b","to":"a.c"}"#, Class::Write),
    (r#"{"dropIndexes":"a","index":"*"}"#, Class::Write),
    (r#"{"delete":"a","find":"a"}"#, Class::Write),
    (r#"{"find":"a","find":"b"}"#, Class::Refuse),
    (r#"{"find":"a","delete":"a","deletes":[]}"#, Class::Refuse),
    (r#"{"filter":{},"find":"a"}"#, Class::Refuse),
    (
        r#"{"find":"a","filter":{"x":1,"x":{"$where":"1"}}}"#,
        Class::Refuse,
    ),
    (r#"{"FIND":"a"}"#, Class::Refuse),
    (r#"{}"#, Class::Refuse),
    (r#"[]"#, Class::Refuse),
    (r#"{"find":"a"} {"drop":"a"}"#, Class::Refuse),
    (r#"{"find":"a""#, Class::Refuse),
    (r#"{find:"a"}"#, Class::Refuse),
    (r#"{"find":"a","\u0024where":"1"}"#, Class::Refuse),
    (r#"{"find":"a","filter":{"\u0024where":"1"}}"#, Class::Refuse),
    (r#"{"find":"a","lsid":{}}"#, Class::Refuse),
    (r#"{"update":"a","updates":[],"txnNumber":1}"#, Class::Refuse),
    (
        r#"{"update":"a","updates":[{"q":{"$where":"1"},"u":{}}]}"#,
        Class::Refuse,
    ),
    (r#"{"find":"a","tailable":true,"awaitData":true}"#, Class::Refuse),
    (
        r#"{"aggregate":"a","pipeline":[{"$lookup":{"from":"system.users","pipeline":[],"as":"x"}}],"cursor":{}}"#,
        Class::Refuse,
    ),
    (r#"{"find":"system.profile"}"#, Class::Refuse),
    (
        r#"{"aggregate":"a","pipeline":[{"$match":{"$expr":{"$function":{}}}}],"cursor":{}}"#,
        Class::Refuse,
    ),
    (r#"{"explain":{"explain":{"find":"a"}}}"#, Class::Refuse),
    (r#"{"createUser":"x","pwd":"y","roles":[]}"#, Class::Refuse),
    (r#"{"grantRolesToUser":"x","roles":["root"]}"#, Class::Refuse),
    (r#"{"logout":1}"#, Class::Refuse),
    (r#"{"endSessions":[]}"#, Class::Refuse),
    (r#"{"find":"a","$db":"local"}"#, Class::Refuse),
];

// spec: DBA-007 DBA-016
#[test]
fn harmless_reads_pass_on_every_engine() {
    all(Engine::Postgres, Class::Read, POSTGRES_READS);
    all(Engine::Mysql, Class::Read, MYSQL_READS);
    all(Engine::Sqlite, Class::Read, SQLITE_READS);
}

// spec: DBA-003 DBA-016
#[test]
fn writes_are_writes_however_they_are_spelt() {
    all(Engine::Postgres, Class::Write, POSTGRES_WRITES);
    all(Engine::Mysql, Class::Write, MYSQL_WRITES);
    all(Engine::Sqlite, Class::Write, SQLITE_WRITES);
}

// spec: DBA-008 DBA-009
#[test]
fn what_reaches_beyond_the_tables_is_refused_on_every_engine() {
    all(Engine::Postgres, Class::Refuse, POSTGRES_REFUSED);
    all(Engine::Mysql, Class::Refuse, MYSQL_REFUSED);
    all(Engine::Sqlite, Class::Refuse, SQLITE_REFUSED);
}

// spec: DBA-017..DBA-027
#[test]
fn commands_are_told_apart_by_name_option_and_operator() {
    for (statement, class) in REDIS {
        all(Engine::Redis, *class, &[statement]);
    }
    for (statement, class) in MONGODB {
        all(Engine::Mongodb, *class, &[statement]);
    }
}

/// What a statement is worth does not change with blanks, comments and the case of its letters.
fn dressed(engine: Engine, statement: &str, case: u8, comment: u8) -> String {
    let words: String = match case {
        0 => statement.to_owned(),
        1 => statement.to_ascii_lowercase(),
        _ => statement.to_ascii_uppercase(),
    };
    let before = match (engine, comment) {
        (Engine::Redis | Engine::Mongodb, _) => "  ",
        (_, 0) => "",
        (_, 1) => " \n\t",
        (_, 2) => "/* select */ ",
        _ => "-- insert\n",
    };
    format!("{before}{words}\n")
}

proptest! {
    #[test]
    fn dress_does_not_change_a_verdict(case in 0_u8..3, comment in 0_u8..4, place in 0_usize..10_000) {
        for (engine, list, class) in [
            (Engine::Postgres, POSTGRES_WRITES, Class::Write),
            (Engine::Mysql, MYSQL_WRITES, Class::Write),
            (Engine::Sqlite, SQLITE_WRITES, Class::Write),
            (Engine::Postgres, POSTGRES_READS, Class::Read),
            (Engine::Mysql, MYSQL_READS, Class::Read),
        ] {
            let statement = list[place % list.len()];
            // Names in quotes and tags of dollar quotes keep their case.
            if case != 0 && statement.contains(['"', '$', '`']) {
                continue;
            }
            let verdict = classify(engine, &dressed(engine, statement, case, comment));
            prop_assert_eq!(verdict.class, class, "{}: {}", statement, verdict.reason);
        }
    }

    #[test]
    fn nothing_appended_makes_a_read_out_of_two_statements(first in 0_usize..10_000, second in 0_usize..10_000) {
        for (engine, reads, writes) in [
            (Engine::Postgres, POSTGRES_READS, POSTGRES_WRITES),
            (Engine::Mysql, MYSQL_READS, MYSQL_WRITES),
            (Engine::Sqlite, SQLITE_READS, SQLITE_WRITES),
        ] {
            let (read, write) = (reads[first % reads.len()], writes[second % writes.len()]);
            for both in [format!("{read}\n;{write}"), format!("{write}\n;{read}")] {
                // An open comment swallows what follows, and then there is only one.
                if read.contains("unfinished") {
                    continue;
                }
                prop_assert_ne!(classify(engine, &both).class, Class::Read, "{}", both);
            }
        }
    }

    #[test]
    fn no_text_ends_the_gate(text in "\\PC{0,200}", engine in 0_usize..6) {
        let verdict = classify(Engine::ALL[engine], &text);
        prop_assert!(!verdict.reason.is_empty());
        prop_assert!(verdict.reason.chars().all(|letter| !letter.is_control()));
    }

    #[test]
    fn no_heap_of_marks_ends_the_gate(text in "[('\")\\]\\[;$a/*#{}:, -]{0,300}", engine in 0_usize..6) {
        let _ = classify(Engine::ALL[engine], &text);
    }
}

/// The same pieces over and over, up to 64 KiB.
fn heaps() -> Vec<String> {
    let size = 64 * 1024;
    let mut found: Vec<String> = [
        "(",
        ")",
        "((",
        "'",
        "''",
        "\"",
        "$a$",
        "$",
        "$$",
        "/*",
        "/*/",
        "*/",
        "--\n",
        "[",
        "a.",
        "a(",
        "f(f(",
        "SELECT ",
        "WITH a AS (",
        "x'",
        "\\",
        "\\'",
        "`",
        "/*!",
        "/*!50000 ",
        "{",
        "{\"a\":",
        "[[",
        "\"a\" ",
        "get ",
        "'a' ",
        ";",
        ",",
        "::",
        "as ",
        "(select ",
        "update a ",
        ":=",
        "case when ",
        "cube(1),",
        "sets(1),",
        "rollup(1),",
        "group by cube(1),",
        "(a).b,",
        "from a(1) b,",
        "🦀",
        "$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ]
    .iter()
    .flat_map(|piece| {
        let heap = piece.repeat(size / piece.len());
        [format!("SELECT {heap}"), heap]
    })
    .map(|text| text.chars().take(size).collect())
    .collect();
    found.push(format!("SELECT {}1{}", "(".repeat(30_000), ")".repeat(30_000)));
    found.push(format!(
        "{{\"find\":\"a\",\"filter\":{}1{}}}",
        "{\"a\":".repeat(10_000),
        "}".repeat(10_000)
    ));
    found.push(format!(
        "{{\"find\":\"a\",\"filter\":{{{}\"z\":1}}}}",
        (0..5000).map(|n| format!("\"k{n}\":1,")).collect::<String>()
    ));
    found.push(format!("SELECT {}", "lower(v), ".repeat(6000)));
    found.push(format!("SELECT $a{}$ x", "$a".repeat(30_000)));
    found
}

#[test]
fn no_input_of_64_kib_is_slow_or_deep() {
    for heap in heaps() {
        for engine in Engine::ALL {
            let begun = Instant::now();
            let verdict = classify(engine, &heap);
            // Without optimisation, on a busy machine; the bench measures the figure itself.
            let spent = begun.elapsed();
            assert!(
                spent.as_millis() < 1000,
                "{engine}: {spent:?} for {:.40}…: {verdict:?}",
                heap
            );
        }
    }
}
