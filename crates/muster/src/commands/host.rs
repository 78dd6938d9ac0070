//! `muster host`. Never reaches one.

use muster_app::App;
use muster_app::hosts::{self, Host, HostError};
use muster_core::ids::OwnerId;
use serde_json::{Value, json};

use super::{offline, owner, shown};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: cli::Host, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Host, json: bool) -> Result<(), Failure> {
    match command {
        cli::Host::Add { name, owner: whose } => {
            let name = shown::name(name)?;
            let owner = owner(app, &whose).await?;
            let added = hosts::add(app, owner, name).await.map_err(refused)?;
            shown::made(json, &added.id.to_string(), || document(&added))
        }
        cli::Host::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = hosts::list(app, owner).await?;
            shown::list(
                json,
                || all.iter().map(document).collect(),
                &["ID", "NAME"],
                || {
                    all.iter()
                        .map(|host| vec![host.id.to_string(), host.name.clone()])
                        .collect()
                },
            )
        }
        cli::Host::Show { owner: whose, host } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &host).await?;
            if json {
                return output::document(&document(&found));
            }
            shown::fields(&[("id", found.id.to_string()), ("name", found.name)])
        }
        cli::Host::Rename {
            owner: whose,
            host,
            name,
        } => {
            let name = shown::name(name)?;
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &host).await?;
            let renamed = hosts::rename(app, owner, found.id, name).await.map_err(refused)?;
            shown::changed(json, || document(&renamed))
        }
        cli::Host::Remove { owner: whose, host } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &host).await?;
            let removed = hosts::remove(app, owner, found.id).await.map_err(refused)?;
            shown::changed(json, || document(&removed))
        }
    }
}

async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Host, Failure> {
    hosts::find(app, owner, word).await.map_err(refused)
}

fn document(host: &Host) -> Value {
    json!({"id": host.id.to_string(), "name": host.name})
}

fn refused(error: HostError) -> Failure {
    let sentence = error.to_string();
    match error {
        HostError::NameTaken => Failure::refused("name_taken", sentence),
        HostError::NotFound => Failure::refused("not_found", sentence),
        HostError::InUse(runs) => {
            Failure::refused("in_use", format!("{sentence} ({})", shown::listed(&runs)))
                .with("dependents", json!({"runs": shown::all_named(&runs)}))
        }
        HostError::Fault(fault) => fault.into(),
    }
}
