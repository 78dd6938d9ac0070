//! Callers that hang up in the middle: what they began is done to its end. The moment in which they do is held open by another write. It tests nothing of how a connection ends.

use muster_app::{messages, plugins};
use muster_core::Fault;
use muster_core::secret::TokenKind;
use muster_store::Engine;
use muster_testkit::Step;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

use super::kit::{Ask, Connector, Doors, doors, soon};
use super::plugin_v1::MESSAGES;

/// Sends `ask` while nothing can be committed, stops listening to it, lets the commit happen as soon as it may, and hangs up once `done`.
async fn hang_up<F: Future<Output = bool>>(
    doors: &Doors,
    connector: &Connector,
    ask: Ask,
    done: impl Fn() -> F,
) {
    let (held, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (app, caller) = (doors.app.clone(), connector.caller.clone());
    let (holds, waits) = (held.clone(), gate.clone());
    let holding = tokio::spawn(async move {
        let (owner, plugin) = (caller.owner, caller.plugin.get());
        app.db
            .write_in_turn(owner, "plugin", plugin, move |_| {
                Box::pin(async move {
                    holds.notify_one();
                    waits.notified().await;
                    Ok::<_, Fault>(())
                })
            })
            .await
    });
    held.notified().await;
    let mut request = doors.on_its_way(ask);
    tokio::select! {
        status = &mut request => panic!("answered with {status} before anything could be stored"),
        () = tokio::time::sleep(Duration::from_millis(300)) => {}
    }
    gate.notify_one();
    holding.await.unwrap().unwrap();
    soon("what was asked for", done).await;
    drop(request);
}

// spec: DLV-001
#[test]
fn a_message_whose_connector_hangs_up_after_its_commit_reaches_the_chief_all_the_same() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        doors.chief_of(doors.ada()).await;
        doors.muster.chief.then(Step::Complete("read it"));
        let ask = Ask::json(MESSAGES, &json!({"external_id": "m", "body": "hello"})).bearer(&mail.token);
        hang_up(&doors, &mail, ask, || async {
            let waiting = plugins::list(&doors.app, doors.ada()).await.unwrap()[0].waiting;
            waiting > 0 || !doors.muster.chief.turns().is_empty()
        })
        .await;
        // No claim comes, so nothing else hands it over.
        soon("a turn", || async { doors.muster.chief.turns().len() == 1 }).await;
        doors.muster.settle().await;
    });
}

#[test]
fn a_retry_whose_script_hangs_up_after_its_commit_reaches_the_chief_all_the_same() {
    doors(|doors| async move {
        if doors.muster.engine == Engine::Postgres {
            // What holds a message up there lets a retry through, and the chief's lock may still be the last turn's.
            return;
        }
        let mail = doors.connector(doors.ada(), "mail").await;
        let lost = doors.unconfirmed(&mail, "lost").await;
        doors.muster.settle().await;
        let personal = doors.token(doors.ada(), TokenKind::Personal).await;
        // Once beforehand: the first use of a token is itself a write.
        let unused = Ask::post("/api/plugins/messages/999999/retry").bearer(&personal);
        assert_eq!(doors.send(unused).await.status, 404);
        let cookie = doors.sign_in("ada").await;
        for ask in [
            Ask::post(&format!("/api/plugins/messages/{lost}/retry")).bearer(&personal),
            Ask::form(&format!("/plugins/messages/{lost}/retry"), &[]).cookie(&cookie),
        ] {
            let turns = doors.muster.chief.turns().len();
            doors.muster.chief.then(Step::BreakOff);
            hang_up(&doors, &mail, ask, || async {
                let left = messages::unconfirmed(&doors.app, doors.ada()).await.unwrap();
                left.is_empty() || doors.muster.chief.turns().len() > turns
            })
            .await;
            soon("another turn", || async {
                doors.muster.chief.turns().len() == turns + 1
            })
            .await;
            doors.muster.settle().await;
        }
    });
}
