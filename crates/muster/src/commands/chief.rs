//! `muster chief`. Never starts the chief.

use muster_app::chief::{self, ChiefError};
use muster_runtime::Kind;
use serde_json::{Value, json};

use super::{offline, owner};
use crate::cli::{Chief, Runtime};
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Chief, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &muster_app::App, command: Chief, json: bool) -> Result<(), Failure> {
    match command {
        Chief::Set {
            owner: whose,
            runtime,
            command,
        } => {
            let kind = match runtime {
                Runtime::Command => Kind::Command,
                Runtime::ClaudeCode => Kind::ClaudeCode,
                Runtime::Acp => Kind::Acp,
            };
            let command = match (command, kind) {
                (Some(command), _) => command,
                (None, Kind::ClaudeCode) => "claude".to_owned(),
                (None, _) => {
                    return Err(Failure::usage(
                        "say which program your chief is with --command 'PROGRAM ARGS…'",
                    ));
                }
            };
            let owner = owner(app, &whose).await?;
            chief::set(app, owner, kind, &command).await.map_err(refused)?;
            show(app, owner, json, false).await
        }
        Chief::Show { owner: whose } => show(app, owner(app, &whose).await?, json, true).await,
        Chief::Remove { owner: whose } => {
            chief::remove(app, owner(app, &whose).await?)
                .await
                .map_err(refused)?;
            if json {
                output::document(&json!({"chief": Value::Null}))
            } else {
                Ok(())
            }
        }
    }
}

async fn show(
    app: &muster_app::App,
    owner: muster_core::ids::OwnerId,
    json: bool,
    aloud: bool,
) -> Result<(), Failure> {
    let found = chief::show(app, owner).await?;
    match found {
        Some(chief) if json => output::document(
            &json!({"id": chief.id.to_string(), "runtime": chief.kind.to_string(), "command": chief.command, "created_at": chief.created_at.rfc3339()}),
        ),
        Some(chief) if aloud => output::table(
            &["RUNTIME", "COMMAND", "SINCE"],
            &[vec![
                chief.kind.to_string(),
                chief.command,
                chief.created_at.rfc3339(),
            ]],
        ),
        Some(_) => Ok(()),
        None => Err(refused(ChiefError::None)),
    }
}

fn refused(error: ChiefError) -> Failure {
    match error {
        ChiefError::Program(_) => Failure::usage(error.to_string()),
        ChiefError::None => Failure::refused("not_found", error.to_string()),
        ChiefError::Fault(fault) => fault.into(),
    }
}
