//! Databases that do not answer, callers that go away: nothing is read unseen, no password is shown, no statement is left running.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::databases::{Postgres, add, document, endless, place};
use crate::mcp::Wire;
use crate::support::{Place, Said};

/// A server that takes every connection and never says a word.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server that answers everything with the same bytes.
fn babbler(bytes: &'static [u8]) -> u16 {
    let (listener, port) = silent();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.write_all(bytes);
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    port
}

/// A port that nobody listens on.
fn closed() -> u16 {
    let (listener, port) = silent();
    drop(listener);
    port
}

fn shows_no_secret(said: &Said) {
    assert!(
        !said.out.contains("SECRET") && !said.err.contains("SECRET") && !said.err.contains('\u{1b}'),
        "{said:?}"
    );
}

/// Whether the words that a person reads say that nobody looked yet; a program is told the same.
fn is_unlooked(place: &Place, name: &str) -> bool {
    let unlooked = place.ok(&["db", "show", name]).contains("not looked at yet");
    assert_eq!(place.json(&["db", "show", name])["looked"], json!(!unlooked));
    unlooked
}

/// What was added where nobody is there: stored, its owner told, and not taken for wide.
fn is_stored_unlooked(place: &Place, name: &str, url: &str) {
    let said = add(place, name, url, &[]);
    assert_eq!(said.code(), 0, "{url} {said:?}");
    let made = document(&said);
    assert_eq!((&made["wide"], &made["name"]), (&json!(false), &json!(name)));
    assert!(
        said.err.contains("could not be looked at")
            && said.err.contains("nothing is read")
            && said.err.contains("muster db check"),
        "{said:?}"
    );
    shows_no_secret(&said);
    assert_eq!(place.json(&["db", "show", name]), made);
    assert!(is_unlooked(place, name));
}

// spec: DBA-014
#[test]
fn a_server_that_is_not_there_is_stored_with_a_word_about_its_account_and_read_by_nobody() {
    let place = place();
    for (name, url) in [
        ("one", "postgres://ada:SECRET-word@127.0.0.1:PORT/app"),
        ("two", "mysql://ada:SECRET-word@127.0.0.1:PORT/app"),
        ("three", "redis://:SECRET-word@127.0.0.1:PORT/0"),
        ("four", "mongodb://ada:SECRET-word@127.0.0.1:PORT/app"),
        ("five", "postgres://ada:SECRET-word@no-such-host.invalid/app"),
        ("six", "mariadb://ada:SECRET-word@no-such-host.invalid/app"),
        ("seven", "mongodb://ada:SECRET-word@no-such-host.invalid/app"),
        ("eight", "redis://:SECRET-word@localhost/0?socket=/no/such/socket"),
    ] {
        is_stored_unlooked(&place, name, &url.replace("PORT", &closed().to_string()));
        let said = place.run_with(&["db", "test", name, "--json"], "");
        assert_eq!(document(&said)["error"]["code"], "unreachable", "{said:?}");
        shows_no_secret(&said);
        assert!(is_unlooked(&place, name));
    }
    let said = place.run(&["db", "list"]);
    assert_eq!(said.out.matches("not looked at yet").count(), 8, "{said:?}");
    assert!(
        said.err
            .contains("at the first use, and nothing is read before that"),
        "{said:?}"
    );
    assert!(
        place
            .ok(&["db", "show", "one"])
            .contains("at the first use, and nothing is read before that")
    );
    let said = place.run_with(&["db", "shell", "one", "--json"], "SELECT 1;\n");
    assert_eq!(document(&said)["error"]["code"], "unreachable", "{said:?}");
    let said = place.run(&["db", "check", "one", "--json"]);
    let found = document(&said);
    assert_eq!((said.code(), &found["ok"]), (1, &json!(false)));
    let all = found["guarantees"].as_array().unwrap();
    assert!(
        all.iter()
            .any(|one| one["id"] == "reachable" && one["ok"] == false),
        "{found}"
    );
    let account = all.iter().find(|one| one["id"] == "narrow_account").unwrap();
    assert_eq!(account["ok"], false);
    assert!(
        account["detail"].as_str().unwrap().contains("not looked at yet"),
        "{account}"
    );
    shows_no_secret(&said);
    shows_no_secret(&place.run(&["audit", "list", "--json"]));
    assert!(is_unlooked(&place, "one"));
    // On standard output stands the id alone.
    let url = format!("postgres://ada:SECRET-word@127.0.0.1:{}/app", closed());
    let id = place.ok(&["db", "add", "nine", "--project", "engine", "--url", &url]);
    assert_eq!(json!(id.trim_end()), place.json(&["db", "show", "nine"])["id"]);
}

// spec: DBA-014
#[test]
fn a_server_that_answers_and_does_not_let_muster_in_is_not_stored_and_shows_no_password() {
    let place = place();
    let closed = closed();
    let evil = babbler(b"\x1b[2J\xff\xffHTTP/1.1 200 OK\r\n\r\n");
    for (url, port) in [
        ("postgres://ada:SECRET-word@127.0.0.1:PORT/app", evil),
        (
            "postgres://ada:SECRET-word@127.0.0.1:PORT/app?sslmode=verify-full",
            evil,
        ),
        ("redis://:SECRET-word@127.0.0.1:PORT/0", evil),
        ("rediss://:SECRET-word@127.0.0.1:PORT/0", evil),
        ("mongodb://ada:SECRET-word@127.0.0.1:PORT/app", evil),
    ] {
        let url = url.replace("PORT", &port.to_string());
        let said = add(&place, "away", &url, &[]);
        assert_eq!(said.code(), 1, "{url} {said:?}");
        let error = document(&said)["error"].clone();
        assert!(
            matches!(
                error["code"].as_str(),
                Some("unreachable" | "timeout" | "engine_error")
            ),
            "{url} {error}"
        );
        assert!(
            error["message"].as_str().unwrap().contains("nothing was stored"),
            "{error}"
        );
        shows_no_secret(&said);
    }
    assert_eq!(place.json(&["db", "list"]), json!([]));
    // Its owner may take it unseen, and it is marked as what it may well be.
    let url = format!("postgres://ada:SECRET-word@127.0.0.1:{closed}/app");
    let said = add(
        &place,
        "away",
        &url,
        &["--accept-wide-account", "--write-url", &url],
    );
    assert_eq!(document(&said)["wide"], json!(true));
    assert!(said.err.contains("marked as wide"), "{said:?}");
    let log = place.json(&["audit", "list", "--event", "db.add"]);
    let data = &log[0]["data"];
    assert_eq!(
        (&data["wide"], &data["looked"], &data["unseen"]),
        (&json!(true), &json!(false), &json!(true)),
        "{log}"
    );
    assert!(!is_unlooked(&place, "away"), "it was taken as it is");
    for words in [
        &["db", "test", "away", "--json"][..],
        &["db", "check", "away", "--json"],
        &["db", "shell", "away", "--json"],
        &["audit", "list", "--json"],
    ] {
        let said = place.run_with(words, "SELECT 1;\n");
        assert!(
            !said.out.contains("SECRET") && !said.err.contains("SECRET"),
            "{said:?}"
        );
    }
    assert_eq!(
        document(&place.run(&["db", "test", "away", "--json"]))["error"]["code"],
        "unreachable"
    );
    let check = document(&place.run(&["db", "check", "away", "--json"]));
    assert_eq!(check["ok"], json!(false));
}

// spec: DBA-014
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_not_stored_and_a_server_that_hangs_is_without_the_password() {
    let Some(server) = Postgres::start().await else {
        return;
    };
    let place = place();
    let wrong = server.with_account("nobody_of_that_name:SECRET-other");
    // Neither the account that reads nor the one that writes, and nobody's word makes it: what is there and refuses is not away.
    let reader = server.reader();
    for (words, which) in [
        (&[wrong.as_str()][..], "--url"),
        (&[&wrong, "--accept-wide-account"], "--url"),
        (&[&reader, "--write-url", &wrong], "--write-url"),
        (
            &[&reader, "--accept-wide-account", "--write-url", &wrong],
            "--write-url",
        ),
    ] {
        let said = add(&place, "wrong", words[0], &words[1..]);
        let error = document(&said)["error"].clone();
        assert_eq!(
            (said.code(), &error["code"], &error["engine_code"]),
            (1, &json!("sign_in"), &json!("sign_in")),
            "{words:?} {said:?}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(which)
                && message.contains("did not let muster in")
                && message.contains("nothing was stored"),
            "{error}"
        );
        assert!(
            !said.out.contains("SECRET") && !said.err.contains("SECRET"),
            "{said:?}"
        );
    }
    // So has the database to be there.
    let known = server.reader();
    let (front, socket) = known.split_once("?host=").unwrap();
    let (front, _) = front.rsplit_once('/').unwrap();
    let unknown = format!("{front}/no_such_database?host={socket}");
    let said = add(&place, "unknown", &unknown, &[]);
    assert_eq!(said.code(), 1, "{said:?}");
    assert!(said.err.contains("nothing was stored"), "{said:?}");
    assert_eq!(place.json(&["db", "list"]), json!([]));
    // Where only the account that writes has nobody to talk to, the other was looked at.
    let gone = format!("postgres://ada:SECRET-word@127.0.0.1:{}/app", closed());
    let said = add(&place, "half", &server.reader(), &["--write-url", &gone]);
    assert_eq!(document(&said)["wide"], json!(false), "{said:?}");
    assert!(said.err.contains("the account that writes"), "{said:?}");
    assert!(!is_unlooked(&place, "half"));
    let (_listener, port) = silent();
    let begun = Instant::now();
    let hanging = [
        ("one", format!("postgres://ada:SECRET-word@127.0.0.1:{port}/app")),
        ("two", format!("mariadb://ada:SECRET-word@127.0.0.1:{port}/app")),
        ("three", format!("redis://:SECRET-word@127.0.0.1:{port}/0")),
        ("four", format!("mongodb://ada:SECRET-word@127.0.0.1:{port}/app")),
    ];
    std::thread::scope(|all| {
        for (name, url) in &hanging {
            all.spawn(|| is_stored_unlooked(&place, name, url));
        }
    });
    assert!(
        begun.elapsed() < Duration::from_secs(150),
        "{:?}",
        begun.elapsed()
    );
    server.end(&[]).await;
}

mod heavy {
    use super::*;

    /// An agent that may read the database `narrow`.
    fn agent(place: &Place) -> String {
        place.ok(&["policy", "create", "reader"]);
        place.ok(&[
            "policy", "grant", "reader", "--layer", "global", "db_read", "any", "allow",
        ]);
        place.ok(&[
            "task",
            "add",
            "--project",
            "engine",
            "--title",
            "look",
            "--policy",
            "reader",
        ]);
        let token = place.ok(&[
            "token", "create", "--kind", "agent", "--task", "1", "--label", "looker",
        ]);
        token.trim_end().to_owned()
    }

    fn query(statement: &str) -> Value {
        json!({"name": "muster_db_query", "arguments": {"connection_id": "1", "statement": statement}})
    }

    async fn with_reader() -> Option<(Postgres, Place)> {
        let server = Postgres::start().await?;
        let place = place();
        add(&place, "narrow", &server.reader(), &[]).ok();
        place.ok(&["setting", "set", "db.timeout_seconds", "3600"]);
        Some((server, place))
    }

    /// The same address by way of a folder that is not there before `arrives`.
    fn far(place: &Place, url: &str) -> String {
        let (front, _) = url.split_once("?host=").unwrap();
        format!("{front}?host={}", place.path("far").display())
    }

    fn arrives(place: &Place, url: &str) {
        let (_, folder) = url.split_once("?host=").unwrap();
        symlink(folder, place.path("far")).unwrap();
    }

    fn looks(place: &Place) -> usize {
        let log = place.json(&["audit", "list", "--event", "db.look"]);
        log.as_array().unwrap().len()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_account_is_looked_at_before_its_first_use_and_never_again_and_the_log_names_who_caused_it() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        let url = server.reader();
        for name in ["asked", "tested", "checked", "shelled", "twice"] {
            is_stored_unlooked(&place, name, &far(&place, &url));
        }
        let mut wire = Wire::new(&place, &agent(&place), None);
        let mut ask = || wire.call(query("SELECT v FROM t WHERE id = 1"));
        let answer = ask();
        let error = &answer["structuredContent"]["error"];
        assert_eq!(
            (&error["code"], &error["engine_code"]),
            (&json!("engine_error"), &json!("unreachable")),
            "{answer}"
        );
        assert!(is_unlooked(&place, "asked") && looks(&place) == 0);
        arrives(&place, &url);
        assert_eq!(ask()["structuredContent"]["rows"], json!([["a"]]));
        assert!(!is_unlooked(&place, "asked"));
        let by = |place: &Place| {
            let looks = place.json(&["audit", "list", "--event", "db.look"]);
            looks.as_array().unwrap().last().unwrap()["actor"].clone()
        };
        assert_eq!(by(&place), "agent:1");
        assert_eq!(place.json(&["db", "test", "tested"])["ok"], json!(true));
        assert_eq!(by(&place), "owner");
        assert!(!is_unlooked(&place, "tested"));
        assert_eq!(place.json(&["db", "check", "checked"])["ok"], json!(true));
        assert!(!is_unlooked(&place, "checked"));
        let said = place.run_with(&["db", "shell", "shelled", "--json"], "SELECT 7;\n");
        assert_eq!(document(&said)["rows"], json!([[7]]), "{said:?}");
        assert!(!is_unlooked(&place, "shelled"));
        assert_eq!(looks(&place), 4);
        // Two at once are one.
        let both: Vec<_> = (0..2)
            .map(|_| {
                let mut command = place.command(&["db", "test", "twice", "--json"]);
                command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in both {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        assert!(!is_unlooked(&place, "twice"));
        assert_eq!(looks(&place), 5);
        // What was found holds: it is not looked for again, by no process.
        let (role, _) = url.trim_start_matches("postgres://").split_once(':').unwrap();
        server.admin.damage(&format!("GRANT INSERT ON t TO {role}")).await;
        assert_eq!(ask()["structuredContent"]["rows"], json!([["a"]]));
        wire.leave();
        let said = place.run_with(&["db", "shell", "asked", "--json"], "SELECT 8;\n");
        assert_eq!(document(&said)["rows"], json!([[8]]), "{said:?}");
        assert_eq!(looks(&place), 5);
        server.end(&[]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_account_that_turns_out_to_be_wide_reads_nothing_until_its_owner_takes_it() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        let url = server.wide();
        is_stored_unlooked(&place, "narrow", &far(&place, &url));
        arrives(&place, &url);
        let token = agent(&place);
        let mut wire = Wire::new(&place, &token, None);
        let answer = wire.call(query("SELECT v FROM t WHERE id = 1"));
        let error = &answer["structuredContent"]["error"];
        assert_eq!(error["code"], "wide_account", "{answer}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("nothing was read") && message.contains("your owner"),
            "{message}"
        );
        for words in [
            &["db", "test", "narrow", "--json"][..],
            &["db", "shell", "narrow", "--json"],
        ] {
            let said = place.run_with(words, "SELECT v FROM t;\n");
            assert_eq!(said.code(), 1, "{said:?}");
            let error = document(&said)["error"].clone();
            assert_eq!(error["code"], "wide_account", "{words:?} {error}");
            assert!(
                error["message"]
                    .as_str()
                    .unwrap()
                    .contains("may do more than read"),
                "{error}"
            );
            let statements = error["statements"].as_array().unwrap();
            assert!(!statements.is_empty() && said.err.contains(statements[0].as_str().unwrap()));
        }
        // The self-test prints its own object, and is kept like every other.
        let said = place.run(&["db", "check", "narrow", "--json"]);
        let found = document(&said);
        assert_eq!((said.code(), &found["ok"]), (1, &json!(false)), "{said:?}");
        let told: Vec<(&Value, &Value)> = found["guarantees"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (&one["id"], &one["ok"]))
            .collect();
        assert_eq!(
            json!(told),
            json!([
                ["private_way", true],
                ["reachable", true],
                ["narrow_account", false]
            ])
        );
        let shown = place.ok(&["db", "show", "narrow"]);
        assert!(shown.contains("failed: narrow_account"), "{shown}");
        assert!(is_unlooked(&place, "narrow") && looks(&place) == 0);
        assert_eq!(place.json(&["db", "show", "narrow"])["wide"], json!(false));
        // Its owner takes it, under another id, and then it is read.
        place.ok(&["db", "remove", "narrow"]);
        let taken = document(&add(
            &place,
            "narrow",
            &far(&place, &url),
            &["--accept-wide-account"],
        ));
        assert_eq!(taken["wide"], json!(true));
        assert!(!is_unlooked(&place, "narrow"));
        let mut asked = query("SELECT v FROM t WHERE id = 1");
        asked["arguments"]["connection_id"] = taken["id"].clone();
        assert_eq!(wire.call(asked)["structuredContent"]["rows"], json!([["a"]]));
        wire.leave();
        server.end(&[]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_that_is_left_leaves_no_statement_running() {
        let Some((server, place)) = with_reader().await else {
            return;
        };
        let token = agent(&place);
        // Cancelled by its client: at once, and the session goes on.
        let mut wire = Wire::new(&place, &token, None);
        let id = wire.begin("tools/call", query(&endless(1001)));
        server.runs("<> 1001", 1).await;
        wire.notify("notifications/cancelled", json!({"requestId": id}));
        server.runs("<> 1001", 0).await;
        let next = wire.call(query("SELECT 7 AS n"));
        assert_eq!(next["structuredContent"]["rows"], json!([[7]]), "{next}");
        // Its client is gone.
        wire.begin("tools/call", query(&endless(1002)));
        server.runs("<> 1002", 1).await;
        wire.leave();
        server.runs("<> 1002", 0).await;
        // The same through a server, whose caller hangs up.
        let serving = place.serve();
        let http = serving.http();
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": query(&endless(1003))});
        let request = http
            .request(reqwest::Method::POST, "/mcp")
            .bearer_auth(&token)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .json(&body);
        let calling = tokio::spawn(async move { http.send(request).await });
        server.runs("<> 1003", 1).await;
        calling.abort();
        server.runs("<> 1003", 0).await;
        // What ran is in the log, by whom and whole.
        let log = place.json(&["audit", "list", "--tool", "muster_db_query"]);
        let statements: Vec<&Value> = log
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["data"]["statement"])
            .collect();
        assert_eq!(
            statements,
            [
                &json!(endless(1001)),
                &json!("SELECT 7 AS n"),
                &json!(endless(1002)),
                &json!(endless(1003))
            ]
        );
        serving.stop();
        server.end(&[]).await;
    }

    /// Nobody is left who could ask the server to stop: it looks for itself whether its caller is there.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_muster_that_is_killed_leaves_no_statement_running() {
        let Some((server, place)) = with_reader().await else {
            return;
        };
        add(
            &place,
            "writes",
            &server.reader(),
            &["--write-url", &server.wide()],
        )
        .ok();
        let kill = |child: &mut std::process::Child| {
            kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGKILL).unwrap();
            child.wait().unwrap();
        };
        for (name, number, write) in [("narrow", 2501, false), ("writes", 2502, true)] {
            let mut command = place.command(&["db", "shell", name]);
            let statement = if write {
                command.arg("--write");
                format!("INSERT INTO t SELECT 99, 'late' FROM ({}) x", endless(number))
            } else {
                endless(number)
            };
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let words = format!("<> {number}");
            writeln!(child.stdin.as_mut().unwrap(), "{statement};").unwrap();
            server.runs(&words, 1).await;
            kill(&mut child);
            server.runs(&words, 0).await;
        }
        assert_eq!(
            server.admin.number("SELECT count(*) FROM t WHERE id = 99").await,
            0
        );
        // The same of a server with an agent's call in it.
        let token = agent(&place);
        let mut wire = Wire::new(&place, &token, None);
        wire.begin("tools/call", query(&endless(2503)));
        server.runs("<> 2503", 1).await;
        // Without a word: it is killed.
        drop(wire);
        server.runs("<> 2503", 0).await;
        server.end(&[]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_shell_that_is_interrupted_or_loses_its_reader_leaves_no_statement_running() {
        let Some((server, place)) = with_reader().await else {
            return;
        };
        for (number, signal) in [
            (2001, Signal::SIGINT),
            (2002, Signal::SIGTERM),
            (2003, Signal::SIGHUP),
        ] {
            let mut child = place
                .command(&["db", "shell", "narrow"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let words = format!("<> {number}");
            writeln!(child.stdin.as_mut().unwrap(), "{};", endless(number)).unwrap();
            server.runs(&words, 1).await;
            kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
            server.runs(&words, 0).await;
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{signal}: {output:?}");
            assert!(
                String::from_utf8_lossy(&output.stderr).contains("given up"),
                "{output:?}"
            );
        }
        // Nobody reads what it prints: it ends, and says so without a panic.
        let mut child = place
            .command(&["db", "shell", "narrow"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        for _ in 0..3 {
            // It may have ended by then.
            let _ = writeln!(input, "SELECT repeat('x', 200000);");
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(!err.contains("panicked"), "{err}");
        server.end(&[]).await;
    }
}
