//! Cuts a statement of SQL into words, names, texts and marks, as the engine itself would. Never runs or rewrites one.

use std::borrow::Cow;

use super::clauses::{self, Clause};
use super::work;

/// The larger a statement, the longer a person needs to see what it does; nothing harmless is this long.
pub(super) const MAX_STATEMENT: usize = 256 * 1024;

/// Whose language it is, with the settings of the session that change where a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    Sqlite,
    Mysql {
        /// `\` escapes inside of '…' (off under NO_BACKSLASH_ESCAPES).
        backslash: bool,
        /// "…" is a name, as under ANSI_QUOTES, and `\` is nothing special in it.
        ansi: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// A name that says its letters by their numbers.
    Escaped,
    /// A text in quotes.
    Text,
    Number,
    /// One character of punctuation.
    Mark,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Where it begins, in bytes.
    pub(super) at: usize,
    /// For a parenthesis the place of the other one among the tokens.
    pub(super) pair: usize,
    /// The part of the statement that it stands in.
    pub(super) clause: Clause,
}

impl<'a> Token<'a> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        self.kind == Kind::Word && words.iter().any(|word| self.text.eq_ignore_ascii_case(word))
    }

    pub(super) fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Mark && self.text == mark
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted | Kind::Escaped)
    }

    /// The name as the engine looks it up: without quotes; in lower case where letter case does not matter.
    pub(super) fn name(&self, folds_quoted: bool) -> Cow<'a, str> {
        if self.kind == Kind::Word {
            return if self.text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Owned(self.text.to_ascii_lowercase())
            } else {
                Cow::Borrowed(self.text)
            };
        }
        let mut letters = self.text.chars();
        let (open, close) = (letters.next(), letters.next_back());
        let inner = letters.as_str();
        let inner = match (open, close) {
            (Some('['), _) => inner.to_owned(),
            (_, Some(quote)) => inner.replace(&format!("{quote}{quote}"), &quote.to_string()),
            _ => inner.to_owned(),
        };
        Cow::Owned(if folds_quoted {
            inner.to_ascii_lowercase()
        } else {
            inner
        })
    }
}

/// A statement in pieces.
#[derive(Debug)]
pub(super) struct Lexed<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    /// MySQL runs what stands in `/*! */`: whether there is any, and whether every server would run it.
    pub(super) executable: Option<Executable>,
    /// What the optimiser is told in a comment, where that could undo a limit.
    pub(super) loosening_hint: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Executable {
    Always,
    /// It depends on the version of the server.
    Depends,
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    open: Vec<usize>,
    inside_executable: bool,
    out: Lexed<'a>,
}

/// # Errors
/// Why it cannot be cut: an end is missing, a parenthesis has no partner, a NUL stands in it.
pub(super) fn lex(dialect: Dialect, text: &str) -> Result<Lexed<'_>, &'static str> {
    if text.len() > MAX_STATEMENT {
        return Err("the statement is longer than 256 KiB");
    }
    if text.bytes().any(|byte| byte == 0) {
        return Err("a NUL character stands in the statement");
    }
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        dialect,
        open: Vec::new(),
        inside_executable: false,
        out: Lexed {
            tokens: Vec::with_capacity(text.len() / 4 + 4),
            executable: None,
            loosening_hint: false,
        },
    };
    while lexer.step()? {}
    if lexer.inside_executable {
        return Err("a comment does not end");
    }
    if !lexer.open.is_empty() {
        return Err("a parenthesis is not closed");
    }
    clauses::mark(&mut lexer.out.tokens);
    Ok(lexer.out)
}

const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

const fn is_name_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        work::count(1);
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, kind: Kind, from: usize) -> Result<(), &'static str> {
        let text = self.text.get(from..self.at).ok_or("a character is cut in two")?;
        self.out.tokens.push(Token {
            kind,
            text,
            at: from,
            pair: usize::MAX,
            clause: Clause::Other,
        });
        Ok(())
    }

    /// A text that ended. PostgreSQL joins two only over a line break, which was seen by then; side by side is an error there.
    fn push_text(&mut self, from: usize) -> Result<(), &'static str> {
        let beside = self.out.tokens.last().is_some_and(|last| last.kind == Kind::Text);
        if beside && self.dialect == Dialect::Postgres {
            return Err("two texts stand side by side");
        }
        self.push(Kind::Text, from)
    }

    /// One token or one stretch between tokens. False at the end.
    fn step(&mut self) -> Result<bool, &'static str> {
        let Some(byte) = self.byte(0) else {
            return Ok(false);
        };
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.at += 1,
            b'-' if self.byte(1) == Some(b'-') && self.dashes_comment() => self.skip_line(),
            b'#' if matches!(self.dialect, Dialect::Mysql { .. }) => self.skip_line(),
            b'/' if self.byte(1) == Some(b'*') => self.comment()?,
            b'*' if self.inside_executable && self.byte(1) == Some(b'/') => {
                self.inside_executable = false;
                self.at += 2;
            }
            b'\'' => self.quoted(b'\'', Kind::Text, self.plain_text_escapes())?,
            b'.' if self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number()?,
            b'"' => match self.dialect {
                Dialect::Mysql {
                    ansi: false,
                    backslash,
                } => self.quoted(b'"', Kind::Text, backslash)?,
                _ => self.quoted(b'"', Kind::Quoted, false)?,
            },
            b'`' if self.dialect != Dialect::Postgres => self.quoted(b'`', Kind::Quoted, false)?,
            b'[' if self.dialect == Dialect::Sqlite => self.bracketed()?,
            b'$' if self.dialect == Dialect::Postgres => self.dollar()?,
            b'0'..=b'9' => self.number()?,
            byte if is_name_start(byte) => self.word()?,
            _ => self.mark()?,
        }
        Ok(true)
    }

    const fn plain_text_escapes(&self) -> bool {
        matches!(self.dialect, Dialect::Mysql { backslash: true, .. })
    }

    /// MySQL takes `--` for a comment only before a blank or a control character.
    fn dashes_comment(&self) -> bool {
        !matches!(self.dialect, Dialect::Mysql { .. })
            || self
                .byte(2)
                .is_none_or(|byte| byte == b' ' || byte.is_ascii_control())
    }

    fn skip_line(&mut self) {
        let ends: &[u8] = if self.dialect == Dialect::Postgres {
            b"\n\r"
        } else {
            b"\n"
        };
        let length = self.rest().iter().position(|byte| ends.contains(byte));
        let end = length.map_or(self.bytes.len(), |length| self.at + length);
        work::count(end - self.at);
        self.at = end;
    }

    fn comment(&mut self) -> Result<(), &'static str> {
        if matches!(self.dialect, Dialect::Mysql { .. }) && self.executable_comment() {
            return Ok(());
        }
        let from = self.at;
        let mut depth = 1_usize;
        self.at += 2;
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b'*'), Some(b'/')) => {
                    self.at += 2;
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                (Some(b'/'), Some(b'*')) if self.dialect == Dialect::Postgres => {
                    self.at += 2;
                    depth += 1;
                }
                (Some(_), _) => self.at += 1,
                // SQLite lets the end of the statement end a comment too.
                (None, _) if self.dialect == Dialect::Sqlite => break,
                (None, _) => return Err("a comment does not end"),
            }
        }
        let said = self.bytes.get(from..self.at).unwrap_or_default();
        if said.starts_with(b"/*+") {
            let said = String::from_utf8_lossy(said).to_ascii_lowercase();
            self.out.loosening_hint |= [
                "set_var",
                "max_execution_time",
                "max_statement_time",
                "resource_group",
                "set",
            ]
            .iter()
            .any(|word| said.contains(word));
        }
        Ok(())
    }

    /// `/*! …`, `/*!50000 …`, `/*M! …`: the server runs the inside. Takes the opening only.
    fn executable_comment(&mut self) -> bool {
        let rest = self.rest();
        let maria = rest.starts_with(b"/*M!");
        if !maria && !rest.starts_with(b"/*!") {
            return false;
        }
        let digits = rest
            .iter()
            .skip(if maria { 4 } else { 3 })
            .take_while(|byte| byte.is_ascii_digit())
            .take(6)
            .fold((0_usize, 0_u32), |(count, number), byte| {
                (count + 1, number * 10 + u32::from(byte - b'0'))
            });
        let (count, version) = digits;
        // Below these every server that is still maintained runs it.
        let always = match (count, maria) {
            (0, _) => true,
            (5.., true) => version <= 100_100,
            (5.., false) => version <= 50_700,
            _ => false,
        } && !self.inside_executable;
        self.at += if maria { 4 } else { 3 } + count;
        self.inside_executable = true;
        let found = if always && self.out.executable != Some(Executable::Depends) {
            Executable::Always
        } else {
            Executable::Depends
        };
        self.out.executable = Some(found);
        true
    }

    fn quoted(&mut self, quote: u8, kind: Kind, backslash: bool) -> Result<(), &'static str> {
        let from = self.at;
        self.at += 1;
        if kind == Kind::Text {
            return self.text(from, quote, backslash);
        }
        self.skip_to_quote(quote, backslash)?;
        self.push(kind, from)
    }

    /// The rest of a text whose first quote is behind. PostgreSQL goes on with the same text, and its way of escaping, where a
    /// line break and another quote follow.
    fn text(&mut self, from: usize, quote: u8, backslash: bool) -> Result<(), &'static str> {
        self.skip_to_quote(quote, backslash)?;
        while self.dialect == Dialect::Postgres
            && let Some(next) = self.continued()
        {
            self.at = next + 1;
            self.skip_to_quote(quote, backslash)?;
        }
        self.push_text(from)
    }

    /// Where the quote stands that continues the text which just ended: behind blanks and `--` comments with a line break among them.
    fn continued(&self) -> Option<usize> {
        let mut broken = false;
        let mut at = self.at;
        loop {
            work::count(1);
            match (self.bytes.get(at)?, self.bytes.get(at + 1)) {
                (b' ' | b'\t' | 0x0b | 0x0c, _) => at += 1,
                (b'\n' | b'\r', _) => {
                    broken = true;
                    at += 1;
                }
                (b'-', Some(b'-')) => {
                    let rest = self.bytes.get(at..).unwrap_or_default();
                    let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                    work::count(length);
                    at += length;
                }
                (b'\'', _) => return broken.then_some(at),
                _ => return None,
            }
        }
    }

    /// Past the quote that ends what began before.
    fn skip_to_quote(&mut self, quote: u8, backslash: bool) -> Result<(), &'static str> {
        loop {
            match self.byte(0) {
                None => return Err("a quote is not closed"),
                Some(b'\\') if backslash => self.at += 2,
                Some(byte) if byte == quote => {
                    if self.byte(1) == Some(quote) {
                        self.at += 2;
                    } else {
                        self.at += 1;
                        return Ok(());
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn bracketed(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        let length = self.rest().iter().position(|byte| *byte == b']');
        self.at += length.ok_or("a bracket is not closed")? + 1;
        self.push(Kind::Quoted, from)
    }

    /// `$tag$ … $tag$`, or a parameter such as `$1`.
    fn dollar(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        let tag_part = |byte: &&u8| is_name_part(**byte) && **byte != b'$';
        let tag = self.rest().iter().skip(1).take_while(tag_part).count();
        let starts_well = self.byte(1).is_none_or(|byte| !byte.is_ascii_digit());
        if !starts_well || self.byte(1 + tag) != Some(b'$') {
            self.at += 1;
            return self.push(Kind::Mark, from);
        }
        let fence = self.bytes.get(from..from + tag + 2).unwrap_or_default();
        self.at += tag + 2;
        while !self.rest().starts_with(fence) {
            // The next place where the fence could begin; a plain search keeps it linear.
            let next = self.rest().iter().skip(1).position(|byte| *byte == b'$');
            self.at += next.ok_or("a dollar quote is not closed")? + 1;
        }
        self.at += fence.len();
        self.push_text(from)
    }

    /// `1`, `1.`, `.5`, `1e5` end where the engine ends them, whatever letters follow: `1.INTO` is a number and a word.
    fn number(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        if matches!(self.dialect, Dialect::Mysql { .. }) && self.byte(0) != Some(b'.') {
            let run = self.rest().iter().take_while(|byte| is_name_part(**byte)).count();
            work::count(run);
            let written = self.bytes.get(from..from + run).unwrap_or_default();
            if is_hexadecimal(written) {
                self.at += run;
                return self.push(Kind::Number, from);
            }
            let digits = written.iter().take_while(|byte| byte.is_ascii_digit()).count();
            // A name may begin with digits.
            if digits < run && self.exponent(digits).is_none() {
                self.at += run;
                return self.push(Kind::Word, from);
            }
        }
        self.digits();
        // `1..9` are two numbers of PostgreSQL.
        if self.byte(0) == Some(b'.') && (self.byte(1) != Some(b'.') || self.at == from) {
            self.at += 1;
            self.digits();
        }
        if let Some(length) = self.exponent(0) {
            self.at += length;
        }
        self.push(Kind::Number, from)
    }

    /// Past digits, with a `_` between two of them.
    fn digits(&mut self) {
        while self.byte(0).is_some_and(|byte| byte.is_ascii_digit())
            || (self.byte(0) == Some(b'_') && self.byte(1).is_some_and(|byte| byte.is_ascii_digit()))
        {
            self.at += 1;
        }
    }

    /// The length of `e5`, `E+5` at this distance.
    fn exponent(&self, ahead: usize) -> Option<usize> {
        if !matches!(self.byte(ahead), Some(b'e' | b'E')) {
            return None;
        }
        let sign = usize::from(matches!(self.byte(ahead + 1), Some(b'+' | b'-')));
        let rest = self.bytes.get(self.at + ahead + 1 + sign..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        work::count(digits);
        (digits > 0).then_some(1 + sign + digits)
    }

    fn word(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        self.at += self.rest().iter().take_while(|byte| is_name_part(**byte)).count();
        if self.dialect != Dialect::Postgres {
            return self.push(Kind::Word, from);
        }
        let word = self.bytes.get(from..self.at).unwrap_or_default();
        match (word, self.byte(0), self.byte(1)) {
            ([b'e' | b'E'], Some(b'\''), _) => {
                self.at += 1;
                self.text(from, b'\'', true)
            }
            ([b'b' | b'B' | b'x' | b'X' | b'n' | b'N'], Some(b'\''), _) => {
                self.at += 1;
                self.text(from, b'\'', false)
            }
            ([b'u' | b'U'], Some(b'&'), Some(quote @ (b'\'' | b'"'))) => {
                self.at += 2;
                if quote == b'\'' {
                    return self.text(from, quote, false);
                }
                self.skip_to_quote(quote, false)?;
                self.push(Kind::Escaped, from)
            }
            _ => self.push(Kind::Word, from),
        }
    }

    fn mark(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        let letter = self.text.get(from..).and_then(|rest| rest.chars().next());
        self.at += letter.map_or(1, char::len_utf8);
        let place = self.out.tokens.len();
        self.push(Kind::Mark, from)?;
        match letter {
            Some('(') => self.open.push(place),
            Some(')') => {
                let partner = self.open.pop().ok_or("a parenthesis closes nothing")?;
                if let Some(token) = self.out.tokens.get_mut(partner) {
                    token.pair = place;
                }
                if let Some(token) = self.out.tokens.get_mut(place) {
                    token.pair = partner;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// `0x41`, `0b01`
fn is_hexadecimal(written: &[u8]) -> bool {
    match written {
        [b'0', b'x', digits @ ..] if !digits.is_empty() => digits.iter().all(u8::is_ascii_hexdigit),
        [b'0', b'b', digits @ ..] if !digits.is_empty() => {
            digits.iter().all(|byte| matches!(byte, b'0' | b'1'))
        }
        _ => false,
    }
}
