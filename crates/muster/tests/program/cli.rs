//! The command line as scripts and people meet it: exit codes, what goes to which stream, help, completions, commands beside a running server. Never looks inside.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{PASSWORD, Place, Said, engines, message};

/// The commands that `--help` of a command lists, without `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    // A description that needs a second line is indented further.
    let names = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command of the program, as its words.
fn commands(place: &Place, words: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let mut all = vec![words.to_vec()];
    for name in subcommands(&place.ok(&arguments)) {
        all.extend(commands(place, &[words, &[name]].concat()));
    }
    all
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let all = commands(&place, &[]);
    let of = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for known in [
        "serve",
        "demo",
        "owner add",
        "owner passwd",
        "token revoke",
        "connector add",
        "chief set",
        "plugins retry",
        "audit list",
        "config show",
        "doctor",
        "completions",
        "man",
    ] {
        assert!(all.contains(&of(known)), "{known} is not in {all:?}");
    }
    for words in all {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        for flag in ["--help", "-h"] {
            arguments.push(flag);
            let said = place.run(&arguments);
            assert_eq!((said.code(), said.err.as_str()), (0, ""), "{words:?}");
            let example = said
                .out
                .split_once("Example: ")
                .unwrap_or_else(|| panic!("muster {} has no example:\n{}", words.join(" "), said.out))
                .1;
            assert!(
                example.contains(&format!("muster {}", words.join(" "))),
                "{words:?}: {example}"
            );
            arguments.pop();
        }
    }
    assert!(!place.data().exists(), "help made a data folder");
}

#[test]
fn completions_exist_for_each_shell_and_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = place.ok(&["completions", shell]);
        for word in ["connector", "password-stdin", "data-scope"] {
            assert!(text.contains(word), "{shell} does not complete {word}");
        }
        for hidden in ["demo-chief", "demo-connector", "demo__chief"] {
            assert!(
                !text.contains(hidden),
                "{shell} offers {hidden}, which is no command for people"
            );
        }
    }
    let script = place.path("muster.bash");
    std::fs::write(&script, place.ok(&["completions", "bash"])).unwrap();
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(&script)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(place.run(&["completions", "csh"]).code(), 2);
}

#[test]
fn the_manual_page_renders_and_holds_every_command() {
    let place = Place::new();
    let page = place.ok(&["man"]);
    assert!(page.contains(".TH muster 1"));
    for words in commands(&place, &[])
        .into_iter()
        .filter(|words| !words.is_empty())
    {
        assert!(
            page.contains(&format!("muster {}", words.join(" ")).replace('-', r"\-")),
            "{words:?} is not on the page"
        );
    }
    let file = place.path("muster.1");
    std::fs::write(&file, &page).unwrap();
    let Ok(drawn) = std::process::Command::new("groff")
        .args(["-man", "-Tutf8", "-ww"])
        .arg(&file)
        .output()
    else {
        assert!(
            std::env::var_os("CI").is_none(),
            "groff is not installed, and in CI this may not be left out"
        );
        eprintln!("SKIPPED: groff is not installed, so the page was not drawn");
        return;
    };
    assert!(
        drawn.status.success() && drawn.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&drawn.stderr)
    );
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    assert!(
        drawn.contains("--password-stdin")
            && drawn.contains("printf '%s\\n' \"$PASSWORD\" | muster owner add"),
        "{drawn}"
    );
}

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

fn usage(said: &Said, words: &str) {
    assert_eq!((said.code(), said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains(words), "{words:?} is not in {:?}", said.err);
}

fn refused(said: &Said, words: &str) {
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
    refused(&place.run(&["connector", "list"]), "there is no owner yet");
    refused(
        &place.run_with(&["owner", "add", "ada", "--password-stdin"], "short\n"),
        "password",
    );
    refused(
        &place.run_with(&["owner", "add", "ada", "--password-stdin"], ""),
        "password",
    );
    assert_eq!(place.json(&["owner", "list"]), json!([]), "something was stored");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_where_it_listens_as_one_line_of_json() {
    use std::io::BufRead as _;
    let place = Place::new();
    let mut child = place
        .serving(&["--listen", "127.0.0.1:0", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(said.as_object().unwrap().len(), 1);
    let url = said["listening"].as_str().unwrap();
    let health = crate::support::Http::new(url).get("/healthz").await;
    assert_eq!(health.status, 200);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_counts_at_once_beside_a_running_server() {
    const NEW: &str = "another horse battery";
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let server = place.serve();
        let ada = server.sign_in("ada").await;
        assert_eq!(ada.get("/plugins").await.status, 200);
        let change = |name: &str, word: &str, more: &[&str]| {
            place.run_with(
                &[&["owner", "passwd", name, "--password-stdin"], more].concat(),
                &format!("{word}\n"),
            )
        };
        refused(&change("eve", NEW, &[]), "no owner of this name");
        refused(&change("ada", "short", &[]), "8 to 1024");
        usage(&place.run(&["owner", "passwd", "ada"]), "--password-stdin");
        assert_eq!(ada.get("/plugins").await.status, 200, "nothing was changed");
        assert_eq!(change("ada", NEW, &[]).all(), (0, "", ""));
        assert_eq!(ada.get("/plugins").await.status, 303);
        let mut browser = crate::support::Browser::new(&server.url());
        for (word, status) in [(PASSWORD, 401), (NEW, 303)] {
            let answer = browser
                .submit("/sign-in", &[("name", "ada"), ("password", word)])
                .await;
            assert_eq!(answer.status, status, "{word}");
        }
        let said = change("ada", PASSWORD, &["--json"]);
        assert_eq!(
            serde_json::from_str::<Value>(&said.out).unwrap(),
            json!({"name": "ada", "sign_ins_ended": 1})
        );
        server.err.says("sign-ins failed");
        let rows = place.json(&["audit", "list", "--event", "owner.password_changed"]);
        assert_eq!(rows.as_array().unwrap().len(), 2);
        assert!(!rows.to_string().contains("horse"));
        drop(server);
        place.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chief_that_cannot_be_started_is_named_on_the_pages_and_once_in_the_log() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    place.ok(&[
        "chief",
        "set",
        "--runtime",
        "command",
        "--command",
        "/nonexistent/chief",
    ]);
    let server = place.serve();
    let ada = server.sign_in("ada").await;
    let http = server.http();
    for name in ["one", "two", "three"] {
        assert_eq!(http.message(&token, &message(name)).await.status, 202);
    }
    server.err.says("the chief's turn could not be started");
    for path in ["/", "/chief"] {
        let page = ada.get(path).await.text;
        assert!(
            page.contains("Could not be started") && page.contains("/nonexistent/chief"),
            "{path}: {page}"
        );
    }
    assert_eq!(http.claim(&token, 1).await.status, 204);
    place.set_chief("ada", "turns", "");
    assert_eq!(http.claim(&token, 1).await.status, 204);
    place.recorded("turns", 3).await;
    assert!(!ada.get("/chief").await.text.contains("Could not be started"));
    let log = server.stop().0.err;
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("the chief's turn could not be started"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains("/nonexistent/chief"),
        "{log}"
    );
}

/// Doctor's findings as rows of check and detail.
fn findings(place: &Place) -> (i32, Vec<(String, String)>) {
    let said = place.run(&["doctor", "--json"]);
    let all: Value = serde_json::from_str(&said.out).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = all["findings"].as_array().unwrap();
    (
        said.code(),
        rows.iter()
            .map(|row| (text(&row["check"]), text(&row["detail"])))
            .collect(),
    )
}

#[test]
fn doctor_makes_nothing_and_counts_in_english() {
    let place = Place::new().with("MUSTER_PLUGINS", "");
    let says = |place: &Place, check: &str, words: &str| {
        let (_, all) = findings(place);
        assert!(
            all.iter()
                .any(|(name, detail)| name == check && detail.contains(words)),
            "{check}: {words} is not in {all:?}"
        );
    };
    assert_eq!(findings(&place).0, 1);
    says(&place, "data folder", "is not made yet; muster serve makes it");
    says(
        &place,
        "database",
        "muster.db is not made yet; muster serve makes it",
    );
    says(&place, "connectors", "MUSTER_PLUGINS is off");
    says(&place, "owners", "muster owner add");
    says(&place, "bus", "there is no bus at");
    assert!(!place.data().exists() && !place.path("home").exists());

    place.add_owner("ada");
    place.add_connector("ada", "mail");
    place.ok(&["chief", "set", "--runtime", "command", "--command", "cat"]);
    assert_eq!(findings(&place).0, 0);
    says(&place, "owner", "ada: chief command, 1 connector");
    assert!(
        !findings(&place)
            .1
            .iter()
            .any(|(_, detail)| detail.contains("1 connectors"))
    );
    place.add_connector("ada", "chat");
    says(&place, "owner", "ada: chief command, 2 connectors");
    place.run(&[
        "chief",
        "set",
        "--runtime",
        "command",
        "--command",
        "/nonexistent/chief",
    ]);
    assert_eq!(findings(&place).0, 1);
    says(
        &place,
        "owner",
        "ada: the chief's program is not found on this machine: /nonexistent/chief",
    );
    let place = place.with("MUSTER_PLUGINS", "1");
    says(&place, "connectors", "MUSTER_PLUGINS is on");
}

#[test]
fn doctor_looks_at_the_bus_too() {
    let place = Place::new();
    place.add_owner("ada");
    place.ok(&["init"]);
    let bus = |place: &Place| {
        let (code, all) = findings(place);
        let of = all.into_iter().find(|(name, _)| name == "bus").unwrap().1;
        (code, of)
    };
    let (code, said) = bus(&place);
    assert!(code == 0 && said.starts_with("healthy: the bus at "), "{said}");
    std::fs::write(place.path("home/agent-coord/room.jsonl"), "damage\n").unwrap();
    let (code, said) = bus(&place);
    assert!(
        code == 1 && said.starts_with("not healthy") && said.contains("muster bus doctor"),
        "{said}"
    );
    let left = std::fs::read_to_string(place.path("home/agent-coord/room.jsonl")).unwrap();
    assert_eq!(left, "damage\n", "it never repairs");
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

// spec: TOK-025
#[tokio::test(flavor = "multi_thread")]
async fn commands_beside_a_running_server_count_at_once() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let tokens = ["mail", "chat", "news"].map(|name| place.add_connector("ada", name));
        let script = place.add_token("ada");
        let server = place.serve();
        let http = server.http();
        let status = async |token: &str| http.claim(token, 0).await.status;
        let hook = async || {
            http.post("/api/plugins/messages/99/retry", &script, &json!({}))
                .await
                .status
        };
        for token in &tokens {
            assert_eq!(status(token).await, 204);
        }
        place.ok(&["connector", "revoke", "mail"]);
        assert_eq!((status(&tokens[0]).await, status(&tokens[1]).await), (401, 204));
        let fresh = place.add_connector("ada", "mail");
        assert_eq!(status(&fresh).await, 204);

        assert_eq!(hook().await, 404);
        let ada = server.sign_in("ada").await;
        assert_eq!(ada.get("/plugins").await.status, 200);
        place.ok(&["owner", "disable", "ada"]);
        assert_eq!(
            (
                status(&tokens[1]).await,
                hook().await,
                ada.get("/plugins").await.status
            ),
            (401, 401, 303)
        );
        let mut locked_out = crate::support::Browser::new(&server.url());
        assert_eq!(
            locked_out
                .submit("/sign-in", &[("name", "ada"), ("password", PASSWORD)])
                .await
                .status,
            401
        );
        place.ok(&["owner", "enable", "ada"]);
        assert_eq!((status(&tokens[1]).await, hook().await), (204, 404));
        place.ok(&["token", "revoke", "1"]);
        assert_eq!(hook().await, 401);

        // The next delivery goes to whoever is the chief by then.
        assert_eq!(http.message(&tokens[1], &message("one")).await.status, 202);
        place.set_chief("ada", "first", "");
        assert_eq!(status(&tokens[1]).await, 204);
        assert_eq!(place.recorded("first", 1).await.len(), 1);
        place.set_chief("ada", "second", "");
        assert_eq!(http.message(&tokens[1], &message("two")).await.status, 202);
        assert_eq!(place.recorded("second", 1).await.len(), 1);
        assert_eq!(place.record("first").len(), 1);

        // A claim that waits for a connector that is revoked ends.
        let waiting = tokio::spawn({
            let (http, token) = (http.clone(), tokens[2].clone());
            async move { http.claim(&token, 25).await }
        });
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        place.ok(&["connector", "revoke", "news"]);
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), waiting)
            .await
            .expect("the claim of a revoked connector still waits")
            .unwrap();
        assert_eq!(answer.status, 401, "{answer:?}");
        drop(server);
        place.end().await;
    }
}

// spec: RTY-005 TOK-027
#[tokio::test(flavor = "multi_thread")]
async fn the_retry_command_asks_a_running_server() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let personal = place.add_token("ada");
    place.set_chief("ada", "turns", "--exit 3");
    let server = place.serve();
    let http = server.http();
    http.message(&token, &message("m")).await;
    let id = http
        .settled(&token, &message("m"), "unconfirmed")
        .await
        .to_string();

    refused(&place.run(&["plugins", "retry", &id]), "MUSTER_TOKEN");
    let place = place.with("MUSTER_TOKEN", &personal);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let place = place.with("MUSTER_URL", &format!("http://{nobody}"));
    refused(&place.run(&["plugins", "retry", &id]), "nothing was changed");

    // In the environment that a real server is named by, with a slash that people write.
    let place = place.with("MUSTER_URL", &format!("{}/", server.url()));
    refused(&place.run(&["plugins", "retry", "99"]), "no such message");
    place.set_chief("ada", "turns", "");
    assert_eq!(place.ok(&["plugins", "retry", &id]), "queued\n");
    http.settled(&token, &message("m"), "delivered").await;
    let turns = place.record("turns");
    assert_eq!(
        (turns.len(), &turns[1]["retry"], &turns[1]["attempt"]),
        (2, &json!(1), &json!(2))
    );
    let said = place.run(&["plugins", "retry", &id, "--json"]);
    assert_eq!(
        (
            said.code(),
            serde_json::from_str::<Value>(&said.out).unwrap()["error"]["code"].as_str()
        ),
        (1, Some("conflict"))
    );
    refused(&place.run(&["plugins", "retry", &id]), "delivered");

    for wrong in [token.as_str(), "mst_0", "not a token"] {
        let place_wrong = place
            .command(&["plugins", "retry", &id])
            .env("MUSTER_TOKEN", wrong)
            .output()
            .unwrap();
        let said = String::from_utf8(place_wrong.stderr).unwrap();
        assert!(
            place_wrong.status.code() == Some(1) && said.contains("personal token") && !said.contains(wrong),
            "{said}"
        );
    }
    place.ok(&["token", "revoke", "1"]);
    refused(&place.run(&["plugins", "retry", &id]), "personal token");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retry_command_gives_up_on_a_server_that_says_nothing_or_nonsense() {
    let place = Place::new().with("MUSTER_TOKEN", "mst_0");
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = place.with("MUSTER_URL", &format!("http://{}", mute.local_addr().unwrap()));
    std::thread::spawn(move || {
        for answer in [
            &b"HTTP/1.1 500 \x1b[31mred\r\ncontent-length: 4\r\n\r\n\x1b[2J"[..],
            b"HTTP/1.1 409 Conflict\r\ncontent-length: 24\r\n\r\n{\"error\":\"no \\u001b[2J\"}",
            b"garbage",
        ] {
            let (mut link, _) = mute.accept().unwrap();
            std::io::Write::write_all(&mut link, answer).unwrap();
            let _ = link.read(&mut [0; 4096]);
        }
    });
    for _ in 0..3 {
        let said = place.run(&["plugins", "retry", "1"]);
        assert!(
            said.code() == 1 && !said.err.contains('\u{1b}') && said.err.starts_with("muster: "),
            "{said:?}"
        );
    }
}
