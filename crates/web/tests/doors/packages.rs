//! The door of package servers: real servers for agents over HTTP, who is let in, what ends them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use muster_app::access::{self, AskState, Decider, Seat};
use muster_app::accounts;
use muster_core::secret::TokenKind;
use muster_plugin_host::Act;
use muster_web::PackageLimits;
use serde_json::{Value, json};

use super::kit::{Ask, add_owner, doors, soon};
use super::package_kit::{Packaged, calls, message, noted, quick, runs, within};

const NOW: &str = "2026-07-28";

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

// spec: LIF-005
#[test]
fn an_agent_reaches_an_approved_server_in_both_eras_and_keeps_it_from_call_to_call() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let (one, other) = (packaged.agent().await, packaged.agent().await);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = packaged.ask(&one, "p", "initialize", hello).await;
        assert_eq!(hello["result"]["serverInfo"]["name"], "plugin_p_s");
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = packaged.tell(&one, "p", &told).await;
        assert_eq!((told.status, told.text().as_str()), (202, ""));
        let list = packaged.ask(&one, "p", "tools/list", json!({})).await;
        let tool = &list["result"]["tools"][0];
        assert_eq!(
            (
                &tool["name"],
                &tool["_meta"]["muster/registered_name"],
                &tool["title"]
            ),
            (
                &json!("get_forecast"),
                &json!("mcp__plugin_p_s__get_forecast"),
                &json!("Forecast")
            )
        );
        // The newer era: no greeting, each message by itself.
        let meta = json!({"io.modelcontextprotocol/protocolVersion": NOW, "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "write", "arguments": {"n": 1}, "_meta": meta}});
        let newer = Ask::json("/packages/p/s/mcp", &body)
            .header("mcp-protocol-version", NOW)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "write")
            .bearer(&one.token);
        let answer = packaged.doors.send(newer).await;
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, ""));
        let answer = answer.json();
        assert_eq!(
            (&answer["id"], text(&answer["result"])),
            (&json!("x"), "called write with {\"n\": 1}")
        );
        // One server for each agent, and the same one at each call.
        let found = packaged.call(&one, "p", "environment", json!({})).await;
        let found = &found["structuredContent"];
        assert_eq!(found["env"]["MUSTER_SESSION_ID"], format!("agent-{}", one.id));
        assert_eq!(
            found["cwd"],
            packaged
                .data("plugins/work")
                .canonicalize()
                .unwrap()
                .to_str()
                .unwrap()
        );
        let pid = found["pid"].as_u64().unwrap();
        assert_eq!(packaged.pid(&one, "p").await, pid);
        assert_ne!(packaged.pid(&other, "p").await, pid);
        assert_eq!(
            packaged
                .happenings()
                .iter()
                .filter(|word| *word == "started")
                .count(),
            2
        );
        // With muster its servers end.
        doors.app.tasks.stop().await;
        within("the server's end", || !runs(pid)).await;
        let refused = packaged.tell(&one, "p", &calls(1, "write", &json!({}))).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["data"]["code"]),
            (503, &json!("stopping"))
        );
    });
}

#[test]
fn who_has_no_live_token_of_the_first_account_reaches_no_server_and_starts_none() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let eve = add_owner(&doors.app, "eve").await;
        let (agent, gone) = (packaged.agent().await, packaged.agent().await);
        accounts::revoke_token(&doors.app, doors.ada(), gone.id)
            .await
            .unwrap();
        let call = calls(1, "write", &json!({}));
        for token in [
            gone.token,
            doors.token(doors.ada(), TokenKind::Personal).await,
            "mag_".to_owned(),
        ] {
            let answer = packaged.doors.send(message(&token, "p", &call)).await;
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (401, "Bearer")
            );
        }
        let hers = doors.token(eve, TokenKind::Agent).await;
        let answer = packaged.doors.send(message(&hers, "p", &call)).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["data"]["code"]),
            (403, &json!("not_runnable"))
        );
        let good = || message(&agent.token, "p", &call);
        for (ask, status) in [
            (good().header("origin", "https://evil.example"), 403),
            (good().without_host().header("host", "evil.example"), 421),
            (Ask::get("/packages/p/s/mcp").bearer(&agent.token), 405),
            (
                Ask::new(http::Method::DELETE, "/packages/p/s/mcp").bearer(&agent.token),
                405,
            ),
            (good().body(vec![b' '; 2 * 1024 * 1024 + 1]), 413),
            (
                Ask::post("/packages/p/s/mcp").bearer(&agent.token).body("{}"),
                415,
            ),
            (good().body("{"), 400),
            (good().body("[]"), 400),
            (
                good().body("{\"id\":1,\"method\":\"ping\",\"method\":\"tools/call\"}"),
                400,
            ),
            (
                good().body("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\"}"),
                400,
            ),
        ] {
            let words = format!("{ask:?}");
            let answer = packaged.doors.send(ask).await;
            assert_eq!(answer.status, status, "{}: {words:.300}", answer.text());
        }
        let twisted = good()
            .header("mcp-method", "tools/list")
            .header("mcp-protocol-version", NOW);
        assert_eq!(packaged.doors.send(twisted).await.status, 400);
        assert!(packaged.happenings().is_empty(), "nothing was started");
        assert_eq!(packaged.doors.send(good()).await.status, 200);
        // One mebibyte and more of arguments is passed on.
        let long = calls(1, "write", &json!({"text": "x".repeat(1_500_000)}));
        let answer = packaged.tell(&agent, "p", &long).await.json();
        assert!(text(&answer["result"]).len() > 1_500_000);
        doors.app.tasks.stop().await;
    });
}

// spec: TRU-006
#[test]
fn a_server_that_is_not_approved_as_it_is_now_is_refused_with_what_to_do() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        let agent = packaged.agent().await;
        let call = calls(7, "write", &json!({}));
        let refused = async |status: u16, word: &str, says: &str| {
            let answer = packaged.tell(&agent, "p", &call).await;
            let error = answer.json();
            assert_eq!((answer.status, &error["id"]), (status, &json!(7)), "{error}");
            assert_eq!(error["error"]["data"]["code"], word);
            assert!(
                error["error"]["message"].as_str().unwrap().contains(says),
                "{error}"
            );
        };
        refused(404, "not_found", "muster plugins list").await;
        let folder = packaged.folder("p", &[]);
        packaged.host.install(&folder).unwrap();
        refused(403, "not_runnable", "review_needed").await;
        packaged.decide("p", Act::Reject);
        refused(403, "not_runnable", "trusted_disabled").await;
        packaged.decide("p", Act::Approve);
        packaged.mode("never-ask");
        packaged.call(&agent, "p", "write", json!({})).await;
        std::fs::write(folder.join("more"), "x").unwrap();
        packaged.host.update("p").unwrap();
        refused(403, "not_runnable", "modified").await;
        let manifest = folder.join(".muse-plugin/plugin.json");
        let good = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, "{").unwrap();
        assert!(packaged.host.update("p").is_err());
        refused(403, "not_runnable", "invalid").await;
        std::fs::write(&manifest, good).unwrap();
        packaged.host.update("p").unwrap();
        packaged.decide("p", Act::Approve);
        let root = PathBuf::from(packaged.host.inspect("p").unwrap().root).join("mcp");
        std::fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(root.join("server.py")).unwrap();
        refused(403, "not_runnable", "blocked").await;
        packaged.host.remove("p").unwrap();
        refused(404, "not_found", "muster plugins list").await;
        for odd in [
            "/packages/%2e%2e/s/mcp",
            "/packages/p/..%2f..%2fs/mcp",
            "/packages/p%00/s/mcp",
            "/packages/p/mcp_server:s/mcp",
        ] {
            let ask = Ask::json(odd, &call).bearer(&agent.token);
            assert_eq!(packaged.doors.send(ask).await.status, 404, "{odd}");
        }
        doors.app.tasks.stop().await;
    });
}

#[test]
fn a_decision_a_change_and_a_revoked_token_end_a_server_in_the_middle_of_a_call() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.mode("never-ask");
        let slow = json!({"seconds": 300});
        for what in ["reject", "disable", "update", "remove", "revoke"] {
            let notes = packaged.approved(what, &[]);
            let agent = packaged.agent().await;
            let pid = packaged.pid(&agent, what).await;
            let call = packaged.calling(&agent, what, "slow", &slow);
            within("the call", || noted(&notes, "called") == 2).await;
            match what {
                "reject" => packaged.decide(what, Act::Reject),
                "disable" => packaged.decide(what, Act::Disable),
                "update" => {
                    std::fs::write(packaged.data("sources").join(what).join("more"), "x").unwrap();
                    packaged.host.update(what).unwrap();
                }
                "remove" => packaged.host.remove(what).unwrap(),
                _ => accounts::revoke_token(&doors.app, doors.ada(), agent.id)
                    .await
                    .unwrap(),
            }
            let answer = call.await.unwrap();
            let result = &answer.json()["result"];
            assert_eq!((answer.status, &result["isError"]), (200, &json!(true)), "{what}");
            assert_eq!(result["structuredContent"]["error"]["code"], "server_over");
            let says = if what == "revoke" {
                "revoked"
            } else {
                "decided about it anew"
            };
            assert!(text(result).contains(says), "{result}");
            within("the server's end", || !runs(pid)).await;
        }
        doors.app.tasks.stop().await;
    });
}

#[test]
fn a_call_that_asks_waits_for_the_owner_and_a_client_that_leaves_takes_its_ask_along() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        let notes = packaged.approved("p", &[]);
        let agent = packaged.agent().await;
        let nobody = packaged.call(&agent, "p", "write", json!({})).await;
        assert_eq!(
            nobody["structuredContent"]["error"]["code"],
            "refused_app_closed_strict"
        );
        // A tool that says it only reads is not asked about.
        assert!(text(&packaged.call(&agent, "p", "get_forecast", json!({})).await).contains("called"));
        let called = noted(&notes, "called");
        let _there = access::present(&doors.app, doors.ada(), Seat::Watch)
            .await
            .unwrap();
        let parked = async || {
            soon("the ask to park", || async {
                access::list(&doors.app, doors.ada(), AskState::Parked)
                    .await
                    .unwrap()
                    .len()
                    == 1
            })
            .await;
            access::list(&doors.app, doors.ada(), AskState::Parked)
                .await
                .unwrap()
                .remove(0)
        };
        let cookie = packaged.doors.sign_in("ada").await;
        let call = packaged.calling(&agent, "p", "write", &json!({"region": "north"}));
        let ask = parked().await;
        assert_eq!(
            (ask.kind.as_str(), ask.tool.as_str()),
            ("plugin_tool", "mcp__plugin_p_s__write")
        );
        assert_eq!(ask.arguments, json!({"region": "north"}));
        let page = packaged.doors.page(&cookie, "/attention").await;
        for words in [
            "<bdi>p</bdi></a>, server <bdi>s</bdi>",
            "mcp__plugin_p_s__write",
            "Asked because",
            "A tool.",
            "north",
            "Untrusted text from the package",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        access::refuse(&doors.app, doors.ada(), ask.id, Decider::Page)
            .await
            .unwrap();
        let refused = call.await.unwrap().json()["result"].clone();
        assert_eq!(refused["structuredContent"]["error"]["code"], "refused_by_person");
        let call = packaged.calling(&agent, "p", "write", &json!({"region": "south"}));
        parked().await;
        call.abort();
        soon("the ask to be withdrawn", || async {
            access::list(&doors.app, doors.ada(), AskState::Withdrawn)
                .await
                .unwrap()
                .len()
                == 1
        })
        .await;
        assert_eq!(noted(&notes, "called"), called, "nothing reached the server");
        let call = packaged.calling(&agent, "p", "write", &json!({"region": "east"}));
        let ask = parked().await;
        access::approve(&doors.app, doors.ada(), ask.id, Decider::Page)
            .await
            .unwrap();
        let done = call.await.unwrap().json()["result"].clone();
        assert_eq!(text(&done), "called write with {\"region\": \"east\"}");
        doors.app.tasks.stop().await;
    });
}

#[test]
fn a_server_nobody_uses_ends_and_one_that_died_is_there_again_at_the_next_call() {
    doors(|doors| async move {
        let packaged = Packaged::new(
            &doors,
            PackageLimits {
                idle: Duration::from_millis(400),
                ..quick()
            },
        );
        packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let first = packaged.pid(&agent, "p").await;
        within("the idle server's end", || !runs(first)).await;
        let second = packaged.pid(&agent, "p").await;
        assert!(second != first && runs(second));
        let died = packaged.call(&agent, "p", "exit", json!({})).await;
        assert_eq!(
            (&died["isError"], &died["structuredContent"]["error"]["code"]),
            (&json!(true), &json!("server_over"))
        );
        let third = packaged.pid(&agent, "p").await;
        assert!(third != second && runs(third));
        doors.app.tasks.stop().await;
    });
}

#[test]
fn fifty_callers_share_a_server_and_each_gets_its_own_answer_also_of_one_that_floods() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.approved("p", &["flood"]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let all: Vec<_> = (0..50)
            .map(|n| (n, packaged.calling(&agent, "p", "write", &json!({"n": n}))))
            .collect();
        for (n, call) in all {
            let answer = call.await.unwrap();
            assert_eq!(
                text(&answer.json()["result"]),
                format!("called write with {{\"n\": {n}}}")
            );
        }
        assert_eq!(
            packaged
                .happenings()
                .iter()
                .filter(|word| *word == "started")
                .count(),
            1
        );
        doors.app.tasks.stop().await;
    });
}

#[test]
fn a_call_that_is_given_up_is_cancelled_at_a_server_that_never_answers() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        let notes = packaged.approved("p", &["silent-calls"]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let heard = || {
            let received = std::fs::read_to_string(notes.join("received")).unwrap_or_default();
            received.matches("tools/call").count()
        };
        let hung_up = packaged.calling(&agent, "p", "write", &json!({}));
        within("the first call", || heard() == 1).await;
        hung_up.abort();
        within("its cancellation", || noted(&notes, "cancelled") == 1).await;
        let cancelled = packaged
            .doors
            .sending(message(&agent.token, "p", &calls(9, "write", &json!({}))));
        within("the second call", || heard() == 2).await;
        let notice =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
        assert_eq!(packaged.tell(&agent, "p", &notice).await.status, 202);
        within("its cancellation", || noted(&notes, "cancelled") == 2).await;
        assert!(
            cancelled.await.unwrap().json()["error"]["message"]
                .as_str()
                .unwrap()
                .contains("cancelled")
        );
        // Two clients that share a token may use one number: neither is ended for the other.
        let two: Vec<_> = (0..2)
            .map(|_| {
                packaged
                    .doors
                    .sending(message(&agent.token, "p", &calls(9, "write", &json!({}))))
            })
            .collect();
        within("both calls", || heard() == 4).await;
        packaged.tell(&agent, "p", &notice).await;
        packaged.ask(&agent, "p", "ping", json!({})).await;
        assert!(two.iter().all(|call| !call.is_finished()) && noted(&notes, "cancelled") == 2);
        doors.app.tasks.stop().await;
        for call in two {
            assert_eq!(
                call.await.unwrap().json()["result"]["structuredContent"]["error"]["code"],
                "server_over"
            );
        }
    });
}

#[test]
fn where_no_more_servers_may_run_an_idle_one_makes_room_and_a_busy_one_does_not() {
    doors(|doors| async move {
        let packaged = Packaged::new(
            &doors,
            PackageLimits {
                servers: 1,
                messages: 1,
                ..quick()
            },
        );
        let notes = packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let (one, other) = (packaged.agent().await, packaged.agent().await);
        let first = packaged.pid(&one, "p").await;
        let second = packaged.pid(&other, "p").await;
        within("the idle server's end", || !runs(first)).await;
        let before = noted(&notes, "called");
        let busy = packaged.calling(&other, "p", "slow", &json!({"seconds": 300}));
        within("the call", || noted(&notes, "called") > before).await;
        // Neither another server runs now, nor does this one take another message.
        for agent in [&one, &other] {
            let refused = packaged.tell(agent, "p", &calls(1, "write", &json!({}))).await;
            assert_eq!(
                (refused.status, &refused.json()["error"]["data"]["code"]),
                (503, &json!("busy"))
            );
        }
        assert!(runs(second) && !busy.is_finished());
        busy.abort();
        doors.app.tasks.stop().await;
    });
}

#[test]
fn a_call_without_an_id_is_refused_also_while_no_server_runs_and_a_notice_starts_none() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let nameless = [
            json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "write", "arguments": {}}}),
            json!({"jsonrpc": "2.0", "id": null, "method": "tools/call", "params": {"name": "write"}}),
            json!({"jsonrpc": "2.0", "method": "tools/list"}),
        ];
        for running in [false, true] {
            for body in &nameless {
                let answer = packaged.tell(&agent, "p", body).await;
                assert_eq!(answer.status, 400, "{running}: {body}");
                let error = answer.json();
                assert_eq!(
                    (&error["id"], &error["error"]["code"]),
                    (&Value::Null, &json!(-32600))
                );
                assert!(
                    error["error"]["message"]
                        .as_str()
                        .unwrap()
                        .contains("needs an id")
                );
            }
            for method in [
                "notifications/initialized",
                "notifications/cancelled",
                "notifications/newer",
            ] {
                let notice = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
                let answer = packaged.tell(&agent, "p", &notice).await;
                assert_eq!((answer.status, answer.text().as_str()), (202, ""), "{method}");
            }
            let wanted = if running { 6 } else { 3 };
            within("the events", || {
                let all = packaged.happenings();
                all.iter().filter(|word| *word == "call deny:rule").count() == wanted
            })
            .await;
            if !running {
                assert!(!packaged.happenings().contains(&"started".to_owned()));
                packaged.call(&agent, "p", "environment", json!({})).await;
            }
        }
        doors.app.tasks.stop().await;
    });
}

// spec: WIR-007
#[test]
fn what_a_server_says_before_its_answer_makes_the_answer_a_stream_for_who_takes_one() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        let notes = packaged.approved("p", &[]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call",
            "params": {"name": "progress", "_meta": {"progressToken": "mine"}}});
        let (kind, said) = packaged
            .doors
            .stream(message(&agent.token, "p", &body))
            .await
            .unwrap();
        assert_eq!(kind, "text/event-stream");
        let events: Vec<Value> = said
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert_eq!(
            events[..2],
            [
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "mine", "progress": 1, "total": 2}}),
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "half"}}),
            ]
        );
        assert_eq!(
            (&events[2]["id"], text(&events[2]["result"])),
            (&json!("x"), "done")
        );
        assert_eq!(events.len(), 3);
        // Who takes JSON alone gets the answer, and a call before which nothing is said is answered in JSON.
        let alone = Ask::json("/packages/p/s/mcp", &body)
            .header("accept", "application/json")
            .bearer(&agent.token);
        let alone = packaged.doors.send(alone).await.json();
        assert_eq!(
            (alone["id"].as_str(), text(&alone["result"])),
            (Some("x"), "done")
        );
        let quiet = packaged.tell(&agent, "p", &calls(1, "write", &json!({}))).await;
        assert_eq!(quiet.header("content-type"), "application/json");
        // Whoever leaves in the middle of a stream takes the call along.
        let mut slow = body;
        slow["params"]["arguments"] = json!({"seconds": 300});
        let begun = packaged.tell(&agent, "p", &slow).await;
        assert_eq!(begun.header("content-type"), "text/event-stream");
        within("its cancellation", || noted(&notes, "cancelled") == 1).await;
        doors.app.tasks.stop().await;
    });
}

#[test]
fn what_a_server_left_whose_launcher_it_killed_ends_with_it() {
    doors(|doors| async move {
        let packaged = Packaged::new(&doors, quick());
        packaged.approved("p", &["holding-stubborn"]);
        packaged.approved("q", &[]);
        packaged.mode("never-ask");
        let agent = packaged.agent().await;
        let other = packaged.pid(&agent, "q").await;
        let found = packaged.call(&agent, "p", "spawn", json!({"launcher": 9})).await;
        let pids: Vec<u64> = serde_json::from_value(found["structuredContent"]["pids"].clone()).unwrap();
        assert!(pids.len() == 3 && pids.iter().all(|pid| runs(*pid)));
        packaged.decide("p", Act::Reject);
        within("the end of all three", || !pids.iter().any(|pid| runs(*pid))).await;
        assert!(runs(other), "another server of the same agent is left alone");
        doors.app.tasks.stop().await;
    });
}
