//! What keys do to the line that is being typed, the same in both clients. Never sends anything itself.

use crate::completion::{Cycle, Names, complete};
use crate::editor::Editor;
use crate::keys::{Code, Input, Key};

/// The line, and what Tab is at.
#[derive(Debug, Default)]
pub(crate) struct Typing {
    pub(crate) editor: Editor,
    cycle: Option<Cycle>,
}

/// What a key came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line may be another now.
    Edited,
    /// Enter: this was typed.
    Line(String),
    /// The person wants to go.
    Leave,
    /// What was added does not fit, in a sentence.
    Refused(String),
    /// It is none of the line's keys.
    Other(Key),
}

impl Typing {
    /// Takes what was done at the keyboard.
    pub(crate) fn take(&mut self, input: Input, names: &Names) -> Typed {
        match input {
            Input::Key(Key {
                code: Code::Tab,
                shift: false,
                ctrl: false,
                alt: false,
            }) => {
                self.complete(names);
                Typed::Edited
            }
            Input::Key(key) => {
                self.cycle = None;
                self.key(key)
            }
            Input::Paste(text) => {
                self.cycle = None;
                edited(self.editor.paste(&text))
            }
            Input::Flood(bytes) => Typed::Refused(format!(
                "the paste is {bytes} bytes long and a message holds at most {}, so nothing of it was put in; what you typed before is still there. Put a long text into a file and send its path",
                muster_bus::limits::MAX_TEXT
            )),
        }
    }

    fn complete(&mut self, names: &Names) {
        if self.cycle.is_none() {
            self.cycle = complete(self.editor.text(), self.editor.at(), names);
        }
        if let Some(cycle) = &mut self.cycle {
            let from = cycle.from;
            let word = cycle.turn().to_owned();
            self.editor.replace_from(from, &word);
        }
    }

    fn key(&mut self, key: Key) -> Typed {
        let editor = &mut self.editor;
        match (key.code, key.ctrl, key.alt) {
            (Code::Enter, false, false) if !key.shift => return Typed::Line(editor.take()),
            // A line break inside the message.
            (Code::Enter, ..) | (Code::Char('j'), true, _) => return edited(editor.insert("\n")),
            (Code::Char('c'), true, _) => return Typed::Leave,
            (Code::Char('d'), true, _) if editor.is_empty() => return Typed::Leave,
            (Code::Char('d'), true, _) | (Code::Delete, false, false) => editor.delete(),
            (Code::Char('a'), true, _) | (Code::Home, false, false) => editor.home(),
            (Code::Char('e'), true, _) | (Code::End, false, false) => editor.end(),
            (Code::Char('b'), true, _) | (Code::Left, false, false) => editor.left(),
            (Code::Char('f'), true, _) | (Code::Right, false, false) => editor.right(),
            (Code::Char('b'), false, true) | (Code::Left, true, _) => editor.word_left(),
            (Code::Char('f'), false, true) | (Code::Right, true, _) => editor.word_right(),
            (Code::Char('p'), true, _) | (Code::Up, false, false) if !key.shift => editor.up(),
            (Code::Char('n'), true, _) | (Code::Down, false, false) if !key.shift => editor.down(),
            (Code::Char('w'), true, _) | (Code::Backspace, _, true) => editor.kill_word(),
            (Code::Char('u'), true, _) => editor.kill_to_start(),
            (Code::Char('k'), true, _) => editor.kill_to_end(),
            (Code::Char('y'), true, _) => return edited(editor.yank()),
            (Code::Backspace, ..) => editor.backspace(),
            (Code::Char(c), false, false) => return edited(editor.insert(c.encode_utf8(&mut [0; 4]))),
            _ => return Typed::Other(key),
        }
        Typed::Edited
    }
}

fn edited(done: Result<(), String>) -> Typed {
    done.map_or_else(Typed::Refused, |()| Typed::Edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(typing: &mut Typing, bytes: &[u8]) -> Vec<Typed> {
        let names = Names {
            agents: vec!["alice".into(), "albert".into()],
            rooms: vec!["ops".into()],
        };
        crate::keys::Parser::default()
            .feed(bytes)
            .into_iter()
            .map(|input| typing.take(input, &names))
            .collect()
    }

    #[test]
    fn a_paste_of_many_lines_is_one_message_that_enter_confirms() {
        let mut typing = Typing::default();
        let typed = press(&mut typing, b"\x1b[200~one\r\ntwo\r\n\x1b[201~");
        assert_eq!(typed, [Typed::Edited]);
        assert_eq!(press(&mut typing, b"\r"), [Typed::Line("one\ntwo\n".into())]);
    }

    #[test]
    fn tab_goes_through_the_names_until_another_key_comes() {
        let mut typing = Typing::default();
        press(&mut typing, b"/dm al\t");
        assert_eq!(typing.editor.text(), "/dm alice ");
        press(&mut typing, b"\t");
        assert_eq!(typing.editor.text(), "/dm albert ");
        press(&mut typing, b"hi\t");
        assert_eq!(typing.editor.text(), "/dm albert hi");
    }

    #[test]
    fn a_person_leaves_by_ctrl_c_and_by_ctrl_d_on_an_empty_line() {
        let mut typing = Typing::default();
        assert_eq!(press(&mut typing, b"\x04"), [Typed::Leave]);
        press(&mut typing, b"ab\x01");
        assert_eq!(press(&mut typing, b"\x04"), [Typed::Edited]);
        assert_eq!(typing.editor.text(), "b");
        assert_eq!(press(&mut typing, b"\x03"), [Typed::Leave]);
    }

    #[test]
    fn a_line_break_may_be_typed() {
        let mut typing = Typing::default();
        press(&mut typing, b"a\nb\x1b\rc");
        assert_eq!(press(&mut typing, b"\r"), [Typed::Line("a\nb\nc".into())]);
    }
}
