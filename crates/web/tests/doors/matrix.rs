//! Every route with every kind of credential: each door opens to its own and to nothing else, and a route that is missing here fails the test.

use muster_app::accounts;
use muster_core::ids::{DraftId, MessageId, PluginId, TokenId};
use muster_core::secret::TokenKind;
use muster_testkit::{PASSWORD, Step, message};
use muster_web::{Door, routes};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use super::kit::{Answer, Ask, Doors, doors};
use super::wallet::{Credential, Wallet, expired_session};

/// Rows that the requests are about.
struct Rows {
    pending: [DraftId; 2],
    waiting: DraftId,
    claimed: DraftId,
    unconfirmed: Vec<MessageId>,
    gone: PluginId,
    spoken: PluginId,
    token: TokenId,
}

impl Rows {
    /// Makes them; the chief has no time for drafts afterwards.
    async fn new(doors: &Doors) -> Self {
        let ada = doors.ada();
        let cookie = doors.sign_in("ada").await;
        let (mail, chat) = (
            doors.connector(ada, "mail").await,
            doors.connector(ada, "chat").await,
        );
        let claimed = doors.approved(&cookie, &mail, "claimed", "Yes.").await;
        doors.claim(&mail).await;
        let mut unconfirmed = Vec::new();
        for id in ["lost-1", "lost-2", "lost-3"] {
            unconfirmed.push(doors.unconfirmed(&mail, id).await);
        }
        doors
            .delivered(&chat, message("spoken"), Step::Complete("read it"))
            .await;
        doors.token(ada, TokenKind::Personal).await;
        Self {
            pending: [
                doors.draft(&mail, message("p1"), "Yes.").await.1,
                doors.draft(&mail, message("p2"), "No.").await.1,
            ],
            waiting: doors.approved(&cookie, &chat, "waiting", "Perhaps.").await,
            claimed,
            unconfirmed,
            gone: doors.connector(ada, "gone").await.id,
            spoken: chat.id,
            token: accounts::tokens(&doors.app, ada).await.unwrap()[0].id,
        }
    }

    fn lost(&self) -> MessageId {
        *self.unconfirmed.last().unwrap()
    }
}

/// How to ask for one route what it is there for, and what it then answers.
struct Plan {
    method: &'static str,
    path: &'static str,
    ask: fn(&Rows) -> Ask,
    good: fn(&Answer) -> bool,
}

fn ok(answer: &Answer) -> bool {
    answer.status == 200
}

fn to(answer: &Answer, place: &str) -> bool {
    answer.status == 303 && answer.location() == place
}

fn missing(answer: &Answer) -> bool {
    answer.status == 404
}

/// A passkey ceremony that nobody began.
fn stale(answer: &Answer) -> bool {
    answer.status == 409 && answer.error().contains("no longer valid")
}

fn begun(answer: &Answer) -> bool {
    answer.status == 200 && answer.json()["ceremony"].is_string()
}

fn no_passkey(answer: &Answer) -> bool {
    answer.status == 401 && answer.error().contains("use the password")
}

const PERSON: &[Plan] = &[
    Plan {
        method: "GET",
        path: "/plugins/packages",
        ask: |_| Ask::get("/plugins/packages"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/plugins/packages/{package}",
        ask: |_| Ask::get("/plugins/packages/none"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/plugins/packages/{package}",
        ask: |_| {
            Ask::form(
                "/plugins/packages/none",
                &[
                    ("about", "plugin:none:mcp_server:s"),
                    ("act", "approve"),
                    ("hash", "0"),
                ],
            )
        },
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/",
        ask: |_| Ask::get("/"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/notices",
        ask: |_| Ask::get("/notices"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/events",
        ask: |_| Ask::get("/events"),
        good: |a| a.header("content-type") == "text/event-stream",
    },
    Plan {
        method: "GET",
        path: "/attention",
        ask: |_| Ask::get("/attention?tab=drafts"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/attention/asks/{id}/allow",
        ask: |_| Ask::form("/attention/asks/999999/allow", &[]),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/attention/asks/{id}/refuse",
        ask: |_| Ask::form("/attention/asks/999999/refuse", &[]),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/attention/drafts/{id}/approve",
        ask: |rows| Ask::form(&format!("/attention/drafts/{}/approve", rows.pending[0]), &[]),
        good: |a| a.location().starts_with("/attention?tab=drafts#draft-"),
    },
    Plan {
        method: "POST",
        path: "/attention/drafts/{id}/reject",
        ask: |rows| Ask::form(&format!("/attention/drafts/{}/reject", rows.pending[1]), &[]),
        good: |a| a.location().starts_with("/attention?tab=drafts#draft-"),
    },
    Plan {
        method: "POST",
        path: "/attention/drafts/{id}/withdraw",
        ask: |rows| Ask::form(&format!("/attention/drafts/{}/withdraw", rows.waiting), &[]),
        good: |a| a.location().starts_with("/attention?tab=drafts#draft-"),
    },
    Plan {
        method: "GET",
        path: "/plugins",
        ask: |_| Ask::get("/plugins"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/plugins",
        ask: |_| {
            Ask::form(
                "/plugins",
                &[("name", "made"), ("label", "Made"), ("data_scope", "inbox")],
            )
        },
        good: |a| to(a, "/plugins"),
    },
    Plan {
        method: "POST",
        path: "/plugins/{id}/revoke",
        ask: |rows| Ask::form(&format!("/plugins/{}/revoke", rows.gone), &[]),
        good: |a| to(a, "/plugins"),
    },
    Plan {
        method: "POST",
        path: "/plugins/messages/{id}/retry",
        ask: |rows| Ask::form(&format!("/plugins/messages/{}/retry", rows.lost()), &[]),
        good: |a| to(a, "/plugins#unconfirmed"),
    },
    Plan {
        method: "GET",
        path: "/chief",
        ask: |_| Ask::get("/chief"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/chief/conversations/{id}",
        ask: |rows| Ask::get(&format!("/chief/conversations/{}", rows.spoken)),
        good: |a| ok(a) && a.text().contains("body of spoken"),
    },
    Plan {
        method: "GET",
        path: "/tasks",
        ask: |_| Ask::get("/tasks"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/tasks",
        ask: |_| Ask::form("/tasks", &[("project", "999999"), ("title", "Tidy up")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/tasks/{id}",
        ask: |_| Ask::get("/tasks/999999"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/tasks/{id}",
        ask: |_| Ask::form("/tasks/999999", &[("act", "close")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/tasks/{id}/permissions",
        ask: |_| Ask::get("/tasks/999999/permissions"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/tasks/{id}/permissions",
        ask: |_| Ask::form("/tasks/999999/permissions", &[("act", "preset")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/projects",
        ask: |_| Ask::get("/projects"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/projects",
        ask: |_| Ask::form("/projects", &[("name", "engine"), ("root", "nowhere")]),
        good: |a| a.status == 400 && a.text().contains("absolute path"),
    },
    Plan {
        method: "POST",
        path: "/projects/{id}",
        ask: |_| Ask::form("/projects/999999", &[("act", "remove")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/databases",
        ask: |_| Ask::get("/databases"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/databases/{id}",
        ask: |_| Ask::get("/databases/999999"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/databases/{id}",
        ask: |_| Ask::form("/databases/999999", &[("act", "check")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/policies",
        ask: |_| Ask::get("/policies"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/policies",
        ask: |_| Ask::form("/policies", &[("name", "closed")]),
        good: |a| a.status == 409 && a.text().contains("a policy of this name"),
    },
    Plan {
        method: "GET",
        path: "/policies/{id}",
        ask: |_| Ask::get("/policies/999999"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/policies/{id}",
        ask: |_| Ask::form("/policies/999999", &[("act", "delete")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/audit",
        ask: |_| Ask::get("/audit"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/audit/export",
        ask: |_| Ask::get("/audit/export"),
        good: |a| ok(a) && a.header("content-type") == "application/x-ndjson",
    },
    Plan {
        method: "GET",
        path: "/settings",
        ask: |_| Ask::get("/settings"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/settings/values",
        ask: |_| Ask::form("/settings/values", &[("key", "db.max_rows"), ("value", "many")]),
        good: |a| a.status == 400 && a.text().contains("a whole number"),
    },
    Plan {
        method: "POST",
        path: "/settings/tokens",
        ask: |_| Ask::form("/settings/tokens", &[("kind", "personal"), ("label", "laptop")]),
        good: |a| to(a, "/settings"),
    },
    Plan {
        method: "POST",
        path: "/settings/tokens/{id}/revoke",
        ask: |rows| Ask::form(&format!("/settings/tokens/{}/revoke", rows.token), &[]),
        good: |a| to(a, "/settings"),
    },
    Plan {
        method: "POST",
        path: "/settings/passkeys/begin",
        ask: |_| Ask::script("/settings/passkeys/begin", &json!({})),
        good: begun,
    },
    Plan {
        method: "POST",
        path: "/settings/passkeys/finish",
        ask: |_| {
            Ask::script(
                "/settings/passkeys/finish",
                &json!({"ceremony": "0", "label": "key", "answer": {}}),
            )
        },
        good: stale,
    },
    Plan {
        method: "POST",
        path: "/settings/passkeys/{id}/remove",
        ask: |_| Ask::form("/settings/passkeys/999999/remove", &[]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/confirm",
        ask: |_| Ask::get("/confirm?next=/chief"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/confirm",
        ask: |_| Ask::form("/confirm", &[("password", PASSWORD), ("next", "/chief")]),
        good: |a| to(a, "/chief"),
    },
    Plan {
        method: "POST",
        path: "/confirm/passkey/begin",
        ask: |_| Ask::script("/confirm/passkey/begin", &json!({})),
        good: no_passkey,
    },
    Plan {
        method: "POST",
        path: "/confirm/passkey/finish",
        ask: |_| Ask::script("/confirm/passkey/finish", &json!({"ceremony": "0", "answer": {}})),
        good: stale,
    },
    // Both lead to the sign-in, as a refusal does; only they take the cookie away.
    Plan {
        method: "POST",
        path: "/sign-out",
        ask: |_| Ask::form("/sign-out", &[]),
        good: |a| to(a, "/sign-in") && a.header("set-cookie").contains("Max-Age=0"),
    },
    Plan {
        method: "POST",
        path: "/sign-out-everywhere",
        ask: |_| Ask::form("/sign-out-everywhere", &[]),
        good: |a| to(a, "/sign-in") && a.header("set-cookie").contains("Max-Age=0"),
    },
];

const VISITOR: &[Plan] = &[
    // The server has an owner, so this page is gone for everybody; `sign_in` opens it where there is none.
    Plan {
        method: "GET",
        path: "/setup",
        ask: |_| Ask::get("/setup?code=0"),
        good: missing,
    },
    Plan {
        method: "POST",
        path: "/setup",
        ask: |_| Ask::form("/setup", &[("code", "0")]),
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/sign-in",
        ask: |_| Ask::get("/sign-in"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/sign-in",
        ask: |_| Ask::form("/sign-in", &[("name", "ada"), ("password", PASSWORD)]),
        good: |a| to(a, "/") && a.cookie().starts_with("muster-7447="),
    },
    Plan {
        method: "POST",
        path: "/sign-in/passkey/begin",
        // There is no passkey, which is nothing that a stranger learns.
        ask: |_| Ask::script("/sign-in/passkey/begin", &json!({"name": "ada"})),
        good: begun,
    },
    Plan {
        method: "POST",
        path: "/sign-in/passkey/finish",
        ask: |_| Ask::script("/sign-in/passkey/finish", &json!({"ceremony": "0", "answer": {}})),
        good: stale,
    },
];

const OTHERS: &[Plan] = &[
    Plan {
        method: "GET",
        path: "/static/{file}",
        ask: |_| Ask::get("/static/app.css"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/plugin/v1/messages",
        ask: |_| new_message(),
        good: |a| a.status == 202,
    },
    Plan {
        method: "POST",
        path: "/plugin/v1/drafts/claim",
        ask: |_| Ask::post("/plugin/v1/drafts/claim"),
        good: |a| a.status == 204,
    },
    Plan {
        method: "POST",
        path: "/plugin/v1/drafts/{id}/result",
        // Another connector's reply: let in, and told that there is none.
        ask: |rows| {
            Ask::json(
                &format!("/plugin/v1/drafts/{}/result", rows.claimed),
                &json!({"ok": true}),
            )
        },
        good: missing,
    },
    Plan {
        method: "GET",
        path: "/openapi.json",
        ask: |_| Ask::get("/openapi.json"),
        good: ok,
    },
    Plan {
        method: "POST",
        path: "/api/plugins/messages/{id}/retry",
        ask: |rows| Ask::post(&format!("/api/plugins/messages/{}/retry", rows.lost())),
        good: |a| a.status == 200 && a.json()["status"] == "queued",
    },
    Plan {
        method: "POST",
        path: "/mcp",
        ask: |_| {
            Ask::json(
                "/mcp",
                &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            )
            .header("accept", "application/json, text/event-stream")
        },
        good: |a| a.status == 200 && a.json()["result"]["tools"].is_array(),
    },
    Plan {
        method: "GET",
        path: "/mcp",
        ask: |_| Ask::get("/mcp"),
        good: |a| a.status == 405,
    },
    Plan {
        method: "POST",
        path: "/packages/{plugin}/{server}/mcp",
        ask: |_| {
            Ask::json(
                "/packages/none/s/mcp",
                &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            )
        },
        good: |a| a.status == 404 && a.json()["error"]["data"]["code"] == "not_found",
    },
    Plan {
        method: "GET",
        path: "/packages/{plugin}/{server}/mcp",
        ask: |_| Ask::get("/packages/none/s/mcp"),
        good: |a| a.status == 405,
    },
    Plan {
        method: "GET",
        path: "/healthz",
        ask: |_| Ask::get("/healthz"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/readyz",
        ask: |_| Ask::get("/readyz"),
        good: ok,
    },
    Plan {
        method: "GET",
        path: "/metrics",
        ask: |_| Ask::get("/metrics"),
        good: ok,
    },
];

fn new_message() -> Ask {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("matrix-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Ask::json(
        "/plugin/v1/messages",
        &json!({"external_id": id, "body": "hello"}),
    )
}

fn plans() -> impl Iterator<Item = &'static Plan> {
    PERSON.iter().chain(VISITOR).chain(OTHERS)
}

/// Whether the door said no in its own way.
fn refused(door: Door, credential: &Credential, answer: &Answer) -> bool {
    let challenged = answer.status == 401 && answer.header("www-authenticate") == "Bearer";
    let with_a_token = answer.status == 401 && answer.text().contains("no token");
    match door {
        Door::Person if credential.authorizes() => with_a_token,
        Door::Person => {
            answer.status == 303
                && answer.location().starts_with("/sign-in")
                && answer.header("set-cookie").is_empty()
        }
        Door::Visitor => with_a_token,
        Door::Plugin | Door::Script => challenged && !answer.error().is_empty(),
        Door::Agent => challenged,
        Door::Anyone | Door::Loopback => false,
    }
}

#[test]
fn no_route_is_missing_from_the_matrix_and_none_in_it_is_gone() {
    doors(|doors| async move {
        let there: BTreeSet<_> = routes(&doors.web)
            .into_iter()
            .map(|route| (route.method, route.path))
            .collect();
        let here: BTreeSet<_> = plans().map(|plan| (plan.method, plan.path)).collect();
        assert_eq!(
            here.difference(&there).collect::<Vec<_>>(),
            Vec::<&(&str, &str)>::new(),
            "in the matrix, and not served"
        );
        assert_eq!(
            there.difference(&here).collect::<Vec<_>>(),
            Vec::<&(&str, &str)>::new(),
            "served, and not in the matrix"
        );
        assert_eq!(there.len(), plans().count(), "each stands in the matrix once");
        for door in [
            Door::Anyone,
            Door::Visitor,
            Door::Person,
            Door::Plugin,
            Door::Script,
            Door::Agent,
            Door::Loopback,
        ] {
            assert!(
                routes(&doors.web).iter().any(|route| route.door == door),
                "{door:?} has routes"
            );
        }
    });
}

// spec: TOK-003 TOK-008..TOK-015 TOK-028..TOK-031 GATE-011 RTY-006 CFG-005
#[test]
fn each_door_opens_to_its_own_credential_and_to_no_other_also_beside_it() {
    doors(|doors| async move {
        let expired = expired_session(&doors).await;
        let mut rows = Rows::new(&doors).await;
        let mut wallet = Wallet::new(&doors, expired).await;
        let mut calls = 0;
        for route in routes(&doors.web) {
            let plan = plans()
                .find(|plan| (plan.method, plan.path) == (route.method, route.path))
                .unwrap();
            wallet.refresh(&doors).await;
            let (in_, out): (Vec<_>, Vec<_>) = wallet
                .all()
                .into_iter()
                .partition(|credential| credential.admitted_by(route.door));
            assert!(
                !in_.is_empty(),
                "{} {} opens to somebody",
                route.method,
                route.path
            );
            let before = doors.state(doors.ada()).await;
            for credential in &out {
                let answer = doors.send(credential.on((plan.ask)(&rows))).await;
                let (name, text) = (
                    &credential.name,
                    String::from_utf8_lossy(&answer.body).into_owned(),
                );
                assert!(
                    refused(route.door, credential, &answer),
                    "{} {} with {name}: {} {text}",
                    route.method,
                    route.path,
                    answer.status
                );
                calls += 1;
            }
            assert_eq!(
                doors.state(doors.ada()).await,
                before,
                "{} {}: a refusal changed something",
                route.method,
                route.path
            );
            for credential in &in_ {
                let answer = doors.send(credential.on((plan.ask)(&rows))).await;
                let (name, text) = (
                    &credential.name,
                    String::from_utf8_lossy(&answer.body).into_owned(),
                );
                assert!(
                    (plan.good)(&answer),
                    "{} {} with {name}: {} {text}",
                    route.method,
                    route.path,
                    answer.status
                );
                calls += 1;
                if route.path.ends_with("/retry") {
                    rows.unconfirmed.pop();
                }
            }
        }
        assert!(calls > 2_500, "{calls} requests were tried");
        assert!(rows.unconfirmed.is_empty() && !wallet.connector.token.is_empty());
    });
}
