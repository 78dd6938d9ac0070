//! A package as a person reads it on a terminal. Never prints a word of a package unescaped, and never says that something is safe.

use std::path::Path;

use muster_core::text::terminal;
use muster_plugin_host::{
    Change, Code, Cwd, Diagnostic, Host, Inspected, Kind, KnownTool, Launch, Place, Says, Server, StableId,
    Status, Target,
};

use super::refused;
use crate::output::{self, Failure};

/// How many changed files are named.
const MOST: usize = 50;

/// Everything that a review needs.
pub(super) fn inspection(host: &Host, plugin: &str) -> Result<(), Failure> {
    let found = host.inspect(plugin).map_err(refused)?;
    super::common::fields(&[
        ("package", format!("{} {}", found.id, found.version)),
        ("name", found.name.clone()),
        ("from", found.source.clone()),
        ("copy", found.root.clone()),
        ("state", found.data_dir.clone()),
        ("digest", found.digest.clone()),
    ])?;
    diagnostics(&found.diagnostics, "")?;
    // The copy says what stands in the entry besides the command.
    let package = host.validate(Path::new(&found.root)).package;
    for one in &found.capabilities {
        output::line("")?;
        let server = package
            .as_ref()
            .filter(|_| one.kind == Kind::McpServer)
            .and_then(|package| package.server(&one.id));
        capability(host, one, server)?;
    }
    if found.capabilities.is_empty() {
        output::line("\nThe package has nothing that could start.")?;
    }
    Ok(())
}

fn capability(host: &Host, one: &Inspected, server: Option<&Server>) -> Result<(), Failure> {
    let kind = match one.kind {
        Kind::McpServer => "server",
        Kind::Hook => "hook",
    };
    let mut rows = vec![(kind, one.id.clone()), ("status", one.status.word().to_owned())];
    if let Some(command) = &one.command {
        rows.push(("runs", words(command)));
    }
    if let Some(url) = &one.url {
        rows.push(("asks", url.clone()));
    }
    if let Some(server) = server {
        rows.extend(launch(server));
    }
    rows.push(("known as", one.registered_name.clone()));
    if one.kind == Kind::McpServer {
        rows.push(("its tools", format!("{}…", one.tool_prefix)));
        for tool in &one.tools {
            let reads = if tool.read_only {
                ", says that it only reads"
            } else {
                ""
            };
            let changed = if tool.changed {
                ", changed since the approval"
            } else {
                ""
            };
            let gone = if tool.gone { ", not listed any more" } else { "" };
            rows.push(("tool", format!("{}{reads}{changed}{gone}", tool.registered)));
            if tool.changed {
                rows.extend(both(tool));
            }
        }
    }
    rows.push(("hash", one.definition_hash.clone()));
    rows.push(("approved", approved(one)));
    rows.push(("last start", last_start(one)));
    super::common::fields(&rows)?;
    diagnostics(&one.diagnostics, "")?;
    if one.status == Status::Modified {
        changes(host, &one.stable_id)?;
    }
    output::line(&terminal(&one.advice))
}

/// What a changed tool said of itself at the approval, and what it says now: who approves its server again approves that.
fn both(tool: &KnownTool) -> [(&'static str, String); 2] {
    let before = if tool.added {
        "it was not there".to_owned()
    } else {
        told(tool.read_only, &tool.says)
    };
    let now = match &tool.newest {
        None => "what it says now is not kept".to_owned(),
        Some(now) if now.as_it_was => "as it was, and differently between".to_owned(),
        Some(now) => {
            let said = told(now.read_only, &now.says);
            if !tool.added && said == before {
                format!(
                    "{said} (its schema or another part that is not shown, such as the middle of a long description, is another one)"
                )
            } else {
                said
            }
        }
    };
    [("  before", before), ("  now", now)]
}

/// What a tool says of itself, in a line.
fn told(read_only: bool, says: &Says) -> String {
    let hint = |said: Option<bool>, yes: &'static str, no: &'static str| {
        said.map(|said| if said { yes } else { no })
    };
    let hints = [
        read_only.then_some("only reads"),
        hint(says.destructive, "may destroy", "destroys nothing"),
        hint(says.idempotent, "twice is as once", "twice is not as once"),
        hint(says.open_world, "reaches outside", "reaches nothing outside"),
    ];
    let hints: Vec<&str> = hints.into_iter().flatten().collect();
    let mut parts: Vec<String> = [&says.title, &says.description]
        .into_iter()
        .flatten()
        .map(|text| format!("{text:?}"))
        .collect();
    if !hints.is_empty() {
        parts.push(format!("says that it {}", hints.join(", ")));
    }
    if parts.is_empty() {
        return "says nothing of itself".to_owned();
    }
    parts.join(", ")
}

/// What else is reviewed: variables, headers and the folder, where the format has them.
fn launch(server: &Server) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    match &server.launch {
        Launch::Stdio { env, cwd, .. } => {
            rows.extend(
                env.iter()
                    .map(|(name, value)| ("sets", format!("{name}={value}"))),
            );
            rows.push((
                "runs in",
                match cwd {
                    Cwd::Session => "the session's folder".to_owned(),
                    Cwd::In(place, below) => {
                        let place = match place {
                            Place::Root => "its copy",
                            Place::Data => "its state",
                        };
                        if below.as_os_str().is_empty() {
                            place.to_owned()
                        } else {
                            format!("{place}, in {}", below.display())
                        }
                    }
                },
            ));
        }
        Launch::Http { headers, .. } => {
            rows.extend(
                headers
                    .iter()
                    .map(|(name, value)| ("sends", format!("{name}: {value}"))),
            );
        }
    }
    rows
}

/// A command as a shell would have it, so that blanks inside a word show.
fn words(command: &[String]) -> String {
    shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| format!("{command:?}"))
}

fn approved(one: &Inspected) -> String {
    match &one.approved_hash {
        None => "no".to_owned(),
        Some(hash) if *hash == one.definition_hash => "as it is now".to_owned(),
        Some(hash) => format!("as it was, with the hash {hash}"),
    }
}

fn last_start(one: &Inspected) -> String {
    match &one.last_start {
        None => "none yet since it was stored or decided about".to_owned(),
        Some(start) if start.ok => format!("{} answered", start.at),
        Some(start) => format!(
            "{} failed: {}",
            start.at,
            start.error.as_deref().unwrap_or("no reason is known")
        ),
    }
}

fn changes(host: &Host, stable_id: &str) -> Result<(), Failure> {
    let Ok(id) = StableId::try_from(stable_id.to_owned()) else {
        return Ok(());
    };
    let Some(all) = host.changes_since_decision(&id).map_err(refused)? else {
        return output::line("What changed since the decision is not known any more; read all of it.");
    };
    output::line("changed since the decision:")?;
    for file in all.iter().take(MOST) {
        let word = match file.change {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        };
        output::line(&format!("  {word:<7}  {}", terminal(&file.path)))?;
    }
    match all.len().saturating_sub(MOST) {
        0 if all.is_empty() => output::line("  no file; the entry in the manifest is read otherwise"),
        0 => Ok(()),
        more => output::line(&format!("  and {more} more")),
    }
}

/// Findings, one a line.
pub(super) fn diagnostics(all: &[Diagnostic], indent: &str) -> Result<(), Failure> {
    for one in all {
        output::line(&terminal(&format!("{indent}{}", finding(one))))?;
    }
    Ok(())
}

/// A finding in a line, not yet escaped for a terminal.
fn finding(one: &Diagnostic) -> String {
    let word = serde_json::to_value(one.code).ok();
    let code = word
        .as_ref()
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    let kind = if one.is_error() { "error" } else { "warning" };
    let place: Vec<&str> = [&one.entry, &one.field]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" ({})", place.join(", "))
    };
    format!("{kind} {code}{place}: {}", one.message)
}

/// The statuses after an act, one a line.
pub(super) fn statuses(host: &Host, plugin: &str, target: Option<&Target>) -> Result<(), Failure> {
    let found = host.inspect(plugin).map_err(refused)?;
    let meant = |one: &&Inspected| match target {
        Some(Target::One(id)) => one.stable_id == id.to_string(),
        Some(Target::Plugin(_)) | None => true,
    };
    for one in found.capabilities.iter().filter(meant) {
        output::line(&format!("{} {}", one.stable_id, one.status.word()))?;
    }
    Ok(())
}

/// Says on standard error what is to do about a package that was just stored.
pub(super) fn next(host: &Host, plugin: &str) -> Result<(), Failure> {
    let found = host.inspect(plugin).map_err(refused)?;
    let each = found.capabilities.iter().flat_map(|one| &one.diagnostics);
    // What a change means is the sentence below.
    let said = each.filter(|one| one.code != Code::ModifiedDefinitionHash);
    for one in found.diagnostics.iter().chain(said) {
        output::notice(&terminal(&finding(one)));
    }
    let has = |status| found.capabilities.iter().any(|one| one.status == status);
    let look = format!("muster plugins inspect {plugin}, then muster plugins approve {plugin}");
    let sentence = if has(Status::Modified) {
        format!(
            "it is not what was decided about, so that does not start before you have looked at it again: {look}"
        )
    } else if has(Status::ReviewNeeded) {
        format!("nothing of it starts before you have looked at it: {look}")
    } else if found.capabilities.is_empty() {
        "it has nothing that could start".to_owned()
    } else {
        "it is what was decided about; nothing is to do".to_owned()
    };
    output::notice(&sentence);
    Ok(())
}

/// How many of a package's servers and hooks have which status, in few words.
pub(super) fn summary(host: &Host, plugin: &str) -> String {
    let Ok(found) = host.inspect(plugin) else {
        return "unknown".to_owned();
    };
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for one in &found.capabilities {
        *counts.entry(one.status.word()).or_default() += 1;
    }
    match counts.len() {
        0 => "nothing to start".to_owned(),
        1 => counts.keys().copied().collect(),
        _ => counts
            .iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
