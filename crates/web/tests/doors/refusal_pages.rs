//! The pages that say no: whoever is signed in finds the way on from them, and nobody else sees anything of an account.

use muster_core::ids::DraftId;
use muster_testkit::message;

use super::kit::{Ask, doors};

const NAVIGATION: &str = "<nav class=\"pages\"";

#[test]
fn a_refusal_shows_the_navigation_to_who_is_signed_in_and_to_nobody_else() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let mail = doors.connector(doors.ada(), "mail").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        doors.decide(&cookie, draft, "reject").await;
        let press = |draft: DraftId| Ask::form(&format!("/attention/drafts/{draft}/reject"), &[]);
        let long = "x".repeat(70 * 1024);
        let asks = [
            (404, "nothing at all", Ask::get("/nothing")),
            (404, "a list that is none", Ask::get("/attention?tab=nothing")),
            (404, "an id that is none", Ask::form("/plugins/x/revoke", &[])),
            (404, "a set-up that is over", Ask::get("/setup?code=0")),
            (404, "another's draft", press(DraftId::new(999_999))),
            (409, "a draft that was decided", press(draft)),
            (404, "no such connector", Ask::form("/plugins/999999/revoke", &[])),
            (
                403,
                "a form of another site",
                Ask::form("/sign-out", &[]).of_another_site(),
            ),
            (
                413,
                "a form that is too long",
                Ask::form("/plugins", &[("name", &long)]),
            ),
            (
                415,
                "a form that is none",
                Ask::script("/plugins", &serde_json::json!({})).header("accept", "text/html"),
            ),
        ];
        for (status, what, ask) in asks {
            let signed = doors.send(ask.clone().cookie(&cookie)).await;
            let html = signed.text();
            assert_eq!(signed.status, status, "{what}: {html}");
            assert!(
                html.contains(NAVIGATION) && html.contains("Signed in as") && html.contains("/sign-out"),
                "{what}: {html}"
            );
            assert_eq!(
                signed
                    .header("content-length")
                    .parse::<usize>()
                    .unwrap_or(html.len()),
                html.len(),
                "{what}"
            );
            let unsigned = doors.send(ask.clone()).await;
            assert!(!unsigned.text().contains(NAVIGATION), "{what}");
            let beside = doors.send(ask.cookie(&cookie).bearer(&mail.token)).await;
            assert!(
                !beside.text().contains(NAVIGATION) && !beside.text().contains("ada"),
                "{what}: a token beside the session"
            );
        }
        // What a guesser is told keeps its header.
        for n in 0..10 {
            let form = [("password", format!("guess {n}"))];
            let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
            doors.send(Ask::form("/confirm", &form).cookie(&cookie)).await;
        }
        let much = doors
            .send(Ask::form("/confirm", &[("password", "guess")]).cookie(&cookie))
            .await;
        assert_eq!(much.status, 429);
        assert!(much.text().contains(NAVIGATION) && !much.header("retry-after").is_empty());
    });
}

#[test]
fn a_link_to_a_setup_that_is_over_leads_to_the_sign_in() {
    doors(|doors| async move {
        for ask in [
            Ask::get("/setup?code=0"),
            Ask::form(
                "/setup",
                &[("code", "0"), ("name", "eve"), ("password", "x"), ("again", "x")],
            ),
        ] {
            let answer = doors.send(ask).await;
            let html = answer.text();
            assert_eq!(answer.status, 404);
            assert!(
                html.contains("good once") && html.contains("href=\"/sign-in\""),
                "{html}"
            );
        }
    });
}
