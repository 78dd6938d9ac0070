//! The settings page: tokens that scripts and mirror hosts use, each shown once. Plain forms, no script.

use muster_app::accounts;
use muster_core::secret::TokenKind;
use serde_json::json;
use std::time::Duration;

use super::kit::{Ask, doors, escaped};

// spec: TOK-027
#[test]
fn a_personal_token_is_made_on_the_settings_page_used_and_revoked() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let mail = doors.connector(doors.ada(), "mail").await;
        let made = doors
            .send(
                Ask::form(
                    "/settings/tokens",
                    &[("kind", "personal"), ("label", "my <laptop>")],
                )
                .cookie(&cookie),
            )
            .await;
        assert_eq!((made.status, made.location()), (303, "/settings"));
        let page = doors.page(&cookie, "/settings").await;
        let token = page
            .split_once("id=\"new-token\"")
            .unwrap()
            .1
            .split('>')
            .nth(1)
            .unwrap()
            .split('<')
            .next()
            .unwrap()
            .to_owned();
        assert!(TokenKind::Personal.matches(&token) && page.contains("it is not shown again"));
        let again = doors.page(&cookie, "/settings").await;
        assert!(
            !again.contains(&token)
                && again.contains(&escaped("my <laptop>"))
                && again.contains("never used")
        );
        let lost = doors.unconfirmed(&mail, "lost").await;
        assert_eq!(
            doors
                .send(Ask::post(&format!("/api/plugins/messages/{lost}/retry")).bearer(&token))
                .await
                .status,
            200
        );
        let id = accounts::tokens(&doors.app, doors.ada()).await.unwrap()[0].id;
        let revoked = doors
            .send(Ask::form(&format!("/settings/tokens/{id}/revoke"), &[]).cookie(&cookie))
            .await;
        assert_eq!((revoked.status, revoked.location()), (303, "/settings"));
        assert_eq!(
            doors
                .send(Ask::post(&format!("/api/plugins/messages/{lost}/retry")).bearer(&token))
                .await
                .status,
            401
        );
        assert!(doors.page(&cookie, "/settings").await.contains("revoked"));
        let blank = doors
            .send(Ask::form("/settings/tokens", &[("kind", "personal"), ("label", " ")]).cookie(&cookie))
            .await;
        assert_eq!(blank.status, 400);
        let kind = doors
            .send(Ask::form("/settings/tokens", &[("kind", "plugin"), ("label", "x")]).cookie(&cookie))
            .await;
        assert!((400..500).contains(&kind.status), "no other kind is made here");
    });
}

#[test]
fn a_token_that_could_approve_is_made_by_a_fresh_sign_in_only() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        doors.muster.clock.advance(Duration::from_secs(12 * 3_600 + 1));
        let form = Ask::form(
            "/settings/tokens",
            &[("kind", "mirror-host"), ("label", "tower"), ("host", "tower")],
        )
        .cookie(&cookie);
        assert_eq!(
            doors.send(form).await.location(),
            "/confirm?next=/settings%23mirror-hosts"
        );
        let key = doors
            .send(Ask::script("/settings/passkeys/begin", &json!({})).cookie(&cookie))
            .await;
        assert!(
            key.status == 403 && key.json()["next"] == "/confirm?next=/settings%23passkeys",
            "{}",
            key.text()
        );
        assert!(
            accounts::tokens(&doors.app, doors.ada())
                .await
                .unwrap()
                .is_empty()
        );
        let personal =
            Ask::form("/settings/tokens", &[("kind", "personal"), ("label", "laptop")]).cookie(&cookie);
        assert_eq!(
            doors.send(personal).await.location(),
            "/settings",
            "a personal token approves nothing"
        );
    });
}
