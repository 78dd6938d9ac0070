//! Changing a few values of a JSON file and not a byte of the rest: order, spacing and numbers stay as their owner wrote them. Never changes what is no strict JSON.

use std::ops::Range;

use serde_json::Value;

use super::Edited;

/// Why the entry of another bus stays.
pub(super) const ELSEWHERE: &str = "its entry agent-coord leads to a bus on another address, and this one would take its place; take that entry out first if that is what you want";

/// A step on the way to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'s> {
    /// A member of an object.
    Key(&'s str),
    /// An element of a list, counted from 0.
    At(usize),
}

/// Where a value stands in the text.
#[derive(Debug)]
struct Node {
    span: Range<usize>,
    inside: Inside,
}

#[derive(Debug)]
enum Inside {
    /// Each member: its name, where that begins, its value.
    Object(Vec<(String, usize, Node)>),
    Array(Vec<Node>),
    Other,
}

/// A JSON text under change.
pub(super) struct Document {
    text: String,
    shown: Vec<String>,
}

impl Document {
    /// Reads a text. An empty one is an object without members.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON ({error})"))?;
        if !value.is_object() {
            return Err("it is no JSON object".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            shown: Vec::new(),
        })
    }

    pub(super) fn done(self) -> Edited {
        Edited {
            text: self.text,
            shown: self.shown,
        }
    }

    /// The value at a place, if there is one.
    pub(super) fn get(&self, path: &[Step<'_>]) -> Result<Option<Value>, String> {
        let root = self.root()?;
        let (node, rest) = follow(&root, path)?;
        if !rest.is_empty() {
            return Ok(None);
        }
        let text = self.text.get(node.span.clone()).unwrap_or_default();
        serde_json::from_str(text)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    /// Sets the value at a place; objects on the way that are missing are made.
    pub(super) fn set(&mut self, path: &[Step<'_>], value: &Value) -> Result<(), String> {
        let before = self.get(path)?;
        if before.as_ref() == Some(value) {
            return Ok(());
        }
        let root = self.root()?;
        let (node, rest) = follow(&root, path)?;
        let depth = path.len() - rest.len();
        let Some((first, more)) = rest.split_first() else {
            let text = self.render(value, depth);
            let span = node.span.clone();
            self.text.replace_range(span, &text);
            self.show(path, before.as_ref(), value);
            return Ok(());
        };
        let Step::Key(name) = first else {
            return Err(format!("{} has no such element", spelled(path)));
        };
        let mut whole = value.clone();
        for step in more.iter().rev() {
            let Step::Key(name) = step else {
                return Err(format!("{} has no such element", spelled(path)));
            };
            whole = Value::Object([((*name).to_owned(), whole)].into_iter().collect());
        }
        let member = format!("{}: {}", Value::from(*name), self.render(&whole, depth + 1));
        self.insert(node, &member, depth);
        self.show(path, None, value);
        Ok(())
    }

    /// Adds an element to the list at a place; the list and objects on the way that are missing are made.
    pub(super) fn push(&mut self, path: &[Step<'_>], value: &Value) -> Result<(), String> {
        let root = self.root()?;
        let (node, rest) = follow(&root, path)?;
        if !rest.is_empty() {
            return self.set(path, &Value::Array(vec![value.clone()]));
        }
        if !matches!(node.inside, Inside::Array(_)) {
            return Err(format!("{} is no list", spelled(path)));
        }
        let element = self.render(value, path.len() + 1);
        self.insert(node, &element, path.len());
        self.show(path, None, &Value::Array(vec![value.clone()]));
        Ok(())
    }

    fn root(&self) -> Result<Node, String> {
        Reader {
            text: &self.text,
            at: 0,
        }
        .value()
        .ok_or_else(|| "it cannot be read".to_owned())
    }

    /// Puts a member or an element behind the last one of an object or a list.
    fn insert(&mut self, node: &Node, what: &str, depth: usize) {
        let (first, last) = match &node.inside {
            Inside::Object(members) => (
                members.first().map(|(_, at, _)| *at),
                members.last().map(|(_, _, value)| value.span.end),
            ),
            Inside::Array(items) => (
                items.first().map(|item| item.span.start),
                items.last().map(|item| item.span.end),
            ),
            Inside::Other => (None, None),
        };
        match (first, last) {
            (Some(first), Some(last)) => {
                let gap = self.text.get(node.span.start + 1..first).unwrap_or_default();
                // As its neighbours stand: each on a line of its own, or all on one.
                let between = if gap.contains('\n') {
                    gap.trim_start_matches(|c| c != '\n').to_owned()
                } else {
                    " ".to_owned()
                };
                self.text.insert_str(last, &format!(",{between}{what}"));
            }
            _ => {
                let inside = node.span.start + 1..node.span.end - 1;
                let text = match self.unit() {
                    Some(unit) => format!("\n{}{what}\n{}", unit.repeat(depth + 1), unit.repeat(depth)),
                    None => what.to_owned(),
                };
                self.text.replace_range(inside, &text);
            }
        }
    }

    /// A value as it is written at a depth.
    fn render(&self, value: &Value, depth: usize) -> String {
        let Some(unit) = self.unit() else {
            return value.to_string();
        };
        let mut out = String::new();
        for (number, line) in format!("{value:#}").lines().enumerate() {
            let inner = line.trim_start_matches(' ');
            if number > 0 {
                out.push('\n');
                out.push_str(&unit.repeat(depth + (line.len() - inner.len()) / 2));
            }
            out.push_str(inner);
        }
        out
    }

    /// What one level is indented by; `None` in a file that is all on one line.
    fn unit(&self) -> Option<String> {
        let (_, rest) = self.text.trim_end().split_once('\n').or_else(|| {
            // Nothing to go by.
            (self.text.trim() == "{}").then_some(("", "  \""))
        })?;
        let unit: String = rest.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        Some(if unit.is_empty() { "  ".to_owned() } else { unit })
    }

    fn show(&mut self, path: &[Step<'_>], before: Option<&Value>, after: &Value) {
        let place = spelled(path);
        if let Some(before) = before {
            self.shown.push(format!("- {place}: {before}"));
        }
        let text = format!("{after:#}");
        let mut lines = text.lines();
        self.shown
            .push(format!("+ {place}: {}", lines.next().unwrap_or_default()));
        self.shown.extend(lines.map(|line| format!("+ {line}")));
    }
}

fn spelled(path: &[Step<'_>]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(name) if out.is_empty() => out.push_str(name),
            Step::Key(name) => out.push_str(&format!(".{name}")),
            Step::At(number) => out.push_str(&format!("[{number}]")),
        }
    }
    out
}

/// As far as a path leads, and what is left of it.
fn follow<'n, 'p, 's>(root: &'n Node, path: &'p [Step<'s>]) -> Result<(&'n Node, &'p [Step<'s>]), String> {
    let (mut node, mut rest) = (root, path);
    while let Some((step, more)) = rest.split_first() {
        let walked = || spelled(path.get(..path.len() - rest.len()).unwrap_or_default());
        let next = match (step, &node.inside) {
            (Step::Key(name), Inside::Object(members)) => {
                let mut named = members.iter().filter(|(known, ..)| known == name);
                let next = named.next();
                if named.next().is_some() {
                    return Err(format!("it says {name} twice in one object"));
                }
                next.map(|(_, _, value)| value)
            }
            (Step::At(number), Inside::Array(items)) => items.get(*number),
            (Step::Key(_), _) => return Err(format!("its {} is no object", walked())),
            (Step::At(_), _) => return Err(format!("its {} is no list", walked())),
        };
        let Some(next) = next else {
            return Ok((node, rest));
        };
        (node, rest) = (next, more);
    }
    Ok((node, rest))
}

/// Finds where values stand in a text that is known to be JSON, nested no deeper than serde_json reads it.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn value(&mut self) -> Option<Node> {
        let first = self.peek()?;
        let start = self.at;
        let inside = match first {
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                while self.peek()? != b'}' {
                    let begins = self.at;
                    self.string()?;
                    let name = serde_json::from_str(self.text.get(begins..self.at)?).ok()?;
                    self.peek()?;
                    self.at += 1;
                    members.push((name, begins, self.value()?));
                    self.comma()?;
                }
                self.at += 1;
                Inside::Object(members)
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while self.peek()? != b']' {
                    items.push(self.value()?);
                    self.comma()?;
                }
                self.at += 1;
                Inside::Array(items)
            }
            b'"' => {
                self.string()?;
                Inside::Other
            }
            _ => {
                let rest = self.text.as_bytes().get(self.at..)?;
                self.at += rest
                    .iter()
                    .take_while(|byte| !byte.is_ascii_whitespace() && !b",]}".contains(byte))
                    .count();
                Inside::Other
            }
        };
        Some(Node {
            span: start..self.at,
            inside,
        })
    }

    fn comma(&mut self) -> Option<()> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
