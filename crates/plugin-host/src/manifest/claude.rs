//! Claude Code's layout: `.claude-plugin/plugin.json`, servers in it or in `.mcp.json`. Never fills a variable of the owner's environment into a command.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    CLAUDE, Findings, Read, environment, headers, inside, object, optional_text, required_text, strings,
    url_fault,
};
use crate::diagnostic::{Code, Diagnostic, shown};
use crate::names::{is_foreign_id, is_id};
use crate::package::{Cwd, Family, Launch, Package, Server};
use crate::tree::Listing;

const MCP: &str = ".mcp.json";
const ROOT_VARIABLE: &str = "${CLAUDE_PLUGIN_ROOT}";
const FIELDS: [&str; 10] = [
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "mcpServers",
    "displayName",
];
/// What the layout has that muster does not run, by field of the manifest and by folder.
const PARTS: [&str; 6] = [
    "commands",
    "agents",
    "skills",
    "hooks",
    "outputStyles",
    "lspServers",
];

pub(super) fn read(read: &Read<'_>, listing: &Listing, found: &mut Findings) -> Option<Package> {
    let map = object(read, CLAUDE, found)?;
    let id = required_text(&map, "name", found).filter(|name| {
        let sound = is_id(name);
        if !sound {
            let message = format!(
                "\"{}\" is no package name: use lower-case letters, digits and hyphens",
                shown(name)
            );
            found.add(Diagnostic::error(Code::InvalidPluginId, message).at("name"));
        }
        sound
    });
    found.id.clone_from(&id);
    let version = optional_text(&map, "version", found);
    if let Some(version) = &version {
        super::version(version, found);
    }
    optional_text(&map, "description", found);
    let name = optional_text(&map, "displayName", found);
    for field in map.keys() {
        if PARTS.contains(&field.as_str()) {
            let message = format!("muster does not run \"{field}\"; this part is left alone");
            found.add(Diagnostic::warning(Code::UnsupportedCapability, message).at(field));
        } else if !FIELDS.contains(&field.as_str()) {
            let message = format!("\"{}\" is not read", shown(field));
            found.add(Diagnostic::warning(Code::UnsupportedField, message).at(field));
        }
    }
    for part in PARTS {
        if listing.folders.contains(part) && !map.contains_key(part) {
            let message = format!("muster does not run what lies in {part}; this part is left alone");
            found.add(Diagnostic::warning(Code::UnsupportedCapability, message).at(part));
        }
    }
    let servers = match declared(&map, read, listing, found) {
        Some((place, entries)) => servers(&place, &entries, listing, found),
        None => Vec::new(),
    };
    let id = id?;
    Some(Package {
        name: name
            .filter(|name| !name.trim().is_empty())
            .unwrap_or_else(|| id.clone()),
        id,
        version: version.unwrap_or_default(),
        family: Family::ClaudeCode,
        servers,
        hooks: Vec::new(),
    })
}

/// The map of servers and the file it stands in.
fn declared(
    map: &Map<String, Value>,
    read: &Read<'_>,
    listing: &Listing,
    found: &mut Findings,
) -> Option<(String, Map<String, Value>)> {
    let file = match map.get("mcpServers") {
        Some(Value::Object(entries)) => return Some((CLAUDE.to_owned(), entries.clone())),
        Some(Value::String(path)) => {
            let Some(inside) = inside(path) else {
                let message = format!("{} leaves the package", shown(path));
                found.add(Diagnostic::error(Code::UnsafePath, message).at("mcpServers"));
                return None;
            };
            if !listing.files.contains_key(&inside) {
                let message = format!(
                    "{} is not a file of the package: fix the path or add the file",
                    shown(path)
                );
                found.add(Diagnostic::error(Code::MissingCapabilityPath, message).at("mcpServers"));
                return None;
            }
            inside
        }
        Some(_) => {
            found.schema("mcpServers", "\"mcpServers\" must be an object or a path");
            return None;
        }
        None if listing.files.contains_key(MCP) => MCP.to_owned(),
        None => return None,
    };
    let map = object(read, &file, found)?;
    let entries = match map.get("mcpServers") {
        Some(Value::Object(entries)) => entries.clone(),
        Some(_) => {
            found.schema(&file, "\"mcpServers\" must be an object");
            return None;
        }
        // The file may also hold the map itself.
        None => map,
    };
    Some((file, entries))
}

fn servers(
    place: &str,
    entries: &Map<String, Value>,
    listing: &Listing,
    found: &mut Findings,
) -> Vec<Server> {
    let mut all = Vec::new();
    for (id, entry) in entries {
        if !is_foreign_id(id) {
            let message = format!(
                "\"{}\" is no server's name: use 1 to 80 letters, digits, dots, underscores and hyphens, and begin with a letter or digit",
                shown(id)
            );
            found.add(
                Diagnostic::error(Code::InvalidCapabilityId, message)
                    .of(id)
                    .at(place),
            );
            continue;
        }
        let Some(map) = entry.as_object() else {
            found.add(
                Diagnostic::error(Code::InvalidManifestSchema, "a server must be an object")
                    .of(id)
                    .at(place),
            );
            continue;
        };
        if let Some(launch) = launch(id, map, listing, found) {
            all.push(Server {
                id: id.clone(),
                launch,
                entry: entry.clone(),
            });
        }
    }
    all
}

fn launch(id: &str, map: &Map<String, Value>, listing: &Listing, found: &mut Findings) -> Option<Launch> {
    let error = |code, field: &str, message: String| Diagnostic::error(code, message).of(id).at(field);
    let kind = match map.get("type") {
        None if map.contains_key("url") => "http",
        None => "stdio",
        Some(value) => value.as_str().unwrap_or_default(),
    };
    for field in map.keys() {
        if !["type", "command", "args", "env", "url", "headers"].contains(&field.as_str()) {
            let message = format!("\"{}\" is not read", shown(field));
            found.add(
                Diagnostic::warning(Code::UnsupportedField, message)
                    .of(id)
                    .at(field),
            );
        }
    }
    match kind {
        "stdio" => stdio(id, map, listing, found),
        "http" => http(id, map, found),
        "sse" => {
            found.add(error(
                Code::InvalidManifestSchema,
                "type",
                "muster speaks Streamable HTTP, not the older sse; write \"type\": \"http\" if the server can".to_owned(),
            ));
            None
        }
        _ => {
            found.add(error(
                Code::InvalidManifestSchema,
                "type",
                "\"type\" must be \"stdio\" or \"http\"".to_owned(),
            ));
            None
        }
    }
}

fn stdio(id: &str, map: &Map<String, Value>, listing: &Listing, found: &mut Findings) -> Option<Launch> {
    let error = |code, field: &str, message: String| Diagnostic::error(code, message).of(id).at(field);
    let command = match map.get("command") {
        Some(Value::String(command)) if !command.trim().is_empty() => command.clone(),
        _ => {
            found.add(error(
                Code::MissingCapabilityCommand,
                "command",
                "the entry has no program to run: add \"command\": \"<program>\" and \"args\": [...]"
                    .to_owned(),
            ));
            return None;
        }
    };
    let mut argv = vec![command];
    match map.get("args") {
        None => {}
        Some(args) => match strings(args) {
            Some(args) => argv.extend(args),
            None => {
                found.add(error(
                    Code::InvalidManifestSchema,
                    "args",
                    "\"args\" must be a list of strings".to_owned(),
                ));
                return None;
            }
        },
    }
    if argv.iter().any(|word| word.contains('\0')) {
        found.add(error(
            Code::InvalidManifestSchema,
            "command",
            "a word of the command holds a zero byte".to_owned(),
        ));
        return None;
    }
    for (at, word) in argv.iter().enumerate() {
        path(id, word, at == 0, listing, found);
    }
    let env = match environment(map.get("env")) {
        Ok(env) => env,
        Err(why) => {
            found.add(error(Code::InvalidManifestSchema, "env", why.to_owned()));
            return None;
        }
    };
    for value in env.values() {
        unfilled(id, value, "env", found);
    }
    if !env.is_empty() {
        let message = "the variables of this entry are set for the server and are part of what is approved";
        found.add(
            Diagnostic::warning(Code::HonoredDeclaration, message)
                .of(id)
                .at("env"),
        );
    }
    Some(Launch::Stdio {
        argv,
        path: None,
        env,
        cwd: Cwd::Session,
    })
}

/// A word that names a file of the package must name one that is there.
fn path(id: &str, word: &str, is_program: bool, listing: &Listing, found: &mut Findings) {
    unfilled(id, word, "command", found);
    let Some(rest) = word.strip_prefix(ROOT_VARIABLE) else {
        elsewhere(id, word, is_program, listing, found);
        return;
    };
    let rest = rest.trim_start_matches('/');
    match inside(rest) {
        None => found.add(
            Diagnostic::error(Code::UnsafePath, format!("{} leaves the package", shown(word)))
                .of(id)
                .at("command"),
        ),
        Some(path)
            if path.is_empty() || listing.files.contains_key(&path) || listing.folders.contains(&path) => {}
        Some(_) => found.add(
            Diagnostic::error(
                Code::MissingCapabilityPath,
                format!(
                    "{} is not a file of the package: fix the path or add the file",
                    shown(word)
                ),
            )
            .of(id)
            .at("command"),
        ),
    }
}

/// A relative word is looked for where the session works, which is not the package: a file there could run in the place of the one that is reviewed.
fn elsewhere(id: &str, word: &str, is_program: bool, listing: &Listing, found: &mut Findings) {
    // A program without a slash is looked for in PATH and nowhere else.
    if is_program && !word.contains('/') {
        return;
    }
    let Some(file) = inside(word).filter(|file| listing.files.contains_key(file)) else {
        return;
    };
    let message = format!(
        "{} is looked for in the folder that a session works in, not in the package, so another file could run than the one that is reviewed: write {}",
        shown(word),
        shown(&format!("{ROOT_VARIABLE}/{file}"))
    );
    let one = if is_program {
        Diagnostic::error(Code::UnsafePath, message)
    } else {
        Diagnostic::warning(Code::UnsafePath, message)
    };
    found.add(one.of(id).at("command"));
}

/// A variable of the owner's environment stays as it is written.
fn unfilled(id: &str, text: &str, field: &str, found: &mut Findings) {
    let rest = text
        .replace(ROOT_VARIABLE, "")
        .replace("${CLAUDE_PLUGIN_DATA}", "");
    if rest.contains("${") {
        let message = format!(
            "nothing is filled in for {}: a package gets none of the owner's variables",
            shown(text)
        );
        found.add(
            Diagnostic::warning(Code::UnsupportedField, message)
                .of(id)
                .at(field),
        );
    }
}

fn http(id: &str, map: &Map<String, Value>, found: &mut Findings) -> Option<Launch> {
    let error = |code, field: &str, message: String| Diagnostic::error(code, message).of(id).at(field);
    let Some(url) = map
        .get("url")
        .and_then(Value::as_str)
        .filter(|url| !url.trim().is_empty())
    else {
        found.add(error(
            Code::MissingCapabilityUrl,
            "url",
            "an http entry needs an address: add \"url\": \"https://…\"".to_owned(),
        ));
        return None;
    };
    if let Some(why) = url_fault(url) {
        found.add(error(
            Code::InvalidManifestSchema,
            "url",
            format!("\"url\" {why}"),
        ));
        return None;
    }
    let (headers, kept_back) = match headers(map.get("headers")) {
        Ok(read) => read,
        Err(why) => {
            found.add(error(Code::InvalidManifestSchema, "headers", why.to_owned()));
            return None;
        }
    };
    for name in kept_back {
        let message = format!("the header {name} carries a credential and is not sent");
        found.add(
            Diagnostic::warning(Code::UnsupportedField, message)
                .of(id)
                .at("headers"),
        );
    }
    Some(Launch::Http {
        url: url.to_owned(),
        headers: headers.into_iter().collect::<BTreeMap<_, _>>(),
    })
}
