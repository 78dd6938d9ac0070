//! `/mcp` as raw JSON-RPC, in both eras of the protocol: who is offered `reply_draft`, who may call it, how it refuses.

use muster_app::messages;
use muster_core::ids::{DraftId, MessageId};
use muster_core::secret::TokenKind;
use muster_testkit::{Step, message};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

use super::kit::{Answer, Ask, Connector, Doors, doors};

const NOW: &str = "2026-07-28";

/// A chief in the middle of a turn, and the message that the turn is about.
pub(crate) struct Busy {
    pub(crate) token: String,
    pub(crate) message: MessageId,
    connector: Connector,
}

/// Starts a turn that does not end by itself.
pub(crate) async fn busy(doors: &Doors) -> Busy {
    let connector = doors.connector(doors.ada(), "mail").await;
    doors.chief_of(doors.ada()).await;
    let message = doors.store(&connector, message("m")).await;
    doors
        .begin(doors.ada(), message, Step::Hold(Arc::new(Notify::new())))
        .await;
    Busy {
        token: doors
            .muster
            .chief
            .turns()
            .last()
            .unwrap()
            .agent_token
            .expose()
            .to_owned(),
        message,
        connector,
    }
}

fn ask(token: &str, body: &Value) -> Ask {
    Ask::json("/mcp", body)
        .header("accept", "application/json, text/event-stream")
        .bearer(token)
}

/// A request of the days of `initialize`.
async fn old(doors: &Doors, token: &str, version: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = doors
        .send(ask(token, &body).header("mcp-protocol-version", version))
        .await;
    assert_eq!(answer.status, 200, "{method}: {}", answer.text());
    answer.json()
}

/// A request that carries all it needs, as the present protocol asks.
fn present(token: &str, method: &str, name: Option<&str>, mut params: Value) -> Ask {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NOW,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let body = json!({"jsonrpc": "2.0", "id": "x-1", "method": method, "params": params});
    let ask = ask(token, &body)
        .header("mcp-protocol-version", NOW)
        .header("mcp-method", method);
    match name {
        Some(name) => ask.header("mcp-name", name),
        None => ask,
    }
}

fn draft(message: impl Into<i64>, body: &str) -> Value {
    json!({"name": "reply_draft", "arguments": {"message_id": message.into(), "body": body}})
}

/// The names of the tools in a list, without those that every agent has.
fn names(answer: &Value) -> Vec<&str> {
    let all = answer["result"]["tools"].as_array().unwrap();
    all.iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .filter(|name| !name.starts_with("muster_"))
        .collect()
}

/// A refusal's code and sentence, after a look at its form: a result that says so, with words for a model to read.
fn refusal(answer: &Value) -> (String, String) {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let error = &result["structuredContent"]["error"];
    let (code, sentence) = (
        error["code"].as_str().unwrap().to_owned(),
        error["message"].as_str().unwrap().to_owned(),
    );
    assert!(sentence.len() > 20 && sentence.contains(' '), "{answer}");
    let read: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        read, result["structuredContent"],
        "what a client without structured content reads"
    );
    (code, sentence)
}

async fn body_of(doors: &Doors, id: &Value) -> String {
    let id = DraftId::new(id.as_i64().unwrap());
    muster_app::drafts::card(&doors.app, doors.ada(), id)
        .await
        .unwrap()
        .unwrap()
        .body
}

// spec: DRF-003 DRF-006
#[test]
fn a_chief_of_the_days_of_initialize_lists_and_calls_its_tool() {
    doors(|doors| async move {
        let busy = busy(&doors).await;
        for (n, version) in ["2025-06-18", "2025-11-25"].into_iter().enumerate() {
            let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
            let answer = doors.send(ask(&busy.token, &body)).await;
            assert_eq!(
                (answer.status, answer.header("mcp-session-id")),
                (200, ""),
                "stateless: {}",
                answer.text()
            );
            let result = answer.json()["result"].clone();
            assert_eq!(
                (&result["protocolVersion"], &result["serverInfo"]["name"]),
                (&json!(version), &json!("muster"))
            );
            assert!(
                result["capabilities"]["tools"].is_object()
                    && result["instructions"].as_str().unwrap().contains("untrusted")
            );
            let told = doors
                .send(
                    ask(
                        &busy.token,
                        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                    )
                    .header("mcp-protocol-version", version),
                )
                .await;
            assert_eq!((told.status, told.text().as_str()), (202, ""));

            let list = old(&doors, &busy.token, version, "tools/list", json!({})).await;
            assert_eq!(names(&list), ["reply_draft"]);
            let tool = &list["result"]["tools"][0];
            assert_eq!(tool["inputSchema"]["required"], json!(["message_id", "body"]));
            assert!(
                tool["outputSchema"]["properties"]["draft_id"].is_object()
                    && tool["description"].as_str().unwrap().contains("It sends nothing")
            );
            assert_eq!(
                (
                    &tool["annotations"]["readOnlyHint"],
                    &tool["annotations"]["openWorldHint"]
                ),
                (&json!(false), &json!(false))
            );

            let call = old(
                &doors,
                &busy.token,
                version,
                "tools/call",
                draft(busy.message.get(), &format!("Reply {n}.")),
            )
            .await;
            let content = &call["result"]["structuredContent"];
            assert_eq!(
                (&content["status"], &content["superseded"]),
                (&json!("pending"), &json!(n)),
                "{call}"
            );
            assert_ne!(call["result"]["isError"], true);
            assert_eq!(
                serde_json::from_str::<Value>(call["result"]["content"][0]["text"].as_str().unwrap())
                    .unwrap(),
                *content
            );
            assert_eq!(body_of(&doors, &content["draft_id"]).await, format!("Reply {n}."));
        }
        let ping = old(&doors, &busy.token, "2025-06-18", "ping", json!({})).await;
        assert_eq!(ping["result"], json!({}));
        let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let answered = doors.send(ask(&busy.token, &unknown)).await.json();
        assert!(
            ["2025-11-25", "2025-06-18"].contains(&answered["result"]["protocolVersion"].as_str().unwrap()),
            "{answered}"
        );
    });
}

// spec: DRF-003 DRF-006
#[test]
fn a_chief_of_the_present_protocol_needs_no_initialize() {
    doors(|doors| async move {
        let busy = busy(&doors).await;
        let discovered = doors
            .send(present(&busy.token, "server/discover", None, json!({})))
            .await;
        assert_eq!(discovered.status, 200, "{}", discovered.text());
        let result = discovered.json()["result"].clone();
        assert!(
            result["supportedVersions"]
                .as_array()
                .unwrap()
                .contains(&json!(NOW)),
            "{result}"
        );
        assert!(result["capabilities"]["tools"].is_object(), "{result}");

        let list = doors
            .send(present(&busy.token, "tools/list", None, json!({})))
            .await;
        assert_eq!((list.status, list.json()["id"].clone()), (200, json!("x-1")));
        assert_eq!(names(&list.json()), ["reply_draft"]);
        let call = doors
            .send(present(
                &busy.token,
                "tools/call",
                Some("reply_draft"),
                draft(busy.message.get(), "Noon works."),
            ))
            .await;
        assert_eq!(call.status, 200, "{}", call.text());
        let content = call.json()["result"]["structuredContent"].clone();
        assert_eq!(
            (&content["status"], &content["superseded"]),
            (&json!("pending"), &json!(0))
        );
        assert_eq!(body_of(&doors, &content["draft_id"]).await, "Noon works.");

        let refused = doors
            .send(present(
                &busy.token,
                "tools/call",
                Some("reply_draft"),
                draft(999_999, "Noon works."),
            ))
            .await;
        assert_eq!(
            (refused.status, refusal(&refused.json()).0.as_str()),
            (200, "not_found")
        );
        let mut other_name = present(
            &busy.token,
            "tools/call",
            None,
            draft(busy.message.get(), "Noon works."),
        );
        other_name = other_name.header("mcp-name", "harmless_tool");
        assert_eq!(
            doors.send(other_name).await.status,
            400,
            "a header that names another tool than the body"
        );
        let mut bare = present(&busy.token, "tools/list", None, json!({}));
        bare.headers.retain(|(name, _)| name != "mcp-protocol-version");
        assert_eq!(
            doors.send(bare).await.status,
            400,
            "the version stands in both places or in none"
        );
        let mut future = present(&busy.token, "tools/list", None, json!({}));
        future.body = String::from_utf8(future.body)
            .unwrap()
            .replace(NOW, "2099-01-01")
            .into_bytes();
        assert_eq!(doors.send(future).await.status, 400);
    });
}

// spec: DRF-003 DRF-005
#[test]
fn another_agent_is_offered_no_tool_and_refused_by_name() {
    doors(|doors| async move {
        let busy = busy(&doors).await;
        let agent = doors.token(doors.ada(), TokenKind::Agent).await;
        assert!(names(&old(&doors, &agent, "2025-06-18", "tools/list", json!({})).await).is_empty());
        assert!(
            names(
                &doors
                    .send(present(&agent, "tools/list", None, json!({})))
                    .await
                    .json()
            )
            .is_empty()
        );
        let before = doors.state(doors.ada()).await;
        let call = old(
            &doors,
            &agent,
            "2025-06-18",
            "tools/call",
            draft(busy.message.get(), "Noon works."),
        )
        .await;
        assert_eq!(
            refusal(&call),
            (
                "not_chief".to_owned(),
                "only the owner's chief may draft a reply".to_owned()
            )
        );
        let call = doors
            .send(present(
                &agent,
                "tools/call",
                Some("reply_draft"),
                draft(busy.message.get(), "Noon works."),
            ))
            .await
            .json();
        assert_eq!(refusal(&call).0, "not_chief");
        assert!(
            old(
                &doors,
                &busy.token,
                "2025-06-18",
                "tools/call",
                json!({"name": "reply_draft2", "arguments": {}})
            )
            .await["error"]["code"]
                .is_i64()
        );
        assert_eq!(doors.state(doors.ada()).await, before);
        // A chief that was replaced in the middle of its turn is an agent like any other, or none.
        doors.muster.set_chief().await;
        let list = doors
            .send(ask(
                &busy.token,
                &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            ))
            .await;
        assert!(
            list.status == 401 || names(&list.json()).is_empty(),
            "{}",
            list.text()
        );
    });
}

// spec: DRF-004
#[test]
fn while_plugins_are_off_the_tool_is_absent_and_refused() {
    doors(|on| async move {
        let busy = busy(&on).await;
        let off = on.off();
        assert!(names(&old(&off, &busy.token, "2025-11-25", "tools/list", json!({})).await).is_empty());
        let before = on.state(on.ada()).await;
        let call = old(
            &off,
            &busy.token,
            "2025-11-25",
            "tools/call",
            draft(busy.message.get(), "Noon works."),
        )
        .await;
        assert_eq!(refusal(&call).0, "plugins_off");
        assert_eq!(on.state(on.ada()).await, before);
        assert_eq!(
            names(&old(&on, &busy.token, "2025-11-25", "tools/list", json!({})).await),
            ["reply_draft"]
        );
    });
}

// spec: MSG-050
#[test]
fn each_refusal_is_a_result_with_its_own_code_and_a_sentence() {
    doors(|doors| async move {
        let connector = doors.connector(doors.ada(), "first").await;
        let mut silent = message("silent");
        silent.no_reply = true;
        let silent = doors.delivered(&connector, silent, Step::Complete("read")).await;
        let lost = doors.unconfirmed(&connector, "lost").await;
        let cookie = doors.sign_in("ada").await;
        let in_flight = doors.approved(&cookie, &connector, "in-flight", "Yes.").await;
        let in_flight = muster_app::drafts::card(&doors.app, doors.ada(), in_flight)
            .await
            .unwrap()
            .unwrap()
            .message
            .id;
        let busy = busy(&doors).await;
        let queued = messages::accept(&doors.app, &busy.connector.caller, message("queued"))
            .await
            .unwrap()
            .id;
        let own = busy.message.get();
        let cases = [
            (draft(silent.get(), "Noon works."), "no_reply"),
            (draft(lost.get(), "Noon works."), "not_found"),
            (draft(queued.get(), "Noon works."), "not_found"),
            (draft(999_999, "Noon works."), "not_found"),
            (draft(in_flight.get(), "Noon works."), "in_flight"),
            (draft(own, ""), "invalid_argument"),
            (draft(own, " \n\t"), "invalid_argument"),
            (draft(own, &"x".repeat(16_385)), "invalid_argument"),
            (draft(own, "a\0b"), "invalid_argument"),
            (draft(own, "see 10.0.0.7 for it"), "screened"),
            (draft(own, "hidden\u{200b}words"), "screened"),
            (draft(own, "ask bluebird about it"), "screened"),
            (
                json!({"name": "reply_draft", "arguments": {"body": "Noon works."}}),
                "invalid_argument",
            ),
            (
                json!({"name": "reply_draft", "arguments": {"message_id": "1", "body": "Noon works."}}),
                "invalid_argument",
            ),
            (
                json!({"name": "reply_draft", "arguments": {"message_id": 1.5, "body": "Noon works."}}),
                "invalid_argument",
            ),
            (
                json!({"name": "reply_draft", "arguments": {"message_id": -1, "body": "Noon works."}}),
                "invalid_argument",
            ),
            (
                json!({"name": "reply_draft", "arguments": {"message_id": own, "body": ["Noon"]}}),
                "invalid_argument",
            ),
            (json!({"name": "reply_draft"}), "invalid_argument"),
        ];
        let before = doors.state(doors.ada()).await;
        for (call, code) in cases {
            let answer = old(&doors, &busy.token, "2025-11-25", "tools/call", call.clone()).await;
            let shown: String = call.to_string().chars().take(100).collect();
            assert_eq!(refusal(&answer).0, code, "{shown}: {answer}");
        }
        let silence = old(
            &doors,
            &busy.token,
            "2025-11-25",
            "tools/call",
            draft(silent.get(), "Noon works."),
        )
        .await;
        assert!(refusal(&silence).1.contains("no_reply"));
        // That it was tried is noted, and nothing else.
        let after = doors.state_but(doors.ada(), "plugin.draft.refused").await;
        assert_eq!(after, before, "nothing was filed");
    });
}

// spec: TOK-014
#[test]
fn what_is_no_mcp_request_of_an_agent_is_refused_as_http() {
    doors(|doors| async move {
        let busy = busy(&doors).await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let none = doors.send(Ask::json("/mcp", &list)).await;
        assert_eq!((none.status, none.header("www-authenticate")), (401, "Bearer"));
        assert!(none.text().contains("mag_"));
        let status = async |ask: Ask| doors.send(ask).await.status;
        for origin in [
            "https://evil.example",
            "http://localhost:3000",
            "null",
            "http://localhost:7447.evil.example",
        ] {
            assert_eq!(
                status(ask(&busy.token, &list).header("origin", origin)).await,
                403,
                "{origin}"
            );
        }
        for origin in ["http://localhost:7447", "http://127.0.0.1:7447"] {
            assert_eq!(
                status(ask(&busy.token, &list).header("origin", origin)).await,
                200,
                "{origin}"
            );
        }
        let before = doors.state(doors.ada()).await;
        let large = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": draft(busy.message.get(), &"x".repeat(5 * 1024 * 1024))});
        assert_eq!(status(ask(&busy.token, &large)).await, 413);
        assert_eq!(
            status(Ask::json("/mcp", &list).bearer(&busy.token)).await,
            406,
            "both kinds of answer must be acceptable"
        );
        let text = Ask::post("/mcp")
            .bearer(&busy.token)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "text/plain")
            .body(list.to_string());
        assert_eq!(status(text).await, 415);
        for (body, code) in [
            ("", -32700),
            ("{", -32700),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,}", -32700),
            ("\u{0}", -32700),
            ("[]", -32600),
            ("5", -32600),
            ("{\"jsonrpc\":\"1.0\"}", -32600),
        ] {
            for kind in ["application/json", "Application/JSON; charset=utf-8"] {
                let odd = doors
                    .send(
                        Ask::post("/mcp")
                            .bearer(&busy.token)
                            .header("accept", "application/json, text/event-stream")
                            .header("content-type", kind)
                            .body(body),
                    )
                    .await;
                let answer = odd.json();
                assert_eq!((odd.status, &answer["jsonrpc"]), (400, &json!("2.0")), "{body:?}");
                assert_eq!(
                    (&answer["error"]["code"], &answer["id"]),
                    (&json!(code), &Value::Null),
                    "{body:?}"
                );
                assert!(
                    answer["error"]["message"]
                        .as_str()
                        .unwrap()
                        .contains("nothing was done")
                );
            }
        }
        let deep = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}{}}}",
            "[".repeat(50_000),
            "]".repeat(50_000)
        );
        let answer: Answer = doors.send(ask(&busy.token, &list).body(deep)).await;
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        let unknown = doors
            .send(ask(
                &busy.token,
                &json!({"jsonrpc": "2.0", "id": 1, "method": "no/such"}),
            ))
            .await;
        assert!(unknown.json()["error"]["code"] == -32601, "{}", unknown.text());
        assert_eq!(doors.state(doors.ada()).await, before);
        assert_eq!(
            status(Ask::get("/mcp").bearer(&busy.token)).await,
            405,
            "there is no stream to open"
        );
    });
}
