//! What a database answered: values that lose nothing on the way to JSON, and a text of them. Never larger than the limits of the call.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::limits::Limits;

/// Beyond this a JSON reader may round an integer.
const MAX_EXACT: i64 = (1 << 53) - 1;

/// Levels of a JSON value; readers of JSON stop at a hundred or so, and the answer around it has some itself.
const DEEPEST: usize = 64;

/// How deep a JSON text nests, brackets in its strings not counted.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// One value.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value; JSON null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer within ±(2^53−1); larger ones are texts.
    Int(i64),
    /// A finite floating-point number; others are texts.
    Float(f64),
    /// Text, decimals, large integers, dates and times (RFC 3339), bytes (base64).
    Text(String),
    /// A JSON value as the database wrote it.
    Json(Box<RawValue>),
    /// Several values.
    List(Vec<Cell>),
}

impl Cell {
    /// The integer, as text when a JSON reader could round it.
    #[must_use]
    pub fn int(value: i64) -> Self {
        if (-MAX_EXACT..=MAX_EXACT).contains(&value) {
            Self::Int(value)
        } else {
            Self::Text(value.to_string())
        }
    }

    /// As [`Cell::int`], for the upper half of a 64-bit number too.
    #[must_use]
    pub fn unsigned(value: u64) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Text(value.to_string()), Self::int)
    }

    /// The number; what JSON has no number for is text.
    #[must_use]
    pub fn float(value: f64) -> Self {
        if value.is_finite() {
            Self::Float(value)
        } else {
            Self::Text(value.to_string())
        }
    }

    /// Bytes as base64.
    #[must_use]
    pub fn bytes(value: &[u8]) -> Self {
        Self::Text(STANDARD.encode(value))
    }

    /// Bytes that should be text.
    pub(crate) fn text(value: &[u8]) -> Self {
        std::str::from_utf8(value).map_or_else(|_| Self::bytes(value), |text| Self::Text(text.to_owned()))
    }

    /// A JSON text as it is, on one line; one that is none, or that not every reader of JSON takes (a number beyond all bounds, half a
    /// surrogate pair, hundreds of levels), stays text.
    #[must_use]
    pub fn json(text: &str) -> Self {
        let readable = depth(text) <= DEEPEST && serde_json::from_str::<serde_json::Value>(text).is_ok();
        // Between values a line's end is a blank like any other; in a string it cannot stand.
        let line = if text.contains(['\n', '\r']) {
            std::borrow::Cow::Owned(text.replace(['\n', '\r'], " "))
        } else {
            std::borrow::Cow::Borrowed(text)
        };
        match serde_json::from_str::<Box<RawValue>>(&line) {
            Ok(raw) if readable => Self::Json(raw),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// About how many bytes it prints.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Null => 4,
            Self::Bool(_) => 5,
            Self::Int(_) | Self::Float(_) => 8,
            Self::Text(text) => text.len() + 2,
            Self::Json(raw) => raw.get().len(),
            Self::List(cells) => cells.iter().map(|cell| cell.size() + 1).sum::<usize>() + 2,
        }
    }

    fn render(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("NULL"),
            // A text that could be taken for something else is in quotes.
            Self::Text(text)
                if text == "NULL"
                    || text.is_empty()
                    || text.contains(|letter: char| {
                        letter.is_control() || matches!(letter, '|' | '"' | '\\')
                    }) =>
            {
                out.push_str(&serde_json::to_string(text).unwrap_or_default());
            }
            Self::Text(text) => out.push_str(text),
            other => out.push_str(&serde_json::to_string(other).unwrap_or_default()),
        }
    }
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name as the database gave it.
    pub name: String,
    /// Its type in the database's own words.
    #[serde(rename = "type")]
    pub kind: String,
}

/// An answer in rows: `{"columns","rows","truncated","affected"?}`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether there were more.
    pub truncated: bool,
    /// How many rows a write changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected: Option<u64>,
}

/// What a statement was answered.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// SQL.
    Rows(Rows),
    /// Redis.
    Reply {
        /// The reply: texts, integers, lists; bytes that are no text as base64.
        reply: Cell,
        /// Whether there was more.
        truncated: bool,
    },
    /// MongoDB.
    Document {
        /// Relaxed Extended JSON, its keys in the server's order.
        document: Box<RawValue>,
        /// Whether a part was left off.
        truncated: bool,
    },
}

impl Answer {
    /// A text of it that a model reads well: one line a row, NULL apart from texts, what was cut off said at the end.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Rows(rows) => rows.text(),
            Self::Reply { reply, truncated } => {
                let mut out = String::new();
                match reply {
                    Cell::List(cells) if !cells.is_empty() => {
                        for (number, cell) in cells.iter().enumerate() {
                            let _ = write!(out, "{}) ", number + 1);
                            cell.render(&mut out);
                            out.push('\n');
                        }
                    }
                    other => {
                        other.render(&mut out);
                        out.push('\n');
                    }
                }
                if *truncated {
                    out.push_str("(more was cut off)\n");
                }
                out
            }
            Self::Document { document, truncated } => {
                let cut = if *truncated {
                    "\n(more was cut off)\n"
                } else {
                    "\n"
                };
                format!("{}{cut}", document.get())
            }
        }
    }

    /// The rows, where there are any.
    #[must_use]
    pub const fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            _ => None,
        }
    }
}

impl Rows {
    fn text(&self) -> String {
        let mut out = String::new();
        if !self.columns.is_empty() {
            for (place, column) in self.columns.iter().enumerate() {
                let gap = if place == 0 { "" } else { " | " };
                let _ = write!(
                    out,
                    "{gap}{} ({})",
                    column.name.escape_debug(),
                    column.kind.escape_debug()
                );
            }
            out.push('\n');
        }
        for row in &self.rows {
            for (place, cell) in row.iter().enumerate() {
                if place > 0 {
                    out.push_str(" | ");
                }
                cell.render(&mut out);
            }
            out.push('\n');
        }
        let count = self.rows.len();
        let rows = if count == 1 { "row" } else { "rows" };
        let _ = match (self.truncated, self.affected) {
            (true, _) => writeln!(out, "(the first {count} {rows}; more were cut off)"),
            (false, Some(affected)) => writeln!(out, "({count} {rows}; {affected} changed)"),
            (false, None) => writeln!(out, "({count} {rows})"),
        };
        out
    }
}

/// Takes rows until a limit is reached.
pub(crate) struct Collector {
    pub(crate) rows: Rows,
    limits: Limits,
    bytes: usize,
}

impl Collector {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            rows: Rows::default(),
            limits,
            bytes: 0,
        }
    }

    /// Whether the row still fitted.
    pub(crate) fn push(&mut self, row: Vec<Cell>) -> bool {
        let size: usize = row.iter().map(Cell::size).sum();
        if self.rows.rows.len() >= self.limits.rows || self.bytes + size > self.limits.bytes {
            self.rows.truncated = true;
            return false;
        }
        self.bytes += size;
        self.rows.rows.push(row);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_value_is_as_the_database_wrote_it_or_a_text() {
        let told = |text: &str| serde_json::to_string(&Cell::json(text)).unwrap();
        for kept in [
            r#"{"b": 12345678901234567890.10, "a": 1e2, "a": 2}"#,
            r#"["[{\"[", 1.50]"#,
            "-0.0",
            r#""x""#,
            "null",
        ] {
            assert_eq!(told(kept), kept);
        }
        assert_eq!(told("{\n \"a\":\r\n 1}"), "{  \"a\":   1}");
        let deep = "[".repeat(DEEPEST + 1) + &"]".repeat(DEEPEST + 1);
        for text in ["1e999", r#""\ud800""#, "{", "", "NaN", "1 2", &deep] {
            assert!(
                matches!(Cell::json(text), Cell::Text(kept) if kept == text),
                "{text}"
            );
        }
    }
}
