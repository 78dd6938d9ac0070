//! Every statement of the corpus has the verdict that the corpus gives it. Never connects.
#![cfg(test)]

use muster_db_gateway::{Engine, classify};

const CORPUS: &str = include_str!("read_write_refuse.tsv");

/// Engine, statement, expected verdict.
fn rows() -> Vec<(Engine, String, &'static str)> {
    CORPUS
        .lines()
        .skip(1)
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

// spec: DBA-003 DBA-016..DBA-028
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
