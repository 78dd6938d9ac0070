//! `muster setting`. Never stores a value that the setting does not take.

use muster_app::settings::{self, Key, Setting, SettingError};
use serde_json::Value;

use super::{offline, owner};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: cli::Setting, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &muster_app::App, command: cli::Setting, json: bool) -> Result<(), Failure> {
    match command {
        cli::Setting::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = settings::list(app, owner).await;
            if json {
                return output::document(&Value::Array(all.iter().map(document).collect()));
            }
            let rows: Vec<Vec<String>> = all
                .iter()
                .map(|one| {
                    vec![
                        one.key.to_owned(),
                        text(&one.value),
                        text(&one.default),
                        one.description.to_owned(),
                    ]
                })
                .collect();
            output::table(&["KEY", "VALUE", "DEFAULT", "WHAT IT DOES"], &rows)
        }
        cli::Setting::Get { owner: whose, key } => {
            let key = Key::find(&key).map_err(refused)?;
            let owner = owner(app, &whose).await?;
            let one = settings::get(app, owner, key).await;
            if json {
                output::document(&document(&one))
            } else {
                output::line(&text(&one.value))
            }
        }
        cli::Setting::Set {
            owner: whose,
            key,
            value,
        } => {
            let key = Key::find(&key).map_err(refused)?;
            let owner = owner(app, &whose).await?;
            let one = settings::set(app, owner, key, &value).await.map_err(refused)?;
            if json {
                output::document(&document(&one))
            } else {
                Ok(())
            }
        }
    }
}

fn document(one: &Setting) -> Value {
    serde_json::to_value(one).unwrap_or(Value::Null)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unreadable".to_owned(),
        value => value.to_string(),
    }
}

fn refused(error: SettingError) -> Failure {
    match error {
        SettingError::Unknown(_) | SettingError::Value { .. } => Failure::usage(error.to_string()),
        SettingError::Fault(fault) => fault.into(),
    }
}
