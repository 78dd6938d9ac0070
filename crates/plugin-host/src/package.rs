//! The one model that all three formats are read into. Never touches a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_core::secret::sha256_hex;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ledger::Capability;
use crate::names::{Kind, ServerKey, StableId};

/// Which format a package is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `.muse-plugin/plugin.json`.
    Native,
    /// Agent Plugins 1.0.0: `plugin.json` and `mcp.json` at the root.
    AgentPlugins,
    /// Claude Code's layout: `.claude-plugin/plugin.json` and `.mcp.json`.
    ClaudeCode,
}

impl Family {
    /// The variables that are filled in where they stand in a command, with whether the package or its data is meant.
    const fn placeholders(self) -> &'static [(&'static str, Place)] {
        match self {
            Self::Native => &[],
            Self::AgentPlugins => &[("${PLUGIN_ROOT}", Place::Root), ("${PLUGIN_DATA}", Place::Data)],
            Self::ClaudeCode => &[
                ("${CLAUDE_PLUGIN_ROOT}", Place::Root),
                ("${CLAUDE_PLUGIN_DATA}", Place::Data),
            ],
        }
    }

    /// `text` with this format's placeholders filled in.
    pub(crate) fn fill(self, text: &str, root: &Path, data: &Path) -> String {
        self.placeholders()
            .iter()
            .fold(text.to_owned(), |text, (name, place)| {
                let path = match place {
                    Place::Root => root,
                    Place::Data => data,
                };
                text.replace(name, &path.to_string_lossy())
            })
    }
}

/// One of a package's two folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The stored copy.
    Root,
    /// The folder for its state.
    Data,
}

/// A package that can be installed.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its id.
    pub id: String,
    /// What people call it; the id when the manifest says nothing.
    pub name: String,
    /// Its version, empty when the format leaves it out.
    pub version: String,
    /// Its format.
    pub family: Family,
    /// Its servers, in the manifest's order.
    pub servers: Vec<Server>,
    /// Its hooks, in the manifest's order.
    pub hooks: Vec<Hook>,
}

/// One server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its id in the package.
    pub id: String,
    /// How it is reached.
    pub launch: Launch,
    /// The whole entry of the manifest, fields that are not read included: what is reviewed.
    pub entry: Value,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A program that is talked to over its standard streams.
    Stdio {
        /// Program and arguments as the manifest has them.
        argv: Vec<String>,
        /// Which of them names a file of the package and becomes its full path.
        path: Option<usize>,
        /// Further variables; always empty in the native format.
        env: BTreeMap<String, String>,
        /// Where it runs.
        cwd: Cwd,
    },
    /// An address that speaks Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers that are sent; always empty in the native format.
        headers: BTreeMap<String, String>,
    },
}

/// Where a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cwd {
    /// Where the session runs.
    Session,
    /// In one of the package's folders, or below it.
    In(Place, PathBuf),
}

/// One hook. It is reviewed like a server.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its id in the package.
    pub id: String,
    /// The event it runs at.
    pub event: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole entry of the manifest.
    pub entry: Value,
}

impl Server {
    /// `stdio` or `http`.
    #[must_use]
    pub const fn transport(&self) -> &'static str {
        match self.launch {
            Launch::Stdio { .. } => "stdio",
            Launch::Http { .. } => "http",
        }
    }
}

impl Package {
    /// What the ledger keeps of one server or hook.
    pub(crate) fn capability(&self, id: StableId, hash: String) -> Capability {
        let mut one = Capability {
            id,
            hash,
            transport: None,
            command: None,
            url: None,
        };
        match one.id.kind {
            Kind::McpServer => {
                if let Some(server) = self.server(&one.id.id) {
                    one.transport = Some(server.transport().to_owned());
                    match &server.launch {
                        Launch::Stdio { argv, .. } => one.command = Some(argv.clone()),
                        Launch::Http { url, .. } => one.url = Some(url.clone()),
                    }
                }
            }
            Kind::Hook => {
                let hook = self.hooks.iter().find(|hook| hook.id == one.id.id);
                one.command = hook.map(|hook| hook.argv.clone());
            }
        }
        one
    }

    /// Everything that is reviewed, with the hash of its definition in a package of this digest.
    pub(crate) fn reviewed(&self, digest: &str) -> Vec<(StableId, String)> {
        let id = |kind, id: &str| StableId {
            plugin: self.id.clone(),
            kind,
            id: id.to_owned(),
        };
        let servers = self
            .servers
            .iter()
            .map(|server| (id(Kind::McpServer, &server.id), &server.entry));
        let hooks = self
            .hooks
            .iter()
            .map(|hook| (id(Kind::Hook, &hook.id), &hook.entry));
        servers
            .chain(hooks)
            .map(|(id, entry)| {
                let hash = definition_hash(self.family, id.kind, entry, digest);
                (id, hash)
            })
            .collect()
    }

    /// The server of this id.
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// The key of a server of this package.
    #[must_use]
    pub fn key(&self, server: &Server) -> ServerKey {
        ServerKey::new(&self.id, &server.id)
    }
}

/// What an approval binds to: every field of the entry and every byte of the package.
pub(crate) fn definition_hash(family: Family, kind: Kind, entry: &Value, digest: &str) -> String {
    let definition = json!({"entry": entry, "family": family, "kind": kind, "package": digest});
    sha256_hex(canonical(&definition).as_bytes())
}

/// JSON with sorted keys and no blanks, whatever order the library keeps.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (number, (key, value)) in sorted.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (number, value) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write_canonical(value, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: TRU-018
    #[test]
    fn the_definition_hash_covers_each_field_and_the_digest_and_no_order() {
        let hash = |entry: &Value, digest| definition_hash(Family::Native, Kind::McpServer, entry, digest);
        let entry = json!({"id": "a", "command": ["python3", "x/y.py"], "env": {"A": "1"}});
        let same: Value =
            serde_json::from_str(r#"{"env":{"A":"1"},"command":["python3","x/y.py"],"id":"a"}"#).unwrap();
        assert_eq!(hash(&entry, "d"), hash(&same, "d"));
        for other in [
            json!({"id": "a", "command": ["python3", "x/z.py"], "env": {"A": "1"}}),
            json!({"id": "a", "command": ["python3", "x/y.py"], "env": {"A": "2"}}),
            json!({"id": "a", "command": ["python3", "x/y.py"]}),
        ] {
            assert_ne!(hash(&entry, "d"), hash(&other, "d"));
        }
        assert_ne!(hash(&entry, "d"), hash(&entry, "e"));
    }
}
