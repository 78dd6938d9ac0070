//! The deployment's own names (`MUSTER_FLOW_AGENT_DENY_WORDS`), which no outsider should be told. It never repeats one in a refusal.

use super::body::{Body, lower};
use super::{Found, RefusalKind};
use crate::text::fold;

const MAX_WORDS: usize = 500;
const MAX_CHARACTERS: usize = 100;

/// The names, ready to be compared: folded to NFKC, in lower case, blanks as single spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DenyWords(Vec<Vec<char>>);

/// Why the list was refused. It counts the words and does not repeat them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DenyWordsError {
    /// More words than the screen compares.
    #[error("the list has {0} words; at most 500 are allowed")]
    TooMany(usize),
    /// A word longer than a name can be.
    #[error("word {0} of the list is longer than 100 characters; separate the words by commas")]
    TooLong(usize),
    /// A word of punctuation alone, which would refuse ordinary text.
    #[error("word {0} of the list holds no letter or digit; leave it out")]
    NoLetter(usize),
}

impl DenyWords {
    /// Reads names separated by commas. Blanks around a name and empty names do not count.
    ///
    /// # Errors
    /// When there are more than 500 names, or one is longer than 100 characters or holds no letter or digit.
    pub fn parse(list: &str) -> Result<Self, DenyWordsError> {
        let folded = fold(list);
        let mut words = Vec::new();
        for text in folded.split(',') {
            let word: Vec<char> = text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .map(lower)
                .collect();
            if word.is_empty() {
                continue;
            }
            let number = words.len().saturating_add(1);
            if word.len() > MAX_CHARACTERS {
                return Err(DenyWordsError::TooLong(number));
            }
            if !word.iter().any(|c| c.is_alphanumeric()) {
                return Err(DenyWordsError::NoLetter(number));
            }
            words.push(word);
        }
        if words.len() > MAX_WORDS {
            return Err(DenyWordsError::TooMany(words.len()));
        }
        Ok(Self(words))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn find(&self, body: &Body) -> Found {
        let place = self.0.iter().filter_map(|word| body.find_phrase(word)).min()?;
        Some((place, RefusalKind::DeploymentName))
    }
}
