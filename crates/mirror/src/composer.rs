//! Where an agent's program takes its next message: the input boxes that muster knows, found on a captured screen. Never guesses: a screen that is none of them is unknown.

use crate::screen::{Cell, Ghost, Ink, Row, Screen};

/// A program whose input box is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
}

impl Program {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
        }
    }
}

/// What a screen is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// An input box is open and nothing lies over it.
    Input(Input),
    /// A question, a menu or another list waits for a key. The row that shows it, as it came.
    Dialog(String),
    /// None that is known.
    Unknown,
}

/// An input box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Whose.
    pub program: Program,
    /// Its first row on the screen, from 0.
    pub top: usize,
    /// What stands in each of its rows behind the prompt.
    pub rows: Vec<Vec<Cell>>,
    /// The prompt says that what is typed goes to a shell.
    pub shell: bool,
    /// The program says that it is at work.
    pub working: bool,
    /// The mode of vim's keys that the program shows. Of NORMAL Claude Code shows nothing.
    pub mode: Option<String>,
    /// The choice that is marked in a list of commands above the box: its row on the screen and the command.
    pub chosen: Option<(usize, String)>,
    /// The rows as they came.
    pub raw: Vec<String>,
}

/// The mode of vim's keys in which text is typed.
const INSERT: &str = "INSERT";

/// What stands in an input box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// Nothing.
    Empty,
    /// A suggestion that nobody typed.
    Suggestion,
    /// Something that was typed.
    Draft,
}

impl Input {
    /// What stands in it, where suggestions are drawn as `ghost`.
    pub fn filling(&self, ghost: &Ghost) -> Filling {
        let cells = || self.rows.iter().flatten();
        let marks: Vec<&Cell> = cells().filter(|cell| !cell.is_blank()).collect();
        let Some(first) = marks.first() else {
            return Filling::Empty;
        };
        if self.program == Program::GeminiCli && self.is_placeholder() {
            return Filling::Suggestion;
        }
        // The first character of a suggestion lies under the cursor. Alone it could as well be a draft of one letter.
        let under_cursor = first.style.reverse && cells().next() == Some(first) && marks.len() > 1;
        let skip = usize::from(under_cursor && !ghost.covers(&first.style));
        if marks.iter().skip(skip).all(|cell| ghost.covers(&cell.style)) {
            Filling::Suggestion
        } else {
            Filling::Draft
        }
    }

    /// The mode it shows in which neither a text nor a key ends in the input as it is.
    pub fn takes_orders(&self) -> Option<&str> {
        self.mode.as_deref().filter(|mode| *mode != INSERT)
    }

    /// Gemini CLI draws its standing hint in a colour of its own, behind a cursor on nothing.
    fn is_placeholder(&self) -> bool {
        let Some((cursor, hint)) = self.rows.first().and_then(|row| row.split_first()) else {
            return false;
        };
        let text: String = hint.iter().map(|cell| cell.char).collect();
        let known = ["Type your message or @path/to/file", "Type your shell command"];
        let inks: Vec<Ink> = hint
            .iter()
            .filter(|cell| !cell.is_blank())
            .map(|cell| cell.style.ink)
            .collect();
        self.rows.iter().skip(1).flatten().all(Cell::is_blank)
            && cursor.style.reverse
            && cursor.is_blank()
            && known.contains(&text.trim())
            && inks.windows(2).all(|pair| pair.first() == pair.last())
            && inks.first() != Some(&Ink::Plain)
    }

    /// What stands in it, row by row without blanks at the end.
    pub fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let text: String = row.iter().map(|cell| cell.char).collect();
            text.trim_end_matches([' ', '\u{a0}']).to_owned()
        });
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Whether exactly `text` stands in it, as far as its program shows it: whole, its end where the box is too small for it, or as a stand-in
    /// for something pasted that fits it.
    pub fn holds(&self, text: &str) -> bool {
        if self.shell {
            return false;
        }
        let shown = self.text();
        same(&shown, text) || self.stands_in(shown.trim(), text)
    }

    /// Whether the end of `text`, or a stand-in for it, is part of what stands in it: then it was not sent off.
    pub fn shows(&self, text: &str) -> bool {
        let ink = |text: &str| -> String { text.chars().filter(char::is_ascii_graphic).collect() };
        let (seen, whole) = (ink(&self.text()), ink(text));
        let end: String = whole
            .chars()
            .rev()
            .take(TAIL)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        self.holds(text) || (!end.is_empty() && seen.contains(&end)) || seen.contains("[Pasted")
    }

    fn stands_in(&self, shown: &str, text: &str) -> bool {
        let (breaks, chars) = (text.matches('\n').count(), text.chars().count());
        let Some(inner) = shown.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return false;
        };
        match self.program {
            Program::ClaudeCode => inner.strip_prefix("Pasted text #").is_some_and(|rest| {
                let (number, lines) = rest.split_once(' ').unwrap_or((rest, ""));
                let fits = lines.is_empty() && breaks == 0 || lines == format!("+{breaks} lines");
                !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && fits
            }),
            Program::Codex => inner == format!("Pasted Content {chars} chars"),
            Program::GeminiCli => {
                inner == format!("Pasted Text: {} lines", breaks + 1)
                    || inner == format!("Pasted Text: {chars} chars")
            }
        }
    }
}

/// Fewer characters than this are no proof that a row is the end of a longer text.
const TAIL: usize = 48;

/// Whether what is shown is `text`, however it was broken into rows. Characters that terminals draw differently are only counted.
fn same(shown: &str, text: &str) -> bool {
    let ink = |text: &str| -> String { text.chars().filter(char::is_ascii_graphic).collect() };
    let rest = |text: &str| {
        text.chars()
            .filter(|c| !c.is_ascii() && !c.is_whitespace())
            .count()
    };
    let (seen, whole) = (ink(shown), ink(text));
    let fits = seen == whole || (seen.len() >= TAIL && whole.ends_with(&seen));
    fits && rest(shown) <= rest(text) && !(seen.is_empty() && rest(shown) == 0)
}

/// More rows than this below an input box are no footer.
const FOOTER: usize = 12;

/// Finds what a screen is. `cursor` is the terminal's cursor, column and row from 0, where it is known: an input box is open only if it stands in it.
pub fn look(screen: &Screen, cursor: Option<(usize, usize)>) -> Look {
    let rows = &screen.rows;
    let found = claude_code(rows)
        .or_else(|| codex(rows, cursor))
        .or_else(|| gemini(rows));
    if let Some(input) = found {
        let inside = cursor.is_none_or(|(_, row)| (input.top..input.top + input.rows.len()).contains(&row));
        let below = rows.iter().skip(input.top + input.rows.len());
        if let Some(row) = below.clone().find(|row| marked(row)) {
            return Look::Dialog(row.raw.clone());
        }
        let few = below.filter(|row| !row.is_blank()).count() <= FOOTER;
        return if inside && few {
            Look::Input(input)
        } else {
            Look::Unknown
        };
    }
    rows.iter()
        .rev()
        .find(|row| asks(row))
        .map_or(Look::Unknown, |row| Look::Dialog(row.raw.clone()))
}

/// A row that begins with the mark of a choice.
fn marked(row: &Row) -> bool {
    row.cells
        .iter()
        .find(|cell| !cell.is_blank())
        .is_some_and(|cell| matches!(cell.char, '❯' | '›'))
}

/// A row that only a question or a list of choices has.
fn asks(row: &Row) -> bool {
    let text = row.text();
    let line = text.trim_matches([' ', '\u{a0}', '│']).trim();
    let choice = line
        .strip_prefix(['❯', '›', '●'])
        .map(str::trim_start)
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    let lower = line.to_lowercase();
    let hint = [
        "esc to cancel",
        "enter to confirm",
        "enter to select",
        "to navigate",
        "press enter to",
        "esc to exit",
        "esc to close",
        "esc to go back",
        "[y/n]",
        "(y/n)",
    ];
    choice || hint.iter().any(|hint| lower.contains(hint))
}

fn starts(row: &Row, first: &[char], second: char) -> Option<char> {
    let mut cells = row.cells.iter().map(|cell| cell.char);
    let mark = cells.next().filter(|char| first.contains(char))?;
    (cells.next() == Some(second)).then_some(mark)
}

/// A line across the screen. The upper one may bear a name.
fn rule(row: &Row, whole: bool) -> bool {
    let text = row.text();
    let lines = text.chars().filter(|char| *char == '─').count();
    let all = text.chars().count();
    lines >= 10
        && text.starts_with("──")
        && text.ends_with('─')
        && (lines == all || (!whole && lines * 2 > all))
}

/// A line across the screen and nothing else.
pub(crate) fn is_line(row: &Row) -> bool {
    rule(row, true)
}

fn behind(row: &Row, prompt: usize) -> Vec<Cell> {
    row.cells.iter().skip(prompt).copied().collect()
}

fn is_indented(row: &Row, by: usize) -> bool {
    row.cells.iter().take(by).all(Cell::is_blank)
}

fn says(rows: &[Row], words: &str) -> bool {
    rows.iter().any(|row| row.text().to_lowercase().contains(words))
}

fn between(rows: &[Row], from: usize, to: usize) -> &[Row] {
    rows.get(from..to.min(rows.len())).unwrap_or_default()
}

/// The choice marked in a list that ends right above the row `top`.
fn chosen(rows: &[Row], top: usize) -> Option<(usize, String)> {
    let from = top.saturating_sub(16);
    between(rows, from, top)
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, row)| {
            let text = row.text();
            // What was said before stands on a ground of its own.
            let said = row
                .cells
                .first()
                .is_some_and(|cell| cell.style.paper != Ink::Plain);
            let rest = text.trim_start().strip_prefix(['❯', '›'])?.strip_prefix(' ')?;
            let command = rest
                .split_whitespace()
                .next()
                .filter(|word| word.starts_with('/'))?;
            (!said).then(|| (from + at, command.to_owned()))
        })
}

fn input(program: Program, rows: &[Row], span: (usize, usize), prompt: usize) -> Input {
    let mine = between(rows, span.0, span.1);
    Input {
        program,
        top: span.0,
        rows: mine.iter().map(|row| behind(row, prompt)).collect(),
        shell: false,
        working: false,
        mode: None,
        chosen: None,
        raw: mine.iter().map(|row| row.raw.clone()).collect(),
    }
}

/// Claude Code draws the same box in other places, such as its list of sessions. Only where a message is taken do these words stand below it.
fn is_footer_of_input(rows: &[Row]) -> bool {
    let of_input = [
        "manual mode on",
        "plan mode on",
        "auto mode on",
        "accept edits on",
        "bypass permissions on",
        "esc to interrupt",
        "paste again to expand",
    ];
    let of_list = [
        "enter to ",
        "space to ",
        "esc to cancel",
        "esc to close",
        "esc to exit",
        "esc to go back",
    ];
    let has = |words: &[&str]| words.iter().any(|words| says(rows, words));
    let own = rows.iter().any(|row| {
        let text = row.text();
        text.trim() == "! for shell mode" || text.trim_start().starts_with("? for shortcuts")
    });
    let typing = rows.iter().any(|row| mode(row).is_some());
    (own || typing || has(&of_input)) && !has(&of_list)
}

/// The mode that a row shows as vim does, `-- NORMAL --`.
fn mode(row: &Row) -> Option<String> {
    let text = row.text();
    let (_, rest) = text.split_once("-- ")?;
    let (mode, _) = rest.split_once(" --")?;
    let is_mode = mode
        .chars()
        .all(|char| char.is_ascii_uppercase() || matches!(char, ' ' | '-'));
    (is_mode && mode.starts_with(|char: char| char.is_ascii_uppercase())).then(|| mode.to_owned())
}

/// `❯` or `!` and a no-break space, between two lines across the screen; further rows are indented by two.
fn claude_code(rows: &[Row]) -> Option<Input> {
    let bottom = rows.iter().rposition(|row| rule(row, true))?;
    let above = between(rows, 0, bottom);
    let top = above
        .iter()
        .rposition(|row| starts(row, &['❯', '!'], '\u{a0}').is_some())?;
    let roof = top.checked_sub(1).and_then(|at| rows.get(at))?;
    let indented = between(rows, top + 1, bottom)
        .iter()
        .all(|row| is_indented(row, 2));
    if !indented || !rule(roof, false) {
        return None;
    }
    if !is_footer_of_input(between(rows, bottom + 1, rows.len())) {
        return None;
    }
    let mut found = input(Program::ClaudeCode, rows, (top, bottom), 2);
    found.shell = rows
        .get(top)
        .and_then(|row| starts(row, &['!'], '\u{a0}'))
        .is_some();
    // The line that turns while it works stands right above the box, with hints below it.
    let turning = between(rows, top.saturating_sub(5), top).iter().any(|row| {
        let text = row.text();
        text.starts_with(['·', '✢', '✳', '✶', '✻', '✽', '*', '∗']) && text.contains('…')
    });
    let below = between(rows, bottom + 1, rows.len());
    found.working = turning || says(below, "esc to interrupt");
    found.mode = below.iter().find_map(mode);
    found.chosen = chosen(rows, top.saturating_sub(1));
    Some(found)
}

/// A bold `›` at the left, further rows indented by two, a blank row and a short footer, if any.
fn codex(rows: &[Row], cursor: Option<(usize, usize)>) -> Option<Input> {
    let top = rows.iter().rposition(|row| {
        let style = row.cells.first().map(|cell| cell.style);
        starts(row, &['›', '!'], ' ').is_some()
            && style
                .is_some_and(|style| style.bold && !style.dim && !style.reverse && style.paper == Ink::Plain)
    })?;
    // A message of several paragraphs has blank rows, too; it goes on at least to the cursor.
    let from = cursor.map_or(top, |(_, row)| row.min(rows.len()).max(top)) + 1;
    let after = between(rows, from, rows.len());
    let bottom = from + after.iter().position(Row::is_blank).unwrap_or(after.len());
    let footer = between(rows, bottom, rows.len())
        .iter()
        .filter(|row| !row.is_blank());
    let indented = |row: &Row| is_indented(row, 2);
    // The footer goes when there is a draft.
    let idle = between(rows, top, bottom).iter().all(|row| {
        let cells = row.cells.iter().skip(2);
        cells.into_iter().all(|cell| cell.is_blank() || cell.style.dim)
    });
    let fits = footer.clone().all(indented) && footer.clone().count() <= 3 && (!idle || footer.count() > 0);
    if !between(rows, top + 1, bottom).iter().all(indented) || !fits {
        return None;
    }
    let mut found = input(Program::Codex, rows, (top, bottom), 2);
    found.shell = rows.get(top).and_then(|row| starts(row, &['!'], ' ')).is_some();
    found.working = says(between(rows, top.saturating_sub(8), top), "esc to interrupt");
    found.chosen = chosen(rows, top);
    Some(found)
}

/// ` > ` on a coloured ground below a line across the screen; further rows are indented by three.
fn gemini(rows: &[Row]) -> Option<Input> {
    let grounded = |row: &Row| {
        row.cells
            .first()
            .is_some_and(|cell| cell.style.paper != Ink::Plain && cell.is_blank())
    };
    let prompts = |row: &Row| {
        let mut cells = row.cells.iter().skip(1).map(|cell| cell.char);
        cells.next().is_some_and(|char| matches!(char, '>' | '!' | '*')) && cells.next() == Some(' ')
    };
    // Where it does not learn the terminal's colours it draws no ground, but an edge above and one below.
    let edge = |row: &Row, of: char| {
        let text = row.text();
        let text = text.trim_end_matches([' ', '\u{a0}']);
        !text.is_empty() && text.chars().all(|char| char == of)
    };
    let edged = |at: usize| {
        at.checked_sub(1)
            .and_then(|above| rows.get(above))
            .is_some_and(|row| edge(row, '▄'))
    };
    let top = (0..rows.len()).rev().find(|at| {
        rows.get(*at)
            .is_some_and(|row| prompts(row) && (grounded(row) || edged(*at)))
    })?;
    let roof = between(rows, top.saturating_sub(4), top);
    if !roof.iter().any(|row| rule(row, true)) {
        return None;
    }
    let below = between(rows, top + 1, rows.len());
    let bottom = if edged(top) {
        top + 1 + below.iter().position(|row| edge(row, '▀'))?
    } else {
        let length = below
            .iter()
            .take_while(|row| grounded(row) && is_indented(row, 3))
            .count();
        // The last row of the ground is its lower edge.
        top + length.max(1)
    };
    let mut found = input(Program::GeminiCli, rows, (top, bottom), 3);
    found.shell = rows
        .get(top)
        .and_then(|row| row.cells.get(1))
        .is_some_and(|cell| cell.char == '!');
    found.working = says(between(rows, top.saturating_sub(8), top), "esc to cancel");
    Some(found)
}
