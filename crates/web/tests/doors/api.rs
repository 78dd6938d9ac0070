//! `POST /api/plugins/messages/{id}/retry`: who may ask, what each refusal says.

use muster_app::accounts;
use muster_app::chief;
use muster_app::{messages, plugins};
use muster_core::ids::MessageId;
use muster_core::secret::TokenKind;
use muster_runtime::Outcome;
use muster_testkit::{ScriptedChief, Step, message};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;

use super::kit::{Answer, Ask, Doors, HOOK, add_owner, doors};

async fn retry(doors: &Doors, token: &str, id: impl std::fmt::Display) -> Answer {
    doors
        .send(Ask::post(&format!("/api/plugins/messages/{id}/retry")).bearer(token))
        .await
}

// spec: RTY-006 TOK-027 CFG-005
#[test]
fn a_personal_token_or_the_hook_token_hands_the_message_to_the_chief_again() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let personal = doors.token(doors.ada(), TokenKind::Personal).await;
        for (n, token) in [personal.as_str(), HOOK].into_iter().enumerate() {
            let lost = doors.unconfirmed(&mail, &format!("lost-{n}")).await;
            let turns = doors.muster.chief.turns().len();
            let answer = retry(&doors, token, lost).await;
            assert_eq!(
                answer.line(),
                format!(r#"200 application/json {{"id":{lost},"status":"queued"}}"#)
            );
            doors.taken(&mail, turns + 1).await;
            assert!(
                doors
                    .muster
                    .chief
                    .turns()
                    .last()
                    .unwrap()
                    .text
                    .contains("retry 1")
            );
            assert_eq!(retry(&doors, token, lost).await.status, 409, "it was delivered");
        }
        let lost = doors.unconfirmed(&mail, "lost").await;
        assert_eq!(
            retry(&doors.without_hook(), HOOK, lost).await.status,
            401,
            "a server that is not armed"
        );
        let refused = retry(&doors, &mail.token, lost).await;
        assert!(
            refused.status == 401
                && refused.header("www-authenticate") == "Bearer"
                && refused.error().contains("mst_"),
            "{}",
            refused.line()
        );
        let id = accounts::tokens(&doors.app, doors.ada()).await.unwrap()[0].id;
        accounts::revoke_token(&doors.app, doors.ada(), id).await.unwrap();
        assert_eq!(retry(&doors, &personal, lost).await.status, 401, "revoked");
        assert_eq!(
            messages::unconfirmed(&doors.app, doors.ada())
                .await
                .unwrap()
                .len(),
            1,
            "and it still waits for the owner's word"
        );
    });
}

// spec: RTY-023 RTY-024 RTY-025
#[test]
fn each_refusal_has_a_sentence_of_its_own_and_changes_nothing() {
    doors(|doors| async move {
        let ada = doors.ada();
        let (mail, gone) = (
            doors.connector(ada, "mail").await,
            doors.connector(ada, "gone").await,
        );
        let personal = doors.token(ada, TokenKind::Personal).await;
        let bob = add_owner(&doors.app, "bob").await;
        let bobs = doors.token(bob, TokenKind::Personal).await;
        // A token's first use is noted; what follows must not change even that.
        for token in [&personal, &bobs] {
            assert_eq!(retry(&doors, token, 999_999).await.status, 404);
        }
        let mut said = BTreeSet::new();
        let mut refused = async |token: &str, id: MessageId, status: u16| {
            let before = doors.state(ada).await;
            let answer = retry(&doors, token, id).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(doors.state(ada).await, before);
            said.insert(answer.error());
            answer.error()
        };

        let revoked = doors.unconfirmed(&gone, "revoked").await;
        plugins::revoke(&doors.app, ada, gone.id).await.unwrap();
        let lost = doors.unconfirmed(&mail, "lost").await;
        let delivered = doors
            .delivered(&mail, message("delivered"), Step::Complete("read"))
            .await;
        let queued = doors.store(&mail, message("queued")).await;
        let drafted = doors.store(&mail, message("drafted")).await;
        let files_and_breaks_off = ScriptedChief::acting(move |app, caller, _| async move {
            muster_app::drafts::file(&app, &caller, drafted, "Yes.")
                .await
                .unwrap();
            Outcome::BrokenOff {
                reason: "cut off".to_owned(),
            }
        });
        doors.deliver(ada, drafted, files_and_breaks_off).await;

        assert!(refused(&personal, queued, 409).await.contains("already queued"));
        assert!(
            refused(&personal, delivered, 409)
                .await
                .contains("nothing to retry")
        );
        assert!(
            refused(&personal, drafted, 409)
                .await
                .contains("already drafted a reply to this message, and that draft is pending")
        );
        assert!(refused(&personal, revoked, 409).await.contains("was revoked"));
        let (gate, running) = (
            Arc::new(Notify::new()),
            doors.store(&mail, message("running")).await,
        );
        doors.begin(ada, running, Step::Hold(gate.clone())).await;
        assert!(refused(&personal, running, 409).await.contains("being delivered"));
        gate.notify_one();
        doors.muster.settle().await;
        chief::remove(&doors.app, ada).await.unwrap();
        assert!(refused(&personal, lost, 409).await.contains("you have no chief"));
        assert_eq!(refused(&bobs, lost, 404).await, "there is no such message");
        assert_eq!(
            refused(&personal, MessageId::new(999_999), 404).await,
            "there is no such message"
        );
        assert_eq!(said.len(), 7, "{said:?}");

        for id in ["", "abc", "0", "-1", "1.0", "99999999999999999999", "%2e%2e"] {
            let answer = retry(&doors, &personal, id).await;
            assert_eq!(
                (answer.status, answer.error().as_str()),
                (404, "there is no such message"),
                "{id}"
            );
        }
    });
}

// spec: GATE-006
#[test]
fn while_plugins_are_off_the_route_is_not_there_for_anybody() {
    doors(|on| async move {
        let mail = on.connector(on.ada(), "mail").await;
        let personal = on.token(on.ada(), TokenKind::Personal).await;
        let lost = on.unconfirmed(&mail, "lost").await;
        let off = on.off();
        let before = on.state(on.ada()).await;
        for token in [personal.as_str(), HOOK, mail.token.as_str(), "nonsense"] {
            let answer = retry(&off, token, lost).await;
            assert_eq!(
                (answer.status, answer.error().as_str()),
                (404, "there is no such route on this server"),
                "{token}"
            );
        }
        for path in ["/api/plugin-threads", "/api/pr-sessions", "/api/routes/1/reply"] {
            assert_eq!(
                off.send(Ask::post(path).bearer(&personal)).await.status,
                404,
                "{path}"
            );
        }
        assert_eq!(
            off.send(Ask::get(&format!("/api/plugins/messages/{lost}/retry")))
                .await
                .status,
            404,
            "before the method is looked at"
        );
        assert_eq!(on.state(on.ada()).await, before);
    });
}
