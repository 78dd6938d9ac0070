//! `muster owner`. Never prints or takes a password on the command line.

use std::io::{BufRead as _, IsTerminal as _};

use muster_app::accounts::{self, OwnerName, Password};
use serde_json::{Value, json};

use super::{account, moment, offline, offline_anew};
use crate::cli::Owner;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: &Config, command: Owner, json: bool) -> Result<(), Failure> {
    match command {
        Owner::Add { name, password_stdin } => {
            let name = OwnerName::parse(&name).map_err(account)?;
            let password = new_password(password_stdin)?;
            let app = offline_anew(config).await?;
            let added = accounts::add(&app, name.clone(), password, false).await;
            app.db.close().await;
            let id = added.map_err(account)?;
            if json {
                output::document(&json!({"id": id.to_string(), "name": name.as_str(), "disabled": false}))
            } else {
                output::line(&id.to_string())
            }
        }
        Owner::List => {
            let app = offline(config).await?;
            let owners = accounts::list(&app).await;
            app.db.close().await;
            let owners = owners?;
            if json {
                let all: Vec<Value> = owners
                    .iter()
                    .map(|o| json!({"id": o.id.to_string(), "name": o.name, "disabled": o.disabled_at.is_some(), "created_at": o.created_at.rfc3339(), "disabled_at": moment(o.disabled_at)}))
                    .collect();
                return output::document(&Value::Array(all));
            }
            let rows: Vec<Vec<String>> = owners
                .iter()
                .map(|o| {
                    vec![
                        o.id.to_string(),
                        o.name.clone(),
                        if o.disabled_at.is_some() {
                            "disabled"
                        } else {
                            "enabled"
                        }
                        .to_owned(),
                        o.created_at.rfc3339(),
                    ]
                })
                .collect();
            output::table(&["ID", "NAME", "STATE", "SINCE"], &rows)
        }
        Owner::Passwd { name, password_stdin } => passwd(config, &name, password_stdin, json).await,
        Owner::Disable { name } => switch(config, &name, true, json).await,
        Owner::Enable { name } => switch(config, &name, false, json).await,
    }
}

async fn passwd(config: &Config, name: &str, from_stdin: bool, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = change(&app, name, from_stdin).await;
    app.db.close().await;
    let ended = done?;
    if json {
        output::document(&json!({"name": name, "sign_ins_ended": ended}))
    } else {
        Ok(())
    }
}

async fn change(app: &muster_app::App, name: &str, from_stdin: bool) -> Result<u64, Failure> {
    // Before anybody types a password twice for an account that is not there.
    accounts::find(app, name).await.map_err(account)?;
    let password = new_password(from_stdin)?;
    accounts::set_password(app, name, password).await.map_err(account)
}

fn new_password(from_stdin: bool) -> Result<Password, Failure> {
    Password::parse(&read_password(from_stdin)?)
        .map_err(|error| Failure::refused("password", error.to_string()))
}

async fn switch(config: &Config, name: &str, disable: bool, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = if disable {
        accounts::disable(&app, name).await
    } else {
        accounts::enable(&app, name).await
    };
    app.db.close().await;
    done.map_err(account)?;
    if json {
        output::document(&json!({"name": name, "disabled": disable}))
    } else {
        Ok(())
    }
}

fn read_password(from_stdin: bool) -> Result<String, Failure> {
    if from_stdin {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        return Ok(line.trim_end_matches(['\n', '\r']).to_owned());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "there is no terminal to ask for a password on; pipe one line into --password-stdin",
        ));
    }
    let first = rpassword::prompt_password("Password: ")?;
    let second = rpassword::prompt_password("Again: ")?;
    if first == second {
        Ok(first)
    } else {
        Err(Failure::refused(
            "password",
            "the two passwords differ; nothing was stored",
        ))
    }
}
