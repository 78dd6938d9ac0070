//! One schema as lines that both engines spell alike, read from the engine itself. Never compares them, but stops at what is not portable.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Loose, Raw};

/// Columns, checks, indexes, keys and triggers, one line each.
pub(crate) type Lines = BTreeSet<String>;

/// The schema of a database.
pub(crate) async fn read(raw: &mut Raw) -> Lines {
    match raw {
        Raw::Sqlite(_) => sqlite(raw).await,
        Raw::Postgres(_) => postgres(raw).await,
    }
}

/// Rows named by their columns, for look-ups that read well.
struct Named(BTreeMap<String, String>);

impl Named {
    fn get(&self, column: &str) -> &str {
        &self.0[column]
    }
}

async fn ask(raw: &mut Raw, text: &str) -> Vec<Named> {
    let name = |row: &Loose| {
        Named(
            row.0
                .iter()
                .map(|(name, _)| name.clone())
                .zip(row.texts())
                .collect(),
        )
    };
    raw.rows(text).await.iter().map(name).collect()
}

/// Predicates and defaults without what Postgres adds as it prints them.
fn plain(text: &str) -> String {
    let text = text
        .replace("::text", "")
        .replace("= ANY (ARRAY[", "IN (")
        .replace("<> ALL (ARRAY[", "NOT IN (")
        .replace(']', "");
    assert!(
        !text.contains(" OR "),
        "{text}: without its parentheses an OR is not what it was"
    );
    text.chars()
        .filter(|c| !matches!(c, '(' | ')' | ' ' | '\n'))
        .collect::<String>()
        .to_ascii_lowercase()
}

async fn sqlite(raw: &mut Raw) -> Lines {
    let mut lines = Lines::new();
    for table in raw.tables().await {
        let strict = raw
            .number(&format!(
                "SELECT strict FROM pragma_table_list WHERE schema = 'main' AND name = '{table}'"
            ))
            .await;
        assert_eq!(
            strict, 1,
            "{table} is STRICT, so that SQLite refuses a value of another kind as Postgres does"
        );
        let text = raw
            .rows(&format!(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = '{table}'"
            ))
            .await[0]
            .text();
        sqlite_columns(raw, &table, &text, &mut lines).await;
        sqlite_indexes(raw, &table, &mut lines).await;
        sqlite_keys(raw, &table, &mut lines).await;
    }
    for trigger in ask(
        raw,
        "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'",
    )
    .await
    {
        lines.insert(trigger_line(
            trigger.get("name"),
            trigger.get("tbl_name"),
            trigger.get("sql"),
        ));
    }
    lines
}

async fn sqlite_columns(raw: &mut Raw, table: &str, text: &str, lines: &mut Lines) {
    let mut checks = checks(text);
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
            assert!(
                text.contains(&format!("{name} INTEGER PRIMARY KEY AUTOINCREMENT")),
                "{table}: an id must not be given out twice"
            );
            lines.insert(format!("column {place} {table}.{name}: identity"));
        } else {
            let null = if column.get("notnull") == "1" {
                "not null"
            } else {
                "null"
            };
            lines.insert(format!(
                "column {place} {table}.{name}: {kind} {null} default {}",
                plain(column.get("dflt_value"))
            ));
        }
    }
    lines.extend(checks.keys().map(|name| format!("check {name} on {table}")));
}

async fn sqlite_indexes(raw: &mut Raw, table: &str, lines: &mut Lines) {
    for index in ask(
        raw,
        &format!(
            "SELECT name, \"unique\" AS one, partial FROM pragma_index_list('{table}') WHERE origin = 'c'"
        ),
    )
    .await
    {
        let name = index.get("name");
        let columns: Vec<_> = raw
            .rows(&format!(
                "SELECT name FROM pragma_index_info('{name}') ORDER BY seqno"
            ))
            .await
            .iter()
            .map(Loose::text)
            .collect();
        let text = raw
            .rows(&format!(
                "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = '{name}'"
            ))
            .await[0]
            .text();
        let only = text
            .split_once(" WHERE ")
            .map_or("-".to_owned(), |(_, only)| plain(only));
        assert_eq!(index.get("partial") == "1", only != "-", "{name}");
        lines.insert(index_line(name, table, index.get("one") == "1", &columns, &only));
    }
}

async fn sqlite_keys(raw: &mut Raw, table: &str, lines: &mut Lines) {
    let mut keys: BTreeMap<String, Vec<Named>> = BTreeMap::new();
    for part in ask(raw, &format!("SELECT id, \"table\" AS target, \"from\" AS here, \"to\" AS there, on_update, on_delete FROM pragma_foreign_key_list('{table}') ORDER BY id, seq")).await {
            assert_eq!((part.get("on_update"), part.get("on_delete")), ("NO ACTION", "NO ACTION"), "{table}: nothing is deleted behind muster's back");
            keys.entry(part.get("id").to_owned()).or_default().push(part);
        }
    for parts in keys.values() {
        let list = |column| {
            parts
                .iter()
                .map(|part| part.get(column))
                .collect::<Vec<_>>()
                .join(",")
        };
        lines.insert(format!(
            "key {table} ({}) to {} ({})",
            list("here"),
            parts[0].get("target"),
            list("there")
        ));
    }
}

fn index_line(name: &str, table: &str, unique: bool, columns: &[String], only: &str) -> String {
    let unique = if unique { "unique " } else { "" };
    format!(
        "{unique}index {name} on {table} ({}) where {only}",
        columns.join(",")
    )
}

/// When a trigger fires: the words between its name and its table, without the columns that SQLite can name.
fn trigger_line(name: &str, table: &str, text: &str) -> String {
    let mut words = text
        .split_whitespace()
        .skip_while(|word| !matches!(*word, "BEFORE" | "AFTER" | "INSTEAD"));
    let (when, what) = (words.next().unwrap(), words.next().unwrap());
    format!(
        "trigger {name}: {} {} on {table}",
        when.to_ascii_lowercase(),
        what.to_ascii_lowercase()
    )
}

/// Named checks and their conditions, from a table's own text.
pub(crate) fn checks(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in text.split("CONSTRAINT ").skip(1) {
        let (name, rest) = part.split_once(char::is_whitespace).unwrap();
        let Some(rest) = rest.trim_start().strip_prefix("CHECK") else {
            continue;
        };
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0 && *c == ')'
        });
        found.insert(
            name.to_owned(),
            rest.get(..=end.unwrap().0).unwrap().trim().to_owned(),
        );
    }
    let all = text.replace("WITH CHECK", "").matches("CHECK (").count();
    assert_eq!(found.len(), all, "every check has a name: {text}");
    found
}

async fn postgres(raw: &mut Raw) -> Lines {
    let mut lines = Lines::new();
    postgres_columns(raw, &mut lines).await;
    postgres_indexes(raw, &mut lines).await;
    postgres_constraints(raw, &mut lines).await;
    let triggers = "SELECT t.tgname::text AS name, c.relname::text AS tab, pg_get_triggerdef(t.oid) AS text, t.tgenabled::text AS enabled \
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal";
    for trigger in ask(raw, triggers).await {
        assert_eq!(trigger.get("enabled"), "O", "{}", trigger.get("name"));
        lines.insert(trigger_line(
            trigger.get("name"),
            trigger.get("tab"),
            trigger.get("text"),
        ));
    }
    lines
}

async fn postgres_columns(raw: &mut Raw, lines: &mut Lines) {
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
        assert_eq!(
            column.get("collation"),
            collation,
            "{table}.{name}: texts sort and compare by their bytes, as on SQLite"
        );
        if name == "id" {
            assert_eq!(
                column.get("identity"),
                "a",
                "{table}: an id must not be given out twice"
            );
            lines.insert(format!("column {place} {table}.{name}: identity"));
        } else {
            let null = if column.get("filled") == "true" {
                "not null"
            } else {
                "null"
            };
            lines.insert(format!(
                "column {place} {table}.{name}: {kind} {null} default {}",
                plain(column.get("preset"))
            ));
        }
    }
}

async fn postgres_indexes(raw: &mut Raw, lines: &mut Lines) {
    let indexes = "SELECT i.relname::text AS name, c.relname::text AS tab, x.indisunique AS one, pg_get_expr(x.indpred, x.indrelid) AS only, x.indexprs IS NULL AS plain, \
        (SELECT string_agg(pg_get_indexdef(x.indexrelid, k, true), ',' ORDER BY k) FROM generate_series(1, x.indnkeyatts::int) k) AS columns \
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid \
        WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations' AND NOT x.indisprimary";
    for index in ask(raw, indexes).await {
        assert_eq!(
            index.get("plain"),
            "true",
            "{}: an index of an expression is not portable",
            index.get("name")
        );
        let only = if index.get("only") == "-" {
            "-".to_owned()
        } else {
            plain(index.get("only"))
        };
        lines.insert(index_line(
            index.get("name"),
            index.get("tab"),
            index.get("one") == "true",
            &[index.get("columns").to_owned()],
            &only,
        ));
    }
}

async fn postgres_constraints(raw: &mut Raw, lines: &mut Lines) {
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
                assert_eq!(
                    constraint.get("acts"),
                    "aa",
                    "{name}: nothing is deleted behind muster's back"
                );
                lines.insert(format!(
                    "key {table} ({}) to {} ({})",
                    constraint.get("here"),
                    constraint.get("target"),
                    constraint.get("there")
                ))
            }
            other => panic!("{name}: a constraint of kind {other} has no like on SQLite; make it an index"),
        };
    }
}
