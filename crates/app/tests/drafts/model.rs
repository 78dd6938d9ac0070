//! Random sequences of acts against a small model of the texts' rules: after each step both say the same of every draft.
//! Never looks at muster's own rules: the model is written from the texts.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_app::accounts::{AgentCaller, BrowserCaller};
use muster_app::chief::{self, Delivery};
use muster_app::drafts::{self, DecideRefusal, Decider, DraftState, FileRefusal, ReportRefusal};
use muster_app::messages;
use muster_app::plugins::PluginCaller;
use muster_core::ids::{BrowserSessionId, DraftId, MessageId, OwnerId, TokenId};
use muster_runtime::Kind;
use muster_store::Engine;
use muster_testkit::{TestMuster, add_owner, add_plugin, message, on_both};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::kit::{DAY, SECOND, deliver, events, result, states};

/// How many messages a sequence plays with.
const MESSAGES: usize = 3;

#[derive(Debug, Clone)]
enum Act {
    File(usize),
    Approve(usize),
    Reject(usize),
    Withdraw(usize),
    Claim,
    Report(usize, bool),
    Advance(Duration),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let span = prop_oneof![
        3 => Just(SECOND),
        2 => Just(SECOND * 119),
        3 => Just(SECOND * 120),
        1 => Just(DAY),
        1 => Just(DAY * 3),
        1 => Just(DAY * 7),
    ];
    // Drafts are named from the newest back, since the newest are the ones that may still move.
    let act = prop_oneof![
        4 => (0..MESSAGES).prop_map(Act::File),
        5 => (0..4_usize).prop_map(Act::Approve),
        1 => (0..4_usize).prop_map(Act::Reject),
        1 => (0..4_usize).prop_map(Act::Withdraw),
        4 => Just(Act::Claim),
        4 => ((0..6_usize), any::<bool>()).prop_map(|(draft, ok)| Act::Report(draft, ok)),
        3 => span.prop_map(Act::Advance),
    ];
    prop::collection::vec(act, 1..45)
}

/// A draft as the texts see it.
#[derive(Debug, Clone)]
struct Draft {
    id: DraftId,
    message: usize,
    state: DraftState,
    written: i64,
    approved: i64,
    /// Since when a claim holds it, or held it.
    claimed: Option<i64>,
}

#[derive(Default)]
struct Model {
    now: i64,
    drafts: Vec<Draft>,
    /// Rows that the audit log must hold, by event.
    rows: BTreeMap<&'static str, usize>,
    /// Everything a claim was ever answered with.
    handed: Vec<DraftId>,
}

/// What the texts say an act ends in.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Done,
    Refused(&'static str),
    Handed(DraftId),
    Nothing,
}

impl Model {
    fn row(&mut self, event: &'static str) {
        *self.rows.entry(event).or_default() += 1;
    }

    /// "If no result arrives within the 2-minute lease, the reply becomes unconfirmed"; "not sent within 7 days of being written".
    fn time(&mut self) {
        let now = self.now;
        for n in 0..self.drafts.len() {
            let draft = &mut self.drafts[n];
            let event = match (draft.state, draft.claimed) {
                (DraftState::Approved, Some(claimed)) if now >= claimed + 120_000_000 => {
                    draft.state = DraftState::Unconfirmed;
                    "plugin.draft.unconfirmed"
                }
                (DraftState::Pending | DraftState::Approved, None)
                    if now >= draft.written + 7 * 86_400_000_000 =>
                {
                    draft.state = DraftState::Expired;
                    "plugin.draft.expired"
                }
                _ => continue,
            };
            self.row(event);
        }
    }

    fn in_flight(&self, message: usize) -> bool {
        self.drafts
            .iter()
            .any(|draft| draft.message == message && draft.state == DraftState::Approved)
    }

    fn may_file(&mut self, message: usize) -> Said {
        if self.in_flight(message) {
            self.row("plugin.draft.refused");
            Said::Refused("in flight")
        } else {
            Said::Done
        }
    }

    fn file(&mut self, message: usize, id: DraftId) {
        for draft in self
            .drafts
            .iter_mut()
            .filter(|draft| draft.message == message && draft.state == DraftState::Pending)
        {
            draft.state = DraftState::Superseded;
        }
        self.drafts.push(Draft {
            id,
            message,
            state: DraftState::Pending,
            written: self.now,
            approved: 0,
            claimed: None,
        });
        self.row("plugin.draft.filed");
    }

    fn approve(&mut self, n: usize) -> Said {
        if self.drafts[n].state != DraftState::Pending {
            return Said::Refused("not pending");
        }
        if self.in_flight(self.drafts[n].message) {
            return Said::Refused("in flight");
        }
        self.drafts[n].state = DraftState::Approved;
        self.drafts[n].approved = self.now;
        self.row("plugin.draft.approved");
        Said::Done
    }

    fn reject(&mut self, n: usize) -> Said {
        if self.drafts[n].state != DraftState::Pending {
            return Said::Refused("not pending");
        }
        self.drafts[n].state = DraftState::Rejected;
        self.row("plugin.draft.rejected");
        Said::Done
    }

    fn withdraw(&mut self, n: usize) -> Said {
        match (self.drafts[n].state, self.drafts[n].claimed) {
            (DraftState::Approved, Some(_)) => Said::Refused("collected"),
            (DraftState::Approved, None) => {
                self.drafts[n].state = DraftState::Rejected;
                self.row("plugin.draft.rejected");
                Said::Done
            }
            _ => Said::Refused("not approved"),
        }
    }

    fn claim(&mut self) -> Said {
        let now = self.now;
        let next = self
            .drafts
            .iter_mut()
            .filter(|d| d.state == DraftState::Approved && d.claimed.is_none())
            .min_by_key(|d| (d.approved, d.id));
        let Some(draft) = next else { return Said::Nothing };
        draft.claimed = Some(now);
        let id = draft.id;
        self.handed.push(id);
        self.row("plugin.draft.claimed");
        Said::Handed(id)
    }

    fn report(&mut self, n: usize, ok: bool) -> Said {
        let wanted = if ok { DraftState::Sent } else { DraftState::Failed };
        let draft = self.drafts[n].clone();
        match draft.state {
            state if state == wanted => Said::Done,
            DraftState::Approved | DraftState::Unconfirmed if draft.claimed.is_some() => {
                self.drafts[n].state = wanted;
                self.row(if ok {
                    "plugin.draft.sent"
                } else {
                    "plugin.draft.failed"
                });
                if ok {
                    self.supersede(draft.message, n);
                }
                Said::Done
            }
            _ => Said::Refused("conflict"),
        }
    }

    /// "supersedes every other reply to the same message that is still pending or approved and not yet claimed".
    fn supersede(&mut self, message: usize, sent: usize) {
        for n in 0..self.drafts.len() {
            let other = &mut self.drafts[n];
            let open =
                matches!(other.state, DraftState::Pending | DraftState::Approved) && other.claimed.is_none();
            if n != sent && other.message == message && open {
                other.state = DraftState::Superseded;
                self.row("plugin.draft.superseded");
            }
        }
    }

    /// The draft that stands `back` places from the newest.
    fn nth_newest(&self, back: usize) -> Option<usize> {
        self.drafts.len().checked_sub(back + 1)
    }
}

/// An owner with nothing but this sequence.
struct Stage<'m> {
    muster: &'m TestMuster,
    owner: OwnerId,
    mail: PluginCaller,
    agent: AgentCaller,
    messages: Vec<MessageId>,
}

impl<'m> Stage<'m> {
    async fn of(muster: &'m TestMuster, name: &str) -> Self {
        let app = &muster.app;
        let owner = add_owner(app, name).await;
        let mail = add_plugin(app, owner, "mail").await;
        let chief = chief::set(app, owner, Kind::Command, "scripted").await.unwrap();
        let mut ids = Vec::new();
        for n in 0..MESSAGES {
            let id = messages::accept(app, &mail, message(&format!("m{n}")))
                .await
                .unwrap()
                .id;
            assert_eq!(deliver(app, owner, id).await, Delivery::Delivered);
            ids.push(id);
        }
        let agent = AgentCaller {
            owner,
            token: TokenId::new(1),
            chief: Some(chief),
            task: None,
            label: "chief".to_owned(),
        };
        Self {
            muster,
            owner,
            mail,
            agent,
            messages: ids,
        }
    }

    fn decider(&self) -> Decider {
        let signed_in_at = self.muster.clock.now();
        Decider::Browser(BrowserCaller {
            owner: self.owner,
            name: "model".to_owned(),
            session: BrowserSessionId::new(1),
            signed_in_at,
        })
    }

    /// Plays one act on both and answers what each says of it.
    async fn play(&self, model: &mut Model, act: &Act) -> Option<(Said, Said)> {
        let app = &self.muster.app;
        if let Act::Advance(span) = act {
            self.muster.clock.advance(*span);
        }
        model.now = self.muster.clock.now().micros();
        model.time();
        Some(match act {
            Act::Advance(_) => return None,
            Act::File(message) => {
                let expected = model.may_file(*message);
                let said = match drafts::file(app, &self.agent, self.messages[*message], "Noon works.").await
                {
                    Ok(filed) => {
                        model.file(*message, filed.id);
                        Said::Done
                    }
                    Err(FileRefusal::InFlight) => Said::Refused("in flight"),
                    Err(other) => panic!("{other:?}"),
                };
                (said, expected)
            }
            Act::Approve(back) => {
                let n = model.nth_newest(*back)?;
                (
                    decided(drafts::approve(app, &self.decider(), model.drafts[n].id).await),
                    model.approve(n),
                )
            }
            Act::Reject(back) => {
                let n = model.nth_newest(*back)?;
                (
                    decided(drafts::reject(app, &self.decider(), model.drafts[n].id).await),
                    model.reject(n),
                )
            }
            Act::Withdraw(back) => {
                let n = model.nth_newest(*back)?;
                (
                    decided(drafts::withdraw(app, &self.decider(), model.drafts[n].id).await),
                    model.withdraw(n),
                )
            }
            Act::Claim => {
                let claimed = drafts::claim(app, &self.mail, Duration::ZERO).await.unwrap();
                (
                    claimed.map_or(Said::Nothing, |claimed| Said::Handed(claimed.id)),
                    model.claim(),
                )
            }
            Act::Report(back, ok) => {
                let n = model.nth_newest(*back)?;
                let said = match drafts::report(app, &self.mail, model.drafts[n].id, result(*ok)).await {
                    Ok(_) => Said::Done,
                    Err(ReportRefusal::Conflict(_)) => Said::Refused("conflict"),
                    Err(other) => panic!("{other:?}"),
                };
                (said, model.report(n, *ok))
            }
        })
    }
}

fn decided(outcome: Result<(), DecideRefusal>) -> Said {
    match outcome {
        Ok(()) => Said::Done,
        Err(DecideRefusal::NotPending(_)) => Said::Refused("not pending"),
        Err(DecideRefusal::InFlight) => Said::Refused("in flight"),
        Err(DecideRefusal::Collected) => Said::Refused("collected"),
        Err(DecideRefusal::NotApproved(_)) => Said::Refused("not approved"),
        Err(other) => panic!("{other:?}"),
    }
}

async fn play_all(muster: &TestMuster, name: &str, acts: &[Act]) -> Result<(), TestCaseError> {
    let stage = Stage::of(muster, name).await;
    let mut model = Model::default();
    for (step, act) in acts.iter().enumerate() {
        if let Some((said, expected)) = stage.play(&mut model, act).await {
            prop_assert_eq!(said, expected, "step {} {:?}", step, act);
        }
        let found = states(&muster.app, stage.owner).await;
        let expected: Vec<_> = model.drafts.iter().map(|draft| (draft.id, draft.state)).collect();
        prop_assert_eq!(&found, &expected, "after step {} {:?}", step, act);
        for message in 0..MESSAGES {
            let on_their_way = model
                .drafts
                .iter()
                .filter(|d| d.message == message && d.state == DraftState::Approved)
                .count();
            prop_assert!(
                on_their_way <= 1,
                "two replies to one message on their way after step {}",
                step
            );
        }
    }
    let mut once = model.handed.clone();
    once.sort();
    once.dedup();
    prop_assert_eq!(once.len(), model.handed.len(), "a draft was handed out twice");
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for row in events(&muster.app, stage.owner, "").await {
        if row.event.starts_with("plugin.draft.") {
            *rows.entry(row.event).or_default() += 1;
        }
    }
    let expected: BTreeMap<String, usize> = model
        .rows
        .into_iter()
        .map(|(event, count)| (event.to_owned(), count))
        .collect();
    prop_assert_eq!(rows, expected, "the audit log");
    Ok(())
}

// spec: CLM-017 CLM-028 CLM-031 RES-016 RES-017 RES-018 RES-019 RES-021 DRF-024 DRF-025 DRF-026 DRF-051 DRF-075 DRF-076 DRF-077
#[test]
fn whatever_the_order_of_acts_every_draft_stands_where_the_texts_say() {
    on_both(|muster| async move {
        let cases = match muster.engine {
            Engine::Sqlite => 32,
            Engine::Postgres => 8,
        };
        let handle = tokio::runtime::Handle::current();
        let played = std::cell::Cell::new(0_u32);
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 200,
            ..Config::default()
        });
        let outcome = tokio::task::block_in_place(|| {
            runner.run(&acts(), |acts| {
                played.set(played.get() + 1);
                handle.block_on(play_all(&muster, &format!("model-{}", played.get()), &acts))
            })
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    });
}
