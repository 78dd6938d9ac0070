//! The guide for connector authors says what they must know, and its examples keep the contract. Never checks its style.
#![cfg(test)]

mod common;

use std::path::Path;

use common::stub::complaints;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connectors.md");
    std::fs::read_to_string(path).unwrap()
}

/// The words of the guide on one line, without marks of emphasis, as a reader sees them.
fn words(text: &str) -> String {
    let plain = text.replace(['*', '`'], "");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of the guide under one heading, down to the next of the same or a higher level.
fn section(heading: &str) -> String {
    let guide = guide();
    let level = heading.chars().take_while(|letter| *letter == '#').count();
    let mut lines = guide.lines().skip_while(|line| *line != heading);
    assert_eq!(lines.next(), Some(heading), "no section {heading}");
    let inside: Vec<&str> = lines
        .take_while(|line| {
            let hashes = line.chars().take_while(|letter| *letter == '#').count();
            hashes == 0 || hashes > level
        })
        .collect();
    words(&inside.join("\n"))
}

fn says(heading: &str, sentences: &[&str]) {
    let text = section(heading);
    for sentence in sentences {
        assert!(
            text.contains(sentence),
            "{heading} does not say: {sentence}\n{text}"
        );
    }
}

// spec: MSG-045
#[test]
fn the_guide_says_when_a_cursor_may_advance() {
    says("## The loop", &["Advance your upstream cursor only after a 2xx."]);
    says(
        "## Posting a message",
        &[
            "Advance your upstream cursor only after a 2xx.",
            "When you saw no answer, send the same message again.",
            "It never cuts.",
        ],
    );
    says("### Limits are refusals, never truncations", &["answers 400"]);
}

// spec: MSG-066
#[test]
fn the_guide_lists_every_proof_of_a_sender() {
    says(
        "### `sender_verified`",
        &[
            "Set sender_verified: true only when the connector has authenticated the sender",
            "Mail: the message passed DMARC, or it carries a valid DKIM signature whose domain is aligned to the From domain, \
             and sender is that From address.",
            "SPF alone is not enough: it authenticates the envelope, not the From address.",
            "A signed protocol: the message's signature was verified against keys that the owner of the address published, \
             and sender is the identity those keys belong to.",
            "Anything else: an equivalent proof, bound to the exact address you report.",
            "When in doubt, leave it false.",
        ],
    );
    says(
        "### `no_reply`",
        &["The mark cannot be changed once the message is stored"],
    );
}

// spec: CLM-035
#[test]
fn the_guide_says_how_long_a_client_must_wait_for_a_claim() {
    says(
        "## Claiming an approved reply",
        &[
            "Set your HTTP client's timeout to wait_seconds plus at least 10 seconds.",
            "A claim whose answer you never received is still a claim",
        ],
    );
}

// spec: CLM-036
#[test]
fn the_guide_says_how_a_reply_is_sent_at_most_once() {
    says(
        "## Sending at most once",
        &[
            "Record the draft_id durably before you send anything upstream.",
            "Never send the same draft_id twice, not even after a restart.",
            "a new reply always has a new draft_id",
        ],
    );
    says(
        "## Reporting the result",
        &["If you saw no answer, post the result again"],
    );
}

#[test]
fn the_examples_of_the_guide_keep_the_contract() {
    let guide = guide();
    let blocks: Vec<&str> = guide
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let parsed: Vec<serde_json::Value> = blocks
        .iter()
        .map(|block| serde_json::from_str(block).unwrap())
        .collect();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(complaints(&parsed[0]), [""; 0]);
    assert_eq!(keys(&parsed[1]), ["wait_seconds"]);
    assert_eq!(
        keys(&parsed[2]),
        ["approved_at", "body", "draft_id", "message_external_id"]
    );
    assert_eq!(keys(&parsed[3]), ["detail", "external_ref", "ok"]);
    assert_eq!(parsed.len(), 4);
}

#[test]
fn the_guide_names_only_options_and_files_that_exist() {
    let guide = guide();
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_muster-maildir"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let step_by_step = guide
        .split("## The Maildir connector, step by step")
        .nth(1)
        .unwrap();
    let without_setup = step_by_step.split_once("--sendmail '").unwrap().1;
    for piece in without_setup.split("--").skip(1) {
        let option: String = piece.chars().take_while(|letter| is_part(*letter)).collect();
        if option.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            assert!(help.contains(&format!("--{option}")), "--{option}");
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for name in guide.split('`').filter(|word| word.ends_with(".rs")) {
        assert!(source.join(name).is_file(), "{name}");
    }
}
