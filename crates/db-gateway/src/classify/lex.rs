//! Cuts a statement of SQL into words, names, texts and marks, as the engine itself would. Never runs or rewrites one.

use std::borrow::Cow;

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
        });
        Ok(())
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
        self.at = length.map_or(self.bytes.len(), |length| self.at + length);
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
        self.skip_to_quote(quote, backslash)?;
        self.push(kind, from)
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
        self.push(Kind::Text, from)
    }

    fn number(&mut self) -> Result<(), &'static str> {
        let from = self.at;
        let length = self.rest().iter().take_while(|byte| is_name_part(**byte)).count();
        self.at += length;
        // In MySQL a name may begin with digits.
        let digits = self.bytes.get(from..self.at).unwrap_or_default();
        let named = matches!(self.dialect, Dialect::Mysql { .. })
            && !digits.iter().all(u8::is_ascii_digit)
            && !matches!(digits, [b'0', b'x' | b'b', ..])
            && !is_exponent(digits);
        if !named && self.byte(0) == Some(b'.') && self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
            self.at += self.rest().iter().take_while(|byte| is_name_part(**byte)).count();
        }
        self.push(if named { Kind::Word } else { Kind::Number }, from)
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
                self.skip_to_quote(b'\'', true)?;
                self.push(Kind::Text, from)
            }
            ([b'b' | b'B' | b'x' | b'X' | b'n' | b'N'], Some(b'\''), _) => {
                self.at += 1;
                self.skip_to_quote(b'\'', false)?;
                self.push(Kind::Text, from)
            }
            ([b'u' | b'U'], Some(b'&'), Some(quote @ (b'\'' | b'"'))) => {
                self.at += 2;
                self.skip_to_quote(quote, false)?;
                self.push(if quote == b'"' { Kind::Escaped } else { Kind::Text }, from)
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

/// `1e5`
fn is_exponent(digits: &[u8]) -> bool {
    let mut parts = digits.splitn(2, |byte| matches!(byte, b'e' | b'E'));
    parts
        .next()
        .is_some_and(|front| !front.is_empty() && front.iter().all(u8::is_ascii_digit))
        && parts
            .next()
            .is_some_and(|back| back.iter().all(u8::is_ascii_digit))
}
