//! Reads a JSON object and its fields by name, with a sentence for each broken rule. Never keeps what it refused.

use muster_core::clock::Time;
use muster_core::text::TextError;
use serde_json::{Map, Value};

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No JSON.
    #[error("the body is not JSON, or is nested too deeply; nothing was stored")]
    NotJson,
    /// Other JSON.
    #[error("the body is not a JSON object; nothing was stored")]
    NotAnObject,
    /// A field breaks a rule; the sentence names it.
    #[error("{0}")]
    Field(String),
}

impl From<TextError> for ReadError {
    fn from(error: TextError) -> Self {
        Self::Field(error.to_string())
    }
}

/// The fields of a JSON object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(ReadError::NotAnObject),
            Err(_) => Err(ReadError::NotJson),
        }
    }

    /// The names that are there.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A string that may be left out; `null` is not a string.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, ReadError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ReadError::Field(format!(
                "{name} must be a string; nothing was stored"
            ))),
        }
    }

    /// A string that must be there.
    pub(crate) fn required(&mut self, name: &'static str) -> Result<String, ReadError> {
        self.text(name)?
            .ok_or_else(|| ReadError::Field(format!("{name} is required; nothing was stored")))
    }

    /// A boolean, `None` when it is left out.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ReadError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(ReadError::Field(format!(
                "{name} must be true or false; nothing was stored"
            ))),
        }
    }

    /// A moment in RFC 3339, `None` when it is left out.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<Option<Time>, ReadError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        Time::parse_rfc3339(&text).map(Some).ok_or_else(|| {
            ReadError::Field(format!("{name} must be a date and time as RFC 3339 writes it, such as 2000-01-02T03:04:05Z; nothing was stored"))
        })
    }

    /// A whole number of zero or more, `None` when it is left out. JSON knows no integers: `5.0` and `1e3` are whole, and what is larger than a
    /// `u64` counts as the largest one.
    pub(crate) fn whole(&mut self, name: &'static str) -> Result<Option<u64>, ReadError> {
        let refused = || ReadError::Field(format!("{name} must be a whole number, 0 or more"));
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number
                .as_u64()
                .or_else(|| number.as_f64().and_then(whole_float))
                .map(Some)
                .ok_or_else(refused),
            Some(_) => Err(refused()),
        }
    }
}

fn whole_float(number: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and not negative; a float too large becomes the largest u64"
    )]
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}
