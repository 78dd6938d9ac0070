//! `/readyz`: ready means that a write can be committed to the database that is open, and nothing less.

use muster_store::Engine;
use std::time::Duration;

use super::kit::{Answer, Ask, Doors, doors};

/// Asks after the time in which an earlier answer stands.
async fn ready(doors: &Doors) -> Answer {
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    doors.send(Ask::get("/readyz")).await
}

fn is_not_ready(answer: &Answer, why: &str) {
    assert_eq!(answer.status, 503, "{why}");
    assert!(
        answer.text().contains("not ready")
            && answer.text().trim_end().ends_with('.')
            && !answer.text().contains('/'),
        "a sentence, and nothing of the machine: {}",
        answer.text()
    );
}

#[test]
fn a_server_is_ready_only_while_it_can_write_to_the_database_that_is_open() {
    doors(|doors| async move {
        let text = "200 text/plain; charset=utf-8 ready";
        assert_eq!(doors.send(Ask::get("/readyz")).await.line(), text);
        if doors.muster.engine == Engine::Sqlite {
            let file = doors.muster.url.trim_start_matches("sqlite://").to_owned();
            let away = format!("{file}.away");
            std::fs::rename(&file, &away).unwrap();
            is_not_ready(&ready(&doors).await, "its file is gone");
            std::fs::copy(&away, &file).unwrap();
            is_not_ready(&ready(&doors).await, "another file lies in its place");
            std::fs::rename(&away, &file).unwrap();
            assert_eq!(ready(&doors).await.line(), text, "the file is back");
        }
        doors.app.db.close().await;
        is_not_ready(&ready(&doors).await, "nothing can be written");
        assert_eq!(
            doors.send(Ask::get("/healthz")).await.status,
            200,
            "it lives all the same"
        );
    });
}
