//! A reply laid out for searching: its characters as they are and in lower case, place by place. It never changes the reply.

use crate::text::is_unspaced;

/// The characters of a reply; the n-th of `lower` is the lower case of the n-th of `chars`.
pub(super) struct Body {
    pub(super) chars: Vec<char>,
    pub(super) lower: Vec<char>,
}

impl Body {
    pub(super) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let lower = chars.iter().copied().map(lower).collect();
        Self { chars, lower }
    }

    /// The character at `place` as it was written.
    pub(super) fn at(&self, place: usize) -> Option<char> {
        self.chars.get(place).copied()
    }

    /// The character just before `place`.
    pub(super) fn before(&self, place: usize) -> Option<char> {
        place.checked_sub(1).and_then(|place| self.at(place))
    }

    /// The characters of `from..to` as they were written; empty when the range is not inside.
    pub(super) fn slice(&self, from: usize, to: usize) -> &[char] {
        self.chars.get(from..to).unwrap_or_default()
    }

    /// The end of the run of characters from `from` on that `belongs` accepts.
    pub(super) fn run(&self, from: usize, belongs: impl Fn(char) -> bool) -> usize {
        let length = self
            .chars
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|c| belongs(**c))
            .count();
        from.saturating_add(length)
    }

    /// Whether the text at `place` is exactly `word`, in this case.
    pub(super) fn has(&self, place: usize, word: &str) -> bool {
        let mut rest = self.chars.get(place..).unwrap_or_default().iter();
        word.chars().all(|c| rest.next() == Some(&c))
    }

    /// Where `phrase` (in lower case, single blanks between words) ends when it starts at `place`, in any case; a blank in it stands for any run of blanks.
    pub(super) fn phrase_end(&self, place: usize, phrase: &[char]) -> Option<usize> {
        let mut at = place;
        for wanted in phrase {
            let found = *self.lower.get(at)?;
            if *wanted == ' ' && found.is_whitespace() {
                at = self.run(at, char::is_whitespace);
            } else if *wanted == found {
                at = at.saturating_add(1);
            } else {
                return None;
            }
        }
        Some(at)
    }

    /// The first place where `phrase` stands as whole words.
    pub(super) fn find_phrase(&self, phrase: &[char]) -> Option<usize> {
        let (first, last) = (*phrase.first()?, *phrase.last()?);
        let places = self
            .lower
            .iter()
            .enumerate()
            .filter(|(_, c)| **c == first)
            .map(|(place, _)| place);
        places.into_iter().find(|place| {
            let whole_before = !self.before(*place).is_some_and(|c| joined(c, first));
            whole_before
                && self
                    .phrase_end(*place, phrase)
                    .is_some_and(|end| !self.at(end).is_some_and(|c| joined(last, c)))
        })
    }
}

/// Lower case as one character. The final sigma counts as sigma, and the dotted capital I of Turkish as i.
pub(super) fn lower(c: char) -> char {
    match c {
        'A'..='Z' => c.to_ascii_lowercase(),
        'ς' => 'σ',
        'İ' => 'i',
        other if other.is_ascii() => other,
        other => other.to_lowercase().next().unwrap_or(other),
    }
}

/// Whether two neighbours belong to one word. A letter and a digit do not, so that `ssh2` still holds the word `ssh`;
/// nor do characters of scripts that set no blanks between words.
pub(super) fn joined(a: char, b: char) -> bool {
    let letter = |c: char| c.is_alphabetic() && !is_unspaced(c);
    (letter(a) && letter(b)) || (a.is_numeric() && b.is_numeric())
}
