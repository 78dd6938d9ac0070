//! Outside text as a terminal may show it: spelled out, broken into rows, told apart by indentation. Never lets through a character that a terminal acts on, nor a line that looks like another sender's.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_bus::limits::MAX_TEXT;
use muster_core::text::{spell_char, terminal};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Marks on one letter that are drawn; what is stacked on top of them would cover the lines above.
const MARKS: usize = 4;
/// A tab, as blanks.
const TAB: &str = "    ";

/// One line of outside text.
pub(crate) fn line(text: &str) -> String {
    let safe = terminal(text);
    if safe.is_ascii() {
        return safe;
    }
    let mut out = String::with_capacity(safe.len());
    let mut marks = 0;
    for c in safe.chars() {
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
        if marks > MARKS {
            spell_char(&mut out, c);
        } else {
            out.push(c);
        }
    }
    out
}

/// Outside text line by line, as its writer broke it.
pub(crate) fn lines(text: &str) -> Vec<String> {
    text.trim_end_matches(['\n', '\r'])
        .split('\n')
        .map(|part| line(&part.strip_suffix('\r').unwrap_or(part).replace('\t', TAB)))
        .collect()
}

/// Longest name or short text, in characters, that is shown.
const SHORT: usize = 200;
/// Most lines of one text that are shown.
const LINES: usize = 20_000;

/// A name, a topic or a role of anybody's, on one line that is not longer than a few rows.
pub(crate) fn short(text: &str) -> String {
    let mut chars = text.char_indices().skip(SHORT);
    match chars.next().and_then(|(at, _)| text.get(..at)) {
        Some(head) => line(head) + "…",
        None => line(text),
    }
}

/// The lines of a text as far as a message may be long; what other programs wrote beyond that is told of and not shown.
pub(crate) fn bounded(text: &str) -> Vec<String> {
    let head = text.floor_char_boundary(MAX_TEXT.min(text.len()));
    let shown = text.get(..head).unwrap_or_default();
    let mut out = lines(shown);
    if out.len() > LINES || head < text.len() {
        out.truncate(LINES);
        out.push(format!("… ({} bytes; the rest is not shown)", text.len()));
    }
    out
}

/// How many columns a safe text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of a safe text that fits into `room` columns, with an ellipsis where it was longer.
pub(crate) fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for cluster in text.graphemes(true) {
        let wide = width(cluster);
        if used + wide + 1 > room {
            break;
        }
        used += wide;
        out.push_str(cluster);
    }
    if room > 0 {
        out.push('…');
    }
    out
}

/// Breaks a safe line into rows: the first of at most `first` columns, the others of at most `rest`; at a blank where there is one.
pub(crate) fn wrap(text: &str, first: usize, rest: usize) -> Vec<String> {
    let (first, rest) = (first.max(1), rest.max(1));
    if text.is_ascii() {
        wrap_ascii(text, first, rest)
    } else {
        wrap_any(text, first, rest)
    }
}

/// A safe line as the rows of a terminal with so many columns. All but the first are set off: what begins at the left edge is always a line of its
/// own. The last column stays free, because in it terminals differ.
pub(crate) fn folded(line: &str, columns: usize) -> Vec<String> {
    const SET_OFF: &str = "    ";
    let room = columns.saturating_sub(1).max(2 * SET_OFF.len());
    let mut rows = wrap(line, room, room - SET_OFF.len());
    for row in rows.iter_mut().skip(1) {
        row.insert_str(0, SET_OFF);
    }
    rows
}

/// The same where each byte is a column, which is nearly all there is, and long logs above all.
fn wrap_ascii(text: &str, first: usize, rest: usize) -> Vec<String> {
    let (mut rows, mut left, mut room) = (Vec::new(), text, first);
    while let Some((row, over)) = left.split_at_checked(room).filter(|(_, over)| !over.is_empty()) {
        let (row, next) = match (over.strip_prefix(' '), row.rfind(' ')) {
            (Some(next), _) => (row, next),
            (None, Some(blank)) if row.len() - blank <= rest => left.split_at(blank + 1),
            _ => (row, over),
        };
        rows.push(row.to_owned());
        (left, room) = (next, rest);
    }
    rows.push(left.to_owned());
    rows
}

fn wrap_any(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used, mut room) = (String::new(), 0, first);
    // Where the row may be broken: behind its last blank.
    let mut blank = 0;
    for cluster in text.graphemes(true) {
        let wide = width(cluster);
        if used + wide > room && !row.is_empty() {
            let word = row.get(blank..).unwrap_or_default();
            // A word that does not fit into the next row either is broken where it is.
            let over = if blank > 0 && cluster != " " && width(word) + wide <= rest {
                row.split_off(blank)
            } else {
                String::new()
            };
            rows.push(std::mem::replace(&mut row, over));
            room = rest;
            used = width(&row);
            blank = 0;
            if cluster == " " && row.is_empty() {
                continue;
            }
        }
        row.push_str(cluster);
        used += wide;
        if cluster == " " {
            blank = row.len();
        }
    }
    rows.push(row);
    rows
}

/// Whether a text speaks to somebody: their id stands in it as a word, whatever its case.
pub(crate) fn mentions(text: &str, id: &str) -> bool {
    if id.is_empty() || text.len() < id.len() {
        return false;
    }
    let (text, id) = (text.to_ascii_lowercase(), id.to_ascii_lowercase());
    let of_id = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(&id).any(|(at, found)| {
        let before = text.get(..at).and_then(|head| head.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(|c| of_id(c) || c == '.' || c == '/') && !after.is_some_and(of_id)
    })
}

/// Reads moments as a person's watch shows them.
#[derive(Debug, Clone)]
pub(crate) struct Watch(TimeZone);

impl Watch {
    /// In the zone of this machine, which `TZ` may set.
    pub(crate) fn system() -> Self {
        Self(TimeZone::system())
    }

    /// In UTC.
    #[cfg(test)]
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The time of the day, in milliseconds since 1970, with the date when that day is not the day of `now`.
    pub(crate) fn at(&self, ts: i64, now: i64) -> String {
        let zoned = |ms| {
            Timestamp::from_millisecond(ms)
                .ok()
                .map(|moment| moment.to_zoned_datetime(self.0.clone()))
        };
        match (zoned(ts), zoned(now)) {
            _ if ts == 0 => "--:--".to_owned(),
            (Some(then), Some(now)) if then.date() == now.date() => then.strftime("%H:%M").to_string(),
            (Some(then), _) => then.strftime("%Y-%m-%d %H:%M").to_string(),
            (None, _) => "--:--".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_spelled_out() {
        assert_eq!(line("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(lines("one\r\ntwo\tx\n\n"), ["one", "two    x"]);
        assert_eq!(lines(""), [""]);
    }

    #[test]
    fn marks_are_not_stacked_over_the_lines_above() {
        let stacked = format!("a{}b", "\u{301}".repeat(50));
        let shown = line(&stacked);
        assert_eq!(shown.matches('\u{301}').count(), MARKS);
        assert!(shown.ends_with("\\u{301}b"));
    }

    #[test]
    fn a_line_breaks_at_blanks_and_inside_words_that_are_too_long() {
        assert_eq!(wrap("one two three", 7, 7), ["one two", "three"]);
        assert_eq!(wrap("one twothree", 7, 9), ["one ", "twothree"]);
        assert_eq!(wrap("abcdefgh", 3, 4), ["abc", "defg", "h"]);
        assert_eq!(wrap("日本語", 4, 2), ["日本", "語"]);
        assert_eq!(wrap("", 4, 2), [""]);
    }

    #[test]
    fn a_folded_line_has_no_row_at_the_left_edge_but_its_first() {
        assert_eq!(folded("short", 80), ["short"]);
        assert_eq!(folded("one two three", 9), ["one two ", "    thre", "    e"]);
        // Letters that take two columns each must not make the terminal break a row by itself.
        let wide = folded(&"\u{65e5}".repeat(40), 21);
        assert!(
            wide.len() > 4 && wide.iter().all(|row| width(row) <= 20),
            "{wide:?}"
        );
        assert!(wide.iter().skip(1).all(|row| row.starts_with("    ")), "{wide:?}");
    }

    #[test]
    fn what_is_longer_than_the_bus_accepts_is_told_of_and_not_shown() {
        assert_eq!(short("ops"), "ops");
        assert_eq!(short(&"é".repeat(5_000)).chars().count(), SHORT + 1);
        let long = "é".repeat(MAX_TEXT);
        let shown = bounded(&long);
        assert_eq!(shown.len(), 2);
        assert!(shown[0].len() <= MAX_TEXT);
        assert_eq!(
            shown[1],
            format!("… ({} bytes; the rest is not shown)", long.len())
        );
        assert_eq!(bounded(&"\n".repeat(200_000)), [""]);
        let many = bounded(&"x\n".repeat(100_000));
        assert_eq!(many.len(), LINES + 1);
        assert_eq!(bounded("one\ntwo"), ["one", "two"]);
    }

    #[test]
    fn an_id_is_mentioned_as_a_word_only() {
        assert!(mentions("David: look", "david"));
        assert!(mentions("ask @david.", "david"));
        assert!(!mentions("davids", "david"));
        assert!(!mentions("home/david", "david"));
        assert!(!mentions("", "david"));
    }

    #[test]
    fn another_day_is_shown_with_its_date() {
        let watch = Watch::utc();
        assert_eq!(watch.at(3_600_000, 7_200_000), "01:00");
        assert_eq!(watch.at(3_600_000, 90_000_000), "1970-01-01 01:00");
        assert_eq!(watch.at(i64::MAX, 0), "--:--");
    }

    proptest! {
        #[test]
        fn no_text_leaves_anything_unseen_in_a_row(text in any::<String>(), first in 0_usize..20, rest in 0_usize..20) {
            for line in lines(&text) {
                for row in wrap(&line, first, rest) {
                    prop_assert!(row.chars().all(|c| muster_core::text::unseen(c).is_none()));
                }
            }
        }

        #[test]
        fn both_ways_to_wrap_break_at_the_same_places(text in "[a-z ]{0,80}", first in 1_usize..20, rest in 1_usize..20) {
            prop_assert_eq!(wrap_ascii(&text, first, rest), wrap_any(&text, first, rest));
        }

        #[test]
        fn a_wrapped_line_loses_nothing_but_blanks_at_its_breaks(text in "[a-z é日]{0,60}", room in 2_usize..12) {
            let rows = wrap(&text, room, room);
            let joined: String = rows.concat();
            let squeeze = |text: &str| text.replace(' ', "");
            prop_assert_eq!(squeeze(&joined), squeeze(&text));
            prop_assert!(rows.iter().all(|row| width(row) <= room));
        }
    }
}
