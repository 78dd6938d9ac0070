//! JSON-RPC by its outermost fields. Everything deeper is passed on byte for byte, so that what is newer than muster survives; nothing is decoded that need not be.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The fields of an object in their order, values untouched. An object that names a field twice is refused: two readers could see two messages.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    fields.push((key, value));
                }
                let twice = if fields.len() <= 16 {
                    fields
                        .iter()
                        .enumerate()
                        .any(|(at, (key, _))| fields.iter().skip(at + 1).any(|(other, _)| other == key))
                } else {
                    let mut seen = BTreeSet::new();
                    !fields.iter().all(|(key, _)| seen.insert(key.as_ref()))
                };
                if twice {
                    return Err(M::Error::custom("a field is named twice"));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find_map(|(key, value)| (key == name).then_some(*value))
    }

    /// A field that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    /// A field that a reader who does not mind the case could take for another one: for one of `known` that it is not, or for a second of its name.
    pub(crate) fn mistakable(&self, known: &[&str]) -> Option<&str> {
        if self.0.iter().all(|(key, _)| known.contains(&key.as_ref())) {
            return None;
        }
        let mut seen: BTreeSet<String> = known.iter().map(|name| folded(name)).collect();
        self.0
            .iter()
            .map(|(key, _)| key.as_ref())
            .find(|key| !known.contains(key) && !seen.insert(folded(key)))
    }

    /// The object again, with those of its fields alone whose names `keep` takes.
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> String {
        let mut out = String::new();
        let mut separator = '{';
        for (key, value) in self.0.iter().filter(|(key, _)| keep(key)) {
            push(&mut out, &mut separator, key, value.get());
        }
        if separator == '{' {
            out.push('{');
        }
        out.push('}');
        out
    }

    /// The object again, with the fields of `with` in the place of those of the same name, or behind the others.
    pub(crate) fn with(&self, with: &[(&str, &str)]) -> String {
        let mut out = String::with_capacity(
            self.0
                .iter()
                .map(|(key, value)| key.len() + value.get().len() + 4)
                .sum::<usize>()
                + 64,
        );
        let mut separator = '{';
        for (key, value) in &self.0 {
            let value = with
                .iter()
                .find_map(|(name, text)| (key == name).then_some(*text))
                .unwrap_or(value.get());
            push(&mut out, &mut separator, key, value);
        }
        for (name, text) in with.iter().filter(|(name, _)| self.get(name).is_none()) {
            push(&mut out, &mut separator, name, text);
        }
        if separator == '{' {
            out.push('{');
        }
        out.push('}');
        out
    }
}

fn push(out: &mut String, separator: &mut char, key: &str, value: &str) {
    out.push(*separator);
    *separator = ',';
    if key
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
    {
        out.push('"');
        out.push_str(key);
        out.push('"');
    } else {
        out.push_str(&quoted(key));
    }
    out.push(':');
    out.push_str(value);
}

/// A name without its case, so that all that any reader takes for one letter is one.
pub(crate) fn folded(name: &str) -> String {
    // Up and down again: some letters meet only in one of the two.
    name.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A raw value as a string, when it is one.
pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Key<'_>>(value.get()).ok().map(|key| key.0)
}

/// One message by its outermost fields.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    /// An id that is not `null`.
    pub(crate) id: Option<&'a RawValue>,
    /// There is an id, and it is `null`.
    pub(crate) unnamed: bool,
    pub(crate) method: Option<Cow<'a, str>>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
}

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Request,
    Notification,
    Answer,
    /// It asks for something, and has no id under which an answer could be given.
    Unanswerable,
    Nonsense,
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let fields = Fields::parse(std::str::from_utf8(bytes).ok()?).ok()?;
        // A method that is there and no string is nonsense, not an answer.
        let method = match fields.get("method") {
            None => None,
            Some(value) => Some(string(value)?),
        };
        Some(Self {
            id: fields.get("id").filter(|id| id.get() != "null"),
            unnamed: fields.get("id").is_some_and(|id| id.get() == "null"),
            method,
            params: fields.get("params"),
            result: fields.get("result"),
            error: fields.get("error"),
        })
    }

    pub(crate) fn shape(&self) -> Shape {
        let answers = self.result.is_some() || self.error.is_some();
        match (&self.method, self.id, answers) {
            (Some(_), Some(_), false) => Shape::Request,
            (Some(_), None, false) => Shape::Notification,
            (None, Some(_), true) => Shape::Answer,
            _ => Shape::Nonsense,
        }
    }

    /// As [`Message::shape`], for what an agent sends: only a notification by its name may go without an id, and an id is a string or a number.
    pub(crate) fn shape_of_agent(&self) -> Shape {
        match self.shape() {
            Shape::Notification if !self.is_notice() => Shape::Unanswerable,
            Shape::Request if !self.id.is_some_and(is_id) => Shape::Unanswerable,
            other => other,
        }
    }

    fn is_notice(&self) -> bool {
        self.method
            .as_deref()
            .is_some_and(|method| method.starts_with("notifications/"))
    }
}

fn is_id(id: &RawValue) -> bool {
    let first = id.get().bytes().next();
    first.is_some_and(|first| matches!(first, b'"' | b'-' | b'0'..=b'9'))
}

/// A request or, without an id, a notification.
pub(crate) fn call(id: Option<&str>, method: &str, params: Option<&str>) -> String {
    let mut out = String::with_capacity(params.map_or(0, str::len) + method.len() + 64);
    out.push_str("{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.push_str(",\"id\":");
        out.push_str(id);
    }
    out.push_str(",\"method\":");
    out.push_str(&quoted(method));
    if let Some(params) = params {
        out.push_str(",\"params\":");
        out.push_str(params);
    }
    out.push('}');
    out
}

/// An answer: `kind` is `result` or `error`.
pub(crate) fn answer(id: &str, kind: &str, value: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{kind}\":{value}}}")
}

/// An error answer with a sentence.
pub(crate) fn failure(id: &str, code: i32, message: &str) -> String {
    answer(
        id,
        "error",
        &format!("{{\"code\":{code},\"message\":{}}}", quoted(message)),
    )
}

/// Why a request without an id is refused.
pub(crate) const UNANSWERABLE: &str =
    "a request needs an id that is a string or a number; only notifications go without one; nothing was sent";

/// What an error of the protocol is numbered.
pub(crate) mod code {
    pub(crate) const PARSE: i32 = -32_700;
    pub(crate) const INVALID_REQUEST: i32 = -32_600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32_601;
    pub(crate) const INVALID_PARAMS: i32 = -32_602;
    pub(crate) const INTERNAL: i32 = -32_603;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_passed_on_as_it_was_written() {
        let text =
            r#"{"name":"a","new":{"big":123456789012345678901234567890,"b":1.0},"_meta":{"z":1,"a":2}}"#;
        let fields = Fields::parse(text).unwrap();
        assert_eq!(fields.with(&[]), text);
        assert_eq!(
            fields.with(&[("name", "\"b\""), ("more", "1")]),
            r#"{"name":"b","new":{"big":123456789012345678901234567890,"b":1.0},"_meta":{"z":1,"a":2},"more":1}"#
        );
        assert_eq!(Fields::parse("{}").unwrap().with(&[]), "{}");
    }

    #[test]
    fn a_field_named_twice_is_refused_also_behind_an_escape() {
        assert!(Fields::parse(r#"{"name":"a","name":"b"}"#).is_err());
        assert!(Fields::parse(r#"{"name":"a","n\u0061me":"b"}"#).is_err());
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":1", n % 39)).collect();
        assert!(Fields::parse(&format!("{{{}}}", many.join(","))).is_err());
    }

    #[test]
    fn a_field_that_differs_only_in_case_is_found() {
        let found = |text: &str| {
            let fields = Fields::parse(text).unwrap();
            fields.mistakable(&["name", "_meta", "risks"]).map(str::to_owned)
        };
        assert_eq!(found(r#"{"name":1,"_meta":2,"newer":3,"Nam":4}"#), None);
        for text in [
            r#"{"name":1,"Name":2}"#,
            r#"{"Name":2}"#,
            r#"{"NAME":2,"name":1}"#,
            r#"{"_Meta":2}"#,
            r#"{"newer":1,"Newer":2}"#,
            r#"{"ri\u017fks":1}"#,
            r#"{"RIS\u212aS":1}"#,
        ] {
            assert!(found(text).is_some(), "{text}");
        }
    }

    #[test]
    fn shapes() {
        let shape = |text: &str| Message::parse(text.as_bytes()).map(|message| message.shape());
        assert_eq!(shape(r#"{"id":1,"method":"a"}"#), Some(Shape::Request));
        assert_eq!(shape(r#"{"method":"a"}"#), Some(Shape::Notification));
        assert_eq!(shape(r#"{"id":"x","result":null}"#), Some(Shape::Answer));
        assert_eq!(shape(r#"{"id":null,"error":{}}"#), Some(Shape::Nonsense));
        assert_eq!(
            shape(r#"{"id":1,"method":"a","result":1}"#),
            Some(Shape::Nonsense)
        );
        assert_eq!(shape(r#"{"id":1,"method":2}"#), None);
        assert_eq!(shape("[1]"), None);
        let of_agent = |text: &str| Message::parse(text.as_bytes()).unwrap().shape_of_agent();
        for text in [
            r#"{"method":"tools/call"}"#,
            r#"{"id":null,"method":"tools/call"}"#,
            r#"{"id":{},"method":"tools/call"}"#,
            r#"{"id":true,"method":"tools/call"}"#,
            r#"{"method":"Notifications/x"}"#,
        ] {
            assert_eq!(of_agent(text), Shape::Unanswerable, "{text}");
        }
        assert_eq!(of_agent(r#"{"method":"notifications/x"}"#), Shape::Notification);
        assert_eq!(of_agent(r#"{"id":"x","method":"tools/call"}"#), Shape::Request);
        assert_eq!(of_agent(r#"{"id":-1,"method":"tools/call"}"#), Shape::Request);
        assert_eq!(shape("{\"a\":\"\u{0}"), None);
    }
}
