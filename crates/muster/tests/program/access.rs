//! Permissions on the command line: what each command prints, how it refuses, how it ends. Never a rule of its own.

use std::io::BufRead as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, Said};

/// A place with an owner, a project, two databases and a policy.
struct Desk {
    place: Place,
}

impl Desk {
    fn new() -> Self {
        let place = Place::new();
        place.add_owner("ada");
        std::fs::create_dir_all(place.path("root")).unwrap();
        let root = place.path("root").display().to_string();
        place.ok(&["project", "add", "engine", "--root", &root]);
        for name in ["staging", "prod"] {
            let file = place.path(name);
            std::fs::write(&file, "").unwrap();
            let url = format!("sqlite://{}", file.display());
            place.ok(&["db", "add", name, "--project", "engine", "--url", &url]);
        }
        place.ok(&["policy", "create", "careful"]);
        Self { place }
    }

    fn ok(&self, args: &[&str]) -> String {
        self.place.ok(args)
    }

    fn json(&self, args: &[&str]) -> Value {
        self.place.json(args)
    }

    /// The error document of a command that must be refused.
    fn refused(&self, args: &[&str]) -> Value {
        let said: Said = self.place.run(&[args, &["--json"]].concat());
        assert_eq!(said.code(), 1, "{args:?}: {said:?}");
        assert!(
            !said.err.is_empty(),
            "{args:?}: the sentence is on standard error too"
        );
        let document: Value = serde_json::from_str(&said.out).unwrap();
        document["error"].clone()
    }

    fn wrong(&self, args: &[&str]) -> String {
        let said = self.place.run(args);
        assert_eq!(said.code(), 2, "{args:?}: {said:?}");
        said.err
    }

    fn task(&self, more: &[&str]) -> String {
        let words = ["task", "add", "--project", "engine", "--title", "Look"];
        self.ok(&[&words, more].concat()).trim().to_owned()
    }
}

// spec: PRE-017 PRE-031 PRE-035
#[test]
fn a_policy_is_made_shown_edited_forked_attached_and_deleted_by_commands() {
    let desk = Desk::new();
    let id = desk.ok(&["policy", "create", "second"]);
    assert!(id.trim().parse::<u64>().is_ok(), "the id alone: {id:?}");
    let grant = desk.json(&[
        "policy",
        "grant",
        "careful",
        "--layer",
        "task",
        "db_read",
        "db_connection:staging",
        "allow",
    ]);
    assert_eq!(
        grant,
        desk.json(&["policy", "show", "careful"]),
        "an edit prints what show prints"
    );
    assert_eq!(grant["revision"], 2);
    assert_eq!(
        grant["layers"]["global"],
        json!({"state": "absent", "grants": []})
    );
    let row = &grant["layers"]["task"]["grants"][0];
    assert_eq!(
        (&row["action"], &row["effect"], &row["dead"]),
        (&json!("db_read"), &json!("allow"), &Value::Null)
    );
    assert_eq!(
        (&row["scope"]["kind"], &row["scope"]["name"]),
        (&json!("db_connection"), &json!("staging"))
    );
    assert_eq!(grant["resolved"][0]["effect"], "allow");
    let fields: Vec<&str> = grant.as_object().unwrap().keys().map(String::as_str).collect();
    for field in [
        "id",
        "name",
        "parent",
        "revision",
        "layers",
        "resolved",
        "dependents",
        "notes",
    ] {
        assert!(fields.contains(&field), "{fields:?}");
    }
    let task = desk.task(&["--policy", "careful"]);
    let fork = desk.ok(&["policy", "fork", "careful", "child", "--task", &task]);
    let child = desk.json(&["policy", "show", fork.trim()]);
    assert_eq!(child["parent"]["name"], "careful");
    assert_eq!(
        child["dependents"]["tasks"][0],
        json!({"id": task, "name": "Look"})
    );
    desk.ok(&["policy", "attach", "careful", "--task", &task]);
    desk.ok(&["policy", "save-empty", "careful", "--layer", "project"]);
    assert_eq!(
        desk.json(&["policy", "show", "careful"])["layers"]["project"]["state"],
        "empty"
    );
    desk.ok(&["policy", "clear-layer", "careful", "--layer", "project"]);
    assert_eq!(
        desk.json(&["policy", "show", "careful"])["layers"]["project"]["state"],
        "absent"
    );
    desk.ok(&[
        "policy",
        "revoke",
        "careful",
        "--layer",
        "task",
        "db_read",
        "db_connection:staging",
    ]);
    assert_eq!(
        desk.json(&["policy", "show", "careful"])["layers"]["task"]["state"],
        "empty"
    );
    desk.ok(&["policy", "delete", "child"]);
    let blocked = desk.refused(&["policy", "delete", "careful"]);
    assert_eq!(blocked["code"], "in_use");
    assert_eq!(blocked["dependents"]["tasks"][0]["id"], json!(task));
    let names: Vec<Value> = desk
        .json(&["policy", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["careful", "second"]);
    let stale = desk.refused(&[
        "policy",
        "save-empty",
        "careful",
        "--layer",
        "task",
        "--revision",
        "1",
    ]);
    assert_eq!(stale["code"], "stale_revision");
    let upper = desk.ok(&["policy", "fork", "careful", "third"]);
    let refused = desk.refused(&["policy", "save-empty", upper.trim(), "--layer", "global"]);
    assert_eq!(refused["code"], "not_a_root");
    for (args, says) in [
        (
            vec!["policy", "save-empty", "careful", "--layer", "foo"],
            "global, project, task",
        ),
        (
            vec![
                "policy", "grant", "careful", "--layer", "task", "db_reed", "any", "allow",
            ],
            "db_read",
        ),
        (
            vec![
                "policy", "grant", "careful", "--layer", "task", "db_read", "any", "maybe",
            ],
            "allow, ask, deny",
        ),
        (
            vec![
                "policy",
                "grant",
                "careful",
                "--layer",
                "task",
                "db_read",
                "project:engine",
                "allow",
            ],
            "never about",
        ),
        (
            vec!["policy", "grant", "careful", "--layer", "task", "db_read"],
            "Usage",
        ),
        (
            vec![
                "policy",
                "apply-preset",
                "careful",
                "all",
                "--layer",
                "task",
                "--project",
                "engine",
            ],
            "observer",
        ),
        (vec!["setting", "set", "asks.nothing", "1"], "no setting"),
        (
            vec!["setting", "set", "asks.expiry_seconds", "0"],
            "from 1 to 86400",
        ),
        (vec!["asks", "list", "--state", "waiting"], "parked"),
        (
            vec!["audit", "list", "--outcome", "fine"],
            "auto_allowed_app_closed",
        ),
    ] {
        let said = desk.wrong(&args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    assert_eq!(desk.refused(&["policy", "show", "nowhere"])["code"], "not_found");
    assert_eq!(
        desk.refused(&["policy", "create", "careful"])["code"],
        "name_taken"
    );
    assert_eq!(desk.json(&["policy", "actions"]).as_array().unwrap().len(), 11);
    assert_eq!(desk.json(&["policy", "presets"]).as_array().unwrap().len(), 5);
}

#[test]
fn a_pair_is_explained_and_so_is_a_file_of_questions() {
    let desk = Desk::new();
    desk.ok(&[
        "policy", "grant", "careful", "--layer", "global", "db_read", "any", "allow",
    ]);
    desk.ok(&[
        "policy",
        "grant",
        "careful",
        "--layer",
        "task",
        "db_read",
        "db_connection:staging",
        "ask",
    ]);
    let one = desk.json(&[
        "policy",
        "explain",
        "--policy",
        "careful",
        "db_read",
        "db_connection:staging",
    ]);
    assert_eq!((&one["verdict"], &one["layer"]), (&json!("ask"), &json!("task")));
    assert_eq!(
        one["layers"]["global"],
        json!({"state": "authored", "effect": "allow"})
    );
    assert_eq!(
        one["layers"]["project"],
        json!({"state": "absent", "effect": null})
    );
    assert_eq!(one["policy"]["name"], "careful");
    let unscoped = desk.task(&["--unscoped"]);
    let shown = desk.json(&[
        "policy",
        "explain",
        "--task",
        &unscoped,
        "db_write",
        "db_connection:prod",
    ]);
    assert_eq!(
        (&shown["verdict"], &shown["policy"]),
        (&json!("unscoped"), &Value::Null)
    );
    assert!(desk.ok(&["task", "show", &unscoped]).contains("LEGACY-UNSCOPED"));
    let all = desk.json(&["policy", "explain", "--policy", "careful"]);
    assert!(all.as_array().unwrap().len() > 5);
    let file = desk.place.path("questions");
    let prod = desk.json(&["db", "show", "prod"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let lines = [
        json!({"policy": "careful", "action": "db_read", "resource": format!("db_connection:{prod}")}),
        json!({"task": unscoped, "action": "db_read", "resource": null}),
    ];
    std::fs::write(&file, lines.map(|line| line.to_string()).join("\n")).unwrap();
    let out = desk.ok(&["policy", "explain", "--from", &file.display().to_string()]);
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&answers[0]["verdict"], &answers[1]["verdict"]),
        (&json!("not_granted"), &json!("unscoped"))
    );
    assert_eq!(answers[1]["resource"], Value::Null);
    desk.wrong(&["policy", "explain", "db_read", "any"]);
}

#[test]
fn a_preset_is_tried_dry_and_policies_go_out_and_come_back() {
    let desk = Desk::new();
    let dry = desk.json(&[
        "policy",
        "apply-preset",
        "careful",
        "analytics-read-only",
        "--layer",
        "task",
        "--project",
        "engine",
        "--dry-run",
    ]);
    assert_eq!(dry["grants"].as_array().unwrap().len(), 2);
    assert_eq!(desk.json(&["policy", "show", "careful"])["revision"], 1);
    desk.ok(&[
        "policy",
        "apply-preset",
        "careful",
        "analytics-read-only",
        "--layer",
        "task",
        "--project",
        "engine",
    ]);
    let exported = desk.ok(&["policy", "export"]);
    let document: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(
        document["policies"][0]["layers"]["task"][0],
        json!(["db_read", "db_connection:staging", "allow"])
    );
    assert_eq!(document["policies"][0]["layers"]["global"], Value::Null);
    let file = desk.place.path("policies.json");
    std::fs::write(&file, &exported).unwrap();
    let file = file.display().to_string();
    assert_eq!(desk.refused(&["policy", "import", &file])["code"], "name_taken");
    desk.ok(&["policy", "save-empty", "careful", "--layer", "task"]);
    desk.ok(&["policy", "import", &file, "--replace"]);
    assert_eq!(desk.ok(&["policy", "export"]), exported);
    std::fs::write(
        &file,
        r#"{"policies":[{"name":"x","layers":{"task":null},"extra":1}]}"#,
    )
    .unwrap();
    assert_eq!(desk.refused(&["policy", "import", &file])["code"], "bad_import");
}

#[test]
fn settings_are_listed_read_and_set() {
    let desk = Desk::new();
    let all = desk.json(&["setting", "list"]);
    let keys: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert_eq!(
        keys,
        [
            "asks.require_when_closed",
            "asks.expiry_seconds",
            "db.max_rows",
            "db.max_bytes",
            "db.timeout_seconds"
        ]
    );
    assert_eq!(desk.ok(&["setting", "get", "asks.expiry_seconds"]), "300\n");
    let set = desk.json(&["setting", "set", "asks.require_when_closed", "true"]);
    assert_eq!((&set["value"], &set["default"]), (&json!(true), &json!(false)));
    let help = desk.ok(&["setting", "set", "--help"]);
    assert!(help.contains("ask behaves as allow"), "{help}");
    let help = desk.ok(&["policy", "--help"]);
    assert!(help.contains("a shell of its own is outside"), "{help}");
}

// spec: AUDIT-008
#[test]
fn the_log_is_filtered_and_verified_and_says_who_stays_to_watch() {
    let desk = Desk::new();
    desk.ok(&["setting", "set", "asks.expiry_seconds", "60"]);
    let rows = desk.json(&["audit", "list", "--event", "setting.set"]);
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["pairs"], json!([]));
    assert!(rows[0]["hash"].as_str().unwrap().len() == 64);
    let verified = desk.json(&["audit", "verify"]);
    assert_eq!(
        (&verified["ok"], &verified["first_bad"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(desk.json(&["audit", "list", "--agent", "nobody"]), json!([]));
    assert_eq!(
        desk.json(&["audit", "list", "--outcome", "auto_allowed_app_closed"]),
        json!([])
    );
    assert_eq!(desk.json(&["asks", "list"]), json!([]));
    assert_eq!(desk.refused(&["asks", "approve", "7"])["code"], "not_found");

    let mut watching = desk
        .place
        .command(&["asks", "watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut reader = std::io::BufReader::new(watching.stderr.take().unwrap());
    reader.read_line(&mut said).unwrap();
    assert_eq!(said, "watching\n");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(watching.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_to_speak_of() {
    let desk = Desk::new();
    let mut child = desk
        .place
        .command(&["policy", "explain", "--policy", "careful", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    child.wait().unwrap();
    assert_eq!(said, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_a_broken_setting_and_a_log_that_somebody_changed() {
    let desk = Desk::new();
    desk.ok(&["setting", "set", "asks.expiry_seconds", "60"]);
    assert_eq!(desk.json(&["doctor"])["ok"], true);
    let look = desk.place.look().await;
    look.damage("UPDATE settings SET value = 'soon'").await;
    let said = desk.place.run(&["doctor"]);
    assert!(
        said.code() == 1 && said.out.contains("muster setting set asks.expiry_seconds 300"),
        "{said:?}"
    );
    desk.ok(&["setting", "set", "asks.expiry_seconds", "60"]);
    look.damage("DROP TRIGGER audit_append_only_update").await;
    look.damage("UPDATE audit SET data = '{}' WHERE event = 'setting.set'")
        .await;
    look.close().await;
    let said = desk.place.run(&["doctor"]);
    assert!(
        said.code() == 1 && said.out.contains("audit log") && said.out.contains("does not follow"),
        "{said:?}"
    );
}

#[test]
fn doctor_finds_out_that_stored_secrets_do_not_open() {
    let desk = Desk::new();
    let doctor = || {
        let said = desk.place.run(&["doctor"]);
        (said.code(), said.out.contains("secrets"), said.out)
    };
    assert_eq!(doctor().0, 0);
    let key = desk.place.data().join("secret.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let (code, told, said) = doctor();
    assert!(code == 1 && told && said.contains("is missing"), "{said}");
    assert!(!key.exists(), "it makes none");
    // That of another data folder.
    std::fs::write(&key, [7_u8; 32]).unwrap();
    let (code, told, said) = doctor();
    assert!(
        code == 1 && told && said.contains("database prod: ") && said.contains("the key is another one"),
        "{said}"
    );
    std::fs::write(&key, kept).unwrap();
    assert_eq!(doctor().0, 0);
}
