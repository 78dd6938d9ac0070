//! The canonical text and its reader under every damage that can be made. Never accepts a text that says something else than it seems to.

use muster_policy::{Damaged, Invalid, LayerName, LayerState, MAX_JSON, Policy};
use proptest::prelude::*;

use crate::support::{layer, policies, policy};

const WHOLE: &str = r#"{"global":null,"project":[],"task":[["db_read","any","ask"],["db_read","db_connection:staging","allow"]]}"#;

fn read(text: &str) -> Result<Policy, Damaged> {
    Policy::from_json(text)
}

#[test]
fn absent_empty_and_authored_are_three_texts() {
    let written = policy(
        muster_policy::Layer::absent(),
        muster_policy::Layer::empty(),
        layer("db_read db_connection:staging allow, db_read any ask"),
    );
    assert_eq!(written.to_json(), WHOLE);
    let back = read(WHOLE).unwrap();
    assert_eq!(back, written);
    let states: Vec<&str> = back.layers().map(|(_, layer)| layer.state().as_str()).collect();
    assert_eq!(states, ["absent", "empty", "authored"]);
}

#[test]
fn a_layer_that_is_left_out_is_an_error_and_not_an_absent_layer() {
    for text in [
        "{}",
        r#"{"global":null,"project":null}"#,
        r#"{"project":null,"task":null}"#,
        r#"{"global":null,"task":[]}"#,
        "null",
        "[]",
        "",
    ] {
        assert!(matches!(read(text), Err(Damaged::Shape { .. })), "{text}");
    }
}

#[test]
fn what_is_doubled_unknown_or_of_another_shape_is_an_error() {
    let with_task = |task: &str| format!(r#"{{"global":null,"project":null,"task":{task}}}"#);
    for text in [
        r#"{"global":null,"global":null,"project":null,"task":null}"#.to_owned(),
        r#"{"global":null,"project":null,"task":null,"tasks":null}"#.to_owned(),
        r#"{"global":null,"project":null,"task":null} x"#.to_owned(),
        r#"{"Global":null,"project":null,"task":null}"#.to_owned(),
        with_task("{}"),
        with_task("false"),
        with_task("\"\""),
        with_task("[[]]"),
        with_task(r#"[["db_read","any"]]"#),
        with_task(r#"[["db_read","any","allow","allow"]]"#),
        with_task(r#"[["db_read",null,"allow"]]"#),
        with_task(r#"[{"action":"db_read","scope":"any","effect":"allow"}]"#),
    ] {
        assert!(matches!(read(&text), Err(Damaged::Shape { .. })), "{text}");
    }
}

#[test]
fn a_grant_that_is_not_valid_is_named_by_its_place_and_by_the_valid_words() {
    let error = |row: &str| {
        let text = format!(r#"{{"global":[["db_read","any","allow"],{row}],"project":null,"task":null}}"#);
        read(&text).unwrap_err()
    };
    let sentence = error(r#"["db_reed","any","allow"]"#).to_string();
    assert!(sentence.starts_with("grant 2 of the global layer is not valid: \"db_reed\" is not an action"));
    assert!(sentence.contains("projects_read") && sentence.contains("issues_write"));
    for (row, why) in [
        (r#"["db_read","any","maybe"]"#, "allow, ask, deny"),
        (
            r#"["db_read","dbs:x","allow"]"#,
            "project, worktree, db_connection, host, integration, repo",
        ),
        (
            r#"["db_read","db_connection:*","allow"]"#,
            "exactly one db_connection",
        ),
        (
            r#"["db_read","project:p1","allow"]"#,
            "db_read is never about a project",
        ),
    ] {
        let damaged = error(row);
        assert!(matches!(
            damaged,
            Damaged::Row {
                layer: LayerName::Global,
                row: 2,
                ..
            }
        ));
        assert!(damaged.to_string().contains(why), "{damaged}");
    }
    let twice = error(r#"["db_read","any","deny"]"#);
    assert!(matches!(
        twice,
        Damaged::Layer {
            why: Invalid::Twice { .. },
            ..
        }
    ));
}

#[test]
fn every_beginning_and_every_text_less_one_byte_is_damaged_or_says_what_it_says() {
    for end in 0..WHOLE.len() {
        assert!(read(WHOLE.get(..end).unwrap()).is_err(), "{end}");
    }
    let whole = read(WHOLE).unwrap();
    for at in 0..WHOLE.len() {
        let mut less = WHOLE.to_owned();
        less.remove(at);
        let Ok(other) = read(&less) else { continue };
        // Only an id can lose a letter and still be one.
        let (from, to) = (WHOLE.find("staging").unwrap(), WHOLE.find("\",\"allow").unwrap());
        assert!((from..to).contains(&at), "{less}");
        assert_ne!(other, whole);
        assert_eq!(other.to_json(), less);
    }
}

#[test]
fn a_text_too_long_to_be_one_is_not_read() {
    let text = format!("{}{WHOLE}", " ".repeat(MAX_JSON));
    assert_eq!(read(&text), Err(Damaged::TooLong(text.len())));
}

#[test]
fn a_sentence_about_damage_shows_no_outside_text_that_a_terminal_would_act_on() {
    let text =
        "{\"global\":[[\"db\\u001b[2Jread\\u202e\",\"any\",\"allow\"]],\"project\":null,\"task\":null}";
    let sentence = read(text).unwrap_err().to_string();
    assert!(
        sentence.chars().all(|c| !c.is_control() && c != '\u{202e}'),
        "{sentence}"
    );
    let long = format!(
        "{{\"global\":[[\"{}\",\"any\",\"allow\"]],\"project\":null,\"task\":null}}",
        "x".repeat(5000)
    );
    assert!(read(&long).unwrap_err().to_string().len() < 400);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_written_is_read_back_and_written_alike(policy in policies()) {
        // A grant of the wrong kind cannot be authored, so a text that holds one is refused.
        let sound = policy.layers().all(|(_, layer)| layer.grants().iter().all(|grant| grant.check().is_ok()));
        let text = policy.to_json();
        match Policy::from_json(&text) {
            Ok(back) => {
                prop_assert!(sound);
                prop_assert_eq!(&back, &policy);
                prop_assert_eq!(back.to_json(), text);
                for ((_, one), (_, other)) in back.layers().zip(policy.layers()) {
                    prop_assert_eq!(one.state(), other.state());
                    prop_assert_eq!(one.state() == LayerState::Absent, other.state() == LayerState::Absent);
                }
            }
            Err(damaged) => {
                let of_kind = matches!(damaged, Damaged::Row { why: Invalid::WrongKind { .. }, .. });
                prop_assert!(!sound && of_kind);
            }
        }
    }
}
