//! Claiming: what a connector is handed, when, once, and what becomes of it when nobody reports. Never reports but to get on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_app::accounts;
use muster_app::drafts::{self, ClaimError, Claimed, DecideRefusal, DraftState, LEASE};
use muster_app::{chief, messages, plugins};
use muster_core::ids::DraftId;
use muster_runtime::Kind;
use muster_store::Engine;
use muster_testkit::{add_owner, add_plugin, message};
use tokio::task::JoinHandle;

use super::kit::{DAY, Desk, LEASE_AND_A_BIT, LONGEST, SECOND, events, on_desks, signed_in_now};

type Waiting = JoinHandle<Result<Option<Claimed>, ClaimError>>;

/// A claim that looked, found nothing and now waits.
async fn waiting_claim(desk: &Desk) -> Waiting {
    let (app, mail) = (desk.app().clone(), desk.mail.clone());
    let waiting = tokio::spawn(async move { drafts::claim(&app, &mail, LONGEST).await });
    while desk.app().db.wakeups().topics() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!waiting.is_finished());
    waiting
}

// spec: CLM-011 CLM-012
#[test]
fn a_claim_names_the_message_by_the_connectors_own_id_and_holds_the_text_the_owner_approved() {
    on_desks(|desk| async move {
        let id = desk.message("msg-7").await;
        let text = "Thanks — noon works.\n\tSee you “then”. ½";
        let draft = desk.file(id, text).await;
        let shown = desk.card(draft).await.body;
        desk.advance(SECOND);
        desk.approve(draft).await;
        let approved_at = desk.app().clock.now();
        desk.advance(SECOND);
        let claimed = desk.claim().await.unwrap();
        assert_eq!(
            claimed,
            Claimed {
                id: draft,
                message_external_id: "msg-7".to_owned(),
                body: shown,
                approved_at
            }
        );
    });
}

// spec: CLM-007 CLM-008
#[test]
fn an_approval_wakes_a_waiting_claim_at_once() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let waiting = waiting_claim(&desk).await;
        desk.approve(draft).await;
        let approved = Instant::now();
        let claimed = waiting.await.unwrap().unwrap().unwrap();
        assert!(approved.elapsed() < SECOND * 15, "{:?}", approved.elapsed());
        assert_eq!(claimed.id, draft);
        assert_eq!(desk.app().db.wakeups().topics(), 0, "and leaves no place behind");
    });
}

// spec: CLM-008
#[test]
fn an_approval_made_in_another_process_wakes_a_waiting_claim_too() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let (other, _) = desk.muster.second().await;
        let waiting = waiting_claim(&desk).await;
        let approved = Instant::now();
        drafts::approve(&other, &desk.decider(), draft).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().unwrap().id, draft);
        assert!(approved.elapsed() < SECOND * 15, "{:?}", approved.elapsed());
        other.db.close().await;
    });
}

// spec: CLM-009
#[test]
fn a_claim_with_nothing_to_send_waits_as_long_as_it_was_told_and_no_longer() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        desk.file(id, "pending is nothing to send").await;
        for wait in [Duration::ZERO, Duration::from_millis(400)] {
            let begun = Instant::now();
            assert_eq!(drafts::claim(desk.app(), &desk.mail, wait).await.unwrap(), None);
            assert!(
                begun.elapsed() >= wait && begun.elapsed() < wait + SECOND * 5,
                "{wait:?}: {:?}",
                begun.elapsed()
            );
        }
    });
}

// spec: CLM-014
#[test]
fn a_claim_gets_only_replies_to_its_own_connectors_messages() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.approved(id, "Noon works.").await;
        let chat = desk.muster.plugin("chat").await;
        let bob = add_owner(desk.app(), "bob").await;
        let bobs = add_plugin(desk.app(), bob, "mail").await;
        assert_eq!(desk.claim_of(&chat).await, None);
        assert_eq!(desk.claim_of(&bobs).await, None);
        // A caller that names another owner's connector gets nothing either.
        let mut forged = desk.mail.clone();
        forged.owner = bob;
        assert!(matches!(
            drafts::claim(desk.app(), &forged, Duration::ZERO).await,
            Err(ClaimError::NotLive)
        ));
        assert_eq!(desk.claim().await.unwrap().id, draft);
    });
}

// spec: CLM-016 CLM-017 CLM-028
#[test]
fn replies_go_out_one_a_claim_the_oldest_approval_first_and_each_once() {
    on_desks(|desk| async move {
        let mut filed = Vec::new();
        for n in 0..4 {
            let id = desk.message(&format!("m{n}")).await;
            filed.push(desk.file(id, "Noon works.").await);
        }
        let order = [filed[2], filed[0], filed[3], filed[1]];
        for draft in order {
            desk.advance(SECOND);
            desk.approve(draft).await;
        }
        let mut handed = Vec::new();
        for _ in 0..8 {
            handed.extend(desk.claim().await.map(|claimed| claimed.id));
        }
        assert_eq!(handed, order);
    });
}

// spec: CLM-015 AUD-017
#[test]
fn a_claimed_reply_is_the_claimers_for_two_minutes() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let now = desk.app().clock.now();
        let card = desk.card(draft).await;
        assert_eq!(LEASE, Duration::from_secs(120));
        assert_eq!(
            (card.state, card.claimed_at, card.lease_until),
            (DraftState::Approved, Some(now), Some(now.plus(LEASE)))
        );
        let rows = desk.events("plugin.draft.claimed").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].subject.clone(), rows[0].actor.as_str()),
            (format!("draft:{draft}"), "plugin:mail")
        );
        desk.advance(LEASE - SECOND);
        assert_eq!(desk.claim().await, None);
        assert_eq!(
            desk.state(draft).await,
            DraftState::Approved,
            "still within its lease"
        );
        assert_eq!(desk.events("plugin.draft.claimed").await.len(), 1);
    });
}

// spec: CLM-030 CLM-031 CLM-032 CLM-033
#[test]
fn a_lapsed_lease_is_never_offered_or_approved_again() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        // Whether the connector ever read the answer of this claim is not known here either.
        let draft = desk.claimed(id, "Noon works.").await;
        desk.advance(LEASE_AND_A_BIT);
        for _ in 0..3 {
            assert_eq!(desk.claim().await, None);
        }
        assert_eq!(desk.state(draft).await, DraftState::Unconfirmed);
        assert!(matches!(
            desk.try_approve(draft).await,
            Err(DecideRefusal::NotPending(DraftState::Unconfirmed))
        ));
        desk.advance(DAY * 30);
        assert_eq!(desk.claim().await, None);
        assert_eq!(desk.state(draft).await, DraftState::Unconfirmed);
        assert_eq!(desk.events("plugin.draft.claimed").await.len(), 1);
    });
}

// spec: CLM-029
#[test]
fn of_twenty_claims_at_once_one_gets_the_reply() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.approved(id, "Noon works.").await;
        let (other, _) = desk.muster.second().await;
        let claims: Vec<_> = (0..20)
            .map(|n| {
                // On Postgres several servers may share the database.
                let app = if n % 2 == 0 && desk.muster.engine == Engine::Postgres {
                    other.clone()
                } else {
                    desk.app().clone()
                };
                let mail = desk.mail.clone();
                tokio::spawn(async move { drafts::claim(&app, &mail, Duration::ZERO).await.unwrap() })
            })
            .collect();
        let mut handed = Vec::new();
        for claim in claims {
            handed.extend(claim.await.unwrap().map(|claimed| claimed.id));
        }
        assert_eq!(handed, [draft]);
        muster_testkit::idle(&other).await;
        other.db.close().await;
    });
}

/// As many approved replies as `count`, each to a message of its own, written past the app because filing them takes long.
async fn seed(desk: &Desk, count: i64) {
    let mut raw = desk.raw().await;
    let (owner, plugin, chief, now) = (
        desk.owner(),
        desk.mail.plugin,
        desk.chief,
        desk.app().clock.now().micros(),
    );
    let messages = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
         INSERT INTO messages (owner_id, plugin_id, external_id, body, no_reply, sender_verified, human_conversation, state, chief_id, attempts, stored_at, delivered_at) \
         SELECT {owner}, {plugin}, 'seed-' || i, 'seeded', FALSE, FALSE, FALSE, 'delivered', {chief}, 1, {now}, {now} FROM n"
    );
    assert_eq!(raw.run(&messages).await, u64::try_from(count).unwrap());
    let drafts = format!(
        "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at, approved_at, decided_via) \
         SELECT owner_id, plugin_id, id, chief_id, 'reply to ' || external_id, 'approved', {now}, {expires}, {now} + id, 'browser' FROM messages WHERE owner_id = {owner}",
        expires = now + 7 * 86_400_000_000
    );
    assert_eq!(raw.run(&drafts).await, u64::try_from(count).unwrap());
}

// spec: CLM-016 CLM-028 CLM-029
#[test]
fn sixteen_claimers_share_a_thousand_replies_and_get_each_exactly_once() {
    on_desks(|desk| async move {
        seed(&desk, 1_000).await;
        let (other, _) = desk.muster.second().await;
        let claimers: Vec<_> = (0..16)
            .map(|n| {
                let app = if n % 2 == 0 && desk.muster.engine == Engine::Postgres {
                    other.clone()
                } else {
                    desk.app().clone()
                };
                let mail = desk.mail.clone();
                tokio::spawn(async move {
                    let mut handed = Vec::new();
                    while let Some(claimed) = drafts::claim(&app, &mail, Duration::ZERO).await.unwrap() {
                        assert_eq!(claimed.body, format!("reply to {}", claimed.message_external_id));
                        handed.push(claimed.id);
                    }
                    handed
                })
            })
            .collect();
        let mut handed = Vec::new();
        for claimer in claimers {
            handed.extend(claimer.await.unwrap());
        }
        assert_eq!(handed.len(), 1_000);
        assert_eq!(
            handed.iter().collect::<BTreeSet<_>>().len(),
            1_000,
            "one was handed out twice"
        );
        let rows = desk.events("plugin.draft.claimed").await;
        assert_eq!(rows.len(), 1_000);
        assert_eq!(
            rows.iter().map(|row| &row.subject).collect::<BTreeSet<_>>().len(),
            1_000
        );
        muster_testkit::idle(&other).await;
        other.db.close().await;
    });
}

// spec: CLM-026
#[test]
fn a_claim_that_is_dropped_while_it_waits_takes_no_draft() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let waiting = waiting_claim(&desk).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(desk.app().db.wakeups().topics(), 0, "its place went with it");
        desk.approve(draft).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(desk.card(draft).await.claimed_at, None);
        assert_eq!(desk.claim().await.unwrap().id, draft);
    });
}

// spec: CLM-033
#[test]
fn a_claim_that_is_dropped_at_any_moment_either_holds_the_reply_or_leaves_it_on_offer() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        for n in 0..40_u32 {
            let draft = desk.approved(id, "Noon works.").await;
            let (app, mail) = (desk.app().clone(), desk.mail.clone());
            let dying = tokio::spawn(async move { drafts::claim(&app, &mail, LONGEST).await });
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(80) * n {
                tokio::task::yield_now().await;
            }
            dying.abort();
            drop(dying.await);
            match desk.claim().await {
                Some(claimed) => assert_eq!(claimed.id, draft, "on offer still"),
                None => assert!(
                    desk.card(draft).await.claimed_at.is_some(),
                    "held by the claim that died"
                ),
            }
            assert_eq!(
                desk.events("plugin.draft.claimed").await.len() as u32,
                n + 1,
                "claimed once, by one of the two"
            );
            desk.advance(LEASE_AND_A_BIT);
            assert_eq!(desk.claim().await, None);
            assert_eq!(desk.state(draft).await, DraftState::Unconfirmed);
        }
    });
}

// spec: CLM-027
#[test]
fn stopping_muster_ends_waiting_claims_and_leases_nothing() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let waiting = waiting_claim(&desk).await;
        let begun = Instant::now();
        desk.app().tasks.stop().await;
        assert_eq!(waiting.await.unwrap().unwrap(), None);
        assert!(begun.elapsed() < SECOND * 15, "{:?}", begun.elapsed());
        desk.approve(draft).await;
        assert_eq!(desk.card(draft).await.claimed_at, None);
        let (next, _) = desk.muster.second().await;
        assert_eq!(
            drafts::claim(&next, &desk.mail, Duration::ZERO)
                .await
                .unwrap()
                .unwrap()
                .id,
            draft,
            "offered after the restart"
        );
        muster_testkit::idle(&next).await;
        next.db.close().await;
    });
}

// spec: CLM-034
#[test]
fn a_lease_outlives_a_restart_and_lapses_at_its_first_moment() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let until = desk.card(draft).await.lease_until.unwrap();
        desk.advance(Duration::from_secs(60));
        desk.muster.settle().await;
        desk.app().db.close().await;
        let (next, _) = desk.muster.second().await;
        let claim = || async { drafts::claim(&next, &desk.mail, Duration::ZERO).await.unwrap() };
        let card = || async { drafts::card(&next, desk.owner(), draft).await.unwrap().unwrap() };
        assert_eq!(claim().await, None, "not given back");
        desk.advance(Duration::from_secs(59));
        assert_eq!(claim().await, None);
        assert_eq!(
            (card().await.state, card().await.lease_until),
            (DraftState::Approved, Some(until)),
            "not lengthened"
        );
        desk.advance(SECOND);
        assert_eq!(
            card().await.state,
            DraftState::Unconfirmed,
            "lapsed two minutes after the claim, restart or not"
        );
        assert_eq!(claim().await, None);
        muster_testkit::idle(&next).await;
        next.db.close().await;
    });
}

// spec: TOK-029
#[test]
fn a_claim_that_waits_ends_when_its_connector_is_revoked() {
    on_desks(|desk| async move {
        let waiting = waiting_claim(&desk).await;
        let begun = Instant::now();
        plugins::revoke(desk.app(), desk.owner(), desk.mail.plugin)
            .await
            .unwrap();
        assert!(
            matches!(waiting.await.unwrap(), Err(ClaimError::NotLive)),
            "a claim that waited is refused"
        );
        assert!(begun.elapsed() < SECOND * 5);
    });
}

// spec: TOK-035 TOK-029 TOK-032
#[test]
fn a_revoked_connector_collects_nothing_and_its_drafts_stay_readable_and_expire() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let ended = desk.file(one, "Noon works.").await;
        desk.try_reject(ended).await.unwrap();
        let approved = desk.approved(two, "Noon works.").await;
        plugins::revoke(desk.app(), desk.owner(), desk.mail.plugin)
            .await
            .unwrap();
        assert!(matches!(
            drafts::claim(desk.app(), &desk.mail, Duration::ZERO).await,
            Err(ClaimError::NotLive)
        ));
        let card = desk.card(approved).await;
        assert_eq!(
            (card.state, card.claimed_at, card.plugin_revoked),
            (DraftState::Approved, None, true)
        );
        assert_eq!(card.message.body, "body of two");
        desk.advance(DAY * 7);
        assert_eq!(
            desk.states().await,
            [(ended, DraftState::Rejected), (approved, DraftState::Expired)]
        );
    });
}

// spec: TOK-031
#[test]
fn a_disabled_owners_connector_collects_and_reports_nothing() {
    on_desks(|desk| async move {
        let (one, two) = (desk.message("one").await, desk.message("two").await);
        let held = desk.claimed(one, "Noon works.").await;
        let offered = desk.approved(two, "Noon works.").await;
        accounts::disable(desk.app(), "ada").await.unwrap();
        assert!(matches!(
            drafts::claim(desk.app(), &desk.mail, Duration::ZERO).await,
            Err(ClaimError::NotLive)
        ));
        assert!(matches!(
            desk.try_report(held, true).await,
            Err(drafts::ReportRefusal::NotLive)
        ));
        accounts::enable(desk.app(), "ada").await.unwrap();
        assert_eq!(desk.claim().await.unwrap().id, offered);
        assert_eq!(desk.report(held, true).await, DraftState::Sent);
    });
}

// spec: TOK-007
#[test]
fn two_owners_with_connectors_of_one_name_each_collect_only_their_own_replies() {
    on_desks(|desk| async move {
        let id = desk.message("same-id").await;
        let adas = desk.approved(id, "from ada").await;
        let bob = add_owner(desk.app(), "bob").await;
        let bobs_chief = chief::set(desk.app(), bob, Kind::Command, "scripted")
            .await
            .unwrap();
        let bobs_mail = add_plugin(desk.app(), bob, "mail").await;
        let id = messages::accept(desk.app(), &bobs_mail, message("same-id"))
            .await
            .unwrap()
            .id;
        super::kit::deliver(desk.app(), bob, id).await;
        let mut agent = desk.agent();
        (agent.owner, agent.chief) = (bob, Some(bobs_chief));
        let bobs = drafts::file(desk.app(), &agent, id, "from bob").await.unwrap().id;
        drafts::approve(desk.app(), &signed_in_now(desk.app(), bob), bobs)
            .await
            .unwrap();
        let mut handed: Vec<(DraftId, String)> = Vec::new();
        for _ in 0..2 {
            for plugin in [&bobs_mail, &desk.mail] {
                handed.extend(
                    desk.claim_of(plugin)
                        .await
                        .map(|claimed| (claimed.id, claimed.body)),
                );
            }
        }
        assert_eq!(
            handed,
            [(bobs, "from bob".to_owned()), (adas, "from ada".to_owned())]
        );
        assert_eq!(events(desk.app(), bob, "plugin.draft.claimed").await.len(), 1);
        assert_eq!(desk.events("plugin.draft.claimed").await.len(), 1);
    });
}
