//! What a pane shows, read out of a capture with its styling: rows of characters, each with how it is drawn. Any bytes are read; never does anything in them act.

/// A colour of the letters or of what lies behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// The terminal's own.
    #[default]
    Plain,
    /// One of the 256 of the palette.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// How a character is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the terminal")]
pub struct Style {
    /// SGR 1.
    pub bold: bool,
    /// SGR 2.
    pub dim: bool,
    /// SGR 3.
    pub italic: bool,
    /// SGR 4.
    pub underline: bool,
    /// SGR 5.
    pub blink: bool,
    /// SGR 7.
    pub reverse: bool,
    /// SGR 8.
    pub hidden: bool,
    /// SGR 9.
    pub struck: bool,
    /// The colour of the letter.
    pub ink: Ink,
    /// The colour behind it.
    pub paper: Ink,
}

impl Style {
    /// Applies the parameters of one SGR sequence, as they stand between `ESC[` and `m`. What is not known changes nothing.
    fn apply(&mut self, parameters: &str) {
        let mut parts = parameters.split(';');
        while let Some(part) = parts.next() {
            let mut fine = part.split(':');
            let code = fine.next().map_or(Some(0), number);
            let more: Vec<&str> = fine.collect();
            match code {
                Some(38 | 48) => {
                    let ink = if more.is_empty() {
                        ink(&mut parts)
                    } else {
                        ink(&mut more.into_iter().filter(|word| !word.is_empty()))
                    };
                    if let Some(ink) = ink {
                        if code == Some(38) {
                            self.ink = ink;
                        } else {
                            self.paper = ink;
                        }
                    }
                }
                Some(4) => self.underline = more.first() != Some(&"0"),
                Some(code) => self.simple(code),
                None => {}
            }
        }
    }

    fn simple(&mut self, code: u8) {
        match code {
            0 => *self = Self::default(),
            1 => self.bold = true,
            2 => self.dim = true,
            3 => self.italic = true,
            5 | 6 => self.blink = true,
            7 => self.reverse = true,
            8 => self.hidden = true,
            9 => self.struck = true,
            21 => self.underline = true,
            22 => (self.bold, self.dim) = (false, false),
            23 => self.italic = false,
            24 => self.underline = false,
            25 => self.blink = false,
            27 => self.reverse = false,
            28 => self.hidden = false,
            29 => self.struck = false,
            30..=37 => self.ink = Ink::Indexed(code - 30),
            39 => self.ink = Ink::Plain,
            40..=47 => self.paper = Ink::Indexed(code - 40),
            49 => self.paper = Ink::Plain,
            90..=97 => self.ink = Ink::Indexed(code - 82),
            100..=107 => self.paper = Ink::Indexed(code - 92),
            _ => {}
        }
    }

    /// The sequence that sets exactly this style.
    pub fn sgr(&self) -> String {
        let switches = [
            (self.bold, 1),
            (self.dim, 2),
            (self.italic, 3),
            (self.underline, 4),
            (self.blink, 5),
            (self.reverse, 7),
            (self.hidden, 8),
            (self.struck, 9),
        ];
        let mut out = String::from("\x1b[0");
        for (_, code) in switches.iter().filter(|(on, _)| *on) {
            out.push_str(&format!(";{code}"));
        }
        for (ink, kind) in [(self.ink, 38), (self.paper, 48)] {
            match ink {
                Ink::Plain => {}
                Ink::Indexed(colour) => out.push_str(&format!(";{kind};5;{colour}")),
                Ink::Rgb(r, g, b) => out.push_str(&format!(";{kind};2;{r};{g};{b}")),
            }
        }
        out.push('m');
        out
    }
}

fn number(word: &str) -> Option<u8> {
    if word.is_empty() {
        Some(0)
    } else {
        word.parse().ok()
    }
}

/// The colour after a 38 or a 48.
fn ink<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Ink> {
    match words.next().and_then(number)? {
        5 => words.next().and_then(number).map(Ink::Indexed),
        2 => {
            let (r, g, b) = (words.next(), words.next(), words.next());
            Some(Ink::Rgb(number(r?)?, number(g?)?, number(b?)?))
        }
        _ => None,
    }
}

/// How a program draws a suggestion that nobody typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost(Style);

impl Default for Ghost {
    /// Dim.
    fn default() -> Self {
        Self(Style {
            dim: true,
            ..Style::default()
        })
    }
}

impl Ghost {
    /// Reads the numbers of an SGR sequence, such as `2` or `38;5;244`; what is drawn with all of them is a suggestion.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.trim();
        let plain = !numbers.is_empty()
            && numbers.len() <= 64
            && numbers
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b';' | b':'));
        let mut style = Style::default();
        if plain {
            style.apply(numbers);
        }
        (style != Style::default()).then_some(Self(style))
    }

    /// Whether something drawn so is a suggestion.
    pub fn covers(&self, style: &Style) -> bool {
        let wanted = &self.0;
        let switches = [
            (wanted.bold, style.bold),
            (wanted.dim, style.dim),
            (wanted.italic, style.italic),
            (wanted.underline, style.underline),
            (wanted.blink, style.blink),
            (wanted.reverse, style.reverse),
            (wanted.hidden, style.hidden),
            (wanted.struck, style.struck),
        ];
        switches.iter().all(|(wanted, has)| !wanted || *has)
            && (wanted.ink == Ink::Plain || wanted.ink == style.ink)
            && (wanted.paper == Ink::Plain || wanted.paper == style.paper)
    }
}

/// One character and how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The character; never a control character.
    pub char: char,
    /// How it is drawn.
    pub style: Style,
}

impl Cell {
    /// A cell that shows nothing but its background.
    pub fn is_blank(&self) -> bool {
        matches!(self.char, ' ' | '\u{a0}')
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Its characters, left to right.
    pub cells: Vec<Cell>,
    /// The style in force where it begins.
    pub begins: Style,
    /// As it came, with its styling. For quoting only, and never to a terminal as it is.
    pub raw: String,
}

impl Row {
    /// Its characters without blanks at the end.
    pub fn text(&self) -> String {
        let text: String = self.cells.iter().map(|cell| cell.char).collect();
        text.trim_end_matches(' ').to_owned()
    }

    /// Whether it shows nothing.
    pub fn is_blank(&self) -> bool {
        self.cells.iter().all(Cell::is_blank)
    }
}

/// A captured screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    /// Its rows from the top. What follows the last line break is a row, too, unless it is empty.
    pub rows: Vec<Row>,
}

impl Screen {
    /// Reads a capture. Styles run on from row to row, as a terminal multiplexer prints them.
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut rows = Vec::new();
        let mut style = Style::default();
        let mut lines: Vec<&str> = text.split('\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        for line in lines {
            rows.push(row(line, &mut style));
        }
        Self { rows }
    }
}

fn row(line: &str, style: &mut Style) -> Row {
    let mut row = Row {
        begins: *style,
        raw: line.to_owned(),
        cells: Vec::new(),
    };
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' => escape(&mut chars, style),
            char if char.is_control() => {}
            char => row.cells.push(Cell { char, style: *style }),
        }
    }
    row
}

/// Passes over what an ESC begins, within its row, and takes the style out of it if it is one.
fn escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, style: &mut Style) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            let mut parameters = String::new();
            for char in chars.by_ref() {
                match char {
                    '0'..='9' | ';' | ':' => parameters.push(char),
                    'm' => {
                        style.apply(&parameters);
                        return;
                    }
                    ' '..='?' => parameters.push('?'),
                    _ => return,
                }
            }
        }
        // A string (title, link, …) up to its end: BEL, or ESC and a backslash.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            chars.next();
            let mut escaped = false;
            for char in chars.by_ref() {
                if char == '\x07' || (escaped && char == '\\') {
                    return;
                }
                escaped = char == '\x1b';
            }
        }
        // Two characters, or three for a choice of letters.
        Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
            chars.next();
            chars.next();
        }
        Some(_) => {
            chars.next();
        }
        None => {}
    }
}
