//! What other programs write and a strict reader of JSON refuses. Never changes a line in its file.

use super::Entry;

/// What a line that is an entry says. Half of a surrogate pair, where another program cut a text within an emoji, and bytes that are no
/// UTF-8 are shown as the replacement character, as those programs show them themselves, and the entry is not lost. One that cannot be read
/// even so (a number beyond what a float holds) says nothing.
pub(crate) fn entry(line: &[u8]) -> Entry {
    serde_json::from_slice(line)
        .or_else(|_| serde_json::from_str(&whole_pairs(&String::from_utf8_lossy(line))))
        .unwrap_or_default()
}

/// Replaces each escape that is one half of a surrogate pair.
fn whole_pairs(line: &str) -> String {
    let mut whole = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, at)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        whole.push_str(before);
        let (written, length) = match unit(at) {
            Some(0xd800..0xdc00) if matches!(at.get(6..).and_then(unit), Some(0xdc00..0xe000)) => {
                (at.get(..12), 12)
            }
            Some(0xd800..0xe000) => (Some("\\ufffd"), 6),
            _ => {
                let length = 1 + at.chars().nth(1).map_or(0, char::len_utf8);
                (at.get(..length), length)
            }
        };
        whole.push_str(written.unwrap_or_default());
        rest = at.get(length..).unwrap_or_default();
    }
    whole.push_str(rest);
    whole
}

/// The code unit of the escape that a text begins with.
fn unit(text: &str) -> Option<u16> {
    let code = text.strip_prefix("\\u")?.get(..4)?;
    code.bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u16::from_str_radix(code, 16).ok())?
}
