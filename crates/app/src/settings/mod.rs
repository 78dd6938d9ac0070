//! An owner's settings: a closed list of keys, each with its default, its bounds and what it means. Never reads a value it does not understand as the default where that would open something.

mod sql;

use std::time::Duration;

use muster_core::Fault;
use muster_core::ids::OwnerId;
use muster_core::text::terminal;
use muster_store::{Topic, Tx};
use serde::Serialize;
use serde_json::{Value, json};

pub use sql::STATEMENTS;

use crate::App;
use crate::audit::{self, Event, Subject};

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number within bounds.
    Number { least: i64, most: i64 },
}

/// One setting there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    description: &'static str,
}

/// Whether an ask is refused rather than allowed while nobody can be asked.
pub const REQUIRE_WHEN_CLOSED: Key = Key {
    name: "asks.require_when_closed",
    default: "false",
    kind: Kind::Switch,
    description: "Require approval even when Muster is closed. While it is false, a grant of ask behaves as allow whenever nobody can be asked: \
                  no Asks page is open and no `muster asks watch` runs. The audit log calls such a call auto_allowed_app_closed. \
                  When it is true, or cannot be read, such a call is refused.",
};
/// How long an ask waits.
pub const EXPIRY_SECONDS: Key = Key {
    name: "asks.expiry_seconds",
    default: "300",
    kind: Kind::Number {
        least: 1,
        most: 86_400,
    },
    description: "How many seconds an ask waits for an answer before it expires, which refuses the call. It counts for asks that park from then on.",
};
/// Most rows of a database result.
pub const DB_MAX_ROWS: Key = Key {
    name: "db.max_rows",
    default: "1000",
    kind: Kind::Number {
        least: 1,
        most: 1_000_000,
    },
    description: "Most rows that one database call answers with; what is cut is said.",
};
/// Most bytes of a database result.
pub const DB_MAX_BYTES: Key = Key {
    name: "db.max_bytes",
    default: "1048576",
    kind: Kind::Number {
        least: 1_024,
        most: 1_073_741_824,
    },
    description: "Most bytes that one database call answers with; what is cut is said.",
};
/// Longest database call.
pub const DB_TIMEOUT_SECONDS: Key = Key {
    name: "db.timeout_seconds",
    default: "30",
    kind: Kind::Number {
        least: 1,
        most: 3_600,
    },
    description: "How many seconds one database statement may run before it is cancelled.",
};

/// Every setting, in the order they are listed.
pub const ALL: &[Key] = &[
    REQUIRE_WHEN_CLOSED,
    EXPIRY_SECONDS,
    DB_MAX_ROWS,
    DB_MAX_BYTES,
    DB_TIMEOUT_SECONDS,
];

/// A setting as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Its value: true, false or a number; null when what is stored cannot be read.
    pub value: Value,
    /// What it is when nothing is stored.
    pub default: Value,
    /// What it does, in sentences.
    pub description: &'static str,
}

/// Why a setting was not shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// There is no such key.
    #[error("there is no setting {0}; muster setting list shows all of them")]
    Unknown(String),
    /// The value is not one that the setting takes.
    #[error("{key} takes {takes}; it was left as it was")]
    Value {
        /// The setting.
        key: &'static str,
        /// What it takes.
        takes: String,
    },
    /// Something broke.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Key {
    /// The setting that a word names.
    ///
    /// # Errors
    /// [`SettingError::Unknown`].
    pub fn find(word: &str) -> Result<Self, SettingError> {
        ALL.iter()
            .find(|key| key.name == word)
            .copied()
            .ok_or_else(|| SettingError::Unknown(terminal(&word.chars().take(60).collect::<String>())))
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The value as JSON, if the text is one that the setting takes.
    fn read(&self, text: &str) -> Option<Value> {
        match self.kind {
            Kind::Switch => match text {
                "true" => Some(json!(true)),
                "false" => Some(json!(false)),
                _ => None,
            },
            Kind::Number { least, most } => text
                .parse::<i64>()
                .ok()
                .filter(|number| (least..=most).contains(number) && number.to_string() == text)
                .map(|number| json!(number)),
        }
    }

    fn takes(&self) -> String {
        match self.kind {
            Kind::Switch => "true or false".to_owned(),
            Kind::Number { least, most } => format!("a whole number from {least} to {most}"),
        }
    }

    fn shown(&self, stored: Option<&str>) -> Setting {
        Setting {
            key: self.name,
            value: self.read(stored.unwrap_or(self.default)).unwrap_or(Value::Null),
            default: self.read(self.default).unwrap_or(Value::Null),
            description: self.description,
        }
    }
}

async fn stored(tx: &mut Tx, key: Key) -> Result<Option<String>, Fault> {
    let row: Option<(String,)> = tx.optional(&sql::VALUE, (key.name,)).await?;
    Ok(row.map(|(value,)| value))
}

/// What is stored for a key, for its owner's eyes: bytes that are no text are a value that no setting takes, so that the others can still be
/// seen and this one be set anew.
async fn seen(app: &App, owner: OwnerId, key: Key) -> Option<String> {
    let read = app
        .db
        .read(owner, move |tx| Box::pin(async move { stored(tx, key).await }))
        .await;
    read.unwrap_or_else(|fault| {
        tracing::warn!(setting = key.name, error = %fault.chain(), "a setting cannot be read");
        Some(String::new())
    })
}

/// Whether calls that ask are refused while nobody can be asked. What cannot be read counts as true: erring towards refusal is what the
/// setting is for.
///
/// # Errors
/// A fault, also for bytes that are no text; the call must be refused then.
pub(crate) async fn require_when_closed(tx: &mut Tx) -> Result<bool, Fault> {
    let value = stored(tx, REQUIRE_WHEN_CLOSED).await?;
    Ok(match value.as_deref() {
        None => false,
        Some(text) => REQUIRE_WHEN_CLOSED.read(text) != Some(json!(false)),
    })
}

async fn number(tx: &mut Tx, key: Key) -> Result<u64, Fault> {
    let value = stored(tx, key).await?;
    let read = |text: &str| key.read(text).and_then(|value| value.as_u64());
    Ok(value
        .as_deref()
        .and_then(read)
        .or_else(|| read(key.default))
        .unwrap_or(0))
}

/// How long an ask waits. What cannot be read counts as the default.
///
/// # Errors
/// A fault.
pub(crate) async fn expiry(tx: &mut Tx) -> Result<Duration, Fault> {
    number(tx, EXPIRY_SECONDS).await.map(Duration::from_secs)
}

/// What one database call may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DbLimits {
    /// Most rows.
    pub rows: u64,
    /// Most bytes.
    pub bytes: u64,
    /// Longest run.
    pub timeout: Duration,
}

/// What one database call of this owner's may cost. What cannot be read counts as the default.
///
/// # Errors
/// A fault.
pub async fn db_limits(app: &App, owner: OwnerId) -> Result<DbLimits, Fault> {
    app.db
        .read(owner, |tx| {
            Box::pin(async move {
                Ok(DbLimits {
                    rows: number(tx, DB_MAX_ROWS).await?,
                    bytes: number(tx, DB_MAX_BYTES).await?,
                    timeout: Duration::from_secs(number(tx, DB_TIMEOUT_SECONDS).await?),
                })
            })
        })
        .await
}

/// Every setting of an owner's.
pub async fn list(app: &App, owner: OwnerId) -> Vec<Setting> {
    let mut all = Vec::with_capacity(ALL.len());
    for key in ALL {
        all.push(get(app, owner, *key).await);
    }
    all
}

/// One setting.
pub async fn get(app: &App, owner: OwnerId, key: Key) -> Setting {
    key.shown(seen(app, owner, key).await.as_deref())
}

/// Changes a setting; it holds from the next call on.
///
/// # Errors
/// [`SettingError::Value`]; nothing was changed then.
pub async fn set(app: &App, owner: OwnerId, key: Key, value: &str) -> Result<Setting, SettingError> {
    if key.read(value).is_none() {
        return Err(SettingError::Value {
            key: key.name,
            takes: key.takes(),
        });
    }
    let (now, value) = (app.clock.now(), value.to_owned());
    let before = seen(app, owner, key).await;
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::SET, (key.name, value.as_str())).await?;
                let event = Event {
                    name: "setting.set",
                    actor: "owner".to_owned(),
                    subject: Subject::Setting(key.name),
                    // Both are values that the setting takes, or were never stored through muster.
                    data: json!({"key": key.name, "value": key.read(&value), "before": before.as_deref().and_then(|text| key.read(text))}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Owner(owner));
                Ok(key.shown(Some(&value)))
            })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_only_what_it_says() {
        for key in ALL {
            assert!(key.read(key.default).is_some(), "{}", key.name);
            for bad in [
                "",
                "TRUE",
                "yes",
                "1.0",
                "-1",
                "+5",
                " 5",
                "05",
                "1e3",
                "9223372036854775808",
            ] {
                assert_eq!(key.read(bad), None, "{} {bad:?}", key.name);
            }
        }
        assert_eq!(EXPIRY_SECONDS.read("1"), Some(json!(1)));
        assert_eq!(EXPIRY_SECONDS.read("86400"), Some(json!(86_400)));
        assert_eq!(EXPIRY_SECONDS.read("0"), None);
        assert_eq!(EXPIRY_SECONDS.read("86401"), None);
    }
}
