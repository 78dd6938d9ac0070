//! Databases that do not answer, callers that go away: nothing is stored unseen, no password is shown, no statement is left running.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::databases::{Postgres, add, document, endless, place};
use crate::mcp::Wire;
use crate::support::Place;

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

// spec: DBA-014
#[test]
fn what_does_not_answer_is_not_stored_unseen_and_shows_no_password() {
    let place = place();
    let closed = {
        let (listener, port) = silent();
        drop(listener);
        port
    };
    let evil = babbler(b"\x1b[2J\xff\xffHTTP/1.1 200 OK\r\n\r\n");
    for (url, port) in [
        ("postgres://ada:SECRET-word@127.0.0.1:PORT/app", closed),
        ("mysql://ada:SECRET-word@127.0.0.1:PORT/app", closed),
        ("redis://:SECRET-word@127.0.0.1:PORT/0", closed),
        ("mongodb://ada:SECRET-word@127.0.0.1:PORT/app", closed),
        ("postgres://ada:SECRET-word@127.0.0.1:PORT/app", evil),
        (
            "postgres://ada:SECRET-word@127.0.0.1:PORT/app?sslmode=verify-full",
            evil,
        ),
        ("mysql://ada:SECRET-word@127.0.0.1:PORT/app", evil),
        ("redis://:SECRET-word@127.0.0.1:PORT/0", evil),
        ("rediss://:SECRET-word@127.0.0.1:PORT/0", evil),
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
        assert!(
            !said.out.contains("SECRET") && !said.err.contains("SECRET") && !said.err.contains('\u{1b}'),
            "{said:?}"
        );
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

    // spec: DBA-013 DBA-014
    #[tokio::test(flavor = "multi_thread")]
    async fn a_wrong_password_and_a_server_that_hangs_are_told_without_the_password() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        let wrong = server.with_account("nobody_of_that_name:SECRET-other");
        let said = add(&place, "wrong", &wrong, &[]);
        assert_eq!((said.code(), said.out.contains("SECRET")), (1, false), "{said:?}");
        // The account that writes has to be let in as well.
        let said = add(&place, "half", &server.reader(), &["--write-url", &wrong]);
        let error = document(&said)["error"].clone();
        assert!(
            said.code() == 1 && error["message"].as_str().unwrap().contains("--write-url"),
            "{said:?}"
        );
        assert!(!said.err.contains("SECRET"), "{said:?}");
        let (_listener, port) = silent();
        let begun = Instant::now();
        for url in [
            format!("postgres://ada:SECRET-word@127.0.0.1:{port}/app"),
            format!("mariadb://ada:SECRET-word@127.0.0.1:{port}/app"),
            format!("redis://:SECRET-word@127.0.0.1:{port}/0"),
        ] {
            let said = add(&place, "hangs", &url, &[]);
            assert_eq!(said.code(), 1, "{said:?}");
            assert!(!said.out.contains("SECRET"), "{said:?}");
        }
        assert!(
            begun.elapsed() < Duration::from_secs(150),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(place.json(&["db", "list"]), json!([]));
        server.end(&[]).await;
    }

    // spec: DBA-013
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

    // spec: DBA-013
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
