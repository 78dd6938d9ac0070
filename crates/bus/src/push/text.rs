//! The text that is pushed: one block for everything that is due, in which nothing of a peer's acts. Never decides what is due.
//!
//! The first line is the bus's own, and so is every line that begins with `[`. What others wrote stands behind `# `, each line of it, under the
//! tag of who wrote it: a line that looks like the bus's own is then visibly a quotation. It is no protection from a shell, some of which know
//! no comments at a prompt; that is the guard's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use muster_core::text::{Unseen, is_line_break, unseen};

/// Most bytes of a block. A reader's context is the scarce thing, and a paste of this size was seen to arrive whole.
pub const MAX_BLOCK: usize = 16 * 1024;

/// What the bus's own lines take besides the messages, at most: the first line, a banner, the line under a text that was cut.
const OWN: usize = 512;

/// A text without control characters but the line break and the tab. As a block it has besides a first line that is muster's own, and peers' words only
/// quoted, with the marks broken up that a program expands or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inert(String);

impl Inert {
    /// `text` without control characters but the line break and the tab. For hands that are tried without a queue; what is pushed to a seat
    /// is a block, in which peers are quoted besides.
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

/// A message as a block shows it. All of it is outside text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quoted<'m> {
    /// `inbox`, or a channel's name with `#`.
    pub(crate) source: &'m str,
    /// Who wrote it.
    pub(crate) from: &'m str,
    /// When, in milliseconds since 1970.
    pub(crate) ts: i64,
    /// What it says.
    pub(crate) text: &'m str,
    /// It belongs into the digest.
    pub(crate) routine: bool,
    /// It is only counted: newer ones of its channel are shown.
    pub(crate) untold: bool,
}

/// Messages that stand together: a digest, or what woke the reader.
#[derive(Default)]
struct Run {
    routine: bool,
    count: usize,
    /// How many messages of a channel are not shown, and a moment before the first of them.
    untold: BTreeMap<String, (usize, i64)>,
    text: String,
}

/// Puts as many of the messages into a block as it holds, at least one, in their order. Answers the block and how many are in it.
/// `older` says how many more there are of a source that its feed left out, and `archived` how many were cut away unread and how many of those
/// were urgent.
pub(crate) fn block(
    token: &str,
    messages: &[Quoted<'_>],
    older: &dyn Fn(&str) -> usize,
    archived: &dyn Fn(&str) -> (u64, u64),
) -> (Inert, usize) {
    let mut runs: Vec<Run> = Vec::new();
    let (mut bytes, mut taken) = (OWN, 0);
    let mut sources: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        let opens = runs.last().is_none_or(|run| run.routine != message.routine);
        let mut needs = if opens { OWN } else { 0 };
        let shown = if message.untold {
            needs += OWN;
            String::new()
        } else {
            let room = MAX_BLOCK.saturating_sub(OWN.saturating_mul(3));
            shown(message, if taken == 0 { room } else { MAX_BLOCK })
        };
        needs += shown.len();
        if !sources.contains(message.source) {
            let lines = usize::from(older(message.source) > 0) + usize::from(archived(message.source).0 > 0);
            needs += OWN.saturating_mul(lines);
        }
        if taken > 0 && bytes + needs > MAX_BLOCK {
            break;
        }
        if opens {
            runs.push(Run {
                routine: message.routine,
                ..Run::default()
            });
        }
        if let Some(run) = runs.last_mut() {
            bytes += run.take(message, &shown, needs);
        }
        sources.insert(message.source);
        taken += 1;
    }
    let mut out = String::new();
    let word = if taken == 1 { "message" } else { "messages" };
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "[agent-coord] {} {taken} {word} pushed to you, no need to fetch them.",
        plain(token)
    );
    for source in sources {
        match archived(source) {
            (0, _) => {}
            (count, urgent) => {
                let urgent = match urgent {
                    0 => String::new(),
                    urgent => format!(", {urgent} of them urgent,"),
                };
                let _ = writeln!(
                    out,
                    "[agent-coord] {count} of {}{urgent} went to the archive before you had read them; archive/ of the bus's directory has them.",
                    place(source)
                );
            }
        }
        match older(source) {
            0 => {}
            count => untold(&mut out, source, count, 0),
        }
    }
    for run in &runs {
        run.write(&mut out);
    }
    out.truncate(out.trim_end_matches('\n').len());
    (Inert(out), taken)
}

impl Run {
    /// Takes a message in and answers how many bytes of the block that is worth.
    fn take(&mut self, message: &Quoted<'_>, shown: &str, needs: usize) -> usize {
        self.count += 1;
        if !message.untold {
            self.text.push_str(shown);
            return needs;
        }
        let known = self.untold.contains_key(message.source);
        let (count, since) = self
            .untold
            .entry(message.source.to_owned())
            .or_insert((0, message.ts.saturating_sub(1)));
        *count += 1;
        *since = (*since).min(message.ts.saturating_sub(1));
        if known { 0 } else { needs }
    }

    fn write(&self, out: &mut String) {
        if self.routine {
            let _ = writeln!(
                out,
                "[agent-coord] +{} routine (pre-consumed, FYI, no reply):",
                self.count
            );
        }
        for (source, (count, since)) in &self.untold {
            untold(out, source, *count, *since);
        }
        out.push_str(&self.text);
    }
}

fn untold(out: &mut String, source: &str, count: usize, since: i64) {
    let _ = writeln!(
        out,
        "[agent-coord] {count} older of {} are not shown. {} shows them.",
        place(source),
        recipe(source, since)
    );
}

/// The call that shows what a block left out.
fn recipe(source: &str, since: i64) -> String {
    match source.strip_prefix('#') {
        Some(room) => format!(
            "read_messages with source room, room {}, peek true, sinceTs {since}",
            plain(room)
        ),
        None => format!("read_messages with source inbox, peek true, sinceTs {since}"),
    }
}

fn place(source: &str) -> String {
    match source.strip_prefix('#') {
        Some(room) => format!("#{}", plain(room)),
        None => "DM".to_owned(),
    }
}

/// A message with its tag, in at most about `room` bytes.
fn shown(message: &Quoted<'_>, room: usize) -> String {
    let minutes = message.ts.div_euclid(60_000).rem_euclid(24 * 60);
    let mut out = format!(
        "[{} {:02}:{:02} {}]\n",
        place(message.source),
        minutes / 60,
        minutes % 60,
        plain(message.from)
    );
    let clean = clean(message.text);
    match quoted(&clean, room, &mut out) {
        read if read == clean.len() => {}
        read => {
            let _ = writeln!(
                out,
                "[agent-coord] cut here after {read} of {} bytes. {} shows the whole.",
                clean.len(),
                recipe(message.source, message.ts.saturating_sub(1))
            );
        }
    }
    out
}

/// A name as it may stand in a line of the bus's own: what no id and no channel has in it is a question mark.
fn plain(name: &str) -> String {
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let shown = |c: char| if of_name(c) { c } else { '?' };
    let name: String = name.chars().map(shown).take(64).collect();
    if name.is_empty() { "?".to_owned() } else { name }
}

/// The text without what cannot be seen, every kind of line break being one line feed. The blanks around it go, too.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        match c {
            '\n' if before == Some('\r') => {}
            '\t' => out.push(c),
            _ if is_line_break(c) => out.push('\n'),
            _ => match unseen(c) {
                None | Some(Unseen::PrivateUse | Unseen::Unassigned) => out.push(c),
                Some(Unseen::Control | Unseen::LineSeparator | Unseen::Direction | Unseen::Invisible) => {}
            },
        }
        before = Some(c);
    }
    out.trim().to_owned()
}

/// Appends the text line by line behind `# `, marks that act made harmless, until `room` bytes are used. Answers how many bytes of it were read.
fn quoted(text: &str, room: usize, out: &mut String) -> usize {
    let begin = out.len();
    out.push_str("# ");
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if out.len() - begin + 8 > room {
            out.push('\n');
            return at;
        }
        match c {
            '\n' => out.push_str("\n# "),
            // Programs read the file whose name follows; inside a word, as in an address, they do not.
            '@' if !before.is_ascii_alphanumeric() => out.push('\u{ff20}'),
            // A paste or a picture that the reader's program keeps under a number.
            '#' if numbered(out) => out.push('\u{ff03}'),
            // A word that begins so may be the name of a skill, which the reader's program would be told to run.
            '/' if before.is_whitespace() && is_name(text.get(at + 1..).unwrap_or_default()) => {
                out.push('\u{2215}')
            }
            // Words by which a person asks Claude Code for more thought or more agents: no peer's to say.
            _ if ordering(out, text.get(at..).unwrap_or_default()) => {
                out.push('-');
                out.push(c);
            }
            _ => out.push(c),
        }
        before = if c == '\n' { ' ' } else { c };
    }
    out.push('\n');
    text.len()
}

/// Whether a text begins with a name that no further part of a path follows.
fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    let end = text.find(|c| !of_name(c)).unwrap_or(text.len());
    end > 0 && !text.get(end..).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether `rest` goes on with the second half of such a word whose first half was just written.
fn ordering(out: &str, rest: &str) -> bool {
    let begins = |word: &str| {
        rest.get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    let tail = out.len().checked_sub("ultra".len()).and_then(|at| out.get(at..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case("ultra"))
        && ["code", "plan", "review", "think"].into_iter().any(begins)
}

/// Whether what was written ends as the name of a kept paste or picture does before its number.
fn numbered(out: &str) -> bool {
    let ends = |word: &str| {
        let tail = out.len().checked_sub(word.len()).and_then(|at| out.get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word))
    };
    ends("text ") || ends("image ")
}
