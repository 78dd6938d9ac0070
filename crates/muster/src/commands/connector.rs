//! `muster connector`. Never prints a token but the one it has just made.

use muster_app::plugins::{self, NewPlugin, PluginError};
use muster_core::text::{DataScope, Label, Slug};
use serde_json::{Value, json};

use super::{field, moment, moment_text, offline, owner};
use crate::cli::Connector;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Connector, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &muster_app::App, command: Connector, json: bool) -> Result<(), Failure> {
    match command {
        Connector::Add {
            name,
            owner: whose,
            label,
            data_scope,
        } => {
            let new = NewPlugin {
                name: Slug::parse("name", name).map_err(|e| field(&e))?,
                label: Label::parse("label", label).map_err(|e| field(&e))?,
                data_scope: DataScope::parse("data scope", data_scope).map_err(|e| field(&e))?,
            };
            let owner = owner(app, &whose).await?;
            let made = plugins::create(app, owner, new).await.map_err(refused)?;
            if json {
                output::document(&json!({"id": made.id.to_string(), "token": made.token.expose()}))
            } else {
                output::line(made.token.expose())
            }
        }
        Connector::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = plugins::list(app, owner).await?;
            if json {
                let all: Vec<Value> = all
                    .iter()
                    .map(|p| {
                        json!({"id": p.id.to_string(), "name": p.name, "label": p.label, "data_scope": p.data_scope, "waiting": p.waiting,
                               "created_at": p.created_at.rfc3339(), "last_seen_at": moment(p.last_seen_at), "revoked_at": moment(p.revoked_at)})
                    })
                    .collect();
                return output::document(&Value::Array(all));
            }
            let rows: Vec<Vec<String>> = all
                .iter()
                .map(|p| {
                    let state = if p.revoked_at.is_some() { "revoked" } else { "live" };
                    vec![
                        p.id.to_string(),
                        p.name.clone(),
                        p.label.clone(),
                        state.to_owned(),
                        p.waiting.to_string(),
                        moment_text(p.last_seen_at),
                    ]
                })
                .collect();
            output::table(&["ID", "NAME", "LABEL", "STATE", "WAITING", "LAST SEEN"], &rows)
        }
        Connector::Revoke {
            owner: whose,
            connector,
        } => {
            let owner = owner(app, &whose).await?;
            let all = plugins::list(app, owner).await?;
            // An id first, then the name of a live one.
            let found = all
                .iter()
                .find(|p| p.id.to_string() == connector)
                .or_else(|| all.iter().find(|p| p.name == connector && p.revoked_at.is_none()));
            let id = found
                .map(|p| p.id)
                .ok_or_else(|| refused(PluginError::NotFound))?;
            plugins::revoke(app, owner, id).await.map_err(refused)?;
            if json {
                output::document(&json!({"id": id.to_string(), "revoked": true}))
            } else {
                Ok(())
            }
        }
    }
}

fn refused(error: PluginError) -> Failure {
    match error {
        PluginError::NameTaken => Failure::refused("name_taken", error.to_string()),
        PluginError::Field(_) => Failure::usage(error.to_string()),
        PluginError::NotFound | PluginError::NotLive => Failure::refused("not_found", error.to_string()),
        PluginError::Fault(fault) => fault.into(),
    }
}
