//! A server that is killed at a chosen moment, and two servers on one database: what was promised before holds after. Never with a second chance for luck.

use serde_json::{Value, json};

use crate::support::{Look, Place, engines, lives, message};

async fn state(look: &Look, external_id: &str) -> String {
    look.text(&format!(
        "SELECT state FROM messages WHERE external_id = '{external_id}'"
    ))
    .await
}

async fn becomes(look: &Look, external_id: &str, wanted: &str) {
    look.becomes(
        &format!("SELECT state FROM messages WHERE external_id = '{external_id}'"),
        wanted,
    )
    .await;
}

/// The ids of the messages that a chief was handed, in order.
fn handed(place: &Place, record: &str) -> Vec<i64> {
    place
        .record(record)
        .iter()
        .map(|turn| turn["message"].as_i64().unwrap())
        .collect()
}

fn delivered_events(place: &Place) -> Vec<Value> {
    let all = place.json(&["audit", "list", "--event", "plugin.delivered"]);
    all.as_array()
        .unwrap()
        .iter()
        .map(|row| row["data"].clone())
        .collect()
}

// spec: MSG-002
#[tokio::test(flavor = "multi_thread")]
async fn an_answered_message_outlives_the_server() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        for round in 0..5 {
            let name = format!("m-{round}");
            let server = place.serve();
            let stored = server.http().message(&token, &message(&name)).await;
            server.kill();
            assert_eq!(stored.status, 202);
            let server = place.serve();
            let again = server.http().message(&token, &message(&name)).await;
            assert_eq!(
                (again.status, again.json()),
                (200, json!({"id": stored.json()["id"], "status": "queued"}))
            );
        }
        place.end().await;
    }
}

// spec: DLV-020 DLV-021
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_crash_cut_off_is_settled_by_the_next_one_and_never_given_again() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief(
            "ada",
            "turns",
            &format!("--hold '{}'", place.path("go").display()),
        );
        let server = place.serve();
        let first = server.http().message(&token, &message("first")).await.json()["id"]
            .as_i64()
            .unwrap();
        let child = i32::try_from(place.recorded("turns", 1).await[0]["pid"].as_i64().unwrap()).unwrap();
        server.kill();

        let server = place.serve();
        let (http, look) = (server.http(), place.look().await);
        assert_eq!(state(&look, "first").await, "delivering");
        assert_eq!(
            http.message(&token, &message("first")).await.json()["status"],
            "queued",
            "a connector sees three words"
        );
        assert_eq!(http.claim(&token, 0).await.status, 204);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(
            state(&look, "first").await,
            "delivering",
            "only the next delivery settles it"
        );

        std::fs::write(place.path("go"), "").unwrap();
        let second = http.message(&token, &message("second")).await.json()["id"]
            .as_i64()
            .unwrap();
        becomes(&look, "second", "delivered").await;
        assert_eq!(state(&look, "first").await, "unconfirmed");
        assert_eq!(
            http.message(&token, &message("first")).await.json()["status"],
            "unconfirmed"
        );
        assert!(!lives(child), "the chief of the killed server still acts");
        let events = delivered_events(&place);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(
            (&events[0]["outcome"], &events[0]["recovered"]),
            (&json!("unconfirmed"), &json!(true))
        );
        assert_eq!(
            (&events[1]["outcome"], &events[1]["recovered"]),
            (&json!("delivered"), &Value::Null)
        );

        assert_eq!(http.claim(&token, 0).await.status, 204);
        http.message(&token, &message("third")).await;
        becomes(&look, "third", "delivered").await;
        assert_eq!(
            handed(&place, "turns")[..2],
            [first, second],
            "the first message was handed over again"
        );
        look.close().await;
        drop(server);
        place.end().await;
    }
}

// spec: DLV-022
#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivering_to_a_chief_that_is_gone_stays_so() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief(
            "ada",
            "old",
            &format!("--hold '{}'", place.path("never").display()),
        );
        let server = place.serve();
        server.http().message(&token, &message("first")).await;
        place.recorded("old", 1).await;
        server.kill();
        place.set_chief("ada", "new", "");

        let server = place.serve();
        let (http, look) = (server.http(), place.look().await);
        assert_eq!(http.claim(&token, 1).await.status, 204);
        let second = http.message(&token, &message("second")).await.json()["id"]
            .as_i64()
            .unwrap();
        becomes(&look, "second", "delivered").await;
        assert_eq!(http.claim(&token, 1).await.status, 204);
        assert_eq!(state(&look, "first").await, "delivering");
        assert_eq!(
            (handed(&place, "old").len(), handed(&place, "new")),
            (1, vec![second])
        );
        look.close().await;
        drop(server);
        place.end().await;
    }
}

// spec: DLV-023
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_another_server_runs_is_not_taken_for_a_crashed_one() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief(
            "ada",
            "turns",
            &format!("--hold '{}'", place.path("go").display()),
        );
        let (one, other) = (place.serve(), place.serve());
        let look = place.look().await;
        one.http().message(&token, &message("first")).await;
        place.recorded("turns", 1).await;
        other.http().message(&token, &message("second")).await;
        assert_eq!(other.http().claim(&token, 1).await.status, 204);
        assert_eq!(
            (state(&look, "first").await, state(&look, "second").await),
            ("delivering".to_owned(), "queued".to_owned())
        );
        assert_eq!(
            place.record("turns").len(),
            1,
            "the chief was given two turns at once"
        );

        std::fs::write(place.path("go"), "").unwrap();
        becomes(&look, "first", "delivered").await;
        assert_eq!(other.http().claim(&token, 0).await.status, 204);
        becomes(&look, "second", "delivered").await;
        let events = delivered_events(&place);
        assert!(
            events
                .iter()
                .all(|data| data["recovered"].is_null() && data["outcome"] == "delivered"),
            "{events:?}"
        );
        look.close().await;
        drop((one, other));
        place.end().await;
    }
}

/// The tokens of turns that run, or that nobody cleaned up.
const TURN_TOKENS: &str = "SELECT count(*) FROM tokens WHERE turn_id IS NOT NULL";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_left_of_a_turn_is_ended_before_the_next_one_listens() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        place.add_owner("bob");
        let tokens = ["ada", "bob"].map(|owner| place.add_connector(owner, "mail"));
        let hold = format!("--hold '{}'", place.path("go").display());
        place.set_chief("ada", "ada", &hold);
        place.set_chief("bob", "bob", &hold);
        let dying = place.serve();
        dying.http().message(&tokens[0], &message("first")).await;
        let child = i32::try_from(place.recorded("ada", 1).await[0]["pid"].as_i64().unwrap()).unwrap();
        // Another server runs a turn meanwhile, of another chief.
        let living = place.serve();
        living.http().message(&tokens[1], &message("first")).await;
        let other = i32::try_from(place.recorded("bob", 1).await[0]["pid"].as_i64().unwrap()).unwrap();
        // A chief that nothing will ever be handed to again.
        place.set_chief("ada", "new", "");
        let look = place.look().await;
        assert_eq!(look.number(TURN_TOKENS).await, 2);
        dying.kill();
        assert!(lives(child) && lives(other));

        let mut left = 0;
        // On Postgres a lock goes when the server sees the connection end.
        for _ in 0..20 {
            drop(place.serve());
            assert!(
                !lives(child),
                "the program of the killed server acts while the next one listens"
            );
            left = look.number(TURN_TOKENS).await;
            if left == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(left, 1, "a turn's token outlived its server");
        assert!(lives(other), "a turn of a living server was ended");
        std::fs::write(place.path("go"), "").unwrap();
        for _ in 0..6_000 {
            if look.number(TURN_TOKENS).await == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let states = look
            .all::<(String,)>("SELECT state FROM messages ORDER BY id")
            .await;
        assert_eq!(
            states,
            [("delivering".to_owned(),), ("delivered".to_owned(),)],
            "the message itself waits for a delivery to its chief"
        );
        look.close().await;
        drop(living);
        place.end().await;
    }
}

#[test]
fn a_chief_that_a_test_holds_ends_with_the_tests_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("python3")
        .args(["-I", "-S", crate::support::CHIEF])
        .arg(folder.path().join("record"))
        .arg("--hold")
        .arg(folder.path().join("never"))
        .env("MUSTER_CONVERSATION", "c")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !folder.path().join("record").exists() {
        assert!(std::time::Instant::now() < end, "it did not begin");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(child.try_wait().unwrap().is_none(), "it is held");
    folder.close().unwrap();
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > end {
            child.kill().unwrap();
            panic!("it waits for a folder that is gone");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
