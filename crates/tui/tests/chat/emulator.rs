//! As much of a terminal as the seat uses: places, clears, text. Never draws a sequence it does not know: it fails the test.

use unicode_width::UnicodeWidthChar as _;

/// A screen of cells, and how far the bytes were taken.
pub(crate) struct Emulator {
    cells: Vec<Vec<String>>,
    columns: usize,
    row: usize,
    column: usize,
    used: usize,
}

impl Emulator {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self {
            cells: vec![vec![" ".to_owned(); columns.into()]; rows.into()],
            columns: columns.into(),
            row: 0,
            column: 0,
            used: 0,
        }
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        self.cells
            .iter()
            .map(|row| row.concat().trim_end().to_owned())
            .collect()
    }

    /// Takes what came since the last time, as far as it is whole.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let new = &bytes[self.used..];
        let text = match std::str::from_utf8(new) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&new[..error.valid_up_to()]).unwrap(),
        };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = if c == '\u{1b}' {
                match self.sequence(rest) {
                    Some(length) => length,
                    None => break,
                }
            } else {
                self.put(c);
                c.len_utf8()
            };
            rest = rest.split_at(length).1;
            self.used += length;
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            '\n' => {
                if self.row + 1 < self.cells.len() {
                    self.row += 1;
                } else {
                    self.cells.remove(0);
                    self.cells.push(vec![" ".to_owned(); self.columns]);
                }
            }
            c if c.width() == Some(0) => {
                if let Some(cell) = self
                    .column
                    .checked_sub(1)
                    .and_then(|at| self.cells[self.row].get_mut(at))
                {
                    cell.push(c);
                }
            }
            c => {
                assert!(!c.is_control(), "{c:?}");
                let wide = c.width().unwrap_or(1);
                for part in 0..wide {
                    if let Some(cell) = self.cells[self.row].get_mut(self.column + part) {
                        *cell = if part == 0 { c.to_string() } else { String::new() };
                    }
                }
                self.column += wide;
            }
        }
    }

    /// The length of the sequence that `text` begins with; `None` when it is not whole.
    fn sequence(&mut self, text: &str) -> Option<usize> {
        let body = text.split_at_checked(2)?.1;
        assert!(text.starts_with("\u{1b}["), "{text:?}");
        let end = body.find(|c: char| !c.is_ascii_digit() && !"?;".contains(c))?;
        let (numbers, rest) = body.split_at(end);
        let mut places = numbers
            .split(';')
            .map(|number| number.parse().unwrap_or(1_usize) - 1);
        match rest.chars().next()? {
            'H' => {
                self.row = places.next().unwrap_or(0).min(self.cells.len() - 1);
                self.column = places.next().unwrap_or(0);
            }
            'J' => {
                for row in &mut self.cells {
                    row.fill(" ".to_owned());
                }
            }
            'h' if numbers == "?1049" => self.cells.iter_mut().for_each(|row| row.fill(" ".to_owned())),
            'm' | 'h' | 'l' => {}
            _ => panic!("{numbers:?} {rest:?}"),
        }
        Some(2 + end + 1)
    }
}
