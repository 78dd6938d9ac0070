//! The text that is pushed: one block for everything that is due, in which nothing of a peer's acts. Never decides what is due.

/// A text in which nothing acts: no control character but the line break and the tab, no mark that a program expands or runs, and a first line that is muster's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inert(String);

impl Inert {
    /// `text` without control characters but the line break and the tab.
    pub fn of(text: &str) -> Self {
        Self(
            text.chars()
                .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'))
                .collect(),
        )
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
