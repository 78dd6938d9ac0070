//! Commands beside a running server: what they change counts there at once, and what it tells them. Never looks inside.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli::{refused, usage};
use crate::support::{PASSWORD, Place, engines, message};

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
