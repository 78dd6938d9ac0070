//! Reads any text as a statement of SQLite and runs what is taken for a read. Never may that change a database that could be changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_db_gateway::{Class, Engine, classify};
use rusqlite::Connection;

const SETUP: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE INDEX i ON t (v);";

/// What is in the database and what a session keeps.
fn state(database: &Connection) -> String {
    let asked = "SELECT (SELECT group_concat(id || v) FROM t), (SELECT group_concat(sql) FROM sqlite_schema), total_changes(), \
         (SELECT schema_version FROM pragma_schema_version), (SELECT user_version FROM pragma_user_version), \
         (SELECT application_id FROM pragma_application_id), (SELECT query_only FROM pragma_query_only), \
         (SELECT foreign_keys FROM pragma_foreign_keys), (SELECT count(*) FROM pragma_database_list)";
    database
        .query_row(asked, [], |row| {
            Ok((0..9)
                .map(|at| format!("{:?}", row.get_ref_unwrap(at)))
                .collect::<Vec<_>>()
                .join(" "))
        })
        .expect("the state can be asked for")
}

fuzz_target!(|text: &str| {
    let verdict = classify(Engine::Sqlite, text);
    assert!(!verdict.reason.is_empty() && !verdict.reason.contains(char::is_control));
    if verdict.class != Class::Read {
        return;
    }
    // A comment may stay open until the end.
    if !text.contains("/*") {
        assert_ne!(
            classify(Engine::Sqlite, &format!("{text}\n;DELETE FROM t")).class,
            Class::Read
        );
    }
    let database = Connection::open_in_memory().expect("memory");
    database.execute_batch(SETUP).expect("a database");
    let mut steps = 0;
    database
        .progress_handler(
            1000,
            Some(move || {
                steps += 1;
                steps > 200
            }),
        )
        .expect("a handler");
    let before = state(&database);
    if let Ok(mut statement) = database.prepare(text)
        && let Ok(mut rows) = statement.query([])
    {
        while let Ok(Some(_)) = rows.next() {}
    }
    let _ = database.progress_handler(0, None::<fn() -> bool>);
    assert_eq!(state(&database), before);
    assert!(database.is_autocommit());
});
