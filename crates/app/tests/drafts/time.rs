//! Time: leases that lapse, drafts that expire, and that both become true with nobody asking. Never claims but to get on.

use std::time::Duration;

use muster_app::background;
use muster_app::drafts::{self, DraftState, LEASE, LIFETIME};
use muster_store::Engine;
use muster_testkit::add_owner;

use super::kit::{DAY, LEASE_AND_A_BIT, SECOND, events, on_desks};

// spec: DRF-075 DRF-076 AUD-019
#[test]
fn seven_days_after_it_was_written_a_draft_that_was_not_collected_expires() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        assert_eq!(LIFETIME, DAY * 7);
        let pending = desk.file(one, "Noon works.").await;
        let approved = desk.file(two, "Noon works.").await;
        assert_eq!(
            desk.card(pending).await.expires_at,
            desk.app().clock.now().plus(LIFETIME)
        );
        desk.advance(DAY * 6);
        // The seven days run from the writing, not from the approval.
        desk.approve(approved).await;
        desk.advance(DAY - SECOND);
        assert_eq!(
            desk.states().await,
            [(pending, DraftState::Pending), (approved, DraftState::Approved)]
        );
        desk.advance(SECOND);
        assert_eq!(desk.claim().await, None, "an expired approval is not handed out");
        assert_eq!(
            desk.states().await,
            [(pending, DraftState::Expired), (approved, DraftState::Expired)]
        );
        let rows = desk.events("plugin.draft.expired").await;
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.actor == "muster"));
        assert!(desk.card(approved).await.approved_at.is_some());
    });
}

// spec: DRF-077
#[test]
fn a_draft_within_its_lease_does_not_expire() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let (lapses, reported) = (
            desk.file(one, "Noon works.").await,
            desk.file(two, "Noon works.").await,
        );
        desk.advance(DAY * 7 - SECOND * 60);
        for draft in [lapses, reported] {
            desk.approve(draft).await;
            assert_eq!(desk.claim().await.unwrap().id, draft);
        }
        desk.advance(SECOND * 61);
        assert_eq!(
            desk.states().await,
            [(lapses, DraftState::Approved), (reported, DraftState::Approved)]
        );
        assert_eq!(desk.report(reported, true).await, DraftState::Sent);
        desk.advance(SECOND * 60);
        assert_eq!(
            desk.states().await,
            [(lapses, DraftState::Unconfirmed), (reported, DraftState::Sent)]
        );
        desk.advance(DAY * 30);
        assert_eq!(desk.state(lapses).await, DraftState::Unconfirmed);
        assert!(desk.events("plugin.draft.expired").await.is_empty());
    });
}

// spec: CLM-030 AUD-019
#[test]
fn a_lease_lapses_two_minutes_after_the_claim_and_not_before() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        desk.advance(LEASE - Duration::from_micros(1));
        assert_eq!(desk.state(draft).await, DraftState::Approved);
        desk.advance(Duration::from_micros(1));
        assert_eq!(desk.state(draft).await, DraftState::Unconfirmed);
        let rows = desk.events("plugin.draft.unconfirmed").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].subject.clone(), rows[0].actor.as_str()),
            (format!("draft:{draft}"), "muster")
        );
    });
}

// spec: DRF-079
#[test]
fn whoever_reads_first_reads_the_truth_without_any_claim() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let held = desk.claimed(one, "Noon works.").await;
        let waits = desk.file(two, "Noon works.").await;
        desk.advance(LEASE_AND_A_BIT);
        let open: Vec<_> = drafts::open(desk.app(), desk.owner())
            .await
            .unwrap()
            .into_iter()
            .map(|card| card.id)
            .collect();
        assert_eq!(open, [waits]);
        desk.advance(DAY * 7);
        let archived = drafts::archived(
            desk.app(),
            desk.owner(),
            muster_core::ids::DraftId::new(i64::MAX),
            10,
        )
        .await
        .unwrap();
        let ends: Vec<_> = archived.cards.iter().map(|card| (card.id, card.state)).collect();
        assert_eq!(
            ends,
            [(waits, DraftState::Expired), (held, DraftState::Unconfirmed)]
        );
    });
}

// spec: DRF-079
#[test]
fn the_sweep_makes_lapses_and_expiries_true_by_itself() {
    on_desks(|desk| async move {
        // Only its pace is looked at here, which takes real seconds and is the same on both engines.
        if desk.muster.engine != Engine::Sqlite {
            return;
        }
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        desk.claimed(one, "Noon works.").await;
        desk.file(two, "Noon works.").await;
        background::start_sweep(desk.app());
        desk.advance(DAY * 7);
        // Nothing reads or touches a draft from here on: only the audit log is looked at.
        for _ in 0..600 {
            if desk.events("plugin.draft.expired").await.len() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(desk.events("plugin.draft.unconfirmed").await.len(), 1);
        assert_eq!(desk.events("plugin.draft.expired").await.len(), 1);
        let titles: Vec<_> = desk.notices().await.into_iter().map(|n| n.title).collect();
        assert_eq!(titles, ["A reply may not have been sent"]);
        // A notice that nobody can decide ends by age.
        desk.advance(DAY * 7 - SECOND);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(desk.notices().await.len(), 1);
        desk.advance(SECOND);
        for _ in 0..600 {
            if desk.notices().await.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(desk.notices().await.is_empty());
    });
}

// spec: AUD-019
#[test]
fn a_sweep_serves_every_owner_and_running_it_again_changes_nothing() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        desk.claimed(id, "Noon works.").await;
        let bob = add_owner(desk.app(), "bob").await;
        let mut raw = desk.raw().await;
        // Bob's draft waits behind a connector, a chief and a message of his own.
        let now = desk.app().clock.now().micros();
        raw.run(&format!("INSERT INTO plugins (owner_id, name, label, data_scope, token_hash, created_at) VALUES ({bob}, 'b', 'b', 'b', 'b', 0)")).await;
        raw.run(&format!(
            "INSERT INTO chiefs (owner_id, runtime, command, created_at) VALUES ({bob}, 'command', 'x', 0)"
        ))
        .await;
        let plugin = raw
            .number(&format!("SELECT id FROM plugins WHERE owner_id = {bob}"))
            .await;
        let chief = raw
            .number(&format!("SELECT id FROM chiefs WHERE owner_id = {bob}"))
            .await;
        raw.run(&format!(
            "INSERT INTO messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified, human_conversation, state, chief_id, stored_at) \
             VALUES ({bob}, {plugin}, 'b', 'b', FALSE, FALSE, FALSE, 'delivered', {chief}, {now})"
        ))
        .await;
        raw.run(&format!(
            "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) \
             SELECT owner_id, plugin_id, id, chief_id, 'b', 'pending', {now}, {now} + 1000000 FROM messages WHERE owner_id = {bob}"
        ))
        .await;
        desk.advance(LEASE_AND_A_BIT);
        for _ in 0..3 {
            drafts::sweep(desk.app()).await.unwrap();
            assert_eq!(desk.events("plugin.draft.unconfirmed").await.len(), 1);
            assert_eq!(events(desk.app(), bob, "plugin.draft.expired").await.len(), 1);
        }
    });
}

// spec: AUD-019
#[test]
fn many_leases_that_lapse_at_once_are_each_written_down_once_whoever_comes_first() {
    on_desks(|desk| async move {
        let mut held = Vec::new();
        for n in 0..40 {
            let id = desk.message(&format!("m{n}")).await;
            held.push((desk.claimed(id, "Noon works.").await, DraftState::Unconfirmed));
        }
        desk.advance(LEASE_AND_A_BIT);
        let works: Vec<_> = (0..12)
            .map(|n| {
                let (app, mail, owner) = (desk.app().clone(), desk.mail.clone(), desk.owner());
                tokio::spawn(async move {
                    match n % 3 {
                        0 => drafts::sweep(&app).await.unwrap(),
                        1 => drop(drafts::claim(&app, &mail, Duration::ZERO).await.unwrap()),
                        _ => drop(drafts::open(&app, owner).await.unwrap()),
                    }
                })
            })
            .collect();
        for work in works {
            work.await.unwrap();
        }
        assert_eq!(desk.states().await, held);
        assert_eq!(desk.events("plugin.draft.unconfirmed").await.len(), 40);
    });
}
