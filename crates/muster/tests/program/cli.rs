//! The command line as scripts and people meet it: exit codes, what goes to which stream, one document or lines alone. Never looks inside.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{PASSWORD, Place, Said};

/// A reader that leaves early, as `head -1` does.
#[test]
fn a_reader_that_leaves_early_is_no_crash() {
    let place = Place::new();
    for arguments in [
        &["completions", "zsh"][..],
        &["man"],
        &["config", "docs"],
        &["config", "show"],
        &["owner", "list"],
        &["--help"],
    ] {
        let mut child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

pub(crate) fn usage(said: &Said, words: &str) {
    assert_eq!((said.code(), said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains(words), "{words:?} is not in {:?}", said.err);
}

pub(crate) fn refused(said: &Said, words: &str) {
    assert_eq!((said.code(), said.out.as_str()), (1, ""), "{said:?}");
    assert!(
        said.err.starts_with("muster: ") && said.err.contains(words),
        "{words:?} is not in {:?}",
        said.err
    );
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_is_right() {
    let place = Place::new();
    usage(&place.run(&[]), "Usage: muster");
    usage(&place.run(&["owner"]), "Usage: muster owner");
    usage(&place.run(&["ownr"]), "owner");
    usage(&place.run(&["owner", "add"]), "<NAME>");
    usage(&place.run(&["owner", "list", "--no-such-flag"]), "--no-such-flag");
    usage(&place.run(&["token", "create", "--kind", "root"]), "personal");
    usage(&place.run(&["audit", "list", "--limit", "0"]), "1..");
    usage(&place.run(&["plugins", "retry", "abc"]), "whole number");
    usage(&place.run(&["owner", "add", "ada"]), "--password-stdin");
    usage(
        &place.run_with(&["owner", "add", "Ada!", "--password-stdin"], "correct horse\n"),
        "name",
    );
    place.add_owner("ada");
    usage(
        &place.run(&["token", "create", "--kind", "mirror-host"]),
        "--host",
    );
    usage(
        &place.run(&["connector", "add", "UPPER", "--label", "x", "--data-scope", "y"]),
        "a-z",
    );
    usage(
        &place.run(&[
            "connector",
            "add",
            "mail",
            "--label",
            "a\u{202e}b",
            "--data-scope",
            "y",
        ]),
        "label",
    );
    usage(
        &place.run(&["connector", "add", "mail", "--label", "", "--data-scope", "y"]),
        "label",
    );
    usage(&place.run(&["chief", "set", "--runtime", "command"]), "--command");
    usage(
        &place.run(&["chief", "set", "--runtime", "command", "--command", "'open"]),
        "split",
    );
    usage(&place.run(&["audit", "list", "--since", "yesterday"]), "RFC 3339");
    assert_eq!(
        place.json(&["connector", "list"]),
        json!([]),
        "something was stored"
    );
    assert_eq!(place.json(&["token", "list"]), json!([]), "something was stored");
}

#[test]
fn a_refusal_is_exit_code_1_and_one_sentence() {
    let place = Place::new();
    for early in [
        &["connector", "list"][..],
        &["owner", "list"],
        &["audit", "verify"],
    ] {
        refused(&place.run(early), "there is no owner yet");
        refused(&place.run(early), "name it with --data-dir");
    }
    refused(
        &place.run_with(&["owner", "add", "ada", "--password-stdin"], "short\n"),
        "password",
    );
    refused(
        &place.run_with(&["owner", "add", "ada", "--password-stdin"], ""),
        "password",
    );
    assert!(!place.data().exists(), "something was stored");
    place.add_owner("ada");
    refused(
        &place.run_with(
            &["owner", "add", "ada", "--password-stdin"],
            &format!("{PASSWORD}\n"),
        ),
        "name",
    );
    refused(&place.run(&["owner", "disable", "eve"]), "no owner of this name");
    refused(
        &place.run(&["connector", "list", "--owner", "eve"]),
        "no owner of this name",
    );
    place.add_connector("ada", "mail");
    refused(
        &place.run(&["connector", "add", "mail", "--label", "x", "--data-scope", "y"]),
        "already have a live connector",
    );
    place.ok(&["connector", "revoke", "mail"]);
    refused(&place.run(&["connector", "revoke", "mail"]), "no such connector");
    refused(&place.run(&["connector", "revoke", "1"]), "no such connector");
    place.add_connector("ada", "mail");
    place.add_token("ada");
    place.ok(&["token", "revoke", "1"]);
    for gone in ["1", "99", "x"] {
        refused(&place.run(&["token", "revoke", gone]), "no such live token");
    }
    refused(&place.run(&["chief", "show"]), "you have no chief");
    refused(&place.run(&["chief", "remove"]), "you have no chief");
}

#[test]
fn several_owners_have_to_be_named() {
    let place = Place::new();
    place.add_owner("ada");
    // One owner need not be named.
    place.ok(&["token", "create", "--kind", "personal"]);
    place.add_owner("bob");
    for arguments in [
        &["token", "create", "--kind", "personal"][..],
        &["token", "list"],
        &["connector", "list"],
        &["chief", "show"],
        &["audit", "list"],
    ] {
        usage(&place.run(arguments), "--owner");
    }
    let of = |owner: &str| {
        place
            .json(&["token", "list", "--owner", owner])
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((of("ada"), of("bob")), (1, 0));
    // One owner's connector is not there for another.
    place.add_connector("ada", "mail");
    refused(
        &place.run(&["connector", "revoke", "mail", "--owner", "bob"]),
        "no such connector",
    );
    refused(
        &place.run(&["token", "revoke", "1", "--owner", "bob"]),
        "no such live token",
    );
}

#[test]
fn results_stand_alone_on_standard_output() {
    let place = Place::new();
    let said = place.run_with(
        &["owner", "add", "ada", "--password-stdin"],
        &format!("{PASSWORD}\nsecond line\n"),
    );
    assert_eq!(said.all(), (0, "1\n", ""));
    let alone = |arguments: &[&str], prefix: &str| {
        let said = place.run(arguments);
        // What the token is good for without a task is said beside it.
        let told = if prefix == "mag_" { 1 } else { 0 };
        assert_eq!(said.err.lines().count(), told, "{said:?}");
        let token = said.ok();
        let hex = token.strip_prefix(prefix).unwrap().strip_suffix('\n').unwrap();
        assert!(
            hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()),
            "{token:?}"
        );
    };
    alone(
        &[
            "connector",
            "add",
            "mail",
            "--label",
            "Inbox",
            "--data-scope",
            "notes",
        ],
        "mpl_",
    );
    alone(
        &["token", "create", "--kind", "personal", "--label", "laptop"],
        "mst_",
    );
    alone(&["token", "create", "--kind", "agent"], "mag_");
    alone(
        &["token", "create", "--kind", "mirror-host", "--host", "desk"],
        "mmh_",
    );
    // What only does something prints nothing.
    for arguments in [
        &["token", "revoke", "1"][..],
        &["connector", "revoke", "mail"],
        &["owner", "disable", "ada"],
        &["owner", "enable", "ada"],
    ] {
        let said = place.run(arguments);
        assert_eq!(said.all(), (0, "", ""), "{arguments:?}");
    }
    let set = |command: &str| place.run(&["chief", "set", "--runtime", "command", "--command", command]);
    assert_eq!(
        set("cat -u").all(),
        (0, "ada's chief is now: cat -u (command)\n", "")
    );
    std::fs::copy("/bin/true", place.path("here")).unwrap();
    let beside = set("./here");
    assert_eq!(beside.code(), 0);
    assert!(
        beside.err.contains("not found") && beside.err.contains("write the whole path"),
        "{beside:?}"
    );
    let whole = set(&format!("'{}'", place.path("here").display()));
    assert_eq!((whole.code(), whole.err.as_str()), (0, ""));
    let odd = set("/nonexistent/chief '\u{1b}[2J'");
    assert_eq!(odd.code(), 0);
    assert_eq!(
        odd.out,
        "ada's chief is now: /nonexistent/chief '\\u{1b}[2J' (command)\n"
    );
    assert_eq!(
        odd.err,
        "muster: the chief's program is not found on this machine: /nonexistent/chief '\\u{1b}[2J'\n"
    );
    // An empty list is no error, and no text that a script would take for a row.
    let none = place.run(&["audit", "list", "--event", "no.such.event"]);
    assert_eq!(none.all(), (0, "", "none\n"));
}

#[test]
fn json_is_one_document_whatever_happens() {
    let place = Place::new();
    let added = place
        .run_with(
            &["owner", "add", "ada", "--password-stdin", "--json"],
            &format!("{PASSWORD}\n"),
        )
        .ok();
    assert_eq!(
        serde_json::from_str::<Value>(&added).unwrap(),
        json!({"id": "1", "name": "ada", "disabled": false})
    );
    let connector = place.json(&[
        "connector",
        "add",
        "mail",
        "--label",
        "Inbox",
        "--data-scope",
        "notes",
    ]);
    assert!(
        connector["token"].as_str().unwrap().starts_with("mpl_") && connector["id"] == "1",
        "{connector}"
    );
    let token = place.json(&["token", "create", "--kind", "personal", "--label", "laptop"]);
    assert!(
        token["token"].as_str().unwrap().starts_with("mst_") && token["id"] == "1",
        "{token}"
    );
    let chief = place.json(&["chief", "set", "--runtime", "command", "--command", "cat -u"]);
    assert_eq!(
        (&chief["runtime"], &chief["command"]),
        (&json!("command"), &json!("cat -u"))
    );
    assert_eq!(place.json(&["chief", "show"]), chief);

    assert_eq!(place.json(&["owner", "list"])[0]["name"], "ada");
    let line = &place.json(&["connector", "list"])[0];
    assert_eq!(
        (
            &line["name"],
            &line["label"],
            &line["data_scope"],
            &line["waiting"],
            &line["revoked_at"]
        ),
        (
            &json!("mail"),
            &json!("Inbox"),
            &json!("notes"),
            &json!(0),
            &Value::Null
        )
    );
    assert_eq!(place.json(&["token", "list"])[0]["label"], "laptop");
    let audit = place.json(&["audit", "list"]);
    let row = &audit[0];
    assert_eq!(
        (&row["event"], &row["actor"], &row["data"]),
        (&json!("owner.added"), &json!("administrator"), &json!({}))
    );
    assert_eq!(
        place.json(&["audit", "list", "--limit", "1"])[0]["event"],
        "chief.set",
        "the newest one"
    );
    assert!(
        place
            .json(&["config", "show"])
            .as_array()
            .unwrap()
            .iter()
            .any(|v| v["name"] == "MUSTER_PLUGINS" && v["from"] == "environment")
    );
    assert_eq!(place.json(&["doctor"])["ok"], true);
    assert_eq!(
        place.json(&["token", "revoke", "1"]),
        json!({"id": "1", "revoked": true})
    );
    assert_eq!(
        place.json(&["connector", "revoke", "mail"]),
        json!({"id": "1", "revoked": true})
    );
    assert_eq!(
        place.json(&["owner", "disable", "ada"]),
        json!({"name": "ada", "disabled": true})
    );
    assert_eq!(place.json(&["chief", "remove"]), json!({"chief": null}));

    for (arguments, code) in [
        (&["chief", "show", "--json"][..], "not_found"),
        (&["connector", "revoke", "mail", "--json"], "not_found"),
        (&["owner", "enable", "eve", "--json"], "not_found"),
        (&["--json", "plugins", "retry", "1"], "unauthorized"),
    ] {
        let said = place.run(arguments);
        assert_eq!(said.code(), 1, "{said:?}");
        let document: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["error"]["code"], code);
        let message = document["error"]["message"].as_str().unwrap();
        assert_eq!(
            said.err,
            format!("muster: {message}\n"),
            "the sentence stands on both streams"
        );
    }
}

#[test]
fn a_command_that_prints_for_people_alone_takes_no_json() {
    let place = Place::new();
    for arguments in [
        &["demo", "--json"][..],
        &["--json", "demo", "--listen", "127.0.0.1:0"],
    ] {
        usage(&place.run(arguments), "Nothing was started");
    }
    assert!(!place.data().exists());
}

#[test]
fn flags_may_stand_before_and_after_the_words() {
    let place = Place::new().with("MUSTER_DATA_DIR", "");
    let dir = place.data().display().to_string();
    place
        .run_with(
            &["--data-dir", &dir, "owner", "add", "ada", "--password-stdin"],
            &format!("{PASSWORD}\n"),
        )
        .ok();
    let first = place.ok(&["--json", "--data-dir", &dir, "owner", "list"]);
    assert_eq!(first, place.ok(&["owner", "--data-dir", &dir, "list", "--json"]));
    assert_eq!(first, place.ok(&["owner", "list", "--json", "--data-dir", &dir]));
    assert!(first.contains("ada"));
}

#[test]
fn outside_text_is_spelled_out_on_a_terminal() {
    let place = Place::new();
    place.add_owner("ada");
    place.ok(&[
        "chief",
        "set",
        "--runtime",
        "command",
        "--command",
        "cat '\u{1b}[2J\u{202e}'",
    ]);
    let shown = place.ok(&["chief", "show"]);
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}') && shown.contains("\\u{1b}"),
        "{shown:?}"
    );
    let said = place.run(&["owner", "disable", "x\u{1b}[31m"]);
    assert!(said.code() == 1 && !said.err.contains('\u{1b}'), "{said:?}");
    let said = place.run(&["connector", "list", "--owner", "x\u{1b}]0;t\u{7}"]);
    assert!(said.code() == 1 && !said.err.contains('\u{1b}'), "{said:?}");
}
