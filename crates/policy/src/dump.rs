//! A policy's layers as one canonical JSON text, and its strict reader. Never reads a damaged text as a policy, and never takes a missing layer for an absent one.

use serde::{Deserialize, Deserializer};

use crate::invalid::Invalid;
use crate::layer::{Grant, Layer, LayerState};
use crate::policy::Policy;
use crate::words::LayerName;

/// Longest text that is read, in bytes.
pub const MAX_JSON: usize = 8 * 1024 * 1024;

/// Why a text is no policy. Whoever gets it must refuse what the policy would have decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// Longer than [`MAX_JSON`].
    #[error(
        "the policy's text has {0} bytes, more than the {MAX_JSON} that are read; nothing is allowed by it"
    )]
    TooLong(usize),
    /// No JSON, or not of the one shape.
    #[error(
        "the policy's text is damaged at line {line}, column {column}: it must be one object of `global`, `project` and `task`, each null or a list of [action, scope, effect]; nothing is allowed by it"
    )]
    Shape {
        /// Counted from 1.
        line: usize,
        /// Counted from 1; 0 before the first character of a line.
        column: usize,
    },
    /// A grant that is not valid.
    #[error("grant {row} of the {layer} layer is not valid: {why}; nothing is allowed by the policy")]
    Row {
        /// The layer that it stands in.
        layer: LayerName,
        /// Its place, counted from 1.
        row: usize,
        /// What is wrong with it.
        why: Invalid,
    },
    /// Grants that do not make a layer.
    #[error("the {layer} layer is not valid: {why}; nothing is allowed by the policy")]
    Layer {
        /// The layer.
        layer: LayerName,
        /// What is wrong with it.
        why: Invalid,
    },
}

type Rows = Option<Vec<(String, String, String)>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(deserialize_with = "written")]
    global: Rows,
    #[serde(deserialize_with = "written")]
    project: Rows,
    #[serde(deserialize_with = "written")]
    task: Rows,
}

/// With a function of its own a missing field is an error; without one it would be null.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rows, D::Error> {
    Option::deserialize(deserializer)
}

impl Policy {
    /// The layers as JSON without blanks: `{"global":…,"project":…,"task":…}`, null for an absent layer, else a list of
    /// `[action, scope, effect]` in the order of action, scope. Equal policies give the same bytes. A stored grant of a kind that
    /// its action does not take is written as it stands, and refused when it is read.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (place, (name, layer)) in self.layers().enumerate() {
            if place > 0 {
                out.push(',');
            }
            push_words(&mut out, &[name.as_str()]);
            out.push(':');
            push_layer(&mut out, layer);
        }
        out.push('}');
        out
    }

    /// Reads what [`Self::to_json`] wrote, or the same in any order of layers and grants.
    ///
    /// # Errors
    /// [`Damaged`]: an unknown, doubled or missing layer, an unknown word, a scope that its action does not take, a doubled grant, anything else in the text.
    pub fn from_json(text: &str) -> Result<Self, Damaged> {
        if text.len() > MAX_JSON {
            return Err(Damaged::TooLong(text.len()));
        }
        // What serde would say repeats words of the text; the place is enough.
        let written: Written = serde_json::from_str(text).map_err(|error| Damaged::Shape {
            line: error.line(),
            column: error.column(),
        })?;
        Ok(Self::new(
            read(LayerName::Global, written.global)?,
            read(LayerName::Project, written.project)?,
            read(LayerName::Task, written.task)?,
        ))
    }
}

fn read(layer: LayerName, rows: Rows) -> Result<Layer, Damaged> {
    let Some(rows) = rows else {
        return Ok(Layer::absent());
    };
    let grants: Result<Vec<Grant>, Damaged> = rows
        .iter()
        .enumerate()
        .map(|(place, (action, scope, effect))| {
            Grant::parse(action, scope, effect).map_err(|why| Damaged::Row {
                layer,
                row: place.saturating_add(1),
                why,
            })
        })
        .collect();
    Layer::authored(grants?).map_err(|why| Damaged::Layer { layer, why })
}

fn push_layer(out: &mut String, layer: &Layer) {
    if layer.state() == LayerState::Absent {
        out.push_str("null");
        return;
    }
    out.push('[');
    for (place, grant) in layer.grants().iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push('[');
        push_words(
            out,
            &[
                grant.action.as_str(),
                &grant.scope.to_string(),
                grant.effect.as_str(),
            ],
        );
        out.push(']');
    }
    out.push(']');
}

/// Words of our own and ids hold no character that JSON would escape.
fn push_words(out: &mut String, words: &[&str]) {
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push('"');
        out.push_str(word);
        out.push('"');
    }
}
