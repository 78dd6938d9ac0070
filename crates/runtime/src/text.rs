//! The words around a turn: what follows its text, the beginning of the reply that is kept, the end of a program's complaints. The last two are
//! outside text; this module bounds and cleans it and never interprets it.

use muster_core::text::terminal;

use crate::REPLY_LIMIT;

/// What stands behind a turn's text as a block of its own. Claude Code looks for `@path` and for commands in the last block of a message only,
/// so that it finds none in outside text. The fence has made that text inert already; this is the second wall.
pub(crate) const END_OF_TURN: &str = "(This turn's text ends here.)";

/// How much of a program's error output is kept for a reason, in bytes.
const COMPLAINT_LIMIT: usize = 2 * 1024;

/// The beginning of a reply; what does not fit is counted and dropped.
#[derive(Default)]
pub(crate) struct Reply {
    kept: Vec<u8>,
    dropped: bool,
}

impl Reply {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = REPLY_LIMIT.saturating_sub(self.kept.len());
        let (fits, rest) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(fits);
        self.dropped |= !rest.is_empty();
    }

    /// The reply as text: not UTF-8 and NUL become U+FFFD (no database of ours stores a NUL), blanks at the end go, a cut is told.
    pub(crate) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.kept).replace('\0', "\u{fffd}");
        // A replacement is longer than the byte it stands for, so the text can be over the limit although its bytes were not.
        if self.dropped || text.len() > REPLY_LIMIT {
            text.truncate(text.floor_char_boundary(REPLY_LIMIT));
            if self.dropped && text.ends_with('\u{fffd}') {
                // Half of a character that was cut in two.
                text.pop();
            }
            text.push_str(&format!(
                "\n[The reply was longer; muster kept its first {} KiB.]",
                REPLY_LIMIT / 1024
            ));
        } else {
            text.truncate(text.trim_end().len());
        }
        text
    }
}

/// The end of what a program wrote to standard error.
#[derive(Default)]
pub(crate) struct Complaint(Vec<u8>);

impl Complaint {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(bytes.split_at(bytes.len().saturating_sub(COMPLAINT_LIMIT)).1);
        let excess = self.0.len().saturating_sub(COMPLAINT_LIMIT);
        self.0.drain(..excess);
    }

    /// `sentence` without its full stop, a colon, and the complaint; or the sentence alone when there is none.
    pub(crate) fn after(&self, sentence: &str) -> String {
        told(sentence, &self.text())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// `sentence` followed by what a program said about it: one line, control characters spelled out, its last 2 KiB at most.
pub(crate) fn told(sentence: &str, outside: &str) -> String {
    let clean = terminal(outside.trim());
    let mut tail = clean.as_str();
    while tail.len() > COMPLAINT_LIMIT {
        let mut chars = tail.chars();
        chars.next();
        tail = chars.as_str();
    }
    if tail.is_empty() {
        sentence.to_owned()
    } else {
        format!("{}: {tail}", sentence.trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_within_the_limit_is_kept_whole() {
        let mut reply = Reply::default();
        reply.push("Grüße\n".as_bytes());
        reply.push(b"second\0line\xff \n\n");
        assert_eq!(reply.into_text(), "Grüße\nsecond\u{fffd}line\u{fffd}");
    }

    #[test]
    fn a_longer_reply_is_cut_between_characters_and_says_so() {
        for lead in 0..4 {
            let mut reply = Reply::default();
            reply.push(&b"aaaa"[..lead]);
            for _ in 0..70_000 {
                reply.push("😀".as_bytes());
            }
            let text = reply.into_text();
            let (kept, note) = text.split_once('\n').unwrap();
            assert!(
                kept.len() <= REPLY_LIMIT && kept.len() > REPLY_LIMIT - 4,
                "{}",
                kept.len()
            );
            assert!(kept.trim_start_matches('a').chars().all(|c| c == '😀'));
            assert_eq!(note, "[The reply was longer; muster kept its first 256 KiB.]");
        }
    }

    #[test]
    fn bytes_that_are_not_text_do_not_grow_a_reply_past_the_limit() {
        for (byte, count) in [(0xff, REPLY_LIMIT * 2), (0, REPLY_LIMIT), (0xff, REPLY_LIMIT / 2)] {
            let mut reply = Reply::default();
            reply.push(&vec![byte; count]);
            let text = reply.into_text();
            let (kept, note) = text.split_once('\n').unwrap();
            assert!(
                kept.len() <= REPLY_LIMIT && kept.len() > REPLY_LIMIT - 8,
                "{}",
                kept.len()
            );
            assert!(note.starts_with("[The reply was longer"));
        }
    }

    #[test]
    fn a_complaint_keeps_its_end_on_one_line_without_control_characters() {
        let mut complaint = Complaint::default();
        complaint.push(&[b'x'; 5000]);
        complaint.push("\u{1b}[31mred\u{7}\nover\u{202e}\n".as_bytes());
        let reason = complaint.after("It ended.");
        assert!(reason.starts_with("It ended: x"), "{reason}");
        assert!(
            reason.ends_with("xx\\u{1b}[31mred\\u{7}\\nover\\u{202e}"),
            "{reason}"
        );
        assert!(reason.len() <= COMPLAINT_LIMIT + 20);
    }

    #[test]
    fn spelling_out_does_not_grow_a_complaint_past_its_limit() {
        let mut complaint = Complaint::default();
        complaint.push(&[7; 4000]);
        assert!(complaint.after("It ended.").len() <= COMPLAINT_LIMIT + 20);
    }

    #[test]
    fn no_complaint_leaves_the_sentence_alone() {
        assert_eq!(Complaint::default().after("It ended."), "It ended.");
        assert_eq!(told("It ended.", " \n "), "It ended.");
    }
}
