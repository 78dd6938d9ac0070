//! Bounded text: every value that comes from outside is parsed into one of these types once, and it is refused, never cut, when it breaks a rule.

mod chars;
#[cfg(test)]
mod tests;

use std::fmt;

use unicode_normalization::UnicodeNormalization as _;

pub(crate) use chars::is_unspaced;
pub use chars::{Unseen, is_line_break, spell_char, unseen};

/// Largest message or reply body, in bytes of UTF-8.
pub const BODY_MAX_BYTES: usize = 16 * 1024;

/// What a length is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode code points.
    Characters,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Characters => "characters",
        })
    }
}

/// Why a text was refused. It names the field, the rule and a length or a place, and never holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Too short or too long.
    #[error("{field} has {received} {unit}; it must have {}, and muster never cuts a text", range(*.min, *.max))]
    Length {
        /// The field, as the writer knows it.
        field: &'static str,
        /// Fewest units allowed.
        min: usize,
        /// Most units allowed.
        max: usize,
        /// What `min`, `max` and `received` count.
        unit: Unit,
        /// The length that came.
        received: usize,
    },
    /// Within the limit as sent, and over it once compatibility characters are written out (NFKC).
    #[error(
        "{field} has {received} bytes once its compatibility characters are written out (NFKC); it must have at most {max}, and muster never cuts a text"
    )]
    FoldedLength {
        /// The field, as the writer knows it.
        field: &'static str,
        /// Most bytes allowed.
        max: usize,
        /// The length after folding, in bytes.
        received: usize,
    },
    /// A character that the field may not hold.
    #[error("{field} holds {what} at character {at}; leave it out")]
    Character {
        /// The field, as the writer knows it.
        field: &'static str,
        /// What kind of character, with its article.
        what: &'static str,
        /// Its place, counted in characters from 1.
        at: usize,
    },
    /// Nothing but blanks.
    #[error("{field} is blank; it must hold text that can be seen")]
    Blank {
        /// The field, as the writer knows it.
        field: &'static str,
    },
    /// Not a name.
    #[error(
        "{field} is no valid name; use 1 to 64 of the characters a-z, 0-9, dot, underscore and hyphen, start with a letter or digit, and use at least one that is not a digit"
    )]
    Name {
        /// The field, as the writer knows it.
        field: &'static str,
    },
}

fn range(min: usize, max: usize) -> String {
    if min == 0 {
        format!("at most {max}")
    } else {
        format!("{min} to {max}")
    }
}

/// What one type allows. A NUL is refused in all of them, because no database engine of ours stores one in a text.
struct Rule {
    min: usize,
    max: usize,
    unit: Unit,
    /// Names the reason when the character may not be there.
    refuse: fn(char) -> Option<&'static str>,
    /// Whether a text of blanks alone is allowed.
    blank: bool,
}

impl Rule {
    const fn free(min: usize, max: usize, unit: Unit) -> Self {
        Self {
            min,
            max,
            unit,
            refuse: allow_all,
            blank: true,
        }
    }

    fn check(&self, field: &'static str, text: &str) -> Result<(), TextError> {
        let received = match self.unit {
            Unit::Bytes => text.len(),
            Unit::Characters => text.chars().count(),
        };
        if received < self.min || received > self.max {
            return Err(TextError::Length {
                field,
                min: self.min,
                max: self.max,
                unit: self.unit,
                received,
            });
        }
        for (place, c) in text.chars().enumerate() {
            let what = if c == '\0' {
                Some("a NUL character")
            } else {
                (self.refuse)(c)
            };
            if let Some(what) = what {
                return Err(TextError::Character {
                    field,
                    what,
                    at: place.saturating_add(1),
                });
            }
        }
        if !self.blank && is_blank(text) {
            return Err(TextError::Blank { field });
        }
        Ok(())
    }
}

const fn allow_all(_: char) -> Option<&'static str> {
    None
}

fn refuse_blank_or_control(c: char) -> Option<&'static str> {
    if c.is_control() {
        Some("a control character")
    } else if c.is_whitespace() {
        Some("a blank")
    } else {
        None
    }
}

fn refuse_unseen(c: char) -> Option<&'static str> {
    unseen(c).map(Unseen::words)
}

/// Whether `text` is empty or blanks alone.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks `text`; `field` is the name by which the writer knows it.
            ///
            /// # Errors
            /// The first rule that `text` breaks.
            pub fn parse(field: &'static str, text: impl Into<String>) -> Result<Self, TextError> {
                const RULE: Rule = $rule;
                let text = text.into();
                RULE.check(field, &text)?;
                Ok(Self(text))
            }
        }

        bounded!(@common $name);
    };
    (@common $name:ident) => {
        impl $name {
            /// The text itself. It is outside text: escape it for the place it goes to.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text itself, owned.
            #[must_use]
            pub fn into_string(self) -> String {
                self.0
            }
        }

        // Only the length: a derived form would put people's words into logs.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({} bytes)"), self.0.len())
            }
        }
    };
}

bounded!(
    /// A connector's own id of a message, the idempotency key: 1 to 200 bytes without blanks or control characters.
    ExternalId,
    Rule { min: 1, max: 200, unit: Unit::Bytes, refuse: refuse_blank_or_control, blank: true }
);
bounded!(
    /// The upstream's thread id, matched byte for byte: 1 to 200 bytes without blanks or control characters.
    ThreadId,
    Rule { min: 1, max: 200, unit: Unit::Bytes, refuse: refuse_blank_or_control, blank: true }
);
bounded!(
    /// Who a message says it is from: at most 200 characters, any but NUL.
    Sender,
    Rule::free(0, 200, Unit::Characters)
);
bounded!(
    /// A message's subject: at most 200 characters, any but NUL.
    Subject,
    Rule::free(0, 200, Unit::Characters)
);
bounded!(
    /// A message's text: 1 byte to 16 KiB, any but NUL.
    MessageBody,
    Rule::free(1, BODY_MAX_BYTES, Unit::Bytes)
);
bounded!(
    /// The upstream's id of a reply that went out: at most 200 characters, any but NUL.
    ExternalRef,
    Rule::free(0, 200, Unit::Characters)
);
bounded!(
    /// What a connector wants the owner to read about a result: at most 4 KiB, any but NUL.
    Detail,
    Rule::free(0, 4 * 1024, Unit::Bytes)
);
bounded!(
    /// What a connector's conversation is called: 1 to 80 characters, all of which can be seen, not blanks alone.
    Label,
    Rule { min: 1, max: 80, unit: Unit::Characters, refuse: refuse_unseen, blank: false }
);
bounded!(
    /// What the owner calls an agent: 1 to 200 characters, any but NUL, not blanks alone.
    AgentLabel,
    Rule { min: 1, max: 200, unit: Unit::Characters, refuse: allow_all, blank: false }
);
bounded!(
    /// A task's title: 1 to 300 characters, any but NUL, not blanks alone.
    TaskTitle,
    Rule { min: 1, max: 300, unit: Unit::Characters, refuse: allow_all, blank: false }
);
bounded!(
    /// A task's text, or what its agent is told: at most 256 KiB, any but NUL.
    TaskBody,
    Rule::free(0, 256 * 1024, Unit::Bytes)
);
bounded!(
    /// Where the chief records what it keeps from a connector's messages: 1 to 200 characters, all of which can be seen, not blanks alone.
    DataScope,
    Rule { min: 1, max: 200, unit: Unit::Characters, refuse: refuse_unseen, blank: false }
);

/// The text of a reply, folded to NFKC: at most 16 KiB as sent and after folding, and not blank.
///
/// Whether it may be filed is for [`crate::screen::screen`] to say.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ReplyBody(String);

impl ReplyBody {
    /// Checks `text` and folds it; `field` is the name by which the writer knows it.
    ///
    /// # Errors
    /// The first rule that `text` breaks.
    pub fn parse(field: &'static str, text: impl AsRef<str>) -> Result<Self, TextError> {
        const RULE: Rule = Rule {
            min: 1,
            max: BODY_MAX_BYTES,
            unit: Unit::Bytes,
            refuse: allow_all,
            blank: false,
        };
        let text = text.as_ref();
        // Before the fold, so that folding never works on more than the limit.
        RULE.check(field, text)?;
        let folded = fold(text);
        if folded.len() > BODY_MAX_BYTES {
            return Err(TextError::FoldedLength {
                field,
                max: BODY_MAX_BYTES,
                received: folded.len(),
            });
        }
        RULE.check(field, &folded)?;
        Ok(Self(folded))
    }
}

bounded!(@common ReplyBody);

/// A name in addresses and commands (of a connector, a project, a host …): `[a-z0-9][a-z0-9._-]{0,63}`, not digits alone (a number is an id).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Slug(String);

impl Slug {
    /// Checks `text`; `field` is the name by which the writer knows it.
    ///
    /// # Errors
    /// [`TextError::Name`].
    pub fn parse(field: &'static str, text: impl Into<String>) -> Result<Self, TextError> {
        let text = text.into();
        let of_name = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
        let starts = text.starts_with(|c: char| matches!(c, 'a'..='z' | '0'..='9'));
        let digits_alone = text.chars().all(|c| c.is_ascii_digit());
        if starts && !digits_alone && text.len() <= 64 && text.chars().all(of_name) {
            Ok(Self(text))
        } else {
            Err(TextError::Name { field })
        }
    }
}

bounded!(@common Slug);

/// `text` in Unicode normalisation form NFKC: compatibility spellings such as full-width digits become the ordinary ones.
#[must_use]
pub fn fold(text: &str) -> String {
    text.nfkc().collect()
}

/// `text` as one line that is safe to print on a terminal: a line feed is shown as `\n`, and every other character that
/// cannot be seen (ESC and the other controls, text direction, zero width, line separators …) as `\u{hex}`.
#[must_use]
pub fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' {
            out.push_str("\\n");
        } else if unseen(c).is_some() {
            spell_char(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}
