//! Agent Plugins 1.0.0: `plugin.json` and `mcp.json` at the root. Never gives up a package for one broken server; the others are used.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{
    Findings, ROOT, Read, environment, headers, inside, is_loopback, object, optional_text, required_text,
    strings, url_fault,
};
use crate::diagnostic::{Code, Diagnostic, shown};
use crate::names::is_foreign_id;
use crate::once;
use crate::package::{Cwd, Family, Launch, Package, Place, Server};
use crate::tree::Listing;

const MCP: &str = "mcp.json";
const SCHEMAS: &str = "https://agent-plugins.org/schemas/";
const PLUGIN_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
const MCP_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
const FIELDS: [&str; 10] = [
    "$schema",
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "extensions",
];

/// Whether the root manifest says that it is one of this format, in whatever version.
pub(super) fn claims(read: &Read<'_>) -> bool {
    read(ROOT)
        .ok()
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        .and_then(|value| Some(value.get("$schema")?.as_str()?.starts_with(SCHEMAS)))
        .unwrap_or(false)
}

pub(super) fn read(read: &Read<'_>, listing: &Listing, found: &mut Findings) -> Option<Package> {
    let map = object(read, ROOT, found)?;
    match map.get("$schema").and_then(Value::as_str) {
        Some(PLUGIN_SCHEMA) => {}
        Some(other) if other.starts_with(SCHEMAS) => found.add(
            Diagnostic::error(
                Code::UnsupportedAgentSchema,
                format!("muster reads version 1.0.0, not {}", shown(other)),
            )
            .at("$schema"),
        ),
        _ => found.add(
            Diagnostic::error(
                Code::UnsupportedAgentSchema,
                format!("\"$schema\" must be {PLUGIN_SCHEMA}"),
            )
            .at("$schema"),
        ),
    }
    let id = required_text(&map, "name", found).filter(|name| {
        let sound = is_agent_name(name);
        if !sound {
            let message = format!(
                "\"{}\" is no package name: use 1 to 64 of a-z, 0-9, hyphen and dot, with a letter or digit at both ends, and neither -- nor ..",
                shown(name)
            );
            found.add(Diagnostic::error(Code::InvalidPluginId, message).at("name"));
        }
        sound
    });
    found.id.clone_from(&id);
    let version = optional_text(&map, "version", found);
    optional_text(&map, "description", found);
    for field in map.keys().filter(|field| !FIELDS.contains(&field.as_str())) {
        let message = format!("\"{}\" is not read", shown(field));
        found.add(Diagnostic::warning(Code::UnsupportedField, message).at(field));
    }
    extensions(&map, listing, found);
    if listing.files.keys().any(|path| path.starts_with("skills/")) {
        let message = "muster does not run skills; this part is left alone";
        found.add(Diagnostic::warning(Code::AgentSkillSkipped, message).at("skills"));
    }
    let servers = if listing.files.contains_key(MCP) {
        servers(read, listing, found)
    } else {
        Vec::new()
    };
    let id = id?;
    Some(Package {
        name: id.clone(),
        id,
        version: version.unwrap_or_default(),
        family: Family::AgentPlugins,
        servers,
        hooks: Vec::new(),
    })
}

fn is_agent_name(name: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 64
        && ends(name.bytes().next())
        && ends(name.bytes().last())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-'))
        && !name.contains("--")
        && !name.contains("..")
}

/// What other clients keep in the package is named once and left alone.
fn extensions(map: &Map<String, Value>, listing: &Listing, found: &mut Findings) {
    match map.get("extensions") {
        None => {}
        Some(Value::Object(names)) => {
            for name in names.keys() {
                let message = format!("the extension {} is for another client", shown(name));
                found.add(Diagnostic::warning(Code::AgentOverlayInactive, message).at("extensions"));
            }
        }
        Some(_) => found.add(
            Diagnostic::warning(
                Code::UnsupportedField,
                "\"extensions\" is no object and is not read",
            )
            .at("extensions"),
        ),
    }
    for folder in &listing.folders {
        let reversed_domain = !folder.contains('/')
            && !folder.starts_with('.')
            && folder.split('.').count() >= 3
            && folder.split('.').all(|part| !part.is_empty());
        if reversed_domain {
            let message = format!("the folder {} is for another client", shown(folder));
            found.add(Diagnostic::warning(Code::AgentOverlayInactive, message).at(folder));
        }
    }
}

fn servers(read: &Read<'_>, listing: &Listing, found: &mut Findings) -> Vec<Server> {
    let invalid = |message: String| {
        Diagnostic::warning(Code::AgentComponentInvalid, message + "; no server is read").at(MCP)
    };
    let text = match read(MCP) {
        Ok(text) => text,
        Err(error) => {
            found.add(invalid(format!("mcp.json could not be read ({error})")));
            return Vec::new();
        }
    };
    let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(&text) else {
        found.add(invalid("mcp.json is no JSON object".to_owned()));
        return Vec::new();
    };
    if once::check(&text).is_err() {
        found.add(invalid("mcp.json names a key twice in one object".to_owned()));
        return Vec::new();
    }
    if map.get("$schema").and_then(Value::as_str) != Some(MCP_SCHEMA) {
        found.add(invalid(format!("\"$schema\" of mcp.json is not {MCP_SCHEMA}")));
        return Vec::new();
    }
    let Some(Value::Object(entries)) = map.get("mcpServers") else {
        found.add(invalid("\"mcpServers\" of mcp.json is no object".to_owned()));
        return Vec::new();
    };
    let mut all = Vec::new();
    for (id, entry) in entries {
        match server(id, entry, listing) {
            Ok((launch, notes)) => {
                for note in notes {
                    found.add(Diagnostic::warning(Code::UnsupportedField, note).of(id));
                }
                all.push(Server {
                    id: id.clone(),
                    launch,
                    entry: entry.clone(),
                });
            }
            Err(why) => found.add(
                Diagnostic::warning(
                    Code::AgentMcpServerSkipped,
                    format!("the server is left out: {why}"),
                )
                .of(id),
            ),
        }
    }
    all
}

fn server(id: &str, entry: &Value, listing: &Listing) -> Result<(Launch, Vec<String>), String> {
    if !is_foreign_id(id) {
        return Err(
            "its name must be 1 to 80 letters, digits, dots, underscores and hyphens, and begin with a letter or digit"
                .to_owned(),
        );
    }
    let map = entry.as_object().ok_or("it is no object")?;
    let closed = |fields: &[&str]| match map.keys().find(|field| !fields.contains(&field.as_str())) {
        Some(field) => Err(format!("it has no field \"{}\"", shown(field))),
        None => Ok(()),
    };
    match map.get("type").and_then(Value::as_str) {
        Some("stdio") => {
            closed(&["type", "command", "args", "env", "cwd"])?;
            Ok((stdio(map, listing)?, Vec::new()))
        }
        Some("streamable-http") => {
            closed(&["type", "url", "headers"])?;
            http(map)
        }
        Some("sse") => Err("muster speaks Streamable HTTP, not the older sse".to_owned()),
        _ => Err("\"type\" must be stdio, streamable-http or sse".to_owned()),
    }
}

fn stdio(map: &Map<String, Value>, listing: &Listing) -> Result<Launch, String> {
    let command = map
        .get("command")
        .and_then(Value::as_str)
        .filter(|command| !command.is_empty())
        .ok_or("\"command\" must be a string that is not empty")?;
    let mut path = None;
    if command.starts_with("./") {
        let inside = inside(command).ok_or("\"command\" leaves the package")?;
        if !listing.files.contains_key(&inside) {
            return Err("\"command\" is not a file of the package".to_owned());
        }
        path = Some(0);
    } else if command.contains('/') || command.chars().any(char::is_whitespace) {
        return Err(
            "\"command\" must be one word: a program's name, or a path that begins with ./".to_owned(),
        );
    }
    let mut argv = vec![command.to_owned()];
    match map.get("args") {
        None => {}
        Some(args) => argv.extend(strings(args).ok_or("\"args\" must be a list of strings")?),
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err("a word of the command holds a zero byte".to_owned());
    }
    let cwd = match map.get("cwd") {
        None => Cwd::In(Place::Root, PathBuf::new()),
        Some(Value::String(cwd)) => folder(cwd)
            .ok_or("\"cwd\" must begin with ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA} and stay inside")?,
        Some(_) => return Err("\"cwd\" must be a string".to_owned()),
    };
    Ok(Launch::Stdio {
        argv,
        path,
        env: environment(map.get("env"))?,
        cwd,
    })
}

fn folder(cwd: &str) -> Option<Cwd> {
    for (prefix, place) in [("${PLUGIN_ROOT}", Place::Root), ("${PLUGIN_DATA}", Place::Data)] {
        if let Some(rest) = cwd.strip_prefix(prefix) {
            let rest = match rest.strip_prefix('/') {
                Some(rest) => rest,
                None if rest.is_empty() => rest,
                None => return None,
            };
            return Some(Cwd::In(place, PathBuf::from(inside(rest)?)));
        }
    }
    let rest = cwd.strip_prefix("./").or_else(|| (cwd == ".").then_some(""))?;
    Some(Cwd::In(Place::Root, PathBuf::from(inside(rest)?)))
}

fn http(map: &Map<String, Value>) -> Result<(Launch, Vec<String>), String> {
    let url = map
        .get("url")
        .and_then(Value::as_str)
        .filter(|url| !url.trim().is_empty())
        .ok_or("\"url\" must be a string that is not empty")?;
    if let Some(why) = url_fault(url) {
        return Err(format!("\"url\" {why}"));
    }
    let parsed = reqwest::Url::parse(url).map_err(|_| "\"url\" is no address")?;
    if parsed.scheme() == "http" && !is_loopback(&parsed) {
        return Err("\"url\" must be https unless it stays on this machine".to_owned());
    }
    if parsed.fragment().is_some() {
        return Err("\"url\" must not have a fragment".to_owned());
    }
    let (headers, kept_back) = headers(map.get("headers"))?;
    let notes = kept_back
        .into_iter()
        .map(|name| format!("the header {name} carries a credential and is not sent"))
        .collect();
    let launch = Launch::Http {
        url: url.to_owned(),
        headers: headers.into_iter().collect::<BTreeMap<_, _>>(),
    };
    Ok((launch, notes))
}
