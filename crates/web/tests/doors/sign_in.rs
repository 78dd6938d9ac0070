//! Signing in and out, the set-up of the first owner, the cookie, and where `next` may lead.

use muster_app::accounts;
use muster_testkit::PASSWORD;
use std::time::Duration;

use super::kit::{Answer, Ask, Doors, add_owner, doors, escaped, without_owner};

async fn sign_in(doors: &Doors, name: &str, password: &str) -> Answer {
    doors
        .send(Ask::form("/sign-in", &[("name", name), ("password", password)]))
        .await
}

// spec: TOK-025 TOK-026
#[test]
fn a_wrong_sign_in_says_the_same_whatever_was_wrong() {
    doors(|doors| async move {
        add_owner(&doors.app, "carol").await;
        accounts::disable(&doors.app, "carol").await.unwrap();
        let words = "This name and password do not belong to an account that may sign in.";
        for (name, password) in [
            ("ada", "wrong password"),
            ("nobody", PASSWORD),
            ("carol", PASSWORD),
            ("", ""),
            ("Ada", PASSWORD),
            ("a\0b", PASSWORD),
            ("ada", ""),
        ] {
            let answer = sign_in(&doors, name, password).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (401, ""), "{name}");
            assert!(
                answer.text().contains(words) && !answer.text().contains(PASSWORD),
                "{name}: {}",
                answer.text()
            );
        }
        let hostile = sign_in(&doors, "\"><script>alert(1)</script>", "x").await.text();
        assert!(
            hostile.contains(&escaped("\"><script>alert(1)</script>")) && !hostile.contains("<script>alert")
        );
        assert_eq!(sign_in(&doors, " ada ", PASSWORD).await.status, 303);
        accounts::disable(&doors.app, "ada").await.unwrap();
        assert_eq!(sign_in(&doors, "ada", PASSWORD).await.status, 401);
    });
}

#[test]
fn a_sign_in_leads_to_a_page_of_this_site_only() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let unsigned = doors.send(Ask::get("/chief/conversations/3?before=9")).await;
        assert_eq!(
            unsigned.location(),
            "/sign-in?next=/chief/conversations/3%3Fbefore%3D9"
        );
        let page = doors.send(Ask::get(unsigned.location())).await.text();
        assert!(
            page.contains("name=\"next\" value=\"/chief/conversations/3?before=9\""),
            "{page}"
        );
        let form = doors.send(Ask::form("/attention/drafts/1/approve", &[])).await;
        assert_eq!(
            form.location(),
            "/sign-in",
            "a form is not sent again after signing in"
        );
        let evil = [
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "javascript:alert(1)",
            "evil.example",
            " //evil.example",
            "/%0d%0aSet-Cookie: a=b\r\n",
            "http:/evil.example",
            "/é",
        ];
        for next in evil {
            let signed = doors
                .send(Ask::form(
                    "/sign-in",
                    &[("name", "ada"), ("password", PASSWORD), ("next", next)],
                ))
                .await;
            assert_eq!((signed.status, signed.location()), (303, "/"), "{next:?}");
        }
        let confirmed = doors
            .send(Ask::form("/confirm", &[("password", PASSWORD), ("next", evil[1])]).cookie(&cookie))
            .await;
        assert_eq!((confirmed.status, confirmed.location()), (303, "/"));
        for path in ["/sign-in", "/confirm"] {
            let page = doors
                .page(&cookie, &format!("{path}?next=https%3A%2F%2Fevil.example%2F"))
                .await;
            assert!(
                page.contains("name=\"next\" value=\"/\"") && !page.contains("evil.example"),
                "{path}"
            );
        }
        for next in ["/plugins", "/attention?tab=drafts#draft-7"] {
            let signed = doors
                .send(Ask::form(
                    "/sign-in",
                    &[("name", "ada"), ("password", PASSWORD), ("next", next)],
                ))
                .await;
            assert_eq!(signed.location(), next);
        }
    });
}

#[test]
fn the_cookie_is_for_this_origin_and_no_script_and_secure_behind_tls() {
    doors(|http| async move {
        let https = http.public("https://muster.example");
        for (doors, name, secure) in [(&http, "muster-7447=", false), (&https, "__Host-muster=", true)] {
            let answer = sign_in(doors, "ada", PASSWORD).await;
            let set = answer.header("set-cookie");
            assert!(set.starts_with(name), "{set}");
            let attributes: Vec<&str> = set.split("; ").skip(1).collect();
            for wanted in ["Path=/", "HttpOnly", "SameSite=Lax"] {
                assert!(attributes.contains(&wanted), "{set}");
            }
            assert_eq!(attributes.contains(&"Secure"), secure, "{set}");
            assert!(
                !set.contains("Domain")
                    && set.contains(&format!("Max-Age={}", accounts::SESSION_LIFETIME.as_secs()))
            );
            let cookie = answer.cookie();
            assert_eq!(cookie.len(), name.len() + 64);
            assert_eq!(doors.send(Ask::get("/").cookie(&cookie)).await.status, 200);
            let out = doors.send(Ask::form("/sign-out", &[]).cookie(&cookie)).await;
            let cleared = out.header("set-cookie");
            assert!(
                cleared.starts_with(&format!("{name};"))
                    && cleared.contains("Max-Age=0")
                    && cleared.contains("HttpOnly")
                    && cleared.contains("Secure") == secure,
                "{cleared}"
            );
        }
        let plain = http.sign_in("ada").await;
        assert_eq!(
            https.send(Ask::get("/").cookie(&plain)).await.status,
            303,
            "a cookie without its mark is none behind TLS"
        );
        assert_eq!(
            https
                .send(Ask::get("/").cookie(&plain.replace("muster-7447", "__Host-muster")))
                .await
                .status,
            200
        );
        let foreign = https
            .send(Ask::form("/sign-in", &[]).header("origin", "http://muster.example"))
            .await;
        assert_eq!(foreign.status, 403, "the same name without TLS is another origin");
    });
}

#[test]
fn a_sign_out_ends_this_session_and_everywhere_ends_them_all() {
    doors(|doors| async move {
        let [first, second, third] = [
            doors.sign_in("ada").await,
            doors.sign_in("ada").await,
            doors.sign_in("ada").await,
        ];
        assert!(first != second && second != third);
        let alive = async |cookie: &str| doors.send(Ask::get("/").cookie(cookie)).await.status == 200;
        let out = doors.send(Ask::form("/sign-out", &[]).cookie(&first)).await;
        assert_eq!((out.status, out.location()), (303, "/sign-in"));
        assert_eq!(
            (alive(&first).await, alive(&second).await, alive(&third).await),
            (false, true, true)
        );
        let everywhere = doors
            .send(Ask::form("/sign-out-everywhere", &[]).cookie(&second))
            .await;
        assert_eq!((everywhere.status, everywhere.location()), (303, "/sign-in"));
        assert_eq!((alive(&second).await, alive(&third).await), (false, false));
        let get = doors
            .send(Ask::get("/sign-out").cookie(&doors.sign_in("ada").await))
            .await;
        assert_eq!(get.status, 405, "a link signs nobody out");
    });
}

// spec: TOK-026
#[test]
fn a_session_ends_when_it_is_idle_for_long_and_is_never_the_one_a_visitor_brought() {
    doors(|doors| async move {
        let idle = doors.sign_in("ada").await;
        doors.muster.clock.advance(accounts::SESSION_IDLE);
        assert_eq!(
            doors.send(Ask::get("/").cookie(&idle)).await.status,
            200,
            "used, so it goes on"
        );
        doors
            .muster
            .clock
            .advance(accounts::SESSION_IDLE + Duration::from_secs(1));
        assert_eq!(doors.send(Ask::get("/").cookie(&idle)).await.status, 303);
        let planted = format!("muster-7447={}", "a".repeat(64));
        let answer = doors
            .send(Ask::form("/sign-in", &[("name", "ada"), ("password", PASSWORD)]).cookie(&planted))
            .await;
        assert!(answer.status == 303 && answer.cookie() != planted);
        assert_eq!(doors.send(Ask::get("/").cookie(&planted)).await.status, 303);
    });
}

#[test]
fn two_servers_of_one_host_name_do_not_end_each_others_sessions() {
    doors(|first| async move {
        let second = first.public("http://localhost:7448");
        let (here, there) = (first.sign_in("ada").await, second.sign_in("ada").await);
        // A browser sends what it keeps of a host to all of its ports, a later cookie in place of an earlier one of its name.
        assert_ne!(here.split_once('=').unwrap().0, there.split_once('=').unwrap().0);
        let both = format!("{here}; {there}");
        for server in [&first, &second] {
            assert_eq!(server.send(Ask::get("/").cookie(&both)).await.status, 200);
        }
        let out = second.send(Ask::form("/sign-out", &[]).cookie(&both)).await;
        assert_eq!(out.status, 303);
        assert_eq!(first.send(Ask::get("/").cookie(&both)).await.status, 200);
        assert_eq!(second.send(Ask::get("/").cookie(&both)).await.status, 303);
    });
}

#[test]
fn the_sign_in_of_a_muster_without_an_owner_says_how_to_make_one() {
    const WORDS: &str = "This muster has no owner yet. Use the one-time link it printed when it started";
    without_owner(|server| async move {
        let code = server.web.setup.open().unwrap().expose().to_owned();
        let page = server.send(Ask::get("/sign-in")).await;
        assert!(
            page.status == 200 && page.text().contains(WORDS) && !page.text().contains(&code),
            "{}",
            page.text()
        );
        let tried = server
            .send(Ask::form("/sign-in", &[("name", "ada"), ("password", PASSWORD)]))
            .await;
        assert!(
            tried.status == 401 && tried.text().contains(WORDS),
            "{}",
            tried.text()
        );
        // Made by command, so that the code is still there.
        add_owner(&server.app, "ada").await;
        assert!(!server.send(Ask::get("/sign-in")).await.text().contains(WORDS));
    });
    doors(|doors| async move {
        assert!(
            !doors
                .send(Ask::get("/sign-in"))
                .await
                .text()
                .contains("no owner yet")
        );
    });
}

// spec: TOK-025
#[test]
fn the_set_up_link_makes_the_first_owner_once() {
    without_owner(|server| async move {
        assert_eq!(server.send(Ask::get("/")).await.location(), "/sign-in");
        let code = server.web.setup.open().unwrap().expose().to_owned();
        for path in [
            "/setup".to_owned(),
            "/setup?code=".to_owned(),
            format!("/setup?code={}", "0".repeat(32)),
            format!("/setup?code={code}0"),
            "/setup?Code=x".to_owned(),
        ] {
            assert_eq!(server.send(Ask::get(&path)).await.status, 404, "{path}");
        }
        let page = server.send(Ask::get(&format!("/setup?code={code}"))).await;
        assert!(
            page.status == 200
                && page.text().contains("Make the account of the first owner")
                && page.text().contains(&code)
        );
        let form = |code: &str, name: &str, password: &str, again: &str| {
            Ask::form(
                "/setup",
                &[
                    ("code", code),
                    ("name", name),
                    ("password", password),
                    ("again", again),
                ],
            )
        };
        assert_eq!(server.send(form("", "ada", PASSWORD, PASSWORD)).await.status, 404);
        assert_eq!(
            server.send(form("0", "ada", PASSWORD, PASSWORD)).await.status,
            404
        );
        assert_eq!(
            server
                .send(form(&code, "ada", PASSWORD, PASSWORD).of_another_site())
                .await
                .status,
            403,
            "a form of another site"
        );
        for (name, password, again, words) in [
            ("Ada L", PASSWORD, PASSWORD, "An owner&#39;s name"),
            ("ada", "short", "short", "8 to 1024 characters"),
            ("ada", PASSWORD, "other password", "two passwords differ"),
        ] {
            let bad = server.send(form(&code, name, password, again)).await;
            assert!(
                bad.status == 400
                    && bad.text().contains(words)
                    && bad.text().contains(&code)
                    && !bad.text().contains(password),
                "{}",
                bad.text()
            );
        }
        assert!(!accounts::any_owner(&server.app).await.unwrap());

        // Two at once: one account.
        let sends: Vec<_> = ["ada", "eve"]
            .into_iter()
            .map(|name| {
                let (server, form) = (server.clone(), form(&code, name, PASSWORD, PASSWORD));
                tokio::spawn(async move { server.send(form).await })
            })
            .collect();
        let mut answers = Vec::new();
        for send in sends {
            answers.push(send.await.unwrap());
        }
        answers.sort_by_key(|answer| answer.status);
        assert_eq!(
            (answers[0].status, answers[0].location(), answers[1].status),
            (303, "/", 404)
        );
        assert_eq!(accounts::list(&server.app).await.unwrap().len(), 1);
        assert_eq!(
            server
                .send(Ask::get("/").cookie(&answers[0].cookie()))
                .await
                .status,
            200,
            "and signed in"
        );

        assert_eq!(
            server.send(Ask::get(&format!("/setup?code={code}"))).await.status,
            404,
            "used"
        );
        let again = server.web.setup.open().unwrap().expose().to_owned();
        assert_eq!(
            server
                .send(Ask::get(&format!("/setup?code={again}")))
                .await
                .status,
            404,
            "a server with an owner is set up"
        );
        assert_eq!(
            server
                .send(form(&again, "mallory", PASSWORD, PASSWORD))
                .await
                .status,
            404
        );
        assert_eq!(accounts::list(&server.app).await.unwrap().len(), 1);
    });
}
