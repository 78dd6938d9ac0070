//! The two schemas say the same: tables, columns, indexes, keys, checks and guards, each read from the engine itself. Never trusts the migrations' text alone.

use std::collections::{BTreeMap, BTreeSet};

use muster_store::Engine;
use muster_testkit::{engines, on_both};

use crate::support::{Cell, Loose, Raw};

/// One schema as lines that both engines spell alike.
type Lines = BTreeSet<String>;

#[test]
fn both_engines_have_one_schema() {
    let found = std::sync::Mutex::new(Vec::new());
    on_both(|muster| {
        let found = &found;
        async move {
            let mut raw = Raw::of(&muster).await;
            let lines = match muster.engine {
                Engine::Sqlite => sqlite(&mut raw).await,
                Engine::Postgres => postgres(&mut raw).await,
            };
            found.lock().unwrap().push(lines);
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.iter().all(|lines| lines.len() > 150), "a schema of {:?} lines was not read", found.iter().map(Lines::len).collect::<Vec<_>>());
    assert_eq!(found.len(), engines().len());
    let [sqlite, postgres] = found.as_slice() else { return };
    let only = |one: &Lines, other: &Lines| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!(only(sqlite, postgres), Vec::<String>::new(), "on SQLite only");
    // The one that Postgres needs in addition: a table's owner may truncate it without touching a row.
    assert_eq!(only(postgres, sqlite), ["trigger audit_append_only_truncate: before truncate on audit"], "on Postgres only");
}

/// Rows named by their columns, for look-ups that read well.
struct Named(BTreeMap<String, String>);

impl Named {
    fn get(&self, column: &str) -> &str {
        &self.0[column]
    }
}

async fn ask(raw: &mut Raw, text: &str) -> Vec<Named> {
    let name = |row: &Loose| Named(row.0.iter().map(|(name, _)| name.clone()).zip(row.texts()).collect());
    raw.rows(text).await.iter().map(name).collect()
}

/// Predicates and defaults without what Postgres adds as it prints them.
fn plain(text: &str) -> String {
    let text = text.replace("::text", "").replace("= ANY (ARRAY[", "IN (").replace("<> ALL (ARRAY[", "NOT IN (").replace(']', "");
    assert!(!text.contains(" OR "), "{text}: without its parentheses an OR is not what it was");
    text.chars().filter(|c| !matches!(c, '(' | ')' | ' ' | '\n')).collect::<String>().to_ascii_lowercase()
}

async fn sqlite(raw: &mut Raw) -> Lines {
    let mut lines = Lines::new();
    for table in raw.tables().await {
        let strict = raw.number(&format!("SELECT strict FROM pragma_table_list WHERE schema = 'main' AND name = '{table}'")).await;
        assert_eq!(strict, 1, "{table} is STRICT, so that SQLite refuses a value of another kind as Postgres does");
        let text = raw.rows(&format!("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = '{table}'")).await[0].text();
        let mut checks = checks(&text);
        for column in ask(raw, &format!("SELECT * FROM pragma_table_info('{table}')")).await {
            let (name, place) = (column.get("name"), column.get("cid"));
            // A truth value is an INTEGER that a check of the column's name keeps at 0 or 1.
            let truth = checks.remove(&format!("{table}_{name}")).map(|check| {
                let kept = plain(&check);
                if kept != format!("{name}in0,1") {
                    checks.insert(format!("{table}_{name}"), check);
                }
                kept == format!("{name}in0,1")
            });
            let kind = match (column.get("type"), truth) {
                ("INTEGER", Some(true)) => "truth",
                ("INTEGER", _) => "integer",
                ("TEXT", _) => "text",
                (other, _) => panic!("{table}.{name} is {other}, which is not a portable kind"),
            };
            if column.get("pk") == "1" {
                assert!(text.contains(&format!("{name} INTEGER PRIMARY KEY AUTOINCREMENT")), "{table}: an id must not be given out twice");
                lines.insert(format!("column {place} {table}.{name}: identity"));
            } else {
                let null = if column.get("notnull") == "1" { "not null" } else { "null" };
                lines.insert(format!("column {place} {table}.{name}: {kind} {null} default {}", plain(column.get("dflt_value"))));
            }
        }
        lines.extend(checks.keys().map(|name| format!("check {name} on {table}")));
        for index in ask(raw, &format!("SELECT name, \"unique\" AS one, partial FROM pragma_index_list('{table}') WHERE origin = 'c'")).await {
            let name = index.get("name");
            let columns: Vec<_> = raw.rows(&format!("SELECT name FROM pragma_index_info('{name}') ORDER BY seqno")).await.iter().map(Loose::text).collect();
            let text = raw.rows(&format!("SELECT sql FROM sqlite_master WHERE type = 'index' AND name = '{name}'")).await[0].text();
            let only = text.split_once(" WHERE ").map_or("-".to_owned(), |(_, only)| plain(only));
            assert_eq!(index.get("partial") == "1", only != "-", "{name}");
            lines.insert(index_line(name, &table, index.get("one") == "1", &columns, &only));
        }
        let mut keys: BTreeMap<String, Vec<Named>> = BTreeMap::new();
        for part in ask(raw, &format!("SELECT id, \"table\" AS target, \"from\" AS here, \"to\" AS there, on_update, on_delete FROM pragma_foreign_key_list('{table}') ORDER BY id, seq")).await {
            assert_eq!((part.get("on_update"), part.get("on_delete")), ("NO ACTION", "NO ACTION"), "{table}: nothing is deleted behind muster's back");
            keys.entry(part.get("id").to_owned()).or_default().push(part);
        }
        for parts in keys.values() {
            let list = |column| parts.iter().map(|part| part.get(column)).collect::<Vec<_>>().join(",");
            lines.insert(format!("key {table} ({}) to {} ({})", list("here"), parts[0].get("target"), list("there")));
        }
    }
    for trigger in ask(raw, "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'").await {
        lines.insert(trigger_line(trigger.get("name"), trigger.get("tbl_name"), trigger.get("sql")));
    }
    lines
}

fn index_line(name: &str, table: &str, unique: bool, columns: &[String], only: &str) -> String {
    let unique = if unique { "unique " } else { "" };
    format!("{unique}index {name} on {table} ({}) where {only}", columns.join(","))
}

/// When a trigger fires: the words between its name and its table, without the columns that SQLite can name.
fn trigger_line(name: &str, table: &str, text: &str) -> String {
    let mut words = text.split_whitespace().skip_while(|word| !matches!(*word, "BEFORE" | "AFTER" | "INSTEAD"));
    let (when, what) = (words.next().unwrap(), words.next().unwrap());
    format!("trigger {name}: {} {} on {table}", when.to_ascii_lowercase(), what.to_ascii_lowercase())
}

/// Named checks and their conditions, from a table's own text.
fn checks(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in text.split("CONSTRAINT ").skip(1) {
        let (name, rest) = part.split_once(char::is_whitespace).unwrap();
        let Some(rest) = rest.trim_start().strip_prefix("CHECK") else { continue };
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0 && *c == ')'
        });
        found.insert(name.to_owned(), rest.get(..=end.unwrap().0).unwrap().trim().to_owned());
    }
    let all = text.replace("WITH CHECK", "").matches("CHECK (").count();
    assert_eq!(found.len(), all, "every check has a name: {text}");
    found
}

async fn postgres(raw: &mut Raw) -> Lines {
    let mut lines = Lines::new();
    let columns = "SELECT c.relname::text AS tab, a.attname::text AS name, (row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum) - 1) AS place, \
        format_type(a.atttypid, a.atttypmod) AS kind, a.attnotnull AS filled, a.attidentity::text AS identity, l.collname::text AS collation, \
        pg_get_expr(d.adbin, d.adrelid) AS preset \
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_collation l ON l.oid = a.attcollation \
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations' AND a.attnum > 0 AND NOT a.attisdropped";
    for column in ask(raw, columns).await {
        let (table, name, place) = (column.get("tab"), column.get("name"), column.get("place"));
        let kind = match column.get("kind") {
            "bigint" => "integer",
            "boolean" => "truth",
            "text" => "text",
            other => panic!("{table}.{name} is {other}, which is not a portable kind"),
        };
        let collation = if kind == "text" { "C" } else { "-" };
        assert_eq!(column.get("collation"), collation, "{table}.{name}: texts sort and compare by their bytes, as on SQLite");
        if name == "id" {
            assert_eq!(column.get("identity"), "a", "{table}: an id must not be given out twice");
            lines.insert(format!("column {place} {table}.{name}: identity"));
        } else {
            let null = if column.get("filled") == "true" { "not null" } else { "null" };
            lines.insert(format!("column {place} {table}.{name}: {kind} {null} default {}", plain(column.get("preset"))));
        }
    }
    let indexes = "SELECT i.relname::text AS name, c.relname::text AS tab, x.indisunique AS one, pg_get_expr(x.indpred, x.indrelid) AS only, x.indexprs IS NULL AS plain, \
        (SELECT string_agg(pg_get_indexdef(x.indexrelid, k, true), ',' ORDER BY k) FROM generate_series(1, x.indnkeyatts::int) k) AS columns \
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid \
        WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations' AND NOT x.indisprimary";
    for index in ask(raw, indexes).await {
        assert_eq!(index.get("plain"), "true", "{}: an index of an expression is not portable", index.get("name"));
        let only = if index.get("only") == "-" { "-".to_owned() } else { plain(index.get("only")) };
        lines.insert(index_line(index.get("name"), index.get("tab"), index.get("one") == "true", &[index.get("columns").to_owned()], &only));
    }
    let names = |numbers: &str, table: &str| {
        format!(
            "(SELECT string_agg(a.attname::text, ',' ORDER BY n.place) FROM unnest({numbers}) WITH ORDINALITY n (number, place) \
             JOIN pg_attribute a ON a.attrelid = {table} AND a.attnum = n.number)"
        )
    };
    let constraints = format!(
        "SELECT k.conname::text AS name, k.contype::text AS kind, c.relname::text AS tab, f.relname::text AS target, {} AS here, {} AS there, \
         k.confupdtype::text || k.confdeltype::text AS acts, k.convalidated AND NOT k.condeferrable AS binds \
         FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid LEFT JOIN pg_class f ON f.oid = k.confrelid \
         WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations' AND k.contype <> 'p'",
        names("k.conkey", "k.conrelid"),
        names("k.confkey", "k.confrelid")
    );
    for constraint in ask(raw, &constraints).await {
        let (name, table) = (constraint.get("name"), constraint.get("tab"));
        assert_eq!(constraint.get("binds"), "true", "{name}");
        match constraint.get("kind") {
            "c" => lines.insert(format!("check {name} on {table}")),
            "f" => {
                assert_eq!(constraint.get("acts"), "aa", "{name}: nothing is deleted behind muster's back");
                lines.insert(format!("key {table} ({}) to {} ({})", constraint.get("here"), constraint.get("target"), constraint.get("there")))
            }
            other => panic!("{name}: a constraint of kind {other} has no like on SQLite; make it an index"),
        };
    }
    let triggers = "SELECT t.tgname::text AS name, c.relname::text AS tab, pg_get_triggerdef(t.oid) AS text, t.tgenabled::text AS enabled \
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal";
    for trigger in ask(raw, triggers).await {
        assert_eq!(trigger.get("enabled"), "O", "{}", trigger.get("name"));
        lines.insert(trigger_line(trigger.get("name"), trigger.get("tab"), trigger.get("text")));
    }
    lines
}

/// The two trees of migrations: names and texts.
fn trees() -> [BTreeMap<String, String>; 2] {
    ["sqlite", "postgres"].map(|engine| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations").join(engine);
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
        };
        std::fs::read_dir(folder).unwrap().map(file).collect()
    })
}

#[test]
fn the_two_trees_of_migrations_have_the_same_steps_and_checks() {
    let [sqlite, postgres] = trees();
    assert!(!sqlite.is_empty());
    assert!(sqlite.keys().eq(postgres.keys()), "{:?} {:?}", sqlite.keys(), postgres.keys());
    for (name, text) in &sqlite {
        // Read from the files, because Postgres prints a check in words of its own.
        let (mut here, there) = (checks(text), checks(&postgres[name]));
        // Truth values have a kind of their own on Postgres.
        here.retain(|_, check| !check.ends_with(" IN (0, 1))"));
        let flat = |found: &BTreeMap<String, String>| {
            found.iter().map(|(name, check)| format!("{name} {}", check.split_whitespace().collect::<Vec<_>>().join(" "))).collect::<Vec<_>>()
        };
        assert_eq!(flat(&here), flat(&there), "{name}");
    }
}

/// References without a key, and why that is right.
const LOOSE: [(&str, &str); 0] = [];

#[test]
fn every_reference_to_an_owned_row_carries_its_owner() {
    on_both(|muster| async move {
        let mut raw = Raw::of(&muster).await;
        let lines = match muster.engine {
            Engine::Sqlite => sqlite(&mut raw).await,
            Engine::Postgres => postgres(&mut raw).await,
        };
        let mut references = 0;
        for line in &lines {
            // "column 3 messages.plugin_id: integer not null default -"
            let Some((place, kind)) = line.strip_prefix("column ").and_then(|rest| rest.split_once(": ")) else { continue };
            let (table, column) = place.split_once(' ').and_then(|(_, name)| name.split_once('.')).unwrap();
            let refers = kind.starts_with("integer") && (column.ends_with("_id") || column.ends_with("_by"));
            if !refers || LOOSE.contains(&(table, column)) {
                continue;
            }
            references += 1;
            let held = if column == "owner_id" {
                // Straight to the owner, or with another row that is the owner's.
                lines.iter().any(|line| line.starts_with(&format!("key {table} (owner_id")))
            } else {
                lines.iter().any(|line| line.starts_with(&format!("key {table} (owner_id,{column}) to ")) && line.ends_with(" (owner_id,id)"))
            };
            assert!(held, "{table}.{column} may name another owner's row: it needs FOREIGN KEY (owner_id, {column})");
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
        let lines = match muster.engine {
            Engine::Sqlite => sqlite(&mut raw).await,
            Engine::Postgres => postgres(&mut raw).await,
        };
        let mut tried = 0;
        for line in &lines {
            // "key tokens (owner_id,chief_id) to chiefs (owner_id,id)"
            let Some((table, rest)) = line.strip_prefix("key ").and_then(|rest| rest.split_once(" (owner_id,")) else { continue };
            let (column, target) = rest.split_once(") to ").unwrap();
            let target = target.split_once(" (").unwrap().0;
            let theirs = raw.number(&format!("SELECT max(id) FROM {target} WHERE owner_id = {}", ada.owner)).await;
            let mine = raw.number(&format!("SELECT count(*) FROM {table} WHERE owner_id = {} AND {column} IS NOT NULL", bob.owner)).await;
            assert!(mine > 0, "{table}.{column}: the seed has no such row");
            let moved = raw.run(&format!("UPDATE {table} SET {column} = {theirs} WHERE owner_id = {} AND {column} IS NOT NULL", bob.owner)).await;
            assert!(moved.is_err(), "{table}.{column} took another owner's row on {:?}", muster.engine);
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
            assert_eq!(cells, [Cell::Bool(true), Cell::Bool(true), Cell::Int(1), Cell::Bool(true)], "{table}: enabled, forced, one policy for every command, checked");
        }
        // What runs with its maker's rights, or shows rows past the policies, would be a way around them.
        let around = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef";
        assert_eq!(raw.number(around).await, 0);
        assert_eq!(raw.number("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')").await, 0);
    });
}
