//! What the laws of drafts share: an owner's desk with a connector and a chief, and a raw connection beside the app. Never asserts a law.

use std::str::FromStr as _;
use std::time::Duration;

use muster_app::App;
use muster_app::accounts::{AgentCaller, BrowserCaller};
use muster_app::audit::{self, Entry, Filter};
use muster_app::chief::{self, Delivery};
use muster_app::drafts::{
    self, Card, Claimed, DecideRefusal, Decider, DraftState, FileRefusal, Filed, Report, ReportRefusal,
    Reported,
};
use muster_app::messages::{self, NewMessage, Status};
use muster_app::notices::{self, Notice};
use muster_app::plugins::PluginCaller;
use muster_core::ids::{BrowserSessionId, ChiefId, DraftId, MessageId, OwnerId, TokenId};
use muster_store::Engine;
use muster_testkit::{TestMuster, message, on_both};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// A little more than the texts' two minutes.
pub(crate) const LEASE_AND_A_BIT: Duration = Duration::from_secs(121);
/// The longest a claim may wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(25);

/// An owner with one connector and a chief.
pub(crate) struct Desk {
    pub(crate) muster: TestMuster,
    pub(crate) mail: PluginCaller,
    pub(crate) chief: ChiefId,
}

/// Runs `law` on a fresh desk on each engine.
pub(crate) fn on_desks<F: Future<Output = ()>>(law: impl Fn(Desk) -> F) {
    let law = &law;
    on_both(|muster| async move { law(Desk::of(muster).await).await });
}

/// The owner in a browser, signed in this very moment.
pub(crate) fn signed_in_now(app: &App, owner: OwnerId) -> Decider {
    Decider::Browser(BrowserCaller {
        owner,
        name: "ada".to_owned(),
        session: BrowserSessionId::new(1),
        signed_in_at: app.clock.now(),
    })
}

/// Hands a message to the chief and waits for the turn's end. The chief may still be busy with what an earlier claim handed over.
pub(crate) async fn deliver(app: &App, owner: OwnerId, message: MessageId) -> Delivery {
    for _ in 0..6_000 {
        match chief::deliver(app, owner, message).await.unwrap() {
            Delivery::Pending => tokio::time::sleep(Duration::from_millis(5)).await,
            ended => return ended,
        }
    }
    panic!("the chief was never free");
}

impl Desk {
    async fn of(muster: TestMuster) -> Self {
        let mail = muster.plugin("mail").await;
        let chief = muster.set_chief().await;
        Self { muster, mail, chief }
    }

    pub(crate) fn app(&self) -> &App {
        &self.muster.app
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.muster.owner
    }

    /// The chief as the door of its tools knows it.
    pub(crate) fn agent(&self) -> AgentCaller {
        AgentCaller {
            owner: self.owner(),
            token: TokenId::new(1),
            chief: Some(self.chief),
            task: None,
            label: "chief".to_owned(),
        }
    }

    pub(crate) fn decider(&self) -> Decider {
        signed_in_now(self.app(), self.owner())
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.muster.clock.advance(span);
    }

    /// A message that the chief was given.
    pub(crate) async fn message(&self, external_id: &str) -> MessageId {
        self.message_like(message(external_id)).await
    }

    pub(crate) async fn message_like(&self, new: NewMessage) -> MessageId {
        let accepted = messages::accept(self.app(), &self.mail, new.clone())
            .await
            .unwrap();
        // The queue's retry that an earlier claim started may come first; it hands the same message to the same chief.
        if deliver(self.app(), self.owner(), accepted.id).await == Delivery::NotOurs {
            self.muster.settle().await;
        }
        assert_eq!(
            messages::accept(self.app(), &self.mail, new)
                .await
                .unwrap()
                .status,
            Status::Delivered
        );
        accepted.id
    }

    pub(crate) async fn try_file(&self, message: MessageId, body: &str) -> Result<Filed, FileRefusal> {
        drafts::file(self.app(), &self.agent(), message, body).await
    }

    pub(crate) async fn file(&self, message: MessageId, body: &str) -> DraftId {
        self.try_file(message, body).await.unwrap().id
    }

    pub(crate) async fn try_approve(&self, draft: DraftId) -> Result<(), DecideRefusal> {
        drafts::approve(self.app(), &self.decider(), draft).await
    }

    pub(crate) async fn approve(&self, draft: DraftId) {
        self.try_approve(draft).await.unwrap();
    }

    pub(crate) async fn try_reject(&self, draft: DraftId) -> Result<(), DecideRefusal> {
        drafts::reject(self.app(), &self.decider(), draft).await
    }

    pub(crate) async fn try_withdraw(&self, draft: DraftId) -> Result<(), DecideRefusal> {
        drafts::withdraw(self.app(), &self.decider(), draft).await
    }

    /// A draft of this message that is approved.
    pub(crate) async fn approved(&self, message: MessageId, body: &str) -> DraftId {
        let draft = self.file(message, body).await;
        self.approve(draft).await;
        draft
    }

    /// A draft of this message that a claim holds.
    pub(crate) async fn claimed(&self, message: MessageId, body: &str) -> DraftId {
        let draft = self.approved(message, body).await;
        assert_eq!(self.claim().await.map(|claimed| claimed.id), Some(draft));
        draft
    }

    /// A draft of this message whose lease lapsed.
    pub(crate) async fn unconfirmed(&self, message: MessageId, body: &str) -> DraftId {
        let draft = self.claimed(message, body).await;
        self.advance(LEASE_AND_A_BIT);
        assert_eq!(self.state(draft).await, DraftState::Unconfirmed);
        draft
    }

    /// A claim that does not wait.
    pub(crate) async fn claim(&self) -> Option<Claimed> {
        self.claim_of(&self.mail).await
    }

    pub(crate) async fn claim_of(&self, plugin: &PluginCaller) -> Option<Claimed> {
        drafts::claim(self.app(), plugin, Duration::ZERO).await.unwrap()
    }

    pub(crate) async fn try_report(&self, draft: DraftId, ok: bool) -> Result<Reported, ReportRefusal> {
        drafts::report(self.app(), &self.mail, draft, result(ok)).await
    }

    pub(crate) async fn report(&self, draft: DraftId, ok: bool) -> DraftState {
        self.try_report(draft, ok).await.unwrap().state
    }

    pub(crate) async fn card(&self, draft: DraftId) -> Card {
        drafts::card(self.app(), self.owner(), draft)
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn state(&self, draft: DraftId) -> DraftState {
        self.card(draft).await.state
    }

    /// The ids and states of every draft, oldest first.
    pub(crate) async fn states(&self) -> Vec<(DraftId, DraftState)> {
        states(self.app(), self.owner()).await
    }

    /// The audit rows of this event, newest first.
    pub(crate) async fn events(&self, event: &str) -> Vec<Entry> {
        events(self.app(), self.owner(), event).await
    }

    pub(crate) async fn notices(&self) -> Vec<Notice> {
        notices::open(&self.app().db, self.owner()).await.unwrap()
    }

    pub(crate) async fn raw(&self) -> Raw {
        Raw::open(&self.muster).await
    }
}

/// A connector's result with nothing more to say.
pub(crate) fn result(ok: bool) -> Report {
    Report {
        ok,
        external_ref: None,
        detail: None,
    }
}

pub(crate) async fn states(app: &App, owner: OwnerId) -> Vec<(DraftId, DraftState)> {
    let mut cards = drafts::open(app, owner).await.unwrap();
    cards.extend(
        drafts::archived(app, owner, DraftId::new(i64::MAX), 100_000)
            .await
            .unwrap()
            .cards,
    );
    let mut states: Vec<_> = cards.into_iter().map(|card| (card.id, card.state)).collect();
    states.sort_by_key(|(id, _)| *id);
    states
}

pub(crate) async fn events(app: &App, owner: OwnerId, event: &str) -> Vec<Entry> {
    audit::list(
        &app.db,
        owner,
        Filter {
            event: event.to_owned(),
            limit: 100_000,
            ..Filter::default()
        },
    )
    .await
    .unwrap()
}

/// A connection of the app's own role that knows none of muster's rules.
pub(crate) enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Raw {
    pub(crate) async fn open(muster: &TestMuster) -> Self {
        match muster.engine {
            Engine::Sqlite => {
                let path = muster.url.strip_prefix("sqlite://").unwrap();
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .foreign_keys(true)
                    .busy_timeout(Duration::from_secs(5));
                Self::Sqlite(SqliteConnection::connect_with(&options).await.unwrap())
            }
            Engine::Postgres => {
                let mut conn = PgConnection::connect_with(&PgConnectOptions::from_str(&muster.url).unwrap())
                    .await
                    .unwrap();
                sqlx::query("SELECT set_config('muster.system', 'a test', false)")
                    .execute(&mut conn)
                    .await
                    .unwrap();
                Self::Postgres(conn)
            }
        }
    }

    pub(crate) async fn try_run(&mut self, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(conn) => sqlx::query(sql)
                .execute(conn)
                .await
                .map(|done| done.rows_affected()),
            Self::Postgres(conn) => {
                let done = sqlx::query(sql)
                    .execute(&mut *conn)
                    .await
                    .map(|done| done.rows_affected());
                if done.is_err() {
                    // The refusal is told before its transaction lets go of the rows, and a claim passes over a row that is held.
                    sqlx::query("SELECT 1").execute(conn).await.unwrap();
                }
                done
            }
        }
    }

    pub(crate) async fn run(&mut self, sql: &str) -> u64 {
        self.try_run(sql).await.unwrap()
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        let (number,): (i64,) = match self {
            Self::Sqlite(conn) => sqlx::query_as(sql).fetch_one(conn).await.unwrap(),
            Self::Postgres(conn) => sqlx::query_as(sql).fetch_one(conn).await.unwrap(),
        };
        number
    }

    /// What the database says when it refuses `sql`; the name of the guard stands in it.
    pub(crate) async fn refusal(&mut self, sql: &str) -> String {
        match self.try_run(sql).await {
            Ok(changed) => panic!("the database took it ({changed} rows): {sql}"),
            Err(error) => {
                // Postgres sends its refusal before it lets go of the rows; the next answer comes after.
                self.number("SELECT count(*) FROM drafts").await;
                error.to_string()
            }
        }
    }
}
