//! Deciding: approve, reject and withdraw, by whom, how lately signed in, and from which states. Never claims but to get on.

use std::collections::BTreeSet;

use muster_app::accounts::{self, BrowserCaller};
use muster_app::drafts::{self, DecideRefusal, Decider, DraftState};
use muster_app::plugins;
use muster_core::Secret;
use muster_core::ids::DraftId;
use muster_testkit::{PASSWORD, add_owner};

use super::kit::{DAY, Desk, LEASE_AND_A_BIT, SECOND, on_desks, signed_in_now};

async fn sign_in(desk: &Desk) -> Secret {
    accounts::sign_in_password(desk.app(), "ada", &Secret::new(PASSWORD))
        .await
        .unwrap()
}

async fn caller(desk: &Desk, cookie: &Secret) -> BrowserCaller {
    accounts::browser(desk.app(), cookie.expose())
        .await
        .unwrap()
        .unwrap()
}

// spec: DRF-043 DRF-045 TOK-026
#[test]
fn an_approval_needs_a_sign_in_of_the_last_twelve_hours_whatever_the_page_did() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let cookie = sign_in(&desk).await;
        desk.advance(DAY / 2 + SECOND);
        let old = Decider::Browser(caller(&desk, &cookie).await);
        let refused = drafts::approve(desk.app(), &old, draft).await.unwrap_err();
        assert!(matches!(refused, DecideRefusal::ConfirmFirst), "{refused:?}");
        let card = desk.card(draft).await;
        assert_eq!(
            (card.state, card.approved_at, card.decided_via),
            (DraftState::Pending, None, None)
        );
        assert!(desk.events("plugin.draft.approved").await.is_empty());
        assert_eq!(desk.notices().await.len(), 1);
        assert_eq!(desk.claim().await, None);
        accounts::confirm_password(desk.app(), &caller(&desk, &cookie).await, &Secret::new(PASSWORD))
            .await
            .unwrap();
        let fresh = Decider::Browser(caller(&desk, &cookie).await);
        drafts::approve(desk.app(), &fresh, draft).await.unwrap();
        assert_eq!(desk.claim().await.map(|claimed| claimed.id), Some(draft));
    });
}

// spec: DRF-043
#[test]
fn a_sign_in_of_exactly_twelve_hours_ago_still_approves() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let decider = desk.decider();
        desk.advance(DAY / 2);
        drafts::approve(desk.app(), &decider, draft).await.unwrap();
    });
}

// spec: DRF-046 AUD-016
#[test]
fn saying_no_needs_no_fresh_sign_in() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let old = desk.decider();
        let pending = desk.file(one, "Noon works.").await;
        desk.advance(DAY);
        let approved = desk.approved(two, "Noon works.").await;
        drafts::reject(desk.app(), &old, pending).await.unwrap();
        drafts::withdraw(desk.app(), &old, approved).await.unwrap();
        assert_eq!(
            desk.states().await,
            [(pending, DraftState::Rejected), (approved, DraftState::Rejected)]
        );
        let rows = desk.events("plugin.draft.rejected").await;
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter()
                .all(|row| row.data["decided_via"] == "browser" && row.actor == "owner")
        );
        assert_eq!(
            (
                rows[0].data["withdrawn"].as_bool(),
                rows[1].data["withdrawn"].as_bool()
            ),
            (Some(true), None)
        );
    });
}

// spec: AUD-015
#[test]
fn an_approval_is_written_down_with_where_it_was_made() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.approved(id, "Noon works.").await;
        let rows = desk.events("plugin.draft.approved").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (
                rows[0].subject.clone(),
                rows[0].actor.as_str(),
                &rows[0].data["decided_via"]
            ),
            (format!("draft:{draft}"), "owner", &"browser".into())
        );
        let card = desk.card(draft).await;
        assert_eq!(
            (card.approved_at, card.decided_via.as_deref()),
            (Some(desk.app().clock.now()), Some("browser"))
        );
    });
}

// spec: DRF-048
#[test]
fn a_withdrawn_approval_is_a_rejection_and_is_never_handed_out() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.approved(id, "Noon works.").await;
        desk.try_withdraw(draft).await.unwrap();
        assert_eq!(desk.state(draft).await, DraftState::Rejected);
        assert_eq!(desk.claim().await, None);
        assert!(matches!(
            desk.try_withdraw(draft).await,
            Err(DecideRefusal::NotApproved(DraftState::Rejected))
        ));
    });
}

// spec: DRF-049
#[test]
fn a_collected_approval_cannot_be_withdrawn_and_its_lease_stays() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let before = desk.card(draft).await;
        desk.advance(SECOND);
        assert!(matches!(
            desk.try_withdraw(draft).await,
            Err(DecideRefusal::Collected)
        ));
        let after = desk.card(draft).await;
        assert_eq!(
            (after.state, after.claimed_at, after.lease_until),
            (DraftState::Approved, before.claimed_at, before.lease_until)
        );
        assert!(desk.events("plugin.draft.rejected").await.is_empty());
        assert_eq!(desk.report(draft, true).await, DraftState::Sent);
    });
}

/// A draft in each state but pending, each of a message of its own.
async fn one_of_each(desk: &Desk) -> Vec<(DraftId, DraftState)> {
    let mut of = Vec::new();
    let message = desk.message("expired").await;
    of.push((desk.file(message, "Noon works.").await, DraftState::Expired));
    desk.advance(DAY * 7);
    let message = desk.message("unconfirmed").await;
    of.push((
        desk.unconfirmed(message, "Noon works.").await,
        DraftState::Unconfirmed,
    ));
    for (state, ok) in [(DraftState::Sent, true), (DraftState::Failed, false)] {
        let message = desk.message(state.as_str()).await;
        let draft = desk.claimed(message, "Noon works.").await;
        desk.report(draft, ok).await;
        of.push((draft, state));
    }
    let message = desk.message("rejected").await;
    let draft = desk.file(message, "Noon works.").await;
    desk.try_reject(draft).await.unwrap();
    of.push((draft, DraftState::Rejected));
    let message = desk.message("superseded").await;
    let draft = desk.unconfirmed(message, "Noon works.").await;
    let newer = desk.file(message, "One works.").await;
    desk.report(draft, true).await;
    of.push((newer, DraftState::Superseded));
    let message = desk.message("approved").await;
    of.push((desk.approved(message, "Noon works.").await, DraftState::Approved));
    of
}

// spec: DRF-051 CLM-032
#[test]
fn a_draft_that_no_longer_waits_is_not_decided_again_and_the_refusal_names_its_state() {
    on_desks(|desk| async move {
        let each = one_of_each(&desk).await;
        assert_eq!(
            each.iter()
                .map(|(_, state)| *state)
                .collect::<std::collections::HashSet<_>>()
                .len(),
            DraftState::ALL.len() - 1
        );
        let before = desk.states().await;
        let rows = desk.events("").await.len();
        for (draft, state) in each {
            for refused in [
                desk.try_approve(draft).await.unwrap_err(),
                desk.try_reject(draft).await.unwrap_err(),
            ] {
                assert!(
                    matches!(refused, DecideRefusal::NotPending(found) if found == state),
                    "{state:?}: {refused:?}"
                );
                assert!(refused.to_string().contains(state.as_str()), "{refused}");
            }
            if state != DraftState::Approved {
                assert!(
                    matches!(desk.try_withdraw(draft).await, Err(DecideRefusal::NotApproved(found)) if found == state)
                );
            }
        }
        assert_eq!(desk.states().await, before, "nothing was changed");
        assert_eq!(desk.events("").await.len(), rows, "and nothing written down");
    });
}

#[test]
fn a_pending_draft_has_no_approval_to_withdraw() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        assert!(matches!(
            desk.try_withdraw(draft).await,
            Err(DecideRefusal::NotApproved(DraftState::Pending))
        ));
        assert_eq!(desk.state(draft).await, DraftState::Pending);
    });
}

// spec: DRF-053
#[test]
fn another_owners_draft_and_a_missing_one_are_refused_in_the_same_words() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let pending = desk.file(one, "Noon works.").await;
        let approved = desk.approved(two, "Noon works.").await;
        let bob = signed_in_now(desk.app(), add_owner(desk.app(), "bob").await);
        let mut sentences = BTreeSet::new();
        for draft in [pending, approved, DraftId::new(999_999)] {
            sentences.insert(
                drafts::approve(desk.app(), &bob, draft)
                    .await
                    .unwrap_err()
                    .to_string(),
            );
            sentences.insert(
                drafts::reject(desk.app(), &bob, draft)
                    .await
                    .unwrap_err()
                    .to_string(),
            );
            sentences.insert(
                drafts::withdraw(desk.app(), &bob, draft)
                    .await
                    .unwrap_err()
                    .to_string(),
            );
        }
        sentences.insert(
            desk.try_approve(DraftId::new(999_999))
                .await
                .unwrap_err()
                .to_string(),
        );
        assert_eq!(sentences.into_iter().collect::<Vec<_>>(), ["No such draft."]);
        assert_eq!(
            desk.states().await,
            [(pending, DraftState::Pending), (approved, DraftState::Approved)]
        );
    });
}

// spec: DRF-001
#[test]
fn no_second_draft_is_approved_while_a_reply_is_on_its_way() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let first = desk.approved(id, "Noon works.").await;
        // The app would not file it now; what is forced into the table by other means is still not approved.
        let mut raw = desk.raw().await;
        raw.run(&format!(
            "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) \
             SELECT owner_id, plugin_id, message_id, chief_id, 'forced', 'pending', created_at, expires_at FROM drafts WHERE id = {first}"
        ))
        .await;
        let second = desk.states().await[1].0;
        assert!(
            matches!(desk.try_approve(second).await, Err(DecideRefusal::InFlight)),
            "approved and unclaimed"
        );
        assert_eq!(desk.claim().await.unwrap().id, first);
        assert!(
            matches!(desk.try_approve(second).await, Err(DecideRefusal::InFlight)),
            "within its lease"
        );
        assert_eq!(desk.state(second).await, DraftState::Pending);
        desk.advance(LEASE_AND_A_BIT);
        desk.approve(second).await;
        assert_eq!(
            desk.states().await,
            [(first, DraftState::Unconfirmed), (second, DraftState::Approved)]
        );
    });
}

#[test]
fn a_card_knows_that_an_earlier_reply_may_have_gone() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let earlier = desk.unconfirmed(id, "Noon works.").await;
        let draft = desk.file(id, "One works.").await;
        assert_eq!(desk.card(draft).await.unconfirmed_replies, 1);
        assert_eq!(
            desk.card(earlier).await.unconfirmed_replies,
            0,
            "itself is no other reply"
        );
        let other = desk.message("other").await;
        let alone = desk.file(other, "Noon works.").await;
        assert_eq!(desk.card(alone).await.unconfirmed_replies, 0);
        desk.report(earlier, false).await;
        assert_eq!(
            desk.card(draft).await.unconfirmed_replies,
            0,
            "it is known now that it did not go"
        );
    });
}

// spec: DRF-072
#[test]
fn a_drafts_text_is_the_same_in_every_state() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let text = "Thanks, noon works. \\n is no new line.\nThis is one.";
        let draft = desk.file(id, text).await;
        assert_eq!(desk.card(draft).await.body, text);
        desk.approve(draft).await;
        assert_eq!(desk.card(draft).await.body, text);
        assert_eq!(desk.claim().await.unwrap().body, text);
        desk.advance(LEASE_AND_A_BIT);
        assert_eq!(desk.card(draft).await.body, text);
        desk.report(draft, true).await;
        assert_eq!(desk.card(draft).await.body, text);
    });
}

// spec: DRF-081
#[test]
fn the_archive_shows_what_became_of_each_draft_newest_first_page_by_page() {
    on_desks(|desk| async move {
        let mut each = one_of_each(&desk).await;
        let (open, _) = each.pop().unwrap();
        let all = drafts::archived(desk.app(), desk.owner(), DraftId::new(i64::MAX), 100)
            .await
            .unwrap();
        assert_eq!(all.older, None);
        for (draft, state) in each {
            let card = all.cards.iter().find(|card| card.id == draft).unwrap();
            assert_eq!(card.state, state);
            assert_eq!(
                card.ended_at.is_some(),
                state != DraftState::Unconfirmed,
                "{state:?}"
            );
            assert_eq!(
                card.claimed_at.is_some(),
                matches!(
                    state,
                    DraftState::Sent | DraftState::Failed | DraftState::Unconfirmed
                )
            );
        }
        let ids: Vec<_> = all.cards.iter().map(|card| card.id).collect();
        assert!(ids.is_sorted_by(|a, b| a > b) && !ids.contains(&open));
        let (mut paged, mut before) = (Vec::new(), DraftId::new(i64::MAX));
        loop {
            let page = drafts::archived(desk.app(), desk.owner(), before, 2)
                .await
                .unwrap();
            assert!(page.cards.len() <= 2);
            paged.extend(page.cards.iter().map(|card| card.id));
            match page.older {
                Some(older) => before = older,
                None => break,
            }
        }
        assert_eq!(paged, ids, "no card twice, none left out");
    });
}

#[test]
fn a_draft_that_nobody_could_collect_is_rejected_or_expires_and_is_never_approved() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let rejected = desk.file(one, "Noon works.").await;
        let left = desk.file(two, "Noon works.").await;
        plugins::revoke(desk.app(), desk.owner(), desk.mail.plugin)
            .await
            .unwrap();
        for draft in [rejected, left] {
            let refused = desk.try_approve(draft).await.unwrap_err();
            assert!(matches!(refused, DecideRefusal::Revoked), "{refused:?}");
            assert!(
                refused.to_string().contains("revoked")
                    && refused.to_string().contains("nothing was changed"),
                "{refused}"
            );
            assert_eq!(desk.state(draft).await, DraftState::Pending);
        }
        assert!(desk.events("plugin.draft.approved").await.is_empty());
        assert_eq!(desk.notices().await.len(), 2, "both still wait for the owner");
        desk.try_reject(rejected).await.unwrap();
        assert!(
            matches!(
                desk.try_approve(rejected).await,
                Err(DecideRefusal::NotPending(DraftState::Rejected))
            ),
            "what was decided is said first"
        );
        desk.advance(DAY * 7);
        assert_eq!(
            desk.states().await,
            [(rejected, DraftState::Rejected), (left, DraftState::Expired)]
        );
    });
}
