//! What can still be read of a damaged JSON object: its entries up to the first that is broken. Never invents one.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The whole entries at the beginning of `text`.
pub(super) fn salvage(text: &[u8]) -> Map<String, Value> {
    let text = String::from_utf8_lossy(text);
    let mut found = Map::new();
    let Some(mut rest) = text.trim_start().strip_prefix('{') else {
        return found;
    };
    while let Some((key, value, after)) = entry(rest) {
        found.insert(key, value);
        rest = after;
    }
    found
}

fn entry(text: &str) -> Option<(String, Value, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    let (key, text) = first::<String>(text)?;
    let (value, text) = first::<Value>(text.trim_start().strip_prefix(':')?)?;
    Some((key, value, text))
}

fn first<T: DeserializeOwned>(text: &str) -> Option<(T, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

#[cfg(test)]
mod tests {
    use super::salvage;

    #[test]
    fn whole_entries_before_the_damage_are_kept_and_nothing_else() {
        let cut = br#"{ "a": {"x": 1}, "b": {"y": [2, 3]}, "c": {"z": "#;
        let kept = salvage(cut);
        assert_eq!(
            serde_json::to_string(&kept).unwrap(),
            r#"{"a":{"x":1},"b":{"y":[2,3]}}"#
        );
        for nothing in [&b""[..], b"[1]", b"\xff\xfe", b"{", b"null"] {
            assert!(salvage(nothing).is_empty());
        }
    }
}
