//! The servers an agent is given, as the configuration that agents read: approved packages, the owner's own, the project's, and what is added for one run. Pure; never
//! lets an added server take a package's place.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::diagnostic::{Code, Diagnostic, shown};
use crate::names::{ServerKey, sanitise};
use crate::once;

/// A key of the added servers that is a package's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the added server \"{key}\" has the name of {server}, a server of a package; give it another name")]
pub struct Clash {
    /// The key.
    pub key: String,
    /// Whose name it is.
    pub server: String,
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `{"mcpServers": {…}}`.
    pub document: Value,
    /// What was left out and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// Puts the servers of a session together.
///
/// `entry` gives the way to an approved server: a command of muster's, or an address. `settings` are the owner's own servers, `project` those of the
/// project's `.mcp.json`, which come before the owner's of the same name; `added` are those of this run, which come before both.
///
/// # Errors
/// [`Clash`], when an added server is called like a package's server, by its id, its entry name or its registered name. Nothing may start then.
pub fn mcp_config(
    approved: &[ServerKey],
    entry: impl Fn(&ServerKey) -> Value,
    settings: &Map<String, Value>,
    project: &Map<String, Value>,
    added: &Map<String, Value>,
) -> Result<Config, Clash> {
    for key in added.keys() {
        let clash = approved.iter().find(|server| {
            *key == server.server || *key == server.registered() || may_share_a_tool(key, server)
        });
        if let Some(server) = clash {
            return Err(Clash {
                key: shown(key),
                server: server.registered(),
            });
        }
    }
    let mut servers = BTreeMap::new();
    let mut diagnostics = Vec::new();
    for (source, map) in [
        ("settings.json", settings),
        (".mcp.json", project),
        ("the added file", added),
    ] {
        for (key, value) in map {
            if let Some(server) = approved.iter().find(|server| may_share_a_tool(key, server)) {
                let message = format!(
                    "the server {} of {source} is left out: it, or a tool of it, would have the name of {server} or of one of its tools; call it otherwise",
                    shown(key)
                );
                diagnostics.push(Diagnostic::warning(Code::ToolNameCollision, message).of(key));
                continue;
            }
            match normal(value) {
                Some(value) => drop(servers.insert(key.clone(), value)),
                None => {
                    let message = format!(
                        "the server {} of {source} is left out: it has neither a command nor an address",
                        shown(key)
                    );
                    diagnostics.push(Diagnostic::warning(Code::InvalidManifestSchema, message).of(key));
                }
            }
        }
    }
    for server in approved {
        servers.insert(server.entry(), entry(server));
    }
    Ok(Config {
        document: json!({"mcpServers": servers}),
        diagnostics,
    })
}

/// Whether a client that calls a tool `mcp__SERVER__TOOL` could call one of this server and one of the package's alike.
fn may_share_a_tool(key: &str, server: &ServerKey) -> bool {
    let (one, other) = (format!("{}__", sanitise(key)), format!("{}__", server.entry()));
    one.starts_with(&other) || other.starts_with(&one)
}

/// The servers of a file with an `mcpServers` map.
///
/// # Errors
/// A sentence, when the text is no such file.
pub fn read_servers(text: &[u8]) -> Result<Map<String, Value>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| {
        format!(
            "it is not JSON (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    once::check(text).map_err(|error| {
        format!(
            "it names a key twice in one object (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    match value.get("mcpServers") {
        Some(Value::Object(map)) => Ok(map.clone()),
        None if value.is_object() => Ok(Map::new()),
        _ => Err("\"mcpServers\" must be an object".to_owned()),
    }
}

/// An entry in the spelling that every agent reads.
fn normal(entry: &Value) -> Option<Value> {
    let map = entry.as_object()?;
    let kept = |fields: &[&str]| {
        fields
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), map.get(*field)?.clone())))
            .collect::<Map<String, Value>>()
    };
    if map.get("url").is_some_and(Value::is_string) {
        let mut out = kept(&["url", "headers"]);
        let kind = match map.get("type").and_then(Value::as_str) {
            Some("sse") => "sse",
            _ => "http",
        };
        out.insert("type".to_owned(), kind.into());
        return Some(Value::Object(out));
    }
    let mut out = kept(&["args", "env", "cwd"]);
    match map.get("command")? {
        Value::String(command) if !command.is_empty() => {
            out.insert("command".to_owned(), command.clone().into());
        }
        Value::Array(argv) => {
            let (program, rest) = argv.split_first()?;
            out.insert("command".to_owned(), program.as_str()?.into());
            let mut args = rest.to_vec();
            if let Some(more) = map.get("args").and_then(Value::as_array) {
                args.extend(more.iter().cloned());
            }
            out.insert("args".to_owned(), args.into());
        }
        _ => return None,
    }
    out.entry("args").or_insert_with(|| json!([]));
    Some(Value::Object(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn keys() -> Vec<ServerKey> {
        vec![ServerKey::new("forecast-tools", "forecast")]
    }

    fn entry(key: &ServerKey) -> Value {
        json!({"command": "muster", "args": ["plugins", "serve", format!("{}:{}", key.plugin, key.server)]})
    }

    // spec: NAM-014 NAM-015 NAM-016
    #[test]
    fn an_added_server_with_the_name_of_a_packages_is_refused_and_named() {
        let none = Map::new();
        for key in [
            "forecast",
            "plugin:forecast-tools:forecast",
            "plugin_forecast_tools_forecast",
            "plugin-forecast-tools-forecast",
        ] {
            let added = map(json!({key: {"command": "x"}}));
            let clash = mcp_config(&keys(), entry, &none, &none, &added).unwrap_err();
            assert!(clash.to_string().contains(key));
        }
        let added = map(json!({"forecasts": {"command": "x"}}));
        assert!(mcp_config(&keys(), entry, &none, &none, &added).is_ok());
    }

    // spec: MAN-032
    #[test]
    fn servers_of_every_origin_stand_side_by_side() {
        let settings = map(
            json!({"own": {"command": ["node", "a.js"], "args": ["b"], "env": {"K": "v"}, "tool_timeout_sec": 5}, "both": {"command": "old"}}),
        );
        let project = map(
            json!({"docs": {"url": "https://example.com/mcp", "headers": {"A": "b"}}, "both": {"command": "new"}, "broken": {}}),
        );
        let config = mcp_config(&keys(), entry, &settings, &project, &Map::new()).unwrap();
        let servers = &config.document["mcpServers"];
        assert_eq!(
            servers["own"],
            json!({"command": "node", "args": ["a.js", "b"], "env": {"K": "v"}})
        );
        assert_eq!(
            servers["docs"],
            json!({"type": "http", "url": "https://example.com/mcp", "headers": {"A": "b"}})
        );
        assert_eq!(servers["both"]["command"], "new");
        assert_eq!(servers["plugin_forecast_tools_forecast"]["command"], "muster");
        assert_eq!(config.diagnostics.len(), 1);
        // The name itself, and those whose tool `y` would be called as the package's `x__y`.
        for name in [
            "plugin-forecast-tools-forecast",
            "plugin_forecast_tools_forecast__x",
            "plugin_forecast_tools_forecast__x__y",
        ] {
            let shadow = map(json!({name: {"command": "evil"}}));
            for (settings, project) in [(&shadow, &Map::new()), (&Map::new(), &shadow)] {
                let config = mcp_config(&keys(), entry, settings, project, &Map::new()).unwrap();
                assert_eq!(
                    config.document["mcpServers"].as_object().unwrap().len(),
                    1,
                    "{name}"
                );
                assert_eq!(config.diagnostics.len(), 1);
            }
            assert!(
                mcp_config(&keys(), entry, &Map::new(), &Map::new(), &shadow).is_err(),
                "{name}"
            );
        }
        let near = map(
            json!({"plugin_forecast_tools_forecast_x": {"command": "fine"}, "plugin": {"command": "fine"}}),
        );
        let config = mcp_config(&keys(), entry, &near, &Map::new(), &Map::new()).unwrap();
        assert_eq!(config.document["mcpServers"].as_object().unwrap().len(), 3);
    }
}
