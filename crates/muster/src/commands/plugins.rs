//! `muster plugins`: packages in the data folder, installed, reviewed and served. Never starts a server but with `serve`, and never one that was not approved as it is.

mod noted;
mod retry;
pub(super) mod serve;
mod shown;

use std::path::Path;

use muster_app::packages::{Done, Hash};
use muster_core::Clock;
use muster_core::text::terminal;
use muster_plugin_host::events::Wanted;
use muster_plugin_host::{Act, Dead, Diagnostic, Host, Meant, PluginError, Settings, Status, Target};
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
            noted::note(&config, whole(&host, "package.install", &id, Hash::Copy)).await;
            if json {
                document(&host, &id)
            } else {
                shown::next(&host, &id)?;
                output::line(&id)
            }
        }
        Plugins::List => {
            list(&host, json)?;
            dead_settings(&host);
            Ok(())
        }
        Plugins::Inspect { plugin } => {
            if json {
                document(&host, &plugin)?;
            } else {
                shown::inspection(&host, &plugin)?;
            }
            dead_settings(&host);
            Ok(())
        }
        Plugins::Update { plugin } => {
            let was_changed = host
                .inspect(&plugin)
                .is_ok_and(|found| found.capabilities.iter().any(|one| one.status == Status::Blocked));
            let updated = host.update(&plugin);
            // One that found errors takes away what may start: it is as much of a change, and another one.
            let stored: Option<fn(String) -> Hash> = match &updated {
                Ok(()) => Some(Hash::Copy),
                Err(PluginError::InvalidUpdate(_)) => Some(Hash::Invalid),
                Err(_) => None,
            };
            if let Some(stored) = stored {
                noted::note(&config, whole(&host, "package.update", &plugin, stored)).await;
            }
            updated.map_err(refused)?;
            if was_changed {
                output::notice(
                    "the stored copy was not what had been installed: somebody changed it on the disk. It was stored again from the folder it came from",
                );
            }
            if json {
                document(&host, &plugin)
            } else {
                shown::statuses(&host, &plugin, None)?;
                shown::next(&host, &plugin)
            }
        }
        Plugins::Remove { plugin } => {
            let gone = host.inspect(&plugin).map_err(refused)?;
            let row = whole(&host, "package.remove", &plugin, Hash::Copy);
            host.remove(&plugin).map_err(refused)?;
            noted::note(&config, row).await;
            common::changed(json, || serde_json::to_value(&gone).unwrap_or(Value::Null))
        }
        Plugins::Approve(review) => decide(&config, &host, &review, Act::Approve, json).await,
        Plugins::Reject(review) => decide(&config, &host, &review, Act::Reject, json).await,
        Plugins::Enable(review) => decide(&config, &host, &review, Act::Enable, json).await,
        Plugins::Disable(review) => decide(&config, &host, &review, Act::Disable, json).await,
        Plugins::Serve(args) => serve::run(config, args).await,
        Plugins::Log { plugin, session } => log(&host, &Wanted { plugin, session }, json),
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

/// The audit row of an act on a whole package, with the copy that is stored now and what it is by now.
fn whole(host: &Host, event: &'static str, plugin: &str, stored: impl FnOnce(String) -> Hash) -> Vec<Done> {
    let digest = host.inspect(plugin).map(|found| found.digest);
    vec![Done {
        event,
        what: plugin.to_owned(),
        hash: stored(digest.unwrap_or_default()),
    }]
}

/// What a person means by a word, in any of its spellings.
fn meant(host: &Host, word: &str, usage: &str) -> Result<Target, Failure> {
    match host.meant(word).map_err(refused)? {
        Meant::Target(target) => Ok(target),
        Meant::Many(servers) => Err(Failure::usage(format!(
            "{} may be {}; say which",
            terminal(word),
            servers.join(" or ")
        ))),
        Meant::Nothing => Err(Failure::usage(usage)),
    }
}

/// Settings that refuse every call, and rules that say nothing, on standard error: a misspelled name refuses or allows nothing, and no call would ever tell.
fn dead_settings(host: &Host) {
    if let Err(why) = Settings::read(&host.settings_path()) {
        output::notice(&terminal(&format!("muster: {why}")));
    }
    for rule in host.dead_settings().unwrap_or_default() {
        output::notice(&format!("muster: {rule}"));
    }
}

async fn decide(config: &Config, host: &Host, review: &Review, act: Act, json: bool) -> Result<(), Failure> {
    let target = meant(
        host,
        &review.target,
        "what is reviewed is PLUGIN, PLUGIN:mcp_server:SERVER or plugin:PLUGIN:mcp_server:SERVER; nothing was changed",
    )?;
    let decided = host
        .decide(&target, act, review.hash.as_deref())
        .map_err(refused)?;
    let event = match act {
        Act::Approve => "package.approve",
        Act::Reject => "package.reject",
        Act::Enable => "package.enable",
        Act::Disable => "package.disable",
    };
    let rows = decided.into_iter().map(|one| Done {
        event,
        what: one.id.to_string(),
        hash: Hash::Definition(one.hash),
    });
    noted::note(config, rows.collect()).await;
    if json {
        document(host, target.plugin())
    } else {
        shown::statuses(host, target.plugin(), Some(&target))?;
        if matches!(act, Act::Approve) {
            output::notice(
                "agents have its tools from their next session on: over muster's address, or by muster exec -- PROGRAM",
            );
        }
        Ok(())
    }
}

fn log(host: &Host, wanted: &Wanted, json: bool) -> Result<(), Failure> {
    let found = host.events().look(wanted)?;
    let events = found.events;
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
    )?;
    // What is not there is said, so that nobody takes its absence for an answer.
    if found.left_out > 0 {
        output::notice(&format!("muster: {} older events are not shown", found.left_out));
    }
    if found.let_go {
        output::notice(
            "muster: the log is full and lets its oldest events go; those from before the first one may be gone",
        );
    }
    if found.unreadable > 0 {
        output::notice(&format!(
            "muster: {} lines of the log are no events that this muster knows and were passed over",
            found.unreadable
        ));
    }
    Ok(())
}

/// What is wrong with the packages of this data folder, for a look at the whole installation.
pub(super) fn health(config: &Config) -> (bool, String) {
    let host = host(config);
    let all = match host.list() {
        Ok(all) => all,
        Err(error) => return (false, error.to_string()),
    };
    let mut faults: Vec<String> = Settings::read(&host.settings_path()).err().into_iter().collect();
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
        let mut said = vec![format!("{} installed", all.len())];
        // A rule may stand there for a package that is to come; it is told, and is no fault.
        let rules = host.dead_settings().unwrap_or_default();
        said.extend(rules.iter().map(Dead::to_string));
        (true, said.join("; "))
    } else {
        (false, faults.join("; "))
    }
}
