//! `muster token`. Never prints a token but the one it has just made.

use muster_app::accounts::{self, TokenError};
use muster_core::ids::{TaskId, TokenId};
use muster_core::secret;
use muster_core::text::{AgentLabel, Label};
use serde_json::{Value, json};

use super::{field, moment, moment_text, offline, owner};
use crate::cli::{Token, TokenKind};
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Token, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &muster_app::App, command: Token, json: bool) -> Result<(), Failure> {
    match command {
        Token::Create {
            owner: whose,
            kind,
            label,
            task: Some(task),
            ..
        } => {
            if !matches!(kind, TokenKind::Agent) {
                return Err(Failure::usage("--task is for tokens of --kind agent"));
            }
            let label = AgentLabel::parse("label", label).map_err(|e| field(&e))?;
            let owner = owner(app, &whose).await?;
            let task: TaskId = task.parse().map_err(|_| refused(TokenError::NoTask))?;
            let made = accounts::create_agent_token(app, owner, label, task)
                .await
                .map_err(refused)?;
            created(&made, json)
        }
        Token::Create {
            owner: whose,
            kind,
            label,
            host,
            task: None,
        } => {
            let label = Label::parse("label", label).map_err(|e| field(&e))?;
            let host = host
                .map(|host| Label::parse("host", host))
                .transpose()
                .map_err(|e| field(&e))?;
            let kind = match kind {
                TokenKind::Personal => secret::TokenKind::Personal,
                TokenKind::MirrorHost => secret::TokenKind::MirrorHost,
                TokenKind::Agent => secret::TokenKind::Agent,
            };
            if kind == secret::TokenKind::MirrorHost && host.is_none() {
                return Err(Failure::usage(
                    "a mirror-host token is for one host; name it with --host",
                ));
            }
            let owner = owner(app, &whose).await?;
            let made = accounts::create_token(app, owner, kind, label, host)
                .await
                .map_err(refused)?;
            if kind == secret::TokenKind::Agent {
                output::notice(
                    "muster: the token is for no task, so the built-in policy closed governs it: its agent is refused every call that charges something. Name a task with --task to let it work under the task's policy",
                );
            }
            created(&made, json)
        }
        Token::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let tokens = accounts::tokens(app, owner).await?;
            if json {
                let all: Vec<Value> = tokens
                    .iter()
                    .map(|t| {
                        json!({"id": t.id.to_string(), "kind": t.kind, "label": t.label, "host": t.host, "task": t.task.as_ref().map(|task| json!({"id": task.id.to_string(), "title": task.title})), "created_at": t.created_at.rfc3339(),
                               "last_used_at": moment(t.last_used_at), "revoked_at": moment(t.revoked_at)})
                    })
                    .collect();
                return output::document(&Value::Array(all));
            }
            let rows: Vec<Vec<String>> = tokens
                .iter()
                .map(|t| {
                    let state = if t.revoked_at.is_some() { "revoked" } else { "live" };
                    vec![
                        t.id.to_string(),
                        t.kind.clone(),
                        t.label.clone(),
                        t.host.clone().unwrap_or_default(),
                        t.task
                            .as_ref()
                            .map(|task| format!("{} {}", task.id, task.title))
                            .unwrap_or_default(),
                        state.to_owned(),
                        moment_text(t.last_used_at),
                    ]
                })
                .collect();
            output::table(
                &["ID", "KIND", "LABEL", "HOST", "TASK", "STATE", "LAST USED"],
                &rows,
            )
        }
        Token::Revoke { owner: whose, id } => {
            let owner = owner(app, &whose).await?;
            let id: TokenId = id.parse().map_err(|_| refused(TokenError::NotFound))?;
            accounts::revoke_token(app, owner, id).await.map_err(refused)?;
            if json {
                output::document(&json!({"id": id.to_string(), "revoked": true}))
            } else {
                Ok(())
            }
        }
    }
}

fn created(made: &accounts::NewToken, json: bool) -> Result<(), Failure> {
    if json {
        output::document(&json!({"id": made.id.to_string(), "token": made.token.expose()}))
    } else {
        output::line(made.token.expose())
    }
}

fn refused(error: TokenError) -> Failure {
    match error {
        TokenError::Label(_) => Failure::usage(error.to_string()),
        TokenError::NotFound | TokenError::NoTask => Failure::refused("not_found", error.to_string()),
        TokenError::Fault(fault) => fault.into(),
    }
}
