//! The exact look of an outgoing reply on its card: two different replies never look the same, and nothing in one stays invisible.

#[cfg(test)]
mod tests;

use crate::text::spell_char;

/// `text` in printable ASCII: printable ASCII as itself, a new line as `\n`, every other character as `\u{hex}`.
///
/// A backslash is itself too, except where it could be read as the start of one of those spellings; there it is doubled.
/// So `\\` always means one backslash, and a typed backslash and `n` (`\\n`) differ from a new line (`\n`).
#[must_use]
pub fn spell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => out.push_str("\\n"),
            '\\' => {
                out.push('\\');
                if rest.peek().is_some_and(|next| makes_a_spelling(*next)) {
                    out.push('\\');
                }
            }
            ' '..='~' => out.push(c),
            other => spell_char(&mut out, other),
        }
    }
    out
}

/// How long `text` is in characters (Unicode code points), the length that the card shows.
#[must_use]
pub fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Whether a backslash before `next` would read as a spelling: `n` and `u` as they stand, a backslash and everything that is spelled because their output starts with one.
const fn makes_a_spelling(next: char) -> bool {
    matches!(next, 'n' | 'u' | '\\') || !matches!(next, ' '..='~')
}
