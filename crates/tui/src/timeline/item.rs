//! One thing in a window, and the rows it takes there. Never knows what stands above or below it.

use crate::person::Numbered;
use crate::post::{Post, SET_OFF};
use crate::text::{Watch, width, wrap};

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    /// A name, by one of a few colours that it keeps.
    Name(u8),
    Mine,
    Mention,
    Tag,
    Answer,
    Problem,
    Rule,
}

/// A row of the screen.
pub(crate) type Row = Vec<(Tone, String)>;

pub(super) enum What {
    /// A message of the source.
    Post(Box<Numbered>),
    /// A message of another source, with its tag.
    Other(Option<String>, Box<Post>),
    /// Lines of an answer.
    Lines(Tone, Vec<String>),
    /// Where the unread messages begin.
    Unread,
}

/// Something that is shown, and its rows as they were drawn last.
pub(super) struct Item {
    pub(super) what: What,
    pub(super) rows: Option<Vec<Row>>,
    /// About how many bytes it takes.
    pub(super) weight: usize,
}

impl Item {
    pub(super) fn new(what: What) -> Self {
        let weight = match &what {
            // The text stands in the entry and in the lines.
            What::Post(found) => 2 * found.post.weight(),
            What::Other(_, post) => post.weight(),
            What::Lines(_, lines) => lines.iter().map(|line| line.len() + 48).sum(),
            What::Unread => 48,
        };
        Self {
            what,
            rows: None,
            weight,
        }
    }

    pub(super) fn of(found: Numbered) -> Self {
        Self::new(What::Post(Box::new(found)))
    }

    pub(super) fn numbered(&self) -> Option<&Numbered> {
        match &self.what {
            What::Post(found) => Some(found),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.numbered().map(|found| found.number)
    }
}

impl What {
    pub(super) fn rows(&self, columns: usize, now: i64, watch: &Watch) -> Vec<Row> {
        match self {
            Self::Post(found) => post_rows(&found.post, None, columns, now, watch),
            Self::Other(tag, post) => post_rows(post, tag.as_deref(), columns, now, watch),
            Self::Lines(tone, lines) => lines
                .iter()
                .flat_map(|line| wrap(line, columns.saturating_sub(2), columns.saturating_sub(4)))
                .map(|row| vec![(*tone, format!("  {row}"))])
                .collect(),
            Self::Unread => {
                let label = " new ";
                let side = columns.saturating_sub(label.len()) / 2;
                vec![vec![(
                    Tone::Rule,
                    format!("{0}{label}{0}", "─".repeat(side.min(200))),
                )]]
            }
        }
    }
}

fn post_rows(post: &Post, tag: Option<&str>, columns: usize, now: i64, watch: &Watch) -> Vec<Row> {
    if post.muted {
        return Vec::new();
    }
    let name = if post.system {
        Tone::Dim
    } else if post.mine {
        Tone::Mine
    } else {
        Tone::Name(
            post.from
                .bytes()
                .fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)),
        )
    };
    let said = match post {
        _ if post.mention => Tone::Mention,
        _ if post.system || (tag.is_some() && !post.mention) => Tone::Dim,
        _ => Tone::Plain,
    };
    let mut head: Row = vec![(Tone::Dim, format!("{} ", watch.at(post.ts, now)))];
    if post.mention {
        head.push((Tone::Mention, "! ".to_owned()));
    }
    if let Some(tag) = tag {
        head.push((Tone::Tag, format!("{tag} ")));
    }
    head.push((name, format!("{} ", post.who())));
    let taken: usize = head.iter().map(|(_, text)| width(text)).sum();
    let rest = columns.saturating_sub(SET_OFF.len());
    let mut rows = Vec::new();
    for (number, line) in post.body.iter().enumerate() {
        let (first, set_off) = match number {
            0 if taken + 8 <= columns => (columns - taken, std::mem::take(&mut head)),
            0 => {
                rows.push(std::mem::take(&mut head));
                (rest, vec![(Tone::Dim, SET_OFF.to_owned())])
            }
            _ => (rest, vec![(Tone::Dim, SET_OFF.to_owned())]),
        };
        let mut row = set_off;
        for text in wrap(line, first, rest) {
            row.push((said, text));
            rows.push(std::mem::replace(
                &mut row,
                // Broken by the screen, not by the writer.
                vec![(Tone::Plain, " ".repeat(SET_OFF.len()))],
            ));
        }
    }
    rows
}
