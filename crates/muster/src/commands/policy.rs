//! `muster policy`. Never decides: it edits, shows and explains.

mod documents;
mod explain;
mod shown;

use muster_app::App;
use muster_app::policies::{self, Chosen, Edit, PolicyError, Shown, WhenShared, WhenThere};
use muster_core::ids::{OwnerId, PolicyId, TaskId};
use muster_core::text::terminal;
use muster_policy::LayerName;
use serde_json::{Value, json};

use super::{offline, owner, project};
use crate::cli::{self, LayerArgs, OwnerArg};
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) use documents::read;
use documents::{import, one_exported};
use explain::{explain, questions, whose_answer};
use shown::{actions, grant_rows, in_full, presets};

pub(super) async fn run(config: &Config, command: cli::Policy, json: bool) -> Result<(), Failure> {
    match command {
        // Neither needs a database.
        cli::Policy::Actions => return actions(json),
        cli::Policy::Presets => return presets(json),
        _ => {}
    }
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Policy, json: bool) -> Result<(), Failure> {
    use cli::Policy as P;
    match command {
        P::Actions => actions(json),
        P::Presets => presets(json),
        P::Create { owner: whose, name } => {
            let owner = owner(app, &whose).await?;
            let id = policies::create(app, owner, &name).await.map_err(refused)?;
            made(app, owner, id, json).await
        }
        P::List { owner: whose } => list(app, &whose, json).await,
        P::Show { owner: whose, policy } => {
            let owner = owner(app, &whose).await?;
            let chosen = policies::find(app, owner, &policy).await.map_err(refused)?;
            let shown = policies::show(app, owner, chosen).await.map_err(refused)?;
            if json { document(&shown) } else { in_full(&shown) }
        }
        P::Delete {
            owner: whose,
            policy,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let id = own(app, owner, &policy).await?;
            policies::delete(app, owner, id, revision)
                .await
                .map_err(refused)?;
            said(json, || json!({"id": id.to_string(), "deleted": true}))
        }
        P::Grant {
            edit,
            action,
            scope,
            effect,
        } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::grant(app, owner, edit, &action, &scope, &effect)
                .await
                .map_err(refused)?;
            // It is made; what keeps it or others from firing is worth knowing, and no reason to fail.
            for why in policies::remarks(app, owner, edit, &action, &scope)
                .await
                .unwrap_or_default()
            {
                output::notice(&format!("muster: the grant was stored, but {}", terminal(&why)));
            }
            changed(app, owner, edit.policy, json).await
        }
        P::Revoke { edit, action, scope } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::revoke(app, owner, edit, &action, &scope)
                .await
                .map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::ClearLayer { edit } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::clear_layer(app, owner, edit).await.map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::SaveEmpty { edit } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::save_empty(app, owner, edit).await.map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::Fork {
            owner: whose,
            policy,
            name,
            task,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let task = task.map(|word| task_id(&word)).transpose()?;
            let id = own(app, owner, &policy).await?;
            let forked = policies::fork(app, owner, id, revision, &name, task)
                .await
                .map_err(refused)?;
            made(app, owner, forked.id, json).await
        }
        P::Attach {
            owner: whose,
            policy,
            task,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let task = task_id(&task)?;
            let chosen = policies::find(app, owner, &policy).await.map_err(refused)?;
            policies::attach(app, owner, chosen.clone(), revision, task)
                .await
                .map_err(refused)?;
            let shown = policies::show(app, owner, chosen).await.map_err(refused)?;
            if json { document(&shown) } else { Ok(()) }
        }
        P::ApplyPreset {
            edit,
            preset,
            project,
            force,
            dry_run,
        } => {
            let (owner, edit) = editing(app, &edit).await?;
            let project = project::find(app, owner, &project).await?.id;
            if dry_run {
                let grants = policies::preview(app, owner, edit, &preset, project)
                    .await
                    .map_err(refused)?;
                return if json {
                    document(&json!({"grants": grants}))
                } else {
                    grant_rows(&grants)
                };
            }
            let shared = if force {
                WhenShared::Write
            } else {
                WhenShared::Refuse
            };
            policies::apply_preset(app, owner, edit, &preset, project, shared)
                .await
                .map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::Export {
            owner: whose,
            policies: words,
        } => {
            let owner = owner(app, &whose).await?;
            let all = policies::export(app, owner, words).await.map_err(refused)?;
            document(&json!({"policies": all}))
        }
        P::Import {
            owner: whose,
            file,
            replace,
            revision,
        } => {
            let there = if replace {
                WhenThere::Replace
            } else {
                WhenThere::Refuse
            };
            import(app, &whose, &file, there, revision, json).await
        }
        P::Explain {
            owner: whose,
            policy,
            task,
            action,
            resource,
            from,
        } => {
            let owner = owner(app, &whose).await?;
            if let Some(file) = from {
                return questions(app, owner, &file).await;
            }
            let whose = whose_answer(app, owner, policy, task).await?;
            explain(app, owner, whose, action.zip(resource), json).await
        }
        P::Simulate {
            owner: whose,
            policy,
            with,
        } => {
            let owner = owner(app, &whose).await?;
            let id = own(app, owner, &policy).await?;
            let changed = one_exported(&read(&with)?)?;
            let found = policies::simulate(app, owner, id, changed)
                .await
                .map_err(refused)?;
            if json {
                return document(&found);
            }
            let rows: Vec<Vec<String>> = found
                .iter()
                .map(|one| {
                    vec![
                        one.audit_id.clone(),
                        one.tool.clone(),
                        one.was.to_owned(),
                        one.would_be.to_owned(),
                    ]
                })
                .collect();
            output::table(&["AUDIT ID", "TOOL", "WAS", "WOULD BE"], &rows)
        }
    }
}

fn document<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(|error| Failure::refused("io", error.to_string()))?;
    output::document(&value)
}

fn said(json: bool, value: impl FnOnce() -> Value) -> Result<(), Failure> {
    if json { output::document(&value()) } else { Ok(()) }
}

async fn list(app: &App, whose: &OwnerArg, json: bool) -> Result<(), Failure> {
    let owner = owner(app, whose).await?;
    let all = policies::list(app, owner).await?;
    if json {
        let all: Vec<Value> = all
            .iter()
            .map(|one| json!({"id": one.id.to_string(), "name": one.name, "revision": one.revision}))
            .collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| vec![one.id.to_string(), one.name.clone(), one.revision.to_string()])
        .collect();
    output::table(&["ID", "NAME", "REVISION"], &rows)
}

fn task_id(word: &str) -> Result<TaskId, Failure> {
    word.parse().map_err(|_| refused(PolicyError::NoSuchTask))
}

/// A policy of the owner's, which can be edited; the built-in one cannot.
async fn own(app: &App, owner: OwnerId, word: &str) -> Result<PolicyId, Failure> {
    match policies::find(app, owner, word).await.map_err(refused)? {
        Chosen::Own(found) => Ok(found.id),
        Chosen::Closed => Err(refused(PolicyError::BuiltIn)),
    }
}

async fn editing(app: &App, args: &LayerArgs) -> Result<(OwnerId, Edit), Failure> {
    let layer: LayerName = args
        .layer
        .parse()
        .map_err(|error: muster_policy::Invalid| Failure::usage(error.to_string()))?;
    let owner = owner(app, &args.owner).await?;
    let policy = own(app, owner, &args.policy).await?;
    let edit = Edit {
        policy,
        layer,
        revision: args.revision,
    };
    Ok((owner, edit))
}

async fn show_own(app: &App, owner: OwnerId, id: PolicyId) -> Result<Shown, Failure> {
    let chosen = policies::find(app, owner, &id.to_string())
        .await
        .map_err(refused)?;
    policies::show(app, owner, chosen).await.map_err(refused)
}

async fn made(app: &App, owner: OwnerId, id: PolicyId, json: bool) -> Result<(), Failure> {
    if json {
        document(&show_own(app, owner, id).await?)
    } else {
        output::line(&id.to_string())
    }
}

async fn changed(app: &App, owner: OwnerId, id: PolicyId, json: bool) -> Result<(), Failure> {
    if json {
        document(&show_own(app, owner, id).await?)
    } else {
        Ok(())
    }
}

/// A refusal of a policy's, for the command line.
pub(super) fn refused(error: PolicyError) -> Failure {
    if let PolicyError::Fault(fault) = error {
        return fault.into();
    }
    if error.is_usage() {
        return Failure::usage(error.to_string());
    }
    let failure = Failure::refused(error.code(), error.to_string());
    match error.dependents() {
        Some(dependents) => {
            let dependents = serde_json::to_value(dependents).unwrap_or(Value::Null);
            failure.with("dependents", dependents)
        }
        None => failure,
    }
}
