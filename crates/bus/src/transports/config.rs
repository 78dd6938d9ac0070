//! Which transport this machine uses: what `config.json` says, else the environment. Never guesses one.

use muster_core::text;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{TransportKind, shown};
use crate::error::BusError;
use crate::home::Home;
use crate::json::{self, Keep};
use crate::lock;

/// Where the choice of a transport stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigSource {
    /// `config.json` in the directory.
    MachineConfig,
    /// `AGENT_COORD_TRANSPORT`.
    Env,
}

impl ConfigSource {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineConfig => "machine-config",
            Self::Env => "env",
        }
    }
}

/// The transport of every agent that this process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// Which.
    pub kind: TransportKind,
    /// Who said so.
    pub source: ConfigSource,
}

/// Why no transport is chosen. A server does not start then: no kind is right for every machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nobody chose one.
    #[error(
        "no transport is chosen: run `muster init`. None is assumed; the valid ones are herdr (panes of this machine) and tmux-push-remote (a pusher beside each agent, or none at all). {how}"
    )]
    Missing {
        /// The line that chooses one.
        how: String,
    },
    /// Somebody chose one that there is not.
    #[error(
        "the transport {value} of {place} does not exist; the valid ones are herdr and tmux-push-remote. {how}"
    )]
    Unknown {
        /// Where it stands.
        place: &'static str,
        /// What stands there, made harmless for a terminal.
        value: String,
        /// The line that chooses one.
        how: String,
    },
    /// What was chosen cannot be read.
    #[error(
        "config.json cannot be read, so the transport it chooses is not known: {cause}. The valid ones are herdr and tmux-push-remote. {how}"
    )]
    Unreadable {
        /// Why.
        cause: String,
        /// The line that chooses one.
        how: String,
    },
}

/// The transport this machine uses: what `config.json` says, else what `AGENT_COORD_TRANSPORT` says.
///
/// # Errors
/// [`ConfigError`]: there is no default, and nothing is guessed from a value that is unknown or a file that is damaged.
pub fn configured(home: &Home, env: impl Fn(&str) -> Option<String>) -> Result<Configured, ConfigError> {
    let config = match json::read::<Map<String, Value>>(home, "config.json") {
        Ok(config) => config,
        Err(error) => {
            return Err(ConfigError::Unreadable {
                cause: error.chain(),
                how: "Correct that file by hand; nothing was written over it".to_owned(),
            });
        }
    };
    let exists = config.is_some();
    let unknown = |place, value: &str| ConfigError::Unknown {
        place,
        value: format!("'{}'", shown(value)),
        how: how(home, exists),
    };
    if let Some(value) = config.as_ref().and_then(|config| config.get("transport")) {
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return match TransportKind::parse(&word) {
            Ok(kind) if value.is_string() => Ok(Configured {
                kind,
                source: ConfigSource::MachineConfig,
            }),
            _ => Err(unknown("config.json", &word)),
        };
    }
    match env("AGENT_COORD_TRANSPORT").filter(|word| !word.is_empty()) {
        Some(word) => match TransportKind::parse(&word) {
            Ok(kind) => Ok(Configured {
                kind,
                source: ConfigSource::Env,
            }),
            Err(_) => Err(unknown("AGENT_COORD_TRANSPORT", &word)),
        },
        None => Err(ConfigError::Missing {
            how: how(home, exists),
        }),
    }
}

/// The one line that chooses a transport. It writes over no file.
fn how(home: &Home, exists: bool) -> String {
    let file = home.path("config.json");
    let file = shown_path(&file.display().to_string());
    if exists {
        format!("Put \"transport\": \"herdr\" into {file}, or start with AGENT_COORD_TRANSPORT=herdr")
    } else {
        format!("This chooses one: echo '{{\"transport\":\"herdr\"}}' > {file}")
    }
}

/// A path as a shell takes it.
fn shown_path(path: &str) -> String {
    let plain = path
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-'));
    if plain {
        path.to_owned()
    } else {
        format!("'{}'", text::terminal(path).replace('\'', "'\\''"))
    }
}

/// Writes the transport of this machine into `config.json`, beside whatever else stands there. Takes effect when a process starts.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub fn choose(home: &Home, kind: TransportKind) -> Result<(), BusError> {
    let _held = lock::lock(home, "config.json")?;
    let mut config: Map<String, Value> = json::read(home, "config.json")?.unwrap_or_default();
    config.insert("transport".to_owned(), kind.as_str().into());
    json::write(home, "config.json", &config, Keep::Durably)
}
