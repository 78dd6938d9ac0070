//! The messages' acts: accept, begin and settle a delivery, retry. Never runs a turn.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::exchange::NewMessage;
use muster_core::ids::{ChiefId, MessageId, OwnerId, PluginId};
use muster_core::text::{Sender, Subject as SubjectLine, ThreadId};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::state::{self, HOUR, HOURLY_CAP, MessageState, RetryFacts, Status, UNDELIVERED_CAP};
use super::{MessageError, RetryRefusal, sql};
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::plugins::{self, PluginCaller};

/// The stored message: a new one, or the one that an earlier send of the same external id stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub id: MessageId,
    /// What a connector is told.
    pub status: Status,
    /// Whether this call stored it.
    pub new: bool,
    /// Whether this call stored it and the owner has a chief to hand it to.
    pub deliverable: bool,
}

/// Stores a message once and answers only when it is durable. A repeat changes nothing and is answered even past the caps.
/// The caller starts the delivery of a deliverable one.
///
/// # Errors
/// [`MessageError`]; nothing was stored then.
pub async fn accept(app: &App, caller: &PluginCaller, message: NewMessage) -> Result<Accepted, MessageError> {
    let (caller, now) = (caller.clone(), app.clock.now());
    app.db
        // In turn: two messages of one connector cannot both be the last that a cap allows.
        .write_in_turn(caller.owner, "plugin", caller.plugin.get(), move |tx| {
            Box::pin(async move {
                let external_id = message.external_id.as_str().to_owned();
                let inserted: Option<(i64, i64)> = insert(tx, caller.plugin, message, now).await?;
                if let Some((id, chiefs)) = inserted {
                    tx.wake(Topic::Owner(caller.owner));
                    return Ok(Ok(Accepted {
                        id: MessageId::new(id),
                        status: Status::Queued,
                        new: true,
                        deliverable: chiefs > 0,
                    }));
                }
                plugins::touch(tx, &caller, now).await?;
                let stored: Option<(i64, String)> = tx
                    .optional(&sql::BY_EXTERNAL_ID, (caller.plugin, external_id))
                    .await?;
                // A cap stores nothing, but the connector was seen: the transaction commits either way.
                Ok::<_, MessageError>(match stored {
                    Some((id, word)) => Ok(Accepted {
                        id: MessageId::new(id),
                        status: read_state(id, &word)?.status(),
                        new: false,
                        deliverable: false,
                    }),
                    None => Err(cap(tx, caller.plugin, now).await?),
                })
            })
        })
        .await?
}

async fn insert(
    tx: &mut Tx,
    plugin: PluginId,
    message: NewMessage,
    now: Time,
) -> Result<Option<(i64, i64)>, Fault> {
    tx.optional(
        &sql::INSERT,
        (
            plugin,
            message.external_id.as_str(),
            message.sender.as_ref().map(Sender::as_str),
            message.subject.as_ref().map(SubjectLine::as_str),
            message.body.as_str(),
            message.received_at,
            message.no_reply,
            message.sender_verified,
            message.thread.as_ref().map(ThreadId::as_str),
            message.human_conversation,
            now,
            now.minus(HOUR),
            HOURLY_CAP,
            UNDELIVERED_CAP,
        ),
    )
    .await
}

/// Which cap stopped the insert. The hour's comes first: it says exactly when to come back.
async fn cap(tx: &mut Tx, plugin: PluginId, now: Time) -> Result<MessageError, Fault> {
    let oldest: Option<(i64,)> = tx
        .optional(&sql::OLDEST_COUNTED, (plugin, now.minus(HOUR), HOURLY_CAP - 1))
        .await?;
    Ok(match oldest {
        Some((stored_at,)) => MessageError::HourlyCap {
            retry_after: state::hourly_retry_after(Time::from_micros(stored_at), now),
        },
        None => MessageError::UndeliveredCap {
            retry_after: state::UNDELIVERED_RETRY,
        },
    })
}

fn read_state(id: i64, word: &str) -> Result<MessageState, Fault> {
    MessageState::parse(word)
        .ok_or_else(|| Fault::contradiction("messages", id, "its state is none of the four"))
}

/// A message as its turn needs it.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) plugin_id: i64,
    pub(crate) sender: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) body: String,
    pub(crate) received_at: Option<i64>,
    pub(crate) no_reply: bool,
    pub(crate) sender_verified: bool,
    pub(crate) attempts: i64,
    pub(crate) retries: i64,
    pub(crate) stored_at: i64,
    #[sqlx(skip)]
    pub(crate) plugin_label: String,
    #[sqlx(skip)]
    pub(crate) data_scope: String,
}

/// The oldest queued message of a live connector after `after`.
///
/// # Errors
/// A fault.
pub(crate) async fn next_queued(
    app: &App,
    owner: OwnerId,
    after: MessageId,
) -> Result<Option<MessageId>, Fault> {
    let row: Option<(i64,)> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::NEXT_QUEUED, (after,)).await })
        })
        .await?;
    Ok(row.map(|(id,)| MessageId::new(id)))
}

/// `queued` -> `delivering`: `None` when somebody else has it, or its connector was revoked.
///
/// # Errors
/// A fault.
pub(crate) async fn begin_delivery(
    tx: &mut Tx,
    message: MessageId,
    chief: ChiefId,
    now: Time,
) -> Result<Option<Stored>, Fault> {
    let begun: Option<Stored> = tx.optional(&sql::BEGIN, (message, chief, now)).await?;
    let Some(mut stored) = begun else { return Ok(None) };
    let (label, data_scope): (String, String) = tx.one(&sql::PLUGIN_WORDS, (stored.plugin_id,)).await?;
    stored.plugin_label = label;
    stored.data_scope = data_scope;
    Ok(Some(stored))
}

/// Settles what an earlier muster left `delivering` to this chief when it stopped. Only the holder of the chief's lock may call it.
///
/// # Errors
/// A fault.
pub(crate) async fn settle_left_over(tx: &mut Tx, chief: ChiefId, now: Time) -> Result<(), Fault> {
    let left: Vec<(i64, i64)> = tx.all(&sql::LEFT_OVER, (chief,)).await?;
    for (id, attempts) in left {
        let data =
            json!({"outcome": "unconfirmed", "attempt": attempts, "chief": chief.get(), "recovered": true});
        audit::record(
            tx,
            now,
            Event {
                name: "plugin.delivered",
                actor: "muster".into(),
                subject: Subject::Message(MessageId::new(id)),
                data,
            },
        )
        .await?;
    }
    Ok(())
}

/// What is known of a delivery when its turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Delivered,
    Unconfirmed,
    /// Nothing was sent; not a settled delivery, so it leaves no audit row.
    Queued,
}

/// Ends attempt number `attempt` of a message. A message that somebody else settled meanwhile stays as it is.
///
/// # Errors
/// A fault.
pub(crate) async fn settle(
    tx: &mut Tx,
    message: MessageId,
    attempt: i64,
    chief: ChiefId,
    settled: Settled,
    now: Time,
) -> Result<(), Fault> {
    let (changed, outcome) = match settled {
        Settled::Delivered => (
            tx.run(&sql::SETTLE_DELIVERED, (message, attempt, now)).await?,
            "delivered",
        ),
        Settled::Unconfirmed => (
            tx.run(&sql::SETTLE_UNCONFIRMED, (message, attempt)).await?,
            "unconfirmed",
        ),
        Settled::Queued => return tx.run(&sql::SETTLE_QUEUED, (message, attempt)).await.map(|_| ()),
    };
    if changed == 1 {
        let data = json!({"outcome": outcome, "attempt": attempt, "chief": chief.get()});
        audit::record(
            tx,
            now,
            Event {
                name: "plugin.delivered",
                actor: "muster".into(),
                subject: Subject::Message(message),
                data,
            },
        )
        .await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct RetryRow {
    state: String,
    revoked_at: Option<i64>,
    chiefs: i64,
}

/// Puts an unconfirmed message back into the queue on the owner's word. `via` says where the word was given. The caller starts the delivery.
///
/// # Errors
/// [`RetryRefusal`]; nothing was changed then.
pub async fn retry(
    app: &App,
    owner: OwnerId,
    message: MessageId,
    via: &'static str,
) -> Result<(), RetryRefusal> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let row: RetryRow = tx
                    .optional(&sql::FOR_RETRY, (message,))
                    .await?
                    .ok_or(RetryRefusal::NotFound)?;
                let acted: Option<(String,)> = tx.optional(&sql::ACTED, (message,)).await?;
                state::may_retry(RetryFacts {
                    state: read_state(message.get(), &row.state)?,
                    acted: acted.map(|(word,)| draft_word(&word)),
                    revoked: row.revoked_at.is_some(),
                    chief: row.chiefs > 0,
                })?;
                let retries = tx.number(&sql::RETRY, (message,)).await?;
                let data = json!({"retry": retries, "via": via});
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "plugin.retried",
                        actor: "owner".into(),
                        subject: Subject::Message(message),
                        data,
                    },
                )
                .await?;
                tx.wake(Topic::Owner(owner));
                Ok(())
            })
        })
        .await
}

fn draft_word(word: &str) -> &'static str {
    match word {
        "pending" => "pending",
        "approved" => "approved",
        "sent" => "sent",
        _ => "unconfirmed",
    }
}

/// A message the chief may have read, for `/plugins`.
#[derive(Debug, Clone)]
pub struct Unconfirmed {
    /// Its id.
    pub id: MessageId,
    /// Its connector's label.
    pub plugin_label: String,
    /// Whether that connector was revoked.
    pub plugin_revoked: bool,
    /// Outside text.
    pub sender: Option<String>,
    /// Whether the connector proved the sender.
    pub sender_verified: bool,
    /// Outside text.
    pub subject: Option<String>,
    /// When muster stored it.
    pub stored_at: Time,
    /// How many turns were begun with it.
    pub attempts: i64,
}

#[derive(sqlx::FromRow)]
struct UnconfirmedRow {
    id: i64,
    label: String,
    revoked_at: Option<i64>,
    sender: Option<String>,
    sender_verified: bool,
    subject: Option<String>,
    stored_at: i64,
    attempts: i64,
}

/// The owner's unconfirmed messages, oldest first, 500 at most.
///
/// # Errors
/// A fault.
pub async fn unconfirmed(app: &App, owner: OwnerId) -> Result<Vec<Unconfirmed>, Fault> {
    let rows: Vec<UnconfirmedRow> = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::UNCONFIRMED, ()).await })
        })
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| Unconfirmed {
            id: MessageId::new(row.id),
            plugin_label: row.label,
            plugin_revoked: row.revoked_at.is_some(),
            sender: row.sender,
            sender_verified: row.sender_verified,
            subject: row.subject,
            stored_at: Time::from_micros(row.stored_at),
            attempts: row.attempts,
        })
        .collect())
}
