//! Which characters a reader can see, and how the others are spelled out; it never changes what it is not given.

use std::fmt::Write as _;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Why a character cannot be seen as itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// A control character, also tab and the ASCII line breaks.
    Control,
    /// U+2028 or U+2029, which some programs take for a new line and others do not.
    LineSeparator,
    /// A character that changes the direction in which its neighbours are shown.
    Direction,
    /// A character that takes no room or shows nothing: zero-width, filler, selector, tag, soft hyphen.
    Invisible,
    /// A character whose look is a private agreement.
    PrivateUse,
    /// A code point that has no character (in the version of Unicode that this build knows).
    Unassigned,
}

impl Unseen {
    /// The kind in words, with its article.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Control => "a control character",
            Self::LineSeparator => "a line separator",
            Self::Direction => "a text-direction control",
            Self::Invisible => "an invisible character",
            Self::PrivateUse => "a private-use character",
            Self::Unassigned => "an unassigned code point",
        }
    }
}

/// Why `c` cannot be seen, or `None` for a character that shows itself. Blanks such as U+00A0 count as seen.
#[must_use]
pub fn unseen(c: char) -> Option<Unseen> {
    // Printable ASCII is nearly all the text there is, and the table look-up below is the cost of this module.
    if matches!(c, ' '..='~') {
        return None;
    }
    if is_direction_control(c) {
        return Some(Unseen::Direction);
    }
    if is_filler(c) {
        return Some(Unseen::Invisible);
    }
    match get_general_category(c) {
        GeneralCategory::Control => Some(Unseen::Control),
        GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => Some(Unseen::LineSeparator),
        GeneralCategory::Format if !is_visible_format(c) => Some(Unseen::Invisible),
        GeneralCategory::PrivateUse => Some(Unseen::PrivateUse),
        GeneralCategory::Unassigned | GeneralCategory::Surrogate => Some(Unseen::Unassigned),
        _ => None,
    }
}

/// Whether some program takes `c` for the end of a line: LF, VT, FF, CR, NEL, LS or PS.
#[must_use]
pub const fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\u{b}' | '\u{c}' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Whether `c` belongs to a script that is written without blanks between words, so that no word boundary is to be expected beside it.
pub(crate) const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}'     // Thai, Lao
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{2e80}'..='\u{2fff}'   // Han radicals
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{30ff}'   // Hiragana, Katakana
        | '\u{3100}'..='\u{312f}'   // Bopomofo
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'   // Han
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Appends `c` as `\u{hex}`.
pub fn spell_char(out: &mut String, c: char) {
    // Writing into a String cannot fail.
    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
}

const fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The default-ignorable characters that are not of category Cf, and the one Braille cell without dots.
const fn is_filler(c: char) -> bool {
    matches!(c,
        '\u{34f}'
        | '\u{115f}' | '\u{1160}'
        | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2065}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The few characters of category Cf that are drawn: signs that enclose or precede a number, and the Syriac abbreviation mark.
const fn is_visible_format(c: char) -> bool {
    matches!(
        c,
        '\u{600}'
            ..='\u{605}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'
                | '\u{891}'
                | '\u{8e2}'
                | '\u{110bd}'
                | '\u{110cd}'
    )
}
