//! Claims from outside: one reply to one claim, once, whatever becomes of the claimer, the server or the clock. Never counts on luck.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::{Browser, Http, Place, Server, engines, message};

/// A loop with a draft that waits.
struct Drafted {
    place: Place,
    server: Server,
    http: Http,
    ada: Browser,
    token: String,
    draft: i64,
}

impl Drafted {
    async fn new(place: Place) -> Self {
        let place = place.with_clock();
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "--draft 'Reply to {message}.'");
        let server = place.serve();
        let (http, ada) = (server.http(), server.sign_in("ada").await);
        http.message(&token, &message("m")).await;
        let draft = place.recorded("turns", 2).await[1]["draft"].as_i64().unwrap();
        Self {
            place,
            server,
            http,
            ada,
            token,
            draft,
        }
    }

    async fn archived(&self, word: &str) -> bool {
        let page = self.ada.get("/attention?tab=drafts&archived=1").await.text;
        page.contains(&format!("draft-{}", self.draft)) && page.contains(word)
    }

    async fn end(self) {
        drop(self.server);
        self.place.end().await;
    }
}

/// A claim as raw bytes, so that it can be broken off at any time.
fn raw_claim(server: &Server, token: &str) -> TcpStream {
    let body = r#"{"wait_seconds": 25}"#;
    let mut link = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let head = format!(
        "POST /plugin/v1/drafts/claim HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        server.port,
        body.len()
    );
    link.write_all((head + body).as_bytes()).unwrap();
    link
}

// spec: CLM-026
#[tokio::test(flavor = "multi_thread")]
async fn a_claimer_that_left_while_it_waited_takes_no_reply() {
    for engine in engines() {
        let mut drafted = Drafted::new(Place::on(engine).await).await;
        let links: Vec<TcpStream> = (0..5)
            .map(|_| raw_claim(&drafted.server, &drafted.token))
            .collect();
        // All five wait: the server says how many it counts.
        for _ in 0..500 {
            if drafted
                .http
                .get("/metrics")
                .await
                .text
                .contains("muster_claims_waiting 1\n")
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(links);
        tokio::time::sleep(Duration::from_millis(100)).await;
        drafted.ada.approve(drafted.draft).await;
        assert_eq!(
            drafted.http.claim(&drafted.token, 2).await.json()["draft_id"],
            drafted.draft
        );
        drafted.end().await;
    }
}

// spec: CLM-028 CLM-029
#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_claims_at_once_one_gets_the_reply() {
    for engine in engines() {
        let mut drafted = Drafted::new(Place::on(engine).await).await;
        // Half of them wait for it, half come after it.
        let claim = |wait| {
            let (http, token) = (drafted.http.clone(), drafted.token.clone());
            tokio::spawn(async move { http.claim(&token, wait).await })
        };
        let mut claims: Vec<_> = (0..10).map(|_| claim(3)).collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        drafted.ada.approve(drafted.draft).await;
        claims.extend((0..10).map(|_| claim(0)));
        let mut taken = Vec::new();
        for claim in claims {
            let answer = claim.await.unwrap();
            match answer.status {
                200 => taken.push(answer.json()["draft_id"].as_i64().unwrap()),
                204 => {}
                _ => panic!("{answer:?}"),
            }
        }
        assert_eq!(taken, [drafted.draft]);
        for _ in 0..3 {
            assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        }
        drafted.end().await;
    }
}

// spec: CLM-030 CLM-031 CLM-032 CFG-004
#[tokio::test(flavor = "multi_thread")]
async fn a_lapsed_lease_is_unconfirmed_and_never_offered_or_approved_again() {
    for engine in engines() {
        let mut drafted = Drafted::new(Place::on(engine).await).await;
        drafted.ada.approve(drafted.draft).await;
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 200);
        drafted.place.move_clock(115);
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        assert!(
            !drafted.archived("unconfirmed").await,
            "the lease lapsed before two minutes were over"
        );
        drafted.place.move_clock(125);
        assert!(drafted.archived("unconfirmed").await);
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        let refused = drafted.ada.decide("approve", drafted.draft).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.text.contains("unconfirmed"), "{}", refused.text);
        drafted.place.move_clock(7_000);
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        // A late result is still recorded on the reply it was claimed as.
        let late = drafted
            .http
            .report(&drafted.token, drafted.draft, &json!({"ok": true}))
            .await;
        assert_eq!(
            (late.status, late.json()["status"].as_str().unwrap()),
            (200, "sent")
        );
        drafted.end().await;
    }
}

// spec: CLM-033
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_still_counts() {
    for engine in engines() {
        let mut drafted = Drafted::new(Place::on(engine).await).await;
        let look = drafted.place.look().await;
        let mut link = raw_claim(&drafted.server, &drafted.token);
        tokio::time::sleep(Duration::from_millis(100)).await;
        drafted.ada.approve(drafted.draft).await;
        // The answer is on its way to this socket; nobody ever reads it as an answer.
        link.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(link.read(&mut [0; 1]).unwrap() == 1);
        drop(link);
        assert_eq!(
            look.number("SELECT count(*) FROM drafts WHERE claimed_at IS NOT NULL")
                .await,
            1
        );
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        drafted.place.move_clock(121);
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 204);
        assert!(drafted.archived("unconfirmed").await);
        look.close().await;
        drafted.end().await;
    }
}

// spec: CLM-034
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_neither_gives_a_lease_back_nor_lengthens_it() {
    for engine in engines() {
        let mut drafted = Drafted::new(Place::on(engine).await).await;
        drafted.ada.approve(drafted.draft).await;
        assert_eq!(drafted.http.claim(&drafted.token, 0).await.status, 200);
        let look = drafted.place.look().await;
        let lease = "SELECT lease_until FROM drafts";
        let before = look.number(lease).await;
        drafted.place.move_clock(100);
        let Drafted {
            place, server, token, ..
        } = drafted;
        server.kill();
        let server = place.serve();
        assert_eq!(server.http().claim(&token, 0).await.status, 204);
        assert_eq!(look.number(lease).await, before);
        assert_eq!(server.stop().0.code(), 0);
        place.move_clock(121);
        let server = place.serve();
        assert_eq!(server.http().claim(&token, 0).await.status, 204);
        look.becomes("SELECT state FROM drafts", "unconfirmed").await;
        look.close().await;
        drop(server);
        place.end().await;
    }
}
