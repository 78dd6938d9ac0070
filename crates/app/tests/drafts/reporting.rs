//! Reporting: what a connector's result does to its draft and to the other drafts of the message, on time and late. Never decides.

use muster_app::drafts::{self, Card, DraftState, Report, ReportRefusal};
use muster_app::plugins::{self, PluginCaller};
use muster_core::ids::DraftId;
use muster_core::text::{Detail, ExternalRef};
use muster_testkit::{add_owner, add_plugin};

use super::kit::{DAY, Desk, LEASE_AND_A_BIT, SECOND, on_desks, result};

fn words(ok: bool, external_ref: &str, detail: &str) -> Report {
    Report {
        ok,
        external_ref: Some(ExternalRef::parse("external_ref", external_ref).unwrap()),
        detail: Some(Detail::parse("detail", detail).unwrap()),
    }
}

fn said(card: &Card) -> (DraftState, Option<&str>, Option<&str>) {
    (card.state, card.external_ref.as_deref(), card.detail.as_deref())
}

// spec: RES-004 RES-005 AUD-018
#[test]
fn a_result_is_recorded_as_sent_or_failed() {
    on_desks(|desk| async move {
        for (ok, state, event) in [
            (true, DraftState::Sent, "plugin.draft.sent"),
            (false, DraftState::Failed, "plugin.draft.failed"),
        ] {
            let id = desk.message(state.as_str()).await;
            let draft = desk.claimed(id, "Noon works.").await;
            desk.advance(SECOND);
            let reported = desk.try_report(draft, ok).await.unwrap();
            assert_eq!((reported.id, reported.state), (draft, state));
            let card = desk.card(draft).await;
            assert_eq!((card.state, card.ended_at), (state, Some(desk.app().clock.now())));
            let rows = desk.events(event).await;
            assert_eq!(rows.len(), 1);
            assert_eq!(
                (rows[0].subject.clone(), rows[0].actor.as_str()),
                (format!("draft:{draft}"), "plugin:mail")
            );
        }
    });
}

// spec: RES-006 RES-015 RES-024 AUD-018
#[test]
fn the_same_result_again_changes_nothing_and_keeps_the_first_words() {
    on_desks(|desk| async move {
        for ok in [true, false] {
            let id = desk.message(if ok { "sent" } else { "failed" }).await;
            let draft = desk.claimed(id, "Noon works.").await;
            drafts::report(desk.app(), &desk.mail, draft, words(ok, "first", "first words"))
                .await
                .unwrap();
            let (card, rows) = (desk.card(draft).await, desk.events("").await.len());
            desk.advance(SECOND);
            for again in [words(ok, "second", "second words"), result(ok)] {
                let reported = drafts::report(desk.app(), &desk.mail, draft, again)
                    .await
                    .unwrap();
                assert_eq!(reported.state, card.state);
            }
            let after = desk.card(draft).await;
            assert_eq!(said(&after), (card.state, Some("first"), Some("first words")));
            assert_eq!(after.ended_at, card.ended_at);
            assert_eq!(desk.events("").await.len(), rows);
        }
    });
}

// spec: RES-014
#[test]
fn the_connectors_words_are_kept_whole_for_the_owner() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let detail = format!("<b>451</b>\u{1b}[31m {}", "d".repeat(4_000));
        let external_ref = "é".repeat(200);
        drafts::report(
            desk.app(),
            &desk.mail,
            draft,
            words(false, &external_ref, &detail),
        )
        .await
        .unwrap();
        let archived = drafts::archived(desk.app(), desk.owner(), DraftId::new(i64::MAX), 10)
            .await
            .unwrap();
        assert_eq!(
            said(&archived.cards[0]),
            (
                DraftState::Failed,
                Some(external_ref.as_str()),
                Some(detail.as_str())
            )
        );
    });
}

// spec: RES-008 RES-009 RES-010
#[test]
fn another_connectors_reply_another_owners_and_a_missing_one_are_refused_alike() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let chat = desk.muster.plugin("chat").await;
        let bob = add_owner(desk.app(), "bob").await;
        let bobs = add_plugin(desk.app(), bob, "mail").await;
        let tries: [(&PluginCaller, DraftId); 3] = [
            (&chat, draft),
            (&bobs, draft),
            (&desk.mail, DraftId::new(999_999)),
        ];
        for (plugin, id) in tries {
            let refused = drafts::report(desk.app(), plugin, id, result(true))
                .await
                .unwrap_err();
            assert!(matches!(refused, ReportRefusal::NotFound), "{refused:?}");
        }
        let card = desk.card(draft).await;
        assert_eq!((card.state, card.ended_at), (DraftState::Approved, None));
        assert_eq!(desk.report(draft, true).await, DraftState::Sent);
    });
}

// spec: RES-012
#[test]
fn the_other_result_is_refused_and_names_the_one_that_stands() {
    on_desks(|desk| async move {
        for (ok, state) in [(true, DraftState::Sent), (false, DraftState::Failed)] {
            let id = desk.message(state.as_str()).await;
            let draft = desk.claimed(id, "Noon works.").await;
            desk.report(draft, ok).await;
            let rows = desk.events("").await.len();
            assert!(
                matches!(desk.try_report(draft, !ok).await, Err(ReportRefusal::Conflict(stands)) if stands == state)
            );
            assert_eq!(desk.state(draft).await, state);
            assert_eq!(desk.events("").await.len(), rows);
        }
    });
}

// spec: RES-013
#[test]
fn a_reply_that_no_claim_took_has_no_result() {
    on_desks(|desk| async move {
        let conflict = |draft, state: DraftState| {
            let desk = &desk;
            async move {
                for ok in [true, false] {
                    let refused = desk.try_report(draft, ok).await.unwrap_err();
                    assert!(
                        matches!(refused, ReportRefusal::Conflict(found) if found == state),
                        "{state:?}: {refused:?}"
                    );
                    assert!(refused.to_string().contains(state.as_str()));
                }
                assert_eq!(desk.state(draft).await, state);
            }
        };
        let id = desk.message("m").await;
        let old = desk.file(id, "one").await;
        let draft = desk.file(id, "two").await;
        conflict(old, DraftState::Superseded).await;
        conflict(draft, DraftState::Pending).await;
        desk.approve(draft).await;
        conflict(draft, DraftState::Approved).await;
        desk.try_withdraw(draft).await.unwrap();
        conflict(draft, DraftState::Rejected).await;
        let expired = desk.approved(id, "three").await;
        desk.advance(DAY * 7);
        conflict(expired, DraftState::Expired).await;
    });
}

// spec: RES-016
#[test]
fn a_late_result_is_still_taken_on_the_draft_it_was_claimed_as() {
    on_desks(|desk| async move {
        for (ok, state) in [(true, DraftState::Sent), (false, DraftState::Failed)] {
            let id = desk.message(state.as_str()).await;
            let draft = desk.unconfirmed(id, "Noon works.").await;
            desk.advance(DAY * 10);
            assert_eq!(desk.report(draft, ok).await, state);
            assert_eq!(desk.state(draft).await, state);
            assert!(matches!(
                desk.try_report(draft, !ok).await,
                Err(ReportRefusal::Conflict(_))
            ));
        }
        // Late by a moment, before anything else has noticed the lapse.
        let id = desk.message("just-late").await;
        let draft = desk.claimed(id, "Noon works.").await;
        desk.advance(LEASE_AND_A_BIT);
        assert_eq!(desk.report(draft, true).await, DraftState::Sent);
        assert_eq!(
            desk.events("plugin.draft.unconfirmed").await.len(),
            3,
            "the lapse is written down all the same"
        );
    });
}

/// Draft 1 unconfirmed and draft 2 behind it, as `second` leaves it.
async fn two_replies(desk: &Desk, external_id: &str, approve: bool) -> (DraftId, DraftId) {
    let id = desk.message(external_id).await;
    let first = desk.unconfirmed(id, "Noon works.").await;
    let second = desk.file(id, "One works.").await;
    if approve {
        desk.approve(second).await;
    }
    (first, second)
}

// spec: RES-017 RES-018 RES-022 DRF-080 AUD-020
#[test]
fn a_sent_reply_takes_the_place_of_every_other_that_no_claim_holds() {
    on_desks(|desk| async move {
        for approve in [false, true] {
            let (first, second) =
                two_replies(&desk, if approve { "approved" } else { "pending" }, approve).await;
            let approved_at = desk.card(second).await.approved_at;
            assert_eq!(approved_at.is_some(), approve);
            assert_eq!(desk.report(first, true).await, DraftState::Sent);
            let card = desk.card(second).await;
            assert_eq!(
                (card.state, card.superseded_by, card.approved_at),
                (DraftState::Superseded, Some(first), approved_at)
            );
            assert_eq!(desk.claim().await, None);
            assert!(desk.notices().await.is_empty());
            let rows = desk.events("plugin.draft.superseded").await;
            assert_eq!(rows[0].subject, format!("draft:{second}"));
            assert_eq!(rows[0].data["sent_draft"], first.get());
        }
        assert_eq!(desk.events("plugin.draft.superseded").await.len(), 2);
    });
}

// spec: RES-019
#[test]
fn a_sent_reply_leaves_one_that_a_claim_holds_to_that_claims_own_result() {
    on_desks(|desk| async move {
        for ok in [true, false] {
            let (first, second) = two_replies(&desk, if ok { "sent" } else { "failed" }, true).await;
            assert_eq!(desk.claim().await.unwrap().id, second);
            let held = desk.card(second).await;
            assert_eq!(desk.report(first, true).await, DraftState::Sent);
            let card = desk.card(second).await;
            assert_eq!(
                (card.state, card.lease_until),
                (DraftState::Approved, held.lease_until)
            );
            assert_eq!(
                desk.report(second, ok).await,
                if ok { DraftState::Sent } else { DraftState::Failed }
            );
        }
        // Unconfirmed is not taken back either: it may have gone.
        let (first, second) = two_replies(&desk, "both-lapsed", true).await;
        assert_eq!(desk.claim().await.unwrap().id, second);
        desk.advance(LEASE_AND_A_BIT);
        assert_eq!(desk.report(first, true).await, DraftState::Sent);
        assert_eq!(desk.state(second).await, DraftState::Unconfirmed);
        assert!(desk.events("plugin.draft.superseded").await.is_empty());
    });
}

// spec: RES-020
#[test]
fn a_timely_result_supersedes_like_a_late_one() {
    on_desks(|desk| async move {
        // While draft 2 is within its lease nothing can be filed, so draft 1's result is the late one and draft 2's the timely one:
        // a pending third is put beside it by other means.
        let id = desk.message("m").await;
        let timely = desk.claimed(id, "Noon works.").await;
        let mut raw = desk.raw().await;
        raw.run(&format!(
            "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) \
             SELECT owner_id, plugin_id, message_id, chief_id, 'forced', 'pending', created_at, expires_at FROM drafts WHERE id = {timely}"
        ))
        .await;
        let other = desk.states().await[1].0;
        assert_eq!(desk.report(timely, true).await, DraftState::Sent);
        assert_eq!(
            desk.states().await,
            [(timely, DraftState::Sent), (other, DraftState::Superseded)]
        );
        let (late, second) = two_replies(&desk, "late", false).await;
        assert_eq!(desk.report(late, true).await, DraftState::Sent);
        assert_eq!(desk.state(second).await, DraftState::Superseded);
    });
}

// spec: RES-021
#[test]
fn a_reply_that_was_not_sent_supersedes_nothing() {
    on_desks(|desk| async move {
        let (first, second) = two_replies(&desk, "pending", false).await;
        assert_eq!(desk.report(first, false).await, DraftState::Failed);
        assert_eq!(desk.state(second).await, DraftState::Pending);
        let (first, third) = two_replies(&desk, "approved", true).await;
        assert_eq!(desk.report(first, false).await, DraftState::Failed);
        assert_eq!(desk.claim().await.map(|claimed| claimed.id), Some(third));
        assert!(desk.events("plugin.draft.superseded").await.is_empty());
    });
}

#[test]
fn a_sent_reply_leaves_the_drafts_of_other_messages_alone() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let sent = desk.claimed(one, "Noon works.").await;
        let other = desk.approved(two, "Noon works.").await;
        desk.report(sent, true).await;
        assert_eq!(desk.claim().await.map(|claimed| claimed.id), Some(other));
    });
}

// spec: TOK-023
#[test]
fn a_refused_result_is_a_call_all_the_same_and_time_does_not_stand_still_for_it() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let sent = desk.claimed(one, "Noon works.").await;
        desk.report(sent, true).await;
        desk.claimed(two, "Noon works.").await;
        let seen = || async { plugins::list(desk.app(), desk.owner()).await.unwrap()[0].last_seen_at };
        desk.advance(SECOND);
        assert!(matches!(
            desk.try_report(sent, false).await,
            Err(ReportRefusal::Conflict(DraftState::Sent))
        ));
        assert_eq!(seen().await, Some(desk.app().clock.now()));
        desk.advance(LEASE_AND_A_BIT);
        let missing = desk.try_report(DraftId::new(999_999), false).await;
        assert!(matches!(missing, Err(ReportRefusal::NotFound)));
        assert_eq!(seen().await, Some(desk.app().clock.now()));
        assert_eq!(
            desk.events("plugin.draft.unconfirmed").await.len(),
            1,
            "the other draft's lease lapsed"
        );
    });
}

#[test]
fn the_owner_is_told_that_a_reply_failed_until_another_draft_takes_its_place() {
    on_desks(|desk| async move {
        let told = || async {
            let notices = desk.notices().await;
            notices
                .into_iter()
                .map(|notice| (notice.title, notice.body, notice.link))
                .collect::<Vec<_>>()
        };
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "quaggareply").await;
        drafts::report(
            desk.app(),
            &desk.mail,
            draft,
            words(false, "quaggaref", "quaggadetail"),
        )
        .await
        .unwrap();
        let failed = |draft: DraftId| {
            (
                "A reply was not sent".to_owned(),
                "Its connector says why.".to_owned(),
                format!("/attention?tab=drafts#draft-{draft}"),
            )
        };
        assert_eq!(told().await, [failed(draft)]);
        desk.report(draft, false).await;
        assert_eq!(told().await.len(), 1, "the same result again tells nothing");
        let other = desk.message("other").await;
        let still = desk.claimed(other, "Yes.").await;
        desk.report(still, false).await;
        let next = desk.file(id, "Noon works.").await;
        let now = told().await;
        assert_eq!(
            now.iter().map(|(title, ..)| title.as_str()).collect::<Vec<_>>(),
            ["A reply draft awaits your approval", "A reply was not sent"]
        );
        assert_eq!(now[1], failed(still), "another message's is left");
        desk.approve(next).await;
        desk.claim().await;
        desk.report(next, true).await;
        assert_eq!(told().await, [failed(still)], "what was sent needs no word");
    });
}

#[test]
fn the_owner_is_told_that_a_replys_fate_is_unknown_until_it_is_known() {
    on_desks(|desk| async move {
        for ok in [true, false] {
            let id = desk.message(if ok { "sent" } else { "failed" }).await;
            let draft = desk.unconfirmed(id, "quaggareply").await;
            let notices = desk.notices().await;
            assert_eq!(notices.len(), 1);
            assert_eq!(notices[0].title, "A reply may not have been sent");
            assert!(notices[0].link.ends_with(&format!("#draft-{draft}")));
            assert!(!format!("{:?}", notices[0]).contains("quagga"));
            desk.report(draft, ok).await;
            let titles: Vec<_> = desk.notices().await.into_iter().map(|n| n.title).collect();
            let wanted: &[&str] = if ok { &[] } else { &["A reply was not sent"] };
            assert_eq!(titles, wanted);
        }
    });
}
