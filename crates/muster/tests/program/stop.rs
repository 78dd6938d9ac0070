//! How the server ends when it is told to. Never leaves a reply leased to nobody, a child that acts on, or a log that only the next start can read.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Engine, Place, engines, lives, message};

/// A stop may take this long.
const SPAN: Duration = Duration::from_secs(10);

// spec: CLM-027
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_waiting_claims_and_leases_nothing() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "--draft 'Noon works.'");
        let server = place.serve();
        let http = server.http();
        http.message(&token, &message("m")).await;
        let draft = place.recorded("turns", 2).await[1]["draft"].as_i64().unwrap();
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (http, token) = (http.clone(), token.clone());
                tokio::spawn(async move {
                    http.try_post("/plugin/v1/drafts/claim", &token, &json!({"wait_seconds": 25}))
                        .await
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (said, took) = server.stop();
        assert_eq!(said.code(), 0, "{said:?}");
        assert!(
            took < Duration::from_secs(2),
            "nothing ran but claims, and the stop took {took:?}"
        );
        for claim in waiting {
            // Without an answer the connection was closed.
            if let Ok(answer) = claim.await.unwrap() {
                assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{answer:?}");
            }
        }

        let server = place.serve();
        server.sign_in("ada").await.approve(draft).await;
        assert_eq!(server.http().claim(&token, 0).await.json()["draft_id"], draft);
        drop(server);
        place.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_running_turn_and_leaves_its_message_unconfirmed() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "--sleep 60");
        let server = place.serve();
        server.http().message(&token, &message("m")).await;
        let child = i32::try_from(place.recorded("turns", 1).await[0]["pid"].as_i64().unwrap()).unwrap();
        assert!(lives(child));
        let (said, took) = server.stop();
        assert_eq!(said.code(), 0, "{said:?}");
        assert!(took < SPAN, "{took:?}");
        assert!(!lives(child), "the chief's program outlived the server");
        let look = place.look().await;
        assert_eq!(look.text("SELECT state FROM messages").await, "unconfirmed");
        assert_eq!(look.text("SELECT outcome FROM turns").await, "unconfirmed");
        assert_eq!(
            look.number("SELECT count(*) FROM tokens").await,
            0,
            "the turn's token is left"
        );
        look.close().await;
        place.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_dawdle_do_not_hold_up_a_stop() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let server = place.serve();
    let ada = server.sign_in("ada").await;
    let open = |head: String| {
        let mut link = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        link.write_all(head.as_bytes()).unwrap();
        link
    };
    let host = format!("host: 127.0.0.1:{}\r\n", server.port);
    let _links = [
        open(String::new()),
        open("GET / HT".to_owned()),
        open(format!(
            "POST /plugin/v1/messages HTTP/1.1\r\n{host}authorization: Bearer {token}\r\ncontent-length: 100\r\n\r\n{{"
        )),
        open(format!(
            "POST /sign-in HTTP/1.1\r\n{host}content-length: 100\r\ncontent-type: application/x-www-form-urlencoded\r\norigin: {}\r\n\r\nname=",
            server.url()
        )),
        open(format!("GET /healthz HTTP/1.1\r\n{host}\r\n")),
    ];
    // A page's open stream of hints.
    let hints = tokio::spawn(async move { ada.try_get("/events").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (said, took) = server.stop();
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(took < SPAN, "{took:?}: {}", said.err);
    assert!(
        tokio::time::timeout(Duration::from_secs(2), hints).await.is_ok(),
        "the stream of hints is still open"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_means_now() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    for (first, second) in [
        (Signal::SIGTERM, Signal::SIGTERM),
        (Signal::SIGINT, Signal::SIGINT),
        (Signal::SIGINT, Signal::SIGTERM),
    ] {
        let server = place.serve();
        let mut link = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let head = format!(
            "POST /plugin/v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {token}\r\ncontent-length: 100\r\n\r\n",
            server.port
        );
        link.write_all(head.as_bytes()).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.signal(first);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(
            lives(server.pid()),
            "the first signal already ended it, so this proves nothing"
        );
        let begun = std::time::Instant::now();
        server.signal(second);
        let said = server.ended();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        assert_eq!(said.code(), 130);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_leaves_one_whole_sqlite_file() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let server = place.serve();
    for number in 0..20 {
        assert_eq!(
            server
                .http()
                .message(&token, &message(&format!("m-{number}")))
                .await
                .status,
            202
        );
    }
    let wal = place.data().join("muster.db-wal");
    assert!(
        wal.metadata().unwrap().len() > 0,
        "nothing was in the write-ahead log, so this proves nothing"
    );
    assert_eq!(server.stop().0.code(), 0);
    assert!(!wal.exists(), "the write-ahead log is left");
    // The one file is the whole database.
    let copy = place.path("copy.db");
    std::fs::copy(place.data().join("muster.db"), &copy).unwrap();
    let look = crate::support::Look::open(&copy).await;
    assert_eq!(look.number("SELECT count(*) FROM messages").await, 20);
    assert_eq!(look.text("PRAGMA integrity_check").await, "ok");
    look.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_before_the_first_request_ends_it_cleanly_on_each_engine() {
    for engine in engines() {
        let place = Place::on(engine).await;
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let server = place.serve();
            server.signal(signal);
            let said = server.ended();
            assert_eq!(said.code(), 0, "{said:?}");
            assert!(
                !said.err.contains("panicked") && !said.err.contains("ERROR"),
                "{}",
                said.err
            );
        }
        assert!(engine == Engine::Postgres || !place.data().join("muster.db-wal").exists());
        place.end().await;
    }
}
