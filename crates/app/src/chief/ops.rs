//! Setting the chief and reading what was said to it. Never runs a turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_core::clock::Time;
use muster_core::ids::{ChiefId, MessageId, OwnerId, PluginId, TurnId};
use muster_core::secret::TokenKind;
use muster_core::text::terminal;
use muster_core::{Fault, Secret};
use muster_runtime::{Kind, Program, Runtime, Settings};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::{ChiefError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

/// Who the chief is.
#[derive(Debug, Clone)]
pub struct Chief {
    /// Its id; a new one with each `set`, so that a replaced chief's deliveries stay its own.
    pub id: ChiefId,
    /// How turns reach it.
    pub kind: Kind,
    /// Its program, one string split as a shell splits words.
    pub command: String,
    /// Since when.
    pub created_at: Time,
}

/// Why a chief's last turn could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    chief: ChiefId,
    /// When it was tried.
    pub at: Time,
    /// Why, on one line; may hold words of the program's, with what cannot be seen spelled out.
    pub reason: String,
}

/// Why the last turn of the owner's chief `chief` could not be started, as far as this process has tried; `None` once one was.
pub fn start_error(app: &App, owner: OwnerId, chief: ChiefId) -> Option<StartError> {
    let error = app.chiefs.stuck().get(&owner).cloned();
    error.filter(|error| error.chief == chief)
}

/// Makes the runtime of a chief.
pub type MakeRuntime = Arc<dyn Fn(&Chief) -> Arc<dyn Runtime> + Send + Sync>;

/// The runtimes of this process, one an owner, made at the chief's first turn. Cloning shares them.
#[derive(Clone, Default)]
pub struct Chiefs {
    running: Arc<Mutex<HashMap<OwnerId, Running>>>,
    /// Chiefs whose last turn could not be started.
    stuck: Arc<Mutex<HashMap<OwnerId, StartError>>>,
    make: Option<MakeRuntime>,
}

/// A chief that has had a turn here.
struct Running {
    chief: ChiefId,
    runtime: Arc<dyn Runtime>,
    /// The token text of a chief whose program lives longer than a turn: another one would start the program anew. Live only during turns.
    token: Option<Secret>,
}

impl Chiefs {
    /// Runtimes made by `make` instead of from the chief's command: a chief at the edge of what a test can reach.
    pub(crate) fn made_by(make: MakeRuntime) -> Self {
        Self {
            make: Some(make),
            ..Self::default()
        }
    }

    /// The runtime of `chief` and the text of its next turn's token: a fresh one, but for `acp`, whose program was started with it, the same
    /// while this process runs. A chief that was replaced, here or by another process, is let go of, and its long-lived child ends.
    pub(super) fn ready(
        &self,
        app: &App,
        owner: OwnerId,
        chief: &Chief,
    ) -> Result<(Arc<dyn Runtime>, Secret), ChiefError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = running.get(&owner).filter(|known| known.chief == chief.id) {
            let token = known
                .token
                .clone()
                .map_or_else(|| TokenKind::Agent.mint(), Ok)
                .map_err(Fault::from)?;
            return Ok((known.runtime.clone(), token));
        }
        let runtime = match &self.make {
            Some(make) => make(chief),
            None => {
                let program = Program::parse(&chief.command).map_err(ChiefError::Program)?;
                let mut settings =
                    Settings::new(app.settings.data_dir.join("chiefs").join(chief.id.to_string()));
                settings.watchdog = app.settings.turn_watchdog;
                muster_runtime::runtime(chief.kind, program, settings)
            }
        };
        let token = TokenKind::Agent.mint().map_err(Fault::from)?;
        let kept = (chief.kind == Kind::Acp).then(|| token.clone());
        running.insert(
            owner,
            Running {
                chief: chief.id,
                runtime: runtime.clone(),
                token: kept,
            },
        );
        Ok((runtime, token))
    }

    /// Keeps why the chief's turn could not be started, and logs it when it is news.
    pub(super) fn not_started(&self, owner: OwnerId, chief: ChiefId, reason: &str, now: Time) {
        let error = StartError {
            chief,
            at: now,
            reason: terminal(reason),
        };
        let old = self.stuck().insert(owner, error);
        if old.is_none_or(|old| old.chief != chief || old.reason != terminal(reason)) {
            tracing::warn!(chief.id = chief.get(), reason = %terminal(reason), "the chief's turn could not be started; its message stays queued");
        }
    }

    /// The chief's turn was started, whatever became of it.
    pub(super) fn started(&self, owner: OwnerId) {
        self.stuck().remove(&owner);
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<OwnerId, StartError>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the owner's chief.
    pub(super) fn forget(&self, owner: OwnerId) {
        self.started(owner);
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&owner);
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    runtime: String,
    command: String,
    created_at: i64,
}

/// The live chief inside a transaction.
///
/// # Errors
/// A fault.
pub(super) async fn live(tx: &mut Tx) -> Result<Option<Chief>, Fault> {
    let row: Option<Row> = tx.optional(&sql::LIVE, ()).await?;
    row.map(|row| {
        let kind = row
            .runtime
            .parse()
            .map_err(|_| Fault::contradiction("chiefs", row.id, "its runtime is none muster has"))?;
        Ok(Chief {
            id: ChiefId::new(row.id),
            kind,
            command: row.command,
            created_at: Time::from_micros(row.created_at),
        })
    })
    .transpose()
}

/// The owner's chief, if there is one.
///
/// # Errors
/// A fault.
pub async fn show(app: &App, owner: OwnerId) -> Result<Option<Chief>, Fault> {
    app.db
        .read(owner, |tx| Box::pin(async move { live(tx).await }))
        .await
}

/// Makes `command` the owner's chief in place of any other. Queued messages go to it at the next claim.
///
/// # Errors
/// [`ChiefError::Program`] when the command cannot be split, or a fault.
pub async fn set(app: &App, owner: OwnerId, kind: Kind, command: &str) -> Result<ChiefId, ChiefError> {
    Program::parse(command).map_err(ChiefError::Program)?;
    let (stored, said, now) = (command.to_owned(), command.to_owned(), app.clock.now());
    let new = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                end_live(tx, now).await?;
                let id = ChiefId::new(tx.number(&sql::INSERT, (kind.to_string(), stored, now)).await?);
                let data = json!({"runtime": kind.to_string(), "command": said});
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "chief.set",
                        actor: "owner".into(),
                        subject: Subject::Chief(id),
                        data,
                    },
                )
                .await?;
                tx.wake(Topic::Owner(owner));
                Ok::<_, ChiefError>(id)
            })
        })
        .await?;
    app.chiefs.forget(owner);
    tracing::info!(owner.id = owner.get(), chief.id = new.get(), runtime = %kind, command = %terminal(command), "a chief was set");
    Ok(new)
}

/// Leaves the owner without a chief: messages wait.
///
/// # Errors
/// [`ChiefError::None`] when there is none, or a fault.
pub async fn remove(app: &App, owner: OwnerId) -> Result<(), ChiefError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let old = end_live(tx, now).await?.ok_or(ChiefError::None)?;
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "chief.removed",
                        actor: "owner".into(),
                        subject: Subject::Chief(old),
                        data: json!({}),
                    },
                )
                .await?;
                tx.wake(Topic::Owner(owner));
                Ok::<_, ChiefError>(())
            })
        })
        .await?;
    app.chiefs.forget(owner);
    Ok(())
}

async fn end_live(tx: &mut Tx, now: Time) -> Result<Option<ChiefId>, Fault> {
    let old: Option<(i64,)> = tx.optional(&sql::REMOVE, (now,)).await?;
    Ok(old.map(|(id,)| ChiefId::new(id)))
}

/// One conversation of the chief's: everything that came through one connector.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The connector.
    pub plugin: PluginId,
    /// The conversation's name: the connector's label.
    pub title: String,
    /// Whether that connector was revoked.
    pub revoked: bool,
    /// How many turns it has.
    pub turns: i64,
    /// When the last one began.
    pub last_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct ConversationRow {
    id: i64,
    label: String,
    revoked_at: Option<i64>,
    turns: i64,
    last_at: Option<i64>,
}

/// The chief's conversations, one a connector.
///
/// # Errors
/// A fault.
pub async fn conversations(app: &App, owner: OwnerId) -> Result<Vec<Conversation>, Fault> {
    let rows: Vec<ConversationRow> = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::CONVERSATIONS, ()).await })
        })
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| Conversation {
            plugin: PluginId::new(row.id),
            title: row.label,
            revoked: row.revoked_at.is_some(),
            turns: row.turns,
            last_at: row.last_at.map(Time::from_micros),
        })
        .collect())
}

/// One turn, as it was sent and answered.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// The message it was about.
    pub message: MessageId,
    /// Which attempt at that message.
    pub attempt: i64,
    /// The whole text the chief was given. Holds outside text.
    pub text: String,
    /// What the chief said. Outside text too.
    pub reply: Option<String>,
    /// `running`, `delivered` or `unconfirmed`.
    pub outcome: String,
    /// Why it broke off.
    pub reason: Option<String>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct TurnRow {
    id: i64,
    message_id: i64,
    attempt: i64,
    text: String,
    reply: Option<String>,
    outcome: String,
    reason: Option<String>,
    started_at: i64,
    ended_at: Option<i64>,
}

/// A conversation's turns, newest first, those before `before`, `limit` at most.
///
/// # Errors
/// A fault.
pub async fn turns(
    app: &App,
    owner: OwnerId,
    plugin: PluginId,
    before: TurnId,
    limit: i64,
) -> Result<Vec<TurnRecord>, Fault> {
    let rows: Vec<TurnRow> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.all(&sql::TURNS, (plugin, before, limit)).await })
        })
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| TurnRecord {
            id: TurnId::new(row.id),
            message: MessageId::new(row.message_id),
            attempt: row.attempt,
            text: row.text,
            reply: row.reply,
            outcome: row.outcome,
            reason: row.reason,
            started_at: Time::from_micros(row.started_at),
            ended_at: row.ended_at.map(Time::from_micros),
        })
        .collect())
}
