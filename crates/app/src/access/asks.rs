//! Asks as their owner sees and answers them. Never answers one twice, and never one that does not wait.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, OwnerId, TaskId, TokenId};
use muster_store::{Topic, Tx};
use serde_json::{Value, json};

use super::gate::statement_of;
use super::presence::{self, Seen};
use super::sql;
use super::state::AskState;
use crate::App;
use crate::audit::{self, Call, Event, Subject};

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
    /// The arguments of the call, as the agent gave them: outside text.
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
}

impl Ask {
    fn caller(&self) -> audit::Caller {
        self.agent.map_or_else(
            || audit::Caller::Session(self.label.clone()),
            audit::Caller::Agent,
        )
    }

    fn caller_json(&self) -> Value {
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

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    state: String,
    kind: String,
    token_id: Option<i64>,
    label: Option<String>,
    session: Option<String>,
    about: Option<String>,
    task_id: Option<i64>,
    title: Option<String>,
    tool: String,
    arguments: String,
    pairs: String,
    created_at: i64,
    expires_at: i64,
    decided_at: Option<i64>,
    decided_by: Option<String>,
}

impl TryFrom<Row> for Ask {
    type Error = Fault;

    fn try_from(row: Row) -> Result<Self, Fault> {
        let broken = |what| Fault::contradiction("asks", row.id, what);
        Ok(Self {
            id: AskId::new(row.id),
            state: AskState::parse(&row.state).ok_or_else(|| broken("its state is none of the five"))?,
            kind: row.kind,
            agent: row.token_id.map(TokenId::new),
            label: row
                .label
                .or(row.session)
                .ok_or_else(|| broken("it is neither an agent's nor a session's"))?,
            about: row
                .about
                .map_or(Ok(Value::Null), |about| serde_json::from_str(&about))
                .map_err(|_| broken("what is told of its tool is not JSON"))?,
            task: row.task_id.map(TaskId::new).zip(row.title),
            tool: row.tool,
            arguments: serde_json::from_str(&row.arguments)
                .map_err(|_| broken("its arguments are not JSON"))?,
            pairs: serde_json::from_str(&row.pairs).map_err(|_| broken("its pairs are not JSON"))?,
            created_at: Time::from_micros(row.created_at),
            expires_at: Time::from_micros(row.expires_at),
            decided_at: row.decided_at.map(Time::from_micros),
            decided_by: row.decided_by,
        })
    }
}

/// Makes real what time, revocations and dead processes have done: asks that nobody answered in time and asks whose callers ended with their
/// process are expired, those of a revoked token are withdrawn. Runs first in every act on asks.
pub(super) async fn lapse(tx: &mut Tx, now: Time, gone: &[i64]) -> Result<(), Fault> {
    let mut ended = !tx.all::<(i64,)>(&sql::EXPIRE, (now,)).await?.is_empty();
    ended |= !tx.all::<(i64,)>(&sql::WITHDRAW_REVOKED, (now,)).await?.is_empty();
    for process in gone {
        tx.run(&sql::CALLERS_GONE, (*process,)).await?;
    }
    for (id,) in tx.all::<(i64,)>(&sql::ABANDONED, ()).await? {
        let id = AskId::new(id);
        let none = None::<String>;
        tx.run(&sql::DECIDE, (id, AskState::Expired.as_str(), now, none))
            .await?;
        // The call's own process would have said so.
        let ask: Row = tx.one(&sql::ASK, (id,)).await?;
        let ask = Ask::try_from(ask)?;
        audit::record_call(tx, now, ended_call(&ask, "refused_expired"));
        ended = true;
    }
    if ended {
        wake(tx);
    }
    Ok(())
}

/// The audit row of a call whose own process cannot write it any more.
fn ended_call(ask: &Ask, outcome: &'static str) -> Call {
    let mut data = json!({
        "agent": ask.caller_json(),
        "task": ask.task.as_ref().map(|(id, title)| json!({"id": id.to_string(), "title": title})),
        "pairs": ask.about.get("pairs").unwrap_or(&ask.pairs),
        "ask_id": ask.id.to_string(),
        "policy": ask.about.get("policy"),
        "decided_by": null,
    });
    if let Some(statement) = statement_of(&ask.tool, &ask.arguments) {
        audit::put_statement(&mut data, &statement);
    }
    Call {
        agent: ask.caller(),
        task: ask.task.as_ref().map(|(id, _)| *id),
        tool: ask.tool.clone(),
        outcome,
        data,
    }
}

pub(super) fn wake(tx: &mut Tx) {
    if let Some(owner) = tx.owner() {
        tx.wake(Topic::Asks(owner));
        tx.wake(Topic::Owner(owner));
    }
}

/// An owner's asks, oldest first: those that wait, or the newest thousand in one state.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId, state: AskState) -> Result<Vec<Ask>, Fault> {
    tidy(app, owner).await?;
    let rows: Vec<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move {
                if state == AskState::Parked {
                    tx.all(&sql::PARKED, ()).await
                } else {
                    tx.all(&sql::IN_STATE, (state.as_str(), i64::MAX, 1_000_i64))
                        .await
                }
            })
        })
        .await?;
    let mut asks: Vec<Ask> = rows.into_iter().map(Ask::try_from).collect::<Result<_, _>>()?;
    asks.sort_by_key(|ask| ask.id);
    Ok(asks)
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

/// Lapses what is due, without a write when nothing is parked.
async fn tidy(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let parked: i64 = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.number(&sql::COUNT_PARKED, ()).await })
        })
        .await?;
    if parked == 0 {
        return Ok(());
    }
    lapse_now(app, owner).await
}

/// Lapses what is due now, in a transaction of its own.
pub(super) async fn lapse_now(app: &App, owner: OwnerId) -> Result<(), Fault> {
    let (Seen { gone, .. }, now) = (presence::look(app, owner).await?, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { lapse(tx, now, &gone).await })
        })
        .await
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
        .write(owner, move |tx| {
            Box::pin(async move {
                lapse(tx, now, &gone).await?;
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
