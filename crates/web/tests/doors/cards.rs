//! The reply drafts' page: what a card shows and offers, and what each decision does. Every act is the form that the page itself holds.

use muster_app::drafts::{self, DraftState};
use muster_core::ids::DraftId;
use muster_core::text::{MessageBody, Sender, Subject};
use muster_store::{Sql, owned};
use muster_testkit::{PASSWORD, Step, message};
use serde_json::json;
use std::time::Duration;

use super::kit::{Answer, Ask, Doors, HTML, doors, escaped, filing};

const DRAFTS: &str = "/attention?tab=drafts";
const ARCHIVE: &str = "/attention?tab=drafts&archived=1";
/// Longer than the step-up window, shorter than the life of a session and of a draft.
const OLD: Duration = Duration::from_secs(12 * 3_600 + 1);

static INSERT_PASSKEY: Sql = owned(
    "tests.card_passkey",
    "INSERT INTO passkeys (owner_id, credential_id, label, credential, created_at) VALUES ($1, 'card', 'key', '{}', $2) RETURNING id",
);

/// The card of a draft, cut out of a page.
fn card(page: &str, draft: DraftId) -> String {
    let (_, rest) = page
        .split_once(&format!("id=\"draft-{draft}\""))
        .unwrap_or_else(|| panic!("no card of draft {draft}: {page}"));
    let card = rest.split("</article>").next().unwrap();
    // A decided card is a part that opens, and may hold others: it ends where more parts have ended than begun.
    let mut depth = 1;
    let mut whole = String::new();
    for piece in card.split_inclusive("</details>") {
        whole.push_str(piece);
        depth += piece.matches("<details").count();
        depth -= piece.matches("</details>").count();
        if depth == 0 {
            break;
        }
    }
    whole
}

/// The addresses of a card's forms.
fn actions(card: &str) -> Vec<String> {
    card.split("<form method=\"post\" action=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

async fn state(doors: &Doors, draft: DraftId) -> DraftState {
    drafts::card(&doors.app, doors.ada(), draft)
        .await
        .unwrap()
        .unwrap()
        .state
}

async fn press(doors: &Doors, cookie: &str, draft: DraftId, act: &str) -> Answer {
    doors
        .send(Ask::form(&format!("/attention/drafts/{draft}/{act}"), &[]).cookie(cookie))
        .await
}

// spec: DRF-037..DRF-042 UIP-016 UIP-017 MSG-064
#[test]
fn a_card_shows_the_message_as_text_and_the_reply_as_it_will_be_sent() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let mut hostile = message("m");
        hostile.sender = Some(Sender::parse("sender", "Bob (verified) <img src=x>\u{202e}").unwrap());
        hostile.subject = Some(Subject::parse("subject", "\"'><script>alert(1)</script>").unwrap());
        hostile.body = MessageBody::parse(
            "body",
            "</pre><script>alert(2)</script>\nsecond line \u{1b}[31m & {{ 7*7 }}",
        )
        .unwrap();
        hostile.sender_verified = false;
        let (_, draft) = doors
            .draft(&mail, hostile, "Café — noon\n\\n </pre><b>bold</b>")
            .await;
        let page = doors.page(&cookie, DRAFTS).await;
        let card = card(&page, draft);
        assert!(card.contains("Untrusted text from outside"));
        assert!(
            card.contains(&escaped("Bob (verified) <img src=x>\\u{202e}"))
                && card.contains("unverified sender")
        );
        assert!(card.contains(&escaped(
            "(UNVERIFIED: the plugin could not prove this sender; treat the name as a claim)"
        )));
        assert!(card.contains(&escaped("\"'><script>alert(1)</script>")));
        assert!(card.contains(&escaped(
            "</pre><script>alert(2)</script>\nsecond line \\u{1b}[31m & {{ 7*7 }}"
        )));
        let read = card.split_once("As the reader will see it").unwrap().1;
        assert!(
            read.contains(&escaped("Café — noon\n\\n </pre><b>bold</b>")) && !read.contains("<b>"),
            "{card}"
        );
        let spelled = "Caf\\u{e9} \\u{2014} noon\\n\\\\n </pre><b>bold</b>";
        assert!(card.contains(&format!(">{}</pre>", escaped(spelled))), "{card}");
        assert!(card.contains("32 characters"), "{card}");
        assert!(
            !page.contains("<script>")
                && !page.contains("<img")
                && !page.contains('\u{202e}')
                && !page.contains('\u{1b}')
        );
        assert!(
            card.contains("Label of mail")
                && card.contains("2027-01-15T08:00:00Z")
                && card.contains("in 7 days"),
            "when it was written and when it expires"
        );
        assert!(doors.page(&cookie, "/").await.contains("unverified sender"));

        let (_, proved) = doors.draft(&mail, message("proved"), "Yes.").await;
        let page = doors.page(&cookie, DRAFTS).await;
        let card = self::card(&page, proved);
        assert!(
            !card.contains("UNVERIFIED") && !card.contains("unverified") && card.contains("4 characters")
        );
        assert!(
            page.find(&format!("id=\"draft-{proved}\"")) < page.find(&format!("id=\"draft-{draft}\"")),
            "the newest stands first"
        );
    });
}

// spec: UIP-018 UIP-020 DRF-047
#[test]
fn the_forms_of_the_page_are_all_it_takes_from_pending_to_sent() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        let of = |act: &str| format!("/attention/drafts/{draft}/{act}");
        let shown = async || card(&doors.page(&cookie, DRAFTS).await, draft);
        assert_eq!(actions(&shown().await), [of("approve"), of("reject")]);
        assert_eq!(
            doors
                .send(Ask::form(&actions(&shown().await)[0], &[]).cookie(&cookie))
                .await
                .status,
            303
        );
        let approved = shown().await;
        assert_eq!(actions(&approved), [of("withdraw")]);
        assert!(approved.contains("Withdraw the approval"));
        doors.claim(&mail).await;
        let collected = shown().await;
        assert!(
            actions(&collected).is_empty()
                && collected.contains("cannot be withdrawn any more")
                && collected.contains("in 2 minutes")
        );
        let done = doors
            .send(
                Ask::json(
                    &format!("/plugin/v1/drafts/{draft}/result"),
                    &json!({"ok": true, "external_ref": "up-1", "detail": "queued as 7"}),
                )
                .bearer(&mail.token),
            )
            .await;
        assert_eq!(done.status, 200);
        let archived = card(&doors.page(&cookie, ARCHIVE).await, draft);
        for words in [
            "sent",
            "The connector reported that it was sent.",
            "up-1",
            "queued as 7",
            "Approved",
            "Collected",
            "Reported sent",
            "browser",
        ] {
            assert!(archived.contains(words), "{words}: {archived}");
        }
        assert!(actions(&archived).is_empty());
        let open = doors.page(&cookie, DRAFTS).await;
        assert!(
            open.contains("No reply draft awaits you.") && open.contains(&format!("id=\"draft-{draft}\"")),
            "the same page ends with the archive"
        );
    });
}

// spec: DRF-043..DRF-045 UIP-021 TOK-026
#[test]
fn an_old_sign_in_confirms_comes_back_to_the_card_and_then_approves() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        doors.muster.clock.advance(OLD);
        assert!(doors.page(&cookie, DRAFTS).await.contains(
            "Approving asks for a passkey or your password first: your sign-in is older than 12 hours."
        ));
        let sent = press(&doors, &cookie, draft, "approve").await;
        assert_eq!(
            (sent.status, sent.location()),
            (
                303,
                format!("/confirm?next=/attention%3Ftab%3Ddrafts%23draft-{draft}").as_str()
            )
        );
        assert_eq!(
            state(&doors, draft).await,
            DraftState::Pending,
            "nothing was approved"
        );

        let place = sent.location().to_owned();
        let next = format!("/attention?tab=drafts#draft-{draft}");
        let page = doors.page(&cookie, &place).await;
        assert!(
            page.contains(&format!("name=\"next\" value=\"{next}\""))
                && page.contains("type=\"password\"")
                && page.contains("nothing was done yet"),
            "{page}"
        );
        assert!(
            !page.contains("data-passkey=\"confirm\""),
            "there is none to confirm with"
        );
        doors
            .app
            .db
            .write(doors.ada(), |tx| {
                Box::pin(async move { tx.number(&INSERT_PASSKEY, (0_i64,)).await })
            })
            .await
            .unwrap();
        assert!(
            doors
                .page(&cookie, &place)
                .await
                .contains("data-passkey=\"confirm\"")
        );

        let wrong = doors
            .send(Ask::form("/confirm", &[("password", "not the password"), ("next", &next)]).cookie(&cookie))
            .await;
        assert!(
            wrong.status == 401
                && wrong.text().contains("Nothing was confirmed")
                && wrong.text().contains(&next),
            "{}",
            wrong.text()
        );
        assert_eq!(
            press(&doors, &cookie, draft, "approve").await.location(),
            place,
            "still old"
        );
        let right = doors
            .send(Ask::form("/confirm", &[("password", PASSWORD), ("next", &next)]).cookie(&cookie))
            .await;
        assert_eq!((right.status, right.location()), (303, next.as_str()));
        doors.decide(&cookie, draft, "approve").await;
        assert_eq!(state(&doors, draft).await, DraftState::Approved);
        doors.claim(&mail).await;
    });
}

// spec: DRF-043 TOK-026
#[test]
fn the_window_is_the_servers_setting_and_each_sessions_own() {
    doors(|doors| async move {
        let short = doors.with(|settings| settings.stepup_window = Duration::from_secs(60));
        let mail = doors.connector(doors.ada(), "mail").await;
        let first = short.sign_in("ada").await;
        let (_, draft) = doors.draft(&mail, message("m"), "Yes.").await;
        short.muster.clock.advance(Duration::from_secs(61));
        let second = short.sign_in("ada").await;
        assert!(
            press(&short, &first, draft, "approve")
                .await
                .location()
                .starts_with("/confirm")
        );
        assert!(short.page(&first, DRAFTS).await.contains("older than 1 minute"));
        short.decide(&second, draft, "approve").await;
    });
}

// spec: DRF-046 TOK-033 RTY-002
#[test]
fn what_sends_nothing_needs_no_fresh_sign_in() {
    doors(|doors| async move {
        let ada = doors.ada();
        let mail = doors.connector(ada, "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (_, pending) = doors.draft(&mail, message("a"), "Yes.").await;
        let approved = doors.approved(&cookie, &mail, "b", "Yes.").await;
        let lost = doors.unconfirmed(&mail, "c").await;
        doors.muster.clock.advance(OLD);
        doors.decide(&cookie, pending, "reject").await;
        doors.decide(&cookie, approved, "withdraw").await;
        let retried = doors
            .send(Ask::form(&format!("/plugins/messages/{lost}/retry"), &[]).cookie(&cookie))
            .await;
        assert_eq!(
            (retried.status, retried.location()),
            (303, "/plugins#unconfirmed")
        );
        let revoked = doors
            .send(Ask::form(&format!("/plugins/{}/revoke", mail.id), &[]).cookie(&cookie))
            .await;
        assert_eq!((revoked.status, revoked.location()), (303, "/plugins"));
        assert_eq!(
            doors
                .send(Ask::post("/plugin/v1/drafts/claim").bearer(&mail.token))
                .await
                .status,
            401
        );
        assert_eq!(
            (state(&doors, pending).await, state(&doors, approved).await),
            (DraftState::Rejected, DraftState::Rejected)
        );
    });
}

// spec: DRF-048 DRF-049
#[test]
fn an_approval_can_be_withdrawn_until_it_is_collected() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let withdrawn = doors.approved(&cookie, &mail, "a", "Yes.").await;
        doors.decide(&cookie, withdrawn, "withdraw").await;
        assert_eq!(
            doors
                .send(Ask::post("/plugin/v1/drafts/claim").bearer(&mail.token))
                .await
                .status,
            204
        );
        let archived = card(&doors.page(&cookie, ARCHIVE).await, withdrawn);
        assert!(
            archived.contains("rejected")
                && archived.contains("You withdrew the approval before a connector collected it.")
        );

        let collected = doors.approved(&cookie, &mail, "b", "Yes.").await;
        doors.claim(&mail).await;
        let refused = press(&doors, &cookie, collected, "withdraw").await;
        assert!(
            refused.status == 409 && refused.text().contains("already collected this reply"),
            "{}",
            refused.text()
        );
        let report = Ask::json(
            &format!("/plugin/v1/drafts/{collected}/result"),
            &json!({"ok": true}),
        )
        .bearer(&mail.token);
        assert_eq!(
            doors.send(report).await.json()["status"],
            "sent",
            "the lease is intact"
        );
    });
}

// spec: DRF-051 DRF-081 UIP-016
#[test]
fn a_stale_form_is_refused_with_the_state_named_and_the_archive_shows_each_state() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let report = async |draft: DraftId, ok: bool| {
            doors.claim(&mail).await;
            doors
                .send(
                    Ask::json(&format!("/plugin/v1/drafts/{draft}/result"), &json!({"ok": ok}))
                        .bearer(&mail.token),
                )
                .await;
        };
        let (message_id, superseded) = doors.draft(&mail, message("superseded"), "First.").await;
        let other = doors.store(&mail, message("other")).await;
        doors
            .deliver(doors.ada(), other, filing(message_id, "Second."))
            .await;
        let rejected = doors.newest_draft(doors.ada(), message_id).await;
        doors.decide(&cookie, rejected, "reject").await;
        let sent = doors.approved(&cookie, &mail, "sent", "Yes.").await;
        report(sent, true).await;
        let failed = doors.approved(&cookie, &mail, "failed", "Yes.").await;
        report(failed, false).await;
        let unconfirmed = doors.approved(&cookie, &mail, "unconfirmed", "Yes.").await;
        doors.claim(&mail).await;
        let (_, expired) = doors.draft(&mail, message("expired"), "Yes.").await;
        let missing = press(&doors, &cookie, DraftId::new(999_999), "approve").await;
        assert!(missing.status == 404 && missing.text().contains("No such draft."));
        doors.muster.clock.advance(drafts::LIFETIME);
        let cookie = doors.sign_in("ada").await;

        let archive = doors.page(&cookie, ARCHIVE).await;
        for (draft, word) in [
            (superseded, "superseded"),
            (rejected, "rejected"),
            (sent, "sent"),
            (failed, "failed"),
            (unconfirmed, "unconfirmed"),
            (expired, "expired"),
        ] {
            let archived = card(&archive, draft);
            assert!(
                archived.contains(word) && archived.contains("<dt>Written</dt>"),
                "{word}: {archived}"
            );
            // What no claim reported has no end yet: a late result may still come.
            let ended = match word {
                "sent" => "Reported sent",
                "failed" => "Reported not sent",
                "unconfirmed" => "No report by",
                "rejected" => "Rejected",
                "superseded" => "Superseded",
                _ => "Expired",
            };
            assert!(
                archived.contains(&format!("<dt>{ended}</dt>")),
                "{word}: {archived}"
            );
            assert!(!archived.contains("expire</dt>"), "{word}: {archived}");
            for act in ["approve", "reject", "withdraw"] {
                let refused = press(&doors, &cookie, draft, act).await;
                assert!(
                    refused.status == 409 && refused.text().contains(&format!("This draft is {word}")),
                    "{act} {word}: {}",
                    refused.text()
                );
            }
            assert_eq!(state(&doors, draft).await.as_str(), word);
        }
        assert!(
            card(&archive, superseded).contains(&format!("Reply draft {rejected}")),
            "which draft took its place"
        );
        assert!(
            doors
                .page(&cookie, DRAFTS)
                .await
                .contains("No reply draft awaits you.")
        );
        let older = doors.page(&cookie, &format!("{ARCHIVE}&before={sent}")).await;
        assert!(
            older.contains(&format!("id=\"draft-{rejected}\""))
                && !older.contains(&format!("id=\"draft-{sent}\""))
        );
    });
}

// spec: DRF-052
#[test]
fn a_card_warns_when_an_earlier_reply_may_have_gone() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (first_message, first) = doors.draft(&mail, message("m"), "First.").await;
        doors.decide(&cookie, first, "approve").await;
        doors.claim(&mail).await;
        doors.muster.clock.advance(drafts::LEASE);
        assert!(card(&doors.page(&cookie, ARCHIVE).await, first).contains("unconfirmed"));
        let other = doors.store(&mail, message("other")).await;
        doors
            .deliver(doors.ada(), other, filing(first_message, "Second."))
            .await;
        let second = doors.newest_draft(doors.ada(), first_message).await;
        let (_, unrelated) = doors.draft(&mail, message("unrelated"), "Hello.").await;
        let page = doors.page(&cookie, DRAFTS).await;
        assert!(
            card(&page, second).contains("the sender may get both")
                && !card(&page, unrelated).contains("may get both")
        );
    });
}

// spec: MSG-063 MSG-064
#[test]
fn a_notice_waits_in_musters_own_words_until_the_draft_is_decided() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let mut unproved = message("unproved");
        unproved.sender_verified = false;
        let (_, first) = doors.draft(&mail, unproved, "First words.").await;
        let (_, second) = doors.draft(&mail, message("proved"), "Second words.").await;
        for path in ["/", "/notices"] {
            let page = doors.page(&cookie, path).await;
            assert_eq!(
                page.matches("A reply draft awaits your approval").count(),
                2,
                "{path}"
            );
            assert_eq!(page.matches("unverified sender").count(), 1, "{path}");
            assert!(
                page.contains(&format!("href=\"/attention?tab=drafts#draft-{first}\""))
                    && page.contains(&format!("#draft-{second}\""))
            );
            assert!(
                !page.contains("words.") && !page.contains("body of") && !page.contains("ada@example.test"),
                "{path} quotes nothing"
            );
        }
        let fragment = doors.page(&cookie, "/notices").await;
        assert!(!fragment.contains("<html"));
        doors.decide(&cookie, first, "reject").await;
        assert!(
            !doors
                .page(&cookie, "/notices")
                .await
                .contains("unverified sender")
        );
        doors.decide(&cookie, second, "approve").await;
        assert!(
            !doors
                .page(&cookie, "/notices")
                .await
                .contains("awaits your approval")
        );
        assert!(doors.page(&cookie, "/").await.contains("1 approved reply"));
    });
}

#[test]
fn an_address_that_names_no_list_of_drafts_is_not_found() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        for asks in ["/attention", "/attention?tab=asks"] {
            assert!(
                doors.page(&cookie, asks).await.contains("<h1>Asks</h1>"),
                "{asks}"
            );
        }
        for path in [
            "/attention?tab=calls",
            "/attention?ended=0",
            "/attention?ended=1&before=x",
            "/attention?ended=1&before=-1",
            "/attention?tab=drafts&archived=0",
            "/attention?tab=drafts&before=7",
            "/attention?tab=drafts&archived=1&before=x",
            "/attention?tab=drafts&archived=1&before=-1",
        ] {
            assert_eq!(
                doors.send(Ask::get(path).cookie(&cookie)).await.status,
                404,
                "{path}"
            );
        }
        for id in ["abc", "0", "-1", "99999999999999999999", "1.0"] {
            let answer = doors
                .send(
                    Ask::form(&format!("/attention/drafts/{id}/approve"), &[])
                        .cookie(&cookie)
                        .header("accept", HTML),
                )
                .await;
            assert_eq!(answer.status, 404, "{id}");
        }
    });
}

// spec: TOK-032
#[test]
fn what_a_revoked_connector_brought_stays_readable() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let (_, pending) = doors.draft(&mail, message("a"), "Yes.").await;
        let (_, rejected) = doors.draft(&mail, message("b"), "No.").await;
        doors.decide(&cookie, rejected, "reject").await;
        doors
            .delivered(&mail, message("c"), Step::Complete("read it"))
            .await;
        doors
            .send(Ask::form(&format!("/plugins/{}/revoke", mail.id), &[]).cookie(&cookie))
            .await;
        assert!(card(&doors.page(&cookie, DRAFTS).await, pending).contains("body of a"));
        assert!(card(&doors.page(&cookie, ARCHIVE).await, rejected).contains("body of b"));
        let spoken = doors
            .page(&cookie, &format!("/chief/conversations/{}", mail.id))
            .await;
        assert!(spoken.contains("body of c") && spoken.contains("read it") && spoken.contains("was revoked"));
    });
}
