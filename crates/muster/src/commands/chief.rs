//! `muster chief`. Never starts the chief.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_app::accounts;
use muster_app::chief::{self, ChiefError};
use muster_core::ids::{ChiefId, OwnerId};
use muster_core::text::terminal;
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
            let id = chief::set(app, owner, kind, &command).await.map_err(refused)?;
            if json {
                show(app, owner, true).await?;
            } else {
                let name = name(app, owner).await?;
                output::line(&format!("{name}'s chief is now: {} ({kind})", terminal(&command)))?;
            }
            if let Some(sentence) = missing(app, id, &command) {
                output::notice(&format!("muster: {sentence}"));
            }
            Ok(())
        }
        Chief::Show { owner: whose } => show(app, owner(app, &whose).await?, json).await,
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

async fn name(app: &muster_app::App, owner: OwnerId) -> Result<String, Failure> {
    let owners = accounts::list(app).await?;
    let found = owners.into_iter().find(|one| one.id == owner);
    Ok(found.map_or_else(String::new, |owner| owner.name))
}

/// What is wrong with a chief's command when its first word names no program here.
pub(super) fn missing(app: &muster_app::App, chief: ChiefId, command: &str) -> Option<String> {
    let sentence = format!(
        "the chief's program is not found on this machine: {}",
        terminal(command)
    );
    let Ok(program) = muster_runtime::Program::parse(command) else {
        return Some(sentence);
    };
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let name = Path::new(program.name());
    if name.components().count() > 1 {
        // As it will be started: from its working folder.
        let folder = app.settings.data_dir.join("chiefs").join(chief.to_string());
        return match (executable(&folder.join(name)), name.is_absolute()) {
            (true, _) => None,
            (false, true) => Some(sentence),
            (false, false) => Some(format!(
                "{sentence}. It starts in a folder of its own, so write the whole path"
            )),
        };
    }
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| executable(&dir.join(name))));
    (!on_path).then_some(sentence)
}

async fn show(app: &muster_app::App, owner: OwnerId, json: bool) -> Result<(), Failure> {
    let found = chief::show(app, owner).await?;
    match found {
        Some(chief) if json => output::document(
            &json!({"id": chief.id.to_string(), "runtime": chief.kind.to_string(), "command": chief.command, "created_at": chief.created_at.rfc3339()}),
        ),
        Some(chief) => output::table(
            &["RUNTIME", "COMMAND", "SINCE"],
            &[vec![
                chief.kind.to_string(),
                chief.command,
                chief.created_at.rfc3339(),
            ]],
        ),
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
