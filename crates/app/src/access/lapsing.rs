//! What time, revocations and dead processes have done to asks, made real. Never lets a call that waited end without an audit row, nor with two.
//!
//! Whoever removes a call's row from the waiting writes how that call ended, in the same transaction: its own process as long as it lives, and
//! the first that finds it gone afterwards.

use std::collections::HashSet;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::asks::Ask;
use super::gate::Wanted;
use super::presence::{self, Seen};
use super::queue::Place;
use super::row::{Partial, Row};
use super::sql;
use super::state::AskState;
use crate::App;
use crate::audit::{self, Call};

/// Makes real what time, revocations and dead processes have done: asks that nobody answered in time and asks whose callers ended with their
/// process are expired, those of a revoked token are withdrawn, and each call of a process that is gone gets its audit row, whatever became of
/// its ask. Runs first in every act on asks.
pub(super) async fn lapse(tx: &mut Tx, now: Time, gone: &[i64]) -> Result<(), Fault> {
    let mut ended = !tx.all::<(i64,)>(&sql::EXPIRE, (now,)).await?.is_empty();
    ended |= !tx.all::<(i64,)>(&sql::WITHDRAW_REVOKED, (now,)).await?.is_empty();
    let mut left: Vec<(i64, i64)> = Vec::new();
    for process in gone {
        left.append(&mut tx.all(&sql::CALLERS_GONE, (*process,)).await?);
    }
    left.sort_unstable();
    let mut calls: Vec<i64> = left.iter().map(|(_, ask)| *ask).collect();
    let known: HashSet<i64> = calls.iter().copied().collect();
    for (id,) in tx.all::<(i64,)>(&sql::ABANDONED, ()).await? {
        let none = None::<String>;
        let state = AskState::Expired.as_str();
        if tx.run(&sql::DECIDE, (AskId::new(id), state, now, none)).await? == 1 {
            ended = true;
            // One that an earlier version parked: nothing is left of its call but the ask.
            if !known.contains(&id) {
                calls.push(id);
            }
        }
    }
    for id in calls {
        let row: Row = tx.one(&sql::ASK, (AskId::new(id),)).await?;
        let Partial { ask, state } = row.into();
        if state.is_none() || !ask.unreadable.is_empty() {
            // It ends like the others, in a row that says what it can.
            tracing::error!(ask = %ask.id, "an ask whose call ended cannot be read whole; its audit row holds what can be");
        }
        audit::record_call(tx, now, ended_call(&ask, state));
    }
    if ended {
        wake(tx);
    }
    Ok(())
}

/// The audit row of a call whose own process cannot write it any more. One that was approved did not go on: nothing ran.
fn ended_call(ask: &Ask, state: Option<AskState>) -> Call {
    let outcome = match state {
        Some(AskState::Refused) => "refused_by_person",
        Some(AskState::Approved | AskState::Withdrawn) => "withdrawn",
        Some(AskState::Expired | AskState::Parked) => "refused_expired",
        None => "refused_error",
    };
    let decided_by = ask
        .decided_by
        .as_ref()
        .filter(|_| state == Some(AskState::Refused));
    let mut data = json!({
        "agent": ask.caller_json(),
        "task": ask.task.as_ref().map(|(id, title)| json!({"id": id.to_string(), "title": title})),
        "pairs": ask.about.get("pairs").unwrap_or(&ask.pairs),
        "ask_id": ask.id.to_string(),
        "policy": ask.about.get("policy"),
        "decided_by": decided_by,
    });
    if let Some(facts) = data.as_object_mut()
        && (state.is_none() || !ask.unreadable.is_empty())
    {
        let state = state.is_none().then_some("its state");
        let parts: Vec<&str> = state.into_iter().chain(ask.unreadable.iter().copied()).collect();
        facts.insert("unreadable".to_owned(), json!(parts));
    }
    Wanted::of(&ask.tool, &ask.arguments).put(&mut data);
    Call {
        agent: ask.caller(),
        task: ask.task.as_ref().map(|(id, _)| *id),
        tool: ask.tool.clone(),
        outcome,
        data,
    }
}

/// Takes a call out of the waiting. False when it was taken out already: its process was held for gone, and its audit row is written.
pub(super) async fn leaves(tx: &mut Tx, place: Place) -> Result<bool, Fault> {
    Ok(tx.run(&sql::LEAVE, (place.caller,)).await? == 1)
}

/// Ends an ask that is parked and that no call besides this one waits for.
pub(super) async fn ends_alone(tx: &mut Tx, now: Time, place: Place, state: AskState) -> Result<(), Fault> {
    if tx.number(&sql::CALLERS_LEFT, (place.ask, place.caller)).await? == 0 {
        let none = None::<String>;
        tx.run(&sql::DECIDE, (place.ask, state.as_str(), now, none))
            .await?;
        wake(tx);
    }
    Ok(())
}

/// Lapses what is due now, in a transaction of its own.
pub(super) async fn lapse_now(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let (Seen { gone, .. }, now) = (presence::look(app, owner).await?, app.clock.now());
    app.db
        .write_in_turn(owner, "asks", owner.get(), move |tx| {
            Box::pin(async move { lapse(tx, now, &gone).await })
        })
        .await
}

pub(super) fn wake(tx: &mut Tx) {
    if let Some(owner) = tx.owner() {
        tx.wake(Topic::Asks(owner));
        tx.wake(Topic::Owner(owner));
    }
}
