//! Cuts and cleans outside text so that it fits the limits of muster's door. Never interprets what it cuts.

use std::fmt::Write as _;

/// The text on one line: every run of blanks, line ends and control characters becomes one blank.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if !word.is_empty() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    line
}

/// At most `limit` characters; a cut is marked with an ellipsis, which counts.
pub(crate) fn cut_chars(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// The longest beginning of the text of at most `limit` bytes that ends on a character boundary.
pub(crate) fn cut_bytes(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or_default()
}

/// A text that muster can store: line ends are LF, a NUL is shown as U+FFFD, blank lines around it are gone.
pub(crate) fn storable(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = text.replace('\0', "\u{fffd}");
    text.trim_end().trim_start_matches('\n').to_owned()
}

/// Outside bytes as printable text of at most `limit` bytes: control characters other than the line feed are spelt out.
pub(crate) fn printable(bytes: &[u8], limit: usize) -> String {
    let mut shown = String::new();
    for letter in String::from_utf8_lossy(bytes).chars() {
        let before = shown.len();
        if letter.is_control() && letter != '\n' {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", letter.escape_default());
        } else {
            shown.push(letter);
        }
        if shown.len() > limit {
            shown.truncate(before);
            break;
        }
    }
    shown
}

/// The bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An HTML text as plain text with a line for each block. Links and pictures are dropped, their text stays.
pub(crate) fn from_html(html: &str) -> String {
    const ENDS_A_LINE: [&str; 13] = [
        "/div",
        "/tr",
        "/li",
        "/h1",
        "/h2",
        "/h3",
        "/h4",
        "/h5",
        "/h6",
        "/table",
        "/blockquote",
        "/pre",
        "hr",
    ];
    let mut broken = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        broken.push_str(before);
        let ends_a_line = ENDS_A_LINE.iter().any(|tag| {
            after
                .get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
                && !after
                    .get(tag.len()..)
                    .is_some_and(|more| more.starts_with(|letter: char| letter.is_alphanumeric()))
        });
        broken.push_str(if ends_a_line { "<br><" } else { "<" });
        rest = after;
    }
    broken.push_str(rest);

    let mut text = String::new();
    let mut blank_lines = 0;
    for line in mail_parser::decoders::html::html_to_text(&broken).lines() {
        blank_lines = if line.trim().is_empty() {
            blank_lines + 1
        } else {
            0
        };
        if blank_lines < 2 {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_blanks_at_its_ends_and_no_control_characters() {
        assert_eq!(one_line(" a\r\n\tb\u{0}c \u{2028} d\u{85}"), "a b c d");
        assert_eq!(one_line("\u{7f}\n"), "");
    }

    #[test]
    fn a_cut_never_exceeds_its_limit_and_never_splits_a_character() {
        assert_eq!(cut_chars("äöü", 3), "äöü");
        assert_eq!(cut_chars("äöüß", 3), "äö…");
        assert_eq!(cut_bytes("aé", 2), "a");
        assert_eq!(cut_bytes("aé", 99), "aé");
    }

    #[test]
    fn control_characters_of_outside_bytes_are_spelt_out() {
        assert_eq!(printable(b"a\x1b[0m\nb\xff", 99), "a\\u{1b}[0m\nb\u{fffd}");
        assert_eq!(printable("ééé".as_bytes(), 5), "éé");
        assert_eq!(printable(b"a\x1b", 5), "a");
    }

    #[test]
    fn blocks_of_html_become_lines() {
        assert_eq!(
            from_html("<div>Hello <b>Ada</b></div><DIV>noon?</DIV><table><tr><td>1</td></tr></table>"),
            "Hello Ada\nnoon?\n1\n\n"
        );
        assert_eq!(from_html("<script>evil()</script><p>a &amp; b</p>"), "a & b\n");
    }
}
