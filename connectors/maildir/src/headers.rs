//! Splits the header block of a raw mail into fields as they stand, top to bottom. Never decodes a value and never looks at the body.
//!
//! The decisions that protect the owner (who sent this, may it be answered) read these fields, because a decoding
//! parser merges, reorders and repairs what it meets.

/// More fields than any real mail has; what follows them is not looked at.
const MOST_FIELDS: usize = 20_000;

/// One header field: the name in lower case, the value unfolded and otherwise untouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The fields of the header block, in the order in which they stand.
pub(crate) fn split(raw: &[u8]) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for line in raw.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || fields.len() >= MOST_FIELDS {
            break;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some(last) = fields.last_mut() {
                last.value.push_str(&String::from_utf8_lossy(line));
            }
        } else if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            let (name, value) = line.split_at(colon);
            fields.push(Field {
                name: String::from_utf8_lossy(name).trim().to_ascii_lowercase(),
                value: String::from_utf8_lossy(value.get(1..).unwrap_or_default()).into_owned(),
            });
        }
    }
    fields
}

/// The values of every field of this name (lower case), top to bottom.
pub(crate) fn values<'f>(fields: &'f [Field], name: &'f str) -> impl Iterator<Item = &'f str> {
    fields
        .iter()
        .filter(move |field| field.name == name)
        .map(|field| field.value.as_str())
}

/// The value without RFC 5322 comments, trimmed. Quoted strings stay as they are. An unclosed comment swallows the rest.
pub(crate) fn without_comments(value: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for letter in value.chars() {
        if escaped {
            escaped = false;
            if depth == 0 {
                kept.push(letter);
            }
            continue;
        }
        match letter {
            '\\' if quoted || depth > 0 => {
                escaped = true;
                if depth == 0 {
                    kept.push(letter);
                }
            }
            '"' if depth == 0 => {
                quoted = !quoted;
                kept.push(letter);
            }
            '(' if !quoted => depth = depth.saturating_add(1),
            ')' if !quoted && depth > 0 => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_unfolded_and_kept_in_order() {
        let raw = b"A: one\r\n two\r\nstray line\r\nb : x:y\nA:\xff\r\n\r\nC: body\r\n";
        let fields = split(raw);
        let seen: Vec<_> = fields
            .iter()
            .map(|field| (field.name.as_str(), field.value.as_str()))
            .collect();
        assert_eq!(seen, [("a", " one two"), ("b", " x:y"), ("a", "\u{fffd}")]);
        assert_eq!(values(&fields, "a").count(), 2);
    }

    #[test]
    fn comments_go_and_quoted_strings_stay() {
        assert_eq!(without_comments(" no (a (nested) one) "), "no");
        assert_eq!(without_comments("\"(kept)\" x(gone\\) still)y"), "\"(kept)\" xy");
        assert_eq!(without_comments("<> (unclosed"), "<>");
        assert_eq!(without_comments("\"a\\\"(b\" c"), "\"a\\\"(b\" c");
    }
}
