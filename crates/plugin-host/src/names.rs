//! Names: ids of packages and servers, what a person may point at, and what tools are called. Never cuts a name and never guesses one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A registered tool name longer than this, in bytes, is refused by some model providers. It is reported, never cut.
pub const TOOL_NAME_LIMIT: usize = 64;

/// A server's own name of a tool longer than this, in bytes, is not offered: it would be kept, logged and shown in full.
pub(crate) const LONGEST_RAW_NAME: usize = 512;

/// Package ids that belong to hosts themselves.
pub const RESERVED_IDS: [&str; 3] = ["loop", "muse-core", "tbh-reminders"];

/// Whether `text` is an id: `[a-z0-9][a-z0-9._-]{0,79}`.
#[must_use]
pub fn is_id(text: &str) -> bool {
    text.len() <= 80
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
}

/// Whether `text` may name a server in the other two formats, which also use capital letters.
pub(crate) fn is_foreign_id(text: &str) -> bool {
    text.len() <= 80
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Every character but ASCII letters, digits and the underscore becomes an underscore.
#[must_use]
pub fn sanitise(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// What a package can ask to have reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A server of tools.
    McpServer,
    /// A program that runs at an event. Reviewed like a server; muster starts none.
    Hook,
}

impl Kind {
    /// The word in ids.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::McpServer => "mcp_server",
            Self::Hook => "hook",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "mcp_server" => Some(Self::McpServer),
            "hook" => Some(Self::Hook),
            _ => None,
        }
    }
}

/// The id of one reviewed thing: `plugin:<plugin>:<kind>:<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StableId {
    /// The package.
    pub plugin: String,
    /// What it is.
    pub kind: Kind,
    /// Its id in the package.
    pub id: String,
}

impl fmt::Display for StableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin:{}:{}:{}", self.plugin, self.kind.word(), self.id)
    }
}

impl From<StableId> for String {
    fn from(id: StableId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for StableId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match Target::parse(&text) {
            Some(Target::One(id)) if id.to_string() == text => Ok(id),
            _ => Err("this is no stable id of a package's server or hook".to_owned()),
        }
    }
}

/// What a person points at: a whole package or one thing in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything that a package has to review.
    Plugin(String),
    /// One server or hook.
    One(StableId),
}

impl Target {
    /// Reads `PLUGIN`, `PLUGIN:mcp_server:SERVER` or `plugin:PLUGIN:mcp_server:SERVER`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (plugin, kind, id) = match *parts.as_slice() {
            [plugin] => return is_id(plugin).then(|| Self::Plugin(plugin.to_owned())),
            [plugin, kind, id] | ["plugin", plugin, kind, id] => (plugin, kind, id),
            _ => return None,
        };
        let kind = Kind::from_word(kind)?;
        (is_id(plugin) && is_foreign_id(id)).then(|| {
            Self::One(StableId {
                plugin: plugin.to_owned(),
                kind,
                id: id.to_owned(),
            })
        })
    }

    /// The package that is meant.
    #[must_use]
    pub fn plugin(&self) -> &str {
        match self {
            Self::Plugin(plugin) => plugin,
            Self::One(id) => &id.plugin,
        }
    }
}

/// One server of one package, and every name that follows from the two.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerKey {
    /// The package's id.
    pub plugin: String,
    /// The server's id in it.
    pub server: String,
}

impl ServerKey {
    /// Names the server `server` of the package `plugin`.
    pub fn new(plugin: impl Into<String>, server: impl Into<String>) -> Self {
        Self {
            plugin: plugin.into(),
            server: server.into(),
        }
    }

    /// Reads `PLUGIN:SERVER`, and the longer spellings of a [`Target`]; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(Target::One(id)) = Target::parse(text) {
            return (id.kind == Kind::McpServer).then(|| Self::new(id.plugin, id.id));
        }
        let (plugin, server) = text
            .strip_prefix("plugin:")
            .filter(|rest| rest.contains(':'))
            .unwrap_or(text)
            .split_once(':')?;
        (is_id(plugin) && is_foreign_id(server)).then(|| Self::new(plugin, server))
    }

    /// The name a session knows the server by: `plugin:<plugin>:<server>`.
    #[must_use]
    pub fn registered(&self) -> String {
        format!("plugin:{}:{}", self.plugin, self.server)
    }

    /// The server's name in an agent's configuration: the registered one, sanitised.
    #[must_use]
    pub fn entry(&self) -> String {
        sanitise(&self.registered())
    }

    /// What every registered name of the server's tools begins with.
    #[must_use]
    pub fn tool_prefix(&self) -> String {
        format!("mcp__{}__", self.entry())
    }

    /// The registered name of the server's tool `tool`.
    #[must_use]
    pub fn tool(&self, tool: &str) -> String {
        self.tool_prefix() + &sanitise(tool)
    }

    /// The id that a review is kept under.
    #[must_use]
    pub fn stable_id(&self) -> StableId {
        StableId {
            plugin: self.plugin.clone(),
            kind: Kind::McpServer,
            id: self.server.clone(),
        }
    }
}

impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NAM-001 NAM-002 NAM-003 NAM-004 NAM-005 NAM-006 NAM-007
    #[test]
    fn a_tools_name_follows_from_the_two_ids_and_nothing_else() {
        let key = ServerKey::new("forecast-tools", "forecast");
        assert_eq!(key.registered(), "plugin:forecast-tools:forecast");
        assert_eq!(key.entry(), "plugin_forecast_tools_forecast");
        assert_eq!(
            key.tool("describe_forecast"),
            "mcp__plugin_forecast_tools_forecast__describe_forecast"
        );
        let key = ServerKey::new("p", "a.b");
        assert_eq!(key.tool("get.forecast"), "mcp__plugin_p_a_b__get_forecast");
        assert_eq!(key.tool("get-forecast"), key.tool("get.forecast"));
        assert_eq!(key.tool("météo"), "mcp__plugin_p_a_b__m_t_o");
    }

    // spec: TRU-014
    #[test]
    fn three_spellings_point_at_one_server() {
        let one = Target::One(ServerKey::new("a", "b").stable_id());
        assert_eq!(Target::parse("a:mcp_server:b"), Some(one.clone()));
        assert_eq!(Target::parse("plugin:a:mcp_server:b"), Some(one));
        assert_eq!(Target::parse("a"), Some(Target::Plugin("a".to_owned())));
        // A package may be called like the prefix.
        assert_eq!(
            Target::parse("plugin:mcp_server:b"),
            Some(Target::One(ServerKey::new("plugin", "b").stable_id()))
        );
        for bad in [
            "",
            "A",
            "a:b",
            "a:tool:b",
            "a:mcp_server:",
            "a:mcp_server:b:c:d",
            "../x",
            "a\n",
        ] {
            assert_eq!(Target::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn ids_are_short_lower_case_and_begin_with_a_letter_or_digit() {
        for good in ["a", "0", "forecast-tools", "a.b_c-d", &"x".repeat(80)] {
            assert!(is_id(good), "{good}");
        }
        for bad in [
            "",
            ".a",
            "-a",
            "_a",
            "A",
            "a b",
            "a/b",
            "ä",
            "a:b",
            &"x".repeat(81),
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
