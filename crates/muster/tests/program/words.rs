//! What commands say beside their results: which account is meant, examples that can be copied, wrong words made visible, warnings. Never looks inside but to damage.

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// An owner with a project, a database connection and a policy.
fn desk() -> Place {
    let place = Place::new();
    place.add_owner("ada");
    std::fs::create_dir_all(place.path("root")).unwrap();
    let root = place.path("root").display().to_string();
    place.ok(&["project", "add", "engine", "--root", &root]);
    let file = place.path("staging");
    std::fs::write(&file, "").unwrap();
    let url = format!("sqlite://{}", file.display());
    place.ok(&["db", "add", "staging", "--project", "engine", "--url", &url]);
    place.ok(&["policy", "create", "careful"]);
    place
}

fn code(said: &Said) -> Value {
    assert_eq!(said.code(), 1, "{said:?}");
    let document: Value = serde_json::from_str(&said.out).unwrap();
    document["error"]["code"].clone()
}

#[test]
fn an_account_is_named_by_the_flag_then_by_the_variable_and_is_asked_for_without_either() {
    let place = Place::new();
    place.add_owner("ada");
    place.add_owner("bob");
    let said = place.run(&["policy", "list"]);
    assert_eq!((said.code(), said.out.as_str()), (2, ""));
    for words in ["ada, bob", "--owner NAME", "MUSTER_OWNER"] {
        assert!(said.err.contains(words), "{words}: {said:?}");
    }
    let place = place.with("MUSTER_OWNER", "ada");
    place.ok(&["policy", "create", "of-ada"]);
    place.ok(&["--owner", "bob", "policy", "create", "of-bob"]);
    let names = |more: &[&str]| {
        let listed = place.json(&[&["policy", "list"], more].concat());
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["of-ada"]);
    assert_eq!(names(&["--owner", "bob"]), ["of-bob"]);
    let shown = place.json(&["config", "show"]);
    let row = shown
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "MUSTER_OWNER")
        .unwrap();
    assert_eq!(
        (&row["value"], &row["from"]),
        (&json!("ada"), &json!("environment"))
    );
    // The file says the same; one that is nobody's name is refused with the name of what named it.
    let place = place.with("MUSTER_OWNER", "");
    std::fs::write(place.data().join("muster.toml"), "owner = \"bob\"\n").unwrap();
    assert_eq!(place.json(&["policy", "list"])[0]["name"], "of-bob");
    let place = place.with("MUSTER_OWNER", "eve\u{202e}");
    let said = place.run(&["policy", "list", "--json"]);
    assert_eq!(code(&said), "not_found");
    assert!(said.err.contains("MUSTER_OWNER is eve\\u{202e}"), "{said:?}");
}

#[test]
fn an_example_of_the_help_is_one_line_that_can_be_copied() {
    let place = Place::new();
    for (words, example) in [
        (
            &["policy", "apply-preset"][..],
            "muster policy apply-preset careful analytics-read-only --layer task --project engine --dry-run",
        ),
        (
            &["integration"],
            "printf '%s\\n' \"$TOKEN\" | muster integration add hub --kind github --url https://api.github.com --token-stdin",
        ),
        (
            &["bus", "node", "up"],
            "AGENT_COORD_TOKEN=tk_… muster bus node up --server https://bus:8765/mcp --id worker-2 --cmd claude",
        ),
    ] {
        for help in [[words, &["--help"]].concat(), [&["help"], words].concat()] {
            let said = place.ok(&help);
            let line = format!("Example: {example}");
            assert!(said.lines().any(|other| other == line), "{help:?}: {said}");
        }
    }
    // Text for reading is broken where a line ends.
    let said = place.ok(&["policy", "grant", "--help"]);
    assert!(
        said.lines()
            .all(|line| line.starts_with("Example: ") || line.chars().count() <= 100),
        "{said}"
    );
}

#[test]
fn a_wrong_word_is_shown_with_what_cannot_be_seen_in_it_spelled_out() {
    let place = Place::new();
    let odd = "li\u{202e}st\u{1b}]0;t\u{7}";
    let flag = format!("--{odd}");
    for words in [
        &["policy", odd][..],
        &[odd],
        &["policy", "list", &flag],
        &["policy", "list", odd],
        &["audit", "list", "--limit", odd],
    ] {
        let said = place.run(words);
        assert_eq!((said.code(), said.out.as_str()), (2, ""), "{said:?}");
        assert!(said.err.contains("li\\u{202e}st\\u{1b}]0;t\\u{7}"), "{said:?}");
        assert!(!said.err.contains(['\u{202e}', '\u{1b}', '\u{7}']), "{said:?}");
    }
}

#[test]
fn an_edit_that_was_meant_for_another_revision_is_refused_by_every_command_that_takes_one() {
    let place = desk();
    place.ok(&[
        "policy", "grant", "careful", "--layer", "task", "db_read", "any", "allow",
    ]);
    let file = place.path("careful.json");
    std::fs::write(&file, place.ok(&["policy", "export", "careful"])).unwrap();
    let file = file.display().to_string();
    let preset = [
        "policy",
        "apply-preset",
        "careful",
        "analytics-read-only",
        "--layer",
        "task",
        "--project",
        "engine",
    ];
    for words in [
        &["policy", "import", &file, "--replace"][..],
        &["project", "set-default", "engine", "careful"],
        &[&preset[..], &["--dry-run"]].concat(),
        &preset,
    ] {
        let stale = place.run(&[words, &["--revision", "1", "--json"]].concat());
        assert_eq!(code(&stale), "stale_revision", "{words:?}");
        let current = place.json(&["policy", "show", "careful"])["revision"].to_string();
        place.ok(&[words, &["--revision", &current]].concat());
    }
    let stale = place.run(&[
        "project",
        "set-default",
        "engine",
        "--none",
        "--revision",
        "1",
        "--json",
    ]);
    assert_eq!(code(&stale), "stale_revision");
    place.ok(&["project", "set-default", "engine", "--none", "--revision", "0"]);
}

#[test]
fn what_a_command_made_that_will_do_nothing_is_said_on_standard_error_alone() {
    let place = desk();
    let grant = |layer: &str, effect: &str| {
        place.run(&[
            "policy",
            "grant",
            "careful",
            "--layer",
            layer,
            "db_read",
            "db_connection:staging",
            effect,
            "--json",
        ])
    };
    let said = grant("global", "deny");
    assert_eq!((said.code(), said.err.as_str()), (0, ""));
    let said = grant("task", "allow");
    assert_eq!(said.code(), 0);
    assert!(
        said.err
            .contains("(staging) can never fire: the global layer leaves nothing of it"),
        "{said:?}"
    );
    let printed: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(printed, place.json(&["policy", "show", "careful"]));
    let said = place.run(&[
        "policy",
        "grant",
        "careful",
        "--layer",
        "global",
        "hosts_read",
        "any",
        "allow",
    ]);
    assert!(
        said.code() == 0 && said.err.contains("nothing is registered yet"),
        "{said:?}"
    );
    // A token for no task.
    let said = place.run(&["token", "create", "--kind", "agent"]);
    assert!(
        said.code() == 0 && said.out.starts_with("mag_") && said.out.lines().count() == 1,
        "{said:?}"
    );
    assert!(
        said.err.contains("for no task") && said.err.contains("--task"),
        "{said:?}"
    );
    let task = place.ok(&["task", "add", "--project", "engine", "--title", "Look"]);
    let said = place.run(&["token", "create", "--kind", "agent", "--task", task.trim()]);
    assert_eq!((said.code(), said.err.as_str()), (0, ""));
}

#[test]
fn a_simulation_of_what_is_no_policy_replays_nothing_and_says_so() {
    let place = desk();
    let file = place.path("bad.json");
    for text in ["{", "{\"policies\": []}", "{\"name\": 1}"] {
        std::fs::write(&file, text).unwrap();
        let said = place.run(&[
            "policy",
            "simulate",
            "careful",
            "--with",
            &file.display().to_string(),
        ]);
        assert_eq!(said.code(), 1, "{said:?}");
        assert!(
            said.err.contains("nothing was replayed") && !said.err.contains("imported"),
            "{said:?}"
        );
        let said = place.run(&["policy", "import", &file.display().to_string()]);
        assert!(!said.err.contains("replayed"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_the_log_that_is_no_text_is_named_and_the_others_are_listed() {
    let place = desk();
    let before = place.json(&["audit", "list"]);
    let rows = before.as_array().unwrap();
    let broken = rows[1]["id"].as_str().unwrap();
    let look = place.look().await;
    look.damage("DROP TRIGGER audit_append_only_update").await;
    look.damage(&format!(
        "UPDATE audit SET actor = CAST(x'ff' AS TEXT), data = CAST(x'fe' AS TEXT) WHERE id = {broken}"
    ))
    .await;
    look.close().await;
    let said = place.run(&["audit", "list", "--json"]);
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(
        said.err
            .contains(&format!("row {broken} cannot be read whole (actor, data)")),
        "{said:?}"
    );
    let listed: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), rows.len());
    for (now, then) in listed.as_array().unwrap().iter().zip(rows) {
        if now["id"] == json!(broken) {
            assert_eq!(now["unreadable"], json!(["actor", "data"]));
            assert_eq!((&now["event"], &now["hash"]), (&then["event"], &then["hash"]));
        } else {
            assert_eq!(now, then);
        }
    }
    let said = place.run(&["audit", "list"]);
    assert!(said.code() == 0 && said.out.contains("(unreadable)"), "{said:?}");
    let said = place.run(&["audit", "verify", "--json"]);
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code(), &found["first_bad"]), (1, &json!(broken)));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_layers_that_are_left_of_a_policy_and_what_they_mean() {
    let place = desk();
    place.ok(&[
        "policy", "grant", "careful", "--layer", "task", "db_read", "any", "allow",
    ]);
    let task = place.ok(&[
        "task",
        "add",
        "--project",
        "engine",
        "--title",
        "Look\u{202e}",
        "--policy",
        "careful",
    ]);
    assert_eq!(place.json(&["doctor"])["ok"], true);
    let look = place.look().await;
    look.damage("PRAGMA foreign_keys = OFF").await;
    look.damage("DELETE FROM policies WHERE name = 'careful'").await;
    look.close().await;
    let said = place.run(&["doctor"]);
    assert_eq!(said.code(), 1, "{said:?}");
    for words in [
        "is gone and its layers (task) are still there",
        "They grant nothing",
        &format!("task {} (Look\\u{{202e}}) still point", task.trim()),
        "is refused",
    ] {
        assert!(said.out.contains(words), "{words}: {said:?}");
    }
}

#[test]
fn asks_that_wait_no_more_are_listed_by_one_flag() {
    let place = desk();
    assert_eq!(place.json(&["asks", "list", "--ended"]), json!([]));
    assert_eq!(
        place
            .run(&["asks", "list", "--ended", "--state", "expired"])
            .code(),
        2
    );
}
