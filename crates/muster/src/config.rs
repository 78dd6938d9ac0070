//! Every setting in one table with its default, meaning and check; flags beat environment beats `muster.toml`. Never applies a bad value.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::Secret;
use muster_core::clock::parse_duration;
use muster_core::screen::DenyWords;

use crate::cli::Cli;
use crate::output::Failure;

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
    check: fn(&str) -> Result<(), String>,
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
    fn text(self, value: toml::Value) -> Result<String, String> {
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

fn switch(text: &str) -> Result<(), String> {
    if matches!(text, "0" | "1" | "") {
        Ok(())
    } else {
        Err("write 1 for on, or 0 or nothing for off".to_owned())
    }
}

fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// A duration that means something: with none at all nothing could be approved, and no turn could end well.
fn duration(text: &str) -> Result<(), String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all would refuse everything; write at least 1s".to_owned()),
        other => other.map(drop).map_err(str::to_owned),
    }
}

fn listen(text: &str) -> Result<(), String> {
    text.parse::<SocketAddr>()
        .map(|_| ())
        .map_err(|_| "write an IP address and a port, such as 127.0.0.1:7447 or [::1]:0".to_owned())
}

fn public_url(text: &str) -> Result<(), String> {
    origin(text).map(drop)
}

/// An address as a browser names its origin: small letters, international names in their ASCII form, no port that the scheme implies.
fn origin(text: &str) -> Result<String, String> {
    let help = || "write https://HOST or https://HOST:PORT, without a path".to_owned();
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .map(|rest| rest.trim_end_matches('/'))
        .ok_or_else(help)?;
    // The parser would pass over some of these, and take others for a path.
    if rest.is_empty() || rest.contains(|c: char| "/\\?#@".contains(c) || c.is_whitespace() || c.is_control())
    {
        return Err(help());
    }
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; {}", help()))?;
    Ok(url.origin().ascii_serialization())
}

fn database_url(text: &str) -> Result<(), String> {
    match text.strip_prefix("sqlite://") {
        Some(path) if path.starts_with('/') => Ok(()),
        Some(_) => Err(
            "the path behind sqlite:// must be a full one, as in sqlite:///var/lib/muster/muster.db; another would name a different file from each folder that muster is started in"
                .to_owned(),
        ),
        None if text.starts_with("postgres://") || text.starts_with("postgresql://") => Ok(()),
        None => Err("write sqlite:///PATH or postgres://USER@HOST/NAME".to_owned()),
    }
}

fn connections(text: &str) -> Result<(), String> {
    text.parse::<u32>()
        .ok()
        .filter(|n| (2..=1000).contains(n))
        .map(|_| ())
        .ok_or_else(|| "write a whole number from 2 to 1000".to_owned())
}

fn deny_words(text: &str) -> Result<(), String> {
    DenyWords::parse(text).map(|_| ()).map_err(|e| e.to_string())
}

fn hook_token(text: &str) -> Result<(), String> {
    if text.len() >= 16 && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("use at least 16 printable characters without blanks".to_owned())
    }
}

fn log_format(text: &str) -> Result<(), String> {
    if matches!(text, "text" | "json") {
        Ok(())
    } else {
        Err("write text or json".to_owned())
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
        "The data folder, made with mode 700. Holds the database, lock files and the chief's working folders. Not read from `muster.toml`, which lies in it.",
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

/// Variables that are read elsewhere and are no settings of this table.
const ELSEWHERE: &[&str] = &[
    "MUSTER_TEST_CLOCK",
    "MUSTER_CONNECTOR_TOKEN",
    "MUSTER_MCP_URL",
    "MUSTER_AGENT_TOKEN",
    "MUSTER_SESSION_ID",
    "MUSTER_MCP_CONFIG",
    "MUSTER_CONVERSATION",
];

/// The settings in force.
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, &'static str)>,
    /// The data folder.
    pub(crate) data_dir: PathBuf,
}

fn bad(name: &str, reason: &str) -> Failure {
    Failure::refused(
        "bad_setting",
        format!("{name} has a value muster cannot use: {reason}. Nothing was started"),
    )
}

impl Config {
    /// Reads flags, environment and file, in that order of force, and checks every value.
    pub(crate) fn load(cli: &Cli) -> Result<Self, Failure> {
        let mut values = BTreeMap::new();
        for variable in VARIABLES {
            match std::env::var(variable.name) {
                Ok(text) if !text.is_empty() => drop(values.insert(variable.name, (text, "environment"))),
                Ok(_) | Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => return Err(bad(variable.name, "it is not UTF-8")),
            }
        }
        if let Some(dir) = &cli.data_dir {
            values.insert("MUSTER_DATA_DIR", (dir.to_string_lossy().into_owned(), "flag"));
        }
        if let Some(url) = &cli.database_url {
            values.insert("MUSTER_DATABASE_URL", (url.clone(), "flag"));
        }
        let data_dir = match values.get("MUSTER_DATA_DIR") {
            Some((dir, _)) => PathBuf::from(dir),
            None => default_data_dir()?,
        };
        read_file(&data_dir.join("muster.toml"), &mut values)?;
        for variable in VARIABLES {
            if let Some((text, _)) = values.get(variable.name) {
                (variable.check)(text).map_err(|reason| bad(variable.name, &reason))?;
            }
        }
        Ok(Self { values, data_dir })
    }

    /// The tour's own settings: a folder of its own and plugins on, whatever the environment says.
    pub(crate) fn tour(&mut self, folder: &Path) -> Result<(), Failure> {
        for name in [
            "MUSTER_DATABASE_URL",
            "MUSTER_PUBLIC_URL",
            "MUSTER_HOOK_TOKEN",
            "MUSTER_INSECURE",
        ] {
            self.values.remove(name);
        }
        self.data_dir = folder.to_owned();
        if self.text("MUSTER_LOG").is_none() {
            self.flag("MUSTER_LOG", Some("warn".to_owned()))?;
        }
        self.flag("MUSTER_PLUGINS", Some("1".to_owned()))
    }

    /// Puts a flag of a command over what was read.
    pub(crate) fn flag(&mut self, name: &'static str, value: Option<String>) -> Result<(), Failure> {
        if let (Some(value), Some(variable)) = (value, VARIABLES.iter().find(|v| v.name == name)) {
            (variable.check)(&value).map_err(|reason| bad(name, &reason))?;
            self.values.insert(name, (value, "flag"));
        }
        Ok(())
    }

    /// A setting's text, when it is set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(text, _)| text.as_str())
    }

    /// A setting and where it comes from.
    pub(crate) fn origin(&self, name: &str) -> Option<(&str, &'static str)> {
        self.values.get(name).map(|(text, from)| (text.as_str(), *from))
    }

    /// What is in force for a setting, set or not; `None` where nothing is, or only a running server knows.
    pub(crate) fn in_force(&self, variable: &Variable) -> Option<String> {
        if let Some(text) = self.text(variable.name) {
            return Some(text.to_owned());
        }
        match (variable.default, variable.name) {
            (Preset::Value(text), _) => Some(text.to_owned()),
            (_, "MUSTER_DATA_DIR") => Some(self.data_dir.display().to_string()),
            (_, "MUSTER_DATABASE_URL") => Some(self.database_url()),
            _ if variable.takes == Takes::Switch => Some("0".to_owned()),
            _ => None,
        }
    }

    /// Whether a switch is on: only as `1`.
    pub(crate) fn on(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// A duration, or its default.
    pub(crate) fn duration(&self, name: &str, default: Duration) -> Duration {
        self.text(name)
            .and_then(|text| parse_duration(text).ok())
            .unwrap_or(default)
    }

    /// A secret, when it is set.
    pub(crate) fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    /// The address people use as a browser names it, when it is set.
    pub(crate) fn public_url(&self) -> Option<String> {
        self.text("MUSTER_PUBLIC_URL").and_then(|text| origin(text).ok())
    }

    /// The file of the database, when it is one.
    pub(crate) fn database_file(&self) -> Option<PathBuf> {
        self.database_url().strip_prefix("sqlite://").map(PathBuf::from)
    }

    /// The database's address.
    pub(crate) fn database_url(&self) -> String {
        self.text("MUSTER_DATABASE_URL").map_or_else(
            || format!("sqlite://{}", self.data_dir.join("muster.db").display()),
            str::to_owned,
        )
    }

    /// Makes the data folder, for its user alone.
    pub(crate) fn make_data_dir(&self) -> Result<(), Failure> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.data_dir)
            .map_err(|error| {
                Failure::refused(
                    "data_dir",
                    format!(
                        "the data folder {} could not be made: {error}. Choose another with --data-dir",
                        self.data_dir.display()
                    ),
                )
            })
    }

    /// Variables in the environment that begin with MUSTER_ and that muster does not know: most likely a slip of the pen.
    pub(crate) fn unknown() -> Vec<String> {
        std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .filter(|name| {
                name.starts_with("MUSTER_")
                    && !ELSEWHERE.contains(&name.as_str())
                    && !VARIABLES.iter().any(|v| v.name == name)
            })
            .collect()
    }
}

fn default_data_dir() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("muster"))
        .ok_or_else(|| {
            Failure::refused(
                "data_dir",
                "neither XDG_DATA_HOME nor HOME names a folder; say where to keep data with --data-dir",
            )
        })
}

fn read_file(
    path: &Path,
    values: &mut BTreeMap<&'static str, (String, &'static str)>,
) -> Result<(), Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        // Without the folder there is no file; what lies in the folder's place is named when the folder is made.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(());
        }
        Err(error) => {
            return Err(Failure::refused(
                "bad_setting",
                format!(
                    "{} could not be read: {error}. Nothing was started",
                    path.display()
                ),
            ));
        }
    };
    let refuse = |reason: String| {
        Failure::refused(
            "bad_setting",
            format!("{}: {reason}. Nothing was started", path.display()),
        )
    };
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| refuse(error.message().to_owned()))?;
    for (key, value) in table {
        let name = format!("MUSTER_{}", key.to_ascii_uppercase());
        let known = VARIABLES
            .iter()
            .find(|v| v.name == name && v.name != "MUSTER_DATA_DIR");
        let variable = known.ok_or_else(|| {
            refuse(format!(
                "there is no setting {key:?}; muster config docs lists them"
            ))
        })?;
        let text = variable
            .takes
            .text(value)
            .map_err(|reason| refuse(format!("{key} {reason}")))?;
        values.entry(variable.name).or_insert((text, "muster.toml"));
    }
    Ok(())
}

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
            include_str!("../../../docs/configuration.md"),
            docs(),
            "run: muster config docs > docs/configuration.md"
        );
    }

    #[test]
    fn bad_values_are_refused() {
        for (check, good, wrong) in [
            (switch as fn(&str) -> Result<(), String>, "1", "yes"),
            (listen, "[::1]:0", "localhost:80"),
            (public_url, "https://muster.example", "https://muster.example/x"),
            (public_url, "http://localhost:1", "muster.example"),
            (database_url, "sqlite:///x", "mysql://x"),
            (connections, "16", "1"),
            (duration, "12h", "12"),
            (duration, "1s", "0s"),
            (database_url, "postgres://x", "sqlite://x"),
            (public_url, "https://[::1]:8443/", "https://muster.example\\x"),
            (public_url, "https://muster.example", "https://mus\tter.example"),
            (
                public_url,
                "https://muster.example",
                "https://muster.example:70000",
            ),
            (hook_token, "0123456789abcdef", "short"),
            (log_format, "json", "xml"),
        ] {
            assert!(check(good).is_ok(), "{good}");
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_address_becomes_the_origin_that_a_browser_sends() {
        for (written, sent) in [
            ("https://muster.example:443", "https://muster.example"),
            ("http://muster.example:80/", "http://muster.example"),
            ("https://Muster.Example:8443", "https://muster.example:8443"),
            ("http://localhost:443", "http://localhost:443"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(origin(written).as_deref(), Ok(sent), "{written}");
        }
    }
}
