//! The chief files a reply draft. Never sends, and never files one that nobody could approve.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{ChiefId, DraftId, MessageId, OwnerId, PluginId};
use muster_core::screen::screen;
use muster_core::text::ReplyBody;
use muster_store::Tx;
use serde_json::json;

use super::state::{LIFETIME, PENDING_CAP};
use super::{FileRefusal, lapse, sql};
use crate::App;
use crate::accounts::AgentCaller;
use crate::audit::{self, Event, Subject};
use crate::notices;

/// A draft that now awaits the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filed {
    /// Its id.
    pub id: DraftId,
    /// How many pending drafts of the same message it took the place of.
    pub superseded: usize,
}

#[derive(sqlx::FromRow)]
struct Message {
    plugin_id: i64,
    state: String,
    chief_id: Option<i64>,
    no_reply: bool,
    sender_verified: bool,
}

/// Files `body` as the reply to `message`, in place of a pending draft of the same message. A draft of the chief's that a rule refused is
/// written into the audit log, without its text.
///
/// # Errors
/// [`FileRefusal`]; nothing was filed then.
pub async fn file(
    app: &App,
    caller: &AgentCaller,
    message: MessageId,
    body: &str,
) -> Result<Filed, FileRefusal> {
    let filed = try_file(app, caller, message, body).await;
    if let Err(refusal) = &filed
        && let Some(rule) = rule(refusal)
    {
        // The rule does its work; nobody need look.
        tracing::info!(message.id = message.get(), code = rule, "a draft was refused");
        if app.refusals.told(caller.owner, rule, app.clock.now()) {
            return filed;
        }
        if let Err(fault) = note_refusal(app, caller.owner, message, rule).await {
            tracing::error!(message.id = message.get(), error = %fault.chain(), "a refused draft could not be written into the audit log");
        }
    }
    filed
}

/// When each rule last refused each owner's chief and was written down: a chief that tries again and again writes sixty rows an hour at most.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<HashMap<(OwnerId, &'static str), Hour>>>);

/// When an hour began and how many refusals there were in it.
type Hour = (Time, u32);

impl Refusals {
    /// Whether this refusal need not be written down: the same rule was, sixty times within the hour.
    fn told(&self, owner: OwnerId, rule: &'static str, now: Time) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = last.entry((owner, rule)).or_insert((now, 0));
        if now.since(*since) >= HOUR {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > AN_HOUR
    }
}

/// Refusals by one rule that are written down in an hour.
const AN_HOUR: u32 = 60;
const HOUR: Duration = Duration::from_secs(3_600);

/// The word for the rule that refused a draft of the chief's; `None` for what is none: no chief, no plugins, a fault.
const fn rule(refusal: &FileRefusal) -> Option<&'static str> {
    match refusal {
        FileRefusal::NoSuchMessage => Some("not_found"),
        FileRefusal::NoReply => Some("no_reply"),
        FileRefusal::Body(_) => Some("invalid_argument"),
        FileRefusal::Screened(_) => Some("screened"),
        FileRefusal::InFlight => Some("in_flight"),
        FileRefusal::TooMany => Some("too_many_pending"),
        FileRefusal::Off | FileRefusal::NotChief | FileRefusal::Fault(_) => None,
    }
}

/// A transaction of its own: that of the draft went back with whatever it had done.
async fn note_refusal(
    app: &App,
    owner: OwnerId,
    message: MessageId,
    rule: &'static str,
) -> Result<(), Fault> {
    let now = app.clock.now();
    let event = Event {
        name: "plugin.draft.refused",
        actor: "chief".into(),
        subject: Subject::Message(message),
        data: json!({"message": message.get(), "code": rule}),
    };
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { audit::record(tx, now, event).await })
        })
        .await
}

async fn try_file(
    app: &App,
    caller: &AgentCaller,
    message: MessageId,
    body: &str,
) -> Result<Filed, FileRefusal> {
    if !app.settings.plugins {
        return Err(FileRefusal::Off);
    }
    let chief = caller.chief.ok_or(FileRefusal::NotChief)?;
    let body = ReplyBody::parse("body", body)?;
    let body = screened(app, body).await?;
    let (owner, now) = (caller.owner, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { store(tx, owner, chief, message, body, now).await })
        })
        .await
}

/// Screens off the async threads: the worst reply of 16 KiB against many deny words takes longer than a server may stand still.
async fn screened(app: &App, body: ReplyBody) -> Result<ReplyBody, FileRefusal> {
    let settings = app.settings.clone();
    let (verdict, body) =
        tokio::task::spawn_blocking(move || (screen(body.as_str(), &settings.deny_words), body))
            .await
            .map_err(|e| Fault::other("a reply could not be screened").because(e))?;
    verdict?;
    Ok(body)
}

async fn store(
    tx: &mut Tx,
    owner: OwnerId,
    chief: ChiefId,
    message: MessageId,
    body: ReplyBody,
    now: Time,
) -> Result<Filed, FileRefusal> {
    lapse::lapse(tx, owner, now).await?;
    let still: Option<(i64,)> = tx.optional(&sql::CHIEF, (chief,)).await?;
    still.ok_or(FileRefusal::NotChief)?;
    let found: Message = tx
        .optional(&sql::MESSAGE, (message,))
        .await?
        .ok_or(FileRefusal::NoSuchMessage)?;
    if found.chief_id != Some(chief.get()) || !matches!(found.state.as_str(), "delivering" | "delivered") {
        return Err(FileRefusal::NoSuchMessage);
    }
    if found.no_reply {
        return Err(FileRefusal::NoReply);
    }
    if tx.number(&sql::IN_FLIGHT, (message,)).await? > 0 {
        return Err(FileRefusal::InFlight);
    }
    if tx.number(&sql::PENDING_ELSEWHERE, (chief, message)).await? >= PENDING_CAP {
        return Err(FileRefusal::TooMany);
    }
    let replaced: Vec<(i64,)> = tx.all(&sql::SUPERSEDE_PENDING, (message, now)).await?;
    let plugin = PluginId::new(found.plugin_id);
    let inserted = tx
        .number(
            &sql::INSERT,
            (plugin, message, chief, body.as_str(), now, now.plus(LIFETIME)),
        )
        .await;
    let id = DraftId::new(inserted.map_err(refused_by_guard)?);
    for (old,) in &replaced {
        tx.run(&sql::SUPERSEDED_BY, (DraftId::new(*old), id)).await?;
    }
    notices::clear_message(tx, owner, message, now).await?;
    let data = json!({"message": message.get(), "superseded": replaced.len()});
    audit::record(
        tx,
        now,
        Event {
            name: "plugin.draft.filed",
            actor: "chief".into(),
            subject: Subject::Draft(id),
            data,
        },
    )
    .await?;
    notices::draft_waits(tx, owner, id, !found.sender_verified, now).await?;
    Ok(Filed {
        id,
        superseded: replaced.len(),
    })
}

/// The database's own guard speaks when the check above is wrong; it says the same.
fn refused_by_guard(fault: Fault) -> FileRefusal {
    match fault.constraint() {
        Some("drafts_no_reply_message") => FileRefusal::NoReply,
        _ => FileRefusal::Fault(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chief_that_tries_again_and_again_fills_no_audit_log() {
        let refusals = Refusals::default();
        let (ada, bob) = (OwnerId::new(1), OwnerId::new(2));
        let at = |minutes: i64| Time::from_micros(minutes * 60_000_000);
        let written = |owner, rule, minutes| {
            (0..1_000)
                .filter(|_| !refusals.told(owner, rule, at(minutes)))
                .count()
        };
        assert_eq!(written(ada, "screened", 0), 60);
        assert_eq!(written(ada, "screened", 59), 0, "the hour is not over");
        assert_eq!(written(ada, "not_found", 0), 60, "another rule counts apart");
        assert_eq!(written(bob, "screened", 0), 60, "and another owner");
        assert_eq!(written(ada, "screened", 60), 60, "the next hour");
    }
}
