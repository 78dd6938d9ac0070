//! Every statement of the corpus has the verdict that the corpus gives it. Never connects.
#![cfg(test)]

use muster_db_gateway::{Engine, classify};

const CORPUS: [&str; 2] = [
    include_str!("read_write_refuse.tsv"),
    include_str!("more_kinds.tsv"),
];

/// Engine, statement, expected verdict.
fn rows() -> Vec<(Engine, String, &'static str)> {
    CORPUS
        .iter()
        .flat_map(|rows| rows.lines().skip(1))
        .map(|line| {
            let mut fields = line.split('\t');
            let engine: Engine = fields.next().unwrap().parse().unwrap();
            let statement = fields.next().unwrap();
            let statement = match engine {
                Engine::Mongodb => statement.to_owned(),
                _ => statement.replace("\\r\\n", "\r\n").replace("\\n", "\n"),
            };
            (engine, statement, fields.nth(1).unwrap())
        })
        .collect()
}

// spec: DBA-003 DBA-010 DBA-016..DBA-028
#[test]
fn every_row_of_the_corpus_has_its_verdict() {
    let wrong: Vec<String> = rows()
        .into_iter()
        .filter_map(|(engine, statement, expected)| {
            let verdict = classify(engine, &statement);
            (verdict.class.as_str() != expected).then(|| {
                format!(
                    "{engine}: {statement:?}: {} instead of {expected} ({})",
                    verdict.class, verdict.reason
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// What may stand between two tokens; the nested comment is one only for PostgreSQL.
fn between(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &[
            " ",
            "\n",
            "\t\x0c",
            "/**/",
            "/* 'c */",
            "-- c'\r",
            "/* /* \" */ ' */",
        ],
        Engine::Sqlite => &[" ", "\n", "\t\x0c", "/**/", "/* 'c */", "-- c'\n"],
        _ => &[" ", "\n", "\t\x0c", "/**/", "/* 'c */", "-- c'\n", "#c\"\n"],
    }
}

/// The statement with other letters' case, blanks, comments and quotes about the names of functions, by the choices in `dice`.
/// What stands in quotes stays as it is.
fn spliced(engine: Engine, statement: &str, dice: &[u8]) -> String {
    let mut dice = dice.iter().copied().cycle();
    let mut roll = move || usize::from(dice.next().unwrap_or_default());
    let between = between(engine);
    let mut out = String::new();
    let mut word = String::new();
    let mut inside: Option<char> = None;
    // A comment or a number with a dot is not taken apart.
    let plain = ["--", "#", "/*", "$"].iter().all(|odd| !statement.contains(odd));
    for letter in statement.chars().chain(['\0']) {
        if inside.is_none() && (letter.is_alphanumeric() || letter == '_') {
            word.push(if roll() % 2 == 0 {
                letter.to_ascii_uppercase()
            } else {
                letter
            });
            continue;
        }
        let quote = match engine {
            Engine::Postgres | Engine::Sqlite => '"',
            _ => '`',
        };
        let prefix = letter == '\'' || letter == '&';
        let number = word.starts_with(|first: char| first.is_ascii_digit());
        if letter == '(' && !word.is_empty() && !number && plain && roll() % 3 == 0 {
            out.push_str(&format!("{quote}{}{quote}", word.to_ascii_lowercase()));
        } else {
            out.push_str(&word);
        }
        word.clear();
        if letter == '\0' {
            break;
        }
        match inside {
            Some(open) if open == letter => inside = None,
            None if matches!(letter, '\'' | '"' | '`') => inside = Some(letter),
            _ => {}
        }
        let splices = inside.is_none() && plain && !prefix;
        if splices && matches!(letter, '(' | ')' | ',') {
            out.push_str(between[roll() % between.len()]);
            out.push(letter);
            out.push_str(between[roll() % between.len()]);
        } else if splices && letter == ' ' {
            out.push_str(between[roll() % between.len()]);
            // A comment parts words for PostgreSQL and SQLite; the blank keeps `-- ` one for the others.
            out.push(' ');
        } else {
            out.push(letter);
        }
    }
    out
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn no_dress_makes_a_read_of_what_is_none(dice in proptest::collection::vec(proptest::num::u8::ANY, 1..64)) {
        let sql = [Engine::Postgres, Engine::Mysql, Engine::Sqlite];
        for (engine, statement, expected) in rows() {
            if expected == "read" || !sql.contains(&engine) || statement.contains('\\') {
                continue;
            }
            let dressed = spliced(engine, &statement, &dice);
            let verdict = classify(engine, &dressed);
            proptest::prop_assert_ne!(verdict.class.as_str(), "read", "{}: {}", statement, dressed);
        }
    }
}
