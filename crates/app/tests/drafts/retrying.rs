//! Retrying a message that the chief already drafted a reply to. Never tests the other rules of a retry.

use muster_app::chief::Delivery;
use muster_app::drafts::{self, DraftState};
use muster_app::messages::{self, RetryRefusal};
use muster_core::ids::{DraftId, MessageId};
use muster_runtime::Outcome;
use muster_testkit::ScriptedChief;

use super::kit::{DAY, Desk, LEASE_AND_A_BIT, deliver, on_desks};

/// A message whose turn broke off after the chief had filed these replies, and the last of them.
async fn drafted_and_broken_off(
    desk: &Desk,
    external_id: &str,
    replies: &'static [&'static str],
) -> (MessageId, DraftId) {
    let id = desk.muster.accept(&desk.mail, external_id).await.id;
    desk.muster
        .chief
        .then(ScriptedChief::acting(move |app, caller, _| async move {
            for reply in replies {
                drafts::file(&app, &caller, id, reply).await.unwrap();
            }
            Outcome::BrokenOff {
                reason: "the script says so".into(),
            }
        }));
    assert_eq!(deliver(desk.app(), desk.owner(), id).await, Delivery::Unconfirmed);
    let open = drafts::open(desk.app(), desk.owner()).await.unwrap();
    (
        id,
        open.into_iter().find(|card| card.message.id == id).unwrap().id,
    )
}

async fn retry(desk: &Desk, id: MessageId) -> Result<(), RetryRefusal> {
    messages::retry(desk.app(), desk.owner(), id, "test").await
}

async fn assert_blocked(desk: &Desk, id: MessageId, draft: DraftId, state: DraftState) {
    assert_eq!(desk.state(draft).await, state);
    match retry(desk, id).await {
        Err(RetryRefusal::Drafted(word)) => assert_eq!(word, state.as_str()),
        other => panic!("{state:?}: {other:?}"),
    }
}

// spec: RTY-015
#[test]
fn a_message_is_not_retried_while_its_draft_may_still_answer_it() {
    on_desks(|desk| async move {
        let (id, draft) = drafted_and_broken_off(&desk, "m", &["Noon works."]).await;
        assert_blocked(&desk, id, draft, DraftState::Pending).await;
        desk.approve(draft).await;
        assert_blocked(&desk, id, draft, DraftState::Approved).await;
        desk.claim().await.unwrap();
        assert_blocked(&desk, id, draft, DraftState::Approved).await;
        desk.advance(LEASE_AND_A_BIT);
        assert_blocked(&desk, id, draft, DraftState::Unconfirmed).await;
        desk.report(draft, true).await;
        assert_blocked(&desk, id, draft, DraftState::Sent).await;
        assert!(desk.events("plugin.retried").await.is_empty());
        desk.muster.settle().await;
        assert_eq!(desk.muster.chief.turns().len(), 1);
    });
}

// spec: RTY-016
#[test]
fn a_draft_that_can_no_longer_answer_does_not_stop_a_retry() {
    on_desks(|desk| async move {
        let (id, draft) = drafted_and_broken_off(&desk, "rejected", &["Noon works."]).await;
        desk.try_reject(draft).await.unwrap();
        retry(&desk, id).await.unwrap();
        // The first is superseded by the second, and the second rejected.
        let (id, draft) = drafted_and_broken_off(&desk, "superseded", &["Noon works.", "One works."]).await;
        desk.try_reject(draft).await.unwrap();
        retry(&desk, id).await.unwrap();
        let (id, draft) = drafted_and_broken_off(&desk, "failed", &["Noon works."]).await;
        desk.approve(draft).await;
        desk.claim().await.unwrap();
        // The claim hands the two retried messages over; what follows in the script is not for them.
        desk.muster.settle().await;
        desk.report(draft, false).await;
        retry(&desk, id).await.unwrap();
        let (id, draft) = drafted_and_broken_off(&desk, "expired", &["Noon works."]).await;
        desk.advance(DAY * 7);
        assert_eq!(desk.state(draft).await, DraftState::Expired);
        retry(&desk, id).await.unwrap();
        assert_eq!(desk.events("plugin.retried").await.len(), 4);
    });
}
