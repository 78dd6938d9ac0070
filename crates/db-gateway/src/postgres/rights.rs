//! What an account of PostgreSQL may do beyond reading, as questions to the catalogue. Never asks for a right that the server's version does not know.

/// What the first sentence begins with.
pub(super) const SUPERUSER: &str =
    "The account is, or may become, a superuser, who reads files, runs programs and passes every check:";

/// How many names a sentence has.
const NAMES: u32 = 5;

/// The account and every role that it is a member of, whether it has their rights at once or after SET ROLE.
const ROLES: &str = "WITH me AS (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER), \
     roles AS (SELECT m.oid AS role, m.rolname, m.oid = me.oid AS own, m.rolsuper, m.rolcreaterole, m.rolcreatedb, m.rolreplication, m.rolbypassrls \
        FROM me JOIN pg_catalog.pg_roles m ON m.oid = me.oid OR pg_catalog.pg_has_role(me.oid, m.oid, 'MEMBER'))";

/// Roles of the server itself that do more than read, whatever rights they have beside it.
const SERVERS_OWN: &str = "'pg_write_all_data', 'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', \
     'pg_signal_backend', 'pg_checkpoint', 'pg_maintain', 'pg_create_subscription', 'pg_use_reserved_connections', \
     'pg_signal_autovacuum_worker', 'pg_database_owner', 'pg_monitor', 'pg_stat_scan_tables'";

/// The names, as many as a sentence has, of what a query finds.
fn names(found: &str) -> String {
    format!(
        "{ROLES} SELECT string_agg(t, ', ') FROM (SELECT DISTINCT {found} ORDER BY 1 LIMIT {NAMES}) w (t)"
    )
}

/// Of objects in schemas.
fn objects(from: &str, place: &str, condition: &str) -> String {
    names(&format!(
        "n.nspname || '.' || {from} JOIN pg_catalog.pg_namespace n ON n.oid = {place} CROSS JOIN roles WHERE {condition}"
    ))
}

/// A sentence's beginning and the query of what stands behind it; nothing is found of an account that only reads.
pub(super) fn of(version: u32) -> Vec<(&'static str, String)> {
    let maintain = if version >= 170_000 { ", MAINTAIN" } else { "" };
    let outside = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";
    let mut all = vec![
        (SUPERUSER, names("rolname::text FROM roles WHERE rolsuper")),
        (
            "The account has the attributes",
            format!(
                "{ROLES} SELECT concat_ws(', ', CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END, \
                 CASE WHEN rolreplication THEN 'REPLICATION' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END) FROM roles WHERE own"
            ),
        ),
        (
            "The account is a member of",
            names(&format!(
                "rolname::text FROM roles WHERE NOT own AND (rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR rolname IN ({SERVERS_OWN}))"
            )),
        ),
        (
            "The account may change rows of",
            objects(
                "c.relname FROM pg_catalog.pg_class c",
                "c.relnamespace",
                &format!(
                    "{outside} AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT rolsuper AND \
                     (pg_catalog.has_table_privilege(role, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER{maintain}') \
                     OR pg_catalog.has_any_column_privilege(role, c.oid, 'INSERT, UPDATE, REFERENCES'))"
                ),
            ),
        ),
        (
            "The account may move the sequences",
            objects(
                "c.relname FROM pg_catalog.pg_class c",
                "c.relnamespace",
                "NOT rolsuper AND CASE WHEN c.relkind = 'S' THEN pg_catalog.has_sequence_privilege(role, c.oid, 'USAGE, UPDATE') ELSE false END",
            ),
        ),
        (
            "The account owns, and so may change or drop,",
            objects(
                "c.relname FROM pg_catalog.pg_class c",
                "c.relnamespace",
                "n.nspname !~ '^pg_toast' AND c.relowner = role",
            ),
        ),
        (
            "The account owns, and so may change, the functions",
            objects(
                "p.proname FROM pg_catalog.pg_proc p",
                "p.pronamespace",
                "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND p.proowner = role",
            ),
        ),
        (
            "The account may create objects in the schemas",
            names(
                "n.nspname::text FROM pg_catalog.pg_namespace n CROSS JOIN roles WHERE n.nspname !~ '^pg_(toast|temp)' AND NOT rolsuper \
                 AND pg_catalog.has_schema_privilege(role, n.oid, 'CREATE')",
            ),
        ),
        (
            "The account may create schemas in the database",
            names(
                "pg_catalog.current_database()::text FROM roles WHERE NOT rolsuper \
                 AND pg_catalog.has_database_privilege(role, pg_catalog.current_database(), 'CREATE')",
            ),
        ),
        (
            // Whatever the server or an extension keeps from everybody acts, or looks at the machine.
            "The account may call functions that are kept from others:",
            objects(
                "p.proname FROM pg_catalog.pg_proc p",
                "p.pronamespace",
                "NOT rolsuper AND p.proacl IS NOT NULL AND (n.nspname = 'pg_catalog' OR EXISTS (SELECT FROM pg_catalog.pg_depend d \
                 WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')) \
                 AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') \
                 AND pg_catalog.has_function_privilege(role, p.oid, 'EXECUTE')",
            ),
        ),
        (
            "The account may use the foreign servers",
            names(
                "s.srvname::text FROM pg_catalog.pg_foreign_server s CROSS JOIN roles WHERE NOT rolsuper \
                 AND pg_catalog.has_server_privilege(role, s.oid, 'USAGE')",
            ),
        ),
        (
            "The account may make servers of the foreign data wrappers",
            names(
                "f.fdwname::text FROM pg_catalog.pg_foreign_data_wrapper f CROSS JOIN roles WHERE NOT rolsuper \
                 AND pg_catalog.has_foreign_data_wrapper_privilege(role, f.oid, 'USAGE')",
            ),
        ),
        (
            "The account may change the large objects",
            names(
                "l.oid::text FROM pg_catalog.pg_largeobject_metadata l CROSS JOIN roles WHERE NOT rolsuper AND (l.lomowner = role \
                 OR EXISTS (SELECT FROM pg_catalog.aclexplode(l.lomacl) a WHERE a.grantee IN (0, role) AND a.privilege_type = 'UPDATE'))",
            ),
        ),
    ];
    // Before 15 nobody could be granted a setting.
    if version >= 150_000 {
        all.push((
            "The account may change the server's settings",
            names(
                "p.parname FROM pg_catalog.pg_parameter_acl p CROSS JOIN roles WHERE NOT rolsuper \
                 AND pg_catalog.has_parameter_privilege(role, p.parname, 'SET, ALTER SYSTEM')",
            ),
        ));
    }
    all
}
