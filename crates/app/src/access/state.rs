//! The rules of asks as pure functions: states, how many can be parked, what an ask does where nobody answers. Never reads a clock or a store.

use serde_json::{Map, Value};

/// Most asks parked at once, of one owner, whoever asks.
pub const PARKED_AT_MOST: usize = 16;

/// Where an ask stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AskState {
    /// It waits.
    Parked,
    /// A person said yes.
    Approved,
    /// A person said no.
    Refused,
    /// Nobody answered in time, or the process that held the call ended.
    Expired,
    /// The caller went away, or the task was closed.
    Withdrawn,
}

impl AskState {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::Parked,
        Self::Approved,
        Self::Refused,
        Self::Expired,
        Self::Withdrawn,
    ];

    /// The stored word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What happens to a call that asks, when no approval covers it and no identical one is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for a person.
    Park,
    /// The queue is full. This comes before the question whether anybody can be asked: pressure must never become permission.
    Saturated,
    /// Nobody can be asked, and the owner wants an approval even then.
    Strict,
    /// Nobody can be asked, and such calls run.
    AutoAllow,
}

/// What a call may wait for: a grant of `ask` runs unasked when the owner left the setting as it is shipped; a tool's prompt never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unasked {
    /// As the setting says; `true` refuses.
    BySetting(bool),
    /// Refused.
    Never,
}

pub(super) const fn turn(parked: usize, present: bool, unasked: Unasked) -> Turn {
    if parked >= PARKED_AT_MOST {
        return Turn::Saturated;
    }
    match (present, unasked) {
        (true, _) => Turn::Park,
        (false, Unasked::BySetting(false)) => Turn::AutoAllow,
        (false, Unasked::BySetting(true) | Unasked::Never) => Turn::Strict,
    }
}

/// The same value with the keys of every object in order: one spelling for equal arguments.
#[must_use]
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            let sorted: Map<String, Value> = keys
                .into_iter()
                .filter_map(|key| map.get(key).map(|value| (key.clone(), canonical(value))))
                .collect();
            Value::Object(sorted)
        }
        Value::Array(values) => Value::Array(values.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_that_is_stored_is_read_back() {
        for state in AskState::ALL {
            assert_eq!(AskState::parse(state.as_str()), Some(state));
        }
        assert_eq!(AskState::parse("allowed"), None);
    }

    proptest! {
        // spec: ASK-020
        #[test]
        fn pressure_never_becomes_permission(parked in 0_usize..64, present: bool, strict: bool) {
            let by_setting = turn(parked, present, Unasked::BySetting(strict));
            let prompt = turn(parked, present, Unasked::Never);
            if parked >= PARKED_AT_MOST {
                prop_assert_eq!(by_setting, Turn::Saturated);
                prop_assert_eq!(prompt, Turn::Saturated);
            } else {
                prop_assert_ne!(by_setting, Turn::Saturated);
                prop_assert_eq!(by_setting == Turn::AutoAllow, !present && !strict);
            }
            prop_assert_ne!(prompt, Turn::AutoAllow);
        }
    }

    #[test]
    fn equal_arguments_have_one_spelling() {
        let one: Value = serde_json::from_str(r#"{"b":{"y":1,"x":[{"q":1,"p":2}]},"a":2}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":2,"b":{"x":[{"p":2,"q":1}],"y":1}}"#).unwrap();
        assert_eq!(canonical(&one).to_string(), canonical(&other).to_string());
        assert_ne!(
            canonical(&json!([1, 2])).to_string(),
            canonical(&json!([2, 1])).to_string()
        );
    }
}
