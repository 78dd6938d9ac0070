//! What agents may call of approved servers, as the ledger and settings.json have it now, and which rules say nothing. Never decides: each call is decided when
//! it is made.

use std::collections::BTreeSet;

use crate::error::PluginError;
use crate::host::{Host, taken};
use crate::inspect::known;
use crate::ledger::Ledger;
use crate::names::{Kind, ServerKey};
use crate::settings::{Ruling, Settings};

/// What would become of a call made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It is refused.
    Deny,
}

impl Effect {
    /// The word, as policies have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// An approved server's tools, as they were listed; none before its first start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The server.
    pub key: ServerKey,
    /// Registered names, each with what would become of a call.
    pub tools: Vec<(String, Effect)>,
}

/// What stands in settings.json and does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dead {
    /// A rule that matches no tool.
    Rule {
        /// `allow`, `prompt` or `deny`.
        list: &'static str,
        /// The name as it stands there. Outside text.
        name: String,
    },
    /// A key that is not muster's. Outside text.
    Key(String),
}

impl std::fmt::Display for Dead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rule { list, name } => write!(
                f,
                "the rule {} in permissions.{list} of settings.json matches no tool of any installed package, so it does nothing; rules are whole registered names, as muster plugins inspect has them once a server was started",
                crate::diagnostic::shown(name)
            ),
            Self::Key(key) => write!(
                f,
                "the key {} of settings.json is none of approval_mode, permissions and mcpServers, so muster passes over it",
                crate::diagnostic::shown(key)
            ),
        }
    }
}

impl Host {
    /// What the agents of now may call. Where settings.json cannot be read, nothing.
    ///
    /// # Errors
    /// A fault: the ledger could not be read.
    pub fn offered(&self) -> Result<Vec<Offered>, PluginError> {
        let ledger = self.book.read()?;
        let settings = Settings::read(&self.settings_path()).ok();
        let servers = Self::approved_in(&ledger).servers;
        Ok(servers
            .into_iter()
            .map(|key| {
                let tools = tools(&ledger, &key, settings.as_ref());
                Offered { key, tools }
            })
            .collect())
    }

    /// Keys of settings.json that are not muster's, and rules that match nothing. One about a server whose tools were never listed may match yet and is not among them.
    ///
    /// # Errors
    /// A fault; a settings.json that cannot be read has no rules here, and other looks tell of it.
    pub fn dead_settings(&self) -> Result<Vec<Dead>, PluginError> {
        let Ok(settings) = Settings::read(&self.settings_path()) else {
            return Ok(Vec::new());
        };
        let lists = [
            ("allow", &settings.allow),
            ("prompt", &settings.prompt),
            ("deny", &settings.deny),
        ];
        let mut found: Vec<Dead> = settings.strangers.iter().cloned().map(Dead::Key).collect();
        if lists.iter().all(|(_, names)| names.is_empty()) {
            return Ok(found);
        }
        let ledger = self.book.read()?;
        let (mut names, mut unlisted) = (BTreeSet::new(), Vec::new());
        for one in ledger.packages.values().flat_map(|one| &one.capabilities) {
            if one.id.kind != Kind::McpServer {
                continue;
            }
            let key = ServerKey::new(&one.id.plugin, &one.id.id);
            if ledger.pins.contains_key(&one.id) {
                names.extend(known(&ledger, &key).into_iter().map(|tool| tool.registered));
            } else {
                unlisted.push(key.tool_prefix());
            }
        }
        let dead = |name: &&String| {
            !names.contains(*name) && !unlisted.iter().any(|prefix| name.starts_with(prefix.as_str()))
        };
        found.extend(lists.into_iter().flat_map(|(list, names)| {
            let dead = names.iter().filter(dead);
            dead.map(move |name| Dead::Rule {
                list,
                name: name.clone(),
            })
        }));
        Ok(found)
    }
}

fn tools(ledger: &Ledger, key: &ServerKey, settings: Option<&Settings>) -> Vec<(String, Effect)> {
    let all = known(ledger, key);
    let elsewhere = taken(ledger, key);
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&String> = all
        .iter()
        .map(|tool| &tool.registered)
        .filter(|name| !seen.insert(*name))
        .collect();
    all.iter()
        .filter(|tool| !twice.contains(&tool.registered) && !elsewhere.contains(&tool.registered))
        .map(|tool| {
            let hinted = tool.read_only && !tool.changed;
            let effect = match settings.map(|all| all.ruling(&tool.registered, hinted, tool.changed)) {
                Some(Ruling::Allow(_)) => Effect::Allow,
                Some(Ruling::Prompt(_)) => Effect::Ask,
                Some(Ruling::Deny) | None => Effect::Deny,
            };
            (tool.registered.clone(), effect)
        })
        .collect()
}
