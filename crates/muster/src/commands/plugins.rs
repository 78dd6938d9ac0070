//! `muster plugins`: packages in the data folder, installed, reviewed and served. Never starts a server but with `serve`, and never one that was not approved as it is.

mod retry;
pub(super) mod serve;
mod shown;

use std::path::Path;

use muster_core::Clock;
use muster_core::text::terminal;
use muster_plugin_host::events::Wanted;
use muster_plugin_host::{Act, Diagnostic, Host, PluginError, Target};
use serde_json::{Value, json};

use super::shown as common;
use crate::cli::{Plugins, Review};
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) async fn run(config: Config, command: Plugins, json: bool) -> Result<(), Failure> {
    let host = host(&config);
    match command {
        Plugins::Validate { dir } => validate(&host, &dir, json),
        Plugins::Install { dir } => {
            config.make_data_dir()?;
            let id = host.install(&dir).map_err(refused)?;
            if json {
                document(&host, &id)
            } else {
                output::notice(&format!(
                    "nothing of it starts before you have looked at it: muster plugins inspect {id}, then muster plugins approve {id}"
                ));
                output::line(&id)
            }
        }
        Plugins::List => list(&host, json),
        Plugins::Inspect { plugin } if json => document(&host, &plugin),
        Plugins::Inspect { plugin } => shown::inspection(&host, &plugin),
        Plugins::Update { plugin } => {
            host.update(&plugin).map_err(refused)?;
            if json {
                document(&host, &plugin)
            } else {
                shown::statuses(&host, &plugin, None)
            }
        }
        Plugins::Remove { plugin } => {
            let gone = host.inspect(&plugin).map_err(refused)?;
            host.remove(&plugin).map_err(refused)?;
            common::changed(json, || serde_json::to_value(&gone).unwrap_or(Value::Null))
        }
        Plugins::Approve(review) => decide(&host, &review, Act::Approve, json),
        Plugins::Reject(review) => decide(&host, &review, Act::Reject, json),
        Plugins::Enable(review) => decide(&host, &review, Act::Enable, json),
        Plugins::Disable(review) => decide(&host, &review, Act::Disable, json),
        Plugins::Serve(args) => serve::run(config, args).await,
        Plugins::Log { plugin, session } => log(&host, Wanted { plugin, session }, json),
        Plugins::Retry { message_id } => retry::run(&config, &message_id, json).await,
    }
}

/// The packages of the data folder.
pub(super) fn host(config: &Config) -> Host {
    Host::new(&config.data_dir, Clock::system())
}

/// A refusal of the library's, for people and for scripts.
pub(super) fn refused(error: PluginError) -> Failure {
    let failure = Failure::refused(error.code(), error.to_string());
    match error {
        PluginError::Invalid(all) | PluginError::InvalidUpdate(all) => {
            failure.with("diagnostics", json!(all))
        }
        PluginError::HashMismatch { now } => failure.with("definition_hash", json!(now)),
        PluginError::NotAllowed { status, .. } | PluginError::NotRunnable { status, .. } => {
            failure.with("status", json!(status))
        }
        PluginError::Fault(fault) => fault.into(),
        _ => failure,
    }
}

fn document(host: &Host, plugin: &str) -> Result<(), Failure> {
    let found = host.inspect(plugin).map_err(refused)?;
    output::document(&json!(found))
}

fn validate(host: &Host, dir: &Path, json: bool) -> Result<(), Failure> {
    let found = host.validate(dir);
    if json {
        output::document(&json!({
            "ok": found.ok(),
            "plugin": found.id,
            "diagnostics": found.diagnostics,
        }))?;
    } else {
        shown::diagnostics(&found.diagnostics, "")?;
    }
    let errors = found.diagnostics.iter().filter(|one| one.is_error()).count();
    if !found.ok() {
        let faults = if errors == 1 { "error" } else { "errors" };
        output::notice(&format!(
            "muster: the package has {errors} {faults} and cannot be installed"
        ));
        return Err(Failure::silent());
    }
    if !json {
        let id = terminal(found.id.as_deref().unwrap_or_default());
        output::line(&format!("{id} can be installed"))?;
    }
    Ok(())
}

fn list(host: &Host, json: bool) -> Result<(), Failure> {
    let all = host.list().map_err(refused)?;
    common::list(
        json,
        || all.iter().map(|one| json!(one)).collect(),
        &["ID", "VERSION", "NAME", "STATUS", "SOURCE"],
        || {
            all.iter()
                .map(|one| {
                    vec![
                        one.id.clone(),
                        one.version.clone(),
                        one.name.clone(),
                        shown::summary(host, &one.id),
                        one.source.clone(),
                    ]
                })
                .collect()
        },
    )
}

fn decide(host: &Host, review: &Review, act: Act, json: bool) -> Result<(), Failure> {
    let target = match Target::parse(&review.target) {
        Some(target) => target,
        // One word is a package's id, whatever it is made of; there is none that is called so.
        None if !review.target.contains(':') => Target::Plugin(review.target.clone()),
        None => {
            return Err(Failure::usage(
                "what is reviewed is PLUGIN, PLUGIN:mcp_server:SERVER or plugin:PLUGIN:mcp_server:SERVER; nothing was changed",
            ));
        }
    };
    host.decide(&target, act, review.hash.as_deref())
        .map_err(refused)?;
    if json {
        document(host, target.plugin())
    } else {
        shown::statuses(host, target.plugin(), Some(&target))
    }
}

fn log(host: &Host, wanted: Wanted, json: bool) -> Result<(), Failure> {
    let events = host.events().read(&wanted)?;
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    common::list(
        json,
        || events.iter().map(|event| json!(event)).collect(),
        &["AT", "SESSION", "SERVER", "EVENT", "DECISION", "TOOL", "DETAIL"],
        || {
            events
                .iter()
                .map(|event| {
                    vec![
                        event.at.clone(),
                        event.session.clone(),
                        format!("{}:{}", event.plugin, event.server),
                        word(json!(event.event)),
                        event.decision.clone().unwrap_or_default(),
                        event.tool.clone().unwrap_or_default(),
                        event.detail.clone().unwrap_or_default(),
                    ]
                })
                .collect()
        },
    )
}

/// What is wrong with the packages of this data folder, for a look at the whole installation.
pub(super) fn health(config: &Config) -> (bool, String) {
    let host = host(config);
    let all = match host.list() {
        Ok(all) => all,
        Err(error) => return (false, error.to_string()),
    };
    let mut faults: Vec<String> = muster_plugin_host::Settings::read(&host.settings_path())
        .err()
        .into_iter()
        .collect();
    for one in &all {
        let broken = match host.inspect(&one.id) {
            Ok(found) => found.diagnostics.into_iter().find(Diagnostic::is_error),
            Err(error) => {
                faults.push(error.to_string());
                continue;
            }
        };
        if let Some(broken) = broken {
            faults.push(format!("{}: {}", one.id, broken.message));
        }
    }
    match host.approved() {
        Ok(approved) => faults.extend(approved.withheld.into_iter().map(|(_, why)| why)),
        Err(error) => faults.push(error.to_string()),
    }
    if faults.is_empty() {
        (true, format!("{} installed", all.len()))
    } else {
        (false, faults.join("; "))
    }
}
