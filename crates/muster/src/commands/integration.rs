//! `muster integration`. Never contacts a forge, and never takes a token on the command line or prints one.

use muster_app::App;
use muster_app::integrations::{self, ForgeKind, ForgeUrl, Integration, IntegrationError, NewIntegration};
use muster_app::seal::SealError;
use muster_core::ids::OwnerId;
use serde_json::{Value, json};

use super::{offline, owner, shown};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: cli::Integration, json: bool) -> Result<(), Failure> {
    super::warns_of_the_key();
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Integration, json: bool) -> Result<(), Failure> {
    match command {
        cli::Integration::Add {
            name,
            owner: whose,
            kind,
            url,
            token_stdin: _,
        } => {
            let new = NewIntegration {
                name: shown::name(name)?,
                kind: match kind {
                    cli::ForgeKind::Github => ForgeKind::Github,
                    cli::ForgeKind::Gitlab => ForgeKind::Gitlab,
                    cli::ForgeKind::Forgejo => ForgeKind::Forgejo,
                },
                url: ForgeUrl::parse(&url).map_err(refused)?,
                token: shown::secret_line()?,
            };
            let owner = owner(app, &whose).await?;
            let added = integrations::add(app, owner, new).await.map_err(refused)?;
            shown::made(json, &added.id.to_string(), || document(&added))
        }
        cli::Integration::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = integrations::list(app, owner).await?;
            shown::list(
                json,
                || all.iter().map(document).collect(),
                &["ID", "NAME", "KIND", "URL"],
                || all.iter().map(|found| cells(found).into()).collect(),
            )
        }
        cli::Integration::Show {
            owner: whose,
            integration,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &integration).await?;
            if json {
                return output::document(&document(&found));
            }
            let [id, name, kind, url] = cells(&found);
            shown::fields(&[("id", id), ("name", name), ("kind", kind), ("url", url)])
        }
        cli::Integration::Rename {
            owner: whose,
            integration,
            name,
        } => {
            let name = shown::name(name)?;
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &integration).await?;
            let renamed = integrations::rename(app, owner, found.id, name)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&renamed))
        }
        cli::Integration::Remove {
            owner: whose,
            integration,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &integration).await?;
            let removed = integrations::remove(app, owner, found.id)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&removed))
        }
    }
}

/// The live integration that a word names.
pub(super) async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Integration, Failure> {
    integrations::find(app, owner, word).await.map_err(refused)
}

fn document(found: &Integration) -> Value {
    json!({"id": found.id.to_string(), "name": found.name, "kind": found.kind.as_str(), "url": found.url})
}

fn cells(found: &Integration) -> [String; 4] {
    [
        found.id.to_string(),
        found.name.clone(),
        found.kind.as_str().to_owned(),
        found.url.clone(),
    ]
}

fn refused(error: IntegrationError) -> Failure {
    let sentence = error.to_string();
    match error {
        IntegrationError::Url | IntegrationError::Token => Failure::usage(sentence),
        IntegrationError::NameTaken => Failure::refused("name_taken", sentence),
        IntegrationError::NotFound => Failure::refused("not_found", sentence),
        IntegrationError::InUse(projects) => {
            Failure::refused("in_use", format!("{sentence} ({})", shown::listed(&projects)))
                .with("dependents", json!({"projects": shown::all_named(&projects)}))
        }
        IntegrationError::Seal(error) => sealed(error),
        IntegrationError::Fault(fault) => fault.into(),
    }
}

/// A secret that was not sealed or opened.
pub(super) fn sealed(error: SealError) -> Failure {
    match error {
        SealError::Fault(fault) => fault.into(),
        SealError::Missing { .. } => Failure::refused("key_missing", error.to_string()),
        SealError::Damaged { .. } | SealError::Unusable { .. } | SealError::Foreign => {
            Failure::refused("key_unusable", error.to_string())
        }
    }
}
