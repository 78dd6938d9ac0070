//! `POST /plugin/v1/drafts/claim` and `/{id}/result`: the wait, the lease, the answers.

use muster_app::{audit, plugins};
use muster_core::secret::sha256_hex;
use muster_core::text::fold;
use muster_testkit::message;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use super::kit::{Answer, Ask, Connector, Doors, doors, escaped, same_on_both, soon};

const CLAIM: &str = "/plugin/v1/drafts/claim";

async fn claim(doors: &Doors, connector: &Connector, body: impl Into<Vec<u8>>) -> Answer {
    doors
        .send(Ask::post(CLAIM).bearer(&connector.token).body(body))
        .await
}

async fn report(
    doors: &Doors,
    connector: &Connector,
    draft: impl std::fmt::Display,
    body: impl ToString,
) -> Answer {
    let ask = Ask::post(&format!("/plugin/v1/drafts/{draft}/result")).bearer(&connector.token);
    doors.send(ask.body(body.to_string())).await
}

// spec: CLM-001 CLM-003..CLM-006 CLM-009 GATE-012 GATE-016
#[test]
fn a_claim_is_wait_seconds_or_nothing() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        for good in ["", "{}", r#"{"wait_seconds":0}"#, r#" {"wait_seconds" : 0.0 } "#] {
            let start = Instant::now();
            let answer = claim(&doors, &mail, good).await;
            assert_eq!(
                (answer.status, answer.body.len(), answer.header("content-type")),
                (204, 0, ""),
                "{good}"
            );
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{good} waits for nothing"
            );
        }
        let bad = [
            r#""x""#,
            "[1]",
            r#"{"wait":1}"#,
            r#"{"wait_seconds":"5"}"#,
            r#"{"wait_seconds":-1}"#,
            r#"{"wait_seconds":1.5}"#,
            r#"{"wait_seconds":null}"#,
            r#"{"wait_seconds":[]}"#,
            r#"{"wait_seconds":0,"more":1}"#,
            "5",
            "{",
            "null",
            " ",
        ];
        for body in bad {
            let answer = claim(&doors, &mail, body).await;
            assert_eq!((answer.status, answer.error().is_empty()), (400, false), "{body}");
        }
        same_on_both!(claim(&doors, &mail, r#"{"wait":1}"#).await.line(), @r#"400 application/json {"error":"the body may hold wait_seconds and nothing else"}"#);
        same_on_both!(claim(&doors, &mail, r#"{"wait_seconds":1.5}"#).await.line(), @r#"400 application/json {"error":"wait_seconds must be a whole number, 0 or more"}"#);
    });
}

// spec: CLM-010..CLM-013 CLM-015
#[test]
fn a_claimed_reply_is_exactly_what_was_approved_and_is_leased_once() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let first = doors
            .approved(&cookie, &mail, "msg-7", "Thanks, noon works.")
            .await;
        let answer = claim(&doors, &mail, r#"{"wait_seconds":25}"#).await;
        assert_eq!(first.get(), 1);
        same_on_both!(answer.line(), @r#"200 application/json {"draft_id":1,"message_external_id":"msg-7","body":"Thanks, noon works.","approved_at":"2027-01-15T08:00:00Z"}"#);
        assert_eq!(claim(&doors, &mail, "").await.status, 204, "it is offered once");
        doors.muster.clock.advance(Duration::from_secs(119));
        assert_eq!(claim(&doors, &mail, "").await.status, 204);
        let page = doors.page(&cookie, "/attention?tab=drafts").await;
        assert!(page.contains("collected") && page.contains("cannot be withdrawn any more"));
        let spelled = "Zoë,\n\"noon\" \\n \\ works: ½ ﬁne — 10\u{2009}%\t</pre>";
        doors.approved(&cookie, &mail, "msg-8", spelled).await;
        let body = doors.claim(&mail).await["body"].as_str().unwrap().to_owned();
        assert_eq!(sha256_hex(body.as_bytes()), sha256_hex(fold(spelled).as_bytes()));
    });
}

// spec: CLM-016 CLM-017
#[test]
fn the_oldest_approval_goes_first_and_one_claim_takes_one() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let mut drafts = Vec::new();
        for id in ["a", "b", "c"] {
            drafts.push(doors.draft(&mail, message(id), "Yes.").await.1);
        }
        for draft in [drafts[1], drafts[2], drafts[0]] {
            doors.muster.clock.advance(Duration::from_secs(1));
            doors.decide(&cookie, draft, "approve").await;
        }
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(
                doors.claim(&mail).await["message_external_id"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
        assert_eq!(taken, ["b", "c", "a"]);
        assert_eq!(claim(&doors, &mail, "").await.status, 204);
    });
}

/// Starts a claim that waits, and returns once it does.
async fn waiting(doors: &Doors, connector: &Connector, seconds: u32) -> tokio::task::JoinHandle<Answer> {
    let before = doors.app.db.wakeups().topics();
    let claim = doors.sending(Ask::json(CLAIM, &json!({"wait_seconds": seconds})).bearer(&connector.token));
    soon("a claim that waits", || async {
        doors.app.db.wakeups().topics() > before
    })
    .await;
    // Past its first look, which comes after it is counted.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!claim.is_finished());
    claim
}

// spec: CLM-007 TOK-023
#[test]
fn an_approval_wakes_the_claim_that_waits_for_it() {
    doors(|doors| async move {
        let (mail, chat) = (
            doors.connector(doors.ada(), "mail").await,
            doors.connector(doors.ada(), "chat").await,
        );
        let cookie = doors.sign_in("ada").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        let other = waiting(&doors, &chat, 2).await;
        let claim = waiting(&doors, &mail, 25).await;
        let start = Instant::now();
        doors.decide(&cookie, draft, "approve").await;
        let answer = claim.await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(
            (answer.status, &answer.json()["draft_id"]),
            (200, &Value::from(draft.get()))
        );
        assert_eq!(
            other.await.unwrap().status,
            204,
            "another connector's claim waits on"
        );
        let seen: Vec<_> = plugins::list(&doors.app, doors.ada())
            .await
            .unwrap()
            .into_iter()
            .map(|plugin| plugin.last_seen_at)
            .collect();
        assert_eq!(seen, [Some(doors.muster.clock.now()); 2]);
    });
}

// spec: CLM-009
#[test]
fn a_claim_gives_up_after_the_wait_it_asked_for() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let start = Instant::now();
        assert_eq!(claim(&doors, &mail, r#"{"wait_seconds":1}"#).await.status, 204);
        let waited = start.elapsed();
        assert!(
            (Duration::from_secs(1)..Duration::from_secs(5)).contains(&waited),
            "{waited:?}"
        );
        soon("a claim that is over is counted no more", || async {
            doors.app.db.wakeups().topics() == 0
        })
        .await;
    });
}

// spec: TOK-002 TOK-029 TOK-035
#[test]
fn revoking_a_connector_ends_its_waiting_claim_and_keeps_its_approved_reply() {
    doors(|doors| async move {
        let (mail, chat) = (
            doors.connector(doors.ada(), "mail").await,
            doors.connector(doors.ada(), "chat").await,
        );
        let cookie = doors.sign_in("ada").await;
        let draft = doors.approved(&cookie, &chat, "m", "Yes.").await;
        let claimer = waiting(&doors, &mail, 25).await;
        let start = Instant::now();
        for connector in [&mail, &chat] {
            doors
                .send(Ask::form(&format!("/plugins/{}/revoke", connector.id), &[]).cookie(&cookie))
                .await;
        }
        assert_eq!(claimer.await.unwrap().status, 401);
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(claim(&doors, &chat, "").await.status, 401);
        let page = doors.page(&cookie, "/attention?tab=drafts").await;
        assert!(page.contains("The connector was revoked, so nobody can collect this reply."));
        doors.muster.clock.advance(muster_app::drafts::LIFETIME);
        let archived = doors.page(&cookie, "/attention?tab=drafts&archived=1").await;
        assert!(archived.contains("expired") && archived.contains(&format!("Reply draft {draft}")));
    });
}

// spec: RES-004..RES-006 RES-012 RES-015 GATE-012
#[test]
fn a_result_is_recorded_once_and_the_other_one_is_a_conflict() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let rows = || async {
            audit::list(&doors.app.db, mail.owner, audit::Filter::default())
                .await
                .unwrap()
                .len()
        };
        for (ok, id, word, other) in [(true, "a", "sent", false), (false, "b", "failed", true)] {
            let draft = doors.approved(&cookie, &mail, id, "Yes.").await;
            doors.claim(&mail).await;
            let recorded = format!(r#"200 application/json {{"draft_id":{draft},"status":"{word}"}}"#);
            assert_eq!(
                report(
                    &doors,
                    &mail,
                    draft,
                    json!({"ok": ok, "external_ref": "first", "detail": "first words"})
                )
                .await
                .line(),
                recorded
            );
            let before = rows().await;
            assert_eq!(
                report(
                    &doors,
                    &mail,
                    draft,
                    json!({"ok": ok, "external_ref": "second", "detail": "second words"})
                )
                .await
                .line(),
                recorded
            );
            let conflict = report(&doors, &mail, draft, json!({"ok": other})).await;
            let expected = format!(
                r#"{{"error":"this reply is {word}, so this result cannot be recorded; nothing was changed","draft_id":{draft},"status":"{word}"}}"#
            );
            assert_eq!(conflict.line(), format!("409 application/json {expected}"));
            assert_eq!(rows().await, before);
        }
        let archived = doors.page(&cookie, "/attention?tab=drafts&archived=1").await;
        assert!(archived.contains("first words") && !archived.contains("second"));
    });
}

// spec: RES-001..RES-003 RES-007 GATE-016
#[test]
fn a_result_that_breaks_a_rule_leaves_the_reply_as_it_was() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let draft = doors.approved(&cookie, &mail, "m", "Yes.").await;
        doors.claim(&mail).await;
        let bad = [
            (json!({}), "ok is required"),
            (json!({"ok": "yes"}), "ok must be true or false"),
            (json!({"ok": null}), "ok must be true or false"),
            (json!({"ok": 1}), "ok must be true or false"),
            (
                json!({"ok": true, "external_ref": "a".repeat(201)}),
                "external_ref has 201 characters",
            ),
            (
                json!({"ok": true, "external_ref": 7}),
                "external_ref must be a string",
            ),
            (
                json!({"ok": true, "external_ref": "a\0"}),
                "external_ref holds a NUL character",
            ),
            (
                json!({"ok": true, "detail": "a".repeat(4_097)}),
                "detail has 4097 bytes",
            ),
            (
                json!({"ok": true, "detail": "é".repeat(2_049)}),
                "detail has 4098 bytes",
            ),
            (
                json!({"ok": true, "detail": "\0"}),
                "detail holds a NUL character",
            ),
            (json!({"ok": true, "detail": null}), "detail must be a string"),
            (json!([true]), "not a JSON object"),
            (json!(true), "not a JSON object"),
        ];
        for (body, why) in bad {
            let answer = report(&doors, &mail, draft, &body).await;
            let shown: String = body.to_string().chars().take(80).collect();
            assert_eq!(answer.status, 400, "{shown}: {}", answer.text());
            assert!(answer.error().contains(why), "{shown}: {}", answer.error());
        }
        for body in ["", "{", "ok"] {
            assert_eq!(report(&doors, &mail, draft, body).await.status, 400, "{body:?}");
        }
        let longest =
            json!({"ok": true, "external_ref": "é".repeat(200), "detail": "é".repeat(2_048), "more": [1]});
        assert_eq!(report(&doors, &mail, draft, longest).await.status, 200);
    });
}

// spec: RES-010 RES-011 RES-013
#[test]
fn a_result_for_what_was_never_claimed_is_refused_with_its_state() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        assert_eq!(draft.get(), 1);
        let conflict = async || report(&doors, &mail, draft, json!({"ok": true})).await.line();
        same_on_both!(conflict().await, @r#"409 application/json {"error":"this reply is pending, so this result cannot be recorded; nothing was changed","draft_id":1,"status":"pending"}"#);
        doors.decide(&cookie, draft, "approve").await;
        same_on_both!(conflict().await, @r#"409 application/json {"error":"this reply is approved, so this result cannot be recorded; nothing was changed","draft_id":1,"status":"approved"}"#);
        doors.decide(&cookie, draft, "withdraw").await;
        same_on_both!(conflict().await, @r#"409 application/json {"error":"this reply is rejected, so this result cannot be recorded; nothing was changed","draft_id":1,"status":"rejected"}"#);
        for id in [
            "999999",
            "abc",
            "0",
            "-1",
            "1.0",
            "+1",
            "99999999999999999999999",
            "1%20",
            "%00",
            "1e0",
            "é",
        ] {
            let answer = doors
                .send(
                    Ask::json(
                        &format!("/plugin/v1/drafts/{}/result", id.replace('é', "%C3%A9")),
                        &json!({"ok": true}),
                    )
                    .bearer(&mail.token),
                )
                .await;
            assert_eq!(
                answer.line(),
                r#"404 application/json {"error":"there is no such reply of this connector's"}"#,
                "{id}"
            );
        }
        // The token comes before the body, and the body before the id.
        assert_eq!(
            doors
                .send(Ask::post("/plugin/v1/drafts/abc/result").body("{"))
                .await
                .status,
            401
        );
        assert_eq!(report(&doors, &mail, "abc", "{").await.status, 400);
    });
}

// spec: RES-014
#[test]
fn what_the_connector_said_stands_escaped_in_the_archive_also_when_it_came_late() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let draft = doors.approved(&cookie, &mail, "m", "Yes.").await;
        doors.claim(&mail).await;
        doors.muster.clock.advance(muster_app::drafts::LEASE);
        let page = doors.page(&cookie, "/attention?tab=drafts&archived=1").await;
        assert!(
            page.contains("unconfirmed")
                && page.contains("It may have been sent; it is never offered again.")
        );
        let said = json!({"ok": false, "external_ref": "<ref-1>\u{202e}", "detail": "550 <script>alert(1)</script>\nno such \u{1b}[31muser"});
        assert_eq!(
            report(&doors, &mail, draft, said).await.json(),
            json!({"draft_id": draft.get(), "status": "failed"})
        );
        let page = doors.page(&cookie, "/attention?tab=drafts&archived=1").await;
        assert!(
            page.contains(&escaped("<ref-1>\\u{202e}"))
                && page.contains(&escaped("550 <script>alert(1)</script>\nno such \\u{1b}[31muser")),
            "{page}"
        );
        assert!(
            page.contains("failed")
                && page.contains("The connector reported that it was not sent.")
                && !page.contains("<script>alert")
        );
        assert_eq!(claim(&doors, &mail, "").await.status, 204);
    });
}
