//! Personal, mirror host and agent tokens: made, listed, revoked, and let in at their own door. Never shown twice.

use muster_core::clock::Time;
use muster_core::ids::{ChiefId, OwnerId, TaskId, TokenId};
use muster_core::secret::TokenKind;
use muster_core::text::{AgentLabel, Label};
use muster_core::{Fault, Secret, TokenHash};
use serde_json::json;

use super::state::SEEN_EVERY;
use super::{TokenError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

/// A script of the owner's, or the shared hook token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonalCaller {
    /// Whom it acts for.
    pub owner: OwnerId,
}

/// An agent; the chief during one of its turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCaller {
    /// Whose agent.
    pub owner: OwnerId,
    /// Its token.
    pub token: TokenId,
    /// The chief this token was made for, while that is the owner's chief.
    pub chief: Option<ChiefId>,
    /// The task this token was made for. Its policy decides what the agent may do; an agent without a task has none.
    pub task: Option<TaskId>,
    /// What the owner calls it. Outside text.
    pub label: String,
}

/// A mirror host's daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorCaller {
    /// Whose host.
    pub owner: OwnerId,
    /// Its token.
    pub token: TokenId,
    /// The host's name.
    pub host: String,
}

/// A token just made, with the only copy of its text.
#[derive(Debug)]
pub struct NewToken {
    /// Its id.
    pub id: TokenId,
    /// The text: shown once, never stored.
    pub token: Secret,
}

/// A token as its owner sees it.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// `personal`, `mirror-host` or `agent`.
    pub kind: String,
    /// What the owner calls it.
    pub label: String,
    /// The host it is for.
    pub host: Option<String>,
    /// The task it is for.
    pub task: Option<TokenTask>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
}

/// The task of an agent's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTask {
    /// Its id.
    pub id: TaskId,
    /// Its title. Outside text.
    pub title: String,
}

/// The stored word of a kind. Connector tokens live with their connectors.
fn word(kind: TokenKind) -> Option<&'static str> {
    match kind {
        TokenKind::Personal => Some("personal"),
        TokenKind::MirrorHost => Some("mirror-host"),
        TokenKind::Agent => Some("agent"),
        TokenKind::Plugin => None,
    }
}

/// Makes a token of the owner's.
///
/// # Errors
/// A fault; also for [`TokenKind::Plugin`], which `plugins::create` makes.
pub async fn create_token(
    app: &App,
    owner: OwnerId,
    kind: TokenKind,
    label: Label,
    host: Option<Label>,
) -> Result<NewToken, TokenError> {
    let stored = word(kind).ok_or_else(|| Fault::other("a connector's token is made with its connector"))?;
    let token = kind.mint().map_err(Fault::from)?;
    let (hash, now) = (TokenHash::of(token.expose()), app.clock.now());
    let id = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                let id = TokenId::new(
                    tx.number(
                        &sql::INSERT_TOKEN,
                        (
                            stored,
                            &hash,
                            label.as_str(),
                            host.as_ref().map(Label::as_str),
                            now,
                        ),
                    )
                    .await?,
                );
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "token.created",
                        actor: "owner".into(),
                        subject: Subject::Token(id),
                        data: json!({"kind": stored}),
                    },
                )
                .await?;
                Ok::<_, Fault>(id)
            })
        })
        .await?;
    Ok(NewToken { id, token })
}

/// Makes the token of an agent that works on a task.
///
/// # Errors
/// [`TokenError::NoTask`] for a missing, another owner's or a closed task; a fault.
pub async fn create_agent_token(
    app: &App,
    owner: OwnerId,
    label: AgentLabel,
    task: TaskId,
) -> Result<NewToken, TokenError> {
    let token = TokenKind::Agent.mint().map_err(Fault::from)?;
    let (hash, now) = (TokenHash::of(token.expose()), app.clock.now());
    let id = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                let made: Option<(i64,)> = tx
                    .optional(&sql::INSERT_TASK_TOKEN, (&hash, label.as_str(), now, task))
                    .await?;
                let id = TokenId::new(made.ok_or(TokenError::NoTask)?.0);
                let event = Event {
                    name: "token.created",
                    actor: "owner".into(),
                    subject: Subject::Token(id),
                    data: json!({"kind": "agent", "task": task.to_string()}),
                };
                audit::record(tx, now, event).await?;
                Ok::<_, TokenError>(id)
            })
        })
        .await?;
    Ok(NewToken { id, token })
}

#[derive(sqlx::FromRow)]
struct ListRow {
    id: i64,
    kind: String,
    label: String,
    host: Option<String>,
    task_id: Option<i64>,
    task_title: Option<String>,
    created_at: i64,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
}

/// The owner's tokens, oldest first, revoked ones too; a turn's own token is none of them.
///
/// # Errors
/// A fault.
pub async fn tokens(app: &App, owner: OwnerId) -> Result<Vec<Token>, Fault> {
    let rows: Vec<ListRow> = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::TOKENS, ()).await })
        })
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| Token {
            id: TokenId::new(row.id),
            kind: row.kind,
            label: row.label,
            host: row.host,
            task: row.task_id.zip(row.task_title).map(|(id, title)| TokenTask {
                id: TaskId::new(id),
                title,
            }),
            created_at: Time::from_micros(row.created_at),
            last_used_at: row.last_used_at.map(Time::from_micros),
            revoked_at: row.revoked_at.map(Time::from_micros),
        })
        .collect())
}

/// Revokes a token: it is refused from now on.
///
/// # Errors
/// [`TokenError::NotFound`] for a missing, another owner's or already revoked one.
pub async fn revoke_token(app: &App, owner: OwnerId, token: TokenId) -> Result<(), TokenError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let (kind,): (String,) = tx
                    .optional(&sql::REVOKE_TOKEN, (token, now))
                    .await?
                    .ok_or(TokenError::NotFound)?;
                let event = Event {
                    name: "token.revoked",
                    actor: "owner".into(),
                    subject: Subject::Token(token),
                    data: json!({"kind": kind}),
                };
                audit::record(tx, now, event).await?;
                Ok(())
            })
        })
        .await
}

#[derive(sqlx::FromRow)]
struct Found {
    id: i64,
    owner_id: i64,
    label: String,
    host: Option<String>,
    last_used_at: Option<i64>,
    chief_id: Option<i64>,
    task_id: Option<i64>,
}

async fn find(app: &App, kind: TokenKind, token: &str) -> Result<Option<Found>, Fault> {
    let (Some(stored), true) = (word(kind), kind.matches(token)) else {
        return Ok(None);
    };
    let hash = TokenHash::of(token);
    let found: Option<Found> = app
        .db
        .system_read("token look-up", move |tx| {
            Box::pin(async move { tx.optional(&sql::TOKEN, (&hash, stored)).await })
        })
        .await?;
    if let Some(found) = &found {
        let (now, owner, id) = (
            app.clock.now(),
            OwnerId::new(found.owner_id),
            TokenId::new(found.id),
        );
        if found
            .last_used_at
            .is_none_or(|used| now.since(Time::from_micros(used)) >= SEEN_EVERY)
        {
            app.db
                .write(owner, move |tx| {
                    Box::pin(async move { tx.run(&sql::TOKEN_USED, (id, now)).await })
                })
                .await
                .map(|_| ())?;
        }
    }
    Ok(found)
}

/// Whose personal token this is, if it is live.
///
/// # Errors
/// A fault.
pub async fn personal(app: &App, token: &str) -> Result<Option<PersonalCaller>, Fault> {
    Ok(find(app, TokenKind::Personal, token)
        .await?
        .map(|found| PersonalCaller {
            owner: OwnerId::new(found.owner_id),
        }))
}

/// Which agent this token is of, if it is live.
///
/// # Errors
/// A fault.
pub async fn agent(app: &App, token: &str) -> Result<Option<AgentCaller>, Fault> {
    Ok(find(app, TokenKind::Agent, token)
        .await?
        .map(|found| AgentCaller {
            owner: OwnerId::new(found.owner_id),
            token: TokenId::new(found.id),
            chief: found.chief_id.map(ChiefId::new),
            task: found.task_id.map(TaskId::new),
            label: found.label,
        }))
}

/// Which mirror host this token is of, if it is live.
///
/// # Errors
/// A fault.
pub async fn mirror(app: &App, token: &str) -> Result<Option<MirrorCaller>, Fault> {
    Ok(find(app, TokenKind::MirrorHost, token)
        .await?
        .map(|found| MirrorCaller {
            owner: OwnerId::new(found.owner_id),
            token: TokenId::new(found.id),
            host: found.host.unwrap_or_default(),
        }))
}
