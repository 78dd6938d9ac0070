//! The connectors' page, the overview, the audit log, the chief's conversations and the stream of hints: plain requests, no script.

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use http_body_util::BodyExt as _;
use muster_app::chief;
use muster_core::secret::{TokenKind, sha256_hex};
use muster_core::text::{Sender, Subject};
use muster_store::{Engine, Sql, owned};
use muster_testkit::{Step, message};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tower::ServiceExt as _;

use super::kit::{Ask, Doors, add_owner, doors, escaped};

static TOKEN_HASHES: Sql = owned(
    "tests.token_hashes",
    "SELECT token_hash FROM plugins WHERE owner_id = $1 ORDER BY id",
);

/// Makes a connector with the form; answers its token as the page shows it.
async fn make(doors: &Doors, cookie: &str, name: &str) -> String {
    let made = doors
        .send(
            Ask::form(
                "/plugins",
                &[
                    ("name", name),
                    ("label", "The inbox"),
                    ("data_scope", "notes/inbox"),
                ],
            )
            .cookie(cookie),
        )
        .await;
    assert_eq!(
        (made.status, made.location(), made.text().contains("mpl_")),
        (303, "/plugins", false),
        "{}",
        made.text()
    );
    shown_token(&doors.page(cookie, "/plugins").await, "mpl_")
}

/// The one token that a page shows.
fn shown_token(page: &str, prefix: &str) -> String {
    assert_eq!(page.matches(prefix).count(), 1, "{page}");
    let rest = page.split_once(prefix).unwrap().1;
    let digits: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    format!("{prefix}{digits}")
}

/// A row of a list, cut out of a page.
fn row(page: &str, id: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no row {id}: {page}"));
    rest.split("</li>").next().unwrap().to_owned()
}

// spec: TOK-001 TOK-004..TOK-006 TOK-016 UIP-010 UIP-011
#[test]
fn a_new_token_is_shown_once_to_the_browser_that_made_it_and_only_its_hash_is_kept() {
    doors(|doors| async move {
        let (cookie, elsewhere) = (doors.sign_in("ada").await, doors.sign_in("ada").await);
        let form = doors.page(&cookie, "/plugins").await;
        for field in [
            "name=\"name\"",
            "name=\"label\"",
            "name=\"data_scope\"",
            "action=\"/plugins\"",
        ] {
            assert!(form.contains(field), "{field}");
        }
        let made = doors
            .send(
                Ask::form(
                    "/plugins",
                    &[
                        ("name", "mail"),
                        ("label", "The inbox"),
                        ("data_scope", "notes/inbox"),
                    ],
                )
                .cookie(&cookie),
            )
            .await;
        assert_eq!((made.status, made.location()), (303, "/plugins"));
        assert!(
            !doors.page(&elsewhere, "/plugins").await.contains("mpl_"),
            "another sign-in of the same owner"
        );
        let refresh = doors
            .send(
                Ask::get("/plugins")
                    .cookie(&cookie)
                    .header("sec-fetch-dest", "empty"),
            )
            .await;
        assert!(
            !refresh.text().contains("mpl_"),
            "the script's refresh does not use it up"
        );
        let page = doors.page(&cookie, "/plugins").await;
        assert!(page.contains("it is not shown again"));
        let how = "muster-maildir --url http://localhost:7447 --token-file FILE";
        assert!(page.contains("Give the connector the address") && page.contains(how));
        let token = shown_token(&page, "mpl_");
        assert!(TokenKind::Plugin.matches(&token));
        let again = doors.page(&cookie, "/plugins").await;
        assert!(
            !again.contains("mpl_")
                && !again.contains(how)
                && again.contains("The inbox")
                && again.contains("<code>mail</code>")
                && again.contains("notes/inbox")
        );
        let posted = doors
            .send(
                Ask::json(
                    "/plugin/v1/messages",
                    &json!({"external_id": "m", "body": "hello"}),
                )
                .bearer(&token),
            )
            .await;
        assert_eq!(posted.status, 202);
        let hashes: Vec<(String,)> = doors
            .app
            .db
            .read(doors.ada(), |tx| {
                Box::pin(async move { tx.all(&TOKEN_HASHES, ()).await })
            })
            .await
            .unwrap();
        assert_eq!(hashes, [(sha256_hex(token.as_bytes()),)]);
        if doors.muster.engine == Engine::Sqlite {
            let mut stored = Vec::new();
            for name in ["muster.db", "muster.db-wal"] {
                stored.extend(std::fs::read(doors.muster.dir.path().join(name)).unwrap_or_default());
            }
            let holds = |text: &str| stored.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(
                holds(&hashes[0].0) && !holds(&token),
                "the text is nowhere in the database's files"
            );
        }
    });
}

// spec: TOK-016 TOK-019
#[test]
fn a_form_that_breaks_a_rule_says_which_and_keeps_what_was_typed() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let send = async |name: &str, label: &str, scope: &str| {
            doors
                .send(
                    Ask::form(
                        "/plugins",
                        &[("name", name), ("label", label), ("data_scope", scope)],
                    )
                    .cookie(&cookie),
                )
                .await
        };
        let bad = send("Agent Mail!", "\"><script>", " ").await;
        assert_eq!(bad.status, 400);
        for words in [
            "The name is no valid name",
            "The data scope is blank",
            &escaped("\"><script>"),
            &escaped("Agent Mail!"),
        ] {
            assert!(
                bad.text().contains(words) || bad.text().contains("The data scope has 0 characters"),
                "{words}: {}",
                bad.text()
            );
        }
        assert!(!bad.text().contains("<script>") && bad.text().contains("aria-invalid"));
        for name in ["", "-a", "42", "ä", &"a".repeat(65)] {
            assert_eq!(send(name, "Label", "scope").await.status, 400, "{name}");
        }
        assert_eq!(send("agent-mail", "Label", "scope").await.status, 303);
        let twice = send("agent-mail", "Label", "scope").await;
        assert!(
            twice.status == 409
                && twice
                    .text()
                    .contains("You already have a live connector of this name"),
            "{}",
            twice.text()
        );
        assert_eq!(send("other", &"l".repeat(81), "scope").await.status, 400);
        assert_eq!(send("other", "Label", &"s".repeat(201)).await.status, 400);
        assert_eq!(
            muster_app::plugins::list(&doors.app, doors.ada())
                .await
                .unwrap()
                .len(),
            1
        );
        let large = doors
            .send(Ask::form("/plugins", &[("name", &"x".repeat(70_000))]).cookie(&cookie))
            .await;
        assert!(
            large.status == 413 && large.text().contains("longer than 64 KiB"),
            "{}",
            large.text()
        );
        let odd = doors
            .send(
                Ask::form("/plugins", &[])
                    .cookie(&cookie)
                    .body("name=%ff&name=%fe"),
            )
            .await;
        assert!((400..500).contains(&odd.status), "{}", odd.status);
        let json = doors
            .send(Ask::script("/plugins", &json!({"name": "x"})).cookie(&cookie))
            .await;
        assert!((400..500).contains(&json.status), "{}", json.status);
    });
}

// spec: TOK-002 TOK-003 TOK-022..TOK-024 UIP-012
#[test]
fn each_connectors_line_tells_when_it_was_seen_and_what_waits_and_revokes_it() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let unsigned = doors.send(Ask::get("/plugins")).await;
        assert_eq!(
            (unsigned.status, unsigned.location()),
            (303, "/sign-in?next=/plugins")
        );
        let mail = make(&doors, &cookie, "mail").await;
        make(&doors, &cookie, "chat").await;
        let line = async |id: &str| row(&doors.page(&cookie, "/plugins").await, id);
        assert!(
            line("connector-1").await.contains("never")
                && line("connector-1").await.contains("0 messages waiting")
        );
        for n in 0..3 {
            doors
                .send(
                    Ask::json(
                        "/plugin/v1/messages",
                        &json!({"external_id": format!("m{n}"), "body": "x"}),
                    )
                    .bearer(&mail),
                )
                .await;
        }
        doors.muster.clock.advance(Duration::from_secs(300));
        let busy = line("connector-1").await;
        assert!(
            busy.contains("3 messages waiting") && busy.contains("5 minutes ago"),
            "{busy}"
        );
        assert!(
            line("connector-2").await.contains("0 messages waiting")
                && line("connector-2").await.contains("never")
        );
        doors
            .send(Ask::post("/plugin/v1/drafts/claim").bearer(&mail))
            .await;
        assert!(
            line("connector-1").await.contains("just now"),
            "any authenticated call counts"
        );
        let form = line("connector-1").await;
        let action = form
            .split("action=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned();
        let revoked = doors.send(Ask::form(&action, &[]).cookie(&cookie)).await;
        assert_eq!((revoked.status, revoked.location()), (303, "/plugins"));
        let page = doors.page(&cookie, "/plugins").await;
        assert!(
            page.contains("its token is refused from now on")
                && page.contains("Revoked (1)")
                && !page.contains("id=\"connector-1\"")
        );
        assert!(
            !doors
                .page(&cookie, "/plugins")
                .await
                .contains("its token is refused from now on"),
            "said once"
        );
        assert_eq!(
            doors
                .send(Ask::post("/plugin/v1/drafts/claim").bearer(&mail))
                .await
                .status,
            401
        );
        assert_eq!(
            doors.send(Ask::form(&action, &[]).cookie(&cookie)).await.status,
            404,
            "there is none of that id to revoke any more"
        );
        make(&doors, &cookie, "mail").await;
    });
}

// spec: RTY-001..RTY-004 UIP-015
#[test]
fn unconfirmed_messages_are_listed_with_a_retry_that_needs_a_chief() {
    doors(|doors| async move {
        let ada = doors.ada();
        let mail = doors.connector(ada, "mail").await;
        let cookie = doors.sign_in("ada").await;
        assert!(
            doors
                .page(&cookie, "/plugins")
                .await
                .contains("Not confirmed by your chief")
        );
        let mut hostile = message("lost");
        hostile.sender = Some(Sender::parse("sender", "<b>Bob</b>\u{202e}").unwrap());
        hostile.subject = Some(Subject::parse("subject", "<script>alert(1)</script>").unwrap());
        hostile.sender_verified = false;
        let lost = doors.delivered(&mail, hostile, Step::BreakOff).await;
        doors.muster.clock.advance(Duration::from_secs(3 * 3_600));
        let line = async || row(&doors.page(&cookie, "/plugins").await, &format!("message-{lost}"));
        let shown = line().await;
        for words in [
            &escaped("<b>Bob</b>\\u{202e}"),
            &escaped("<script>alert(1)</script>"),
            "UNVERIFIED",
            "Label of mail",
            "3 hours ago",
            "1 attempt",
            "Retry",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        chief::remove(&doors.app, ada).await.unwrap();
        let page = doors.page(&cookie, "/plugins").await;
        assert!(
            row(&page, &format!("message-{lost}")).contains("<button disabled>")
                && page.contains("You have no chief, so nothing can be retried.")
        );
        let action = shown
            .split("action=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned();
        let refused = doors.send(Ask::form(&action, &[]).cookie(&cookie)).await;
        assert!(
            refused.status == 409 && refused.text().contains("You have no chief"),
            "{}",
            refused.text()
        );
        doors.chief_of(ada).await;
        assert!(!line().await.contains("disabled"));
        doors
            .muster
            .chief
            .then(super::kit::filing(lost, "Here is a reply."));
        let retried = doors.send(Ask::form(&action, &[]).cookie(&cookie)).await;
        assert_eq!(
            (retried.status, retried.location()),
            (303, "/plugins#unconfirmed")
        );
        doors.taken(&mail, 2).await;
        let page = doors.page(&cookie, "/plugins").await;
        assert!(
            page.contains("queued again and on its way") && !page.contains(&format!("id=\"message-{lost}\""))
        );
        assert!(
            doors
                .page(&cookie, "/attention?tab=drafts")
                .await
                .contains("Here is a reply."),
            "its reply waits for the owner like any other"
        );
        let again = doors.send(Ask::form(&action, &[]).cookie(&cookie)).await;
        assert!(
            again.status == 409 && again.text().contains("Not retried"),
            "{}",
            again.text()
        );
    });
}

// spec: AUD-002
#[test]
fn the_audit_page_lists_the_owners_rows_newest_first() {
    doors(|doors| async move {
        let bob = add_owner(&doors.app, "bob").await;
        doors.connector(bob, "bobs-connector").await;
        let cookie = doors.sign_in("ada").await;
        for name in ["first", "second", "third"] {
            doors.muster.clock.advance(Duration::from_secs(60));
            doors.connector(doors.ada(), name).await;
        }
        let page = doors.page(&cookie, "/audit?event=plugin.created").await;
        let places: Vec<usize> = ["third", "second", "first"]
            .iter()
            .map(|name| page.find(&format!("</span> {name}</span>")).unwrap())
            .collect();
        assert!(places.is_sorted() && !page.contains("bobs-connector"), "{page}");
        let all = doors.page(&cookie, "/audit").await;
        assert!(all.contains("owner.signed_in") && all.contains("owner.added"));
        for n in 0..60 {
            doors
                .token(
                    doors.ada(),
                    if n % 2 == 0 {
                        TokenKind::Personal
                    } else {
                        TokenKind::Agent
                    },
                )
                .await;
        }
        let newest = doors.page(&cookie, "/audit").await;
        assert_eq!(
            newest.matches("<tr role=\"row\">").count(),
            51,
            "fifty rows below the heading"
        );
        let older = newest
            .split("href=\"/audit?before=")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let rest = doors.page(&cookie, &format!("/audit?before={older}")).await;
        assert!(rest.contains("owner.added") && rest.matches("token.created").count() >= 10);
        for path in ["/audit?before=x", "/audit?before=0", "/audit?event=a%00b"] {
            assert_eq!(
                doors.send(Ask::get(path).cookie(&cookie)).await.status,
                404,
                "{path}"
            );
        }
        let hostile = doors.page(&cookie, "/audit?event=%22%3E%3Cscript%3E").await;
        assert!(
            hostile.contains(&escaped("\"><script>"))
                && !hostile.contains("<script>")
                && hostile.contains("No rows")
        );
    });
}

#[test]
fn the_overview_leads_a_newcomer_and_then_tells_what_waits() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let start = doors.page(&cookie, "/").await;
        for words in [
            "Make a connector",
            "Set a chief",
            "muster chief set --owner ada",
            "Nothing waits for you.",
        ] {
            assert!(start.contains(words), "{words}");
        }
        let mail = doors.connector(doors.ada(), "mail").await;
        doors.draft(&mail, message("a"), "Yes.").await;
        doors.unconfirmed(&mail, "b").await;
        muster_app::messages::accept(&doors.app, &mail.caller, message("c"))
            .await
            .unwrap();
        let page = doors.page(&cookie, "/").await;
        for words in [
            "<strong>1 reply draft</strong> awaits your approval",
            "<strong>1 message</strong> not confirmed by your chief",
            "<strong>1 message</strong> still to reach your chief",
            "scripted",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let off = doors.off().page(&cookie, "/").await;
        assert!(
            !off.contains("href=\"/plugins\"") && off.contains("MUSTER_PLUGINS=1"),
            "while they are off nothing leads to the connectors"
        );
    });
}

#[test]
fn a_page_says_what_its_commands_need_only_where_they_need_it() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let usual = doors.page(&cookie, "/plugins").await;
        assert!(!usual.contains("--data-dir"), "{usual}");
        let elsewhere = doors.with(|settings| {
            settings.command_needs = "--data-dir '/srv/<b>'".to_owned();
        });
        let page = elsewhere.page(&cookie, "/plugins").await;
        assert!(
            page.contains("<code>--data-dir &#39;/srv/&#60;b&#62;&#39;</code>"),
            "{page}"
        );
        // A visitor who has not signed in learns no path.
        let visitor = elsewhere.send(Ask::get("/sign-in")).await;
        assert!(!visitor.text().contains("--data-dir"), "{}", visitor.text());
    });
}

#[test]
fn a_conversation_shows_each_turn_as_text() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let mail = doors.connector(doors.ada(), "mail").await;
        doors
            .delivered(&mail, message("a"), Step::Complete("<i>done</i>\u{202e}"))
            .await;
        doors.delivered(&mail, message("b"), Step::BreakOff).await;
        let list = doors.page(&cookie, "/chief").await;
        assert!(list.contains("Label of mail") && list.contains("2 turns"));
        let page = doors
            .page(&cookie, &format!("/chief/conversations/{}", mail.id))
            .await;
        assert!(
            page.contains(&escaped("<i>done</i>\\u{202e}")) && page.contains("the script says so"),
            "{page}"
        );
        assert!(
            page.find("body of b") < page.find("body of a"),
            "the newest first"
        );
        for path in [
            "/chief/conversations/999999",
            "/chief/conversations/x",
            &format!("/chief/conversations/{}?before=x", mail.id),
        ] {
            assert_eq!(
                doors.send(Ask::get(path).cookie(&cookie)).await.status,
                404,
                "{path}"
            );
        }
    });
}

/// The next piece of a stream of hints, a minute at most.
async fn hint(body: &mut Body) -> Option<String> {
    let frame = tokio::time::timeout(Duration::from_secs(60), body.frame())
        .await
        .expect("a hint comes")?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
}

#[test]
fn an_open_page_is_told_that_something_changed_and_never_what() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let request = Request::get("/events")
            .header("host", "localhost:7447")
            .header("cookie", &cookie);
        let request = request
            .extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))))
            .body(Body::empty())
            .unwrap();
        let response = doors.router.clone().oneshot(request).await.unwrap();
        assert_eq!(
            response.headers().get("content-type").unwrap(),
            "text/event-stream"
        );
        let mut body = response.into_body();
        let mail = doors.connector(doors.ada(), "mail").await;
        assert_eq!(
            hint(&mut body).await.unwrap(),
            "event: changed\ndata: changed\n\n"
        );
        doors.draft(&mail, message("m"), "Yes.").await;
        assert_eq!(
            hint(&mut body).await.unwrap(),
            "event: changed\ndata: changed\n\n"
        );
        let other = doors.sign_in("ada").await;
        doors
            .send(Ask::form("/sign-out-everywhere", &[]).cookie(&other))
            .await;
        doors.connector(doors.ada(), "chat").await;
        let mut last = hint(&mut body).await;
        if last.as_deref() == Some("event: changed\ndata: changed\n\n") {
            last = hint(&mut body).await;
        }
        assert_eq!(last.unwrap(), "event: signed-out\ndata: signed-out\n\n");
        assert_eq!(hint(&mut body).await, None, "and then nothing more");
    });
}

#[test]
fn a_stream_that_connects_again_after_its_sign_in_ended_says_so_and_ends() {
    doors(|doors| async move {
        let ask = |accept: Option<&'static str>| {
            let mut request = Request::get("/events").header("host", "localhost:7447");
            if let Some(accept) = accept {
                request = request.header("accept", accept);
            }
            request
                .extension(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))))
                .body(Body::empty())
                .unwrap()
        };
        let response = doors
            .router
            .clone()
            .oneshot(ask(Some("text/event-stream")))
            .await
            .unwrap();
        assert_eq!(
            response.headers().get("content-type").unwrap(),
            "text/event-stream"
        );
        let mut body = response.into_body();
        assert_eq!(
            hint(&mut body).await.unwrap(),
            "event: signed-out\ndata: signed-out\n\n"
        );
        assert_eq!(hint(&mut body).await, None);
        // Whoever opens it as a page is led to the sign-in like from any other.
        let response = doors.router.clone().oneshot(ask(None)).await.unwrap();
        assert_eq!(response.status(), 303);
    });
}
