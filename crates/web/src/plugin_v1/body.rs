//! Reads a JSON object from a request, bounded in size and time, and its fields by name with a sentence for each broken rule. Never keeps what it refused.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use muster_core::clock::Time;
use muster_core::text::TextError;
use serde_json::{Map, Value};

/// The largest body that is read: 16 KiB of text spelled entirely in `\u0000` escapes, and room for the other fields.
pub(crate) const LIMIT: usize = 256 * 1024;
/// How much of a larger body is read and thrown away, so that its sender gets to see the refusal.
const DRAIN: usize = 16 * 1024 * 1024;
/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a body was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than 256 KiB; nothing was stored")]
    TooLarge,
    #[error("the body did not arrive within 10 seconds; nothing was stored")]
    TooSlow,
    #[error("the body broke off before its end; nothing was stored")]
    BrokenOff,
    #[error("the body is not JSON, or is nested too deeply; nothing was stored")]
    NotJson,
    #[error("the body is not a JSON object; nothing was stored")]
    NotAnObject,
    #[error("{0}")]
    Field(String),
}

impl From<TextError> for BodyError {
    fn from(error: TextError) -> Self {
        Self::Field(error.to_string())
    }
}

/// The bytes of a body.
pub(crate) async fn bytes(body: Body) -> Result<Vec<u8>, BodyError> {
    tokio::time::timeout(PATIENCE, collect(body)).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(body: Body) -> Result<Vec<u8>, BodyError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut seen = 0_usize;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| BodyError::BrokenOff)?;
        seen = seen.saturating_add(chunk.len());
        if seen <= LIMIT {
            bytes.extend_from_slice(&chunk);
        } else {
            bytes = Vec::new();
            if seen > DRAIN {
                break;
            }
        }
    }
    if seen > LIMIT { Err(BodyError::TooLarge) } else { Ok(bytes) }
}

/// The fields of a JSON object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, BodyError> {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(BodyError::NotAnObject),
            Err(_) => Err(BodyError::NotJson),
        }
    }

    /// The names that are there.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A string that may be left out; `null` is not a string.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, BodyError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(BodyError::Field(format!("{name} must be a string; nothing was stored"))),
        }
    }

    /// A string that must be there.
    pub(crate) fn required(&mut self, name: &'static str) -> Result<String, BodyError> {
        self.text(name)?.ok_or_else(|| BodyError::Field(format!("{name} is required; nothing was stored")))
    }

    /// A boolean, `None` when it is left out.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, BodyError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(BodyError::Field(format!("{name} must be true or false; nothing was stored"))),
        }
    }

    /// A moment in RFC 3339, `None` when it is left out.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<Option<Time>, BodyError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let time = Time::parse_rfc3339(&text);
        time.map(Some).ok_or_else(|| BodyError::Field(format!("{name} must be a date and time as RFC 3339 writes it, such as 2000-01-02T03:04:05Z; nothing was stored")))
    }

    /// A whole number of zero or more, `None` when it is left out. JSON knows no integers: `5.0` and `1e3` are whole, and what is larger than a
    /// `u64` counts as the largest one.
    pub(crate) fn whole(&mut self, name: &'static str) -> Result<Option<u64>, BodyError> {
        let refused = || BodyError::Field(format!("{name} must be a whole number, 0 or more"));
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number.as_u64().or_else(|| number.as_f64().and_then(whole_float)).map(Some).ok_or_else(refused),
            Some(_) => Err(refused()),
        }
    }
}

fn whole_float(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and not negative; a float too large becomes the largest u64")]
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}
