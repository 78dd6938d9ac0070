//! Handing a message to the chief: one turn at a time, its state committed before it starts. Never holds a transaction while a turn runs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use muster_core::clock::Time;
use muster_core::fence::Nonce;
use muster_core::ids::{ChiefId, MessageId, OwnerId, PluginId, TurnId};
use muster_core::{Fault, FaultKind, Secret, TokenHash};
use muster_runtime::{Outcome, Turn};
use muster_store::{HeldLock, Topic, Tx};

use super::ops::{self, Chief};
use super::{sql, turn};
use crate::App;
use crate::messages::{self, Settled};

/// How a delivery ended. `Pending` is the texts' word for "nothing was sent": the message is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The chief's turn completed.
    Delivered,
    /// It broke off; the chief may have read the message.
    Unconfirmed,
    /// There is no chief, it could not be started, or it is busy.
    Pending,
    /// Somebody else has the message, or its connector was revoked.
    NotOurs,
}

/// A turn that is committed and about to start.
struct Begun {
    id: TurnId,
    attempt: i64,
    plugin: PluginId,
    title: String,
    text: String,
    token: Secret,
}

/// Starts the delivery of one message beside the request that stored or retried it.
pub fn start_delivery(app: &App, owner: OwnerId, message: MessageId) {
    let work = app.clone();
    app.tasks.spawn(async move {
        if let Err(fault) = deliver(&work, owner, message).await {
            tracing::error!(message.id = message.get(), error = %fault.chain(), "a delivery failed inside muster");
        }
    });
}

/// Hands the owner's queued messages to the chief, oldest first, until one cannot be taken; at most one such run an owner in this process.
/// Started by every claim, and by nothing else.
pub fn start_retry_queue(app: &App, owner: OwnerId) {
    // The key holds the app's identity, since one process may serve several databases in tests.
    let key = (Arc::as_ptr(&app.settings) as usize, owner);
    {
        let mut runs = runs().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(again) = runs.get_mut(&key) {
            // A claim that comes while a run is ending must not be lost.
            *again = true;
            return;
        }
        runs.insert(key, false);
    }
    let work = app.clone();
    let run = Run { key };
    app.tasks.spawn(async move {
        loop {
            if let Err(fault) = retry_queue(&work, owner).await {
                tracing::warn!(owner.id = owner.get(), error = %fault.chain(), "handing queued messages to the chief failed; the next claim tries again");
            }
            if !run.again() {
                return;
            }
        }
    });
}

type Runs = HashMap<(usize, OwnerId), bool>;

/// The runs of this process, and for each whether a claim came while it was at work.
fn runs() -> &'static Mutex<Runs> {
    static RUNS: OnceLock<Mutex<Runs>> = OnceLock::new();
    RUNS.get_or_init(Mutex::default)
}

/// A run's entry, gone when the run ends in whatever way: one that stayed would keep the owner's queue from ever being handed over.
struct Run {
    key: (usize, OwnerId),
}

impl Run {
    /// Whether a claim came meanwhile; if not, the entry is gone in the same step.
    fn again(&self) -> bool {
        let mut runs = runs().lock().unwrap_or_else(PoisonError::into_inner);
        match runs.get_mut(&self.key) {
            Some(again) if *again => {
                *again = false;
                true
            }
            _ => {
                runs.remove(&self.key);
                false
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Nothing is left to remove after `again` said no, unless a new run has begun since: that one's entry is its own to end.
        if std::thread::panicking() {
            runs()
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&self.key);
        }
    }
}

async fn retry_queue(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let mut after = MessageId::new(0);
    let stop = app.tasks.stopping();
    while let Some(message) = messages::next_queued(app, owner, after).await? {
        if stop.is_cancelled() || deliver(app, owner, message).await? == Delivery::Pending {
            return Ok(());
        }
        after = message;
    }
    Ok(())
}

/// Hands one message to the owner's chief and waits until the turn has ended.
///
/// # Errors
/// A fault of muster's own; the message's state then says what is known.
pub async fn deliver(app: &App, owner: OwnerId, message: MessageId) -> Result<Delivery, Fault> {
    let Some(chief) = ops::show(app, owner).await? else {
        app.chiefs.forget(owner);
        return Ok(Delivery::Pending);
    };
    let Some(_seat) = Seat::take(app, chief.id) else {
        return Ok(Delivery::Pending);
    };
    let Some(mut lock) = app.db.locks().try_take("chief", chief.id.get()).await? else {
        return Ok(Delivery::Pending);
    };
    let delivery = with_lock(app, owner, &chief, message, &mut lock).await;
    // The next delivery may come at once, and must not find this one's lock still held.
    lock.release().await;
    delivery
}

/// The delivery itself, while the chief's lock is held.
async fn with_lock(
    app: &App,
    owner: OwnerId,
    chief: &Chief,
    message: MessageId,
    lock: &mut HeldLock,
) -> Result<Delivery, Fault> {
    let (runtime, token) = match app.chiefs.ready(app, owner, chief) {
        Ok(ready) => ready,
        Err(error) => {
            let now = app.clock.now();
            app.chiefs.not_started(owner, chief.id, &error.to_string(), now);
            return Ok(Delivery::Pending);
        }
    };
    let Some(begun) = begin(app, owner, chief, message, token).await? else {
        return Ok(Delivery::NotOurs);
    };
    let turn = Turn {
        conversation: format!("muster-{owner}-{}", begun.plugin),
        title: begun.title.clone(),
        text: begun.text.clone(),
        mcp_url: app.settings.mcp_url.clone(),
        agent_token: begun.token.clone(),
    };
    let stop = app.tasks.stopping();
    // Dropping the turn's future ends the child, so a stop of muster does not leave one behind that still acts.
    let outcome = tokio::select! {
        outcome = runtime.turn(turn) => outcome,
        () = stop.cancelled() => Outcome::BrokenOff { reason: "muster was stopped during this turn".into() },
    };
    if !lock.still_held().await {
        tracing::warn!(
            chief.id = chief.id.get(),
            "the connection that held the chief's lock was lost during a turn"
        );
    }
    end(app, owner, chief.id, message, begun, outcome).await
}

/// Commits `delivering`, the turn's record and its token, and settles what an earlier stop left over.
async fn begin(
    app: &App,
    owner: OwnerId,
    chief: &Chief,
    message: MessageId,
    token: Secret,
) -> Result<Option<Begun>, Fault> {
    let nonce = Nonce::fresh()?;
    let (hash, now, chief_id) = (TokenHash::of(token.expose()), app.clock.now(), chief.id);
    let begun = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                messages::settle_left_over(tx, chief_id, now).await?;
                tx.run(&sql::TURNS_LEFT_OVER, (chief_id, now)).await?;
                tx.run(&sql::FORGET_CHIEF_TOKENS, (chief_id,)).await?;
                // The chief may have been replaced since it was looked up; a replaced chief gets no new turn.
                if ops::live(tx).await?.is_none_or(|live| live.id != chief_id) {
                    return Ok::<_, Fault>(None);
                }
                let Some(stored) = messages::begin_delivery(tx, message, chief_id, now).await? else {
                    return Ok(None);
                };
                let text = turn::compose(&stored, &nonce, now);
                let plugin = PluginId::new(stored.plugin_id);
                let id = TurnId::new(
                    tx.number(
                        &sql::INSERT_TURN,
                        (plugin, message, chief_id, stored.attempts, text.as_str(), now),
                    )
                    .await?,
                );
                tx.run(&sql::INSERT_TURN_TOKEN, (&hash, chief_id, id, now))
                    .await?;
                tx.wake(Topic::Owner(owner));
                Ok(Some((id, stored.attempts, plugin, stored.plugin_label, text)))
            })
        })
        .await?;
    Ok(begun.map(|(id, attempt, plugin, title, text)| Begun {
        id,
        attempt,
        plugin,
        title,
        text,
        token,
    }))
}

/// Commits what is known of the turn, and ends its token.
async fn end(
    app: &App,
    owner: OwnerId,
    chief: ChiefId,
    message: MessageId,
    begun: Begun,
    outcome: Outcome,
) -> Result<Delivery, Fault> {
    let now: Time = app.clock.now();
    match &outcome {
        Outcome::NotStarted { reason } => app.chiefs.not_started(owner, chief, reason, now),
        Outcome::Completed { .. } | Outcome::BrokenOff { .. } => app.chiefs.started(owner),
    }
    let (settled, word, reply, reason) = match outcome {
        Outcome::Completed { reply } => (Settled::Delivered, "delivered", Some(reply), None),
        Outcome::BrokenOff { reason } => (Settled::Unconfirmed, "unconfirmed", None, Some(reason)),
        Outcome::NotStarted { reason } => (Settled::Queued, "", None, Some(reason)),
    };
    // Both engines refuse NUL in text, and a chief's words are outside text.
    let reply = reply.map(|text| text.replace('\0', "\u{fffd}"));
    let reason = reason.map(|text| text.replace('\0', "\u{fffd}"));
    let record = Record {
        message,
        chief,
        turn: begun.id,
        attempt: begun.attempt,
        settled,
        word,
        reply,
        reason,
        now,
    };
    settle_until_stored(app, owner, record).await?;
    Ok(match settled {
        Settled::Delivered => Delivery::Delivered,
        Settled::Unconfirmed => Delivery::Unconfirmed,
        Settled::Queued => Delivery::Pending,
    })
}

/// What is to be stored of a turn that has ended.
#[derive(Clone)]
struct Record {
    message: MessageId,
    chief: ChiefId,
    turn: TurnId,
    attempt: i64,
    settled: Settled,
    word: &'static str,
    reply: Option<String>,
    reason: Option<String>,
    now: Time,
}

/// Stores the end of a turn, again and again while the database cannot: what is known must not be forgotten because a disk was full or
/// another process held the database. The chief's lock is held meanwhile. Gives up when muster is stopped.
async fn settle_until_stored(app: &App, owner: OwnerId, record: Record) -> Result<(), Fault> {
    let stop = app.tasks.stopping();
    let mut pause = Duration::from_millis(500);
    loop {
        let record = record.clone();
        let stored = app
            .db
            .write(owner, move |tx| {
                Box::pin(async move { settle(tx, owner, record).await })
            })
            .await;
        let Err(fault) = stored else { return Ok(()) };
        let passing = matches!(
            fault.kind(),
            FaultKind::Unavailable | FaultKind::StorageFull | FaultKind::ReadOnly
        );
        if !passing || stop.is_cancelled() {
            return Err(fault);
        }
        tracing::warn!(error = %fault.chain(), "the end of a turn could not be stored yet; it is tried again");
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(Duration::from_secs(15));
    }
}

async fn settle(tx: &mut Tx, owner: OwnerId, record: Record) -> Result<(), Fault> {
    messages::settle(
        tx,
        record.message,
        record.attempt,
        record.chief,
        record.settled,
        record.now,
    )
    .await?;
    tx.run(&sql::FORGET_TURN_TOKEN, (record.turn,)).await?;
    if record.settled == Settled::Queued {
        tx.run(&sql::FORGET_TURN, (record.turn,)).await?;
    } else {
        tx.run(
            &sql::END_TURN,
            (record.turn, record.word, record.reply, record.reason, record.now),
        )
        .await?;
    }
    tx.wake(Topic::Owner(owner));
    Ok(())
}

/// The one place at a chief within this process; the lock beside it keeps other processes out.
struct Seat {
    key: (usize, ChiefId),
}

fn seats() -> &'static Mutex<HashSet<(usize, ChiefId)>> {
    static SEATS: OnceLock<Mutex<HashSet<(usize, ChiefId)>>> = OnceLock::new();
    SEATS.get_or_init(Mutex::default)
}

impl Seat {
    fn take(app: &App, chief: ChiefId) -> Option<Self> {
        let key = (Arc::as_ptr(&app.settings) as usize, chief);
        let free = seats().lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        // Made only when the place was free: a second one would give the first one's place back as it is dropped.
        free.then(|| Self { key })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        seats()
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}
