//! Every setting in one table, and the page of documentation that is made from it. Never reads a value.

use std::fmt::Write as _;

use super::check::{
    any, connections, database_url, deny_words, duration, hook_token, listen, log_format, public_url, switch,
};

/// One setting.
pub(crate) struct Variable {
    /// Its name in the environment; in `muster.toml` the same in lower case without `MUSTER_`.
    pub(crate) name: &'static str,
    /// What holds where it is not set.
    pub(crate) default: Preset,
    /// What it does.
    pub(crate) meaning: &'static str,
    /// Whether its value may be shown.
    pub(crate) secret: bool,
    pub(crate) takes: Takes,
    pub(super) check: fn(&str) -> Result<(), String>,
}

/// What holds where a setting is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    /// This value.
    Value(&'static str),
    /// What these words say, as the documentation does.
    Words(&'static str),
}

impl Preset {
    /// For a terminal or a script.
    pub(crate) fn plain(self) -> String {
        match self {
            Self::Value(text) => text.to_owned(),
            Self::Words(words) => words.replace('`', ""),
        }
    }
}

impl std::fmt::Display for Preset {
    /// As the documentation says it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(text) => write!(f, "`{text}`"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// What a setting is in `muster.toml`. A string that says the same is taken for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Text,
    Number,
    Switch,
}

impl Takes {
    /// The text of a value of the file.
    pub(super) fn text(self, value: toml::Value) -> Result<String, String> {
        let wanted = match (self, value) {
            (_, toml::Value::String(text)) => return Ok(text),
            (Self::Number | Self::Switch, toml::Value::Integer(number)) => return Ok(number.to_string()),
            (Self::Switch, toml::Value::Boolean(on)) => return Ok(u8::from(on).to_string()),
            (_, other) => other.type_str(),
        };
        Err(match self {
            Self::Text => format!("must be a string in quotes, and here it is of the type {wanted}"),
            Self::Number => format!("must be a whole number, and here it is of the type {wanted}"),
            Self::Switch => format!("must be true or false, 1 or 0, and here it is of the type {wanted}"),
        })
    }
}

const fn plain(
    name: &'static str,
    default: Preset,
    meaning: &'static str,
    check: fn(&str) -> Result<(), String>,
) -> Variable {
    Variable {
        name,
        default,
        meaning,
        secret: false,
        takes: Takes::Text,
        check,
    }
}

/// `plain`, of another kind in the file.
const fn kind(takes: Takes, variable: Variable) -> Variable {
    Variable { takes, ..variable }
}

const fn hidden(
    name: &'static str,
    default: Preset,
    meaning: &'static str,
    check: fn(&str) -> Result<(), String>,
) -> Variable {
    Variable {
        name,
        default,
        meaning,
        secret: true,
        takes: Takes::Text,
        check,
    }
}

/// Every setting there is.
pub(crate) static VARIABLES: &[Variable] = &[
    plain(
        "MUSTER_DATA_DIR",
        Preset::Words("`$XDG_DATA_HOME/muster`, else `~/.local/share/muster`"),
        "The data folder, made with mode 700. Holds the database, the key of stored secrets, packages, worktrees and the chief's working folders (docs/operations.md). Not read from `muster.toml`, which lies in it.",
        any,
    ),
    hidden(
        "MUSTER_DATABASE_URL",
        Preset::Words("`sqlite://<data dir>/muster.db`"),
        "`sqlite:///PATH` with the file's full path, or `postgres://…` for several servers on one database. The Postgres role must be neither superuser nor BYPASSRLS.",
        database_url,
    ),
    kind(
        Takes::Number,
        plain(
            "MUSTER_DATABASE_CONNECTIONS",
            Preset::Value("16"),
            "Connections to the database.",
            connections,
        ),
    ),
    plain(
        "MUSTER_LISTEN",
        Preset::Value("127.0.0.1:7447"),
        "Where to listen; port 0 picks one. An address that is not loopback needs `MUSTER_PUBLIC_URL` with https, or `MUSTER_INSECURE=1`.",
        listen,
    ),
    plain(
        "MUSTER_PUBLIC_URL",
        Preset::Words("from the listener"),
        "The address people use: base of links, home of passkeys, and the only origin whose forms are taken. It is read as a browser reads it: the port that the scheme implies may be left out or written.",
        public_url,
    ),
    kind(
        Takes::Switch,
        plain(
            "MUSTER_INSECURE",
            Preset::Words("off"),
            "`1` lets muster listen on an address that is not loopback without https. Passwords and tokens then travel in the clear.",
            switch,
        ),
    ),
    kind(
        Takes::Switch,
        plain(
            "MUSTER_PLUGINS",
            Preset::Words("off"),
            "`1` opens the connector API `/plugin/v1/*`, the page `/plugins` and the tool `reply_draft`. Stored messages and drafts survive turning it off.",
            switch,
        ),
    ),
    hidden(
        "MUSTER_HOOK_TOKEN",
        Preset::Words("unset"),
        "A shared credential for `/api/*` beside personal tokens, acting for the server's first account. Unset: personal tokens only.",
        hook_token,
    ),
    plain(
        "MUSTER_STEPUP_WINDOW",
        Preset::Value("12h"),
        "How old a sign-in may be for approving a reply; an older one is asked to confirm first.",
        duration,
    ),
    hidden(
        "MUSTER_FLOW_AGENT_DENY_WORDS",
        Preset::Words("empty"),
        "This deployment's own names, separated by commas; a reply that holds one is refused when it is drafted.",
        deny_words,
    ),
    plain(
        "MUSTER_CHIEF_WATCHDOG",
        Preset::Value("30m"),
        "How long a chief's turn may take before it is ended as broken off.",
        duration,
    ),
    plain(
        "MUSTER_OWNER",
        Preset::Words("the only account"),
        "The account that commands work for where `--owner` is not given. With several accounts a command needs one of the two.",
        any,
    ),
    plain(
        "MUSTER_LOG",
        Preset::Value("info"),
        "What is logged to standard error: a level, or directives such as `muster_web=debug`.",
        any,
    ),
    plain(
        "MUSTER_LOG_FORMAT",
        Preset::Value("text"),
        "`text` or `json`, one object a line.",
        log_format,
    ),
    plain(
        "MUSTER_URL",
        Preset::Value("http://127.0.0.1:7447"),
        "The running server that commands such as `muster plugins retry` talk to.",
        public_url,
    ),
    hidden(
        "MUSTER_TOKEN",
        Preset::Words("unset"),
        "The personal token those commands use.",
        any,
    ),
];

/// The documentation of every setting, made from the table.
pub(crate) fn docs() -> String {
    let mut text = String::from(
        "# Configuration\n\nFlags beat environment beats `muster.toml` in the data folder. In the file a setting has its name in lower case without `MUSTER_`:\n`plugins = true`, `database_connections = 32`, `listen = \"127.0.0.1:7447\"`. A value muster cannot use, or of another type, stops the start and names the setting.\nDurations are written `30s`, `5m`, `12h`, `14d`, never `0s`;\nswitches are on as `1` in the environment and as `true` in the file. This page is made by `muster config docs`.\n\n| setting | default | meaning |\n|---|---|---|\n",
    );
    for variable in VARIABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            variable.name, variable.default, variable.meaning
        );
    }
    text.push_str("\n## The coordination bus\n\n`muster bus` reads these from the environment alone.\n\n| setting | default | meaning |\n|---|---|---|\n");
    for (name, default, meaning) in crate::commands::bus::settings::VARIABLES {
        let _ = writeln!(text, "| `{name}` | {default} | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_checked_and_documented_once() {
        let docs = docs();
        for variable in VARIABLES {
            assert_eq!(docs.matches(&format!("| `{}` |", variable.name)).count(), 1);
            assert!(!variable.meaning.is_empty() && !variable.default.plain().is_empty());
        }
    }

    #[test]
    fn the_committed_page_is_the_tables_own() {
        assert_eq!(
            include_str!("../../../../docs/configuration.md"),
            docs(),
            "run: muster config docs > docs/configuration.md"
        );
    }
}
