//! The two schemas say the same, and say what keeps owners apart. Never trusts the migrations' text where an engine can be asked.

use std::collections::BTreeMap;

use muster_store::Engine;
use muster_testkit::{engines, on_both};

use crate::schema::{Lines, checks, read};
use crate::support::{Cell, Raw};

#[test]
fn both_engines_have_one_schema() {
    let found = std::sync::Mutex::new(Vec::new());
    on_both(|muster| {
        let found = &found;
        async move {
            let mut raw = Raw::of(&muster).await;
            let lines = read(&mut raw).await;
            found.lock().unwrap().push(lines);
        }
    });
    let found = found.into_inner().unwrap();
    assert!(
        found.iter().all(|lines| lines.len() > 150),
        "a schema of {:?} lines was not read",
        found.iter().map(Lines::len).collect::<Vec<_>>()
    );
    assert_eq!(found.len(), engines().len());
    let [sqlite, postgres] = found.as_slice() else {
        return;
    };
    let only = |one: &Lines, other: &Lines| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!(only(sqlite, postgres), Vec::<String>::new(), "on SQLite only");
    // The one that Postgres needs in addition: a table's owner may truncate it without touching a row.
    assert_eq!(
        only(postgres, sqlite),
        ["trigger audit_append_only_truncate: before truncate on audit"],
        "on Postgres only"
    );
}

/// The two trees of migrations: names and texts.
fn trees() -> [BTreeMap<String, String>; 2] {
    ["sqlite", "postgres"].map(|engine| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../store/migrations")
            .join(engine);
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                std::fs::read_to_string(&path).unwrap(),
            )
        };
        std::fs::read_dir(folder).unwrap().map(file).collect()
    })
}

#[test]
fn the_two_trees_of_migrations_have_the_same_steps_and_checks() {
    let [sqlite, postgres] = trees();
    assert!(!sqlite.is_empty());
    assert!(
        sqlite.keys().eq(postgres.keys()),
        "{:?} {:?}",
        sqlite.keys(),
        postgres.keys()
    );
    // What stands after each step: SQLite has to make a table anew where Postgres adds to it.
    let (mut here, mut there) = (BTreeMap::new(), BTreeMap::new());
    for (name, text) in &sqlite {
        // Read from the files, because Postgres prints a check in words of its own.
        here.extend(checks(text));
        there.extend(checks(&postgres[name]));
        // Truth values have a kind of their own on Postgres.
        here.retain(|_, check| !check.ends_with(" IN (0, 1))"));
        let flat = |found: &BTreeMap<String, String>| {
            found
                .iter()
                .map(|(name, check)| {
                    format!(
                        "{name} {}",
                        check.split_whitespace().collect::<Vec<_>>().join(" ")
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(flat(&here), flat(&there), "{name}");
    }
}

#[test]
fn every_reference_to_an_owned_row_carries_its_owner() {
    on_both(|muster| async move {
        let mut raw = Raw::of(&muster).await;
        let lines = read(&mut raw).await;
        let mut references = 0;
        for line in &lines {
            // "column 3 messages.plugin_id: integer not null default -"
            let Some((place, kind)) = line
                .strip_prefix("column ")
                .and_then(|rest| rest.split_once(": "))
            else {
                continue;
            };
            let (table, column) = place
                .split_once(' ')
                .and_then(|(_, name)| name.split_once('.'))
                .unwrap();
            let refers = kind.starts_with("integer") && (column.ends_with("_id") || column.ends_with("_by"));
            if !refers {
                continue;
            }
            references += 1;
            let held = if column == "owner_id" {
                // Straight to the owner, or with another row that is the owner's.
                lines
                    .iter()
                    .any(|line| line.starts_with(&format!("key {table} (owner_id")))
            } else {
                lines.iter().any(|line| {
                    line.starts_with(&format!("key {table} (owner_id,{column}) to "))
                        && line.ends_with(" (owner_id,id)")
                })
            };
            assert!(
                held,
                "{table}.{column} may name another owner's row: it needs FOREIGN KEY (owner_id, {column})"
            );
        }
        assert!(references > 20, "{references} references were found");
    });
}

#[test]
fn an_owners_row_can_never_point_at_anothers() {
    on_both(|muster| async move {
        let ada = crate::recipes::seed(&muster, "ada2", 5_000_000).await;
        let bob = crate::recipes::seed(&muster, "bob", 6_000_000).await;
        let mut raw = Raw::of(&muster).await;
        let lines = read(&mut raw).await;
        let mut tried = 0;
        for line in &lines {
            // "key tokens (owner_id,chief_id) to chiefs (owner_id,id)"
            let Some((table, rest)) = line
                .strip_prefix("key ")
                .and_then(|rest| rest.split_once(" (owner_id,"))
            else {
                continue;
            };
            let (column, target) = rest.split_once(") to ").unwrap();
            let target = target.split_once(" (").unwrap().0;
            let theirs = raw
                .number(&format!(
                    "SELECT max(id) FROM {target} WHERE owner_id = {}",
                    ada.owner
                ))
                .await;
            let mine = raw
                .number(&format!(
                    "SELECT count(*) FROM {table} WHERE owner_id = {} AND {column} IS NOT NULL",
                    bob.owner
                ))
                .await;
            assert!(mine > 0, "{table}.{column}: the seed has no such row");
            let moved = raw
                .run(&format!(
                    "UPDATE {table} SET {column} = {theirs} WHERE owner_id = {} AND {column} IS NOT NULL",
                    bob.owner
                ))
                .await;
            assert!(
                moved.is_err(),
                "{table}.{column} took another owner's row on {:?}",
                muster.engine
            );
            tried += 1;
        }
        assert!(tried > 10, "{tried} keys were tried");
    });
}

#[test]
fn on_postgres_every_table_is_behind_forced_row_level_security() {
    on_both(|muster| async move {
        if muster.engine != Engine::Postgres {
            return;
        }
        let mut raw = Raw::of(&muster).await;
        let tables = raw.tables().await;
        assert!(tables.len() >= 12);
        for table in tables {
            let row = raw
                .rows(&format!(
                    "SELECT c.relrowsecurity, c.relforcerowsecurity, (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid), \
                     (SELECT bool_and(p.polcmd = '*' AND p.polwithcheck IS NOT NULL AND p.polpermissive) FROM pg_policy p WHERE p.polrelid = c.oid) \
                     FROM pg_class c WHERE c.oid = '{table}'::regclass"
                ))
                .await;
            let cells: Vec<_> = row[0].0.iter().map(|(_, cell)| cell.clone()).collect();
            assert_eq!(
                cells,
                [Cell::Bool(true), Cell::Bool(true), Cell::Int(1), Cell::Bool(true)],
                "{table}: enabled, forced, one policy for every command, checked"
            );
        }
        // What runs with its maker's rights, or shows rows past the policies, would be a way around them.
        let around = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef";
        assert_eq!(raw.number(around).await, 0);
        assert_eq!(raw.number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')").await, 0);
    });
}
