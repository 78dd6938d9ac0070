//! `POST /plugin/v1/messages`: what a body may hold, each rule at both of its edges.

use axum::body::Body;
use http::Request;
use muster_app::plugins;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tower::ServiceExt as _;

use super::kit::{Answer, Ask, Connector, Doors, doors, same_on_both};

pub(crate) const MESSAGES: &str = "/plugin/v1/messages";

pub(crate) async fn post(doors: &Doors, connector: &Connector, body: impl Into<Vec<u8>>) -> Answer {
    doors
        .send(Ask::post(MESSAGES).bearer(&connector.token).body(body))
        .await
}

/// How many messages of this connector wait for the chief.
pub(crate) async fn waiting(doors: &Doors, connector: &Connector) -> i64 {
    let all = plugins::list(&doors.app, connector.owner).await.unwrap();
    all.into_iter()
        .find(|plugin| plugin.id == connector.id)
        .unwrap()
        .waiting
}

pub(crate) fn with(field: &str, value: Value) -> String {
    let mut body = json!({"external_id": "m", "body": "hello"});
    body[field] = value;
    body.to_string()
}

/// Sends each body; those that are good are stored, each of the others is a 400 that says `why` and stores nothing.
async fn rule(doors: &Doors, connector: &Connector, cases: &[(String, Option<&str>)]) {
    for (n, (body, refused)) in cases.iter().enumerate() {
        // A new hour and a key of its own for each, so that no case meets a cap or another case's message.
        doors.muster.clock.advance(Duration::from_secs(3_601));
        let body = body.replace("\"external_id\":\"m\"", &format!("\"external_id\":\"m{n}\""));
        let before = waiting(doors, connector).await;
        let answer = post(doors, connector, body.clone()).await;
        let shown: String = body.chars().take(120).collect();
        match refused {
            None => assert_eq!(answer.status, 202, "{shown}: {}", answer.text()),
            Some(why) => {
                assert_eq!(answer.status, 400, "{shown}: {}", answer.text());
                assert!(answer.error().contains(why), "{shown}: {}", answer.error());
            }
        }
        assert_eq!(
            waiting(doors, connector).await - before,
            i64::from(refused.is_none()),
            "{shown}"
        );
    }
}

// spec: MSG-001 MSG-022 MSG-023 GATE-012
#[test]
fn a_new_message_is_queued_and_a_repeat_is_the_stored_one() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let full = json!({
            "external_id": "msg-0001", "sender": "someone@example.invalid", "subject": "hello", "body": "…",
            "received_at": "2000-01-02T03:04:05Z", "no_reply": false, "sender_verified": false, "thread": "t-1", "human_conversation": true
        });
        same_on_both!(post(&doors, &mail, full.to_string()).await.line(), @r#"202 application/json {"id":1,"status":"queued"}"#);
        let other = json!({"external_id": "msg-0001", "body": "another body", "no_reply": true});
        same_on_both!(post(&doors, &mail, other.to_string()).await.line(), @r#"200 application/json {"id":1,"status":"queued"}"#);
        assert_eq!(waiting(&doors, &mail).await, 1);
    });
}

// spec: MSG-004..MSG-007 MSG-018 MSG-042
#[test]
fn external_id_and_thread_are_1_to_200_bytes_without_blanks_and_control_characters() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let mut cases = vec![(
            json!({"body": "hello"}).to_string(),
            Some("external_id is required"),
        )];
        for field in ["external_id", "thread"] {
            let longest = if field == "thread" {
                "t".repeat(200)
            } else {
                "e".repeat(200)
            };
            cases.push((with(field, json!(longest)), None));
            cases.push((with(field, json!("é".repeat(100))), None));
            cases.push((with(field, json!("<a.b+c@example.test>")), None));
            cases.push((with(field, json!("")), Some("1 to 200")));
            cases.push((with(field, json!("a".repeat(201))), Some("201 bytes")));
            cases.push((with(field, json!("é".repeat(101))), Some("202 bytes")));
            for bad in [
                "a b",
                "a\tb",
                "a\nb",
                "a\u{7f}b",
                "a\u{85}b",
                "a\u{a0}b",
                "a\u{2028}b",
                " a",
            ] {
                cases.push((with(field, json!(bad)), Some(field)));
            }
            cases.push((with(field, json!("a\0b")), Some("a NUL character at character 2")));
            for wrong in [json!(1), json!(true), json!(null), json!(["a"]), json!({"a": 1})] {
                cases.push((with(field, wrong), Some("must be a string")));
            }
        }
        rule(&doors, &mail, &cases).await;
    });
}

// spec: MSG-009..MSG-011 MSG-030 MSG-042
#[test]
fn body_is_1_byte_to_16_kib_of_utf_8() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cases = [
            (json!({"external_id": "m"}).to_string(), Some("body is required")),
            (with("body", json!("")), Some("body has 0 bytes")),
            (with("body", json!("x")), None),
            (with("body", json!("x".repeat(16_384))), None),
            (
                with("body", json!("x".repeat(16_385))),
                Some("body has 16385 bytes"),
            ),
            (with("body", json!("é".repeat(8_192))), None),
            (
                with("body", json!("é".repeat(8_193))),
                Some("body has 16386 bytes"),
            ),
            (with("body", json!("\u{202e}\u{200b}\u{1b}[31m\r\n\t")), None),
            (
                with("body", json!("a\0b")),
                Some("body holds a NUL character at character 2"),
            ),
            (with("body", json!(5)), Some("body must be a string")),
            // Spelled in escapes it is longer on the wire than in the store.
            (
                with("body", json!("")).replace(
                    "\"body\":\"\"",
                    &format!("\"body\":\"{}\"", "\\u0061".repeat(16_384)),
                ),
                None,
            ),
        ];
        rule(&doors, &mail, &cases).await;
    });
}

// spec: MSG-012..MSG-014 MSG-042
#[test]
fn sender_and_subject_are_at_most_200_characters_and_may_be_left_out() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let mut cases = vec![(json!({"external_id": "m", "body": "hello"}).to_string(), None)];
        for field in ["sender", "subject"] {
            cases.push((with(field, json!("")), None));
            cases.push((with(field, json!("a".repeat(200))), None));
            cases.push((with(field, json!("é".repeat(200))), None));
            cases.push((with(field, json!("😀".repeat(200))), None));
            cases.push((with(field, json!("a".repeat(201))), Some("201 characters")));
            cases.push((with(field, json!("é".repeat(201))), Some("201 characters")));
            cases.push((with(field, json!("a\0")), Some("NUL")));
            cases.push((with(field, json!(null)), Some("must be a string")));
        }
        rule(&doors, &mail, &cases).await;
    });
}

// spec: MSG-015
#[test]
fn received_at_is_rfc_3339() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let mut cases: Vec<(String, Option<&str>)> = Vec::new();
        for good in [
            "2000-01-02T03:04:05Z",
            "2000-01-02T03:04:05.678901+02:00",
            "2000-01-02t03:04:05z",
            "1969-12-31T23:59:59-12:00",
        ] {
            cases.push((with("received_at", json!(good)), None));
        }
        for bad in [
            "yesterday",
            "",
            "2000-01-02",
            "2000-01-02T03:04:05",
            "2000-13-02T03:04:05Z",
            "2000-02-30T03:04:05Z",
            "2000-01-02T25:04:05Z",
            "2000-01-02T03:04:05Z\0",
            "Sun, 02 Jan 2000 03:04:05 GMT",
        ] {
            cases.push((
                with("received_at", json!(bad)),
                Some("received_at must be a date and time as RFC 3339 writes it"),
            ));
        }
        cases.push((
            with("received_at", json!(946_782_245)),
            Some("received_at must be a string"),
        ));
        rule(&doors, &mail, &cases).await;
    });
}

// spec: MSG-016 MSG-017
#[test]
fn the_marks_are_booleans_and_nothing_like_them() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let mut cases: Vec<(String, Option<&str>)> = Vec::new();
        for field in ["no_reply", "sender_verified", "human_conversation"] {
            cases.push((with(field, json!(true)), None));
            cases.push((with(field, json!(false)), None));
            for wrong in [
                json!("yes"),
                json!("true"),
                json!(1),
                json!(0),
                json!(null),
                json!([true]),
            ] {
                cases.push((with(field, wrong), Some("must be true or false")));
            }
        }
        rule(&doors, &mail, &cases).await;
    });
}

// spec: GATE-016 MSG-029..MSG-031
#[test]
fn what_is_no_json_object_is_refused_and_unknown_fields_are_ignored() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let not_json: [&[u8]; 11] = [
            b"",
            b"{",
            b"hello",
            b"{\"external_id\": \"m\", \"body\": \"x\",}",
            b"{'external_id': 'm', 'body': 'x'}",
            b"\x00",
            b"{\"external_id\":\"m\",\"body\":\"\xff\"}",
            b"{\"external_id\":\"m\",\"body\":\"\\ud800\"}",
            b"{\"external_id\":\"m\",\"body\":\"\n\"}",
            b"{\"external_id\":\"m\",\"body\":\"x\"}{}",
            b"\xef\xbb\xbf{}",
        ];
        for body in not_json {
            let answer = post(&doors, &mail, body).await;
            assert_eq!(
                answer.line(),
                r#"400 application/json {"error":"the body is not JSON, or is nested too deeply; nothing was stored"}"#,
                "{body:?}"
            );
        }
        for body in [
            "[]",
            "\"m\"",
            "5",
            "null",
            "true",
            "[{\"external_id\":\"m\",\"body\":\"x\"}]",
        ] {
            let answer = post(&doors, &mail, body).await;
            assert_eq!(
                answer.line(),
                r#"400 application/json {"error":"the body is not a JSON object; nothing was stored"}"#,
                "{body}"
            );
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = format!(
                "{{\"external_id\":\"m\",\"body\":\"x\",\"more\":{}1{}}}",
                open.repeat(20_000),
                close.repeat(20_000)
            );
            assert_eq!(post(&doors, &mail, deep).await.status, 400);
        }
        assert_eq!(waiting(&doors, &mail).await, 0, "nothing of all this was stored");
        let extra = json!({"external_id": "m", "body": "x", "more": {"nested": [1, null]}, "Body": 5, "": "", "__proto__": {}});
        assert_eq!(post(&doors, &mail, extra.to_string()).await.status, 202);
    });
}

#[test]
fn of_a_name_that_stands_twice_the_last_value_counts_and_obeys_the_rules() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        doors.chief_of(doors.ada()).await;
        let twice = r#"{"external_id":"one","body":"first","body":"second","no_reply":true,"no_reply":false,"external_id":"two"}"#;
        assert_eq!(post(&doors, &mail, twice).await.status, 202);
        doors.muster.settle().await;
        let turn = &doors.muster.chief.turns()[0].text;
        assert!(
            turn.contains("second") && !turn.contains("first") && !turn.contains("no reply is possible"),
            "{turn}"
        );
        let bad = r#"{"external_id":"three","body":"fine","body":5}"#;
        assert_eq!(
            post(&doors, &mail, bad).await.error(),
            "body must be a string; nothing was stored"
        );
    });
}

// spec: GATE-015
#[test]
fn a_body_of_5_mib_is_refused_quickly_and_stores_nothing() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let start = Instant::now();
        for body in [
            with("body", json!("x".repeat(5 * 1024 * 1024))),
            " ".repeat(5 * 1024 * 1024),
        ] {
            let answer = post(&doors, &mail, body).await;
            assert_eq!(
                answer.line(),
                r#"413 application/json {"error":"the body is larger than 256 KiB; nothing was stored"}"#
            );
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        for path in ["/plugin/v1/drafts/claim", "/plugin/v1/drafts/1/result"] {
            let answer = doors
                .send(
                    Ask::post(path)
                        .bearer(&mail.token)
                        .body(" ".repeat(5 * 1024 * 1024)),
                )
                .await;
            assert_eq!(answer.status, 413, "{path}");
        }
        assert_eq!(waiting(&doors, &mail).await, 0);
        let largest = format!("{}{}", with("body", json!("x")), " ".repeat(200 * 1024));
        assert_eq!(
            post(&doors, &mail, largest).await.status,
            202,
            "blanks below the limit are read"
        );
    });
}

// spec: MSG-029
#[test]
fn a_body_that_breaks_off_is_refused_and_stores_nothing() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let pieces: [Result<&str, std::io::Error>; 2] = [
            Ok(r#"{"external_id":"m","body":"x"}"#),
            Err(std::io::Error::other("reset")),
        ];
        let request = Request::post(MESSAGES)
            .header("host", "localhost:7447")
            .header("authorization", format!("Bearer {}", mail.token));
        let request = request
            .body(Body::from_stream(futures::stream::iter(pieces)))
            .unwrap();
        let response = doors.router.clone().oneshot(request).await.unwrap();
        assert_eq!(
            response.status(),
            400,
            "what came so far was whole, and is not taken for the rest"
        );
        assert_eq!(waiting(&doors, &mail).await, 0);
    });
}
