//! The line that a person types: text, cursor, history. Never holds more than a message may.

use muster_bus::limits::MAX_TEXT;
use unicode_segmentation::UnicodeSegmentation as _;

/// Typed lines that are remembered.
const REMEMBERED: usize = 500;

/// Text that is being typed.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    text: String,
    /// Where the next character goes, in bytes; always between two characters as a person counts them, or where one was typed.
    at: usize,
    history: Vec<String>,
    /// Which line of the history is shown, and what was being typed before.
    place: Option<(usize, String)>,
    killed: String,
}

impl Editor {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn before(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Puts a text in at the cursor.
    ///
    /// # Errors
    /// A sentence, when the whole would be longer than a message may be; nothing is put in then.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), String> {
        let bytes = self.text.len() + text.len();
        if bytes > MAX_TEXT {
            return Err(format!(
                "with that the text would be {bytes} bytes long, and a message holds at most {MAX_TEXT}; what you typed before is still there, what was added is not. Put a long text into a file and send its path"
            ));
        }
        self.text.insert_str(self.at, text);
        self.at += text.len();
        Ok(())
    }

    /// Puts pasted text in. Line breaks of every system become the one that messages have.
    ///
    /// # Errors
    /// As [`Editor::insert`].
    pub(crate) fn paste(&mut self, text: &str) -> Result<(), String> {
        self.insert(&text.replace("\r\n", "\n").replace('\r', "\n"))
    }

    /// Replaces the text between `from` and the cursor.
    pub(crate) fn replace_from(&mut self, from: usize, text: &str) {
        if from <= self.at && self.text.is_char_boundary(from) {
            let after = self.after().to_owned();
            self.text.truncate(from);
            self.text.push_str(text);
            self.at = self.text.len();
            self.text.push_str(&after);
        }
    }

    fn cut(&mut self, from: usize, to: usize) -> String {
        if from >= to || !self.text.is_char_boundary(from) || !self.text.is_char_boundary(to) {
            return String::new();
        }
        let cut = self.text.drain(from..to).collect();
        self.at = from;
        cut
    }

    fn previous(&self) -> usize {
        self.before()
            .grapheme_indices(true)
            .next_back()
            .map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        self.at + self.after().graphemes(true).next().map_or(0, str::len)
    }

    fn word_start(&self) -> usize {
        let before = self.before();
        let word = before.trim_end();
        word.char_indices()
            .rev()
            .find(|(_, c)| c.is_whitespace())
            .map_or(0, |(at, c)| at + c.len_utf8())
    }

    fn word_end(&self) -> usize {
        let after = self.after();
        let word = after.trim_start();
        let blank = after.len() - word.len();
        self.at + blank + word.find(char::is_whitespace).unwrap_or(word.len())
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.at + self.after().find('\n').unwrap_or(self.after().len())
    }

    pub(crate) fn backspace(&mut self) {
        self.cut(self.previous(), self.at);
    }

    pub(crate) fn delete(&mut self) {
        self.cut(self.at, self.next());
    }

    pub(crate) fn left(&mut self) {
        self.at = self.previous();
    }

    pub(crate) fn right(&mut self) {
        self.at = self.next();
    }

    pub(crate) fn word_left(&mut self) {
        self.at = self.word_start();
    }

    pub(crate) fn word_right(&mut self) {
        self.at = self.word_end();
    }

    pub(crate) fn home(&mut self) {
        self.at = self.line_start();
    }

    pub(crate) fn end(&mut self) {
        self.at = self.line_end();
    }

    pub(crate) fn kill_word(&mut self) {
        let cut = self.cut(self.word_start(), self.at);
        self.keep(cut);
    }

    pub(crate) fn kill_to_start(&mut self) {
        let cut = self.cut(self.line_start(), self.at);
        self.keep(cut);
    }

    pub(crate) fn kill_to_end(&mut self) {
        let cut = self.cut(self.at, self.line_end());
        self.keep(cut);
    }

    fn keep(&mut self, cut: String) {
        if !cut.is_empty() {
            self.killed = cut;
        }
    }

    /// Puts back what was taken out last.
    ///
    /// # Errors
    /// As [`Editor::insert`].
    pub(crate) fn yank(&mut self) -> Result<(), String> {
        let killed = self.killed.clone();
        self.insert(&killed)
    }

    /// One line up; from the first one, to the line typed before.
    pub(crate) fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.before().get(start..).map_or(0, |line| line.chars().count());
            self.at = start - 1;
            self.column(column);
            return;
        }
        let place = self
            .place
            .as_ref()
            .map_or(self.history.len(), |(place, _)| *place);
        let Some(earlier) = place.checked_sub(1) else {
            return;
        };
        self.show(earlier);
    }

    /// One line down; from the last one, to the line typed after.
    pub(crate) fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let start = self.line_start();
            let column = self.before().get(start..).map_or(0, |line| line.chars().count());
            self.at = end + 1;
            self.column(column);
            return;
        }
        if let Some((place, _)) = self.place {
            self.show(place + 1);
        }
    }

    /// Goes to a column of the line that the cursor is in.
    fn column(&mut self, column: usize) {
        let start = self.line_start();
        let line = self.text.get(start..self.line_end()).unwrap_or_default();
        self.at = start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    }

    fn show(&mut self, place: usize) {
        let draft = match self.place.take() {
            Some((_, draft)) => draft,
            None => self.text.clone(),
        };
        match self.history.get(place) {
            Some(line) => {
                self.text.clone_from(line);
                self.place = Some((place, draft));
            }
            None => self.text = draft,
        }
        self.at = self.text.len();
    }

    /// Takes what was typed and remembers it.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.at = 0;
        self.place = None;
        if !text.trim().is_empty() && self.history.last() != Some(&text) {
            self.history.push(text.clone());
            if self.history.len() > REMEMBERED {
                self.history.remove(0);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text).unwrap();
        editor
    }

    #[test]
    fn a_paste_keeps_its_line_breaks_and_one_over_the_limit_changes_nothing() {
        let mut editor = typed("see: ");
        let long = "a line of a log\r\n".repeat(10_000);
        editor.paste(&long).unwrap();
        assert_eq!(editor.text().matches('\n').count(), 10_000);
        assert!(!editor.text().contains('\r'));
        let before = editor.text().to_owned();
        let said = editor.paste(&"x".repeat(MAX_TEXT)).unwrap_err();
        assert!(said.contains("still there"));
        assert_eq!(editor.text(), before);
    }

    #[test]
    fn the_history_goes_back_and_returns_to_what_was_being_typed() {
        let mut editor = Editor::default();
        for line in ["one", "two\nlines", "two\nlines"] {
            editor.insert(line).unwrap();
            assert_eq!(editor.take(), line);
        }
        editor.insert("draft").unwrap();
        editor.up();
        assert_eq!(editor.text(), "two\nlines");
        // Up in a text of several lines goes through them first.
        editor.up();
        assert_eq!(editor.text(), "two\nlines");
        editor.up();
        assert_eq!(editor.text(), "one");
        editor.up();
        assert_eq!(editor.text(), "one");
        editor.down();
        assert_eq!(editor.text(), "two\nlines");
        editor.down();
        assert_eq!(editor.text(), "draft");
        editor.down();
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn a_character_of_several_code_points_is_one() {
        let mut editor = typed("ae\u{301}👩\u{200d}🚀");
        editor.backspace();
        assert_eq!(editor.text(), "ae\u{301}");
        editor.left();
        editor.delete();
        assert_eq!(editor.text(), "a");
    }

    #[test]
    fn words_and_lines_are_taken_out_and_put_back() {
        let mut editor = typed("one two  three");
        editor.kill_word();
        assert_eq!(editor.text(), "one two  ");
        editor.kill_word();
        assert_eq!(editor.text(), "one ");
        editor.yank().unwrap();
        assert_eq!(editor.text(), "one two  ");
        editor.home();
        editor.kill_to_end();
        assert!(editor.is_empty());
    }

    proptest! {
        #[test]
        fn no_sequence_of_keys_breaks_the_text(start in "(?s:.{0,20})", keys in prop::collection::vec(0_u8..18, 0..60)) {
            let mut editor = typed(&start);
            for key in keys {
                match key {
                    0 => editor.backspace(),
                    1 => editor.delete(),
                    2 => editor.left(),
                    3 => editor.right(),
                    4 => editor.word_left(),
                    5 => editor.word_right(),
                    6 => editor.home(),
                    7 => editor.end(),
                    8 => editor.kill_word(),
                    9 => editor.kill_to_start(),
                    10 => editor.kill_to_end(),
                    11 => editor.yank().unwrap(),
                    12 => editor.up(),
                    13 => editor.down(),
                    14 => drop(editor.take()),
                    15 => editor.paste("a\r\nb").unwrap(),
                    16 => editor.replace_from(editor.at().saturating_sub(1), "ü"),
                    _ => editor.insert("日 ").unwrap(),
                }
                prop_assert!(editor.text().is_char_boundary(editor.at()));
                prop_assert!(editor.text().len() <= MAX_TEXT);
            }
        }
    }
}
