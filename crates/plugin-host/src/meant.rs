//! What a person means by a word on a command line: one server has several names. Never guesses between two.

use crate::error::PluginError;
use crate::host::Host;
use crate::names::{Kind, ServerKey, Target};

/// What a person means by a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant {
    /// This.
    Target(Target),
    /// One of these servers; which of them cannot be told.
    Many(Vec<String>),
    /// It is no spelling of anything.
    Nothing,
}

impl Host {
    /// What a person means by `text`: every spelling of [`Target::parse`], `PLUGIN:SERVER`, `plugin:PLUGIN:SERVER`, and a server's name in an agent's
    /// configuration, as far as it is one server's alone.
    ///
    /// # Errors
    /// A fault.
    pub fn meant(&self, text: &str) -> Result<Meant, PluginError> {
        let one = |key: &ServerKey| Meant::Target(Target::One(key.stable_id()));
        match Target::parse(text) {
            None if text.contains(':') => {
                return Ok(ServerKey::parse(text).map_or(Meant::Nothing, |key| one(&key)));
            }
            Some(target @ Target::One(_)) => return Ok(Meant::Target(target)),
            None | Some(Target::Plugin(_)) => {}
        }
        let ledger = self.book.read()?;
        let plugin = Target::Plugin(text.to_owned());
        if ledger.packages.contains_key(text) {
            return Ok(Meant::Target(plugin));
        }
        let servers = ledger.packages.values().flat_map(|one| &one.capabilities);
        let named: Vec<ServerKey> = servers
            .filter(|one| one.id.kind == Kind::McpServer)
            .map(|one| ServerKey::new(&one.id.plugin, &one.id.id))
            .filter(|key| key.entry() == text)
            .collect();
        Ok(match named.as_slice() {
            [] => Meant::Target(plugin),
            [key] => one(key),
            _ => Meant::Many(
                named
                    .iter()
                    .map(|key| format!("{}:{}", key.plugin, key.server))
                    .collect(),
            ),
        })
    }
}
