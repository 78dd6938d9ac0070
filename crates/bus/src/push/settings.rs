//! How this process pushes, as its environment says. Never guesses what a value that makes no sense was meant to be.

use std::time::Duration;

/// How long a routine message waits for an urgent one to ride along with.
const MAX_QUEUE: Duration = Duration::from_secs(15);
/// Longest such wait that can be set.
const LONGEST_QUEUE: Duration = Duration::from_secs(24 * 60 * 60);

/// How messages are pushed, whoever they are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Only what must not wait is pushed at once (`AGENT_COORD_TIERS`, on unless it is `0`); without tiers everything is.
    pub tiers: bool,
    /// Whether the receiver runs gates, whatever its role (`AGENT_COORD_GATE_RUNNER`, `1` or `0`).
    pub gate_runner: Option<bool>,
    /// How long the oldest routine message waits before the backlog goes by itself (`AGENT_COORD_MAX_QUEUE_MS`, 15 seconds); `None` for ever (`0`).
    pub max_queue: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tiers: true,
            gate_runner: None,
            max_queue: Some(MAX_QUEUE),
        }
    }
}

/// A value of the environment that makes no sense. Nothing is pushed until it does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is '{value}', and it must be {must}; nothing was started")]
pub struct SettingsError {
    /// The variable.
    pub name: &'static str,
    /// What it says, made harmless for a terminal.
    pub value: String,
    /// What it may say.
    pub must: &'static str,
}

impl Settings {
    /// What the environment says. A variable that is empty says nothing.
    ///
    /// # Errors
    /// [`SettingsError`], for the first value that makes no sense.
    pub fn of(env: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let defaults = Self::default();
        let value = |name| {
            env(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let switch = |name| match value(name).as_deref() {
            None => Ok(None),
            Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(other) => Err(wrong(name, other, "0 or 1")),
        };
        let max_queue = match value(MAX_QUEUE_MS) {
            None => defaults.max_queue,
            Some(text) => {
                let wait = text.parse().ok().map(Duration::from_millis);
                let wait = wait.filter(|wait| *wait <= LONGEST_QUEUE).ok_or_else(|| {
                    wrong(
                        MAX_QUEUE_MS,
                        &text,
                        "a number of milliseconds from 0 (never) to 86400000",
                    )
                })?;
                Some(wait).filter(|wait| !wait.is_zero())
            }
        };
        Ok(Self {
            tiers: switch("AGENT_COORD_TIERS")?.unwrap_or(defaults.tiers),
            gate_runner: switch("AGENT_COORD_GATE_RUNNER")?,
            max_queue,
        })
    }
}

const MAX_QUEUE_MS: &str = "AGENT_COORD_MAX_QUEUE_MS";

fn wrong(name: &'static str, value: &str, must: &'static str) -> SettingsError {
    let value: String = value.chars().take(64).collect();
    SettingsError {
        name,
        value: muster_core::text::terminal(&value),
        must,
    }
}
