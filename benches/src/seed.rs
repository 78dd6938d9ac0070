//! Fills a database the short way, through the store: connectors, messages and drafts as an owner has after months. Never while a server runs on it.

use anyhow::{Context as _, Result};
use muster_core::clock::Time;
use muster_core::secret::TokenKind;
use muster_core::{Clock, Fault, TokenHash};
use muster_store::{Bind as _, Db, Options, Sql, Tx, system};

use crate::server::{OWNER, Place};

static FIND_OWNER: Sql = system("bench.owner", "SELECT id FROM owners WHERE name = $1");
static PLUGIN: Sql = system(
    "bench.plugin",
    "INSERT INTO plugins (owner_id, name, label, data_scope, token_hash, created_at) VALUES ($1, $2, $2, 'the notes', $3, $4) RETURNING id",
);
static CHIEF: Sql = system(
    "bench.chief",
    "INSERT INTO chiefs (owner_id, runtime, command, created_at) VALUES ($1, 'command', 'cat', $2) ON CONFLICT (owner_id) WHERE removed_at IS NULL DO UPDATE SET command = excluded.command RETURNING id",
);
static MESSAGE: Sql = system(
    "bench.message",
    "INSERT INTO messages (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, chief_id, attempts, stored_at, last_attempt_at, delivered_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $8, 'delivered', $11, 1, $7, $7, $7) RETURNING id",
);
static DRAFT: Sql = system(
    "bench.draft",
    "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at, approved_at, claimed_at, lease_until, ended_at, external_ref, detail, decided_via) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING id",
);

/// How many rows one transaction of the filling holds.
const AT_ONCE: usize = 1_000;
/// Six days: what is pending has some left to live.
const LIFE: std::time::Duration = std::time::Duration::from_secs(6 * 24 * 3600);

/// A connector with the text of its token.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) id: i64,
    pub(crate) token: String,
}

/// A filled database.
pub(crate) struct Seeds {
    db: Db,
    owner: i64,
    now: Time,
}

impl Seeds {
    /// Opens the place's database for filling.
    pub(crate) async fn open(place: &Place) -> Result<Self> {
        let db = Db::open(&Options::new(place.url(), place.folder().join("locks"))).await?;
        let owner = db
            .system_read("bench", |tx| {
                Box::pin(async move { tx.number(&FIND_OWNER, (OWNER,)).await })
            })
            .await
            .context("the owner was not found")?;
        Ok(Self {
            db,
            owner,
            now: Clock::system().now(),
        })
    }

    /// Lets go of the database.
    pub(crate) async fn close(self) {
        self.db.close().await;
    }

    /// The owner's id.
    pub(crate) fn owner(&self) -> i64 {
        self.owner
    }

    /// Makes `count` connectors.
    pub(crate) async fn connectors(&self, count: usize) -> Result<Vec<Connector>> {
        let mut tokens = Vec::with_capacity(count);
        for _ in 0..count {
            tokens.push(TokenKind::Plugin.mint()?.expose().to_owned());
        }
        let (owner, now, mut made) = (self.owner, self.now, Vec::with_capacity(count));
        for part in tokens.chunks(AT_ONCE) {
            let (tokens, first) = (part.to_vec(), made.len());
            let some = self
                .db
                .system_write("bench", move |tx| {
                    Box::pin(async move {
                        let mut some = Vec::with_capacity(tokens.len());
                        for (number, token) in tokens.into_iter().enumerate() {
                            let id = tx
                                .number(
                                    &PLUGIN,
                                    (
                                        owner,
                                        format!("connector-{}", first + number),
                                        &TokenHash::of(&token),
                                        now,
                                    ),
                                )
                                .await?;
                            some.push(Connector { id, token });
                        }
                        Ok::<_, Fault>(some)
                    })
                })
                .await?;
            made.extend(some);
        }
        Ok(made)
    }

    /// One delivered message with a pending draft for each connector; answers the drafts' ids in the connectors' order.
    pub(crate) async fn pending(&self, connectors: &[Connector]) -> Result<Vec<i64>> {
        let (chief, mut drafts) = (self.chief().await?, Vec::with_capacity(connectors.len()));
        for part in connectors.chunks(AT_ONCE) {
            let (owner, now, part) = (self.owner, self.now, part.to_vec());
            let some = self
                .db
                .system_write("bench", move |tx| {
                    Box::pin(async move {
                        let mut some = Vec::with_capacity(part.len());
                        for connector in part {
                            let row = Row {
                                owner,
                                chief,
                                plugin: connector.id,
                                number: 0,
                                at: now,
                            };
                            some.push(row.store(tx, State::Pending).await?);
                        }
                        Ok::<_, Fault>(some)
                    })
                })
                .await?;
            drafts.extend(some);
        }
        Ok(drafts)
    }

    /// `count` messages of these connectors, each with a draft that came to one of the six ends.
    pub(crate) async fn archived(&self, connectors: &[Connector], count: usize) -> Result<()> {
        let chief = self.chief().await?;
        let plugins: Vec<i64> = connectors.iter().map(|connector| connector.id).collect();
        let (owner, now) = (self.owner, self.now);
        for from in (0..count).step_by(AT_ONCE) {
            let (to, plugins) = ((from + AT_ONCE).min(count), plugins.clone());
            self.db
                .system_write("bench", move |tx| {
                    Box::pin(async move {
                        for (number, plugin) in
                            (from..to).zip(plugins.iter().copied().cycle().skip(from % plugins.len().max(1)))
                        {
                            let age = std::time::Duration::from_secs(
                                u64::try_from(count - number).unwrap_or(0) * 60,
                            );
                            let row = Row {
                                owner,
                                chief,
                                plugin,
                                number,
                                at: now.minus(age),
                            };
                            row.store(tx, State::ended(number)).await?;
                        }
                        Ok::<_, Fault>(())
                    })
                })
                .await?;
        }
        Ok(())
    }

    async fn chief(&self) -> Result<i64> {
        let (owner, now) = (self.owner, self.now);
        Ok(self
            .db
            .system_write("bench", move |tx| {
                Box::pin(async move { tx.number(&CHIEF, (owner, now)).await })
            })
            .await?)
    }
}

/// A reply's state as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Sent,
    Failed,
    Unconfirmed,
    Rejected,
    Superseded,
    Expired,
}

impl State {
    const ENDS: [Self; 6] = [
        Self::Sent,
        Self::Failed,
        Self::Unconfirmed,
        Self::Rejected,
        Self::Superseded,
        Self::Expired,
    ];

    fn ended(number: usize) -> Self {
        Self::ENDS
            .get(number % Self::ENDS.len())
            .copied()
            .unwrap_or(Self::Sent)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unconfirmed => "unconfirmed",
            Self::Rejected => "rejected",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
        }
    }

    const fn claimed(self) -> bool {
        matches!(self, Self::Sent | Self::Failed | Self::Unconfirmed)
    }
}

/// A message and its draft.
struct Row {
    owner: i64,
    chief: i64,
    plugin: i64,
    number: usize,
    at: Time,
}

impl Row {
    async fn store(&self, tx: &mut Tx, state: State) -> Result<i64, Fault> {
        let number = self.number;
        let message = tx
            .number(
                &MESSAGE,
                (
                    self.owner,
                    self.plugin,
                    format!("seed-{}-{number}", self.at.micros()),
                    format!("Sender {number} <sender{number}@example.org>"),
                    format!("Question {number} about the order"),
                    text(1_000),
                    self.at,
                    false,
                    number.is_multiple_of(2),
                    format!("thread-{number}"),
                    self.chief,
                ),
            )
            .await?;
        let claimed = state.claimed().then_some(self.at);
        tx.number(
            &DRAFT,
            vec![
                self.owner.value(),
                self.plugin.value(),
                message.value(),
                self.chief.value(),
                text(600).value(),
                state.word().value(),
                self.at.value(),
                self.at.plus(LIFE).value(),
                claimed.value(),
                claimed.value(),
                claimed
                    .map(|at| at.plus(std::time::Duration::from_secs(120)))
                    .value(),
                ((state != State::Pending && state != State::Unconfirmed).then_some(self.at)).value(),
                ((state == State::Sent).then(|| format!("<{number}@example.org>"))).value(),
                ((state == State::Failed).then_some("The mail server refused the recipient.")).value(),
                claimed.map(|_| "browser".to_owned()).value(),
            ],
        )
        .await
    }
}

/// Ordinary prose of about `length` bytes.
pub(crate) fn text(length: usize) -> String {
    const SENTENCE: &str = "Thank you for your letter; the parts you ordered left our house on Tuesday and should reach you this week. ";
    SENTENCE.chars().cycle().take(length).collect()
}
