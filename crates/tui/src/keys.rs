//! The bytes of a terminal as keys and pastes. Never holds more of a paste than a message may be long, and never takes a byte it does not know for text.

use muster_bus::limits::MAX_TEXT;

/// What a person did at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key.
    Key(Key),
    /// A text that was pasted in one go.
    Paste(String),
    /// A paste of so many bytes, which is more than any message may be.
    Flood(usize),
}

/// A key and what was held with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) code: Code,
    pub(crate) ctrl: bool,
    pub(crate) alt: bool,
    pub(crate) shift: bool,
}

/// Which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Esc,
}

impl Key {
    pub(crate) fn plain(code: Code) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    fn ctrl(c: char) -> Self {
        Self {
            ctrl: true,
            ..Self::plain(Code::Char(c))
        }
    }
}

const ESC: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Longest sequence that is waited for.
const LONGEST: usize = 64;

/// Reads bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// What is not finished yet.
    held: Vec<u8>,
    paste: Option<Paste>,
}

#[derive(Debug, Default)]
struct Paste {
    kept: Vec<u8>,
    length: usize,
    /// What may be the beginning of its end.
    tail: Vec<u8>,
}

/// What the beginning of some bytes is.
enum Found {
    /// So many bytes of nothing.
    Skip(usize),
    Key(usize, Key),
    PasteBegins(usize),
    /// More must come first.
    More,
}

impl Parser {
    /// Takes what was read and answers what it comes to.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut rest = bytes;
        loop {
            if let Some(paste) = &mut self.paste {
                let Some(used) = paste.feed(rest) else {
                    return inputs;
                };
                rest = rest.get(used..).unwrap_or_default();
                inputs.extend(self.paste.take().map(Paste::done));
            }
            self.held.extend_from_slice(rest);
            rest = &[];
            let mut used = 0;
            loop {
                let at = self.held.get(used..).unwrap_or_default();
                if at.is_empty() {
                    break;
                }
                match found(at) {
                    Found::Skip(length) => used += length.max(1),
                    Found::Key(length, key) => {
                        used += length;
                        inputs.push(Input::Key(key));
                    }
                    Found::PasteBegins(length) => {
                        used += length;
                        self.paste = Some(Paste::default());
                        break;
                    }
                    Found::More => break,
                }
            }
            self.held.drain(..used);
            if self.paste.is_none() {
                return inputs;
            }
            let pasted = std::mem::take(&mut self.held);
            // What stands behind the beginning of the paste belongs to it.
            let Some(used) = self.paste.as_mut().and_then(|paste| paste.feed(&pasted)) else {
                return inputs;
            };
            inputs.extend(self.paste.take().map(Paste::done));
            self.held = pasted.get(used..).unwrap_or_default().to_vec();
        }
    }

    /// Whether what is held may be the escape key alone, which only time tells.
    pub(crate) fn waits(&self) -> bool {
        !self.held.is_empty() && self.paste.is_none()
    }

    /// Nothing more came: what is held is what it is.
    pub(crate) fn settle(&mut self) -> Vec<Input> {
        let held = std::mem::take(&mut self.held);
        if held.first() == Some(&ESC) {
            let mut inputs = vec![Input::Key(Key::plain(Code::Esc))];
            // An unfinished sequence says nothing; a character behind the key was meant.
            if held.get(1).is_some_and(|byte| !matches!(byte, b'[' | b'O')) {
                inputs.extend(self.feed(held.get(1..).unwrap_or_default()));
            }
            return inputs;
        }
        Vec::new()
    }
}

impl Paste {
    /// Takes bytes up to the end of the paste; answers how many were used once it has ended.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        for (number, byte) in bytes.iter().enumerate() {
            self.tail.push(*byte);
            if self.tail == PASTE_END {
                return Some(number + 1);
            }
            while !PASTE_END.starts_with(&self.tail) {
                let first = self.tail.remove(0);
                self.length += 1;
                if self.length <= MAX_TEXT {
                    self.kept.push(first);
                }
            }
        }
        None
    }

    fn done(self) -> Input {
        if self.length > MAX_TEXT {
            return Input::Flood(self.length);
        }
        Input::Paste(String::from_utf8_lossy(&self.kept).into_owned())
    }
}

fn found(at: &[u8]) -> Found {
    let Some(first) = at.first() else {
        return Found::More;
    };
    match *first {
        ESC => escape(at),
        b'\r' => Found::Key(1, Key::plain(Code::Enter)),
        b'\t' => Found::Key(1, Key::plain(Code::Tab)),
        0x7f | 0x08 => Found::Key(1, Key::plain(Code::Backspace)),
        byte @ 1..=26 => Found::Key(1, Key::ctrl(char::from(byte - 1 + b'a'))),
        byte if byte < b' ' => Found::Skip(1),
        _ => character(at),
    }
}

fn character(at: &[u8]) -> Found {
    let length = match at.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let Some(bytes) = at.get(..length) else {
        return Found::More;
    };
    match std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(c) if !c.is_control() => Found::Key(length, Key::plain(Code::Char(c))),
        Some(_) => Found::Skip(length),
        None => Found::Skip(1),
    }
}

fn escape(at: &[u8]) -> Found {
    match at.get(1) {
        None => Found::More,
        Some(b'[') => sequence(at),
        Some(b'O') => match at.get(2) {
            None => Found::More,
            Some(last) => named(*last).map_or(Found::Skip(3), |code| Found::Key(3, Key::plain(code))),
        },
        Some(_) => {
            // Alt is sent as the escape key before the other one.
            match found(at.get(1..).unwrap_or_default()) {
                Found::Key(length, key) => Found::Key(length + 1, Key { alt: true, ..key }),
                Found::More => Found::More,
                Found::Skip(length) => Found::Skip(length + 1),
                Found::PasteBegins(length) => Found::PasteBegins(length + 1),
            }
        }
    }
}

/// `ESC [`, numbers, one letter.
fn sequence(at: &[u8]) -> Found {
    let body = at.get(2..).unwrap_or_default();
    let Some(end) = body.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return if at.len() > LONGEST {
            Found::Skip(at.len())
        } else {
            Found::More
        };
    };
    let length = end + 3;
    let last = body.get(end).copied().unwrap_or_default();
    if !(0x40..0x7f).contains(&last) {
        // Something else begins inside it.
        return Found::Skip(length - 1);
    }
    let text = body
        .get(..end)
        .and_then(|body| std::str::from_utf8(body).ok())
        .unwrap_or_default();
    let mut numbers = text.split(';').map(|number| number.parse::<u32>().unwrap_or(0));
    let (first, held) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
    let code = match (last, first) {
        (b'~', 200) => return Found::PasteBegins(length),
        (b'~', 1 | 7) => Some(Code::Home),
        (b'~', 4 | 8) => Some(Code::End),
        (b'~', 3) => Some(Code::Delete),
        (b'~', 5) => Some(Code::PageUp),
        (b'~', 6) => Some(Code::PageDown),
        (b'~', _) => None,
        (b'Z', _) => {
            let back = Key {
                shift: true,
                ..Key::plain(Code::Tab)
            };
            return Found::Key(length, back);
        }
        (last, _) => named(last),
    };
    let held = held.saturating_sub(1);
    code.map_or(Found::Skip(length), |code| {
        Found::Key(
            length,
            Key {
                code,
                shift: held & 1 != 0,
                alt: held & 2 != 0,
                ctrl: held & 4 != 0,
            },
        )
    })
}

fn named(last: u8) -> Option<Code> {
    Some(match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'M' => Code::Enter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Input> {
        Parser::default().feed(bytes)
    }

    #[test]
    fn keys_are_read_with_what_was_held() {
        let key = |code, ctrl, alt, shift| {
            Input::Key(Key {
                code,
                ctrl,
                alt,
                shift,
            })
        };
        let table: [(&[u8], Input); 14] = [
            (b"a", key(Code::Char('a'), false, false, false)),
            ("日".as_bytes(), key(Code::Char('日'), false, false, false)),
            (b"\r", key(Code::Enter, false, false, false)),
            (b"\n", key(Code::Char('j'), true, false, false)),
            (b"\x03", key(Code::Char('c'), true, false, false)),
            (b"\x7f", key(Code::Backspace, false, false, false)),
            (b"\x1b[A", key(Code::Up, false, false, false)),
            (b"\x1bOB", key(Code::Down, false, false, false)),
            (b"\x1b[1;5D", key(Code::Left, true, false, false)),
            (b"\x1b[1;3C", key(Code::Right, false, true, false)),
            (b"\x1b[6~", key(Code::PageDown, false, false, false)),
            (b"\x1b[Z", key(Code::Tab, false, false, true)),
            (b"\x1bb", key(Code::Char('b'), false, true, false)),
            (b"\x1b\r", key(Code::Enter, false, true, false)),
        ];
        for (bytes, input) in table {
            assert_eq!(keys(bytes), [input], "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_no_text() {
        for bytes in [
            &b"\x1b[99z"[..],
            b"\x1b[15~",
            b"\x00",
            b"\x1c",
            b"\xff",
            b"\xc2\x9b",
            b"\x1b[<35;1;1M",
            b"\x1bOq",
        ] {
            let inputs = keys(bytes);
            assert!(
                !inputs.iter().any(|input| matches!(
                    input,
                    Input::Key(Key {
                        code: Code::Char(_),
                        ..
                    })
                )),
                "{bytes:?}: {inputs:?}"
            );
        }
    }

    #[test]
    fn the_escape_key_alone_is_one_once_nothing_follows() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.waits());
        assert_eq!(parser.settle(), [Input::Key(Key::plain(Code::Esc))]);
        assert!(!parser.waits());
    }

    #[test]
    fn a_paste_is_one_thing_however_it_arrives_and_what_follows_is_typed() {
        let whole = b"a\x1b[200~two\r\nlines \x1b[20 \x1b[A\x1b[201~b";
        for cut in 0..whole.len() {
            let mut parser = Parser::default();
            let mut inputs = parser.feed(&whole[..cut]);
            inputs.extend(parser.feed(&whole[cut..]));
            assert_eq!(
                inputs,
                [
                    Input::Key(Key::plain(Code::Char('a'))),
                    Input::Paste("two\r\nlines \x1b[20 \x1b[A".into()),
                    Input::Key(Key::plain(Code::Char('b'))),
                ],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_paste_longer_than_any_message_is_counted_and_not_kept() {
        let mut parser = Parser::default();
        parser.feed(b"\x1b[200~");
        for _ in 0..40 {
            assert_eq!(parser.feed(&[b'x'; 10_000]), []);
        }
        assert!(parser.paste.as_ref().unwrap().kept.len() <= MAX_TEXT);
        assert_eq!(parser.feed(PASTE_END), [Input::Flood(400_000)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_control_character_a_key(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200) {
            let mut parser = Parser::default();
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            let mut inputs = parser.feed(one);
            inputs.extend(parser.feed(two));
            inputs.extend(parser.settle());
            for input in inputs {
                if let Input::Key(Key { code: Code::Char(c), .. }) = input {
                    prop_assert!(!c.is_control());
                }
            }
        }
    }
}
