//! Every statement muster runs, on both engines: it prepares, it says the same, it is portable, it stays with its owner. Never runs one.

use std::collections::BTreeSet;

use muster_store::{Engine, Prepared, Scope, Sql};
use muster_testkit::{engines, on_both};

use crate::scopes::{disordered, unbound, without_texts, words};

pub(crate) fn all() -> impl Iterator<Item = &'static Sql> {
    muster_app::statements()
        .into_iter()
        .flat_map(|(_, statements)| statements.iter().copied())
}

fn texts(sql: &Sql) -> BTreeSet<&'static str> {
    BTreeSet::from([sql.sqlite, sql.postgres])
}

/// What `find` finds wrong in any text of any statement, one line each.
fn wrong(find: impl Fn(&Sql, &str) -> Vec<String>) -> Vec<String> {
    let mut lines = Vec::new();
    for sql in all() {
        for text in texts(sql) {
            lines.extend(
                find(sql, text)
                    .into_iter()
                    .map(|what| format!("{}: {what}", sql.name)),
            );
        }
    }
    lines
}

#[test]
fn every_statement_prepares_and_says_the_same_on_both_engines() {
    let answers = std::sync::Mutex::new(Vec::new());
    on_both(|muster| {
        let answers = &answers;
        async move {
            let mut prepared = Vec::new();
            for sql in all() {
                let found = muster
                    .app
                    .db
                    .prepare(sql)
                    .await
                    .unwrap_or_else(|fault| panic!("on {:?}: {}", muster.engine, fault.chain()));
                assert_eq!(
                    found.parameters, sql.parameters,
                    "{} on {:?}: placeholders that are bound",
                    sql.name, muster.engine
                );
                prepared.push((sql.name, found));
            }
            answers.lock().unwrap().push((muster.engine, prepared));
        }
    });
    let answers = answers.into_inner().unwrap();
    assert_eq!(answers.len(), engines().len());
    let [(Engine::Sqlite, sqlite), (Engine::Postgres, postgres)] = answers.as_slice() else {
        return;
    };
    for ((name, sqlite), (_, postgres)) in sqlite.iter().zip(postgres) {
        assert_eq!(named(sqlite), named(postgres), "{name}: columns");
    }
}

/// The columns' names. Each engine names a bare expression as it likes; that is fine for the one number a statement answers, and only there.
fn named(prepared: &Prepared) -> Vec<String> {
    match prepared.columns.as_slice() {
        [one]
            if one == "1"
                || one.contains('(')
                || matches!(one.as_str(), "count" | "?column?" | "max" | "min") =>
        {
            vec!["a number".to_owned()]
        }
        columns => columns.to_vec(),
    }
}

#[test]
fn every_statement_has_a_name_of_its_own_that_begins_with_its_slice() {
    let mut names = BTreeSet::new();
    for (slice, statements) in muster_app::statements() {
        assert!(!statements.is_empty(), "{slice}");
        for sql in statements {
            let act = sql
                .name
                .strip_prefix(slice)
                .and_then(|rest| rest.strip_prefix('.'))
                .unwrap_or_default();
            assert!(
                !act.is_empty() && act.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                "{}: the name is {slice}.act",
                sql.name
            );
            assert!(names.insert(sql.name), "{} stands twice", sql.name);
        }
    }
}

#[test]
fn a_statement_of_one_owner_binds_every_table_it_touches_to_that_owner() {
    let owned = |sql: &Sql, text: &str| {
        if sql.scope == Scope::Owner {
            unbound(text)
        } else {
            Vec::new()
        }
    };
    assert_eq!(wrong(owned), Vec::<String>::new());
}

#[test]
fn statements_use_only_what_both_engines_mean_alike() {
    // Letters fold differently, the clock is a parameter, collations are the schema's, and Postgres takes writing CTEs alone.
    const WORDS: [&str; 14] = [
        "LIKE",
        "ILIKE",
        "GLOB",
        "REGEXP",
        "SIMILAR",
        "COLLATE",
        "WITH",
        "NULLS",
        "CAST",
        "CURRENT_TIMESTAMP",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "LOWER",
        "UPPER",
    ];
    const CALLS: [&str; 9] = [
        "NOW",
        "DATETIME",
        "STRFTIME",
        "RANDOM",
        "IFNULL",
        "CLOCK_TIMESTAMP",
        "STRPOS",
        "INSTR",
        "CONCAT",
    ];
    let find = |_: &Sql, text: &str| {
        let (plain, words) = (without_texts(text), words(text));
        let mut found: Vec<String> = WORDS
            .iter()
            .chain(&CALLS)
            .filter(|word| words.iter().any(|w| w == *word))
            .map(|word| format!("uses {word}"))
            .collect();
        found.extend(
            ["::", "->", "\"", "`", "[", "?", "--", "/*", ";"]
                .iter()
                .filter(|sign| plain.contains(**sign))
                .map(|sign| format!("uses {sign}")),
        );
        // The function of that name means the same on both; the statement is SQLite's own.
        if plain.to_ascii_uppercase().contains("REPLACE INTO") {
            found.push("uses REPLACE INTO".to_owned());
        }
        if plain.contains("SELECT *") || plain.contains("RETURNING *") {
            found.push("uses *, so a new column changes its answer".to_owned());
        }
        found
    };
    assert_eq!(wrong(find), Vec::<String>::new());
}

#[test]
fn every_order_is_total() {
    assert_eq!(wrong(|_, text| disordered(text)), Vec::<String>::new());
}

#[test]
fn pairs_of_texts_are_few_and_each_is_known() {
    let pairs: Vec<&str> = all().filter(|sql| sql.is_pair()).map(|sql| sql.name).collect();
    insta::assert_snapshot!(pairs.join("\n"), @r"
    accounts.first_alone
    accounts.insert_session
    audit.head
    audit.head_for
    messages.for_retry
    drafts.message
    drafts.chief
    drafts.claim
    drafts.for_report
    policies.for_edit
    ");
    // A pair differs in what Postgres locks and in nothing else; one does nothing but lock.
    for sql in all().filter(|sql| sql.is_pair() && sql.name != "accounts.first_alone") {
        let mut unlocked = sql.postgres.to_owned();
        for lock in [
            " FOR UPDATE SKIP LOCKED",
            " FOR UPDATE OF m",
            " FOR UPDATE",
            " FOR SHARE",
        ] {
            unlocked = unlocked.replace(lock, "");
        }
        assert_eq!(unlocked, sql.sqlite, "{}", sql.name);
    }
}

#[test]
fn statements_across_owners_are_few_and_each_is_known() {
    let system: Vec<&str> = all()
        .filter(|sql| sql.scope == Scope::System)
        .map(|sql| sql.name)
        .collect();
    insta::assert_snapshot!(system.join("\n"), @r"
    access.busy_owners
    accounts.insert_owner
    accounts.first_alone
    accounts.count
    accounts.list
    accounts.by_name
    accounts.session
    accounts.take_ceremony
    accounts.token
    audit.head_for
    audit.insert_for
    notices.old_owners
    plugins.by_token
    chief.chiefs_in_turns
    drafts.due_owners
    seal.sealed
    ");
}
