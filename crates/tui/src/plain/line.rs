//! One typed line below the messages, drawn with nothing but returns, backspaces and blanks, which every terminal and every screen reader knows. Never takes more than one row.

use std::io::{self, Write};

use unicode_segmentation::UnicodeSegmentation as _;

use super::{Surface, Wish};
use crate::columns;
use crate::completion::Names;
use crate::keys::{Code, Key};
use crate::terminal::Event;
use crate::text::{fit, folded, line, width};
use crate::typing::{Typed, Typing};

pub(super) struct LineSurface<W> {
    out: W,
    typing: Typing,
    prompt: String,
    columns: usize,
    /// What stands in the row, and how many columns of it are left of the cursor.
    row: String,
    column: usize,
}

impl<W: Write> LineSurface<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            typing: Typing::default(),
            prompt: String::new(),
            columns: columns(),
            row: String::new(),
            column: 0,
        }
    }

    /// Leaves the row as it is and goes below it.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        self.out.write_all(b"\r\n")?;
        self.out.flush()
    }

    /// The row as it should be: the prompt, and of the text the part around the cursor. With the columns left of the cursor.
    fn wanted(&self) -> (String, usize) {
        // The last column stays free: in it terminals differ.
        let room = self.columns.saturating_sub(1).max(4);
        let prompt = fit(&self.prompt, room * 2 / 3);
        let left = room.saturating_sub(width(&prompt) + 1);
        let (text, at) = (self.typing.editor.text(), self.typing.editor.at());
        let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
        let (mut parts, mut used) = (Vec::new(), 0);
        for cluster in before.graphemes(true).rev() {
            let shown = shown(cluster);
            let wide = width(&shown);
            // Room for the cursor behind it.
            if used + wide + 1 > left {
                break;
            }
            used += wide;
            parts.push(shown);
        }
        parts.reverse();
        let mut row = format!("{prompt} ");
        row.extend(parts);
        let column = width(&row);
        for cluster in after.graphemes(true) {
            let shown = shown(cluster);
            if used + width(&shown) > left {
                break;
            }
            used += width(&shown);
            row.push_str(&shown);
        }
        (row, column)
    }

    /// Brings the row to what it should be, at the price of what changed.
    fn draw(&mut self) -> io::Result<()> {
        let (row, column) = self.wanted();
        if (&row, column) == (&self.row, self.column) {
            return Ok(());
        }
        let (now, then) = (width(&row), width(&self.row));
        if self.column == then && column == now && row.starts_with(&self.row) {
            // Typed at the end, which is nearly always.
            self.out
                .write_all(row.get(self.row.len()..).unwrap_or_default().as_bytes())?;
        } else if self.column == then && column == now && self.row.starts_with(&row) {
            for _ in now..then {
                self.out.write_all(b"\x08 \x08")?;
            }
        } else {
            self.out.write_all(b"\r")?;
            self.out.write_all(row.as_bytes())?;
            let over = then.saturating_sub(now);
            self.out.write_all(" ".repeat(over).as_bytes())?;
            self.out
                .write_all("\x08".repeat(now + over - column).as_bytes())?;
        }
        (self.row, self.column) = (row, column);
        self.out.flush()
    }

    fn erase(&mut self) -> io::Result<()> {
        if !self.row.is_empty() {
            write!(self.out, "\r{}\r", " ".repeat(width(&self.row)))?;
            self.row.clear();
            self.column = 0;
        }
        Ok(())
    }

    /// Writes lines where the row was.
    fn above(&mut self, lines: &[String]) -> io::Result<()> {
        // Broken here and not by the terminal.
        for row in lines.iter().flat_map(|line| folded(line, self.columns)) {
            write!(self.out, "{row}\r\n")?;
        }
        Ok(())
    }
}

/// A cluster of typed text as one row may hold it.
fn shown(cluster: &str) -> String {
    match cluster {
        "\n" | "\r\n" => "⏎".to_owned(),
        "\t" => " ".to_owned(),
        other => line(other),
    }
}

impl<W: Write> Surface for LineSurface<W> {
    fn show(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.erase()?;
        self.above(lines)?;
        self.draw()
    }

    fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        if self.prompt != prompt {
            prompt.clone_into(&mut self.prompt);
        }
        self.draw()
    }

    fn take(&mut self, event: Event, names: &Names) -> io::Result<Vec<Wish>> {
        let inputs = match event {
            Event::Input(inputs) => inputs,
            Event::Resize => {
                self.columns = columns();
                // How the terminal has broken the old row anew is its own affair; this one begins below it.
                self.out.write_all(b"\r\n")?;
                self.row.clear();
                self.column = 0;
                self.draw()?;
                return Ok(Vec::new());
            }
            Event::End | Event::Stop => return Ok(vec![Wish::Leave]),
            Event::Line(_) => return Ok(Vec::new()),
        };
        let mut wishes = Vec::new();
        for input in inputs {
            match self.typing.take(input, names) {
                Typed::Edited => {}
                Typed::Line(line) => wishes.push(Wish::Line(line)),
                Typed::Refused(sentence) => wishes.push(Wish::Refused(sentence)),
                Typed::Leave => wishes.push(Wish::Leave),
                Typed::Other(Key {
                    code: Code::Char('l'),
                    ctrl: true,
                    ..
                }) => {
                    self.out.write_all(b"\r\n")?;
                    self.row.clear();
                    self.column = 0;
                }
                Typed::Other(_) => {}
            }
        }
        self.draw()?;
        Ok(wishes)
    }

    fn echo(&mut self, command: &str) -> io::Result<()> {
        let command = format!("{} {}", self.prompt, fit(&line(command), self.columns));
        self.show(&[command])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Parser;

    fn surface() -> LineSurface<Vec<u8>> {
        let mut surface = LineSurface::new(Vec::new());
        surface.columns = 40;
        surface.prompt("david #general (4 peers)>").unwrap();
        surface
    }

    fn press(surface: &mut LineSurface<Vec<u8>>, bytes: &[u8]) -> Vec<Wish> {
        let inputs = Parser::default().feed(bytes);
        surface.take(Event::Input(inputs), &Names::default()).unwrap()
    }

    /// What a terminal shows that knows returns, line feeds and backspaces.
    fn screen(bytes: &[u8]) -> (Vec<String>, usize) {
        let text = std::str::from_utf8(bytes).unwrap();
        let (mut rows, mut column) = (vec![Vec::<char>::new()], 0_usize);
        for c in text.chars() {
            let row = rows.last_mut().unwrap();
            match c {
                '\r' => column = 0,
                '\n' => rows.push(vec![' '; column]),
                '\u{8}' => column -= 1,
                c => {
                    assert!(!c.is_control(), "{c:?}");
                    if row.len() <= column {
                        row.resize(column + 1, ' ');
                    }
                    row[column] = c;
                    column += 1;
                }
            }
        }
        let rows = rows
            .into_iter()
            .map(|row| row.into_iter().collect::<String>().trim_end().to_owned())
            .collect();
        (rows, column)
    }

    // spec: CHAT-006
    #[test]
    fn a_message_leaves_what_is_being_typed_as_it_was() {
        let mut surface = surface();
        press(&mut surface, b"half a th\x1b[D");
        let before = screen(&surface.out);
        surface.show(&["12:00 <bob> hi".into()]).unwrap();
        let after = screen(&surface.out);
        assert_eq!(before.0.last(), after.0.last());
        assert_eq!(before.1, after.1);
        assert_eq!(after.0.first().unwrap(), "12:00 <bob> hi");
        press(&mut surface, b"oug");
        assert_eq!(press(&mut surface, b"\r"), [Wish::Line("half a tough".into())]);
    }

    #[test]
    fn the_row_is_never_wider_than_the_terminal_and_follows_the_cursor() {
        let mut surface = surface();
        press(&mut surface, "word 日本 ".repeat(30).as_bytes());
        let (rows, _) = screen(&surface.out);
        assert_eq!(rows.len(), 1);
        assert!(width(&surface.row) < 40, "{}", surface.row);
        press(&mut surface, b"\x01");
        assert!(surface.row.contains("> word"), "{}", surface.row);
        assert!(surface.row.len() > surface.column);
    }

    #[test]
    fn a_long_line_of_a_peer_never_begins_at_the_left_edge() {
        let mut surface = surface();
        let spoof = format!("12:00 <eve> {}12:01 <boss> do it", " ".repeat(60));
        surface.show(&[spoof]).unwrap();
        let (rows, _) = screen(&surface.out);
        assert!(!rows.iter().any(|row| row.starts_with("12:01")), "{rows:?}");
    }
}
