//! What no request gets past, whatever it carries: a foreign host, a foreign page, an address that is none, a method that is none. And what every answer carries.

use http::Method;
use http::header::HOST;
use muster_testkit::message;
use muster_web::{Door, routes};
use std::collections::BTreeMap;

use super::kit::{Ask, Doors, doors};

/// An address of the route, with ids that name nothing.
fn address(path: &str) -> String {
    path.replace("{id}", "999999").replace("{file}", "app.css")
}

fn ask(method: &str, path: &str) -> Ask {
    match method {
        "GET" => Ask::get(&address(path)),
        _ => Ask::form(&address(path), &[]),
    }
}

#[test]
fn a_foreign_host_name_is_answered_by_no_route() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        for route in routes(&doors.web) {
            for host in [
                "evil.example",
                "localhost",
                "localhost:80",
                "localhost:7447.evil.example",
                "127.0.0.1.evil.example:7447",
                "",
            ] {
                let answer = doors
                    .send(ask(route.method, route.path).cookie(&cookie).header(HOST, host))
                    .await;
                assert_eq!(
                    answer.status,
                    421,
                    "{} {} at {host:?}: {}",
                    route.method,
                    route.path,
                    answer.text()
                );
            }
        }
        let elsewhere = doors
            .send(Ask::get("/nothing/here").header(HOST, "evil.example"))
            .await;
        assert_eq!(elsewhere.status, 421);
        for own in ["localhost:7447", "127.0.0.1:7447", "[::1]:7447", "LocalHost:7447"] {
            assert_eq!(
                doors.send(Ask::get("/healthz").header(HOST, own)).await.status,
                200,
                "{own}"
            );
        }
    });
}

#[test]
fn a_request_that_does_not_name_one_host_is_answered_by_no_route() {
    const OWN: &str = "localhost:7447";
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        for route in routes(&doors.web) {
            for hosts in [
                &[][..],
                &[OWN, OWN],
                &[OWN, "evil.example"],
                &["evil.example", OWN],
            ] {
                let odd = ask(route.method, route.path).cookie(&cookie).without_host();
                let odd = hosts.iter().fold(odd, |odd, host| odd.header(HOST, host));
                let answer = doors.send(odd).await;
                assert_eq!(
                    (answer.status, answer.text().contains("nothing was done")),
                    (400, true),
                    "{} {} at {hosts:?}: {}",
                    route.method,
                    route.path,
                    answer.text()
                );
            }
        }
        assert_eq!(
            doors
                .send(Ask::get("/healthz").without_host().header(HOST, OWN))
                .await
                .status,
            200
        );
    });
}

// spec: TOK-020 DRF-053 RTY-002
#[test]
fn a_form_of_a_foreign_page_does_nothing() {
    const FOREIGN: &[&[(&str, &str)]] = &[
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "http://localhost:8080")],
        &[("origin", "http://localhost:7447.evil.example")],
        &[("origin", "https://localhost:7447")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[
            ("sec-fetch-site", "cross-site"),
            ("origin", "http://localhost:7447"),
        ],
        &[
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://evil.example"),
        ],
    ];
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let rows = real_ids(&doors, &cookie).await;
        let before = doors.state(doors.ada()).await;
        let mut forms = 0;
        for route in routes(&doors.web)
            .into_iter()
            .filter(|route| route.method == "POST" && matches!(route.door, Door::Person | Door::Visitor))
        {
            let path = rows
                .iter()
                .find(|(of, _)| *of == route.path)
                .map_or_else(|| address(route.path), |(_, path)| path.clone());
            let fields = [
                ("name", "ada"),
                ("password", muster_testkit::PASSWORD),
                ("label", "x"),
                ("data_scope", "x"),
                ("kind", "personal"),
                ("code", "0"),
            ];
            for foreign in FOREIGN {
                let form = Ask::form(&path, &fields).of_another_site().cookie(&cookie);
                let form = foreign
                    .iter()
                    .fold(form, |form, (name, value)| form.header(*name, value));
                let answer = doors.send(form).await;
                assert_eq!(answer.status, 403, "{path} with {foreign:?}: {}", answer.text());
                assert!(
                    answer.text().contains("did not come from one of muster")
                        && answer.header("set-cookie").is_empty()
                );
            }
            forms += 1;
        }
        assert!(forms >= 20, "{forms} forms");
        assert_eq!(doors.state(doors.ada()).await, before, "nothing changed");
        assert_eq!(
            doors.send(Ask::get("/").cookie(&cookie)).await.status,
            200,
            "and the session lives"
        );
    });
}

/// Addresses at which a form of our own would do something.
async fn real_ids(doors: &Doors, cookie: &str) -> Vec<(&'static str, String)> {
    let connector = doors.connector(doors.ada(), "mail").await;
    let (_, pending) = doors.draft(&connector, message("pending"), "Yes.").await;
    let approved = doors.approved(cookie, &connector, "approved", "Yes.").await;
    let lost = doors.unconfirmed(&connector, "lost").await;
    doors
        .token(doors.ada(), muster_core::secret::TokenKind::Personal)
        .await;
    let token = muster_app::accounts::tokens(&doors.app, doors.ada())
        .await
        .unwrap()[0]
        .id;
    vec![
        (
            "/attention/drafts/{id}/approve",
            format!("/attention/drafts/{pending}/approve"),
        ),
        (
            "/attention/drafts/{id}/reject",
            format!("/attention/drafts/{pending}/reject"),
        ),
        (
            "/attention/drafts/{id}/withdraw",
            format!("/attention/drafts/{approved}/withdraw"),
        ),
        (
            "/plugins/{id}/revoke",
            format!("/plugins/{}/revoke", connector.id),
        ),
        (
            "/plugins/messages/{id}/retry",
            format!("/plugins/messages/{lost}/retry"),
        ),
        (
            "/settings/tokens/{id}/revoke",
            format!("/settings/tokens/{token}/revoke"),
        ),
    ]
}

// spec: GATE-014
#[test]
fn what_is_no_address_is_not_found_whoever_asks() {
    doors(|doors| async move {
        let connector = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        for path in [
            "/plugin",
            "/plugin/",
            "/plugin/v1",
            "/plugin/v1/nope",
            "/plugin/v2/messages",
            "/plugin/v1/messages/",
            "/plugin/v1/drafts/1",
            "/plugin/v1/messages/1",
        ] {
            for ask in [
                Ask::post(path),
                Ask::post(path).bearer(&connector.token),
                Ask::get(path).cookie(&cookie),
            ] {
                let answer = doors.send(ask).await;
                assert_eq!(
                    (answer.status, answer.error().contains("no such route")),
                    (404, true),
                    "{path}"
                );
            }
        }
        for path in [
            "/api",
            "/api/",
            "/api/tasks",
            "/api/plugins/messages/1",
            "/api/plugins/messages/1/retry/",
        ] {
            for ask in [
                Ask::post(path),
                Ask::get(path),
                Ask::post(path).bearer(super::kit::HOOK),
            ] {
                let answer = doors.send(ask).await;
                assert_eq!(
                    (answer.status, answer.error().contains("no such route")),
                    (404, true),
                    "{path}"
                );
            }
        }
        for path in [
            "/nothing",
            "/plugins/",
            "/plugins/1",
            "/attention/",
            "/attention/drafts/1",
            "/settings/passkeys",
            "/static",
            "/static/",
            "/static/../Cargo.toml",
            "/mirror/mcp",
            "/mcp/",
            "/mcp/x",
            "/.env",
        ] {
            for ask in [
                Ask::get(path),
                Ask::get(path).cookie(&cookie),
                Ask::form(path, &[]).cookie(&cookie),
            ] {
                let answer = doors.send(ask).await;
                assert_eq!(answer.status, 404, "{path}: {}", answer.text());
                assert!(
                    answer
                        .text()
                        .to_lowercase()
                        .contains("there is nothing at this address")
                );
            }
        }
        let plain = doors.send(Ask::new(Method::GET, "/nothing")).await;
        assert_eq!(
            plain.line(),
            "404 text/plain; charset=utf-8 There is nothing at this address."
        );
    });
}

// spec: GATE-014 GATE-012
#[test]
fn a_method_that_a_route_does_not_have_is_refused_as_such() {
    doors(|doors| async move {
        let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for route in routes(&doors.web) {
            paths.entry(route.path).or_default().push(route.method);
        }
        let agent = doors
            .token(doors.ada(), muster_core::secret::TokenKind::Agent)
            .await;
        for (path, methods) in paths {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"]
                .into_iter()
                .filter(|method| !methods.contains(method))
            {
                let mut ask = Ask::new(Method::from_bytes(method.as_bytes()).unwrap(), &address(path));
                if path.ends_with("/mcp") {
                    ask = ask.bearer(&agent);
                }
                let answer = doors.send(ask).await;
                assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text());
                assert!(
                    !answer.header("allow").is_empty(),
                    "{method} {path} says what it takes"
                );
                if path.starts_with("/plugin/") || path.starts_with("/api/") {
                    assert!(!answer.error().is_empty());
                }
            }
        }
    });
}

#[test]
fn a_head_request_is_answered_like_a_get_without_its_body() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        for (path, status) in [
            ("/sign-in", 200),
            ("/healthz", 200),
            ("/plugins", 303),
            ("/nothing", 404),
            ("/plugin/v1/messages", 405),
        ] {
            let answer = doors.send(Ask::new(Method::HEAD, path)).await;
            assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
        }
        assert_eq!(
            doors
                .send(Ask::new(Method::HEAD, "/plugins").cookie(&cookie))
                .await
                .status,
            200
        );
    });
}

// spec: TOK-005 UIP-011
#[test]
fn a_head_request_shows_nothing_and_uses_nothing_up() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let before = doors.state(doors.ada()).await;
        for route in routes(&doors.web)
            .into_iter()
            .filter(|route| route.method == "GET")
        {
            doors
                .send(Ask::new(Method::HEAD, &address(route.path)).cookie(&cookie))
                .await;
        }
        assert_eq!(doors.state(doors.ada()).await, before, "no GET is an act");
        let made = [
            (
                "/plugins",
                "mpl_",
                vec![("name", "new"), ("label", "New"), ("data_scope", "inbox")],
                "/plugins",
            ),
            (
                "/settings/tokens",
                "mst_",
                vec![("kind", "personal"), ("label", "laptop")],
                "/settings",
            ),
        ];
        for (form, prefix, fields, page) in made {
            assert_eq!(
                doors
                    .send(Ask::form(form, &fields).cookie(&cookie))
                    .await
                    .location(),
                page
            );
            let head = doors.send(Ask::new(Method::HEAD, page).cookie(&cookie)).await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            let ahead = doors
                .send(Ask::get(page).cookie(&cookie).header("sec-purpose", "prefetch"))
                .await;
            assert!(
                !ahead.text().contains("id=\"new-token\""),
                "{page}: nobody looks yet"
            );
            assert!(
                doors
                    .page(&cookie, page)
                    .await
                    .contains(&format!("tabindex=\"0\">{prefix}")),
                "{page}: the person still sees it"
            );
            assert!(
                !doors.page(&cookie, page).await.contains("id=\"new-token\""),
                "{page}: once"
            );
        }
    });
}

#[test]
fn every_kind_of_answer_carries_the_strict_headers() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let connector = doors.connector(doors.ada(), "mail").await;
        let asks = [
            ("a page", Ask::get("/").cookie(&cookie), 200),
            ("a stream", Ask::get("/events").cookie(&cookie), 200),
            ("a redirect", Ask::get("/"), 303),
            (
                "a form's answer",
                Ask::form("/sign-in", &[("name", "ada"), ("password", "wrong password")]),
                401,
            ),
            ("a missing page", Ask::get("/nothing"), 404),
            (
                "a foreign form",
                Ask::form("/sign-out", &[]).of_another_site().cookie(&cookie),
                403,
            ),
            ("a foreign host", Ask::get("/").header(HOST, "evil.example"), 421),
            ("another method", Ask::new(Method::DELETE, "/plugins"), 405),
            (
                "the connector's door",
                Ask::post("/plugin/v1/drafts/claim").bearer(&connector.token),
                204,
            ),
            ("its refusal", Ask::post("/plugin/v1/messages"), 401),
            (
                "the scripts' door",
                Ask::post("/api/plugins/messages/1/retry"),
                401,
            ),
            ("the agents' door", Ask::post("/mcp"), 401),
            ("a probe", Ask::get("/healthz"), 200),
            ("the counts", Ask::get("/metrics"), 200),
            ("the description", Ask::get("/openapi.json"), 200),
        ];
        for (what, ask, status) in asks {
            let answer = doors.send(ask).await;
            assert_eq!(answer.status, status, "{what}");
            let policy = answer.header("content-security-policy");
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
            ] {
                assert!(policy.contains(part), "{what}: {policy}");
            }
            assert!(
                !policy.contains("unsafe") && !policy.contains('*'),
                "{what}: {policy}"
            );
            let fixed = [
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-opener-policy", "same-origin"),
            ];
            for (name, value) in fixed {
                assert_eq!(answer.header(name), value, "{what}: {name}");
            }
            assert_eq!(answer.header("access-control-allow-origin"), "", "{what}");
            assert!(
                answer.header("cache-control").contains("no-store") || what == "a stream",
                "{what}: {}",
                answer.header("cache-control")
            );
        }
        let styled = doors.send(Ask::get("/static/app.css")).await;
        assert_eq!(
            (styled.header("content-type"), styled.header("cache-control")),
            ("text/css; charset=utf-8", "no-cache")
        );
        assert_eq!(styled.header("x-content-type-options"), "nosniff");
    });
}

#[test]
fn the_counts_are_for_this_machine_alone() {
    doors(|doors| async move {
        assert_eq!(
            doors
                .send(Ask::get("/metrics").sent_from([10, 0, 0, 7]))
                .await
                .status,
            404
        );
        for forwarded in ["x-forwarded-for", "forwarded", "x-real-ip", "via"] {
            let answer = doors
                .send(Ask::get("/metrics").header(forwarded, "203.0.113.9"))
                .await;
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (404, ""),
                "{forwarded}: a proxy on this machine speaks for somebody else"
            );
        }
        let text = doors.send(Ask::get("/metrics")).await.text();
        assert!(
            text.contains("muster_claims_waiting 0") && !text.contains("ada"),
            "{text}"
        );
        assert_eq!(
            doors
                .send(Ask::get("/healthz").sent_from([10, 0, 0, 7]))
                .await
                .line(),
            "200 text/plain; charset=utf-8 ok"
        );
        assert_eq!(
            doors
                .send(Ask::get("/readyz").sent_from([10, 0, 0, 7]))
                .await
                .line(),
            "200 text/plain; charset=utf-8 ready"
        );
    });
}
