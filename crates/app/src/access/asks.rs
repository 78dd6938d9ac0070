//! Asks as their owner sees and answers them. Never answers one twice, never one that does not wait, and never says yes to what cannot be shown.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId, TaskId, TokenId};
use muster_store::Tx;
use serde_json::{Value, json};

use super::lapsing::{lapse, lapse_now, wake};
use super::presence::{self, Seen};
use super::row::Row;
use super::sql;
use super::state::AskState;
use crate::App;
use crate::audit::{self, Event, Subject};

/// An ask as it is shown: what exactly is asked, by whom, until when.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Its id.
    pub id: AskId,
    /// Where it stands.
    pub state: AskState,
    /// `permission` or `plugin_tool`.
    pub kind: String,
    /// The token that the agent called with; a session without one is known by its id alone.
    pub agent: Option<TokenId>,
    /// What the owner calls that agent, or the session's id. Outside text.
    pub label: String,
    /// The agent's task and its title.
    pub task: Option<(TaskId, String)>,
    /// The tool.
    pub tool: String,
    /// The arguments of the call, as the agent gave them: outside text. Null where they are unreadable.
    pub arguments: Value,
    /// What is told of a plugin package's tool besides: `{"plugin","server","description","reason"}`, the description outside text.
    /// Of a permission `{"pairs","policy"}` as they were decided when it was put, for a row that nobody else can write any more.
    pub about: Value,
    /// Every pair that the call charges, with the names as they were.
    pub pairs: Value,
    /// Since when it waits.
    pub created_at: Time,
    /// Until when it waits.
    pub expires_at: Time,
    /// When it was decided or ended.
    pub decided_at: Option<Time>,
    /// The person who decided.
    pub decided_by: Option<String>,
    /// What of it is stored and cannot be read, in words; null stands in its place.
    pub unreadable: Vec<&'static str>,
}

impl Ask {
    pub(super) fn caller(&self) -> audit::Caller {
        self.agent.map_or_else(
            || audit::Caller::Session(self.label.clone()),
            audit::Caller::Agent,
        )
    }

    pub(super) fn caller_json(&self) -> Value {
        json!({"id": self.agent.map(|id| id.to_string()), "label": self.label})
    }

    /// The ask as `--json` and pages' scripts print it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "state": self.state.as_str(),
            "kind": self.kind,
            "agent": self.caller_json(),
            "task": self.task.as_ref().map(|(id, title)| json!({"id": id.to_string(), "title": title})),
            "tool": self.tool,
            "arguments": self.arguments,
            "pairs": self.pairs,
            "created_at": self.created_at.rfc3339(),
            "expires_at": self.expires_at.rfc3339(),
            "decided_at": self.decided_at.map(Time::rfc3339),
            "decided_by": self.decided_by,
        })
    }
}

/// Why an ask was not answered. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No such ask.
    #[error("there is no such ask; muster asks list shows those that wait")]
    NotFound,
    /// It does not wait any more.
    #[error("the ask was already decided or has ended: it is {}; nothing was changed", .0.as_str())]
    AlreadyDecided(AskState),
    /// What it asks for cannot be shown, so nobody can say yes to it.
    #[error("{} of the ask cannot be read, so nobody can tell what it asks for; it was not approved, and nothing was changed. Refuse it instead: `muster asks refuse` does", .0.join(" and "))]
    Unreadable(Vec<&'static str>),
    /// Something broke.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// How a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// On a page.
    Page,
    /// On the command line.
    CommandLine,
}

impl Decider {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::CommandLine => "command line",
        }
    }
}

/// How many asks are read at once.
const PAGE: i64 = 1_000;

/// An owner's asks in one state, all of them, oldest first.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId, state: AskState) -> Result<Vec<Ask>, Fault> {
    tidy(app, owner).await?;
    let mut asks: Vec<Ask> = Vec::new();
    loop {
        let before = asks.last().map_or(i64::MAX, |ask| ask.id.get());
        let page: Vec<Row> = app
            .db
            .read(owner, move |tx| {
                Box::pin(async move {
                    if state == AskState::Parked {
                        tx.all(&sql::PARKED, ()).await
                    } else {
                        tx.all(&sql::IN_STATE, (state.as_str(), before, PAGE)).await
                    }
                })
            })
            .await?;
        // Those that wait are few, and come at once.
        let more = state != AskState::Parked && i64::try_from(page.len()).is_ok_and(|read| read == PAGE);
        for row in page {
            asks.push(Ask::try_from(row)?);
        }
        if !more {
            break;
        }
    }
    asks.sort_by_key(|ask| ask.id);
    Ok(asks)
}

/// Asks that wait no more, the newest first.
#[derive(Debug)]
pub struct Ended {
    /// They.
    pub asks: Vec<Ask>,
    /// Where older ones begin, when there are any.
    pub older: Option<AskId>,
}

/// A page of the asks that were approved, refused, expired or withdrawn: at most `limit` with a smaller id than `before`.
///
/// # Errors
/// A fault.
pub async fn ended(app: &App, owner: OwnerId, before: AskId, limit: usize) -> Result<Ended, Fault> {
    tidy(app, owner).await?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
    let mut rows: Vec<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.all(&sql::ENDED, (before, most)).await })
        })
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let asks = rows
        .into_iter()
        .map(Ask::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Ended {
        older: asks.last().filter(|_| more).map(|ask| ask.id),
        asks,
    })
}

/// Ends what time, revocations and dead processes have ended, so that the audit log is whole before it is read.
///
/// # Errors
/// A fault.
pub async fn settle(app: &App, owner: OwnerId) -> Result<(), Fault> {
    tidy(app, owner).await
}

/// One ask.
///
/// # Errors
/// [`AskError::NotFound`].
pub async fn show(app: &App, owner: OwnerId, id: AskId) -> Result<Ask, AskError> {
    tidy(app, owner).await?;
    let row: Option<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::ASK, (id,)).await })
        })
        .await?;
    Ok(row.map(Ask::try_from).ok_or(AskError::NotFound)??)
}

/// Lapses what is due, without a write when nothing can be.
async fn tidy(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let open: i64 = app
        .db
        .read(owner, |tx| {
            Box::pin(async move {
                let parked = tx.number(&sql::COUNT_PARKED, ()).await?;
                Ok::<_, Fault>(parked + tx.number(&sql::COUNT_CALLERS, ()).await?)
            })
        })
        .await?;
    if open == 0 {
        return Ok(());
    }
    lapse_now(app, owner).await
}

/// Says yes to a call: it goes on, and matching ones for 60 seconds from now. The policy is asked once more before anything runs.
///
/// # Errors
/// [`AskError`].
pub async fn approve(app: &App, owner: OwnerId, id: AskId, decider: Decider) -> Result<(), AskError> {
    decide(app, owner, id, decider, AskState::Approved, "ask.approve").await
}

/// Says no to a call. It opens no window: the same call asks again.
///
/// # Errors
/// [`AskError`].
pub async fn refuse(app: &App, owner: OwnerId, id: AskId, decider: Decider) -> Result<(), AskError> {
    decide(app, owner, id, decider, AskState::Refused, "ask.refuse").await
}

async fn decide(
    app: &App,
    owner: OwnerId,
    id: AskId,
    decider: Decider,
    state: AskState,
    event: &'static str,
) -> Result<(), AskError> {
    let Seen { gone, .. } = presence::look(app, owner).await?;
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, "asks", owner.get(), move |tx| {
            Box::pin(async move {
                lapse(tx, now, &gone).await?;
                if state == AskState::Approved
                    && let Some(unreadable) = unreadable(tx, id).await?
                {
                    return Ok(Err(AskError::Unreadable(unreadable)));
                }
                let (name,): (String,) = tx.one(&sql::OWNER_NAME, ()).await?;
                let decided = tx
                    .run(&sql::DECIDE, (id, state.as_str(), now, Some(name.as_str())))
                    .await?;
                if decided != 1 {
                    // What lapsed meanwhile stays lapsed, so this is an answer and no failure of the transaction.
                    let found: Option<(String, Option<String>)> = tx.optional(&sql::STATE, (id,)).await?;
                    return Ok(match found {
                        None => Err(AskError::NotFound),
                        Some((word, _)) => {
                            let state = AskState::parse(&word)
                                .ok_or_else(|| Fault::contradiction("asks", id.get(), "its state is none of the five"))?;
                            Err(AskError::AlreadyDecided(state))
                        }
                    });
                }
                let event = Event {
                    name: event,
                    actor: "owner".to_owned(),
                    subject: Subject::Ask(id),
                    data: json!({"ask_id": id.to_string(), "decided_by": name, "decided_via": decider.as_str()}),
                };
                audit::record(tx, now, event).await?;
                wake(tx);
                Ok::<_, Fault>(Ok(()))
            })
        })
        .await?
}

/// What of a parked ask cannot be shown to whoever would say yes to it.
async fn unreadable(tx: &mut Tx, id: AskId) -> Result<Option<Vec<&'static str>>, Fault> {
    let row: Option<Row> = tx.optional(&sql::ASK, (id,)).await?;
    let ask = row.map(Ask::try_from).transpose()?;
    Ok(ask
        .filter(|ask| ask.state == AskState::Parked && !ask.unreadable.is_empty())
        .map(|ask| ask.unreadable))
}

/// Withdraws the asks of a task that is being closed, in the transaction that closes it: their calls end. Answers how many that were.
///
/// # Errors
/// A fault; the task must then not be closed.
pub(crate) async fn task_closed(tx: &mut Tx, task: TaskId, now: Time) -> Result<usize, Fault> {
    let withdrawn = tx.all::<(i64,)>(&sql::WITHDRAW_OF_TASK, (task, now)).await?;
    if !withdrawn.is_empty() {
        wake(tx);
    }
    Ok(withdrawn.len())
}

/// Expires asks nobody answered and forgets processes that are gone, without anybody asking, so that pages and the queue are truthful.
///
/// # Errors
/// A fault; the sweep runs again.
pub async fn sweep(app: &App) -> Result<(), Fault> {
    let owners: Vec<(i64,)> = app
        .db
        .system_read("sweep of asks", |tx| {
            Box::pin(async move { tx.all(&sql::BUSY_OWNERS, ()).await })
        })
        .await?;
    let mut gone = Vec::new();
    for (owner,) in &owners {
        let owner = OwnerId::new(*owner);
        lapse_now(app, owner).await?;
        gone.append(&mut presence::look(app, owner).await?.gone);
    }
    for process in app.process.long_gone(&gone) {
        for (owner,) in &owners {
            app.db
                .write(OwnerId::new(*owner), move |tx| {
                    Box::pin(async move { tx.run(&sql::APPROVERS_GONE, (process,)).await })
                })
                .await
                .map(|_| ())?;
        }
    }
    Ok(())
}
