//! The native format: `.muse-plugin/plugin.json`. Never reads a field that could carry a credential.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    Findings, NATIVE, Read, inside, object, optional_text, required_text, strings, url_fault, version,
};
use crate::diagnostic::{Code, Diagnostic, shown};
use crate::names::{RESERVED_IDS, is_id};
use crate::package::{Cwd, Family, Hook, Launch, Package, Server};
use crate::tree::Listing;

const FIELDS: [&str; 7] = [
    "schemaVersion",
    "name",
    "version",
    "description",
    "displayName",
    "compat",
    "capabilities",
];

const HOOK_FIELDS: [&str; 8] = [
    "id",
    "event",
    "command",
    "timeoutMs",
    "statusMessage",
    "async",
    "compatibilityName",
    "outputCapabilities",
];

const EVENTS: [&str; 17] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreLLMCall",
    "PostLLMCall",
    "PreCompact",
    "PostCompact",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
    "Notification",
    "PostToolUseFailure",
    "StopFailure",
    "PostToolBatch",
];

pub(super) fn read(read: &Read<'_>, listing: &Listing, found: &mut Findings) -> Option<Package> {
    let map = object(read, NATIVE, found)?;
    match map.get("schemaVersion") {
        Some(Value::Number(number)) if number.as_u64() == Some(1) => {}
        Some(_) => found.schema("schemaVersion", "\"schemaVersion\" must be 1"),
        None => found.schema("schemaVersion", "\"schemaVersion\" is missing; write 1"),
    }
    let id = required_text(&map, "name", found).and_then(|name| package_id(name, found));
    found.id.clone_from(&id);
    let version_text = required_text(&map, "version", found);
    if let Some(text) = &version_text {
        version(text, found);
    }
    required_text(&map, "description", found);
    compat(map.get("compat"), found);
    for field in map.keys().filter(|field| !FIELDS.contains(&field.as_str())) {
        let message = format!("\"{}\" is not read", shown(field));
        found.add(Diagnostic::warning(Code::UnsupportedField, message).at(field));
    }
    let (mut servers, mut hooks) = (Vec::new(), Vec::new());
    match map.get("capabilities") {
        Some(Value::Object(capabilities)) => {
            servers = list(capabilities, "mcpServers", listing, found, server);
            hooks = list(capabilities, "hooks", listing, found, hook);
            others(capabilities, !servers.is_empty() || !hooks.is_empty(), found);
        }
        Some(_) => found.schema("capabilities", "\"capabilities\" must be an object"),
        None => found.schema("capabilities", "\"capabilities\" is missing"),
    }
    twice(&hooks, found);
    let name = optional_text(&map, "displayName", found);
    let id = id?;
    Some(Package {
        name: name
            .filter(|name| !name.trim().is_empty())
            .unwrap_or_else(|| id.clone()),
        id,
        version: version_text.unwrap_or_default(),
        family: Family::Native,
        servers,
        hooks,
    })
}

fn package_id(name: String, found: &mut Findings) -> Option<String> {
    if !is_id(&name) {
        let message = format!(
            "\"{}\" is no package id: use 1 to 80 of a-z, 0-9, dot, underscore and hyphen, and begin with a letter or digit",
            shown(&name)
        );
        found.add(Diagnostic::error(Code::InvalidPluginId, message).at("name"));
        return None;
    }
    if RESERVED_IDS.contains(&name.as_str()) {
        let message = format!("the id {name} belongs to hosts; choose another");
        found.add(Diagnostic::error(Code::BundledPluginIdReserved, message).at("name"));
    }
    Some(name)
}

fn compat(value: Option<&Value>, found: &mut Findings) {
    let Some(value) = value else {
        found.schema(
            "compat",
            "\"compat\" is missing; write {\"manifestDir\": \".muse-plugin\"}",
        );
        return;
    };
    match value.get("manifestDir") {
        Some(Value::String(folder)) if folder.trim_end_matches('/') == ".muse-plugin" => {}
        Some(Value::String(folder)) => {
            let message = format!(
                "the manifest lies in .muse-plugin and says that it lies in {}",
                shown(folder)
            );
            found.add(Diagnostic::error(Code::ManifestFamilyMismatch, message).at("compat.manifestDir"));
        }
        _ => found.schema(
            "compat.manifestDir",
            "\"compat.manifestDir\" must be \".muse-plugin\"",
        ),
    }
}

/// Contents for other hosts: said once each, and an error when nothing else is in the package.
fn others(capabilities: &Map<String, Value>, something: bool, found: &mut Findings) {
    for (family, value) in capabilities {
        if matches!(family.as_str(), "mcpServers" | "hooks") {
            continue;
        }
        if value.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let message = format!(
            "muster does not run \"{}\"; this part is left alone",
            shown(family)
        );
        let field = format!("capabilities.{family}");
        found.add(
            if something {
                Diagnostic::warning(Code::UnsupportedCapability, message)
            } else {
                Diagnostic::error(
                    Code::UnsupportedCapability,
                    message + ", and there is nothing else in the package",
                )
            }
            .at(&field),
        );
    }
}

/// One list of entries, ids checked, each read by `one`.
fn list<T>(
    capabilities: &Map<String, Value>,
    family: &str,
    listing: &Listing,
    found: &mut Findings,
    one: fn(&str, &Map<String, Value>, &Listing, &mut Findings) -> Option<T>,
) -> Vec<T> {
    let field = format!("capabilities.{family}");
    let entries = match capabilities.get(family) {
        None => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            found.schema(&field, format!("\"{field}\" must be a list"));
            return Vec::new();
        }
    };
    let (mut all, mut ids) = (Vec::new(), BTreeSet::new());
    for (number, entry) in entries.iter().enumerate() {
        let place = format!("{field}[{number}]");
        let Some(map) = entry.as_object() else {
            found.schema(&place, format!("\"{place}\" must be an object"));
            continue;
        };
        // An entry without a usable id is still looked through, under its place in the list.
        let id = match map.get("id") {
            Some(Value::String(id)) if is_id(id) => Some(id.clone()),
            other => {
                let message = match other {
                    None => "the entry has no \"id\"".to_owned(),
                    Some(Value::String(id)) => format!(
                        "\"{}\" is no id: use 1 to 80 of a-z, 0-9, dot, underscore and hyphen, and begin with a letter or digit",
                        shown(id)
                    ),
                    Some(_) => "\"id\" must be a string".to_owned(),
                };
                found.add(
                    Diagnostic::error(Code::InvalidCapabilityId, message)
                        .of(&place)
                        .at("id"),
                );
                None
            }
        };
        if let Some(id) = &id
            && !ids.insert(id.clone())
        {
            let message = format!("two entries have the id {id}; each needs its own");
            found.add(
                Diagnostic::error(Code::DuplicateCapabilityId, message)
                    .of(id)
                    .at("id"),
            );
        }
        all.extend(one(id.as_deref().unwrap_or(&place), map, listing, found));
    }
    all
}

fn server(id: &str, map: &Map<String, Value>, listing: &Listing, found: &mut Findings) -> Option<Server> {
    let error = |code, field: &str, message: &str| Diagnostic::error(code, message).of(id).at(field);
    let launch = match map.get("transport") {
        None => stdio(id, map, listing, found),
        Some(Value::String(word)) if word == "stdio" => stdio(id, map, listing, found),
        Some(Value::String(word)) if word == "http" => http(id, map, found),
        Some(_) => {
            found.add(error(
                Code::InvalidManifestSchema,
                "transport",
                "\"transport\" must be \"stdio\" or \"http\"; left out it is stdio",
            ));
            None
        }
    };
    let is_http = map.get("transport").and_then(Value::as_str) == Some("http");
    for field in map.keys() {
        let message = match field.as_str() {
            "id" | "transport" => continue,
            "command" if !is_http => continue,
            "url" if is_http => continue,
            "command" => "\"command\" is not read from an http entry".to_owned(),
            "url" => "\"url\" is not read from a stdio entry".to_owned(),
            "env" | "headers" => format!(
                "\"{field}\" is not read: a packaged server gets no credentials; declare it in settings.json when it needs some"
            ),
            other => format!("\"{}\" is not read from a packaged server", shown(other)),
        };
        found.add(
            Diagnostic::warning(Code::UnsupportedField, message)
                .of(id)
                .at(field),
        );
    }
    Some(Server {
        id: id.to_owned(),
        launch: launch?,
        entry: Value::Object(map.clone()),
    })
}

fn stdio(id: &str, map: &Map<String, Value>, listing: &Listing, found: &mut Findings) -> Option<Launch> {
    let argv = command(id, map, listing, found)?;
    let path = argv.iter().position(|word| names_a_path(word));
    Some(Launch::Stdio {
        argv,
        path,
        env: BTreeMap::new(),
        cwd: Cwd::Session,
    })
}

fn http(id: &str, map: &Map<String, Value>, found: &mut Findings) -> Option<Launch> {
    let fault = |code, message: String| Diagnostic::error(code, message).of(id).at("url");
    let url = match map.get("url") {
        Some(Value::String(url)) if !url.trim().is_empty() => url.trim(),
        Some(Value::String(_)) | None => {
            found.add(fault(
                Code::MissingCapabilityUrl,
                "an http entry needs an address: add \"url\": \"https://…\"".to_owned(),
            ));
            return None;
        }
        Some(_) => {
            found.add(fault(
                Code::InvalidManifestSchema,
                "\"url\" must be a string".to_owned(),
            ));
            return None;
        }
    };
    if let Some(why) = url_fault(url) {
        found.add(fault(Code::InvalidManifestSchema, format!("\"url\" {why}")));
        return None;
    }
    Some(Launch::Http {
        url: url.to_owned(),
        headers: BTreeMap::new(),
    })
}

/// Whether an element of a command spells a path into the package: relative, with a slash, and neither a flag, an address, a variable nor a
/// scoped name of a registry.
pub(super) fn names_a_path(word: &str) -> bool {
    (word.contains('/') || word == "..")
        && !word.starts_with(['/', '-', '$', '~', '@'])
        && !word.contains("://")
}

/// The argument list of an entry, every path in it checked.
fn command(
    id: &str,
    map: &Map<String, Value>,
    listing: &Listing,
    found: &mut Findings,
) -> Option<Vec<String>> {
    let error = |code, message: String| Diagnostic::error(code, message).of(id).at("command");
    let value = map.get("command").filter(|value| !value.is_null());
    let Some(argv) = value.and_then(strings).filter(|argv| !argv.is_empty()) else {
        found.add(error(
            Code::MissingCapabilityCommand,
            "the entry has no program to run: add \"command\": [\"<program>\", ...], a list of strings that is not empty"
                .to_owned(),
        ));
        return None;
    };
    if argv.first().is_some_and(|program| program.trim().is_empty())
        || argv.iter().any(|word| word.contains('\0'))
    {
        found.add(error(
            Code::MissingCapabilityCommand,
            "\"command\" must begin with the name of a program: add \"command\": [\"<program>\", ...]"
                .to_owned(),
        ));
        return None;
    }
    for word in &argv {
        if !names_a_path(word) {
            if listing.files.contains_key(word) {
                let message = format!(
                    "{} is also a file of the package, but without ./ it is no path of it: a program that takes it for a file finds the one in the folder that a session works in, which nobody reviewed; write ./{} when the package's is meant",
                    shown(word),
                    shown(word)
                );
                found.add(
                    Diagnostic::warning(Code::MissingCapabilityPath, message)
                        .of(id)
                        .at("command"),
                );
            }
            if word.contains("${") {
                let message = format!(
                    "nothing is filled in for {}; read MUSE_PLUGIN_ROOT in the program instead",
                    shown(word)
                );
                found.add(
                    Diagnostic::warning(Code::UnsupportedField, message)
                        .of(id)
                        .at("command"),
                );
            }
            continue;
        }
        match inside(word) {
            None => found.add(error(
                Code::UnsafePath,
                format!("{} leaves the package; name a file inside it", shown(word)),
            )),
            Some(path) if word.ends_with('/') || !listing.files.contains_key(&path) => found.add(error(
                Code::MissingCapabilityPath,
                format!(
                    "{} is not a file of the package: fix the path or add the file",
                    shown(word)
                ),
            )),
            Some(_) => {}
        }
    }
    Some(argv)
}

fn hook(id: &str, map: &Map<String, Value>, listing: &Listing, found: &mut Findings) -> Option<Hook> {
    let event = match map.get("event") {
        Some(Value::String(event)) if EVENTS.contains(&event.as_str()) => Some(event.clone()),
        other => {
            let message = match other.and_then(Value::as_str) {
                Some(event) => format!("there is no event {}", shown(event)),
                None => "the hook names no \"event\"".to_owned(),
            };
            found.add(
                Diagnostic::error(Code::UnsupportedHookEvent, message)
                    .of(id)
                    .at("event"),
            );
            None
        }
    };
    for field in map.keys().filter(|field| !HOOK_FIELDS.contains(&field.as_str())) {
        let message = format!("a hook has no field \"{}\"", shown(field));
        found.add(
            Diagnostic::error(Code::InvalidManifestSchema, message)
                .of(id)
                .at(field),
        );
    }
    let argv = command(id, map, listing, found);
    Some(Hook {
        id: id.to_owned(),
        event: event?,
        argv: argv?,
        entry: Value::Object(map.clone()),
    })
}

fn twice(hooks: &[Hook], found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for hook in hooks {
        if !seen.insert((&hook.event, &hook.argv)) {
            let message = format!("another hook runs the same command at {}", hook.event);
            found.add(
                Diagnostic::warning(Code::DuplicateHookSource, message)
                    .of(&hook.id)
                    .at("command"),
            );
        }
    }
}
