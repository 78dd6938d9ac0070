//! What grants name, on the command line: projects, tasks, hosts, integrations, database connections, agents' tokens. Never looks inside but for secrets.

use serde_json::{Value, json};

use crate::support::{Place, Said, below, engines};

fn usage(said: &Said, words: &str) {
    assert_eq!((said.code(), said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains(words), "{words:?} is not in {:?}", said.err);
}

/// The error document of a command that was refused; its sentence is on standard error too.
fn refused(place: &Place, arguments: &[&str]) -> Value {
    let said = place.run(&[arguments, &["--json"]].concat());
    assert_eq!(said.code(), 1, "{said:?}");
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let sentence = document["error"]["message"].as_str().unwrap();
    assert!(said.err.contains(sentence), "{said:?}");
    document["error"].clone()
}

/// A place with one owner and a project `engine` in a folder of its own.
fn place() -> Place {
    let place = Place::new();
    place.add_owner("ada");
    let root = root(&place);
    assert_eq!(place.ok(&["project", "add", "engine", "--root", &root]), "1\n");
    place
}

fn root(place: &Place) -> String {
    let folder = place.path("engine");
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn add_hub(place: &Place, arguments: &[&str]) -> Said {
    let words = [
        "integration",
        "add",
        "hub",
        "--kind",
        "github",
        "--url",
        "https://api.github.com",
        "--token-stdin",
    ];
    place.run_with(&[&words, arguments].concat(), "ghp_the-token\n")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_goes_through_its_life_on_each_engine() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let root = root(&place);
        // A relative folder, and flags before the words.
        let added = place.json(&["--owner", "ada", "project", "add", "--root", "engine", "engine"]);
        let shown = json!({"id": "1", "name": "engine", "root": root, "repo": null, "default_policy": null});
        assert_eq!(added, shown);
        for words in [
            &["project", "show", "engine"][..],
            &["project", "show", "1"],
            &["project", "--owner", "ada", "show", "engine"],
            &["project", "show", "engine", "--owner", "ada"],
        ] {
            assert_eq!(place.json(words), shown);
        }
        assert_eq!(keys(&shown), ["id", "name", "root", "repo", "default_policy"]);
        assert_eq!(place.json(&["project", "list"]), json!([shown]));
        assert_eq!(
            refused(&place, &["project", "add", "engine", "--root", "."])["code"],
            "name_taken"
        );
        assert_eq!(place.ok(&["project", "rename", "engine", "motor"]), "");
        assert_eq!(place.json(&["project", "show", "1"])["name"], "motor");
        assert_eq!(
            refused(&place, &["project", "show", "engine"])["code"],
            "not_found"
        );

        add_hub(&place, &[]).ok();
        let with_repo = place.json(&[
            "project",
            "add",
            "engine",
            "--root",
            ".",
            "--repo",
            "ada/engine",
            "--integration",
            "hub",
        ]);
        assert_eq!(
            with_repo["repo"],
            json!({"kind": "repo", "id": "ada/engine", "name": "ada/engine"})
        );
        // A name that was taken may have cost an id.
        let second = with_repo["id"].as_str().unwrap();
        let in_use = refused(&place, &["integration", "remove", "hub"]);
        assert_eq!(
            (&in_use["code"], &in_use["dependents"]),
            (
                &json!("in_use"),
                &json!({"projects": [{"id": second, "name": "engine"}]})
            )
        );
        let removed = place.json(&["project", "remove", second]);
        assert_eq!(
            (&removed["id"], &removed["name"]),
            (&json!(second), &json!("engine"))
        );
        assert_eq!(refused(&place, &["project", "show", second])["code"], "not_found");
        place.ok(&["integration", "remove", "hub"]);
        let third = place.ok(&["project", "add", "engine", "--root", "."]);
        assert_ne!(third.trim_end(), second, "an id came back");
        let events: Vec<Value> = place
            .json(&["audit", "list"])
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["event"].clone())
            .filter(|event| event.as_str().unwrap().starts_with("project."))
            .collect();
        assert_eq!(
            events,
            [
                "project.add",
                "project.rename",
                "project.add",
                "project.remove",
                "project.add"
            ]
        );
        place.end().await;
    }
}

#[test]
fn a_project_in_use_is_not_removed_and_says_by_what() {
    let place = place();
    place.ok(&["task", "add", "--project", "engine", "--title", "evil\u{1b}[2J"]);
    place.ok(&[
        "db",
        "add",
        "local",
        "--project",
        "engine",
        "--url",
        "sqlite:///srv/app.db",
    ]);
    let error = refused(&place, &["project", "remove", "engine"]);
    assert_eq!(error["code"], "in_use");
    assert_eq!(
        error["dependents"],
        json!({"tasks": [{"id": "1", "name": "evil\u{1b}[2J"}], "db_connections": [{"id": "1", "name": "local"}]})
    );
    let said = place.run(&["project", "remove", "engine"]);
    assert!(
        said.err.contains(r"1 evil\u{1b}[2J, 1 local") && !said.err.contains('\u{1b}'),
        "{said:?}"
    );
    place.ok(&["task", "close", "1"]);
    place.ok(&["db", "remove", "local"]);
    place.ok(&["project", "remove", "engine"]);
    // What is closed keeps the project's last name.
    assert_eq!(
        place.json(&["task", "show", "1"])["project"],
        json!({"kind": "project", "id": "1", "name": "engine"})
    );
    assert_eq!(
        refused(&place, &["task", "set-status", "1", "open"])["code"],
        "project_removed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_through_its_life_on_each_engine() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        place.ok(&["project", "add", "engine", "--root", "."]);
        let added = place.json(&[
            "task",
            "add",
            "--project",
            "engine",
            "--title",
            "t",
            "--body",
            "b\n",
        ]);
        let shown = json!({
            "id": "1", "title": "t", "body": "b\n", "status": "open",
            "project": {"kind": "project", "id": "1", "name": "engine"},
            "policy": {"id": "closed", "name": "closed", "revision": 0},
            "unscoped": false, "worktree": null, "runs": [],
        });
        assert_eq!(added, shown);
        assert_eq!(place.json(&["task", "show", "1"]), shown);
        assert_eq!(place.ok(&["task", "set-status", "1", "in_progress"]), "");
        assert_eq!(
            place.json(&["task", "set-status", "1", "ready_for_review"])["status"],
            "ready_for_review"
        );
        assert_eq!(place.ok(&["task", "spawn", "1"]), "1\n");
        assert_eq!(
            place.json(&["task", "spawn", "1"]),
            json!({"id": "2", "state": "queued"})
        );
        assert_eq!(
            place.json(&["task", "cancel-run", "1"]),
            json!({"id": "1", "state": "cancelled"})
        );
        assert_eq!(
            refused(&place, &["task", "cancel-run", "1"])["code"],
            "not_queued"
        );
        assert_eq!(refused(&place, &["task", "cancel-run", "9"])["code"], "not_found");
        let closed = place.json(&["task", "close", "1"]);
        assert_eq!(
            (&closed["status"], &closed["runs"]),
            (
                &json!("closed"),
                &json!([{"id": "1", "state": "cancelled"}, {"id": "2", "state": "cancelled"}])
            )
        );
        assert_eq!(refused(&place, &["task", "spawn", "1"])["code"], "closed");
        assert_eq!(place.json(&["task", "set-status", "1", "open"])["status"], "open");
        assert_eq!(
            place.json(&["task", "set-status", "1", "closed"])["status"],
            "closed"
        );

        let free = place.json(&["task", "add", "--project", "1", "--title", "t", "--unscoped"]);
        assert_eq!((&free["policy"], &free["unscoped"]), (&Value::Null, &json!(true)));
        for words in [&["task", "list"][..], &["task", "show", "2"]] {
            let said = place.ok(words);
            assert!(said.contains("LEGACY-UNSCOPED"), "{said}");
        }
        place.ok(&[
            "task",
            "add",
            "--project",
            "1",
            "--title",
            "t",
            "--policy",
            "closed",
        ]);
        place.ok(&["project", "add", "motor", "--root", "."]);
        let of = |words: &[&str]| -> Vec<Value> {
            place
                .json(words)
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["id"].clone())
                .collect()
        };
        assert_eq!(of(&["task", "list"]), ["1", "2", "3"]);
        assert_eq!(of(&["task", "list", "--project", "engine"]), ["1", "2", "3"]);
        assert_eq!(of(&["task", "list", "--project", "motor"]), Vec::<Value>::new());
        for words in [
            &["task", "list", "--project", "none"][..],
            &["task", "show", "99"],
            &["task", "show", "t"],
            &["task", "close", "99"],
            &["task", "spawn", "0"],
            &["task", "add", "--project", "none", "--title", "t"],
            &[
                "task",
                "add",
                "--project",
                "engine",
                "--title",
                "t",
                "--policy",
                "none",
            ],
            &["project", "set-default", "engine", "none"],
        ] {
            assert_eq!(refused(&place, words)["code"], "not_found", "{words:?}");
        }
        assert_eq!(of(&["task", "list"]).len(), 3, "something was stored");
        place.end().await;
    }
}

#[test]
fn a_tasks_worktree_is_made_and_shown_and_its_path_alone_is_printed() {
    let place = place();
    let git = |words: &[&str]| {
        let done = std::process::Command::new("git")
            .args(words)
            .current_dir(root(&place))
            .env("HOME", place.path("home"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?} {done:?}");
    };
    place.ok(&["task", "add", "--project", "engine", "--title", "t"]);
    assert_eq!(refused(&place, &["task", "worktree", "1"])["code"], "worktree");
    git(&["init", "-q", "-b", "main"]);
    std::fs::write(place.path("engine").join("file"), "one\n").unwrap();
    git(&["add", "file"]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "-m",
        "one",
    ]);
    let printed = place.ok(&["task", "worktree", "1"]);
    let path = std::path::Path::new(printed.trim_end());
    assert_eq!(printed.lines().count(), 1);
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "one\n");
    let shown = place.json(&["task", "worktree", "1"]);
    assert_eq!(
        shown,
        json!({"id": "1", "path": path, "branch": "muster/task-1", "base": "main"})
    );
    assert_eq!(place.json(&["task", "show", "1"])["worktree"], shown);
    assert!(
        place
            .ok(&["task", "show", "1"])
            .contains("muster/task-1 from main")
    );
    assert_eq!(refused(&place, &["task", "worktree", "9"])["code"], "not_found");
}

#[test]
fn a_policy_is_chosen_by_its_id_or_name_and_shown_with_its_revision() {
    let place = place();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let file = place.data().join("muster.db");
    runtime.block_on(async {
        use sqlx::Connection as _;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let mut db = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        for name in ["careful", "bold"] {
            sqlx::query("INSERT INTO policies (owner_id, name, revision, created_at, updated_at) VALUES (1, $1, 5, 1, 1)")
                .bind(name)
                .execute(&mut db)
                .await
                .unwrap();
        }
        db.close().await.unwrap();
    });
    let careful = json!({"id": "1", "name": "careful", "revision": 5});
    for word in ["careful", "1"] {
        let added = place.json(&[
            "task",
            "add",
            "--project",
            "engine",
            "--title",
            "t",
            "--policy",
            word,
        ]);
        assert_eq!((&added["policy"], &added["unscoped"]), (&careful, &json!(false)));
    }
    let set = place.json(&["project", "set-default", "engine", "bold"]);
    assert_eq!(set["default_policy"], json!({"id": "2", "name": "bold"}));
    let by_default = place.json(&["task", "add", "--project", "engine", "--title", "t"]);
    assert_eq!(by_default["policy"]["name"], "bold");
    let by_flag = place.json(&[
        "task",
        "add",
        "--project",
        "engine",
        "--title",
        "t",
        "--policy",
        "closed",
    ]);
    assert_eq!(by_flag["policy"]["id"], "closed");
    let none = place.json(&["project", "set-default", "engine", "--none"]);
    assert_eq!(none["default_policy"], Value::Null);
    assert!(place.ok(&["task", "show", "1"]).contains("careful, revision 5"));
}

#[test]
fn hosts_and_integrations_are_added_listed_shown_renamed_and_removed() {
    let place = place();
    assert_eq!(place.ok(&["host", "add", "tower"]), "1\n");
    assert_eq!(
        place.json(&["host", "add", "desk"]),
        json!({"id": "2", "name": "desk"})
    );
    assert_eq!(
        place.json(&["host", "list"]),
        json!([{"id": "1", "name": "tower"}, {"id": "2", "name": "desk"}])
    );
    assert_eq!(
        place.json(&["host", "rename", "tower", "cellar"]),
        json!({"id": "1", "name": "cellar"})
    );
    assert_eq!(
        refused(&place, &["host", "rename", "1", "desk"])["code"],
        "name_taken"
    );
    assert_eq!(place.json(&["host", "show", "cellar"])["id"], "1");
    assert_eq!(place.json(&["host", "remove", "cellar"])["name"], "cellar");
    assert_eq!(refused(&place, &["host", "remove", "1"])["code"], "not_found");
    assert_eq!(place.ok(&["host", "add", "cellar"]), "3\n");

    let shown = json!({"id": "1", "name": "hub", "kind": "github", "url": "https://api.github.com"});
    let added: Value = serde_json::from_str(&add_hub(&place, &["--json"]).ok()).unwrap();
    assert_eq!(added, shown);
    assert_eq!(place.json(&["integration", "show", "hub"]), shown);
    assert_eq!(place.json(&["integration", "list"]), json!([shown]));
    assert_eq!(add_hub(&place, &[]).code(), 1);
    assert_eq!(
        place.json(&["integration", "rename", "hub", "work"])["name"],
        "work"
    );
    assert_eq!(place.json(&["integration", "remove", "work"])["id"], "1");
    assert_eq!(place.json(&["integration", "list"]), json!([]));
}

#[test]
fn secrets_are_read_from_standard_input_and_shown_nowhere() {
    let place = place();
    let mut said = vec![add_hub(&place, &[])];
    said.push(place.run_with(
        &[
            "db",
            "add",
            "staging",
            "--project",
            "engine",
            "--url-stdin",
            "--write-url-stdin",
            // Nobody answers there, so what the account may do is not known.
            "--accept-wide-account",
            "--json",
        ],
        "postgres://reader:hush-1@127.0.0.1:1/db.test\npostgres://writer:hush-2@127.0.0.1:1/db.test\n",
    ));
    let staging = json!({
        "id": "1", "name": "staging", "engine": "postgres",
        "project": {"kind": "project", "id": "1", "name": "engine"},
        "wide": true, "looked": true, "has_write_account": true,
    });
    assert_eq!(serde_json::from_str::<Value>(&said[1].out).unwrap(), staging);
    for words in [
        &["db", "list"][..],
        &["db", "show", "staging"],
        &["db", "rename", "staging", "rehearsal", "--json"],
        &["integration", "list"],
        &["integration", "show", "hub", "--json"],
        &["audit", "list"],
        &["audit", "list", "--json"],
        &[
            "db",
            "add",
            "bad",
            "--project",
            "engine",
            "--url",
            "oracle://reader:hush-3@db/app",
        ],
        &[
            "db",
            "add",
            "bad",
            "--project",
            "none",
            "--url",
            "redis://:hush-4@db",
        ],
    ] {
        said.push(place.run(words));
    }
    assert_eq!(place.json(&["db", "list"]).as_array().unwrap().len(), 1);
    for said in &said {
        assert!(
            !said.out.contains("hush-") && !said.err.contains("hush-") && !said.out.contains("the-token"),
            "{said:?}"
        );
    }
    for file in below(&place.data()).into_iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        for word in ["hush-", "the-token", "db.test"] {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "{word} stands in {}", file.display());
        }
    }
    // Without the key nothing new is sealed, and it is said what to do.
    let key = place.data().join("secret.key");
    assert_eq!(std::fs::read(&key).unwrap().len(), 32);
    std::fs::rename(&key, place.path("aside")).unwrap();
    let error = refused(
        &place,
        &[
            "db",
            "add",
            "more",
            "--project",
            "engine",
            "--url",
            "sqlite:///srv/a.db",
        ],
    );
    assert_eq!(error["code"], "key_missing");
    assert!(error["message"].as_str().unwrap().contains("from a backup"));
    std::fs::rename(place.path("aside"), &key).unwrap();
    assert_eq!(
        place.ok(&[
            "db",
            "add",
            "more",
            "--project",
            "engine",
            "--url",
            "sqlite:///srv/a.db"
        ]),
        "2\n"
    );
    // Wide is what the owner took unseen, and a file has no accounts.
    for (name, url, wide) in [
        ("a", "mysql://127.0.0.1:1/app", true),
        ("b", "sqlite:///srv/b.db", false),
    ] {
        let added = place.json(&[
            "db",
            "add",
            name,
            "--project",
            "engine",
            "--url",
            url,
            "--accept-wide-account",
        ]);
        assert_eq!(
            (&added["wide"], &added["has_write_account"]),
            (&json!(wide), &json!(false))
        );
    }
}

#[test]
fn wrong_words_are_exit_code_2_and_store_nothing() {
    let place = place();
    for name in ["UPPER", "42", "-x", "a b", "a/b", "", &"a".repeat(65), "\u{e9}"] {
        for words in [
            &["host", "add", "--", name][..],
            &["project", "add", "--root", ".", "--", name],
            &["project", "rename", "engine", "--", name],
            &[
                "db",
                "add",
                "--project",
                "engine",
                "--url",
                "redis://db",
                "--",
                name,
            ],
        ] {
            let said = place.run(words);
            assert_eq!((said.code(), said.out.as_str()), (2, ""), "{words:?} {said:?}");
        }
    }
    usage(&place.run(&["project", "add", "x"]), "--root");
    usage(
        &place.run(&["project", "add", "x", "--root", ".", "--repo", "a/b"]),
        "--integration",
    );
    usage(
        &place.run(&["project", "add", "x", "--root", ".", "--integration", "hub"]),
        "--repo",
    );
    usage(
        &place.run(&[
            "project",
            "add",
            "x",
            "--root",
            ".",
            "--repo",
            "x",
            "--integration",
            "hub",
        ]),
        "OWNER/NAME",
    );
    usage(&place.run(&["project", "set-default", "engine"]), "POLICY");
    usage(
        &place.run(&["project", "set-default", "engine", "p", "--none"]),
        "--none",
    );
    usage(&place.run(&["task", "add", "--project", "engine"]), "--title");
    usage(
        &place.run(&["task", "add", "--project", "engine", "--title", " "]),
        "title",
    );
    usage(
        &place.run(&[
            "task",
            "add",
            "--project",
            "engine",
            "--title",
            "t",
            "--policy",
            "p",
            "--unscoped",
        ]),
        "--unscoped",
    );
    usage(
        &place.run(&["task", "set-status", "1", "done"]),
        "ready_for_review",
    );
    usage(&place.run(&["task", "set-status", "1"]), "STATUS");
    usage(
        &place.run(&[
            "integration",
            "add",
            "x",
            "--kind",
            "github",
            "--url",
            "https://x",
        ]),
        "--token-stdin",
    );
    for (kind, url, token) in [
        ("gitea", "https://forge.test", "t"),
        ("github", "http://forge.test", "t"),
        ("github", "https://ada:word@forge.test", "t"),
        ("github", "forge.test", "t"),
        ("github", "https://forge.test", ""),
        ("github", "https://forge.test", "two words"),
    ] {
        let said = place.run_with(
            &[
                "integration",
                "add",
                "x",
                "--kind",
                kind,
                "--url",
                url,
                "--token-stdin",
            ],
            &format!("{token}\n"),
        );
        assert_eq!((said.code(), said.out.as_str()), (2, ""), "{kind} {url} {said:?}");
        assert!(!said.err.contains("word@"), "{said:?}");
    }
    usage(&place.run(&["db", "add", "x", "--project", "engine"]), "--url");
    usage(
        &place.run(&[
            "db",
            "add",
            "x",
            "--project",
            "engine",
            "--url",
            "redis://db",
            "--url-stdin",
        ]),
        "--url-stdin",
    );
    usage(
        &place.run(&[
            "db",
            "add",
            "x",
            "--project",
            "engine",
            "--url",
            "redis://a",
            "--write-url",
            "mysql://a",
        ]),
        "same engine",
    );
    usage(
        &place.run(&["token", "create", "--kind", "personal", "--task", "1"]),
        "agent",
    );
    for words in [
        ["host", "list"],
        ["task", "list"],
        ["integration", "list"],
        ["db", "list"],
        ["token", "list"],
    ] {
        assert_eq!(place.json(&words), json!([]), "{words:?}");
    }
    assert_eq!(place.json(&["project", "list"]).as_array().unwrap().len(), 1);
    // A folder that is not there is no slip of the pen but a refusal.
    let error = refused(&place, &["project", "add", "x", "--root", "/none/\u{1b}[2J"]);
    assert_eq!(error["code"], "not_a_folder");
    assert!(!error["message"].as_str().unwrap().contains('\u{1b}'));
}

#[test]
fn hostile_words_are_exact_in_json_and_escaped_on_a_terminal() {
    let place = place();
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}txt.exe\u{200b}\nID  1";
    place.ok(&[
        "task",
        "add",
        "--project",
        "engine",
        "--title",
        hostile,
        "--body",
        hostile,
    ]);
    place.ok(&[
        "token", "create", "--kind", "agent", "--task", "1", "--label", hostile,
    ]);
    let shown = place.json(&["task", "show", "1"]);
    assert_eq!(
        (&shown["title"], &shown["body"]),
        (&json!(hostile), &json!(hostile))
    );
    assert_eq!(place.json(&["task", "list"])[0]["title"], hostile);
    let token = &place.json(&["token", "list"])[0];
    assert_eq!(
        (&token["label"], &token["task"]),
        (&json!(hostile), &json!({"id": "1", "title": hostile}))
    );
    for words in [&["task", "list"][..], &["task", "show", "1"], &["token", "list"]] {
        let said = place.ok(words);
        assert!(
            said.contains(r"\u{1b}]0;owned\u{7}\u{202e}txt.exe\u{200b}\nID  1"),
            "{said}"
        );
        assert!(
            said.chars().all(|c| c == '\n' || !c.is_control()) && !said.contains(['\u{202e}', '\u{200b}']),
            "{said:?}"
        );
    }
}

#[test]
fn an_agents_token_is_for_an_open_task_of_its_owner() {
    let place = place();
    place.add_owner("bob");
    place.ok(&[
        "task",
        "add",
        "--owner",
        "ada",
        "--project",
        "engine",
        "--title",
        "t",
    ]);
    let create = |owner: &'static str, task: &'static str| {
        vec![
            "token", "create", "--owner", owner, "--kind", "agent", "--task", task, "--label", "worker",
        ]
    };
    let made = place.json(&create("ada", "1"));
    assert_eq!(keys(&made), ["id", "token"]);
    assert!(made["token"].as_str().unwrap().starts_with("mag_"));
    let printed = place.ok(&create("ada", "1"));
    assert!(printed.starts_with("mag_") && printed.lines().count() == 1);
    for (owner, task) in [("bob", "1"), ("ada", "9"), ("ada", "t")] {
        assert_eq!(refused(&place, &create(owner, task))["code"], "not_found");
    }
    place.ok(&["task", "close", "1", "--owner", "ada"]);
    assert_eq!(refused(&place, &create("ada", "1"))["code"], "not_found");
    let listed = place.json(&["token", "list", "--owner", "ada"]);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["task"], json!({"id": "1", "title": "t"}));
    // Bob sees none of it, and with two owners one has to be named.
    for words in [["project", "list"], ["task", "list"], ["token", "list"]] {
        assert_eq!(place.json(&[&words[..], &["--owner", "bob"]].concat()), json!([]));
        usage(&place.run(&words), "--owner");
    }
    assert_eq!(
        refused(&place, &["task", "show", "1", "--owner", "bob"])["code"],
        "not_found"
    );
}
