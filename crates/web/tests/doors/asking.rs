//! The Asks page: what a waiting call shows, the two answers, who counts as somebody who can be asked.

use http_body_util::BodyExt as _;
use muster_app::access::{self, Seat};
use muster_app::policies::LayerName;
use muster_app::{policies, settings};
use serde_json::json;
use tower::ServiceExt as _;

use super::fleet::{Fleet, waiting};
use super::kit::{Ask, Doors, add_owner, doors, soon};

/// The open stream of a page on which asks are answered; the page is closed when this is dropped.
struct Open(axum::body::Body);

/// Opens the Asks page's stream as its script does.
async fn open(doors: &Doors, cookie: &str) -> Open {
    let ask = Ask::get("/events?asks=1")
        .header("accept", "text/event-stream")
        .cookie(cookie);
    let request = ask.request("localhost:7447", "http://localhost:7447");
    let response = doors.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    Open(response.into_body())
}

async fn somebody(doors: &Doors) -> bool {
    access::somebody_present(&doors.app, doors.ada()).await.unwrap()
}

/// The id of the one ask that a page shows.
fn shown_ask(page: &str) -> String {
    let (_, rest) = page
        .split_once("action=\"/attention/asks/")
        .unwrap_or_else(|| panic!("no ask: {page}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// Presses a button of an ask's card.
async fn press(doors: &Doors, cookie: &str, ask: &str, act: &str) -> super::kit::Answer {
    doors
        .send(Ask::form(&format!("/attention/asks/{ask}/{act}"), &[]).cookie(cookie))
        .await
}

// spec: ASK-002 ASK-003 ASK-008 ASK-009 ASK-013
#[test]
fn a_parked_call_goes_on_or_ends_as_its_owner_answers_on_the_page_and_a_second_answer_changes_nothing() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let (cookie, other) = (doors.sign_in("ada").await, doors.sign_in("ada").await);
        let page = open(&doors, &cookie).await;
        let sql = "SELECT 1;\n-- \u{202e}<b>quiet</b>";
        let call = fleet.parks(&doors, fleet.query(sql)).await;
        let html = doors.page(&cookie, "/attention").await;
        for words in [
            "helper",
            "Tidy up",
            "muster_db_query",
            "db_read",
            "db_connection staging",
            "SELECT 1;\n-- \\u{202e}&#60;b&#62;quiet&#60;/b&#62;",
            "Allow for 60 seconds",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        let ask = shown_ask(&html);
        let answer = press(&doors, &cookie, &ask, "allow").await;
        assert_eq!((answer.status, answer.location()), (303, "/attention"));
        assert!(call.await.unwrap().is_ok(), "the same call goes on");
        assert!(
            doors
                .page(&cookie, "/attention")
                .await
                .contains("Allowed: the call goes on")
        );
        let second = press(&doors, &other, &ask, "refuse").await;
        assert_eq!(second.status, 409);
        assert!(
            second
                .text()
                .contains("The ask was already decided or has ended: it is approved"),
            "{}",
            second.text()
        );
        let call = fleet.parks(&doors, fleet.listing(json!({}))).await;
        let ask = shown_ask(&doors.page(&other, "/attention?tab=asks").await);
        let answer = press(&doors, &other, &ask, "refuse").await;
        assert_eq!((answer.status, answer.location()), (303, "/attention"));
        assert_eq!(call.await.unwrap().unwrap_err().code, "refused_by_person");
        assert_eq!(press(&doors, &cookie, "999999", "allow").await.status, 404);
        drop(page);
    });
}

#[test]
fn an_old_sign_in_answers_an_ask_without_proving_itself_anew_and_another_owner_finds_none() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        add_owner(&doors.app, "eve").await;
        let (cookie, eve) = (doors.sign_in("ada").await, doors.sign_in("eve").await);
        doors
            .muster
            .clock
            .advance(std::time::Duration::from_secs(13 * 3600));
        let page = open(&doors, &cookie).await;
        let call = fleet.parks(&doors, fleet.listing(json!({}))).await;
        let ask = shown_ask(&doors.page(&cookie, "/attention").await);
        assert!(!doors.page(&eve, "/attention").await.contains("muster_list_hosts"));
        assert_eq!(press(&doors, &eve, &ask, "allow").await.status, 404);
        assert_eq!(waiting(&doors).await, 1);
        assert_eq!(press(&doors, &cookie, &ask, "allow").await.status, 303);
        assert!(call.await.unwrap().is_ok());
        drop(page);
    });
}

// spec: ASK-027 ASK-035
#[test]
fn somebody_can_be_asked_exactly_as_long_as_an_asks_page_holds_its_stream() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let cookie = doors.sign_in("ada").await;
        doors.page(&cookie, "/attention").await;
        let elsewhere = doors.send(Ask::get("/events").cookie(&cookie)).await;
        assert_eq!(elsewhere.status, 200);
        assert!(
            !somebody(&doors).await,
            "a page that only tells of changes shows no ask"
        );
        let auto = access::decide(&doors.app, &fleet.agent, fleet.listing(json!({}))).await;
        assert!(
            auto.is_ok(),
            "nobody can be asked, and the setting is as it is shipped"
        );
        let (first, second) = (open(&doors, &cookie).await, open(&doors, &cookie).await);
        assert!(somebody(&doors).await);
        drop(first);
        let call = fleet.parks(&doors, fleet.listing(json!({"again": 1}))).await;
        call.abort();
        soon("an empty queue", || async { waiting(&doors).await == 0 }).await;
        drop(second);
        soon("nobody there", || async { !somebody(&doors).await }).await;
    });
}

#[test]
fn a_sign_in_that_ended_ends_the_stream_and_with_it_the_presence() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let mut page = open(&doors, &cookie).await;
        assert!(somebody(&doors).await);
        doors.send(Ask::form("/sign-out", &[]).cookie(&cookie)).await;
        let mut told = String::new();
        while let Some(frame) = page.0.frame().await {
            told.push_str(&String::from_utf8_lossy(&frame.unwrap().into_data().unwrap()));
        }
        assert!(told.contains("signed-out"), "{told}");
        drop(page);
        soon("nobody there", || async { !somebody(&doors).await }).await;
    });
}

// spec: ASK-014 ASK-018
#[test]
fn an_ask_that_expired_is_gone_from_the_page_and_a_late_answer_is_told_so() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let page = open(&doors, &cookie).await;
        settings::set(&doors.app, doors.ada(), settings::EXPIRY_SECONDS, "120")
            .await
            .unwrap();
        let call = fleet.parks(&doors, fleet.listing(json!({}))).await;
        let html = doors.page(&cookie, "/attention").await;
        assert!(
            html.contains("in 2 minutes") && html.contains("120 seconds"),
            "{html}"
        );
        let ask = shown_ask(&html);
        doors.muster.clock.advance(std::time::Duration::from_secs(121));
        assert_eq!(call.await.unwrap().unwrap_err().code, "refused_expired");
        assert!(
            doors
                .page(&cookie, "/attention")
                .await
                .contains("No call of an agent’s waits")
        );
        let late = press(&doors, &cookie, &ask, "allow").await;
        assert_eq!(late.status, 409);
        assert!(late.text().contains("it is expired"), "{}", late.text());
        drop(page);
    });
}

#[test]
fn every_page_says_when_calls_that_ask_run_unasked_and_none_does_otherwise() {
    const BANNER: &str = "Calls that ask run unasked now.";
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let says = async |path: &str| doors.page(&cookie, path).await.contains(BANNER);
        assert!(!says("/").await, "no policy asks");
        let fleet = Fleet::asking(&doors).await;
        for path in [
            "/",
            "/audit",
            "/attention",
            "/attention?tab=drafts",
            "/settings",
            "/chief",
        ] {
            assert!(says(path).await, "{path}");
        }
        let seat = access::present(&doors.app, doors.ada(), Seat::Watch)
            .await
            .unwrap();
        assert!(!says("/").await, "somebody can be asked");
        seat.leave().await.unwrap();
        assert!(says("/").await);
        settings::set(&doors.app, doors.ada(), settings::REQUIRE_WHEN_CLOSED, "true")
            .await
            .unwrap();
        assert!(!says("/").await, "such calls are refused");
        settings::set(&doors.app, doors.ada(), settings::REQUIRE_WHEN_CLOSED, "false")
            .await
            .unwrap();
        policies::clear_layer(&doors.app, doors.ada(), fleet.edit(LayerName::Global))
            .await
            .unwrap();
        assert!(!says("/").await, "no grant of ask is left");
    });
}

#[test]
fn every_page_counts_the_asks_that_wait() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let page = open(&doors, &cookie).await;
        let badge = "Asks<span class=\"badge\"><span class=\"sr\">: </span>1<span";
        assert!(!doors.page(&cookie, "/settings").await.contains(badge));
        let call = fleet.parks(&doors, fleet.listing(json!({}))).await;
        for path in ["/", "/settings", "/attention"] {
            let html = doors.page(&cookie, path).await;
            assert!(html.contains(badge), "{path}: {html}");
        }
        assert!(
            doors
                .page(&cookie, "/attention")
                .await
                .contains("<title>(1) Asks")
        );
        call.abort();
        drop(page);
    });
}
