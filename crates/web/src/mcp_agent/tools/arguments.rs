//! A call's arguments, held against the tool's own schema. Never guesses: what has another type or another name than the schema's is refused.

use std::str::FromStr;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::answer::Failed;

/// Arguments whose names and types are the tool's.
#[derive(Debug)]
pub(super) struct Arguments(JsonObject);

impl Arguments {
    /// Checks the arguments. A resource's id that is missing is no fault here: the call then names none, and that is for the policy.
    pub(super) fn check(schema: &JsonObject, arguments: JsonObject) -> Result<Self, Failed> {
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, value) in &arguments {
            let Some(property) = known.and_then(|known| known.get(name)) else {
                let mut names: Vec<&str> = known
                    .into_iter()
                    .flat_map(|known| known.keys().map(String::as_str))
                    .collect();
                names.sort_unstable();
                return Err(Failed::argument(format!(
                    "the tool takes no argument {}; it takes {}",
                    muster_core::text::terminal(name),
                    if names.is_empty() {
                        "none".to_owned()
                    } else {
                        names.join(", ")
                    },
                )));
            };
            if !value.is_null() {
                fits(name, property, value)?;
            }
        }
        let this = Self(arguments);
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            // That a write is meant is for the gate.
            if this.value(name).is_none() && !name.ends_with("_id") && name != "write" {
                return Err(Failed::argument(format!("the argument {name} is missing")));
            }
        }
        Ok(this)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A string.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_str)
    }

    /// A switch.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A whole number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.value(name).and_then(Value::as_i64)
    }

    /// What an id names, when it is spelled as muster spells its ids.
    pub(super) fn id<I: FromStr + ToString>(&self, name: &str) -> Option<I> {
        let text = self.text(name)?;
        text.parse::<I>().ok().filter(|id| id.to_string() == text)
    }

    /// Everything, as the agent gave it.
    pub(super) fn whole(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

fn fits(name: &str, property: &Value, value: &Value) -> Result<(), Failed> {
    let wanted = property.get("type").and_then(Value::as_str).unwrap_or_default();
    let (right, words) = match wanted {
        "string" => (value.is_string(), "a string"),
        "boolean" => (value.is_boolean(), "true or false"),
        "integer" => (value.is_i64() || value.is_u64(), "a whole number"),
        _ => (false, "of another kind"),
    };
    if !right {
        return Err(Failed::argument(format!("the argument {name} must be {words}")));
    }
    let allowed = property.get("enum").and_then(Value::as_array);
    if let Some(allowed) = allowed
        && !allowed.contains(value)
    {
        let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return Err(Failed::argument(format!(
            "the argument {name} must be one of {}",
            words.join(", ")
        )));
    }
    Ok(())
}
