//! The work documents as text: their lines read into records and rendered back. Never loses a byte: what is no record, or is one in another spelling, is kept as it stands.

use serde::{Deserialize, Serialize};

/// Between a done item's text and its reference; the last one counts.
const BEFORE_REF: &str = " — ";
/// Between a done item's reference and its date; the last one counts.
const BEFORE_DATE: &str = " · ";

/// Which of the documents.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What is to be done: `docs/QUEUE.md`, or `docs/BACKLOG.md` where there is none.
    Queue,
    /// What was done: `docs/DONE.md`.
    Done,
    /// Who is on what: `docs/WORKSTREAMS.md`.
    Board,
}

/// One record of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// An item of the queue. Its text is its own line; lines below it that go on are kept in the document and stand in no record.
    Queue {
        /// `P0`, `P1` and so on, from the heading above.
        priority: Option<String>,
        /// What is to be done.
        text: String,
        /// Whether it is ticked.
        done: bool,
    },
    /// A done item.
    Done {
        /// What was done.
        text: String,
        /// A commit, a pull request or whatever else tells where.
        #[serde(rename = "ref")]
        reference: Option<String>,
        /// When, as it is written.
        date: Option<String>,
    },
    /// A row of the board.
    Board {
        /// The heading above its table.
        section: Option<String>,
        /// Its cells by the table's columns, in their order.
        cells: Vec<(String, String)>,
    },
}

impl Record {
    /// Which document it belongs to.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Queue { .. } => Kind::Queue,
            Self::Done { .. } => Kind::Done,
            Self::Board { .. } => Kind::Board,
        }
    }

    /// Its line as a conforming document has it.
    pub fn line(&self) -> String {
        match self {
            Self::Queue { text, done, .. } => format!("- [{}] {text}", if *done { 'x' } else { ' ' }),
            Self::Done {
                text,
                reference,
                date,
            } => {
                let mut line = format!("- {text}");
                for (before, part) in [(BEFORE_REF, reference), (BEFORE_DATE, date)] {
                    if let Some(part) = part {
                        line.push_str(before);
                        line.push_str(part);
                    }
                }
                line
            }
            Self::Board { cells, .. } => {
                let cells = cells.iter().map(|(_, cell)| cell.replace('|', "\\|"));
                format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
            }
        }
    }
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    /// A line that is a record.
    Record {
        record: Record,
        /// The line itself, where it is not the one that the record renders to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// Lines that are no record.
    Other(String),
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    kind: Kind,
    parts: Vec<Part>,
}

impl Document {
    /// Reads a document. Every text is one: what it does not understand it keeps.
    pub fn parse(kind: Kind, text: &str) -> Self {
        let mut reader = Reader::new(kind);
        let mut parts: Vec<Part> = Vec::new();
        for line in text.split('\n') {
            match reader.read(line) {
                Some(record) => {
                    let raw = (record.line() != line).then(|| line.to_owned());
                    parts.push(Part::Record { record, raw });
                }
                None => {
                    if let Some(Part::Other(lines)) = parts.last_mut() {
                        lines.push('\n');
                        lines.push_str(line);
                    } else {
                        parts.push(Part::Other(line.to_owned()));
                    }
                }
            }
        }
        Self { kind, parts }
    }

    /// The document's text.
    pub fn render(&self) -> String {
        let lines = self.parts.iter().map(|part| match part {
            Part::Record { raw: Some(raw), .. } => raw.clone(),
            Part::Record { record, raw: None } => record.line(),
            Part::Other(lines) => lines.clone(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Its records, in their order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.parts.iter().filter_map(|part| match part {
            Part::Record { record, .. } => Some(record),
            Part::Other(_) => None,
        })
    }

    /// Which document it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// What is known of the lines above.
struct Reader {
    kind: Kind,
    /// The mark that ends the block of code the line stands in.
    code: Option<String>,
    priority: Option<(usize, String)>,
    section: Option<String>,
    table: Table,
}

/// Where in a table the next line stands.
enum Table {
    Outside,
    /// Below a row that may be a head.
    BelowHead(Vec<String>),
    Inside(Vec<String>),
}

impl Reader {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            code: None,
            priority: None,
            section: None,
            table: Table::Outside,
        }
    }

    fn read(&mut self, line: &str) -> Option<Record> {
        let line = line.trim_end();
        if self.in_code(line) {
            self.table = Table::Outside;
            return None;
        }
        if let Some((level, title)) = heading(line) {
            self.below(level, title);
            return None;
        }
        match self.kind {
            Kind::Queue => self.queue(line),
            Kind::Done => done(line),
            Kind::Board => self.row(line),
        }
    }

    /// Whether a line belongs to a block of code, its first and last line included.
    fn in_code(&mut self, line: &str) -> bool {
        let start = line.trim_start();
        let mark = ['`', '~'].into_iter().find_map(|mark| {
            let length = start.len() - start.trim_start_matches(mark).len();
            (length >= 3).then(|| start.get(..length).unwrap_or_default().to_owned())
        });
        match (&self.code, mark) {
            (None, None) => false,
            (None, Some(mark)) => {
                self.code = Some(mark);
                true
            }
            (Some(open), mark) => {
                // Only the mark itself, at least as long and with nothing behind it, ends the block.
                if mark.is_some_and(|mark| mark.starts_with(open.as_str()) && start == mark) {
                    self.code = None;
                }
                true
            }
        }
    }

    fn below(&mut self, level: usize, title: &str) {
        self.table = Table::Outside;
        self.section = Some(title.to_owned());
        match priority(title) {
            Some(priority) => self.priority = Some((level, priority)),
            // A heading below keeps the priority of the one above it.
            None if self.priority.as_ref().is_some_and(|(above, _)| *above >= level) => self.priority = None,
            None => {}
        }
    }

    fn queue(&self, line: &str) -> Option<Record> {
        let (done, text) = ticked(bullet(line)?)?;
        Some(Record::Queue {
            priority: self.priority.as_ref().map(|(_, priority)| priority.clone()),
            text: text.to_owned(),
            done,
        })
    }

    fn row(&mut self, line: &str) -> Option<Record> {
        let Some(row) = cells(line) else {
            self.table = Table::Outside;
            return None;
        };
        match std::mem::replace(&mut self.table, Table::Outside) {
            Table::Outside => self.table = Table::BelowHead(row),
            Table::BelowHead(head) => {
                let rule = |cell: &String| {
                    let dashes = cell.trim_matches(':');
                    !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
                };
                self.table = if row.len() == head.len() && row.iter().all(rule) {
                    Table::Inside(head)
                } else {
                    Table::BelowHead(row)
                };
            }
            Table::Inside(head) => {
                let names = head.iter().cloned().chain(std::iter::repeat(String::new()));
                let record = Record::Board {
                    section: self.section.clone(),
                    cells: names.zip(row).collect(),
                };
                self.table = Table::Inside(head);
                return Some(record);
            }
        }
        None
    }
}

/// `## Title`: how deep, and the title.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    if !(1..=6).contains(&level) || !title.starts_with([' ', '\t']) {
        return None;
    }
    Some((level, title.trim()))
}

/// `P0`, `p1:`, `[P2]`: the priority that a heading begins with.
fn priority(title: &str) -> Option<String> {
    let word = title
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .find(|word| !word.is_empty())?;
    let digits = word.strip_prefix(['P', 'p'])?;
    (!digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| format!("P{digits}"))
}

/// What stands behind a list mark.
fn bullet(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .map(str::trim_start)
}

/// What stands behind a box, and whether it is ticked.
fn ticked(item: &str) -> Option<(bool, &str)> {
    let (done, text) = match item.strip_prefix("[ ] ") {
        Some(text) => (false, text),
        None => (
            true,
            item.strip_prefix("[x] ").or_else(|| item.strip_prefix("[X] "))?,
        ),
    };
    let text = text.trim();
    (!text.is_empty()).then_some((done, text))
}

fn done(line: &str) -> Option<Record> {
    let listed = bullet(line);
    let item = listed.unwrap_or_else(|| line.trim_start());
    let item = ticked(item).map_or(item, |(_, text)| text).trim();
    let (text, reference, date) = split(item);
    // Without a mark only a line that has everything is an item, and not a sentence.
    if text.is_empty()
        || (listed.is_none() && (reference.is_none() || date.is_none_or(|date| !is_date(date))))
    {
        return None;
    }
    let owned = |part: &str| part.to_owned();
    Some(Record::Done {
        text: owned(text),
        reference: reference.map(owned),
        date: date.map(owned),
    })
}

/// Splits `text — ref · date`.
fn split(item: &str) -> (&str, Option<&str>, Option<&str>) {
    let filled = |part: &str| !part.trim().is_empty();
    match item.rsplit_once(BEFORE_REF).filter(|(_, rest)| filled(rest)) {
        Some((text, rest)) => match rest.rsplit_once(BEFORE_DATE) {
            Some((reference, date)) if filled(reference) && filled(date) => {
                (text, Some(reference), Some(date))
            }
            _ => (text, Some(rest), None),
        },
        // Without a reference the text itself may hold the dot.
        None => match item.rsplit_once(BEFORE_DATE).filter(|(_, date)| is_date(date)) {
            Some((text, date)) => (text, None, Some(date)),
            None => (item, None, None),
        },
    }
}

/// Whether a text begins as dates do: with a year, a month and a day.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut digits = |count: usize| {
        parts.next().is_some_and(|part| {
            part.len() >= count && part.bytes().take(count).all(|byte| byte.is_ascii_digit())
        })
    };
    digits(4) && digits(2) && digits(2)
}

/// The cells of a table's row, without the space around them.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.trim().strip_prefix('|')?;
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut escaped = false;
    for letter in inside.chars() {
        match (escaped, letter) {
            (true, '|') => {
                cell.push('|');
                escaped = false;
            }
            (true, other) => {
                cell.push('\\');
                escaped = other == '\\';
                if !escaped {
                    cell.push(other);
                }
            }
            (false, '\\') => escaped = true,
            (false, '|') => row.push(std::mem::take(&mut cell).trim().to_owned()),
            (false, other) => cell.push(other),
        }
    }
    if escaped {
        cell.push('\\');
    }
    // What stands behind the last bar is a cell of its own where the row is not closed.
    if !cell.trim().is_empty() {
        row.push(cell.trim().to_owned());
    }
    (!row.is_empty()).then_some(row)
}
