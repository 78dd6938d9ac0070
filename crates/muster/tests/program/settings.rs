//! What single settings change, seen from outside, and a clock that is wrong. Never waits for real hours: the clock is moved.

use serde_json::json;

use crate::support::{PASSWORD, Place, engines, message};

// spec: CFG-016 TOK-026
#[tokio::test(flavor = "multi_thread")]
async fn an_old_sign_in_is_asked_to_confirm_before_it_approves() {
    for (window, inside, outside) in [("", 12 * 3600 - 60, 12 * 3600 + 60), ("1m", 50, 70)] {
        let place = Place::new().with_clock().with("MUSTER_STEPUP_WINDOW", window);
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "--draft 'Noon works.'");
        let server = place.serve();
        let http = server.http();
        let mut ada = server.sign_in("ada").await;
        http.message(&token, &message("one")).await;
        http.settled(&token, &message("one"), "delivered").await;
        http.message(&token, &message("two")).await;
        let drafts: Vec<i64> = place
            .recorded("turns", 4)
            .await
            .iter()
            .filter_map(|line| line["draft"].as_i64())
            .collect();
        place.move_clock(inside);
        ada.approve(drafts[0]).await;
        place.move_clock(outside);
        let asked = ada.decide("approve", drafts[1]).await;
        assert!(
            asked.status == 303 && asked.header("location").starts_with("/confirm?next="),
            "{asked:?}"
        );
        assert_eq!(
            place
                .json(&["audit", "list", "--event", "plugin.draft.approved"])
                .as_array()
                .unwrap()
                .len(),
            1,
            "it was approved"
        );
        let page = asked.header("location").to_owned();
        assert_eq!(ada.get(&page).await.status, 200);
        let wrong = ada
            .submit("/confirm", &[("password", "not the password"), ("next", "/")])
            .await;
        assert_eq!(wrong.status, 401, "{wrong:?}");
        assert_eq!(
            ada.submit(
                "/confirm",
                &[("password", PASSWORD), ("next", "/attention?tab=drafts")]
            )
            .await
            .status,
            303
        );
        ada.approve(drafts[1]).await;
        // Rejecting never asks.
        http.message(&token, &message("three")).await;
        let third = place.recorded("turns", 6).await[5]["draft"].as_i64().unwrap();
        place.move_clock(outside * 2 + 60);
        assert_eq!(
            ada.decide("reject", third).await.header("location"),
            format!("/attention?tab=drafts#draft-{third}")
        );
    }
}

// spec: CFG-015
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_holds_a_name_of_the_deployment_is_refused() {
    let place = Place::new().with("MUSTER_FLOW_AGENT_DENY_WORDS", "bluebird,green heron");
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    for (number, (reply, filed)) in [
        ("Ask Bluebird about it.", false),
        ("A green  heron says no.", false),
        ("A blue bird says yes.", true),
    ]
    .into_iter()
    .enumerate()
    {
        place.set_chief("ada", "turns", &format!("--draft '{reply}'"));
        let server = place.serve();
        server
            .http()
            .message(&token, &message(&format!("m-{number}")))
            .await;
        let line = place.recorded("turns", 2 * number + 2).await[2 * number + 1].clone();
        assert_eq!(line["draft"].is_i64(), filed, "{reply}: {line}");
        if !filed {
            assert_eq!(line["refused"]["error"]["code"], "screened", "{line}");
            assert!(
                !line["refused"]["error"]["message"]
                    .as_str()
                    .unwrap()
                    .to_lowercase()
                    .contains("bluebird"),
                "{line}"
            );
        }
        server.kill();
    }
}

// spec: CFG-005 CFG-006
#[tokio::test(flavor = "multi_thread")]
async fn the_hook_token_opens_the_scripts_door_of_an_armed_server_only() {
    const HOOK: &str = "a-shared-hook-token";
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    place.set_chief("ada", "turns", "--exit 1");
    let server = place.serve();
    server.http().message(&token, &message("m")).await;
    let id = server.http().settled(&token, &message("m"), "unconfirmed").await;
    let path = format!("/api/plugins/messages/{id}/retry");
    assert_eq!(server.http().post(&path, HOOK, &json!({})).await.status, 401);
    drop(server);
    let place = place.with("MUSTER_HOOK_TOKEN", HOOK);
    let server = place.serve();
    assert_eq!(
        server
            .http()
            .post(&path, "a-shared-hook-tokeN", &json!({}))
            .await
            .status,
        401
    );
    assert_eq!(server.http().post(&path, HOOK, &json!({})).await.status, 200);
    // It is no connector's, no agent's and no person's.
    assert_eq!(server.http().message(HOOK, &message("x")).await.status, 401);
    assert_eq!(server.http().post("/mcp", HOOK, &json!({})).await.status, 401);
    let page = server.http();
    assert_ne!(
        page.send(page.request(reqwest::Method::GET, "/plugins").bearer_auth(HOOK))
            .await
            .unwrap()
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_wrong_spoils_nothing() {
    const YEAR: i64 = 365 * 86_400;
    for engine in engines() {
        let place = Place::on(engine).await.with_clock();
        place.move_clock(2 * YEAR);
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "");
        let server = place.serve();
        let http = server.http();
        for number in 0..60 {
            assert_eq!(
                http.message(&token, &message(&format!("early-{number}")))
                    .await
                    .status,
                202
            );
        }
        assert_eq!(http.message(&token, &message("over")).await.status, 429);
        server.kill();
        // Set right again: everything works, and what the wrong hour counted does not count for two years.
        place.move_clock(0);
        let server = place.serve();
        let http = server.http();
        assert_eq!(http.message(&token, &message("early-0")).await.status, 200);
        let now = http.message(&token, &message("now")).await;
        assert_eq!(now.status, 202, "{now:?}");
        let ada = server.sign_in("ada").await;
        for page in [
            "/",
            "/plugins",
            "/audit",
            "/settings",
            "/chief",
            "/attention?tab=drafts",
        ] {
            assert_eq!(ada.get(page).await.status, 200, "{page}");
        }
        server.err.says("clock");
        assert!(place.json(&["audit", "list"]).as_array().unwrap().len() > 3);
        // And far back.
        place.move_clock(-40 * YEAR);
        let server = place.serve();
        assert_eq!(server.http().message(&token, &message("back")).await.status, 202);
        drop(server);
        let look = place.look().await;
        assert_eq!(look.number("SELECT count(*) FROM messages").await, 62);
        look.close().await;
        place.end().await;
    }
}
