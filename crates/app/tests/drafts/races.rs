//! Races: acts on one draft or one message at the same moment, in one process and, where several may share a database, in two.
//! Never relies on which comes first: each outcome that may come is named, and all others fail.

use std::time::{Duration, Instant};

use muster_app::App;
use muster_app::drafts::{self, DecideRefusal, DraftState, FileRefusal, ReportRefusal};
use muster_core::ids::{DraftId, MessageId};
use muster_store::Engine;
use tokio::task::JoinHandle;

use super::kit::{Desk, Raw, on_desks, result};

/// The app that the other side of a race runs in: another server's where several may share the database.
async fn rival(desk: &Desk) -> App {
    match desk.muster.engine {
        Engine::Sqlite => desk.app().clone(),
        Engine::Postgres => desk.muster.second().await.0,
    }
}

/// Begins `work` after a head start for the other side that grows with `round`, so that each side comes first sometimes.
fn begin<T: Send + 'static>(round: u32, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(async move {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(100) * (round % 20) {
            tokio::task::yield_now().await;
        }
        work.await
    })
}

/// Puts two replies to one message into the table, past the app because doing so by acts takes most of a race's time: the first
/// was claimed and its lease lapsed, the second is `state`.
async fn seed_pair(desk: &Desk, raw: &mut Raw, message: MessageId, state: &str) -> (DraftId, DraftId) {
    let (chief, now) = (desk.chief, desk.app().clock.now().micros());
    let (expires, lapsed) = (now + 86_400_000_000, now - 1);
    let approved_at = if state == "approved" {
        now.to_string()
    } else {
        "NULL".to_owned()
    };
    raw.run(&format!(
        "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at, approved_at, claimed_at, lease_until) VALUES \
         ({owner}, {plugin}, {message}, {chief}, 'Noon works.', 'unconfirmed', {now}, {expires}, {now}, {now}, {lapsed}), \
         ({owner}, {plugin}, {message}, {chief}, 'One works.', '{state}', {now}, {expires}, {approved_at}, NULL, NULL)",
        owner = desk.owner(),
        plugin = desk.mail.plugin,
    ))
    .await;
    let newest = async |raw: &mut Raw, body: &str| {
        DraftId::new(
            raw.number(&format!(
                "SELECT max(id) FROM drafts WHERE message_id = {message} AND body = '{body}'"
            ))
            .await,
        )
    };
    (newest(raw, "Noon works.").await, newest(raw, "One works.").await)
}

/// Head starts for the two sides of a race, in microseconds' hundreds: one of them is always zero.
const fn starts(round: u32) -> (u32, u32) {
    if round.is_multiple_of(2) {
        (0, round / 2)
    } else {
        (round / 2, 0)
    }
}

// spec: DRF-050 DRF-049
#[test]
fn a_withdrawal_and_a_claim_at_once_have_exactly_one_winner() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let other = rival(&desk).await;
        let (mut withdrawn, mut collected) = (0, 0);
        for round in 0..100 {
            let draft = desk.approved(id, "Noon works.").await;
            let (mine, theirs) = starts(round);
            let (app, decider) = (desk.app().clone(), desk.decider());
            let withdrawal = begin(mine, async move { drafts::withdraw(&app, &decider, draft).await });
            let (app, mail) = (other.clone(), desk.mail.clone());
            let claim = begin(theirs, async move {
                drafts::claim(&app, &mail, Duration::ZERO).await.unwrap()
            });
            match (withdrawal.await.unwrap(), claim.await.unwrap()) {
                (Ok(()), None) => {
                    withdrawn += 1;
                    assert_eq!(desk.state(draft).await, DraftState::Rejected);
                }
                (Err(DecideRefusal::Collected), Some(claimed)) => {
                    collected += 1;
                    assert_eq!(claimed.id, draft);
                    assert_eq!(desk.report(draft, false).await, DraftState::Failed);
                }
                // A claim passes over a draft that somebody is at work on; it is then withdrawn, or still there for the next one.
                (Err(refused), None) => panic!("neither won: {refused:?}"),
                (both, claimed) => panic!("{both:?} and {claimed:?}"),
            }
        }
        assert_eq!(withdrawn + collected, 100);
        assert_eq!(desk.events("plugin.draft.rejected").await.len(), withdrawn);
        assert_eq!(desk.events("plugin.draft.claimed").await.len(), collected);
    });
}

// spec: RES-023 RES-018 RES-019
#[test]
fn a_late_result_and_a_new_claim_at_once_never_hand_out_a_superseded_draft() {
    on_desks(|desk| async move {
        let (other, mut raw) = (rival(&desk).await, desk.raw().await);
        let id = desk.message("m").await;
        let (mut superseded, mut collected) = (0, 0);
        for round in 0..200 {
            let (first, second) = seed_pair(&desk, &mut raw, id, "approved").await;
            let (mine, theirs) = starts(round);
            let (app, mail) = (desk.app().clone(), desk.mail.clone());
            let report = begin(mine, async move {
                drafts::report(&app, &mail, first, result(true)).await.unwrap()
            });
            let (app, mail) = (other.clone(), desk.mail.clone());
            let claim = begin(theirs, async move {
                drafts::claim(&app, &mail, Duration::ZERO).await.unwrap()
            });
            assert_eq!(report.await.unwrap().state, DraftState::Sent);
            match claim.await.unwrap() {
                Some(claimed) => {
                    collected += 1;
                    assert_eq!(claimed.id, second);
                    let card = desk.card(second).await;
                    assert_eq!(
                        (card.state, card.superseded_by),
                        (DraftState::Approved, None),
                        "held, and left to its claim"
                    );
                    assert_eq!(desk.report(second, false).await, DraftState::Failed);
                }
                None => {
                    superseded += 1;
                    assert_eq!(desk.state(second).await, DraftState::Superseded);
                    assert!(matches!(
                        desk.try_report(second, true).await,
                        Err(ReportRefusal::Conflict(DraftState::Superseded))
                    ));
                }
            }
        }
        assert_eq!(superseded + collected, 200);
        assert_eq!(desk.claim().await, None);
        assert_eq!(desk.events("plugin.draft.superseded").await.len(), superseded);
    });
}

// spec: RES-017 DRF-051
#[test]
fn a_late_result_and_an_approval_at_once_end_in_an_approved_or_a_superseded_draft_and_never_in_a_fault() {
    on_desks(|desk| async move {
        let (other, mut raw) = (rival(&desk).await, desk.raw().await);
        let id = desk.message("m").await;
        for round in 0..60 {
            let (first, second) = seed_pair(&desk, &mut raw, id, "pending").await;
            let (mine, theirs) = starts(round);
            let (app, mail) = (desk.app().clone(), desk.mail.clone());
            let report = begin(mine, async move {
                drafts::report(&app, &mail, first, result(true)).await.unwrap()
            });
            let (app, decider) = (other.clone(), desk.decider());
            let decision = begin(theirs, async move {
                match round % 3 {
                    0 => drafts::reject(&app, &decider, second).await,
                    _ => drafts::approve(&app, &decider, second).await,
                }
            });
            assert_eq!(report.await.unwrap().state, DraftState::Sent);
            match decision.await.unwrap() {
                Ok(()) if round % 3 == 0 => assert_eq!(desk.state(second).await, DraftState::Rejected),
                Ok(()) | Err(DecideRefusal::NotPending(DraftState::Superseded)) => {
                    assert_eq!(desk.state(second).await, DraftState::Superseded)
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(desk.claim().await, None);
    });
}

// spec: RES-018
#[test]
fn a_late_result_and_a_withdrawal_at_once_end_in_a_rejected_or_a_superseded_draft_and_never_in_a_fault() {
    on_desks(|desk| async move {
        let (other, mut raw) = (rival(&desk).await, desk.raw().await);
        let id = desk.message("m").await;
        for round in 0..60 {
            let (first, second) = seed_pair(&desk, &mut raw, id, "approved").await;
            let (mine, theirs) = starts(round);
            let (app, mail) = (desk.app().clone(), desk.mail.clone());
            let report = begin(mine, async move {
                drafts::report(&app, &mail, first, result(true)).await.unwrap()
            });
            let (app, decider) = (other.clone(), desk.decider());
            let withdrawal = begin(
                theirs,
                async move { drafts::withdraw(&app, &decider, second).await },
            );
            assert_eq!(report.await.unwrap().state, DraftState::Sent);
            match withdrawal.await.unwrap() {
                Ok(()) => assert_eq!(desk.state(second).await, DraftState::Rejected),
                Err(DecideRefusal::NotApproved(DraftState::Superseded)) => {
                    assert_eq!(desk.state(second).await, DraftState::Superseded)
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

// spec: DRF-002 DRF-001
#[test]
fn of_two_approvals_for_one_message_at_once_one_succeeds() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let mut raw = desk.raw().await;
        raw.run("DROP INDEX drafts_one_pending").await;
        let id = desk.message("m").await;
        for round in 0..30 {
            let one = desk.file(id, "Noon works.").await;
            raw.run(&format!(
                "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) \
                 SELECT owner_id, plugin_id, message_id, chief_id, 'forced', 'pending', created_at, expires_at FROM drafts WHERE id = {one}"
            ))
            .await;
            let two = drafts::open(desk.app(), desk.owner()).await.unwrap()[0].id;
            assert_ne!(one, two);
            let (mine, theirs) = starts(round);
            let (app, decider) = (desk.app().clone(), desk.decider());
            let first = begin(mine, async move { drafts::approve(&app, &decider, one).await });
            let (app, decider) = (other.clone(), desk.decider());
            let second = begin(theirs, async move { drafts::approve(&app, &decider, two).await });
            let (winner, loser) = match (first.await.unwrap(), second.await.unwrap()) {
                (Ok(()), Err(DecideRefusal::InFlight)) => (one, two),
                (Err(DecideRefusal::InFlight), Ok(())) => (two, one),
                outcome => panic!("{outcome:?}"),
            };
            assert_eq!(
                (desk.state(winner).await, desk.state(loser).await),
                (DraftState::Approved, DraftState::Pending)
            );
            desk.try_reject(loser).await.unwrap();
            desk.try_withdraw(winner).await.unwrap();
        }
        assert_eq!(desk.events("plugin.draft.approved").await.len(), 30);
    });
}

// spec: DRF-002
#[test]
fn of_ten_approvals_of_one_draft_at_once_one_is_written_down() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let tries: Vec<_> = (0..10)
            .map(|n| {
                let (app, decider) = (
                    if n % 2 == 0 {
                        desk.app().clone()
                    } else {
                        other.clone()
                    },
                    desk.decider(),
                );
                tokio::spawn(async move { drafts::approve(&app, &decider, draft).await })
            })
            .collect();
        let mut won = 0;
        for one in tries {
            match one.await.unwrap() {
                Ok(()) => won += 1,
                Err(DecideRefusal::NotPending(DraftState::Approved)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(won, 1);
        assert_eq!(desk.events("plugin.draft.approved").await.len(), 1);
    });
}

// spec: DRF-032
#[test]
fn ten_drafts_for_one_message_at_once_leave_one_pending() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let id = desk.message("m").await;
        let filings: Vec<_> = (0..10)
            .map(|n| {
                let (app, agent) = (
                    if n % 2 == 0 {
                        desk.app().clone()
                    } else {
                        other.clone()
                    },
                    desk.agent(),
                );
                tokio::spawn(async move { drafts::file(&app, &agent, id, "Noon works.").await.unwrap() })
            })
            .collect();
        let mut superseded = 0;
        for filing in filings {
            superseded += filing.await.unwrap().superseded;
        }
        assert_eq!(superseded, 9);
        let states = desk.states().await;
        assert_eq!(states.len(), 10);
        assert_eq!(
            states
                .iter()
                .filter(|(_, state)| *state == DraftState::Pending)
                .count(),
            1
        );
        assert_eq!(
            states
                .iter()
                .filter(|(_, state)| *state == DraftState::Superseded)
                .count(),
            9
        );
        assert_eq!(desk.notices().await.len(), 1);
    });
}

// spec: DRF-030 DRF-032
#[test]
fn drafts_filed_at_once_cannot_pass_the_cap() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let mut messages = Vec::new();
        for n in 0..30 {
            messages.push(desk.message(&format!("m{n}")).await);
        }
        for id in &messages[..12] {
            desk.file(*id, "Noon works.").await;
        }
        let filings: Vec<_> = messages[12..]
            .iter()
            .enumerate()
            .map(|(n, id)| {
                let (app, agent, id) = (
                    if n % 2 == 0 {
                        desk.app().clone()
                    } else {
                        other.clone()
                    },
                    desk.agent(),
                    *id,
                );
                tokio::spawn(async move { drafts::file(&app, &agent, id, "Noon works.").await })
            })
            .collect();
        let mut taken = 0;
        for filing in filings {
            match filing.await.unwrap() {
                Ok(_) => taken += 1,
                Err(FileRefusal::TooMany) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(taken, 8);
        assert_eq!(desk.states().await.len(), 20);
    });
}

// spec: DRF-025 DRF-032
#[test]
fn a_draft_and_an_approval_at_once_never_leave_a_second_reply_behind_one_on_its_way() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let id = desk.message("m").await;
        for round in 0..40 {
            let first = desk.file(id, "Noon works.").await;
            let (mine, theirs) = starts(round);
            let (app, decider) = (desk.app().clone(), desk.decider());
            let approval = begin(mine, async move { drafts::approve(&app, &decider, first).await });
            let (app, agent) = (other.clone(), desk.agent());
            let filing = begin(theirs, async move {
                drafts::file(&app, &agent, id, "One works.").await
            });
            match (approval.await.unwrap(), filing.await.unwrap()) {
                (Ok(()), Err(FileRefusal::InFlight)) => desk.try_withdraw(first).await.unwrap(),
                (Err(DecideRefusal::NotPending(DraftState::Superseded)), Ok(filed)) => {
                    assert_eq!(filed.superseded, 1);
                    desk.try_reject(filed.id).await.unwrap();
                }
                outcome => panic!("{outcome:?}"),
            }
        }
    });
}

// spec: RES-006 RES-024 AUD-018
#[test]
fn one_result_sent_ten_times_at_once_is_recorded_once() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let reports: Vec<_> = (0..10)
            .map(|_| {
                let (app, mail) = (desk.app().clone(), desk.mail.clone());
                tokio::spawn(async move {
                    drafts::report(&app, &mail, draft, result(true))
                        .await
                        .unwrap()
                        .state
                })
            })
            .collect();
        for report in reports {
            assert_eq!(report.await.unwrap(), DraftState::Sent);
        }
        assert_eq!(desk.events("plugin.draft.sent").await.len(), 1);
    });
}

// spec: RES-012
#[test]
fn of_two_opposite_results_at_once_one_stands_and_the_other_is_told_so() {
    on_desks(|desk| async move {
        let other = rival(&desk).await;
        let id = desk.message("m").await;
        for round in 0..20 {
            let draft = desk.claimed(id, "Noon works.").await;
            let (mine, theirs) = starts(round);
            let (app, mail) = (desk.app().clone(), desk.mail.clone());
            let sent = begin(mine, async move {
                drafts::report(&app, &mail, draft, result(true)).await
            });
            let (app, mail) = (other.clone(), desk.mail.clone());
            let failed = begin(theirs, async move {
                drafts::report(&app, &mail, draft, result(false)).await
            });
            let stands = match (sent.await.unwrap(), failed.await.unwrap()) {
                (Ok(_), Err(ReportRefusal::Conflict(DraftState::Sent))) => DraftState::Sent,
                (Err(ReportRefusal::Conflict(DraftState::Failed)), Ok(_)) => DraftState::Failed,
                outcome => panic!("{outcome:?}"),
            };
            assert_eq!(desk.state(draft).await, stands);
        }
    });
}
